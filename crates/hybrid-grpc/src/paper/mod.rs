//! The paper's gRPC service, `controller.Node`, in which keys and signatures are hex strings. This module converts its
//! messages to a node's requests in the paper's format, which only a database in the paper's mode accepts.

mod serve;

pub(crate) use serve::PaperService;
