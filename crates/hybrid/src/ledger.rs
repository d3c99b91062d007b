//! The ledger: every block with its message and codes, in a journal. A node computes all its other state from the
//! ledger.

use lineside_journal::{Disk, Error as JournalError, Journal, Lsn, Options, Reader, Record, Records};
use lineside_messages::hybrid::attestation::Attestation;
use lineside_messages::hybrid::block::{HEADER_BYTES, Hash, Header, SignedHead};
use lineside_messages::hybrid::codec::{Input, Malformed, Output};
use lineside_wire::HybridCode as Code;
use std::sync::{Arc, PoisonError, RwLock};

/// Kind of a journal record: the genesis, which is always the first record.
pub const RECORD_GENESIS: u8 = 1;
/// Kind of a journal record: a block. The payload is the header, a be32 count with the codes, and the message.
pub const RECORD_BLOCK: u8 = 2;
/// Kind of a journal record: a node's signed head that was read from the log.
pub const RECORD_HEAD: u8 = 3;
/// Kind of a journal record: the next bytes of the snapshot that the ledger begins with. These records precede the
/// first block.
pub const RECORD_SNAPSHOT: u8 = 4;
/// Kind of a journal record: a member's attestation of the snapshot's block. It follows the snapshot.
pub const RECORD_ATTESTATION: u8 = 5;

/// Sizes of a ledger's journal. To find a block, a reader reads its segment from the beginning: 16 MiB take 4 ms.
pub fn journal_options() -> Options {
    Options {
        segment_bytes: 16 << 20,
        record_bytes_max: 1 << 20,
        group_bytes_max: 8 << 20,
        keep_records: true,
    }
}

/// Error of a ledger.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The disk, or the journal on it, reported an error.
    #[error("ledger: {0}")]
    Journal(#[from] JournalError),
    /// The ledger has a record that does not belong in a ledger.
    #[error("ledger: record {lsn}: {what}")]
    Damaged {
        /// Number of the record in the journal.
        lsn: Lsn,
        /// Description of the error.
        what: String,
    },
    /// The ledger belongs to another database.
    #[error(
        "ledger: this directory holds the ledger of a database with another genesis; give the right genesis or another \
         directory"
    )]
    OtherGenesis,
    /// The block does not exist.
    #[error("ledger: there is no block {0}")]
    NotThere(u64),
}

/// A block as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredBlock<'a> {
    /// Header of the block.
    pub header: Header,
    /// Outcome of each request, one byte each.
    pub codes: &'a [u8],
    /// The message of the log.
    pub message: &'a [u8],
}

impl<'a> StoredBlock<'a> {
    /// Reads the payload of a record.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(payload: &'a [u8]) -> Result<StoredBlock<'a>, Malformed> {
        let mut input = Input(payload);
        let header = Header::from_bytes(&input.array::<HEADER_BYTES>()?);
        let codes = input.long(payload.len())?;
        if codes.len() != header.transactions as usize {
            return Err(Malformed(
                "the number of codes differs from the number of transactions",
            ));
        }
        if !codes.iter().all(|code| Code::from_code((*code).into()).is_some()) {
            return Err(Malformed("unknown code"));
        }
        Ok(StoredBlock {
            header,
            codes,
            message: input.0,
        })
    }

    /// Offset of the message in the payload.
    pub fn message_offset(&self) -> usize {
        HEADER_BYTES + 4 + self.codes.len()
    }
}

/// Encodes the payload of a block's record.
pub fn encode_block(header: &Header, codes: &[Code], message: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES + 4 + codes.len() + message.len());
    out.put(&header.to_bytes());
    out.u32(codes.len() as u32);
    out.extend(codes.iter().map(|code| *code as u8));
    out.put(message);
    out
}

/// Appends blocks. A ledger has one writer.
pub struct Writer<D: Disk> {
    journal: Journal<D>,
    /// Record of each appended block that is not durable yet.
    appended: Vec<Lsn>,
    blocks: Blocks<D>,
    /// Warning about bytes that were cut from the end of the journal when the ledger was opened.
    cut: Option<String>,
}

/// Reads blocks concurrently with the writer. Cheap to clone.
#[derive(Clone)]
pub struct Blocks<D: Disk>(Arc<RwLock<Durable<D>>>);

struct Durable<D: Disk> {
    reader: Reader<D>,
    /// Number of the block after which the ledger's own blocks begin: 0 (the genesis), or the snapshot's block.
    base: u64,
    /// Record number of each block after `base`.
    records: Vec<Lsn>,
}

/// Content of one record of a ledger.
pub enum LedgerItem<'a> {
    /// A block.
    Block(StoredBlock<'a>),
    /// A node's signed head.
    Head(SignedHead),
    /// Bytes of the snapshot that the ledger begins with.
    Snapshot(&'a [u8]),
    /// A member's attestation of the snapshot's block.
    Attestation(Attestation),
}

impl<D: Disk> Writer<D> {
    /// Opens a ledger or creates one. Calls `visit` with each item in it, in order.
    ///
    /// # Errors
    /// [`LedgerError`], and the errors of `visit`.
    pub fn open<E: From<LedgerError>>(
        disk: D,
        options: Options,
        genesis: &[u8],
        mut visit: impl FnMut(LedgerItem<'_>) -> Result<(), E>,
    ) -> Result<Writer<D>, E> {
        let hash = lineside_messages::hybrid::genesis::genesis_hash(genesis);
        let id = u64::from_be_bytes(std::array::from_fn(|i| hash[i]));
        let opened = Journal::open_or_create(disk, id, options);
        let (mut journal, recovery) = opened.map_err(LedgerError::from)?;
        let (bytes, last) = (recovery.cut_bytes, recovery.last_lsn);
        let cut = match (bytes, recovery.is_proved) {
            (0, true) => None,
            (0, false) => Some(
                "ledger: the file `acknowledged` was missing or damaged, so the last blocks may be missing; \
                 `lineside hybrid audit` compares the ledger with another node's"
                    .to_owned(),
            ),
            (_, true) => Some(format!(
                "ledger: the start removed {bytes} bytes after record {last}, which were never acknowledged"
            )),
            (_, false) => Some(format!(
                "ledger: the start removed {bytes} bytes after record {last}; because the file `acknowledged` was \
                 missing or damaged, they may have been acknowledged blocks; `lineside hybrid audit` compares the \
                 ledger with another node's"
            )),
        };
        if let Some(cut) = &cut {
            tracing::warn!("{cut}");
        }
        if recovery.began_again {
            tracing::warn!("ledger: the directory was used before, but has no record: the ledger is empty");
        }
        if journal.durable_lsn() == 0 {
            journal
                .append(RECORD_GENESIS, genesis)
                .map_err(LedgerError::from)?;
            journal.commit().map_err(LedgerError::from)?;
        }
        let mut blocks = Vec::new();
        let mut records = journal.records(1).map_err(LedgerError::from)?;
        while let Some(record) = records.next().map_err(LedgerError::from)? {
            if record.lsn == 1 {
                if record.kind != RECORD_GENESIS || record.payload != genesis {
                    return Err(LedgerError::OtherGenesis.into());
                }
                continue;
            }
            let item = read_record(&record)?;
            if let LedgerItem::Block(_) = item {
                blocks.push(record.lsn);
            }
            visit(item)?;
        }
        drop(records);
        let durable = Durable {
            reader: journal.reader(),
            base: 0,
            records: blocks,
        };
        Ok(Writer {
            journal,
            appended: Vec::new(),
            blocks: Blocks(Arc::new(RwLock::new(durable))),
            cut,
        })
    }

    /// Returns the warning about bytes that were cut from the journal's end when the ledger was opened.
    pub fn cut(&self) -> Option<&str> {
        self.cut.as_deref()
    }

    /// Sets the block after which the ledger's own blocks begin.
    pub(crate) fn set_base(&mut self, base: u64) {
        self.blocks.0.write().unwrap_or_else(PoisonError::into_inner).base = base;
    }

    /// Returns a reader of the blocks.
    pub fn blocks(&self) -> Blocks<D> {
        self.blocks.clone()
    }

    /// Adds a block to the group of records that [`Self::commit`] makes durable.
    ///
    /// # Errors
    /// Returns errors of the journal; the block was then not added.
    pub fn append(&mut self, payload: &[u8]) -> Result<(), LedgerError> {
        let lsn = self.append_record(RECORD_BLOCK, payload)?;
        self.appended.push(lsn);
        Ok(())
    }

    /// Adds a node's signed head to the group of records that [`Self::commit`] makes durable.
    ///
    /// # Errors
    /// Returns errors of the journal; the head was then not added.
    pub fn append_head(&mut self, head: &SignedHead) -> Result<(), LedgerError> {
        self.append_record(RECORD_HEAD, &head.to_bytes())?;
        Ok(())
    }

    /// Adds the next bytes of a snapshot to a ledger that contains only its genesis.
    ///
    /// # Errors
    /// Errors of the journal.
    pub(crate) fn append_snapshot(&mut self, piece: &[u8]) -> Result<(), LedgerError> {
        // A snapshot is longer than a group may be, so each piece is committed. An incomplete snapshot is refused when
        // the ledger is opened.
        self.commit()?;
        self.append_record(RECORD_SNAPSHOT, piece)?;
        Ok(())
    }

    /// Adds a member's attestation of the snapshot.
    ///
    /// # Errors
    /// Errors of the journal.
    pub(crate) fn append_attestation(&mut self, attestation: &Attestation) -> Result<(), LedgerError> {
        self.append_record(RECORD_ATTESTATION, &attestation.to_bytes())?;
        Ok(())
    }

    fn append_record(&mut self, kind: u8, payload: &[u8]) -> Result<Lsn, LedgerError> {
        self.journal
            .reserve(lineside_journal::record_bytes(payload.len()))?;
        Ok(self.journal.append(kind, payload)?)
    }

    /// Makes all records durable that were added since the last call.
    ///
    /// # Errors
    /// Returns errors of the journal, which accepts no further records then.
    pub fn commit(&mut self) -> Result<(), LedgerError> {
        self.journal.commit()?;
        let mut durable = self.blocks.0.write().unwrap_or_else(PoisonError::into_inner);
        durable.reader = self.journal.reader();
        durable.records.append(&mut self.appended);
        Ok(())
    }
}

impl<D: Disk> Blocks<D> {
    /// Reads the payload of a block's record, for [`StoredBlock::decode`].
    ///
    /// # Errors
    /// [`LedgerError::NotThere`], and errors of the journal.
    pub fn read(&self, number: u64) -> Result<Vec<u8>, LedgerError> {
        let mut records = self.from(number)?;
        match records.next()? {
            Some(record) => Ok(record.payload.to_vec()),
            None => Err(LedgerError::NotThere(number)),
        }
    }

    /// Returns all records from a block on, including signed heads between the blocks.
    ///
    /// # Errors
    /// [`LedgerError::NotThere`], and errors of the journal.
    pub fn from(&self, number: u64) -> Result<Records<D>, LedgerError> {
        let durable = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let place = number
            .checked_sub(durable.base + 1)
            .and_then(|place| usize::try_from(place).ok());
        let lsn = place.and_then(|place| durable.records.get(place));
        Ok(durable
            .reader
            .records(*lsn.ok_or(LedgerError::NotThere(number))?)?)
    }

    /// Number of the newest durable block.
    pub fn last(&self) -> u64 {
        let durable = self.0.read().unwrap_or_else(PoisonError::into_inner);
        durable.base + durable.records.len() as u64
    }
}

/// Decodes a record that is not the genesis, which is the first record.
///
/// # Errors
/// [`LedgerError::Damaged`].
pub fn read_record<'a>(record: &Record<'a>) -> Result<LedgerItem<'a>, LedgerError> {
    let damaged = |what: String| LedgerError::Damaged {
        lsn: record.lsn,
        what,
    };
    match record.kind {
        RECORD_BLOCK => {
            let stored = StoredBlock::decode(record.payload).map_err(|error| damaged(error.to_string()))?;
            Ok(LedgerItem::Block(stored))
        }
        RECORD_HEAD => {
            let bytes = record
                .payload
                .try_into()
                .map_err(|_| damaged("the signed head has a wrong length".into()))?;
            Ok(LedgerItem::Head(
                SignedHead::read(bytes).map_err(|error| damaged(error.to_string()))?,
            ))
        }
        RECORD_SNAPSHOT => Ok(LedgerItem::Snapshot(record.payload)),
        RECORD_ATTESTATION => {
            let bytes = record.payload.try_into();
            let bytes = bytes.map_err(|_| damaged("the attestation has a wrong length".into()))?;
            Ok(LedgerItem::Attestation(Attestation::from_bytes(bytes)))
        }
        kind => Err(damaged(format!("unknown kind of record: {kind}"))),
    }
}

/// Returns true if the header continues the previous block: by number, previous hash, database and time.
pub fn follows(previous: &Header, previous_hash: &Hash, header: &Header) -> bool {
    header.number == previous.number + 1
        && header.previous == *previous_hash
        && header.database == previous.database
        && header.time_ms >= previous.time_ms
}
