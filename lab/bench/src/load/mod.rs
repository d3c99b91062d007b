//! Load on a running server of a service: requests at a fixed rate (open loop) or with a fixed number in flight (closed
//! loop), over connected UDP sockets. Every answer is checked.
//!
//! ```text
//!   schedule --- due ---> Traffic::ask --> batch --> sendmmsg --> server
//!      |    (writes wait until a session is free)                   |
//!      v                                                            v
//!   latency from the scheduled time <-- Traffic::judge <------- recvmmsg
//! ```
//!
//! In an open loop a request is sent at its scheduled time, whether or not earlier ones were answered, and its latency
//! counts from that time. A slow server therefore shows in the latencies (no coordinated omission).

pub mod column;
pub mod draws;
mod flight;
pub mod hybrid;
mod report;
pub mod spv;
mod thread;
pub mod transfer;
mod versions;

pub use report::Report;

use crate::sys;
use hdrhistogram::Histogram;
use lineside_wire::Status;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use thread::ThreadTally;

/// Maximum number of requests that may wait for their answers at once: the rate times the time-out.
pub const IN_FLIGHT_MAX: f64 = 16e6;
/// Number of wrong answers that are kept with their requests.
const WRONG_KEPT: usize = 5;
/// Longest latency that is distinguished; longer ones count as this one.
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Returns an empty histogram of nanoseconds, with a precision of 0.1 %.
fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are valid")
}

/// Reason why a load run ended without a report.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// Action that failed.
        what: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// The server cannot be loaded in this way. The field is the reason, and says what to do.
    #[error("{0}")]
    Setup(String),
}

/// Result of a step of a load run.
pub type Result<T> = std::result::Result<T, LoadError>;

/// Returns a function for `map_err` that adds the action to an I/O error.
fn io(what: &'static str) -> impl FnOnce(io::Error) -> LoadError {
    move |source| LoadError::Io { what, source }
}

/// Converts an error of the preparation; for `map_err`.
fn setup(error: impl std::fmt::Display) -> LoadError {
    LoadError::Setup(error.to_string())
}

/// Rule for the times at which requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Open loop: this number of requests per second over all threads, whatever the answers do.
    Rate(f64),
    /// Closed loop: this number of requests in flight over all threads.
    Window(usize),
}

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name of the service.
    pub service: &'static str,
    /// Address of the server.
    pub server: SocketAddr,
    /// Times of the requests.
    pub pace: Pace,
    /// Time in which requests are scheduled.
    pub duration: Duration,
    /// Number of threads.
    pub threads: usize,
    /// Number of sockets over all threads, at least one for each thread.
    pub connections: usize,
    /// Time after which a request without an answer counts as lost.
    pub timeout: Duration,
    /// Time between two sendings of a write without an answer. A repeated write is executed once. Reads are not
    /// repeated.
    pub resend: Duration,
    /// Share of writes that are sent twice at once, in percent, so that the server must recognise the second one.
    pub duplicate_percent: u64,
    /// Cores to which the threads are pinned, in turn; empty: not pinned.
    pub cores: Vec<usize>,
}

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Request that changes nothing. Any number may be in flight, and a lost one is not repeated.
    Read,
    /// Request of a session, which has one request in flight at most, and repeats it until it is answered.
    Write,
}

/// Result of checking an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judgement {
    /// The answer is right.
    Right,
    /// The server refused the request, for the named reason.
    Refused(String),
    /// The answer is wrong: it contradicts the request, earlier answers, or itself. The field says how.
    Wrong(String),
}

/// Requests of one thread, in the native format of a service, and the checks of their answers.
pub trait Traffic: Send {
    /// Facts about a request that the check of its answer needs.
    type Asked: Send;

    /// Draws the kind of the next request; `None` if the thread has sent all its requests.
    fn draw(&mut self) -> Option<Kind>;

    /// Appends a request with this id to `out`, which is empty. Returns `None` if no session is free.
    ///
    /// # Errors
    /// [`LoadError::Setup`] if no request can be sent any more.
    fn ask(&mut self, kind: Kind, id: u64, out: &mut Vec<u8>) -> Result<Option<Self::Asked>>;

    /// Returns the name of a request's operation.
    fn case(&self, asked: &Self::Asked) -> &'static str;

    /// Checks an answer with the right id, operation and length, whose status is not `busy`.
    fn judge(&mut self, asked: Self::Asked, status: Status, body: &[u8]) -> Judgement;

    /// Takes note that a request got no answer, so that it may or may not have been executed.
    fn lost(&mut self, asked: Self::Asked);

    /// Returns further counts of this thread for the report.
    fn counts(&self) -> Vec<(&'static str, u64)>;
}

/// Returns the name of a status in the form of the specification.
fn status_name(status: Status) -> String {
    snake(&format!("{status:?}"))
}

/// Converts a name from CamelCase to snake_case.
fn snake(camel: &str) -> String {
    let mut out = String::new();
    for (at, letter) in camel.chars().enumerate() {
        if letter.is_ascii_uppercase() && at > 0 {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// Sends the requests of `traffics`, one for each thread, and returns the report with the traffics.
///
/// # Errors
/// A socket cannot be used, or no session is left.
pub fn run<T: Traffic>(plan: &Plan, traffics: Vec<T>) -> Result<(Report, Vec<T>)> {
    let start_ns = sys::now_ns() + 1_000_000;
    let threads = traffics.len();
    let ended: Vec<Result<(ThreadTally, T)>> = std::thread::scope(|scope| {
        let running: Vec<_> = traffics
            .into_iter()
            .enumerate()
            .map(|(index, traffic)| {
                scope.spawn(move || {
                    if let Some(core) = plan.cores.get(index % plan.cores.len().max(1)) {
                        sys::pin(*core).map_err(io("pinning a thread to its core"))?;
                    }
                    thread::run(
                        plan,
                        traffic,
                        thread::Share {
                            index,
                            threads,
                            start_ns,
                        },
                    )
                })
            })
            .collect();
        let join = running.into_iter().map(|thread| thread.join());
        join.map(|ended| ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut report = Report::new(plan);
    let mut traffics = Vec::new();
    for result in ended {
        let (tally, traffic) = result?;
        report.add(&tally);
        for (name, count) in traffic.counts() {
            report.count(name, count);
        }
        traffics.push(traffic);
    }
    Ok((report, traffics))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_has_its_name_in_the_specification() {
        assert_eq!(status_name(Status::NoSession), "no_session");
        assert_eq!(status_name(Status::Busy), "busy");
    }
}
