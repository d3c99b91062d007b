//! What gRPC servers and clients of all services share: TLS from files in PEM, and accepting connections within limits.

pub mod accept;
mod error;
mod tls;

pub use accept::{Accepting, Peer, accept};
pub use error::SetupError;
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
