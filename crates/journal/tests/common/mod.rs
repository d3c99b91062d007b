//! Model of the results that a caller has received, and a check that they are still true after a power cut.
#![allow(dead_code, reason = "each test uses a part")]

use lineside_journal::{Error, Journal, Lsn, Options, Recovery, SimDisk};
use std::io::{Read, Write};

/// Returns the payload of this record. The lengths of the payloads go from 0 to the maximum.
pub fn payload(lsn: Lsn) -> Vec<u8> {
    let length = if lsn.is_multiple_of(13) {
        1024
    } else {
        lsn * 37 % 300
    };
    (0..length).map(|i| (i * 7 + lsn * 3) as u8 | 1).collect()
}

/// Returns the content of a snapshot after this record.
pub fn state(lsn: Lsn) -> Vec<u8> {
    (0..lsn * 20).map(|i| (i * 5 + lsn) as u8).collect()
}

/// Results that a caller received.
#[derive(Clone, Debug, Default)]
pub struct ReceivedResults {
    /// Last record reported as durable.
    pub durable: Lsn,
    /// Number of the last record that was appended. No later record may exist.
    pub appended: Lsn,
    /// Newest snapshot that was written.
    pub snapshot: Lsn,
}

pub type Outcome<T = ()> = Result<T, String>;

pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Appends `records`.
pub fn append(journal: &mut Journal<SimDisk>, told: &mut ReceivedResults, records: u64) -> Outcome {
    for _ in 0..records {
        let lsn = journal.next_lsn();
        journal.append(lsn as u8, &payload(lsn)).map_err(text)?;
        told.appended = told.appended.max(lsn);
    }
    Ok(())
}

/// Appends a group of `records` and commits it.
pub fn group(journal: &mut Journal<SimDisk>, told: &mut ReceivedResults, records: u64) -> Outcome {
    append(journal, told, records)?;
    told.durable = journal.commit().map_err(text)?;
    Ok(())
}

/// Appends a group of `records` records and commits it. Appends `beside` further records while the group is written;
/// these are not committed.
pub fn group_beside(
    journal: &mut Journal<SimDisk>,
    told: &mut ReceivedResults,
    records: u64,
    beside: u64,
) -> Outcome {
    append(journal, told, records)?;
    let before = told.durable;
    let Some(commit) = journal.begin_commit().map_err(text)? else {
        told.durable = journal.durable_lsn();
        return append(journal, told, beside);
    };
    let appended = append(journal, told, beside);
    if journal.durable_lsn() != before || !matches!(journal.commit(), Err(Error::UnderWay)) {
        return Err("a group that is being written counts as durable, or another one overtook it".into());
    }
    told.durable = journal.end_commit(commit.run()).map_err(text)?;
    appended
}

pub fn snapshot(journal: &mut Journal<SimDisk>, told: &mut ReceivedResults) -> Outcome {
    let lsn = journal.durable_lsn();
    journal
        .write_snapshot(lsn, |w| w.write_all(&state(lsn)))
        .map_err(text)?;
    told.snapshot = lsn;
    Ok(())
}

/// Opens the journal and compares its content with the results received before.
pub fn reopen(disk: &SimDisk, told: &mut ReceivedResults) -> Outcome<(Journal<SimDisk>, Recovery)> {
    let opened = Journal::open_or_create(disk.clone(), 77, Options::small()).map_err(text)?;
    let (journal, recovery) = &opened;
    let last = recovery.last_lsn;
    if last < told.durable || last > told.appended {
        return Err(format!(
            "the journal has the records up to {last}, but the caller received {told:?}"
        ));
    }
    told.durable = last;
    told.appended = last;
    check(journal, told)?;
    Ok(opened)
}

/// Checks that the newest snapshot and the records after it give the state, and that all records are correct.
pub fn check(journal: &Journal<SimDisk>, told: &ReceivedResults) -> Outcome {
    let latest = journal.latest_snapshot().map_err(text)?;
    if let Some(damaged) = latest.damaged.first() {
        return Err(format!("{damaged:?}"));
    }
    let mut base = 0;
    if let Some(mut snapshot) = latest.snapshot {
        let mut read = Vec::new();
        snapshot.read_to_end(&mut read).map_err(text)?;
        if read != state(snapshot.lsn) {
            return Err(format!("snapshot {} has another content", snapshot.lsn));
        }
        base = snapshot.lsn;
    }
    if base < told.snapshot || journal.first_lsn() > base + 1 {
        let first = journal.first_lsn();
        return Err(format!(
            "snapshot {base} and the records from {first} do not give the state; received: {told:?}"
        ));
    }
    let mut next = journal.first_lsn();
    let mut records = journal.records(next).map_err(text)?;
    loop {
        let record = match records.next() {
            Ok(None) => break,
            // The records are lost, as a repair has reported, and the snapshot replaces them.
            Err(Error::Missing { from, to, .. }) if from == next && to <= base => {
                next = to + 1;
                records = journal.records(next).map_err(text)?;
                continue;
            }
            Ok(Some(record)) => record,
            Err(error) => return Err(text(error)),
        };
        if record.lsn != next || record.kind != next as u8 || record.payload != payload(next) {
            return Err(format!("record {next} has another content: {record:?}"));
        }
        next += 1;
    }
    if next != journal.durable_lsn() + 1 {
        return Err(format!(
            "the replay ends before record {next}, but the caller received {told:?}"
        ));
    }
    Ok(())
}

/// Checks that the journal can be used further: more groups, past the end of a segment, and another power cut.
pub fn goes_on(disk: &SimDisk, told: &mut ReceivedResults) -> Outcome {
    let (mut journal, _) = reopen(disk, told)?;
    for records in [1, 4, 9, 4] {
        group(&mut journal, told, records)?;
    }
    snapshot(&mut journal, told)?;
    drop(journal);
    disk.power_cut();
    let (_, recovery) = reopen(disk, told)?;
    if recovery.cut_bytes > 0 {
        return Err(format!(
            "opening cut something although no group was unfinished: {recovery:?}"
        ));
    }
    Ok(())
}
