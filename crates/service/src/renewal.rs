//! Renewal of a fast path's lease: the time until which the fast path may answer without hearing from its host.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Number of renewals within the length of a lease.
const RENEWALS_PER_LEASE: u32 = 6;

/// Thread that renews a lease several times within its length. Dropping this ends the thread.
pub struct LeaseRenewal(Option<(Sender<()>, JoinHandle<()>)>);

impl LeaseRenewal {
    /// Starts a thread that calls `renew` six times within each `length`.
    ///
    /// # Errors
    /// The system's error if the thread cannot be started.
    pub fn start(length: Duration, renew: impl Fn() + Send + 'static) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let run = move || {
            while stopped.recv_timeout(length / RENEWALS_PER_LEASE) == Err(RecvTimeoutError::Timeout) {
                renew();
            }
        };
        let thread = std::thread::Builder::new().name("lease".into()).spawn(run)?;
        Ok(Self(Some((stop, thread))))
    }
}

impl Drop for LeaseRenewal {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.0.take() {
            drop(stop);
            // A thread that panicked has already printed its message to standard error.
            let _ = thread.join();
        }
    }
}
