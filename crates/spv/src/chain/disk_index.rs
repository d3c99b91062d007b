//! The TXID index on disk: finds the block of a TXID without an index of all transactions in memory.
//!
//! A key is the first 8 bytes of a TXID, the block's number and the transaction's position (u32 each, big endian);
//! values are empty. Every lookup compares the whole TXID, which is in the store's files, so two TXIDs with equal first
//! bytes cost only one more comparison.
//!
//! Blocks are indexed in order. A table in memory, the tail, holds the entries of the newest blocks until these blocks
//! have [`FLUSH_TXIDS`] TXIDs. Then the entries are sorted and written into the database as one run, together with the
//! record, which contains the number of blocks that the index covers. The run and its record become visible and durable
//! in one step, after the blocks themselves. So the index never covers more blocks than the store's files, and opening
//! the index adds the blocks that it lacks. A key that leads to a TXID with other first bytes is an error, so a damaged
//! index never causes a wrong answer.

mod mend;

use super::files::is_full;
use super::index::{IndexedTx, TxidIndex};
use super::network::Network;
use bitcoin::hashes::{Hash, HashEngine, sha256};
use fjall::config::{CompressionPolicy, FilterPolicy};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions};
use lineside_util::fjall_files;
use std::fmt::Display;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Number of TXIDs that are kept in memory before they are sorted and written: about 70 MB including the sort.
const FLUSH_TXIDS: usize = 1 << 21;
/// Key of the record of covered blocks. This key is shorter than every TXID key and sorts before all of them.
const RECORD_KEY: &[u8] = &[0];
/// First bytes of the record of covered blocks; the last digit is the version of the record's layout.
const MAGIC: &[u8; 8] = b"LSTXIDX2";
/// Number of bytes of a TXID that a key contains.
const PREFIX: usize = 8;
/// Length of a key in bytes: part of the TXID, block number, position.
const KEY: usize = PREFIX + 8;
/// Number of TXIDs that the opening of an index looks up as a sample, to find damage before the index is used.
const SAMPLES: usize = 64;

/// Record in the database that describes the blocks which the index covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Covered {
    network: u8,
    /// Number of blocks, from block 0 on.
    blocks: u32,
    /// Number of keys in the index, without the key of the record.
    keys: u64,
    /// SHA-256 chain over the hash and the transaction count of each covered block.
    digest: [u8; 32],
}

impl Covered {
    fn nothing(network: Network) -> Covered {
        Covered {
            network: network.code(),
            blocks: 0,
            keys: 0,
            digest: [0; 32],
        }
    }

    fn with(mut self, hash: &[u8; 32], transactions: u32) -> Covered {
        let mut engine = sha256::Hash::engine();
        engine.input(&self.digest);
        engine.input(hash);
        engine.input(&transactions.to_le_bytes());
        self.digest = sha256::Hash::from_engine(engine).to_byte_array();
        self.blocks += 1;
        self
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(self.network);
        bytes.extend_from_slice(&self.blocks.to_be_bytes());
        bytes.extend_from_slice(&self.keys.to_be_bytes());
        bytes.extend_from_slice(&self.digest);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Covered> {
        let bytes = bytes.strip_prefix(MAGIC)?;
        let (network, bytes) = bytes.split_first()?;
        let (blocks, bytes) = bytes.split_first_chunk()?;
        let (keys, digest) = bytes.split_first_chunk()?;
        Some(Covered {
            network: *network,
            blocks: u32::from_be_bytes(*blocks),
            keys: u64::from_be_bytes(*keys),
            digest: digest.try_into().ok()?,
        })
    }
}

/// Blocks in the files of the store. An index must agree with them.
pub(super) trait Truth {
    /// Returns the number of blocks.
    fn blocks(&self) -> u32;
    /// Returns a block's hash.
    fn hash(&self, block: u32) -> &[u8; 32];
    /// Returns a block's TXIDs in order; `block` is below [`Truth::blocks`].
    fn txids(&self, block: u32) -> &[[u8; 32]];
}

/// An opened index, and the reason why it had to be rebuilt (`None`: the index was valid).
type OpenedIndex = (DiskIndex, Option<String>);

pub(super) struct DiskIndex {
    /// Database and its keys; `None` if the database was closed after a failure and could not be opened again.
    opened: Option<(Database, Keyspace)>,
    network: Network,
    path: PathBuf,
    covered: Covered,
    /// Entries in memory for the blocks from number `covered.blocks` on, which the database does not have yet.
    tail: TxidIndex,
    /// Number of TXIDs in `tail` from which `tail` is written: [`FLUSH_TXIDS`], or fewer in tests.
    flush_txids: usize,
    failed: Option<Failed>,
    marker: PathBuf,
}

/// Reason why the index is not written at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failed {
    /// A write found no free disk space; it is repeated when there is free space.
    NoRoom,
    /// A write failed for another reason, or is in progress.
    Otherwise,
}

impl DiskIndex {
    /// Opens the index in the directory `name` of `dir` and adds the blocks of `truth` that it lacks. An index that is
    /// damaged or belongs to other blocks is rebuilt.
    pub(super) fn open(
        dir: &Path,
        name: &str,
        network: Network,
        truth: &impl Truth,
    ) -> io::Result<OpenedIndex> {
        let path = dir.join(name);
        let marker = dir.join(format!("{name}.damaged"));
        let mut why = None;
        if marker.exists() {
            why = Some("an earlier lookup found that the index is damaged".to_owned());
        } else if path.exists() {
            // fjall does not verify the checksums of its lists of tables: a changed byte in a list may hide a table,
            // and with it transactions that the index covers.
            let opened = fjall_files::check_lists(&path)
                .map_err(other)
                .and_then(|()| Self::at(&path, &marker, network));
            match opened.and_then(|index| index.believe(truth).map(|()| index)) {
                Ok(mut index) => {
                    index.catch_up(truth)?;
                    return Ok((index, None));
                }
                Err(error) => why = Some(error.to_string()),
            }
        }
        remove(&path)?;
        remove(&marker)?;
        let mut index = Self::at(&path, &marker, network)?;
        index.catch_up(truth)?;
        index.flush(true, truth)?;
        Ok((index, why))
    }

    fn at(path: &Path, marker: &Path, network: Network) -> io::Result<DiskIndex> {
        guarded(|| {
            let database = Database::builder(path).worker_threads(1).open().map_err(other)?;
            // TXIDs are random, so compression has no effect; lookups are ranges, which do not use Bloom filters.
            let options = KeyspaceCreateOptions::default()
                .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
                .index_block_compression_policy(CompressionPolicy::all(CompressionType::None))
                .filter_policy(FilterPolicy::disabled());
            let keys = database.keyspace("txids", || options).map_err(other)?;
            let covered = match keys.get(RECORD_KEY).map_err(other)? {
                Some(bytes) => {
                    Covered::decode(&bytes).ok_or_else(|| other("the index has another format version"))?
                }
                None if keys.is_empty().map_err(other)? => Covered::nothing(network),
                None => return Err(other("the record of covered blocks is missing from the index")),
            };
            if covered.network != network.code() {
                return Err(other("the index belongs to another network"));
            }
            Ok(DiskIndex {
                opened: Some((database, keys)),
                network,
                path: path.to_path_buf(),
                covered,
                tail: TxidIndex::new()?,
                flush_txids: FLUSH_TXIDS,
                failed: None,
                marker: marker.to_path_buf(),
            })
        })
    }

    /// Compares the record of covered blocks with the blocks of the store, and looks up a sample of TXIDs.
    fn believe(&self, truth: &impl Truth) -> io::Result<()> {
        if self.covered.blocks > truth.blocks() {
            return Err(other("the index covers more blocks than the store has"));
        }
        let mut expected = Covered::nothing(Network::Regtest);
        for block in 0..self.covered.blocks {
            expected = expected.with(truth.hash(block), truth.txids(block).len() as u32);
        }
        if expected.digest != self.covered.digest {
            return Err(other("the index was built for other blocks"));
        }
        let step = (self.covered.blocks as usize / SAMPLES).max(1);
        for block in (0..self.covered.blocks).step_by(step) {
            let txids = truth.txids(block);
            let Some(txid) = txids.get(block as usize % txids.len().max(1)) else {
                continue;
            };
            let mut is_listed = false;
            self.on_disk(txid, truth, &mut |place| is_listed |= place.block == block)?;
            if !is_listed {
                return Err(other("the index lacks a transaction of a block that it covers"));
            }
        }
        Ok(())
    }

    fn catch_up(&mut self, truth: &impl Truth) -> io::Result<()> {
        for block in self.covered.blocks..truth.blocks() {
            self.add(block, truth);
            // Writes the entries of the blocks up to this one; the tail has no entries of later blocks.
            if self.tail.len() >= self.flush_txids {
                self.flush_until(block + 1, truth)?;
            }
        }
        Ok(())
    }

    /// Adds the newest block to the tail, the part of the index in memory.
    pub(super) fn add(&mut self, block: u32, truth: &impl Truth) {
        self.tail
            .add(block, truth.txids(block), |place| txid_at(truth, place));
    }

    /// Calls `each` with every location of `txid`.
    ///
    /// # Errors
    /// The index cannot be read or contradicts the blocks. The next opening then rebuilds it.
    pub(super) fn places(
        &self,
        txid: &[u8; 32],
        truth: &impl Truth,
        each: &mut impl FnMut(IndexedTx),
    ) -> io::Result<()> {
        self.tail
            .places(txid, |place| txid_at(truth, place))
            .for_each(&mut *each);
        self.on_disk(txid, truth, each)
            .inspect_err(|_| _ = std::fs::write(&self.marker, b""))
    }

    fn on_disk(
        &self,
        txid: &[u8; 32],
        truth: &impl Truth,
        each: &mut impl FnMut(IndexedTx),
    ) -> io::Result<()> {
        guarded(|| {
            for pair in self.keys()?.prefix(&txid[..PREFIX]) {
                let key = pair.key().map_err(other)?;
                let (txid_there, location) = self.locate(&key, truth).ok_or_else(wrong)?;
                if txid_there == txid {
                    each(location);
                }
            }
            Ok(())
        })
    }

    /// Returns the location in a key, and the TXID at this location; `None` if the blocks contradict the key.
    fn locate<'t>(&self, key: &[u8], truth: &'t impl Truth) -> Option<(&'t [u8; 32], IndexedTx)> {
        let key: &[u8; KEY] = key.try_into().ok()?;
        let (prefix, location) = key.split_first_chunk::<PREFIX>()?;
        let (block, position) = location.split_first_chunk()?;
        let location = IndexedTx {
            block: u32::from_be_bytes(*block),
            position: u32::from_be_bytes(position.try_into().ok()?),
        };
        if location.block >= self.covered.blocks {
            return None;
        }
        let txid = truth.txids(location.block).get(location.position as usize)?;
        txid.starts_with(prefix).then_some((txid, location))
    }

    fn keys(&self) -> io::Result<&Keyspace> {
        let opened = self.opened.as_ref().map(|(_, keys)| keys);
        opened.ok_or_else(|| {
            other("the index is closed, because a write failed and it could not be opened again")
        })
    }

    /// Writes the tail if it holds at least [`FLUSH_TXIDS`] TXIDs, or anything in it if `all` is set. The blocks must
    /// be durable already. [`DiskIndex::mend`] describes what happens after a failure.
    pub(super) fn flush(&mut self, all: bool, truth: &impl Truth) -> io::Result<()> {
        self.mend(truth)?;
        match self.tail.len() {
            0 => Ok(()),
            waiting if waiting < self.flush_txids && !all => Ok(()),
            _ => self.flush_until(truth.blocks(), truth),
        }
    }

    fn flush_until(&mut self, end: u32, truth: &impl Truth) -> io::Result<()> {
        self.check_room()?;
        self.failed = Some(Failed::Otherwise);
        let mut covered = self.covered;
        let mut rows = Vec::with_capacity(self.tail.len());
        for block in self.covered.blocks..end {
            let txids = truth.txids(block);
            covered = covered.with(truth.hash(block), txids.len() as u32);
            rows.extend(
                (0..)
                    .zip(txids)
                    .map(|(position, txid)| key(txid, block, position)),
            );
        }
        rows.sort_unstable();
        covered.keys += rows.len() as u64;
        let written = guarded(|| {
            let mut run = self.keys()?.start_ingestion().map_err(of_database)?;
            run.write(RECORD_KEY, covered.encode()).map_err(of_database)?;
            for row in &rows {
                run.write(&row.to_be_bytes()[..], &[][..]).map_err(of_database)?;
            }
            run.finish().map_err(of_database)
        });
        if written.as_ref().is_err_and(is_full) {
            self.failed = Some(Failed::NoRoom);
        }
        written?;
        self.covered = covered;
        self.tail = TxidIndex::new()?;
        self.failed = None;
        Ok(())
    }

    /// Reads the whole index: every key must agree with the blocks, and there must be exactly as many keys as the
    /// blocks need.
    pub(super) fn verify(&self, truth: &impl Truth) -> io::Result<()> {
        let all = || {
            let mut keys = 0;
            for pair in self.keys()?.iter() {
                let key = pair.key().map_err(other)?;
                if *key != *RECORD_KEY {
                    self.locate(&key, truth).ok_or_else(wrong)?;
                    keys += 1;
                }
            }
            (keys == self.covered.keys).then_some(()).ok_or_else(wrong)
        };
        self.believe(truth)
            .and_then(|()| guarded(all))
            .inspect_err(|_| _ = std::fs::write(&self.marker, b""))
    }

    /// Returns the number of blocks whose index entries are durable.
    pub(super) fn durable_blocks(&self) -> u32 {
        self.covered.blocks
    }
}

fn txid_at(truth: &impl Truth, place: IndexedTx) -> &[u8; 32] {
    &truth.txids(place.block)[place.position as usize]
}

/// Returns a key as a number. Numbers sort in the same order as the keys' bytes.
fn key(txid: &[u8; 32], block: u32, position: u32) -> u128 {
    let prefix = txid.first_chunk().map_or(0, |first| u64::from_be_bytes(*first));
    u128::from(prefix) << 64 | u128::from(block) << 32 | u128::from(position)
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match std::fs::symlink_metadata(path) {
        Ok(what) if what.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn other(error: impl Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// Converts a database error, and keeps the kind of an operating system's error in it, so that a full disk can be
/// distinguished from damage.
fn of_database(error: fjall::Error) -> io::Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(system) = error.downcast_ref::<io::Error>() {
            return io::Error::new(system.kind(), error.to_string());
        }
        cause = error.source();
    }
    other(error)
}

fn wrong() -> io::Error {
    other("the index contradicts the blocks")
}

/// Runs `act` and turns a panic into an error: the database library panics at some kinds of damaged data.
fn guarded<T>(act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| Err(other("the index is damaged")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "txid-index";

    struct Plain(Vec<([u8; 32], Vec<[u8; 32]>)>);

    impl Truth for Plain {
        fn blocks(&self) -> u32 {
            self.0.len() as u32
        }
        fn hash(&self, block: u32) -> &[u8; 32] {
            &self.0[block as usize].0
        }
        fn txids(&self, block: u32) -> &[[u8; 32]] {
            &self.0[block as usize].1
        }
    }

    /// Returns 50 blocks of 7 TXIDs. Some TXIDs are in several blocks, and two TXIDs of each block share their first 8
    /// bytes with those of all other blocks.
    fn plain() -> Plain {
        let txid = |number: u32| sha256::Hash::hash(&number.to_le_bytes()).to_byte_array();
        let block = |b: u32| {
            let one = |p| {
                let mut one = txid(if p == 3 { b % 5 } else { 100 + 7 * b + p });
                if p >= 5 {
                    one[..PREFIX].fill(0x77);
                }
                one
            };
            (txid(b), (0..7).map(one).collect())
        };
        Plain((0..50).map(block).collect())
    }

    #[test]
    fn catching_up_writes_runs_and_every_location_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (path, marker) = (dir.path().join("index"), dir.path().join("damaged"));
        let truth = plain();
        let mut index = DiskIndex::at(&path, &marker, Network::Regtest).unwrap();
        index.flush_txids = 20;
        index.catch_up(&truth).unwrap();
        assert_eq!(
            (index.durable_blocks(), index.tail.len()),
            (48, 14),
            "a run is written after every third block"
        );
        let find = |index: &DiskIndex, txid: &[u8; 32]| {
            let mut found = Vec::new();
            index
                .places(txid, &truth, &mut |place| {
                    found.push((place.block, place.position))
                })
                .unwrap();
            found.sort_unstable();
            found
        };
        let check = |index: &DiskIndex| {
            for (_, txids) in &truth.0 {
                for txid in txids {
                    let places = (0..50u32).flat_map(|b| (0..7u32).map(move |p| (b, p)));
                    let expected: Vec<_> = places
                        .filter(|(b, p)| truth.0[*b as usize].1[*p as usize] == *txid)
                        .collect();
                    assert_eq!(find(index, txid), expected);
                }
            }
            assert_eq!(find(index, &[3; 32]), []);
            assert_eq!(
                find(index, &[0x77; 32]),
                [],
                "a TXID that shares only its first bytes with others is not found"
            );
        };
        check(&index);
        index.flush(false, &truth).unwrap();
        assert_eq!(
            index.durable_blocks(),
            48,
            "a tail that is shorter than a run stays in memory"
        );
        index.flush(true, &truth).unwrap();
        assert_eq!((index.durable_blocks(), index.covered.keys), (50, 350));
        check(&index);
        index.verify(&truth).unwrap();
        drop(index);
        let index = DiskIndex::at(&path, &marker, Network::Regtest).unwrap();
        assert_eq!(index.durable_blocks(), 50);
        index.believe(&truth).unwrap();
        check(&index);
        drop(index);
        assert!(DiskIndex::at(&path, &marker, Network::Signet).is_err());
    }

    /// Returns 640 blocks of 2 TXIDs each.
    fn many() -> Plain {
        let txid = |number: u32| sha256::Hash::hash(&number.to_le_bytes()).to_byte_array();
        Plain(
            (0..640)
                .map(|b| (txid(b), vec![txid(1000 + 2 * b), txid(1001 + 2 * b)]))
                .collect(),
        )
    }

    /// Creates a directory, in /dev/shm if possible: each index calls fsync for many files, which is slow on a disk.
    fn new_dir() -> tempfile::TempDir {
        tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
    }

    /// Returns every pair of block number and TXID.
    fn txids(truth: &Plain) -> Vec<(u32, [u8; 32])> {
        let blocks = (0..).zip(&truth.0);
        blocks
            .flat_map(|(block, (_, txids))| txids.iter().map(move |txid| (block, *txid)))
            .collect()
    }

    /// Returns the paths of all files of an index.
    fn files(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let found = entries.flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => vec![path],
        });
        found.collect()
    }

    #[test]
    fn after_a_flipped_bit_a_transaction_is_found_or_the_index_says_that_it_is_damaged() {
        let truth = many();
        let home = new_dir();
        // Makes three runs; opening the index samples no block of the second one.
        let make = |dir: &Path| {
            let (mut index, _) = DiskIndex::open(dir, NAME, Network::Regtest, &Plain(Vec::new())).unwrap();
            for block in 0..640 {
                index.add(block, &truth);
                if [600, 605, 639].contains(&block) {
                    index.flush_until(block + 1, &truth).unwrap();
                }
            }
        };
        make(home.path());
        let (mut rebuilt, mut noticed, mut harmless) = (0, 0, 0);
        for file in files(&home.path().join(NAME)) {
            let sound = std::fs::read(&file).unwrap();
            let used = sound.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
            for at in (0..used).step_by((used / 5).max(1)) {
                let mut bytes = sound[..used].to_vec();
                bytes[at] ^= 1 << (at % 8);
                let dir = new_dir();
                make(dir.path());
                let name = file.strip_prefix(home.path()).unwrap();
                std::fs::write(dir.path().join(name), &bytes).unwrap();
                let (index, why) = DiskIndex::open(dir.path(), NAME, Network::Regtest, &truth).unwrap();
                rebuilt += usize::from(why.is_some());
                for (block, txid) in txids(&truth) {
                    let mut found = false;
                    match index.places(&txid, &truth, &mut |place| found |= place.block == block) {
                        Ok(()) => assert!(found, "{} at {at}: {block}", name.display()),
                        Err(_) => noticed += 1,
                    }
                }
                harmless += usize::from(why.is_none());
            }
        }
        assert!(
            rebuilt > 0 && harmless > 0,
            "after {rebuilt} of the changed bits the index was rebuilt, after {harmless} it was not; \
             {noticed} lookups failed"
        );
    }
}
