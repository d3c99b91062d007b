//! What is executed becomes durable: at once, or beside, while the next group is executed.
//!
//! There is one commit on its way at most, so that groups become durable in their order; answers leave in the same
//! order, each when everything that it stands on is durable.

use super::Host;
use crate::ledger::Change;
use lineside_fastpath::RequestOutcome;
use lineside_journal::{Commit, Committed, Disk, Lsn};
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Answers that wait, and commits on their way.
pub(super) struct Commits<D: Disk> {
    answers: VecDeque<Answers>,
    on_its_way: Option<OnItsWay<D>>,
    /// `None`: commits are run by whoever waits for them.
    committer: Option<Committer<D>>,
}

/// What is said to a group.
struct Answers {
    said: Vec<RequestOutcome>,
    /// They may leave when this record is durable.
    stand_on: Lsn,
}

struct OnItsWay<D: Disk> {
    /// `None`: the committer has it.
    commit: Option<Commit<D>>,
    /// What the fast path is shown afterwards.
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
    /// From now on a thread of its own waits for the disk where the host has more to do.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn commit_beside(&mut self) -> io::Result<()> {
        self.commits.committer = Some(Committer::start()?);
        Ok(())
    }

    /// What is said to the oldest of the groups that were executed and not taken yet, once it may leave; `None`: not
    /// yet, or there is none. If it `waits`, only the latter.
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
        let Answers { mut said, stand_on } = self.commits.answers.pop_front()?;
        if stand_on > self.journal.durable_lsn() {
            // Not even a refusal: whether they were executed is known after the restart.
            said.fill_with(RequestOutcome::default);
        }
        self.counts.replies += said.iter().filter(|said| said.reply.is_some()).count() as u64;
        Some(said)
    }

    /// Whether the oldest answers may leave, or never will; `None`: there are none.
    fn is_ready(&self) -> Option<bool> {
        let oldest = self.commits.answers.front()?;
        Some(oldest.stand_on <= self.journal.durable_lsn() || self.failed.is_some())
    }

    /// Keeps what is said to a group until it may leave.
    pub(super) fn keep(&mut self, said: Vec<RequestOutcome>, had_failed: bool) {
        let stand_on = match &self.failed {
            // Refusals, which stand on nothing.
            _ if had_failed => 0,
            Some(_) if self.is_dirty => Lsn::MAX,
            _ => self.journal.next_lsn() - 1,
        };
        self.commits.answers.push_back(Answers { said, stand_on });
    }

    /// Makes durable all that was executed, and shows it to the fast path, unless writing has ended.
    pub(super) fn settle(&mut self) {
        self.land(true);
        if std::mem::take(&mut self.is_dirty) && self.failed.is_none() {
            let committed = self.journal.commit();
            self.committed(committed);
        }
        if self.failed.is_none() {
            let changes = self.ledger.take_changes();
            self.show(&changes);
        }
    }

    /// Sends what was executed on its way. `false`: it is on it.
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
            // It needed a new segment, and is durable already.
            Ok(None) => {
                self.counts.groups += 1;
                self.show(&changes);
            }
            Err(error) => self.failed = Some(error.to_string()),
        }
        true
    }

    /// Ends what is on its way, if anything is. `false`: it is not there yet, and nobody waits.
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
                Err(Ended) => None,
            },
            (None, None) => None,
        };
        match committed {
            Some(committed) => {
                let committed = self.journal.end_commit(committed);
                // Also where executing has failed since: its answers leave.
                if self.committed(committed) {
                    self.show(&changes);
                }
            }
            None => self.failed = Some("the thread that waits for the disk has ended".into()),
        }
        true
    }

    /// Whether it is durable now.
    fn committed(&mut self, committed: lineside_journal::Result<Lsn>) -> bool {
        match committed {
            Ok(_) => self.counts.groups += 1,
            Err(ref error) => self.failed = Some(error.to_string()),
        }
        committed.is_ok()
    }
}

/// A thread that waits for the disk. Ends when it is dropped, after what it was given.
struct Committer<D: Disk> {
    /// Gone only while it is dropped.
    to: Option<Sender<Commit<D>>>,
    from: Receiver<Committed>,
    thread: Option<JoinHandle<()>>,
}

/// The thread is not there any more.
struct Ended;

impl<D: Disk> Committer<D> {
    fn start() -> io::Result<Self> {
        let ((to, commits), (committed, from)) = (channel::<Commit<D>>(), channel());
        let thread = std::thread::Builder::new().name("commits".into());
        let thread = thread.spawn(move || {
            // Until either end is gone.
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

    /// Gives it a commit, which comes back if the thread is not there any more.
    fn send(&self, commit: Commit<D>) -> Option<Commit<D>> {
        match &self.to {
            Some(to) => to.send(commit).err().map(|error| error.0),
            None => Some(commit),
        }
    }

    fn receive(&self, waits: bool) -> Result<Option<Committed>, Ended> {
        use std::sync::mpsc::TryRecvError;
        match waits {
            true => self.from.recv().map(Some).map_err(|_| Ended),
            false => match self.from.try_recv() {
                Ok(committed) => Ok(Some(committed)),
                Err(TryRecvError::Empty) => Ok(None),
                Err(TryRecvError::Disconnected) => Err(Ended),
            },
        }
    }
}

impl<D: Disk> Drop for Committer<D> {
    fn drop(&mut self) {
        drop(self.to.take());
        if let Some(thread) = self.thread.take() {
            // It only ran commits, whose outcome nobody waits for any more.
            let _ = thread.join();
        }
    }
}
