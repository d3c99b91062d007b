//! The files of a store: `txids.dat` (concatenated TXIDs) and `blocks.dat` (one record for each block). A store with
//! witness data also has the files of [`super::witness_files`].
//!
//! TXIDs and witness data become durable before the records that refer to them, so an interrupted write never leaves a
//! whole record without its data. An interrupted write can leave torn records at the end, and data that no whole record
//! refers to; the next opening removes both. Everything else is damage (a torn record followed by a whole one, a whole
//! record whose data is missing or wrong): the store is refused, and nothing is removed. Without a directory the same
//! code keeps all data in memory.

use super::checksum::crc32c;
use super::network::{Network, StoreNetwork};
use super::types::ChainError;
use super::witness::CheckedWitness;
use super::witness_files::{WitnessFiles, WitnessOpening, WitnessPlace};
use lineside_bitcoin_node::SignetId;
use lineside_util::data_dir::{DataDir, Kind, check_kind};
use memmap2::Mmap;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Length in bytes of a record, and also of the header of `blocks.dat`.
const RECORD: usize = 128;
/// First bytes of `blocks.dat`; the last digit is the version of the file's layout.
const MAGIC: &[u8; 8] = b"LSCHAIN1";
/// Offset in the header of the byte with the kinds of data that the store keeps in addition to headers and TXIDs.
const KEEPS: usize = 9;
/// Bit of the byte [`KEEPS`] for witness data.
const KEEPS_WITNESS: u8 = 1;
/// Bytes of the header with the identity of a signet; zeros for the default signet and for other networks.
const SIGNET: std::ops::Range<usize> = 16..48;
/// Number of pending TXIDs in memory from which the store writes them without a call of [`Files::sync`].
const PENDING_TXIDS: usize = 1 << 20;

/// Record of a block in `blocks.dat`: all stored data of the block except its TXIDs and its witness data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Header in the form in which nodes send it.
    pub(super) header: [u8; 80],
    /// Number of the block's first TXID in `txids.dat`.
    pub(super) first: u64,
    /// Number of transactions.
    pub(super) count: u32,
    /// Height, or all ones for a detached block.
    pub(super) height: u32,
    /// Flags: bit 0 is set for a detached block; the other bits are 0.
    pub(super) flags: u32,
    /// CRC32C of the TXIDs.
    pub(super) txids_crc: u32,
    /// Location of the witness data; zeros if the block commits to none, and in a store without witness data.
    pub(super) witness: WitnessPlace,
}

impl Record {
    fn encode(&self) -> [u8; RECORD] {
        let mut bytes = [0u8; RECORD];
        bytes[..80].copy_from_slice(&self.header);
        bytes[80..88].copy_from_slice(&self.first.to_le_bytes());
        bytes[88..92].copy_from_slice(&self.count.to_le_bytes());
        bytes[92..96].copy_from_slice(&self.height.to_le_bytes());
        bytes[96..100].copy_from_slice(&self.flags.to_le_bytes());
        bytes[100..104].copy_from_slice(&self.txids_crc.to_le_bytes());
        bytes[104..112].copy_from_slice(&self.witness.coinbase_offset.to_le_bytes());
        bytes[112..116].copy_from_slice(&self.witness.coinbase_bytes.to_le_bytes());
        bytes[116..120].copy_from_slice(&self.witness.coinbase_crc.to_le_bytes());
        bytes[120..124].copy_from_slice(&self.witness.wtxids_crc.to_le_bytes());
        let crc = crc32c(&bytes[..RECORD - 4]);
        bytes[RECORD - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; RECORD]) -> Option<Record> {
        if crc32c(&bytes[..RECORD - 4]) != word(bytes, RECORD - 4) {
            return None;
        }
        let mut header = [0u8; 80];
        header.copy_from_slice(&bytes[..80]);
        Some(Record {
            header,
            first: long(bytes, 80),
            count: word(bytes, 88),
            height: word(bytes, 92),
            flags: word(bytes, 96),
            txids_crc: word(bytes, 100),
            witness: WitnessPlace {
                coinbase_offset: long(bytes, 104),
                coinbase_bytes: word(bytes, 112),
                coinbase_crc: word(bytes, 116),
                wtxids_crc: word(bytes, 120),
            },
        })
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 4)) << 32
}

/// Kind of a chain store's directory. `blocks.dat` names the format and the network, so a store may lack the marker
/// file.
const KIND: Kind = Kind::new("spv", 1).beside(&[
    "blocks.dat",
    "txids.dat",
    "wtxids.dat",
    "coinbases.dat",
    "txid-index",
    "txid-index.damaged",
]);

/// The files of a store, and the data that is not yet written to them.
pub(super) struct Files {
    disk: Option<Disk>,
    /// TXIDs that are not written to `txids.dat` yet; they follow the TXIDs in `map`.
    pending: Vec<[u8; 32]>,
    records: Vec<u8>,
    /// Length to which `records` is truncated before the last write, when the store is closed, so that withheld blocks
    /// are not written; `None`: no block is withheld.
    written_at_end: Option<usize>,
    /// Files of the witness data; `None` in a store without witness data.
    witness: Option<WitnessFiles>,
}

struct Disk {
    txids: File,
    blocks: File,
    /// Map of `txids.dat`; `None` if the file has no TXID, because an empty file cannot be mapped.
    map: Option<Mmap>,
    /// Offset of the next record in `blocks`.
    blocks_end: u64,
    failed: bool,
    /// Exclusive claim on the store's directory, held while the store is open.
    _owner: DataDir,
}

/// The files of a store after reading, before anything in them has been changed.
pub(super) struct Opening {
    dir: PathBuf,
    identity: StoreNetwork,
    blocks_path: PathBuf,
    txids_path: PathBuf,
    blocks: File,
    txids: File,
    /// End of the last whole block in each file.
    blocks_end: u64,
    txids_end: u64,
    witness: Option<WitnessOpening>,
    owner: DataDir,
}

impl Opening {
    /// Opens or creates the files in `dir`, and returns the records of their whole blocks in order. Only a new store
    /// uses the signet of `new` and `with_witness`; an existing store keeps its own.
    pub(super) fn read(
        dir: &Path,
        new: StoreNetwork,
        with_witness: bool,
    ) -> Result<(Opening, Vec<Record>), ChainError> {
        let owner = DataDir::claim(dir, &KIND)?;
        owner.lock_file("lock")?;
        let (blocks_path, txids_path) = (dir.join("blocks.dat"), dir.join("txids.dat"));
        let mut blocks = open_file(&blocks_path)?;
        let txids = open_file(&txids_path)?;
        let mut bytes = Vec::new();
        blocks.read_to_end(&mut bytes).map_err(io(&blocks_path))?;
        let map = map(&txids).map_err(io(&txids_path))?;

        if bytes.len() < RECORD {
            // The store is new, or its creation was interrupted. A file with any other content must not be overwritten.
            let is_begun = [false, true].map(|witness| head(new, witness).starts_with(&bytes));
            if map.is_some() || !is_begun.contains(&true) {
                return Err(ChainError::NotAStore { path: blocks_path });
            }
            bytes = head(new, with_witness).to_vec();
            cut(&mut blocks, 0).map_err(io(&blocks_path))?;
            blocks.write_all(&bytes).map_err(io(&blocks_path))?;
            blocks.sync_all().map_err(io(&blocks_path))?;
            txids.sync_all().map_err(io(&txids_path))?;
        }
        let (identity, keeps_witness) = check_head(&bytes, new.network, &blocks_path)?;
        let stored = map.as_deref().unwrap_or_default().as_chunks::<32>().0;
        let (records, end) = read_records(&bytes[RECORD..], stored, &blocks_path, &txids_path)?;
        let witness = if keeps_witness {
            Some(WitnessOpening::read(dir, &blocks_path, &records)?)
        } else {
            no_witness_data(&records, &blocks_path)?;
            None
        };
        let opening = Opening {
            dir: dir.to_path_buf(),
            identity,
            blocks_path,
            txids_path,
            blocks,
            txids,
            blocks_end: (RECORD + records.len() * RECORD) as u64,
            txids_end: end * 32,
            witness,
            owner,
        };
        Ok((opening, records))
    }

    /// Returns the network that is recorded in the files.
    pub(super) fn identity(&self) -> StoreNetwork {
        self.identity
    }

    /// Removes everything after the last whole block. The records must have been checked.
    pub(super) fn cut(mut self) -> Result<Files, ChainError> {
        cut(&mut self.blocks, self.blocks_end).map_err(io(&self.blocks_path))?;
        cut(&mut self.txids, self.txids_end).map_err(io(&self.txids_path))?;
        // A killed process may have written data that is not on disk yet. The data must be durable before the index is
        // built from it.
        self.txids.sync_data().map_err(io(&self.txids_path))?;
        let witness = self.witness.map(WitnessOpening::cut).transpose()?;
        self.blocks.sync_data().map_err(io(&self.blocks_path))?;
        // A record must not become durable before the directory entry of the file with its TXIDs.
        File::open(&self.dir)
            .and_then(|dir| dir.sync_all())
            .map_err(io(&self.dir))?;
        let disk = Disk {
            map: map(&self.txids).map_err(io(&self.txids_path))?,
            txids: self.txids,
            blocks: self.blocks,
            blocks_end: self.blocks_end,
            failed: false,
            _owner: self.owner,
        };
        Ok(Files {
            disk: Some(disk),
            pending: Vec::new(),
            records: Vec::new(),
            written_at_end: None,
            witness,
        })
    }
}

/// Refuses records with witness data in a store without it.
fn no_witness_data(records: &[Record], blocks_path: &Path) -> Result<(), ChainError> {
    let is_none = |record: &Record| record.witness == WitnessPlace::default();
    match records.iter().position(|record| !is_none(record)) {
        None => Ok(()),
        Some(record) => Err(corrupt(
            blocks_path,
            record,
            "has witness data, but this store was created without witness data",
        )),
    }
}

pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> ChainError + use<> {
    let path = path.to_path_buf();
    move |source| ChainError::Io { path, source }
}

impl Files {
    /// Returns a store that exists only in this process, with or without witness data.
    pub(super) fn in_memory(with_witness: bool) -> Files {
        Files {
            disk: None,
            pending: Vec::new(),
            records: Vec::new(),
            written_at_end: None,
            witness: with_witness.then(WitnessFiles::in_memory),
        }
    }

    /// Returns the witness data; `None` in a store without it.
    pub(super) fn witness(&self) -> Option<&WitnessFiles> {
        self.witness.as_ref()
    }

    /// Returns the number of TXIDs, written or not.
    pub(super) fn len(&self) -> u64 {
        (self.mapped().len() + self.pending.len()) as u64
    }

    /// Returns `count` TXIDs of one block, from number `first` on.
    #[inline]
    pub(super) fn txids(&self, first: u64, count: u32) -> &[[u8; 32]] {
        let (first, count) = (first as usize, count as usize);
        let mapped = self.mapped();
        // A block's TXIDs are written together, so all of them are either mapped or pending.
        match first.checked_sub(mapped.len()) {
            None => &mapped[first..first + count],
            Some(first) => &self.pending[first..first + count],
        }
    }

    #[inline]
    fn mapped(&self) -> &[[u8; 32]] {
        match &self.disk {
            Some(Disk { map: Some(map), .. }) => map.as_chunks::<32>().0,
            _ => &[],
        }
    }

    /// Returns true if the pending data has reached the amount at which the store writes it before it accepts the next
    /// block.
    pub(super) fn is_long(&self) -> bool {
        self.disk.is_some() && self.pending.len() >= PENDING_TXIDS
    }

    /// Writes the pending data if there is much of it. Returns true if it wrote data, and an error if the store cannot
    /// be written any more.
    pub(super) fn make_room(&mut self) -> io::Result<bool> {
        match &self.disk {
            Some(disk) if disk.failed => Err(failed()),
            Some(_) if self.pending.len() >= PENDING_TXIDS => self.sync().map(|()| true),
            _ => Ok(false),
        }
    }

    /// Adds a block and sets the location of its witness data in `record`; `record.first` must be [`Files::len`]. A
    /// store with witness data needs `witness`.
    pub(super) fn append(
        &mut self,
        record: &mut Record,
        txids: &[[u8; 32]],
        witness: Option<&CheckedWitness>,
    ) {
        self.pending.extend_from_slice(txids);
        if let Some((files, witness)) = self.witness.as_mut().zip(witness) {
            record.witness = files.append(witness);
        }
        if self.disk.is_some() {
            self.records.extend_from_slice(&record.encode());
        }
    }

    /// Excludes the last block, and later ones, from the write when the store is closed, until [`Files::release`].
    pub(super) fn withhold_last(&mut self) {
        let without = self.records.len().saturating_sub(RECORD);
        self.written_at_end.get_or_insert(without);
    }

    /// Reverts [`Files::withhold_last`].
    pub(super) fn release(&mut self) {
        self.written_at_end = None;
    }

    /// Makes everything appended so far durable. If the disk is full, the call can be repeated; after any other failure
    /// the store never writes again.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        let txids_end = (self.mapped().len() * 32) as u64;
        let Some(disk) = &mut self.disk else { return Ok(()) };
        if disk.failed {
            return Err(failed());
        }
        if self.records.is_empty() {
            return Ok(());
        }
        disk.failed = true;
        let written = disk
            .txids
            .write_all_at(self.pending.as_flattened(), txids_end)
            .and_then(|()| self.witness.as_mut().map_or(Ok(()), WitnessFiles::write));
        retryable(&mut disk.failed, written)?;
        disk.txids.sync_data()?;
        if let Some(witness) = &mut self.witness {
            witness.sync()?;
        }
        let written = disk.blocks.write_all_at(&self.records, disk.blocks_end);
        retryable(&mut disk.failed, written)?;
        disk.blocks.sync_data()?;
        disk.blocks_end += self.records.len() as u64;
        disk.map = map(&disk.txids)?;
        if let Some(witness) = &mut self.witness {
            witness.written()?;
        }
        disk.failed = false;
        self.pending.clear();
        self.records.clear();
        self.written_at_end = None;
        Ok(())
    }
}

/// Clears the flag `has_failed` if a write failed because the disk is full: no durable record refers to the written
/// data, so the next attempt can write all of it again at the same offset. A failed fdatasync stays fatal, because the
/// kernel may have dropped the pages that it could not write.
fn retryable(has_failed: &mut bool, written: io::Result<()>) -> io::Result<()> {
    if written.as_ref().is_err_and(is_full) {
        *has_failed = false;
    }
    written
}

/// Returns true for the error of a write that found no space, on the disk or because of a limit.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge
    )
}

impl Drop for Files {
    fn drop(&mut self) {
        if let Some(length) = self.written_at_end {
            // The records of the withheld blocks are not written; the next opening removes the other data of these
            // blocks.
            self.records.truncate(length);
        }
        if let Err(error) = self.sync() {
            tracing::error!(
                %error,
                "the last blocks of the chain store were not written; import them again, or follow a node"
            );
        }
    }
}

fn failed() -> io::Error {
    io::Error::other("an earlier write failed, so nothing is written any more; restart this program")
}

fn head(identity: StoreNetwork, with_witness: bool) -> [u8; RECORD] {
    let mut bytes = [0u8; RECORD];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8] = identity.network.code();
    bytes[KEEPS] = if with_witness { KEEPS_WITNESS } else { 0 };
    if let Some(signet) = identity
        .signet
        .filter(|signet| *signet != SignetId::default_signet())
    {
        bytes[SIGNET].copy_from_slice(&signet.0);
    }
    let crc = crc32c(&bytes[..RECORD - 4]);
    bytes[RECORD - 4..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Returns the network that a header names, and true for a store with witness data.
fn read_head(found: &[u8]) -> Option<(StoreNetwork, bool)> {
    let signet = SignetId(found.get(SIGNET)?.try_into().ok()?);
    let with_signet = |network| match network {
        Network::Signet if signet.0 != [0; 32] => StoreNetwork::of_signet(signet),
        network => StoreNetwork::new(network),
    };
    let both = |network| [(with_signet(network), false), (with_signet(network), true)];
    let mut kinds = Network::ALL.into_iter().flat_map(both);
    kinds.find(|(identity, witness)| found == head(*identity, *witness))
}

/// Returns the network of the store in `dir`; `None` if it has no complete `blocks.dat`. Refuses a directory of another
/// service.
pub(super) fn network_of(dir: &Path) -> Result<Option<StoreNetwork>, ChainError> {
    check_kind(dir, &KIND)?;
    let path = dir.join("blocks.dat");
    let mut bytes = [0; RECORD];
    match File::open(&path).and_then(|mut file| file.read_exact(&mut bytes)) {
        Ok(()) => {}
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) => {
            return Ok(None);
        }
        Err(error) => return Err(io(&path)(error)),
    }
    let stored_identity = read_head(&bytes).map(|(identity, _)| identity);
    stored_identity.map(Some).ok_or(ChainError::NotAStore { path })
}

/// Returns the network of a header, and true for a store with witness data; an error for another network than
/// `network`.
fn check_head(bytes: &[u8], network: Network, path: &Path) -> Result<(StoreNetwork, bool), ChainError> {
    let path = path.to_path_buf();
    match read_head(&bytes[..RECORD]) {
        Some((identity, witness)) if identity.network == network => Ok((identity, witness)),
        Some((identity, _)) => Err(ChainError::OtherNetwork {
            path,
            found: identity.network,
            wanted: network,
        }),
        None => Err(ChainError::NotAStore { path }),
    }
}

/// Returns the whole records from the start, and the number of TXIDs that they cover.
///
/// Records that fail their own checksum and are not followed by a whole record come from an interrupted write. A whole
/// record without its TXIDs does not: [`Files::sync`] makes TXIDs durable before it writes their record.
fn read_records(
    bytes: &[u8],
    stored: &[[u8; 32]],
    blocks_path: &Path,
    txids_path: &Path,
) -> Result<(Vec<Record>, u64), ChainError> {
    let (chunks, _torn) = bytes.as_chunks::<RECORD>();
    let mut records = Vec::with_capacity(chunks.len());
    let mut end = 0u64;
    for (i, chunk) in chunks.iter().enumerate() {
        let Some(record) = Record::decode(chunk) else {
            if chunks[i + 1..]
                .iter()
                .any(|later| Record::decode(later).is_some())
            {
                return Err(corrupt(blocks_path, i, "is damaged, and valid records follow it"));
            }
            break;
        };
        if record.first != end || record.count == 0 {
            return Err(corrupt(
                blocks_path,
                i,
                "does not begin where the TXIDs of the previous record end",
            ));
        }
        let covered = end as usize..end as usize + record.count as usize;
        let Some(txids) = stored.get(covered) else {
            return Err(corrupt(txids_path, i, "has TXIDs that are missing here"));
        };
        if crc32c(txids.as_flattened()) != record.txids_crc {
            return Err(corrupt(txids_path, i, "has TXIDs that are damaged here"));
        }
        end += u64::from(record.count);
        records.push(record);
    }
    Ok((records, end))
}

pub(super) fn corrupt(path: &Path, record: usize, why: &'static str) -> ChainError {
    ChainError::Corrupt {
        path: path.to_path_buf(),
        record: record as u64,
        why,
    }
}

/// Shortens `file` to `len` if it is longer, and sets the position to its end.
pub(super) fn cut(file: &mut File, len: u64) -> io::Result<()> {
    use std::io::Seek;
    let length = file.metadata()?.len();
    if length > len {
        tracing::warn!(
            bytes = length - len,
            "removed an interrupted write from the end of a file of the chain store"
        );
        file.set_len(len)?;
        file.sync_all()?;
    }
    file.seek(io::SeekFrom::Start(len)).map(|_| ())
}

pub(super) fn map(file: &File) -> io::Result<Option<Mmap>> {
    if file.metadata()?.len() == 0 {
        return Ok(None);
    }
    // SAFETY: a mapped file must not be truncated or changed. Only this process uses the file, because it holds the
    // lock file, and it only appends to the file while the map exists.
    unsafe { Mmap::map(file) }.map(Some)
}

pub(super) fn open_file(path: &Path) -> Result<File, ChainError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.open(path).map_err(|source| ChainError::Io {
        path: path.to_path_buf(),
        source,
    })
}
