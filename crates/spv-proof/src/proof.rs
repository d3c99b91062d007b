//! Proofs that a transaction is in a block: by TXID, and by WTXID through the coinbase's commitment.

use crate::hash::hash_pair;
use crate::{Hash, Header, MerklePath, Network, ProofError, Transaction};

/// Proof that a transaction is in a block, by its TXID.
///
/// A valid proof does not show that the block is in the chain with the most work (a [`HeaderChain`] shows that), nor
/// that the block's transactions follow the rules. The server claims the height and the transaction count. Only the
/// height of the tree and the ends of its odd rows, which follow from the count, are used.
///
/// [`HeaderChain`]: crate::HeaderChain
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionProof {
    /// Header of the block.
    pub header: Header,
    /// Height of the block as claimed by the server; no check here uses it.
    pub height: u32,
    /// Number of transactions in the block.
    pub transaction_count: u32,
    /// Position of the transaction in the block, from 0.
    pub index: u32,
    /// Siblings from the transaction to the Merkle root.
    pub path: MerklePath,
}

impl TransactionProof {
    /// Checks that the transaction `txid`, in wire order, is in the block of the header, and that the header has the
    /// proof of work that it claims.
    ///
    /// # Errors
    /// The first of these that applies: [`ProofError::ImpossibleTransactionCount`], [`ProofError::WrongDepth`],
    /// [`ProofError::IndexOutOfRange`], [`ProofError::InvalidTarget`], [`ProofError::WrongProofOfWork`]; from the
    /// leaf to the root [`ProofError::EqualSiblings`], [`ProofError::MissingDuplicate`],
    /// [`ProofError::InnerNodeIsTransaction`]; [`ProofError::WrongRoot`].
    pub fn verify(&self, network: Network, txid: &Hash) -> Result<(), ProofError> {
        self.path.check_shape(self.index, self.transaction_count)?;
        self.header.check_proof_of_work(network)?;
        self.verify_path(txid)
    }

    /// Checks the path only, for a header that is already verified, such as one in a [`HeaderChain`].
    ///
    /// # Errors
    /// Those of [`TransactionProof::verify`] except for the two of the header.
    ///
    /// [`HeaderChain`]: crate::HeaderChain
    pub fn verify_path(&self, txid: &Hash) -> Result<(), ProofError> {
        let root = self.path.root_in(txid, self.index, self.transaction_count)?;
        if root != self.header.merkle_root {
            return Err(ProofError::WrongRoot);
        }
        Ok(())
    }

    /// Checks that the transaction with these bytes is in the block, and returns its TXID. This is the strongest check:
    /// it refuses a transaction that could also be an inner node.
    ///
    /// # Errors
    /// [`ProofError::MalformedTransaction`], [`ProofError::TransactionOf64Bytes`], then those of
    /// [`TransactionProof::verify`].
    pub fn verify_transaction(&self, network: Network, raw: &[u8]) -> Result<Hash, ProofError> {
        let transaction = Transaction::parse(raw)?;
        if transaction.base_bytes() == 64 {
            return Err(ProofError::TransactionOf64Bytes);
        }
        let txid = transaction.txid();
        self.verify(network, &txid)?;
        Ok(txid)
    }
}

/// Proof that a transaction with its witness is in a block, by its WTXID (BIP141).
///
/// The block's header commits to the coinbase, and an output of the coinbase to the root of the tree of WTXIDs. Because
/// both trees have one shape, the path of the coinbase also fixes the height of the other tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WitnessProof<'a> {
    /// Header of the block.
    pub header: Header,
    /// Height of the block as claimed by the server; no check here uses it.
    pub height: u32,
    /// Number of transactions in the block.
    pub transaction_count: u32,
    /// Position of the transaction in the block, from 0.
    pub index: u32,
    /// Siblings from the WTXID to the witness root.
    pub path: MerklePath,
    /// The block's first transaction, without its witness.
    pub coinbase: &'a [u8],
    /// Siblings from the coinbase's TXID to the header's Merkle root.
    pub coinbase_path: MerklePath,
    /// The witness reserved value: the only item in the witness of the coinbase.
    pub witness_reserved: Hash,
}

impl WitnessProof<'_> {
    /// Checks that the transaction `wtxid`, in wire order, is in the block of the header, and that the header has the
    /// proof of work that it claims. The coinbase has the WTXID 0.
    ///
    /// # Errors
    /// The first of these that applies: those of the shapes of the two paths and of the header, as in
    /// [`TransactionProof::verify`] (the coinbase's path first); [`ProofError::WrongCoinbaseWtxid`];
    /// [`ProofError::MalformedTransaction`] (also for a coinbase with its witness), [`ProofError::NotCoinbase`],
    /// [`ProofError::TransactionOf64Bytes`]; those of the coinbase's path, [`ProofError::WrongRoot`];
    /// [`ProofError::NoWitnessCommitment`]; those of the WTXID's path, [`ProofError::WrongWitnessCommitment`].
    pub fn verify(&self, network: Network, wtxid: &Hash) -> Result<(), ProofError> {
        self.coinbase_path.check_shape(0, self.transaction_count)?;
        self.path.check_shape(self.index, self.transaction_count)?;
        self.header.check_proof_of_work(network)?;
        if (*wtxid == [0; 32]) != (self.index == 0) {
            return Err(ProofError::WrongCoinbaseWtxid);
        }
        let commitment = self.commitment()?;
        let root = self.path.root_in(wtxid, self.index, self.transaction_count)?;
        if hash_pair(&root, &self.witness_reserved) != commitment {
            return Err(ProofError::WrongWitnessCommitment);
        }
        Ok(())
    }

    /// Checks the coinbase, and returns the hash that it commits to.
    fn commitment(&self) -> Result<Hash, ProofError> {
        let coinbase = Transaction::parse(self.coinbase)?;
        if coinbase.has_witness() {
            return Err(ProofError::MalformedTransaction);
        }
        if !coinbase.is_coinbase() {
            return Err(ProofError::NotCoinbase);
        }
        if coinbase.base_bytes() == 64 {
            return Err(ProofError::TransactionOf64Bytes);
        }
        let root = self
            .coinbase_path
            .root_in(&coinbase.txid(), 0, self.transaction_count)?;
        if root != self.header.merkle_root {
            return Err(ProofError::WrongRoot);
        }
        coinbase
            .witness_commitment()
            .ok_or(ProofError::NoWitnessCommitment)
    }
}
