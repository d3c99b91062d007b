//! Steps of a repair. The repair first writes everything that needs space, and then gives the new files their names.
//! From then until the last step the journal does not open, so an interrupted repair must be repeated, and then reports
//! the same loss.

use super::plan::{Part, Plan};
use super::{RepairReport, record};
use crate::acknowledged::{MARK, name_new_mark, write_new_mark};
use crate::disk::{Disk, DiskFile, is_full, read_full, write_all};
use crate::error::{Error, Result};
use crate::format::{Header, SEGMENT_HEADER_BYTES, SEGMENT_MAGIC};
use crate::journal::take_space;
use crate::recover::remove_unfinished;
use crate::segment::{SPARE, segment_name};
use crate::verify::VerifyReport;
use crate::{Lsn, Options};
use std::io;
use std::ops::Range;

/// Number of bytes that are copied at a time.
const CHUNK: usize = 1 << 20;

/// Change of the file `acknowledged`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MarkStep {
    Keep,
    /// The file is damaged or belongs to another journal; the next opening creates a new one.
    MoveAside,
    /// The file must name an earlier record than before: the last record that remains.
    Replace(Lsn),
    /// No record remains, so the file must say that no record was acknowledged. If the field is true, the present file
    /// is moved aside first.
    BeginAgain(bool),
}

/// Segment whose bytes after the end of the journal are removed.
struct Cut {
    name: String,
    /// Name of the file with the complete copy.
    aside: String,
    bytes: Range<u64>,
}

pub(super) struct Steps<'a, D: Disk> {
    disk: &'a D,
    before: &'a VerifyReport,
    plan: &'a Plan<'a>,
    options: Options,
    report: &'a mut RepairReport,
}

impl<'a, D: Disk> Steps<'a, D> {
    pub(super) fn new(
        disk: &'a D,
        before: &'a VerifyReport,
        plan: &'a Plan<'a>,
        options: Options,
        report: &'a mut RepairReport,
    ) -> Self {
        Steps {
            disk,
            before,
            plan,
            options,
            report,
        }
    }

    /// Performs the repair. If `is_repeated` is true, an earlier repair did not end, and the files that it wrote may
    /// not be durable.
    pub(super) fn run(mut self, is_repeated: bool) -> Result<()> {
        let mark = self.mark_step()?;
        let cut = self.cut()?;
        if let Err(error) = self.write_new_files(mark, cut.as_ref()) {
            // If a removal fails, the next opening or repair removes the file.
            let _ = self
                .names()
                .and_then(|names| remove_unfinished(self.disk, &names));
            return Err(error);
        }
        self.name_new_files(cut.as_ref())?;
        for useless in &self.plan.useless {
            self.move_aside(&useless.name)?;
        }
        self.sync_dir()?;
        self.write_headers(is_repeated)?;
        self.lengthen()?;
        if let Some(cut) = cut {
            self.clear(&cut)?;
        }
        let last = self.plan.last_lsn.unwrap_or(0);
        for snapshot in &self.before.snapshots {
            if !snapshot.whole || snapshot.lsn > last {
                self.move_aside(&snapshot.file)?;
            }
        }
        // The oldest file is moved first: if the repair is interrupted, the newest files still show how far the journal
        // went.
        for later in &self.plan.later {
            self.move_aside(&later.name)?;
            self.sync_dir()?;
        }
        self.sync_dir()?;
        self.settle_mark(mark)
    }

    /// Writes everything that needs space, to files with temporary names.
    fn write_new_files(&self, mark: MarkStep, cut: Option<&Cut>) -> Result<()> {
        for (index, part) in self.plan.kept.iter().enumerate() {
            if !part.in_place {
                let header = self.plan.header(index, self.before.journal_id);
                self.write_segment(&header, Some(part))?;
            }
        }
        if let Some(lsn) = self.plan.new_lsn {
            let header = self.plan.new_header(lsn, self.before.journal_id, &self.options);
            self.write_segment(&header, None)?;
        }
        if let Some(Cut { name, aside, .. }) = cut {
            let target = format!("{aside}.tmp");
            let copied = self.copy(name, &target);
            copied.map_err(failed(aside, "copy", || self.length(name)))?;
        }
        match mark {
            MarkStep::Replace(lsn) => drop(write_new_mark(self.disk, self.before.journal_id, lsn)?),
            MarkStep::BeginAgain(_) => drop(write_new_mark(self.disk, self.before.journal_id, 0)?),
            MarkStep::Keep | MarkStep::MoveAside => {}
        }
        let missing: u64 = self.short().map(|(_, has, needs)| needs - has).sum();
        if missing > 0 {
            drop(take_space(self.disk, missing)?);
        }
        record::write(self.disk, self.report, &self.new_segments())
    }

    /// Returns the first records of the segments that the repair writes.
    fn new_segments(&self) -> Vec<Lsn> {
        let copied = self.plan.kept.iter().filter(|part| !part.in_place);
        copied
            .map(|part| part.run.first)
            .chain(self.plan.new_lsn)
            .collect()
    }

    /// Gives the new files their final names.
    fn name_new_files(&mut self, cut: Option<&Cut>) -> Result<()> {
        if let Some(Cut { name, aside, .. }) = cut {
            self.rename(&format!("{aside}.tmp"), aside)?;
            self.report
                .notes
                .push(format!("all of {name} was copied to {aside}"));
            self.report.moved.push((name.clone(), aside.clone()));
        }
        for lsn in self.new_segments() {
            let name = segment_name(lsn);
            // A file without remaining records may already have this name.
            if self.names()?.contains(&name) {
                self.move_aside(&name)?;
                self.sync_dir()?;
            }
            self.rename(&format!("{name}.tmp"), &name)?;
            self.report.made.push(name);
        }
        for Part { surveyed, run, .. } in self.plan.kept.iter().filter(|part| !part.in_place) {
            let (from, to) = (run.first, run.next - 1);
            let (source, name) = (&surveyed.name, segment_name(from));
            let note = format!("records {from} to {to} were copied from {source} to {name}");
            self.report.notes.push(note);
        }
        self.sync_dir()
    }

    /// Writes the headers of segments that stay in their files, if the header is damaged or names another previous
    /// segment. If `writes_all` is true, writes the headers of all of them.
    fn write_headers(&mut self, writes_all: bool) -> Result<()> {
        for (index, part) in self
            .plan
            .kept
            .iter()
            .enumerate()
            .filter(|(_, part)| part.in_place)
        {
            let header = self.plan.header(index, self.before.journal_id);
            let is_new = part.header() != Some(header);
            if !is_new && !writes_all {
                continue;
            }
            // The header is 64 bytes at the beginning of a sector: after a power cut these are the old bytes or the new
            // ones.
            let name = &part.surveyed.name;
            let file = self.disk.open(name).map_err(Error::io("open", name))?;
            write_all(&file, 0, &header.encode(SEGMENT_MAGIC)).map_err(Error::io("write", name))?;
            file.sync_data().map_err(Error::io("sync", name))?;
            if !is_new {
                continue;
            }
            let why = match part.header() {
                None => "it was damaged",
                Some(_) => "other records are before it now",
            };
            self.report
                .notes
                .push(format!("the header of {name} was written again: {why}"));
            self.report.rewritten.push(name.clone());
        }
        Ok(())
    }

    /// Returns the segments that stay in their files and are too short, each with its present and its right length in
    /// bytes.
    fn short(&self) -> impl Iterator<Item = (&'a str, u64, u64)> + use<'a, D> {
        let plan = self.plan;
        let lengths = |part: &'a Part<'a>| {
            let surveyed = part.surveyed;
            (
                surveyed.name.as_str(),
                surveyed.file_bytes(),
                surveyed.segment_bytes(),
            )
        };
        let in_place = plan.kept.iter().filter(|part| part.in_place).map(lengths);
        in_place.filter(|(_, has, needs)| has < needs)
    }

    /// Extends segments that are too short to their right length.
    fn lengthen(&self) -> Result<()> {
        let mut short = self.short().peekable();
        if short.peek().is_some() {
            self.disk.remove(SPARE).map_err(Error::io("remove", SPARE))?;
        }
        for (name, _, bytes) in short {
            let file = self.disk.open(name).map_err(Error::io("open", name))?;
            let done = file.allocate(bytes).and_then(|()| file.sync_data());
            done.map_err(failed(name, "lengthen", || bytes))?;
        }
        Ok(())
    }

    /// Returns how the last segment must be cut, if the bytes after its last record are more than an unfinished group,
    /// which opening the journal would cut.
    fn cut(&self) -> Result<Option<Cut>> {
        let Some(part) = self
            .plan
            .kept
            .last()
            .filter(|part| part.in_place && self.plan.new_lsn.is_none())
        else {
            return Ok(None);
        };
        let surveyed = part.surveyed;
        let (content, headless) = (surveyed.content.as_ref(), surveyed.headless.as_ref());
        let Some(tail) = content.map(|one| &one.tail).or(headless.map(|one| &one.tail)) else {
            return Ok(None);
        };
        let is_lost = self.report.lost.is_some() || self.report.dropped_from.is_some();
        if tail.used_bytes == 0 || !(is_lost || tail.durable_behind.is_some()) {
            return Ok(None);
        }
        Ok(Some(Cut {
            name: surveyed.name.clone(),
            aside: free_name(&surveyed.name, &self.names()?),
            bytes: part.run.end..part.run.end + tail.used_bytes,
        }))
    }

    /// Overwrites the bytes after the last record with zeros, which needs no further space.
    fn clear(&mut self, cut: &Cut) -> Result<()> {
        let Cut { name, bytes, .. } = cut;
        let file = self.disk.open(name).map_err(Error::io("open", name))?;
        let zeros = vec![0; CHUNK];
        let mut at = bytes.start;
        while at < bytes.end {
            let part = (bytes.end - at).min(CHUNK as u64);
            write_all(&file, at, &zeros[..part as usize]).map_err(Error::io("cut", name))?;
            at += part;
        }
        file.sync_data().map_err(Error::io("sync", name))?;
        self.report.dropped_bytes += bytes.end - bytes.start;
        self.report
            .notes
            .push(format!("{name} was cut at byte {}", bytes.start));
        Ok(())
    }

    fn mark_step(&self) -> Result<MarkStep> {
        let is_there = self.names()?.iter().any(|name| name == MARK);
        let noted = self.before.acknowledged_lsn;
        Ok(match (self.plan.last_lsn, noted) {
            (None, _) => MarkStep::BeginAgain(is_there && noted.is_none()),
            (Some(last), Some(noted)) if noted > last => MarkStep::Replace(last),
            (Some(_), None) if is_there => MarkStep::MoveAside,
            (Some(_), _) => MarkStep::Keep,
        })
    }

    /// Makes the mark name the last record that remains. This step comes last, so that an interrupted repair does not
    /// look like an intact journal.
    fn settle_mark(&mut self, step: MarkStep) -> Result<()> {
        match step {
            MarkStep::Keep => return Ok(()),
            MarkStep::MoveAside => self.move_aside(MARK)?,
            MarkStep::Replace(_) => name_new_mark(self.disk)?,
            MarkStep::BeginAgain(moves) => {
                if moves {
                    self.move_aside(MARK)?;
                }
                name_new_mark(self.disk)?;
            }
        }
        self.sync_dir()
    }

    fn names(&self) -> Result<Vec<String>> {
        self.disk.list().map_err(Error::io("list", "."))
    }

    fn sync_dir(&self) -> Result<()> {
        self.disk.sync_dir().map_err(Error::io("sync", "."))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.disk.rename(from, to).map_err(Error::io("rename", from))
    }

    fn length(&self, name: &str) -> u64 {
        self.disk.open_read(name).and_then(|file| file.len()).unwrap_or(0)
    }

    /// Moves a file aside unless an earlier attempt has done so.
    fn move_aside(&mut self, name: &str) -> Result<()> {
        if self.report.moved.iter().any(|(from, _)| from == name) {
            return Ok(());
        }
        let aside = free_name(name, &self.names()?);
        let file = self.disk.open_read(name).map_err(Error::io("open", name))?;
        self.report.dropped_bytes += file.len().map_err(Error::io("read the length of", name))?;
        self.rename(name, &aside)?;
        self.report.notes.push(format!("{name} was moved to {aside}"));
        self.report.moved.push((name.into(), aside));
        Ok(())
    }

    /// Writes a segment under a temporary name, with a copy of the records of `part`.
    fn write_segment(&self, header: &Header, part: Option<&Part<'_>>) -> Result<()> {
        let name = segment_name(header.lsn);
        let target = format!("{name}.tmp");
        let write = || {
            let file = self.disk.create(&target)?;
            file.allocate(header.segment_bytes)?;
            write_all(&file, 0, &header.encode(SEGMENT_MAGIC))?;
            if let Some(Part { surveyed, run, .. }) = part {
                let source = self.disk.open_read(&surveyed.name)?;
                copy_bytes(&source, run.offset..run.end, &file, SEGMENT_HEADER_BYTES)?;
            }
            file.sync_data()
        };
        write().map_err(failed(&name, "write", || header.segment_bytes))
    }

    fn copy(&self, from: &str, to: &str) -> io::Result<()> {
        let (source, target) = (self.disk.open_read(from)?, self.disk.create(to)?);
        copy_bytes(&source, 0..source.len()?, &target, 0)?;
        target.sync_data()
    }
}

/// Gives the segments `written` their final names, which an interrupted repair left under temporary names. If a file
/// already has such a name, it is moved aside, as that repair would have done: the records that remain of it are in one
/// of these segments.
pub(super) fn name_written_segments<D: Disk>(disk: &D, written: &[Lsn]) -> Result<()> {
    let sync = || disk.sync_dir().map_err(Error::io("sync", "."));
    for name in written.iter().map(|lsn| segment_name(*lsn)) {
        let (unfinished, names) = (
            format!("{name}.tmp"),
            disk.list().map_err(Error::io("list", "."))?,
        );
        if !names.contains(&unfinished) {
            continue;
        }
        if names.contains(&name) {
            disk.rename(&name, &free_name(&name, &names))
                .map_err(Error::io("rename", &name))?;
            sync()?;
        }
        disk.rename(&unfinished, &name)
            .map_err(Error::io("rename", &unfinished))?;
        sync()?;
    }
    Ok(())
}

/// Returns the first name `*.damaged` that is not among `names`.
fn free_name(name: &str, names: &[String]) -> String {
    let candidates = (1u32..).map(|n| match n {
        1 => format!("{name}.damaged"),
        n => format!("{name}.damaged.{n}"),
    });
    let mut free = candidates.filter(|candidate| !names.contains(candidate));
    free.next().unwrap_or_default()
}

/// Copies the bytes `from` of `source` to offset `to` of `target`.
fn copy_bytes<F: DiskFile>(source: &F, from: Range<u64>, target: &F, to: u64) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    let mut at = from.start;
    while at < from.end {
        let part = (from.end - at).min(CHUNK as u64) as usize;
        let read = read_full(source, at, &mut chunk[..part])?;
        // The missing end of a file that is too short counts as zeros, as it does when records are read.
        chunk[read..part].fill(0);
        write_all(target, to + at - from.start, &chunk[..part])?;
        at += part as u64;
    }
    Ok(())
}

/// Returns a function that converts an error of the disk into an error of the journal.
fn failed(
    file: &str,
    op: &'static str,
    needed_bytes: impl FnOnce() -> u64,
) -> impl FnOnce(io::Error) -> Error {
    move |error| match is_full(&error) {
        true => Error::Full {
            file: file.into(),
            needed_bytes: needed_bytes(),
        },
        false => Error::io(op, file)(error),
    }
}
