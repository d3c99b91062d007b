//! Listings of a peer's state: `state/NNNNN.json` of a recorded set is the state of a peer after block NNNNN.
//!
//! A listing contains the hashed private state of all chaincodes, and the public state of all except `_lifecycle`.

use crate::lifecycle::LIFECYCLE;
use crate::mvcc::VALIDATION_PARAMETER;
use crate::proto::wire;
use crate::replay::{ReplayError, hex};
use crate::state::{Entry, State};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// Namespace, collection (empty for a public key), and the key in hex.
type KeyName = (String, String, String);

/// Entry of a key in a peer's state.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ListedEntry {
    /// The value in hex; for a collection, its hash.
    value: String,
    version: (u64, u64),
    /// The metadata as a peer encodes it, in hex; empty if there is none.
    metadata: String,
}

impl fmt::Display for ListedEntry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            value,
            version: (block, tx),
            metadata,
        } = self;
        write!(
            out,
            "value {value} of block {block}, transaction {tx}, metadata {metadata:?}"
        )
    }
}

impl From<&Entry> for ListedEntry {
    fn from(entry: &Entry) -> Self {
        let mut metadata = Vec::new();
        if let Some(parameter) = &entry.validation_parameter {
            let mut item = Vec::new();
            wire::put_bytes(&mut item, 1, VALIDATION_PARAMETER.as_bytes());
            wire::put_bytes(&mut item, 2, parameter);
            wire::put_bytes(&mut metadata, 2, &item);
        }
        Self {
            value: hex(&entry.value),
            version: (entry.version.block, entry.version.tx),
            metadata: hex(&metadata),
        }
    }
}

#[derive(Deserialize)]
struct File {
    last_block: u64,
    hashed_private_state: Vec<PrivateEntry>,
    public_state: Option<Vec<PublicEntry>>,
}

#[derive(Deserialize)]
struct PrivateEntry {
    chaincode: String,
    collection: String,
    key_hash: String,
    value_hash: String,
    block: u64,
    tx: u64,
    #[serde(default)]
    metadata: String,
}

#[derive(Deserialize)]
struct PublicEntry {
    namespace: String,
    key: String,
    value: String,
    block: u64,
    tx: u64,
    #[serde(default)]
    metadata: String,
}

/// A peer's state after a block.
#[derive(Debug)]
pub struct Listing {
    keys: BTreeMap<KeyName, ListedEntry>,
    /// True if the listing includes keys of the public state.
    has_public: bool,
}

impl Listing {
    /// Reads the listing of the state after block `number` of a recorded set; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be read, or is not a valid listing.
    pub fn read(directory: &Path, number: u64) -> Result<Option<Self>, ReplayError> {
        let path = directory.join(format!("state/{number:05}.json"));
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(ReplayError::Io { path, source }),
        };
        let file = serde_json::from_slice::<File>(&text).map_err(|error| error.to_string());
        let file = file.and_then(|file| match file.last_block == number {
            true => Ok(file),
            false => Err(format!(
                "the file contains the state after block {}, not after the block in the file's name",
                file.last_block
            )),
        });
        let file = file.map_err(|what| ReplayError::Manifest { path, what })?;
        let has_public = file.public_state.is_some();
        let public = file.public_state.into_iter().flatten().map(|of| {
            let listed = ListedEntry {
                value: of.value,
                version: (of.block, of.tx),
                metadata: of.metadata,
            };
            ((of.namespace, String::new(), hex(of.key.as_bytes())), listed)
        });
        let hashed = file.hashed_private_state.into_iter().map(|of| {
            let listed = ListedEntry {
                value: of.value_hash,
                version: (of.block, of.tx),
                metadata: of.metadata,
            };
            ((of.chaincode, of.collection, of.key_hash), listed)
        });
        Ok(Some(Self {
            keys: hashed.chain(public).collect(),
            has_public,
        }))
    }

    /// Returns the number of keys in the listing.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns whether the listing has no keys.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the differences between a state and the listing; none if keys, values, versions and metadata are equal.
    pub fn differences(&self, state: &State) -> Vec<String> {
        let mut in_state = BTreeMap::new();
        state.each(&mut |namespace, collection, key, entry| {
            if collection.is_empty() && (!self.has_public || namespace == LIFECYCLE) {
                return;
            }
            let location = (namespace.to_owned(), collection.to_owned(), hex(key));
            in_state.insert(location, ListedEntry::from(entry));
        });
        let mut differences: Vec<String> = state.check().err().into_iter().collect();
        let show = |(namespace, collection, key): &KeyName| format!("{namespace} {collection} {key}");
        for (location, listed) in &self.keys {
            match in_state.remove(location) {
                None => differences.push(format!(
                    "{}: this program's state lacks the key, the peer has {listed}",
                    show(location)
                )),
                Some(ours) if ours != *listed => {
                    differences.push(format!(
                        "{}: this program has {ours}, the peer has {listed}",
                        show(location)
                    ));
                }
                Some(_) => {}
            }
        }
        differences.extend(in_state.iter().map(|(place, ours)| {
            format!(
                "{}: this program has {ours}, the peer does not have the key",
                show(place)
            )
        }));
        differences
    }
}
