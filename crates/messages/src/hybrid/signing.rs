//! Client side of a member: the member's identity, and signing of requests with rising counters.

use super::codec::Malformed;
use super::request::{Body, DatabaseId, Head, MemberId, Nonce, Request, SIGNATURE_BYTES};
use super::secret::SecretKey;
use super::sign::{sign_request, transaction_id};
use bytes::Bytes;
use lineside_wire::RequestHead;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use zerocopy::FromBytes;

/// Time at which counters that are made from the clock begin: 2025-01-01, in milliseconds since 1970.
const COUNTERS_SINCE_MS: u64 = 1_735_689_600_000;
/// Power of two by which milliseconds are multiplied to give a counter. On average, a client can sign this power of two
/// of requests in a millisecond (256) before its counters are ahead of the clock.
const COUNTERS_PER_MS_BITS: u32 = 8;
/// Time for which a request is valid, in milliseconds.
const EXPIRY_MS: u64 = 30_000;

/// Returns a first counter for a client that starts now: milliseconds since 2025, times 256. It is above the counters
/// of earlier clients of the same lane, so no client has to store its counter. This holds while clocks do not go back
/// and a client signs fewer than 256,000 requests per second on average, until the 48 bits are used up in 2059.
pub fn counter_now(unix_ms: u64) -> u64 {
    (unix_ms.saturating_sub(COUNTERS_SINCE_MS) << COUNTERS_PER_MS_BITS).min(Nonce::COUNTER_MAX)
}

/// Reads the machine's clock, in milliseconds since 1970.
pub fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

/// Identity of a client that signs requests.
#[derive(Clone)]
pub struct Identity {
    /// Id of the database.
    pub database: DatabaseId,
    /// Number of the member.
    pub member: MemberId,
    /// Number of the member's key.
    pub key: u16,
    /// Lane of the member. Clients that write concurrently need separate lanes.
    pub lane: u16,
    /// Secret key.
    pub secret: SecretKey,
}

/// Signs requests with rising counters.
pub struct Signing {
    identity: Identity,
    counter: AtomicU64,
}

impl Signing {
    /// Creates a signer whose first request has the counter `counter + 1`.
    pub fn new(identity: Identity, counter: u64) -> Signing {
        Signing {
            identity,
            counter: AtomicU64::new(counter),
        }
    }

    /// Signs a request. It is valid for 30 seconds.
    ///
    /// # Errors
    /// [`Malformed`] if fields are too long or keys are not in ascending order.
    pub fn sign(&self, body: Body<'_>) -> Result<Bytes, Malformed> {
        self.sign_until(body, unix_ms() + EXPIRY_MS)
    }

    /// Signs a request that is valid until `expiry_ms`, in milliseconds since 1970.
    ///
    /// # Errors
    /// See [`Signing::sign`].
    pub fn sign_until(&self, body: Body<'_>, expiry_ms: u64) -> Result<Bytes, Malformed> {
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
            expiry_ms,
        };
        let signed = Request { head, body }.encode()?;
        Ok(sign_request(&identity.secret, &signed).into())
    }
}

/// Returns the id of a signed request, with which its outcome can be requested.
pub fn id_of(request: &[u8]) -> [u8; 32] {
    transaction_id(request.get(SIGNATURE_BYTES..).unwrap_or_default())
}

/// Returns the time at which a signed request expires, in milliseconds since 1970; 0 if the bytes are not a request.
pub fn expiry_of(request: &[u8]) -> u64 {
    let signed = request.get(SIGNATURE_BYTES..).unwrap_or_default();
    RequestHead::ref_from_prefix(signed).map_or(0, |(head, _)| head.expiry_ms.get())
}
