//! Replay protection of reads. Reads are not in the log, so each node remembers which reads it has answered: for each
//! lane, a window of 64 nonces, as in IPsec (RFC 4303 section 3.4.3), because reads may overtake one another.

use lineside_messages::hybrid::request::{MemberId, Nonce};
use std::collections::HashMap;

/// Maximum time from now to a read's expiry, in milliseconds. After its expiry a read's nonce can be forgotten.
pub(crate) const READ_EXPIRY_MS: u64 = 60_000;
/// Number of lanes above which a node forgets the lanes whose reads have all expired.
const SWEEP_ABOVE_LANES: usize = 1 << 16;
/// Maximum number of lanes of all members; they take about 24 MiB.
const LANES_MAX: usize = 1 << 18;
/// Maximum number of lanes of one member for which nonces are remembered.
const LANES_PER_MEMBER: usize = 1 << 12;
/// Minimum time in milliseconds between two sweeps, if the previous one freed no lane.
const SWEEP_EVERY_MS: u64 = 1_000;

#[derive(Default)]
struct Window {
    top: u64,
    /// Bit i is set if the read with nonce `top - i` was answered.
    answered_bits: u64,
    /// Latest expiry of the lane's reads, in milliseconds since 1970.
    expiry_ms: u64,
}

/// Result of checking the nonce of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NonceOutcome {
    /// The nonce is new. It is marked as used.
    Fresh,
    /// A read with this nonce was answered before, or the nonce is more than 63 below the lane's highest.
    Used,
    /// The nonce belongs to a new lane, and the maximum number of lanes is in use.
    NoRoom,
}

/// Nonces of the reads that this node has answered recently.
#[derive(Default)]
pub(crate) struct Windows {
    lanes: HashMap<(MemberId, u16), Window>,
    /// Number of lanes of each member.
    of_member: HashMap<MemberId, usize>,
    /// Number of lanes above which the next sweep forgets expired lanes.
    sweep_at: usize,
    swept_ms: u64,
}

impl Windows {
    /// Checks the nonce of a read that expires at `expiry_ms`, and marks it as used if it is new.
    pub fn take(&mut self, member: MemberId, nonce: Nonce, expiry_ms: u64, now_ms: u64) -> NonceOutcome {
        let name = (member, nonce.lane);
        if !self.lanes.contains_key(&name) {
            if self.lanes.len() > self.sweep_at.max(SWEEP_ABOVE_LANES) {
                self.sweep(now_ms);
                self.sweep_at = 2 * self.lanes.len();
            }
            if !self.has_room(member) && now_ms.saturating_sub(self.swept_ms) >= SWEEP_EVERY_MS {
                self.sweep(now_ms);
            }
            if !self.has_room(member) {
                return NonceOutcome::NoRoom;
            }
            self.lanes.insert(name, Window::default());
            *self.of_member.entry(member).or_default() += 1;
        }
        let window = self.lanes.entry(name).or_default();
        if nonce.counter > window.top || window.answered_bits == 0 {
            let ahead = nonce.counter.saturating_sub(window.top);
            window.answered_bits = window
                .answered_bits
                .checked_shl(ahead.min(64) as u32)
                .unwrap_or(0)
                | 1;
            window.top = nonce.counter;
        } else {
            let bit = 1_u64
                .checked_shl((window.top - nonce.counter).min(64) as u32)
                .unwrap_or(0);
            if bit == 0 || window.answered_bits & bit != 0 {
                return NonceOutcome::Used;
            }
            window.answered_bits |= bit;
        }
        window.expiry_ms = window.expiry_ms.max(expiry_ms);
        NonceOutcome::Fresh
    }

    fn has_room(&self, member: MemberId) -> bool {
        let own = self.of_member.get(&member).copied().unwrap_or_default();
        self.lanes.len() < LANES_MAX && own < LANES_PER_MEMBER
    }

    /// Forgets the lanes (series of nonces) whose reads have all expired.
    fn sweep(&mut self, now_ms: u64) {
        let of_member = &mut self.of_member;
        self.lanes.retain(|(member, _), window| {
            let is_kept = window.expiry_ms >= now_ms;
            if let Some(count) = of_member.get_mut(member).filter(|_| !is_kept) {
                *count -= 1;
            }
            is_kept
        });
        of_member.retain(|_, count| *count > 0);
        self.swept_ms = now_ms;
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
                let is_fresh = windows.take(1, nonce, 10, 5) == NonceOutcome::Fresh;
                prop_assert_eq!(is_fresh, expected, "{} of {:?}", counter, taken);
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
        for member in 1..=SWEEP_ABOVE_LANES as u64 {
            assert_eq!(windows.take(member, nonce(0), 100, 50), NonceOutcome::Fresh);
        }
        assert_eq!(windows.take(1, nonce(1), 900, 50), NonceOutcome::Fresh);
        // The number of lanes is above the limit, and the reads of all lanes but one have expired.
        assert_eq!(windows.take(2, nonce(1), 900, 101), NonceOutcome::Fresh);
        assert_eq!((windows.lanes.len(), windows.of_member.len()), (2, 2));
        assert_eq!(windows.take(1, nonce(1), 900, 101), NonceOutcome::Used);
    }

    #[test]
    fn a_member_has_a_share_of_the_lanes_and_all_lanes_have_a_limit() {
        let mut windows = Windows::default();
        let nonce = |lane| Nonce { lane, counter: 7 };
        let members = (LANES_MAX / LANES_PER_MEMBER) as u64;
        for member in 1..=members {
            for lane in 0..LANES_PER_MEMBER as u16 {
                assert_eq!(windows.take(member, nonce(lane), 5_000, 50), NonceOutcome::Fresh);
            }
            let more = windows.take(member, nonce(u16::MAX), 5_000, 50);
            assert_eq!(more, NonceOutcome::NoRoom, "member {member}");
        }
        assert_eq!(
            windows.take(members + 1, nonce(0), 5_000, 50),
            NonceOutcome::NoRoom
        );
        assert_eq!(windows.take(1, nonce(0), 5_000, 50), NonceOutcome::Used);
        assert_eq!(windows.lanes.len(), LANES_MAX);
        // New lanes are accepted again after the reads of the old ones have expired.
        assert_eq!(
            windows.take(members + 1, nonce(0), 9_000, 5_001),
            NonceOutcome::Fresh
        );
        assert_eq!((windows.lanes.len(), windows.of_member.len()), (1, 1));
    }
}
