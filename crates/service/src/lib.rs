//! Interface between a service and the daemon that runs it.
//!
//! A [`ServiceDef`] names a service and parses its section of the configuration into a [`Service`]. The daemon starts
//! the `Service` and gets a [`Running`] service. The daemon has no code for a particular service; it iterates over a
//! list of definitions.
//!
//! ```text
//! ServiceDef::parse      section of lineside.toml -> Service, or every ConfigIssue
//! Service::privileged_init    opens files while the process still has the rights of root
//!   (the daemon gives up all capabilities but those that BPF needs)
//! Service::program       the XDP program, sized for this configuration
//!   (the daemon loads the programs of all services for its interfaces: XdpAttachment)
//! Service::start         fills the fast-path table, listens, renews the lease -> Running
//!   (the daemon attaches the programs, falls back to the socket datapath, or fails)
//! Running::confirm       every service has started
//!   ...
//!   (a signal: the daemon detaches the programs of all services)
//! Running::stop          drains what the fast path has left, then ends
//! ```
//!
//! [`config`] reads sections and reports all issues with line numbers. [`address`] reads addresses. [`status`] holds
//! the data that the console shows. [`XdpAttachment`], [`NicAttachment`] and [`Frontend`] connect a service to the
//! datapaths. [`LeaseRenewal`] renews a lease. [`RunningLeased`] implements [`Running`] for a service with one fast
//! path under a lease and one host.
//!
//! ```
//! use lineside_service::ByteSize;
//! use lineside_service::config::Section;
//! use std::sync::Arc;
//!
//! #[derive(Default, serde::Serialize, serde::Deserialize)]
//! #[serde(default)]
//! struct Config {
//!     enabled: bool,
//!     memory_max: Option<ByteSize>,
//! }
//!
//! let text: Arc<str> = "[example]\nenabled = true\nmemory_max = \"64 MiB\"\n".into();
//! let config: Config = Section::new("example", &text, None).read().expect("the keys are right");
//! assert!(config.enabled && config.memory_max == Some(ByteSize::mib(64)));
//! ```

pub mod address;
mod attachment;
mod byte_size;
pub mod config;
mod datapath;
mod definition;
mod descriptors;
mod frontend;
mod leased;
mod nic;
mod optional_address;
mod placement;
mod renewal;
mod rights;
pub mod status;

pub use attachment::XdpAttachment;
pub use byte_size::ByteSize;
pub use datapath::{DatapathConfig, DatapathKind, INTERFACES_MAX, XdpModeName};
pub use definition::{
    DecodedRecord, Endpoint, Listen, NamedFile, PinnedWork, RecordDecoder, Running, Service, ServiceDef,
    StartContext,
};
pub use descriptors::raise_open_files_limit;
pub use frontend::{Counted, Frontend, set_socket_counts, stall_problem};
pub use leased::{Leased, RunningLeased, cannot_listen, report_lost_lease};
pub use nic::{NicAttachment, NicProgram};
pub use optional_address::OptionalAddress;
pub use placement::placement_faults;
pub use renewal::LeaseRenewal;
pub use rights::{CallGroup, Rights};
pub use status::{AttachedInterface, HistogramCounts, ServiceStatus, Snapshot, StatusBuilder, Tip};
