//! What gRPC servers and clients of all services share: TLS from files in PEM, accepting connections within limits, and
//! a server in a task of its own.

pub mod accept;
mod error;
mod running;
mod tls;

pub use accept::{Accepting, Peer, accept};
pub use error::SetupError;
pub use running::Running;
pub use tls::{ClientTls, ServerTls};

/// An error with its causes.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
