//! The scenario as short as it can be, and whether it notices what is wrong.

use super::measure::{Name, Runner, Seen, rounds, run_slice};
use super::workload::{Pool, Sizes, Workload};
use super::*;
use crate::gate::Outcome;

fn tiny() -> Options {
    Options {
        rounds: 3,
        slice: Duration::from_micros(50),
        cold_every: 2,
        percent: 2,
        ..Options::default()
    }
}
