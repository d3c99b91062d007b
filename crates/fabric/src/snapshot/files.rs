//! Access to the files of a snapshot.

use super::SnapshotError;
use super::head::{SnapshotHead, hex};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

/// Names of the files that a snapshot's hash covers, in reading order. A snapshot without private state, or without
/// collections, lacks the corresponding files.
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

/// Size of the read buffer, in bytes.
const CHUNK_BYTES: usize = 1 << 18;

/// Source of a snapshot's files. The reader opens them in this order: the two JSON files, then the files in [`FILES`].
pub trait Files {
    /// Opens a file. All of its bytes are read before the next file is opened.
    ///
    /// # Errors
    /// `NotFound` for a file that the snapshot does not have, or an error of the disk.
    fn open<'f>(&'f mut self, name: &str) -> io::Result<Box<dyn Read + 'f>>;
}

/// A snapshot in a folder, in the form that a peer writes.
#[derive(Clone, Debug)]
pub struct SnapshotFolder(pub PathBuf);

impl Files for SnapshotFolder {
    fn open<'f>(&'f mut self, name: &str) -> io::Result<Box<dyn Read + 'f>> {
        Ok(Box::new(File::open(self.0.join(name))?))
    }
}

/// Checks the SHA-256 of each file of a snapshot.
///
/// # Errors
/// The error names the first file whose SHA-256 differs or that cannot be read.
pub fn check(files: &mut impl Files, head: &SnapshotHead) -> Result<(), SnapshotError> {
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

/// Checks a file's SHA-256.
pub(super) fn compare(name: &str, hasher: Sha256, expected: &[u8; 32]) -> Result<(), SnapshotError> {
    let actual: [u8; 32] = hasher.finalize().into();
    match actual == *expected {
        true => Ok(()),
        false => Err(SnapshotError::new(
            name,
            format!(
                "its SHA-256 is {}, but the snapshot's metadata says {}; copy the snapshot again",
                hex(&actual),
                hex(expected)
            ),
        )),
    }
}
