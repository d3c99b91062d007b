//! Genesis: the parameters that all participants of a database agree on before its first block.

use crate::block::Hash;
use crate::change::{Change, KeyBytes, NAME_BYTES_MAX, Rights, Role};
use crate::codec::{Input, Malformed, Output};
use crate::request::{DatabaseId, MemberId};
use lineside_verify::hash::keccak256;

const MAGIC: &[u8; 8] = b"LShybrid";
const VERSION: u8 = 1;
/// Version of a genesis in the paper's mode. A reader that does not know the mode refuses it.
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
    /// Members; at least as many admins as the quorum.
    pub members: Vec<FirstMember>,
    /// Nodes and their keys; at least one node.
    pub nodes: Vec<(u32, KeyBytes)>,
    /// Rules of access.
    pub rules: Vec<FirstRule>,
    /// The paper's mode: the database takes the paper's requests, and no native requests that read or write
    /// ([`crate::paper`]).
    pub paper: bool,
}

impl Genesis {
    /// Encodes the genesis. The id of the database is computed from these bytes.
    ///
    /// # Errors
    /// [`Malformed`] if a name or a prefix is too long.
    pub fn encode(&self) -> Result<Vec<u8>, Malformed> {
        let mut out = Vec::new();
        out.put(MAGIC);
        out.u8(if self.paper { VERSION_PAPER } else { VERSION });
        if self.name.len() > NAME_BYTES_MAX {
            return Err(Malformed("a name that is too long"));
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
    /// [`Malformed`] for anything that [`Self::encode`] does not write.
    pub fn decode(bytes: &[u8]) -> Result<Genesis, Malformed> {
        let mut input = Input(bytes);
        if &input.array::<8>()? != MAGIC {
            return Err(Malformed("not a genesis file"));
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
            _ => Err(Malformed("changes in the wrong order")),
        }
    }

    /// Expresses the genesis as changes: nodes, members, rules, the quorum, in this order.
    pub(crate) fn changes(&self) -> Vec<Change<'_>> {
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
            _ => return Err(Malformed("a genesis can only add, not revoke")),
        }
        Ok(())
    }
}

/// Hash of a genesis.
pub fn genesis_hash(bytes: &[u8]) -> Hash {
    keccak256(&[TAG, bytes].concat())
}

/// Id of the database that begins with this genesis.
pub fn database_id(bytes: &[u8]) -> DatabaseId {
    let hash = genesis_hash(bytes);
    std::array::from_fn(|i| hash[i])
}
