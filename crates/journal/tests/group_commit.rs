//! Tests of many threads on one journal.

mod common;

use common::payload;
use lineside_journal::{Error, GroupCommit, Journal, Lsn, Op, Options, SimDisk, record_bytes};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

fn start(disk: &SimDisk) -> GroupCommit<SimDisk> {
    let journal = Journal::open_or_create(disk.clone(), 77, Options::small())
        .unwrap()
        .0;
    GroupCommit::start(journal).unwrap()
}

/// Appends from many threads: each record has the number of its thread, a counter and filler. Returns (last number,
/// thread, counters) of each call.
fn hammer(shared: &GroupCommit<SimDisk>, threads: u8, calls: u64) -> Vec<(Lsn, u8, u64, u64)> {
    let log = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let log = &log;
            scope.spawn(move || {
                let mut counter = 0;
                for call in 0..calls {
                    let records = call % 4 + 1;
                    let payloads: Vec<Vec<u8>> = (0..records)
                        .map(|i| [&(counter + i).to_le_bytes()[..], &payload(call)].concat())
                        .filter(|payload| payload.len() <= 1024)
                        .collect();
                    let group: Vec<(u8, &[u8])> =
                        payloads.iter().map(|payload| (thread, &payload[..])).collect();
                    let last = shared.append(&group).unwrap();
                    log.lock()
                        .unwrap()
                        .push((last, thread, counter, group.len() as u64));
                    counter += group.len() as u64;
                    if call % 3 == 0 {
                        assert!(shared.wait(last).unwrap() >= last);
                    }
                }
            });
        }
    });
    log.into_inner().unwrap()
}

#[test]
fn the_records_of_every_thread_are_in_its_order() {
    let disk = SimDisk::new(1);
    let shared = start(&disk);
    let calls = hammer(&shared, 6, 200);
    let journal = shared.stop().unwrap();
    let mut counters = [0u64; 6];
    let mut seen = Vec::new();
    let mut records = journal.records(1).unwrap();
    while let Some(record) = records.next().unwrap() {
        let counter = u64::from_le_bytes(record.payload[..8].try_into().unwrap());
        assert_eq!(counter, counters[record.kind as usize]);
        counters[record.kind as usize] += 1;
        seen.push((record.kind, counter));
    }
    // The records of one call are consecutive, and the last one has the number that the call returned.
    for (last, thread, counter, records) in calls.into_iter().filter(|call| call.3 > 0) {
        for i in 0..records {
            assert_eq!(seen[(last - records + i) as usize], (thread, counter + i));
        }
    }
    assert_eq!(seen.len() as u64, journal.durable_lsn());
}

#[test]
fn one_sync_serves_many_callers_and_no_caller_returns_early() {
    let disk = SimDisk::new(1);
    let shared = start(&disk);
    for _ in 0..200 {
        let last = shared.append(&[(1, b"a"), (2, b"b")]).unwrap();
        let durable = shared.wait(last).unwrap();
        assert!(durable >= last && shared.durable_lsn() >= last);
        // Durable records are on the disk: a copy of the disk still has them after a power cut.
        let copy = disk.fork(last);
        copy.power_cut();
        let (_, recovery) = Journal::open(copy, Options::small()).unwrap();
        assert!(recovery.last_lsn >= last);
    }
    let before = disk.counts().sync_datas;
    for _ in 0..50 {
        shared.append(&[(1, b"c")]).unwrap();
    }
    shared.wait(450).unwrap();
    assert!(disk.counts().sync_datas - before <= 60);
    assert!(matches!(
        shared.wait(451),
        Err(Error::NotThere {
            lsn: 451,
            durable: 450
        })
    ));
    assert_eq!(shared.append(&[]).unwrap(), 450);
}

#[test]
fn a_power_cut_loses_no_record_that_a_caller_waited_for() {
    for seed in 0..60 {
        let disk = SimDisk::new(seed);
        let shared = start(&disk);
        disk.cut_at(seed + 1);
        let promised = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (shared, promised) = (&shared, &promised);
                scope.spawn(move || {
                    while let Ok(lsn) = shared
                        .append(&[(thread, &[thread; 200])])
                        .and_then(|lsn| shared.wait(lsn))
                    {
                        promised.fetch_max(lsn, Ordering::Relaxed);
                    }
                });
            }
        });
        assert!(matches!(shared.poisoned(), Some(Error::Poisoned { .. })));
        assert!(shared.stop().is_err());
        disk.power_cut();
        let opened = Journal::open_or_create(disk, 77, Options::small()).unwrap();
        assert!(
            opened.1.last_lsn >= promised.load(Ordering::Relaxed),
            "seed {seed}"
        );
    }
}

#[test]
fn a_failed_sync_returns_an_error_to_every_caller() {
    let disk = SimDisk::new(1);
    let shared = start(&disk);
    shared.wait(shared.append(&[(1, b"good")]).unwrap()).unwrap();
    disk.fail_nth(Op::SyncData, 1);
    let last = shared.append(&[(1, b"lost")]).unwrap();
    assert!(matches!(shared.wait(last), Err(Error::Poisoned { .. })));
    assert!(matches!(
        shared.append(&[(1, b"more")]),
        Err(Error::Poisoned { .. })
    ));
    assert!(matches!(shared.append(&[]), Err(Error::Poisoned { .. })));
    assert_eq!((shared.durable_lsn(), shared.wait(1).unwrap()), (1, 1));
    assert!(matches!(shared.stop().map(drop), Err(Error::Poisoned { .. })));
}

#[test]
fn a_full_disk_accepts_all_records_of_a_call_or_none_and_works_again() {
    let disk = SimDisk::new(1);
    let shared = start(&disk);
    disk.set_capacity_bytes(Some(2 * 4096));
    let mut last = 0;
    let refused = loop {
        match shared.append(&[(1, &[1; 500]), (1, &[2; 500])]) {
            Ok(lsn) => last = lsn,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::Full { .. }), "{refused}");
    assert_eq!(shared.wait(last).unwrap(), last);
    assert!(matches!(
        shared.append(&[(1, &[1; 500]), (1, &[2; 500])]),
        Err(Error::Full { .. })
    ));
    assert_eq!(shared.append(&[]).unwrap(), last);
    // A small record still fits into the existing space.
    assert_eq!(shared.append(&[(1, b"small")]).unwrap(), last + 1);
    disk.set_capacity_bytes(None);
    assert_eq!(
        shared.append(&[(1, &[1; 500]), (1, &[2; 500])]).unwrap(),
        last + 3
    );
    assert_eq!(shared.stop().unwrap().durable_lsn(), last + 3);
}

#[test]
fn limits_are_checked_and_work_runs_between_groups() {
    let disk = SimDisk::new(1);
    let shared = start(&disk);
    assert!(matches!(
        shared.append(&[(1, &[0; 1025])]),
        Err(Error::RecordTooLarge { .. })
    ));
    let large = [0; 1024];
    assert!(matches!(
        shared.append(&[(1, &large), (1, &large), (1, &large)]),
        Err(Error::GroupFull { .. })
    ));
    let full = (3072 / record_bytes(8)) as usize;
    let group = vec![(3, &large[..8]); full];
    for round in 1..=20 {
        assert_eq!(shared.append(&group).unwrap(), round * full as u64);
    }
    let last = 20 * full as u64;
    shared.wait(last).unwrap();
    let pruned = shared.with_journal(|journal| {
        journal.write_snapshot(last, |_| Ok(()))?;
        journal.prune(last)
    });
    assert!(pruned.unwrap().unwrap() > 10);
    shared
        .with_journal(|journal| journal.append(1, b"behind the back"))
        .unwrap()
        .unwrap();
    assert!(matches!(shared.append(&[(1, b"x")]), Err(Error::Poisoned { .. })));
}

#[test]
fn dropping_the_group_commit_commits() {
    let disk = SimDisk::new(1);
    let shared = start(&disk);
    let last = shared.append(&[(1, b"a"), (1, b"b"), (1, b"c")]).unwrap();
    drop(shared);
    disk.power_cut();
    let (_, recovery) = Journal::open(disk, Options::small()).unwrap();
    assert_eq!(recovery.last_lsn, last);
}
