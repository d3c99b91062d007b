//! Regtest chain on top of Bitcoin's own first regtest block. Every input spends an output of the chain, so that
//! servers that index outputs (ElectrumX) accept it, too. The transactions have no signatures, because the programs
//! that read the chain do not check them.

use crate::{DemoBlock, DemoChain};
use bitcoin::absolute::LockTime;
use bitcoin::consensus::encode::serialize;
use bitcoin::hashes::Hash;
use bitcoin::transaction::Version;
use bitcoin::{Amount, Network, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness};

/// Value in satoshi of each payment and of each other output.
const VALUE: Amount = Amount::from_sat(100_000);
/// Script OP_TRUE. Anyone may spend an output with it.
const ANYONE: [u8; 1] = [0x51];

/// Tip of a chain that can be extended. A clone extends the chain by another branch.
#[derive(Clone, Debug)]
pub struct RegtestChain {
    seed: u64,
    tip: [u8; 32],
    height: u32,
    coinbase: Option<[u8; 32]>,
}

impl RegtestChain {
    /// Returns a chain that has only its first block.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            tip: Self::genesis().hash,
            height: 0,
            coinbase: None,
        }
    }

    /// Returns regtest's first block.
    pub fn genesis() -> DemoBlock {
        let block = bitcoin::constants::genesis_block(Network::Regtest);
        DemoBlock {
            raw: serialize(&block),
            hash: block.block_hash().to_byte_array(),
            root: block.header.merkle_root.to_byte_array(),
            txids: vec![block.txdata[0].compute_txid().to_byte_array()],
        }
    }

    /// Returns this tip with another seed, so that its later blocks differ from those of the original.
    #[must_use]
    pub fn branch(&self, seed: u64) -> Self {
        Self { seed, ..self.clone() }
    }

    /// Returns the height of the newest block.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// Creates the next block: the coinbase, a transaction that spends the previous block's coinbase and pays each of
    /// `scripts`, and `spends` transactions with one input and one output. The first block has only its coinbase.
    pub fn next(&mut self, scripts: &[ScriptBuf], spends: u32) -> DemoBlock {
        let mut demo = DemoChain::branch(self.seed, 1, self.tip, self.height + 1);
        let more = match self.coinbase {
            None => Vec::new(),
            Some(coinbase) => spending(coinbase, scripts, spends),
        };
        let block = demo.next_with(&more);
        self.tip = block.hash;
        self.height += 1;
        self.coinbase = Some(block.txids[0]);
        block
    }
}

/// Returns the transactions of a block after its coinbase.
fn spending(coinbase: [u8; 32], scripts: &[ScriptBuf], spends: u32) -> Vec<Transaction> {
    let anyone = ScriptBuf::from_bytes(ANYONE.to_vec());
    let others = (0..spends.max(1)).map(|_| anyone.clone());
    let outputs = scripts.iter().cloned().chain(others).collect();
    let first = transaction(OutPoint::new(Txid::from_byte_array(coinbase), 0), outputs);
    let txid = first.compute_txid();
    let spend = |number| {
        let spent = OutPoint::new(txid, scripts.len() as u32 + number);
        transaction(spent, vec![anyone.clone()])
    };
    let spends = (0..spends).map(spend);
    std::iter::once(first.clone()).chain(spends).collect()
}

fn transaction(spent: OutPoint, scripts: Vec<ScriptBuf>) -> Transaction {
    let output = |script_pubkey| TxOut {
        value: VALUE,
        script_pubkey,
    };
    Transaction {
        version: Version::TWO,
        lock_time: LockTime::ZERO,
        input: vec![TxIn {
            previous_output: spent,
            // The script contains no signature, but its length ensures that no transaction has 64 bytes.
            script_sig: ScriptBuf::from_bytes([&[40][..], &[7; 40]].concat()),
            sequence: Sequence::MAX,
            witness: Witness::new(),
        }],
        output: scripts.into_iter().map(output).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::consensus::encode::deserialize;

    #[test]
    fn every_input_spends_an_output_of_the_chain() {
        let mut chain = RegtestChain::new(7);
        let mut unspent = std::collections::HashSet::new();
        let mut parent = RegtestChain::genesis().hash;
        for spends in [0, 0, 5, 2046] {
            let made = chain.next(&[ScriptBuf::from_bytes(vec![0x52])], spends);
            let block: bitcoin::Block = deserialize(&made.raw).unwrap();
            assert!(block.check_merkle_root());
            assert_eq!(block.header.prev_blockhash.to_byte_array(), parent);
            parent = made.hash;
            for transaction in &block.txdata {
                for input in transaction.input.iter().filter(|_| !transaction.is_coinbase()) {
                    assert!(
                        unspent.remove(&input.previous_output),
                        "{:?}",
                        input.previous_output
                    );
                }
                let txid = transaction.compute_txid();
                unspent.extend((0..transaction.output.len() as u32).map(|vout| OutPoint::new(txid, vout)));
            }
        }
        assert_eq!(chain.next(&[], 2046).txids.len(), 2048);
        let mut other = chain.branch(8);
        assert_ne!(other.next(&[], 0).hash, chain.next(&[], 0).hash);
    }
}
