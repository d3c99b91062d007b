//! Checks of a block before the store keeps any data of it.

use super::network::Network;
use super::witness::{CheckedWitness, WitnessReader};
use bitcoin::block::Header;
use bitcoin::consensus::encode;
use bitcoin::hashes::{Hash, HashEngine, sha256d};
use bitcoin::pow::Target;
use bitcoin::{Transaction, VarInt};
use lineside_spv_proof::RuleError;

/// Reason why a block was refused. The store keeps no data of a refused block.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// The bytes are not a block.
    #[error("malformed block: {0}")]
    Malformed(String),
    /// There are bytes after the end of a complete block.
    #[error("{0} trailing bytes after the block")]
    TrailingBytes(usize),
    /// The header's Merkle root is not that of the transactions.
    #[error("wrong Merkle root: the header does not commit to these transactions")]
    WrongMerkleRoot,
    /// The Merkle root is right, but two nodes with the same parent are equal, so other lists of transactions have the
    /// same root.
    #[error("mutated Merkle tree: two sibling nodes are equal (CVE-2012-2459)")]
    MutatedTree,
    /// The first transaction is not a coinbase. The list may consist of inner nodes of the Merkle tree instead of
    /// transactions (CVE-2017-12842).
    #[error("the first transaction is not a coinbase")]
    NoCoinbase,
    /// The block's hash is above the target that its header claims.
    #[error("wrong proof of work: the block's hash is above its target")]
    WrongProofOfWork,
    /// The header claims a target easier than its network allows.
    #[error("the target is above the proof-of-work limit of {0}")]
    TargetAboveLimit(Network),
    /// The header breaks a rule of the network that depends on its ancestors: its target is not the required one at its
    /// height, or its time is wrong.
    #[error("at height {height}: {source}")]
    Rule {
        /// The block's height.
        height: u32,
        /// The broken rule.
        source: RuleError,
    },
    /// The block has no parent and is not the first block of the network.
    #[error(
        "it has no parent and is not the genesis block of {network}, {genesis}: it belongs to another network",
        network = .0,
        genesis = genesis_of(*.0)
    )]
    OtherGenesis(Network),
    /// The parent is not in the store.
    #[error("its parent {} is not in the chain store", display_hash(.0))]
    UnknownParent([u8; 32]),
    /// The coinbase commits to other witnesses, or its own witness is not a single value of 32 bytes.
    #[error("wrong witness commitment: the coinbase does not commit to these witnesses")]
    WrongWitnessCommitment,
    /// A transaction has a witness, but the coinbase commits to none.
    #[error("unexpected witness: the coinbase commits to no witnesses")]
    UnexpectedWitness,
    /// The coinbase commits to witnesses, but the block has none.
    #[error("the block was received without the witnesses to which its coinbase commits")]
    WitnessesMissing,
    /// A store with witness data received a block whose witnesses were not checked.
    #[error("the block's witnesses were not checked")]
    WitnessesNotChecked,
    /// The store cannot write, or cannot hold more blocks.
    #[error("the chain store cannot store the block: {0}")]
    Storage(#[source] std::io::Error),
}

/// Returns a block hash in display order (reversed).
pub(super) fn display_hash(hash: &[u8; 32]) -> String {
    bitcoin::BlockHash::from_byte_array(*hash).to_string()
}

fn genesis_of(network: Network) -> String {
    display_hash(&network.rules().genesis().hash())
}

/// A block that passed every check that does not depend on other blocks.
///
/// Checking is the slow part of accepting a block and needs no store, so it can run on other threads.
#[derive(Clone, Debug)]
pub struct CheckedBlock {
    pub(super) header: Header,
    pub(super) hash: [u8; 32],
    pub(super) txids: Vec<[u8; 32]>,
    pub(super) network: Network,
    /// Witness data of the block; `None` if the witnesses were not checked.
    pub(super) witness: Option<CheckedWitness>,
}

impl CheckedBlock {
    /// Decodes `raw` and checks its proof of work against `network`'s limit, its Merkle root and its Merkle tree.
    ///
    /// # Errors
    /// The first fault of the block.
    pub fn check(raw: &[u8], network: Network) -> Result<CheckedBlock, Refused> {
        Self::check_all(raw, network, None)
    }

    /// Checks a block like [`CheckedBlock::check`], and also that the coinbase commits to the block's witnesses, for a
    /// chain that keeps witness data.
    ///
    /// # Errors
    /// The first fault of the block.
    pub fn check_with_witness(raw: &[u8], network: Network) -> Result<CheckedBlock, Refused> {
        Self::check_all(raw, network, Some(WitnessReader::default()))
    }

    fn check_all(
        raw: &[u8],
        network: Network,
        mut witness: Option<WitnessReader>,
    ) -> Result<CheckedBlock, Refused> {
        let (header, used) = partial::<Header>(raw)?;
        let hash = check_work(&header, network)?;
        let txids = decode_txids(&raw[used..], witness.as_mut())?;
        let (root, mutated) = merkle_root(&txids);
        if root != header.merkle_root.to_byte_array() {
            return Err(Refused::WrongMerkleRoot);
        }
        if mutated {
            return Err(Refused::MutatedTree);
        }
        Ok(CheckedBlock {
            header,
            hash,
            txids,
            network,
            witness: witness.map(WitnessReader::finish).transpose()?,
        })
    }

    /// Returns the block's hash, in wire byte order.
    pub fn hash(&self) -> [u8; 32] {
        self.hash
    }

    /// Returns the block's TXIDs in order, in wire byte order.
    pub fn txids(&self) -> &[[u8; 32]] {
        &self.txids
    }
}

/// Checks the header's target and proof of work. Returns the block's hash.
pub(super) fn check_work(header: &Header, network: Network) -> Result<[u8; 32], Refused> {
    let target = Target::from_compact(header.bits);
    // A valid target has exactly one encoding. The comparison also refuses negative and too large targets.
    if target.to_compact_lossy() != header.bits {
        return Err(Refused::Malformed(format!(
            "nBits {:#010x} is not a valid target",
            header.bits.to_consensus()
        )));
    }
    if target > network.easiest_target() {
        return Err(Refused::TargetAboveLimit(network));
    }
    let hash = header.block_hash();
    if !target.is_met_by(hash) {
        return Err(Refused::WrongProofOfWork);
    }
    Ok(hash.to_byte_array())
}

fn partial<T: encode::Decodable>(bytes: &[u8]) -> Result<(T, usize), Refused> {
    encode::deserialize_partial(bytes).map_err(|e| Refused::Malformed(e.to_string()))
}

/// Decodes all transactions after a header and returns their TXIDs; `witness` collects their witness data.
fn decode_txids(mut body: &[u8], mut witness: Option<&mut WitnessReader>) -> Result<Vec<[u8; 32]>, Refused> {
    let (count, used) = partial::<VarInt>(body)?;
    body = &body[used..];
    if count.0 == 0 {
        return Err(Refused::Malformed("the block has no transactions".into()));
    }
    // The smallest transaction has 10 bytes, so a false count reserves at most a tenth of the block's length.
    let mut txids = Vec::with_capacity(count.0.min(body.len() as u64 / 10) as usize);
    let mut coinbase_first = false;
    for position in 0..count.0 {
        let (tx, used) = partial::<Transaction>(body)?;
        if position == 0 {
            coinbase_first = tx.is_coinbase();
        }
        let txid = txid_of(&tx, &body[..used]);
        if let Some(witness) = witness.as_deref_mut() {
            witness.take(&tx, &body[..used], &txid);
        }
        txids.push(txid);
        body = &body[used..];
    }
    if !body.is_empty() {
        return Err(Refused::TrailingBytes(body.len()));
    }
    if !coinbase_first {
        return Err(Refused::NoCoinbase);
    }
    Ok(txids)
}

/// Returns the TXID of a transaction: the hash of its bytes without marker, flag and witnesses.
fn txid_of(tx: &Transaction, raw: &[u8]) -> [u8; 32] {
    let base = tx.base_size();
    if raw.len() == base {
        return sha256d::Hash::hash(raw).to_byte_array();
    }
    let mut engine = sha256d::Hash::engine();
    engine.input(&raw[..4]);
    engine.input(&raw[6..6 + base - 8]);
    engine.input(&raw[raw.len() - 4..]);
    sha256d::Hash::from_engine(engine).to_byte_array()
}

/// Returns the Merkle root over `txids`, and true if two equal nodes form a pair on any level (CVE-2012-2459).
///
/// In a level with an odd number of nodes the last node is its own sibling; this does not count as an equal pair. The
/// root of an empty list is all zeros.
pub fn merkle_root(txids: &[[u8; 32]]) -> ([u8; 32], bool) {
    let mut level = txids.to_vec();
    let mut mutated = false;
    while level.len() > 1 {
        mutated |= level.chunks_exact(2).any(|pair| pair[0] == pair[1]);
        let half = level.len().div_ceil(2);
        for i in 0..half {
            let left = level[2 * i];
            let right = *level.get(2 * i + 1).unwrap_or(&left);
            let mut both = [0u8; 64];
            both[..32].copy_from_slice(&left);
            both[32..].copy_from_slice(&right);
            level[i] = sha256d::Hash::hash(&both).to_byte_array();
        }
        level.truncate(half);
    }
    (level.first().copied().unwrap_or_default(), mutated)
}
