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
    /// The errors of [`TransactionProof::verify`] except [`ProofError::InvalidTarget`] and
    /// [`ProofError::WrongProofOfWork`].
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
    /// [`ProofError::MalformedTransaction`], [`ProofError::TransactionOf64Bytes`], then the errors of
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
/// The block's header commits to the coinbase, and an output of the coinbase commits to the root of the tree of WTXIDs.
/// Both trees have the same shape, so the length of the coinbase's path also fixes the height of the tree of WTXIDs.
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
    /// The first error in this order:
    ///
    /// 1. the errors of the shape of the coinbase's path, of the shape of the WTXID's path, and of the header, as in
    ///    [`TransactionProof::verify`];
    /// 2. [`ProofError::WrongCoinbaseWtxid`];
    /// 3. [`ProofError::MalformedTransaction`] (also for a coinbase that includes its witness),
    ///    [`ProofError::NotCoinbase`], [`ProofError::TransactionOf64Bytes`];
    /// 4. the errors of the nodes of the coinbase's path, [`ProofError::WrongRoot`];
    /// 5. [`ProofError::NoWitnessCommitment`];
    /// 6. the errors of the nodes of the WTXID's path, [`ProofError::WrongWitnessCommitment`].
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

    /// Checks the coinbase, and returns the witness commitment in its outputs.
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
