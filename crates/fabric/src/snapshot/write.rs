//! Writes a snapshot of a state in memory, in the files of a peer.
//!
//! The history of collection definitions (`confighistory`) is not kept and therefore not written. A Fabric peer accepts
//! the snapshot only if no chaincode has collections. Lineside does not need the history.

use super::data::FORMAT;
use super::{
    ADDITIONAL, COLLECTION_JOINER, CONFIG_KEY, IDS, PRIVATE_STATE, PUBLIC_STATE, SIGNABLE, SnapshotHead,
    counts_of,
};
use crate::mvcc::{VALIDATION_PARAMETER, put_order_preserving};
use crate::proto::wire;
use crate::replay::hex;
use crate::state::{Entry, Height, State, TxId};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, remove_file};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A channel after one block.
pub struct Channel<'a> {
    /// Name of the channel.
    pub name: &'a str,
    /// Number of the block after which the snapshot is taken.
    pub last: u64,
    /// Header hash of the block.
    pub last_hash: [u8; 32],
    /// Header hash of the previous block.
    pub previous_hash: Option<[u8; 32]>,
    /// Commit hash of the block.
    pub commit_hash: Option<[u8; 32]>,
    /// The configuration, a `ConfigEnvelope`.
    pub config: &'a [u8],
    /// Number of the block that set the configuration.
    pub config_block: u64,
    /// The state, which must be in memory.
    pub state: &'a State,
    /// Ids of all transactions.
    pub ids: &'a mut dyn Iterator<Item = TxId>,
}

/// Keys of a namespace, in order.
type NamespaceKeys<'a> = BTreeMap<&'a [u8], &'a Entry>;

/// Writes a snapshot to a new folder.
///
/// # Errors
/// Errors of the disk. The folder is then not a valid snapshot.
pub fn write(folder: &Path, channel: Channel<'_>) -> io::Result<SnapshotHead> {
    if channel.state.in_memory().is_none() {
        return Err(io::Error::other(
            "the state is not in memory; open the ledger with a state in memory",
        ));
    }
    // The files contain the state of the channel, which only its members may read.
    DirBuilder::new().mode(0o700).create(folder)?;
    let mut out = SnapshotOutput {
        folder: folder.to_owned(),
        files: BTreeMap::new(),
    };
    let config = Entry {
        value: channel.config.into(),
        validation_parameter: None,
        version: Height {
            block: channel.config_block,
            tx: 0,
        },
    };
    let (mut public, mut hashed): (
        BTreeMap<String, NamespaceKeys<'_>>,
        BTreeMap<String, NamespaceKeys<'_>>,
    ) = Default::default();
    public
        .entry(String::new())
        .or_default()
        .insert(CONFIG_KEY, &config);
    for (namespace, collection, key, entry) in channel.state.all_in_memory() {
        let (all, name) = match collection {
            "" => (&mut public, namespace.to_owned()),
            _ => (&mut hashed, format!("{namespace}{COLLECTION_JOINER}{collection}")),
        };
        all.entry(name).or_default().insert(key, entry);
    }
    out.state(PUBLIC_STATE, &public)?;
    if !hashed.is_empty() {
        out.state(PRIVATE_STATE, &hashed)?;
    }
    out.ids(channel.ids)?;
    let mut head = SnapshotHead {
        channel: channel.name.to_owned(),
        last: channel.last,
        last_hash: channel.last_hash,
        previous_hash: channel.previous_hash,
        commit_hash: channel.commit_hash,
        hash: [0; 32],
        files: std::mem::take(&mut out.files),
    };
    let (signable, additional) = head.to_json_files();
    head.hash = Sha256::digest(&signable).into();
    for (name, text) in [(SIGNABLE, signable), (ADDITIONAL, additional)] {
        let mut file = File::create_new(folder.join(name))?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
    }
    File::open(folder)?.sync_all()?;
    Ok(head)
}

struct SnapshotOutput {
    folder: PathBuf,
    files: BTreeMap<String, [u8; 32]>,
}

struct Hashing {
    to: BufWriter<File>,
    hasher: Sha256,
}

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.hasher.update(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn put_prefixed(out: &mut Vec<u8>, bytes: &[u8]) {
    wire::put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn record(key: &[u8], entry: &Entry) -> Vec<u8> {
    let mut metadata = Vec::new();
    if let Some(parameter) = &entry.validation_parameter {
        let mut written = Vec::new();
        wire::put_bytes(&mut written, 1, VALIDATION_PARAMETER.as_bytes());
        if !parameter.is_empty() {
            wire::put_bytes(&mut written, 2, parameter);
        }
        wire::put_bytes(&mut metadata, 2, &written);
    }
    let mut version = Vec::new();
    put_order_preserving(&mut version, entry.version.block);
    put_order_preserving(&mut version, entry.version.tx);
    let mut record = Vec::new();
    for (number, bytes) in [(1, key), (2, &*entry.value), (3, &metadata), (4, &version)] {
        if !bytes.is_empty() {
            wire::put_bytes(&mut record, number, bytes);
        }
    }
    record
}

impl SnapshotOutput {
    fn file(&mut self, name: &str, fill: impl FnOnce(&mut Hashing) -> io::Result<()>) -> io::Result<()> {
        let path = self.folder.join(name);
        let mut out = Hashing {
            to: BufWriter::new(File::create_new(&path)?),
            hasher: Sha256::new(),
        };
        out.write_all(&[FORMAT])?;
        if let Err(error) = fill(&mut out).and_then(|()| out.flush()) {
            // The caller removes the remaining files with the folder.
            let _ = remove_file(&path);
            return Err(error);
        }
        out.to.get_ref().sync_all()?;
        self.files.insert(name.to_owned(), out.hasher.finalize().into());
        Ok(())
    }

    fn state(&mut self, name: &str, sections: &BTreeMap<String, NamespaceKeys<'_>>) -> io::Result<()> {
        self.file(name, |out| {
            let mut prefixed = Vec::new();
            for (key, entry) in sections.values().flatten() {
                prefixed.clear();
                put_prefixed(&mut prefixed, &record(key, entry));
                out.write_all(&prefixed)?;
            }
            Ok(())
        })?;
        // A peer does not list a namespace without keys.
        let counted = sections.iter().filter(|(_, keys)| !keys.is_empty());
        let mut counts = Vec::new();
        wire::put_varint(&mut counts, counted.clone().count() as u64);
        for (namespace, keys) in counted {
            put_prefixed(&mut counts, namespace.as_bytes());
            wire::put_varint(&mut counts, keys.len() as u64);
        }
        self.file(&counts_of(name), |out| out.write_all(&counts))
    }

    fn ids(&mut self, ids: &mut dyn Iterator<Item = TxId>) -> io::Result<()> {
        let text = |id| match id {
            TxId::Hash(digest) => hex(&digest).into_bytes().into(),
            TxId::Other(text) => text,
        };
        let mut all: Vec<Box<[u8]>> = ids.map(text).collect();
        // A peer writes ids in the order of the keys in its index, which is by length first.
        all.sort_unstable_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
        self.file(IDS, |out| {
            for id in &all {
                let mut prefixed = Vec::new();
                put_prefixed(&mut prefixed, id);
                out.write_all(&prefixed)?;
            }
            Ok(())
        })?;
        let mut count = Vec::new();
        wire::put_varint(&mut count, all.len() as u64);
        self.file(&counts_of(IDS), |out| out.write_all(&count))
    }
}
