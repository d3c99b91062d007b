//! Common parts of the gRPC servers and clients of all services: TLS from PEM files, accepting connections within
//! limits, counting calls and their bytes, and running a server in its own task.
//!
//! A [`Gate`] holds the limits of one server. [`accept`] asks the gate for each connection, and the server asks it for
//! each call.
//!
//! ```
//! use lineside_grpc::{Gate, Limits};
//!
//! let gate = Gate::new(Limits { connections: 8, ..Limits::default() });
//! assert_eq!((gate.limits().connections, gate.bytes_under_way()), (8, 0));
//! ```

pub mod accept;
mod call;
mod error;
mod gate;
mod pool;
mod running;
mod tls;

pub use accept::{Accepting, Peer, accept};
pub use call::{Answers, Call, Incoming};
pub use error::SetupError;
pub use gate::{Gate, Limits, Standing, Trusted};
pub use running::Running;
pub use tls::{ClientTls, ServerTls};

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
