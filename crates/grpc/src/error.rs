//! Errors of setting up TLS.

use lineside_util::key_file::{KeyFileError, read_owner_only};
use std::io;
use std::path::{Path, PathBuf};

/// Reason why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A key cannot be read, or users other than its owner may use it.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The certificates or keys are not valid for TLS.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, SetupError> {
    std::fs::read(path).map_err(|source| SetupError::Io {
        path: path.to_owned(),
        source,
    })
}

/// Returns the text of a key file, which only its owner may be able to use.
pub(crate) fn read_key(path: &Path) -> Result<Vec<u8>, SetupError> {
    Ok(read_owner_only(path)?.into_bytes())
}
