//! Blocks: their header, what makes them follow one another, who signed them.

use crate::der;
use crate::error::{Error, Refused};
use crate::limits::{BLOCK_BYTES_MAX, SIGNATURES_BYTES_MAX, SIGNATURES_MAX, TRANSACTIONS_MAX};
use crate::proto::{
    self, Arena, ChannelHeader, Envelope, IdentifierHeader, Malformed, Metadata, Payload, SignatureHeader,
    wire,
};
use lineside_verify::hash::sha256_streams;
use sha2::{Digest, Sha256};

/// `BlockMetadataIndex_SIGNATURES`.
pub(crate) const SIGNATURES: usize = 0;
/// `BlockMetadataIndex_TRANSACTIONS_FILTER`.
pub(crate) const TRANSACTIONS_FILTER: usize = 2;
/// `BlockMetadataIndex_COMMIT_HASH`.
pub(crate) const COMMIT_HASH: usize = 4;
/// How many entries there are.
pub(crate) const METADATA: usize = 5;

/// Types of transactions.
pub mod header_type {
    #![allow(missing_docs)]
    pub const CONFIG: i32 = 1;
    pub const CONFIG_UPDATE: i32 = 2;
    pub const ENDORSER_TRANSACTION: i32 = 3;
    pub const ORDERER_TRANSACTION: i32 = 4;
}

/// A block, read.
#[derive(Debug)]
pub struct Block<'a> {
    /// Its number.
    pub number: u64,
    /// The header hash of the block before it.
    pub previous_hash: &'a [u8],
    /// The hash of its transactions.
    pub data_hash: &'a [u8],
    /// Its transactions' envelopes.
    pub transactions: Vec<&'a [u8]>,
    /// Its metadata.
    pub metadata: Vec<&'a [u8]>,
}

/// A signature on a block: whose, over what.
#[derive(Debug)]
pub struct BlockSignature {
    /// The signer, serialised.
    pub identity: Vec<u8>,
    /// SHA-256 of what is signed.
    pub digest: [u8; 32],
    /// The signature.
    pub signature: Vec<u8>,
    /// Bytes of the signature's own header, or of its identifier header, which are signed together with the block's
    /// header.
    header: Vec<u8>,
}

/// Returns the encoded length of a protobuf field with a number below 16 whose content has `content` bytes.
fn field_len(content: usize) -> usize {
    let length_bits = usize::BITS - (content | 1).leading_zeros();
    1 + length_bits.div_ceil(7) as usize + content
}

/// Returns the length of a repeated field.
fn list_len(list: &[&[u8]]) -> usize {
    list.iter().map(|one| field_len(one.len())).sum()
}

/// Returns the length of a message's field; an empty list has none.
fn part_len(content: usize) -> usize {
    match content {
        0 => 0,
        content => field_len(content),
    }
}

/// The hash of a block's transactions.
pub(crate) fn data_digest(transactions: &[&[u8]]) -> [u8; 32] {
    let mut digest = [[0; 32]];
    sha256_streams(&[transactions], &mut digest);
    digest[0]
}

/// The hashes of several blocks' transactions, which are made side by side: four take little more than one and a half
/// times as long as one. `None` for what is no block.
pub(crate) fn data_digests(blocks: &[&[u8]]) -> Vec<Option<[u8; 32]>> {
    let arena = Arena::new();
    let read = blocks.iter().map(|bytes| Block::read(bytes, &arena).ok());
    let transactions: Vec<Vec<&[u8]>> = read
        .map(|block| block.map_or(Vec::new(), |block| block.transactions))
        .collect();
    let messages: Vec<&[&[u8]]> = transactions.iter().map(Vec::as_slice).collect();
    let mut digests = vec![[0; 32]; blocks.len()];
    sha256_streams(&messages, &mut digests);
    let known = transactions.iter().zip(digests);
    known
        .map(|(transactions, digest)| (!transactions.is_empty()).then_some(digest))
        .collect()
}

impl<'a> Block<'a> {
    /// Reads a block. Nothing is checked but its form.
    pub fn read(bytes: &'a [u8], arena: &'a Arena) -> Result<Self, Error> {
        let malformed = |what| Refused::Malformed { what };
        if bytes.len() > BLOCK_BYTES_MAX {
            return Err(malformed("more bytes than are taken").into());
        }
        let block: proto::Block<'a> = proto::decode(bytes, arena).map_err(|why| {
            malformed(match why {
                Malformed::Bad => "not the message",
                Malformed::TooLarge => "larger than is taken",
            })
        })?;
        let header = block.header.ok_or(malformed("there is no header"))?;
        let transactions = block.data.unwrap_or_default().data;
        if transactions.len() > TRANSACTIONS_MAX {
            return Err(malformed("more transactions than are taken").into());
        }
        Ok(Self {
            number: header.number,
            previous_hash: header.previous_hash,
            data_hash: header.data_hash,
            transactions,
            metadata: block.metadata.unwrap_or_default().metadata,
        })
    }

    /// Returns the number of bytes of [`Block::canonical_bytes`].
    pub fn canonical_len(&self) -> usize {
        let header = self.canonical_header().len();
        let data = list_len(&self.transactions);
        let metadata = list_len(&self.metadata);
        field_len(header) + [data, metadata].into_iter().map(part_len).sum::<usize>()
    }

    /// Returns the block as Go writes it: the fields that Fabric knows, each once, in their order.
    pub fn canonical_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.canonical_len());
        wire::put_bytes(&mut out, 1, &self.canonical_header());
        for (number, list) in [(2, &self.transactions), (3, &self.metadata)] {
            if list.is_empty() {
                continue;
            }
            wire::put_varint(&mut out, number << 3 | 2);
            wire::put_varint(&mut out, list_len(list) as u64);
            for one in list {
                wire::put_bytes(&mut out, 1, one);
            }
        }
        out
    }

    fn canonical_header(&self) -> Vec<u8> {
        let mut header = Vec::with_capacity(80);
        if self.number > 0 {
            wire::put_number(&mut header, 1, self.number);
        }
        for (number, hash) in [(2, self.previous_hash), (3, self.data_hash)] {
            if !hash.is_empty() {
                wire::put_bytes(&mut header, number, hash);
            }
        }
        header
    }

    /// The header in DER: what is hashed, and signed.
    pub fn header_bytes(&self) -> Vec<u8> {
        let mut content = Vec::with_capacity(80);
        der::put_unsigned(&mut content, self.number);
        der::put(&mut content, der::tag::OCTET_STRING, self.previous_hash);
        der::put(&mut content, der::tag::OCTET_STRING, self.data_hash);
        let mut header = Vec::with_capacity(content.len() + 4);
        der::put(&mut header, der::tag::SEQUENCE, &content);
        header
    }

    /// The header hash: what the next block has as its previous hash.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.header_bytes()).into()
    }

    /// Whether the transactions are the header's and stand as the orderer writes them.
    pub fn check_data(&self) -> Result<(), Refused> {
        self.check_data_of(data_digest(&self.transactions))
    }

    /// Does the same checks as [`Self::check_data`] with `digest`, a hash of the transactions that was computed before.
    pub(crate) fn check_data_of(&self, digest: [u8; 32]) -> Result<(), Refused> {
        if self.transactions.is_empty() {
            return Err(Refused::Empty);
        }
        if !self.is_config() {
            for (index, envelope) in self.transactions.iter().enumerate() {
                well_formed(envelope).map_err(|what| Refused::Envelope { index, what })?;
            }
        }
        if digest != self.data_hash {
            return Err(Refused::DataHash);
        }
        Ok(())
    }

    /// Whether its only transaction is a configuration's.
    pub fn is_config(&self) -> bool {
        let arena = Arena::new();
        let [only] = self.transactions.as_slice() else {
            return false;
        };
        let kind = channel_header(only, &arena).map(|header| header.kind);
        matches!(kind, Some(header_type::CONFIG | header_type::ORDERER_TRANSACTION))
    }

    /// The configuration of a genesis block.
    pub(crate) fn genesis_config(&self, arena: &'a Arena) -> Option<&'a [u8]> {
        let [only] = self.transactions.as_slice() else {
            return None;
        };
        let envelope: Envelope<'a> = proto::decode(only, arena).ok()?;
        let payload: Payload<'a> = proto::decode(envelope.payload, arena).ok()?;
        let header: ChannelHeader<'_> = proto::decode(payload.header?.channel_header, arena).ok()?;
        (header.kind == header_type::CONFIG).then_some(payload.data)
    }

    /// The channel that its first transaction names, where that can be read.
    pub fn channel(&self) -> Option<String> {
        let arena = Arena::new();
        let header = channel_header(self.transactions.first()?, &arena)?;
        Some(header.channel_id.to_owned())
    }

    /// The signatures on the block. Those of BFT orderers name a consenter by number, whose identity is looked up.
    pub fn signatures(
        &self,
        consenter: impl Fn(u32) -> Option<Vec<u8>>,
        bft: bool,
    ) -> Result<Vec<BlockSignature>, Refused> {
        if self.metadata.len() < METADATA {
            return Err(Refused::Metadata {
                found: self.metadata.len(),
            });
        }
        let arena = Arena::new();
        let bytes = self.metadata.get(SIGNATURES).copied().unwrap_or_default();
        if bytes.len() > SIGNATURES_BYTES_MAX {
            return Err(Refused::Signature);
        }
        let metadata: Metadata<'_> = proto::decode(bytes, &arena).map_err(|_| Refused::Signature)?;
        if metadata.signatures.len() > SIGNATURES_MAX {
            return Err(Refused::Signature);
        }
        let header = self.header_bytes();
        let mut signatures = Vec::new();
        for of in &metadata.signatures {
            let numbered = bft && of.signature_header.is_empty() && !of.identifier_header.is_empty();
            let (signed, identity) = if numbered {
                let by: IdentifierHeader<'_> =
                    proto::decode(of.identifier_header, &arena).map_err(|_| Refused::Signature)?;
                let Some(identity) = consenter(by.identifier).filter(|identity| !identity.is_empty()) else {
                    continue;
                };
                (of.identifier_header, identity)
            } else {
                let by: SignatureHeader<'_> =
                    proto::decode(of.signature_header, &arena).map_err(|_| Refused::Signature)?;
                (of.signature_header, by.creator.to_vec())
            };
            let hasher = Sha256::new().chain_update(metadata.value).chain_update(signed);
            signatures.push(BlockSignature {
                identity,
                digest: hasher.chain_update(&header).finalize().into(),
                signature: of.signature.to_vec(),
                header: signed.to_vec(),
            });
        }
        Ok(signatures)
    }

    /// All bytes that a signature on the block signs.
    pub(crate) fn signed_by(&self, signature: &BlockSignature) -> Vec<u8> {
        let arena = Arena::new();
        let bytes = self.metadata.get(SIGNATURES).copied().unwrap_or_default();
        let metadata: Metadata<'_> = proto::decode(bytes, &arena).unwrap_or_default();
        [metadata.value, &signature.header, &self.header_bytes()].concat()
    }

    /// The codes that a committed block holds, one byte each.
    pub fn filter(&self) -> &'a [u8] {
        self.metadata
            .get(TRANSACTIONS_FILTER)
            .copied()
            .unwrap_or_default()
    }

    /// The commit hash that a committed block holds.
    pub fn commit_hash(&self) -> Option<Vec<u8>> {
        let arena = Arena::new();
        let bytes = self.metadata.get(COMMIT_HASH).copied()?;
        let metadata: Metadata<'_> = proto::decode(bytes, &arena).ok()?;
        (!metadata.value.is_empty()).then(|| metadata.value.to_vec())
    }
}

fn channel_header<'a>(envelope: &'a [u8], arena: &'a Arena) -> Option<ChannelHeader<'a>> {
    let envelope: Envelope<'_> = proto::decode(envelope, arena).ok()?;
    let payload: Payload<'_> = proto::decode(envelope.payload, arena).ok()?;
    proto::decode(payload.header?.channel_header, arena).ok()
}

/// Whether an envelope is what Go would write of it: payload, signature, then what it does not know, as it came.
fn well_formed(bytes: &[u8]) -> Result<(), &'static str> {
    const MALFORMED: &str = "it is malformed";
    let mut rest = bytes;
    let (mut payload, mut signature, mut unknown) = (None, None, Vec::new());
    while !rest.is_empty() {
        let mut after = rest;
        let (number, wire_type) = wire::tag(&mut after).map_err(|_| MALFORMED)?;
        let value = after;
        if matches!(number, 1 | 2) && wire_type == wire::BYTES {
            let content = wire::length_delimited(&mut after).map_err(|_| MALFORMED)?;
            *(if number == 1 { &mut payload } else { &mut signature }) = Some(content);
        } else {
            wire::skip(number, wire_type, &mut after).map_err(|_| MALFORMED)?;
            wire::put_varint(&mut unknown, u64::from(number) << 3 | u64::from(wire_type));
            let length = value.len() - after.len();
            unknown.extend_from_slice(value.get(..length).unwrap_or_default());
        }
        rest = after;
    }
    let payload = payload
        .filter(|payload| !payload.is_empty())
        .ok_or("it has no payload")?;
    let signature = signature
        .filter(|signature| !signature.is_empty())
        .ok_or("it has no signature")?;
    let header = |number: u64, content: &[u8]| {
        let mut header = Vec::with_capacity(6);
        wire::put_varint(&mut header, number << 3 | u64::from(wire::BYTES));
        wire::put_varint(&mut header, content.len() as u64);
        header
    };
    let before = [header(1, payload), header(2, signature)];
    let parts = [
        before[0].as_slice(),
        payload,
        before[1].as_slice(),
        signature,
        &unknown,
    ];
    let canonical = parts
        .iter()
        .try_fold(bytes, |rest, part| rest.strip_prefix(*part));
    match canonical {
        Some([]) => Ok(()),
        _ => Err("it is not in the form that the orderer writes"),
    }
}
