//! Two concurrent threads on the model of the fast path; `lab/conformance/tests/transfer_race.rs` runs the same test
//! on the XDP program.

#[path = "race/common.rs"]
mod common;

use lineside_fastpath::{FastPath, Reply, Source, Verdict, lease};
use lineside_transfer::claims::StoreClaims;
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::store::Store;
use std::sync::Arc;

/// Runs a test on the Rust model of the fast path through [`common::Ask`].
fn with_model(test: impl FnOnce(&Store, &common::Ask<'_>, &StoreClaims)) {
    let store = Arc::new(Store::anonymous(&common::geometry(4)).expect("memory"));
    lease::renew(&store.control().lease_until_ns, 1 << 50);
    let fastpath = TransferFastPath::new(Arc::clone(&store));
    let from = Source {
        address: common::CLIENT.into(),
        port: 40_000,
    };
    let ask = |_, request: &[u8]| {
        let mut reply = Reply::default();
        match fastpath.answer(from, lease::now_ns(), request, &mut reply) {
            Verdict::Reply => Some(reply.as_bytes().to_vec()),
            Verdict::Forward => None,
            Verdict::Drop(reason) => panic!("dropped: {reason:?}"),
        }
    };
    test(&store, &ask, &StoreClaims::new(Arc::clone(&store)));
}

#[test]
fn money_is_conserved_and_duplicates_are_executed_once() {
    with_model(|store, ask, _| common::conserve(store, ask, 20_000));
}

#[test]
fn refer_never_sees_a_half_executed_transfer() {
    with_model(|store, ask, _| common::refer_while_moving(store, ask, None, 100_000));
}

#[test]
fn the_sum_is_conserved_while_a_host_claims_accounts() {
    with_model(|store, ask, claims| common::conserve_beside_claims(store, ask, claims, 20_000));
}

#[test]
fn refer_never_sees_a_half_executed_transfer_of_the_host() {
    with_model(|store, ask, claims| common::refer_while_moving(store, ask, Some(claims), 20_000));
}
