//! Tests of the protobuf decoders. The plain decoder must accept everything that the walker accepts, with the same
//! values. Other tests check the rules of Go's protobuf library one by one.

use crate::proto::{
    self, Arena, ChaincodeAction, ChannelHeader, ConfigEnvelope, Envelope, HashedRwSet, KvRwSet, Malformed,
    Message, Payload, RangeQueryInfo, SignaturePolicyEnvelope, StateData, Transaction, TxReadWriteSet,
    WalkError, decode_plain, plain,
};
use crate::replay::read;
use crate::tests::network::{message, number};
use proptest::prelude::*;
use std::path::Path;

/// Decodes bytes as one message with both decoders and compares the results.
fn agree<'a, M: Message<'a> + PartialEq + std::fmt::Debug>(bytes: &'a [u8], arena: &'a Arena) {
    let plain = decode_plain::<M>(bytes, arena);
    match M::walk(bytes) {
        Ok(walked) => assert_eq!(Ok(walked), plain),
        Err(WalkError::Malformed) => assert!(plain.is_err(), "{plain:?}"),
        // The walker gives up on unordered fields before it checks the rest, so these bytes may be malformed or not.
        Err(WalkError::Unordered) => {}
        Err(WalkError::TooLarge) => assert_eq!(plain, Err(Malformed::TooLarge)),
    }
    if let Ok(ordered) = plain::normalise(M::schema(), bytes) {
        assert_eq!(plain::normalise(M::schema(), &ordered).as_ref(), Ok(&ordered));
    }
}

fn agree_in_all(bytes: &[u8]) {
    let arena = Arena::new();
    agree::<proto::Block<'_>>(bytes, &arena);
    agree::<Envelope<'_>>(bytes, &arena);
    agree::<Payload<'_>>(bytes, &arena);
    agree::<ChannelHeader<'_>>(bytes, &arena);
    agree::<Transaction<'_>>(bytes, &arena);
    agree::<ChaincodeAction<'_>>(bytes, &arena);
    agree::<TxReadWriteSet<'_>>(bytes, &arena);
    agree::<KvRwSet<'_>>(bytes, &arena);
    agree::<HashedRwSet<'_>>(bytes, &arena);
    agree::<RangeQueryInfo<'_>>(bytes, &arena);
}

/// Returns messages of recorded blocks, and all messages nested in them.
fn samples() -> Vec<Vec<u8>> {
    let edge = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/edge");
    let mut samples = Vec::new();
    for number in [3, 13] {
        let block = read(&edge, number, "orderer").unwrap().unwrap();
        let arena = Arena::new();
        let block: proto::Block<'_> = proto::decode(&block, &arena).unwrap();
        for envelope in block.data.unwrap().data.iter().take(4) {
            collect(envelope, 9, &mut samples);
        }
    }
    samples
}

/// Collects the bytes and all nested fields that may be messages.
fn collect(bytes: &[u8], depth: u32, samples: &mut Vec<Vec<u8>>) {
    samples.push(bytes.to_vec());
    let mut rest = bytes;
    while let (Ok((number, wire_type)), true) = (proto::wire::tag(&mut rest), depth > 0) {
        if wire_type != proto::wire::BYTES {
            if proto::wire::skip(number, wire_type, &mut rest).is_err() {
                return;
            }
            continue;
        }
        match proto::wire::length_delimited(&mut rest) {
            Ok(content) if content.len() > 3 => collect(content, depth - 1, samples),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}

#[test]
fn walker_and_plain_decoder_agree_on_real_messages() {
    let samples = samples();
    assert!(samples.len() > 100);
    for sample in &samples {
        agree_in_all(sample);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn walker_and_plain_decoder_agree_on_mutated_messages(
        pick in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0u8..4, any::<u8>()), 1..6),
    ) {
        thread_local!(static SAMPLES: Vec<Vec<u8>> = samples());
        let mut bytes = SAMPLES.with(|samples| pick.get(samples).clone());
        for (at, kind, byte) in edits {
            let at = at.index(bytes.len() + 1);
            match kind {
                0 => bytes.insert(at, byte),
                1 => drop((at < bytes.len()).then(|| bytes.remove(at))),
                2 => if let Some(place) = bytes.get_mut(at) { *place = byte },
                // Appends a prefix of the bytes: fields occur twice and out of order.
                _ => bytes.extend_from_slice(&bytes.clone()[..at]),
            }
        }
        agree_in_all(&bytes);
    }

    #[test]
    fn walker_and_plain_decoder_agree_on_anything(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        agree_in_all(&bytes);
    }
}

#[test]
fn text_has_to_be_utf_8_and_bytes_need_not() {
    let arena = Arena::new();
    let text = message(&[(4, &[0xff])]);
    assert_eq!(
        proto::decode::<ChannelHeader<'_>>(&text, &arena),
        Err(Malformed::Bad)
    );
    assert!(proto::decode::<ChannelHeader<'_>>(&message(&[(7, &[0xff])]), &arena).is_ok());
}

#[test]
fn numbers_are_truncated_to_the_size_of_their_field() {
    let arena = Arena::new();
    let header: ChannelHeader<'_> = proto::decode(&[0x08, 0x83, 0x80, 0x80, 0x80, 0x10], &arena).unwrap();
    assert_eq!(header.kind, 3);
}

#[test]
fn the_last_member_of_a_oneof_replaces_the_others() {
    let arena = Arena::new();
    let both = [message(&[(2, b"x")]), vec![0x08, 5]].concat();
    let data: StateData<'_> = proto::decode(&both, &arena).unwrap();
    assert_eq!((data.int64, data.bytes), (Some(5), None));
    let both = [vec![0x08, 5], message(&[(2, b"x")])].concat();
    let data: StateData<'_> = proto::decode(&both, &arena).unwrap();
    assert_eq!((data.int64, data.bytes), (None, Some(&b"x"[..])));
}

#[test]
fn a_message_in_parts_has_to_be_whole_in_each() {
    let arena = Arena::new();
    // The header { channel_header: "ab" } is cut into two parts. The concatenation of the parts would be valid.
    let parts = message(&[(1, &[0x0a, 2, b'a']), (1, b"b")]);
    assert_eq!(proto::decode::<Payload<'_>>(&parts, &arena), Err(Malformed::Bad));
}

#[test]
fn the_decoder_bounds_depth_and_work() {
    let arena = Arena::new();
    // Groups nested as deeply as Go accepts, and then one level deeper.
    let groups = |count: usize| [vec![0x4b; count], vec![0x4c; count]].concat();
    assert!(proto::decode::<Envelope<'_>>(&groups(10_001), &arena).is_ok());
    assert_eq!(
        proto::decode::<Envelope<'_>>(&groups(10_002), &arena),
        Err(Malformed::Bad)
    );
    assert_eq!(
        proto::decode::<Envelope<'_>>(&vec![0x4b; 1 << 20], &arena),
        Err(Malformed::Bad)
    );
    // Lengths that reach beyond the end of the message.
    for length in [[0xff, 0xff, 0xff, 0xff, 0x0f], [0x80, 0x80, 0x80, 0x80, 0x08]] {
        let bytes = [vec![0x0a], length.to_vec(), vec![0; 9]].concat();
        assert_eq!(proto::decode::<Envelope<'_>>(&bytes, &arena), Err(Malformed::Bad));
    }
    // Nested messages that occur twice at each level: the decoder must not do twice the work for each further level.
    let mut rule = vec![0x08, 0];
    for _ in 0..14 {
        let of = message(&[(2, &rule)]);
        rule = message(&[(2, &of), (2, &of)]);
    }
    let envelope = message(&[(2, &rule)]);
    let read = plain::normalise(SignaturePolicyEnvelope::schema(), &envelope);
    assert!(matches!(read, Ok(_) | Err(Malformed::TooLarge)));
    // Groups of a configuration that are nested too deeply.
    let mut group = Vec::new();
    for _ in 0..1000 {
        group = message(&[(2, &message(&[(2, &group)]))]);
    }
    let config = message(&[(1, &message(&[(2, &group)]))]);
    let config = [config.clone(), number(7, 1), config].concat();
    assert_eq!(
        proto::decode::<ConfigEnvelope<'_>>(&config, &arena),
        Err(Malformed::TooLarge)
    );
}
