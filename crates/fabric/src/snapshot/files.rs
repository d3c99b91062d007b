//! Where the files of a snapshot are read from.

use super::SnapshotError;
use super::head::{Head, hex};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

/// Names of the files that a snapshot's hash covers, in the order in which they are read. A snapshot without private
/// state, or without collections, lacks the files of it.
pub const FILES: [&str; 8] = [
    "public_state.metadata",
    super::PUBLIC_STATE,
    "private_state_hashes.metadata",
    super::PRIVATE_STATE,
    "txids.metadata",
    super::IDS,
    "confighistory.metadata",
    super::HISTORY,
];

/// Bytes read at once.
const CHUNK_BYTES: usize = 1 << 18;

/// Opens the files of a snapshot, the two of JSON first, then in the order of [`FILES`].
pub trait Files {
    /// Opens a file. Its bytes are read, all of them, before the next file is opened.
    ///
    /// # Errors
    /// `NotFound` for a file that the snapshot does not have; what the disk says.
    fn open<'f>(&'f mut self, name: &str) -> io::Result<Box<dyn Read + 'f>>;
}

/// Snapshot in a folder, as a peer writes it.
#[derive(Clone, Debug)]
pub struct Folder(pub PathBuf);

impl Files for Folder {
    fn open<'f>(&'f mut self, name: &str) -> io::Result<Box<dyn Read + 'f>> {
        Ok(Box::new(File::open(self.0.join(name))?))
    }
}

/// Compares the SHA-256 of each file of a snapshot with what its head says.
///
/// # Errors
/// The first file that differs or cannot be read.
pub fn check(files: &mut impl Files, head: &Head) -> Result<(), SnapshotError> {
    for name in FILES {
        let Some(expected) = head.files.get(name) else {
            continue;
        };
        let failed = |error| SnapshotError::io(name, &error);
        let mut from = files.open(name).map_err(failed)?;
        let mut hasher = Sha256::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = from.read(&mut chunk).map_err(failed)?;
            if read == 0 {
                break;
            }
            hasher.update(chunk.get(..read).unwrap_or_default());
        }
        compare(name, hasher, expected)?;
    }
    Ok(())
}

/// Compares a file's SHA-256 with what it must be.
pub(super) fn compare(name: &str, hasher: Sha256, expected: &[u8; 32]) -> Result<(), SnapshotError> {
    let found: [u8; 32] = hasher.finalize().into();
    match found == *expected {
        true => Ok(()),
        false => Err(SnapshotError::new(
            name,
            format!(
                "its SHA-256 is {}, and the snapshot's metadata says {}",
                hex(&found),
                hex(expected)
            ),
        )),
    }
}
