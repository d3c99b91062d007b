//! Calls that block, on top of asynchronous connections: the runtime of one node.

use crate::error::Fault;
use crate::interrupt::Interrupter;
use std::future::Future;
use std::io;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Runtime that runs only while a call waits, on the caller's thread. Between the calls the kernel keeps what arrives.
pub(crate) struct Blocking {
    runtime: Option<Runtime>,
    interrupter: Interrupter,
}

impl Blocking {
    pub(crate) fn new() -> io::Result<Blocking> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Blocking {
            runtime: Some(runtime),
            interrupter: Interrupter::default(),
        })
    }

    /// Returns the handle that ends the call under way and all later ones.
    pub(crate) fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// Runs `future` for at most `limit`, and until the calls are interrupted.
    pub(crate) fn run<T>(
        &self,
        call: &'static str,
        limit: Duration,
        future: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let runtime = self.runtime.as_ref().expect("it is taken at the end only");
        let late = Fault::TimedOut { call, after: limit };
        let interrupted = self.interrupter.interrupted();
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = interrupted => Err(Fault::Interrupted),
                done = tokio::time::timeout(limit, future) => done.unwrap_or(Err(late)),
            }
        })
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        // The system's name service has no time limit; nothing waits for it here.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
