//! Blocks: parsing, the header hash that links them, and the orderers' signatures.

use crate::der;
use crate::error::{Error, Refused};
use crate::limits::{BLOCK_BYTES_MAX, SIGNATURES_BYTES_MAX, SIGNATURES_MAX, TRANSACTIONS_MAX};
use crate::proto::{
    self, Arena, BlockHeader, ChannelHeader, Envelope, IdentifierHeader, Malformed, Message, Metadata,
    Payload, SignatureHeader, wire,
};
use crate::read::Tip;
use lineside_verify::hash::sha256_streams;
use sha2::{Digest, Sha256};

/// `BlockMetadataIndex_SIGNATURES`.
pub(crate) const SIGNATURES: usize = 0;
/// `BlockMetadataIndex_TRANSACTIONS_FILTER`.
pub(crate) const TRANSACTIONS_FILTER: usize = 2;
/// `BlockMetadataIndex_COMMIT_HASH`.
pub(crate) const COMMIT_HASH: usize = 4;
/// Number of metadata entries.
pub(crate) const METADATA: usize = 5;

/// Transaction types: `common.HeaderType`.
pub mod header_type {
    #![allow(missing_docs)]
    pub const CONFIG: i32 = 1;
    pub const CONFIG_UPDATE: i32 = 2;
    pub const ENDORSER_TRANSACTION: i32 = 3;
    pub const ORDERER_TRANSACTION: i32 = 4;
}

/// A parsed block; its parts borrow the input.
#[derive(Debug)]
pub struct Block<'a> {
    /// Block number.
    pub number: u64,
    /// Header hash of the previous block.
    pub previous_hash: &'a [u8],
    /// Hash of the transactions, from the header.
    pub data_hash: &'a [u8],
    /// Serialised envelopes of the transactions.
    pub transactions: Vec<&'a [u8]>,
    /// Metadata entries, by `BlockMetadataIndex`.
    pub metadata: Vec<&'a [u8]>,
}

/// A signature on a block, with its signer and the hash of the signed bytes.
#[derive(Debug)]
pub struct BlockSignature {
    /// The signer's `SerializedIdentity`.
    pub identity: Vec<u8>,
    /// SHA-256 of the signed bytes.
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

/// Returns the encoded length of a repeated bytes field with these elements, in bytes.
fn list_len(list: &[&[u8]]) -> usize {
    list.iter().map(|one| field_len(one.len())).sum()
}

/// Returns the encoded length of a field that contains a message of `content` bytes; 0 if the message is empty, because
/// the field is then left out.
fn part_len(content: usize) -> usize {
    match content {
        0 => 0,
        content => field_len(content),
    }
}

/// Returns the hash of a block's transactions.
pub(crate) fn data_digest(transactions: &[&[u8]]) -> [u8; 32] {
    let mut digest = [[0; 32]];
    sha256_streams(&[transactions], &mut digest);
    digest[0]
}

/// Returns the hash of each block's transactions; `None` for bytes that are not a block. The hashes are computed in
/// parallel lanes: the hashes of four blocks take about 1.5 times as long as that of one block.
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

/// Returns the number and the header hash of a block without parsing its transactions; `None` if the block does not
/// begin with a header. Further headers, which make a block malformed, are ignored.
pub(crate) fn tip_of(bytes: &[u8]) -> Option<Tip> {
    let mut rest = bytes;
    if wire::tag(&mut rest).ok()? != (1, wire::BYTES) {
        return None;
    }
    let header = BlockHeader::walk(wire::length_delimited(&mut rest).ok()?).ok()?;
    let block = Block {
        number: header.number,
        previous_hash: header.previous_hash,
        data_hash: header.data_hash,
        transactions: Vec::new(),
        metadata: Vec::new(),
    };
    Some(Tip {
        number: block.number,
        hash: block.hash(),
    })
}

impl<'a> Block<'a> {
    /// Parses a block. Only its encoding is checked, not its hashes or signatures.
    pub fn read(bytes: &'a [u8], arena: &'a Arena) -> Result<Self, Error> {
        let malformed = |what| Refused::Malformed { what };
        if bytes.len() > BLOCK_BYTES_MAX {
            return Err(malformed("it exceeds the maximum block size").into());
        }
        let block: proto::Block<'a> = proto::decode(bytes, arena).map_err(|why| {
            malformed(match why {
                Malformed::Bad => "it is not a valid protobuf Block message",
                Malformed::TooLarge => "its decoded form exceeds the size or nesting limit",
            })
        })?;
        let header = block.header.ok_or(malformed("it has no header"))?;
        let transactions = block.data.unwrap_or_default().data;
        if transactions.len() > TRANSACTIONS_MAX {
            return Err(malformed("it has more transactions than the limit").into());
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

    /// Returns the block in the encoding that Go's protobuf library writes: the fields that Fabric knows, each once, in
    /// the order of their numbers.
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

    /// Returns the header in DER: the input of the header hash, and part of the signed bytes.
    pub fn header_bytes(&self) -> Vec<u8> {
        let mut content = Vec::with_capacity(80);
        der::put_unsigned(&mut content, self.number);
        der::put(&mut content, der::tag::OCTET_STRING, self.previous_hash);
        der::put(&mut content, der::tag::OCTET_STRING, self.data_hash);
        let mut header = Vec::with_capacity(content.len() + 4);
        der::put(&mut header, der::tag::SEQUENCE, &content);
        header
    }

    /// Returns the header hash, which is the next block's previous hash.
    pub fn hash(&self) -> [u8; 32] {
        Sha256::digest(self.header_bytes()).into()
    }

    /// Checks that the hash of the transactions is the data hash in the header, and that the transactions are encoded
    /// as orderers encode them.
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

    /// Returns whether the block's only transaction is a configuration.
    pub fn is_config(&self) -> bool {
        let arena = Arena::new();
        let [only] = self.transactions.as_slice() else {
            return false;
        };
        let kind = channel_header(only, &arena).map(|header| header.kind);
        matches!(kind, Some(header_type::CONFIG | header_type::ORDERER_TRANSACTION))
    }

    /// Returns the serialised `ConfigEnvelope` of a genesis block.
    pub(crate) fn genesis_config(&self, arena: &'a Arena) -> Option<&'a [u8]> {
        let [only] = self.transactions.as_slice() else {
            return None;
        };
        let envelope: Envelope<'a> = proto::decode(only, arena).ok()?;
        let payload: Payload<'a> = proto::decode(envelope.payload, arena).ok()?;
        let header: ChannelHeader<'_> = proto::decode(payload.header?.channel_header, arena).ok()?;
        (header.kind == header_type::CONFIG).then_some(payload.data)
    }

    /// Returns the channel that the first transaction names; `None` if it cannot be parsed.
    pub fn channel(&self) -> Option<String> {
        let arena = Arena::new();
        let header = channel_header(self.transactions.first()?, &arena)?;
        Some(header.channel_id.to_owned())
    }

    /// Returns the signatures on the block. Signatures of BFT orderers name a consenter by number; `consenter` returns
    /// the identity for it.
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

    /// Returns the complete bytes that `signature` signs.
    pub(crate) fn signed_by(&self, signature: &BlockSignature) -> Vec<u8> {
        let arena = Arena::new();
        let bytes = self.metadata.get(SIGNATURES).copied().unwrap_or_default();
        let metadata: Metadata<'_> = proto::decode(bytes, &arena).unwrap_or_default();
        [metadata.value, &signature.header, &self.header_bytes()].concat()
    }

    /// Returns the validation codes that a committed block holds, one byte each.
    pub fn filter(&self) -> &'a [u8] {
        self.metadata
            .get(TRANSACTIONS_FILTER)
            .copied()
            .unwrap_or_default()
    }

    /// Returns the commit hash that a committed block holds.
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

/// Returns the bytes after the field `number`, if `bytes` begin with it in the shortest encoding and with content.
fn after_field(bytes: &[u8], number: u8) -> Option<&[u8]> {
    let (&tag, mut rest) = bytes.split_first()?;
    let content = wire::length_delimited(&mut rest).ok()?;
    let header_len = field_len(content.len()) - content.len();
    let is_shortest = bytes.len() - rest.len() == header_len + content.len();
    (tag == number << 3 | wire::BYTES && is_shortest && !content.is_empty()).then_some(rest)
}

/// Checks that an envelope has the encoding that Go writes: payload, signature, then unknown fields in their order.
fn well_formed(bytes: &[u8]) -> Result<(), &'static str> {
    // Nearly all envelopes have only the fields 1 and 2. For such an envelope, the long contents of the fields need not
    // be read.
    let after = after_field(bytes, 1).and_then(|rest| after_field(rest, 2));
    match after {
        Some([]) => Ok(()),
        _ => well_formed_with_others(bytes),
    }
}

/// Does the check of [`well_formed`] for any envelope.
fn well_formed_with_others(bytes: &[u8]) -> Result<(), &'static str> {
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
        _ => Err(
            "its envelope is not encoded as orderers encode it (payload, signature, unknown fields, in this order)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::network::Network;
    use lineside_testkit::Random;

    /// The quick check of an envelope has the same result as the complete one, also for encodings that Go does not
    /// write.
    #[test]
    fn the_quick_check_of_an_envelope_is_the_complete_one() {
        let mut random = Random(1);
        let (mut accepted, mut rejected, mut quick) = (0, 0, 0);
        for _ in 0..20_000 {
            let mut envelope = Vec::new();
            for number in [[1, 2, 3], [1, 2, 2], [2, 1, 3], [1, 1, 2]][random.below(8).min(3) as usize % 4] {
                if random.below(8) == 0 || number == 3 && random.below(4) > 0 {
                    continue;
                }
                let content = vec![b'c'; [0, 1, 127, 128, 200][random.below(5) as usize]];
                wire::put_varint(&mut envelope, number << 3 | u64::from(wire::BYTES));
                wire::put_varint(&mut envelope, content.len() as u64);
                if random.below(20) == 0 {
                    // Encode the same length with one byte more than necessary.
                    let last = envelope.pop().unwrap();
                    envelope.extend([last | 0x80, 0]);
                }
                envelope.extend(content);
            }
            if random.below(20) == 0 {
                envelope.pop();
            }
            let complete = well_formed_with_others(&envelope);
            assert_eq!(well_formed(&envelope), complete, "{envelope:?}");
            *(if complete.is_ok() {
                &mut accepted
            } else {
                &mut rejected
            }) += 1;
            let after = after_field(&envelope, 1).and_then(|rest| after_field(rest, 2));
            quick += u32::from(after == Some(&[]));
        }
        assert!(
            quick > 1_000 && accepted > quick && rejected > 1_000,
            "{quick} {accepted} {rejected}"
        );
    }

    #[test]
    fn the_tip_of_a_block_is_found_in_its_header() {
        let mut network = Network::new();
        let blocks = [network.genesis(), network.block(&[b"no transaction".to_vec()])];
        for bytes in &blocks {
            let arena = Arena::new();
            let block = Block::read(bytes, &arena).unwrap();
            let tip = tip_of(bytes).unwrap();
            assert_eq!((tip.number, tip.hash), (block.number, block.hash()));
        }
        assert_eq!(tip_of(&blocks[1][..20]), None);
        assert_eq!(tip_of(b"no block"), None);
    }
}
