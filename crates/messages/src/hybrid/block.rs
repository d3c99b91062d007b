//! Messages of the log, headers of blocks and signed heads: their encodings and hashes.

use super::codec::{Input, Malformed, Output};
use super::request::{DatabaseId, SIGNATURE_BYTES};
use super::sign::{BLOCK_TAG, HEAD_TAG, Signer, digest, is_signed, message_digest};
use lineside_verify::hash::{keccak256, keccak256_batch};
use lineside_verify::{Curve, PublicKey, Verifier};
use lineside_wire::{
    BlockHeader, HYBRID_MESSAGE_BLOCK, HYBRID_MESSAGE_BYTES_MAX, HYBRID_MESSAGE_HEAD,
    HYBRID_MESSAGE_REQUESTS_MAX, HYBRID_REQUEST_BYTES_MAX, MessageHead, NodeHead,
};
use zerocopy::{FromBytes, IntoBytes};

/// A hash of 256 bits.
pub type Hash = [u8; 32];
/// Bytes of a block's header.
pub const HEADER_BYTES: usize = size_of::<BlockHeader>();
/// Bytes of a message of the log before its requests.
pub const MESSAGE_HEAD_BYTES: usize = SIGNATURE_BYTES + size_of::<MessageHead>();
/// Bytes of a signed head.
pub const SIGNED_HEAD_BYTES: usize = size_of::<NodeHead>();

/// Number of messages that one SIMD hash computation takes, one for each lane. A thread gathers up to this number.
pub const HASHED_AT_ONCE: usize = 8;

/// Content of a message of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cargo<'a> {
    /// Signed requests; they form a block.
    Requests(Vec<&'a [u8]>),
    /// A signed head: a node's attestation of a block.
    Head(SignedHead),
}

/// A message of the log: the requests that one node ordered together. One message is one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The node's signature over `signed`.
    pub signature: &'a [u8; SIGNATURE_BYTES],
    /// The signed bytes.
    pub signed: &'a [u8],
    /// The node that ordered the message.
    pub node: u32,
    /// Sequence number of the message, above the node's previous one.
    pub sequence: u64,
    /// Clock of the node, in milliseconds since 1970.
    pub time_ms: u64,
    /// Content of the message.
    pub cargo: Cargo<'a>,
}

impl<'a> Message<'a> {
    /// Decodes a message, but not the requests in it.
    ///
    /// # Errors
    /// [`Malformed`] for bytes that no node may send. All nodes then skip the message.
    pub fn decode(bytes: &'a [u8]) -> Result<Message<'a>, Malformed> {
        if bytes.len() > HYBRID_MESSAGE_BYTES_MAX {
            return Err(Malformed("the message is longer than the log allows"));
        }
        let (signature, signed) = bytes
            .split_first_chunk()
            .ok_or(Malformed("the bytes end too early"))?;
        let (head, rest) =
            MessageHead::ref_from_prefix(signed).map_err(|_| Malformed("the bytes end too early"))?;
        let mut input = Input(rest);
        let count = head.count.get() as usize;
        let cargo = match head.kind {
            HYBRID_MESSAGE_BLOCK if (1..=HYBRID_MESSAGE_REQUESTS_MAX).contains(&count) => {
                let requests = (0..count).map(|_| input.long(HYBRID_REQUEST_BYTES_MAX));
                Cargo::Requests(requests.collect::<Result<_, _>>()?)
            }
            HYBRID_MESSAGE_HEAD if count == 0 => Cargo::Head(SignedHead::read(&input.array()?)?),
            _ => {
                return Err(Malformed(
                    "unknown kind of message, or a wrong number of requests",
                ));
            }
        };
        input.end()?;
        if head.reserved.get() != 0 {
            return Err(Malformed("the reserved bytes are not zero"));
        }
        Ok(Message {
            signature,
            signed,
            node: head.node.get(),
            sequence: head.sequence.get(),
            time_ms: head.time_ms.get(),
            cargo,
        })
    }

    /// Returns the requests of the message; none if it carries a signed head.
    pub fn requests(&self) -> &[&'a [u8]] {
        match &self.cargo {
            Cargo::Requests(requests) => requests,
            Cargo::Head(_) => &[],
        }
    }

    /// Returns true if the node's key has signed the message; `hash` is its [`transactions_hash`].
    pub fn is_signed_by(
        &self,
        hash: &Hash,
        database: &DatabaseId,
        key: &PublicKey,
        verifier: &Verifier,
    ) -> bool {
        let digest = message_digest(key.curve(), database, hash);
        is_signed(&digest, key, self.signature, verifier)
    }
}

/// Returns the Keccak-256 of a message of the log without its signature. The node signs this hash; the paper calls it
/// TH.
pub fn transactions_hash(message: &[u8]) -> Hash {
    keccak256(message.get(SIGNATURE_BYTES..).unwrap_or_default())
}

/// Returns the [`transactions_hash`] of several messages, which are hashed together in SIMD lanes.
pub fn transactions_hashes<'a>(messages: impl Iterator<Item = &'a [u8]>) -> Vec<Hash> {
    let signed = messages.map(|message| message.get(SIGNATURE_BYTES..).unwrap_or_default());
    let signed: Vec<&[u8]> = signed.collect();
    let mut hashes = vec![[0; 32]; signed.len()];
    keccak256_batch(&signed, &mut hashes);
    hashes
}

/// Number of the node that sends a message, with the message's sequence number and time.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    /// Number of the node.
    pub node: u32,
    /// Sequence number, above the node's previous one.
    pub sequence: u64,
    /// Clock of the node, in milliseconds since 1970.
    pub time_ms: u64,
}

/// Number of bytes of a message with requests of these lengths.
pub fn message_bytes(requests: impl IntoIterator<Item = usize>) -> usize {
    MESSAGE_HEAD_BYTES + requests.into_iter().map(|bytes| bytes + 4).sum::<usize>()
}

/// Builds and signs a message of requests.
pub fn request_message(
    database: &DatabaseId,
    sender: Sender,
    requests: &[impl AsRef<[u8]>],
    signer: &dyn Signer,
) -> Vec<u8> {
    hashed_message(database, sender, requests, signer).0
}

/// Like [`request_message`]; also returns the message's [`transactions_hash`].
pub fn hashed_message(
    database: &DatabaseId,
    sender: Sender,
    requests: &[impl AsRef<[u8]>],
    signer: &dyn Signer,
) -> (Vec<u8>, Hash) {
    let bytes = message_bytes(requests.iter().map(|request| request.as_ref().len()));
    let mut message = begin_message(HYBRID_MESSAGE_BLOCK, sender, requests.len(), bytes);
    for request in requests {
        message.long(request.as_ref());
    }
    end_message(message, database, signer)
}

/// Builds and signs a message that carries a signed head.
pub fn head_message(
    database: &DatabaseId,
    sender: Sender,
    head: &SignedHead,
    signer: &dyn Signer,
) -> Vec<u8> {
    let mut message = begin_message(
        HYBRID_MESSAGE_HEAD,
        sender,
        0,
        MESSAGE_HEAD_BYTES + SIGNED_HEAD_BYTES,
    );
    message.put(&head.to_bytes());
    end_message(message, database, signer).0
}

fn begin_message(kind: u8, sender: Sender, count: usize, bytes: usize) -> Vec<u8> {
    let mut message = Vec::with_capacity(bytes);
    message.put(&[0; SIGNATURE_BYTES]);
    let head = MessageHead {
        kind,
        node: sender.node.into(),
        sequence: sender.sequence.into(),
        time_ms: sender.time_ms.into(),
        reserved: 0.into(),
        count: (count as u32).into(),
    };
    message.put(head.as_bytes());
    message
}

fn end_message(mut message: Vec<u8>, database: &DatabaseId, signer: &dyn Signer) -> (Vec<u8>, Hash) {
    let hash = transactions_hash(&message);
    let signature = signer.sign(&message_digest(signer.curve(), database, &hash));
    message[..SIGNATURE_BYTES].copy_from_slice(&signature);
    (message, hash)
}

/// Header of a block: the fields that its hash covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Id of the database.
    pub database: DatabaseId,
    /// Number of the block; 0 is genesis.
    pub number: u64,
    /// Position of its message in the log.
    pub position: u64,
    /// Time in milliseconds since 1970, never before that of the previous block.
    pub time_ms: u64,
    /// Number of requests in the block.
    pub transactions: u32,
    /// Number of requests in the block whose code is `done` or `recorded`.
    pub committed: u32,
    /// Hash of the previous block; zeros for genesis.
    pub previous: Hash,
    /// [`transactions_hash`] of the message.
    pub transactions_hash: Hash,
    /// Root of the tree of RFC 6962 (SHA-256) over the requests, signatures included.
    pub transactions_root: Hash,
    /// Keccak-256 of the codes, one byte each.
    pub codes_hash: Hash,
    /// Root of the authenticated map over all state on which outcomes of later requests depend.
    pub state_root: Hash,
    /// Hash that the paper calls BH: Keccak-256 of the previous block's BH and this block's TH (`transactions_hash`).
    pub paper_hash: Hash,
}

impl Header {
    /// Encodes the header.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let header = BlockHeader {
            database: self.database,
            number: self.number.into(),
            position: self.position.into(),
            time_ms: self.time_ms.into(),
            transactions: self.transactions.into(),
            committed: self.committed.into(),
            previous: self.previous,
            transactions_hash: self.transactions_hash,
            transactions_root: self.transactions_root,
            codes_hash: self.codes_hash,
            state_root: self.state_root,
            paper_hash: self.paper_hash,
        };
        zerocopy::transmute!(header)
    }

    /// Decodes a header.
    pub fn from_bytes(bytes: &[u8; HEADER_BYTES]) -> Header {
        let header: BlockHeader = zerocopy::transmute!(*bytes);
        Header {
            database: header.database,
            number: header.number.get(),
            position: header.position.get(),
            time_ms: header.time_ms.get(),
            transactions: header.transactions.get(),
            committed: header.committed.get(),
            previous: header.previous,
            transactions_hash: header.transactions_hash,
            transactions_root: header.transactions_root,
            codes_hash: header.codes_hash,
            state_root: header.state_root,
            paper_hash: header.paper_hash,
        }
    }

    /// Returns the hash of the block.
    pub fn hash(&self) -> Hash {
        keccak256(&[BLOCK_TAG, &self.to_bytes()].concat())
    }
}

/// A signed head: a node's signature over the number and hash of a block, so that others can compare their ledgers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedHead {
    /// Number of the node.
    pub node: u32,
    /// Number of the block.
    pub number: u64,
    /// Hash of the block.
    pub hash: Hash,
    /// Signature of the node.
    pub signature: [u8; SIGNATURE_BYTES],
}

impl SignedHead {
    /// Signs the number and hash of a block.
    pub fn sign(
        database: &DatabaseId,
        node: u32,
        number: u64,
        hash: Hash,
        signer: &dyn Signer,
    ) -> SignedHead {
        let signature = signer.sign(&head_digest(signer.curve(), database, node, number, &hash));
        SignedHead {
            node,
            number,
            hash,
            signature,
        }
    }

    /// Returns true if the node's key has signed this head.
    pub fn is_signed_by(&self, database: &DatabaseId, key: &PublicKey, verifier: &Verifier) -> bool {
        let digest = head_digest(key.curve(), database, self.node, self.number, &self.hash);
        is_signed(&digest, key, &self.signature, verifier)
    }

    /// Encodes the head.
    pub fn to_bytes(&self) -> [u8; SIGNED_HEAD_BYTES] {
        let [r, s] = zerocopy::transmute!(self.signature);
        zerocopy::transmute!(NodeHead {
            node: self.node.into(),
            number: self.number.into(),
            reserved: 0.into(),
            hash: self.hash,
            r,
            s,
        })
    }

    /// Decodes a head.
    ///
    /// # Errors
    /// [`Malformed`] if reserved bytes are not zero.
    pub fn read(bytes: &[u8; SIGNED_HEAD_BYTES]) -> Result<SignedHead, Malformed> {
        let head: NodeHead = zerocopy::transmute!(*bytes);
        if head.reserved.get() != 0 {
            return Err(Malformed("the reserved bytes are not zero"));
        }
        Ok(SignedHead {
            node: head.node.get(),
            number: head.number.get(),
            hash: head.hash,
            signature: zerocopy::transmute!([head.r, head.s]),
        })
    }
}

fn head_digest(curve: Curve, database: &DatabaseId, node: u32, number: u64, hash: &Hash) -> Hash {
    let (node, number) = (node.to_be_bytes(), number.to_be_bytes());
    digest(curve, &[HEAD_TAG, database, &node, &number, hash].concat())
}
