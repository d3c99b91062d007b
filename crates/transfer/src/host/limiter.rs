//! Limits on how fast clients can make the journal grow without changing anything: by refused packets, and by opening
//! sessions. Only the refusals themselves are limited. A packet with at least one executed operation needs no credit.
//!
//! Refused packets of sessions and opened sessions are counted by source, each in a token bucket for each IPv4 address
//! and each /64 of IPv6. Packets that prove no source share one bucket, so that a forged address costs its owner
//! nothing. Refusals by the fast path are charged afterwards, so a bucket may be in debt.

use super::Host;
use crate::ledger::{Address, network_of};
use crate::store::Store;
use hashbrown::HashMap;
use lineside_fastpath::Source;
use lineside_journal::Disk;
use std::net::Ipv6Addr;

/// Maximum number of sources with a bucket of their own; all others share one.
const BUCKETS_MAX: usize = 4096;
/// Time in seconds in which an empty bucket becomes full.
const FULL_AFTER_S: u64 = 60;
/// Time in seconds in which a source pays the maximum debt, for limiters whose debt is bounded.
const DEBT_S: u64 = 10;
/// Interval in seconds in which each session may have one refusal, whatever other sessions of its source do.
const SESSION_S: u64 = 4;
/// Key of the bucket shared by sources without one of their own: no source has this address.
const SHARED: Address = [0xff; 16];

/// Token buckets by network ([`crate::ledger::network_of`]). A source without a bucket has full credit.
pub(super) struct Limiter {
    per_s: u64,
    debt_max: i64,
    buckets: HashMap<Address, Bucket>,
}

#[derive(Clone, Copy)]
struct Bucket {
    /// Credit; negative for a debt.
    credit: i64,
    at_s: u64,
}

impl Limiter {
    /// Creates a limiter that allows `per_s` per second in the long run, and a minute's worth at once. A debt is
    /// limited to [`DEBT_S`] seconds' worth.
    pub(super) fn new(per_s: u32) -> Self {
        Self {
            debt_max: (u64::from(per_s) * DEBT_S) as i64,
            ..Self::with_any_debt(per_s)
        }
    }

    /// Creates a limiter like [`Limiter::new`], but with unlimited debt.
    pub(super) fn with_any_debt(per_s: u32) -> Self {
        Self {
            per_s: per_s.into(),
            debt_max: i64::MAX,
            buckets: HashMap::new(),
        }
    }

    /// Returns the credit of a bucket at the time `now_s`. A bucket that was not used for long is full.
    fn credit(&self, bucket: &Bucket, now_s: u64) -> i64 {
        let refilled = now_s.saturating_sub(bucket.at_s).saturating_mul(self.per_s);
        let refilled = i64::try_from(refilled).unwrap_or(i64::MAX);
        bucket.credit.saturating_add(refilled).min(self.full())
    }

    fn full(&self) -> i64 {
        (self.per_s * FULL_AFTER_S) as i64
    }

    /// Returns whether no source has used any credit, which is the common case.
    pub(super) fn is_idle(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Returns whether this source has the credit to make the journal grow once more.
    pub(super) fn may(&self, network: &Address, now_s: u64) -> bool {
        let own = self.buckets.get(network);
        own.or_else(|| self.shared())
            .is_none_or(|bucket| self.credit(bucket, now_s) > 0)
    }

    /// Returns the shared bucket if the maximum number of buckets is reached.
    fn shared(&self) -> Option<&Bucket> {
        (self.buckets.len() >= BUCKETS_MAX)
            .then(|| self.buckets.get(&SHARED))
            .flatten()
    }

    /// Charges this source for making the journal grow `times` times.
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
            credit: credit.saturating_sub(times).max(-self.debt_max),
            at_s: now_s,
        };
        self.buckets.insert(key, bucket);
    }

    /// Removes full buckets.
    pub(super) fn forget(&mut self, now_s: u64) {
        let mut buckets = std::mem::take(&mut self.buckets);
        buckets.retain(|_, bucket| self.credit(bucket, now_s) < self.full());
        self.buckets = buckets;
    }
}

/// Limits on the refusals and session openings that a host journals for its clients.
pub(super) struct Budgets {
    /// Refused packets of sessions, by the network that opened the session.
    refusals: Limiter,
    /// Opened sessions, by network.
    openings: Limiter,
    /// Refused packets whose source is not proved, in one bucket for all. In `express` it is in the fast-path table,
    /// because the fast path shares it ([`Budgets::refill`]).
    unproved: Limiter,
    /// Host's clock at the latest refusal of each session with a refusal within [`SESSION_S`], in seconds since 1970.
    refused_at_s: HashMap<u32, u64>,
    /// Host's clock when the fast path's credit was last refilled, in seconds since 1970.
    refilled_at_s: Option<u64>,
}

impl Budgets {
    pub(super) fn new(per_s: u32) -> Self {
        Self {
            refusals: Limiter::new(per_s),
            openings: Limiter::new(per_s),
            unproved: Limiter::new(per_s),
            refused_at_s: HashMap::new(),
            refilled_at_s: None,
        }
    }

    /// Removes full buckets, and refusals of sessions that are older than [`SESSION_S`].
    pub(super) fn forget(&mut self, now_s: u64) {
        for limiter in [&mut self.refusals, &mut self.openings, &mut self.unproved] {
            if !limiter.is_idle() {
                limiter.forget(now_s);
            }
        }
        self.refused_at_s
            .retain(|_, at_s| now_s.abs_diff(*at_s) < SESSION_S);
    }

    /// Refills the fast path's credit for refusing numbered requests in the paper's format, at the time `now_s`.
    pub(super) fn refill(&mut self, store: &Store, now_s: u64) {
        let unproved = &mut self.unproved;
        // The credit is full when the host starts.
        let before_s = self.refilled_at_s.replace(now_s);
        let elapsed_s = before_s.map_or(FULL_AFTER_S, |at_s| now_s.saturating_sub(at_s));
        let more = elapsed_s.saturating_mul(unproved.per_s);
        store.add_paper_refusals(i64::try_from(more).unwrap_or(i64::MAX), unproved.full());
    }

    /// Removes the data of a closed session.
    pub(super) fn closed(&mut self, slot: u32) {
        self.refused_at_s.remove(&slot);
    }
}

impl<D: Disk> Host<D> {
    /// Returns whether a refused packet of this session may be journaled: its opener's network has credit, or the
    /// session itself had no refusal for [`SESSION_S`] seconds.
    pub(super) fn may_refuse(&self, slot: u32, now_s: u64) -> bool {
        let Some(opener) = self.opener(slot).filter(|opener| !self.sessions.trusts(*opener)) else {
            return true;
        };
        let at_s = self.budgets.refused_at_s.get(&slot);
        let network = network_of(&opener.address_bytes());
        self.budgets.refusals.may(&network, now_s)
            || at_s.is_none_or(|at_s| now_s.abs_diff(*at_s) >= SESSION_S)
    }

    /// Charges refused packets of a session that were journaled.
    pub(super) fn charge_refusals(&mut self, slot: u32, packets: u64, now_s: u64) {
        let Some(opener) = self.opener(slot).filter(|opener| !self.sessions.trusts(*opener)) else {
            return;
        };
        let network = network_of(&opener.address_bytes());
        self.budgets.refusals.charge(&network, packets, now_s);
        self.budgets.refused_at_s.insert(slot, now_s);
        self.charge_withheld(&network, packets, now_s);
    }

    /// Returns whether this source, whose address is proved, may open a session.
    pub(super) fn may_open(&self, from: Source, now_s: u64) -> bool {
        self.sessions.trusts(from)
            || self
                .budgets
                .openings
                .may(&network_of(&from.address_bytes()), now_s)
    }

    /// Charges a session that was opened.
    pub(super) fn charge_opening(&mut self, from: Source, now_s: u64) {
        if !self.sessions.trusts(from) {
            let network = network_of(&from.address_bytes());
            self.budgets.openings.charge(&network, 1, now_s);
        }
    }

    /// Returns whether a refused packet that proves no source may be journaled.
    pub(super) fn may_refuse_unproved(&self, from: Source, now_s: u64) -> bool {
        let may = || match self.is_express() {
            true => self.store.has_paper_refusals(),
            false => self.budgets.unproved.may(&SHARED, now_s),
        };
        self.sessions.trusts(from) || may()
    }

    /// Charges a journaled refused packet that proves no source.
    pub(super) fn charge_unproved(&mut self, from: Source, now_s: u64) {
        if self.sessions.trusts(from) {
            return;
        }
        if self.is_express() {
            self.store.take_paper_refusal();
        } else {
            self.budgets.unproved.charge(&SHARED, 1, now_s);
        }
    }

    /// Returns the source that opened a session. The limits on the session's packets use it, because a packet may
    /// carry any source address, but this one was proved.
    pub(super) fn opener(&self, slot: u32) -> Option<Source> {
        let session = self.ledger.session(slot)?;
        let address = Ipv6Addr::from(session.opener).to_canonical();
        Some(Source { address, port: 0 })
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
    fn a_debt_is_bounded_to_some_seconds() {
        let (mut limiter, own) = (Limiter::new(2), network(1));
        limiter.charge(&own, 1_120, 1_000);
        limiter.charge(&own, u64::MAX, 1_000);
        assert!(!limiter.may(&own, 1_000 + DEBT_S) && limiter.may(&own, 1_001 + DEBT_S));
    }

    #[test]
    fn a_debt_without_bound_is_paid_at_the_rate() {
        let (mut limiter, own) = (Limiter::with_any_debt(2), network(1));
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
        assert!(limiter.may(&network(1), 5), "network 1 has a bucket of its own");
        assert!(!limiter.may(&network(u32::MAX), 5), "the shared bucket is empty");
        assert!(limiter.may(&network(u32::MAX), 6));
        limiter.charge(&network(7), 1, 100);
        assert!(limiter.buckets.len() <= BUCKETS_MAX + 1);
    }
}
