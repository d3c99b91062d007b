//! History of keys: which transactions wrote a key, and with which values.
//!
//! The blocks contain every write. The index narrows the search: for each block it has a 32-bit fingerprint of every
//! public key that the block writes (4 bytes for each key), in one file that is appended to and scanned from its
//! beginning. If two keys have the same fingerprint, a query reads some blocks unnecessarily, but its result is
//! correct. The file can be removed at any time. Commits do not wait for it: blocks that are missing or damaged in the
//! index are read instead, and are added again when a replica opens the ledger.
//!
//! ```text
//!  "LSFHIST1", header hash of the block that the ledger begins with, or of its snapshot's last block (32 bytes)
//!  for each block: number (u64), number of fingerprints (u32), checksum of both and of the fingerprints (u32),
//!    the fingerprints (u32 each)
//! ```

use crate::block::Block;
use crate::code::TxCode;
use crate::ledger::{Blocks, LedgerError, Stored};
use crate::proto::{self, Arena, ChannelHeader, Envelope, Payload};
use crate::replay::hex;
use crate::rules::Rules;
use crate::state::{TxId, Updates};
use crate::tx::{ParsedTx, SignedOutcome, parse};
use lineside_journal::Disk;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const MAGIC: &[u8; 8] = b"LSFHIST1";
/// Size of the header before the first block, in bytes.
const START_BYTES: usize = 40;
/// Size of the header of a block, in bytes.
const HEAD_BYTES: usize = 16;
/// Maximum number of fingerprints of a block.
const FINGERPRINTS_MAX: u32 = 1 << 24;

/// A write of a public key by a valid transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyWrite {
    /// Block number.
    pub block: u64,
    /// Index of the transaction in the block.
    pub tx: u64,
    /// Id of the transaction.
    pub id: String,
    /// Time that the client put into the transaction: seconds since 1970, and nanoseconds.
    pub time: (i64, i32),
    /// Name of the chaincode.
    pub namespace: String,
    /// The key.
    pub key: Vec<u8>,
    /// The value; `None` if the key is deleted.
    pub value: Option<Vec<u8>>,
}

/// Returns the fingerprint of a key.
fn fingerprint(seed: u64, key: &[u8]) -> u32 {
    xxh3_64_with_seed(key, seed) as u32
}

fn seed(namespace: &str) -> u64 {
    xxh3_64(namespace.as_bytes())
}

/// Returns the fingerprints of the keys of the public state that a block changes.
pub(crate) fn fingerprints(updates: &Updates) -> Vec<u32> {
    let mut prints = Vec::new();
    for (namespace, space) in &updates.namespaces {
        let seed = seed(namespace);
        prints.extend(space.public.keys().map(|key| fingerprint(seed, key)));
    }
    prints
}

/// Encodes the index entry of a block.
fn encode(number: u64, prints: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + 4 * prints.len());
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&(prints.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend(prints.iter().flat_map(|print| print.to_le_bytes()));
    let sum = xxh3_64(&bytes) as u32;
    if let Some(field) = bytes.get_mut(HEAD_BYTES - 4..HEAD_BYTES) {
        field.copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

/// Reader of an index, oldest block first, up to the first damage.
struct Scan {
    from: BufReader<File>,
    next: u64,
    /// Offset of the end of the valid part.
    end: u64,
}

impl Scan {
    /// Opens an index; `None` if the file is missing or belongs to another ledger.
    fn open(path: &Path, first: u64, root: &[u8; 32]) -> io::Result<Option<Self>> {
        let mut from = match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => BufReader::with_capacity(1 << 18, file?),
        };
        let mut start = [0; START_BYTES];
        match from.read_exact(&mut start) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let is_its = start.strip_prefix(MAGIC) == Some(root);
        Ok(is_its.then_some(Self {
            from,
            next: first,
            end: START_BYTES as u64,
        }))
    }

    /// Returns the next block's number and fingerprints; `None` at the end of the valid part.
    fn next(&mut self) -> io::Result<Option<(u64, Vec<u32>)>> {
        let mut bytes = Vec::new();
        (&mut self.from).take(HEAD_BYTES as u64).read_to_end(&mut bytes)?;
        let (Some((number, rest)), true) = (bytes.split_first_chunk(), bytes.len() == HEAD_BYTES) else {
            return Ok(None);
        };
        let count = rest
            .first_chunk()
            .map_or(u32::MAX, |count| u32::from_le_bytes(*count));
        if u64::from_le_bytes(*number) != self.next || count > FINGERPRINTS_MAX {
            return Ok(None);
        }
        (&mut self.from)
            .take(4 * u64::from(count))
            .read_to_end(&mut bytes)?;
        let (prints, _) = bytes.get(HEAD_BYTES..).unwrap_or_default().as_chunks();
        let prints: Vec<u32> = prints.iter().map(|print| u32::from_le_bytes(*print)).collect();
        if bytes != encode(self.next, &prints) || prints.len() as u64 != u64::from(count) {
            return Ok(None);
        }
        self.next += 1;
        self.end += bytes.len() as u64;
        Ok(Some((self.next - 1, prints)))
    }
}

/// Writer of the index. Blocks are added after they are durable.
#[derive(Debug)]
pub(crate) struct Index {
    file: File,
    next: u64,
}

impl Index {
    /// Opens the index of a ledger that is not empty, and adds the blocks that it lacks.
    pub fn open<D: Disk>(path: &Path, blocks: &Blocks<D>) -> Result<Self, LedgerError> {
        let root = blocks.root_hash().ok_or(LedgerError::Empty)?;
        let (mut next, mut end) = (blocks.first(), 0);
        if let Some(mut scan) = Scan::open(path, next, &root)? {
            end = scan.end;
            while scan.next < blocks.count() && scan.next()?.is_some() {
                (next, end) = (scan.next, scan.end);
            }
        }
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)?;
        file.set_len(end)?;
        file.seek(SeekFrom::Start(end))?;
        if end == 0 {
            file.write_all(MAGIC)?;
            file.write_all(&root)?;
        }
        let mut index = Self { file, next };
        let mut lacking = blocks.from(next)?;
        while let Some(stored) = lacking.next()? {
            index.append(stored.number, &prints_of(&stored)?)?;
        }
        Ok(index)
    }

    /// Adds the next block.
    pub fn append(&mut self, number: u64, prints: &[u32]) -> io::Result<()> {
        if number != self.next {
            return Err(io::Error::other(format!(
                "the history index got block {number}, but needs block {} next; the next start adds the missing blocks",
                self.next
            )));
        }
        self.file.write_all(&encode(number, prints))?;
        self.next += 1;
        Ok(())
    }
}

fn prints_of(stored: &Stored) -> Result<Vec<u32>, LedgerError> {
    let mut prints = Vec::new();
    each_write(stored, &mut |_, _, namespace, key, _| {
        prints.push(fingerprint(seed(namespace), key))
    })?;
    prints.sort_unstable();
    prints.dedup();
    Ok(prints)
}

/// Callback for a write: index of the transaction in the block, its envelope, chaincode, key and value.
type OnWrite<'a> = dyn FnMut(usize, &[u8], &str, &[u8], Option<&[u8]>) + 'a;

/// Calls `each` with every write of a block's valid transactions.
fn each_write(stored: &Stored, each: &mut OnWrite<'_>) -> Result<(), LedgerError> {
    let number = stored.number;
    let arena = Arena::new();
    let block = Block::read(&stored.bytes, &arena);
    let block = block.map_err(|source| LedgerError::Validation { number, source })?;
    let channel = block.channel().unwrap_or_default();
    let parsed = parse(&block.transactions, &channel, &arena, Rules::default());
    for (index, (parsed, envelope)) in parsed.iter().zip(&block.transactions).enumerate() {
        let is_valid = stored.codes.get(index) == Some(&(TxCode::Valid as u8));
        if let (true, ParsedTx::Signed(signed)) = (is_valid, &parsed.known)
            && let SignedOutcome::Endorser(tx) = &signed.next
            && let Ok(dispatched) = &tx.dispatched
        {
            for of in &dispatched.rwset {
                for write in &of.public.writes {
                    let value = Some(write.value).filter(|value| !write.is_delete && !value.is_empty());
                    each(index, envelope, of.namespace, write.key.as_bytes(), value);
                }
            }
        }
    }
    Ok(())
}

fn writes(
    stored: &Stored,
    is_wanted: &dyn Fn(u64, &str, &[u8]) -> bool,
) -> Result<Vec<KeyWrite>, LedgerError> {
    let mut writes = Vec::new();
    each_write(stored, &mut |index, envelope, namespace, key, value| {
        if is_wanted(index as u64, namespace, key) {
            let (id, time) = id_and_time(envelope);
            writes.push(KeyWrite {
                block: stored.number,
                tx: index as u64,
                id,
                time,
                namespace: namespace.to_owned(),
                key: key.to_vec(),
                value: value.map(<[u8]>::to_vec),
            });
        }
    })?;
    Ok(writes)
}

fn id_and_time(envelope: &[u8]) -> (String, (i64, i32)) {
    let arena = Arena::new();
    let read = || {
        let envelope: Envelope<'_> = proto::decode(envelope, &arena).ok()?;
        let payload: Payload<'_> = proto::decode(envelope.payload, &arena).ok()?;
        let header: ChannelHeader<'_> = proto::decode(payload.header?.channel_header, &arena).ok()?;
        let time = header.timestamp.map_or((0, 0), |time| (time.seconds, time.nanos));
        Some((header.tx_id.to_owned(), time))
    };
    read().unwrap_or_default()
}

/// Returns every write of a key, oldest first. `index` is the path of the index; blocks that it lacks are read.
///
/// # Errors
/// Errors of the ledger and of the disk.
pub fn of_key<D: Disk>(
    blocks: &Blocks<D>,
    index: &Path,
    namespace: &str,
    key: &[u8],
) -> Result<Vec<KeyWrite>, LedgerError> {
    let Some(root) = blocks.root_hash() else {
        return Ok(Vec::new());
    };
    let fingerprint_of_key = fingerprint(seed(namespace), key);
    let mut writes_of_key = Vec::new();
    let (mut next, count) = (blocks.first(), blocks.count());
    let is_it = |_, of: &str, other: &[u8]| of == namespace && other == key;
    if let Some(mut scan) = Scan::open(index, next, &root)? {
        while let Some((number, prints)) = scan.next()? {
            if number >= count {
                break;
            }
            if prints.contains(&fingerprint_of_key) {
                writes_of_key.extend(writes(&blocks.block(number)?, &is_it)?);
            }
            next = number + 1;
        }
    }
    let mut rest = blocks.from(next)?;
    while let Some(stored) = rest.next()? {
        writes_of_key.extend(writes(&stored, &is_it)?);
    }
    Ok(writes_of_key)
}

/// Returns the writes of a transaction; none if it is invalid.
///
/// # Errors
/// [`LedgerError::NotFound`] if no transaction has this id, or an error of the ledger.
pub fn of_transaction<D: Disk>(blocks: &Blocks<D>, id: &TxId) -> Result<Vec<KeyWrite>, LedgerError> {
    let shown = || match id {
        TxId::Hash(digest) => hex(digest),
        TxId::Other(text) => text.escape_ascii().to_string(),
    };
    let location = blocks
        .transaction(id)?
        .ok_or_else(|| LedgerError::NotFound { id: shown() })?;
    // The first transaction with this id may be invalid, and a later transaction of the same block with this id may be
    // valid.
    let mut all_writes = writes(&blocks.block(location.block)?, &|_, _, _| true)?;
    all_writes.retain(|write| TxId::new(&write.id) == *id);
    Ok(all_writes)
}

/// Returns the writes of a block's valid transactions.
///
/// # Errors
/// Errors of the ledger.
pub fn of_block<D: Disk>(blocks: &Blocks<D>, number: u64) -> Result<Vec<KeyWrite>, LedgerError> {
    writes(&blocks.block(number)?, &|_, _, _| true)
}
