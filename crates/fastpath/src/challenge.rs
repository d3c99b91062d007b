//! Who shows that it gets what is sent to its address: by sending back a challenge, which is checked without anything
//! having been kept.

use crate::Source;
use sha2::{Digest, Sha256};
use std::net::IpAddr;

/// How long a challenge is good for at least, in seconds; at most twice as long.
pub const CHALLENGE_S: u64 = 30;

/// Seconds after which a session in which nothing was done may be closed where room is needed: longer than a client
/// repeats a request.
pub const UNUSED_S: u64 = 10;

/// Makes and checks challenges.
#[derive(Debug)]
pub struct Challenges {
    key: [u8; 32],
}

impl Challenges {
    /// `key` must be random, and another one after each start.
    pub const fn new(key: [u8; 32]) -> Self {
        Self { key }
    }

    /// What `from` must send back; `now_s` is of any clock that goes on.
    pub fn of(&self, from: Source, now_s: u64) -> [u8; 16] {
        self.in_period(from, now_s / CHALLENGE_S)
    }

    /// Whether `from` was sent this challenge, and not too long ago.
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
    /// Its IPv6 address, or its IPv4 one mapped into it.
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
    fn a_challenge_is_of_one_source_and_one_time() {
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
