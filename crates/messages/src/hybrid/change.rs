//! Changes of the membership: members, their keys, rules, nodes, the quorum.

use super::codec::{Input, Malformed, Output};
use super::request::MemberId;
use lineside_verify::{Curve, PublicKey};
use lineside_wire::{
    HYBRID_CHANGE_ADD_KEY, HYBRID_CHANGE_ADD_MEMBER, HYBRID_CHANGE_ADD_NODE, HYBRID_CHANGE_REVOKE_KEY,
    HYBRID_CHANGE_REVOKE_MEMBER, HYBRID_CHANGE_REVOKE_NODE, HYBRID_CHANGE_SET_QUORUM, HYBRID_CHANGE_SET_RULE,
    HYBRID_CURVE_P256, HYBRID_CURVE_SECP256K1, HYBRID_KEY_BYTES_MAX, HYBRID_RIGHT_READ, HYBRID_RIGHT_WRITE,
    HYBRID_ROLE_ADMIN, HYBRID_ROLE_USER,
};

/// Maximum number of bytes of a member's or node's name.
pub const NAME_BYTES_MAX: usize = 64;

/// Role of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A user: has only the rights that rules grant.
    User,
    /// An admin: also votes on changes.
    Admin,
}

/// Rights that a rule grants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// True if the rule allows reading keys with its prefix.
    pub read: bool,
    /// True if the rule allows writing keys with its prefix.
    pub write: bool,
}

impl Rights {
    /// Encodes the rights as one byte, as in changes.
    pub fn bits(self) -> u8 {
        (if self.read { HYBRID_RIGHT_READ } else { 0 }) | if self.write { HYBRID_RIGHT_WRITE } else { 0 }
    }

    /// Decodes the rights from one byte.
    pub fn from_bits(bits: u8) -> Result<Rights, Malformed> {
        if bits & !(HYBRID_RIGHT_READ | HYBRID_RIGHT_WRITE) != 0 {
            return Err(Malformed("unknown right"));
        }
        Ok(Rights {
            read: bits & HYBRID_RIGHT_READ != 0,
            write: bits & HYBRID_RIGHT_WRITE != 0,
        })
    }
}

/// A public key as changes and the genesis encode it: its curve and 33 bytes (SEC 1, compressed).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBytes {
    /// Curve of the key.
    pub curve: Curve,
    /// 0x02 or 0x03 (the sign of y), then the 32 bytes of x.
    pub bytes: [u8; 33],
}

impl KeyBytes {
    /// Encodes a public key.
    pub fn of(key: &PublicKey) -> KeyBytes {
        KeyBytes {
            curve: key.curve(),
            bytes: key.to_sec1_compressed(),
        }
    }

    /// Decodes the key; `None` if the bytes are not a point of the curve.
    pub fn key(&self) -> Option<PublicKey> {
        PublicKey::from_sec1(self.curve, &self.bytes).ok()
    }

    /// Decodes a key as [`Self::write`] encodes it.
    ///
    /// # Errors
    /// [`Malformed`] for an unknown curve, or too few bytes.
    pub fn read(input: &mut Input<'_>) -> Result<KeyBytes, Malformed> {
        let curve = match input.u8()? {
            HYBRID_CURVE_P256 => Curve::P256,
            HYBRID_CURVE_SECP256K1 => Curve::Secp256k1,
            _ => return Err(Malformed("unknown curve")),
        };
        let bytes = input.array()?;
        Ok(KeyBytes { curve, bytes })
    }

    /// Encodes the key: the number of its curve, then its bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.u8(match self.curve {
            Curve::P256 => HYBRID_CURVE_P256,
            Curve::Secp256k1 => HYBRID_CURVE_SECP256K1,
        });
        out.put(&self.bytes);
    }
}

/// A change of the membership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Adds a member that did not exist before, with key 0.
    AddMember {
        /// Number of the member; it must never have been used.
        member: MemberId,
        /// Name for display, up to 64 bytes of printable ASCII.
        name: &'a str,
        /// Role of the member.
        role: Role,
        /// Key 0 of the member.
        key: KeyBytes,
    },
    /// Revokes a member and all its keys.
    RevokeMember {
        /// Number of the member.
        member: MemberId,
    },
    /// Adds a key to a member. A member may add its own keys without a vote.
    AddKey {
        /// Number of the member.
        member: MemberId,
        /// Number of the key, above all numbers that the member's keys ever had.
        number: u16,
        /// The key.
        key: KeyBytes,
    },
    /// Revokes a key. A member may revoke its own keys without a vote, except the last one.
    RevokeKey {
        /// Number of the member.
        member: MemberId,
        /// Number of the key.
        number: u16,
    },
    /// Sets the rights below a prefix, for one member or for everyone (0).
    SetRule {
        /// The prefix. For a key, the rules of the longest matching prefix apply.
        prefix: &'a [u8],
        /// Number of the member, or 0: everyone.
        member: MemberId,
        /// Rights to set. Without any right, the rule is removed.
        rights: Rights,
    },
    /// Adds a node, which may then order messages.
    AddNode {
        /// Number of the node; it must never have been used.
        node: u32,
        /// Key that signs the node's messages and heads.
        key: KeyBytes,
    },
    /// Revokes a node: its messages are skipped from then on.
    RevokeNode {
        /// Number of the node.
        node: u32,
    },
    /// Sets the number of admins who must vote for a change.
    SetQuorum {
        /// Number of admins: at least 1, and at most the number of all admins.
        admins: u16,
    },
}

impl<'a> Change<'a> {
    /// Decodes a change as [`Self::write`] encodes it.
    ///
    /// # Errors
    /// [`Malformed`] for bytes that [`Self::write`] does not write.
    pub fn read(input: &mut Input<'a>) -> Result<Change<'a>, Malformed> {
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
            _ => return Err(Malformed("unknown kind of change")),
        })
    }

    /// Encodes the change.
    ///
    /// # Errors
    /// [`Malformed`] if a name or a prefix is too long.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), Malformed> {
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
                    return Err(Malformed("the name is too long"));
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
                    return Err(Malformed("the prefix is too long"));
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

/// Returns the number of a role.
pub fn role_code(role: Role) -> u8 {
    match role {
        Role::User => HYBRID_ROLE_USER,
        Role::Admin => HYBRID_ROLE_ADMIN,
    }
}

/// Decodes the number of a role.
///
/// # Errors
/// [`Malformed`] for an unknown role.
pub fn read_role(input: &mut Input<'_>) -> Result<Role, Malformed> {
    match input.u8()? {
        HYBRID_ROLE_USER => Ok(Role::User),
        HYBRID_ROLE_ADMIN => Ok(Role::Admin),
        _ => Err(Malformed("unknown role")),
    }
}

fn read_member(input: &mut Input<'_>) -> Result<MemberId, Malformed> {
    match input.u64()? {
        0 => Err(Malformed("member 0")),
        member => Ok(member),
    }
}
