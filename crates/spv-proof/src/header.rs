//! Block headers: 80 bytes, their hash, and the proof of work in it.

use crate::hash::sha256d_80;
use crate::{Hash, Network, ProofError, U256, decode_target};

/// Length of a header in bytes.
pub const HEADER_BYTES: usize = 80;

/// Header of a block. Numbers are little-endian in its 80 bytes; hashes are in wire order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Version, or bits that signal readiness for a change of rules (BIP9).
    pub version: i32,
    /// Hash of the parent's header.
    pub previous: Hash,
    /// Root of the Merkle tree over the block's TXIDs.
    pub merkle_root: Hash,
    /// Seconds since 1970, as claimed by the miner.
    pub time: u32,
    /// Target in compact form ([`decode_target`]).
    pub bits: u32,
    /// Number chosen by the miner so that the hash is at most the target.
    pub nonce: u32,
}

impl Header {
    /// Reads a header. Any 80 bytes are accepted; [`Header::check_proof_of_work`] checks the header.
    pub fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Header {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let hash = |at: usize| core::array::from_fn(|index| bytes[at + index]);
        Header {
            version: word(0) as i32,
            previous: hash(4),
            merkle_root: hash(36),
            time: word(68),
            bits: word(72),
            nonce: word(76),
        }
    }

    /// Writes the header as it is hashed and sent.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.version.to_le_bytes());
        bytes[4..36].copy_from_slice(&self.previous);
        bytes[36..68].copy_from_slice(&self.merkle_root);
        bytes[68..72].copy_from_slice(&self.time.to_le_bytes());
        bytes[72..76].copy_from_slice(&self.bits.to_le_bytes());
        bytes[76..].copy_from_slice(&self.nonce.to_le_bytes());
        bytes
    }

    /// Returns the block's hash.
    pub fn hash(&self) -> Hash {
        sha256d_80(&self.to_bytes())
    }

    /// Returns the target; `None` if `bits` does not encode one.
    pub fn target(&self) -> Option<U256> {
        decode_target(self.bits)
    }

    /// Returns the expected number of hashes for a header with these `bits`; 0 if `bits` does not encode a target.
    pub fn work(&self) -> U256 {
        self.target().map_or(U256::ZERO, U256::work_of_target)
    }

    /// Checks that the header's target is allowed on `network` at all, and that its hash is at most the target. Only
    /// a chain of headers can check that the target is the one required at this height.
    ///
    /// # Errors
    /// [`ProofError::InvalidTarget`], [`ProofError::WrongProofOfWork`].
    pub fn check_proof_of_work(&self, network: Network) -> Result<(), ProofError> {
        self.check_hash(&self.hash(), network)
    }

    /// Checks the proof of work of a header whose hash is already known.
    pub(crate) fn check_hash(&self, hash: &Hash, network: Network) -> Result<(), ProofError> {
        let target = self.target().filter(|target| *target <= network.limit());
        let target = target.ok_or(ProofError::InvalidTarget)?;
        if U256::from_le_bytes(hash) > target {
            return Err(ProofError::WrongProofOfWork);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_written_as_it_was_read() {
        let bytes: [u8; 80] = core::array::from_fn(|index| (index * 41 + 3) as u8);
        let header = Header::from_bytes(&bytes);
        assert_eq!(header.to_bytes(), bytes);
        let oracle: bitcoin::block::Header = bitcoin::consensus::deserialize(&bytes).unwrap();
        assert_eq!(header.hash(), *AsRef::<[u8; 32]>::as_ref(&oracle.block_hash()));
        assert_eq!((header.time, header.nonce), (oracle.time, oracle.nonce));
    }

    #[test]
    fn a_target_of_another_network_and_a_hash_above_the_target_are_refused() {
        let genesis = Network::Regtest.genesis();
        assert_eq!(genesis.check_proof_of_work(Network::Regtest), Ok(()));
        assert_eq!(
            genesis.check_proof_of_work(Network::Mainnet),
            Err(ProofError::InvalidTarget)
        );
        let harder = Header {
            bits: 0x1d00_ffff,
            ..genesis
        };
        assert_eq!(
            harder.check_proof_of_work(Network::Mainnet),
            Err(ProofError::WrongProofOfWork)
        );
        let none = Header { bits: 0, ..genesis };
        assert_eq!(
            none.check_proof_of_work(Network::Regtest),
            Err(ProofError::InvalidTarget)
        );
        assert_eq!(none.work(), U256::ZERO);
    }
}
