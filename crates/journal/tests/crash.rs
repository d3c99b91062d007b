//! Tests that cut the power at every operation of a script, and tests that leave out each sync once.

mod common;

use common::{Outcome, ReceivedResults, goes_on, group, group_beside, reopen, snapshot, text};
use lineside_journal::{Op, SimDisk};

/// Script: segments fill and change, snapshots, pruning, reopening, and processes killed after a failed sync.
fn script(disk: &SimDisk, told: &mut ReceivedResults) -> Outcome {
    let (mut journal, _) = reopen(disk, told)?;
    for records in [1, 3, 7, 1, 9, 8, 2] {
        group(&mut journal, told, records)?;
    }
    snapshot(&mut journal, told)?;
    for records in [9, 9, 1] {
        group(&mut journal, told, records)?;
    }
    journal.prune(told.snapshot).map_err(text)?;
    snapshot(&mut journal, told)?;
    group(&mut journal, told, 5)?;
    snapshot(&mut journal, told)?;
    journal.prune(told.snapshot).map_err(text)?;

    // A sync of records fails and the process is killed: the data that the next process finds may not be durable yet.
    disk.fail_nth(Op::SyncData, 1);
    expect_error(group(&mut journal, told, 3), disk)?;
    drop(journal);
    disk.kill();
    let (mut journal, _) = reopen(disk, told)?;
    group(&mut journal, told, 3)?;

    // The sync of a segment's name fails.
    disk.fail_nth(Op::SyncDir, 1);
    let failed = (0..20).try_for_each(|_| group(&mut journal, told, 4));
    expect_error(failed, disk)?;
    drop(journal);
    disk.kill();
    let (mut journal, _) = reopen(disk, told)?;
    for _ in 0..4 {
        group(&mut journal, told, 4)?;
    }

    // The sync of a snapshot's name fails, and pruning relies on that snapshot.
    disk.fail_nth(Op::SyncDir, 1);
    let before = told.snapshot;
    expect_error(snapshot(&mut journal, told), disk)?;
    told.snapshot = before;
    journal.prune(told.durable).map_err(text)?;
    group(&mut journal, told, 2)?;

    // Groups are written while others fill.
    for (records, beside) in [(2, 3), (1, 0), (4, 6), (1, 2)] {
        group_beside(&mut journal, told, records, beside)?;
    }
    Ok(())
}

/// Accepts an injected error, after which the script continues.
fn expect_error(outcome: Outcome, disk: &SimDisk) -> Outcome {
    match outcome {
        Err(error) if disk.is_dead() => Err(error),
        Err(_) => Ok(()),
        Ok(()) => Err("no error".into()),
    }
}

/// Runs the script to its end or to the power cut, and then checks every result that the caller received.
fn run(seed: u64, cut_at: Option<u64>, skip: Option<(Op, u64)>) -> Outcome {
    let disk = SimDisk::new(seed);
    if let Some(n) = cut_at {
        disk.cut_at(n);
    }
    if let Some((op, n)) = skip {
        disk.skip_nth(op, n);
    }
    let mut told = ReceivedResults::default();
    match script(&disk, &mut told) {
        Err(error) if !disk.is_dead() => return Err(format!("the script: {error}")),
        _ => disk.clear_faults(),
    }
    disk.power_cut();
    goes_on(&disk, &mut told)
}

fn changes() -> lineside_journal::Counts {
    let disk = SimDisk::new(0);
    script(&disk, &mut ReceivedResults::default()).unwrap();
    disk.counts()
}

#[test]
fn received_results_are_true_after_a_power_cut_at_any_operation() {
    let total = changes().changes();
    assert!(total > 100, "{total}");
    for cut_at in 1..=total + 1 {
        for seed in 0..16 {
            run(seed * 1000 + cut_at, Some(cut_at), None)
                .unwrap_or_else(|error| panic!("cut at {cut_at} of {total}, seed {seed}: {error}"));
        }
    }
}

/// Syncs of the script that can be left out without any loss, with the reason.
const NEEDLESS: &[(Op, u64, &str)] = &[
    (
        Op::SyncData,
        20,
        "the script makes this sync fail: its data was not acknowledged",
    ),
    (
        Op::SyncDir,
        5,
        "before pruning; the snapshot's own sync made its name durable (18 is needed: that sync failed)",
    ),
    (
        Op::SyncDir,
        6,
        "after pruning the only segment: if the segment returns, nothing is lost",
    ),
    (Op::SyncDir, 10, "before pruning, as sync 5"),
    (
        Op::SyncDir,
        12,
        "after the last segment pruned, as 6 (11, after the one before it, is needed)",
    ),
    (
        Op::SyncDir,
        13,
        "at an opening with all names durable (15 is needed: there a segment's name is not)",
    ),
    (Op::SyncDir, 14, "the script makes this sync fail"),
    (Op::SyncDir, 17, "the script makes this sync fail"),
    (Op::SyncDir, 20, "after pruning the last segment, as sync 6"),
];

/// Every other sync is necessary: without it, some power cut loses data, and the tests notice.
#[test]
fn no_sync_can_be_left_out() {
    let counts = changes();
    let mut needless = Vec::new();
    for (op, count) in [(Op::SyncData, counts.sync_datas), (Op::SyncDir, counts.sync_dirs)] {
        for n in 1..=count {
            let mut cuts = (0..24).flat_map(|seed| (0..=counts.changes()).map(move |cut| (seed, cut)));
            let lost = |(seed, cut): (u64, u64)| {
                run(seed * 1000 + cut, (cut > 0).then_some(cut), Some((op, n))).is_err()
            };
            if !cuts.any(lost) {
                needless.push((op, n));
            }
        }
    }
    let expected: Vec<_> = NEEDLESS.iter().map(|(op, n, _)| (*op, *n)).collect();
    assert_eq!(needless, expected, "of {counts:?}");
}
