//! Output of the command: results on standard output, errors and warnings on standard error. A failed write never
//! panics.

pub use lineside_util::counted;

use std::fmt::{Arguments, Display};
use std::io::{self, ErrorKind, Write};

/// Error of a write to standard output.
#[derive(Debug)]
pub struct Unwritten(io::Error);

impl std::error::Error for Unwritten {}

impl Display for Unwritten {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "writing to standard output: {}", self.0)
    }
}

impl Unwritten {
    /// Returns true if the reader closed the pipe; the command then ends without a message.
    pub fn is_closed(&self) -> bool {
        self.0.kind() == ErrorKind::BrokenPipe
    }
}

impl From<io::Error> for Unwritten {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

/// Writes a line to standard output, like `println!`, and returns a `Result<(), Unwritten>`.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {
        $crate::out::text(format_args!("{}\n", format_args!($($words)*)))
    };
}

/// Writes a line to standard error, like `eprintln!`; ignores a failed write.
#[macro_export]
macro_rules! tell {
    ($($words:tt)*) => {
        $crate::out::tell(format_args!($($words)*))
    };
}

/// Writes `text` to standard output, without adding a line end, and flushes.
///
/// # Errors
/// Standard output cannot be written.
pub fn text(text: impl Display) -> Result<(), Unwritten> {
    let mut out = io::stdout().lock();
    write!(out, "{text}")?;
    Ok(out.flush()?)
}

/// Reports a failed write of a server to standard error; the server continues. A closed pipe is not reported.
pub fn said_by_server(said: Result<(), Unwritten>) {
    if let Err(error) = said.as_ref()
        && !error.is_closed()
    {
        tell!("lineside: {error}; the server continues without standard output");
    }
}

/// Writes a line to standard error. If the write fails, the line is lost.
pub fn tell(words: Arguments<'_>) {
    // A failed write to standard error is ignored, because there is no other stream on which to report it.
    let _ = io::stderr().lock().write_all(format!("{words}\n").as_bytes());
}
