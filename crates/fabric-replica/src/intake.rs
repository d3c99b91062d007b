//! The state machine that takes blocks: the replica validates and writes them, clients see them once they are durable.

use crate::watch::Watch;
use anyhow::bail;
use lineside_fabric::Error;
use lineside_fabric::early::EarlyWork;
use lineside_fabric::ledger::{Added, LedgerError, Replica};
use lineside_fabric_grpc::client::{Ahead, Received};
use lineside_fabric_grpc::replica::Teller;
use lineside_journal::Disk;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Takes the blocks of a channel in their order, from whichever source they come.
pub struct BlockIntake<D: Disk> {
    replica: Replica<D>,
    teller: Teller<D>,
    watch: Arc<Watch>,
    /// Reason why no further block is taken.
    stopped: Option<String>,
}

impl<D: Disk> BlockIntake<D> {
    /// Returns the intake of `replica`, whose clients `teller` informs and whose state `watch` shows.
    pub fn new(replica: Replica<D>, teller: Teller<D>, watch: Arc<Watch>) -> Self {
        Self {
            replica,
            teller,
            watch,
            stopped: None,
        }
    }

    /// Returns the number of the block that is taken next.
    pub fn next_number(&self) -> u64 {
        self.replica.next()
    }

    /// Notifies `read` whenever a block that was taken has been read, so that [`BlockIntake::step`] may execute it.
    pub fn notify_read(&self, read: &Arc<Notify>) {
        let notify = Arc::clone(read);
        self.replica.on_read(move || notify.notify_one());
    }

    /// Returns where transactions are verified whose block is not complete; `None` for a ledger without a channel.
    ///
    /// # Errors
    /// The system's reason why there is no thread for it.
    pub fn early(&mut self) -> io::Result<Option<EarlyWork>> {
        let early = self.replica.early()?;
        if let Some(early) = &early {
            self.watch.works_early(early.clone());
        }
        Ok(early)
    }

    /// Takes the next block, which is read while the one before it is executed; with `None`, executes the blocks that
    /// have been read. Returns how the source goes on.
    pub fn step(&mut self, received: Option<Received>) -> Ahead {
        let done = match received {
            Some(received) => {
                self.watch.came();
                self.take(received)
            }
            None => self.execute(),
        };
        match done {
            Ok(()) => Ahead::On,
            Err(LedgerError::Validation {
                number,
                source: Error::Refused(why),
            }) => Ahead::Back(number, why.to_string()),
            // The block is asked for again later.
            Err(error @ LedgerError::Full { .. }) => Ahead::Back(self.replica.next(), error.to_string()),
            Err(error) => {
                self.give_up(error.to_string());
                Ahead::Stop
            }
        }
    }

    fn take(&mut self, received: Received) -> Result<(), LedgerError> {
        let added = self.replica.finish_after(received.bytes.into())?;
        if let Some(added) = &added {
            self.tell(added);
        }
        Ok(())
    }

    fn execute(&mut self) -> Result<(), LedgerError> {
        while let Some(added) = self.replica.finish_within(Duration::ZERO)? {
            self.tell(&added);
        }
        Ok(())
    }

    fn tell(&self, added: &Added) {
        if let Some(validator) = self.replica.validator() {
            self.teller.taken(added.number, validator);
        }
    }

    /// Returns the watch that shows the intake's state.
    pub fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.watch)
    }

    /// Notes that no further block is taken, and why. Only the first reason counts.
    pub fn give_up(&mut self, why: String) {
        if self.stopped.is_none() {
            self.watch.stopped(&why);
            self.stopped = Some(why);
        }
    }

    /// Returns the reason why no further block is taken.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Shows clients the last block, writes a checkpoint and closes the ledger.
    ///
    /// # Errors
    /// The reason why no further block was taken, or why the ledger could not be closed in order.
    pub fn close(self) -> anyhow::Result<()> {
        let Self {
            mut replica,
            teller,
            stopped,
            ..
        } = self;
        drop(teller);
        let checkpointed = replica.checkpoint();
        replica.stop()?;
        match stopped {
            Some(why) => bail!("{why}"),
            None => Ok(checkpointed?),
        }
    }
}
