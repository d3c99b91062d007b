//! The state as entries of the authenticated map: for each entry, the bytes whose hash is its place, and the bytes
//! whose hash is its content. The state can be restored from all its entries; the root then shows that they are
//! complete.

use super::{LastNonce, LastWrite, State, Votes};
use crate::map::Change as Leaf;
use crate::membership::Entry;
use lineside_messages::hybrid::answer::Cell;
use lineside_messages::hybrid::answer::SharedKey;
use lineside_messages::hybrid::block::Hash;
use lineside_messages::hybrid::codec::{Input, Malformed, Output};
use lineside_messages::hybrid::proof::value_leaf;
use lineside_messages::hybrid::request::Version;
use lineside_verify::hash::keccak256;
use lineside_wire::{HYBRID_KEY_BYTES_MAX, HYBRID_VALUE_BYTES_MAX};

/// Number of leaves added to the map at once when a state is restored.
const LEAVES: usize = 1 << 14;

/// Maximum number of bytes of a place: one byte for the kind, then a key.
pub(crate) const PLACE_BYTES_MAX: usize = 1 + HYBRID_KEY_BYTES_MAX;
/// Maximum number of bytes of a content. A version and a value have up to 256 KiB; a member that had 65,536 keys has
/// 2.4 MB.
pub(crate) const CONTENT_BYTES_MAX: usize = 3 << 20;

impl State {
    /// Returns the number of entries of the authenticated map.
    pub(crate) fn entries(&self) -> u64 {
        self.tree.len() as u64
    }

    /// Calls `show` with place and content of every entry, in the order of places. The state has only the versions of
    /// keys; `value` returns their values.
    ///
    /// # Errors
    /// Returns the errors of `show`.
    pub(crate) fn each_entry<'a, E>(
        &self,
        value: impl Fn(&SharedKey) -> Option<&'a Cell>,
        mut show: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        for (name, votes) in &self.votes {
            show(&[b"a", &name[..]].concat(), &votes.content())?;
        }
        let (mut path, mut content) = (Vec::new(), Vec::new());
        let of_roster = self.membership.entries();
        let (members, others) = of_roster.split_at(of_roster.partition_point(Entry::is_member));
        let of_roster = |entry: &Entry| {
            let mut path = Vec::new();
            entry.write_path(&mut path);
            let content = self.membership.content(entry, |node| self.last_sequence(node));
            (path, content.unwrap_or_default())
        };
        for (path, content) in members.iter().map(of_roster) {
            show(&path, &content)?;
        }
        let mut lanes: Vec<_> = self.nonces.iter().collect();
        lanes.sort_unstable_by_key(|(lane, _)| **lane);
        for ((member, lane), last) in lanes {
            path.clear();
            path.u8(b'n');
            path.u64(*member);
            path.u16(*lane);
            show(&path, &last.counter.to_be_bytes())?;
        }
        for (path, content) in others.iter().map(of_roster) {
            show(&path, &content)?;
        }
        let mut keys: Vec<&SharedKey> = self.versions.keys().collect();
        keys.sort_unstable();
        for key in keys {
            let Some(cell) = value(key) else { continue };
            path.clear();
            path.u8(b'v');
            path.put(key);
            content.clear();
            value_leaf(&mut content, cell.version, &cell.value);
            show(&path, &content)?;
        }
        Ok(())
    }
}

/// A state that is being restored from its entries.
pub(crate) struct Gathering {
    state: State,
    leaves: Vec<Leaf>,
    last_place: Vec<u8>,
}

/// Kind of a restored entry. The state does not store values, so they are returned here.
pub(crate) enum RestoredEntry {
    /// A value.
    Value(SharedKey, Cell),
    /// Another entry.
    Other,
}

impl Gathering {
    pub fn new() -> Gathering {
        Gathering {
            state: State::new(),
            leaves: Vec::with_capacity(LEAVES),
            last_place: Vec::new(),
        }
    }

    /// Takes the next entry of the state.
    ///
    /// # Errors
    /// [`Malformed`] if the place is not above the previous entry's place, or if [`State::each_entry`] never produces
    /// such an entry.
    pub fn take(&mut self, path: &[u8], content: &[u8]) -> Result<RestoredEntry, Malformed> {
        if !self.last_place.is_empty() && path <= self.last_place.as_slice() {
            return Err(Malformed("the entries are not in ascending order"));
        }
        self.last_place.clear();
        self.last_place.extend_from_slice(path);
        self.leaves.push(Leaf {
            key: keccak256(path),
            value: Some(keccak256(content)),
        });
        if self.leaves.len() == LEAVES {
            self.state.tree.update(&mut self.leaves);
            self.leaves.clear();
        }
        self.state.put(Input(path), Input(content))
    }

    /// Returns the state and its root.
    pub fn finish(mut self) -> (State, Hash) {
        self.state.tree.update(&mut self.leaves);
        let root = self.state.tree.root();
        (self.state, root)
    }
}

impl State {
    fn put(&mut self, mut path: Input<'_>, mut content: Input<'_>) -> Result<RestoredEntry, Malformed> {
        match path.u8()? {
            b'v' => {
                if !(1..=HYBRID_KEY_BYTES_MAX).contains(&path.0.len()) {
                    return Err(Malformed("a key is empty or too long"));
                }
                let key = SharedKey::from(path.0);
                let version = Version {
                    block: content.u64()?,
                    index: content.u32()?,
                };
                if version.block == 0 || content.0.len() > HYBRID_VALUE_BYTES_MAX {
                    return Err(Malformed("a version names block 0, or a value is too long"));
                }
                let touched = 0;
                self.versions.insert(key.clone(), LastWrite { version, touched });
                let value = content.0.into();
                return Ok(RestoredEntry::Value(key, Cell { version, value }));
            }
            b'n' => {
                let lane = (path.u64()?, path.u16()?);
                let (counter, touched) = (content.u64()?, false);
                self.nonces.insert(lane, LastNonce { counter, touched });
            }
            b'a' => {
                let name = path.array()?;
                self.votes.insert(name, Votes::read(&mut content)?);
            }
            b'm' => self.membership.put_member(path.u64()?, &mut content)?,
            b'r' => {
                self.membership.put_rules(path.0, &mut content)?;
                path.0 = &[];
            }
            b'o' => {
                let node = path.u32()?;
                let sequence = self.membership.put_node(node, &mut content)?;
                if sequence > 0 {
                    self.node_sequences.insert(node, sequence);
                }
            }
            b'q' => self.membership.put_quorum(content.u16()?),
            _ => return Err(Malformed("unknown kind of entry")),
        }
        path.end()?;
        content.end()?;
        Ok(RestoredEntry::Other)
    }
}

impl Votes {
    pub fn content(&self) -> Vec<u8> {
        let mut content = self.until_ms.to_be_bytes().to_vec();
        self.admins.iter().for_each(|admin| content.u64(*admin));
        content
    }

    fn read(input: &mut Input<'_>) -> Result<Votes, Malformed> {
        let mut votes = Votes {
            until_ms: input.u64()?,
            ..Votes::default()
        };
        while !input.0.is_empty() {
            let admin = input.u64()?;
            if votes.admins.last().is_some_and(|last| *last >= admin) {
                return Err(Malformed("the admins of a vote are not in ascending order"));
            }
            votes.admins.insert(admin);
        }
        Ok(votes)
    }
}
