//! Challenges, with which a client proves that it receives packets at its address: it must send one back. A challenge
//! is valid for one address, one period of time and one session. The server does not store challenges; it checks their
//! HMAC.

use lineside_fastpath::Source;
use lineside_fastpath::challenge::CHALLENGE_S;
use ring::hmac;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Maximum time in seconds for which a challenge is valid.
pub(super) const CHALLENGE_END_S: u64 = 2 * CHALLENGE_S;

/// A challenge: its number, followed by a truncated HMAC over number, address and time.
pub(super) type Challenge = [u8; 16];

/// Creates and checks challenges. Contains the secret key of their HMAC.
pub(super) struct Challenges {
    key: hmac::Key,
    next_number: AtomicU64,
}

impl std::fmt::Debug for Challenges {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Challenges").finish_non_exhaustive()
    }
}

impl Challenges {
    /// Creates a maker of challenges with a random key.
    ///
    /// # Errors
    /// Returns the system's error if it provides no random numbers.
    pub(super) fn new() -> io::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        Ok(Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
            // Numbers start with 1, because a request with a challenge of zeros asks for a new challenge.
            next_number: AtomicU64::new(1),
        })
    }

    /// Makes a challenge for the client at `from`. `now_s` is the time in seconds of any monotonic clock.
    pub(super) fn make(&self, from: Source, now_s: u64) -> Challenge {
        let number = self.next_number.fetch_add(1, Relaxed);
        self.in_period(number.to_be_bytes(), from, now_s / CHALLENGE_S)
    }

    /// Returns true if this challenge was made for `from` and is still valid.
    pub(super) fn is_good(&self, from: Source, challenge: &Challenge, now_s: u64) -> bool {
        let period = now_s / CHALLENGE_S;
        let Some(number) = challenge.first_chunk() else {
            return false;
        };
        let mut periods = [period, period.saturating_sub(1)].into_iter();
        periods.any(|period| self.in_period(*number, from, period) == *challenge)
    }

    fn in_period(&self, number: [u8; 8], from: Source, period: u64) -> Challenge {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&number);
        context.update(&from.address_bytes());
        context.update(&from.port.to_be_bytes());
        context.update(&period.to_be_bytes());
        let tag = context.sign();
        let mut challenge = [0; 16];
        challenge[..8].copy_from_slice(&number);
        challenge[8..].copy_from_slice(&tag.as_ref()[..8]);
        challenge
    }
}
