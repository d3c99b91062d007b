//! Path of the repository, for the tests that read files of the repository.

use std::path::{Path, PathBuf};

/// Returns the path of the repository.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the path of the repository resolves")
}
