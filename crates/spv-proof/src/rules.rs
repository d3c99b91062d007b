//! Rules of a header that depend on its ancestors: target, time, and the time warp rule of testnet4.
//!
//! Sources: Bitcoin Core's `pow.cpp` (`GetNextWorkRequired`) and `validation.cpp` (`ContextualCheckBlockHeader`),
//! BIP94, BIP113, btcd's `blockchain/difficulty.go`. The minimum version that BIP34, BIP65 and BIP66 require is not
//! checked.

use crate::network::{MIN_DIFFICULTY_AFTER_S, TARGET_TIMESPAN_S};
use crate::{Network, RETARGET_INTERVAL, RetargetRule, decode_target, encode_target};
use core::fmt;

/// Seconds that a header may be ahead of the clock: 2 hours.
pub const MAX_FUTURE_S: u32 = 2 * 60 * 60;
/// Number of headers before a header whose median time the header's own time must exceed (BIP113).
pub const MEDIAN_TIME_SPAN: u32 = 11;
/// Maximum number of seconds by which the time of a period's first header may be before its parent's time, on testnet4
/// (BIP94).
const MAX_TIME_WARP_S: u32 = 600;

/// Fields of an ancestor header that the rules of its descendants use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ancestor {
    /// Seconds since 1970.
    pub time: u32,
    /// Target in compact form.
    pub bits: u32,
}

/// Reason why a header may not follow its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// The target is not the one that the network's rule determines.
    WrongTarget {
        /// Target of the header, in compact form.
        found: u32,
        /// Target that the rule determines.
        required: u32,
    },
    /// The time is not above the median of the previous 11 headers.
    TimeTooOld {
        /// Time of the header, in seconds since 1970.
        found: u32,
        /// Median time of the previous 11 headers, in seconds since 1970.
        median: u32,
    },
    /// The time is more than two hours ahead of the clock.
    TimeTooNew {
        /// Time of the header, in seconds since 1970.
        found: u32,
        /// Current time in seconds since 1970, as given by the caller.
        now: u32,
    },
    /// The first header of a period is more than 600 s older than its parent (BIP94, testnet4 only).
    TimeWarp {
        /// Time of the header, in seconds since 1970.
        found: u32,
        /// Time of the header's parent, in seconds since 1970.
        parent: u32,
    },
}

impl fmt::Display for RuleError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleError::WrongTarget { found, required } => {
                write!(
                    out,
                    "its target is {found:08x}, but the network's rule gives {required:08x}"
                )
            }
            RuleError::TimeTooOld { found, median } => {
                write!(
                    out,
                    "its time {found} is not above {median}, the median of the 11 headers before it"
                )
            }
            RuleError::TimeTooNew { found, now } => {
                write!(
                    out,
                    "its time {found} is more than two hours after {now}; check this machine's clock"
                )
            }
            RuleError::TimeWarp { found, parent } => {
                write!(
                    out,
                    "its time {found} is more than 600 s before its parent's, {parent} (BIP94)"
                )
            }
        }
    }
}

impl core::error::Error for RuleError {}

/// Checks a header with this `time` and these `bits` against its ancestors. `at` returns the ancestor at a given
/// height; this function calls it at most 2016 times, from `parent_height` downwards. `now` is the current time in
/// seconds since
/// 1970.
///
/// # Errors
/// The first of [`RuleError::WrongTarget`], [`RuleError::TimeTooOld`], [`RuleError::TimeWarp`],
/// [`RuleError::TimeTooNew`] that applies, in the order of Bitcoin Core.
pub fn check_rules(
    network: Network,
    header: Ancestor,
    parent_height: u32,
    now: u32,
    at: impl Fn(u32) -> Ancestor,
) -> Result<(), RuleError> {
    let real_bits = || last_real_bits(network, parent_height, &at);
    check_rules_with(network, header, parent_height, now, &at, real_bits)
}

/// Checks a header like [`check_rules`], for a caller that stores the result of [`real_bits_after`] for each header:
/// `real_bits` returns the stored result of the parent. Only the first header of a period then needs an ancestor more
/// than 11 blocks back.
///
/// # Errors
/// The errors of [`check_rules`].
pub fn check_rules_with(
    network: Network,
    header: Ancestor,
    parent_height: u32,
    now: u32,
    at: impl Fn(u32) -> Ancestor,
    real_bits: impl Fn() -> u32,
) -> Result<(), RuleError> {
    let (bits, time) = (header.bits, header.time);
    let required = required_bits_with(network, parent_height, time, &at, real_bits);
    if bits != required {
        return Err(RuleError::WrongTarget {
            found: bits,
            required,
        });
    }
    let median = median_time(parent_height, |height| at(height).time);
    if time <= median {
        return Err(RuleError::TimeTooOld { found: time, median });
    }
    let is_first = (parent_height + 1).is_multiple_of(RETARGET_INTERVAL);
    let parent = at(parent_height).time;
    let is_warped = time < parent.saturating_sub(MAX_TIME_WARP_S);
    if network.retarget_rule() == RetargetRule::Bip94 && is_first && is_warped {
        return Err(RuleError::TimeWarp { found: time, parent });
    }
    if time > now.saturating_add(MAX_FUTURE_S) {
        return Err(RuleError::TimeTooNew { found: time, now });
    }
    Ok(())
}

/// Returns the target, in compact form, that the header after `parent_height` must have if its time is `time`. `at`
/// returns the ancestor at a given height, which is at most `parent_height`.
pub fn required_bits(network: Network, parent_height: u32, time: u32, at: impl Fn(u32) -> Ancestor) -> u32 {
    let real_bits = || last_real_bits(network, parent_height, &at);
    required_bits_with(network, parent_height, time, &at, real_bits)
}

fn required_bits_with(
    network: Network,
    parent_height: u32,
    time: u32,
    at: impl Fn(u32) -> Ancestor,
    real_bits: impl Fn() -> u32,
) -> u32 {
    let rule = network.retarget_rule();
    if rule == RetargetRule::Never {
        return network.limit_bits();
    }
    let parent = at(parent_height);
    if !(parent_height + 1).is_multiple_of(RETARGET_INTERVAL) {
        return match rule {
            RetargetRule::Every2016 | RetargetRule::Never => parent.bits,
            _ if u64::from(time) > u64::from(parent.time) + u64::from(MIN_DIFFICULTY_AFTER_S) => {
                network.limit_bits()
            }
            _ => real_bits(),
        };
    }
    let first = at(parent_height + 1 - RETARGET_INTERVAL);
    let begin = if rule == RetargetRule::Bip94 {
        first.bits
    } else {
        parent.bits
    };
    retarget(network, begin, i64::from(parent.time) - i64::from(first.time))
}

/// Returns the target of the last header of the period that does not have the minimum difficulty, or of the period's
/// first header.
fn last_real_bits(network: Network, parent_height: u32, at: impl Fn(u32) -> Ancestor) -> u32 {
    let limit = network.limit_bits();
    let first = parent_height - parent_height % RETARGET_INTERVAL;
    let mut height = parent_height;
    while height > first && at(height).bits == limit {
        height -= 1;
    }
    at(height).bits
}

/// Returns the target of the last header up to `height` in its period that does not have the minimum difficulty, or
/// of the period's first header. `bits` is the target of the header at `height`; `of_parent` is the result of this
/// function for its parent.
pub fn real_bits_after(network: Network, height: u32, bits: u32, of_parent: u32) -> u32 {
    if height.is_multiple_of(RETARGET_INTERVAL) || bits != network.limit_bits() {
        bits
    } else {
        of_parent
    }
}

/// Returns the target, in compact form, after a period that began with `bits` and took `timespan_s` seconds from its
/// first header to its last.
pub fn retarget(network: Network, bits: u32, timespan_s: i64) -> u32 {
    const EXPECTED: i64 = TARGET_TIMESPAN_S as i64;
    let timespan = timespan_s.clamp(EXPECTED / 4, EXPECTED * 4) as u32;
    let target = decode_target(bits).unwrap_or(network.limit());
    encode_target(target.mul_div(timespan, TARGET_TIMESPAN_S).min(network.limit()))
}

/// Returns the median of the times of the last 11 headers up to `height`, or of all if there are fewer (BIP113).
pub fn median_time(height: u32, time_at: impl Fn(u32) -> u32) -> u32 {
    let mut times = [0; MEDIAN_TIME_SPAN as usize];
    let count = (height + 1).min(MEDIAN_TIME_SPAN);
    let times = &mut times[..count as usize];
    for (back, time) in (0..).zip(times.iter_mut()) {
        *time = time_at(height - back);
    }
    times.sort_unstable();
    times[times.len() / 2]
}
