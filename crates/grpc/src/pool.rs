//! One resource that all clients share, such as calls: a limit for all, for strangers together, and for one source.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Divisor of a resource: one part of this many is for trusted sources only.
const RESERVED_FOR_TRUSTED: usize = 8;

/// Amounts of one resource that are taken, and their limits.
#[derive(Debug)]
pub(crate) struct Pool {
    limit: usize,
    strangers_max: usize,
    of_source_max: usize,
    used: AtomicUsize,
    used_by_strangers: AtomicUsize,
}

impl Pool {
    /// Returns a pool of `limit`. One stranger may take one in `sources` of it.
    pub fn new(limit: usize, sources: usize) -> Self {
        Self {
            limit,
            strangers_max: limit - limit / RESERVED_FOR_TRUSTED,
            of_source_max: limit.div_ceil(sources),
            used: AtomicUsize::new(0),
            used_by_strangers: AtomicUsize::new(0),
        }
    }

    /// Takes an amount for a source that has taken `of_source` so far. Returns false, and takes nothing, where a limit
    /// would be passed.
    pub fn take(&self, of_source: &AtomicUsize, is_trusted: bool, amount: usize) -> bool {
        if !add(&self.used, amount, self.limit) {
            return false;
        }
        let source_max = if is_trusted {
            self.limit
        } else {
            self.of_source_max
        };
        if !add(of_source, amount, source_max) {
            self.used.fetch_sub(amount, Ordering::AcqRel);
            return false;
        }
        if !is_trusted && !add(&self.used_by_strangers, amount, self.strangers_max) {
            self.used.fetch_sub(amount, Ordering::AcqRel);
            of_source.fetch_sub(amount, Ordering::AcqRel);
            return false;
        }
        true
    }

    /// Takes an amount as [`Pool::take`] does, or where the source has taken nothing and the whole has room, or where
    /// nothing at all is taken: so one large amount passes after the other.
    pub fn take_alone(&self, of_source: &AtomicUsize, is_trusted: bool, amount: usize) -> bool {
        if self.take(of_source, is_trusted, amount) {
            return true;
        }
        let used = self.used.load(Ordering::Acquire);
        let is_alone = of_source.load(Ordering::Acquire) == 0
            && used.checked_add(amount).is_some_and(|sum| sum <= self.limit);
        if is_alone || used == 0 {
            self.take_beyond(of_source, is_trusted, amount);
            return true;
        }
        false
    }

    /// Takes an amount, even beyond the limits.
    pub fn take_beyond(&self, of_source: &AtomicUsize, is_trusted: bool, amount: usize) {
        self.used.fetch_add(amount, Ordering::AcqRel);
        of_source.fetch_add(amount, Ordering::AcqRel);
        if !is_trusted {
            self.used_by_strangers.fetch_add(amount, Ordering::AcqRel);
        }
    }

    /// Gives back an amount that the source had taken.
    pub fn give_back(&self, of_source: &AtomicUsize, is_trusted: bool, amount: usize) {
        self.used.fetch_sub(amount, Ordering::AcqRel);
        of_source.fetch_sub(amount, Ordering::AcqRel);
        if !is_trusted {
            self.used_by_strangers.fetch_sub(amount, Ordering::AcqRel);
        }
    }

    /// True if a stranger with this amount has reached the limit of one source.
    pub fn source_is_full(&self, of_source: &AtomicUsize) -> bool {
        of_source.load(Ordering::Acquire) >= self.of_source_max
    }

    /// True if a stranger who has taken nothing cannot take this amount.
    pub fn is_full_for_strangers(&self, amount: usize) -> bool {
        let strangers = self.used_by_strangers.load(Ordering::Acquire);
        strangers + amount > self.strangers_max || self.used.load(Ordering::Acquire) + amount > self.limit
    }

    /// True if at least four fifths are taken of the whole, or of the part that strangers may take.
    pub fn is_nearly_full(&self) -> bool {
        let is_near = |used: &AtomicUsize, limit: usize| used.load(Ordering::Acquire) >= limit - limit / 5;
        is_near(&self.used, self.limit) || is_near(&self.used_by_strangers, self.strangers_max)
    }

    /// Returns the amount that is taken, and the limit.
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
    fn a_stranger_gets_his_share_strangers_theirs_and_the_trusted_all() {
        let pool = Pool::new(80, 4);
        let [a, b, c, d, e] = [(); 5].map(|()| AtomicUsize::new(0));
        for source in [&a, &b, &c] {
            assert!(pool.take(source, false, 20));
            assert!(!pool.take(source, false, 1) && pool.source_is_full(source));
        }
        assert!(!pool.is_full_for_strangers(10) && pool.is_full_for_strangers(11));
        assert!(pool.take(&d, false, 10), "70 of 80 are for strangers");
        assert!(!pool.take(&d, false, 1) && pool.is_nearly_full());
        assert!(pool.take(&e, true, 10) && !pool.take(&e, true, 1));
        assert_eq!(pool.used(), (80, 80));
        pool.give_back(&a, false, 20);
        assert_eq!(pool.used(), (60, 80));
        assert!(pool.take(&e, true, 20), "no share binds the trusted");
        assert!(pool.is_full_for_strangers(1));
        assert!(!pool.take(&e, true, usize::MAX), "sums do not wrap");
    }

    #[test]
    fn one_large_amount_passes_alone() {
        let pool = Pool::new(80, 4);
        let [a, b, c] = [(); 3].map(|()| AtomicUsize::new(0));
        assert!(pool.take_alone(&a, false, 50), "more than its share");
        assert!(!pool.take_alone(&a, false, 1), "but nothing else with it");
        assert!(pool.take_alone(&b, false, 30) && !pool.take_alone(&c, false, 1));
        pool.give_back(&a, false, 50);
        pool.give_back(&b, false, 30);
        assert!(pool.take_alone(&c, false, 1_000), "more than all");
        assert!(!pool.take_alone(&a, false, 1));
        pool.give_back(&c, false, 1_000);
        assert_eq!(pool.used(), (0, 80));
    }
}
