//! Orderer for tests and benches: delivers recorded or generated blocks, and fails on request.

use crate::serve::{Limits, Role, start};
use crate::source::{CommittedSource, MemorySource, ReadAccess, Unavailable};
use bytes::Bytes;
use lineside_fabric::access::SignedBy;
use lineside_grpc::Running;
use lineside_grpc::ServerTls;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Blocks of a mock orderer, and the faults that a test injects. A block is withheld until [`show`](Self::show) makes
/// it visible.
pub struct Blocks {
    memory: MemorySource,
    cut: Mutex<BTreeSet<u64>>,
    wrong: Mutex<BTreeMap<u64, Bytes>>,
    forbids: AtomicBool,
    requests: AtomicU64,
}

impl Blocks {
    /// Creates the blocks. No block is visible yet.
    pub fn new(channel: &str, blocks: Vec<Bytes>, access: ReadAccess) -> Self {
        Self {
            memory: MemorySource::with_hidden_blocks(channel, blocks, access),
            cut: Mutex::default(),
            wrong: Mutex::default(),
            forbids: AtomicBool::new(false),
            requests: AtomicU64::new(0),
        }
    }

    /// Makes the blocks below this number visible; later blocks are withheld.
    pub fn show(&self, height: u64) {
        self.memory.show(height);
    }

    /// Ends the next call that reaches this block, before the block is sent.
    pub fn cut_before(&self, number: u64) {
        let mut cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        cut.insert(number);
    }

    /// Sends these bytes once in place of a block.
    pub fn send_instead(&self, number: u64, bytes: Bytes) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.insert(number, bytes);
    }

    /// Starts or stops answering requests with FORBIDDEN.
    pub fn forbid(&self, forbid: bool) {
        self.forbids.store(forbid, Relaxed);
    }

    /// Returns the number of requests that the orderer has received.
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }
}

impl CommittedSource for Blocks {
    fn channel(&self) -> &str {
        self.memory.channel()
    }

    fn heights(&self) -> watch::Receiver<u64> {
        self.memory.heights()
    }

    fn block(&self, number: u64) -> Result<Bytes, Unavailable> {
        let mut cut = self.cut.lock().unwrap_or_else(PoisonError::into_inner);
        if cut.remove(&number) {
            return Err(Unavailable("cut".to_owned()));
        }
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        match wrong.remove(&number) {
            Some(bytes) => Ok(bytes),
            None => self.memory.block(number),
        }
    }

    fn config_sequence(&self) -> u64 {
        self.memory.config_sequence()
    }

    fn permits(&self, resource: &str, by: SignedBy<'_>) -> bool {
        self.requests.fetch_add(1, Relaxed);
        !self.forbids.load(Relaxed) && self.memory.permits(resource, by)
    }
}

/// A running mock orderer. Dropping this handle stops the orderer.
pub struct Orderer {
    /// Blocks of the orderer.
    pub blocks: Arc<Blocks>,
    /// The running server.
    pub running: Running,
}

impl Orderer {
    /// Starts an orderer.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub async fn start(
        listen: impl tokio::net::ToSocketAddrs,
        tls: Option<ServerTls>,
        blocks: Blocks,
    ) -> io::Result<Self> {
        let blocks = Arc::new(blocks);
        let sources: Vec<Arc<dyn CommittedSource>> = vec![blocks.clone()];
        let running = start(listen, tls, Role::Orderer, sources, Limits::default()).await?;
        Ok(Self { blocks, running })
    }

    /// Returns `HOST:PORT` of the orderer.
    pub fn endpoint(&self) -> String {
        self.running.address.to_string()
    }

    /// Makes blocks visible one after the other, one in each interval of `every`. If the task is late, it makes the
    /// missed blocks visible at once.
    pub fn show_one_every(&self, every: Duration) {
        let blocks = self.blocks.clone();
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(every);
            for height in blocks.memory.height() + 1..=blocks.memory.len() {
                ticks.tick().await;
                blocks.show(height);
            }
        });
    }
}
