//! Reconstruction of the membership from its entries of the authenticated map.

use super::{Entry, Grants, Key, Member, Membership, new_key};
use lineside_messages::hybrid::change::{KeyBytes, NAME_BYTES_MAX, Rights, read_role};
use lineside_messages::hybrid::codec::{Input, Malformed};
use lineside_messages::hybrid::request::MemberId;
use std::collections::BTreeMap;
use std::sync::Arc;

impl Membership {
    /// Returns all entries in the order of their places: members, nodes, the quorum, rules.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        let members = self.members.keys().copied().map(Entry::Member);
        let nodes = self.nodes.keys().copied().map(Entry::Node);
        let rules = self.rules.by_prefix.keys().cloned().map(Entry::Rule);
        let mut entries: Vec<Entry> = members.chain(nodes).chain([Entry::Quorum]).chain(rules).collect();
        entries.sort_by_cached_key(|entry| {
            let mut path = Vec::new();
            entry.write_path(&mut path);
            path
        });
        entries
    }

    pub(crate) fn put_member(&mut self, member: MemberId, content: &mut Input<'_>) -> Result<(), Malformed> {
        let mut entry = Member {
            name: content.name(NAME_BYTES_MAX)?.to_owned(),
            role: read_role(content)?,
            revoked: read_revoked(content)?,
            keys: BTreeMap::new(),
        };
        while !content.0.is_empty() {
            let number = content.u16()?;
            if entry
                .keys
                .last_key_value()
                .is_some_and(|(last, _)| *last >= number)
            {
                return Err(Malformed("the keys are not in ascending order"));
            }
            entry.keys.insert(number, read_key(content)?);
        }
        if member == 0 || entry.keys.is_empty() {
            return Err(Malformed("it has member 0, or a member without a key"));
        }
        self.members.insert(member, Arc::new(entry));
        Ok(())
    }

    pub(crate) fn put_rules(&mut self, prefix: &[u8], content: &mut Input<'_>) -> Result<(), Malformed> {
        let mut grants = Grants::new();
        while !content.0.is_empty() {
            let member = content.u64()?;
            let rights = Rights::from_bits(content.u8()?)?;
            if rights == Rights::default() {
                return Err(Malformed("a rule grants no right"));
            }
            if grants.last_key_value().is_some_and(|(last, _)| *last >= member) {
                return Err(Malformed("the members are not in ascending order"));
            }
            grants.insert(member, rights);
        }
        if grants.is_empty() {
            return Err(Malformed("a prefix has no rules"));
        }
        for (member, rights) in grants {
            self.rules.set(prefix, member, rights);
        }
        Ok(())
    }

    /// Adds a node. Returns the node's last sequence number.
    pub(crate) fn put_node(&mut self, node: u32, content: &mut Input<'_>) -> Result<u64, Malformed> {
        let key = read_key(content)?;
        self.nodes.insert(node, key);
        content.u64()
    }

    pub(crate) fn put_quorum(&mut self, admins: u16) {
        self.quorum = admins;
    }
}

fn read_key(input: &mut Input<'_>) -> Result<Key, Malformed> {
    let mut key =
        new_key(KeyBytes::read(input)?).map_err(|_| Malformed("a key is not a point of its curve"))?;
    key.revoked = read_revoked(input)?;
    Ok(key)
}

fn read_revoked(input: &mut Input<'_>) -> Result<bool, Malformed> {
    match input.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("a `revoked` flag is neither 0 nor 1")),
    }
}
