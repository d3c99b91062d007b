//! Cache of blocks on disk, so that a workload is generated once.
//!
//! A transaction has some 3,900 bytes, of which 3,200 are four certificates that thousands of transactions share. The
//! cache therefore stores the bytes between certificates, and each certificate once: about 750 bytes per transaction.
//! Reading a block back only copies bytes, so that the source of blocks does not affect the figures of a benchmark.

use crate::blocks::{Blocks, MadeBlock, Workload};
use crate::network::{Network, Options};
use hashbrown::HashMap;
use lineside_fabric::TxCode;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Version of the format, which changes whenever the same seed and options give other bytes.
const VERSION: &str = "lineside fabric workload 2\n";
const BEGIN: &[u8] = b"-----BEGIN CERTIFICATE-----\n";
const END: &[u8] = b"-----END CERTIFICATE-----\n";
/// Maximum size of a block, and of a part of it, in bytes.
const BYTES_MAX: u64 = 1 << 30;

/// Reads the blocks of a workload from `directory`; generates them first if they are missing.
///
/// # Errors
/// Error of the file system, and [`io::ErrorKind::InvalidData`] if a file is not valid.
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
        // Another process may generate the same file; the last one to finish replaces it.
        let part = path.with_extension(format!("{}.part", std::process::id()));
        let written = write(&part, Blocks::new(network, workload.clone(), threads));
        if let Err(error) = written.and_then(|()| std::fs::rename(&part, &path)) {
            let _ = std::fs::remove_file(&part);
            return Err(error);
        }
    }
    Reader::open(&path)
}

/// Returns the path of a workload's file.
pub fn path(directory: &Path, seed: u64, options: &Options, workload: &Workload) -> PathBuf {
    let digest = Sha256::digest(format!("{VERSION}{seed} {options:?} {workload:?}"));
    let name: String = digest[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    directory.join(format!("fabric-{name}.blocks"))
}

fn write(path: &Path, blocks: impl Iterator<Item = MadeBlock>) -> io::Result<()> {
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

/// Encodes a block as pieces: bytes without a certificate, and then the number of the certificate that follows them.
/// The next unused number announces a new certificate, and 0 means that no certificate follows.
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
    // BEGIN and END both begin with five dashes, which are rare elsewhere, so the search looks only at every fifth
    // byte.
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

/// Reader of blocks from a file.
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
    /// Error of the file system, and [`io::ErrorKind::InvalidData`] if it is not a file of this version.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = BufReader::with_capacity(1 << 20, File::open(path)?);
        let mut version = vec![0; VERSION.len()];
        file.read_exact(&mut version)?;
        if version != VERSION.as_bytes() {
            return Err(invalid("the file is not a workload of this version; remove it"));
        }
        Ok(Self {
            file,
            known: Vec::new(),
        })
    }

    /// Returns the next number; `None` at the end of the file.
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
        Err(invalid("a number in the file is too long; remove the file"))
    }

    fn length(&mut self) -> io::Result<u64> {
        let length = self.number()?.ok_or_else(|| invalid("cut off"))?;
        if length > BYTES_MAX {
            Err(invalid("a length in the file is too large; remove the file"))
        } else {
            Ok(length)
        }
    }

    /// Reads a length and that number of bytes, and appends the bytes to `out`.
    fn bytes(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let length = self.length()?;
        let read = (&mut self.file).take(length).read_to_end(out)?;
        if read as u64 == length {
            Ok(())
        } else {
            Err(invalid("cut off"))
        }
    }

    fn block(&mut self) -> io::Result<Option<MadeBlock>> {
        let Some(number) = self.number()? else {
            return Ok(None);
        };
        let mut codes = Vec::new();
        self.bytes(&mut codes)?;
        let code = |code| {
            TxCode::from_number(code)
                .ok_or_else(|| invalid("the file has an unknown validation code; remove it"))
        };
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
                    .ok_or_else(|| invalid("the file refers to an unknown certificate; remove it"))?;
                bytes.extend(known);
            }
        }
        if bytes.len() != length {
            return Err(invalid(
                "a block in the file has another length than recorded; remove the file",
            ));
        }
        Ok(Some(MadeBlock { number, bytes, codes }))
    }
}

impl Iterator for Reader {
    type Item = io::Result<MadeBlock>;

    fn next(&mut self) -> Option<Self::Item> {
        self.block().transpose()
    }
}
