//! Block attestations by members: the trust anchor for a node that starts from a snapshot and has only the genesis.

use super::block::Hash;
use super::change::Role;
use super::genesis::Genesis;
use super::request::{DatabaseId, MemberId, SIGNATURE_BYTES};
use super::sign::{ATTESTATION_TAG, Signer, digest, is_signed};
use lineside_verify::{Curve, PublicKey, Verifier};
use lineside_wire::MemberWord as Layout;
use std::collections::BTreeSet;

/// Bytes of an attestation.
pub const ATTESTATION_BYTES: usize = size_of::<Layout>();

/// A member's attestation of a block: its signature over the block's number and hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attestation {
    /// Number of the member.
    pub member: MemberId,
    /// Number of the block.
    pub number: u64,
    /// Hash of the block.
    pub hash: Hash,
    /// Signature of the member.
    pub signature: [u8; SIGNATURE_BYTES],
}

impl Attestation {
    /// Signs the attestation of a block.
    pub fn sign(
        database: &DatabaseId,
        member: MemberId,
        number: u64,
        hash: Hash,
        signer: &dyn Signer,
    ) -> Attestation {
        let signature = signer.sign(&attestation_digest(
            signer.curve(),
            database,
            member,
            number,
            &hash,
        ));
        Attestation {
            member,
            number,
            hash,
            signature,
        }
    }

    /// Returns true if the member's key has signed the attestation.
    pub fn is_signed_by(&self, database: &DatabaseId, key: &PublicKey, verifier: &Verifier) -> bool {
        let digest = attestation_digest(key.curve(), database, self.member, self.number, &self.hash);
        is_signed(&digest, key, &self.signature, verifier)
    }

    /// Encodes the attestation.
    pub fn to_bytes(&self) -> [u8; ATTESTATION_BYTES] {
        let [r, s] = zerocopy::transmute!(self.signature);
        zerocopy::transmute!(Layout {
            member: self.member.into(),
            number: self.number.into(),
            hash: self.hash,
            r,
            s,
        })
    }

    /// Decodes an attestation.
    pub fn from_bytes(bytes: &[u8; ATTESTATION_BYTES]) -> Attestation {
        let layout: Layout = zerocopy::transmute!(*bytes);
        Attestation {
            member: layout.member.get(),
            number: layout.number.get(),
            hash: layout.hash,
            signature: zerocopy::transmute!([layout.r, layout.s]),
        }
    }
}

fn attestation_digest(
    curve: Curve,
    database: &DatabaseId,
    member: MemberId,
    number: u64,
    hash: &Hash,
) -> Hash {
    let (member, number) = (member.to_be_bytes(), number.to_be_bytes());
    digest(
        curve,
        &[ATTESTATION_TAG, database, &member, &number, hash].concat(),
    )
}

/// Reason why attestations are not sufficient.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttestationError {
    /// An attestation is for another block.
    #[error(
        "member {0} has attested another block than the snapshot's; ask the member for a statement about the \
         snapshot's block (`lineside hybrid vouch`)"
    )]
    OtherBlock(MemberId),
    /// The member is not an admin of the genesis.
    #[error("member {0} is not an admin of the genesis; give only statements of admins of the genesis")]
    NotAdmin(MemberId),
    /// The signature is not by the key in the genesis.
    #[error(
        "the attestation of member {0} is not signed for this database with the member's key in the genesis"
    )]
    NotSigned(MemberId),
    /// Fewer admins than the quorum have attested the block.
    #[error(
        "{attested} admins of the genesis have attested the block, but the quorum is {quorum}; give statements of more \
         admins (`lineside hybrid vouch`)"
    )]
    TooFew {
        /// Number of admins who have attested.
        attested: usize,
        /// Number of admins who must attest the block.
        quorum: u16,
    },
}

/// Checks that a quorum of the genesis' admins has attested this block, each with its first key. Later changes of
/// admins and quorum are not considered: a node that needs attestations does not have the ledger yet.
///
/// # Errors
/// Returns the error of the first wrong attestation, or [`AttestationError::TooFew`].
pub fn check_attestations(
    genesis: &Genesis,
    database: &DatabaseId,
    (number, hash): (u64, &Hash),
    attestations: &[Attestation],
    verifier: &Verifier,
) -> Result<(), AttestationError> {
    let mut members = BTreeSet::new();
    for attestation in attestations {
        let member = attestation.member;
        if (attestation.number, &attestation.hash) != (number, hash) {
            return Err(AttestationError::OtherBlock(member));
        }
        let first = genesis.members.iter().find(|first| first.member == member);
        let first = first
            .filter(|first| first.role == Role::Admin)
            .ok_or(AttestationError::NotAdmin(member))?;
        let key = first.key.key().ok_or(AttestationError::NotSigned(member))?;
        if !attestation.is_signed_by(database, &key, verifier) {
            return Err(AttestationError::NotSigned(member));
        }
        members.insert(member);
    }
    match members.len() {
        attested if attested < usize::from(genesis.quorum).max(1) => Err(AttestationError::TooFew {
            attested,
            quorum: genesis.quorum,
        }),
        _ => Ok(()),
    }
}
