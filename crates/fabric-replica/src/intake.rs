//! Intake of blocks: a state machine that passes blocks from any source to the replica, which validates and writes
//! them, and that shows them to clients once they are durable.

use crate::watch::Watch;
use anyhow::bail;
use lineside_fabric::early::EarlyWork;
use lineside_fabric::ledger::{AddedBlock, LedgerError, Replica};
use lineside_fabric::{Configurations, Error};
use lineside_fabric_grpc::client::{BlockVerdict, ReadAheadVerdict, ReceivedBlock};
use lineside_fabric_grpc::replica::CommitNotifier;
use lineside_journal::Disk;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Intake of a channel's blocks, in order and from any source.
pub struct BlockIntake<D: Disk> {
    replica: Replica<D>,
    teller: CommitNotifier<D>,
    watch: Arc<Watch>,
    /// Reason why the intake accepts no further block; `None` while it accepts blocks.
    stopped: Option<String>,
    /// Reader of the channel's configurations after a stop, which begins with the block that the validator cannot
    /// decide; `None` while the replica accepts blocks.
    configurations: Option<Configurations>,
}

impl<D: Disk> BlockIntake<D> {
    /// Creates the intake of `replica`. `teller` shows durable blocks to clients, and `watch` records events for the
    /// status.
    pub fn new(replica: Replica<D>, teller: CommitNotifier<D>, watch: Arc<Watch>) -> Self {
        Self {
            replica,
            teller,
            watch,
            stopped: None,
            configurations: None,
        }
    }

    /// Returns the number of the block that the intake needs next.
    pub fn next_number(&self) -> u64 {
        self.replica.next()
    }

    /// Notifies `read` whenever a block has been parsed, so that [`BlockIntake::step`] may execute it.
    pub fn notify_read(&self, read: &Arc<Notify>) {
        let notify = Arc::clone(read);
        self.replica.on_read(move || notify.notify_one());
    }

    /// Returns the handle to submit transactions whose block is not complete, which are then verified early; `None` for
    /// a ledger without a channel.
    ///
    /// # Errors
    /// The system's error if its thread cannot be started.
    pub fn early(&mut self) -> io::Result<Option<EarlyWork>> {
        let early = self.replica.early()?;
        if let Some(early) = &early {
            self.watch.works_early(early.clone());
        }
        Ok(early)
    }

    /// Takes the next block, which is parsed while the previous block is executed. Without a block, executes the blocks
    /// that are already parsed. Returns how the source of the blocks has to continue.
    pub fn step(&mut self, received: Option<ReceivedBlock>) -> ReadAheadVerdict {
        let done = match received {
            Some(received) => {
                self.watch.block_arrived();
                self.take(received)
            }
            None => self.execute(),
        };
        match done {
            Ok(()) => ReadAheadVerdict::On,
            Err(LedgerError::Validation {
                number,
                source: Error::Refused(why),
            }) => ReadAheadVerdict::Back(number, why.to_string()),
            // The disk is full; the source delivers the block again later.
            Err(error @ LedgerError::Full { .. }) => {
                ReadAheadVerdict::Back(self.replica.next(), error.to_string())
            }
            Err(error) => {
                if let LedgerError::Validation {
                    source: Error::Stop(_),
                    ..
                } = &error
                {
                    self.configurations = self.replica.validator().map(Configurations::after);
                }
                self.give_up(error.to_string());
                ReadAheadVerdict::Stop
            }
        }
    }

    /// Returns the number of the next block that the intake needs only for the channel's configuration; `None` unless
    /// the replica has stopped before a block that it cannot decide.
    pub fn next_configuration(&self) -> Option<u64> {
        self.configurations.as_ref().map(Configurations::next)
    }

    /// Takes the next block after a stop, only for the configuration that the block may set. Clients that this
    /// configuration does not permit to read get no further answer. If the block's configuration cannot be determined,
    /// the replica serves no client any more, and the intake needs no further block.
    pub fn follow_configuration(&mut self, received: &ReceivedBlock) -> BlockVerdict {
        let Some(configurations) = &mut self.configurations else {
            return BlockVerdict::Stop;
        };
        match configurations.follow(&received.bytes) {
            Ok(None) => BlockVerdict::Taken,
            Ok(Some(config)) => {
                self.teller.configured(config);
                BlockVerdict::Taken
            }
            Err(Error::Refused(why)) => BlockVerdict::Refused(why.to_string()),
            Err(error) => {
                let why = format!(
                    "block {}: the channel's configuration is not known any more: {error}; no client is served",
                    received.number
                );
                self.watch.record_withheld(&why);
                self.teller.withhold();
                BlockVerdict::Stop
            }
        }
    }

    fn take(&mut self, received: ReceivedBlock) -> Result<(), LedgerError> {
        let added = self.replica.finish_after(received.bytes)?;
        if let Some(added) = &added {
            self.report_block(added);
        }
        Ok(())
    }

    fn execute(&mut self) -> Result<(), LedgerError> {
        while let Some(added) = self.replica.finish_within(Duration::ZERO)? {
            self.report_block(&added);
        }
        Ok(())
    }

    fn report_block(&self, added: &AddedBlock) {
        if let Some(validator) = self.replica.validator() {
            self.teller.block_taken(added.number, validator);
        }
    }

    /// Returns the watch, which records the intake's events for the status.
    pub fn watch(&self) -> Arc<Watch> {
        Arc::clone(&self.watch)
    }

    /// Records the reason why the intake accepts no further block. Only the first reason is stored.
    pub fn give_up(&mut self, why: String) {
        if self.stopped.is_none() {
            self.watch.record_stop(&why);
            self.stopped = Some(why);
        }
    }

    /// Returns the reason why the intake accepts no further block; `None` while it accepts blocks.
    pub fn stopped(&self) -> Option<&str> {
        self.stopped.as_deref()
    }

    /// Shows the last block to clients, writes a checkpoint and closes the ledger.
    ///
    /// # Errors
    /// The reason why the intake accepted no further block, or an error of closing the ledger.
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

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use lineside_fabric::ledger::Setup;
    use lineside_fabric::ledger::results::Publisher;
    use lineside_fabric_grpc::replica::committed;
    use lineside_fabric_grpc::source::MemorySource;
    use lineside_journal::{Op, SimDisk};
    use std::path::Path;
    use std::time::Instant;

    /// Returns the intake of a ledger that has only the genesis block, on a simulated disk, and the recorded blocks.
    fn intake(disk: &SimDisk) -> (BlockIntake<SimDisk>, Vec<Bytes>) {
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fabric/tests/data/edge");
        let blocks = MemorySource::read(&recorded, "orderer").unwrap();
        let results = Publisher::anonymous(4).unwrap();
        let watch = Watch::new(&results);
        let setup = Setup {
            checkpoint_after: 0,
            ..Setup::default()
        };
        let (mut replica, _) = Replica::open(disk.clone(), setup, Some(results)).unwrap();
        replica.add(blocks[0].to_vec()).unwrap();
        replica.flush().unwrap();
        let teller = committed(&replica).unwrap().unwrap();
        (BlockIntake::new(replica, teller, watch), blocks)
    }

    fn received(number: u64, bytes: &Bytes) -> Option<ReceivedBlock> {
        let bytes = bytes.clone();
        Some(ReceivedBlock { number, bytes })
    }

    #[test]
    fn a_refused_block_is_handed_back_and_the_right_one_is_taken() {
        let (mut intake, blocks) = intake(&SimDisk::new(3));
        assert!(matches!(
            intake.step(received(1, &blocks[1])),
            ReadAheadVerdict::On
        ));
        // A step executes the blocks that are parsed: first block 1, then the wrong block in place of block 2.
        let began = Instant::now();
        let mut step = intake.step(received(2, &blocks[3]));
        let (number, why) = loop {
            match step {
                ReadAheadVerdict::Back(number, why) => break (number, why),
                ReadAheadVerdict::On => step = intake.step(None),
                ReadAheadVerdict::Stop => {
                    panic!("the intake stopped instead of refusing block 3 in place of block 2")
                }
            }
            assert!(began.elapsed() < Duration::from_secs(30));
            std::thread::yield_now();
        };
        assert_eq!((number, intake.next_number()), (2, 2), "{why}");
        for number in 2..5 {
            let taken = intake.step(received(number, &blocks[number as usize]));
            assert!(matches!(taken, ReadAheadVerdict::On), "block {number}");
        }
        // Block 4 is executed once it is parsed, although no further block arrives.
        let began = Instant::now();
        while intake.next_number() < 5 {
            assert!(matches!(intake.step(None), ReadAheadVerdict::On));
            assert!(began.elapsed() < Duration::from_secs(30));
            std::thread::yield_now();
        }
        assert_eq!(intake.stopped(), None);
        intake.close().unwrap();
    }

    #[test]
    fn configurations_are_followed_after_a_stop() {
        let (mut intake, blocks) = intake(&SimDisk::new(5));
        assert!(intake.next_configuration().is_none());
        let taken = received(1, &blocks[1]).unwrap();
        assert!(matches!(intake.follow_configuration(&taken), BlockVerdict::Stop));
        // Set the state that follows a stop before block 1.
        intake.give_up("block 1: a reason".to_owned());
        intake.configurations = intake.replica.validator().map(Configurations::after);
        for number in 1..5 {
            assert_eq!(intake.next_configuration(), Some(number));
            let wrong = received(number, &blocks[number as usize + 1]).unwrap();
            assert!(matches!(
                intake.follow_configuration(&wrong),
                BlockVerdict::Refused(_)
            ));
            let next = received(number, &blocks[number as usize]).unwrap();
            assert!(matches!(intake.follow_configuration(&next), BlockVerdict::Taken));
        }
        assert_eq!(intake.next_number(), 1);
        assert!(intake.close().is_err());
    }

    #[test]
    fn a_disk_that_fails_ends_the_intake_for_good() {
        let disk = SimDisk::new(4);
        let (mut intake, blocks) = intake(&disk);
        disk.fail_nth(Op::SyncData, 1);
        let ends = (1..14).find(|&number| {
            let ahead = intake.step(received(number, &blocks[number as usize]));
            // A failed write is reported with a later block. Wait until this block is written or has failed.
            let _ = intake.replica.flush();
            matches!(ahead, ReadAheadVerdict::Stop)
        });
        let why = intake.stopped().unwrap().to_owned();
        assert!(ends.is_some(), "{why}");
        intake.give_up("another reason".to_owned());
        assert_eq!(intake.stopped(), Some(why.as_str()));
        assert!(intake.close().is_err());
    }
}
