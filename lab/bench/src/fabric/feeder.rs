//! Source of blocks: a thread that reads them, or a Deliver stream. The benchmark measures the processor time of the
//! source and subtracts it.

use super::deliver::{RunningOrderer, Stream};
use crate::error::{BenchError, Result, io};
use bytes::Bytes;
use lineside_fabric::TxCode;
use lineside_fabric_maker::{MadeBlock, cache};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Number of blocks that are read in advance.
const BLOCKS_READ_AHEAD: usize = 8;

/// Kind of source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Feed {
    /// A thread that reads the blocks.
    Memory,
    /// A Deliver stream of an orderer over loopback.
    Deliver,
}

/// Block with its expected validation codes.
pub(super) struct Given {
    pub(super) number: u64,
    pub(super) bytes: Bytes,
    pub(super) codes: Vec<TxCode>,
}

impl From<MadeBlock> for Given {
    fn from(made: MadeBlock) -> Self {
        Self {
            number: made.number,
            bytes: made.bytes.into(),
            codes: made.codes,
        }
    }
}

pub(super) type Give = SyncSender<std::io::Result<Given>>;

pub(super) struct Feeder {
    blocks: Option<Receiver<std::io::Result<Given>>>,
    thread: Option<JoinHandle<()>>,
    spent: Spent,
}

/// Clock for the processor time of the source.
enum Spent {
    Thread(Arc<AtomicU64>),
    Orderer(RunningOrderer),
}

impl Feeder {
    /// Starts to pass on the blocks of `reader` that come before block `end`.
    pub(super) fn start(feed: Feed, reader: cache::Reader, end: u64) -> Result<Self> {
        let (give, blocks) = sync_channel(BLOCKS_READ_AHEAD);
        let thread = std::thread::Builder::new().name("feeder".into());
        let (thread, spent) = match feed {
            Feed::Memory => {
                let spent = Arc::new(AtomicU64::new(0));
                let theirs = Arc::clone(&spent);
                let thread = thread.spawn(move || read(reader, end, &give, &theirs));
                (thread, Spent::Thread(spent))
            }
            Feed::Deliver => {
                let served = RunningOrderer::start(Stream::new(reader, end))?;
                let following = served.following()?;
                let follow = move || {
                    if let Err(error) = following.run(&give) {
                        // If the receiver has ended, it needs no report of the error.
                        let _ = give.send(Err(error));
                    }
                };
                (thread.spawn(follow), Spent::Orderer(served))
            }
        };
        Ok(Self {
            blocks: Some(blocks),
            thread: Some(thread.map_err(io("starting a thread"))?),
            spent,
        })
    }

    /// Returns the next block.
    pub(super) fn next(&self) -> Result<Option<Given>> {
        let blocks = self.blocks.as_ref().and_then(|blocks| blocks.recv().ok());
        blocks.transpose().map_err(io("reading blocks"))
    }

    /// Returns the processor time used so far, in nanoseconds: that of the orderer without its client, or that of the
    /// reading thread.
    pub(super) fn spent_ns(&self) -> u64 {
        match &self.spent {
            Spent::Thread(spent_ns) => spent_ns.load(Relaxed),
            Spent::Orderer(served) => served.spent_ns(),
        }
    }

    /// Ends the source and returns its error if it had one.
    pub(super) fn end(mut self) -> Result<()> {
        match self.stop() {
            true => Ok(()),
            false => Err(BenchError::Void("the thread that reads blocks panicked".into())),
        }
    }

    fn stop(&mut self) -> bool {
        self.blocks = None;
        self.thread.take().is_none_or(|thread| thread.join().is_ok())
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        self.stop();
    }
}

fn read(reader: cache::Reader, end: u64, give: &Give, spent_ns: &AtomicU64) {
    for block in reader {
        if block.as_ref().is_ok_and(|made| made.number >= end) {
            return;
        }
        let failed = block.is_err();
        spent_ns.store(crate::sys::thread_ns(), Relaxed);
        if give.send(block.map(Given::from)).is_err() || failed {
            return;
        }
    }
}
