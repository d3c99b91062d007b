//! Errors of the papers' figures.

use lineside_bench::BenchError;
use std::io;
use std::path::{Path, PathBuf};

/// The reason for which figures could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PapersError {
    /// A run of a contestant failed.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The fast-path table could not be made.
    #[error(
        "making a fast-path table of 2^{line_bits} lines: {source}; this needs {mebibytes} MiB of memory"
    )]
    Table {
        /// log2 of the number of lines.
        line_bits: u32,
        /// Size of the lines.
        mebibytes: u64,
        /// Reason that the system gave.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("writing {}: {source}; give --out a folder that can be written", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// Reason that the system gave.
        source: io::Error,
    },
    /// The data of a figure could not be made.
    #[error("{0}")]
    NotMade(String),
    /// A plot could not be drawn.
    #[error("drawing {}: {reason}", path.display())]
    Draw {
        /// The file.
        path: PathBuf,
        /// Reason that the plotter gave.
        reason: String,
    },
}

/// Result of every step.
pub type Result<T> = std::result::Result<T, PapersError>;

/// For `map_err`: an I/O error with the file that was being written.
pub(crate) fn writing(path: &Path) -> impl FnOnce(io::Error) -> PapersError {
    let path = path.to_owned();
    move |source| PapersError::Write { path, source }
}
