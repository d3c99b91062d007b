//! Rate of one client's requests.

/// Token bucket without a clock of its own (the generic cell rate algorithm): the time at which the bucket would be
/// full again says how full it is. Times are nanoseconds since the start of the server.
#[derive(Debug)]
pub(crate) struct Rate {
    per_request: u64,
    burst: u64,
    full_at: u64,
}

impl Rate {
    pub fn new(requests_per_second: u32, burst: u32) -> Self {
        let per_request = 1_000_000_000 / u64::from(requests_per_second.max(1));
        Self {
            per_request,
            burst: per_request * u64::from(burst.max(1)),
            full_at: 0,
        }
    }

    /// Time from which a request may be answered; `None`: now.
    pub fn wait(&self, now: u64) -> Option<u64> {
        let from = (self.full_at + self.per_request).saturating_sub(self.burst);
        (from > now).then_some(from)
    }

    /// Takes the tokens of this number of requests, which may be more than there are: later ones wait for them.
    pub fn charge(&mut self, now: u64, requests: u32) {
        self.full_at = self.full_at.max(now) + self.per_request * u64::from(requests);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let mut rate = Rate::new(10, 5);
        let start = 7_000_000_000;
        for _ in 0..5 {
            assert_eq!(rate.wait(start), None);
            rate.charge(start, 1);
        }
        let mut now = rate.wait(start).expect("the burst is over");
        assert_eq!(now, start + 100_000_000);
        for _ in 0..20 {
            assert_eq!(rate.wait(now), None);
            rate.charge(now, 1);
            assert_eq!(rate.wait(now), Some(now + 100_000_000));
            now += 100_000_000;
        }
        rate.charge(now, 30);
        assert_eq!(rate.wait(now), Some(now + 3_000_000_000));
        assert_eq!(rate.wait(now + 60_000_000_000), None);
    }
}
