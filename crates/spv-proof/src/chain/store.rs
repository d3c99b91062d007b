//! Stores of a chain's headers between two runs.
//!
//! `headers.dat` is a file header of 16 bytes (`LSHEADER`, the format version 1 in 4 bytes, the network's magic in 4
//! bytes; numbers are little-endian), followed by headers of 80 bytes in the order in which they were accepted, so
//! that each parent precedes its children. Headers of side chains are among them. No checksums are needed: the proof
//! of work and the parent of each header show that it is intact.

use crate::{HEADER_BYTES, Network};
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Name of the file in its directory.
const FILE_NAME: &str = "headers.dat";
const MAGIC: [u8; 8] = *b"LSHEADER";
const FORMAT_VERSION: u32 = 1;
const FILE_HEADER_BYTES: u64 = 16;

/// Header in the form in which stores keep it.
pub(super) type HeaderBytes = [u8; HEADER_BYTES];

/// Keeps accepted headers, in the order in which they were accepted, for a later run.
///
/// The chain tries again to append headers that could not be appended, so a failure need not end its use.
pub trait HeaderStore {
    /// Calls `each` with every kept header, in order, until it returns false.
    ///
    /// # Errors
    /// The operating system's error, or [`StoreError::OtherKind`].
    fn load(&mut self, each: &mut dyn FnMut(&[u8; HEADER_BYTES]) -> bool) -> Result<(), StoreError>;

    /// Keeps only the first `count` headers.
    ///
    /// # Errors
    /// The operating system's error.
    fn cut(&mut self, count: u64) -> Result<(), StoreError>;

    /// Adds headers. They need not be durable before [`HeaderStore::sync`] returns.
    ///
    /// # Errors
    /// The operating system's error; the store then holds the headers that it held before.
    fn append(&mut self, headers: &[[u8; HEADER_BYTES]]) -> Result<(), StoreError>;

    /// Makes everything that was appended durable.
    ///
    /// # Errors
    /// The operating system's error. What was appended may be lost; the caller can fetch it again.
    fn sync(&mut self) -> Result<(), StoreError>;
}

/// Reason why headers cannot be kept or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file is not of this format, has another format version, or holds another network's headers.
    #[error("{} holds {found}, not headers of {expected}: give another directory", path.display())]
    OtherKind {
        /// Path of the file.
        path: PathBuf,
        /// Description of the content, derived from the file's first bytes.
        found: String,
        /// Network that the caller expects.
        expected: Network,
    },
    /// An earlier write failed in the middle, and the file could not be shortened to its previous end. The end of the
    /// file is therefore unknown.
    #[error(
        "{} can no longer be written, because a failed write could not be undone; restart the program",
        path.display()
    )]
    Broken {
        /// Path of the file.
        path: PathBuf,
    },
    /// The system returned an error.
    #[error("{op} {}: {source}", path.display())]
    Io {
        /// Operation that failed.
        op: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

/// Store that keeps nothing: the chain begins with the genesis header at every start.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryStore;

impl HeaderStore for MemoryStore {
    fn load(&mut self, _: &mut dyn FnMut(&HeaderBytes) -> bool) -> Result<(), StoreError> {
        Ok(())
    }

    fn cut(&mut self, _: u64) -> Result<(), StoreError> {
        Ok(())
    }

    fn append(&mut self, _: &[HeaderBytes]) -> Result<(), StoreError> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Store in the file `headers.dat` of a directory.
///
/// The file contains its network. It has no lock: the caller owns the directory, and claims it with
/// `lineside_util::data_dir::DataDir` before it opens the store.
#[derive(Debug)]
pub struct FileStore {
    file: File,
    path: PathBuf,
    network: Network,
    /// Number of headers in the file.
    count: u64,
    is_broken: bool,
}

impl FileStore {
    /// Opens `headers.dat` in `directory`, and creates it if it is missing.
    ///
    /// # Errors
    /// [`StoreError::OtherKind`], [`StoreError::Io`].
    pub fn create(directory: &Path, network: Network) -> Result<FileStore, StoreError> {
        let path = directory.join(FILE_NAME);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path).map_err(failed("opening", &path))?;
        FileStore::begin(file, path, network)
    }

    /// Opens the `headers.dat` that is in `directory`.
    ///
    /// # Errors
    /// [`StoreError::OtherKind`]; [`StoreError::Io`] with [`io::ErrorKind::NotFound`] if there is no such file.
    pub fn open(directory: &Path, network: Network) -> Result<FileStore, StoreError> {
        let path = directory.join(FILE_NAME);
        let file = OpenOptions::new().read(true).write(true).open(&path);
        let file = file.map_err(failed("opening", &path))?;
        FileStore::begin(file, path, network)
    }

    /// Reads the file header, or writes it if the file has only a part of it.
    fn begin(mut file: File, path: PathBuf, network: Network) -> Result<FileStore, StoreError> {
        let expected = file_header(network);
        let mut start = Vec::new();
        let read = (&mut file).take(FILE_HEADER_BYTES).read_to_end(&mut start);
        read.map_err(failed("reading", &path))?;
        if start.len() < expected.len() && expected.starts_with(&start) {
            let written = file.rewind().and_then(|()| file.write_all(&expected));
            written
                .and_then(|()| file.sync_all())
                .map_err(failed("writing", &path))?;
        } else if start != expected {
            let description = describe(&start);
            return Err(StoreError::OtherKind {
                path,
                found: description,
                expected: network,
            });
        }
        let length = file.metadata().map_err(failed("reading", &path))?.len();
        Ok(FileStore {
            file,
            path,
            network,
            count: length.saturating_sub(FILE_HEADER_BYTES) / HEADER_BYTES as u64,
            is_broken: false,
        })
    }

    /// Returns the network of the headers in `directory`; `None` if there is no `headers.dat`, or if it belongs to an
    /// unknown network. The function changes nothing.
    pub fn network_in(directory: &Path) -> Option<Network> {
        let mut start = [0; FILE_HEADER_BYTES as usize];
        let mut file = File::open(directory.join(FILE_NAME)).ok()?;
        file.read_exact(&mut start).ok()?;
        let mut all = Network::ALL.iter();
        all.find(|network| file_header(**network) == start).copied()
    }

    /// Returns the network of the file.
    pub fn network(&self) -> Network {
        self.network
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn end(&self) -> u64 {
        FILE_HEADER_BYTES + self.count * HEADER_BYTES as u64
    }

    fn check_not_broken(&self) -> Result<(), StoreError> {
        match self.is_broken {
            true => Err(StoreError::Broken {
                path: self.path.clone(),
            }),
            false => Ok(()),
        }
    }
}

impl HeaderStore for FileStore {
    fn load(&mut self, each: &mut dyn FnMut(&HeaderBytes) -> bool) -> Result<(), StoreError> {
        let start = self.file.seek(SeekFrom::Start(FILE_HEADER_BYTES));
        start.map_err(failed("reading", &self.path))?;
        let mut reader = BufReader::with_capacity(1 << 20, &self.file);
        let mut header = [0; HEADER_BYTES];
        for _ in 0..self.count {
            reader
                .read_exact(&mut header)
                .map_err(failed("reading", &self.path))?;
            if !each(&header) {
                break;
            }
        }
        Ok(())
    }

    fn cut(&mut self, count: u64) -> Result<(), StoreError> {
        self.check_not_broken()?;
        self.count = self.count.min(count);
        self.file
            .set_len(self.end())
            .map_err(failed("cutting", &self.path))
    }

    fn append(&mut self, headers: &[HeaderBytes]) -> Result<(), StoreError> {
        self.check_not_broken()?;
        let bytes = headers.as_flattened();
        let at = SeekFrom::Start(self.end());
        let written = self.file.seek(at).and_then(|_| self.file.write_all(bytes));
        if let Err(error) = written {
            // Part of the headers may be written: truncates the file to its previous end.
            self.is_broken = self.file.set_len(self.end()).is_err();
            return Err(failed("writing", &self.path)(error));
        }
        self.count += headers.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.check_not_broken()?;
        let synced = self.file.sync_data().map_err(failed("syncing", &self.path));
        self.is_broken = synced.is_err();
        synced
    }
}

fn file_header(network: Network) -> [u8; FILE_HEADER_BYTES as usize] {
    let mut bytes = [0; FILE_HEADER_BYTES as usize];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes[12..].copy_from_slice(&network.magic());
    bytes
}

/// Describes a file by its first bytes, which are not the expected ones.
fn describe(start: &[u8]) -> String {
    let of_network = |network: &Network| file_header(*network) == *start;
    if let Some(network) = Network::ALL.iter().find(|network| of_network(network)) {
        return format!("headers of {network}");
    }
    match start.strip_prefix(&MAGIC) {
        Some(_) => "headers of a network or format version that this program does not know".into(),
        None => "no headers".into(),
    }
}

fn failed(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let path = path.into();
    move |source| StoreError::Io { op, path, source }
}
