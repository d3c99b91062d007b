//! `lineside hybrid change`: changes of members, keys, rights and nodes. A change is made when a quorum of admins has
//! requested the same change with the same deadline.

use super::ask::{BytesArg, parse_bytes, write};
use super::init::rights;
use super::key;
use super::member::Member;
use clap::{Args, Subcommand};
use lineside_client::hybrid::change::{self, Rights, Role};
use lineside_client::hybrid::request::{Body, MemberId};
use lineside_client::hybrid::signing::unix_ms;

/// Milliseconds in a day.
const DAY_MS: u64 = 86_400_000;

/// Request a change of members, keys, rules, nodes or the quorum, or vote for one.
///
/// An admin votes for a change by running the same command with the same --until-ms. The change is made when as many
/// admins as the quorum have requested it.
#[derive(Args)]
pub struct Change {
    #[command(flatten)]
    member: Member,
    /// Deadline for votes, in milliseconds since 1970 [default: end of tomorrow, UTC]
    #[arg(long, value_name = "MS")]
    until_ms: Option<u64>,
    #[command(subcommand)]
    what: ProposedChange,
}

#[derive(Subcommand)]
enum ProposedChange {
    /// Add a member, with a number that no member ever had.
    AddMember {
        /// Number of the new member.
        number: MemberId,
        /// Name of the member, for people.
        name: String,
        /// Public key of the member: CURVE:HEX, or a key file.
        public: String,
        /// Make the member an admin, who votes on changes.
        #[arg(long)]
        admin: bool,
    },
    /// Revoke a member with all its keys.
    RevokeMember {
        /// Number of the member.
        number: MemberId,
    },
    /// Add a key to a member; a member may add a key to itself without votes.
    AddKey {
        /// Number of the member.
        number: MemberId,
        /// Number of the key, higher than those of all keys that the member ever had.
        key_number: u16,
        /// Public key: CURVE:HEX, or a key file.
        public: String,
    },
    /// Revoke a key of a member.
    RevokeKey {
        /// Number of the member.
        number: MemberId,
        /// Number of the key.
        key_number: u16,
    },
    /// Set the rights of a member, or of everyone, on keys with a prefix.
    Rule {
        /// Prefix of the keys; \xNN is the byte with the hex value NN.
        #[arg(value_parser = parse_bytes)]
        prefix: BytesArg,
        /// Number of the member; 0 for everyone.
        number: MemberId,
        /// Rights: r (read), w (write) or rw; - removes the rule.
        #[arg(value_parser = rights, allow_hyphen_values = true)]
        rights: Rights,
    },
    /// Add a node; the database then accepts messages that this node signs.
    AddNode {
        /// Number of the new node.
        node: u32,
        /// Public key of the node: CURVE:HEX, or a key file.
        public: String,
    },
    /// Revoke a node; the database then no longer accepts messages that this node signs.
    RevokeNode {
        /// Number of the node.
        node: u32,
    },
    /// Set the number of admins that must request a change.
    Quorum {
        /// New number of admins.
        admins: u16,
    },
}

impl ProposedChange {
    fn change(&self) -> anyhow::Result<change::Change<'_>> {
        use change::Change as To;
        Ok(match self {
            Self::AddMember {
                number,
                name,
                public,
                admin,
            } => To::AddMember {
                member: *number,
                name,
                role: if *admin { Role::Admin } else { Role::User },
                key: key::public(public)?,
            },
            Self::RevokeMember { number } => To::RevokeMember { member: *number },
            Self::AddKey {
                number,
                key_number,
                public,
            } => To::AddKey {
                member: *number,
                number: *key_number,
                key: key::public(public)?,
            },
            Self::RevokeKey { number, key_number } => To::RevokeKey {
                member: *number,
                number: *key_number,
            },
            Self::Rule {
                prefix,
                number,
                rights,
            } => To::SetRule {
                prefix: &prefix.0,
                member: *number,
                rights: *rights,
            },
            Self::AddNode { node, public } => To::AddNode {
                node: *node,
                key: key::public(public)?,
            },
            Self::RevokeNode { node } => To::RevokeNode { node: *node },
            Self::Quorum { admins } => To::SetQuorum { admins: *admins },
        })
    }
}

impl Change {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        // All admins who request the change on the same day get the same deadline.
        let until_ms = self.until_ms.unwrap_or_else(|| (unix_ms() / DAY_MS + 2) * DAY_MS);
        let change = self.what.change()?;
        write(&self.member, Body::Change { until_ms, change }, as_json)
    }
}
