//! Tests of the audit: it finds nothing in an unchanged ledger, and finds any changed byte, even if the attacker
//! recomputes the journal's checksums.

mod common;

use common::*;
use lineside_hybrid::Code;
use lineside_hybrid::audit::{Audit, Options, audit};
use lineside_hybrid::ledger::{RECORD_BLOCK, StoredBlock, journal_options};
use lineside_journal::{Disk, Journal, RECORD_HEADER_BYTES, Reader, SimDisk};
use lineside_messages::hybrid::block::{HEADER_BYTES, Message};
use lineside_messages::hybrid::request::Version;
use lineside_messages::hybrid::sign::transaction_id;
use sha3::{Digest, Keccak256};

type Records = Vec<(u8, Vec<u8>)>;

/// Makes a ledger of a few blocks: writes with keys of both curves, a conflict, a deletion, a vote, a signed head.
fn ledger(seed: u64) -> SimDisk {
    use lineside_messages::hybrid::change::Change;
    use lineside_messages::hybrid::request::Body;
    let disk = SimDisk::new(seed);
    let options = lineside_hybrid::Options {
        head_every: 2,
        ..Default::default()
    };
    let node = start_with(disk.clone(), options);
    let mut client = Client::new();
    let set = node.ask(vec![client.set(5, "a", None, "1"), client.set(4, "b", None, "2")]);
    assert!(set.iter().all(|answer| answer.code() == Code::Done));
    assert_eq!(
        code(&node, client.set(6, "a", Some(Version::ABSENT), "3")),
        Code::Conflict
    );
    assert_eq!(code(&node, client.sign(6, Body::delete(b"b", None))), Code::Done);
    let change = Change::RevokeMember { member: 8 };
    let vote = Body::Change {
        until_ms: u64::MAX,
        change,
    };
    assert_eq!(code(&node, client.sign(1, vote)), Code::Recorded);
    node.stop();
    disk
}

fn records(disk: &SimDisk) -> Records {
    let reader = Reader::open(disk.clone()).unwrap();
    let mut records = reader.records(1).unwrap();
    let mut all = Vec::new();
    while let Some(record) = records.next().unwrap() {
        all.push((record.kind, record.payload.to_vec()));
    }
    all
}

/// Makes a journal with these records and valid checksums, as an attacker would.
fn written(records: &Records) -> SimDisk {
    let disk = SimDisk::new(99);
    let options = lineside_journal::Options {
        segment_bytes: 1 << 16,
        record_bytes_max: 1 << 14,
        group_bytes_max: 1 << 15,
        ..journal_options()
    };
    let (mut journal, _) = Journal::open_or_create(disk.clone(), 7, options).unwrap();
    for (kind, payload) in records {
        journal.append(*kind, payload).unwrap();
    }
    journal.commit().unwrap();
    disk
}

fn audited(disk: SimDisk) -> Audit {
    audited_to(disk, None)
}

fn audited_to(disk: SimDisk, tip: Option<(u64, [u8; 32])>) -> Audit {
    let genesis = genesis().encode().unwrap();
    let options = Options {
        threads: 1,
        genesis: Some(genesis),
        tip,
        ..Options::default()
    };
    audit(disk, options, |_| {}).unwrap()
}

#[test]
fn the_audit_of_an_unchanged_ledger_finds_nothing() {
    let disk = ledger(1);
    let found = audited(disk.clone());
    assert_eq!(found.finding, None);
    assert_eq!((found.blocks, found.transactions), (4, 5));
    let node = start(disk);
    assert_eq!(found.tip, (node.status().height, node.status().tip_hash));
}

/// Returns the offsets of the records in the only segment of a small ledger.
fn offsets(disk: &SimDisk) -> Vec<u64> {
    let reader = Reader::open(disk.clone()).unwrap();
    let mut records = reader.records(1).unwrap();
    let mut all = Vec::new();
    while let Some(record) = records.next().unwrap() {
        all.push(record.offset + RECORD_HEADER_BYTES);
    }
    all
}

#[test]
fn every_changed_byte_is_found_even_with_corrected_checksums() {
    let disk = ledger(2);
    let tip = audited(disk.clone()).tip;
    let original = records(&disk);
    let offsets = offsets(&written(&original));
    for (number, (kind, payload)) in original.iter().enumerate() {
        // Changes only every seventh byte of the genesis, which is compared as a whole, and of messages, whose bytes
        // are all checked in the same way.
        let all_of = HEADER_BYTES + 4 + 100;
        for byte in (0..payload.len()).filter(|byte| byte % 7 == 0 || number > 0 && *byte < all_of) {
            let mut changed = original.clone();
            changed[number].1[byte] ^= 0x21;
            let found = audited_to(written(&changed), Some(tip));
            let at = offsets[number] + byte as u64;
            let finding = found
                .finding
                .unwrap_or_else(|| panic!("record {number}, byte {byte} was not found"));
            // Only the block's hash covers a message's position in the log, so the error is found in the next block,
            // which contains this hash.
            let is_position = *kind == RECORD_BLOCK && (24..32).contains(&byte);
            let of_next = finding.what.contains("position in the log")
                || finding.what.contains("has signed another hash");
            assert!(
                finding.offset <= at || is_position && of_next,
                "record {number}, byte {byte}: {finding:?}"
            );
            if *kind == RECORD_BLOCK {
                let stored = StoredBlock::decode(payload).unwrap();
                let is_length = (HEADER_BYTES..HEADER_BYTES + 4).contains(&byte) || (40..44).contains(&byte);
                if byte < stored.message_offset() && !is_length && !is_position {
                    assert!(
                        finding.offset == at || finding.offset == offsets[number],
                        "record {number}, byte {byte}: {finding:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn missing_reordered_and_repeated_blocks_are_found() {
    let disk = ledger(3);
    let original = records(&disk);
    let blocks: Vec<usize> = (0..original.len())
        .filter(|place| original[*place].0 == RECORD_BLOCK)
        .collect();
    let without = |place: usize| {
        let mut changed = original.clone();
        changed.remove(place);
        changed
    };
    for place in &blocks[..blocks.len() - 1] {
        assert!(audited(written(&without(*place))).finding.is_some());
    }
    // A ledger without its last block and the records after it is a valid, shorter ledger. Only a known block hash, or
    // a node's head for the missing block, shows the difference.
    let tip = audited(disk).tip;
    let last = blocks[blocks.len() - 1];
    let shorter = written(&original[..last].to_vec());
    assert_eq!(audited(shorter.clone()).finding, None);
    assert!(audited_to(shorter, Some(tip)).finding.is_some());
    assert!(last + 1 < original.len(), "a head follows it");
    assert!(audited(written(&without(last))).finding.is_some());
    for pair in blocks.windows(2) {
        let mut changed = original.clone();
        changed.swap(pair[0], pair[1]);
        assert!(audited(written(&changed)).finding.is_some());
        let mut changed = original.clone();
        changed.insert(pair[1], original[pair[0]].clone());
        assert!(audited(written(&changed)).finding.is_some());
    }
}

#[test]
fn lost_and_changed_bytes_on_the_disk_are_found() {
    let disk = ledger(4);
    let tip = audited(disk.clone()).tip;
    let name = disk
        .list()
        .unwrap()
        .into_iter()
        .find(|name| name.ends_with(".log"))
        .unwrap();
    let end = {
        let reader = Reader::open(disk.clone()).unwrap();
        let mut records = reader.records(1).unwrap();
        let mut end = 0;
        while let Some(record) = records.next().unwrap() {
            // After the last block, the ledger has a node's signed head, which is not part of a block.
            if record.kind == RECORD_BLOCK {
                end = record.offset + lineside_journal::record_bytes(record.payload.len());
            }
        }
        end
    };
    for byte in (0..end).step_by(97) {
        assert!(disk.rot(&name, byte, 8));
        assert!(audited(disk.clone()).finding.is_some(), "byte {byte}");
        assert!(
            audited_to(disk.clone(), Some(tip)).finding.is_some(),
            "byte {byte}"
        );
        assert!(disk.rot(&name, byte, 8));
    }
    assert_eq!(audited(disk).finding, None);
}

/// Compares the stored headers with hashes that this test computes from the description in docs/wire-formats.md.
#[test]
fn headers_match_their_blocks_and_the_chain_continues_after_a_restart() {
    let disk = ledger(5);
    let node = start(disk.clone());
    let mut client = Client::again(100);
    let last = client.set(5, "after", None, "the restart");
    assert_eq!(code(&node, last.clone()), Code::Done);
    node.stop();
    let keccak = |parts: &[&[u8]]| -> [u8; 32] { Keccak256::digest(parts.concat()).into() };
    let genesis = genesis().encode().unwrap();
    let th = keccak(&[b"lineside/hybrid/genesis/1", &genesis]);
    let mut paper_hash = keccak(&[&[0; 32], &th]);
    let mut previous = None;
    let mut number = 0;
    for (kind, payload) in records(&disk) {
        if kind != RECORD_BLOCK {
            continue;
        }
        number += 1;
        let stored = StoredBlock::decode(&payload).unwrap();
        let header = stored.header;
        assert_eq!(header.number, number, "block numbers continue after a restart");
        assert_eq!(header.database[..], th[..16]);
        let th = keccak(&[&stored.message[64..]]);
        assert_eq!(
            header.transactions_hash, th,
            "no block's transactions hash is empty"
        );
        paper_hash = keccak(&[&paper_hash, &th]);
        assert_eq!(
            header.paper_hash, paper_hash,
            "the paper's hash chain continues over a restart"
        );
        assert_eq!(header.codes_hash, keccak(&[stored.codes]));
        if let Some(previous) = previous {
            assert_eq!(header.previous, previous);
        }
        previous = Some(keccak(&[b"lineside/hybrid/block/1", &payload[..HEADER_BYTES]]));
        assert_eq!(header.hash(), previous.unwrap());
        let message = Message::decode(stored.message).unwrap();
        let root = lineside_journal::merkle::root(&lineside_journal::merkle::Sha256, message.requests());
        assert_eq!(header.transactions_root, root);
        if message.requests().contains(&&last[..]) {
            assert_eq!(
                transaction_id(&last[64..]),
                keccak(&[b"lineside/hybrid/1", &last[64..]])
            );
        }
    }
    assert_eq!(number, 5);
    assert_eq!(audited(disk).finding, None);
}
