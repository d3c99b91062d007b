//! Fuzz targets for the input from a full node: answers of its RPC, frames of ZMQ, block files; and for the node's URL.

use crate::input::Input;
use crate::stores::scratch;
use lineside_bitcoin_node::answers::{self, SocketMessage};
use lineside_bitcoin_node::zmq::{Decoder, Event, FRAME_BYTES_MAX, FRAMES_MAX, announced, opening};
use lineside_bitcoin_node::{BlockFiles, BlockFilesError, BlockHash, NodeUrl, Secret};
use lineside_testkit::DemoChain;
use lineside_util::hex::{from_hex, to_display, to_hex};
use serde_json::Value;

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda]; // regtest's
const ID: u64 = 7;

/// Decodes an answer. The first byte of the input selects the request; the other bytes are the body of the answer.
pub fn answer(bytes: &[u8]) {
    let Some((asked, body)) = bytes.split_first() else {
        return;
    };
    let Ok(plain) = serde_json::from_slice::<Value>(body) else {
        // The decoders skip values that they do not use. The text in such a value need not be UTF-8, which `serde_json`
        // refuses.
        return without_oracle(*asked, body);
    };
    let result = |id: u64, plain: &Value| {
        assert!(plain["error"].is_null() && plain["id"] == id, "{plain}");
        plain["result"].clone()
    };
    let of = |id: usize| {
        let all = plain.as_array().into_iter().flatten();
        let mut own = all.filter(|one| one["id"] == id as u64);
        result(id as u64, own.next().expect("an answer of this number"))
    };
    let text = |value: Value| value.as_str().unwrap_or_default().to_owned();
    match asked % 8 {
        0 => {
            if let Ok(hash) = answers::hash(body, ID) {
                let shown = text(result(ID, &plain)).to_lowercase();
                assert_eq!(hash.to_string(), shown);
            }
        }
        1 => {
            if let Ok(block) = answers::block(body, ID) {
                assert_eq!(Some(block), from_hex(&text(result(ID, &plain))));
            }
        }
        2 => {
            if let Ok(info) = answers::info(body, ID) {
                let result = result(ID, &plain);
                assert_eq!(result["blocks"], info.blocks);
                assert_eq!(
                    text(result["bestblockhash"].clone()).to_lowercase(),
                    info.best.to_string()
                );
                assert!(info.chain.chars().count() <= 200 && !info.chain.contains(char::is_control));
            }
        }
        3 => {
            for (id, hash) in answers::hashes(body, 2).into_iter().flatten().enumerate() {
                if let Ok(hash) = hash {
                    assert_eq!(hash.to_string(), text(of(id)).to_lowercase());
                }
            }
        }
        4 => {
            for (id, header) in answers::headers(body, 2).into_iter().flatten().enumerate() {
                if let Ok(header) = header {
                    assert_eq!(to_hex(&header), text(of(id)).to_lowercase());
                }
            }
        }
        5 => {
            if let Ok(header) = answers::header(body) {
                assert_eq!(to_hex(&header.raw), text(of(0)).to_lowercase());
                if let Some(height) = header.height {
                    assert_eq!(of(1)["height"], height);
                }
            }
        }
        6 => {
            if let Ok(offered) = answers::zmq_notifications(body, ID) {
                assert_eq!(result(ID, &plain).as_array().map(Vec::len), Some(offered.len()));
            }
            if answers::nothing(body, ID).is_ok() {
                result(ID, &plain);
            }
        }
        _ => {
            let message = answers::socket_message(body);
            assert!(
                message == SocketMessage::Answer || plain["method"].is_string(),
                "{plain}"
            );
        }
    }
}

fn without_oracle(asked: u8, body: &[u8]) {
    match asked % 8 {
        0 => drop(answers::hash(body, ID)),
        1 => drop(answers::block(body, ID)),
        2 => drop(answers::info(body, ID)),
        3 => drop(answers::hashes(body, 2)),
        4 => drop(answers::headers(body, 2)),
        5 => drop(answers::header(body)),
        6 => drop((answers::zmq_notifications(body, ID), answers::nothing(body, ID))),
        _ => drop(answers::socket_message(body)),
    }
}

pub fn answer_seeds() -> Vec<Vec<u8>> {
    let block = DemoChain::new(3, 2).next().expect("endless");
    let (hash, header) = (to_display(&block.hash), to_hex(&block.raw[..80]));
    let reply = |result: String, id: u64| format!(r#"{{"result":{result},"error":null,"id":{id}}}"#);
    let two = |one: String, other: String| format!("[{},{}]", reply(other, 1), reply(one, 0));
    let quoted = |text: &str| format!("\"{text}\"");
    let info = format!(
        r#"{{"chain":"main","blocks":7,"headers":9,"bestblockhash":"{hash}","pruned":true,"pruneheight":3}}"#
    );
    let error = r#"{"result":null,"error":{"code":-28,"message":"Loading"},"id":7}"#.to_owned();
    let zmq = r#"[{"type":"pubhashblock","address":"tcp://127.0.0.1:28332","hwm":1000}]"#.to_owned();
    let notice =
        format!(r#"{{"jsonrpc":"1.0","method":"blockconnected","params":["{hash}",1,2],"id":null}}"#);
    let seeds = [
        (0, reply(quoted(&hash), ID)),
        (0, error.clone()),
        (1, reply(quoted(&to_hex(&block.raw)), ID)),
        (2, reply(info, ID)),
        (2, error),
        (3, two(quoted(&hash), quoted(&hash))),
        (4, two(quoted(&header), quoted(&header))),
        (
            5,
            two(quoted(&header), r#"{"confirmations":3,"height":5}"#.into()),
        ),
        (6, reply(zmq, ID)),
        (6, reply("null".into(), ID)),
        (7, notice),
        (
            7,
            format!(r#"{{"method":"filteredblockconnected","params":[1,"{header}",[]]}}"#),
        ),
    ];
    let seed = |(asked, body): (u8, String)| [&[asked][..], body.as_bytes()].concat();
    seeds.into_iter().map(seed).collect()
}

/// Decodes ZMQ frames. The first byte of the input selects the sizes of the pieces in which the other bytes arrive. The
/// events must be the same as with a single piece.
pub fn zmq(bytes: &[u8]) {
    let mut input = Input(bytes);
    let step = usize::from(input.byte()).max(1);
    let (whole, pieces) = (events(input.0, usize::MAX), events(input.0, step));
    assert_eq!(whole, pieces);
    for event in whole.0 {
        match event {
            Event::Message(frames) => {
                assert!((1..=FRAMES_MAX).contains(&frames.len()));
                assert!(frames.iter().all(|frame| frame.len() <= FRAME_BYTES_MAX));
                if let Some(BlockHash(mut hash)) = announced(&frames) {
                    hash.reverse();
                    assert!(frames[1].starts_with(&hash));
                }
            }
            Event::Ping(pong) => assert!(pong.len() <= 23, "{pong:?}"),
            Event::Command => {}
        }
    }
}

fn events(bytes: &[u8], step: usize) -> (Vec<Event>, bool) {
    let (mut decoder, mut events) = (Decoder::default(), Vec::new());
    for piece in bytes.chunks(step.min(bytes.len().max(1))) {
        decoder.push(piece);
        loop {
            match decoder.next() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(_) => return (events, false),
            }
        }
    }
    (events, true)
}

pub fn zmq_seeds() -> Vec<Vec<u8>> {
    let opening = opening(&["hashblock"]);
    let block = [&b"\x01\x09hashblock\x01\x20"[..], &[7; 32], b"\x00\x04\x01\0\0\0"].concat();
    let sequence = [
        &b"\x03\0\0\0\0\0\0\0\x08sequence\x01\x21"[..],
        &[7; 32],
        b"D\x00\x04\x01\0\0\0",
    ]
    .concat();
    let ping = b"\x04\x08\x04PING\0\x09c".to_vec();
    let bodies = [
        opening.clone(),
        [&opening[..], &block].concat(),
        [&opening[..], &sequence, &ping, &block].concat(),
        b"HTTP/1.1 400 Bad Request".to_vec(),
    ];
    let steps = [1, 7, 255];
    let seed = |body: &Vec<u8>| steps.map(|step| [&[step], body.as_slice()].concat());
    bodies.iter().flat_map(seed).collect()
}

/// Checks that an accepted URL is accepted again in the form that messages show, and that no message shows the
/// password.
pub fn url(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let url = match text.parse::<NodeUrl>() {
        Ok(url) => url,
        Err(error) => return assert!(!error.to_string().contains("secret")),
    };
    let shown = url.describe();
    let again: NodeUrl = shown.parse().unwrap_or_else(|error| panic!("{shown}: {error}"));
    assert_eq!(again.describe(), shown);
    let Some(endpoint) = url.endpoint() else {
        return;
    };
    assert_eq!(
        again.endpoint().map(|again| (&again.host, again.port)),
        Some((&endpoint.host, endpoint.port))
    );
    let mut other = url.clone();
    if let NodeUrl::Bitcoind(endpoint) | NodeUrl::Btcd(endpoint) | NodeUrl::BtcdNoTls(endpoint) = &mut other
        && let Some(password) = &mut endpoint.password
    {
        *password = Secret::new("another");
    }
    assert_eq!(
        format!("{url} {url:?}"),
        format!("{other} {other:?}"),
        "messages do not depend on it"
    );
}

pub fn url_seeds() -> Vec<Vec<u8>> {
    let seeds = [
        "bitcoind://user:secret@node.example:8332",
        "bitcoind://[::1]:8332/",
        "btcd://us%65r:sec%40ret@10.0.0.1:8334",
        "btcd+notls://u@h:1",
        "blocks-dir:/var/lib/bitcoin/blocks",
        "bitcoind://user:secret:8332",
    ];
    seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect()
}

/// Reads a key and the content of a block file from the input. The blocks must be those that a simple scan finds.
pub fn block_files(bytes: &[u8]) {
    let mut input = Input(bytes);
    let key: [u8; 8] = if input.byte() & 1 == 1 {
        input.array()
    } else {
        [0; 8]
    };
    let content = input.0;
    scratch(|dir| {
        let keyed = content.iter().zip(key.iter().cycle());
        let keyed: Vec<u8> = keyed.map(|(byte, key)| byte ^ key).collect();
        std::fs::write(dir.join("blk00000.dat"), keyed).expect("writing");
        std::fs::write(dir.join("xor.dat"), key).expect("writing");
        let mut files = match BlockFiles::open(dir, MAGIC) {
            Ok(files) => files,
            Err(BlockFilesError::OtherNetwork { .. }) => return assert!(!content.starts_with(&MAGIC)),
            Err(error) => panic!("{error}"),
        };
        let found: Vec<(u64, Vec<u8>)> = files
            .by_ref()
            .map(|block| block.unwrap_or_else(|error| panic!("{error}")))
            .map(|block| (block.position.offset, block.raw))
            .collect();
        assert_eq!(found, plain_reading(content));
        assert_eq!(files.progress(), (content.len() as u64, content.len() as u64));
        assert!(files.skipped_bytes() <= content.len() as u64);
    });
}

fn plain_reading(bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let (mut at, mut found) = (0, Vec::new());
    while let Some(frame) = bytes.get(at..at + 8) {
        let length = u32::from_le_bytes([frame[4], frame[5], frame[6], frame[7]]) as usize;
        let body = bytes.get(at + 8..).and_then(|rest| rest.get(..length));
        match body.filter(|_| frame.starts_with(&MAGIC) && (80..=4_000_000).contains(&length)) {
            Some(body) => {
                found.push((at as u64 + 8, body.to_vec()));
                at += 8 + length;
            }
            None => at += 1,
        }
    }
    found
}
