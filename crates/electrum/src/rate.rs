//! Limits on the rate of requests: of one Electrum connection, and of each network that sends HTTP requests.

use lineside_util::network::network_of;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Number of token buckets for networks. Two networks with the same bucket share one rate. A random key selects the
/// bucket of a network, so an attacker cannot choose to share a victim's bucket.
const RATE_BUCKETS: usize = 1 << 16;

/// Token bucket without its own clock (the generic cell rate algorithm): the state is the time at which the bucket will
/// be full again. Times are nanoseconds since the start of the server.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    per_request: u64,
    burst: u64,
}

impl Bucket {
    fn new(requests_per_second: u32, burst: u32) -> Self {
        let per_request = 1_000_000_000 / u64::from(requests_per_second.max(1));
        Self {
            per_request,
            burst: per_request * u64::from(burst.max(1)),
        }
    }

    /// Returns the time from which a request may be answered; `None`: it may be answered now.
    fn wait(self, full_at: u64, now: u64) -> Option<u64> {
        let from = (full_at + self.per_request).saturating_sub(self.burst);
        (from > now).then_some(from)
    }

    /// Returns the time at which the bucket is full again after `requests` requests. Their number may exceed the number
    /// of tokens in the bucket; later requests then wait for the missing tokens.
    fn charged(self, full_at: u64, now: u64, requests: u32) -> u64 {
        full_at.max(now) + self.per_request * u64::from(requests)
    }
}

/// Rate of one connection.
#[derive(Debug)]
pub(crate) struct Rate {
    bucket: Bucket,
    full_at: u64,
}

impl Rate {
    pub fn new(requests_per_second: u32, burst: u32) -> Self {
        Self {
            bucket: Bucket::new(requests_per_second, burst),
            full_at: 0,
        }
    }

    /// Returns the time from which a request may be answered; `None`: it may be answered now.
    pub fn wait(&self, now: u64) -> Option<u64> {
        self.bucket.wait(self.full_at, now)
    }

    /// Takes one token for each of `requests` requests. Their number may exceed the number of available tokens; later
    /// requests then wait for the missing tokens.
    pub fn charge(&mut self, now: u64, requests: u32) {
        self.full_at = self.bucket.charged(self.full_at, now, requests);
    }
}

/// Rates of all networks that send HTTP requests, in a fixed amount of memory. A network's rate covers all its
/// connections.
#[derive(Debug)]
pub(crate) struct Rates {
    bucket: Bucket,
    full_at: Box<[AtomicU64]>,
    hasher: RandomState,
    start: Instant,
}

impl Rates {
    pub fn new(requests_per_second: u32, burst: u32) -> Self {
        Self {
            bucket: Bucket::new(requests_per_second, burst),
            full_at: (0..RATE_BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
            start: Instant::now(),
        }
    }

    /// Returns the nanoseconds since the start of the server.
    pub fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn full_at(&self, address: IpAddr) -> &AtomicU64 {
        &self.full_at[self.hasher.hash_one(network_of(address)) as usize % RATE_BUCKETS]
    }

    /// Takes the token of one request from `address`.
    ///
    /// # Errors
    /// The number of nanoseconds until a token is available; no token was taken.
    pub fn admit(&self, address: IpAddr, now: u64) -> Result<(), u64> {
        let take = |full_at| match self.bucket.wait(full_at, now) {
            None => Some(self.bucket.charged(full_at, now, 1)),
            Some(_) => None,
        };
        let taken = self.full_at(address).fetch_update(Relaxed, Relaxed, take);
        taken.map(drop).map_err(|full_at| {
            let from = self.bucket.wait(full_at, now).unwrap_or(now);
            from.saturating_sub(now)
        })
    }

    /// Takes further tokens for a request that was admitted.
    pub fn charge(&self, address: IpAddr, now: u64, requests: u32) {
        let take = |full_at| Some(self.bucket.charged(full_at, now, requests));
        let _ = self.full_at(address).fetch_update(Relaxed, Relaxed, take);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_network_has_its_rate() {
        let rates = Rates::new(10, 5);
        let [one, same, other] =
            ["2001:db8::1", "2001:db8::2", "10.0.0.1"].map(|text| text.parse().expect("an address"));
        let now = 7_000_000_000;
        for address in [one, same, one, same, one] {
            assert_eq!(rates.admit(address, now), Ok(()));
        }
        assert_eq!(rates.admit(same, now), Err(100_000_000));
        assert_eq!(
            rates.admit(same, now),
            Err(100_000_000),
            "a refusal costs nothing"
        );
        // With a probability of 1 in 65,536 both networks have the same bucket; the check is then impossible.
        if !std::ptr::eq(rates.full_at(one), rates.full_at(other)) {
            assert_eq!(rates.admit(other, now), Ok(()));
        }
        assert_eq!(rates.admit(one, now + 100_000_000), Ok(()));
        rates.charge(one, now + 100_000_000, 20);
        assert_eq!(rates.admit(one, now + 100_000_000), Err(2_100_000_000));
        assert_eq!(rates.admit(one, now + 60_000_000_000), Ok(()));
    }

    #[test]
    fn requests_pass_in_a_burst_and_then_at_the_rate() {
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
