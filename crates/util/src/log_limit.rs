//! Limit for log lines about events that a client can cause at any rate.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Admits one log line in each interval, and counts the lines that were left out.
#[derive(Debug)]
pub struct LogLimit {
    interval: Duration,
    /// Time of the last admitted line, and number of lines that were left out since then.
    state: Mutex<(Option<Instant>, u64)>,
}

impl LogLimit {
    /// Returns a limit of one line in each `interval`.
    pub const fn new(interval: Duration) -> Self {
        Self {
            interval,
            state: Mutex::new((None, 0)),
        }
    }

    /// Returns the number of lines that were left out since the last one, if a line may be written now. Otherwise
    /// counts the line as left out.
    pub fn admit(&self) -> Option<u64> {
        self.admit_at(Instant::now())
    }

    fn admit_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, left_out) = &mut *state;
        if last.is_some_and(|last| now.saturating_duration_since(last) < self.interval) {
            *left_out += 1;
            return None;
        }
        *last = Some(now);
        Some(std::mem::take(left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_each_interval_is_admitted_and_the_others_are_counted() {
        let limit = LogLimit::new(Duration::from_secs(10));
        let began = Instant::now();
        let at = |seconds| limit.admit_at(began + Duration::from_secs(seconds));
        assert_eq!(at(0), Some(0));
        assert_eq!((at(1), at(9)), (None, None));
        assert_eq!(at(10), Some(2));
        assert_eq!(at(19), None);
        assert_eq!(at(40), Some(1));
        assert_eq!(at(60), Some(0));
    }
}
