//! State of the simulated disk: names, files, faults and power.

use super::inode::{Inode, SECTOR};
use super::rng::Rng;
use super::{Counts, Op};
use std::collections::BTreeMap;
use std::io;

/// Change of names since the last sync of the directory.
#[derive(Clone, Debug)]
enum Change {
    Set(String, usize),
    Rename(String, String, usize),
    Remove(String),
}

#[derive(Clone, Copy, Debug)]
struct Fault {
    op: Op,
    /// Number of further operations `op` until the fault happens; it happens when the number is 1.
    left: u64,
    /// True if the operation reports success without doing anything; false if it returns an error.
    skip: bool,
}

/// Outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Done,
    Skipped,
    Failed,
    /// The power fails. The field is true if the operation was done before that.
    Dies(bool),
}

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) rng: Rng,
    pub(super) names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    changes: Vec<Change>,
    pub(super) inodes: Vec<Inode>,
    /// Incremented by each power cut and kill. Files opened in an earlier epoch only return errors.
    pub(super) epoch: u64,
    pub(super) dead: bool,
    pub(super) cut_in: Option<u64>,
    faults: Vec<Fault>,
    pub(super) short_writes: bool,
    pub(super) capacity: Option<u64>,
    pub(super) counts: Counts,
}

pub(super) fn io_error() -> io::Error {
    io::Error::from_raw_os_error(5) // EIO
}

fn no_space() -> io::Error {
    io::Error::from_raw_os_error(28) // ENOSPC
}

impl State {
    pub(super) fn new(seed: u64) -> State {
        State {
            rng: Rng(seed),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            changes: Vec::new(),
            inodes: Vec::new(),
            epoch: 0,
            dead: false,
            cut_in: None,
            faults: Vec::new(),
            short_writes: false,
            capacity: None,
            counts: Counts::default(),
        }
    }

    pub(super) fn set_fault(&mut self, op: Op, left: u64, skip: bool) {
        self.faults.push(Fault { op, left, skip });
    }

    pub(super) fn clear_faults(&mut self) {
        self.faults.clear();
        self.cut_in = None;
    }

    /// Counts an operation and returns its outcome.
    pub(super) fn fate(&mut self, op: Op) -> io::Result<Fate> {
        if self.dead {
            return Err(io_error());
        }
        *self.counts.of(op) += 1;
        let mut fate = Fate::Done;
        for fault in self.faults.iter_mut().filter(|fault| fault.op == op) {
            fault.left = fault.left.saturating_sub(1);
            if fault.left == 0 {
                fate = if fault.skip { Fate::Skipped } else { Fate::Failed };
            }
        }
        self.faults.retain(|fault| fault.left > 0);
        if op != Op::Read
            && let Some(left) = &mut self.cut_in
        {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.dead = true;
                self.cut_in = None;
                fate = Fate::Dies(self.rng.below(2) == 0);
            }
        }
        Ok(fate)
    }

    /// Runs `work` according to the operation's outcome. An operation that is run this way happens completely or not at
    /// all.
    pub(super) fn run<T>(&mut self, op: Op, work: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        match self.fate(op)? {
            Fate::Done | Fate::Skipped => work(self),
            Fate::Dies(true) => work(self).and(Err(io_error())),
            Fate::Failed | Fate::Dies(false) => Err(io_error()),
        }
    }

    pub(super) fn used_bytes(&self) -> u64 {
        self.names
            .values()
            .map(|inode| self.inodes[*inode].allocated)
            .sum()
    }

    /// Allocates space for a file up to `end`, as far as the capacity allows. Returns the end of the allocated part.
    fn take_space(&mut self, inode: usize, end: u64) -> u64 {
        let has = self.inodes[inode].allocated;
        let wanted = end.next_multiple_of(SECTOR as u64).max(has);
        let free = self
            .capacity
            .map_or(u64::MAX, |c| c.saturating_sub(self.used_bytes()));
        let gets = has + (wanted - has).min(free / SECTOR as u64 * SECTOR as u64);
        self.inodes[inode].allocated = gets;
        end.min(gets)
    }

    pub(super) fn allocate(&mut self, inode: usize, length: u64) -> io::Result<()> {
        let before = self.inodes[inode].allocated;
        if self.take_space(inode, length) < length {
            self.inodes[inode].allocated = before;
            return Err(no_space());
        }
        if self.inodes[inode].now.length < length {
            self.inodes[inode].set_len(length);
        }
        Ok(())
    }

    pub(super) fn write(&mut self, inode: usize, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        let fate = self.fate(Op::Write)?;
        let mut count = bytes.len();
        if self.short_writes || matches!(fate, Fate::Failed | Fate::Dies(_)) {
            count = self.rng.pick(bytes.len() + 1);
        }
        if self.short_writes && fate == Fate::Done {
            count = count.max(1).min(bytes.len());
        }
        let end = self.take_space(inode, offset + count as u64);
        let fits = end.saturating_sub(offset).min(count as u64) as usize;
        self.inodes[inode].write(offset, &bytes[..fits]);
        match fate {
            Fate::Failed | Fate::Dies(_) => Err(io_error()),
            _ if fits == 0 && !bytes.is_empty() => Err(no_space()),
            _ => Ok(fits),
        }
    }

    pub(super) fn sync_data(&mut self, inode: usize) -> io::Result<()> {
        let fate = self.fate(Op::SyncData)?;
        let file = &mut self.inodes[inode];
        match fate {
            Fate::Skipped => Ok(()),
            Fate::Done => {
                file.sync();
                Ok(())
            }
            Fate::Failed => {
                file.fail_sync(&mut self.rng);
                Err(io_error())
            }
            Fate::Dies(done) => {
                if done {
                    file.sync();
                }
                Err(io_error())
            }
        }
    }

    pub(super) fn sync_dir(&mut self) -> io::Result<()> {
        let fate = self.fate(Op::SyncDir)?;
        if matches!(fate, Fate::Done | Fate::Dies(true)) {
            self.changes.clear();
            self.durable_names = self.names.clone();
        }
        match fate {
            Fate::Done | Fate::Skipped => Ok(()),
            _ => Err(io_error()),
        }
    }

    pub(super) fn create(&mut self, name: &str) -> io::Result<usize> {
        if self.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let inode = self.inodes.len();
        self.inodes.push(Inode::default());
        self.names.insert(name.into(), inode);
        self.changes.push(Change::Set(name.into(), inode));
        Ok(inode)
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let inode = self.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        self.names.insert(to.into(), inode);
        self.changes.push(Change::Rename(from.into(), to.into(), inode));
        Ok(())
    }

    pub(super) fn remove(&mut self, name: &str) -> io::Result<()> {
        self.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        self.changes.push(Change::Remove(name.into()));
        Ok(())
    }

    pub(super) fn put(&mut self, name: &str, content: Option<Vec<u8>>) {
        for names in [&mut self.names, &mut self.durable_names] {
            match &content {
                Some(_) => names.insert(name.into(), self.inodes.len()),
                None => names.remove(name),
            };
        }
        self.inodes.extend(content.map(Inode::durable));
    }

    /// Cuts the power. Of the changes that were not synced, all, none, or a random selection survive.
    pub(super) fn power_cut(&mut self) {
        let keep = self.rng.below(5); // out of 4
        for change in std::mem::take(&mut self.changes) {
            if self.rng.below(4) >= keep {
                continue;
            }
            match change {
                Change::Set(name, inode) => {
                    self.durable_names.insert(name, inode);
                }
                Change::Rename(from, to, inode) => {
                    self.durable_names.remove(&from);
                    self.durable_names.insert(to, inode);
                }
                Change::Remove(name) => {
                    self.durable_names.remove(&name);
                }
            }
        }
        self.names = self.durable_names.clone();
        for inode in &mut self.inodes {
            inode.power_cut(&mut self.rng, keep);
        }
        self.epoch += 1;
        self.dead = false;
        self.cut_in = None;
    }

    pub(super) fn kill(&mut self) {
        for inode in &mut self.inodes {
            inode.evict(&mut self.rng);
        }
        self.epoch += 1;
    }
}
