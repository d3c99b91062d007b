//! Client services of a peer that a replica can answer: `gateway.Gateway/CommitStatus` and `ChaincodeEvents`, and the
//! queries of the system chaincodes `qscc` and `cscc`.
//!
//! [`events`] and [`commit`] are the gateway's two methods; [`proposal`] parses a signed proposal, and [`queries`]
//! answers it.

mod commit;
mod events;
pub mod messages;
mod proposal;
mod queries;

pub(crate) use commit::commit_status;
pub(crate) use events::chaincode_events;
pub use queries::last_config;
pub(crate) use queries::{evaluate, process_proposal};

use crate::deliver::{Client, Shared};
use crate::session::{Session, server_stops};
use crate::source::CommittedSource;
use messages::SignedRequest;
use prost::Message;
use std::sync::Arc;
use tokio::sync::mpsc;
use tonic::{Status, Streaming};

/// Channel of the answers of one call to its client.
pub(crate) type Out<T> = mpsc::Sender<Result<T, Status>>;

/// Returns the only message of a call.
///
/// # Errors
/// INVALID_ARGUMENT: the call has no message. DEADLINE_EXCEEDED: no message arrives in time. UNAVAILABLE: the server is
/// stopping.
async fn only_message<T>(shared: &Shared, requests: &mut Streaming<T>) -> Result<T, Status> {
    let next = tokio::time::timeout(shared.limits.request_wait, requests.message());
    let next = tokio::select! {
        next = next => next,
        () = server_stops(shared.stopping.clone()) => return Err(Status::unavailable("the server is stopping")),
    };
    let message = next.map_err(|_| Status::deadline_exceeded("no request arrived in time"))??;
    message.ok_or_else(|| Status::invalid_argument("a request is required"))
}

/// Decodes the request that a client of the gateway has signed. `what` names the request in error messages.
///
/// # Errors
/// INVALID_ARGUMENT: the request is empty or malformed.
fn signed_message<T: Message + Default>(signed: &SignedRequest, what: &str) -> Result<T, Status> {
    if signed.request.is_empty() {
        return Err(Status::invalid_argument(format!("a {what} request is required")));
    }
    let read = T::decode(signed.request.clone());
    read.map_err(|error| Status::invalid_argument(format!("invalid {what} request: {error}")))
}

/// Finds the source of a channel, and checks that the client may access the resource.
///
/// # Errors
/// PERMISSION_DENIED: this server does not serve the channel, or the channel's policy denies access. UNAVAILABLE: the
/// channel's configuration is no longer known.
async fn admit(
    shared: &Shared,
    client: &Client,
    (channel, resource): (&str, &str),
    identity: Vec<u8>,
    signed: &SignedRequest,
) -> Result<(Arc<dyn CommittedSource>, Session), Status> {
    let source = shared.source(channel);
    let source = source
        .ok_or_else(|| Status::permission_denied(format!("the channel {channel:?} is not served here")))?;
    let signature = signed.signature.clone();
    let mut session = Session::new(source, resource, identity, signed.request.clone(), signature);
    if !session.permitted().await? {
        tracing::debug!(from = ?client.peer.address, channel, resource, "request refused by the channel's policy");
        return Err(permission_denied(source, resource));
    }
    Ok((Arc::clone(source), session))
}

/// Returns the status for a client that may not access a resource of a channel.
fn permission_denied(source: &Arc<dyn CommittedSource>, resource: &str) -> Status {
    Status::permission_denied(format!(
        "access denied: the policy for {resource} of channel {} does not permit this identity, or the certificate \
         or the signature is not valid",
        source.channel()
    ))
}
