//! Runs `lineside fabric join`, `snapshot`, `history`, `verify-peer` and `follow`.

mod replica;

use replica::{fabric, msp, objects, one, recorded};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Appends a varint, as protobuf and Fabric's block files encode numbers.
fn put_varint(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Returns the fields of a protobuf message that are bytes or numbers: field number, numeric value, and bytes.
fn fields(mut bytes: &[u8]) -> Vec<(usize, usize, &[u8])> {
    let mut fields = Vec::new();
    let varint = |bytes: &mut &[u8]| {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            number |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return number;
            }
        }
    };
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let number = varint(&mut bytes);
        let content = if tag & 7 == 2 {
            bytes.split_at(number).0
        } else {
            &[]
        };
        bytes = &bytes[content.len()..];
        fields.push((tag >> 3, number, content));
    }
    fields
}

/// Returns a block in the encoding of Fabric's block files.
fn stored(block: &[u8]) -> Vec<u8> {
    let parts = fields(block);
    let header = fields(parts[0].2);
    let field = |wanted| header.iter().find(|(field, ..)| *field == wanted);
    let mut bytes = Vec::new();
    put_varint(&mut bytes, field(1).map_or(0, |(_, number, _)| *number));
    put(&mut bytes, field(3).map_or(&[], |of| of.2));
    put(&mut bytes, field(2).map_or(&[], |of| of.2));
    for part in &parts[1..] {
        let entries = fields(part.2);
        put_varint(&mut bytes, entries.len());
        entries.iter().for_each(|(.., entry)| put(&mut bytes, entry));
    }
    let mut out = Vec::new();
    put(&mut out, &bytes);
    out
}

/// Writes the first `count` recorded blocks into the new directory `folder`.
fn first(count: u64, folder: &Path) {
    std::fs::create_dir(folder).unwrap();
    for number in 0..count {
        let name = format!("{number:05}.orderer.pb.gz");
        std::fs::copy(recorded().join(&name), folder.join(&name)).unwrap();
    }
}

fn refused(words: &[&str]) -> String {
    let output = fabric(words);
    assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_ledger_that_begins_with_a_snapshot_has_the_state_of_a_complete_one() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (whole, few, some) = (at("whole"), at("few"), at("some"));
    let (snapshot, joined) = (at("snapshot"), at("joined"));
    let all = recorded();
    let all = all.to_str().unwrap();
    first(6, Path::new(&some));
    one(&["import", "--json", "--data", &whole, all]);
    one(&["import", "--json", "--data", &few, &some]);
    let written = one(&["snapshot", "--json", "--data", &few, &snapshot]);
    assert_eq!(written["last_block"], 5);
    let hash = written["snapshot_hash"].as_str().unwrap();

    // If the commit hash is wrong, nothing is created.
    let (join, other) = (["join", "--json", "--data", &joined], "0".repeat(64));
    let words = refused(&[&join[..], &[&snapshot, "--commit-hash", &other]].concat());
    let (file, what) = (
        "_snapshot_additional_metadata.json",
        "the commit hash of the snapshot's last block is",
    );
    assert!(words.contains(&format!("{file}: {what} ")), "{words}");
    assert!(
        words.contains(&format!(", but --commit-hash says {other}")),
        "{words}"
    );
    let words = fabric(&[&join[..], &[&snapshot, "--snapshot-hash", "x"]].concat());
    assert_eq!(words.status.code(), Some(2), "{words:?}");
    assert!(!Path::new(&joined).exists());
    let commit_hash = one(&["block", "--json", "--data", &whole, "5"])["commit_hash"].clone();
    let commit_hash = commit_hash.as_str().unwrap();
    let given = [&snapshot, "--commit-hash", commit_hash, "--snapshot-hash", hash];
    let said = one(&[&join[..], &given].concat());
    assert_eq!(
        (&said["last_block"], &said["channel"]),
        (&5.into(), &"edge".into())
    );
    let words = refused(&[&join[..], &[&snapshot]].concat());
    assert!(
        words.contains("is not empty") && words.contains("\"hint\":\"give --data a new directory\""),
        "{words}"
    );

    // The joined ledger continues in the same way as the ledger with all blocks.
    let status = one(&["status", "--json", "--data", &joined]);
    assert_eq!(
        (&status["blocks"], &status["first_block"]),
        (&6.into(), &6.into())
    );
    assert_eq!(status["transactions"], 0);
    let imported = one(&["import", "--json", "--data", &joined, all]);
    assert_eq!(imported["imported"], 8);
    let [ours, theirs] = [&joined, &whole].map(|data| one(&["status", "--json", "--data", data]));
    for field in ["channel", "blocks", "keys", "last_hash", "commit_hash"] {
        assert_eq!(ours[field], theirs[field], "{field}");
    }
    let sound = one(&["verify-ledger", "--json", "--data", &joined]);
    assert_eq!(
        (&sound["sound"], &sound["joined_after"]),
        (&true.into(), &5.into())
    );
    let words = refused(&["block", "--data", &joined, "3"]);
    assert!(
        words.contains("begins with a snapshot; the ledger's first block is 6"),
        "{words}"
    );
    let early = one(&["history", "--json", "--data", &whole, "--block", "5"]);
    let id = early["id"].as_str().unwrap();
    assert_eq!(one(&["tx", "--json", "--data", &whole, id])["block"], 5);
    let words = refused(&["tx", "--data", &joined, id]);
    assert!(
        words.contains("the transaction is in a block before 6"),
        "{words}"
    );
    // Both ledgers write identical snapshots after the last block.
    let [one_way, other_way] = [(&joined, "a"), (&whole, "b")]
        .map(|(data, out)| one(&["snapshot", "--json", "--data", data, &at(out)])["snapshot_hash"].clone());
    assert_eq!(one_way, other_way);
}

#[test]
fn the_history_lists_every_write_of_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("ledger");
    let data = data.to_str().unwrap();
    one(&["import", "--json", "--data", data, recorded().to_str().unwrap()]);
    let index = folder.path().join("ledger/history");
    assert!(index.exists());
    let writes = objects(&fabric(&[
        "history", "--json", "--data", data, "--block", "12", "--limit", "100000",
    ]));
    let write = &writes[0];
    let (namespace, key) = (
        write["namespace"].as_str().unwrap(),
        write["key"].as_str().unwrap(),
    );
    let of = |more: &[&str]| {
        let words = [&["history", "--json", "--data", data, namespace, key][..], more].concat();
        objects(&fabric(&words))
    };
    let found = of(&[]);
    assert!(found.contains(write), "{found:?}");
    // The newest write comes first.
    let places: Vec<_> = found
        .iter()
        .map(|write| (write["block"].as_u64(), write["tx"].as_u64()))
        .collect();
    assert!(places.is_sorted_by(|one, other| one >= other), "{places:?}");
    assert_eq!(of(&["--limit", "1"]), found[..1]);
    let by_id = objects(&fabric(&[
        "history",
        "--json",
        "--data",
        data,
        "--tx",
        write["id"].as_str().unwrap(),
    ]));
    assert!(by_id.contains(write));
    std::fs::remove_file(index).unwrap();
    assert_eq!(of(&[]), found);
    let words = refused(&["history", "--data", data, namespace, "never written"]);
    assert!(
        words.contains("no transaction in the ledger has written this key"),
        "{words}"
    );
    let output = fabric(&["history", "--data", data]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn the_block_files_of_a_peer_are_imported() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (data, peer) = (at("ledger"), at("peer"));
    one(&["import", "--json", "--data", &data, recorded().to_str().unwrap()]);
    let files = Path::new(&peer).join("ledgersData/chains/chains/edge");
    std::fs::create_dir_all(&files).unwrap();
    let write = |change: &dyn Fn(u64, &mut Vec<u8>)| {
        let mut bytes = Vec::new();
        for number in 0..14 {
            let out = at("block");
            one(&[
                "block",
                "--json",
                "--data",
                &data,
                &number.to_string(),
                "--out",
                &out,
            ]);
            let mut block = std::fs::read(out).unwrap();
            change(number, &mut block);
            bytes.extend(stored(&block));
        }
        std::fs::write(files.join("blockfile_000000"), bytes).unwrap();
    };
    write(&|_, _| {});
    for more in [&[][..], &["--data", &data]] {
        let audited = one(&[&["verify-peer", "--json", &peer][..], more].concat());
        assert_eq!(
            (&audited["blocks"], &audited["difference"]),
            (&14.into(), &Value::Null)
        );
    }
    // The last byte of a block is part of its commit hash.
    write(&|number, block| {
        if number >= 9 {
            *block.last_mut().unwrap() ^= 1;
        }
    });
    for more in [&[][..], &["--data", &data]] {
        let output = fabric(&[&["verify-peer", "--json", &peer][..], more].concat());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let audited = objects(&output).remove(0);
        assert_eq!(
            (&audited["blocks"], &audited["difference"]["block"]),
            (&9.into(), &9.into())
        );
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(words.contains("block 9 is the first that differs"), "{words}");
    }
    // A snapshot can be compared with a ledger.
    let snapshot = at("snapshot");
    one(&["snapshot", "--json", "--data", &data, &snapshot]);
    let compared = one(&["verify-peer", "--json", &snapshot, "--data", &data]);
    assert_eq!(
        (&compared["last_block"], &compared["count"]),
        (&13.into(), &0.into())
    );
    let output = fabric(&["verify-peer", &snapshot]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn a_client_without_a_connection_says_when_it_tries_again() {
    let folder = tempfile::tempdir().unwrap();
    let msp = msp(folder.path());
    let mut child = Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args([
            "fabric",
            "follow",
            "lab",
            "--peer",
            "127.0.0.1:9",
            "--peer",
            "127.0.0.1:19",
        ])
        .args(["--msp-id", "Org1MSP", "--msp"])
        .arg(msp)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: Vec<String> = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .take(2)
        .map(|line| line.unwrap())
        .collect();
    child.kill().unwrap();
    child.wait().unwrap();
    for (line, [left, next]) in lines.iter().zip([["9", "19"], ["19", "9"]]) {
        assert!(
            line.starts_with(&format!("lineside: 127.0.0.1:{left}: no connection: ")),
            "{line}"
        );
        assert!(
            line.contains(&format!("; next attempt at 127.0.0.1:{next} in 0.")),
            "{line}"
        );
    }
    assert_eq!(lines.len(), 2);
}
