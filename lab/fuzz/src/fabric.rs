//! Fuzz targets for blocks of Hyperledger Fabric. They compare the walker with the plain decoder, and check
//! certificates, whole blocks, and packets of the block protocol.

use lineside_fabric::proto::{self, Arena, Malformed, Message, WalkError, decode_plain, plain};
use lineside_fabric::replay::read;
use lineside_fabric::x509::{Certificate, Crl, SignedDer};
use lineside_fabric::{Options, TxCode, Validator, pem};
use std::cell::RefCell;
use std::path::Path;

pub(crate) fn block_of(number: u64) -> Vec<u8> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/fabric/tests/data/edge");
    match read(&directory, number, "orderer") {
        Ok(Some(block)) => block,
        other => panic!("no block {number} in {}: {other:?}", directory.display()),
    }
}

fn agree<'a, M: Message<'a> + PartialEq + std::fmt::Debug>(bytes: &'a [u8], arena: &'a Arena) {
    let plain = decode_plain::<M>(bytes, arena);
    match M::walk(bytes) {
        Ok(walked) => assert_eq!(Ok(walked), plain),
        Err(WalkError::Malformed) => assert!(plain.is_err()),
        Err(WalkError::Unordered) => {}
        Err(WalkError::TooLarge) => assert_eq!(plain, Err(Malformed::TooLarge)),
    }
    stays::<M>(bytes);
}

/// Checks that encoding a decoded message again gives the same bytes.
fn stays<'a, M: Message<'a>>(bytes: &[u8]) {
    if let Ok(ordered) = plain::normalise(M::schema(), bytes) {
        assert_eq!(plain::normalise(M::schema(), &ordered).as_ref(), Ok(&ordered));
    }
}

/// Decodes any bytes as each of the message types.
pub fn walk(bytes: &[u8]) {
    let arena = Arena::new();
    agree::<proto::Block<'_>>(bytes, &arena);
    agree::<proto::Envelope<'_>>(bytes, &arena);
    agree::<proto::Payload<'_>>(bytes, &arena);
    agree::<proto::ChannelHeader<'_>>(bytes, &arena);
    agree::<proto::Transaction<'_>>(bytes, &arena);
    agree::<proto::ChaincodeActionPayload<'_>>(bytes, &arena);
    agree::<proto::ChaincodeAction<'_>>(bytes, &arena);
    agree::<proto::TxReadWriteSet<'_>>(bytes, &arena);
    agree::<proto::KvRwSet<'_>>(bytes, &arena);
    agree::<proto::HashedRwSet<'_>>(bytes, &arena);
    // The walker does not decode recursive messages, so only the plain decoder is checked.
    stays::<proto::SignaturePolicyEnvelope<'_>>(bytes);
    stays::<proto::ConfigEnvelope<'_>>(bytes);
}

/// Returns a block, an envelope and a payload.
pub fn walk_seeds() -> Vec<Vec<u8>> {
    let arena = Arena::new();
    let block = block_of(3);
    let mut seeds = vec![block.clone()];
    if let Ok(block) = proto::decode::<proto::Block<'_>>(&block, &arena) {
        for envelope in block.data.unwrap_or_default().data {
            seeds.push(envelope.to_vec());
            if let Ok(envelope) = proto::decode::<proto::Envelope<'_>>(envelope, &arena) {
                seeds.push(envelope.payload.to_vec());
            }
        }
    }
    seeds
}

/// Decodes any bytes as PEM, a certificate or a revocation list.
pub fn certificate(bytes: &[u8]) {
    let decoded = pem::decode(bytes);
    let der = decoded.as_deref().unwrap_or(bytes);
    if let Some(signed) = SignedDer::parse(der) {
        assert_eq!(signed.whole, der, "no bytes may follow the certificate");
        if let Some(certificate) = Certificate::parse(&signed, None) {
            let again = SignedDer::parse(&certificate.raw);
            let again = again.as_ref().and_then(|again| Certificate::parse(again, None));
            assert_eq!(again.map(|again| again.raw).as_ref(), Some(&certificate.raw));
        }
    }
    if let Some(crl) = Crl::parse(der) {
        assert!(crl.serials.iter().all(|serial| crl.lists(serial)));
    }
}

/// Returns the certificates and the revocation list of the genesis block, and the certificates of its first
/// transactions.
pub fn certificate_seeds() -> Vec<Vec<u8>> {
    let (begin, end): (&[u8], &[u8]) = (b"-----BEGIN ", b"-----\n");
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for number in [0, 1] {
        let block = block_of(number);
        let starts = block
            .windows(begin.len())
            .enumerate()
            .filter(|(_, window)| *window == begin);
        for (start, _) in starts.take(12) {
            let text = &block[start..block.len().min(start + 2_000)];
            let ends: Vec<_> = text
                .windows(end.len())
                .enumerate()
                .filter(|(_, window)| *window == end)
                .collect();
            if let Some((length, _)) = ends.get(1) {
                let text = text[..length + end.len()].to_vec();
                if let Some(der) = pem::decode(&text) {
                    seeds.push(der);
                }
                seeds.push(text);
            }
        }
    }
    seeds
}

/// Passes any bytes as the block after genesis to a validator. The next input uses the same validator.
pub fn block(bytes: &[u8]) {
    thread_local! {
        static VALIDATOR: RefCell<Option<Validator>> = const { RefCell::new(None) };
    }
    VALIDATOR.with_borrow_mut(|validator| {
        let validator =
            validator.get_or_insert_with(|| match Validator::new(&block_of(0), Options::default()) {
                Ok(validator) => validator,
                Err(error) => panic!("{error}"),
            });
        // The orderer's signature covers number, hashes and transactions. An accepted block is therefore the recorded
        // one, except for bytes that the validator ignores.
        if let Ok(validated) = validator.validate(bytes) {
            assert_eq!((validated.number, validated.codes), (1, vec![TxCode::Valid]));
        }
        assert_eq!(validator.last(), 0);
    });
    let _ = Validator::new(bytes, Options::default());
}

/// Returns the first three blocks.
pub fn block_seeds() -> Vec<Vec<u8>> {
    (0..3).map(block_of).collect()
}

// This is the driver of a test of lineside-fabric-udp. That crate cannot depend on this one, so the shared file is in
// its folder.
#[path = "../../../crates/fabric-udp/tests/packets/mod.rs"]
mod driver;

pub use driver::{packet_seeds, packets};
