//! What the command says: what was asked for on standard output, what is wrong on standard error. Neither ever panics.

use std::fmt::{Arguments, Display};
use std::io::{self, ErrorKind, Write};

/// Standard output takes nothing more.
#[derive(Debug)]
pub struct Unwritten(io::Error);

impl std::error::Error for Unwritten {}

impl Display for Unwritten {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "writing to standard output: {}", self.0)
    }
}

impl Unwritten {
    /// Whether whoever reads has ended: nobody has to be told.
    pub fn is_closed(&self) -> bool {
        self.0.kind() == ErrorKind::BrokenPipe
    }
}

impl From<io::Error> for Unwritten {
    fn from(error: io::Error) -> Self {
        Self(error)
    }
}

/// A line on standard output, as `println!`: a `Result<(), Unwritten>`.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {
        $crate::out::text(format_args!("{}\n", format_args!($($words)*)))
    };
}

/// A line on standard error, as `eprintln!`; where it takes none, nothing is said.
#[macro_export]
macro_rules! tell {
    ($($words:tt)*) => {
        $crate::out::tell(format_args!($($words)*))
    };
}

/// Puts `text`, with its line ends, on standard output, and gives it away at once.
///
/// # Errors
/// Standard output does not take it.
pub fn text(text: impl Display) -> Result<(), Unwritten> {
    let mut out = io::stdout().lock();
    write!(out, "{text}")?;
    Ok(out.flush()?)
}

/// What a server says goes nowhere where standard output takes nothing more: it serves on.
pub fn said_by_server(said: Result<(), Unwritten>) {
    if let Err(error) = said.as_ref()
        && !error.is_closed()
    {
        tell!("lineside: {error}; it goes on without");
    }
}

/// Puts a line on standard error. Where standard error takes nothing, the line is lost.
pub fn tell(words: Arguments<'_>) {
    // There is no other place to say so.
    let _ = io::stderr().lock().write_all(format!("{words}\n").as_bytes());
}
