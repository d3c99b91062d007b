//! Changes of who may do what. Each admin asks for the same change until the same time; enough of them make it.

use super::ask::{Given, given, write};
use super::init::rights;
use super::key;
use super::member::Member;
use clap::{Args, Subcommand};
use lineside_hybrid::change::{self, Rights, Role};
use lineside_hybrid::node::unix_ms;
use lineside_hybrid::request::{Body, MemberId};

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// Ask for a change of members, keys, rules, nodes or the quorum, or vote for it: other admins give the same change and
/// the same --until-ms.
#[derive(Args)]
pub struct Change {
    #[command(flatten)]
    member: Member,
    /// Milliseconds since 1970 until when votes count; by default the end of tomorrow, UTC.
    #[arg(long)]
    until_ms: Option<u64>,
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A member that there never was.
    AddMember {
        /// Its number.
        number: MemberId,
        /// Its name, for people.
        name: String,
        /// Its public key: CURVE:HEX, or a key's file.
        public: String,
        /// It votes on changes.
        #[arg(long)]
        admin: bool,
    },
    /// A member and all its keys count no more.
    RevokeMember {
        /// Which.
        number: MemberId,
    },
    /// One more key of a member; its own members may add without votes.
    AddKey {
        /// Whose.
        number: MemberId,
        /// The key's number, above all that the member ever had.
        key_number: u16,
        /// The public key: CURVE:HEX, or a key's file.
        public: String,
    },
    /// A key counts no more.
    RevokeKey {
        /// Whose.
        number: MemberId,
        /// Which.
        key_number: u16,
    },
    /// Rights below a prefix.
    Rule {
        /// The prefix; \xNN is any byte.
        #[arg(value_parser = given)]
        prefix: Given,
        /// Whose; 0: everyone's.
        number: MemberId,
        /// r, w, rw; - takes the rule away.
        #[arg(value_parser = rights, allow_hyphen_values = true)]
        rights: Rights,
    },
    /// A node that may order messages.
    AddNode {
        /// Its number.
        node: u32,
        /// Its public key: CURVE:HEX, or a key's file.
        public: String,
    },
    /// A node's messages count no more.
    RevokeNode {
        /// Which.
        node: u32,
    },
    /// How many admins must ask for a change.
    Quorum {
        /// So many.
        admins: u16,
    },
}

impl What {
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
        // The same for all admins who ask on one day.
        let until_ms = self.until_ms.unwrap_or_else(|| (unix_ms() / DAY_MS + 2) * DAY_MS);
        let change = self.what.change()?;
        write(&self.member, Body::Change { until_ms, change }, as_json)
    }
}
