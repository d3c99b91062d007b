//! Stateless challenges. A client proves that it receives packets at its source address by sending back a challenge,
//! which the server recomputes instead of storing it.

use crate::Source;
use sha2::{Digest, Sha256};
use std::net::IpAddr;

/// Minimum validity of a challenge, in seconds. A challenge is valid for at most twice this time.
pub const CHALLENGE_S: u64 = 30;

/// Time in seconds after which an unused session may be closed to make room for a new one. Clients repeat a request for
/// a shorter time than this.
pub const UNUSED_S: u64 = 10;

/// Makes and checks challenges. Holds the secret key.
#[derive(Debug)]
pub struct Challenges {
    key: [u8; 32],
}

impl Challenges {
    /// Creates a challenge generator. `key` must be random and different after each start.
    pub const fn new(key: [u8; 32]) -> Self {
        Self { key }
    }

    /// Returns the challenge for `from`. `now_s` is the time in seconds of any monotonic clock; later calls must use
    /// the same clock.
    pub fn of(&self, from: Source, now_s: u64) -> [u8; 16] {
        self.in_period(from, now_s / CHALLENGE_S)
    }

    /// Returns true if `challenge` was issued to `from` in the current or the previous period of [`CHALLENGE_S`]
    /// seconds.
    pub fn answers(&self, from: Source, challenge: &[u8; 16], now_s: u64) -> bool {
        let period = now_s / CHALLENGE_S;
        let mut periods = [period, period.saturating_sub(1)].into_iter();
        periods.any(|period| self.in_period(from, period) == *challenge)
    }

    fn in_period(&self, from: Source, period: u64) -> [u8; 16] {
        let hasher = Sha256::new()
            .chain_update(self.key)
            .chain_update(from.address_bytes())
            .chain_update(from.port.to_be_bytes());
        let hash: [u8; 32] = hasher.chain_update(period.to_be_bytes()).finalize().into();
        let mut challenge = [0; 16];
        challenge.copy_from_slice(&hash[..16]);
        challenge
    }
}

impl Source {
    /// Returns the IPv6 address, or the IPv4 address mapped into IPv6.
    pub const fn address_bytes(&self) -> [u8; 16] {
        match self.address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_valid_for_one_source_and_a_limited_time() {
        let source = |last, port| Source {
            address: [10, 0, 0, last].into(),
            port,
        };
        let challenges = Challenges::new([7; 32]);
        let challenge = challenges.of(source(1, 1), 100);
        for (from, now_s, good) in [
            (source(1, 1), 100, true),
            (source(1, 1), 149, true),
            (source(1, 1), 150, false),
            (source(1, 1), 89, false),
            (source(1, 2), 100, false),
            (source(2, 1), 100, false),
        ] {
            assert_eq!(
                challenges.answers(from, &challenge, now_s),
                good,
                "{from:?} {now_s}"
            );
        }
        assert!(!Challenges::new([8; 32]).answers(source(1, 1), &challenge, 100));
    }
}
