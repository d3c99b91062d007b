//! Files with secret keys that only their owner may read: shared keys and signing keys.

use crate::hex::from_hex;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Reason why a key file cannot be used.
#[derive(Debug, Error)]
pub enum KeyFileError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Group or others may read or write the file.
    #[error("{}: others may use it (mode {mode:03o}): chmod 600 it", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Permission bits.
        mode: u32,
    },
    /// The file does not contain a key.
    #[error("{}: {expected}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Description of what is wrong.
        expected: &'static str,
    },
}

impl KeyFileError {
    /// Returns true if the file does not exist.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Returns what to do if a file cannot be read: `make`, a command that makes it, if it does not exist, and otherwise
/// advice about rights. Empty for other errors; else the text begins with `; `.
pub fn remedy_for(error: &io::Error, make: &str) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("; {make}"),
        io::ErrorKind::PermissionDenied => "; give this user the right to read it".to_owned(),
        _ => String::new(),
    }
}

/// Returns the permission bits of a file if group or others have any, or `None` if only its owner may use it.
///
/// # Errors
/// The system's error of reading the file's metadata.
pub fn exposed_mode(path: &Path) -> io::Result<Option<u32>> {
    let mode = fs::metadata(path)?.permissions().mode() & 0o777;
    Ok((mode & 0o077 != 0).then_some(mode))
}

/// Returns the text of a file; refuses a file that users other than its owner may use.
///
/// # Errors
/// [`KeyFileError::Unreadable`], [`KeyFileError::Exposed`].
pub fn read_owner_only(path: &Path) -> Result<String, KeyFileError> {
    let unreadable = |source| KeyFileError::Unreadable {
        path: path.into(),
        source,
    };
    if let Some(mode) = exposed_mode(path).map_err(unreadable)? {
        let path = path.into();
        return Err(KeyFileError::Exposed { path, mode });
    }
    fs::read_to_string(path).map_err(unreadable)
}

/// Writes a file that only its owner can use. An existing file is replaced.
///
/// # Errors
/// The system's error of removing the old file or of writing the new one.
pub fn write_owner_only(path: &Path, text: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text)?;
    file.sync_all()
}

/// Returns the bytes that a file contains as hex digits.
///
/// # Errors
/// Any [`KeyFileError`].
pub fn read_shared_key(path: &Path) -> Result<Vec<u8>, KeyFileError> {
    let text = read_owner_only(path)?;
    from_hex(text.trim_end()).ok_or_else(|| KeyFileError::Malformed {
        path: path.into(),
        expected: "the key must consist of hex digits, two for each byte",
    })
}

/// Returns the curve name and the secret scalar of a signing key. The file contains the name, a space, and the scalar
/// as 64 hex digits.
///
/// # Errors
/// Any [`KeyFileError`].
pub fn read_signing_key(path: &Path) -> Result<(String, [u8; 32]), KeyFileError> {
    let text = read_owner_only(path)?;
    let parse = || {
        let (curve, digits) = text.trim_end().split_once(' ')?;
        Some((curve.to_owned(), from_hex(digits)?.try_into().ok()?))
    };
    parse().ok_or_else(|| KeyFileError::Malformed {
        path: path.into(),
        expected: "the file must contain a curve name, a space, and 64 hex digits",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    #[test]
    fn the_remedy_depends_on_the_reason() {
        let remedy = |kind: io::ErrorKind| remedy_for(&kind.into(), "make it");
        assert_eq!(remedy(io::ErrorKind::NotFound), "; make it");
        assert_eq!(
            remedy(io::ErrorKind::PermissionDenied),
            "; give this user the right to read it"
        );
        assert_eq!(remedy(io::ErrorKind::IsADirectory), "");
        let missing = read_signing_key(Path::new("none")).unwrap_err();
        assert!(missing.is_missing());
        assert!(!read_signing_key(Path::new("/")).unwrap_err().is_missing());
    }

    #[test]
    fn a_key_file_that_others_may_use_or_without_hex_digits_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let digits = "0123456789abcdef".repeat(4);
        for (text, mode, is_shared, signs) in [
            (format!("{digits}\n"), 0o600, true, false),
            (digits.clone(), 0o400, true, false),
            (format!("p256 {digits}\n"), 0o600, false, true),
            (format!("p256 {}", &digits[2..]), 0o600, false, false),
            (digits.clone(), 0o640, false, false),
            (format!("p256 {digits}"), 0o604, false, false),
            (format!("{digits}0g"), 0o600, false, false),
        ] {
            let _ = fs::remove_file(&path);
            fs::write(&path, &text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_shared_key(&path).is_ok(), is_shared, "{text:?} {mode:o}");
            assert_eq!(read_signing_key(&path).is_ok(), signs, "{text:?} {mode:o}");
        }
        let written = folder.path().join("written");
        fs::write(&written, "open to all").unwrap();
        fs::set_permissions(&written, Permissions::from_mode(0o644)).unwrap();
        write_owner_only(&written, b"00ff").unwrap();
        assert_eq!(read_shared_key(&written).unwrap(), [0, 0xff]);
        let missing = read_shared_key(&folder.path().join("none")).unwrap_err();
        assert!(matches!(missing, KeyFileError::Unreadable { .. }));
    }
}
