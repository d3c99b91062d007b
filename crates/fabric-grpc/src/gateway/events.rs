//! `gateway.Gateway/ChaincodeEvents`: the events of a chaincode in valid transactions, with one response for each
//! block that has some.

use super::messages::{ChaincodeEventsRequest, ChaincodeEventsResponse, SignedRequest};
use super::{Out, admit, only_message, permission_denied, signed_message};
use crate::deliver::{Client, Shared};
use crate::filtered;
use crate::messages::{Position, SeekPosition};
use crate::session::{BLOCKS_WITHHELD, Session, run_blocking, server_stops};
use crate::source::{CommittedSource, Unavailable};
use bytes::Bytes;
use lineside_fabric::TxCode;
use lineside_fabric::block::Block;
use lineside_fabric::proto::{Arena, wire};
use std::ops::Range;
use std::sync::Arc;
use tonic::{Status, Streaming};

/// Name of the method in a channel's ACLs.
const RESOURCE: &str = "gateway/ChaincodeEvents";

/// Selection of the events that a client requests.
#[derive(Clone)]
struct EventFilter {
    chaincode: String,
    /// Id of the transaction after which events are sent. Empty once that transaction was found, or if the client names
    /// none.
    after: String,
}

/// Events of one block.
#[derive(Default)]
struct Events {
    /// Encoded events, one after the other.
    bytes: Bytes,
    places: Vec<Range<usize>>,
    /// True if events are sent from this block on: the block contains the transaction after which events are sent, or
    /// that transaction was found before, or the client names none.
    passed: bool,
}

impl Events {
    /// Returns the response for the block `number`. It has the only clones of the counted bytes.
    fn into_response(self, number: u64) -> ChaincodeEventsResponse {
        ChaincodeEventsResponse {
            events: self
                .places
                .into_iter()
                .map(|place| self.bytes.slice(place))
                .collect(),
            block_number: number,
        }
    }
}

/// Answers a call of `ChaincodeEvents`. The call continues until the client has disconnected, or is no longer permitted
/// to read.
///
/// # Errors
/// The status with which the call ends.
pub(crate) async fn chaincode_events(
    shared: &Shared,
    client: &Client,
    mut requests: Streaming<SignedRequest>,
    out: &Out<ChaincodeEventsResponse>,
) -> Result<(), Status> {
    let signed = only_message(shared, &mut requests).await?;
    let request: ChaincodeEventsRequest = signed_message(&signed, "chaincode events")?;
    let resource = (request.channel_id.as_str(), RESOURCE);
    let (source, session) = admit(shared, client, resource, request.identity, &signed).await?;
    let first = first_block(
        &*source,
        &request.after_transaction_id,
        request.start_position.as_ref(),
    )?;
    let filter = EventFilter {
        chaincode: request.chaincode_id,
        after: request.after_transaction_id,
    };
    send_from(shared, client, (&source, session), (first, filter), out).await
}

/// Sends the events of all blocks from a given block on.
async fn send_from(
    shared: &Shared,
    client: &Client,
    (source, mut session): (&Arc<dyn CommittedSource>, Session),
    (first, mut wanted): (u64, EventFilter),
    out: &Out<ChaincodeEventsResponse>,
) -> Result<(), Status> {
    let mut heights = source.heights();
    for number in first..=u64::MAX {
        tokio::select! {
            ready = heights.wait_for(|height| *height > number || source.withholds()) => {
                ready.map_err(|_| Status::unavailable("the channel is no longer served"))?;
                if source.withholds() {
                    return Err(Status::unavailable(BLOCKS_WITHHELD));
                }
            }
            () = out.closed() => return Ok(()),
            () = server_stops(shared.stopping.clone()) => return Err(Status::unavailable("the server is stopping")),
        }
        let events = tokio::select! {
            events = read_within(shared, client, source, number, &wanted) => events?,
            () = out.closed() => return Ok(()),
            () = server_stops(shared.stopping.clone()) => return Err(Status::unavailable("the server is stopping")),
        };
        if !session.permitted().await? {
            return Err(permission_denied(source, RESOURCE));
        }
        if events.passed {
            wanted.after.clear();
        }
        if events.places.is_empty() {
            continue;
        }
        if out.send(Ok(events.into_response(number))).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Returns the first block to search for events. A known transaction takes precedence over a position.
///
/// # Errors
/// INVALID_ARGUMENT: a position that the gateway does not support.
fn first_block(
    source: &dyn CommittedSource,
    after: &str,
    start: Option<&SeekPosition>,
) -> Result<u64, Status> {
    if !after.is_empty()
        && let Some(location) = source.transaction(after)?
    {
        return Ok(location.block);
    }
    match start.and_then(|start| start.position.as_ref()) {
        None | Some(Position::NextCommit(_)) => Ok(*source.heights().borrow()),
        Some(Position::Specified(at)) => Ok(at.number),
        Some(Position::Oldest(_) | Position::Newest(_)) => Err(Status::invalid_argument(
            "invalid start position: chaincode events start at a block's number or at the next commit",
        )),
    }
}

/// Reads the events of a block as soon as the limit on bytes in transit to clients admits them.
async fn read_within(
    shared: &Shared,
    client: &Client,
    source: &Arc<dyn CommittedSource>,
    number: u64,
    filter: &EventFilter,
) -> Result<Events, Status> {
    loop {
        let reading = shared.reads.acquire().await;
        let (from, filter) = (Arc::clone(source), filter.clone());
        let read = run_blocking(move || read(&*from, number, &filter)).await?;
        let mut events = read.map_err(|error| {
            tracing::warn!(
                number,
                "the events of a block cannot be read from the ledger: {error}; the stream of the client that \
                 requested them ends"
            );
            Status::unavailable(format!("block {number} cannot be read; see the server's log"))
        })?;
        if events.places.is_empty() {
            return Ok(events);
        }
        if let Some(counted) = client.answers.count_until_encoded(&events.bytes) {
            events.bytes = counted;
            return Ok(events);
        }
        drop((events, reading));
        client.answers.freed().await;
    }
}

/// Reads the events of a block.
fn read(source: &dyn CommittedSource, number: u64, wanted: &EventFilter) -> Result<Events, Unavailable> {
    let bytes = source.block(number)?;
    let arena = Arena::new();
    let block = Block::read(&bytes, &arena).map_err(|error| Unavailable(error.to_string()))?;
    Ok(events_of(&block, wanted))
}

fn events_of(block: &Block<'_>, filter: &EventFilter) -> Events {
    let arena = Arena::new();
    let (codes, mut out) = (block.filter(), Vec::new());
    let mut events = Events {
        passed: filter.after.is_empty(),
        ..Events::default()
    };
    for (index, envelope) in block.transactions.iter().enumerate() {
        let is_valid = codes.get(index) == Some(&(TxCode::Valid as u8));
        let Some((tx_id, of_transaction)) = filtered::chaincode_events(envelope, is_valid, &arena) else {
            continue;
        };
        for event in of_transaction {
            if !events.passed || event.chaincode_id != filter.chaincode {
                events.passed |= event.tx_id == filter.after;
                continue;
            }
            let start = out.len();
            wire::put_bytes(&mut out, 1, event.chaincode_id.as_bytes());
            wire::put_bytes(&mut out, 2, event.tx_id.as_bytes());
            wire::put_bytes(&mut out, 3, event.event_name.as_bytes());
            if !event.payload.is_empty() {
                wire::put_bytes(&mut out, 4, event.payload);
            }
            events.places.push(start..out.len());
        }
        events.passed |= tx_id == filter.after;
    }
    events.bytes = out.into();
    events
}
