//! A node of the `hybrid` ledger database as a service of the daemon.
//!
//! The engine is `lineside-hybrid`; its transports are `lineside-hybrid-grpc` and `lineside-log-kafka`. This crate
//! combines all three: [`config`] is the section `[hybrid]`, [`files`] reads genesis and keys, and [`service`] starts
//! a node with gRPC and UDP.
//!
//! ```
//! use lineside_hybrid_node::config::HybridConfig;
//! use lineside_service::config::Section;
//!
//! let config = HybridConfig::parse(&Section::empty("hybrid")).expect("the defaults are valid");
//! assert!(!config.enabled);
//! ```

pub mod config;
pub mod files;
pub mod service;
