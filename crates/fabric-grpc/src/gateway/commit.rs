//! `gateway.Gateway/CommitStatus`: the code of a transaction, sent as soon as it is committed.

use super::messages::{CommitStatusRequest, CommitStatusResponse, SignedRequest};
use super::{Out, admit, only_message, permission_denied, signed_message};
use crate::deliver::{Client, Shared};
use crate::session::{BLOCKS_WITHHELD, server_stops};
use tonic::{Status, Streaming};

/// Name of the method in a channel's ACLs.
const RESOURCE: &str = "gateway/CommitStatus";

/// Answers a call. The call ends when the transaction is committed, or when the client has disconnected.
///
/// # Errors
/// The status with which the call ends.
pub(crate) async fn commit_status(
    shared: &Shared,
    client: &Client,
    mut requests: Streaming<SignedRequest>,
    out: &Out<CommitStatusResponse>,
) -> Result<(), Status> {
    let signed = only_message(shared, &mut requests).await?;
    let request: CommitStatusRequest = signed_message(&signed, "commit status")?;
    if request.transaction_id.is_empty() {
        return Err(Status::invalid_argument("a transaction id is required"));
    }
    let resource = (request.channel_id.as_str(), RESOURCE);
    let (source, mut session) = admit(shared, client, resource, request.identity, &signed).await?;
    let mut heights = source.heights();
    let location = loop {
        heights.mark_unchanged();
        // The lookup runs on this task and not on a blocking thread, because thousands of calls may wait for the same
        // block. The index is in memory, except for old ids of a ledger with its state on the disk.
        if let Some(location) = source.transaction(&request.transaction_id)? {
            break location;
        }
        if source.withholds() {
            return Err(Status::unavailable(BLOCKS_WITHHELD));
        }
        tokio::select! {
            changed = heights.changed() => {
                changed.map_err(|_| Status::unavailable("the channel is no longer served"))?;
            }
            () = out.closed() => return Ok(()),
            () = server_stops(shared.stopping.clone()) => return Err(Status::unavailable("the server is stopping")),
        }
    };
    // The configuration may have changed while the call waited.
    if !session.permitted().await? {
        return Err(permission_denied(&source, RESOURCE));
    }
    let response = CommitStatusResponse {
        result: location.code as i32,
        block_number: location.block,
    };
    // Sending fails only if the client has disconnected; it then needs no answer.
    let _ = out.send(Ok(response)).await;
    Ok(())
}
