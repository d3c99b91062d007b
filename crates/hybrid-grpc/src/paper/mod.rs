//! The paper's service, `controller.Node`, with hex strings in and out. It converts between these messages and a
//! node's requests in the paper's format, which only a database in the paper's mode takes.

mod client;
pub mod messages;
mod serve;

pub use client::Client;
pub(crate) use serve::PaperService;

/// Header of a gRPC status with the number of the code.
const CODE_HEADER: &str = "lineside-code";
