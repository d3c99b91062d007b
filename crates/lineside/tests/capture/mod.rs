//! Frames of clients, and captures of them.

use lineside_capture::Writer;
use lineside_wire::frame::{Addressing, build};

/// Returns the frame of a request from 10.0.0.1 to 10.0.0.2, or, over IPv6 with a VLAN tag, from fd00::1 to fd00::2.
pub fn framed(payload: &[u8], v6_vlan: bool, destination_port: u16) -> Vec<u8> {
    let (source, destination) = match v6_vlan {
        false => ("10.0.0.1", "10.0.0.2"),
        true => ("fd00::1", "fd00::2"),
    };
    let addressing = Addressing {
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        vlan: v6_vlan.then_some(7),
        source: source.parse().unwrap(),
        destination: destination.parse().unwrap(),
        source_port: 40_000,
        destination_port,
    };
    let mut frame = vec![0; 1514];
    let bytes = build(&mut frame, &addressing, payload).unwrap();
    frame.truncate(bytes);
    frame
}

/// Returns a capture of these frames.
pub fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for (time, frame) in (1_000_000_000..).zip(frames) {
        writer.write(time, frame).unwrap();
    }
    writer.finish().unwrap()
}
