//! A committing replica of Hyperledger Fabric as a service of the daemon.
//!
//! The validator and the ledger are in the crate `lineside-fabric`, and the Deliver client and server in
//! `lineside-fabric-grpc`. This crate combines both:
//!
//! ```text
//! orderers --Deliver--+
//!                     +--> BlockIntake --> Replica (validates, writes) --> Teller --> Deliver to clients
//! sender ----UDP------+         |                     |
//!                               +------ Watch <-------+ results
//! ```
//!
//! [`config`] is the section `[fabric]`, [`files`] reads identities and keys, [`ledger`] opens the ledger, [`intake`]
//! passes blocks to the replica, [`udp_source`] receives blocks over UDP, [`watch`] and [`status`] provide the status
//! that the console shows, and [`service`] starts a replica.
//!
//! ```
//! use lineside_fabric_replica::config::FabricConfig;
//! use lineside_service::config::Section;
//! use std::sync::Arc;
//!
//! let text: Arc<str> = "[fabric]\nenabled = true\ndata = \"ledger\"\norderers = [\"no port\"]\n".into();
//! let issues = FabricConfig::parse(&Section::new("fabric", &text, None)).expect_err("it has mistakes");
//! assert!(issues[0].what.contains("orderers"));
//! ```

pub mod config;
pub mod files;
pub mod intake;
pub mod join;
pub mod ledger;
pub mod service;
pub mod status;
pub mod udp_source;
pub mod watch;

pub use service::DEF;
