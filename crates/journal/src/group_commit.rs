//! Many callers, one committer.

use crate::Lsn;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::format::record_bytes;
use crate::group::{Group, check_payload};
use crate::journal::Journal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A journal with a thread that commits. Callers hand in records and wait for, or poll, the durable number; while one
/// group syncs, the next fills. Dropping it commits what was handed in.
///
/// ```
/// use lineside_journal::{GroupCommit, Journal, Options, SimDisk};
///
/// let journal = Journal::create(SimDisk::new(1), 7, Options::small())?;
/// let shared = GroupCommit::start(journal)?;
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| shared.wait(shared.append(&[(1, b"debit"), (2, b"credit")])?));
///     }
/// });
/// assert_eq!(shared.stop()?.durable_lsn(), 8);
/// # Ok::<(), lineside_journal::Error>(())
/// ```
pub struct GroupCommit<D: Disk> {
    shared: Arc<Shared<D>>,
    committer: Option<JoinHandle<()>>,
}

struct Shared<D: Disk> {
    /// Held while a group is written. Locked before `filling` where both are.
    journal: Mutex<Option<Journal<D>>>,
    filling: Mutex<Filling>,
    /// There is something to commit, or the end.
    work: Condvar,
    /// A group is durable, or never will be.
    done: Condvar,
    durable_lsn: AtomicU64,
    seed: u32,
    record_bytes_max: u32,
    group_bytes_max: u64,
}

struct Filling {
    group: Group,
    /// Bytes that the group may have: they fit behind all that was handed in before, in space that the disk has given.
    room_bytes: u64,
    poison: Option<Arc<str>>,
    stopping: bool,
}

/// A caller's panic leaves nothing half-done here: every change under these locks is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stopped() -> Error {
    let cause = "it was stopped".into();
    Error::Poisoned { cause }
}

impl Filling {
    fn alive(&self) -> Result<()> {
        match &self.poison {
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
            None => Ok(()),
        }
    }
}

impl<D: Disk> GroupCommit<D> {
    /// Starts the committer.
    ///
    /// # Errors
    /// [`Error::Io`] when there is no thread to be had; [`Error::Poisoned`].
    pub fn start(mut journal: Journal<D>) -> Result<GroupCommit<D>> {
        journal.commit()?;
        let filling = Filling {
            group: Group::starting_at(journal.next_lsn()),
            room_bytes: journal.room_bytes(),
            poison: None,
            stopping: false,
        };
        let shared = Arc::new(Shared {
            durable_lsn: AtomicU64::new(journal.durable_lsn()),
            seed: journal.seed,
            record_bytes_max: journal.options.record_bytes_max,
            group_bytes_max: journal.options.group_bytes_max,
            journal: Mutex::new(Some(journal)),
            filling: Mutex::new(filling),
            work: Condvar::new(),
            done: Condvar::new(),
        });
        let theirs = shared.clone();
        let committer = std::thread::Builder::new()
            .name("journal".into())
            .spawn(move || theirs.run())
            .map_err(Error::io("start a thread for", "."))?;
        Ok(GroupCommit {
            shared,
            committer: Some(committer),
        })
    }

    /// Hands in records, which get consecutive numbers and stay together; the number of the last. All or none are
    /// taken. They are durable when [`Self::durable_lsn`] has reached it. No records: the last number given out.
    ///
    /// # Errors
    /// [`Error::Full`] (nothing was taken; works again when there is space), [`Error::RecordTooLarge`],
    /// [`Error::GroupFull`] when they are longer than a group, [`Error::Poisoned`], [`Error::Io`].
    pub fn append(&self, records: &[(u8, &[u8])]) -> Result<Lsn> {
        let shared = &*self.shared;
        let mut bytes = 0;
        for (_, payload) in records {
            check_payload(payload, shared.record_bytes_max)?;
            bytes += record_bytes(payload.len());
        }
        if bytes > shared.group_bytes_max {
            let max_bytes = shared.group_bytes_max;
            return Err(Error::GroupFull { bytes, max_bytes });
        }
        let mut filling = lock(&shared.filling);
        while filling.group.len() + bytes > filling.room_bytes {
            filling.alive()?;
            drop(filling);
            filling = shared.make_room(bytes)?;
        }
        filling.alive()?;
        if records.is_empty() {
            return Ok(filling.group.next_lsn() - 1);
        }
        let was_empty = filling.group.records == 0;
        let mut last = 0;
        for (kind, payload) in records {
            last = filling.group.push(shared.seed, *kind, payload);
        }
        if was_empty {
            shared.work.notify_one();
        }
        Ok(last)
    }

    /// Waits until record `lsn` is durable; the last durable one.
    ///
    /// # Errors
    /// [`Error::Poisoned`] when it will not be; [`Error::NotThere`] when no such number was given out.
    pub fn wait(&self, lsn: Lsn) -> Result<Lsn> {
        let shared = &*self.shared;
        let mut filling = lock(&shared.filling);
        loop {
            let durable = self.durable_lsn();
            if durable >= lsn {
                return Ok(durable);
            }
            filling.alive()?;
            if lsn >= filling.group.next_lsn() {
                return Err(Error::NotThere { lsn, durable });
            }
            filling = shared.done.wait(filling).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The last durable record. Does not block.
    pub fn durable_lsn(&self) -> Lsn {
        self.shared.durable_lsn.load(Ordering::Acquire)
    }

    /// The first error that ended writing, if one did. Waits for no disk.
    pub fn poisoned(&self) -> Option<Error> {
        lock(&self.shared.filling).alive().err()
    }

    /// Runs `work` on the journal between two groups: to replay, prune or take a snapshot. Records come by
    /// [`Self::append`] only: numbers that `work` took itself would be given out twice, so that ends writing.
    ///
    /// # Errors
    /// [`Error::Poisoned`] when the journal is gone; what `work` returns says how it fared.
    pub fn with_journal<T>(&self, work: impl FnOnce(&mut Journal<D>) -> T) -> Result<T> {
        let mut journal = lock(&self.shared.journal);
        let journal = journal.as_mut().ok_or_else(stopped)?;
        let next_lsn = journal.next_lsn();
        let result = work(journal);
        if journal.next_lsn() != next_lsn {
            journal.poison = Some("records were appended behind the committer's back".into());
        }
        self.shared.take_over(journal, &mut lock(&self.shared.filling));
        Ok(result)
    }

    /// Commits what was handed in, ends the thread and gives the journal back.
    ///
    /// # Errors
    /// [`Error::Poisoned`] and [`Error::Io`] when it could not be committed.
    pub fn stop(mut self) -> Result<Journal<D>> {
        self.end();
        lock(&self.shared.filling).alive()?;
        lock(&self.shared.journal).take().ok_or_else(stopped)
    }

    fn end(&mut self) {
        lock(&self.shared.filling).stopping = true;
        self.shared.work.notify_all();
        if let Some(committer) = self.committer.take()
            && committer.join().is_err()
        {
            let mut filling = lock(&self.shared.filling);
            filling
                .poison
                .get_or_insert_with(|| "the committer panicked".into());
        }
    }
}

impl<D: Disk> Drop for GroupCommit<D> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<D: Disk> Shared<D> {
    /// The committer: a group at a time until the end.
    fn run(&self) {
        loop {
            let mut filling = lock(&self.filling);
            while filling.group.records == 0 && !filling.stopping && filling.poison.is_none() {
                filling = self.work.wait(filling).unwrap_or_else(PoisonError::into_inner);
            }
            if filling.poison.is_some() || filling.group.records == 0 {
                return;
            }
            drop(filling);
            let mut journal = lock(&self.journal);
            let Some(journal) = journal.as_mut() else {
                return;
            };
            self.commit(journal);
        }
    }

    /// Writes the group that was filling; the next fills meanwhile.
    fn commit(&self, journal: &mut Journal<D>) {
        let mut filling = lock(&self.filling);
        let next_lsn = filling.group.next_lsn();
        std::mem::swap(&mut journal.group, &mut filling.group);
        filling.group.restart(next_lsn);
        filling.room_bytes = journal.room_bytes();
        drop(filling);

        // An error is the journal's poison, which `take_over` hands on.
        let _ = journal.commit();
        self.take_over(journal, &mut lock(&self.filling));
        // Taking the next segment's space early keeps that out of a caller's way. A full disk shows when it is needed.
        if journal.poison.is_none() && journal.room_bytes() < self.group_bytes_max {
            let _ = journal.prepare();
            self.take_over(journal, &mut lock(&self.filling));
        }
    }

    /// Tells callers how the journal is.
    fn take_over(&self, journal: &Journal<D>, filling: &mut Filling) {
        self.durable_lsn.store(journal.durable_lsn(), Ordering::Release);
        filling.poison = filling.poison.take().or_else(|| journal.poison.clone());
        filling.room_bytes = journal.room_bytes();
        self.done.notify_all();
    }

    /// Waits for the group that is being written; if then there is still not enough room, commits what fills or takes
    /// space from the disk.
    fn make_room(&self, bytes: u64) -> Result<MutexGuard<'_, Filling>> {
        let mut journal = lock(&self.journal);
        let journal = journal.as_mut().ok_or_else(stopped)?;
        let filling = lock(&self.filling);
        filling.alive()?;
        let wanted = filling.group.len() + bytes;
        if wanted <= filling.room_bytes {
            return Ok(filling);
        }
        if wanted > self.group_bytes_max {
            drop(filling);
            self.commit(journal);
            return Ok(lock(&self.filling));
        }
        drop(filling);
        let prepared = journal.prepare();
        let mut filling = lock(&self.filling);
        self.take_over(journal, &mut filling);
        match prepared {
            // Others may have filled it meanwhile: the caller looks again.
            Ok(()) => Ok(filling),
            // What fills may be larger than what is free in one piece; alone it may still fit.
            Err(Error::Full { .. }) if filling.group.records > 0 && bytes <= filling.room_bytes => {
                drop(filling);
                self.commit(journal);
                Ok(lock(&self.filling))
            }
            Err(error) => Err(error),
        }
    }
}
