//! Tests of three properties: unverified input costs little and decides nothing; a transaction on which a peer would
//! hang or crash gets no code; reading ahead does not change the result.

use super::network::{Network, Payload, Spec, message, metadata, number, policy, read, rwset, write};
use super::update::Change;
use crate::ahead::BlockReadAhead;
use crate::block::{Block, data_digests};
use crate::limits::{REPEATED_ENTRIES_MAX, SIGNATURES_BYTES_MAX};
use crate::proto::{Arena, wire::put_bytes};
use crate::{Error, Options, Refused, Stop, TxCode, Validator};

const CC: &str = "cc";

/// Creates a channel with a chaincode that any peer of the first organisation can endorse.
fn channel() -> (Network, Validator) {
    let mut network = Network::new();
    let mut validator = network.start(None);
    let policy = policy::application(&policy::n_of(1, &[("Org1MSP", 3)]));
    let definition = network.define(CC, &policy, &[]).build();
    assert_eq!(network.codes(&mut validator, &[definition]), [TxCode::Valid]);
    (network, validator)
}

fn writing(key: &str) -> Vec<u8> {
    rwset(&[(CC, &write(key, b"value"), &[])])
}

fn with_data(data: &'static [u8]) -> Option<Payload> {
    Some(Box::new(move |header, _| message(&[(1, header), (2, data)])))
}

/// Returns the block with other content in the metadata entry of the signatures.
fn with_signatures(block: &[u8], signatures: &[u8]) -> Vec<u8> {
    let arena = crate::proto::Arena::new();
    let block: crate::proto::Block<'_> = crate::proto::decode(block, &arena).unwrap();
    let header = block.header.unwrap();
    let header = [
        number(1, header.number),
        message(&[(2, header.previous_hash), (3, header.data_hash)]),
    ]
    .concat();
    let mut data = Vec::new();
    for envelope in block.data.unwrap().data {
        put_bytes(&mut data, 1, envelope);
    }
    let metadata = message(&[(1, signatures), (1, b""), (1, b""), (1, b""), (1, b"")]);
    message(&[(1, &header), (2, &data), (3, &metadata)])
}

fn refusal(validated: Result<crate::ValidatedBlock, Error>) -> Refused {
    match validated {
        Err(Error::Refused(refused)) => refused,
        other => panic!("{other:?}"),
    }
}

#[test]
fn too_many_block_signatures_refuse_the_block_without_stopping() {
    let (mut network, mut validator) = channel();
    let tx = network.tx(CC, &writing("a")).build();
    let good = network.block(&[tx]);
    let empty = [0x12, 0].repeat(5_000);
    let block = with_signatures(&good, &empty);
    assert_eq!(refusal(validator.validate(&block)), Refused::Signature);
    let more = [0x12, 0].repeat(SIGNATURES_BYTES_MAX / 2 + 1);
    let block = with_signatures(&good, &more);
    assert_eq!(refusal(validator.validate(&block)), Refused::Signature);
    assert_eq!(validator.validate(&good).unwrap().codes, [TxCode::Valid]);
}

#[test]
fn an_unsigned_block_is_refused_before_it_is_parsed() {
    let (mut network, mut validator) = channel();
    // The transaction has a million empty namespaces. Parsing them would take ten times as much memory as the block.
    let many = [0x12, 0].repeat(REPEATED_ENTRIES_MAX + 1);
    let tx = network.tx(CC, &many).build();
    let signed = network.block(&[tx]);
    let unsigned = with_signatures(&signed, b"");
    assert_eq!(refusal(validator.validate(&unsigned)), Refused::Signature);
    // If an orderer has signed the same block, validation stops, because the decision of peers is not known.
    let stopped = validator.validate(&signed);
    assert!(
        matches!(stopped, Err(Error::Stop(Stop::Transaction { index: 0, .. }))),
        "{stopped:?}"
    );
}

#[test]
fn more_transactions_than_the_limit_refuse_the_block() {
    let (_, mut validator) = channel();
    let data = [0x0a, 0].repeat(REPEATED_ENTRIES_MAX + 1);
    let block = message(&[(1, &number(1, 2)), (2, &data)]);
    assert!(matches!(
        refusal(validator.validate(&block)),
        Refused::Malformed { .. }
    ));
}

/// Returns the codes of two transactions, or the reason for a stop.
fn codes_after(
    first: Vec<u8>,
    network: &mut Network,
    validator: &mut Validator,
) -> Result<Vec<TxCode>, Error> {
    let second = network.tx(CC, &writing("b")).build();
    network.next(validator, &[first, second])
}

/// A peer scans the writes of each transaction before the transaction that it evaluates. If the action of a scanned
/// transaction is missing, the peer crashes; if a message in it cannot be decoded, the peer never finishes.
#[test]
fn an_earlier_transaction_can_halt_peers() {
    for (data, why) in [
        (&b""[..], "crash"),
        (b"\xff", "wait forever"),
        (b"\x0a\x02\x12\x00", "crash"),
        (b"\x0a\x03\x12\x01\xff", "wait forever"),
    ] {
        let (mut network, mut validator) = channel();
        let mut first = network.tx(CC, &writing("a"));
        first.payload = with_data(data);
        match codes_after(first.build(), &mut network, &mut validator) {
            Err(Error::Stop(Stop::Transaction { index: 1, what })) => {
                assert!(what.contains(why), "{data:?}: {what}");
            }
            other => panic!("{data:?}: {other:?}"),
        }
        // If the transaction is alone in its block, it gets a code, and the next block is decided.
        let mut alone = network.tx(CC, &writing("a"));
        alone.payload = with_data(data);
        let alone = alone.build();
        let codes = network.codes(&mut validator, &[alone]);
        assert_ne!(codes, [TxCode::Valid], "{data:?}");
        let good = network.tx(CC, &writing("b")).build();
        assert_eq!(network.codes(&mut validator, &[good]), [TxCode::Valid]);
    }
}

/// A peer does not wait for the result of a transaction whose read-write set cannot be decoded.
#[test]
fn a_malformed_write_set_does_not_halt_peers() {
    let (mut network, mut validator) = channel();
    let first = network.tx(CC, b"\xff").build();
    let codes = codes_after(first, &mut network, &mut validator).unwrap();
    assert_eq!(codes, [TxCode::BadRwset, TxCode::Valid]);
}

/// A transaction with a wrong chaincode name is not evaluated, but peers still wait for its metadata writes.
#[test]
fn peers_wait_for_metadata_writes_of_invalid_transactions() {
    let policy = policy::application(&policy::n_of(1, &[("Org1MSP", 3)]));
    let set = rwset(&[(CC, &metadata("b", &policy), &[])]);
    for (key, decided) in [("b", false), ("c", true)] {
        let (mut network, mut validator) = channel();
        let mut first = network.tx(CC, &set);
        first.extension = Some(message(&[(2, &message(&[(2, b"other")]))]));
        let second = network.tx(CC, &writing(key)).build();
        let codes = network.next(&mut validator, &[first.build(), second]);
        match codes {
            Ok(codes) => assert!(
                decided && codes == [TxCode::InvalidChaincode, TxCode::Valid],
                "{key}: {codes:?}"
            ),
            Err(Error::Stop(Stop::Transaction { index: 1, .. })) => assert!(!decided, "{key}"),
            Err(other) => panic!("{key}: {other:?}"),
        }
    }
}

#[test]
fn the_configuration_is_read_from_the_block_and_not_from_the_state() {
    let (mut network, mut validator) = channel();
    let set = rwset(&[
        (CC, &write("a", b"1"), &[]),
        ("", &read("CHANNEL_CONFIG_ENV_BYTES", None), &[]),
    ]);
    let tx = network.tx(CC, &set).build();
    let stopped = network.next(&mut validator, &[tx]);
    assert!(
        matches!(stopped, Err(Error::Stop(Stop::Transaction { index: 0, .. }))),
        "{stopped:?}"
    );
}

/// Blocks are read ahead before their predecessors are decided, including a configuration that revokes a client.
#[test]
fn reading_ahead_gives_the_same_results() {
    let mut network = Network::new();
    let genesis = network.genesis();
    let mut validator = Validator::new(&genesis, Options::default()).unwrap();
    let (mut blocks, mut codes) = (Vec::new(), Vec::new());
    let mut follow = |network: &mut Network, tx: Vec<u8>| {
        let block = network.block(&[tx]);
        let validated = validator.validate(&block).unwrap();
        network.last = (validated.number, validated.hash.to_vec());
        codes.push(validated.codes.clone());
        validator.commit(validated);
        blocks.push(block);
    };
    let policy = policy::application(&policy::n_of(1, &[("Org1MSP", 3)]));
    let definition = network.define(CC, &policy, &[]).build();
    follow(&mut network, definition);
    let client = network.client(0);
    let before = network.tx(CC, &writing("a")).from(&client).build();
    follow(&mut network, before);
    let config = network.config();
    let serial = Spec::new("user1", &["client"]).serial;
    network.orgs[0].crls = vec![network.orgs[0].root.revoke(&[serial])];
    let admin = network.orgs[0].admin();
    let config = Change::between(&config, &network.config()).by(&[&admin]);
    let config = config.transaction(&mut network);
    follow(&mut network, config);
    let after = network.tx(CC, &writing("b")).from(&client).build();
    follow(&mut network, after);
    assert_eq!(codes[3], [TxCode::BadCreatorSignature]);

    for depth in 1..=4 {
        let mut again = Validator::new(&genesis, Options::default()).unwrap();
        let mut ahead = BlockReadAhead::start(2).unwrap();
        let (mut begun, mut left) = (0, blocks.iter());
        for (number, codes) in codes.iter().enumerate() {
            for block in left.by_ref().take(number + depth - begun) {
                ahead.begin(block.clone(), &again);
                begun += 1;
            }
            let (bytes, validated) = ahead.take().unwrap().decide(&mut again);
            assert_eq!(bytes, blocks[number]);
            let validated = validated.unwrap();
            assert_eq!(validated.codes, *codes, "{depth}");
            again.commit(validated);
        }
        assert!(ahead.take().is_none());
        assert_eq!(again.commit_hash(), validator.commit_hash());
    }
}

/// A block that was read ahead after a block that is refused is read again after the accepted block.
#[test]
fn a_refused_block_does_not_affect_later_blocks() {
    let (mut network, mut validator) = channel();
    let bad = with_signatures(&network.block(&[b"no transaction".to_vec()]), b"");
    let tx = network.tx(CC, &writing("a")).build();
    let good = network.block(&[tx]);
    let mut ahead = BlockReadAhead::start(1).unwrap();
    ahead.begin(bad, &validator);
    ahead.begin(good, &validator);
    let (_, refused) = ahead.take().unwrap().decide(&mut validator);
    refusal(refused);
    let (_, taken) = ahead.take().unwrap().decide(&mut validator);
    assert_eq!(taken.unwrap().codes, [TxCode::Valid]);
}

/// The data hashes of several blocks that are computed together are correct, and bytes that are not a block have no
/// hash.
#[test]
fn data_hashes_computed_together_are_those_of_each_block() {
    let (mut network, _) = channel();
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for count in 1..6 {
        let txs: Vec<Vec<u8>> = (0..count)
            .map(|number| network.tx(CC, &writing(&format!("key {number}"))).build())
            .collect();
        blocks.push(network.block(&txs));
    }
    blocks.insert(2, b"no block".to_vec());
    let bytes: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
    let digests = data_digests(&bytes);
    assert_eq!(digests.len(), blocks.len());
    for (number, (block, digest)) in bytes.iter().zip(digests).enumerate() {
        let arena = Arena::new();
        let read = Block::read(block, &arena).ok();
        let expected = read.map(|block| <[u8; 32]>::try_from(block.data_hash).unwrap());
        assert_eq!(digest, expected, "block {number}");
        assert_eq!(expected.is_none(), number == 2);
    }
}
