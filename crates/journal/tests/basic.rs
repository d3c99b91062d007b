//! Tests of the journal on a disk without faults, and on a full disk.

use lineside_journal::{Disk, DiskFile, Error, Journal, Lsn, Op, Options, SimDisk, record_bytes};
use std::io::{Read, Write};

fn payload(lsn: Lsn) -> Vec<u8> {
    (0..(lsn * 37 % 300)).map(|i| (i * 7 + lsn) as u8).collect()
}

fn fill(journal: &mut Journal<SimDisk>, groups: u64, records: u64) {
    for _ in 0..groups {
        for _ in 0..records {
            let lsn = journal.next_lsn();
            assert_eq!(journal.append(lsn as u8, &payload(lsn)).unwrap(), lsn);
        }
        assert_eq!(journal.commit().unwrap(), journal.next_lsn() - 1);
    }
}

fn check(journal: &Journal<SimDisk>, from: Lsn) {
    let mut expected = from;
    let mut records = journal.records(from).unwrap();
    while let Some(record) = records.next().unwrap() {
        assert_eq!(record.lsn, expected);
        assert_eq!(
            (record.kind, record.payload),
            (expected as u8, &payload(expected)[..])
        );
        expected += 1;
    }
    assert_eq!(expected, journal.durable_lsn() + 1);
}

/// A record whose payload is given in parts has the same bytes as one whose payload is given at once.
#[test]
fn a_payload_in_parts_is_stored_as_one_payload() {
    let (whole, parts) = (SimDisk::new(1), SimDisk::new(1));
    let mut journal = Journal::create(whole.clone(), 9, Options::small()).unwrap();
    let mut other = Journal::create(parts.clone(), 9, Options::small()).unwrap();
    for lsn in 1..60 {
        let payload = payload(lsn);
        let (first, rest) = payload.split_at(payload.len() / 3);
        assert_eq!(journal.append(7, &payload).unwrap(), lsn);
        assert_eq!(other.append_parts(7, &[first, &[], rest]).unwrap(), lsn);
        assert_eq!(journal.commit().unwrap(), other.commit().unwrap());
    }
    let long = vec![0; Options::small().record_bytes_max as usize];
    let too_large = other.append_parts(7, &[&long, b"1"]);
    assert!(matches!(too_large, Err(Error::RecordTooLarge { .. })));
    assert_eq!(whole.list().unwrap(), parts.list().unwrap());
    for name in whole.list().unwrap() {
        let files = [&whole, &parts].map(|disk| {
            let file = disk.open_read(&name).unwrap();
            let mut bytes = vec![0; file.len().unwrap() as usize];
            file.read_at(0, &mut bytes).unwrap();
            bytes
        });
        assert_eq!(files[0], files[1], "{name}");
    }
}

#[test]
fn records_are_read_back_over_many_segments() {
    let disk = SimDisk::new(1);
    let mut journal = Journal::create(disk.clone(), 9, Options::small()).unwrap();
    fill(&mut journal, 100, 5);
    for from in [1, 2, 250, 499, 500, 501] {
        check(&journal, from);
    }
    assert!(matches!(
        journal.records(502),
        Err(Error::NotThere {
            lsn: 502,
            durable: 500
        })
    ));
    assert!(disk.list().unwrap().len() > 15);
    drop(journal);
    let (mut journal, recovery) = Journal::open(disk, Options::small()).unwrap();
    assert_eq!(
        (recovery.last_lsn, recovery.first_lsn, recovery.cut_bytes),
        (500, 1, 0)
    );
    check(&journal, 1);
    fill(&mut journal, 20, 3);
    check(&journal, 1);
}

#[test]
fn a_group_takes_one_write_one_sync_and_one_write_of_the_mark() {
    let disk = SimDisk::new(1);
    let options = Options {
        segment_bytes: 1 << 20,
        ..Options::small()
    };
    let mut journal = Journal::create(disk.clone(), 9, options).unwrap();
    let before = disk.counts();
    fill(&mut journal, 100, 5);
    let after = disk.counts();
    assert_eq!(
        (after.writes - before.writes, after.sync_datas - before.sync_datas),
        (200, 100)
    );
    assert_eq!(after.changes() - before.changes(), 300);
}

#[test]
fn an_empty_commit_does_nothing() {
    let disk = SimDisk::new(1);
    let mut journal = Journal::create(disk.clone(), 9, Options::small()).unwrap();
    let before = disk.counts();
    assert_eq!(journal.commit().unwrap(), 0);
    assert_eq!(disk.counts(), before);
}

#[test]
fn sizes_at_their_limits() {
    let disk = SimDisk::new(1);
    let mut journal = Journal::create(disk.clone(), 9, Options::small()).unwrap();
    let large = vec![7; 1024];
    assert!(matches!(
        journal.append(1, &[0; 1025]),
        Err(Error::RecordTooLarge {
            bytes: 1025,
            max_bytes: 1024
        })
    ));
    journal.append(1, &large).unwrap();
    journal.append(1, &large).unwrap();
    assert!(matches!(
        journal.append(1, &large),
        Err(Error::GroupFull { max_bytes: 3072, .. })
    ));
    assert!(matches!(journal.reserve(u64::MAX), Err(Error::GroupFull { .. })));
    journal.append(1, &[]).unwrap();
    journal.commit().unwrap();
    for _ in 0..30 {
        journal.append(2, &large).unwrap();
        journal.append(2, &[]).unwrap();
        journal.commit().unwrap();
    }
    drop(journal);
    let (journal, recovery) = Journal::open(disk, Options::small()).unwrap();
    assert_eq!(recovery.last_lsn, 63);
    let mut records = journal.records(4).unwrap();
    while let Some(record) = records.next().unwrap() {
        assert_eq!(record.payload.len(), if record.lsn % 2 == 0 { 1024 } else { 0 });
    }
    let bad = Options {
        group_bytes_max: 4096,
        ..Options::small()
    };
    assert!(matches!(
        Journal::create(SimDisk::new(1), 9, bad),
        Err(Error::BadOptions { .. })
    ));
}

#[test]
fn a_full_disk_refuses_records_changes_nothing_and_later_accepts_them() {
    let disk = SimDisk::new(1);
    let mut journal = Journal::create(disk.clone(), 9, Options::small()).unwrap();
    disk.set_capacity_bytes(Some(3 * 4096 + 512));
    let mut last = 0;
    let refused = loop {
        match journal.append(5, &[1; 100]) {
            Ok(lsn) => last = lsn,
            Err(error) => break error,
        }
        journal.commit().unwrap();
    };
    assert!(
        matches!(
            refused,
            Error::Full {
                needed_bytes: 4096,
                ..
            }
        ),
        "{refused}"
    );
    for _ in 0..3 {
        let before = (disk.list().unwrap(), disk.used_bytes());
        assert!(matches!(
            journal.reserve(record_bytes(100)),
            Err(Error::Full { .. })
        ));
        assert!(matches!(journal.append(5, &[1; 100]), Err(Error::Full { .. })));
        assert_eq!((disk.list().unwrap(), disk.used_bytes()), before);
        assert_eq!((journal.next_lsn(), journal.commit().unwrap()), (last + 1, last));
    }
    // Records that fit into the space already allocated are still accepted.
    while journal.append(5, &[]).is_ok() {
        last += 1;
        journal.commit().unwrap();
    }
    disk.set_capacity_bytes(None);
    assert_eq!(journal.append(5, &[1; 100]).unwrap(), last + 1);
    assert_eq!(journal.commit().unwrap(), last + 1);
    drop(journal);
    disk.power_cut();
    let (_, recovery) = Journal::open(disk, Options::small()).unwrap();
    assert_eq!(recovery.last_lsn, last + 1);
}

#[test]
fn reserved_space_is_available_on_a_full_disk() {
    for payload_bytes in [0, 1, 90, 500, 1000] {
        let disk = SimDisk::new(1);
        let mut journal = Journal::create(disk.clone(), 9, Options::small()).unwrap();
        for _ in 0..40 {
            let records = 3000 / record_bytes(payload_bytes);
            journal.reserve(records * record_bytes(payload_bytes)).unwrap();
            disk.set_capacity_bytes(Some(disk.used_bytes()));
            for _ in 0..records {
                journal.append(1, &vec![3; payload_bytes]).unwrap();
            }
            journal.commit().unwrap();
            disk.set_capacity_bytes(None);
        }
    }
}

#[test]
fn an_error_ends_writing_until_reopened() {
    for (op, n) in [
        (Op::Write, 1),
        (Op::SyncData, 1),
        (Op::SyncDir, 1),
        (Op::Rename, 1),
    ] {
        let disk = SimDisk::new(3);
        let mut journal = Journal::create(disk.clone(), 9, Options::small()).unwrap();
        fill(&mut journal, 10, 3);
        disk.fail_nth(op, n);
        let failed = (0..50).find_map(|_| {
            let next = journal.next_lsn();
            journal.append(next as u8, &payload(next)).unwrap();
            journal.commit().err()
        });
        assert!(matches!(failed, Some(Error::Io { .. })), "{op:?}: {failed:?}");
        let durable = journal.durable_lsn();
        for _ in 0..3 {
            assert!(matches!(journal.append(1, b"x"), Err(Error::Poisoned { .. })));
            assert!(matches!(journal.commit(), Err(Error::Poisoned { .. })));
            assert!(matches!(journal.reserve(1), Err(Error::Poisoned { .. })));
            assert!(matches!(journal.prepare(), Err(Error::Poisoned { .. })));
            assert!(matches!(journal.prune(1), Err(Error::Poisoned { .. })));
        }
        assert_eq!(journal.durable_lsn(), durable);
        drop(journal);
        let (mut journal, recovery) = Journal::open(disk, Options::small()).unwrap();
        assert!(recovery.last_lsn == durable || recovery.last_lsn == durable + 1);
        fill(&mut journal, 5, 2);
        check(&journal, 1);
    }
}

#[test]
fn two_snapshots_are_kept_and_a_damaged_one_is_ignored() {
    let disk = SimDisk::new(1);
    let mut journal = Journal::create(disk.clone(), 9, Options::small()).unwrap();
    assert!(matches!(
        journal.write_snapshot(1, |_| Ok(())),
        Err(Error::NotThere { .. })
    ));
    assert!(journal.latest_snapshot().unwrap().snapshot.is_none());
    for (round, size) in [0, 1, 1000, 700_000].into_iter().enumerate() {
        fill(&mut journal, 10, 3);
        let state: Vec<u8> = (0..size).map(|i: u32| (i % 251) as u8).collect();
        journal
            .write_snapshot(journal.durable_lsn(), |w| w.write_all(&state))
            .unwrap();
        let latest = journal.latest_snapshot().unwrap();
        let mut snapshot = latest.snapshot.unwrap();
        assert_eq!(
            (snapshot.lsn, snapshot.bytes),
            (30 * (round as u64 + 1), u64::from(size))
        );
        let mut read = Vec::new();
        snapshot.read_to_end(&mut read).unwrap();
        assert_eq!(read, state);
    }
    let names = disk.list().unwrap();
    let snaps: Vec<_> = names.iter().filter(|name| name.ends_with(".snap")).collect();
    assert_eq!(snaps, ["00000000000000000090.snap", "00000000000000000120.snap"]);
    assert!(disk.rot(snaps[1], 300_000, 1));
    let latest = journal.latest_snapshot().unwrap();
    assert_eq!(latest.snapshot.unwrap().lsn, 90);
    assert_eq!(latest.damaged.len(), 1);
    assert_eq!(latest.damaged[0].file, "00000000000000000120.snap");
    // A snapshot whose `fill` fails leaves no file.
    let failed = journal.write_snapshot(120, |w| {
        w.write_all(&[1; 300_000])?;
        Err(std::io::Error::other("no"))
    });
    assert!(matches!(failed, Err(Error::Io { .. })));
    assert!(
        !disk
            .list()
            .unwrap()
            .iter()
            .any(|name| name.ends_with(".tmp") && name.contains("snap"))
    );
}

#[test]
fn pruning_needs_a_snapshot_and_keeps_the_records_after_it() {
    let disk = SimDisk::new(1);
    let mut journal = Journal::create(disk.clone(), 9, Options::small()).unwrap();
    fill(&mut journal, 60, 5);
    assert!(matches!(journal.prune(100), Err(Error::NoSnapshot { lsn: 100 })));
    journal.write_snapshot(200, |w| w.write_all(b"state")).unwrap();
    assert!(matches!(journal.prune(201), Err(Error::NoSnapshot { .. })));
    let reads = disk.counts().reads;
    assert!(journal.prune(200).unwrap() > 5);
    assert_eq!(
        disk.counts().reads,
        reads,
        "a snapshot that this process wrote is not read again"
    );
    let first = journal.first_lsn();
    assert!(first > 100 && first <= 201);
    assert!(matches!(journal.records(first - 1), Err(Error::Pruned { .. })));
    check(&journal, 201);
    drop(journal);
    let (mut journal, recovery) = Journal::open(disk.clone(), Options::small()).unwrap();
    assert_eq!((recovery.first_lsn, recovery.last_lsn), (first, 300));
    fill(&mut journal, 10, 5);
    check(&journal, first);
    assert!(lineside_journal::verify(&disk).unwrap().is_sound());
}

#[test]
fn create_refuses_an_existing_journal_and_open_an_empty_directory() {
    let disk = SimDisk::new(1);
    assert!(matches!(
        Journal::open(disk.clone(), Options::small()),
        Err(Error::NoJournal)
    ));
    let (_, recovery) = Journal::open_or_create(disk.clone(), 9, Options::small()).unwrap();
    assert!(recovery.created);
    assert!(matches!(
        Journal::create(disk.clone(), 9, Options::small()),
        Err(Error::Exists { .. })
    ));
    let (_, recovery) = Journal::open_or_create(disk.clone(), 10, Options::small()).unwrap();
    assert_eq!((recovery.created, recovery.journal_id), (false, 9));
}

#[test]
fn files_with_temporary_names_are_removed_and_reported() {
    let disk = SimDisk::new(1);
    let mut journal = Journal::create(disk.clone(), 9, Options::small()).unwrap();
    fill(&mut journal, 3, 3);
    journal.prepare().unwrap();
    let unfinished = "00000000000000000009.snap.tmp";
    disk.put(unfinished, Some(vec![1; 100]));
    disk.put("notes.txt", Some(vec![1; 100]));
    drop(journal);
    let (journal, recovery) = Journal::open(disk.clone(), Options::small()).unwrap();
    assert_eq!(recovery.removed, [unfinished, "next.tmp"]);
    assert_eq!(
        disk.list().unwrap(),
        ["00000000000000000001.log", "acknowledged", "notes.txt"]
    );
    check(&journal, 1);
}

#[test]
fn pruning_reads_a_snapshot_that_another_process_wrote() {
    let disk = SimDisk::new(1);
    let mut journal = Journal::create(disk.clone(), 9, Options::small()).unwrap();
    fill(&mut journal, 60, 5);
    journal.write_snapshot(200, |w| w.write_all(b"state")).unwrap();
    drop(journal);
    assert!(disk.rot("00000000000000000200.snap", 82, 1));
    let (mut journal, _) = Journal::open(disk.clone(), Options::small()).unwrap();
    assert!(matches!(journal.prune(200), Err(Error::NoSnapshot { lsn: 200 })));
    journal.write_snapshot(200, |w| w.write_all(b"state")).unwrap();
    disk.put("00000000000000000200.snap", None);
    assert!(matches!(journal.prune(200), Err(Error::NoSnapshot { lsn: 200 })));
    assert_eq!(journal.first_lsn(), 1);
}
