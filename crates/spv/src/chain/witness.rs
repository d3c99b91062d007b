//! Witness data of blocks: their WTXIDs, and the coinbase that commits to them (BIP141).

use super::types::DETACHED_HEIGHT;
use super::validate::Refused;
use super::{BlockId, ChainError, ChainStore, Network};
use bitcoin::hashes::{Hash, sha256d};
use lineside_spv_proof::{MAX_TRANSACTIONS, Transaction, Tree, hash_pair};
use std::borrow::Cow;

/// Witness data of a block in a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockWitness<'a> {
    /// The chain keeps no witness data.
    NotKept,
    /// The block commits to no witnesses, like all blocks before segwit.
    NoCommitment,
    /// The block commits to this witness data.
    Committed(Committed<'a>),
}

/// WTXIDs of a block, and the proof of their Merkle root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed<'a> {
    /// Leaves of the witness tree in block order and wire byte order: 32 zeros for the coinbase, then WTXIDs.
    pub wtxids: Cow<'a, [[u8; 32]]>,
    /// Witness reserved value: the only item in the witness of the coinbase.
    pub reserved: [u8; 32],
    /// The coinbase without its witness.
    pub coinbase: Cow<'a, [u8]>,
}

/// Witness data of a block that was checked.
#[derive(Clone, Debug)]
pub(super) struct CheckedWitness {
    /// Leaves of the witness tree.
    pub(super) wtxids: Vec<[u8; 32]>,
    /// The reserved value and, after it, the coinbase without its witness, if the block commits to its witnesses.
    pub(super) committed: Option<Vec<u8>>,
    /// True if the coinbase has a commitment and no transaction has a witness, not even the coinbase.
    is_stripped: bool,
}

impl CheckedWitness {
    /// Refuses a block that was received without the witnesses to which it commits. Below the height at which segwit
    /// became active nothing is refused, because an output that looks like a commitment had no meaning there.
    pub(super) fn check_height(&self, network: Network, height: u32) -> Result<(), Refused> {
        let is_active = height != DETACHED_HEIGHT && height >= network.segwit_height();
        if self.is_stripped && is_active {
            return Err(Refused::WitnessesMissing);
        }
        Ok(())
    }
}

/// Collects the witness data of a block, transaction by transaction.
#[derive(Default)]
pub(super) struct WitnessReader {
    wtxids: Vec<[u8; 32]>,
    /// The coinbase without its witness.
    coinbase: Vec<u8>,
    reserved: Option<[u8; 32]>,
    has_witness: bool,
}

impl WitnessReader {
    /// Adds the next transaction of the block: `tx` is the decoded transaction, `raw` its bytes, `txid` its TXID.
    pub(super) fn take(&mut self, tx: &bitcoin::Transaction, raw: &[u8], txid: &[u8; 32]) {
        let base = tx.base_size();
        let has_witness = raw.len() != base;
        self.has_witness |= has_witness;
        if !self.wtxids.is_empty() {
            let wtxid = if has_witness {
                sha256d::Hash::hash(raw).to_byte_array()
            } else {
                *txid
            };
            return self.wtxids.push(wtxid);
        }
        self.wtxids.push([0; 32]);
        if !has_witness {
            self.coinbase = raw.to_vec();
            return;
        }
        // Copies the version, the inputs and outputs, and the lock time, but not the marker, the flag and the witness.
        self.coinbase.extend_from_slice(&raw[..4]);
        self.coinbase.extend_from_slice(&raw[6..6 + base - 8]);
        self.coinbase.extend_from_slice(&raw[raw.len() - 4..]);
        let items = tx.input.first().map(|input| &input.witness);
        let item = items
            .filter(|items| items.len() == 1)
            .and_then(|items| items.nth(0));
        self.reserved = item.and_then(|item| item.try_into().ok());
    }

    /// Checks that the coinbase commits to the witnesses of the block, if it has any.
    pub(super) fn finish(self) -> Result<CheckedWitness, Refused> {
        let coinbase = Transaction::parse(&self.coinbase).ok();
        let commitment = coinbase.and_then(|coinbase| coinbase.witness_commitment());
        let committed = match (commitment, self.has_witness) {
            (None, true) => return Err(Refused::UnexpectedWitness),
            (_, false) => None,
            (Some(commitment), true) => {
                let reserved = self.reserved.ok_or(Refused::WrongWitnessCommitment)?;
                let tree = Tree::new(&self.wtxids).map_err(|_| {
                    Refused::Malformed(format!("a block has at most {MAX_TRANSACTIONS} transactions"))
                })?;
                if hash_pair(&tree.root(), &reserved) != commitment {
                    return Err(Refused::WrongWitnessCommitment);
                }
                Some([&reserved[..], &self.coinbase].concat())
            }
        };
        Ok(CheckedWitness {
            wtxids: self.wtxids,
            committed,
            is_stripped: commitment.is_some() && !self.has_witness,
        })
    }
}

impl ChainStore {
    /// Returns true if the store keeps witness data, which is decided at its creation.
    pub fn keeps_witness(&self) -> bool {
        self.files.witness().is_some()
    }

    /// Returns the witness data of a block, connected or not.
    ///
    /// # Errors
    /// [`ChainError::NoSuchBlock`]
    pub fn witness(&self, id: BlockId) -> Result<BlockWitness<'_>, ChainError> {
        let Some(files) = self.files.witness() else {
            return Ok(BlockWitness::NotKept);
        };
        let missing = || ChainError::NoSuchBlock(id.0);
        let entry = self.entries.get(id.0 as usize).ok_or_else(missing)?;
        let Some((reserved, coinbase)) = files.coinbase(&entry.witness) else {
            return Ok(BlockWitness::NoCommitment);
        };
        Ok(BlockWitness::Committed(Committed {
            wtxids: Cow::Borrowed(files.wtxids(entry.first, entry.count)),
            reserved: *reserved,
            coinbase: Cow::Borrowed(coinbase),
        }))
    }
}
