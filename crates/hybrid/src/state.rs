//! The state that decides the outcome of requests: versions, nonces, membership, votes. An authenticated map over it
//! gives the state root.

mod entries;
#[cfg(test)]
mod tests;

use crate::map::{Change as Leaf, Tree};
use crate::membership::{Entry, Membership};
use lineside_messages::hybrid::answer::SharedKey;
use lineside_messages::hybrid::block::Hash;
use lineside_messages::hybrid::change::Change;
use lineside_messages::hybrid::codec::Output;
use lineside_messages::hybrid::map_proof::Proof;
use lineside_messages::hybrid::paper::read_cell;
use lineside_messages::hybrid::proof::value_place;
use lineside_messages::hybrid::request::{MemberId, Nonce, Version};
use lineside_verify::hash::keccak256_batch;
use lineside_wire::{HYBRID_VOTES_OPEN_MAX, HYBRID_VOTES_PER_ADMIN_MAX};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

pub(crate) use entries::{CONTENT_BYTES_MAX, Gathering, PLACE_BYTES_MAX, RestoredEntry};

/// Effect of a committed write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteEffect {
    /// The key.
    pub key: SharedKey,
    /// Version of the write.
    pub version: Version,
    /// New value; `None`: the key was deleted.
    pub value: Option<Arc<[u8]>>,
}

/// Votes for a change: the time until which they count, and the admins who have voted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Votes {
    pub until_ms: u64,
    pub admins: BTreeSet<MemberId>,
}

/// Reason why a vote does not count.
pub(crate) enum VoteError {
    TooMany,
}

/// The state that decides the outcome of requests.
pub struct State {
    versions: HashMap<SharedKey, LastWrite>,
    nonces: HashMap<(MemberId, u16), LastNonce>,
    votes: BTreeMap<Hash, Votes>,
    node_sequences: HashMap<u32, u64>,
    /// In the paper's mode, the version of each key; the cells begin with the same versions.
    paper_versions: HashMap<SharedKey, u64>,
    membership: Membership,
    tree: Tree,
    touched: BlockChanges,
}

/// The last write of a key that has a value.
#[derive(Clone, Copy)]
struct LastWrite {
    version: Version,
    /// Index in [`BlockChanges::last_writes`], if the write belongs to the current block.
    touched: u32,
}

/// The last nonce that was used in a lane (a series of nonces of one member).
#[derive(Clone, Copy)]
struct LastNonce {
    counter: u64,
    /// True if [`BlockChanges::lanes`] already contains the lane.
    touched: bool,
}

/// Changes of the current block. At the end of the block they are put into the authenticated map.
#[derive(Default)]
struct BlockChanges {
    writes: Vec<WriteEffect>,
    /// Indices in `writes` of each key's last write. A key that was deleted and written again has several indices; the
    /// map then takes the last one.
    last_writes: Vec<usize>,
    lanes: Vec<(MemberId, u16)>,
    entries: HashSet<Entry>,
    votes: HashSet<Hash>,
}

impl State {
    /// Creates an empty state.
    pub(crate) fn new() -> State {
        State {
            versions: HashMap::new(),
            nonces: HashMap::new(),
            votes: BTreeMap::new(),
            node_sequences: HashMap::new(),
            paper_versions: HashMap::new(),
            membership: Membership::default(),
            tree: Tree::new(),
            touched: BlockChanges::default(),
        }
    }

    /// Creates an empty state in the paper's mode.
    pub(crate) fn of_paper() -> State {
        State {
            membership: Membership::of_paper(),
            ..State::new()
        }
    }

    /// Returns the version of a key in the paper's mode; 0 if the key has none.
    pub(crate) fn paper_version(&self, key: &[u8]) -> u64 {
        self.paper_versions.get(key).copied().unwrap_or(0)
    }

    /// Returns the membership.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Returns the number of keys that have a value.
    pub fn keys(&self) -> usize {
        self.versions.len()
    }

    /// Returns the version of a key; [`Version::ABSENT`] if the key has no value.
    pub fn version(&self, key: &[u8]) -> Version {
        self.versions
            .get(key)
            .map_or(Version::ABSENT, |last| last.version)
    }

    /// Returns the root hash over the whole state at the end of the last block.
    pub fn root(&self) -> Hash {
        self.tree.root()
    }

    /// Proves the value of a key, or its absence, under the root.
    pub fn prove(&self, key: &[u8]) -> Proof {
        self.tree.prove(&value_place(key))
    }

    /// If the nonce is above the last one of its lane, stores it and returns true.
    pub(crate) fn take_nonce(&mut self, member: MemberId, nonce: Nonce) -> bool {
        let lane = (member, nonce.lane);
        let used = LastNonce {
            counter: nonce.counter,
            touched: true,
        };
        let before = match self.nonces.get_mut(&lane) {
            Some(last) if last.counter >= nonce.counter => return false,
            Some(last) => Some(std::mem::replace(last, used)),
            None => self.nonces.insert(lane, used),
        };
        if !before.is_some_and(|before| before.touched) {
            self.touched.lanes.push(lane);
        }
        true
    }

    /// Returns the last nonce of a lane, if there was one.
    pub fn last_nonce(&self, member: MemberId, lane: u16) -> Option<u64> {
        self.nonces.get(&(member, lane)).map(|last| last.counter)
    }

    /// If the sequence number is above the node's last one, stores it and returns true.
    pub(crate) fn take_sequence(&mut self, node: u32, sequence: u64) -> bool {
        if self
            .node_sequences
            .get(&node)
            .is_some_and(|last| *last >= sequence)
        {
            return false;
        }
        self.node_sequences.insert(node, sequence);
        self.touched.entries.insert(Entry::Node(node));
        true
    }

    /// Returns the last sequence number of a node; 0 if it has sent no message.
    pub fn last_sequence(&self, node: u32) -> u64 {
        self.node_sequences.get(&node).copied().unwrap_or(0)
    }

    /// Sets a key, or deletes it if `value` is `None`.
    pub(crate) fn write(&mut self, key: &[u8], version: Version, value: Option<&[u8]>) {
        let value: Option<Arc<[u8]>> = value.map(Arc::from);
        let existing = self.versions.get_key_value(key);
        let touched = existing.and_then(|(_, last)| last.in_block(version.block));
        let key = existing.map_or_else(|| SharedKey::from(key), |(key, _)| key.clone());
        if let (true, Some(cell)) = (self.membership.is_paper(), &value) {
            self.paper_versions.insert(key.clone(), read_cell(cell).0);
        }
        let BlockChanges {
            writes, last_writes, ..
        } = &mut self.touched;
        let index = touched.unwrap_or(last_writes.len());
        match last_writes.get_mut(index) {
            Some(last) => *last = writes.len(),
            None => last_writes.push(writes.len()),
        }
        match value {
            Some(_) => {
                let touched = index as u32;
                self.versions.insert(key.clone(), LastWrite { version, touched });
            }
            None => {
                self.versions.remove(&key);
            }
        }
        writes.push(WriteEffect { key, version, value });
    }

    /// Makes a change of the membership.
    pub(crate) fn apply(&mut self, change: &Change<'_>) -> Result<(), crate::membership::ChangeError> {
        let entry = self.membership.apply(change)?;
        self.touched.entries.insert(entry);
        Ok(())
    }

    /// Counts a vote. Returns true if the change now has enough votes; the vote is then closed.
    pub(crate) fn vote(
        &mut self,
        name: Hash,
        until_ms: u64,
        admin: MemberId,
        now_ms: u64,
    ) -> Result<bool, VoteError> {
        let is_admin = |admin: &MemberId| self.membership.is_admin(*admin);
        let over: Vec<Hash> = self
            .votes
            .iter()
            .filter(|(_, votes)| votes.until_ms < now_ms || !votes.admins.iter().any(is_admin))
            .map(|(name, _)| *name)
            .collect();
        for name in over {
            self.votes.remove(&name);
            self.touched.votes.insert(name);
        }
        // Limits open votes, so that neither a single admin nor revoked admins can use up the maximum number.
        let own = self.votes.values().filter(|votes| votes.admins.contains(&admin));
        let is_new = !self.votes.contains_key(&name);
        if is_new && (self.votes.len() >= HYBRID_VOTES_OPEN_MAX || own.count() >= HYBRID_VOTES_PER_ADMIN_MAX)
        {
            return Err(VoteError::TooMany);
        }
        let votes = self.votes.entry(name).or_default();
        votes.until_ms = until_ms;
        votes.admins.insert(admin);
        self.touched.votes.insert(name);
        let counting = votes
            .admins
            .iter()
            .filter(|admin| self.membership.is_admin(**admin));
        Ok(counting.count() >= self.membership.quorum())
    }

    /// Closes a vote.
    pub(crate) fn end_vote(&mut self, name: &Hash) {
        self.votes.remove(name);
        self.touched.votes.insert(*name);
    }

    /// Ends a block: puts its changes into the authenticated map. Returns the new root, and the block's writes in
    /// order.
    pub(crate) fn end_block(&mut self) -> (Hash, Vec<WriteEffect>) {
        let touched = std::mem::take(&mut self.touched);
        let mut leaves = Leaves::default();
        for write_index in &touched.last_writes {
            let WriteEffect { key, version, value } = &touched.writes[*write_index];
            leaves.place(&[b"v", key]);
            match value {
                Some(value) => {
                    let (block, index) = (version.block.to_be_bytes(), version.index.to_be_bytes());
                    leaves.content(&[&block, &index, value]);
                }
                None => leaves.gone(),
            }
        }
        for (member, lane) in &touched.lanes {
            leaves.place(&[b"n", &member.to_be_bytes(), &lane.to_be_bytes()]);
            match self.nonces.get_mut(&(*member, *lane)) {
                Some(last) => {
                    last.touched = false;
                    leaves.content(&[&last.counter.to_be_bytes()]);
                }
                None => leaves.gone(),
            }
        }
        let mut path = Vec::new();
        for entry in &touched.entries {
            path.clear();
            entry.write_path(&mut path);
            leaves.place(&[&path]);
            match self.membership.content(entry, |node| self.last_sequence(node)) {
                Some(content) => leaves.content(&[&content]),
                None => leaves.gone(),
            }
        }
        for name in &touched.votes {
            leaves.place(&[b"a", name]);
            match self.votes.get(name) {
                Some(votes) => leaves.content(&[&votes.content()]),
                None => leaves.gone(),
            }
        }
        self.tree.update(&mut leaves.hashed());
        (self.tree.root(), touched.writes)
    }
}

impl LastWrite {
    /// Returns the index of the write in [`BlockChanges::last_writes`], if the write belongs to this block.
    fn in_block(&self, block: u64) -> Option<usize> {
        (self.version.block == block).then_some(self.touched as usize)
    }
}

/// Places and contents to put into the authenticated map. All of them are hashed together at the end, eight at a time.
#[derive(Default)]
struct Leaves {
    bytes: Vec<u8>,
    /// Offsets in `bytes` at which each place or content ends.
    ends: Vec<usize>,
    /// For each leaf, the indices in `ends` of its place and of its content; no content if the leaf is removed.
    leaves: Vec<(usize, Option<usize>)>,
}

impl Leaves {
    fn message(&mut self, parts: &[&[u8]]) -> usize {
        parts.iter().for_each(|part| self.bytes.put(part));
        self.ends.push(self.bytes.len());
        self.ends.len() - 1
    }

    fn place(&mut self, parts: &[&[u8]]) {
        let place = self.message(parts);
        self.leaves.push((place, None));
    }

    /// Sets the content of the place that was added last.
    fn content(&mut self, parts: &[&[u8]]) {
        let content = self.message(parts);
        if let Some(last) = self.leaves.last_mut() {
            last.1 = Some(content);
        }
    }

    /// Gives no content to the place that was added last, so that its leaf is removed from the map.
    fn gone(&mut self) {}

    fn hashed(&self) -> Vec<Leaf> {
        let mut begin = 0;
        let messages: Vec<&[u8]> = self
            .ends
            .iter()
            .map(|end| &self.bytes[std::mem::replace(&mut begin, *end)..*end])
            .collect();
        let mut hashes = vec![[0; 32]; messages.len()];
        keccak256_batch(&messages, &mut hashes);
        let leaf = |(place, content): &(usize, Option<usize>)| Leaf {
            key: hashes[*place],
            value: content.map(|content| hashes[content]),
        };
        self.leaves.iter().map(leaf).collect()
    }
}
