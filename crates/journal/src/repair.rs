//! Makes a damaged journal one that opens, and says what that costs.

use crate::acknowledged::{Acknowledged, MARK};
use crate::disk::{Disk, DiskFile, is_full, read_full, write_all};
use crate::error::{Error, Result};
use crate::journal::Journal;
use crate::segment::lsn_of;
use crate::survey::{Content, Surveyed, survey};
use crate::verify::{SnapshotReport, VerifyReport, verify};
use crate::{Lsn, Options};
use std::ops::Range;

/// What [`repair`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// The last record that stands now, in a segment or in a snapshot.
    pub last_lsn: Lsn,
    /// The first record that was dropped, where one was.
    pub dropped_from: Option<Lsn>,
    /// The first and the last of the acknowledged records that are lost, where some are. What was acknowledged after
    /// the damage, or while the file `acknowledged` was missing or damaged, may be more.
    pub lost: Option<(Lsn, Lsn)>,
    /// The first and the last of the records that are in no segment any more, although segments with older records
    /// stay, where there are some: the newest snapshot stands for them.
    pub gap: Option<(Lsn, Lsn)>,
    /// Whole records that were dropped because they stand behind the damage; they are in the files moved aside.
    pub dropped_whole_records: u64,
    /// Bytes moved aside.
    pub dropped_bytes: u64,
    /// Files moved aside, as `(old name, new name)`; of a segment that was cut, a whole copy.
    pub moved: Vec<(String, String)>,
    /// Sentences for people: what was wrong, what was done.
    pub notes: Vec<String>,
}

/// Keeps what is valid up to the first damage and moves what follows aside into `*.damaged`. Does nothing to a journal
/// that is sound. Records that were acknowledged may be lost by it: it is never called by the journal itself.
///
/// Damage before the newest whole snapshot costs no state: what stands is the snapshot and the segments that go on from
/// it. If none does, the segments before the damage stay, for the records in them, and the journal goes on after the
/// snapshot with a new segment that says which records between are lost. Where snapshots stand for no records
/// ([`Options::keep_records`], here or as the snapshots say), the records before the damage are what stands, and later
/// snapshots are moved aside. Where neither a record nor a snapshot is left, all files are moved aside and no journal
/// is left. A file `acknowledged` that is damaged or of another journal
/// is moved aside, too; the next opening makes one.
///
/// # Errors
/// [`Error::NoJournal`], [`Error::Full`], [`Error::Io`]; it can be called again after each.
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

/// Ends a journal of which nothing but the mark is left.
fn give_up<D: Disk>(disk: &D, lost: (Lsn, Lsn)) -> Result<RepairReport> {
    let report = RepairReport {
        lost: Some(lost),
        dropped_from: Some(lost.0),
        ..RepairReport::default()
    };
    let mut repair = Repair { disk, report };
    repair.move_aside(MARK)?;
    disk.sync_dir().map_err(Error::io("sync", "."))?;
    let note = "no segment and no snapshot is here: no journal is here now".into();
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
        // From the end, so that an interrupted repair leaves no new gap.
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
                // What may follow the last record of a complete segment has no meaning.
                true => {}
            }
        }
        if is_before_gap {
            // The snapshot holds all that is left of the state; the journal goes on behind it.
            let previous = last.map_or(0, |content| content.segment.header.lsn);
            Journal::start_after_gap(self.disk, before.journal_id, options, newest + 1, previous)?;
            self.note_gap(last.map(|content| content.next_lsn), newest);
        } else if last.is_none() {
            self.report
                .notes
                .push("nothing is left: no journal is here now".into());
        }
        let behind = all.iter().any(|surveyed| surveyed.reaches_beyond(stands));
        if behind || before.snapshots.iter().any(|snapshot| snapshot.lsn > stands) {
            self.report.dropped_from = Some(stands + 1);
            self.report.notes.push(format!(
                "record {stands} is the last; those behind it are dropped"
            ));
        }
        let is_left = last.is_some() || newest > 0;
        self.settle_mark(before, is_left.then_some(stands), &names)
    }

    /// Says which records are in no segment any more. `next`: the record after the last one that stays.
    fn note_gap(&mut self, next: Option<Lsn>, newest: Lsn) {
        self.report.gap = next.filter(|next| *next <= newest).map(|next| (next, newest));
        if let Some((from, to)) = self.report.gap {
            self.report.notes.push(format!(
                "the segments up to record {} stay; records {from} to {to} are in no segment any more: snapshot {to} \
                 stands for them",
                from - 1
            ));
        }
    }

    /// Has the mark say what stands, after all else: an interrupted repair must not look like a sound journal.
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

    /// Ends a segment behind its last good record, where something stands there that is not an unfinished group; a
    /// whole copy is kept aside. `is_lost`: records behind it were acknowledged.
    fn cut(&mut self, content: &Content, is_lost: bool) -> Result<()> {
        let (name, bytes) = (&content.segment.name, content.segment.header.segment_bytes);
        let has_lost = content.tail.durable_behind.is_some() || (is_lost && content.tail.used_bytes > 0);
        if !has_lost && content.file_bytes >= bytes {
            return Ok(()); // what an opening cuts by itself
        }
        let aside = self.free_name(name)?;
        self.copy(name, &aside).map_err(|error| {
            // A part of it would look like a whole copy. The segment itself is as it was.
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

/// The segments that stay: from a first one on up to the one with the first damage, which stays as far as it is good.
/// Those before the newest snapshot matter only together with what follows it.
fn choose(all: &[Surveyed], newest: Lsn) -> Range<usize> {
    let mut start = 0;
    while start < all.len() {
        let mut end = start;
        let mut last = None;
        // After lost records for which no snapshot stands any more, nothing can go on.
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

/// The first segments, up to the first that is not usable or whose end is damaged, if their records end before those
/// that the newest snapshot stands for: they stay for what is in them.
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
    /// Whether its beginning may stand: `first` of those that stay, or continuing the one before.
    fn usable(&self, first: bool) -> Option<&Content> {
        let content = self.content.as_ref()?;
        let wrong_file = self.finding.as_ref().is_some_and(|finding| finding.offset == 0);
        let begins = self.link.is_none() || (first && self.gap);
        (begins && !wrong_file && !content.is_hollow()).then_some(content)
    }

    /// Whether it follows lost records, of which the snapshot of record `newest` does not stand for all.
    fn begins_after(&self, newest: Lsn) -> bool {
        let first = self.content.as_ref().map(|content| content.segment.header.lsn);
        self.follows_gap() && first.is_some_and(|first| first > newest.saturating_add(1))
    }

    fn ends_badly(&self) -> bool {
        self.finding.as_ref().is_some_and(|finding| finding.offset > 0)
    }

    /// Whether there is, or was, a record behind `lsn` in it. What cannot be read counts as if there were.
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
