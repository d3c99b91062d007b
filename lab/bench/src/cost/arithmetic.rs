//! Arithmetic of the scenario: differences, the hit ratio from which a fast path pays, and a neighbour's progress.

use crate::gate::median;

/// Returns the median of the differences of paired values; `None` without pairs. A pair belongs to one round, so that a
/// slow change of the machine's speed cancels out.
pub fn added(with: &[f64], without: &[f64]) -> Option<f64> {
    median(with.iter().zip(without).map(|(with, without)| with - without))
}

/// Returns the median of the differences of paired values, in percent of the second value of each pair.
pub fn added_percent(with: &[f64], without: &[f64]) -> Option<f64> {
    let pairs = with.iter().zip(without);
    median(pairs.map(|(with, without)| 100.0 * (with - without) / without))
}

/// Times of one request of a service, all in the same unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// Time of a request that the fast path answers.
    pub hit: f64,
    /// Time that the fast path adds to a request that it passes on.
    pub miss: f64,
    /// Time of a request that a socket server answers, without a fast path.
    pub socket: f64,
}

impl Times {
    /// Returns the hit ratio, from 0 to 1, above which the fast path pays: the solution h of
    /// `h * hit + (1 - h) * (socket + miss) = socket`. Returns `None` if the fast path never pays, because a hit is
    /// not faster than the socket server.
    pub fn break_even(&self) -> Option<f64> {
        let Self { hit, miss, socket } = *self;
        (hit < socket).then(|| miss.max(0.0) / (socket + miss.max(0.0) - hit))
    }

    /// Returns the number of foreign packets per hit at which the time that the hit saves is lost again, if each
    /// foreign packet takes `foreign` longer. Returns `None` if a foreign packet takes no longer.
    pub fn foreign_per_hit(&self, foreign: f64) -> Option<f64> {
        (foreign > 0.0).then(|| ((self.socket - self.hit) / foreign).max(0.0))
    }
}

/// Progress of a neighbour: work per second with load, in percent of the work per second without load.
pub fn progress_percent(loaded: f64, idle: f64) -> Option<f64> {
    (idle > 0.0).then(|| 100.0 * loaded / idle)
}

/// Returns the time in nanoseconds that a request takes from its core: the share of the core that the neighbour lost,
/// times the duration, divided by the number of answered requests.
pub fn core_ns(progress_percent: f64, duration_ns: f64, answered: u64) -> Option<f64> {
    let lost = (1.0 - progress_percent / 100.0).max(0.0);
    (answered > 0).then(|| lost * duration_ns / answered as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_those_of_the_pairs() {
        // Differences 10, 20 and 5: the median is 10. The difference of the medians would be 110 - 200 < 0.
        let (with, without) = ([110.0, 320.0, 105.0], [100.0, 300.0, 100.0]);
        assert_eq!(added(&with, &without), Some(10.0));
        // 10 %, 6.67 % and 5 %.
        let percent = added_percent(&with, &without).unwrap();
        assert!((percent - 20.0 / 3.0).abs() < 1e-12, "{percent}");
        assert_eq!(added(&[1.0, 4.0], &[0.0, 1.0]), Some(2.0));
        assert_eq!(added(&[], &[]), None);
    }

    #[test]
    fn the_break_even_makes_both_sides_equal() {
        // 100 / (2000 + 100 - 300) = 1/18.
        let times = Times {
            hit: 300.0,
            miss: 100.0,
            socket: 2_000.0,
        };
        let ratio = times.break_even().unwrap();
        assert!((ratio - 1.0 / 18.0).abs() < 1e-12, "{ratio}");
        let mixed = ratio * times.hit + (1.0 - ratio) * (times.socket + times.miss);
        assert!((mixed - times.socket).abs() < 1e-9, "{mixed}");
        // A miss that costs nothing pays from the first hit on.
        assert_eq!(Times { miss: 0.0, ..times }.break_even(), Some(0.0));
        // A measured difference below 0 is noise.
        assert_eq!(Times { miss: -5.0, ..times }.break_even(), Some(0.0));
    }

    #[test]
    fn a_hit_that_is_not_faster_never_pays() {
        let times = Times {
            hit: 2_000.0,
            miss: 1.0,
            socket: 2_000.0,
        };
        assert_eq!(times.break_even(), None);
        assert_eq!(times.foreign_per_hit(10.0), Some(0.0));
    }

    #[test]
    fn foreign_packets_use_up_what_a_hit_saves() {
        let times = Times {
            hit: 300.0,
            miss: 100.0,
            socket: 2_000.0,
        };
        assert_eq!(times.foreign_per_hit(17.0), Some(100.0));
        assert_eq!(times.foreign_per_hit(0.0), None);
    }

    #[test]
    fn a_neighbours_loss_is_divided_among_the_requests() {
        assert_eq!(progress_percent(75.0, 100.0), Some(75.0));
        assert_eq!(progress_percent(1.0, 0.0), None);
        // A quarter of a second for 100,000 requests is 2.5 us for each.
        assert_eq!(core_ns(75.0, 1e9, 100_000), Some(2_500.0));
        assert_eq!(core_ns(101.0, 1e9, 100_000), Some(0.0));
        assert_eq!(core_ns(75.0, 1e9, 0), None);
    }
}
