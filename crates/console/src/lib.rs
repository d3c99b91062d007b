//! The console: an HTTP server that reports the state of Lineside, on loopback by default.
//!
//! | path | answer |
//! |---|---|
//! | `/` | the dashboard page, which `build.rs` embeds |
//! | `/events` | server-sent events: the last five minutes, then one sample each second |
//! | `/history` | the last five minutes, JSON |
//! | `/metrics` | every metric of `spec/`: OpenMetrics or Prometheus text, as `Accept` asks |
//! | `/healthz` | [`Health`] as JSON; 200, or 503 if a service cannot do its work |
//! | `/status` | the whole [`Snapshot`], JSON |
//! | `/version` | version, commit and features of the program, JSON |
//!
//! The console only reads, through [`Observed`]; a client cannot change anything. It has no authentication: every
//! client that can connect can read everything.
//!
//! ```
//! use lineside_console::{Console, Snapshot, fetch_status};
//! use std::sync::Arc;
//!
//! let status = || Snapshot {
//!     version: "0.1.0".into(),
//!     ..Snapshot::default()
//! };
//! let console = Console::start("127.0.0.1:0".parse().expect("it is an address"), Arc::new(status))?;
//! assert_eq!(fetch_status(console.local_addr())?.version, "0.1.0");
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

mod client;
mod deadline;
mod events;
mod health;
mod history;
mod metrics;
mod page;
mod quantiles;
mod series;
mod server;

pub use client::{fetch_status, read_status};
pub use health::{Health, HealthStatus, ServiceHealth};
pub use lineside_service::{ServiceStatus, Snapshot, Tip};
pub use metrics::{Format, render};
pub use page::has_dashboard;
pub use server::{Console, Limits};

/// Source of the status that the console reports.
pub trait Observed: Send + Sync {
    /// Returns the current status. May block on locks, because the console calls it on a separate thread and stops
    /// waiting for the result after two seconds.
    fn snapshot(&self) -> Snapshot;
}

impl<F: Fn() -> Snapshot + Send + Sync> Observed for F {
    fn snapshot(&self) -> Snapshot {
        self()
    }
}
