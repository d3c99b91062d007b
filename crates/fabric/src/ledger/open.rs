//! Coming back: the newest checkpoint, then the blocks behind it.

use super::checkpoint;
use super::error::LedgerError;
use super::identities::{Identities, Known};
use super::image::Image;
use super::index::{Entry, Index};
use super::record::{Assembler, Stored, kind};
use super::splice;
use super::store::{Blocks, View, Writer};
use crate::block::Block;
use crate::proto::Arena;
use crate::validate::{Options, Validator};
use lineside_journal::{
    Disk, Error as JournalError, Journal, Lsn, Options as JournalOptions, Reader, Recovery, Snapshots,
};
use std::io::BufReader;
use std::time::Duration;

/// A ledger, read.
pub(crate) struct Recovered<D: Disk> {
    pub blocks: Blocks<D>,
    /// `None`: there is no block.
    pub validator: Option<Validator>,
    /// The block that set the configuration.
    pub config_block: u64,
    pub known: Known,
    pub found: Found,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The record that the checkpoint stands for; 0: there was none.
    pub checkpoint: Lsn,
    /// Newer checkpoints that cannot be used, and why.
    pub damaged: Vec<String>,
    /// Blocks behind the checkpoint.
    pub replayed: u64,
    /// Their transactions.
    pub replayed_transactions: u64,
}

/// Reads a ledger. The codes and commit hashes that it holds are taken as they are.
pub(crate) fn recover<D: Disk>(reader: &Reader<D>, options: &Options) -> Result<Recovered<D>, LedgerError> {
    let latest = reader.latest_snapshot()?;
    let mut found = Found::default();
    for damaged in latest.damaged {
        found.damaged.push(format!("{}: {}", damaged.file, damaged.what));
    }
    let mut restored = None;
    if let Some(snapshot) = latest.snapshot {
        let lsn = snapshot.lsn;
        match checkpoint::read(BufReader::with_capacity(1 << 18, snapshot), lsn) {
            Ok(read) => {
                found.checkpoint = lsn;
                restored = Some(read);
            }
            // Everything in it is in the blocks, too.
            Err(error) => found.damaged.push(error.to_string()),
        }
    }
    let (index, standing, config_block) = match restored {
        Some(read) => (read.index, Some(read.standing), read.config_block),
        None => (Index::default(), None, 0),
    };
    let view = View {
        reader: reader.clone(),
        commit_hash: standing.as_ref().and_then(|standing| standing.commit_hash),
        index,
    };
    let blocks = Blocks::new(view, Identities::default());
    let validator = match standing {
        None => None,
        Some(standing) => {
            let number = config_block;
            let config = blocks.block(number)?;
            let resumed = Validator::resume(standing, &config.bytes, options.clone());
            Some(resumed.map_err(|source| LedgerError::Validation { number, source })?)
        }
    };
    let mut recovered = Recovered {
        blocks,
        validator,
        config_block,
        known: Known::default(),
        found,
    };
    recovered.replay(reader, options)?;
    Ok(recovered)
}

impl<D: Disk> Recovered<D> {
    fn replay(&mut self, reader: &Reader<D>, options: &Options) -> Result<(), LedgerError> {
        let mut records = reader.records(self.found.checkpoint + 1)?;
        let mut assembler = Assembler::default();
        while let Some(record) = records.next()? {
            if record.kind == kind::IDENTITY {
                self.known.add(record.payload, record.lsn);
                self.blocks.learn(record.lsn, record.payload);
                continue;
            }
            let Some(whole) = assembler.feed(&record)? else {
                continue;
            };
            let stored = self.blocks.restore(reader, &whole)?;
            self.redo(&stored, options)?;
            let transactions = stored.codes.len() as u64;
            let arena = Arena::new();
            let block = Block::read(&stored.bytes, &arena).map_err(|source| LedgerError::Validation {
                number: stored.number,
                source,
            })?;
            let walked = splice::walk(&stored.bytes, &block, 0);
            let entry = Entry {
                begin: whole.begin,
                end: whole.end,
                offset: whole.offset,
                hash: whole.hash,
                codes: stored.codes,
                ids: walked.ids,
            };
            self.blocks.push(entry, whole.commit_hash);
            self.found.replayed += 1;
            self.found.replayed_transactions += transactions;
        }
        Ok(())
    }

    fn redo(&mut self, stored: &Stored, options: &Options) -> Result<(), LedgerError> {
        let number = stored.number;
        match &mut self.validator {
            Some(validator) => {
                if validator.redo(stored)? {
                    self.config_block = number;
                }
            }
            None if number == 0 => {
                let started = Validator::new(&stored.bytes, options.clone());
                self.validator = Some(started.map_err(|source| LedgerError::Validation { number, source })?);
            }
            None => return Err(LedgerError::block(0, "it is missing")),
        }
        Ok(())
    }
}

/// A ledger that was opened to be written.
pub struct Begun<D: Disk> {
    /// Writes blocks.
    pub writer: Writer<D>,
    /// Where the last block leaves the channel; `None`: there is no block.
    pub validator: Option<Validator>,
    /// The block that set the configuration.
    pub config_block: u64,
    /// Writes checkpoints.
    pub(crate) snapshots: Snapshots<D>,
    /// What was found.
    pub opened: Opened,
}

/// What opening found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// What the journal did.
    pub journal: Recovery,
    /// What the ledger found.
    pub ledger: Found,
}

impl<D: Disk> Begun<D> {
    /// Opens the ledger on `disk`, or begins one.
    ///
    /// # Errors
    /// What stands in the way.
    pub fn open(disk: D, sizes: JournalOptions, options: &Options) -> Result<Self, LedgerError> {
        let sizes = JournalOptions {
            keep_records: true,
            ..sizes
        };
        let id = getrandom::u64().map_err(|error| std::io::Error::other(error.to_string()))?;
        let (journal, recovery) = Journal::open_or_create(disk, id, sizes)?;
        let recovered = recover(&journal.reader(), options)?;
        Ok(Self {
            snapshots: journal.snapshots(),
            writer: Writer::new(journal, sizes, recovered.known, recovered.blocks),
            validator: recovered.validator,
            config_block: recovered.config_block,
            opened: Opened {
                journal: recovery,
                ledger: recovered.found,
            },
        })
    }
}

impl<D: Disk> Begun<D> {
    /// Writes a checkpoint of what is durable, before anything more is written.
    ///
    /// # Errors
    /// What the disk says.
    pub fn checkpoint(&self) -> Result<(), LedgerError> {
        let blocks = self.writer.blocks();
        if let Some(validator) = self
            .validator
            .as_ref()
            .filter(|of| of.last() + 1 == blocks.count())
        {
            let image = Image::new(validator, self.config_block);
            let end = blocks.end_of(image.last);
            self.snapshots.write(end, |out| image.write(&blocks, out))?;
        }
        Ok(())
    }
}

/// How often a ledger that looks damaged is looked at.
const LOOKS: usize = 5;
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A ledger that somebody else may have open, to be looked at.
pub struct Look<D: Disk> {
    /// Its blocks.
    pub blocks: Blocks<D>,
    /// Where the last one leaves the channel.
    pub validator: Validator,
    /// What was found.
    pub found: Found,
}

impl<D: Disk> Look<D> {
    /// Reads it; changes nothing.
    ///
    /// # Errors
    /// [`LedgerError::Empty`]; what stands in the way.
    pub fn open(disk: D, options: &Options) -> Result<Self, LedgerError> {
        let mut looks = 0;
        let reader = loop {
            looks += 1;
            match Reader::open(disk.clone()) {
                Err(JournalError::NoJournal) => return Err(LedgerError::Empty),
                // What somebody writes meanwhile may look so.
                Err(JournalError::Damaged { .. }) if looks < LOOKS => std::thread::sleep(LOOK_AGAIN),
                opened => break opened?,
            }
        };
        let recovered = recover(&reader, options)?;
        Ok(Self {
            blocks: recovered.blocks,
            validator: recovered.validator.ok_or(LedgerError::Empty)?,
            found: recovered.found,
        })
    }
}
