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
#[cfg(feature = "server")]
mod serve;
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
#[cfg(feature = "server")]
pub use serve::{Windows, serve_until, server};
pub use tls::ClientTls;
#[cfg(feature = "server")]
pub use tls::ServerTls;

/// Returns an error and all its causes as one text. A cause that repeats the text of its error is not written twice.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut parts = vec![error.to_string()];
    let mut source = error.source();
    while let Some(error) = source {
        let part = error.to_string();
        match parts.last_mut() {
            Some(last) if part.starts_with(last.as_str()) => *last = part,
            Some(last) if last.ends_with(part.as_str()) => {}
            _ => parts.push(part),
        }
        source = error.source();
    }
    parts.join(": ")
}

#[cfg(test)]
mod tests {
    use super::chain;
    use std::error::Error;
    use std::fmt;

    /// Error with a text and a cause.
    #[derive(Debug)]
    struct Caused(&'static str, Option<Box<Caused>>);

    impl fmt::Display for Caused {
        fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.write_str(self.0)
        }
    }

    impl Error for Caused {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as &(dyn Error + 'static))
        }
    }

    fn chained(texts: &[&'static str]) -> String {
        let caused = |cause: Option<Box<Caused>>, text: &&'static str| Some(Box::new(Caused(text, cause)));
        let first = texts.iter().rev().fold(None, caused);
        first.map(|first| chain(&*first)).unwrap_or_default()
    }

    #[test]
    fn a_cause_that_repeats_its_error_is_written_once() {
        let dns = [
            "transport error",
            "dns error",
            "dns error: no such host",
            "no such host",
        ];
        assert_eq!(chained(&dns), "transport error: dns error: no such host");
        assert_eq!(chained(&["a", "b", "c"]), "a: b: c");
        assert_eq!(chained(&["a"]), "a");
    }
}
