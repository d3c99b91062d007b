//! Random sequences of operations and disk faults, compared with a model: every result that a caller has received stays
//! true.

mod common;

use common::{ReceivedResults, append, check, goes_on, group, group_beside, reopen, snapshot};
use lineside_journal::{Error, Journal, Op, SimDisk};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Group(u64),
    /// Commits a group while other records are appended after it.
    Beside(u64, u64),
    /// Appends records without committing them before the next step.
    Append(u64),
    Snapshot,
    Prune,
    Prepare,
    Close,
    Kill,
    PowerCut,
    CutAt(u64),
    Fail(Op, u64),
    ShortWrites(bool),
    /// Sets the free space in sectors; `None` means unlimited space.
    Free(Option<u64>),
}

fn step() -> impl Strategy<Value = Step> {
    let op = prop_oneof![
        Just(Op::Write),
        Just(Op::SyncData),
        Just(Op::SyncDir),
        Just(Op::Allocate),
        Just(Op::Create),
        Just(Op::Rename),
        Just(Op::Remove),
    ];
    prop_oneof![
        8 => (1u64..9).prop_map(Step::Group),
        8 => (1u64..9, 0u64..5).prop_map(|(records, beside)| Step::Beside(records, beside)),
        2 => (1u64..5).prop_map(Step::Append),
        2 => Just(Step::Snapshot),
        1 => Just(Step::Prune),
        1 => Just(Step::Prepare),
        1 => Just(Step::Close),
        2 => Just(Step::Kill),
        2 => Just(Step::PowerCut),
        2 => (1u64..30).prop_map(Step::CutAt),
        2 => (op, 1u64..6).prop_map(|(op, n)| Step::Fail(op, n)),
        1 => any::<bool>().prop_map(Step::ShortWrites),
        1 => proptest::option::of(0u64..30).prop_map(Step::Free),
    ]
}

/// Runs one step. Returns `false` if the journal has to be opened again.
fn take(step: &Step, disk: &SimDisk, journal: &mut Journal<SimDisk>, told: &mut ReceivedResults) -> bool {
    let before = told.clone();
    let outcome = match step {
        Step::Group(records) => group(journal, told, *records),
        Step::Beside(records, beside) => group_beside(journal, told, *records, *beside),
        Step::Append(records) => append(journal, told, *records),
        Step::Snapshot => snapshot(journal, told),
        Step::Prune => journal.prune(told.snapshot).map(drop).map_err(common::text),
        Step::Prepare => journal.prepare().map_err(common::text),
        Step::CutAt(n) => {
            disk.cut_at(*n);
            Ok(())
        }
        Step::Fail(op, n) => {
            disk.fail_nth(*op, *n);
            Ok(())
        }
        Step::ShortWrites(short) => {
            disk.set_short_writes(*short);
            Ok(())
        }
        Step::Free(sectors) => {
            disk.set_capacity_bytes(sectors.map(|sectors| disk.used_bytes() + sectors * 512));
            Ok(())
        }
        Step::Close => return false,
        Step::Kill => {
            disk.kill();
            return false;
        }
        Step::PowerCut => {
            disk.power_cut();
            return false;
        }
    };
    if outcome.is_err() {
        assert!(told.durable >= before.durable);
        // Only a poisoned journal has to be opened again, not one after a full disk or a failed snapshot.
        return !matches!(journal.reserve(0), Err(Error::Poisoned { .. })) && !disk.is_dead();
    }
    true
}

fn run(seed: u64, steps: &[Step]) -> Result<(), String> {
    let disk = SimDisk::new(seed);
    let mut told = ReceivedResults::default();
    let mut journal = Some(reopen(&disk, &mut told)?.0);
    for step in steps {
        if let Some(mut open) = journal.take() {
            journal = take(step, &disk, &mut open, &mut told).then_some(open);
        }
        if journal.is_none() {
            if disk.is_dead() {
                disk.power_cut();
            }
            // One opening may fail because of an injected fault or a full disk; the next one must not fail.
            journal = match Journal::open(disk.clone(), lineside_journal::Options::small()) {
                Ok(_) => Some(reopen_safely(&disk, &mut told)?),
                Err(_) => {
                    disk.clear_faults();
                    disk.set_capacity_bytes(None);
                    if disk.is_dead() {
                        disk.power_cut();
                    }
                    Some(reopen(&disk, &mut told)?.0)
                }
            };
        }
        if let Some(open) = journal.as_ref().filter(|_| !disk.is_dead()) {
            check(open, &told)?;
        }
    }
    drop(journal);
    disk.clear_faults();
    disk.set_capacity_bytes(None);
    disk.power_cut();
    goes_on(&disk, &mut told)
}

fn reopen_safely(disk: &SimDisk, told: &mut ReceivedResults) -> Result<Journal<SimDisk>, String> {
    disk.clear_faults();
    Ok(reopen(disk, told)?.0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn received_results_stay_true(seed in any::<u64>(), steps in proptest::collection::vec(step(), 1..60)) {
        run(seed, &steps).map_err(TestCaseError::fail)?;
    }
}
