//! Proofs that need no node: a block's header, and the path from its state root to a key's cell, or to where it would
//! be.

use crate::block::{HEADER_BYTES, Hash, Header};
use crate::codec::{Input, Malformed, Output};
use crate::map::{Proof, ProofError};
use crate::request::Version;
use crate::state::{value_content, value_place};

/// What a key had at the end of a block, or that it had nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateProof {
    /// The block's header: its hash is what the checker knows already.
    pub header: Header,
    /// The cell's version; [`Version::ABSENT`]: there is none.
    pub version: Version,
    /// The path.
    pub path: Proof,
}

/// Why a proof shows nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotProven {
    /// Its bytes cannot be read.
    #[error("proof: {0}")]
    Malformed(#[from] Malformed),
    /// The path does not lead to the state root.
    #[error("proof: {0}")]
    Path(#[from] ProofError),
    /// The header is not of that block.
    #[error("proof: it is of another block than the one whose hash was given")]
    OtherBlock,
    /// The map has another value there, another version, or none, or it has one.
    #[error("proof: the state has something else at this key")]
    OtherCell,
}

impl StateProof {
    /// Its bytes: header, version, path. The hash of a cell, with which the path of one ends, is left out: who checks
    /// has the value, and makes it.
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

    /// From its bytes, and the value that it is said to show.
    ///
    /// # Errors
    /// [`NotProven`]; [`NotProven::OtherCell`] where it is of a cell and there is no value, or the other way round.
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

    /// Whether bytes are those of some proof, of whatever value.
    pub fn is_written_well(bytes: &[u8]) -> bool {
        let mut input = Input(bytes);
        let block = input.take(HEADER_BYTES).and_then(|_| input.u64());
        let absent = block.and_then(|block| Ok(block == 0 && input.u32()? == 0));
        // What the value is does not show in the bytes: any will do.
        absent.is_ok_and(|absent| Self::decode(bytes, (!absent).then_some(&[])).is_ok())
    }

    /// Whether it shows, of the block with this hash, that `key` had `value`, or nothing.
    ///
    /// # Errors
    /// [`NotProven`].
    pub fn check(&self, block_hash: &Hash, key: &[u8], value: Option<&[u8]>) -> Result<(), NotProven> {
        if self.header.hash() != *block_hash {
            return Err(NotProven::OtherBlock);
        }
        let shown = self.path.check(&self.header.state_root, &value_place(key))?;
        let claimed = value.map(|value| value_content(self.version, value));
        let consistent = value.is_some() || self.version == Version::ABSENT;
        match shown == claimed && consistent {
            true => Ok(()),
            false => Err(NotProven::OtherCell),
        }
    }
}
