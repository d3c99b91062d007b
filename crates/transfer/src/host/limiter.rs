//! Limit of what one source may make the journal grow by without changing anything: refused packets, and sessions that
//! are opened. A token bucket for each IPv4 address and each /64 of IPv6. What the fast path refused is charged
//! afterwards, so a bucket may be in debt: the source then waits until its rate has paid that.

use crate::ledger::Address;
use hashbrown::HashMap;

/// Sources with a bucket of their own; all others share one.
const BUCKETS_MAX: usize = 4096;
/// Seconds in which an empty bucket becomes full.
const FULL_AFTER_S: u64 = 60;
/// Key of the bucket that sources without one of their own share: no source has this address.
const SHARED: Address = [0xff; 16];

/// Buckets by networks, as of [`crate::ledger::network_of`]. A source without a bucket has a full one.
pub(super) struct Limiter {
    per_s: u64,
    buckets: HashMap<Address, Bucket>,
}

#[derive(Clone, Copy)]
struct Bucket {
    /// Negative: a debt.
    credit: i64,
    at_s: u64,
}

impl Limiter {
    /// Takes `per_s` each second in the long run, and a minute's worth at once.
    pub(super) fn new(per_s: u32) -> Self {
        Self {
            per_s: per_s.into(),
            buckets: HashMap::new(),
        }
    }

    /// Credit of a bucket at the time `now_s`; a bucket that nothing was taken from for long is full.
    fn credit(&self, bucket: &Bucket, now_s: u64) -> i64 {
        let refilled = now_s.saturating_sub(bucket.at_s).saturating_mul(self.per_s);
        let refilled = i64::try_from(refilled).unwrap_or(i64::MAX);
        bucket.credit.saturating_add(refilled).min(self.full())
    }

    fn full(&self) -> i64 {
        (self.per_s * FULL_AFTER_S) as i64
    }

    /// Whether no source has used anything: the cheap answer for the common case.
    pub(super) fn is_idle(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Whether this source may make the journal grow once more.
    pub(super) fn may(&self, network: &Address, now_s: u64) -> bool {
        let own = self.buckets.get(network);
        own.or_else(|| self.shared())
            .is_none_or(|bucket| self.credit(bucket, now_s) > 0)
    }

    /// The bucket of those without one, where no further one is made.
    fn shared(&self) -> Option<&Bucket> {
        (self.buckets.len() >= BUCKETS_MAX)
            .then(|| self.buckets.get(&SHARED))
            .flatten()
    }

    /// This source has made the journal grow so many times.
    pub(super) fn charge(&mut self, network: &Address, times: u64, now_s: u64) {
        if self.buckets.len() >= BUCKETS_MAX && !self.buckets.contains_key(network) {
            self.forget(now_s);
        }
        let has_place = self.buckets.len() < BUCKETS_MAX || self.buckets.contains_key(network);
        let key = if has_place { *network } else { SHARED };
        let before = self.buckets.get(&key);
        let credit = before.map_or(self.full(), |bucket| self.credit(bucket, now_s));
        let times = i64::try_from(times).unwrap_or(i64::MAX);
        let bucket = Bucket {
            credit: credit.saturating_sub(times),
            at_s: now_s,
        };
        self.buckets.insert(key, bucket);
    }

    /// Forgets who has used nothing for a while.
    pub(super) fn forget(&mut self, now_s: u64) {
        let mut buckets = std::mem::take(&mut self.buckets);
        buckets.retain(|_, bucket| self.credit(bucket, now_s) < self.full());
        self.buckets = buckets;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(number: u32) -> Address {
        let mut network = [0; 16];
        network[..4].copy_from_slice(&number.to_be_bytes());
        network
    }

    #[test]
    fn a_source_has_a_minutes_worth_and_then_its_rate() {
        let (mut limiter, own, other) = (Limiter::new(2), network(1), network(2));
        for count in 0..120 {
            assert!(limiter.may(&own, 1_000), "{count}");
            limiter.charge(&own, 1, 1_000);
        }
        assert!(!limiter.may(&own, 1_000) && limiter.may(&other, 1_000));
        assert!(!limiter.may(&own, 900), "the clock was set back");
        assert!(limiter.may(&own, 1_001));
        limiter.charge(&own, 1, 1_001);
        limiter.charge(&own, 1, 1_001);
        assert!(!limiter.may(&own, 1_001));
        limiter.forget(1_060);
        assert!(!limiter.is_idle());
        limiter.forget(1_061);
        assert!(limiter.is_idle());
    }

    #[test]
    fn a_debt_is_paid_at_the_rate() {
        let (mut limiter, own) = (Limiter::new(2), network(1));
        limiter.charge(&own, 1_120, 1_000);
        assert!(!limiter.may(&own, 1_500), "a debt of 1,000 takes 500 s");
        limiter.forget(1_500);
        assert!(!limiter.may(&own, 1_500) && limiter.may(&own, 1_501));
        limiter.charge(&own, u64::MAX, 1_501);
        assert!(!limiter.may(&own, u64::MAX / 4));
        let mut none = Limiter::new(u32::MAX);
        none.charge(&own, 1, 0);
        assert!(none.may(&own, u64::MAX));
    }

    #[test]
    fn memory_is_bounded_however_many_sources_there_are() {
        let mut limiter = Limiter::new(1);
        for number in 0..3 * BUCKETS_MAX as u32 {
            if limiter.may(&network(number), 5) {
                limiter.charge(&network(number), 1, 5);
            }
        }
        assert_eq!(limiter.buckets.len(), BUCKETS_MAX + 1);
        assert!(limiter.may(&network(1), 5), "it has its own");
        assert!(
            !limiter.may(&network(u32::MAX), 5),
            "those that share have used it up"
        );
        assert!(limiter.may(&network(u32::MAX), 6));
        limiter.charge(&network(7), 1, 100);
        assert!(limiter.buckets.len() <= BUCKETS_MAX + 1);
    }
}
