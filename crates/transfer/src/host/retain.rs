//! Retention: removes segments of the journal that contain only old blocks, once two snapshots replace them and, if
//! blocks are archived, once the archive has them.

use super::archive::{ArchiveWriter, last_block};
use super::{Host, OpenError};
use crate::entry::Entry;
use crate::native;
use crate::settlement::{self, Block, LEAF_BYTES};
use lineside_journal::{Disk, Journal, Lsn};
use lineside_wire::TransferCode as Code;

/// Rules for the blocks that remain in the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Number of newest blocks that remain; 0: no minimum.
    pub keep_blocks: u64,
    /// Number of days for which blocks remain; 0: no minimum.
    pub keep_days: u64,
    /// True if removed blocks are kept in archive files.
    pub archive: bool,
}

/// Result of [`Host::retain`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// Number of segments that were removed from the journal.
    pub segments: usize,
    /// Number of bytes that were written to the archive.
    pub archived_bytes: u64,
}

/// Old block in the journal.
struct OldBlock {
    number: u64,
    /// Record of its first operation.
    begins: Lsn,
}

impl Retention {
    /// Returns whether anything is ever removed.
    pub fn is_limited(&self) -> bool {
        self.keep_blocks != 0 || self.keep_days != 0
    }

    fn is_old(&self, block: &Block, blocks: u64, now_s: u64) -> bool {
        block.number.saturating_add(self.keep_blocks) <= blocks
            && block
                .sealed_s
                .saturating_add(self.keep_days.saturating_mul(86_400))
                <= now_s
    }
}

impl<D: Disk> Host<D> {
    /// Returns true if the journal has segments that retention could remove: segments whose records are in two
    /// snapshots.
    pub fn has_old_segments(&self) -> bool {
        let Ok(covered) = self.journal.snapshots().covered_lsn() else {
            return false;
        };
        let is_covered = |first: &Lsn| *first <= covered + 1;
        self.journal.segments().iter().skip(1).any(is_covered)
    }

    /// Removes old blocks from the journal at the time `now_s`. Blocks after `settled` always remain, because they
    /// have not reached their settlement yet. The host waits meanwhile.
    ///
    /// # Errors
    /// Errors of journal or archive; a block that is not archived is not removed.
    pub fn retain(&mut self, policy: &Retention, now_s: u64, settled: u64) -> Result<Retained, OpenError> {
        if !policy.is_limited() || self.failed.is_some() {
            return Ok(Retained::default());
        }
        self.settle();
        let covered = self.journal.snapshots().covered_lsn()?;
        let blocks = self.chain.blocks();
        let is_old = |block: &Block| policy.is_old(block, blocks, now_s) && block.number <= settled;
        let (old, stays_from) = old_blocks(&self.journal, covered, is_old)?;
        let may_go = |first: &&Lsn| **first <= stays_from && **first <= covered + 1;
        let Some(first) = self.journal.segments().iter().rfind(may_go).copied() else {
            return Ok(Retained::default());
        };
        if first <= self.journal.first_lsn() {
            return Ok(Retained::default());
        }
        let mut retained = Retained::default();
        if policy.archive {
            let leaving = old.iter().filter(|block| block.begins < first);
            if let Some(last) = leaving.map(|block| block.number).max() {
                retained.archived_bytes =
                    archive(&self.journal, &self.journal.snapshots().disk().clone(), last)?;
            }
        }
        retained.segments = self.journal.prune(first - 1)?;
        Ok(retained)
    }
}

/// Returns the old blocks of a journal, and the first record that remains: that of the first operation of the first
/// block that is not old.
fn old_blocks<D: Disk>(
    journal: &Journal<D>,
    covered: Lsn,
    is_old: impl Fn(&Block) -> bool,
) -> Result<(Vec<OldBlock>, Lsn), OpenError> {
    let (mut old, mut begins) = (Vec::new(), None);
    let mut records = journal.records(journal.first_lsn())?.over_gaps();
    while let Some(record) = records.next()? {
        if begins.is_none() && record.lsn > covered {
            // The snapshots do not cover this record, so this record and all later ones must remain.
            return Ok((old, record.lsn));
        }
        match Entry::from_record(record.kind, record.payload) {
            Some(Entry::Block(block)) if is_old(&block) => {
                let begins = begins.take().unwrap_or(record.lsn);
                let number = block.number;
                old.push(OldBlock { number, begins });
            }
            Some(Entry::Block(_)) => return Ok((old, begins.unwrap_or(record.lsn))),
            Some(Entry::Paper { .. } | Entry::Execute { .. } | Entry::Partly { .. } | Entry::Line(_)) => {
                begins.get_or_insert(record.lsn);
            }
            _ => {}
        }
    }
    Ok((old, begins.unwrap_or(journal.next_lsn())))
}

/// Archives the blocks up to `last` that the archive does not have; returns the number of bytes written.
fn archive<D: Disk>(journal: &Journal<D>, disk: &D, last: u64) -> Result<u64, OpenError> {
    let had = last_block(disk)?;
    if had >= last {
        return Ok(0);
    }
    let mut writer = ArchiveWriter::new(disk)?;
    let mut leaves: Vec<[u8; LEAF_BYTES]> = Vec::new();
    // The first block of a pruned journal may be incomplete; it is in the archive, if there is one.
    let mut is_within = journal.first_lsn() > 1;
    let (mut next, mut expected) = (1, journal.first_lsn());
    let mut records = journal.records(journal.first_lsn())?.over_gaps();
    while let Some(record) = records.next()? {
        if record.lsn != expected {
            // Records are lost here, and with them a part of the current block.
            is_within = true;
            leaves.clear();
        }
        expected = record.lsn + 1;
        match Entry::from_record(record.kind, record.payload) {
            Some(Entry::Block(block)) => {
                // The numbers of operations are known only after the end of the first block.
                let is_whole = !is_within && leaves.len() as u64 == block.count;
                if block.number > had && is_whole {
                    writer.push(&block, &leaves)?;
                } else if block.number > had && !is_within {
                    let number = block.number;
                    let what = format!("block {number} does not match the operations before it");
                    let lsn = record.lsn;
                    return Err(OpenError::Replay { lsn, what });
                }
                if block.number >= last {
                    return Ok(writer.finish()?);
                }
                is_within = false;
                next = block.first + block.count;
                leaves.clear();
            }
            Some(entry) => put_leaves(&entry, &mut next, &mut leaves),
            None => {}
        }
    }
    Ok(writer.finish()?)
}

/// Adds the leaves of an entry's executed operations; `next` is the number of the next operation.
pub(super) fn put_leaves(entry: &Entry, next: &mut u64, leaves: &mut Vec<[u8; LEAF_BYTES]>) {
    let before = leaves.len();
    match entry {
        Entry::Paper { request, answer } if answer.code == Code::Done => {
            leaves.push(settlement::paper_leaf(request, answer, *next));
        }
        Entry::Execute {
            operations, outcomes, ..
        }
        | Entry::Partly {
            operations, outcomes, ..
        } => {
            let executed = native::executed(operations, outcomes, next.saturating_sub(1));
            leaves.extend(executed.map(|(operation, outcome)| settlement::leaf(operation, outcome)));
        }
        Entry::Line(record) if record.code == Code::Done as u16 => {
            leaves.push(settlement::line_leaf(record, *next));
        }
        _ => {}
    }
    *next += (leaves.len() - before) as u64;
}
