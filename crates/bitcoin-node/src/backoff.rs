//! Growing pauses between repeated attempts, for example to reach a node.

use std::time::Duration;

/// Pauses that double from the shortest to the longest. Each pause is shortened by a random part of at most half, so
/// that clients that lost the same node at the same time do not all contact it again at the same time.
#[derive(Clone, Debug)]
pub struct Backoff {
    shortest: Duration,
    longest: Duration,
    next: Duration,
    random: u64,
}

impl Backoff {
    /// Returns pauses between `shortest` and `longest`, with random parts from the system.
    pub fn new(shortest: Duration, longest: Duration) -> Backoff {
        // If the system has no random numbers, all clients have the same pauses, which is harmless.
        let seed = getrandom::u64().unwrap_or(1);
        Backoff::seeded(shortest, longest, seed)
    }

    /// Returns pauses with random parts that are derived from `seed`.
    pub fn seeded(shortest: Duration, longest: Duration, seed: u64) -> Backoff {
        Backoff {
            shortest,
            longest,
            next: shortest,
            random: seed | 1,
        }
    }

    /// Returns the pause before the next attempt.
    pub fn pause(&mut self) -> Duration {
        let full = self.next.min(self.longest);
        self.next = full.saturating_mul(2);
        // The next pseudorandom number, by xorshift (Marsaglia, 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let part = (self.random >> 40) as f64 / (1u64 << 24) as f64;
        full.mul_f64(1.0 - part / 2.0)
    }

    /// Makes the next pause the shortest again. The caller calls this after a success.
    pub fn reset(&mut self) {
        self.next = self.shortest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_differ_by_seed() {
        let (shortest, longest) = (Duration::from_millis(100), Duration::from_secs(3));
        let pauses = |seed| {
            let mut backoff = Backoff::seeded(shortest, longest, seed);
            let pauses: Vec<Duration> = (0..20).map(|_| backoff.pause()).collect();
            backoff.reset();
            assert!(backoff.pause() <= shortest);
            pauses
        };
        let (one, other) = (pauses(1), pauses(99));
        assert_ne!(one, other);
        for (index, pause) in one.iter().enumerate() {
            let full = shortest.saturating_mul(1 << index.min(10)).min(longest);
            assert!(*pause <= full && *pause >= full / 2, "{index}: {pause:?}");
        }
        let mut huge = Backoff::seeded(Duration::MAX / 2, Duration::MAX, 1);
        assert!(huge.pause() > Duration::ZERO && huge.pause() > Duration::ZERO);
    }
}
