//! One call of a Deliver method: receives requests, and sends blocks and statuses in the order and with the checks of
//! a peer.

use crate::filtered::without_data;
use crate::messages::{
    DeliverContent, Envelope, FAIL_IF_NOT_READY, HEADER_WITH_SIG_BYTES, Position, SeekInfo, SeekPosition,
    status,
};
use crate::request;
use crate::session::{BLOCKS_WITHHELD, Session, now_ns, run_blocking, server_stops};
use crate::source::{CommittedSource, Unavailable};
use lineside_grpc::{Answers, Gate, Peer};
use prost::Message;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc, watch};
use tonic::{Code, Status, Streaming};

use crate::messages::DeliverResponse;
use crate::serve::Limits;

pub(crate) type Out = mpsc::Sender<Result<DeliverResponse, Status>>;

/// Deliver method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Whole blocks, from a peer or an orderer.
    Blocks,
    Filtered,
}

impl Kind {
    /// Returns the name by which a channel's ACLs refer to this method.
    fn resource(self) -> &'static str {
        match self {
            Kind::Blocks => "event/Block",
            Kind::Filtered => "event/FilteredBlock",
        }
    }
}

/// State shared by all calls.
pub(crate) struct Shared {
    pub sources: Vec<Arc<dyn CommittedSource>>,
    pub limits: Limits,
    /// True if clients present a TLS certificate. Each request must then name the certificate of its connection.
    pub mutual: bool,
    /// Becomes true when the server stops.
    pub stopping: watch::Receiver<bool>,
    /// Permits for reading blocks; their number limits how many blocks are read at the same time.
    pub reads: Semaphore,
    /// Limits of the clients, with the counters of refused calls.
    pub gate: Arc<Gate>,
}

impl Shared {
    /// Returns the source of a channel, if this server serves the channel.
    pub fn source(&self, channel: &str) -> Option<&Arc<dyn CommittedSource>> {
        self.sources.iter().find(|source| source.channel() == channel)
    }
}

/// The client of a call.
pub(crate) struct Client {
    pub peer: Peer,
    /// Counter of the blocks that are in transit to the client.
    pub answers: Answers,
}

/// Reason why a call ends without one of Fabric's Deliver statuses.
enum CallEnd {
    /// The client has disconnected.
    Gone,
    /// A gRPC status.
    Failed(Status),
}

impl From<Status> for CallEnd {
    fn from(status: Status) -> Self {
        Self::Failed(status)
    }
}

/// Answers all requests of a call.
///
/// # Errors
/// The gRPC status with which the call ends. Fabric's own statuses are answers, not errors.
pub(crate) async fn call(
    shared: &Shared,
    kind: Kind,
    client: &Client,
    mut requests: Streaming<Envelope>,
    out: &Out,
) -> Result<(), Status> {
    loop {
        let next = tokio::time::timeout(shared.limits.request_wait, requests.message());
        let next = tokio::select! {
            next = next => next,
            () = out.closed() => return Ok(()),
            () = server_stops(shared.stopping.clone()) => {
                return Err(Status::unavailable("the server is stopping"));
            }
        };
        let envelope = match next {
            Ok(Ok(Some(envelope))) => envelope,
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(status)) => return Err(status),
            Err(_) => return Err(Status::deadline_exceeded("no request arrived in time")),
        };
        let code = match answer(shared, kind, client, envelope, out).await {
            Ok(code) => code,
            Err(CallEnd::Gone) => return Ok(()),
            Err(CallEnd::Failed(status)) => return Err(status),
        };
        shared.gate.refused_calls.count(grpc_code(code));
        let sent = out.send(Ok(DeliverContent::Status(code).into())).await;
        if code != status::SUCCESS || sent.is_err() {
            return Ok(());
        }
    }
}

/// Returns the gRPC code that has the meaning of one of Fabric's statuses.
fn grpc_code(code: i32) -> Code {
    match code {
        status::SUCCESS => Code::Ok,
        status::BAD_REQUEST => Code::InvalidArgument,
        status::FORBIDDEN => Code::PermissionDenied,
        status::NOT_FOUND => Code::NotFound,
        status::INTERNAL_SERVER_ERROR => Code::Internal,
        status::SERVICE_UNAVAILABLE => Code::Unavailable,
        _ => Code::Unknown,
    }
}

/// Returns the reason why a request's header is refused; `None` if the header is accepted.
fn header_fault(shared: &Shared, peer: &Peer, request: &request::Request) -> Option<&'static str> {
    let window_ns = shared.limits.time_window.as_nanos();
    let Some(timestamp_ns) = request.timestamp_ns else {
        return Some("the request has no timestamp");
    };
    if now_ns().abs_diff(timestamp_ns) > window_ns {
        return Some("the request's timestamp differs too much from this machine's clock");
    }
    if shared.mutual {
        let Some(hash) = peer.certificate_hash else {
            return Some("the connection has no client certificate");
        };
        if request.tls_cert_hash != hash {
            return Some("the request does not name the connection's client certificate");
        }
    }
    None
}

/// Returns the status with which a request is refused because its client may not read blocks now, and the reason;
/// `None` if the client may read.
async fn refusal(
    session: &mut Session,
    source: &Arc<dyn CommittedSource>,
) -> Result<Option<(i32, &'static str)>, CallEnd> {
    match session.permitted().await {
        Ok(true) => Ok(None),
        Ok(false) => Ok(Some((
            status::FORBIDDEN,
            "the channel's policy does not permit this client to read",
        ))),
        Err(_) if source.withholds() => Ok(Some((status::SERVICE_UNAVAILABLE, BLOCKS_WITHHELD))),
        Err(failed) => Err(failed.into()),
    }
}

/// Answers one request: sends the blocks, and returns the status.
async fn answer(
    shared: &Shared,
    kind: Kind,
    client: &Client,
    envelope: Envelope,
    out: &Out,
) -> Result<i32, CallEnd> {
    let peer = &client.peer;
    let refused = |code: i32, what: &str| {
        tracing::debug!(from = ?peer.address, code, "request for blocks refused: {what}");
        Ok(code)
    };
    let Some(request) = request::read(&envelope.payload) else {
        return refused(status::BAD_REQUEST, "the request is malformed");
    };
    if let Some(what) = header_fault(shared, peer, &request) {
        return refused(status::BAD_REQUEST, what);
    }
    let Some(source) = shared.source(&request.channel) else {
        return refused(status::NOT_FOUND, "this server does not serve the channel");
    };
    let Ok(seek) = SeekInfo::decode(request.data.clone()) else {
        return refused(status::BAD_REQUEST, "the request is malformed");
    };
    let mut session = Session::new(
        source,
        kind.resource(),
        request.creator,
        envelope.payload,
        envelope.signature,
    );
    if let Some((code, what)) = refusal(&mut session, source).await? {
        return refused(code, what);
    }
    let (Some(start), Some(stop)) = (&seek.start, &seek.stop) else {
        return refused(status::BAD_REQUEST, "the request has no start or no stop");
    };
    let mut heights = source.heights();
    let available = source.first()..*heights.borrow_and_update();
    let Some((first, last)) = range(start, stop, available) else {
        return refused(
            status::NOT_FOUND,
            "the request starts after the next block, or before the first available block",
        );
    };
    if last < first {
        return refused(status::BAD_REQUEST, "the request stops before it starts");
    }
    for number in first..=last {
        if seek.behavior == FAIL_IF_NOT_READY && number >= *heights.borrow() {
            return refused(status::NOT_FOUND, "the block does not exist yet");
        }
        tokio::select! {
            ready = heights.wait_for(|height| *height > number || source.withholds()) => if ready.is_err() {
                return Ok(status::SERVICE_UNAVAILABLE);
            },
            () = out.closed() => return Err(CallEnd::Gone),
            () = server_stops(shared.stopping.clone()) => return Ok(status::SERVICE_UNAVAILABLE),
        }
        if source.withholds() {
            return refused(status::SERVICE_UNAVAILABLE, BLOCKS_WITHHELD);
        }
        let bare = seek.content_type == HEADER_WITH_SIG_BYTES;
        let block = tokio::select! {
            block = read_within(shared, client, source, (kind, number, bare)) => block?,
            () = out.closed() => return Err(CallEnd::Gone),
            () = server_stops(shared.stopping.clone()) => return Ok(status::SERVICE_UNAVAILABLE),
        };
        if let Some((code, what)) = refusal(&mut session, source).await? {
            return refused(code, what);
        }
        let block = block.map_err(|error| {
            tracing::warn!(
                number,
                "a block cannot be read from the ledger: {error}; the stream of the client that requested it ends"
            );
            CallEnd::Failed(Status::unavailable(format!(
                "block {number} cannot be read; see the server's log"
            )))
        })?;
        out.send(Ok(block.into())).await.map_err(|_| CallEnd::Gone)?;
    }
    Ok(status::SUCCESS)
}

/// Reads a block as soon as the limit on bytes in transit to clients admits it.
async fn read_within(
    shared: &Shared,
    client: &Client,
    source: &Arc<dyn CommittedSource>,
    (kind, number, bare): (Kind, u64, bool),
) -> Result<Result<DeliverContent, Unavailable>, CallEnd> {
    loop {
        let reading = shared.reads.acquire().await;
        let from = source.clone();
        let block = match run_blocking(move || read(&*from, kind, number, bare)).await? {
            Ok(block) => block,
            unavailable => return Ok(unavailable),
        };
        if let Some(counted) = block.count_in_transit(&client.answers) {
            return Ok(Ok(counted));
        }
        drop((block, reading));
        client.answers.freed().await;
    }
}

fn read(
    source: &dyn CommittedSource,
    kind: Kind,
    number: u64,
    bare: bool,
) -> Result<DeliverContent, Unavailable> {
    Ok(match kind {
        Kind::Filtered => DeliverContent::FilteredBlock(source.filtered(number)?),
        Kind::Blocks if bare => {
            let bare =
                without_data(&source.block(number)?).map_err(|error| Unavailable(error.to_string()))?;
            DeliverContent::Block(bare.into())
        }
        Kind::Blocks => DeliverContent::Block(source.block(number)?),
    })
}

/// Returns the numbers of the first and the last block to send. `available` is the range of the available blocks.
/// `None` if the first block is neither available nor the next block, for which the call could wait.
fn range(start: &SeekPosition, stop: &SeekPosition, available: Range<u64>) -> Option<(u64, u64)> {
    let (earliest, height) = (available.start, available.end);
    let newest = match height.saturating_sub(1) {
        // Directly after a peer was joined from a snapshot, it has no block, so the newest block is the next one.
        last if last < earliest => height,
        last => last,
    };
    let first = match start.position.as_ref()? {
        Position::Oldest(_) => 0,
        Position::Newest(_) => newest,
        Position::Specified(at) if at.number > height => return None,
        Position::Specified(at) => at.number,
        Position::NextCommit(_) => height,
    };
    if first < earliest {
        return None;
    }
    let last = match &stop.position {
        Some(Position::Oldest(_)) => first,
        Some(Position::Newest(_)) if start == stop => first,
        Some(Position::Newest(_)) if newest >= first => newest,
        Some(Position::Specified(at)) => at.number,
        // A peer treats a stop that is missing or is `NextCommit` as block 0, which may be before the first available
        // block.
        Some(Position::NextCommit(_)) | None if first == 0 => 0,
        Some(Position::Newest(_) | Position::NextCommit(_)) | None => u64::MAX,
    };
    Some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::Empty;

    #[test]
    fn seek_positions_mean_the_same_as_at_a_peer() {
        let (oldest, newest) = (Position::Oldest(Empty {}), Position::Newest(Empty {}));
        let next = Position::NextCommit(Empty {});
        let range = |start: &Position, stop: &Position| {
            super::range(&start.clone().into(), &stop.clone().into(), 0..10)
        };
        let at = Position::block;
        assert_eq!(range(&oldest, &newest), Some((0, 9)));
        assert_eq!(range(&oldest, &oldest), Some((0, 0)));
        assert_eq!(range(&newest, &newest), Some((9, 9)));
        assert_eq!(range(&newest, &oldest), Some((9, 9)));
        assert_eq!(range(&next, &at(u64::MAX)), Some((10, u64::MAX)));
        assert_eq!(range(&at(3), &at(5)), Some((3, 5)));
        assert_eq!(range(&at(10), &at(12)), Some((10, 12)));
        assert_eq!(range(&at(11), &at(12)), None);
        assert_eq!(range(&at(u64::MAX), &at(u64::MAX)), None);
        assert_eq!(range(&at(5), &at(3)), Some((5, 3)));
        assert_eq!(range(&at(5), &next), Some((5, u64::MAX)));
        let nothing = SeekPosition::default();
        assert_eq!(super::range(&nothing, &nothing, 0..10), None);
        assert_eq!(
            super::range(&newest.clone().into(), &newest.clone().into(), 0..0),
            Some((0, 0))
        );
        // Blocks 0 to 6 are in a snapshot, as at a peer that was joined from it.
        let joined = |start: &Position, stop: &Position| {
            super::range(&start.clone().into(), &stop.clone().into(), 7..10)
        };
        assert_eq!(joined(&oldest, &newest), None);
        assert_eq!(joined(&newest, &at(9)), Some((9, 9)));
        assert_eq!(joined(&at(6), &at(8)), None);
        assert_eq!(joined(&at(7), &at(8)), Some((7, 8)));
        let fresh = super::range(&newest.into(), &at(u64::MAX).into(), 7..7);
        assert_eq!(fresh, Some((7, u64::MAX)));
    }
}
