//! [`CommittedSource`] of a ledger that is being written: clients see a block when it is durable.

use crate::source::{CommittedSource, Unavailable};
use bytes::Bytes;
use lineside_fabric::Validator;
use lineside_fabric::access::SignedBy;
use lineside_fabric::config::Config;
use lineside_fabric::ledger::{Blocks, DurabilityWaiter, LedgerError, Replica, TxPosition};
use lineside_fabric::state::TxId;
use lineside_journal::Disk;
use lineside_verify::Verifier;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// Time between two attempts to write to a full disk.
const DISK_FULL_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Committed blocks of a replica.
pub struct CommittedBlocks<D: Disk> {
    channel: String,
    blocks: Blocks<D>,
    heights: watch::Sender<u64>,
    config: Mutex<Arc<Config>>,
    /// Number of configurations that the channel has had.
    configs: AtomicU64,
    /// True if the channel's configuration, and so the clients that may read, are no longer known.
    withheld: AtomicBool,
    verifier: Verifier,
}

/// Notifies [`CommittedBlocks`] of the replica's blocks. When the notifier is dropped, it first waits until the last of
/// these blocks is durable, unless the disk is full or the ledger has failed.
pub struct CommitNotifier<D: Disk> {
    committed: Arc<CommittedBlocks<D>>,
    accepted: Option<Sender<u64>>,
    thread: Option<JoinHandle<()>>,
}

/// Creates the notifier for the further blocks of `replica`; `None` if the replica has no block yet.
///
/// # Errors
/// The system's error if its thread cannot be started.
pub fn committed<D: Disk>(replica: &Replica<D>) -> io::Result<Option<CommitNotifier<D>>> {
    let Some(validator) = replica.validator() else {
        return Ok(None);
    };
    let committed = Arc::new(CommittedBlocks {
        channel: validator.channel().to_owned(),
        blocks: replica.blocks(),
        heights: watch::Sender::new(replica.durable()),
        config: Mutex::new(validator.shared_config()),
        configs: AtomicU64::new(0),
        withheld: AtomicBool::new(false),
        verifier: Verifier::default(),
    });
    let (accepted_sender, accepted) = channel();
    let (shared, waiter) = (Arc::clone(&committed), replica.waiter());
    let show = move || show_durable(&shared, &waiter, &accepted);
    let thread = std::thread::Builder::new().name("show".into()).spawn(show)?;
    Ok(Some(CommitNotifier {
        committed,
        accepted: Some(accepted_sender),
        thread: Some(thread),
    }))
}

/// Makes blocks visible to clients as they become durable. `accepted` receives the numbers of the blocks that were
/// passed to the ledger.
fn show_durable<D: Disk>(
    committed: &CommittedBlocks<D>,
    waiter: &DurabilityWaiter,
    accepted: &Receiver<u64>,
) {
    while let Ok(first) = accepted.recv() {
        let mut number = accepted.try_iter().last().unwrap_or(first);
        loop {
            match waiter.wait(number) {
                Ok(()) => {
                    committed.heights.send_replace(number + 1);
                    break;
                }
                Err(LedgerError::Full { .. }) => {}
                // After this error, later blocks will not become durable either. The replica returns the error when it
                // adds the next block.
                Err(_) => return,
            }
            // The disk is full. Earlier blocks may be durable, and this block will become durable when there is space.
            let durable = waiter.durable();
            let is_more = |height: &mut u64| std::mem::replace(height, durable.max(*height)) < durable;
            committed.heights.send_if_modified(is_more);
            match accepted.recv_timeout(DISK_FULL_RETRY_INTERVAL) {
                Ok(newer) => number = newer,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

impl<D: Disk> CommitNotifier<D> {
    /// Returns the source of the replica's committed blocks, for a server.
    pub fn committed(&self) -> Arc<CommittedBlocks<D>> {
        Arc::clone(&self.committed)
    }

    /// Records that the replica has accepted block `number`, and takes the channel's configuration from `validator`,
    /// the replica's validator after that block.
    pub fn block_taken(&self, number: u64, validator: &Validator) {
        self.configured(validator.shared_config());
        if let Some(taken) = &self.accepted {
            // Sending fails only if the thread that shows blocks has ended because of a failed write. The replica
            // reports that failure with the next block.
            let _ = taken.send(number);
        }
    }
}

impl<D: Disk> CommitNotifier<D> {
    /// Sets the current configuration of the channel, which determines who may read.
    pub fn configured(&self, now: Arc<Config>) {
        let mut config = lock(&self.committed.config);
        if !Arc::ptr_eq(&config, &now) {
            *config = now;
            self.committed.configs.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records that the channel's configuration is no longer known: from now on, no client is served.
    pub fn withhold(&self) {
        self.committed.withheld.store(true, Ordering::Release);
        self.committed.heights.send_modify(|_| ());
    }
}

impl<D: Disk> Drop for CommitNotifier<D> {
    fn drop(&mut self) {
        drop(self.accepted.take());
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic of this thread.
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Disk> CommittedSource for CommittedBlocks<D> {
    fn channel(&self) -> &str {
        &self.channel
    }

    fn heights(&self) -> watch::Receiver<u64> {
        self.heights.subscribe()
    }

    fn first(&self) -> u64 {
        self.blocks.first()
    }

    fn block(&self, number: u64) -> Result<Bytes, Unavailable> {
        let stored = self.blocks.block(number);
        stored
            .map(|stored| stored.committed().into())
            .map_err(|error| Unavailable(error.to_string()))
    }

    fn transaction(&self, id: &str) -> Result<Option<TxPosition>, Unavailable> {
        let found = self.blocks.transaction(&TxId::new(id));
        found.map_err(|error| Unavailable(error.to_string()))
    }

    fn number_of(&self, header_hash: &[u8; 32]) -> Option<u64> {
        self.blocks.number_of(header_hash)
    }

    fn config_sequence(&self) -> u64 {
        self.configs.load(Ordering::Relaxed)
    }

    fn withholds(&self) -> bool {
        self.withheld.load(Ordering::Acquire)
    }

    fn permits(&self, resource: &str, by: SignedBy<'_>) -> bool {
        let config = Arc::clone(&lock(&self.config));
        config
            .guard(resource)
            .is_some_and(|path| config.permits(&path, by, &self.verifier))
    }
}
