//! Tests in which two CPUs run the XDP program of `transfer` at the same time. `crates/transfer/tests/race.rs` does the
//! same with the Rust model.

#[path = "../../../crates/transfer/tests/race/common.rs"]
mod common;

use lineside_fastpath::{FrameVerdict, lease};
use lineside_testkit::cpu;
use lineside_testkit::skipped;
use lineside_transfer::AccountId;
use lineside_transfer::claims::Claims as _;
use lineside_transfer::datapath::{self as transfer, LineClaims};
use lineside_transfer::ledger::Change;
use lineside_transfer::rules::Holding;
use lineside_transfer::store::Store;
use lineside_wire::TRANSFER_PORT;
use lineside_wire::endpoint::Endpoint;
use lineside_wire::frame::{self, Addressing};
use lineside_xdp::{Runner, XdpDatapath, XdpError};
use std::cell::Cell;
use std::sync::atomic::Ordering::SeqCst;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

thread_local! {
    static PINNED: Cell<bool> = const { Cell::new(false) };
}

/// Returns the reply of the root program to a request that runs on the CPU of thread 0 or 1; `None` if it gives none.
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

/// Runs `test` with the XDP program in the form of a [`common::Ask`].
fn with_program(test: impl FnOnce(&Store, &common::Ask<'_>, &LineClaims<Runner>)) {
    let geometry = common::geometry(transfer::rings().expect("CPUs"));
    let mut datapath = match XdpDatapath::load(vec![transfer::program(&geometry, TRANSFER_PORT)], None) {
        Err(XdpError::NotAllowed(why)) => return skipped(format_args!("BPF is not allowed here ({why})")),
        other => other.expect("loading"),
    };
    let endpoint = Endpoint::new(MAC, false, &[[10, 0, 0, 2].into()]).expect("an endpoint");
    datapath.start(&endpoint).expect("starting");
    let store = transfer::store(&mut datapath, &geometry).expect("mapping");
    store.format(&geometry).expect("formatting");
    lease::renew(&store.control().lease_until_ns, 1 << 50);
    let cpus = cpu::allowed().expect("CPUs");
    if cpus.len() < 2 {
        skipped("the machine has only one CPU, on which the threads take turns");
    }
    let runner = datapath.runner().expect("a runner");
    let claims = LineClaims::of(&mut datapath).expect("the program of claims");
    let ask = |thread, request: &[u8]| through(&runner, &cpus, thread, request);
    test(&store, &ask, &claims);
}

#[test]
fn money_is_conserved_and_duplicates_are_executed_once() {
    with_program(|store, ask, _| common::conserve(store, ask, 20_000));
}

#[test]
fn refer_never_sees_a_half_executed_transfer() {
    with_program(|store, ask, _| common::refer_while_moving(store, ask, None, 100_000));
}

#[test]
fn the_sum_is_conserved_while_a_host_claims_accounts() {
    with_program(|store, ask, claims| common::conserve_beside_claims(store, ask, claims, 20_000));
}

#[test]
fn refer_never_sees_a_half_executed_transfer_of_the_host() {
    with_program(|store, ask, claims| common::refer_while_moving(store, ask, Some(claims), 20_000));
}

#[test]
fn accounts_that_stay_locked_are_neither_claimed_nor_updated() {
    with_program(|store, ask, claims| {
        common::open(store, ask);
        let mut cells = [1, 2].map(|id| {
            store
                .find(&AccountId::from_paper(id))
                .expect("the account exists") as u32
        });
        cells.sort_unstable();
        let all = store.cells.as_slice();
        let held = || cells.map(|index| all[index as usize].balance.load(SeqCst));
        let locks = || cells.map(|index| all[index as usize].lock.load(SeqCst));
        let before = held();
        let step = cells.map(|index| {
            let change = Change {
                account: AccountId::default(),
                holding: Holding::default(),
                version: 9,
                step: 0,
            };
            (index, change)
        });
        all[cells[1] as usize].lock.store(1, SeqCst);
        assert!(claims.claim(&cells, &[]).is_err());
        assert!(claims.put(&step).is_err());
        assert!(claims.give_back(&cells, &[]).is_err());
        assert_eq!(
            (held(), locks()),
            (before, [0, 1]),
            "no balance is shown, and no other lock is held"
        );
        all[cells[1] as usize].lock.store(0, SeqCst);
        claims.claim(&cells, &[]).expect("claimed");
        claims.put(&step).expect("shown");
        assert_eq!((held(), locks()), ([0, 0], [0, 0]));
        // A correct host never gives these orders, so they must fail.
        assert!(claims.claim(&[u32::MAX], &[]).is_err());
        assert!(claims.claim(&[], &[u32::MAX]).is_err());
    });
}
