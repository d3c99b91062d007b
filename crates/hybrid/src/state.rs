//! All that decides what becomes of a request: versions, nonces, members, rules, votes. An authenticated map over it
//! gives the state root.

mod entries;

use crate::answer::Cell;
use crate::block::Hash;
use crate::change::Change;
use crate::codec::Output;
use crate::map::{Change as Leaf, Proof, Tree};
use crate::paper::read_cell;
use crate::request::{MemberId, Nonce, Version};
use crate::roster::{Entry, Roster};
use lineside_verify::hash::{keccak256, keccak256_batch};
use lineside_wire::{HYBRID_VOTES_OPEN_MAX, HYBRID_VOTES_PER_ADMIN_MAX};
use std::collections::hash_map;
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
    versions: HashMap<SharedKey, Version>,
    nonces: HashMap<(MemberId, u16), u64>,
    votes: BTreeMap<Hash, Votes>,
    node_sequences: HashMap<u32, u64>,
    /// Where the mode is the paper's: the whole numbers that begin the cells.
    paper_versions: HashMap<SharedKey, u64>,
    roster: Roster,
    tree: Tree,
    touched: Touched,
}

/// What the block at hand has changed; the map learns it at the block's end, each entry once.
#[derive(Default)]
struct Touched {
    /// Where a key has nothing any more, `None`.
    values: HashMap<SharedKey, Option<Cell>>,
    lanes: HashSet<(MemberId, u16)>,
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
        self.versions.get(key).copied().unwrap_or(Version::ABSENT)
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
        match self.nonces.entry(lane) {
            hash_map::Entry::Occupied(last) if *last.get() >= nonce.counter => return false,
            hash_map::Entry::Occupied(mut last) => {
                last.insert(nonce.counter);
            }
            hash_map::Entry::Vacant(first) => {
                first.insert(nonce.counter);
            }
        }
        self.touched.lanes.insert(lane);
        true
    }

    /// The last nonce of a lane, if it had one.
    pub fn last_nonce(&self, member: MemberId, lane: u16) -> Option<u64> {
        self.nonces.get(&(member, lane)).copied()
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
    pub(crate) fn write(&mut self, key: &[u8], version: Version, value: Option<&[u8]>) -> Written {
        let value: Option<Arc<[u8]>> = value.map(Arc::from);
        let known = self.versions.get_key_value(key).map(|(key, _)| key.clone());
        let key = known.unwrap_or_else(|| Arc::from(key));
        if let (true, Some(cell)) = (self.roster.is_paper(), &value) {
            self.paper_versions.insert(key.clone(), read_cell(cell).0);
        }
        match value {
            Some(_) => self.versions.insert(key.clone(), version),
            None => self.versions.remove(&key),
        };
        let cell = value.clone().map(|value| Cell { version, value });
        self.touched.values.insert(key.clone(), cell);
        Written { key, version, value }
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

    /// Ends a block: the map learns what has changed. The new root.
    pub(crate) fn end_block(&mut self) -> Hash {
        let touched = std::mem::take(&mut self.touched);
        let mut leaves = Leaves::default();
        for (key, cell) in &touched.values {
            leaves.place(&[b"v", key]);
            match cell {
                Some(Cell { version, value }) => {
                    let (block, index) = (version.block.to_be_bytes(), version.index.to_be_bytes());
                    leaves.content(&[&block, &index, value]);
                }
                None => leaves.gone(),
            }
        }
        for (member, lane) in &touched.lanes {
            leaves.place(&[b"n", &member.to_be_bytes(), &lane.to_be_bytes()]);
            match self.nonces.get(&(*member, *lane)) {
                Some(counter) => leaves.content(&[&counter.to_be_bytes()]),
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
        self.tree.root()
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
