//! The paper's gRPC service, `controller.Node`, in which keys and signatures are hex strings. This module converts its
//! messages to a node's requests in the paper's format, which only a database in the paper's mode accepts.

mod client;
pub mod messages;
mod serve;

pub use client::Client;
pub(crate) use serve::PaperService;

/// Name of the gRPC response header that contains the number of a refusal's code.
const CODE_HEADER: &str = "lineside-code";
