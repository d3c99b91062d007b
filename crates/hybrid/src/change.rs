//! Changes of who may do what: members, their keys, rules, nodes, the quorum.

use crate::codec::{Input, Malformed, Output};
use crate::request::MemberId;
use lineside_verify::{Curve, PublicKey};
use lineside_wire::{
    HYBRID_CHANGE_ADD_KEY, HYBRID_CHANGE_ADD_MEMBER, HYBRID_CHANGE_ADD_NODE, HYBRID_CHANGE_REVOKE_KEY,
    HYBRID_CHANGE_REVOKE_MEMBER, HYBRID_CHANGE_REVOKE_NODE, HYBRID_CHANGE_SET_QUORUM, HYBRID_CHANGE_SET_RULE,
    HYBRID_CURVE_P256, HYBRID_CURVE_SECP256K1, HYBRID_KEY_BYTES_MAX, HYBRID_RIGHT_READ, HYBRID_RIGHT_WRITE,
    HYBRID_ROLE_ADMIN, HYBRID_ROLE_USER,
};

/// Bytes of a member's or node's name, at most.
pub const NAME_BYTES_MAX: usize = 64;

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// None but what rules give.
    User,
    /// Votes on changes.
    Admin,
}

/// What a rule gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Read keys with the rule's prefix.
    pub read: bool,
    /// Write keys with the rule's prefix.
    pub write: bool,
}

impl Rights {
    /// A byte, as it stands in changes.
    pub fn bits(self) -> u8 {
        (if self.read { HYBRID_RIGHT_READ } else { 0 }) | if self.write { HYBRID_RIGHT_WRITE } else { 0 }
    }

    /// From a byte.
    pub(crate) fn from_bits(bits: u8) -> Result<Rights, Malformed> {
        if bits & !(HYBRID_RIGHT_READ | HYBRID_RIGHT_WRITE) != 0 {
            return Err(Malformed("no such right"));
        }
        Ok(Rights {
            read: bits & HYBRID_RIGHT_READ != 0,
            write: bits & HYBRID_RIGHT_WRITE != 0,
        })
    }
}

/// A key as it stands in changes and genesis: its curve and 33 bytes (SEC 1, compressed).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBytes {
    /// Its curve.
    pub curve: Curve,
    /// 0x02 or 0x03, then x.
    pub bytes: [u8; 33],
}

impl KeyBytes {
    /// Of a key.
    pub fn of(key: &PublicKey) -> KeyBytes {
        KeyBytes {
            curve: key.curve(),
            bytes: key.to_sec1_compressed(),
        }
    }

    /// The key, where the bytes are a point of the curve.
    pub fn key(&self) -> Option<PublicKey> {
        PublicKey::from_sec1(self.curve, &self.bytes).ok()
    }

    pub(crate) fn read(input: &mut Input<'_>) -> Result<KeyBytes, Malformed> {
        let curve = match input.u8()? {
            HYBRID_CURVE_P256 => Curve::P256,
            HYBRID_CURVE_SECP256K1 => Curve::Secp256k1,
            _ => return Err(Malformed("no such curve")),
        };
        let bytes = input.array()?;
        Ok(KeyBytes { curve, bytes })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.u8(match self.curve {
            Curve::P256 => HYBRID_CURVE_P256,
            Curve::Secp256k1 => HYBRID_CURVE_SECP256K1,
        });
        out.put(&self.bytes);
    }
}

/// What is to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A member that was not there before, with key 0.
    AddMember {
        /// Never one that there was.
        member: MemberId,
        /// For people; up to 64 bytes of printable ASCII.
        name: &'a str,
        /// What it is.
        role: Role,
        /// Its key 0.
        key: KeyBytes,
    },
    /// A member and all its keys count no more.
    RevokeMember {
        /// Which.
        member: MemberId,
    },
    /// One more key of a member. A member may add its own.
    AddKey {
        /// Whose.
        member: MemberId,
        /// Above all numbers that its keys ever had.
        number: u16,
        /// The key.
        key: KeyBytes,
    },
    /// A key counts no more. A member may revoke its own, but not the last one.
    RevokeKey {
        /// Whose.
        member: MemberId,
        /// Which.
        number: u16,
    },
    /// Rights below a prefix, for a member, or for everyone (0).
    SetRule {
        /// The prefix; the longest one that has a rule for a key counts.
        prefix: &'a [u8],
        /// Whose, or 0.
        member: MemberId,
        /// Neither: the rule goes.
        rights: Rights,
    },
    /// A node that may order messages.
    AddNode {
        /// Never one that there was.
        node: u32,
        /// Signs its messages and heads.
        key: KeyBytes,
    },
    /// A node's messages count no more.
    RevokeNode {
        /// Which.
        node: u32,
    },
    /// How many admins must ask for a change.
    SetQuorum {
        /// At least 1, and no more than there are admins.
        admins: u16,
    },
}

impl<'a> Change<'a> {
    pub(crate) fn read(input: &mut Input<'a>) -> Result<Change<'a>, Malformed> {
        Ok(match input.u8()? {
            HYBRID_CHANGE_ADD_MEMBER => Change::AddMember {
                member: read_member(input)?,
                name: input.name(NAME_BYTES_MAX)?,
                role: read_role(input)?,
                key: KeyBytes::read(input)?,
            },
            HYBRID_CHANGE_REVOKE_MEMBER => Change::RevokeMember {
                member: read_member(input)?,
            },
            HYBRID_CHANGE_ADD_KEY => Change::AddKey {
                member: read_member(input)?,
                number: input.u16()?,
                key: KeyBytes::read(input)?,
            },
            HYBRID_CHANGE_REVOKE_KEY => Change::RevokeKey {
                member: read_member(input)?,
                number: input.u16()?,
            },
            HYBRID_CHANGE_SET_RULE => Change::SetRule {
                prefix: input.short(HYBRID_KEY_BYTES_MAX)?,
                member: input.u64()?,
                rights: Rights::from_bits(input.u8()?)?,
            },
            HYBRID_CHANGE_ADD_NODE => Change::AddNode {
                node: input.u32()?,
                key: KeyBytes::read(input)?,
            },
            HYBRID_CHANGE_REVOKE_NODE => Change::RevokeNode { node: input.u32()? },
            HYBRID_CHANGE_SET_QUORUM => Change::SetQuorum { admins: input.u16()? },
            _ => return Err(Malformed("no such change")),
        })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
        match *self {
            Change::AddMember {
                member,
                name,
                role,
                key,
            } => {
                out.u8(HYBRID_CHANGE_ADD_MEMBER);
                out.u64(member);
                if name.len() > NAME_BYTES_MAX {
                    return Err(Malformed("a name that is too long"));
                }
                out.short(name.as_bytes());
                out.u8(role_code(role));
                key.write(out);
            }
            Change::RevokeMember { member } => {
                out.u8(HYBRID_CHANGE_REVOKE_MEMBER);
                out.u64(member);
            }
            Change::AddKey { member, number, key } => {
                out.u8(HYBRID_CHANGE_ADD_KEY);
                out.u64(member);
                out.u16(number);
                key.write(out);
            }
            Change::RevokeKey { member, number } => {
                out.u8(HYBRID_CHANGE_REVOKE_KEY);
                out.u64(member);
                out.u16(number);
            }
            Change::SetRule {
                prefix,
                member,
                rights,
            } => {
                if prefix.len() > HYBRID_KEY_BYTES_MAX {
                    return Err(Malformed("a prefix that is too long"));
                }
                out.u8(HYBRID_CHANGE_SET_RULE);
                out.short(prefix);
                out.u64(member);
                out.u8(rights.bits());
            }
            Change::AddNode { node, key } => {
                out.u8(HYBRID_CHANGE_ADD_NODE);
                out.u32(node);
                key.write(out);
            }
            Change::RevokeNode { node } => {
                out.u8(HYBRID_CHANGE_REVOKE_NODE);
                out.u32(node);
            }
            Change::SetQuorum { admins } => {
                out.u8(HYBRID_CHANGE_SET_QUORUM);
                out.u16(admins);
            }
        }
        Ok(())
    }
}

pub(crate) fn role_code(role: Role) -> u8 {
    match role {
        Role::User => HYBRID_ROLE_USER,
        Role::Admin => HYBRID_ROLE_ADMIN,
    }
}

pub(crate) fn read_role(input: &mut Input<'_>) -> Result<Role, Malformed> {
    match input.u8()? {
        HYBRID_ROLE_USER => Ok(Role::User),
        HYBRID_ROLE_ADMIN => Ok(Role::Admin),
        _ => Err(Malformed("no such role")),
    }
}

fn read_member(input: &mut Input<'_>) -> Result<MemberId, Malformed> {
    match input.u64()? {
        0 => Err(Malformed("member 0")),
        member => Ok(member),
    }
}
