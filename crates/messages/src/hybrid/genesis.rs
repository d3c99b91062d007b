//! Genesis: the parameters that all participants of a database agree on before its first block.

use super::block::Hash;
use super::change::{Change, KeyBytes, NAME_BYTES_MAX, Rights, Role};
use super::codec::{Input, Malformed, Output};
use super::request::{DatabaseId, MemberId};
use lineside_verify::hash::keccak256;

const MAGIC: &[u8; 8] = b"LShybrid";
const VERSION: u8 = 1;
/// Format version of a genesis in the paper's mode. A program that does not support the mode refuses this version.
const VERSION_PAPER: u8 = 2;
const TAG: &[u8] = b"lineside/hybrid/genesis/1";

/// A member at the start of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstMember {
    /// Number of the member; not 0.
    pub member: MemberId,
    /// Name for display.
    pub name: String,
    /// Role of the member.
    pub role: Role,
    /// Key 0 of the member.
    pub key: KeyBytes,
}

/// A rule at the start of the database: rights below a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstRule {
    /// The prefix.
    pub prefix: Vec<u8>,
    /// Number of the member, or 0: everyone.
    pub member: MemberId,
    /// Rights that the rule grants.
    pub rights: Rights,
}

/// Parameters that all participants of a database agree on before its first block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Genesis {
    /// Name for display. It also distinguishes two databases with the same members.
    pub name: String,
    /// Time in milliseconds since 1970; no block is earlier.
    pub time_ms: u64,
    /// Number of admins who must vote for a change.
    pub quorum: u16,
    /// Members of the database, of whom at least `quorum` are admins.
    pub members: Vec<FirstMember>,
    /// Numbers and keys of the nodes; at least one node.
    pub nodes: Vec<(u32, KeyBytes)>,
    /// Rules of access.
    pub rules: Vec<FirstRule>,
    /// True if the database is in the paper's mode: it takes the paper's requests, and no native requests that read or
    /// write ([`super::paper`]).
    pub paper: bool,
}

impl Genesis {
    /// Encodes the genesis. The id of the database is computed from these bytes.
    ///
    /// # Errors
    /// [`Malformed`] if a name or a prefix is too long, or if there are too many entries.
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        let mut out = Vec::new();
        out.put(MAGIC);
        out.u8(if self.paper { VERSION_PAPER } else { VERSION });
        if self.name.len() > NAME_BYTES_MAX {
            return Err(Malformed("the database's name is too long"));
        }
        out.short(self.name.as_bytes());
        out.u64(self.time_ms);
        let changes = self.changes();
        out.u32(u32::try_from(changes.len()).map_err(|_| Malformed("too many members"))?);
        changes.iter().try_for_each(|change| change.write(&mut out))?;
        Genesis::decode(&out)?;
        Ok(out)
    }

    /// Decodes a genesis.
    ///
    /// # Errors
    /// [`Malformed`] for bytes that [`Self::encode`] does not write.
    pub fn decode(bytes: &[u8]) -> Result<Genesis, Malformed> {
        let mut input = Input(bytes);
        if &input.array::<8>()? != MAGIC {
            return Err(Malformed("the bytes do not begin like a genesis file"));
        }
        let paper = match input.u8()? {
            VERSION => false,
            VERSION_PAPER => true,
            _ => return Err(Malformed("unknown version of the genesis format")),
        };
        let mut genesis = Genesis {
            name: input.name(NAME_BYTES_MAX)?.to_owned(),
            time_ms: input.u64()?,
            quorum: 0,
            members: Vec::new(),
            nodes: Vec::new(),
            rules: Vec::new(),
            paper,
        };
        for _ in 0..input.u32()? {
            genesis.take(Change::read(&mut input)?)?;
        }
        input.end()?;
        match genesis.changes().iter().try_fold(Vec::new(), |mut out, change| {
            change.write(&mut out)?;
            Ok::<_, Malformed>(out)
        })? {
            again if bytes.ends_with(&again) => Ok(genesis),
            _ => Err(Malformed(
                "its entries are not in the order nodes, members, rules, quorum",
            )),
        }
    }

    /// Expresses the genesis as changes: nodes, members, rules, the quorum, in this order.
    pub fn changes(&self) -> Vec<Change<'_>> {
        let nodes = self.nodes.iter().map(|(node, key)| Change::AddNode {
            node: *node,
            key: *key,
        });
        let members = self.members.iter().map(|first| Change::AddMember {
            member: first.member,
            name: &first.name,
            role: first.role,
            key: first.key,
        });
        let rules = self.rules.iter().map(|first| Change::SetRule {
            prefix: &first.prefix,
            member: first.member,
            rights: first.rights,
        });
        let quorum = [Change::SetQuorum { admins: self.quorum }];
        nodes.chain(members).chain(rules).chain(quorum).collect()
    }

    fn take(&mut self, change: Change<'_>) -> Result<(), Malformed> {
        match change {
            Change::AddNode { node, key } => self.nodes.push((node, key)),
            Change::AddMember {
                member,
                name,
                role,
                key,
            } => self.members.push(FirstMember {
                member,
                name: name.to_owned(),
                role,
                key,
            }),
            Change::SetRule {
                prefix,
                member,
                rights,
            } => self.rules.push(FirstRule {
                prefix: prefix.to_owned(),
                member,
                rights,
            }),
            Change::SetQuorum { admins } => self.quorum = admins,
            _ => return Err(Malformed("it revokes something, but a genesis can only add")),
        }
        Ok(())
    }
}

/// Returns the hash of a genesis.
pub fn genesis_hash(bytes: &[u8]) -> Hash {
    keccak256(&[TAG, bytes].concat())
}

/// Returns the id of the database that begins with this genesis.
pub fn database_id(bytes: &[u8]) -> DatabaseId {
    let hash = genesis_hash(bytes);
    std::array::from_fn(|i| hash[i])
}
