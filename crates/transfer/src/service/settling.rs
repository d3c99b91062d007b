//! Thread that writes sealed blocks to a settlement file. Serving requests never waits for it.

use crate::server::{Report, lock};
use crate::settle::{BlockFile, Settler};
use lineside_journal::FsDisk;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Interval between two checks for new blocks.
const INTERVAL: Duration = Duration::from_millis(500);

/// Thread that runs until this value is dropped; before it ends, it settles the blocks that are on the disk.
pub struct Settling {
    thread: Option<(Sender<()>, JoinHandle<()>)>,
    settled: Arc<AtomicU64>,
}

impl Settling {
    /// Starts the thread, which writes the blocks of the ledger in `data` to `file` once `report` says that they are
    /// on the disk.
    ///
    /// # Errors
    /// Errors of the system for directory, file or thread.
    pub fn start(data: &Path, file: &Path, report: Arc<Mutex<Report>>) -> anyhow::Result<Self> {
        let mut settler = Settler::new(FsDisk::look(data)?, BlockFile::open(file)?);
        let settled = Arc::new(AtomicU64::new(0));
        let (stop, stopped) = channel::<()>();
        let shared = Arc::clone(&settled);
        let run = move || {
            let (mut ends, mut last_message) = (false, String::new());
            while !ends {
                ends = stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
                let durable = lock(&report).blocks;
                match settler.settle(durable) {
                    Ok(last) => {
                        shared.store(last, Relaxed);
                        last_message.clear();
                    }
                    Err(error) => {
                        // The same error is reported once, and not at each check.
                        let error = error.to_string();
                        if error != last_message {
                            tracing::warn!(
                                "transfer: sealed blocks could not be written to the settlement file: {error}; \
                                 the server tries again every {INTERVAL:?}"
                            );
                        }
                        last_message = error;
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("settle".into()).spawn(run)?;
        Ok(Self {
            thread: Some((stop, thread)),
            settled,
        })
    }

    /// Returns the number of the last settled block.
    pub fn settled(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.settled)
    }
}

impl Drop for Settling {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            // A thread that panicked has already reported the panic.
            let _ = thread.join();
        }
    }
}
