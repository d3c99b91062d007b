//! Where sealed blocks go besides the journal: a [`Settlement`], which follows the journal at its own pace. Nothing
//! waits for it, and whatever it missed it gets later.

use crate::entry::Entry;
use crate::host::OpenError;
use crate::settlement::Block;
use lineside_journal::merkle::Hash;
use lineside_journal::{Disk, Lsn, dump};
use lineside_util::hex::{array_from_hex, to_hex};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::Path;

/// A place that keeps blocks: each once, in their order.
pub trait Settlement: Send {
    /// Number and hash of the last block that it has; `None`: none yet.
    ///
    /// # Errors
    /// What stands in the way of knowing.
    fn last(&mut self) -> io::Result<Option<(u64, Hash)>>;

    /// Takes the block behind the last one. When this returns, it is there to stay.
    ///
    /// # Errors
    /// What stands in the way; the same block is brought again later.
    fn take(&mut self, block: &Block) -> io::Result<()>;
}

/// Brings the blocks of a journal to a settlement.
pub struct Settler<D, S> {
    disk: D,
    sink: S,
    /// The record behind the last block that was brought.
    next: Lsn,
}

impl<D: Disk, S: Settlement> Settler<D, S> {
    /// The journal on `disk` is only read.
    pub fn new(disk: D, sink: S) -> Self {
        Self { disk, sink, next: 1 }
    }

    /// Brings what is missing up to block `durable`, the last one that is known to be on the disk. Returns the number
    /// of the last block that the settlement has.
    ///
    /// # Errors
    /// What journal or settlement say. A settlement that is ahead of the journal is of another ledger, or the journal
    /// lost what was on the disk.
    pub fn settle(&mut self, durable: u64) -> Result<u64, OpenError> {
        let (mut last, hash) = self.sink.last()?.unwrap_or_default();
        if last > durable {
            let what = format!("the settlement has block {last}, and the journal {durable}");
            return Err(OpenError::System(io::Error::new(
                io::ErrorKind::InvalidData,
                what,
            )));
        }
        // At first it is also looked whether what it has is of this ledger.
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
                let what =
                    format!("block {had} of the settlement is not the journal's: one of them was changed");
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
                let what = format!("block {} is not in the journal", last + 1);
                Err(OpenError::System(io::Error::new(io::ErrorKind::NotFound, what)))
            }
            None => Ok(last),
        }
    }
}

/// A file with a line for each block: its number, its hash, and its head with the signature in hex digits.
pub struct BlockFile {
    file: File,
    last: Option<(u64, Hash)>,
}

impl BlockFile {
    /// Goes on with the file, which is made where it is not there. What is left of a line that was being written is
    /// cut.
    ///
    /// # Errors
    /// What the system says; `InvalidData` where a line is not the next block's.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        let (mut whole, mut last) = (0, None);
        let mut input = BufReader::new(&file);
        let mut line = String::new();
        while input.read_line(&mut line)? > 0 && line.ends_with('\n') {
            let next = last.map_or(1, |(number, _)| number + 1);
            let Some(hash) = hash_of(&line, next) else {
                let what = format!("{}: line {next} is not block {next}", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            };
            whole += line.len() as u64;
            last = Some((next, hash));
            line.clear();
        }
        file.set_len(whole)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file, last })
    }
}

/// The hash in the line of block `number`; `None`: it is another block's, or none.
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
            // The line may be there in part: it is written again whole.
            self.file.set_len(end)?;
            self.file.seek(SeekFrom::End(0))?;
            return Err(error);
        }
        self.last = Some((block.number, block.hash()));
        Ok(())
    }
}
