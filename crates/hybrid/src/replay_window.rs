//! Reads are not in the log, so each node remembers by itself which it has answered: a window of 64 nonces a lane, as
//! IPsec has it (RFC 4303 section 3.4.3), because reads may overtake one another.

use crate::request::{MemberId, Nonce};
use std::collections::HashMap;

/// A read's expiry is at most so far away, so that what is remembered may be forgotten.
pub(crate) const READ_EXPIRY_MS: u64 = 60_000;
/// Lanes remembered before those are forgotten whose reads have all expired.
const LANES: usize = 1 << 16;

#[derive(Default)]
struct Window {
    top: u64,
    /// Bit i: `top - i` was answered.
    seen: u64,
    /// The latest expiry of its reads.
    expiry_ms: u64,
}

/// What was answered of late.
#[derive(Default)]
pub(crate) struct Windows {
    lanes: HashMap<(MemberId, u16), Window>,
    /// More lanes than this: forget what may be forgotten.
    sweep_at: usize,
}

impl Windows {
    /// Whether the nonce is new; from then on it is not. Nonces more than 63 below the lane's highest are not new.
    pub fn take(&mut self, member: MemberId, nonce: Nonce, expiry_ms: u64, now_ms: u64) -> bool {
        if self.lanes.len() > self.sweep_at.max(LANES) {
            self.lanes.retain(|_, window| window.expiry_ms >= now_ms);
            self.sweep_at = 2 * self.lanes.len();
        }
        let window = self.lanes.entry((member, nonce.lane)).or_default();
        if nonce.counter > window.top || window.seen == 0 {
            let ahead = nonce.counter.saturating_sub(window.top);
            window.seen = window.seen.checked_shl(ahead.min(64) as u32).unwrap_or(0) | 1;
            window.top = nonce.counter;
        } else {
            let bit = 1_u64
                .checked_shl((window.top - nonce.counter).min(64) as u32)
                .unwrap_or(0);
            if bit == 0 || window.seen & bit != 0 {
                return false;
            }
            window.seen |= bit;
        }
        window.expiry_ms = window.expiry_ms.max(expiry_ms);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn a_nonce_is_taken_once_and_the_newest_64_of_a_lane_in_any_order(
            counters in prop::collection::vec(0_u64..300, 1..400),
        ) {
            let mut windows = Windows::default();
            let (mut taken, mut top) = (BTreeSet::new(), None);
            for counter in counters {
                let expected = !taken.contains(&counter) && top.is_none_or(|top| counter + 64 > top);
                let nonce = Nonce { lane: 3, counter };
                prop_assert_eq!(windows.take(1, nonce, 10, 5), expected, "{} of {:?}", counter, taken);
                if expected {
                    taken.insert(counter);
                    top = top.max(Some(counter));
                }
            }
        }
    }

    #[test]
    fn lanes_are_forgotten_only_when_their_reads_have_expired() {
        let mut windows = Windows::default();
        let nonce = |lane| Nonce { lane, counter: 7 };
        for member in 1..=LANES as u64 {
            assert!(windows.take(member, nonce(0), 100, 50));
        }
        assert!(windows.take(1, nonce(1), 900, 50));
        // Beyond the limit, and after the expiry of all but one.
        assert!(windows.take(2, nonce(1), 900, 101));
        assert_eq!(windows.lanes.len(), 2);
        assert!(!windows.take(1, nonce(1), 900, 101));
    }
}
