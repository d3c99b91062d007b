//! Tests with the vectors in `vectors/hybrid`. A program that shares no code with this crate made them from
//! docs/wire-formats.md alone.

mod common;

use lineside_hybrid::ledger::StoredBlock;
use lineside_hybrid::log::{Log, OpenLog};
use lineside_hybrid::node::embedded;
use lineside_hybrid::{Code, Node, Options};
use lineside_journal::{Reader, SimDisk};
use lineside_messages::hybrid::block::{Sender, request_message};
use lineside_messages::hybrid::genesis::database_id;
use lineside_messages::hybrid::paper;
use lineside_messages::hybrid::request::{Request, Version};
use lineside_messages::hybrid::secret::SecretKey;
use lineside_messages::hybrid::sign::{Signer, request_digest, sign_request, transaction_id};
use lineside_messages::hybrid::signing::unix_ms;
use lineside_verify::Curve;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

fn read(name: &str) -> toml::Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../vectors/hybrid")
        .join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.parse().unwrap()
}

fn vectors(file: &toml::Table) -> Vec<&toml::Table> {
    file["vector"]
        .as_array()
        .unwrap()
        .iter()
        .map(|vector| vector.as_table().unwrap())
        .collect()
}

fn hex(text: &toml::Value) -> Vec<u8> {
    let text = text.as_str().unwrap();
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

fn number(value: &toml::Value) -> u64 {
    value.as_integer().unwrap().try_into().unwrap()
}

#[test]
fn requests_match_the_vectors() {
    let file = read("requests.toml");
    for vector in vectors(&file) {
        let what = vector["what"].as_str().unwrap();
        let signed = hex(&vector["signed"]);
        let request = Request::decode(&signed).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(request.encode().unwrap(), signed, "{what}");
        let curve = match number(&vector["curve"]) {
            1 => Curve::P256,
            _ => Curve::Secp256k1,
        };
        assert_eq!(
            request_digest(curve, &signed)[..],
            hex(&vector["digest"]),
            "{what}"
        );
        assert_eq!(transaction_id(&signed)[..], hex(&vector["id"]), "{what}");
        let secret = SecretKey::from_bytes(curve, &hex(&vector["secret"]).try_into().unwrap()).unwrap();
        assert_eq!(secret.curve(), curve);
        assert_eq!(
            sign_request(&secret, &signed)[..64],
            hex(&vector["signature"]),
            "{what}"
        );
    }
}

#[test]
fn other_encodings_are_refused() {
    let file = read("refused.toml");
    for vector in vectors(&file) {
        let refused = Request::decode(&hex(&vector["signed"])).is_err();
        assert!(refused, "{}", vector["what"]);
    }
}

const NOW_MS: u64 = 1_700_000_000_000;

/// Returns a function that opens a log, and a receiver of that log, so that the test can write to it as well.
fn shared_log() -> (OpenLog, Receiver<Arc<dyn Log>>) {
    let (send, receive) = channel();
    let open = move |start| {
        let log = embedded()(start)?;
        send.send(log.clone()).unwrap();
        Ok(log)
    };
    (Box::new(open), receive)
}

#[test]
fn a_native_ledger_matches_the_vectors_block_by_block() {
    assert!(comes_out(&read("ledger.toml")) > 10);
}

#[test]
fn a_paper_ledger_matches_the_vectors_block_by_block() {
    let file = read("paper.toml");
    for vector in vectors(&file) {
        let what = vector["what"].as_str().unwrap();
        let request = hex(&vector["request"]);
        if let Ok(paper) = paper::Request::decode(&request[64..]) {
            assert_eq!(paper.encode().unwrap(), request[64..], "{what}");
            // The vector has the digest of this request only if the signature was made for this request.
            if number(&vector["code"]) != Code::BadSignature as u64 {
                assert_eq!(paper.body.digest()[..], hex(&vector["digest"]), "{what}");
            }
        } else {
            let native = Request::decode(&request[64..]).is_ok();
            assert!(
                native || number(&vector["code"]) == Code::Malformed as u64,
                "{what}"
            );
        }
    }
    comes_out(&file);
}

/// Counts the messages of the log that equal those of the vectors, as their node signs them.
fn comes_out(file: &toml::Table) -> usize {
    assert_eq!(number(&file["now_ms"]), NOW_MS);
    assert!(
        unix_ms() > NOW_MS,
        "the vectors' clock must be earlier than this machine's"
    );
    let options = Options {
        clock: || NOW_MS,
        head_every: 0,
        ..Options::default()
    };
    let key = hex(&file["node_secret"]).try_into().unwrap();
    let key = Arc::new(SecretKey::from_bytes(Curve::Secp256k1, &key).unwrap());
    let genesis = hex(&file["genesis"]);
    let (log, ordered) = shared_log();
    let disk = SimDisk::new(1);
    let node = Node::start(disk.clone(), &genesis, key.clone(), options, log).unwrap();
    let log = ordered.recv().unwrap();
    let mut height = 0;
    for vector in vectors(file) {
        let what = vector["what"].as_str().unwrap();
        let request = hex(&vector["request"]);
        let code = Code::from_code(number(&vector["code"]) as u16).unwrap();
        if code == Code::NotAllowed && number(&vector["block"]) > 0 && !paper::is_one(&request[64..]) {
            // The node would refuse the request if a client sent it, so the test writes it to the log directly.
            let sender = Sender {
                node: 1,
                sequence: (NOW_MS << 16) + number(&vector["block"]),
                time_ms: NOW_MS,
            };
            log.append(request_message(
                &database_id(&genesis),
                sender,
                &[&request],
                &*key,
            ))
            .unwrap();
            while node.status().height == height {
                std::thread::yield_now();
            }
        }
        let answer = common::one(&node, request.into());
        assert_eq!(answer.code(), code, "{what}");
        let block = number(&vector["block"]);
        if block > 0 {
            height = block;
            assert_eq!(common::version_of(&answer), Version { block, index: 0 }, "{what}");
        }
        let status = node.status();
        assert_eq!(status.height, height, "{what}");
        assert_eq!(
            status.tip_hash[..],
            hex(&vector["tip"]),
            "{what}: the block's hash"
        );
    }
    drop(log);
    node.stop();
    let signed = vectors(file)
        .into_iter()
        .filter_map(|vector| vector.get("node_signature"));
    let signed: Vec<_> = signed.map(hex).collect();
    let reader = Reader::open(disk).unwrap();
    let mut records = reader.records(2).unwrap();
    for signature in &signed {
        let record = records.next().unwrap().unwrap();
        let stored = StoredBlock::decode(record.payload).unwrap();
        assert_eq!(
            stored.message[..64],
            signature[..],
            "block {}",
            stored.header.number
        );
    }
    signed.len()
}
