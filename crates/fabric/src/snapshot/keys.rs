//! Reader of a snapshot's content: keys of the state, hashed keys of collections, and transaction ids.

use super::data::Data;
use super::files::Files;
use super::head::SnapshotHead;
use super::{
    COLLECTION_JOINER, CONFIG_KEY, HISTORY, IDS, PRIVATE_STATE, PUBLIC_STATE, SnapshotError, counts_of,
};
use crate::mvcc::VALIDATION_PARAMETER;
use crate::proto::{self, Arena, KvMetadataWrite, SnapshotRecord};
use crate::state::{Entry, Height, TxId};
use std::collections::BTreeSet;

/// Receiver of a snapshot's content, in the order of its files.
pub trait Contents {
    /// Takes the channel's configuration, a `ConfigEnvelope`, and the position at which it was set. The reader calls
    /// this method before the other methods.
    ///
    /// # Errors
    /// The reason why the content is refused.
    fn config(&mut self, envelope: &[u8], version: Height) -> Result<ReadMore, String>;

    /// Takes a key: namespace, collection (empty for a public key), and entry. The keys of one collection are
    /// consecutive and in ascending order.
    ///
    /// # Errors
    /// The reason why the content is refused.
    fn key(&mut self, namespace: &str, collection: &str, key: &[u8], entry: Entry) -> Result<(), String>;

    /// Takes the id of a transaction.
    ///
    /// # Errors
    /// The reason why the content is refused.
    fn id(&mut self, id: TxId) -> Result<(), String>;
}

/// Decision of a [`Contents`] whether the reader continues after the channel's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMore {
    /// The reader continues to the end of the snapshot and checks all hashes.
    More,
    /// The reader stops here.
    Enough,
}

/// Reads a snapshot into `contents` and checks every byte.
///
/// # Errors
/// The error names the first file that is damaged or whose content `contents` refuses.
pub fn read(
    files: &mut impl Files,
    head: &SnapshotHead,
    contents: &mut impl Contents,
) -> Result<(), SnapshotError> {
    let counts = counts(files, head, PUBLIC_STATE)?;
    if state(files, head, PUBLIC_STATE, counts, contents)? == ReadMore::Enough {
        return Ok(());
    }
    if has(head, PRIVATE_STATE) {
        let counts = self::counts(files, head, PRIVATE_STATE)?;
        state(files, head, PRIVATE_STATE, counts, contents)?;
    }
    if has(head, IDS) {
        ids(files, head, contents)?;
    }
    if has(head, HISTORY) {
        history(files, head)?;
    }
    Ok(())
}

/// Returns whether the snapshot has a data file or its file of counts. If it has only one of them, opening the other
/// fails.
fn has(head: &SnapshotHead, data: &str) -> bool {
    head.files.contains_key(data) || head.files.contains_key(&counts_of(data))
}

/// Reads the number of keys of each namespace.
fn counts(
    files: &mut impl Files,
    head: &SnapshotHead,
    of: &str,
) -> Result<Vec<(String, u64)>, SnapshotError> {
    let mut data = Data::open(files, head, &counts_of(of))?;
    let (mut counts, mut names) = (Vec::new(), BTreeSet::new());
    for _ in 0..data.number()? {
        let name = data.text()?;
        let count = data.number()?;
        if !names.insert(name.clone()) {
            return Err(data.wrong(format!("the namespace {name} occurs twice")));
        }
        counts.push((name, count));
    }
    data.end()?;
    Ok(counts)
}

fn state(
    files: &mut impl Files,
    head: &SnapshotHead,
    name: &str,
    counts: Vec<(String, u64)>,
    contents: &mut impl Contents,
) -> Result<ReadMore, SnapshotError> {
    let mut data = Data::open(files, head, name)?;
    let (mut record, mut has_config) = (Vec::new(), false);
    for (namespace, count) in counts {
        let (chaincode, collection) = match (name, namespace.split_once(COLLECTION_JOINER)) {
            (PRIVATE_STATE, Some((chaincode, collection))) if !collection.is_empty() => {
                (chaincode, collection)
            }
            (PUBLIC_STATE, None) => (namespace.as_str(), ""),
            _ => return Err(data.wrong(format!("the namespace {namespace} does not belong in this file"))),
        };
        let mut before: Option<Vec<u8>> = None;
        for _ in 0..count {
            data.bytes(&mut record)?;
            let (key, entry) = entry(&record).map_err(|what| data.wrong(format!("{namespace}: {what}")))?;
            if before.as_ref().is_some_and(|before| *before >= key) {
                return Err(data.wrong(format!("the keys of {namespace} are not in order")));
            }
            let accepted = match (chaincode, key.as_slice()) {
                ("", CONFIG_KEY) => {
                    has_config = true;
                    contents.config(&entry.value, entry.version)
                }
                ("", _) => Err("a key of the channel is unknown".to_owned()),
                _ => contents
                    .key(chaincode, collection, &key, entry)
                    .map(|()| ReadMore::More),
            };
            if accepted.map_err(|what| data.wrong(what))? == ReadMore::Enough {
                return Ok(ReadMore::Enough);
            }
            before = Some(key);
        }
    }
    if name == PUBLIC_STATE && !has_config {
        return Err(data.wrong("the file does not contain the channel's configuration"));
    }
    data.end()?;
    Ok(ReadMore::More)
}

/// Decodes a record into a key and its entry.
fn entry(record: &[u8]) -> Result<(Vec<u8>, Entry), String> {
    let arena = Arena::new();
    let record: SnapshotRecord<'_> = proto::decode(record, &arena).map_err(|error| error.to_string())?;
    let metadata: KvMetadataWrite<'_> =
        proto::decode(record.metadata, &arena).map_err(|error| format!("the metadata of a key: {error}"))?;
    let parameter = metadata
        .entries
        .iter()
        .rev()
        .find(|entry| entry.name == VALIDATION_PARAMETER);
    let version = height(record.version)
        .ok_or("the version of a key is not a block number and a transaction number")?;
    let entry = Entry {
        value: record.value.into(),
        validation_parameter: parameter.map(|parameter| parameter.value.into()),
        version,
    };
    Ok((record.key.to_vec(), entry))
}

/// Decodes block and transaction numbers, each as a byte count and the bytes in big-endian order.
fn height(mut bytes: &[u8]) -> Option<Height> {
    let mut number = || {
        let (length, rest) = bytes.split_first()?;
        let (digits, rest) = rest.split_at_checked(usize::from(*length))?;
        bytes = rest;
        if digits.len() > 8 || digits.first() == Some(&0) {
            return None;
        }
        Some(
            digits
                .iter()
                .fold(0, |number, digit| number << 8 | u64::from(*digit)),
        )
    };
    let (block, tx) = (number()?, number()?);
    bytes.is_empty().then_some(Height { block, tx })
}

fn ids(
    files: &mut impl Files,
    head: &SnapshotHead,
    contents: &mut impl Contents,
) -> Result<(), SnapshotError> {
    let mut data = Data::open(files, head, &counts_of(IDS))?;
    let count = data.number()?;
    data.end()?;
    let mut data = Data::open(files, head, IDS)?;
    for _ in 0..count {
        let id = TxId::new(&data.text()?);
        contents.id(id).map_err(|what| data.wrong(what))?;
    }
    data.end()
}

/// Reads and checks the definitions of collections. The current definitions are also in the state; their history is not
/// stored.
fn history(files: &mut impl Files, head: &SnapshotHead) -> Result<(), SnapshotError> {
    let mut data = Data::open(files, head, &counts_of(HISTORY))?;
    let count = data.number()?;
    data.end()?;
    let mut data = Data::open(files, head, HISTORY)?;
    let mut entry = Vec::new();
    for _ in 0..count {
        // The first entry is the key, which includes the block number; the second entry is the definition.
        data.bytes(&mut entry)?;
        data.bytes(&mut entry)?;
    }
    data.end()
}
