//! Messages of the log, headers of blocks, signed heads: their bytes and hashes.

use crate::codec::{Input, Malformed, Output};
use crate::request::{DatabaseId, SIGNATURE_BYTES};
use crate::sign::{BLOCK_TAG, HEAD_TAG, Signer, digest, is_signed, message_digest};
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

/// Messages that are worth waiting for, to be hashed at once: as many as there are lanes.
pub(crate) const HASHED_AT_ONCE: usize = 8;

/// What a message of the log carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cargo<'a> {
    /// Signed requests: a block.
    Requests(Vec<&'a [u8]>),
    /// A node's word for a block.
    Head(SignedHead),
}

/// A message of the log: what one node ordered at once. One message is one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The node's signature of the rest.
    pub signature: &'a [u8; SIGNATURE_BYTES],
    /// What is signed.
    pub signed: &'a [u8],
    /// Who ordered it.
    pub node: u32,
    /// Above the last one of the node.
    pub sequence: u64,
    /// The node's clock, in milliseconds since 1970.
    pub time_ms: u64,
    /// What it carries.
    pub cargo: Cargo<'a>,
}

impl<'a> Message<'a> {
    /// Reads a message. Its requests are not looked into.
    ///
    /// # Errors
    /// [`Malformed`] for what no node may send: such a message is no block, for every node.
    pub fn decode(bytes: &'a [u8]) -> Result<Message<'a>, Malformed> {
        if bytes.len() > HYBRID_MESSAGE_BYTES_MAX {
            return Err(Malformed("a message that is too long"));
        }
        let (signature, signed) = bytes.split_first_chunk().ok_or(Malformed("cut short"))?;
        let (head, rest) = MessageHead::ref_from_prefix(signed).map_err(|_| Malformed("cut short"))?;
        let mut input = Input(rest);
        let count = head.count.get() as usize;
        let cargo = match head.kind {
            HYBRID_MESSAGE_BLOCK if (1..=HYBRID_MESSAGE_REQUESTS_MAX).contains(&count) => {
                let requests = (0..count).map(|_| input.long(HYBRID_REQUEST_BYTES_MAX));
                Cargo::Requests(requests.collect::<Result<_, _>>()?)
            }
            HYBRID_MESSAGE_HEAD if count == 0 => Cargo::Head(SignedHead::read(&input.array()?)?),
            _ => return Err(Malformed("no such kind of message, or not so many requests")),
        };
        input.end()?;
        if head.reserved.get() != 0 {
            return Err(Malformed("reserved bytes that are not zero"));
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

    /// Its requests; none where it carries something else.
    pub fn requests(&self) -> &[&'a [u8]] {
        match &self.cargo {
            Cargo::Requests(requests) => requests,
            Cargo::Head(_) => &[],
        }
    }

    /// Whether the node's key has signed it; `hash` is its [`transactions_hash`].
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

/// Keccak-256 of a message of the log without its signature: what the node signs, and the paper's TH.
pub fn transactions_hash(message: &[u8]) -> Hash {
    keccak256(message.get(SIGNATURE_BYTES..).unwrap_or_default())
}

/// The same of several, which are hashed at once.
pub fn transactions_hashes<'a>(messages: impl Iterator<Item = &'a [u8]>) -> Vec<Hash> {
    let signed = messages.map(|message| message.get(SIGNATURE_BYTES..).unwrap_or_default());
    let signed: Vec<&[u8]> = signed.collect();
    let mut hashes = vec![[0; 32]; signed.len()];
    keccak256_batch(&signed, &mut hashes);
    hashes
}

/// Who sends a message, and when.
#[derive(Clone, Copy, Debug)]
pub struct Sender {
    /// The node.
    pub node: u32,
    /// Above its last one.
    pub sequence: u64,
    /// Its clock.
    pub time_ms: u64,
}

/// Bytes of a message of these requests.
pub fn message_bytes(requests: impl IntoIterator<Item = usize>) -> usize {
    MESSAGE_HEAD_BYTES + requests.into_iter().map(|bytes| bytes + 4).sum::<usize>()
}

/// A message of requests, signed.
pub fn request_message(
    database: &DatabaseId,
    sender: Sender,
    requests: &[impl AsRef<[u8]>],
    signer: &dyn Signer,
) -> Vec<u8> {
    hashed_message(database, sender, requests, signer).0
}

/// The same, with its [`transactions_hash`].
pub(crate) fn hashed_message(
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

/// A message of a signed head, signed.
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

/// What a block's hash covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The database.
    pub database: DatabaseId,
    /// 0: genesis.
    pub number: u64,
    /// Of its message in the log.
    pub position: u64,
    /// Milliseconds since 1970; never before that of the block before.
    pub time_ms: u64,
    /// Requests in it.
    pub transactions: u32,
    /// Of these committed or recorded.
    pub committed: u32,
    /// Hash of the block before; zeros before genesis.
    pub previous: Hash,
    /// The message's [`transactions_hash`].
    pub transactions_hash: Hash,
    /// RFC 6962's tree (SHA-256) over the requests, signatures included.
    pub transactions_root: Hash,
    /// Keccak-256 of the codes, a byte each.
    pub codes_hash: Hash,
    /// Root of the map over all that decides later verdicts.
    pub state_root: Hash,
    /// The paper's BH: Keccak-256 of the one before and TH.
    pub paper_hash: Hash,
}

impl Header {
    /// Its bytes.
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

    /// From its bytes.
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

    /// The block's hash.
    pub fn hash(&self) -> Hash {
        keccak256(&[BLOCK_TAG, &self.to_bytes()].concat())
    }
}

/// A node's word for a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignedHead {
    /// Whose.
    pub node: u32,
    /// The block's number.
    pub number: u64,
    /// The block's hash.
    pub hash: Hash,
    /// The node's signature of it.
    pub signature: [u8; SIGNATURE_BYTES],
}

impl SignedHead {
    /// A node's word for a block.
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

    /// Whether the node's key has signed it.
    pub fn is_signed_by(&self, database: &DatabaseId, key: &PublicKey, verifier: &Verifier) -> bool {
        let digest = head_digest(key.curve(), database, self.node, self.number, &self.hash);
        is_signed(&digest, key, &self.signature, verifier)
    }

    /// Its bytes.
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

    /// From its bytes.
    ///
    /// # Errors
    /// [`Malformed`] where reserved bytes are not zero.
    pub fn read(bytes: &[u8; SIGNED_HEAD_BYTES]) -> Result<SignedHead, Malformed> {
        let head: NodeHead = zerocopy::transmute!(*bytes);
        if head.reserved.get() != 0 {
            return Err(Malformed("reserved bytes that are not zero"));
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
