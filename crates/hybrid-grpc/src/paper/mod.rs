//! The paper's service: `controller.Node`, hex strings in and out. What it asks of a node are the same requests as any
//! other; only a database of the paper's mode takes them.

mod client;
pub mod messages;
mod serve;

pub use client::Client;
pub(crate) use serve::PaperService;

/// In a status of gRPC: the number of the code that it stands for.
const CODE_HEADER: &str = "lineside-code";
