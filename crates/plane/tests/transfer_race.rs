//! Two CPUs at once in the XDP program of `transfer`: what `crates/transfer/tests/race.rs` does to the model.

#[path = "../../transfer/tests/race/common.rs"]
mod common;
mod skip;

use lineside_near::{FrameVerdict, lease};
use lineside_plane::xdp::{Runner, XdpError, XdpPlane};
use lineside_plane::{cpu, transfer};
use lineside_transfer::store::Store;
use lineside_wire::TRANSFER_PORT;
use lineside_wire::endpoint::Endpoint;
use lineside_wire::frame::{self, Addressing};
use skip::skipped;
use std::cell::Cell;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

thread_local! {
    static PINNED: Cell<bool> = const { Cell::new(false) };
}

/// What root makes of a request, on the CPU of thread 0 or 1.
fn through(runner: &Runner, cpus: &[usize], thread: usize, request: &[u8]) -> Option<Vec<u8>> {
    if !PINNED.replace(true) {
        cpu::pin(cpus[thread % cpus.len()]).expect("pinning");
    }
    let addressing = Addressing {
        source_mac: [2, 0, 0, 0, 0, 9],
        destination_mac: MAC,
        vlan: None,
        source: common::CLIENT.into(),
        destination: [10, 0, 0, 2].into(),
        source_port: 40_000,
        destination_port: TRANSFER_PORT,
    };
    let mut frame = [0; 1514];
    let bytes = frame::build(&mut frame, &addressing, request).expect("it fits");
    let mut left = Vec::new();
    match runner.run(&frame[..bytes], &mut left).expect("a test run") {
        FrameVerdict::Transmit => Some(left[bytes - request.len()..].to_vec()),
        FrameVerdict::Pass => None,
        FrameVerdict::Drop(_) => panic!("dropped"),
    }
}

/// The program behind [`common::Ask`].
fn with_program(test: impl FnOnce(&Store, &common::Ask<'_>)) {
    let geometry = common::geometry(transfer::rings().expect("CPUs"));
    let mut plane = match XdpPlane::load(vec![transfer::image(&geometry, TRANSFER_PORT)], None) {
        Err(XdpError::NotAllowed(why)) => return skipped(format_args!("BPF is not allowed here ({why})")),
        other => other.expect("loading"),
    };
    let endpoint = Endpoint::new(MAC, false, &[[10, 0, 0, 2].into()]).expect("an endpoint");
    plane.start(&endpoint).expect("starting");
    let store = transfer::store(&mut plane, &geometry).expect("mapping");
    store.format(&geometry).expect("formatting");
    lease::renew(&store.control().lease_until_ns, 1 << 50);
    let cpus = cpu::allowed().expect("CPUs");
    if cpus.len() < 2 {
        skipped("one CPU only: its two threads take turns");
    }
    let runner = plane.runner().expect("a runner");
    test(&store, &|thread, request| {
        through(&runner, &cpus, thread, request)
    });
}

#[test]
fn money_is_conserved_and_duplicates_are_done_once() {
    with_program(|store, ask| common::conserve(store, ask, 20_000));
}

#[test]
fn refer_never_sees_money_in_flight() {
    with_program(|store, ask| common::refer_while_moving(store, ask, 100_000));
}
