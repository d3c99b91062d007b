//! Errors of the reproduction of the papers' figures.

use lineside_bench::BenchError;
use std::io;
use std::path::{Path, PathBuf};

/// Reason for which figures could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PapersError {
    /// A run of a contestant failed.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The fast-path table could not be made.
    #[error(
        "cannot make a fast-path table of 2^{line_bits} lines, which needs {mebibytes} MiB of memory: {source}"
    )]
    Table {
        /// log2 of the number of lines.
        line_bits: u32,
        /// Size of the lines.
        mebibytes: u64,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}; give a writable folder with --out: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The data of a figure could not be made.
    #[error("{0}")]
    NotMade(String),
    /// A plot could not be drawn.
    #[error("cannot draw {}: {reason}", path.display())]
    Draw {
        /// The file.
        path: PathBuf,
        /// Error of the plotter.
        reason: String,
    },
}

/// Result of the functions that make figures.
pub type Result<T> = std::result::Result<T, PapersError>;

/// Returns a function for `map_err` that adds the file to an I/O error of a write.
pub(crate) fn writing(path: &Path) -> impl FnOnce(io::Error) -> PapersError {
    let path = path.to_owned();
    move |source| PapersError::Write { path, source }
}
