//! All that decides what becomes of a request: versions, nonces, members, rules, votes. An authenticated map over it
//! gives the state root.

mod entries;
#[cfg(test)]
mod tests;

use crate::block::Hash;
use crate::change::Change;
use crate::codec::Output;
use crate::map::{Change as Leaf, Proof, Tree};
use crate::paper::read_cell;
use crate::request::{MemberId, Nonce, Version};
use crate::roster::{Entry, Roster};
use lineside_verify::hash::{keccak256, keccak256_batch};
use lineside_wire::{HYBRID_VOTES_OPEN_MAX, HYBRID_VOTES_PER_ADMIN_MAX};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

pub(crate) use entries::{CONTENT_BYTES_MAX, Gathered, Gathering, PLACE_BYTES_MAX};

/// A key, shared by all that hold it.
pub type SharedKey = Arc<[u8]>;

/// What a committed write did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The key.
    pub key: SharedKey,
    /// The write's version.
    pub version: Version,
    /// What the key has since; `None`: nothing.
    pub value: Option<Arc<[u8]>>,
}

/// Admins who asked for a change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Votes {
    pub until_ms: u64,
    pub admins: BTreeSet<MemberId>,
}

/// Why a vote does not count.
pub(crate) enum VoteError {
    TooMany,
}

/// All that decides what becomes of a request.
pub struct State {
    versions: HashMap<SharedKey, LastWrite>,
    nonces: HashMap<(MemberId, u16), LastNonce>,
    votes: BTreeMap<Hash, Votes>,
    node_sequences: HashMap<u32, u64>,
    /// Where the mode is the paper's: the whole numbers that begin the cells.
    paper_versions: HashMap<SharedKey, u64>,
    roster: Roster,
    tree: Tree,
    touched: Touched,
}

/// The last write of a key that has a value.
#[derive(Clone, Copy)]
struct LastWrite {
    version: Version,
    /// Its place in [`Touched::last_writes`], if it is of the block at hand.
    touched: u32,
}

/// The last nonce of a lane.
#[derive(Clone, Copy)]
struct LastNonce {
    counter: u64,
    /// Whether [`Touched::lanes`] has it.
    touched: bool,
}

/// What the block at hand has changed; the map learns it at the block's end.
#[derive(Default)]
struct Touched {
    writes: Vec<Written>,
    /// Places in `writes` of the last one of each key; the map takes the later one where a key has several, which it
    /// does if it was deleted between them.
    last_writes: Vec<usize>,
    lanes: Vec<(MemberId, u16)>,
    entries: HashSet<Entry>,
    votes: HashSet<Hash>,
}

impl State {
    /// Without anything.
    pub(crate) fn new() -> State {
        State {
            versions: HashMap::new(),
            nonces: HashMap::new(),
            votes: BTreeMap::new(),
            node_sequences: HashMap::new(),
            paper_versions: HashMap::new(),
            roster: Roster::default(),
            tree: Tree::new(),
            touched: Touched::default(),
        }
    }

    /// The same, of the paper's mode.
    pub(crate) fn of_paper() -> State {
        State {
            roster: Roster::of_paper(),
            ..State::new()
        }
    }

    /// The paper's version of a key; 0: it has none.
    pub(crate) fn paper_version(&self, key: &[u8]) -> u64 {
        self.paper_versions.get(key).copied().unwrap_or(0)
    }

    /// Who may do what.
    pub fn roster(&self) -> &Roster {
        &self.roster
    }

    /// How many keys have a value.
    pub fn keys(&self) -> usize {
        self.versions.len()
    }

    /// The version of a key's value.
    pub fn version(&self, key: &[u8]) -> Version {
        self.versions
            .get(key)
            .map_or(Version::ABSENT, |last| last.version)
    }

    /// The root over all of it, at the end of the last block.
    pub fn root(&self) -> Hash {
        self.tree.root()
    }

    /// What the root shows of a key.
    pub fn prove(&self, key: &[u8]) -> Proof {
        self.tree.prove(&value_place(key))
    }

    /// Whether the nonce is above the lane's last one; from then on it is the last one.
    pub(crate) fn take_nonce(&mut self, member: MemberId, nonce: Nonce) -> bool {
        let lane = (member, nonce.lane);
        let taken = LastNonce {
            counter: nonce.counter,
            touched: true,
        };
        let before = match self.nonces.get_mut(&lane) {
            Some(last) if last.counter >= nonce.counter => return false,
            Some(last) => Some(std::mem::replace(last, taken)),
            None => self.nonces.insert(lane, taken),
        };
        if !before.is_some_and(|before| before.touched) {
            self.touched.lanes.push(lane);
        }
        true
    }

    /// The last nonce of a lane, if it had one.
    pub fn last_nonce(&self, member: MemberId, lane: u16) -> Option<u64> {
        self.nonces.get(&(member, lane)).map(|last| last.counter)
    }

    /// Whether the sequence is above the node's last one; from then on it is the last one.
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

    /// The last sequence of a node, 0 before the first.
    pub fn last_sequence(&self, node: u32) -> u64 {
        self.node_sequences.get(&node).copied().unwrap_or(0)
    }

    /// Writes a key.
    pub(crate) fn write(&mut self, key: &[u8], version: Version, value: Option<&[u8]>) {
        let value: Option<Arc<[u8]>> = value.map(Arc::from);
        let known = self.versions.get_key_value(key);
        let touched = known.and_then(|(_, last)| last.in_block(version.block));
        let key = known.map_or_else(|| SharedKey::from(key), |(key, _)| key.clone());
        if let (true, Some(cell)) = (self.roster.is_paper(), &value) {
            self.paper_versions.insert(key.clone(), read_cell(cell).0);
        }
        let Touched {
            writes, last_writes, ..
        } = &mut self.touched;
        let place = touched.unwrap_or(last_writes.len());
        match last_writes.get_mut(place) {
            Some(last) => *last = writes.len(),
            None => last_writes.push(writes.len()),
        }
        match value {
            Some(_) => {
                let touched = place as u32;
                self.versions.insert(key.clone(), LastWrite { version, touched });
            }
            None => {
                self.versions.remove(&key);
            }
        }
        writes.push(Written { key, version, value });
    }

    /// Makes a change of members, rules or nodes.
    pub(crate) fn apply(&mut self, change: &Change<'_>) -> Result<(), crate::roster::ChangeError> {
        let entry = self.roster.apply(change)?;
        self.touched.entries.insert(entry);
        Ok(())
    }

    /// Counts a vote; true when there are enough, which ends the vote.
    pub(crate) fn vote(
        &mut self,
        name: Hash,
        until_ms: u64,
        admin: MemberId,
        now_ms: u64,
    ) -> Result<bool, VoteError> {
        let is_admin = |admin: &MemberId| self.roster.is_admin(*admin);
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
        // No admin can take all the room, nor can those who are none any more.
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
        let counting = votes.admins.iter().filter(|admin| self.roster.is_admin(**admin));
        Ok(counting.count() >= self.roster.quorum())
    }

    /// Ends a vote.
    pub(crate) fn end_vote(&mut self, name: &Hash) {
        self.votes.remove(name);
        self.touched.votes.insert(*name);
    }

    /// Ends a block: the map learns what has changed. The new root, and the block's writes in order.
    pub(crate) fn end_block(&mut self) -> (Hash, Vec<Written>) {
        let touched = std::mem::take(&mut self.touched);
        let mut leaves = Leaves::default();
        for place in &touched.last_writes {
            let Written { key, version, value } = &touched.writes[*place];
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
        let mut place = Vec::new();
        for entry in &touched.entries {
            place.clear();
            entry.place(&mut place);
            leaves.place(&[&place]);
            match self.roster.content(entry, |node| self.last_sequence(node)) {
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
    /// Its place among what the block has touched, if it is of this block.
    fn in_block(&self, block: u64) -> Option<usize> {
        (self.version.block == block).then_some(self.touched as usize)
    }
}

/// Where a key's value stands in the authenticated map.
pub(crate) fn value_place(key: &[u8]) -> Hash {
    keccak256(&[b"v", key].concat())
}

/// What stands there.
pub(crate) fn value_content(version: Version, value: &[u8]) -> Hash {
    let mut content = Vec::with_capacity(12 + value.len());
    value_leaf(&mut content, version, value);
    keccak256(&content)
}

/// What is hashed for it.
fn value_leaf(out: &mut Vec<u8>, version: Version, value: &[u8]) {
    out.u64(version.block);
    out.u32(version.index);
    out.put(value);
}

/// Places and contents of the map, hashed together at the end, eight at a time.
#[derive(Default)]
struct Leaves {
    bytes: Vec<u8>,
    /// Ends of messages in `bytes`.
    ends: Vec<usize>,
    /// Per leaf its place and its content, by their numbers in `ends`.
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

    /// What stands at the last place.
    fn content(&mut self, parts: &[&[u8]]) {
        let content = self.message(parts);
        if let Some(last) = self.leaves.last_mut() {
            last.1 = Some(content);
        }
    }

    /// Nothing stands at the last place.
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
