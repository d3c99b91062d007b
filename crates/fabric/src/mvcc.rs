//! Multi-version concurrency control (MVCC): checks that each transaction read current versions, collects the writes of
//! valid transactions, and computes the commit hash.

use crate::code::TxCode;
use crate::entries::{Lookup, NsEntries, TxEntries};
use crate::merkle;
use crate::proto::{KvMetadataEntry, KvRead, RangeQueryInfo, wire};
use crate::rules::{Rule, Rules};
use crate::rwset::{Collection, NsRwSet, height};
use crate::state::{Height, State, Update, Updates, range};
use hashbrown::{DefaultHashBuilder, HashSet};
use lineside_verify::hash::sha256;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::hash::BuildHasher;
use std::sync::Arc;

/// Name of the only metadata entry that the state keeps.
pub const VALIDATION_PARAMETER: &str = "VALIDATION_PARAMETER";

/// Checks reads against the state and the earlier writes of the block, and collects the block's writes.
pub(crate) struct MvccChecker<'s> {
    pub state: &'s State,
    pub updates: Updates,
    /// Hashes of the keys in `updates`. Most keys that a transaction reads or writes were not written earlier in the
    /// block. For such a key, a missing hash shows this without comparing keys.
    keys: HashSet<u64>,
    hasher: DefaultHashBuilder,
    rules: Rules,
}

impl<'s> MvccChecker<'s> {
    /// Returns a checker without updates.
    pub fn new(state: &'s State, rules: Rules) -> Self {
        Self {
            state,
            updates: Updates::default(),
            keys: HashSet::new(),
            hasher: DefaultHashBuilder::default(),
            rules,
        }
    }

    /// Returns the change of a key by earlier transactions of the block.
    fn written(&self, namespace: &str, collection: &str, key: &[u8]) -> Option<&Update> {
        let is_maybe = self.keys.contains(&self.hasher.hash_one(key));
        is_maybe.then(|| self.updates.get(namespace, collection, key))?
    }

    /// Returns the code of an endorsed transaction; an error if a peer would crash or halt on it. `entries` are the
    /// lookups of the transaction's keys in the public state.
    pub fn check(&self, rwset: &[NsRwSet<'_>], entries: TxEntries<'_, 's>) -> Result<TxCode, &'static str> {
        for (of, entries) in entries.by_namespace(rwset) {
            if of.namespace.is_empty() && !(of.public.reads.is_empty() && of.public.range_queries.is_empty())
            {
                // A peer stores the channel's configuration in the namespace "" of its state; this program does not, so
                // it cannot check such a read.
                return Err("it reads the namespace \"\", where peers keep the channel's configuration");
            }
            for (index, read) in of.public.reads.iter().enumerate() {
                if !self.read_holds(of.namespace, read, entries.read(index)) {
                    return Ok(TxCode::MvccReadConflict);
                }
            }
            for query in &of.public.range_queries {
                if !self.range_holds(of.namespace, query)? {
                    return Ok(TxCode::PhantomReadConflict);
                }
            }
            for collection in &of.collections {
                if !self.hashed_hold(of.namespace, collection) {
                    return Ok(TxCode::MvccReadConflict);
                }
            }
        }
        Ok(TxCode::Valid)
    }

    fn holds(
        &self,
        (namespace, collection, key): KeyName<'_>,
        lookup: Lookup<'s>,
        read: Option<Height>,
    ) -> bool {
        let in_block = self.written(namespace, collection, key).is_some();
        if in_block && self.rules.hold(Rule::ReadsInBlock) {
            return false;
        }
        let committed = lookup.entry(self.state, namespace, collection, key);
        committed.map(|entry| entry.version) == read
    }

    fn read_holds(&self, namespace: &str, read: &KvRead<'_>, lookup: Lookup<'s>) -> bool {
        let key = (namespace, "", read.key.as_bytes());
        self.holds(key, lookup, height(&read.version)) || !self.rules.hold(Rule::ReadVersions)
    }

    fn hashed_hold(&self, namespace: &str, collection: &Collection<'_>) -> bool {
        let mut reads = collection.hashed.reads.iter();
        let all = reads.all(|read| {
            let key = (namespace, collection.name, read.key_hash);
            self.holds(key, Lookup::Pending, height(&read.version))
        });
        all || !self.rules.hold(Rule::HashedReads)
    }

    fn range_holds(&self, namespace: &str, query: &RangeQueryInfo<'_>) -> Result<bool, &'static str> {
        let results = self.results(namespace, query);
        if let Some(summary) = &query.merkle {
            if summary.max_degree < 2 {
                return Err("the Merkle summary of a range query has degree 0 or 1");
            }
            let results = results.iter().map(|(key, version)| (&**key, *version));
            let matches = merkle::matches(summary, results);
            return Ok(matches || !self.rules.hold(Rule::RangeMerkle));
        }
        let reads = query.raw_reads.as_ref().map(|raw| raw.reads.as_slice());
        let reads = reads.unwrap_or_default();
        for (read, (key, version)) in reads.iter().zip(&results) {
            if read.key.as_bytes() != &**key {
                return Ok(!self.rules.hold(Rule::RangeRaw));
            }
            // Some versions of the peer dereference this version without checking that it is present.
            let read = height(&read.version).ok_or("a read of a range query has no version")?;
            if read != *version {
                return Ok(!self.rules.hold(Rule::RangeRaw));
            }
        }
        Ok(reads.len() == results.len() || !self.rules.hold(Rule::RangeRaw))
    }

    /// Returns the current keys in a range and their versions, after the writes that earlier transactions of the block
    /// made.
    fn results<'a>(&'a self, namespace: &str, query: &'a RangeQueryInfo<'_>) -> Vec<(Cow<'a, [u8]>, Height)> {
        let (start, end) = (query.start_key.as_bytes(), query.end_key.as_bytes());
        let committed = self.state.range(namespace, start, end);
        let mut committed = committed.map(|(key, entry)| (key, entry.version)).peekable();
        let space = self.updates.namespaces.get(namespace);
        let space = space.filter(|_| self.rules.hold(Rule::RangeInBlock));
        let updates = space
            .into_iter()
            .flat_map(|space| range(&space.public, start, end));
        let mut results = Vec::new();
        for (key, update) in updates {
            while let Some(earlier) = committed.next_if(|(other, _)| **other < **key) {
                results.push(earlier);
            }
            committed.next_if(|(other, _)| **other == **key);
            if update.value.is_some() {
                results.push((Cow::Borrowed(&**key), update.version));
            }
        }
        results.extend(committed);
        if !query.itr_exhausted {
            let update = space.and_then(|space| space.public.get(end));
            let last = match update {
                Some(update) => update.value.as_ref().map(|_| update.version),
                None => self.state.get(namespace, "", end).map(|entry| entry.version),
            };
            results.extend(last.map(|version| (Cow::Borrowed(end), version)));
        }
        results
    }

    /// Adds the writes of a valid transaction. `entries` are the lookups of the transaction's keys in the public state.
    pub fn apply(&mut self, rwset: &[NsRwSet<'_>], entries: TxEntries<'_, 's>, version: Height) {
        let mut operations = Operations::default();
        for (of, entries) in entries.by_namespace(rwset) {
            operations.add(of, entries, self.rules);
        }
        for (name, operation) in operations.by_key() {
            let (namespace, collection, key) = name;
            let value = if operation.flags & KEY_DELETE != 0 {
                None
            } else if operation.flags & UPSERT != 0
                && operation.flags & (METADATA_UPDATE | METADATA_DELETE) != 0
            {
                Some((value_of(&operation), operation.metadata.map(Arc::from)))
            } else if operation.flags & !UPSERT == 0 {
                let metadata = self.latest(name, operation.lookup, |_, metadata| metadata.cloned());
                Some((value_of(&operation), metadata.flatten()))
            } else {
                // Only the metadata changes: an existing value stays the same and gets the version of this transaction.
                match self.latest(name, operation.lookup, |value, _| value.clone()) {
                    Some(value) => Some((value, operation.metadata.map(Arc::from))),
                    None => continue,
                }
            };
            if operation.flags & UPSERT == 0
                && value.is_some()
                && !self.rules.hold(Rule::MetadataBumpsVersion)
            {
                continue;
            }
            self.keys.insert(self.hasher.hash_one(key));
            self.updates
                .put(namespace, collection, key, Update { value, version });
        }
    }

    /// Applies `take` to the value and metadata of a key as the block wrote them, otherwise as the state holds them.
    /// The committed value also counts for a key that the block deleted, as in the peer.
    fn latest<T>(
        &self,
        (namespace, collection, key): KeyName<'_>,
        lookup: Lookup<'s>,
        take: impl Fn(&Arc<[u8]>, Option<&Arc<[u8]>>) -> T,
    ) -> Option<T> {
        let written = self.written(namespace, collection, key);
        if let Some((value, metadata)) = written.and_then(|update| update.value.as_ref()) {
            return Some(take(value, metadata.as_ref()));
        }
        let entry = lookup.entry(self.state, namespace, collection, key)?;
        Some(take(&entry.value, entry.validation_parameter.as_ref()))
    }
}

const UPSERT: u8 = 1;
const METADATA_UPDATE: u8 = 2;
const METADATA_DELETE: u8 = 4;
const KEY_DELETE: u8 = 8;

/// Combined operations of one transaction on one key.
#[derive(Default)]
struct Operation<'a, 's> {
    /// Sum of the operations' flags, as in the peer: a key that is written twice looks like a metadata change.
    flags: u8,
    value: Option<&'a [u8]>,
    metadata: Option<&'a [u8]>,
    /// Lookup of the key; pending if the key was not looked up in advance for the block.
    lookup: Lookup<'s>,
}

/// Returns the value that an operation writes.
fn value_of(operation: &Operation<'_, '_>) -> Arc<[u8]> {
    operation.value.unwrap_or_default().into()
}

/// Namespace, collection (empty: public) and key.
type KeyName<'a> = (&'a str, &'a str, &'a [u8]);

/// Writes of one transaction, in its order.
#[derive(Default)]
struct Operations<'a, 's>(SmallVec<[(KeyName<'a>, Operation<'a, 's>); 4]>);

impl<'a, 's> Operations<'a, 's> {
    /// Sums the operations of each key.
    fn by_key(mut self) -> impl Iterator<Item = (KeyName<'a>, Operation<'a, 's>)> {
        // The sort is stable, so the last of several values for one key comes last and is used.
        self.0.sort_by_key(|(place, _)| *place);
        self.0.dedup_by(|(place, later), (kept, sum)| {
            let is_same = place == kept;
            if is_same {
                sum.flags = sum.flags.wrapping_add(later.flags);
                sum.value = later.value.or(sum.value);
                if later.flags & METADATA_UPDATE != 0 {
                    sum.metadata = later.metadata;
                }
                if matches!(sum.lookup, Lookup::Pending) {
                    sum.lookup = later.lookup;
                }
            }
            is_same
        });
        self.0.into_iter()
    }

    fn add(&mut self, of: &'a NsRwSet<'_>, entries: NsEntries<'_, 's>, rules: Rules) {
        for (index, write) in of.public.writes.iter().enumerate() {
            let empty = write.value.is_empty() && rules.hold(Rule::EmptyValueDeletes);
            let key = (of.namespace, "", write.key.as_bytes());
            self.write(key, entries.write(index), write.value, write.is_delete || empty);
        }
        for write in &of.public.metadata_writes {
            self.metadata(of.namespace, "", write.key.as_bytes(), &write.entries);
        }
        for collection in &of.collections {
            let name = collection.name;
            for write in &collection.hashed.writes {
                let empty = write.value_hash.is_empty() || write.value_hash == sha256(b"");
                let key = (of.namespace, name, write.key_hash);
                self.write(key, Lookup::Pending, write.value_hash, write.is_delete || empty);
            }
            for write in &collection.hashed.metadata_writes {
                self.metadata(of.namespace, name, write.key_hash, &write.entries);
            }
        }
    }

    fn write(&mut self, key: KeyName<'a>, lookup: Lookup<'s>, value: &'a [u8], delete: bool) {
        let operation = match delete {
            true => Operation {
                flags: KEY_DELETE,
                lookup,
                ..Operation::default()
            },
            false => Operation {
                flags: UPSERT,
                value: Some(value),
                metadata: None,
                lookup,
            },
        };
        self.0.push((key, operation));
    }

    fn metadata(
        &mut self,
        namespace: &'a str,
        collection: &'a str,
        key: &'a [u8],
        entries: &[KvMetadataEntry<'a>],
    ) {
        let (flags, metadata) = match entries.is_empty() {
            true => (METADATA_DELETE, None),
            false => {
                let mut parameters = entries
                    .iter()
                    .rev()
                    .filter(|entry| entry.name == VALIDATION_PARAMETER);
                (METADATA_UPDATE, parameters.next().map(|entry| entry.value))
            }
        };
        let operation = Operation {
            flags,
            value: None,
            metadata,
            lookup: Lookup::Pending,
        };
        self.0.push(((namespace, collection, key), operation));
    }
}

/// Expected size of a key and its value in the input of the commit hash, in bytes. Memory for the input is reserved by
/// this size.
const COMMIT_HASH_BYTES_A_KEY: usize = 128;

/// Returns the SHA-256 over flags, updates and previous commit hash.
pub(crate) fn commit_hash(flags: &[u8], updates: &Updates, previous: &[u8], rules: Rules) -> [u8; 32] {
    let mut bytes = Vec::with_capacity(flags.len() + COMMIT_HASH_BYTES_A_KEY * updates.len());
    wire::put_varint(&mut bytes, flags.len() as u64);
    bytes.extend_from_slice(flags);
    let (mut write, mut version) = (Vec::new(), Vec::new());
    // The namespace "" holds the channel's configuration, which the commit hash does not cover.
    for (namespace, space) in updates
        .namespaces
        .iter()
        .filter(|(namespace, _)| !namespace.is_empty())
    {
        let mut namespace = Some(namespace.as_bytes());
        let public = std::iter::once(("", &space.public));
        let collections = space.collections.iter().map(|(name, keys)| (name.as_str(), keys));
        for (collection, keys) in public.chain(collections) {
            let mut collection = Some(collection.as_bytes()).filter(|name| !name.is_empty());
            for (key, update) in keys {
                write.clear();
                for (number, once) in [(1, &mut namespace), (2, &mut collection)] {
                    if let Some(name) = once.take() {
                        wire::put_bytes(&mut write, number, name);
                    }
                }
                if !key.is_empty() {
                    wire::put_bytes(&mut write, 3, key);
                }
                match &update.value {
                    None if rules.hold(Rule::CommitHashOfDeletes) => wire::put_number(&mut write, 4, 1),
                    None => {}
                    Some((value, _)) if value.is_empty() => {}
                    Some((value, _)) => wire::put_bytes(&mut write, 5, value),
                }
                version.clear();
                put_order_preserving(&mut version, update.version.block);
                put_order_preserving(&mut version, update.version.tx);
                wire::put_bytes(&mut write, 6, &version);
                wire::put_bytes(&mut bytes, 1, &write);
            }
        }
    }
    bytes.extend_from_slice(previous);
    sha256(&bytes)
}

/// Appends the number of bytes of `number` without leading zeros (one byte), then these bytes in big-endian order.
pub(crate) fn put_order_preserving(out: &mut Vec<u8>, number: u64) {
    let bytes = number.to_be_bytes();
    let zeros = number.leading_zeros() as usize / 8;
    out.push((bytes.len() - zeros) as u8);
    out.extend_from_slice(&bytes[zeros..]);
}
