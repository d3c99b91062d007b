//! Tables of keys, built beside the validation of blocks.
//!
//! The largest takes some ten milliseconds. A verifier with [`Builds::Deferred`] leaves that to this thread, and no
//! block waits for it; with [`Builds::Inline`] there is nothing to do here.

use lineside_verify::Verifier;
use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};

/// The thread that builds them.
pub(crate) struct Tables {
    verifier: Verifier,
    wake: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Tables {
    /// Starts it.
    pub fn start(verifier: Verifier) -> io::Result<Self> {
        let (wake, woken) = sync_channel::<()>(1);
        let builder = verifier.clone();
        let work = move || {
            // One at a time: whoever drops this waits for no more than one.
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

    /// Has those built that are wanted.
    pub fn build(&self) {
        if self.verifier.stats().pending_builds > 0
            && let Some(wake) = &self.wake
        {
            // If it was woken already it has yet to look.
            let _ = wake.try_send(());
        }
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        self.wake = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, it has said so.
            let _ = thread.join();
        }
    }
}
