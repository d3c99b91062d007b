//! Proofs that can be checked without a node: a block's header, and the path from its state root to the cell of a
//! key, or to the place where the cell would be.

use super::block::{HEADER_BYTES, Hash, Header};
use super::codec::{Input, Malformed, Output};
use super::map_proof::{Proof, ProofError};
use super::request::Version;
use lineside_verify::hash::keccak256;

/// Proof of the value of a key at the end of a block, or of its absence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateProof {
    /// Header of the block, whose hash the verifier already knows.
    pub header: Header,
    /// Version of the cell; [`Version::ABSENT`] if the key has no value.
    pub version: Version,
    /// Path from the state root.
    pub path: Proof,
}

/// Reason why a state proof is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotProven {
    /// The bytes cannot be read.
    #[error("proof: {0}")]
    Malformed(#[from] Malformed),
    /// The path does not lead to the state root.
    #[error("proof: {0}")]
    Path(#[from] ProofError),
    /// The header is not that of the given block.
    #[error("proof: it is for another block than the one whose hash was given")]
    OtherBlock,
    /// At this key the state has another value, another version, or no value, or has a value although the proof claims
    /// that there is none.
    #[error("proof: the state has another value or version at this key")]
    OtherCell,
}

impl StateProof {
    /// Encodes header, version and path. If the path ends at the key's own leaf, the leaf's hash is left out, because
    /// the verifier has the value and computes it.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(1024);
        out.put(&self.header.to_bytes());
        out.u64(self.version.block);
        out.u32(self.version.index);
        out.put(&self.path.encode());
        if self.version != Version::ABSENT {
            out.truncate(out.len() - size_of::<Hash>());
        }
        out
    }

    /// Decodes a proof together with the value that it is claimed to show.
    ///
    /// # Errors
    /// [`NotProven`]. In particular, [`NotProven::OtherCell`] if the proof shows a value and `value` is `None`, or if
    /// the proof shows absence and `value` is given.
    pub fn decode(bytes: &[u8], value: Option<&[u8]>) -> Result<StateProof, NotProven> {
        let mut input = Input(bytes);
        let header = Header::from_bytes(&input.array::<HEADER_BYTES>()?);
        let version = Version {
            block: input.u64()?,
            index: input.u32()?,
        };
        let mut path = input.0.to_vec();
        match (version == Version::ABSENT, value) {
            (true, None) => {}
            (false, Some(value)) => path.put(&value_content(version, value)),
            _ => return Err(NotProven::OtherCell),
        }
        let path = Proof::decode(&path)?;
        Ok(StateProof {
            header,
            version,
            path,
        })
    }

    /// Returns true if the bytes are the encoding of a proof, whatever value it shows.
    pub fn is_written_well(bytes: &[u8]) -> bool {
        let mut input = Input(bytes);
        let block = input.take(HEADER_BYTES).and_then(|_| input.u64());
        let absent = block.and_then(|block| Ok(block == 0 && input.u32()? == 0));
        // The encoding does not depend on the value, so an empty value serves here.
        absent.is_ok_and(|absent| Self::decode(bytes, (!absent).then_some(&[])).is_ok())
    }

    /// Verifies that `key` had `value`, or no value, at the end of the block with this hash.
    ///
    /// # Errors
    /// [`NotProven`].
    pub fn check(&self, block_hash: &Hash, key: &[u8], value: Option<&[u8]>) -> Result<(), NotProven> {
        if self.header.hash() != *block_hash {
            return Err(NotProven::OtherBlock);
        }
        let proven_value = self.path.check(&self.header.state_root, &value_place(key))?;
        let claimed = value.map(|value| value_content(self.version, value));
        let consistent = value.is_some() || self.version == Version::ABSENT;
        match proven_value == claimed && consistent {
            true => Ok(()),
            false => Err(NotProven::OtherCell),
        }
    }
}

/// Returns the place of a key's value in the authenticated map.
pub fn value_place(key: &[u8]) -> Hash {
    keccak256(&[b"v", key].concat())
}

/// Returns the content that the authenticated map has for a key's value.
pub fn value_content(version: Version, value: &[u8]) -> Hash {
    let mut content = Vec::with_capacity(12 + value.len());
    value_leaf(&mut content, version, value);
    keccak256(&content)
}

/// Writes the bytes whose hash is the content of a key's value.
pub fn value_leaf(out: &mut Vec<u8>, version: Version, value: &[u8]) {
    out.u64(version.block);
    out.u32(version.index);
    out.put(value);
}
