//! Artificial stops for tests, which simulate a validation rule that this version does not support.

use crate::error::Stop;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Number of the block before which validators stop, by channel.
static UNDECIDED: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

/// Makes every validator of this process stop before block `number` of a channel; `None` removes the stop.
pub fn leave_undecided(channel: &str, number: Option<u64>) {
    let mut undecided = UNDECIDED.lock().unwrap_or_else(PoisonError::into_inner);
    match number {
        Some(number) => undecided.insert(channel.to_owned(), number),
        None => undecided.remove(channel),
    };
}

pub(crate) fn check_fault(channel: &str, number: u64) -> Result<(), Stop> {
    let undecided = UNDECIDED.lock().unwrap_or_else(PoisonError::into_inner);
    if undecided.get(channel) != Some(&number) {
        return Ok(());
    }
    let what = "a rule that a test leaves out".to_owned();
    Err(Stop::Transaction { index: 0, what })
}
