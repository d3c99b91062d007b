//! Test of all ways in which rows can change directly in HBase. The fast path answers the row before a change, and
//! after the change only when the row was read again.

use crate::rig::{Rig, until};
use lineside_hbase_mini::HBase;
use std::time::{Duration, Instant};

/// Commands that are applied to row `m`, and for each of them, true if the command changes the row. The row's value has
/// eight letters before.
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

/// Reads row `m` until the fast path has it, with a known value.
fn warm(rig: &Rig, hbase: &mut HBase, table: &str) {
    hbase.command(&format!("put {table} aaaaaaaa m")).unwrap();
    let value = until("the fast path holds the row", || {
        let value = rig.get_fastpath("m");
        (value.as_deref() == Some(b"aaaaaaaa")).then_some(value)
    });
    assert_eq!(value, rig.truth("m"));
}

/// Executes `command`, then reads row `m` at once. Returns the value, and true if the fast path answered.
fn changes(rig: &Rig, hbase: &mut HBase, table: &str, command: &str) -> (Option<Vec<u8>>, bool) {
    let before = rig.truth("m");
    hbase
        .command(&command.replace(" T", &format!(" {table}")))
        .unwrap();
    let (said, by_fastpath) = rig.get("m");
    let truth = rig.truth("m");
    assert_eq!(said, truth, "{command}: by the fast path {by_fastpath}");
    // Later answers, also those of the fast path, have the same value.
    assert_eq!(rig.get_fastpath("m"), truth, "{command}");
    assert!(!by_fastpath || before == truth, "{command}");
    (truth, by_fastpath)
}

pub fn every_change_is_told(rig: &Rig, hbase: &mut HBase, table: &str) {
    for (command, touches) in CHANGES {
        // A lease may end at this moment, and then the fast path does not answer. So a command that changes nothing is
        // repeated until the fast path has answered.
        until(command, || {
            warm(rig, hbase, table);
            let (truth, by_fastpath) = changes(rig, hbase, table, command);
            let is_changed = truth.as_deref() != Some(b"aaaaaaaa");
            assert_eq!(is_changed, *touches, "{command}");
            assert!(!by_fastpath || !touches, "{command}");
            (by_fastpath != *touches).then_some(())
        });
    }
    // A put with an older timestamp than the cell changes nothing, but is announced nevertheless.
    warm(rig, hbase, table);
    let (truth, by_fastpath) = changes(rig, hbase, table, "old-put T older m");
    assert_eq!((truth.as_deref(), by_fastpath), (Some(&b"aaaaaaaa"[..]), false));
    // The command changes more rows than fit a datagram; row `m` lies among them.
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
    // HBase splits a merged region only after a compaction, or if it is empty.
    for (command, left) in [("merge T", true), ("truncate T", false), ("split T k", true)] {
        warm(rig, hbase, table);
        let (truth, by_fastpath) = changes(rig, hbase, table, command);
        assert_eq!((truth.is_some(), by_fastpath), (left, false), "{command}");
    }
    cells_end_with_their_family(rig, hbase, table);
}

/// Gives the family a time to live. Rows that the fast path reads from then on expire with it.
fn cells_end_with_their_family(rig: &Rig, hbase: &mut HBase, table: &str) {
    warm(rig, hbase, table);
    hbase.command(&format!("ttl {table} 4")).unwrap();
    hbase.command(&format!("put {table} short m")).unwrap();
    gone_when_the_table_says_so(rig);
}

/// Writes a cell with its own time to live, of which only its writer knows.
pub fn cells_end_by_themselves(rig: &Rig, hbase: &mut HBase, table: &str) {
    warm(rig, hbase, table);
    hbase.command(&format!("delete-row {table} m")).unwrap();
    hbase.command(&format!("ttl-put {table} short m 4000")).unwrap();
    gone_when_the_table_says_so(rig);
}

/// Checks that the fast path answers the row, and no longer does when the table has removed it.
fn gone_when_the_table_says_so(rig: &Rig) {
    let began = Instant::now();
    let mut fastpath = 0;
    loop {
        let truth = rig.truth("m");
        let (said, by_fastpath) = rig.get("m");
        fastpath += u32::from(by_fastpath && said.is_some());
        // The table was read before the fast path, and a removed row does not come back.
        assert!(truth.is_some() || said.is_none(), "the fast path {by_fastpath}");
        if truth.is_none() && by_fastpath {
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(30));
    }
    assert!(fastpath > 0, "the fast path never held the row");
}
