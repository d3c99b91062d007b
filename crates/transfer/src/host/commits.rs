//! Commits: batches become durable either at once, or in a thread while the next batch is executed.
//!
//! At most one commit is in progress, so that batches become durable in order. Replies leave in the same order, each
//! once everything that it depends on is durable.

use super::Host;
use crate::ledger::Change;
use lineside_fastpath::RequestOutcome;
use lineside_journal::{Commit, Committed, Disk, Lsn};
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Waiting replies, and the commit in progress.
pub(super) struct Commits<D: Disk> {
    answers: VecDeque<Answers>,
    on_its_way: Option<OnItsWay<D>>,
    /// Thread that runs commits; if it is `None`, the thread that waits for a commit runs the commit itself.
    committer: Option<Committer<D>>,
}

/// Replies of a batch.
struct Answers {
    outcomes: Vec<RequestOutcome>,
    /// The replies may leave once this record is durable.
    depends_on: Lsn,
}

struct OnItsWay<D: Disk> {
    /// Commit to run; `None` while the committing thread has it.
    commit: Option<Commit<D>>,
    /// Changes that the host publishes to the fast path after the commit.
    changes: Vec<Change>,
}

impl<D: Disk> Default for Commits<D> {
    fn default() -> Self {
        Self {
            answers: VecDeque::new(),
            on_its_way: None,
            committer: None,
        }
    }
}

impl<D: Disk> Host<D> {
    /// Starts a thread that waits for the disk while the host executes the next batch.
    ///
    /// # Errors
    /// Error of the system when it cannot start a thread.
    pub fn commit_beside(&mut self) -> io::Result<()> {
        self.commits.committer = Some(Committer::start()?);
        Ok(())
    }

    /// Returns the outcomes of the oldest executed batch that was not taken yet, once they may leave. Returns `None`
    /// if there is no batch, or, unless `waits` is true, if its outcomes may not leave yet.
    pub fn take(&mut self, waits: bool) -> Option<Vec<RequestOutcome>> {
        while !self.is_ready()? {
            let goes_on = match (self.commits.on_its_way.is_some(), waits) {
                (true, _) => self.land(waits),
                (false, true) => {
                    self.settle();
                    true
                }
                (false, false) => self.take_off(),
            };
            if !goes_on {
                return None;
            }
        }
        let Answers {
            outcomes: mut said,
            depends_on: stand_on,
        } = self.commits.answers.pop_front()?;
        if stand_on > self.journal.durable_lsn() {
            // There is no reply, not even a refusal: whether these requests were executed is known only after a
            // restart.
            said.fill_with(RequestOutcome::default);
        }
        self.counts.replies += said.iter().filter(|said| said.reply.is_some()).count() as u64;
        Some(said)
    }

    /// Returns whether the oldest replies may leave, or never will; `None` if there are none.
    fn is_ready(&self) -> Option<bool> {
        let oldest = self.commits.answers.front()?;
        Some(oldest.depends_on <= self.journal.durable_lsn() || self.failed.is_some())
    }

    /// Queues a batch's replies until the commit that they depend on is durable.
    pub(super) fn enqueue(&mut self, said: Vec<RequestOutcome>, had_failed: bool) {
        let stand_on = match &self.failed {
            // Writing had already ended, so these replies are refusals, which depend on no record.
            _ if had_failed => 0,
            Some(_) if self.is_dirty => Lsn::MAX,
            _ => self.journal.next_lsn() - 1,
        };
        self.commits.answers.push_back(Answers {
            outcomes: said,
            depends_on: stand_on,
        });
    }

    /// Makes everything executed durable and publishes it to the fast path, unless writing has ended.
    pub(super) fn settle(&mut self) {
        self.land(true);
        if std::mem::take(&mut self.is_dirty) && self.failed.is_none() {
            let committed = self.journal.commit();
            self.committed(committed);
        }
        if self.failed.is_none() {
            let changes = self.ledger.take_changes();
            self.publish(&changes);
        }
    }

    /// Begins to commit everything executed. Returns `false` if the commit is in progress.
    fn take_off(&mut self) -> bool {
        self.is_dirty = false;
        let begun = self.journal.begin_commit();
        let changes = self.ledger.take_changes();
        match begun {
            Ok(Some(commit)) => {
                let commit = match &self.commits.committer {
                    Some(committer) => committer.send(commit),
                    None => Some(commit),
                };
                self.commits.on_its_way = Some(OnItsWay { commit, changes });
                return false;
            }
            // The batch needed a new segment of the journal, and became durable with it.
            Ok(None) => {
                self.counts.groups += 1;
                self.publish(&changes);
            }
            Err(error) => self.failed = Some(error.to_string()),
        }
        true
    }

    /// Finishes the commit in progress, if there is one. Returns `false` if it has not finished and `waits` is false.
    fn land(&mut self, waits: bool) -> bool {
        let Some(OnItsWay { commit, changes }) = self.commits.on_its_way.take() else {
            return true;
        };
        let committed = match (commit, &self.commits.committer) {
            (Some(commit), _) if waits => Some(commit.run()),
            (Some(commit), _) => {
                let commit = Some(commit);
                self.commits.on_its_way = Some(OnItsWay { commit, changes });
                return false;
            }
            (None, Some(committer)) => match committer.receive(waits) {
                Ok(None) => {
                    let commit = None;
                    self.commits.on_its_way = Some(OnItsWay { commit, changes });
                    return false;
                }
                Ok(committed) => committed,
                Err(ThreadEnded) => None,
            },
            (None, None) => None,
        };
        match committed {
            Some(committed) => {
                let committed = self.journal.end_commit(committed);
                // The replies of this commit may leave even if executing a later batch has failed since.
                if self.committed(committed) {
                    self.publish(&changes);
                }
            }
            None => {
                self.failed = Some("the thread that writes to the disk has ended; restart the server".into())
            }
        }
        true
    }

    /// Returns whether the commit succeeded, and records the result.
    fn committed(&mut self, committed: lineside_journal::Result<Lsn>) -> bool {
        match committed {
            Ok(_) => self.counts.groups += 1,
            Err(ref error) => self.failed = Some(error.to_string()),
        }
        committed.is_ok()
    }
}

/// Thread that waits for the disk. Dropping this ends it after the commits that it has received.
struct Committer<D: Disk> {
    /// Channel to the thread; `None` only while this value is dropped.
    to: Option<Sender<Commit<D>>>,
    from: Receiver<Committed>,
    thread: Option<JoinHandle<()>>,
}

/// Error: the thread has ended.
struct ThreadEnded;

impl<D: Disk> Committer<D> {
    fn start() -> io::Result<Self> {
        let ((to, commits), (committed, from)) = (channel::<Commit<D>>(), channel());
        let thread = std::thread::Builder::new().name("commits".into());
        let thread = thread.spawn(move || {
            // The loop ends when either channel is closed.
            for commit in commits {
                if committed.send(commit.run()).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self {
            to: Some(to),
            from,
            thread: Some(thread),
        })
    }

    /// Sends a commit to the thread; returns it if the thread has ended.
    fn send(&self, commit: Commit<D>) -> Option<Commit<D>> {
        match &self.to {
            Some(to) => to.send(commit).err().map(|error| error.0),
            None => Some(commit),
        }
    }

    fn receive(&self, waits: bool) -> Result<Option<Committed>, ThreadEnded> {
        use std::sync::mpsc::TryRecvError;
        match waits {
            true => self.from.recv().map(Some).map_err(|_| ThreadEnded),
            false => match self.from.try_recv() {
                Ok(committed) => Ok(Some(committed)),
                Err(TryRecvError::Empty) => Ok(None),
                Err(TryRecvError::Disconnected) => Err(ThreadEnded),
            },
        }
    }
}

impl<D: Disk> Drop for Committer<D> {
    fn drop(&mut self) {
        drop(self.to.take());
        if let Some(thread) = self.thread.take() {
            // The thread only ran commits, and no request waits for the outcome of a commit any more.
            let _ = thread.join();
        }
    }
}
