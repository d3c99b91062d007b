//! Settlement: operations are sealed into blocks. A block's head contains the Merkle root over its operations and the
//! hash of the previous block, and is signed by the server, so that a verifier needs only the public key to check that
//! an operation is in a block.

use crate::bytes::{Reader, Writer};
use crate::native::Outcome;
use crate::paper::{PaperAnswer, PaperRequest};
use crate::ring::{NO_SESSION, Record};
use k256::ecdsa::signature::hazmat::{PrehashSigner, PrehashVerifier};
use k256::ecdsa::{Signature, SigningKey, VerifyingKey};
use lineside_journal::merkle::{self, Batch, Hash, Hasher, Sha256};
use lineside_verify::hash::sha256_batch;
use lineside_wire::{Operation, TransferCode as Code};
use sha2::Digest;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Size of a block in the journal in bytes.
pub const BLOCK_BYTES: usize = HEAD_BYTES + 64;
const HEAD_BYTES: usize = 8 + 32 + 32 + 8 + 8 + 16 + 8 + 8;
/// Size of a leaf, which is the encoding of a sealed operation, in bytes.
pub const LEAF_BYTES: usize = size_of::<Operation>() + 8;
/// Number of leaves that are hashed together.
const FRESH: usize = 256;
/// Prefix of the hashed bytes of a block, so that no hash of other data equals the hash of a block.
const DOMAIN: &[u8] = b"lineside transfer block 1\0";

/// Head of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Number of the block, from 1.
    pub number: u64,
    /// Hash of the previous block; zeros for the first one.
    pub previous: Hash,
    /// RFC 6962 Merkle root over the leaves.
    pub root: Hash,
    /// Number of the first operation.
    pub first: u64,
    /// Number of operations.
    pub count: u64,
    /// Sum of all issued amounts, which equals the sum of all balances.
    pub issued: u128,
    /// Number of accounts.
    pub accounts: u64,
    /// Host's clock when the block was sealed, in seconds since 1970.
    pub sealed_s: u64,
    /// Signature over the block's hash with the server's key: ECDSA over secp256k1, r‖s.
    pub signature: [u8; 64],
}

impl Block {
    /// Returns the hash that is signed and that the next block contains: SHA-256 over everything except the signature.
    pub fn hash(&self) -> Hash {
        let mut hasher = sha2::Sha256::new();
        hasher.update(DOMAIN);
        hasher.update(&self.to_bytes()[..HEAD_BYTES]);
        hasher.finalize().into()
    }

    /// Returns whether `key` signed the block.
    pub fn is_signed_by(&self, key: &VerifyingKey) -> bool {
        Signature::from_slice(&self.signature)
            .is_ok_and(|signature| key.verify_prehash(&self.hash(), &signature).is_ok())
    }

    /// Returns the encoding of the block in the journal.
    pub fn to_bytes(&self) -> [u8; BLOCK_BYTES] {
        let mut out = Writer::default();
        out.u64(self.number);
        out.bytes(&self.previous);
        out.bytes(&self.root);
        out.u64(self.first);
        out.u64(self.count);
        out.u128(self.issued);
        out.u64(self.accounts);
        out.u64(self.sealed_s);
        out.bytes(&self.signature);
        let mut bytes = [0; BLOCK_BYTES];
        bytes.copy_from_slice(&out.into_bytes());
        bytes
    }

    /// Decodes a block.
    pub fn from_bytes(bytes: &[u8; BLOCK_BYTES]) -> Option<Self> {
        let mut input = Reader::new(bytes);
        Some(Self {
            number: input.u64()?,
            previous: input.array()?,
            root: input.array()?,
            first: input.u64()?,
            count: input.u64()?,
            issued: input.u128()?,
            accounts: input.u64()?,
            sealed_s: input.u64()?,
            signature: input.array()?,
        })
    }
}

/// Returns the leaf of an operation: the request with its code and number, then the balance of its source after it.
pub fn leaf(operation: &Operation, outcome: &Outcome) -> [u8; LEAF_BYTES] {
    let operation = Operation {
        code: (outcome.code as u16).into(),
        number: outcome.number.into(),
        ..*operation
    };
    let mut bytes = [0; LEAF_BYTES];
    bytes[..size_of::<Operation>()].copy_from_slice(operation.as_bytes());
    bytes[size_of::<Operation>()..].copy_from_slice(&outcome.amount.to_be_bytes());
    bytes
}

/// Returns the leaf of a request in the paper's format.
pub fn paper_leaf(request: &PaperRequest, answer: &PaperAnswer, number: u64) -> [u8; LEAF_BYTES] {
    let mut operation = Operation::new_zeroed();
    operation.command = request.command as u8;
    operation.source = request.source_id().0;
    operation.destination = request.destination_id().0;
    operation.amount = u64::from(request.amount).into();
    operation.nonce = request.transaction_id.into();
    let outcome = Outcome {
        code: answer.code,
        amount: answer.amount.into(),
        number,
    };
    leaf(&operation, &outcome)
}

/// Returns the leaf of an operation that the fast path executed.
pub fn line_leaf(record: &Record, number: u64) -> [u8; LEAF_BYTES] {
    let mut operation = Operation::new_zeroed();
    operation.command = record.command;
    operation.flags = record.flags;
    operation.contract = record.contract.into();
    operation.source = record.source.0;
    operation.destination = record.destination.0;
    operation.amount = record.amount.into();
    operation.timestamp = record.timestamp.into();
    operation.uuid = record.uuid.0;
    // For a request in the paper's format, this field contains the transaction id.
    operation.nonce = match record.slot {
        NO_SESSION => (record.sequence as u32).into(),
        _ => record.nonce.into(),
    };
    let outcome = Outcome {
        code: Code::from_code(record.code).unwrap_or(Code::Busy),
        amount: record.source_balance,
        number,
    };
    leaf(&operation, &outcome)
}

/// Chain of blocks, and the operations that wait to be sealed.
pub struct Chain {
    /// Key that signs the blocks.
    key: VerifyingKey,
    leaves: Vec<Hash>,
    /// Leaves after `leaves` that are not hashed yet: hashing many leaves together takes a quarter of the time.
    fresh: Vec<[u8; LEAF_BYTES]>,
    first: u64,
    last: Option<Block>,
}

impl Chain {
    /// Creates an empty chain. `key` is the public key whose private key signs all blocks.
    pub fn new(key: VerifyingKey) -> Self {
        Self {
            key,
            leaves: Vec::new(),
            fresh: Vec::new(),
            first: 1,
            last: None,
        }
    }

    /// Returns the last block and the hashes of the waiting operations, for a snapshot.
    pub fn to_parts(&mut self) -> (Option<Block>, &[Hash]) {
        self.hash_fresh();
        (self.last, &self.leaves)
    }

    /// Restores the state from a snapshot.
    pub fn restore(&mut self, last: Option<Block>, waiting: Vec<Hash>) {
        self.first = last.map_or(1, |block| block.first + block.count);
        self.last = last;
        self.leaves = waiting;
        self.fresh.clear();
    }

    /// Adds an operation. Operations must come in the order of their numbers.
    pub fn push(&mut self, leaf: &[u8; LEAF_BYTES]) {
        self.fresh.push(*leaf);
        if self.fresh.len() == FRESH {
            self.hash_fresh();
        }
    }

    fn hash_fresh(&mut self) {
        let fresh: Vec<&[u8]> = self.fresh.iter().map(<[u8; LEAF_BYTES]>::as_slice).collect();
        Batch(sha256_batch).leaves(&fresh, &mut self.leaves);
        self.fresh.clear();
    }

    /// Returns the number of operations that wait to be sealed.
    pub fn waiting(&self) -> usize {
        self.leaves.len() + self.fresh.len()
    }

    /// Returns the number of sealed blocks.
    pub fn blocks(&self) -> u64 {
        self.last.map_or(0, |block| block.number)
    }

    /// Seals the waiting operations with `key`, the private key that belongs to the chain's public key. The chain does
    /// not change before [`Chain::passed`].
    pub fn seal(&mut self, key: &SigningKey, issued: u128, accounts: u64, sealed_s: u64) -> Block {
        let mut block = self.unsigned(issued, accounts, sealed_s);
        // Signing fails only for digests shorter than half a scalar; a block's hash has the full length.
        let signed: Result<Signature, _> = key.sign_prehash(&block.hash());
        if let Ok(signature) = signed {
            block.signature.copy_from_slice(&signature.to_bytes());
        }
        block
    }

    fn unsigned(&mut self, issued: u128, accounts: u64, sealed_s: u64) -> Block {
        self.hash_fresh();
        let (number, previous) = self
            .last
            .map_or((0, [0; 32]), |block| (block.number, block.hash()));
        Block {
            number: number + 1,
            previous,
            root: merkle::root_of_hashes(&Batch(sha256_batch), &self.leaves),
            first: self.first,
            count: self.leaves.len() as u64,
            issued,
            accounts,
            sealed_s,
            signature: [0; 64],
        }
    }

    /// Returns the fault of a block that a replay finds at this place, if the block has one.
    pub fn fault(&mut self, block: &Block, issued: u128, accounts: u64) -> Option<&'static str> {
        let expected = self.unsigned(issued, accounts, block.sealed_s);
        let signed = Block {
            signature: block.signature,
            ..expected
        };
        if signed != *block {
            Some("its head does not match the operations before it")
        } else if !block.is_signed_by(&self.key) {
            Some("its signature was not made with the server's key")
        } else {
            None
        }
    }

    /// Accepts the block; later operations belong to the next block.
    pub fn passed(&mut self, block: &Block) {
        self.first = block.first + block.count;
        self.last = Some(*block);
        self.leaves.clear();
        self.fresh.clear();
    }
}

/// Proof that one operation is in one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// Leaf of the operation; see [`leaf`].
    pub leaf: [u8; LEAF_BYTES],
    /// Index of the operation in the block, from 0.
    pub index: u64,
    /// Audit path from the leaf upwards: RFC 6962, section 2.1.1.
    pub path: Vec<Hash>,
    /// The block.
    pub block: Block,
}

impl Proof {
    /// Returns the proof for leaf `index` of a block with these leaves; `None` if there is no such leaf, or if the
    /// leaves do not belong to the block.
    pub fn new(block: &Block, leaves: &[[u8; LEAF_BYTES]], index: u64) -> Option<Self> {
        let hashes: Vec<Hash> = leaves.iter().map(|leaf| merkle::leaf_hash(leaf)).collect();
        let path = merkle::inclusion_proof(&Sha256, &hashes, index)?;
        let proof = Self {
            leaf: *leaves.get(usize::try_from(index).ok()?)?,
            index,
            path,
            block: *block,
        };
        proof.fault().is_none().then_some(proof)
    }

    /// Returns the internal fault of the proof, if it has one. The caller still has to check that the block is the
    /// right one, by its hash or its signature.
    pub fn fault(&self) -> Option<&'static str> {
        let leaf = merkle::leaf_hash(&self.leaf);
        let Ok((operation, _)) = Operation::ref_from_prefix(&self.leaf) else {
            return Some("it does not contain an operation");
        };
        if operation.number.get() != self.block.first.wrapping_add(self.index) {
            Some("the operation's number does not match its place in the block")
        } else if !merkle::verify_inclusion(&leaf, self.index, self.block.count, &self.path, &self.block.root)
        {
            Some("the path does not lead to the block's root")
        } else {
            None
        }
    }
}
