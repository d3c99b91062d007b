//! Assembly of blocks: headers, metadata, and signatures of the orderer.

use crate::network::{Identity, Network};
use crate::proto::Out;
use crate::sign::sign_all;
use lineside_fabric::der::{self, tag};
use lineside_fabric::proto::wire;
use sha2::{Digest, Sha256};

/// Fault of a whole block. A peer refuses a block with such a fault and requests it again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum BlockFault {
    Number,
    PreviousHash,
    DataHash,
    /// The orderer signed other data.
    Signature,
    NoSignature,
    /// A peer signed instead of an orderer.
    SignedByPeer,
    NoTransactions,
    /// A transaction belongs to another channel.
    Channel,
    /// A transaction has no signature.
    EmptySignature,
    /// A byte follows a transaction's last field, so the encoding is not canonical.
    TrailingBytes,
}

impl BlockFault {
    /// All faults.
    pub const ALL: [Self; 10] = [
        Self::Number,
        Self::PreviousHash,
        Self::DataHash,
        Self::Signature,
        Self::NoSignature,
        Self::SignedByPeer,
        Self::NoTransactions,
        Self::Channel,
        Self::EmptySignature,
        Self::TrailingBytes,
    ];
}

/// End of a generated chain, to which the next block is added.
#[derive(Clone, Debug)]
pub(crate) struct Tip {
    /// Number of the next block.
    pub number: u64,
    pub previous_hash: Vec<u8>,
    pub last_config: u64,
}

/// Returns a block's header in DER, which is hashed and signed.
fn header_bytes(number: u64, previous_hash: &[u8], data_hash: &[u8]) -> Vec<u8> {
    let mut content = Vec::with_capacity(80);
    der::put_unsigned(&mut content, number);
    der::put(&mut content, tag::OCTET_STRING, previous_hash);
    der::put(&mut content, tag::OCTET_STRING, data_hash);
    let mut header = Vec::with_capacity(84);
    der::put(&mut header, tag::SEQUENCE, &content);
    header
}

/// Returns a `SignatureHeader`.
pub(crate) fn signature_header(identity: &Identity, nonce: &[u8]) -> Vec<u8> {
    Out::new().bytes(1, &identity.serialized).bytes(2, nonce).done()
}

/// Returns the first 24 bytes of a hash as a nonce.
pub(crate) fn nonce(parts: &[&[u8]]) -> [u8; 24] {
    let digest = parts
        .iter()
        .fold(Sha256::new(), |hash, part| hash.chain_update(part));
    let digest: [u8; 32] = digest.finalize().into();
    let mut nonce = [0; 24];
    nonce.copy_from_slice(&digest[..24]);
    nonce
}

/// Signs and encodes the next block, and advances the tip. The tip does not advance if the block has a fault.
pub(crate) fn seal(
    network: &Network,
    tip: &mut Tip,
    envelopes: &[Vec<u8>],
    fault: Option<BlockFault>,
) -> Vec<u8> {
    let is = |other| fault == Some(other);
    let envelopes = if is(BlockFault::NoTransactions) {
        &[]
    } else {
        envelopes
    };
    let number = tip.number + u64::from(is(BlockFault::Number));
    let mut previous_hash = tip.previous_hash.clone();
    let mut data_hash: [u8; 32] = {
        let hash = envelopes
            .iter()
            .fold(Sha256::new(), |hash, envelope| hash.chain_update(envelope));
        hash.finalize().into()
    };
    if is(BlockFault::DataHash) {
        data_hash[0] ^= 1;
    }
    if is(BlockFault::PreviousHash) {
        previous_hash[0] ^= 1;
    }
    let header = header_bytes(number, &previous_hash, &data_hash);

    let data_bytes: usize = envelopes.iter().map(|envelope| envelope.len() + 6).sum();
    let mut data = Vec::with_capacity(data_bytes);
    for envelope in envelopes {
        wire::put_bytes(&mut data, 1, envelope);
    }
    let header_fields = Out::new()
        .number(1, number)
        .some(2, &previous_hash)
        .bytes(3, data_hash);
    let mut block = Vec::with_capacity(data.len() + 2_000);
    wire::put_bytes(&mut block, 1, header_fields.as_ref());
    wire::put_bytes(&mut block, 2, &data);
    let metadata = metadata(network, number, tip.last_config, &header, fault);
    wire::put_bytes(&mut block, 3, metadata.as_ref());
    if fault.is_none() {
        tip.number += 1;
        tip.previous_hash = Sha256::digest(&header).to_vec();
    }
    block
}

/// Returns the block metadata: SIGNATURES, LAST_CONFIG, and three fields that a peer fills or that are unused.
fn metadata(
    network: &Network,
    number: u64,
    last_config: u64,
    header: &[u8],
    fault: Option<BlockFault>,
) -> Out {
    let index = Out::new().number(1, last_config);
    // The Raft metadata of etcdraft: list of the consenters' numbers (only 1), number for the next new consenter (2),
    // and index of the log entry.
    let raft = Out::new().bytes(1, [1]).number(2, 2).number(3, number + 2);
    let raft = if number == 0 {
        Out::new()
    } else {
        Out::new().message(1, raft)
    };
    let value = Out::new().message(1, index.clone()).some(2, raft).done();
    let orderers = &network.orderer.nodes;
    let mut signer = &orderers[(number % orderers.len() as u64) as usize];
    if fault == Some(BlockFault::SignedByPeer) {
        signer = network.peer(0);
    }
    let seed = network.seed.to_be_bytes();
    let label = [b"block".as_slice(), &seed, &number.to_be_bytes()];
    let by = signature_header(signer, &nonce(&label));
    let digest = Sha256::new()
        .chain_update(&value)
        .chain_update(&by)
        .chain_update(header);
    let mut digest: [u8; 32] = digest.finalize().into();
    if fault == Some(BlockFault::Signature) {
        digest[0] ^= 1;
    }
    let unsigned = number == 0 || fault == Some(BlockFault::NoSignature);
    let signature = (!unsigned).then(|| {
        // There is also a block without a fault with the same number, so a block with a fault needs other nonces.
        let fault = [fault.map_or(0, |fault| fault as u8 + 1)];
        let label = [b"block".as_slice(), &seed, &number.to_be_bytes(), &fault];
        let signature = sign_all(&label, &[(&signer.key, digest)]);
        Out::new().bytes(1, &by).bytes(2, signature[0].der())
    });
    let signatures = Out::new().bytes(1, value).each(2, signature);
    let index = if last_config == 0 {
        Out::new()
    } else {
        Out::new().message(1, index)
    };
    Out::new()
        .message(1, signatures)
        .message(1, index)
        .bytes(1, [])
        .bytes(1, [])
        .bytes(1, [])
}
