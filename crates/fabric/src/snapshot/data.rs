//! Reader of a binary file of a snapshot. The file is read once from start to end, and its SHA-256 is computed at the
//! same time.

use super::SnapshotError;
use super::files::{Files, compare};
use super::head::SnapshotHead;
use crate::limits::BLOCK_BYTES_MAX;
use sha2::{Digest, Sha256};
use std::io::{self, BufRead, BufReader, Read};

/// First byte of each file.
pub(super) const FORMAT: u8 = 1;
/// Size of the read buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 16;

/// A binary file of a snapshot.
pub(super) struct Data<'f> {
    name: String,
    from: BufReader<Hashing<Box<dyn Read + 'f>>>,
    expected: [u8; 32],
}

struct Hashing<R> {
    from: R,
    hasher: Sha256,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into)?;
        self.hasher.update(into.get(..read).unwrap_or_default());
        Ok(read)
    }
}

impl<'f> Data<'f> {
    /// Opens a file that the head names, and checks its format byte.
    pub fn open(files: &'f mut impl Files, head: &SnapshotHead, name: &str) -> Result<Self, SnapshotError> {
        let missing = || SnapshotError::new(super::SIGNABLE, format!("the file has no SHA-256 of {name}"));
        let expected = *head.files.get(name).ok_or_else(missing)?;
        let from = files
            .open(name)
            .map_err(|error| SnapshotError::io(name, &error))?;
        let from = Hashing {
            from,
            hasher: Sha256::new(),
        };
        let mut data = Self {
            name: name.to_owned(),
            from: BufReader::with_capacity(BUFFER_BYTES, from),
            expected,
        };
        match data.byte()? {
            FORMAT => Ok(data),
            format => Err(data.wrong(format!(
                "the file has format {format}; only format {FORMAT} is supported"
            ))),
        }
    }

    /// Returns an error that names the file.
    pub fn wrong(&self, what: impl Into<String>) -> SnapshotError {
        SnapshotError::new(&self.name, what)
    }

    fn byte(&mut self) -> Result<u8, SnapshotError> {
        let mut byte = [0];
        let read = self.from.read_exact(&mut byte);
        read.map_err(|error| SnapshotError::io(&self.name, &error))?;
        Ok(byte[0])
    }

    /// Reads a varint.
    pub fn number(&mut self) -> Result<u64, SnapshotError> {
        let mut value = 0u64;
        for place in 0..10 {
            let byte = self.byte()?;
            if place == 9 && byte > 1 {
                break;
            }
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.wrong("the file contains a number of more than 64 bits; copy the snapshot again"))
    }

    /// Reads a length and that number of bytes; they replace the content of `into`.
    pub fn bytes(&mut self, into: &mut Vec<u8>) -> Result<(), SnapshotError> {
        let length = self.number()?;
        if length > BLOCK_BYTES_MAX as u64 {
            return Err(self.wrong(format!(
                "an entry has {length} bytes, but the maximum is {BLOCK_BYTES_MAX}; copy the snapshot again"
            )));
        }
        into.clear();
        // Memory is allocated only for bytes that exist, even if the length is larger.
        let read = (&mut self.from).take(length).read_to_end(into);
        read.map_err(|error| SnapshotError::io(&self.name, &error))?;
        match into.len() as u64 == length {
            true => Ok(()),
            false => Err(self.wrong("the file ends within an entry; copy the snapshot again")),
        }
    }

    /// Reads a text.
    pub fn text(&mut self) -> Result<String, SnapshotError> {
        let mut bytes = Vec::new();
        self.bytes(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| self.wrong("a name is not UTF-8"))
    }

    /// Checks that no bytes follow, and that the file's SHA-256 is correct.
    pub fn end(mut self) -> Result<(), SnapshotError> {
        let rest = self
            .from
            .fill_buf()
            .map_err(|error| SnapshotError::io(&self.name, &error))?;
        if !rest.is_empty() {
            return Err(self.wrong("bytes follow the last entry of the file; copy the snapshot again"));
        }
        compare(&self.name, self.from.into_inner().hasher, &self.expected)
    }
}
