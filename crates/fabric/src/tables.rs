//! Builds tables of frequent public keys on a separate thread, in parallel with the validation of blocks.
//!
//! The largest table takes some ten milliseconds to build. A verifier with [`Builds::Deferred`] leaves this work to the
//! thread, so no block waits for it. A verifier with [`Builds::Inline`] builds tables itself, and the thread has
//! nothing to do.

use lineside_verify::Verifier;
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

/// Handle of the thread that builds precomputed tables for public keys.
pub(crate) struct Tables {
    verifier: Verifier,
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Tables {
    /// Starts the thread.
    pub fn start(verifier: Verifier) -> io::Result<Self> {
        let (wake, woken) = sync_channel::<()>(1);
        let builder = verifier.clone();
        let work = move || {
            // The thread builds one table at a time, so dropping the handle waits for at most one table.
            while woken.recv().is_ok() {
                while builder.build_pending(1) > 0 {}
            }
        };
        Ok(Self {
            verifier,
            wake: Some(wake),
            thread: Some(Builder::new().name("tables".into()).spawn(work)?),
        })
    }

    /// Wakes the thread if tables are to be built.
    pub fn build(&self) {
        if self.verifier.stats().pending_builds > 0
            && let Some(wake) = &self.wake
        {
            // If the channel is full, the thread has yet to handle the previous wake-up.
            let _ = wake.try_send(());
        }
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic of this thread.
            let _ = thread.join();
        }
    }
}
