//! Export of sealed blocks to a [`Settlement`], which follows the journal at its own pace. The server never waits for
//! the settlement, and the settlement later receives all blocks that it missed.

use crate::entry::Entry;
use crate::host::OpenError;
use crate::settlement::Block;
use lineside_journal::merkle::Hash;
use lineside_journal::{Disk, Lsn, dump};
use lineside_util::hex::{array_from_hex, to_hex};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;

/// Destination that stores blocks: each block once, in the order of their numbers.
pub trait Settlement: Send {
    /// Returns the number and hash of its last block; `None` if it has none yet.
    ///
    /// # Errors
    /// Reason why the last block is unknown.
    fn last(&mut self) -> io::Result<Option<(u64, Hash)>>;

    /// Stores the block after the last one. The block is durable when this call returns.
    ///
    /// # Errors
    /// Reason why the block was not stored; the settler passes the same block again later.
    fn take(&mut self, block: &Block) -> io::Result<()>;
}

/// Copies the blocks of a journal to a settlement.
pub struct Settler<D, S> {
    disk: D,
    sink: S,
    /// Number of the record after the last block that was copied.
    next: Lsn,
}

impl<D: Disk, S: Settlement> Settler<D, S> {
    /// Creates a settler; it only reads the journal on `disk`.
    pub fn new(disk: D, sink: S) -> Self {
        Self { disk, sink, next: 1 }
    }

    /// Copies the missing blocks up to block `durable`, the last one known to be on the disk. Returns the number of
    /// the last block that the settlement has.
    ///
    /// # Errors
    /// Errors of the journal or the settlement. A settlement that is ahead of the journal belongs to another ledger,
    /// or the journal has lost durable records.
    pub fn settle(&mut self, durable: u64) -> Result<u64, OpenError> {
        let (mut last, hash) = self.sink.last()?.unwrap_or_default();
        if last > durable {
            let what = format!(
                "the settlement has block {last}, but the journal ends with block {durable}; set this ledger's own \
                 file in `settle_to`, or restore the journal from a copy"
            );
            return Err(OpenError::System(io::Error::new(
                io::ErrorKind::InvalidData,
                what,
            )));
        }
        // The first call also checks that the settlement's blocks belong to this ledger.
        if last == durable && self.next > 1 {
            return Ok(last);
        }
        let had = last;
        let (sink, next, mut failed) = (&mut self.sink, &mut self.next, None);
        dump(&self.disk, *next, |record| {
            let Some(Entry::Block(block)) = Entry::from_record(record.kind, record.payload) else {
                return;
            };
            if block.number > durable || failed.is_some() {
                return;
            }
            if block.number == had && block.hash() != hash {
                let what = format!(
                    "block {had} of the settlement differs from the journal's: one of them was changed, or is of \
                     another ledger; set this ledger's own file in `settle_to`, or restore the changed file"
                );
                return failed = Some(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            if block.number == last + 1 {
                match sink.take(&block) {
                    Ok(()) => last = block.number,
                    Err(error) => return failed = Some(error),
                }
            }
            *next = record.lsn + 1;
        })?;
        match failed {
            Some(error) => Err(error.into()),
            None if last < durable => {
                let what = format!(
                    "block {}, the next one for the settlement, is not in the journal; restore the journal from a copy",
                    last + 1
                );
                Err(OpenError::System(io::Error::new(io::ErrorKind::NotFound, what)))
            }
            None => Ok(last),
        }
    }
}

/// File with a line for each block: its number, its hash, and its signed head, in hex digits.
pub struct BlockFile {
    file: File,
    last: Option<(u64, Hash)>,
}

impl BlockFile {
    /// Opens or creates the file, and cuts an unfinished line at its end.
    ///
    /// # Errors
    /// Errors of the system; `InvalidData` if a line is not that of the next block.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let (mut complete_bytes, mut last) = (0, None);
        let mut input = BufReader::new(&file);
        let mut line = String::new();
        while input.read_line(&mut line)? > 0 && line.ends_with('\n') {
            let next = last.map_or(1, |(number, _)| number + 1);
            let Some(hash) = hash_of(&line, next) else {
                let what = format!(
                    "{}: line {next} is not the line of block {next}: the file is damaged, or is not a file that \
                     `settle_to` has written",
                    path.display()
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            };
            complete_bytes += line.len() as u64;
            last = Some((next, hash));
            line.clear();
        }
        file.set_len(complete_bytes)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file, last })
    }
}

/// Returns the hash in the line of block `number`; `None` if the line is invalid or belongs to another block.
fn hash_of(line: &str, number: u64) -> Option<Hash> {
    let mut words = line.split(' ');
    let own: u64 = words.next()?.parse().ok()?;
    let hash = array_from_hex(words.next()?)?;
    (own == number).then_some(hash)
}

impl Settlement for BlockFile {
    fn last(&mut self) -> io::Result<Option<(u64, Hash)>> {
        Ok(self.last)
    }

    fn take(&mut self, block: &Block) -> io::Result<()> {
        let line = format!(
            "{} {} {}\n",
            block.number,
            to_hex(&block.hash()),
            to_hex(&block.to_bytes())
        );
        let end = self.file.stream_position()?;
        let written = self
            .file
            .write_all(line.as_bytes())
            .and_then(|()| self.file.sync_data());
        if let Err(error) = written {
            // The file may end with a part of the line: the file is cut, and the next attempt writes the whole line.
            self.file.set_len(end)?;
            self.file.seek(SeekFrom::End(0))?;
            return Err(error);
        }
        self.last = Some((block.number, block.hash()));
        Ok(())
    }
}
