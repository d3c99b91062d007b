//! Blocking calls on top of asynchronous connections: the runtime of one node.

use crate::error::NodeFault;
use crate::interrupt::Interrupter;
use std::future::Future;
use std::io;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Runtime that runs only during a call, on the caller's thread. Between calls the kernel buffers incoming data.
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

    /// Returns the handle that interrupts the current call and all later ones.
    pub(crate) fn interrupter(&self) -> Interrupter {
        self.interrupter.clone()
    }

    /// Runs `future` for at most `limit`, or until the calls are interrupted.
    pub(crate) fn run<T>(
        &self,
        call: &'static str,
        limit: Duration,
        future: impl Future<Output = Result<T, NodeFault>>,
    ) -> Result<T, NodeFault> {
        let runtime = self.runtime.as_ref().expect("the runtime exists until drop");
        let late = NodeFault::TimedOut { call, after: limit };
        let interrupted = self.interrupter.interrupted();
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = interrupted => Err(NodeFault::Interrupted),
                done = tokio::time::timeout(limit, future) => done.unwrap_or(Err(late)),
            }
        })
    }
}

impl Drop for Blocking {
    fn drop(&mut self) {
        // A thread of the runtime may still wait for the system's name resolver, which has no time limit. Do not wait
        // for this thread.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
