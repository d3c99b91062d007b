//! Rules for repeating calls: classes of failures, and pauses between attempts.

use super::connection::Failure;
use std::time::{Duration, Instant};

/// Maximum number of attempts of one action. The action also ends at its deadline.
pub(super) const TRIES_MAX: u32 = 24;
/// Pause before the second repetition, and maximum pause. The first repetition follows without a pause.
const PAUSE: Duration = Duration::from_millis(4);
const PAUSE_MAX: Duration = Duration::from_millis(400);

/// Names of exceptions of a server that does not hold the region any more. The call was not executed.
const REGION_MOVED_EXCEPTIONS: [&str; 8] = [
    "NotServingRegionException",
    "RegionMovedException",
    "RegionOpeningException",
    "WrongRegionException",
    "RegionServerStoppedException",
    "RegionServerAbortedException",
    "ServerNotRunningYetException",
    "PleaseHoldException",
];
/// Names of exceptions of an overloaded server. The call was not executed.
const OVERLOADED_EXCEPTIONS: [&str; 4] = [
    "RegionTooBusyException",
    "CallQueueTooBigException",
    "CallDroppedException",
    "RpcThrottlingException",
];
/// Names of exceptions which say that a scanner does not exist any more.
const UNKNOWN_SCANNER_EXCEPTIONS: [&str; 5] = [
    "UnknownScannerException",
    "OutOfOrderScannerNextException",
    "ScannerResetException",
    "LeaseException",
    "LeaseStillHeldException",
];
/// Name of the exception that forbids a repetition but does not say whether the call was executed.
const CONFLICT_EXCEPTION: &str = "OperationConflictException";

/// Class of a failed call: whether it was executed, and whether it can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The call was not executed; the region must be looked up again.
    Elsewhere,
    /// The call was not executed; the server is overloaded.
    Busy,
    /// The call may have been executed. It can be repeated if a second execution does no harm.
    Open,
    /// The call may have been executed, and a repetition would not help.
    OpenForGood,
    /// The call was not executed, and a repetition would fail, too.
    Refused,
}

pub(super) fn outcome(failure: &Failure) -> Outcome {
    let message = match failure {
        Failure::NotSent(_) => return Outcome::Elsewhere,
        Failure::NoAnswer(_) => return Outcome::Open,
        Failure::Wrong(_) => return Outcome::OpenForGood,
        Failure::Denied(_) => return Outcome::Refused,
        Failure::Said(said) => said,
    };
    match message.name() {
        name if REGION_MOVED_EXCEPTIONS.contains(&name) => Outcome::Elsewhere,
        name if OVERLOADED_EXCEPTIONS.contains(&name) => Outcome::Busy,
        name if UNKNOWN_SCANNER_EXCEPTIONS.contains(&name) => Outcome::Open,
        CONFLICT_EXCEPTION => Outcome::OpenForGood,
        _ if message.do_not_retry => Outcome::Refused,
        _ => Outcome::Open,
    }
}

/// Waits before attempt number `tries`, counted from 0. Returns false if the deadline comes before the end of the
/// pause.
pub(super) fn pause(tries: u32, deadline: Instant) -> bool {
    if tries < 2 {
        return tries == 0 || Instant::now() < deadline;
    }
    let longest = (PAUSE * 2u32.pow((tries - 2).min(10))).min(PAUSE_MAX);
    // A random part of the pause prevents callers that failed at the same time from repeating at the same time.
    let share = getrandom::u32().unwrap_or(u32::MAX);
    let pause = longest / 2 + longest.mul_f64(0.5 * f64::from(share) / f64::from(u32::MAX));
    let left = deadline.saturating_duration_since(Instant::now());
    if tries >= TRIES_MAX || left <= pause {
        return false;
    }
    std::thread::sleep(pause);
    true
}
