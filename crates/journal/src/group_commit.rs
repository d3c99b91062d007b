//! Many callers, one committer.

use crate::Lsn;
use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::journal::Journal;
use std::marker::PhantomData;

/// A journal with a thread that commits. Callers hand in records and wait for, or poll, the durable number; while one
/// group syncs, the next fills. Dropping it commits what was handed in.
pub struct GroupCommit<D: Disk> {
    journal: PhantomData<D>,
}

impl<D: Disk> GroupCommit<D> {
    /// Starts the committer.
    ///
    /// # Errors
    /// [`Error::Io`] when there is no thread to be had; [`Error::Poisoned`].
    pub fn start(journal: Journal<D>) -> Result<GroupCommit<D>> {
        let _ = journal;
        Err(Error::NoJournal)
    }

    /// Hands in records, which get consecutive numbers and stay together; the number of the last. All or none are
    /// taken. They are durable when [`Self::durable_lsn`] has reached it. No records: the last number given out.
    ///
    /// # Errors
    /// [`Error::Full`] (nothing was taken; works again when there is space), [`Error::RecordTooLarge`],
    /// [`Error::GroupFull`] when they are longer than a group, [`Error::Poisoned`], [`Error::Io`].
    pub fn append(&self, records: &[(u8, &[u8])]) -> Result<Lsn> {
        let _ = records;
        Err(Error::NoJournal)
    }

    /// Waits until record `lsn` is durable; the last durable one.
    ///
    /// # Errors
    /// [`Error::Poisoned`] when it will not be; [`Error::NotThere`] when no such number was given out.
    pub fn wait(&self, lsn: Lsn) -> Result<Lsn> {
        let _ = lsn;
        Err(Error::NoJournal)
    }

    /// The last durable record. Does not block.
    pub fn durable_lsn(&self) -> Lsn {
        0
    }

    /// The first error that ended writing, if one did. Does not block.
    pub fn poisoned(&self) -> Option<Error> {
        None
    }

    /// Runs `work` on the journal between two groups: to replay, prune or take a snapshot.
    pub fn with_journal<T>(&self, work: impl FnOnce(&mut Journal<D>) -> T) -> Result<T> {
        let _ = work;
        Err(Error::NoJournal)
    }

    /// Commits what was handed in, ends the thread and gives the journal back.
    ///
    /// # Errors
    /// [`Error::Poisoned`] and [`Error::Io`] when it could not be committed.
    pub fn stop(self) -> Result<Journal<D>> {
        Err(Error::NoJournal)
    }
}
