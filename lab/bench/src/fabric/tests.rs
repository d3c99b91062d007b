//! Tests that the scenario detects faults; `tests/fabric.rs` runs the scenario itself.

use super::pipeline::{BlockTiming, differences};
use super::*;
use lineside_fabric::TxCode;
use std::time::Duration;

#[test]
fn different_and_missing_codes_are_counted() {
    use TxCode::{MvccReadConflict, Valid};
    let of = |found: &[TxCode], meant: &[TxCode]| {
        let mut wrong = crate::wrong::WrongReplies::default();
        differences(7, found, meant, &mut wrong);
        wrong
    };
    assert_eq!(
        of(&[Valid, MvccReadConflict], &[Valid, MvccReadConflict]).count,
        0
    );
    let wrong = of(&[Valid, Valid], &[Valid, MvccReadConflict]);
    assert_eq!(
        (wrong.count, wrong.first[0].request.as_str()),
        (1, "transaction 1 of block 7")
    );
    assert_eq!(of(&[Valid], &[Valid, MvccReadConflict]).count, 1);
}

#[test]
fn rates_of_tenths_are_computed_from_the_times_between_blocks() {
    let block = |number: u64| BlockTiming {
        transactions: 500,
        durable: Duration::from_millis(if number < 10 {
            10 * (number + 1)
        } else {
            20 * number - 80
        }),
        latency: Duration::ZERO,
    };
    let measured = Measured {
        blocks: (0..20).map(block).collect(),
        ..Measured::default()
    };
    let tenths = measured.tenths().unwrap();
    assert_eq!(tenths.len(), 10);
    assert!((tenths[0] - 50_000.0).abs() < 1.0, "{tenths:?}");
    assert!((tenths[9] - 25_000.0).abs() < 1.0, "{tenths:?}");
}

#[test]
fn a_latency_is_judged_only_if_the_disk_alone_is_fast_enough() {
    let latency = |p99: u64| {
        let all = (1..=100).map(|_| Duration::from_millis(p99)).collect();
        report::percentiles(40_000.0, all, None).unwrap()
    };
    assert_eq!(gates::judged_p99_ms(&latency(30), &latency(5)), Some(30.0));
    assert_eq!(gates::judged_p99_ms(&latency(30), &latency(20)), None);
}

#[test]
fn the_disk_alone_syncs_each_block_at_its_time() {
    let appends = Appends {
        blocks: 5,
        block_bytes: 4096,
        block_transactions: 10,
        offered_tps: 1000.0,
    };
    let folder = std::env::temp_dir().join(format!("lineside-disk-alone-{}", std::process::id()));
    let started = std::time::Instant::now();
    let latency = disk_alone::measure(&folder, appends).unwrap().unwrap();
    assert_eq!(latency.blocks, 5);
    // The last of five blocks arrives 40 ms after the first.
    assert!(started.elapsed() >= Duration::from_millis(40));
    assert!(latency.p50_ms > 0.0 && latency.p50_ms <= latency.max_ms);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn no_two_cases_have_the_same_name() {
    let mut names: Vec<String> = Case::others().iter().map(Case::name).collect();
    assert_eq!(GATE.name(), "");
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 11, "{names:?}");
    for judged in [workload::MAJORITY, workload::MANY_CREATORS] {
        assert!(names.iter().any(|name| name == judged), "{judged}");
    }
}

#[test]
fn a_deliver_stream_yields_the_same_blocks_and_reports_its_cost() {
    let name = format!("lineside-fabric-deliver-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    let blocks = Blocks {
        case: Case { block: 50, ..GATE },
        seed: 3,
        keys: 200,
        transactions: 200,
        cache: &folder,
    };
    let end = blocks.first() + 4;
    let all = |feed| {
        let feeder = feeder::Feeder::start(feed, blocks.open().unwrap(), end).unwrap();
        let mut all = Vec::new();
        while let Some(made) = feeder.next().unwrap() {
            all.push((made.number, made.bytes, made.codes));
        }
        assert!(feeder.spent_ns() > 0);
        feeder.end().unwrap();
        all
    };
    let read = all(Feed::Memory);
    assert_eq!(read.len() as u64, end);
    assert!(read == all(Feed::Deliver));
    std::fs::remove_dir_all(&folder).unwrap();
}
