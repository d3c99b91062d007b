//! Common parts of the gRPC servers and clients of all services: TLS from PEM files, accepting connections within
//! limits, counting calls and their bytes, and running a server in its own task.
//!
//! Clients need only [`ClientTls`] and [`chain`]; the feature `server` (default) has the rest.
//!
//! A `Gate` holds the limits of one server. `accept` asks the gate for each connection, and the server asks it for
//! each call.
//!
//! ```
//! # #[cfg(feature = "server")]
//! # {
//! use lineside_grpc::{Gate, Limits};
//!
//! let gate = Gate::new(Limits { connections: 8, ..Limits::default() });
//! assert_eq!((gate.limits().connections, gate.bytes_under_way()), (8, 0));
//! # }
//! ```

#[cfg(feature = "server")]
pub mod accept;
#[cfg(feature = "server")]
mod call;
mod error;
#[cfg(feature = "server")]
mod gate;
#[cfg(feature = "server")]
mod pool;
#[cfg(feature = "server")]
mod refused;
#[cfg(feature = "server")]
mod running;
mod tls;

#[cfg(feature = "server")]
pub use accept::{Accepting, Peer, accept};
#[cfg(feature = "server")]
pub use call::{Answers, Call, Incoming};
pub use error::SetupError;
#[cfg(feature = "server")]
pub use gate::{Gate, Limits, Standing, Trusted};
#[cfg(feature = "server")]
pub use refused::RefusedCalls;
#[cfg(feature = "server")]
pub use running::Running;
pub use tls::ClientTls;
#[cfg(feature = "server")]
pub use tls::ServerTls;

/// Returns an error and all its causes as one text.
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
