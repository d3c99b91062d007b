//! Finding the end of a journal.

use crate::acknowledged::{Acknowledged, Found, MARK, Mark, NEW_MARK};
use crate::disk::{Disk, DiskFile, read_full, write_all};
use crate::error::{Error, Result};
use crate::format::{SEGMENT_HEADER_BYTES, seed};
use crate::group::Group;
use crate::journal::Journal;
use crate::segment::{SPARE, Scan, Segment, Step, load, lsn_of};
use crate::snapshot::Snapshots;
use crate::{Lsn, Options};
use std::sync::Arc;

/// What opening found, and what it did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Whether the journal was made just now.
    pub created: bool,
    /// The journal's id.
    pub journal_id: u64,
    /// The first record there is (1, or later after pruning); `last_lsn + 1` when there is none.
    pub first_lsn: Lsn,
    /// The last record; 0 when there never was one.
    pub last_lsn: Lsn,
    /// Segments there are.
    pub segments: usize,
    /// True if the file `acknowledged` existed and was sound, which proves that no record after `last_lsn` was
    /// acknowledged.
    pub is_proved: bool,
    /// Bytes of an unfinished group behind `last_lsn` that were cut, up to its last byte that was not zero.
    pub cut_bytes: u64,
    /// The first record that was cut. `None` when nothing was cut.
    pub cut_lsn: Option<Lsn>,
    /// Where it was cut.
    pub cut_file: Option<String>,
    /// Unfinished files that were removed: a segment or snapshot that had not got its name yet.
    pub removed: Vec<String>,
}

/// Error for a directory that has a mark but neither segments nor snapshots.
pub(crate) fn without_segments(found: Found) -> Error {
    match found.mark.lsn {
        // Its first segment was never named: nothing was ever acknowledged.
        0 => Error::NoJournal,
        to => Error::Missing {
            from: 1,
            to,
            file: MARK.into(),
        },
    }
}

/// The last segment's end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) offset: u64,
    pub(crate) last_lsn: Lsn,
    /// Where the last group begins, as far as it lies in this segment.
    pub(crate) group_offset: u64,
    /// Bytes of an unfinished group behind.
    pub(crate) unfinished_bytes: u64,
}

pub(crate) fn open<D: Disk>(disk: D, options: Options) -> Result<(Journal<D>, Recovery)> {
    let names = disk.list().map_err(Error::io("list", "."))?;
    let segments = load(&disk, &names)?;
    let found = Mark::read(&disk)?;
    let Some(last) = segments.last() else {
        return match names.iter().find_map(|name| Some((name, lsn_of(name, ".snap")?))) {
            Some((name, lsn)) => Err(Error::Missing {
                from: 1,
                to: lsn,
                file: name.clone(),
            }),
            None => Err(found.map_or(Error::NoJournal, without_segments)),
        };
    };
    let end = find_end(&disk, last)?;
    check_snapshots(&names, &end)?;
    let journal_id = last.header.journal_id;
    if let Some(Found { mark, .. }) = found {
        mark.check(journal_id, end.last_lsn, &last.name, end.offset)?;
    }

    let file = disk.open(&last.name).map_err(Error::io("open", &last.name))?;
    settle(&file, last, &end)?;
    let removed = remove_unfinished(&disk, &names)?;
    // The process before may have been killed between naming a file and making the name durable.
    disk.sync_dir().map_err(Error::io("sync", "."))?;
    // Only now: it counts on the last segment's name.
    let acknowledged = Acknowledged::open(&disk, journal_id, end.last_lsn)?;

    let cut = end.unfinished_bytes > 0;
    let recovery = Recovery {
        created: false,
        journal_id,
        first_lsn: segments.first().map_or(1, |first| first.header.lsn),
        last_lsn: end.last_lsn,
        is_proved: found.is_some_and(|found| found.is_whole),
        segments: segments.len(),
        cut_bytes: end.unfinished_bytes,
        cut_lsn: cut.then_some(end.last_lsn + 1),
        cut_file: cut.then(|| last.name.clone()),
        removed,
    };
    let journal = Journal {
        snapshots: Snapshots::new(disk.clone(), journal_id, options.keep_records),
        disk,
        journal_id,
        seed: seed(journal_id),
        options,
        segment_bytes: last.header.segment_bytes,
        segments: segments.iter().map(|segment| segment.header.lsn).collect(),
        file: Arc::new(file),
        end: end.offset,
        spare: None,
        group: Group::starting_at(end.last_lsn + 1),
        is_under_way: false,
        memory: Vec::new(),
        durable_lsn: end.last_lsn,
        acknowledged: Arc::new(acknowledged),
        poison: None,
    };
    Ok((journal, recovery))
}

/// Reads the last segment to its end. An unfinished group behind it is no error; a record that was durable and is not
/// whole is one.
pub(crate) fn find_end<D: Disk>(disk: &D, last: &Segment) -> Result<End> {
    let (_, file) = Segment::open(disk, &last.name)?;
    let read_error = || Error::io("read", &last.name);
    let mut scan = Scan::new(last, file);
    let (mut group_lsn, mut group_offset) = (0, SEGMENT_HEADER_BYTES);
    let what = loop {
        match scan.step().map_err(read_error())? {
            Step::Record(place) if place.head.group_lsn() != group_lsn => {
                (group_lsn, group_offset) = (place.head.group_lsn(), place.offset);
            }
            Step::Record(_) => {}
            Step::End => break "there is nothing",
            Step::Bad(what) => break what,
        }
    };
    let tail = scan.tail().map_err(read_error())?;
    let hollow = last.is_rolled() && scan.next_lsn == last.header.lsn;
    if hollow || tail.durable_behind.is_some() {
        return Err(Error::Damaged {
            file: last.name.clone(),
            offset: scan.offset,
            lsn: scan.next_lsn,
            what,
        });
    }
    Ok(End {
        offset: scan.offset,
        last_lsn: scan.next_lsn - 1,
        group_offset,
        unfinished_bytes: tail.used_bytes,
    })
}

/// A snapshot is written only after its record was durable.
fn check_snapshots(names: &[String], end: &End) -> Result<()> {
    let newest = names
        .iter()
        .filter_map(|name| Some((lsn_of(name, ".snap")?, name)))
        .max();
    match newest {
        Some((lsn, name)) if lsn > end.last_lsn => Err(Error::Missing {
            from: end.last_lsn + 1,
            to: lsn,
            file: name.clone(),
        }),
        _ => Ok(()),
    }
}

/// Makes durable what was found: writes the last group again, and zeros behind it to the segment's end.
///
/// A process whose fdatasync failed may have left pages that read as written and that no later fdatasync writes, its
/// last group's, or zeros of an opening that failed. Every group before was synced before the next was written.
fn settle(file: &impl DiskFile, last: &Segment, end: &End) -> Result<()> {
    let mut chunk = vec![0; 1 << 20];
    let mut at = end.group_offset;
    while at < end.offset {
        let part = (end.offset - at).min(chunk.len() as u64) as usize;
        let read = read_full(file, at, &mut chunk[..part]).map_err(Error::io("read", &last.name))?;
        if read < part {
            let source = std::io::ErrorKind::UnexpectedEof.into();
            return Err(Error::io("read", &last.name)(source));
        }
        write_all(file, at, &chunk[..part]).map_err(Error::io("write", &last.name))?;
        at += part as u64;
    }
    chunk.fill(0);
    while at < last.header.segment_bytes {
        let part = (last.header.segment_bytes - at).min(chunk.len() as u64) as usize;
        write_all(file, at, &chunk[..part]).map_err(Error::io("write", &last.name))?;
        at += part as u64;
    }
    file.sync_data().map_err(Error::io("sync", &last.name))
}

/// Removes files that have not got their names yet. Should the removal not last, the next opening does it again.
fn remove_unfinished<D: Disk>(disk: &D, names: &[String]) -> Result<Vec<String>> {
    let unfinished =
        |name: &&String| [SPARE, NEW_MARK].contains(&name.as_str()) || lsn_of(name, ".snap.tmp").is_some();
    let unfinished: Vec<String> = names.iter().filter(unfinished).cloned().collect();
    for name in &unfinished {
        disk.remove(name).map_err(Error::io("remove", name))?;
    }
    Ok(unfinished)
}
