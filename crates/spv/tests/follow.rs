//! Tests of a host that follows a simulated node: competing branches, restarts of the node, lost notifications and
//! wrong blocks. Each answer is compared with the chain that ends with the tip in the answer, and this tip with the
//! host's tip before and after the answer. When the host has caught up, the answers for each transaction are compared
//! with the node's chain.

mod simulator;

use lineside_spv::follow::{FollowOptions, NodeFollower, NodeState};
use lineside_spv::store::Hash;
use simulator::check::{AnswerFault, Simulation};
use simulator::sabotage::Sabotage;
use simulator::world::{Habit, World};
use simulator::{CATCH_UP_TIMEOUT, Rig};
use std::sync::Arc;
use std::time::Instant;

/// Number of answers that `make test` checks; `make soak` checks a hundred times as many.
const ANSWERS: u64 = 100_000;
/// Number of checked answers within which a deliberately broken rule must be detected.
const SABOTAGE_ANSWERS: u64 = 200_000;

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

#[test]
fn competing_chains_restarts_and_lost_notifications_cause_no_stale_answer() {
    let seed = variable("LINESIDE_SEED", 1);
    let answers = variable("LINESIDE_FOLLOW_ANSWERS", ANSWERS);
    let start = Instant::now();
    let mut simulation = Simulation::new(seed, None);
    let outcome = simulation.run(answers);
    let checked = simulation.checked;
    println!(
        "seed {seed}: {} answers were checked in {:.0} s: {checked:?}; result: {outcome:?}",
        checked.answers(),
        start.elapsed().as_secs_f64()
    );
    assert_eq!(outcome, Ok(()), "seed {seed}");
    assert!(checked.answers() >= answers);
    for (count, least) in [
        (checked.roots_of_fastpath, 20),
        (checked.roots_of_host, 20),
        (checked.proofs_of_fastpath, 100),
        (checked.proofs_of_host, 100),
        (checked.headers, 100),
    ] {
        assert!(
            count >= answers / least,
            "too few answers of one kind were checked: {checked:?}"
        );
    }
    assert!(checked.while_behind > 0 && checked.restarts > 0, "{checked:?}");
}

#[test]
fn every_deliberately_broken_rule_is_detected() {
    for fault in Sabotage::ALL {
        let mut simulation = Simulation::new(7, Some(fault));
        let Err(found) = simulation.run(SABOTAGE_ANSWERS) else {
            panic!("{fault:?} is not detected: {:?}", simulation.checked);
        };
        println!(
            "{fault:?} is detected after {} answers: {found:?}",
            simulation.checked.answers()
        );
        let is_stuck = matches!(found, AnswerFault::Stuck(_));
        // A tip with too few confirmations is detected in an answer or at the end of a change. Without polling, the
        // host does not catch up with the node. Every other broken rule must be detected in an answer.
        let is_expected = fault == Sabotage::Unconfirmed || is_stuck == (fault == Sabotage::NoPolling);
        assert!(is_expected, "{fault:?}: {found:?}");
    }
}

/// Waits until the follower reports that the node's data is refused, and returns the reason. Calls `nudge` repeatedly,
/// which changes the node's chain so that the follower reads it again.
fn refused(rig: &Rig, nudge: impl Fn(&mut World)) -> String {
    let deadline = Instant::now() + CATCH_UP_TIMEOUT;
    loop {
        if let Some(why) = rig.follower.state().refused {
            return why;
        }
        rig.node.change(&nudge);
        assert!(Instant::now() < deadline, "{:?}", rig.follower.state());
    }
}

/// Waits until the follower's state satisfies `is_so`.
fn until(rig: &Rig, mut is_so: impl FnMut(&NodeState) -> bool) {
    let deadline = Instant::now() + CATCH_UP_TIMEOUT;
    while !is_so(&rig.follower.state()) {
        assert!(Instant::now() < deadline, "{:?}", rig.follower.state());
        std::thread::yield_now();
    }
}

#[test]
fn a_panic_of_the_following_thread_is_a_health_problem() {
    let rig = Rig::new(5, 1);
    rig.node.change(|world| world.mine(10));
    assert!(rig.settle(CATCH_UP_TIMEOUT));
    // The host serves a new tip before the state reports it, so wait for the state.
    until(&rig, |state| state.at_tip);
    let height = rig.host.tip().map(|tip| tip.height);
    assert_eq!(rig.follower.state().health(height), (vec![], vec![]));
    rig.node.change(|world| {
        world.habit = Habit::Panics;
        world.mine(1);
    });
    until(&rig, |state| state.has_ended);
    let state = rig.follower.state();
    let (problems, warnings) = state.health(height);
    assert!(problems[0].contains("is not followed any more"), "{problems:?}");
    assert!(warnings.is_empty() && !state.is_up(), "{warnings:?}");
    assert!(state.summary(height).contains("fault of this program"));
}

#[test]
fn wrong_blocks_of_a_node_are_reported_and_never_served() {
    for (habit, words) in [
        (Habit::WrongRoot, "Merkle root"),
        (Habit::OtherNetwork, "network"),
    ] {
        let rig = Rig::new(5, 1);
        rig.node.change(|world| world.mine(10));
        assert!(rig.settle(CATCH_UP_TIMEOUT));
        let known = rig.host.tip();
        rig.node.change(|world| {
            world.habit = habit;
            world.reorganise(2);
        });
        // A node of another network is noticed when the follower requests its first block again, after an error. The
        // request for the height of a node that is not at its tip ignores errors, so errors are repeated until the
        // follower has seen one.
        let why = refused(&rig, |world| {
            if habit == Habit::OtherNetwork && rig.follower.state().away.is_none() {
                world.away_calls = 1;
            }
        });
        assert!(why.contains(words), "{why}");
        let (problems, _) = rig.follower.state().health(known.map(|tip| tip.height));
        assert_eq!(problems.len(), 1, "{problems:?}");
        // The blocks of the new branch are wrong, so the tip must be the old one. Only the blocks of a node of another
        // network are valid by themselves.
        let is_known = rig.host.tip() == known;
        assert!(
            habit == Habit::OtherNetwork || is_known,
            "a wrong block is served"
        );
    }
}

#[test]
fn a_node_that_withholds_its_branch_removes_no_block() {
    for confirmations in [1, 4] {
        let rig = Rig::new(12, confirmations);
        rig.node.change(|world| world.mine(30));
        assert!(rig.settle(CATCH_UP_TIMEOUT));
        let known = rig.host.tip();
        let old = rig.node.world().best.clone();
        // The branch leaves the chain at height 15 and has blocks up to 31; those above 22 are withheld.
        rig.node.change(|world| {
            world.habit = Habit::WithholdsAbove(22);
            world.reorganise(15);
        });
        until(&rig, |state| {
            assert_eq!(rig.host.tip(), known);
            state.away.is_some()
        });
        // The node returns to the earlier chain, and then to the branch, all of whose blocks it now sends.
        let branch = rig.node.world().best.clone();
        rig.node.change(|world| world.best = old);
        until(&rig, |state| state.at_tip);
        assert_eq!((rig.host.tip(), rig.follower.state().reorganisations), (known, 0));
        rig.node.change(|world| {
            world.habit = Habit::Honest;
            world.best = branch;
            world.mine(1);
        });
        assert!(rig.settle(CATCH_UP_TIMEOUT), "{:?}", rig.follower.state());
        until(&rig, |state| (state.reorganisations, state.deepest) == (1, 15));
    }
}

#[test]
fn blocks_with_a_wrong_target_or_time_are_reported_and_never_served() {
    const LIMIT: u32 = 0x207f_ffff;
    // All blocks of regtest have the same target. The time is 1296688602 at height 0, and 600 s later at each block.
    let time = |height: u32| 1_296_688_602 + 600 * height;
    for (bits, time, words) in [
        (
            LIMIT - 1,
            time(11),
            "its target is 207ffffe, but the network's rule gives 207fffff",
        ),
        (
            0x2000_ffff,
            time(11),
            "its target is 2000ffff, but the network's rule gives 207fffff",
        ),
        (LIMIT, time(5), "the median of the 11 headers before it"),
        (LIMIT, u32::MAX, "check this machine's clock"),
    ] {
        let rig = Rig::new(6, 1);
        rig.node.change(|world| world.mine(10));
        assert!(rig.settle(CATCH_UP_TIMEOUT));
        rig.node.change(|world| world.mine_wrong(bits, time));
        let why = refused(&rig, |_| ());
        let wrong: Vec<Hash> = {
            let world = rig.node.world();
            let hash = world.best[11];
            assert!(why.contains(&lineside_util::hex::to_display(&hash)), "{why}");
            world.blocks[&hash].block.txids.clone()
        };
        assert!(why.contains("at height 11") && why.contains(words), "{why}");
        let state = rig.follower.state();
        assert_eq!((state.refused_blocks, state.is_up()), (1, false));
        let (problems, _) = state.health(Some(10));
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(rig.host.tip().unwrap().height, 10);
        for txid in &wrong {
            assert_eq!(rig.host.locate(txid).unwrap(), None);
        }
        // The node offers the block repeatedly, but it is counted once. When the node's chain is correct again, it is
        // followed again.
        rig.node.change(|world| world.reorganise(2));
        assert!(rig.settle(CATCH_UP_TIMEOUT), "{:?}", rig.follower.state());
        assert_eq!(rig.follower.state().refused_blocks, 1);
    }
}

#[test]
fn no_node_is_followed_from_a_store_with_another_first_block() {
    let rig = Rig::new(8, 1);
    let chain = lineside_spv::chain::ChainStore::open(None, lineside_spv::chain::Network::Regtest).unwrap();
    let store = lineside_spv::store::Store::anonymous(&lineside_spv::store::Geometry {
        line_bits: 3,
        block_bits: 1,
        tree_bits: 0,
        ..Default::default()
    });
    let writer = lineside_spv::writer::StoreWriter::new(Arc::new(store.unwrap()));
    let host = lineside_spv::host::SpvHost::new(chain, Box::new(writer), Default::default(), true);
    let first = lineside_testkit::DemoChain::new(1, 2).next().unwrap();
    host.submit(&first.raw, false).unwrap();
    let options = FollowOptions::new(1, 0);
    let started = NodeFollower::start(Arc::new(host), Box::new(rig.node.clone()), options);
    let why = started.err().expect("a node of another chain").to_string();
    let hash = lineside_util::hex::to_display(&first.hash);
    assert!(
        why.contains(&hash) && why.contains("genesis block of regtest"),
        "{why}"
    );
}

#[test]
fn a_restart_with_min_confirmations_disconnects_the_newest_blocks() {
    let rig = Rig::new(9, 4);
    rig.node.change(|world| world.mine(20));
    assert!(rig.settle(CATCH_UP_TIMEOUT));
    assert_eq!(rig.host.tip().unwrap().height, 17);
    // A second follower of the same host represents a restarted daemon.
    drop(rig.follower);
    rig.host.connect_best().unwrap();
    assert_eq!(rig.host.tip().unwrap().height, 20);
    let options = FollowOptions::new(4, 0);
    let _follower = NodeFollower::start(Arc::clone(&rig.host), Box::new(rig.node.clone()), options).unwrap();
    assert_eq!(rig.host.tip().unwrap().height, 17);
}
