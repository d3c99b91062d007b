//! A short run of the fuzz target for packets, and tests of packets in the paper format.

mod packets;

use lineside_fabric::replay::read;
use lineside_fabric_udp::paper::{PaperReceiver, PaperSender, Unsendable};
use lineside_fabric_udp::{BlockSink, DropReason, cut};
use packets::{packet_seeds, packets};
use proptest::prelude::*;
use std::net::IpAddr;
use std::path::Path;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn changed_packets_never_become_a_block(
        which in 0usize..4,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let mut seed = packet_seeds().swap_remove(which);
        for (at, byte) in changes {
            let at = 1 + at.index(seed.len() - 1);
            seed[at] = byte;
        }
        packets(&seed);
    }

    #[test]
    fn arbitrary_bytes_never_panic_or_become_a_block(
        mode in 0u8..4,
        mut bytes in prop::collection::vec(any::<u8>(), 0..3_000),
    ) {
        bytes.insert(0, mode);
        packets(&bytes);
    }

    #[test]
    fn encoded_repeats_decode_to_the_same_bytes(
        pieces in prop::collection::vec(prop::collection::vec(0u8..4, 1..40), 1..6),
        order in prop::collection::vec(0usize..6, 1..60),
    ) {
        let mut bytes = vec![2];
        order.iter().for_each(|at| bytes.extend_from_slice(&pieces[at % pieces.len()]));
        packets(&bytes);
    }
}

#[derive(Default)]
struct ReceiverEvents {
    whole: Vec<(u64, Vec<u8>)>,
    gaps: Vec<(u64, u64)>,
    dropped: Vec<u64>,
}

impl BlockSink for ReceiverEvents {
    fn on_block(&mut self, number: u64, bytes: Vec<u8>) {
        self.whole.push((number, bytes));
    }

    fn on_dropped(&mut self, number: u64, _: DropReason) {
        self.dropped.push(number);
    }

    fn on_gap(&mut self, from: u64, to: u64) {
        self.gaps.push((from, to));
    }
}

fn packet(kind: u8, notes: &[(u8, u16, u16)], payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0, 0, kind, notes.len() as u8];
    for (kind, offset, description) in notes {
        packet.push(*kind);
        packet.extend(offset.to_be_bytes());
        packet.extend(description.to_be_bytes());
    }
    packet.extend_from_slice(payload);
    packet
}

/// Returns the packets of a block in the paper format. The creator of each transaction is cut out if it is `identity`.
fn paper(block: &[u8], identity: &[u8]) -> Vec<Vec<u8>> {
    let layout = cut::Layout::of(block);
    let segment = |at| &block[layout.range(at).unwrap()];
    // Header and metadata both have a tag, a length of one or more bytes, and the content.
    let content = |bytes: &[u8]| {
        let length = bytes[1..].iter().take_while(|&&byte| byte >= 0x80).count() + 1;
        bytes[1 + length..].to_vec()
    };
    let header = &segment(0)[..2 + usize::from(segment(0)[1])];
    let count = layout.segments() - 2;
    let mut packets = vec![packet(1, &[(0x11, count as u16, 0)], &content(header))];
    for transaction in 1..=count {
        let mut envelope = cut::envelope(segment(transaction)).unwrap().to_vec();
        let mut notes = Vec::new();
        while let Some(at) = envelope
            .windows(identity.len())
            .position(|bytes| bytes == identity)
        {
            envelope.drain(at..at + identity.len());
            notes.push((0xa4, at as u16, 0x0123));
        }
        packets.push(packet(2, &notes, &envelope));
    }
    packets.push(packet(3, &[], &content(segment(count + 1))));
    packets
}

/// A header of a block that is far ahead may come from an attacker. It causes a gap of only a few blocks, and only
/// once.
#[test]
fn a_header_far_ahead_is_reported_as_a_gap_of_a_few_blocks() {
    let here: IpAddr = "127.0.0.1".parse().unwrap();
    let far = packet(1, &[(0x11, 1, 0)], &[&[8], &[0xff; 9][..], &[1]].concat());
    let mut receiver = PaperReceiver::new(move |source| source == here, 5, 1 << 24);
    let mut told = ReceiverEvents::default();
    receiver.datagram(here, &far, &mut told);
    receiver.datagram(here, &far, &mut told);
    assert_eq!(told.gaps, [(5, 68)]);
    receiver.set_next(69);
    receiver.datagram(here, &far, &mut told);
    assert_eq!(told.gaps, [(5, 68), (69, 132)]);
}

#[test]
fn the_papers_packets_become_the_same_blocks() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let directory = root.join("shared/data/fabric-blocks/dev-edge");
    let Some(block) = read(&directory, 5, "orderer").unwrap() else {
        return eprintln!("skipped: there are no recorded blocks at {}", directory.display());
    };
    // The test uses bytes that occur in every transaction as the identity.
    let layout = cut::Layout::of(&block);
    let first = cut::envelope(&block[layout.range(1).unwrap()]).unwrap();
    let identity = &first[200..900];
    let (here, other): (IpAddr, IpAddr) = ("127.0.0.1".parse().unwrap(), "192.0.2.1".parse().unwrap());
    let packets = paper(&block, identity);
    let saved: usize = packets.iter().map(Vec::len).sum();
    assert!(saved < block.len() - identity.len());
    let update = packet(0, &[(0x81, 0x0123, identity.len() as u16)], identity);
    let play = |receiver: &mut PaperReceiver, from, packets: &[Vec<u8>]| {
        let mut told = ReceiverEvents::default();
        packets
            .iter()
            .for_each(|packet| receiver.datagram(from, packet, &mut told));
        told
    };

    let mut receiver = PaperReceiver::new(move |source| source == here, 5, 1 << 24);
    let told = play(&mut receiver, other, &packets);
    assert_eq!(
        (told.whole.len(), receiver.counters().untrusted),
        (0, packets.len() as u64)
    );
    // If the receiver does not know the identity, it drops the block and reports a gap.
    let told = play(&mut receiver, here, &packets);
    assert!(told.whole.is_empty() && told.dropped.contains(&5) && told.gaps == [(5, 5)]);
    let told = play(&mut receiver, here, &[&[update][..], &packets].concat());
    assert_eq!(told.whole, [(5, block.clone())]);
    // If a packet is lost, or two packets are in the wrong order, the receiver reports a gap instead of a block.
    for wrong in 0..2 {
        let mut receiver = PaperReceiver::new(move |source| source == here, 5, 1 << 24);
        receiver.preload(0x0123, identity);
        let mut packets = packets.clone();
        if wrong == 0 {
            packets.remove(3);
            packets.push(packet(1, &[(0x11, 1, 0)], &[8, 6]));
        } else {
            packets.swap(3, 4);
        }
        let told = play(&mut receiver, here, &packets);
        assert_eq!((told.whole.len(), told.gaps.first()), (0, Some(&(5, 5))));
    }
    let mut late = PaperReceiver::new(move |source| source == here, 3, 1 << 24);
    assert_eq!(play(&mut late, here, &packets).gaps, [(3, 4)]);
}

/// Returns the blocks of a recording in the repository, as an orderer delivers them.
fn recording() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fabric/tests/data/edge");
    let mut blocks = Vec::new();
    while let Some(block) = read(&folder, blocks.len() as u64, "orderer").unwrap() {
        blocks.push(block);
    }
    blocks
}

/// The receiver restores the same blocks, byte for byte, from the sender's packets. The sender refuses the blocks that
/// the published code refuses.
#[test]
fn blocks_that_are_sent_come_out_the_same() {
    let here: IpAddr = "127.0.0.1".parse().unwrap();
    let (blocks, mut sender) = (recording(), PaperSender::new());
    let mut receiver = PaperReceiver::new(move |source| source == here, 0, 1 << 24);
    let (mut sent, mut refused) = (Vec::new(), Vec::new());
    for (number, block) in (0..).zip(&blocks) {
        match sender.packets(block) {
            Err(why) => refused.push((number, why)),
            Ok(packets) => {
                let mut told = ReceiverEvents::default();
                receiver.set_next(number);
                for packet in &packets {
                    receiver.datagram(here, packet, &mut told);
                }
                assert_eq!(told.whole, [(number, block.clone())]);
                sent.push(number);
            }
        }
    }
    assert_eq!(refused[0], (0, Unsendable::Genesis));
    assert!(
        refused[1..]
            .iter()
            .all(|(_, why)| matches!(why, Unsendable::Config | Unsendable::Large(_)))
    );
    let counted = sender.sent();
    assert_eq!((counted.blocks, sent.len()), (sent.len() as u64, sent.len()));
    assert!(sent.len() > 6 && counted.updates > 3, "{counted:?} {refused:?}");
    // About four fifths of a transaction are identities, so the packets are less than half as long as the blocks.
    assert!(counted.bytes * 2 < counted.block_bytes, "{counted:?}");
    let counters = receiver.counters();
    assert_eq!(
        (counters.malformed, counters.unknown_identity, counters.dropped),
        (0, 0, 0)
    );
    assert_eq!(counters.datagrams, counted.datagrams);
}

/// The sender uses the numbers of identities from a file and sends no updates for these identities. A receiver that
/// does not know such an identity drops the block.
#[test]
fn identities_of_a_file_are_known_at_both_ends() {
    let here: IpAddr = "127.0.0.1".parse().unwrap();
    let blocks = recording();
    let last = blocks.last().unwrap();
    let told_by = |sender: &mut PaperSender| {
        let packets = sender.packets(last).unwrap();
        packets
            .into_iter()
            .filter(|packet| packet[2] == 0)
            .collect::<Vec<_>>()
    };
    let updates = told_by(&mut PaperSender::new());
    assert!(updates.len() > 2);
    // The payload of an update is the identity. It follows the head (4 bytes) and the only annotation (5 bytes).
    let identities: Vec<&[u8]> = updates.iter().map(|update| &update[9..]).collect();
    let mut sender = PaperSender::new();
    let number = blocks.len() as u64 - 1;
    let mut knowing = PaperReceiver::new(move |source| source == here, number, 1 << 24);
    let mut unknowing = PaperReceiver::new(move |source| source == here, number, 1 << 24);
    for (id, identity) in (0x0110..).zip(&identities) {
        let update = sender.add(id, identity).unwrap();
        assert_eq!(
            update[..9],
            [
                &[0, 0, 0, 1, 0x81][..],
                &id.to_be_bytes(),
                &(identity.len() as u16).to_be_bytes()
            ]
            .concat()
        );
        assert_eq!(sender.add(id, b"another"), None);
        knowing.preload(id, identity);
    }
    let packets = sender.packets(last).unwrap();
    assert!(packets.iter().all(|packet| packet[2] != 0));
    let mut told = ReceiverEvents::default();
    packets
        .iter()
        .for_each(|packet| knowing.datagram(here, packet, &mut told));
    assert_eq!(told.whole, [(number, last.clone())]);
    let mut told = ReceiverEvents::default();
    packets
        .iter()
        .for_each(|packet| unknowing.datagram(here, packet, &mut told));
    assert_eq!(
        (told.whole.len(), told.gaps.first()),
        (0, Some(&(number, number)))
    );
}
