//! Repair of a damaged journal, so that it opens again, with a report of the records that this costs.

use crate::acknowledged::{Acknowledged, MARK};
use crate::disk::{Disk, DiskFile, is_full, read_full, write_all};
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::segment::lsn_of;
use crate::survey::{Content, Surveyed, survey};
use crate::verify::{SnapshotReport, VerifyReport, verify};
use crate::{Lsn, Options};
use std::ops::Range;

/// Result of [`repair`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Last record that remains, in a segment or in a snapshot.
    pub last_lsn: Lsn,
    /// First record that was dropped, if any.
    pub dropped_from: Option<Lsn>,
    /// First and last of the acknowledged records that are lost, if any. More may be lost: those acknowledged after
    /// the damage, or while the file `acknowledged` was missing or damaged.
    pub lost: Option<(Lsn, Lsn)>,
    /// First and last of the records that are no longer in any segment although segments with older records remain, if
    /// any. The newest snapshot replaces them.
    pub gap: Option<(Lsn, Lsn)>,
    /// Number of complete records that were dropped because they follow the damage; the files moved aside contain
    /// them.
    pub dropped_whole_records: u64,
    /// Number of bytes moved aside.
    pub dropped_bytes: u64,
    /// Files moved aside, as `(old name, new name)`. For a segment that was cut, the new name is a complete copy.
    pub moved: Vec<(String, String)>,
    /// Sentences for the operator: the damage found and the actions taken.
    pub notes: Vec<String>,
}

/// Keeps all valid records before the first damage, and moves the rest aside into `*.damaged`. Does nothing to a sound
/// journal. Acknowledged records may be lost, so the journal never calls this itself.
///
/// Damage before the newest intact snapshot loses no state: the snapshot remains, with the segments that continue
/// after it. If no segment does, the segments before the damage remain for the sake of their records, and the journal
/// continues after the snapshot with a new segment that names the lost records in between. Where snapshots replace no
/// records ([`Options::keep_records`], given here or recorded in the snapshots), the records before the damage remain,
/// and later snapshots are moved aside. Where neither a record nor a snapshot remains, all files are moved aside and
/// the directory contains no journal. A file `acknowledged` that is damaged or belongs to another journal is moved
/// aside, too; the next opening creates a new one.
///
/// # Errors
/// [`Error::NoJournal`], [`Error::Full`], [`Error::Io`]. After any of them the call can be repeated.
pub fn repair<D: Disk>(disk: &D, options: Options) -> Result<RepairReport> {
    options.check()?;
    let before = match verify(disk) {
        Err(Error::Missing { from, to, file }) if file == MARK => return give_up(disk, (from, to)),
        before => before?,
    };
    let mut repair = Repair {
        disk,
        report: RepairReport {
            last_lsn: before.last_lsn,
            ..RepairReport::default()
        },
    };
    if before.is_sound() {
        repair.report.notes.push("nothing is wrong".into());
        return Ok(repair.report);
    }
    for finding in &before.findings {
        let note = format!("{} at byte {}: {}", finding.file, finding.offset, finding.what);
        repair.report.notes.push(note);
    }
    repair.run(&before, options)?;
    Ok(repair.report)
}

/// Repairs a directory in which only the mark is left: afterwards it contains no journal.
fn give_up<D: Disk>(disk: &D, lost: (Lsn, Lsn)) -> Result<RepairReport> {
    let report = RepairReport {
        lost: Some(lost),
        dropped_from: Some(lost.0),
        ..RepairReport::default()
    };
    let mut repair = Repair { disk, report };
    repair.move_aside(MARK)?;
    disk.sync_dir().map_err(Error::io("sync", "."))?;
    let note = "no segment and no snapshot was found; the directory contains no journal now".into();
    repair.report.notes.push(note);
    Ok(repair.report)
}

struct Repair<'a, D: Disk> {
    disk: &'a D,
    report: RepairReport,
}

impl<D: Disk> Repair<'_, D> {
    fn run(&mut self, before: &VerifyReport, options: Options) -> Result<()> {
        let names = self.names()?;
        let all = survey(self.disk, &names, before.journal_id)?;
        let newest = if options.keep_records {
            0
        } else {
            before.covered_lsn()
        };
        let (kept, is_before_gap) = match choose(&all, newest) {
            none if none.is_empty() && newest > 0 => (oldest(&all, newest), true),
            kept => (kept, false),
        };
        let last = kept
            .clone()
            .next_back()
            .and_then(|i| all.get(i))
            .and_then(|s| s.content.as_ref());
        let stands = last.map_or(newest, |content| (content.next_lsn - 1).max(newest));
        let of_no_use = |snapshot: &&SnapshotReport| !snapshot.whole || snapshot.lsn > stands;
        for snapshot in before.snapshots.iter().filter(of_no_use) {
            self.move_aside(&snapshot.file)?;
        }
        // Newest first, so that an interrupted repair leaves no new gap.
        for surveyed in all.iter().skip(kept.end).rev().chain(all.iter().take(kept.start)) {
            self.report.dropped_whole_records += surveyed.content.as_ref().map_or(0, |content| {
                let known = content.next_lsn.saturating_sub(1).min(newest);
                let new = content.records.min(content.next_lsn.saturating_sub(1) - known);
                new + content.tail.records
            });
            self.move_aside(&surveyed.name)?;
        }
        self.disk.sync_dir().map_err(Error::io("sync", "."))?;
        self.report.last_lsn = stands;
        if let Some(content) = last {
            let is_lost = before.acknowledged_lsn.is_some_and(|lsn| lsn > stands);
            match is_before_gap {
                false => self.cut(content, is_lost)?,
                true if all.get(kept.end - 1).is_some_and(Surveyed::ends_badly) => self.cut(content, true)?,
                // Bytes after the last record of a complete segment have no meaning.
                true => {}
            }
        }
        if is_before_gap {
            // The snapshot contains all the remaining state; the journal continues after it.
            let previous = last.map_or(0, |content| content.segment.header.lsn);
            Journal::start_after_gap(self.disk, before.journal_id, options, newest + 1, previous)?;
            self.note_gap(last.map(|content| content.next_lsn), newest);
        } else if last.is_none() {
            self.report
                .notes
                .push("no record and no snapshot is left; the directory contains no journal now".into());
        }
        let behind = all.iter().any(|surveyed| surveyed.reaches_beyond(stands));
        if behind || before.snapshots.iter().any(|snapshot| snapshot.lsn > stands) {
            self.report.dropped_from = Some(stands + 1);
            self.report.notes.push(format!(
                "record {stands} is the last; all later records are dropped"
            ));
        }
        let is_left = last.is_some() || newest > 0;
        self.settle_mark(before, is_left.then_some(stands), &names)
    }

    /// Reports the records that are no longer in any segment. `next`: the record after the last one that remains.
    fn note_gap(&mut self, next: Option<Lsn>, newest: Lsn) {
        self.report.gap = next.filter(|next| *next <= newest).map(|next| (next, newest));
        if let Some((from, to)) = self.report.gap {
            self.report.notes.push(format!(
                "the segments up to record {} remain; records {from} to {to} are no longer in any segment: snapshot \
                 {to} replaces them",
                from - 1
            ));
        }
    }

    /// Makes the mark agree with what remains. This comes last: an interrupted repair must not look like a sound
    /// journal.
    fn settle_mark(&mut self, before: &VerifyReport, stands: Option<Lsn>, names: &[String]) -> Result<()> {
        let last_lsn = stands.unwrap_or(0);
        if let Some(to) = before.acknowledged_lsn.filter(|lsn| *lsn > last_lsn) {
            self.report.lost = Some((last_lsn + 1, to));
            self.report.dropped_from = Some(last_lsn + 1);
        }
        let is_there = names.iter().any(|name| name == MARK);
        match (stands, before.acknowledged_lsn) {
            (Some(lsn), Some(noted)) if noted > lsn => {
                Acknowledged::make(self.disk, before.journal_id, lsn)?;
                self.disk.sync_dir().map_err(Error::io("sync", "."))?;
            }
            (Some(_), Some(_)) => {}
            _ if is_there => {
                self.move_aside(MARK)?;
                self.disk.sync_dir().map_err(Error::io("sync", "."))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>> {
        self.disk.list().map_err(Error::io("list", "."))
    }

    fn free_name(&self, name: &str) -> Result<String> {
        let names = self.names()?;
        let candidates = (1u32..).map(|n| match n {
            1 => format!("{name}.damaged"),
            n => format!("{name}.damaged.{n}"),
        });
        Ok(candidates
            .into_iter()
            .find(|c| !names.contains(c))
            .unwrap_or_default())
    }

    fn move_aside(&mut self, name: &str) -> Result<()> {
        let aside = self.free_name(name)?;
        let file = self.disk.open_read(name).map_err(Error::io("open", name))?;
        self.report.dropped_bytes += file.len().map_err(Error::io("read the length of", name))?;
        self.disk
            .rename(name, &aside)
            .map_err(Error::io("rename", name))?;
        self.report.notes.push(format!("{name} was moved to {aside}"));
        self.report.moved.push((name.into(), aside));
        Ok(())
    }

    /// Cuts a segment after its last valid record if the rest is more than an unfinished group; keeps a complete copy
    /// aside. `is_lost`: records after the cut were acknowledged.
    fn cut(&mut self, content: &Content, is_lost: bool) -> Result<()> {
        let (name, bytes) = (&content.segment.name, content.segment.header.segment_bytes);
        let has_lost = content.tail.durable_behind.is_some() || (is_lost && content.tail.used_bytes > 0);
        if !has_lost && content.file_bytes >= bytes {
            return Ok(()); // what an opening cuts by itself
        }
        let aside = self.free_name(name)?;
        self.copy(name, &aside).map_err(|error| {
            // A partial copy would look like a complete one. The segment itself is unchanged.
            let _ = self.disk.remove(&aside);
            match is_full(&error) {
                true => Error::Full {
                    file: aside.clone(),
                    needed_bytes: bytes,
                },
                false => Error::io("copy", name)(error),
            }
        })?;
        let file = self.disk.open(name).map_err(Error::io("open", name))?;
        let cut = file
            .set_len(content.end)
            .and_then(|()| file.allocate(bytes))
            .and_then(|()| file.sync_data());
        cut.map_err(|error| match is_full(&error) {
            true => Error::Full {
                file: name.clone(),
                needed_bytes: bytes,
            },
            false => Error::io("cut", name)(error),
        })?;
        self.report.dropped_bytes += content.tail.used_bytes;
        self.report.dropped_whole_records += content.tail.records;
        let end = content.end;
        self.report
            .notes
            .push(format!("{name} was cut at byte {end}; all of it is in {aside}"));
        self.report.moved.push((name.clone(), aside));
        Ok(())
    }

    fn copy(&self, from: &str, to: &str) -> std::io::Result<()> {
        let (source, target) = (self.disk.open_read(from)?, self.disk.create(to)?);
        let mut chunk = vec![0; 1 << 20];
        let mut at = 0;
        loop {
            let read = read_full(&source, at, &mut chunk)?;
            if read == 0 {
                break;
            }
            write_all(&target, at, &chunk[..read])?;
            at += read as u64;
        }
        target.sync_data()?;
        self.disk.sync_dir()
    }
}

/// Returns the segments that remain: a range that ends with the segment that has the first damage, whose records
/// before the damage remain. Segments before the newest snapshot count only together with those after it.
fn choose(all: &[Surveyed], newest: Lsn) -> Range<usize> {
    let mut start = 0;
    while start < all.len() {
        let mut end = start;
        let mut last = None;
        // The journal cannot continue after lost records that no snapshot replaces.
        while let Some(content) = all
            .get(end)
            .filter(|surveyed| !(end > start && surveyed.begins_after(newest)))
            .and_then(|surveyed| surveyed.usable(end == start))
        {
            end += 1;
            last = Some(content.next_lsn - 1);
            if all.get(end - 1).is_some_and(|surveyed| surveyed.ends_badly()) {
                break;
            }
        }
        let first = all
            .get(start)
            .and_then(|s| s.content.as_ref())
            .map(|content| content.segment.header.lsn);
        let begins = first.is_some_and(|first| first <= newest.saturating_add(1));
        if begins && last.is_some_and(|last| last >= newest) {
            return start..end;
        }
        start = end.max(start + 1);
    }
    0..0
}

/// Returns the first segments, up to the first one that is unusable or whose end is damaged, if their records end
/// before those that the newest snapshot includes. They remain for the sake of their records.
fn oldest(all: &[Surveyed], newest: Lsn) -> Range<usize> {
    let mut end = 0;
    while let Some(content) = all.get(end).and_then(|surveyed| surveyed.usable(end == 0))
        && content.next_lsn <= newest
    {
        end += 1;
        if all[end - 1].ends_badly() {
            break;
        }
    }
    0..end
}

impl Surveyed {
    /// Returns the content if the segment's beginning is usable: it is the `first` that remains, or it continues the
    /// previous one.
    fn usable(&self, first: bool) -> Option<&Content> {
        let content = self.content.as_ref()?;
        let wrong_file = self.finding.as_ref().is_some_and(|finding| finding.offset == 0);
        let begins = self.link.is_none() || (first && self.gap);
        (begins && !wrong_file && !content.is_hollow()).then_some(content)
    }

    /// Returns whether it follows lost records that the snapshot at record `newest` does not include completely.
    fn begins_after(&self, newest: Lsn) -> bool {
        let first = self.content.as_ref().map(|content| content.segment.header.lsn);
        self.follows_gap() && first.is_some_and(|first| first > newest.saturating_add(1))
    }

    fn ends_badly(&self) -> bool {
        self.finding.as_ref().is_some_and(|finding| finding.offset > 0)
    }

    /// Returns whether it contains, or contained, a record after `lsn`. A segment that cannot be read is judged by its
    /// name.
    fn reaches_beyond(&self, lsn: Lsn) -> bool {
        match &self.content {
            Some(content) => {
                let hollow = content.is_hollow() && content.segment.header.lsn > lsn;
                hollow || content.next_lsn > lsn.saturating_add(1) || content.tail.durable_behind.is_some()
            }
            None => lsn_of(&self.name, ".log").is_some_and(|first| first > lsn),
        }
    }
}
