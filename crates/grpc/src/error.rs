//! What is wrong with files.

use std::io;
use std::path::{Path, PathBuf};

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// TLS does not take the files.
    #[error("TLS: {0}")]
    Tls(String),
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, SetupError> {
    std::fs::read(path).map_err(|source| SetupError::Io {
        path: path.to_owned(),
        source,
    })
}
