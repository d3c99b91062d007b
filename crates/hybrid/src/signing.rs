//! A member's client: who he is, and requests signed with rising counters.

use crate::codec::Malformed;
use crate::node::unix_ms;
use crate::request::{Body, DatabaseId, Head, MemberId, Nonce, Request, SIGNATURE_BYTES};
use crate::secret::SecretKey;
use crate::sign::{sign_request, transaction_id};
use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};

/// The beginning of counters made from the clock: 2025-01-01, in milliseconds since 1970.
const COUNTERS_SINCE_MS: u64 = 1_735_689_600_000;
/// Requests that a client signs in a millisecond, in the mean, without its counters overtaking the clock.
const COUNTERS_PER_MS_BITS: u32 = 8;
/// How long a request counts.
const EXPIRY_MS: u64 = 30_000;

/// A counter for a client that begins now, above those of any client of the same lane that has ended: milliseconds
/// since 2025, times 256, so that nothing has to be kept. It holds while clocks do not go back and a client signs fewer
/// than 256,000 requests a second over its life, until 48 bits are used up in 2059.
pub fn counter_now(unix_ms: u64) -> u64 {
    (unix_ms.saturating_sub(COUNTERS_SINCE_MS) << COUNTERS_PER_MS_BITS).min(Nonce::COUNTER_MAX)
}

/// Who signs.
#[derive(Clone)]
pub struct Identity {
    /// The database.
    pub database: DatabaseId,
    /// The member.
    pub member: MemberId,
    /// The number of its key.
    pub key: u16,
    /// Which of the member's lanes. Clients that write at the same time want lanes of their own.
    pub lane: u16,
    /// The key.
    pub secret: SecretKey,
}

/// Signs requests with rising counters.
pub struct Signing {
    identity: Identity,
    counter: AtomicU64,
}

impl Signing {
    /// The first request has the counter behind this one.
    pub fn new(identity: Identity, counter: u64) -> Signing {
        Signing {
            identity,
            counter: AtomicU64::new(counter),
        }
    }

    /// A signed request, which counts for 30 seconds.
    ///
    /// # Errors
    /// [`Malformed`] for what is too long, or keys that do not rise.
    pub fn sign(&self, body: Body<'_>) -> Result<Bytes, Malformed> {
        let identity = &self.identity;
        let nonce = Nonce {
            lane: identity.lane,
            counter: 1 + self.counter.fetch_add(1, Ordering::Relaxed),
        };
        let head = Head {
            database: identity.database,
            member: identity.member,
            key: identity.key,
            nonce,
            expiry_ms: unix_ms() + EXPIRY_MS,
        };
        let signed = Request { head, body }.encode()?;
        Ok(sign_request(&identity.secret, &signed).into())
    }
}

/// The name of what a signed request does, by which its outcome can be asked for.
pub fn id_of(request: &[u8]) -> [u8; 32] {
    transaction_id(request.get(SIGNATURE_BYTES..).unwrap_or_default())
}
