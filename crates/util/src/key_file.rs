//! Files with secret keys, which only their owner may read: keys that two ends share, and keys that sign.

use crate::hex::from_hex;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Reason why a key file cannot be used.
#[derive(Debug, Error)]
pub enum KeyFileError {
    /// The system does not give its text.
    #[error("{}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Others than its owner may read or write it.
    #[error("{}: others may use it (mode {mode:03o}): chmod 600 it", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Its text is not a key.
    #[error("{}: {expected}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What the file should hold.
        expected: &'static str,
    },
}

/// Returns the permissions of a file that others than its owner may use; `None` for one that only its owner may use.
///
/// # Errors
/// The system's reason why it does not say them.
pub fn exposed_mode(path: &Path) -> io::Result<Option<u32>> {
    let mode = fs::metadata(path)?.permissions().mode() & 0o777;
    Ok((mode & 0o077 != 0).then_some(mode))
}

/// Returns the text of a file that only its owner may use.
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

/// Writes a file that only its owner may use; one that is there already is replaced.
///
/// # Errors
/// The system's reason.
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

/// Returns the bytes that a file holds as hex digits.
///
/// # Errors
/// Any [`KeyFileError`].
pub fn read_shared_key(path: &Path) -> Result<Vec<u8>, KeyFileError> {
    let text = read_owner_only(path)?;
    from_hex(text.trim_end()).ok_or_else(|| KeyFileError::Malformed {
        path: path.into(),
        expected: "it is not hex digits",
    })
}

/// Returns the curve's name and the secret number of a key that signs: a file with both, the number in 64 hex digits.
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
        expected: "it does not hold a curve's name and 64 hex digits",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    #[test]
    fn a_key_file_is_for_its_owner_only_and_holds_hex_digits() {
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
