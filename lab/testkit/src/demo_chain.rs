//! Seeded regtest chain in the real block format, with valid proof of work, for demonstrations and tests.

use crate::Random;
use bitcoin::absolute::LockTime;
use bitcoin::block::{Header, Version};
use bitcoin::consensus::encode::{VarInt, serialize};
use bitcoin::hashes::Hash;
use bitcoin::pow::{CompactTarget, Target};
use bitcoin::transaction::Version as TxVersion;
use bitcoin::{
    Amount, BlockHash, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxMerkleNode, TxOut, Witness,
    WitnessMerkleNode, Wtxid,
};

/// Compact form of the difficulty of every regtest block.
const BITS: u32 = 0x207f_ffff;

/// Generated block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemoBlock {
    /// Serialised block, in the form of a block file and of the network.
    pub raw: Vec<u8>,
    /// Block hash, in wire byte order.
    pub hash: [u8; 32],
    /// Merkle root, in wire byte order.
    pub root: [u8; 32],
    /// TXIDs in block order, in wire byte order.
    pub txids: Vec<[u8; 32]>,
}

impl DemoBlock {
    /// Returns the block with another target (in compact form) and time, and with a new proof of work.
    #[must_use]
    pub fn mined_again(&self, bits: u32, time: u32) -> DemoBlock {
        let mut block = self.clone();
        let (header, _) = block.raw.split_at_mut(80);
        header[68..72].copy_from_slice(&time.to_le_bytes());
        header[72..76].copy_from_slice(&bits.to_le_bytes());
        let target = Target::from_compact(CompactTarget::from_consensus(bits));
        for nonce in 0u32.. {
            header[76..].copy_from_slice(&nonce.to_le_bytes());
            let hash = BlockHash::hash(header);
            if target.is_met_by(hash) {
                block.hash = hash.to_byte_array();
                break;
            }
        }
        block
    }
}

/// Endless iterator over the blocks of a chain; the same seed gives the same bytes on every machine.
#[derive(Clone, Debug)]
pub struct DemoChain {
    seed: u64,
    prev: BlockHash,
    height: u32,
    transactions: u32,
    with_witness: bool,
}

impl DemoChain {
    /// Returns a chain that begins with its first block. Each block has `transactions` transactions, at least 1 (the
    /// coinbase).
    pub fn new(seed: u64, transactions: u32) -> DemoChain {
        DemoChain {
            seed,
            prev: BlockHash::all_zeros(),
            height: 0,
            transactions: transactions.max(1),
            with_witness: false,
        }
    }

    /// Returns a branch on top of the block `prev`; the first block of the branch has height `height`.
    pub fn branch(seed: u64, transactions: u32, prev: [u8; 32], height: u32) -> DemoChain {
        let prev = BlockHash::from_byte_array(prev);
        DemoChain {
            seed,
            prev,
            height,
            transactions: transactions.max(1),
            with_witness: false,
        }
    }

    /// Adds witnesses to the chain: most payments have one, and the coinbase of each block commits to them. All TXIDs
    /// except those of coinbases equal the TXIDs of the chain without witnesses.
    #[must_use]
    pub fn with_witness(self) -> DemoChain {
        DemoChain {
            with_witness: true,
            ..self
        }
    }

    /// Returns the next block, which contains the transactions `extra` after its own transactions.
    pub fn next_with(&mut self, extra: &[Transaction]) -> DemoBlock {
        let mut txs = vec![self.coinbase()];
        txs.extend((1..self.transactions).map(|position| self.payment(position)));
        txs.extend_from_slice(extra);
        if self.with_witness {
            self.add_witnesses(&mut txs);
        }
        let block = assemble(self.prev, self.height, &txs);
        self.prev = BlockHash::from_byte_array(block.hash);
        self.height += 1;
        block
    }

    /// Returns a transaction like those in the blocks, with one input and one output. Seed, height and position make it
    /// unique.
    pub fn payment(&self, position: u32) -> Transaction {
        let mut script = vec![71];
        script.extend(
            (0..9)
                .flat_map(|i| mix(self.seed, self.height, position, i).to_le_bytes())
                .take(71),
        );
        script.push(33);
        script.extend(
            (9..14)
                .flat_map(|i| mix(self.seed, self.height, position, i).to_le_bytes())
                .take(33),
        );
        let mut txid = [0u8; 32];
        for (i, word) in txid.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&mix(self.seed, self.height, position, 20 + i as u32).to_le_bytes());
        }
        let spent = OutPoint::new(bitcoin::Txid::from_byte_array(txid), position);
        one_in_one_out(
            spent,
            script,
            1_000 + u64::from(position),
            mix(self.seed, self.height, position, 30),
        )
    }

    /// Adds a witness to two of every three payments, and the commitment to all witnesses to the coinbase (BIP141).
    fn add_witnesses(&self, txs: &mut [Transaction]) {
        let mut reserved = [0; 32];
        reserved[..8].copy_from_slice(&mix(self.seed, self.height, 0, 31).to_le_bytes());
        for (position, tx) in (0..)
            .zip(&mut *txs)
            .skip(1)
            .filter(|(position, _)| position % 3 > 0)
        {
            let item = mix(self.seed, self.height, position, 32).to_le_bytes().repeat(8);
            tx.input[0].witness = Witness::from_slice(&[&item[..], &[7; 33]]);
        }
        let coinbase = txs.iter().take(1).map(|_| Wtxid::all_zeros());
        let wtxids = coinbase.chain(txs.iter().skip(1).map(Transaction::compute_wtxid));
        let root = bitcoin::merkle_tree::calculate_root(wtxids).map_or([0; 32], |root| root.to_byte_array());
        let root = WitnessMerkleNode::from_byte_array(root);
        let commitment = bitcoin::Block::compute_witness_commitment(&root, &reserved);
        let script = [&[0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed][..], commitment.as_ref()].concat();
        if let Some(coinbase) = txs.first_mut() {
            coinbase.output.push(TxOut {
                value: Amount::ZERO,
                script_pubkey: ScriptBuf::from_bytes(script),
            });
            coinbase.input[0].witness = Witness::from_slice(&[reserved]);
        }
    }

    fn coinbase(&self) -> Transaction {
        let mut script = vec![4];
        script.extend_from_slice(&self.height.to_le_bytes());
        script.push(8);
        script.extend_from_slice(&self.seed.to_le_bytes());
        one_in_one_out(
            OutPoint::null(),
            script,
            50_0000_0000,
            mix(self.seed, self.height, 0, 30),
        )
    }
}

impl Iterator for DemoChain {
    type Item = DemoBlock;

    fn next(&mut self) -> Option<DemoBlock> {
        Some(self.next_with(&[]))
    }
}

fn one_in_one_out(spent: OutPoint, script: Vec<u8>, value: u64, owner: u64) -> Transaction {
    // The output pays to a public key hash.
    let mut lock = vec![0x76, 0xa9, 20];
    lock.extend_from_slice(&owner.to_le_bytes());
    lock.extend_from_slice(&[0; 12]);
    lock.extend_from_slice(&[0x88, 0xac]);
    let input = TxIn {
        previous_output: spent,
        script_sig: ScriptBuf::from_bytes(script),
        sequence: Sequence::MAX,
        witness: Witness::new(),
    };
    let output = TxOut {
        value: Amount::from_sat(value),
        script_pubkey: ScriptBuf::from_bytes(lock),
    };
    Transaction {
        version: TxVersion::ONE,
        lock_time: LockTime::ZERO,
        input: vec![input],
        output: vec![output],
    }
}

/// Builds a block from transactions and finds its nonce.
fn assemble(prev: BlockHash, height: u32, txs: &[Transaction]) -> DemoBlock {
    let txids: Vec<[u8; 32]> = txs.iter().map(|tx| tx.compute_txid().to_byte_array()).collect();
    // The library `bitcoin` computes the root, so that tests compare the chain store with an independent result.
    let root = bitcoin::merkle_tree::calculate_root(txs.iter().map(Transaction::compute_txid))
        .map_or([0; 32], |root| root.to_byte_array());
    let mut header = Header {
        version: Version::TWO,
        prev_blockhash: prev,
        merkle_root: TxMerkleNode::from_byte_array(root),
        time: 1_296_688_602 + height.wrapping_mul(600),
        bits: CompactTarget::from_consensus(BITS),
        nonce: 0,
    };
    // Every second hash is below regtest's target, so the nonce never overflows.
    while !header.target().is_met_by(header.block_hash()) {
        header.nonce += 1;
    }
    let mut raw = serialize(&header);
    raw.extend(serialize(&VarInt(txs.len() as u64)));
    for tx in txs {
        raw.extend(serialize(tx));
    }
    DemoBlock {
        raw,
        hash: header.block_hash().to_byte_array(),
        root,
        txids,
    }
}

/// Returns a well-mixed 64-bit value for one position in the chain (the finaliser of SplitMix64).
fn mix(seed: u64, height: u32, position: u32, word: u32) -> u64 {
    let mut z = Random(seed ^ Random((u64::from(height) << 32) | u64::from(position)).next()).next();
    z = Random(z.wrapping_add(u64::from(word))).next();
    z
}
