//! Record of a repair that is not confirmed yet: a file with the loss that the repair has found. While this file
//! exists, the journal does not open, and the next repair also reports this loss, even if the files no longer show it.

use super::RepairReport;
use crate::Lsn;
use crate::disk::{Disk, DiskFile, is_full, read_full, write_all};
use crate::error::{Error, Result};
use std::io;

/// Name of the file with the record of a repair.
pub(crate) const RECORD: &str = "repair";
/// First bytes of the file with the record of a repair.
pub(crate) const MAGIC: &[u8] = b"This repair did not end";
/// Name of the record's file before it is complete.
pub(crate) const NEW_RECORD: &str = "repair.tmp";

/// Content of the record of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Recorded {
    /// Report in which only the fields about the loss are filled in.
    pub(super) loss: RepairReport,
    /// First records of the segments that the repair has written under temporary names, all of which are durable.
    pub(super) written: Vec<Lsn>,
}

/// Writes the record with the loss in `report`, and with the segments `written`. It is durable when this returns.
///
/// # Errors
/// [`Error::Full`], [`Error::Io`].
pub(super) fn write<D: Disk>(disk: &D, report: &RepairReport, written: &[Lsn]) -> Result<()> {
    let text = text_of(report, written);
    // The names of the segments in the record must be durable before the name of the record is.
    disk.sync_dir().map_err(Error::io("sync", "."))?;
    let write = || {
        let file = match disk.create(NEW_RECORD) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                disk.remove(NEW_RECORD)?;
                disk.create(NEW_RECORD)?
            }
            created => created?,
        };
        write_all(&file, 0, text.as_bytes())?;
        file.sync_data()
    };
    write().map_err(|error: io::Error| match is_full(&error) {
        true => Error::Full {
            file: RECORD.into(),
            needed_bytes: text.len() as u64,
        },
        false => Error::io("write", RECORD)(error),
    })?;
    disk.rename(NEW_RECORD, RECORD)
        .map_err(Error::io("name", RECORD))?;
    disk.sync_dir().map_err(Error::io("sync", "."))
}

/// Removes the record, if there is one: the repair is confirmed.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn remove<D: Disk>(disk: &D) -> Result<()> {
    let names = disk.list().map_err(Error::io("list", "."))?;
    if !names.iter().any(|name| name == RECORD) {
        return Ok(());
    }
    disk.remove(RECORD).map_err(Error::io("remove", RECORD))?;
    disk.sync_dir().map_err(Error::io("sync", "."))
}

/// Returns the record of a repair that is not confirmed; `None` if there is none.
///
/// # Errors
/// [`Error::Io`].
pub(super) fn read<D: Disk>(disk: &D) -> Result<Option<Recorded>> {
    let file = match disk.open_read(RECORD) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(Error::io("open", RECORD))?,
    };
    let mut bytes = vec![0; file.len().map_err(Error::io("read the length of", RECORD))? as usize];
    read_full(&file, 0, &mut bytes).map_err(Error::io("read", RECORD))?;
    Ok(Some(recorded_in(&String::from_utf8_lossy(&bytes))))
}

fn text_of(report: &RepairReport, written: &[Lsn]) -> String {
    let lost = report.lost.map(|(from, to)| format!("lost {from} {to}\n"));
    let dropped = report
        .dropped_from
        .map(|from| format!("dropped {from} {}\n", report.dropped_whole_records));
    let gaps = report.gaps.iter().map(|(from, to)| format!("gap {from} {to}\n"));
    let written = written.iter().map(|lsn| format!("written {lsn}\n"));
    let magic = String::from_utf8_lossy(MAGIC);
    let head = format!("{magic}, or its report was not confirmed; run it again.\n");
    let seen = (report.seen_lsn > 0).then(|| format!("seen {}\n", report.seen_lsn));
    std::iter::once(head)
        .chain(seen)
        .chain(lost)
        .chain(dropped)
        .chain(gaps)
        .chain(written)
        .collect()
}

fn recorded_in(text: &str) -> Recorded {
    let mut recorded = Recorded::default();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (key, mut number) = (words.next(), || {
            words.next().and_then(|word| word.parse::<Lsn>().ok())
        });
        let loss = &mut recorded.loss;
        match (key, number(), number()) {
            (Some("lost"), Some(from), Some(to)) => loss.lost = Some((from, to)),
            (Some("dropped"), Some(from), Some(count)) => {
                (loss.dropped_from, loss.dropped_whole_records) = (Some(from), count);
            }
            (Some("gap"), Some(from), Some(to)) => loss.gaps.push((from, to)),
            (Some("seen"), Some(lsn), None) => loss.seen_lsn = lsn,
            (Some("written"), Some(lsn), None) => recorded.written.push(lsn),
            _ => {}
        }
    }
    recorded
}

impl RepairReport {
    /// Adds the loss of an earlier repair whose report the operator has not received. Records that exist again, because
    /// the operator has restored files, are not lost: records up to `last_lsn` that are in no gap of this repair, and
    /// records for which `has_record` returns true.
    pub(super) fn add_earlier(&mut self, earlier: &RepairReport, has_record: impl Fn(Lsn) -> bool) {
        let note = "an earlier repair did not end, or its report could not be written; its loss is included";
        self.notes.push(note.into());
        let next = self.last_lsn + 1;
        let earlier_lost =
            (earlier.lost.map(|(from, to)| (from.max(next), to))).filter(|(from, to)| from <= to);
        self.lost = match (self.lost, earlier_lost) {
            (Some((from, to)), Some((first, last))) => Some((from.min(first), to.max(last))),
            (lost, earlier) => lost.or(earlier),
        };
        let earlier_dropped = earlier.dropped_from.filter(|from| *from >= next);
        if earlier_dropped.is_some() {
            self.dropped_whole_records = self.dropped_whole_records.max(earlier.dropped_whole_records);
        }
        self.dropped_from = self.dropped_from.into_iter().chain(earlier_dropped).min();
        self.seen_lsn = self.seen_lsn.max(earlier.seen_lsn);
        self.gaps
            .extend(earlier.gaps.iter().filter(|(from, _)| !has_record(*from)));
        self.gaps.sort_unstable();
        self.gaps.dedup();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SimDisk;

    #[test]
    fn a_repair_record_can_be_written_and_read_back() {
        let disk = SimDisk::new(1);
        assert_eq!(read(&disk).unwrap(), None);
        let report = RepairReport {
            lost: Some((8, 9)),
            dropped_from: Some(8),
            dropped_whole_records: 3,
            gaps: vec![(1, 1), (4, 6)],
            seen_lsn: 11,
            ..RepairReport::default()
        };
        for (loss, written) in [(RepairReport::default(), vec![]), (report, vec![1, 18])] {
            write(&disk, &loss, &written).unwrap();
            assert_eq!(read(&disk).unwrap(), Some(Recorded { loss, written }));
        }
        remove(&disk).unwrap();
        assert_eq!(read(&disk).unwrap(), None);
        remove(&disk).unwrap();
    }
}
