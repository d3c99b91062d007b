//! Recovery at opening: finds the end of the journal, cuts an unfinished group and makes the rest durable.

use crate::acknowledged::{Acknowledged, FoundMark, MAGIC as MARK_MAGIC, MARK, Mark, NEW_MARK};
use crate::disk::{Disk, DiskFile, read_full, write_all};
use crate::error::{Error, Result};
use crate::format::{SEGMENT_HEADER_BYTES, SEGMENT_MAGIC, SNAPSHOT_MAGIC, seed};
use crate::group::Group;
use crate::journal::Journal;
use crate::repair::record::{MAGIC as RECORD_MAGIC, NEW_RECORD, RECORD};
use crate::segment::{SPARE, Scan, Segment, Step, load, lsn_of};
use crate::snapshot::Snapshots;
use crate::{Lsn, Options};
use std::sync::Arc;

/// Result of opening a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// True if the journal was created by this call.
    pub created: bool,
    /// True if this call created the journal in a directory that a server had used before: a repair found no record
    /// there, or the first start of the server did not end.
    pub began_again: bool,
    /// The journal's id.
    pub journal_id: u64,
    /// First record (1, or later after pruning); `last_lsn + 1` if there is none.
    pub first_lsn: Lsn,
    /// Last record; 0 if there has never been one.
    pub last_lsn: Lsn,
    /// Number of segments.
    pub segments: usize,
    /// True if the file `acknowledged` existed and was intact, which proves that no record after `last_lsn` was
    /// acknowledged.
    pub is_proved: bool,
    /// Number of bytes of an unfinished group that were cut after `last_lsn`, counted up to the last non-zero byte.
    pub cut_bytes: u64,
    /// First record that was cut; `None` if nothing was cut.
    pub cut_lsn: Option<Lsn>,
    /// Name of the file that was cut.
    pub cut_file: Option<String>,
    /// Names of the unfinished files that were removed: segments or snapshots without their final names.
    pub removed: Vec<String>,
}

/// Checks a directory without segments. The directory is an empty journal if the mark says that no record was
/// acknowledged: the first segment never got its name, or a repair found no record.
///
/// # Errors
/// [`Error::NoJournal`] if there is no mark either; [`Error::Unrepaired`]; [`Error::Missing`] if a snapshot or the mark
/// shows that there were records; [`Error::Damaged`] if the mark is damaged; [`Error::Io`].
pub(crate) fn check_empty<D: Disk>(disk: &D, names: &[String]) -> Result<()> {
    if names.iter().any(|name| name == RECORD) {
        return Err(Error::Unrepaired);
    }
    let newest = names
        .iter()
        .filter_map(|name| Some((lsn_of(name, ".snap")?, name)));
    if let Some((to, file)) = newest.max() {
        let (from, file) = (1, file.clone());
        return Err(Error::Missing { from, to, file });
    }
    match Mark::read(disk)?.ok_or(Error::NoJournal)?.mark.lsn {
        0 => Ok(()),
        to => Err(Error::Missing {
            from: 1,
            to,
            file: MARK.into(),
        }),
    }
}

/// Returns whether the directory contains a file of a journal, recognised by its name and its first bytes: a segment, a
/// snapshot, the mark, or the record of a repair.
///
/// # Errors
/// [`Error::Io`].
pub fn has_journal<D: Disk>(disk: &D) -> Result<bool> {
    for name in disk.list().map_err(Error::io("list", "."))? {
        let magic: &[u8] = match name.as_str() {
            MARK => &MARK_MAGIC,
            RECORD => RECORD_MAGIC,
            _ if lsn_of(&name, ".log").is_some() => &SEGMENT_MAGIC,
            _ if lsn_of(&name, ".snap").is_some() => &SNAPSHOT_MAGIC,
            _ => continue,
        };
        let file = disk.open_read(&name).map_err(Error::io("open", &name))?;
        let mut bytes = vec![0; magic.len()];
        read_full(&file, 0, &mut bytes).map_err(Error::io("read", &name))?;
        if bytes == magic {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns an error if the journal of this directory was removed. A service calls this before it writes other files
/// there.
///
/// # Errors
/// The errors of `Journal::open_or_create` about missing files: [`Error::Emptied`], [`Error::Missing`],
/// [`Error::Unrepaired`], [`Error::Damaged`] for the file `acknowledged`; [`Error::Io`].
pub fn refuse_emptied<D: Disk>(disk: &D) -> Result<()> {
    let names = disk.list().map_err(Error::io("list", "."))?;
    if names.iter().any(|name| lsn_of(name, ".log").is_some()) {
        return Ok(());
    }
    match (check_empty(disk, &names), disk.used_before()) {
        (Err(Error::NoJournal), None) => Ok(()),
        // The mark is created before the first segment, so its absence shows that files were removed.
        (Err(Error::NoJournal), Some(path)) => Err(Error::Emptied { path }),
        (checked, _) => checked,
    }
}

/// End of the last segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    pub(crate) offset: u64,
    pub(crate) last_lsn: Lsn,
    /// Offset at which the last group begins; if the group began in an earlier segment, the offset of its part in this
    /// segment.
    pub(crate) group_offset: u64,
    /// Number of bytes of an unfinished group after the last record.
    pub(crate) unfinished_bytes: u64,
}

/// Opens the journal. If `is_confirmed` is true, a repair whose report was not confirmed is an error.
pub(crate) fn open<D: Disk>(disk: D, options: Options, is_confirmed: bool) -> Result<(Journal<D>, Recovery)> {
    let mut names = disk.list().map_err(Error::io("list", "."))?;
    if !is_confirmed {
        names.retain(|name| name != RECORD);
    }
    if names.iter().any(|name| name == RECORD) {
        return Err(Error::Unrepaired);
    }
    let segments = load(&disk, &names)?;
    let found = Mark::read(&disk)?;
    let Some(last) = segments.last() else {
        check_empty(&disk, &names)?;
        return Err(Error::NoJournal);
    };
    let end = find_end(&disk, last)?;
    check_snapshots(&names, &end)?;
    let journal_id = last.header.journal_id;
    if let Some(FoundMark { mark, .. }) = found {
        mark.check(journal_id, end.last_lsn, &last.name, end.offset)?;
    }

    let file = disk.open(&last.name).map_err(Error::io("open", &last.name))?;
    settle(&file, last, &end)?;
    let removed = remove_unfinished(&disk, &names)?;
    // The previous process may have been killed between renaming a file and making the name durable.
    disk.sync_dir().map_err(Error::io("sync", "."))?;
    // This must follow the sync of the directory, because the mark requires that the name of the last segment is
    // durable.
    let acknowledged = Acknowledged::open(&disk, journal_id, end.last_lsn)?;

    let cut = end.unfinished_bytes > 0;
    let recovery = Recovery {
        created: false,
        began_again: false,
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

/// Reads the last segment to its end. An unfinished group at the end is not an error; a durable record that is
/// incomplete is an error. A server may write to the segment meanwhile.
pub(crate) fn find_end<D: Disk>(disk: &D, last: &Segment) -> Result<End> {
    let (_, file) = Segment::open(disk, &last.name)?;
    let read_error = || Error::io("read", &last.name);
    let mut scan = Scan::new(last, file);
    let (mut group_lsn, mut group_offset) = (0, SEGMENT_HEADER_BYTES);
    let tail = loop {
        let what = loop {
            match scan.step().map_err(read_error())? {
                Step::Record(place) if place.head.group_lsn() != group_lsn => {
                    (group_lsn, group_offset) = (place.head.group_lsn(), place.offset);
                }
                Step::Record(_) => {}
                Step::End => break "no record is there",
                Step::Bad(what) => break what,
            }
        };
        let tail = scan.tail().map_err(read_error())?;
        let hollow = last.is_rolled() && scan.next_lsn == last.header.lsn;
        if !hollow && tail.durable_behind.is_none() {
            break tail;
        }
        // A server may have written this record and later ones after the scan had read this place.
        if !scan.has_next_by_now().map_err(read_error())? {
            return Err(Error::Damaged {
                file: last.name.clone(),
                offset: scan.offset,
                lsn: scan.next_lsn,
                what,
            });
        }
    };
    Ok(End {
        offset: scan.offset,
        last_lsn: scan.next_lsn - 1,
        group_offset,
        unfinished_bytes: tail.used_bytes,
    })
}

/// Checks that the newest snapshot is not ahead of the records: a snapshot is written only after its record is durable.
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

/// Makes the end of the journal durable: writes the last group again, and zeros after it to the end of the segment.
///
/// After a failed fdatasync the page cache may contain data that can be read, but that no later fdatasync writes: the
/// last group of the process that failed, or zeros that an opening wrote before it failed. All earlier groups are
/// durable, because each was synced before the next one was written.
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

/// Returns whether the name of a file is a temporary one, given by a writer or by a repair.
pub(crate) fn is_unfinished(name: &str) -> bool {
    let of_repair =
        || lsn_of(name, ".log.tmp").is_some() || (name.contains(".damaged") && name.ends_with(".tmp"));
    [SPARE, NEW_MARK, NEW_RECORD].contains(&name) || lsn_of(name, ".snap.tmp").is_some() || of_repair()
}

/// Removes the files with temporary names. If a power cut restores a file, the next opening removes it again.
pub(crate) fn remove_unfinished<D: Disk>(disk: &D, names: &[String]) -> Result<Vec<String>> {
    let unfinished: Vec<String> = names.iter().filter(|name| is_unfinished(name)).cloned().collect();
    for name in &unfinished {
        disk.remove(name).map_err(Error::io("remove", name))?;
    }
    Ok(unfinished)
}
