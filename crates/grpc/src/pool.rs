//! Counts the use of one resource, such as calls, and enforces its limits: for all clients, for all untrusted clients
//! together, and for one network.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Part of a resource that is reserved for trusted networks: one divided by this number.
const RESERVED_FOR_TRUSTED: usize = 8;

/// Amounts of one resource that are in use, and their limits. A "stranger" is a network that is not trusted.
#[derive(Debug)]
pub(crate) struct Pool {
    limit: usize,
    strangers_max: usize,
    of_network_max: usize,
    used: AtomicUsize,
    used_by_strangers: AtomicUsize,
}

impl Pool {
    /// Returns a pool of `limit` units, of which one stranger may use 1/`networks`.
    pub fn new(limit: usize, networks: usize) -> Self {
        Self {
            limit,
            strangers_max: limit - limit / RESERVED_FOR_TRUSTED,
            of_network_max: limit.div_ceil(networks),
            used: AtomicUsize::new(0),
            used_by_strangers: AtomicUsize::new(0),
        }
    }

    /// Takes `amount` units for a network; `of_network` counts what the network uses. Returns false and takes nothing
    /// if a limit would be exceeded.
    pub fn take(&self, of_network: &AtomicUsize, is_trusted: bool, amount: usize) -> bool {
        if !add(&self.used, amount, self.limit) {
            return false;
        }
        let network_max = if is_trusted {
            self.limit
        } else {
            self.of_network_max
        };
        if !add(of_network, amount, network_max) {
            self.used.fetch_sub(amount, Ordering::AcqRel);
            return false;
        }
        if !is_trusted && !add(&self.used_by_strangers, amount, self.strangers_max) {
            self.used.fetch_sub(amount, Ordering::AcqRel);
            of_network.fetch_sub(amount, Ordering::AcqRel);
            return false;
        }
        true
    }

    /// Like [`Pool::take`], but also succeeds if the network uses nothing and the whole pool has `amount` units free,
    /// or if no network uses anything. In this way, amounts larger than a limit are admitted one at a time.
    pub fn take_alone(&self, of_network: &AtomicUsize, is_trusted: bool, amount: usize) -> bool {
        if self.take(of_network, is_trusted, amount) {
            return true;
        }
        let used = self.used.load(Ordering::Acquire);
        let is_alone = of_network.load(Ordering::Acquire) == 0
            && used.checked_add(amount).is_some_and(|sum| sum <= self.limit);
        if is_alone || used == 0 {
            self.take_beyond(of_network, is_trusted, amount);
            return true;
        }
        false
    }

    /// Takes `amount` units even if this exceeds a limit.
    pub fn take_beyond(&self, of_network: &AtomicUsize, is_trusted: bool, amount: usize) {
        self.used.fetch_add(amount, Ordering::AcqRel);
        of_network.fetch_add(amount, Ordering::AcqRel);
        if !is_trusted {
            self.used_by_strangers.fetch_add(amount, Ordering::AcqRel);
        }
    }

    /// Returns `amount` units that the network had taken.
    pub fn give_back(&self, of_network: &AtomicUsize, is_trusted: bool, amount: usize) {
        self.used.fetch_sub(amount, Ordering::AcqRel);
        of_network.fetch_sub(amount, Ordering::AcqRel);
        if !is_trusted {
            self.used_by_strangers.fetch_sub(amount, Ordering::AcqRel);
        }
    }

    /// Returns true if a stranger that uses this amount has reached the limit of one network.
    pub fn network_is_full(&self, of_network: &AtomicUsize) -> bool {
        of_network.load(Ordering::Acquire) >= self.of_network_max
    }

    /// Returns true if a stranger that uses nothing so far cannot take `amount` units.
    pub fn is_full_for_strangers(&self, amount: usize) -> bool {
        let strangers = self.used_by_strangers.load(Ordering::Acquire);
        strangers + amount > self.strangers_max || self.used.load(Ordering::Acquire) + amount > self.limit
    }

    /// Returns true if at least four fifths of all units, or of the units for strangers, are in use.
    pub fn is_nearly_full(&self) -> bool {
        let is_near = |used: &AtomicUsize, limit: usize| used.load(Ordering::Acquire) >= limit - limit / 5;
        is_near(&self.used, self.limit) || is_near(&self.used_by_strangers, self.strangers_max)
    }

    /// Returns the number of units in use, and the limit.
    pub fn used(&self) -> (usize, usize) {
        (self.used.load(Ordering::Acquire), self.limit)
    }
}

fn add(used: &AtomicUsize, amount: usize, limit: usize) -> bool {
    let more = |used: usize| used.checked_add(amount).filter(|sum| *sum <= limit);
    used.fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_stranger_all_strangers_and_trusted_networks_have_separate_limits() {
        let pool = Pool::new(80, 4);
        let [a, b, c, d, e] = [(); 5].map(|()| AtomicUsize::new(0));
        for network in [&a, &b, &c] {
            assert!(pool.take(network, false, 20));
            assert!(!pool.take(network, false, 1) && pool.network_is_full(network));
        }
        assert!(!pool.is_full_for_strangers(10) && pool.is_full_for_strangers(11));
        assert!(pool.take(&d, false, 10), "strangers may use 70 of 80");
        assert!(!pool.take(&d, false, 1) && pool.is_nearly_full());
        assert!(pool.take(&e, true, 10) && !pool.take(&e, true, 1));
        assert_eq!(pool.used(), (80, 80));
        pool.give_back(&a, false, 20);
        assert_eq!(pool.used(), (60, 80));
        assert!(pool.take(&e, true, 20), "trusted networks have no share limit");
        assert!(pool.is_full_for_strangers(1));
        assert!(!pool.take(&e, true, usize::MAX), "sums do not wrap");
    }

    #[test]
    fn an_amount_above_the_limit_is_admitted_only_if_nothing_else_is_in_use() {
        let pool = Pool::new(80, 4);
        let [a, b, c] = [(); 3].map(|()| AtomicUsize::new(0));
        assert!(pool.take_alone(&a, false, 50), "more than its share");
        assert!(!pool.take_alone(&a, false, 1), "nothing else fits with it");
        assert!(pool.take_alone(&b, false, 30) && !pool.take_alone(&c, false, 1));
        pool.give_back(&a, false, 50);
        pool.give_back(&b, false, 30);
        assert!(pool.take_alone(&c, false, 1_000), "more than the whole pool");
        assert!(!pool.take_alone(&a, false, 1));
        pool.give_back(&c, false, 1_000);
        assert_eq!(pool.used(), (0, 80));
    }
}
