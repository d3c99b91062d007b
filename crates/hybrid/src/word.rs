//! Members' words for blocks: what a node believes that begins with a snapshot and knows the genesis alone.

use crate::block::Hash;
use crate::change::Role;
use crate::genesis::Genesis;
use crate::request::{DatabaseId, MemberId, SIGNATURE_BYTES};
use crate::sign::{Signer, WORD_TAG, digest, is_signed};
use lineside_verify::{Curve, PublicKey, Verifier};
use lineside_wire::MemberWord as Layout;
use std::collections::BTreeSet;

/// Bytes of a member's word.
pub const WORD_BYTES: usize = size_of::<Layout>();

/// A member's word for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberWord {
    /// Whose.
    pub member: MemberId,
    /// The block's number.
    pub number: u64,
    /// The block's hash.
    pub hash: Hash,
    /// The member's signature of it.
    pub signature: [u8; SIGNATURE_BYTES],
}

impl MemberWord {
    /// A member's word for a block.
    pub fn sign(
        database: &DatabaseId,
        member: MemberId,
        number: u64,
        hash: Hash,
        signer: &dyn Signer,
    ) -> MemberWord {
        let signature = signer.sign(&word_digest(signer.curve(), database, member, number, &hash));
        MemberWord {
            member,
            number,
            hash,
            signature,
        }
    }

    /// Whether the member's key has signed it.
    pub fn is_signed_by(&self, database: &DatabaseId, key: &PublicKey, verifier: &Verifier) -> bool {
        let digest = word_digest(key.curve(), database, self.member, self.number, &self.hash);
        is_signed(&digest, key, &self.signature, verifier)
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; WORD_BYTES] {
        let [r, s] = zerocopy::transmute!(self.signature);
        zerocopy::transmute!(Layout {
            member: self.member.into(),
            number: self.number.into(),
            hash: self.hash,
            r,
            s,
        })
    }

    /// From its bytes.
    pub fn from_bytes(bytes: &[u8; WORD_BYTES]) -> MemberWord {
        let word: Layout = zerocopy::transmute!(*bytes);
        MemberWord {
            member: word.member.get(),
            number: word.number.get(),
            hash: word.hash,
            signature: zerocopy::transmute!([word.r, word.s]),
        }
    }
}

fn word_digest(curve: Curve, database: &DatabaseId, member: MemberId, number: u64, hash: &Hash) -> Hash {
    let (member, number) = (member.to_be_bytes(), number.to_be_bytes());
    digest(curve, &[WORD_TAG, database, &member, &number, hash].concat())
}

/// Why words are not enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordError {
    /// Of another block.
    #[error("member {0} speaks of another block")]
    OtherBlock(MemberId),
    /// Not an admin of the genesis.
    #[error("member {0} is not an admin of the genesis")]
    NotAdmin(MemberId),
    /// Not signed by the key that the genesis has.
    #[error("not signed by the key that the genesis has of member {0}, for this database")]
    NotSigned(MemberId),
    /// Too few.
    #[error("{words} admins of the genesis have given their word, {quorum} are a quorum")]
    TooFew {
        /// How many have.
        words: usize,
        /// How many must.
        quorum: u16,
    },
}

/// Whether so many admins of the genesis as its quorum have given their word for this block, each by its first key.
/// What has become of admins and quorum since then only the ledger says, which who needs words does not have.
///
/// # Errors
/// [`WordError`]: the first word that is wrong, or that there are too few.
pub fn check_words(
    genesis: &Genesis,
    database: &DatabaseId,
    (number, hash): (u64, &Hash),
    words: &[MemberWord],
    verifier: &Verifier,
) -> Result<(), WordError> {
    let mut members = BTreeSet::new();
    for word in words {
        let member = word.member;
        if (word.number, &word.hash) != (number, hash) {
            return Err(WordError::OtherBlock(member));
        }
        let first = genesis.members.iter().find(|first| first.member == member);
        let first = first
            .filter(|first| first.role == Role::Admin)
            .ok_or(WordError::NotAdmin(member))?;
        let key = first.key.key().ok_or(WordError::NotSigned(member))?;
        if !word.is_signed_by(database, &key, verifier) {
            return Err(WordError::NotSigned(member));
        }
        members.insert(member);
    }
    match members.len() {
        words if words < usize::from(genesis.quorum).max(1) => Err(WordError::TooFew {
            words,
            quorum: genesis.quorum,
        }),
        _ => Ok(()),
    }
}
