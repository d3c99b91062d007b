//! Membership: members and their keys, access rules, nodes, the quorum.

mod entries;

use lineside_messages::hybrid::change::{Change, KeyBytes, Rights, Role, role_code};
use lineside_messages::hybrid::codec::Output;
use lineside_messages::hybrid::paper::PUBLIC_KEY_BYTES;
use lineside_messages::hybrid::request::MemberId;
use lineside_verify::{Curve, PublicKey};
use lineside_wire::{HYBRID_EVERYONE, HYBRID_KEYS_PER_MEMBER_MAX};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

/// A key of a member or of a node.
#[derive(Clone, Debug)]
pub struct Key {
    /// Encoding of the key, as it was added.
    pub bytes: KeyBytes,
    /// The key as a decoded point of the curve.
    pub public: PublicKey,
    /// True if the key was revoked.
    pub revoked: bool,
}

/// A member.
#[derive(Clone, Debug)]
pub struct Member {
    /// Name for display.
    pub name: String,
    /// Role of the member.
    pub role: Role,
    /// True if the member was revoked.
    pub revoked: bool,
    /// All keys that the member ever had.
    pub keys: BTreeMap<u16, Key>,
}

/// Reason why a change cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The number of the new member, key or node was used before.
    #[error("the number is or was used by another member, key or node; choose another number")]
    Taken,
    /// No member, key or node has this number, or it is revoked already.
    #[error("the member, key or node does not exist or is revoked")]
    Missing,
    /// The bytes of the key are not a point of its curve.
    #[error("the key is not a point of its curve")]
    NoPoint,
    /// Fewer admins than the quorum would be left, or the quorum is 0.
    #[error("there would be fewer admins than the quorum, or the quorum would be 0")]
    Quorum,
    /// The change would remove a member's last key or the database's last node, or would give a member more than 16
    /// keys.
    #[error("a member must keep 1 to 16 keys, and a database at least one node")]
    Last,
    /// The rule to remove does not exist.
    #[error("the rule does not exist")]
    NoRule,
}

/// An entry of the authenticated map that a change of the membership touches.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Entry {
    Member(MemberId),
    Rule(Vec<u8>),
    Node(u32),
    Quorum,
}

impl Entry {
    /// Writes the bytes whose hash is the entry's place in the authenticated map.
    pub fn write_path(&self, out: &mut Vec<u8>) {
        match self {
            Entry::Member(member) => {
                out.u8(b'm');
                out.u64(*member);
            }
            Entry::Rule(prefix) => {
                out.u8(b'r');
                out.put(prefix);
            }
            Entry::Node(node) => {
                out.u8(b'o');
                out.u32(*node);
            }
            Entry::Quorum => out.u8(b'q'),
        }
    }

    pub fn is_member(&self) -> bool {
        matches!(self, Entry::Member(_))
    }
}

/// The membership of a database. Cheap to clone: parts that change rarely are shared.
#[derive(Clone, Debug, Default)]
pub struct Membership {
    members: HashMap<MemberId, Arc<Member>>,
    nodes: HashMap<u32, Key>,
    rules: PrefixRules,
    quorum: u16,
    /// In the paper's mode, the owner of each secp256k1 key. If several members have the same key, its owner is the
    /// member with the lowest number.
    key_owners: Option<Arc<KeyOwners>>,
}

type KeyOwners = HashMap<[u8; 33], (MemberId, u16)>;

impl Membership {
    /// Creates the membership of a database in the paper's mode, before its first member.
    pub(crate) fn of_paper() -> Membership {
        Membership {
            key_owners: Some(Arc::default()),
            ..Membership::default()
        }
    }

    /// Returns the number of members that are not revoked.
    pub fn members(&self) -> usize {
        self.members.values().filter(|member| !member.revoked).count()
    }

    /// Returns the number of nodes that are not revoked.
    pub fn nodes(&self) -> usize {
        self.nodes.values().filter(|node| !node.revoked).count()
    }

    /// Returns true in the paper's mode: only the paper's requests may read and write.
    pub fn is_paper(&self) -> bool {
        self.key_owners.is_some()
    }

    /// Returns the owner of a public key, the key's number, and the key, revoked or not. Works in the paper's mode
    /// only.
    pub fn key_owner(&self, public_key: &[u8; PUBLIC_KEY_BYTES]) -> Option<(MemberId, u16, &PublicKey)> {
        let mut compressed = [0; 33];
        compressed.copy_from_slice(&public_key[..33]);
        compressed[0] = 2 | public_key[64] & 1;
        let (member, number) = *self.key_owners.as_ref()?.get(&compressed)?;
        let key = &self.key(member, number)?.public;
        (key.to_sec1_uncompressed() == *public_key).then_some((member, number, key))
    }

    fn record_key_owner(&mut self, member: MemberId, number: u16, key: &KeyBytes) {
        let Some(key_owners) = self.key_owners.as_mut().filter(|_| key.curve == Curve::Secp256k1) else {
            return;
        };
        let key_owner = Arc::make_mut(key_owners)
            .entry(key.bytes)
            .or_insert((member, number));
        *key_owner = (*key_owner).min((member, number));
    }

    /// Returns a member, revoked or not.
    pub fn member(&self, member: MemberId) -> Option<&Member> {
        self.members.get(&member).map(Arc::as_ref)
    }

    /// Returns a member's key, revoked or not.
    pub fn key(&self, member: MemberId, number: u16) -> Option<&Key> {
        self.member(member)?.keys.get(&number)
    }

    /// Returns true if neither the member nor the key is revoked.
    pub fn is_active(&self, member: MemberId, number: u16) -> bool {
        self.member(member)
            .is_some_and(|member| !member.revoked && member.keys.get(&number).is_some_and(|key| !key.revoked))
    }

    /// Returns a node's key unless it is revoked.
    pub fn node(&self, node: u32) -> Option<&PublicKey> {
        self.nodes
            .get(&node)
            .filter(|key| !key.revoked)
            .map(|key| &key.public)
    }

    /// Returns a node's key, revoked or not.
    pub fn any_node(&self, node: u32) -> Option<&PublicKey> {
        self.nodes.get(&node).map(|key| &key.public)
    }

    /// Number of admins who must vote for a change.
    pub fn quorum(&self) -> usize {
        self.quorum.into()
    }

    /// Returns true if the member is an admin who is not revoked.
    pub fn is_admin(&self, member: MemberId) -> bool {
        self.member(member)
            .is_some_and(|member| member.role == Role::Admin && !member.revoked)
    }

    /// Returns the member's rights for this key.
    pub fn rights(&self, member: MemberId, key: &[u8]) -> Rights {
        self.rules.of(member, key)
    }

    /// Returns the first key after `key` to which other rules apply; `None` if there is none. A range uses it to skip
    /// all keys that a member may not read.
    pub(crate) fn next_rule_boundary(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.rules.next_rule_boundary(key)
    }

    /// Returns true if the member may make the change without a vote, because the change concerns only the member's own
    /// keys.
    pub(crate) fn is_own(member: MemberId, change: &Change<'_>) -> bool {
        match change {
            Change::AddKey { member: of, .. } | Change::RevokeKey { member: of, .. } => *of == member,
            _ => false,
        }
    }

    /// Makes a change completely or, if it returns an error, not at all. Returns the entry that the change touched.
    pub(crate) fn apply(&mut self, change: &Change<'_>) -> Result<Entry, ChangeError> {
        match *change {
            Change::AddMember {
                member,
                name,
                role,
                key,
            } => {
                if self.members.contains_key(&member) {
                    return Err(ChangeError::Taken);
                }
                let member_with_key = Member {
                    name: name.to_owned(),
                    role,
                    revoked: false,
                    keys: BTreeMap::from([(0, new_key(key)?)]),
                };
                self.members.insert(member, Arc::new(member_with_key));
                self.record_key_owner(member, 0, &key);
                Ok(Entry::Member(member))
            }
            Change::RevokeMember { member } => {
                if self.is_admin(member) && self.admins() <= self.quorum() {
                    return Err(ChangeError::Quorum);
                }
                let entry = self.active_member(member)?;
                Arc::make_mut(entry).revoked = true;
                Ok(Entry::Member(member))
            }
            Change::AddKey { member, number, key } => {
                let new = new_key(key)?;
                let entry = self.active_member(member)?;
                if entry.keys.keys().next_back().is_some_and(|last| number <= *last) {
                    return Err(ChangeError::Taken);
                }
                if active_keys(entry) >= HYBRID_KEYS_PER_MEMBER_MAX {
                    return Err(ChangeError::Last);
                }
                Arc::make_mut(entry).keys.insert(number, new);
                self.record_key_owner(member, number, &key);
                Ok(Entry::Member(member))
            }
            Change::RevokeKey { member, number } => {
                let entry = self.active_member(member)?;
                match entry.keys.get(&number) {
                    Some(key) if !key.revoked => {}
                    _ => return Err(ChangeError::Missing),
                }
                if active_keys(entry) == 1 {
                    return Err(ChangeError::Last);
                }
                if let Some(key) = Arc::make_mut(entry).keys.get_mut(&number) {
                    key.revoked = true;
                }
                Ok(Entry::Member(member))
            }
            Change::SetRule {
                prefix,
                member,
                rights,
            } => {
                if member != HYBRID_EVERYONE && !self.members.contains_key(&member) {
                    return Err(ChangeError::Missing);
                }
                match self.rules.set(prefix, member, rights) {
                    true => Ok(Entry::Rule(prefix.to_owned())),
                    false => Err(ChangeError::NoRule),
                }
            }
            Change::AddNode { node, key } => {
                if self.nodes.contains_key(&node) {
                    return Err(ChangeError::Taken);
                }
                self.nodes.insert(node, new_key(key)?);
                Ok(Entry::Node(node))
            }
            Change::RevokeNode { node } => {
                self.node(node).ok_or(ChangeError::Missing)?;
                if self.nodes.values().filter(|key| !key.revoked).count() == 1 {
                    return Err(ChangeError::Last);
                }
                if let Some(key) = self.nodes.get_mut(&node) {
                    key.revoked = true;
                }
                Ok(Entry::Node(node))
            }
            Change::SetQuorum { admins } => {
                if admins == 0 || usize::from(admins) > self.admins() {
                    return Err(ChangeError::Quorum);
                }
                self.quorum = admins;
                Ok(Entry::Quorum)
            }
        }
    }

    fn active_member(&mut self, member: MemberId) -> Result<&mut Arc<Member>, ChangeError> {
        let found = self.members.get_mut(&member).filter(|member| !member.revoked);
        found.ok_or(ChangeError::Missing)
    }

    fn admins(&self) -> usize {
        self.members
            .keys()
            .filter(|member| self.is_admin(**member))
            .count()
    }

    /// Returns the content of an entry of the authenticated map; `None` if the entry does not exist.
    pub(crate) fn content(&self, entry: &Entry, node_sequence: impl Fn(u32) -> u64) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        match entry {
            Entry::Member(member) => {
                let member = self.member(*member)?;
                out.short(member.name.as_bytes());
                out.u8(role_code(member.role));
                out.u8(member.revoked.into());
                for (number, key) in &member.keys {
                    out.u16(*number);
                    key.bytes.write(&mut out);
                    out.u8(key.revoked.into());
                }
            }
            Entry::Rule(prefix) => {
                for (member, rights) in self.rules.at(prefix)? {
                    out.u64(*member);
                    out.u8(rights.bits());
                }
            }
            Entry::Node(node) => {
                let key = self.nodes.get(node)?;
                key.bytes.write(&mut out);
                out.u8(key.revoked.into());
                out.u64(node_sequence(*node));
            }
            Entry::Quorum => out.u16(self.quorum),
        }
        Some(out)
    }
}

fn new_key(bytes: KeyBytes) -> Result<Key, ChangeError> {
    Ok(Key {
        bytes,
        public: bytes.key().ok_or(ChangeError::NoPoint)?,
        revoked: false,
    })
}

fn active_keys(member: &Member) -> usize {
    member.keys.values().filter(|key| !key.revoked).count()
}

/// Returns the first key after all keys with this prefix; `None` if there is none.
fn end_of(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// Rights of members, or of everyone, below one prefix.
type Grants = BTreeMap<MemberId, Rights>;

/// Access rules by prefix. For a key, only the longest matching prefix that has rules counts: of its rules, the
/// member's own rule applies, or the rule for everyone if the member has none.
#[derive(Clone, Debug, Default)]
struct PrefixRules {
    by_prefix: Arc<BTreeMap<Vec<u8>, Grants>>,
    /// Lengths of prefixes, the longest first, and for each length the number of prefixes that have it.
    lengths: Arc<BTreeMap<std::cmp::Reverse<usize>, usize>>,
}

impl PrefixRules {
    fn of(&self, member: MemberId, key: &[u8]) -> Rights {
        let Some((_, grants)) = self.governing(key) else {
            return Rights::default();
        };
        let own = grants.get(&member).or_else(|| grants.get(&HYBRID_EVERYONE));
        own.copied().unwrap_or_default()
    }

    /// Returns the longest prefix of the key that has rules, and these rules.
    fn governing<'k>(&self, key: &'k [u8]) -> Option<(&'k [u8], &Grants)> {
        let prefixes = self.lengths.keys().filter_map(|length| key.get(..length.0));
        prefixes
            .filter_map(|prefix| Some((prefix, self.by_prefix.get(prefix)?)))
            .next()
    }

    /// Returns the first key after `key` to which other rules apply: where a longer prefix begins, or where the key's
    /// own prefix ends. (A prefix between `key` and the result cannot match `key`, because it would then be the longest
    /// matching prefix.)
    fn next_rule_boundary(&self, key: &[u8]) -> Option<Vec<u8>> {
        let end = self.governing(key).and_then(|(prefix, _)| end_of(prefix));
        let longer = (Bound::Excluded(key), Bound::Unbounded);
        let begin = self.by_prefix.range::<[u8], _>(longer).next();
        let begin = begin.map(|(prefix, _)| prefix.clone());
        match (begin, end) {
            (Some(begin), Some(end)) => Some(begin.min(end)),
            (begin, end) => begin.or(end),
        }
    }

    fn at(&self, prefix: &[u8]) -> Option<&Grants> {
        self.by_prefix.get(prefix)
    }

    /// Sets or removes a rule. Returns false if the rule to remove does not exist.
    fn set(&mut self, prefix: &[u8], member: MemberId, rights: Rights) -> bool {
        let by_prefix = Arc::make_mut(&mut self.by_prefix);
        let lengths = Arc::make_mut(&mut self.lengths);
        let length = std::cmp::Reverse(prefix.len());
        if rights != Rights::default() {
            let grants = by_prefix.entry(prefix.to_owned()).or_insert_with(|| {
                *lengths.entry(length).or_default() += 1;
                Grants::new()
            });
            grants.insert(member, rights);
            return true;
        }
        let Some(grants) = by_prefix.get_mut(prefix) else {
            return false;
        };
        if grants.remove(&member).is_none() {
            return false;
        }
        if grants.is_empty() {
            by_prefix.remove(prefix);
            if let Some(count) = lengths.get_mut(&length) {
                *count -= 1;
                if *count == 0 {
                    lengths.remove(&length);
                }
            }
        }
        true
    }
}
