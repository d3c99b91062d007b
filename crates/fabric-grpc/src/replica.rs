//! A ledger that is being written, as a [`Source`]: clients see a block when it is durable.

use crate::source::{Source, Unavailable};
use bytes::Bytes;
use lineside_fabric::Validator;
use lineside_fabric::access::SignedBy;
use lineside_fabric::config::Config;
use lineside_fabric::ledger::{Blocks, LedgerError, Place, Replica, Waiter};
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

/// How often it is looked whether a full disk has taken what it refused.
const FULL_RETRY: Duration = Duration::from_millis(100);

/// What a replica has committed.
pub struct Committed<D: Disk> {
    channel: String,
    blocks: Blocks<D>,
    heights: watch::Sender<u64>,
    config: Mutex<Arc<Config>>,
    /// Counts configurations.
    configs: AtomicU64,
    /// It is not known any more who may read.
    withheld: AtomicBool,
    verifier: Verifier,
}

/// Tells [`Committed`] what the replica has taken. Ends with the last block that it was told of.
pub struct Teller<D: Disk> {
    committed: Arc<Committed<D>>,
    taken: Option<Sender<u64>>,
    thread: Option<JoinHandle<()>>,
}

/// Whom to tell of what `replica` takes from now on; `None` before its first block.
///
/// # Errors
/// What the system says of a thread.
pub fn committed<D: Disk>(replica: &Replica<D>) -> io::Result<Option<Teller<D>>> {
    let Some(validator) = replica.validator() else {
        return Ok(None);
    };
    let committed = Arc::new(Committed {
        channel: validator.channel().to_owned(),
        blocks: replica.blocks(),
        heights: watch::Sender::new(replica.durable()),
        config: Mutex::new(validator.shared_config()),
        configs: AtomicU64::new(0),
        withheld: AtomicBool::new(false),
        verifier: Verifier::default(),
    });
    let (taken, told) = channel();
    let (shown, waiter) = (Arc::clone(&committed), replica.waiter());
    let show = move || show_durable(&shown, &waiter, &told);
    let thread = std::thread::Builder::new().name("show".into()).spawn(show)?;
    Ok(Some(Teller {
        committed,
        taken: Some(taken),
        thread: Some(thread),
    }))
}

/// Shows blocks as they become durable: `taken` says which were handed to the ledger.
fn show_durable<D: Disk>(committed: &Committed<D>, waiter: &Waiter, taken: &Receiver<u64>) {
    while let Ok(first) = taken.recv() {
        let mut number = taken.try_iter().last().unwrap_or(first);
        loop {
            match waiter.wait(number) {
                Ok(()) => {
                    committed.heights.send_replace(number + 1);
                    break;
                }
                Err(LedgerError::Full { .. }) => {}
                // What follows will not be durable either; whoever adds the next block is told.
                Err(_) => return,
            }
            // Blocks before it may be durable, and it will be when there is space.
            let durable = waiter.durable();
            let is_more = |height: &mut u64| std::mem::replace(height, durable.max(*height)) < durable;
            committed.heights.send_if_modified(is_more);
            match taken.recv_timeout(FULL_RETRY) {
                Ok(newer) => number = newer,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

impl<D: Disk> Teller<D> {
    /// What there is to be served.
    pub fn committed(&self) -> Arc<Committed<D>> {
        Arc::clone(&self.committed)
    }

    /// The replica has taken block `number`, and `validator` is its validator now.
    pub fn taken(&self, number: u64, validator: &Validator) {
        self.configured(validator.shared_config());
        if let Some(taken) = &self.taken {
            // Who shows them ends only with writing, which the next block meets.
            let _ = taken.send(number);
        }
    }
}

impl<D: Disk> Teller<D> {
    /// The channel has this configuration now: it says who may read.
    pub fn configured(&self, now: Arc<Config>) {
        let mut config = lock(&self.committed.config);
        if !Arc::ptr_eq(&config, &now) {
            *config = now;
            self.committed.configs.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The channel's configuration is not known any more: nothing more is served to anyone.
    pub fn withhold(&self) {
        self.committed.withheld.store(true, Ordering::Release);
        self.committed.heights.send_modify(|_| ());
    }
}

impl<D: Disk> Drop for Teller<D> {
    fn drop(&mut self) {
        drop(self.taken.take());
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so already.
            let _ = thread.join();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Disk> Source for Committed<D> {
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

    fn transaction(&self, id: &str) -> Result<Option<Place>, Unavailable> {
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
