//! Errors of the reproduction of the papers' figures.

use lineside_bench::BenchError;
use std::io;
use std::path::{Path, PathBuf};

/// Reason why figures could not be created.
#[derive(Debug, thiserror::Error)]
pub enum PapersError {
    /// The run of a contestant failed.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The fast-path table could not be created.
    #[error(
        "cannot make a fast-path table of 2^{line_bits} lines, which needs {mebibytes} MiB of memory: {source}"
    )]
    Table {
        /// log2 of the number of lines.
        line_bits: u32,
        /// Size of the table's lines in MiB.
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
    /// The data of a figure could not be created. The field is the reason.
    #[error("{0}")]
    NotMade(String),
    /// A plot could not be drawn.
    #[error("cannot draw {}: {reason}", path.display())]
    Draw {
        /// Path of the plot's file.
        path: PathBuf,
        /// Error message of the plotting library.
        reason: String,
    },
}

/// Result of the functions that create figures.
pub type Result<T> = std::result::Result<T, PapersError>;

/// Returns a function for `map_err` that adds the path of the file to an I/O error of a write.
pub(crate) fn writing(path: &Path) -> impl FnOnce(io::Error) -> PapersError {
    let path = path.to_owned();
    move |source| PapersError::Write { path, source }
}
