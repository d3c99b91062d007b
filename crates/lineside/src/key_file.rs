//! Keys that two ends share, in files.

use crate::hex::from_hex;
use anyhow::{Context, bail};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The bytes that a file says in hex digits.
///
/// # Errors
/// A file that cannot be read, that others may read, or that says something else.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let shown = path.display();
    let mode = std::fs::metadata(path)
        .with_context(|| shown.to_string())?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        bail!(
            "{shown}: others may use it (mode {:03o}): chmod 600 it",
            mode & 0o777
        );
    }
    let text = std::fs::read_to_string(path).with_context(|| shown.to_string())?;
    from_hex(text.trim_end()).with_context(|| format!("{shown}: it is not hex digits"))
}
