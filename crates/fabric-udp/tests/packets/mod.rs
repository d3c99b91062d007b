//! Passes arbitrary datagrams, with and without a valid MAC, to a sender and a receiver. The fuzz target in `lab/fuzz`
//! also uses this module.

use lineside_fabric::proto::{self, Arena};
use lineside_fabric_udp::code::{Encoder, SegmentNotes, decode};
use lineside_fabric_udp::packet::sealed_datagram;
use lineside_fabric_udp::paper::PaperReceiver;
use lineside_fabric_udp::{
    BlockSink, EarlyTx, PollResult, Receiver, ReceiverOptions, Sender, SenderOptions, SharedKey, cut,
};
use sha2::{Digest, Sha256};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

const SENDER: [u8; 16] = [1; 16];
const RECEIVER: [u8; 16] = [2; 16];
const MEMORY_MAX: usize = 1 << 20;
const ANNOUNCE: u8 = 1;
const DATA: u8 = 2;
const WANT: u8 = 0x81;

struct ChecksBlocks(u64);

impl BlockSink for ChecksBlocks {
    fn on_early(&mut self, early: EarlyTx<'_>) {
        assert!(early.segment.ends_with(early.bytes));
        for known in early.cached_identities() {
            assert!(known.at as usize + known.bytes as usize <= early.segment.len());
        }
        for note in early.notes() {
            note.check(early.segment);
        }
    }

    fn on_block(&mut self, number: u64, bytes: Vec<u8>) {
        let arena = Arena::new();
        let block: proto::Block<'_> = proto::decode(&bytes, &arena).unwrap();
        let header = block.header.unwrap();
        assert_eq!(header.number, number);
        let mut hasher = Sha256::new();
        block
            .data
            .iter()
            .flat_map(|data| &data.data)
            .for_each(|envelope| hasher.update(envelope));
        assert_eq!(hasher.finalize().as_slice(), header.data_hash);
        self.0 += 1;
    }

    fn on_gap(&mut self, from: u64, to: u64) {
        assert!(from <= to);
    }
}

fn a_block(number: u64) -> Arc<[u8]> {
    let envelopes: Vec<Vec<u8>> = (0..9)
        .map(|at| [vec![at, 2, 3, 4, 5, 6, 7, 8], vec![at; 40]].concat())
        .collect();
    let mut hasher = Sha256::new();
    let (mut header, mut data, mut block) = (Vec::new(), Vec::new(), Vec::new());
    for envelope in &envelopes {
        hasher.update(envelope);
        proto::wire::put_bytes(&mut data, 1, envelope);
    }
    proto::wire::put_number(&mut header, 1, number);
    proto::wire::put_bytes(&mut header, 3, &hasher.finalize());
    proto::wire::put_bytes(&mut block, 1, &header);
    proto::wire::put_bytes(&mut block, 2, &data);
    block.into()
}

/// Returns inputs for [`packets`] that contain valid bodies, each after its operation and length.
pub fn packet_seeds() -> Vec<Vec<u8>> {
    let key = SharedKey::new(&[5; 32]).unwrap();
    let mut sender = Sender::new(key.clone(), SENDER, SenderOptions::default());
    let mut receiver = Receiver::new(key, RECEIVER, 0, ReceiverOptions::default());
    let (mut out, mut seed, mut check) = (Vec::new(), vec![0], ChecksBlocks(0));
    let mut put = |datagram: &[u8]| {
        let body = &datagram[32..datagram.len() - 16];
        seed.push(datagram[3]);
        seed.extend((body.len() as u16).to_le_bytes());
        seed.extend_from_slice(body);
    };
    for number in 0..2 {
        sender.push(number, a_block(number));
    }
    for now in (0..400_000_000).step_by(10_000_000) {
        if receiver.write_request(now, &mut out) {
            put(&out);
            sender.datagram(now, &out);
        }
        while check.0 < 2 && sender.poll(now, &mut out) == PollResult::Datagram {
            put(&out);
            receiver.datagram(now, &out, &mut check);
        }
    }
    assert_eq!(check.0, 2);
    let plain = [&[1][..], &seed[1..]].concat();
    let stream = [&[2][..], &[3, 0x0a, 1, 2, 3, 0x80, 0, 3], &[7; 60]].concat();
    let paper = [&[3][..], &[9, 0], &[0, 0, 1, 1, 0x11, 0, 1, 0, 0, 8, 0]].concat();
    vec![seed, plain, stream, paper]
}

/// Checks that memory stays bounded, that blocks match their hashes, and that datagrams without a valid MAC have no
/// effect.
pub fn packets(input: &[u8]) {
    let Some((&mode, rest)) = input.split_first() else {
        return;
    };
    match mode {
        2 => stream(rest),
        3 => paper(rest),
        _ => ends(mode == 1, rest),
    }
}

fn ends(plain: bool, mut rest: &[u8]) {
    let key = SharedKey::new(&[5; 32]).unwrap();
    let options = ReceiverOptions {
        memory_bytes_max: MEMORY_MAX,
        ..ReceiverOptions::default()
    };
    let mut receiver = Receiver::new(key.clone(), RECEIVER, 0, options);
    let mut sender = Sender::new(key.clone(), SENDER, SenderOptions::default());
    sender.push(0, a_block(0));
    let (mut check, mut out) = (ChecksBlocks(0), Vec::new());
    for sequence in 1.. {
        let Some((&[op, low, high], after)) = rest.split_first_chunk() else {
            break;
        };
        let length = usize::from(u16::from_le_bytes([low, high])).min(after.len());
        let (body, after) = after.split_at(length);
        rest = after;
        let now = sequence * 1_000_000;
        if plain {
            receiver.datagram(now, body, &mut check);
            sender.datagram(now, body);
            continue;
        }
        let op = match op % 8 {
            ANNOUNCE if op < 0x80 => ANNOUNCE,
            DATA => DATA,
            _ => WANT,
        };
        let session = if op == WANT { RECEIVER } else { SENDER };
        let datagram = sealed_datagram(&key, &session, op, sequence, body);
        receiver.datagram(now, &datagram, &mut check);
        sender.datagram(now, &datagram);
        receiver.write_request(now, &mut out);
        for _ in 0..4 {
            sender.poll(now, &mut out);
        }
        assert!(receiver.memory_bytes() <= MEMORY_MAX + 65_536);
    }
    if plain {
        assert_eq!(
            (check.0, receiver.memory_bytes(), receiver.counters().sessions),
            (0, 0, 0)
        );
        assert!(!sender.joined());
    }
}

fn stream(bytes: &[u8]) {
    let (mut block, mut aside) = (vec![0; 4_096], SegmentNotes::default());
    let entry = |id| (id < 3).then_some(&[6; 50][..]);
    let mut rest = bytes;
    let _ = decode(
        &mut rest,
        bytes.len().is_multiple_of(2),
        &mut block,
        (64, 100),
        &[8; 90],
        entry,
        &mut aside,
    );
    assert!(block[..100].iter().chain(&block[4_000..]).all(|&byte| byte == 0) || bytes.len() > 20);
    // Encoded bytes must decode to the same bytes.
    let segment = bytes.get(..3_000).unwrap_or(bytes);
    let (mut encoder, mut out) = (Encoder::default(), Vec::new());
    encoder.begin(&[8; 90]);
    encoder.plain_segment(segment, &mut out);
    let mut rest = out.as_slice();
    let read = decode(
        &mut rest,
        false,
        &mut block,
        (100, 100),
        &[8; 90],
        |_| None,
        &mut aside,
    );
    assert_eq!((read, rest.len()), (Ok(segment.len()), 0));
    assert_eq!(&block[100..100 + segment.len()], segment);
    cut::Layout::of(bytes);
}

fn paper(mut rest: &[u8]) {
    let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut receiver = PaperReceiver::new(move |source| source == from, 0, MEMORY_MAX);
    let mut check = ChecksBlocks(0);
    while let Some((&[low, high], after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(after.len());
        receiver.datagram(from, &after[..length], &mut check);
        rest = &after[length..];
    }
}
