//! The console: what Lineside says of itself over HTTP, on loopback unless told otherwise.
//!
//! | path | answer |
//! |---|---|
//! | `/metrics` | every metric of `spec/`, OpenMetrics text |
//! | `/healthz` | 200 `ok`, or 503 and the reasons; then warnings |
//! | `/status` | the whole [`Snapshot`], JSON |
//!
//! It reads only, through [`Observed`]; nothing can be changed through it. It knows no passwords: who can connect can
//! read.
#![forbid(unsafe_code)]

mod client;
mod metrics;
mod server;

pub use client::{fetch_status, read_status};
pub use lineside_service::{ServiceStatus, Snapshot, Tip};
pub use metrics::{CONTENT_TYPE, render};
pub use server::Console;

/// Whoever can say how the process is.
pub trait Observed: Send + Sync {
    /// How it is now. May wait for locks: it is called on a thread of its own, and given up on after two seconds.
    fn snapshot(&self) -> Snapshot;
}

impl<F: Fn() -> Snapshot + Send + Sync> Observed for F {
    fn snapshot(&self) -> Snapshot {
        self()
    }
}
