//! Group commit for many threads: they share one journal and one committing thread.

use crate::Lsn;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::format::record_bytes;
use crate::group::{Group, check_payload};
use crate::journal::Journal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Journal with a committing thread. Callers append records and wait for, or poll, the number of the last durable one.
/// While one group is synced, the next one fills. Dropping this commits the records appended so far.
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
    /// Journal, which is locked while a group is written. A thread that needs both locks takes this lock before
    /// `filling`.
    journal: Mutex<Option<Journal<D>>>,
    filling: Mutex<Filling>,
    /// Signal to the committer that records are waiting, or that it has to stop.
    work: Condvar,
    /// Signal to the callers that a group is durable, or that it will never be.
    done: Condvar,
    durable_lsn: AtomicU64,
    seed: u32,
    record_bytes_max: u32,
    group_bytes_max: u64,
}

struct Filling {
    group: Group,
    /// Maximum size of the group in bytes, so that the group fits into the allocated space after everything that was
    /// appended before.
    room_bytes: u64,
    poison: Option<Arc<str>>,
    stopping: bool,
}

/// Locks a mutex even if a thread panicked while holding it. This is safe, because every change under these locks is
/// complete at each point where the thread can panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stopped() -> Error {
    let cause = "the committing thread was stopped".into();
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
    /// [`Error::Io`] when the thread cannot be started; [`Error::Poisoned`].
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

    /// Appends records, which get consecutive numbers, and returns the number of the last one. The call accepts all
    /// records or none. They are durable when [`Self::durable_lsn`] has reached the returned number. Without records,
    /// the call returns the last number in use.
    ///
    /// # Errors
    /// [`Error::Full`] (nothing was accepted; the call succeeds once there is space), [`Error::RecordTooLarge`],
    /// [`Error::GroupFull`] when the records are longer than a group, [`Error::Poisoned`], [`Error::Io`].
    pub fn append(&self, records: &[(u8, &[u8])]) -> Result<Lsn> {
        let shared = &*self.shared;
        let mut bytes = 0;
        for (_, payload) in records {
            check_payload(payload.len(), shared.record_bytes_max)?;
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
            last = filling.group.push(shared.seed, *kind, &[*payload]);
        }
        if was_empty {
            shared.work.notify_one();
        }
        Ok(last)
    }

    /// Waits until record `lsn` is durable, and returns the number of the last durable record.
    ///
    /// # Errors
    /// [`Error::Poisoned`] when the record will never be durable; [`Error::NotThere`] when no record has this number.
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

    /// Returns the number of the last durable record. Does not block.
    pub fn durable_lsn(&self) -> Lsn {
        self.shared.durable_lsn.load(Ordering::Acquire)
    }

    /// Returns the error that ended writing, if one did. Does not wait for the disk.
    pub fn poisoned(&self) -> Option<Error> {
        lock(&self.shared.filling).alive().err()
    }

    /// Runs `work` on the journal between two groups, for example to replay, prune or write a snapshot. Only
    /// [`Self::append`] may append records: if `work` appended some itself, their numbers would be used twice, so
    /// writing ends in that case.
    ///
    /// # Errors
    /// [`Error::Poisoned`] when the journal no longer exists; errors of `work` are in its own result.
    pub fn with_journal<T>(&self, work: impl FnOnce(&mut Journal<D>) -> T) -> Result<T> {
        let mut journal = lock(&self.shared.journal);
        let journal = journal.as_mut().ok_or_else(stopped)?;
        let next_lsn = journal.next_lsn();
        let result = work(journal);
        if journal.next_lsn() != next_lsn {
            journal.poison = Some("records were appended past the committing thread".into());
        }
        self.shared.take_over(journal, &mut lock(&self.shared.filling));
        Ok(result)
    }

    /// Commits all appended records, ends the thread and returns the journal.
    ///
    /// # Errors
    /// [`Error::Poisoned`] and [`Error::Io`] when the commit failed.
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
                .get_or_insert_with(|| "the committing thread panicked".into());
        }
    }
}

impl<D: Disk> Drop for GroupCommit<D> {
    fn drop(&mut self) {
        self.end();
    }
}

impl<D: Disk> Shared<D> {
    /// Main loop of the committer: commits one group at a time until it has to stop.
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

    /// Writes the group that was filling. The next group fills meanwhile.
    fn commit(&self, journal: &mut Journal<D>) {
        let mut filling = lock(&self.filling);
        let next_lsn = filling.group.next_lsn();
        std::mem::swap(&mut journal.group, &mut filling.group);
        filling.group.restart(next_lsn);
        filling.room_bytes = journal.room_bytes();
        drop(filling);

        // An error poisons the journal, and `take_over` reports it to the callers.
        let _ = journal.commit();
        self.take_over(journal, &mut lock(&self.filling));
        // Allocating the next segment early spares callers the wait. If the disk is full, the error is reported when a
        // caller needs the space.
        if journal.poison.is_none() && journal.room_bytes() < self.group_bytes_max {
            let _ = journal.prepare();
            self.take_over(journal, &mut lock(&self.filling));
        }
    }

    /// Publishes the state of the journal to the callers.
    fn take_over(&self, journal: &Journal<D>, filling: &mut Filling) {
        self.durable_lsn.store(journal.durable_lsn(), Ordering::Release);
        filling.poison = filling.poison.take().or_else(|| journal.poison.clone());
        filling.room_bytes = journal.room_bytes();
        self.done.notify_all();
    }

    /// Waits until the group that is being written is durable. If there is still not enough room, commits the filling
    /// group or allocates space.
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
            // Other callers may have used the space meanwhile: the caller checks again.
            Ok(()) => Ok(filling),
            // The filling group may be larger than the free contiguous space; the new records alone may still fit.
            Err(Error::Full { .. }) if filling.group.records > 0 && bytes <= filling.room_bytes => {
                drop(filling);
                self.commit(journal);
                Ok(lock(&self.filling))
            }
            Err(error) => Err(error),
        }
    }
}
