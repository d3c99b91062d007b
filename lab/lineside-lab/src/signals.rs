//! Signals that end a command before its server has started.

use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Time in which a signal that has arrived is read.
const READ_TIME: Duration = Duration::from_millis(1);

/// Listener for SIGINT, SIGTERM and SIGHUP. While it exists, these signals do not end the process by themselves, so
/// that the process can remove its files first.
pub struct EndSignals {
    runtime: Runtime,
    signals: [Signal; 3],
}

impl EndSignals {
    /// Installs the handlers of the signals.
    ///
    /// # Errors
    /// The system's error.
    pub fn listen() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let signals = runtime.block_on(async {
            std::io::Result::Ok([
                signal(SignalKind::interrupt())?,
                signal(SignalKind::terminate())?,
                signal(SignalKind::hangup())?,
            ])
        })?;
        Ok(Self { runtime, signals })
    }

    /// Returns true if one of the signals has arrived since the last call.
    pub fn have_arrived(&mut self) -> bool {
        let [interrupt, terminate, hangup] = &mut self.signals;
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                _ = interrupt.recv() => true,
                _ = terminate.recv() => true,
                _ = hangup.recv() => true,
                () = tokio::time::sleep(READ_TIME) => false,
            }
        })
    }
}
