//! Blocks on disk, so that a workload is made once.
//!
//! A transaction is some 3,900 bytes, 3,200 of which are four certificates that thousands of others have too. So what
//! is kept are the bytes between certificates, and each certificate once: about 750 bytes a transaction. Reading a
//! block back is copying, which keeps whoever feeds a bench out of its figures.

use crate::blocks::{Blocks, Made, Workload};
use crate::network::{Network, Options};
use hashbrown::HashMap;
use lineside_fabric::TxCode;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Changes whenever the same seed and options give other bytes.
const VERSION: &str = "lineside fabric workload 2\n";
const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----\n";
const END: &[u8] = b"-----END CERTIFICATE-----\n";
/// Bytes of a block, or of a part of it, at most.
const BYTES_MAX: u64 = 1 << 30;

/// Reads the blocks of a workload from `directory`, where they are made first if they are not there.
///
/// # Errors
/// What the file system says, and [`io::ErrorKind::InvalidData`] where a file is not what it should be.
pub fn open(
    directory: &Path,
    seed: u64,
    options: &Options,
    workload: &Workload,
    threads: usize,
) -> io::Result<Reader> {
    let path = path(directory, seed, options, workload);
    if !path.exists() {
        std::fs::create_dir_all(directory)?;
        let network = Arc::new(Network::new(seed, options.clone()));
        // Another process may make the same; the last one to be done stays.
        let part = path.with_extension(format!("{}.part", std::process::id()));
        let written = write(&part, Blocks::new(network, workload.clone(), threads));
        if let Err(error) = written.and_then(|()| std::fs::rename(&part, &path)) {
            let _ = std::fs::remove_file(&part);
            return Err(error);
        }
    }
    Reader::open(&path)
}

/// Where a workload is kept.
pub fn path(directory: &Path, seed: u64, options: &Options, workload: &Workload) -> PathBuf {
    let digest = Sha256::digest(format!("{VERSION}{seed} {options:?} {workload:?}"));
    let name: String = digest[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    directory.join(format!("fabric-{name}.blocks"))
}

fn write(path: &Path, blocks: impl Iterator<Item = Made>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    out.write_all(VERSION.as_bytes())?;
    let mut known = HashMap::new();
    let mut record = Vec::new();
    for block in blocks {
        record.clear();
        put(&mut record, block.number);
        put(&mut record, block.codes.len() as u64);
        record.extend(block.codes.iter().map(|&code| code as u8));
        put(&mut record, block.bytes.len() as u64);
        squeeze(&block.bytes, &mut known, &mut record);
        out.write_all(&record)?;
    }
    out.into_inner()
        .map_err(io::IntoInnerError::into_error)?
        .sync_all()
}

/// Parts of a block: other bytes, then a certificate by number, the next number being a new one, 0 none.
fn squeeze(mut bytes: &[u8], known: &mut HashMap<Vec<u8>, u64>, out: &mut Vec<u8>) {
    while !bytes.is_empty() {
        let (before, certificate) = match next_certificate(bytes) {
            Some((from, to)) => (&bytes[..from], &bytes[from..to]),
            None => (bytes, &[][..]),
        };
        put(out, before.len() as u64);
        out.extend(before);
        bytes = &bytes[before.len() + certificate.len()..];
        match (known.get(certificate), certificate) {
            (_, []) => put(out, 0),
            (Some(&number), _) => put(out, number),
            (None, new) => {
                let number = known.len() as u64 + 1;
                known.insert(new.to_vec(), number);
                put(out, number);
                put(out, new.len() as u64);
                out.extend(new);
            }
        }
    }
}

fn next_certificate(bytes: &[u8]) -> Option<(usize, usize)> {
    let from = find(bytes, BEGIN)?;
    let length = find(&bytes[from..], END)? + END.len();
    Some((from, from + length))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    // Both begin with five dashes, which are rare: look at every fifth byte.
    let mut at = 0;
    while at + what.len() <= bytes.len() {
        if bytes[at + 4] != b'-' {
            at += 5;
        } else if bytes[at..].starts_with(what) {
            return Some(at);
        } else {
            at += 1;
        }
    }
    None
}

fn put(out: &mut Vec<u8>, value: u64) {
    lineside_fabric::proto::wire::put_varint(out, value);
}

/// Reads blocks from a file.
#[derive(Debug)]
pub struct Reader {
    file: BufReader<File>,
    known: Vec<Vec<u8>>,
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

impl Reader {
    /// Opens a file.
    ///
    /// # Errors
    /// What the file system says, and [`io::ErrorKind::InvalidData`] where it is another file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = BufReader::with_capacity(1 << 20, File::open(path)?);
        let mut version = vec![0; VERSION.len()];
        file.read_exact(&mut version)?;
        if version != VERSION.as_bytes() {
            return Err(invalid("not a workload of this version"));
        }
        Ok(Self {
            file,
            known: Vec::new(),
        })
    }

    /// The next number; `None` at the end of the file.
    fn number(&mut self) -> io::Result<Option<u64>> {
        let mut value = 0;
        for place in 0..10 {
            let mut byte = [0];
            if self.file.read(&mut byte)? == 0 {
                return if place == 0 {
                    Ok(None)
                } else {
                    Err(invalid("cut off"))
                };
            }
            value |= u64::from(byte[0] & 0x7f) << (7 * place);
            if byte[0] < 0x80 {
                return Ok(Some(value));
            }
        }
        Err(invalid("a number that is too long"))
    }

    fn length(&mut self) -> io::Result<u64> {
        let length = self.number()?.ok_or_else(|| invalid("cut off"))?;
        if length > BYTES_MAX {
            Err(invalid("a length that is too long"))
        } else {
            Ok(length)
        }
    }

    /// Appends as many bytes as the next number says.
    fn bytes(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let length = self.length()?;
        let read = (&mut self.file).take(length).read_to_end(out)?;
        if read as u64 == length {
            Ok(())
        } else {
            Err(invalid("cut off"))
        }
    }

    fn block(&mut self) -> io::Result<Option<Made>> {
        let Some(number) = self.number()? else {
            return Ok(None);
        };
        let mut codes = Vec::new();
        self.bytes(&mut codes)?;
        let code = |code| TxCode::from_number(code).ok_or_else(|| invalid("a code that there is not"));
        let codes = codes.into_iter().map(code).collect::<io::Result<_>>()?;
        let length = self.length()? as usize;
        let mut bytes = Vec::with_capacity(length);
        while bytes.len() < length {
            self.bytes(&mut bytes)?;
            let certificate = self.length()? as usize;
            if certificate == self.known.len() + 1 {
                let mut new = Vec::new();
                self.bytes(&mut new)?;
                self.known.push(new);
            }
            if certificate > 0 {
                let known = self
                    .known
                    .get(certificate - 1)
                    .ok_or_else(|| invalid("an unknown certificate"))?;
                bytes.extend(known);
            }
        }
        if bytes.len() != length {
            return Err(invalid("a block of another length"));
        }
        Ok(Some(Made { number, bytes, codes }))
    }
}

impl Iterator for Reader {
    type Item = io::Result<Made>;

    fn next(&mut self) -> Option<Self::Item> {
        self.block().transpose()
    }
}
