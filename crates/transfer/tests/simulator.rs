//! Simulator: clients on a bad network, some of which try to steal money, a host on a bad disk, and crashes at any
//! time. One seed determines a whole run.
//!
//! `LINESIDE_SEEDS=1000..2000 cargo test -p lineside-transfer --test simulator` runs other seeds than the fixed ones.
//! A failing seed is printed with its last events; it fails the same way each time.

#[path = "simulator/clients.rs"]
mod clients;
#[path = "simulator/events.rs"]
mod events;
#[path = "simulator/keys.rs"]
mod keys;
#[path = "simulator/line.rs"]
mod line;
#[path = "simulator/network.rs"]
mod network;
mod oracle;
#[path = "simulator/requests.rs"]
mod requests;
#[path = "simulator/server.rs"]
mod server;
#[path = "simulator/syncs.rs"]
mod syncs;
#[path = "simulator/world.rs"]
mod world;

use events::{Events, Tally};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use world::World;

const STEPS: u64 = 500;

/// Runs one seed and returns its result; panics with the seed and the last events if it finds an error.
fn run(seed: u64, is_express: bool) -> (Tally, u64) {
    let mut events = Events::default();
    let mut tally = Tally::default();
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut world = World::new(seed, is_express, &mut events);
        let outcome = world.run(STEPS);
        tally = world.tally;
        outcome
    }));
    let wrong = match outcome {
        Ok(Ok(())) => return (tally, events.digest),
        Ok(Err(wrong)) => wrong,
        Err(_) => "the run panicked".into(),
    };
    events.print();
    panic!("seed {seed}: {wrong}");
}

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("LINESIDE_SEEDS") else {
        return 0..70;
    };
    let bounds = text.split_once("..").map(|(from, to)| (from.parse(), to.parse()));
    match bounds {
        Some((Ok(from), Ok(to))) => from..to,
        _ => panic!("LINESIDE_SEEDS must be `from..to`, not `{text}`"),
    }
}

fn run_all(is_express: bool) {
    let mut all = Tally::default();
    let mut runs = 0;
    for seed in seeds() {
        all.add(&run(seed, is_express).0);
        runs += 1;
    }
    eprintln!("{runs} runs: {all:?}");
    if runs >= 60 {
        // An event that happened too rarely counts as not tested.
        let rare = all.rare(is_express, if is_express { 5 } else { 20 });
        assert!(rare.is_empty(), "{rare:?} of {all:?}");
    }
}

#[test]
fn no_source_executes_operations_on_accounts_of_others() {
    run_all(false);
}

#[test]
fn no_source_executes_operations_on_accounts_of_others_with_the_fast_path() {
    run_all(true);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [3, 4] {
        assert_eq!(run(seed, false), run(seed, false), "seed {seed}");
        assert_eq!(run(seed, true), run(seed, true), "seed {seed}");
    }
}
