//! All ways in which rows change, directly in HBase: the fast path answers before a change, and after it only once the
//! row was read again.

use crate::rig::{Rig, until};
use lineside_hbase_mini::HBase;
use std::time::{Duration, Instant};

/// Commands that are applied to row `m`, whose value is eight letters before, and true if the command changes the row.
const CHANGES: &[(&str, bool)] = &[
    ("put T changed m", true),
    ("put T changed a m z", true),
    ("delete-row T m", true),
    ("delete-column T m", true),
    ("increment T m", true),
    ("append T more m", true),
    ("check T aaaaaaaa changed m", true),
    ("check T another! changed m", false),
    ("mutate-row T changed m", true),
    ("skip-wal T changed m", true),
    ("ttl-put T changed m 600000", true),
    ("put T changed b", false),
    ("flush T", false),
    ("compact T", false),
];

/// Makes the fast path hold row `m` with a known value.
fn warm(rig: &Rig, hbase: &mut HBase, table: &str) {
    hbase.command(&format!("put {table} aaaaaaaa m")).unwrap();
    let value = until("the fast path holds the row", || {
        let value = rig.get_fastpath("m");
        (value.as_deref() == Some(b"aaaaaaaa")).then_some(value)
    });
    assert_eq!(value, rig.truth("m"));
}

/// Asks immediately after `command` is done. Returns the value, and true if the fast path answered.
fn changes(rig: &Rig, hbase: &mut HBase, table: &str, command: &str) -> (Option<Vec<u8>>, bool) {
    let before = rig.truth("m");
    hbase
        .command(&command.replace(" T", &format!(" {table}")))
        .unwrap();
    let (said, by_fastpath) = rig.get("m");
    let truth = rig.truth("m");
    assert_eq!(said, truth, "{command}: by the fast path {by_fastpath}");
    // Later answers are the same, by the fast path too.
    assert_eq!(rig.get_fastpath("m"), truth, "{command}");
    assert!(!by_fastpath || before == truth, "{command}");
    (truth, by_fastpath)
}

pub fn every_change_is_told(rig: &Rig, hbase: &mut HBase, table: &str) {
    for (command, touches) in CHANGES {
        // A lease may end at this moment, so that the fast path does not answer: a command that changes nothing is
        // tried again.
        until(command, || {
            warm(rig, hbase, table);
            let (truth, by_fastpath) = changes(rig, hbase, table, command);
            let is_changed = truth.as_deref() != Some(b"aaaaaaaa");
            assert_eq!(is_changed, *touches, "{command}");
            assert!(!by_fastpath || !touches, "{command}");
            (by_fastpath != *touches).then_some(())
        });
    }
    // A put that is older than the cell changes nothing, and is announced nevertheless.
    warm(rig, hbase, table);
    let (truth, by_fastpath) = changes(rig, hbase, table, "old-put T older m");
    assert_eq!((truth.as_deref(), by_fastpath), (Some(&b"aaaaaaaa"[..]), false));
    // More rows than fit a datagram, around the row.
    warm(rig, hbase, table);
    let rows: String = (0..200).map(|row| format!(" m{row:010}")).collect();
    let (_, by_fastpath) = changes(rig, hbase, table, &format!("put T changed a{rows}"));
    assert!(!by_fastpath);
}

pub fn every_range_is_told(rig: &Rig, hbase: &mut HBase, table: &str) {
    warm(rig, hbase, table);
    let folder = hbase.folder().join("load");
    let load = format!("bulk-load T loaded m {}", folder.display());
    let (truth, by_fastpath) = changes(rig, hbase, table, &load);
    assert_eq!((truth.as_deref(), by_fastpath), (Some(&b"loaded"[..]), false));
    // A merged region can be split only after a compaction, or if it is empty.
    for (command, left) in [("merge T", true), ("truncate T", false), ("split T k", true)] {
        warm(rig, hbase, table);
        let (truth, by_fastpath) = changes(rig, hbase, table, command);
        assert_eq!((truth.is_some(), by_fastpath), (left, false), "{command}");
    }
    cells_end_with_their_family(rig, hbase, table);
}

/// The family gets a time to live: rows that the fast path holds from then on expire with it.
fn cells_end_with_their_family(rig: &Rig, hbase: &mut HBase, table: &str) {
    warm(rig, hbase, table);
    hbase.command(&format!("ttl {table} 4")).unwrap();
    hbase.command(&format!("put {table} short m")).unwrap();
    gone_when_the_table_says_so(rig);
}

/// A cell has a time to live of its own, which only its writer knows.
pub fn cells_end_by_themselves(rig: &Rig, hbase: &mut HBase, table: &str) {
    warm(rig, hbase, table);
    hbase.command(&format!("delete-row {table} m")).unwrap();
    hbase.command(&format!("ttl-put {table} short m 4000")).unwrap();
    gone_when_the_table_says_so(rig);
}

/// Checks that the fast path answers the row, and never after the table has removed it.
fn gone_when_the_table_says_so(rig: &Rig) {
    let began = Instant::now();
    let mut fastpath = 0;
    loop {
        let truth = rig.truth("m");
        let (said, by_fastpath) = rig.get("m");
        fastpath += u32::from(by_fastpath && said.is_some());
        // The table was asked first: a row that is gone does not come back.
        assert!(truth.is_some() || said.is_none(), "the fast path {by_fastpath}");
        if truth.is_none() && by_fastpath {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30));
    }
    assert!(fastpath > 0, "the fast path never held the row");
}
