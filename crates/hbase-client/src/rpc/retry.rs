//! What follows from a call that failed.

use super::connection::Failure;
use std::time::{Duration, Instant};

/// Tries of one action at most, besides its deadline.
pub(super) const TRIES_MAX: u32 = 24;
/// The pause before the second repetition, and the longest; the first comes at once.
const PAUSE: Duration = Duration::from_millis(4);
const PAUSE_MAX: Duration = Duration::from_millis(400);

/// What a server throws that does not have the region, or not any more: nothing was done.
const ELSEWHERE: [&str; 8] = [
    "NotServingRegionException",
    "RegionMovedException",
    "RegionOpeningException",
    "WrongRegionException",
    "RegionServerStoppedException",
    "RegionServerAbortedException",
    "ServerNotRunningYetException",
    "PleaseHoldException",
];
/// What a server throws that has too much to do: nothing was done.
const BUSY: [&str; 4] = [
    "RegionTooBusyException",
    "CallQueueTooBigException",
    "CallDroppedException",
    "RpcThrottlingException",
];
/// What is thrown of a scanner that is gone.
const SCANNER_GONE: [&str; 5] = [
    "UnknownScannerException",
    "OutOfOrderScannerNextException",
    "ScannerResetException",
    "LeaseException",
    "LeaseStillHeldException",
];
/// Says not to try again, and leaves open whether it was done.
const CONFLICT: &str = "OperationConflictException";

/// How a failed call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing was done; the region is to be looked for anew.
    Elsewhere,
    /// Nothing was done; the server has no time now.
    Busy,
    /// It may have been done; where that does not matter it may be tried again.
    Open,
    /// It may have been done, and another try does not help.
    OpenForGood,
    /// Nothing was done, and it will not work.
    Refused,
}

pub(super) fn outcome(failure: &Failure) -> Outcome {
    let said = match failure {
        Failure::NotSent(_) => return Outcome::Elsewhere,
        Failure::NoAnswer(_) => return Outcome::Open,
        Failure::Wrong(_) => return Outcome::OpenForGood,
        Failure::Denied(_) => return Outcome::Refused,
        Failure::Said(said) => said,
    };
    match said.name() {
        name if ELSEWHERE.contains(&name) => Outcome::Elsewhere,
        name if BUSY.contains(&name) => Outcome::Busy,
        name if SCANNER_GONE.contains(&name) => Outcome::Open,
        CONFLICT => Outcome::OpenForGood,
        _ if said.do_not_retry => Outcome::Refused,
        _ => Outcome::Open,
    }
}

/// Waits before try number `tries`, counted from 0; `false`: there is no time for it.
pub(super) fn pause(tries: u32, deadline: Instant) -> bool {
    if tries < 2 {
        return tries == 0 || Instant::now() < deadline;
    }
    let longest = (PAUSE * 2u32.pow((tries - 2).min(10))).min(PAUSE_MAX);
    // Those who failed together do not come again together.
    let share = getrandom::u32().unwrap_or(u32::MAX);
    let pause = longest / 2 + longest.mul_f64(0.5 * f64::from(share) / f64::from(u32::MAX));
    let left = deadline.saturating_duration_since(Instant::now());
    if tries >= TRIES_MAX || left <= pause {
        return false;
    }
    std::thread::sleep(pause);
    true
}
