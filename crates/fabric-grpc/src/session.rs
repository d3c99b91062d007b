//! Session of a client. The client's permission is checked again when the channel's configuration changes, and ends
//! when the client's certificate expires.

use crate::source::CommittedSource;
use bytes::Bytes;
use lineside_fabric::access::{SignedBy, expires_s};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::watch;
use tonic::Status;

/// Message to the clients of a source that withholds its blocks.
pub(crate) const BLOCKS_WITHHELD: &str =
    "the channel's configuration is not known any more, so no client may read; use a peer";

/// Signed request of a client for a resource of a channel.
pub(crate) struct Session {
    source: Arc<dyn CommittedSource>,
    /// Name of the resource in the channel's ACLs.
    resource: String,
    creator: Vec<u8>,
    /// Bytes that the client signed.
    signed: Bytes,
    signature: Bytes,
    ends_s: Option<i64>,
    /// Sequence number of the configuration under which the session was permitted last.
    sequence: Option<u64>,
}

impl Session {
    /// Creates the session of a request for `resource`. The client `creator` has signed the bytes `signed`.
    pub fn new(
        source: &Arc<dyn CommittedSource>,
        resource: &str,
        creator: Vec<u8>,
        signed: Bytes,
        signature: Bytes,
    ) -> Self {
        Self {
            source: Arc::clone(source),
            resource: resource.to_owned(),
            ends_s: expires_s(&creator),
            creator,
            signed,
            signature,
            sequence: None,
        }
    }

    /// Returns true if the client may access the resource now: its certificate has not expired, and the channel's
    /// policy permits it. The policy is evaluated again only after the configuration has changed.
    ///
    /// # Errors
    /// UNAVAILABLE: the source withholds its blocks. INTERNAL: the verifying thread failed.
    pub async fn permitted(&mut self) -> Result<bool, Status> {
        if self
            .ends_s
            .is_some_and(|ends_s| now_ns() > i128::from(ends_s) * 1_000_000_000)
        {
            return Ok(false);
        }
        if self.source.withholds() {
            return Err(Status::unavailable(BLOCKS_WITHHELD));
        }
        // The sequence number is read before the policy is evaluated, so that the next call notices a concurrent
        // change.
        let sequence = self.source.config_sequence();
        if self.sequence.is_some_and(|seen| seen >= sequence) {
            return Ok(true);
        }
        let (source, resource) = (self.source.clone(), self.resource.clone());
        let (creator, signed) = (self.creator.clone(), self.signed.clone());
        let signature = self.signature.clone();
        let permitted = run_blocking(move || {
            let by = SignedBy {
                identity: &creator,
                message: &signed,
                signature: &signature,
            };
            source.permits(&resource, by)
        });
        let permitted = permitted.await?;
        self.sequence = permitted.then_some(sequence);
        Ok(permitted)
    }
}

/// Returns the time in nanoseconds since 1970.
pub(crate) fn now_ns() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as i128)
}

/// Runs work that may block or take long on a separate thread, so that the work delays no other call.
///
/// # Errors
/// INTERNAL: the work panicked.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Status> {
    let failed =
        |_| Status::internal("the server failed internally; report this, with the panic message in its log");
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

/// Waits until the server stops.
pub(crate) async fn server_stops(mut stopping: watch::Receiver<bool>) {
    // A closed channel means that the server has stopped.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}
