//! Tests that send captures through every datapath: the counts and the bytes of the replies must be equal.

use lineside_capture::{NoTarget, PcapError, Reader, Target, Writer};
use lineside_conformance::replay::{Report, replay};
use lineside_conformance::spv::{DatapathKind, FrameDatapath};
use lineside_fastpath::{DropReason, FrameVerdict, lease};
use lineside_spv::chain::{ChainStore, Network};
use lineside_spv::host::SpvHost;
use lineside_spv::store::{Geometry, Hash};
use lineside_spv::writer::StoreWriter;
use lineside_testkit::DemoChain;
use lineside_testkit::skipped;
use lineside_wire::frame::{Addressing, build, parse};
use lineside_wire::{RootReply, SPV_OP_ROOT, SPV_PORT, TRANSFER_PORT, native};
use lineside_xdp::XdpError;
use std::net::IpAddr;
use std::sync::Arc;
use zerocopy::IntoBytes;

const CLIENT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SERVER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn to_server(v6: bool, vlan: bool) -> Addressing {
    let (source, destination) = match v6 {
        false => (ip("192.168.7.1"), ip("192.168.7.2")),
        true => (ip("fd00::1"), ip("fd00::2")),
    };
    Addressing {
        source_mac: CLIENT_MAC,
        destination_mac: SERVER_MAC,
        vlan: vlan.then_some(7),
        source,
        destination,
        source_port: 40_000,
        destination_port: SPV_PORT,
    }
}

fn framed(addressing: &Addressing, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 1600];
    let bytes = build(&mut frame, addressing, payload).expect("it fits");
    frame.truncate(bytes);
    frame
}

fn root_request(txid: &Hash) -> Vec<u8> {
    let body = size_of::<RootReply>();
    let mut request = native::request_header(SPV_OP_ROOT, 9, body as u16)
        .as_bytes()
        .to_vec();
    request.extend_from_slice(txid);
    request.resize(request.len() + body - 32, 0);
    request
}

/// Returns a capture of both directions of a conversation, made at the server's interface, and the expected result of
/// its replay.
fn conversation(txids: &[Hash]) -> (Vec<u8>, Report) {
    let mut expected = Report::default();
    let mut writer = Writer::new(Vec::new()).unwrap();
    let mut time = 1_700_000_000_000_000_000;
    let mut put = |frame: &[u8]| {
        time += 1234;
        writer.write(time, frame).unwrap();
        expected.frames += 1;
    };
    let (mut answered, mut passed) = (0, 0);
    for (number, txid) in txids.iter().enumerate() {
        let to = to_server(number % 3 == 0, number % 4 == 0);
        let payload = if number % 2 == 0 {
            txid.to_vec()
        } else {
            root_request(txid)
        };
        put(&framed(&to, &payload));
        answered += 1;
        // The capture contains the reply that the server gave then. The replay must not treat it as a request.
        let back = Addressing {
            source_mac: SERVER_MAC,
            destination_mac: CLIENT_MAC,
            source: to.destination,
            destination: to.source,
            source_port: SPV_PORT,
            destination_port: 40_000,
            ..to
        };
        put(&framed(&back, txid));
        passed += 1;
    }
    let plain = to_server(false, false);
    put(&framed(&plain, &[0xab; 32])); // a miss
    put(&framed(
        &Addressing {
            destination_port: 53,
            ..plain
        },
        b"something else",
    ));
    put(&[0xff; 60]);
    passed += 3;
    put(&framed(
        &Addressing {
            source_port: 7702,
            ..plain
        },
        &txids[0],
    ));
    put(&framed(&plain, b"not a request"));
    put(&framed(&plain, &[0; 32]));
    put(&[1; 13]);
    put(&[1; 3073]);
    expected.answered = answered;
    expected.passed = passed;
    expected.drops[DropReason::SourcePort as usize] = 1;
    expected.drops[DropReason::NotARequest as usize] = 2;
    expected.not_run = 2;
    (writer.finish().unwrap(), expected)
}

/// Returns the result of replaying the file on a datapath, and a capture of the replies; `None` if loading BPF programs
/// is not permitted.
fn through(kind: DatapathKind, file: &[u8]) -> Option<(Report, Option<PcapError>, Vec<u8>)> {
    let geometry = Geometry {
        line_bits: 12,
        block_bits: 4,
        ..Geometry::default()
    };
    let target = Target::find(&mut Reader::new(file).unwrap(), SPV_PORT, None).unwrap();
    let (mut datapath, store) = match FrameDatapath::open(kind, &geometry, &target.endpoint(), target.port) {
        Err(XdpError::NotAllowed(why)) => {
            skipped(format_args!("BPF is not allowed here ({why})"));
            return None;
        }
        opened => opened.expect("a datapath"),
    };
    let mut chain = ChainStore::open(None, Network::Regtest).unwrap();
    for block in blocks() {
        chain.submit(&block.raw, false).unwrap();
    }
    chain.catch_up().unwrap();
    let writer = Box::new(StoreWriter::new(Arc::clone(&store)));
    let host = SpvHost::new(chain, writer, Default::default(), true);
    host.prefill(u32::MAX);
    lease::renew(&store.control().lease_until_ns, 60_000_000_000);
    let mut replies = Writer::new(Vec::new()).unwrap();
    let (report, fault) = replay(&mut Reader::new(file).unwrap(), &mut datapath, &mut |step| {
        if step.verdict == Some(FrameVerdict::Transmit) {
            replies.write(step.record.time_ns, step.left)?;
        }
        Ok(())
    })
    .expect("a replay");
    Some((report, fault, replies.finish().unwrap()))
}

fn blocks() -> Vec<lineside_testkit::DemoBlock> {
    DemoChain::new(3, 40).take(4).collect()
}

#[test]
fn every_datapath_gives_the_same_replies() {
    let blocks = blocks();
    let txids: Vec<Hash> = blocks.iter().flat_map(|block| block.txids.clone()).collect();
    let (file, expected) = conversation(&txids);
    let (report, fault, replies) = through(DatapathKind::Socket, &file).expect("no BPF is needed");
    assert!(fault.is_none());
    assert_eq!(report, expected);
    let mut reader = Reader::new(&replies[..]).unwrap();
    let mut record = Default::default();
    for (number, txid) in txids.iter().enumerate() {
        assert!(reader.next(&mut record).unwrap());
        let found = parse(&record.frame).expect("a datagram");
        let root = blocks
            .iter()
            .find(|block| block.txids.contains(txid))
            .expect("its block")
            .root;
        let at = found.payload().start + if number % 2 == 0 { 0 } else { 16 };
        assert_eq!(record.frame[at..at + 32], root);
        assert_eq!(
            record.time_ns,
            1_700_000_000_000_000_000 + 1234 * (2 * number as u64 + 1)
        );
    }
    assert!(!reader.next(&mut record).unwrap());
    for kind in [DatapathKind::Native, DatapathKind::Xdp] {
        let Some((report, fault, same)) = through(kind, &file) else {
            return;
        };
        assert!(fault.is_none());
        assert_eq!(report, expected, "{}", kind.name());
        assert!(
            same == replies,
            "{}: the replies differ from those of the socket datapath",
            kind.name()
        );
    }
}

#[test]
fn a_truncated_capture_is_replayed_up_to_the_cut() {
    let txids = blocks()[0].txids.clone();
    let (mut file, whole) = conversation(&txids);
    file.truncate(file.len() - 1);
    let (report, fault, _) = through(DatapathKind::Socket, &file).expect("no BPF is needed");
    assert!(matches!(fault, Some(PcapError::CutOff { record, .. }) if record == whole.frames));
    assert_eq!(
        (report.answered, report.frames),
        (whole.answered, whole.frames - 1)
    );
}

fn target(frames: &[Vec<u8>], to: Option<&str>) -> Result<Target, NoTarget> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    frames.iter().for_each(|frame| writer.write(0, frame).unwrap());
    let file = writer.finish().unwrap();
    let to = to.map(|to| to.parse().expect("address and port"));
    Target::find(&mut Reader::new(&file[..]).unwrap(), SPV_PORT, to)
}

#[test]
fn the_server_of_a_capture_is_the_most_frequent_destination_unless_it_is_given() {
    let own = to_server(false, false);
    let with_port = |destination_port| Addressing {
        destination_port,
        ..own
    };
    let mut frames = vec![framed(&with_port(53), b"x"); 5];
    assert_eq!(target(&frames, None).unwrap().port, 53, "the most frequent");
    frames.extend(vec![framed(&with_port(9000), b"x"); 6]);
    assert_eq!(target(&frames, None).unwrap().port, 9000);
    let to_transfer = vec![framed(&with_port(TRANSFER_PORT), b"x"); 12];
    assert_eq!(
        target(&to_transfer, None),
        Err(NoTarget::OtherService(TRANSFER_PORT)),
        "the port of another service"
    );
    assert_eq!(
        target(&to_transfer, Some("192.168.7.2:7702")).unwrap().port,
        TRANSFER_PORT
    );
    frames.push(framed(&own, b"x"));
    frames.push(framed(&own, b"x"));
    frames.push(framed(&to_server(true, true), b"x"));
    let found = target(&frames, None).unwrap();
    assert_eq!(
        (found.port, found.mac),
        (SPV_PORT, SERVER_MAC),
        "Lineside's port is preferred"
    );
    assert_eq!(found.addresses, [ip("192.168.7.2"), ip("fd00::2")]);
    assert_eq!(
        target(&frames, Some("192.168.7.2:53")).unwrap().addresses,
        [ip("192.168.7.2")]
    );
    assert!(matches!(
        target(&frames, Some("192.168.7.2:54")),
        Err(NoTarget::NoDatagram(Some(_)))
    ));
    assert!(matches!(
        target(&[vec![0; 60]], None),
        Err(NoTarget::NoDatagram(None))
    ));
    let multicast = Addressing {
        destination_mac: [0x33, 0x33, 0, 0, 0, 1],
        ..own
    };
    assert!(target(&[framed(&multicast, b"x")], None).is_err());
    // An interface cannot have more addresses than this.
    let many: Vec<_> = (1..40)
        .map(|last| {
            framed(
                &Addressing {
                    destination: IpAddr::from([192, 168, 7, last]),
                    ..own
                },
                b"x",
            )
        })
        .collect();
    assert_eq!(target(&many, None).unwrap().endpoint().v4().count(), 8);
    let on_lo = Addressing {
        destination_mac: [0; 6],
        source_mac: [0; 6],
        ..own
    };
    assert!(target(&[framed(&on_lo, b"x")], None).unwrap().endpoint().loopback);
}
