//! Fuzz target for the files of a journal: segments and a snapshot, with or without repaired checksums.

use crate::input::Input;
use lineside_journal::{Disk, Error, Journal, Options, SimDisk, dump, merkle, repair, verify};
use std::io::{Read, Write};

/// Bits of the first byte of an input. They select the parts that are repaired before the journal is opened.
const HEADERS: u8 = 1;
const RECORDS: u8 = 2;
const CHUNKS: u8 = 4;
/// Bit that leaves the segments short, without zeros up to their full length.
const SHORT: u8 = 8;

const SEGMENT_BYTES: usize = 4096;
const HEADER: usize = 64;
const NAMES: [&str; 3] = [
    "00000000000000000001.log",
    "00000000000000000020.log",
    "00000000000000000005.snap",
];

/// Computes CRC32C bit by bit, with code that is independent of the journal's.
fn crc32c(parts: &[&[u8]]) -> [u8; 4] {
    let bytes = parts.iter().flat_map(|part| part.iter());
    let sum = !bytes.fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0x82f6_3b78 & (sum & 1).wrapping_neg())
        })
    });
    sum.to_le_bytes()
}

/// Returns two segments and a snapshot. The second segment has an unfinished group after its end.
fn files() -> [Vec<u8>; 3] {
    let disk = SimDisk::new(1);
    let mut journal = Journal::create(disk.clone(), 7, Options::small()).expect("a new journal");
    while disk.content(NAMES[1]).is_none() {
        for _ in 0..if journal.next_lsn() == 1 { 7 } else { 3 } {
            let lsn = journal.next_lsn();
            let bytes = if lsn == 1 { 57 } else { 190 };
            journal.append(lsn as u8, &vec![lsn as u8; bytes]).expect("space");
            if journal.next_lsn() == 20 {
                journal.commit().expect("a group");
            }
        }
        journal.commit().expect("a group");
        assert!(
            journal.next_lsn() < 60,
            "the second segment begins with record 20"
        );
    }
    journal.append(9, b"last").expect("space");
    journal.commit().expect("a group");
    let snapshot = journal.write_snapshot(5, |w| w.write_all(&[5; 300]));
    snapshot.expect("a snapshot");
    NAMES.map(|name| {
        let mut bytes = disk.content(name).expect("a file");
        let used = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        bytes.truncate(used.next_multiple_of(8));
        bytes
    })
}

pub fn journal_seeds() -> Vec<Vec<u8>> {
    let [first, second, snapshot] = files();
    let length = |bytes: &[u8]| (bytes.len() as u16).to_le_bytes();
    let seed = |mode: u8, first: &[u8], second: &[u8], snapshot: &[u8]| {
        [
            &[mode],
            &length(first)[..],
            &length(second)[..],
            first,
            second,
            snapshot,
        ]
        .concat()
    };
    let torn = [&second[..], &[0; 64], &second[HEADER..]].concat();
    vec![
        seed(HEADERS | RECORDS | CHUNKS, &first, &second, &snapshot),
        seed(0, &first, &second, &snapshot),
        seed(RECORDS, &first[..first.len() / 2], &[], &snapshot),
        seed(0, &first, &torn, &[]),
        seed(HEADERS | SHORT, &first, &second, &[]),
        seed(HEADERS, &first, &[], &[]),
        Vec::new(),
    ]
}

/// Repairs the header's checksum, and limits the length of its segment, because a segment of 4 GiB would only take
/// time.
fn mend_header(bytes: &mut [u8]) {
    if let Some(header) = bytes.first_chunk_mut::<HEADER>() {
        header[42..44].fill(0);
        let sum = crc32c(&[&header[..12], &header[16..]]);
        header[12..16].copy_from_slice(&sum);
    }
}

/// Repairs the checksum of each record, as far as the records can be found by their lengths.
fn mend_records(bytes: &mut [u8]) {
    let (mut at, id) = (HEADER, bytes.get(16..24).map(<[u8]>::to_vec).unwrap_or_default());
    while let Some(length) = bytes.get(at + 4..at + 8).and_then(|b| b.first_chunk().copied()) {
        let end = at + (24 + u32::from_le_bytes(length) as usize).next_multiple_of(8);
        let Some(record) = bytes.get_mut(at..end).filter(|r| r[..24] != [0; 24]) else {
            break;
        };
        let sum = crc32c(&[&id, &record[4..]]);
        record[..4].copy_from_slice(&sum);
        at = end;
    }
}

fn mend_chunks(bytes: &mut [u8]) {
    let (mut at, id) = (HEADER, bytes.get(16..32).map(<[u8]>::to_vec).unwrap_or_default());
    while let Some(length) = bytes.get(at + 4..at + 8).and_then(|b| b.first_chunk().copied()) {
        let length = u32::from_le_bytes(length) as usize;
        let end = at + 16 + if length == 0 { 8 } else { length };
        let Some(chunk) = bytes.get_mut(at..end) else {
            break;
        };
        let sum = crc32c(&[&id, &chunk[4..]]);
        chunk[..4].copy_from_slice(&sum);
        at = end;
    }
}

fn disk_of(data: &[u8]) -> SimDisk {
    let mut input = Input(data);
    let mode = input.byte();
    let lengths = [
        u16::from_le_bytes(input.array()),
        u16::from_le_bytes(input.array()),
    ];
    let disk = SimDisk::new(1);
    for (name, length) in NAMES
        .iter()
        .zip([usize::from(lengths[0]), usize::from(lengths[1]), SEGMENT_BYTES])
    {
        let mut bytes = input.take(length.min(SEGMENT_BYTES)).to_vec();
        if bytes.is_empty() {
            continue;
        }
        if name.ends_with(".log") && mode & SHORT == 0 {
            bytes.resize(SEGMENT_BYTES, 0);
        }
        if mode & HEADERS != 0 {
            mend_header(&mut bytes);
        }
        match name.ends_with(".log") {
            true if mode & RECORDS != 0 => mend_records(&mut bytes),
            false if mode & CHUNKS != 0 => mend_chunks(&mut bytes),
            _ => {}
        }
        disk.put(name, Some(bytes));
    }
    disk
}

type Records = Vec<(u64, u8, Vec<u8>)>;

/// Returns the journal's records, and whether all of them could be read.
fn records(disk: &SimDisk) -> (Records, Result<(), Error>) {
    let mut all = Records::new();
    let outcome = dump(disk, 0, |record| {
        all.push((record.lsn, record.kind, record.payload.to_vec()))
    });
    (all, outcome)
}

fn contents(disk: &SimDisk) -> Vec<(String, Option<Vec<u8>>)> {
    let names = disk.list().expect("no fault is set");
    names
        .into_iter()
        .map(|name| (name.clone(), disk.content(&name)))
        .collect()
}

/// Checks that, for any files, reading changes nothing, a journal that verifies can be opened, a refused journal stays
/// unchanged, an opened journal can be used further, and a repaired journal verifies.
pub fn journal(data: &[u8]) {
    let disk = disk_of(data);
    let before = contents(&disk);
    let report = verify(&disk);
    let (found, _) = records(&disk);
    assert!(
        found.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0),
        "the record numbers must have no gaps"
    );
    assert!(contents(&disk) == before, "reading changes nothing");

    let opened = disk.fork(1);
    match Journal::open(opened.clone(), Options::small()) {
        Ok((journal, _)) => goes_on(&opened, journal, &found),
        Err(_) => {
            assert!(contents(&opened) == before, "a refused journal stays unchanged");
            assert!(
                !report.as_ref().is_ok_and(|report| report.is_sound()),
                "a journal that verifies can be opened"
            );
        }
    }

    let Ok(repaired) = repair(&disk, Options::small()) else {
        assert!(report.is_err(), "a journal that verifies can be repaired");
        return;
    };
    match verify(&disk) {
        Ok(after) => assert!(after.is_sound(), "{repaired:?} {after:?}"),
        Err(error) => assert!(matches!(error, Error::NoJournal), "{error}"),
    }
    assert!(contents(&disk).len() >= before.len(), "no file is missing");
}

/// Checks that an opened journal replays its records up to damage in an older segment, accepts a record, and opens
/// again with it.
fn goes_on(disk: &SimDisk, mut journal: Journal<SimDisk>, found: &Records) {
    let (first, last) = (journal.first_lsn(), journal.durable_lsn());
    let mut replayed = Records::new();
    let mut outcome = Ok(());
    match journal.records(first) {
        Ok(mut records) => loop {
            match records.next() {
                Ok(Some(record)) => replayed.push((record.lsn, record.kind, record.payload.to_vec())),
                Ok(None) => break,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        },
        Err(error) => outcome = Err(error),
    }
    assert!(replayed == *found, "replay gives the records of dump");
    if outcome.is_ok() {
        assert_eq!(replayed.len() as u64, last + 1 - first);
    }
    if let Some(mut snapshot) = journal.latest_snapshot().ok().and_then(|latest| latest.snapshot) {
        let mut state = Vec::new();
        snapshot
            .read_to_end(&mut state)
            .expect("the snapshot was checked");
        assert_eq!(state.len() as u64, snapshot.bytes);
    }
    // After the largest number there is no number for a further record.
    if last > u64::MAX - 8 {
        return;
    }
    let lsn = journal.append(3, b"more").expect("space");
    assert_eq!(
        (lsn, journal.commit().expect("no fault is set")),
        (last + 1, last + 1)
    );
    drop(journal);
    disk.power_cut();
    let (journal, recovery) =
        Journal::open(disk.clone(), Options::small()).expect("the journal was opened before");
    assert_eq!((recovery.last_lsn, recovery.cut_bytes), (lsn, 0));
    let mut records = journal.records(lsn).expect("the record is durable");
    if outcome.is_ok() {
        assert_eq!(
            records
                .next()
                .expect("the record is complete")
                .map(|record| record.payload),
            Some(&b"more"[..])
        );
    }
}

pub fn merkle_seeds() -> Vec<Vec<u8>> {
    vec![
        vec![7, 3, 2, 0],
        vec![1, 0, 1, 0],
        vec![64, 63, 33, 9, 1, 2, 3],
        Vec::new(),
    ]
}

/// Checks that a proof that was changed in any way proves only what it proved before.
pub fn merkle(data: &[u8]) {
    let mut input = Input(data);
    let size = u64::from(input.byte() % 80) + 1;
    let (index, old) = (u64::from(input.byte()) % size, u64::from(input.byte()) % size + 1);
    let leaves: Vec<_> = (0..size)
        .map(|number| merkle::leaf_hash(&number.to_le_bytes()))
        .collect();
    let hasher = &merkle::Sha256;
    let root = merkle::root_of_hashes(hasher, &leaves);
    let old_root = merkle::root_of_hashes(hasher, &leaves[..old as usize]);
    let mut inclusion = merkle::inclusion_proof(hasher, &leaves, index).expect("the leaf exists");
    let mut consistency =
        merkle::consistency_proof(hasher, &leaves, old).expect("the tree has that many leaves");
    let before = (inclusion.clone(), consistency.clone());
    while !input.is_empty() {
        for proof in [&mut inclusion, &mut consistency] {
            let (what, at) = (input.byte(), usize::from(input.byte()));
            match what % 4 {
                0 => proof.truncate(at),
                1 => proof.push([what; 32]),
                2 => {
                    if let Some(hash) = proof.get_mut(at % 8) {
                        hash[at % 32] ^= what;
                    }
                }
                _ => {}
            }
        }
    }
    let leaf = &leaves[index as usize];
    assert_eq!(
        merkle::verify_inclusion(leaf, index, size, &inclusion, &root),
        inclusion == before.0
    );
    let shown = merkle::verify_consistency(old, size, &old_root, &root, &consistency);
    assert_eq!(shown, consistency == before.1);
}
