//! One call of a Deliver method: requests come, blocks and statuses go, in the order and with the checks of a peer.

use crate::filtered::without_data;
use crate::messages::{
    Delivered, Envelope, FAIL_IF_NOT_READY, HEADER_WITH_SIG_BYTES, Position, SeekInfo, SeekPosition, status,
};
use crate::request;
use crate::source::{Source, Unavailable};
use bytes::Bytes;
use lineside_fabric::access::{SignedBy, expires_s};
use lineside_grpc::{Answers, Peer};
use prost::Message;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::{Semaphore, mpsc, watch};
use tonic::{Status, Streaming};

use crate::messages::DeliverResponse;
use crate::serve::Limits;

pub(crate) type Out = mpsc::Sender<Result<DeliverResponse, Status>>;

/// Why a source that withholds its blocks gives none.
const WITHHELD: &str = "the channel's configuration is not known any more, nor who may read";

/// A method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Whole blocks, from a peer or an orderer.
    Blocks,
    Filtered,
}

impl Kind {
    /// What a channel's ACLs call it.
    fn resource(self) -> &'static str {
        match self {
            Kind::Blocks => "event/Block",
            Kind::Filtered => "event/FilteredBlock",
        }
    }
}

/// What all calls share.
pub(crate) struct Shared {
    pub sources: Vec<Arc<dyn Source>>,
    pub limits: Limits,
    /// Clients show a certificate, and requests have to name it.
    pub mutual: bool,
    /// Becomes true when the server stops.
    pub stopping: watch::Receiver<bool>,
    /// Blocks that may be read at a time.
    pub reads: Semaphore,
}

/// The client of a call.
pub(crate) struct Client {
    pub peer: Peer,
    /// Blocks on their way to it.
    pub answers: Answers,
}

/// Why a call ends without a status of Fabric's.
enum End {
    /// The client is gone.
    Gone,
    /// With a status of gRPC's.
    Failed(Status),
}

/// Answers all requests of a call.
pub(crate) async fn call(
    shared: &Shared,
    kind: Kind,
    client: &Client,
    mut requests: Streaming<Envelope>,
    out: &Out,
) {
    loop {
        let next = tokio::time::timeout(shared.limits.request_wait, requests.message());
        let next = tokio::select! {
            next = next => next,
            () = out.closed() => return,
            () = stopped(shared.stopping.clone()) => return fail(out, Status::unavailable("the server stops")).await,
        };
        let envelope = match next {
            Ok(Ok(Some(envelope))) => envelope,
            Ok(Ok(None)) => return,
            Ok(Err(status)) => return fail(out, status).await,
            Err(_) => return fail(out, Status::deadline_exceeded("no request came")).await,
        };
        let code = match answer(shared, kind, client, envelope, out).await {
            Ok(code) => code,
            Err(End::Gone) => return,
            Err(End::Failed(status)) => return fail(out, status).await,
        };
        let sent = out.send(Ok(Delivered::Status(code).into())).await;
        if code != status::SUCCESS || sent.is_err() {
            return;
        }
    }
}

async fn fail(out: &Out, status: Status) {
    let _ = out.send(Err(status)).await;
}

async fn stopped(mut stopping: watch::Receiver<bool>) {
    // A server that is gone has stopped.
    let _ = stopping.wait_for(|stopping| *stopping).await;
}

/// Runs what may block, or takes long, where it holds up nobody.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, End> {
    let failed = |_| End::Failed(Status::internal("a worker failed"));
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

/// A requester, asked again when the configuration changes or its certificate ends.
struct Session {
    source: Arc<dyn Source>,
    resource: &'static str,
    creator: Vec<u8>,
    /// What the signature is of.
    payload: Bytes,
    signature: Bytes,
    ends_s: Option<i64>,
    /// The configuration under which it was permitted.
    sequence: Option<u64>,
}

impl Session {
    async fn permitted(&mut self) -> Result<bool, End> {
        if self
            .ends_s
            .is_some_and(|ends_s| now_ns() > i128::from(ends_s) * 1_000_000_000)
        {
            return Ok(false);
        }
        // Read before it is asked: a change in between is seen the next time.
        let sequence = self.source.config_sequence();
        if self.sequence.is_some_and(|seen| seen >= sequence) {
            return Ok(true);
        }
        let (source, resource) = (self.source.clone(), self.resource);
        let (creator, payload) = (self.creator.clone(), self.payload.clone());
        let signature = self.signature.clone();
        let permitted = aside(move || {
            let by = SignedBy {
                identity: &creator,
                message: &payload,
                signature: &signature,
            };
            source.permits(resource, by)
        });
        let permitted = permitted.await?;
        self.sequence = permitted.then_some(sequence);
        Ok(permitted)
    }
}

/// Nanoseconds since 1970.
fn now_ns() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as i128)
}

/// Why a request's header is refused, if it is.
fn header_fault(shared: &Shared, peer: &Peer, request: &request::Request) -> Option<&'static str> {
    let window_ns = shared.limits.time_window.as_nanos();
    let Some(timestamp_ns) = request.timestamp_ns else {
        return Some("it has no timestamp");
    };
    if now_ns().abs_diff(timestamp_ns) > window_ns {
        return Some("its timestamp is too far from now");
    }
    if shared.mutual {
        let Some(hash) = peer.certificate_hash else {
            return Some("the connection has no client certificate");
        };
        if request.tls_cert_hash != hash {
            return Some("it does not name the connection's client certificate");
        }
    }
    None
}

/// Answers one request; the blocks are sent, and its status is returned.
async fn answer(
    shared: &Shared,
    kind: Kind,
    client: &Client,
    envelope: Envelope,
    out: &Out,
) -> Result<i32, End> {
    let peer = &client.peer;
    let refused = |code: i32, what: &str| {
        tracing::debug!(from = ?peer.address, code, "request for blocks refused: {what}");
        Ok(code)
    };
    let Some(request) = request::read(&envelope.payload) else {
        return refused(status::BAD_REQUEST, "it is malformed");
    };
    if let Some(what) = header_fault(shared, peer, &request) {
        return refused(status::BAD_REQUEST, what);
    }
    let mut sources = shared.sources.iter();
    let Some(source) = sources.find(|source| source.channel() == request.channel) else {
        return refused(status::NOT_FOUND, "no such channel");
    };
    if source.withholds() {
        return refused(status::SERVICE_UNAVAILABLE, WITHHELD);
    }
    let Ok(seek) = SeekInfo::decode(request.data.clone()) else {
        return refused(status::BAD_REQUEST, "it is malformed");
    };
    let mut session = Session {
        source: source.clone(),
        resource: kind.resource(),
        ends_s: expires_s(&request.creator),
        creator: request.creator,
        payload: envelope.payload,
        signature: envelope.signature,
        sequence: None,
    };
    if !session.permitted().await? {
        return refused(status::FORBIDDEN, "the channel's policy does not permit it");
    }
    let (Some(start), Some(stop)) = (&seek.start, &seek.stop) else {
        return refused(status::BAD_REQUEST, "it has no start or no stop");
    };
    let mut heights = source.heights();
    let Some((first, last)) = range(start, stop, *heights.borrow_and_update()) else {
        return refused(status::NOT_FOUND, "it starts beyond the next block");
    };
    if last < first {
        return refused(status::BAD_REQUEST, "it stops before it starts");
    }
    for number in first..=last {
        if seek.behavior == FAIL_IF_NOT_READY && number >= *heights.borrow() {
            return refused(status::NOT_FOUND, "the block is not there yet");
        }
        tokio::select! {
            ready = heights.wait_for(|height| *height > number || source.withholds()) => if ready.is_err() {
                return Ok(status::SERVICE_UNAVAILABLE);
            },
            () = out.closed() => return Err(End::Gone),
            () = stopped(shared.stopping.clone()) => return Ok(status::SERVICE_UNAVAILABLE),
        }
        if source.withholds() {
            return refused(status::SERVICE_UNAVAILABLE, WITHHELD);
        }
        let bare = seek.content_type == HEADER_WITH_SIG_BYTES;
        let block = tokio::select! {
            block = read_within(shared, client, source, (kind, number, bare)) => block?,
            () = out.closed() => return Err(End::Gone),
            () = stopped(shared.stopping.clone()) => return Ok(status::SERVICE_UNAVAILABLE),
        };
        if !session.permitted().await? {
            return refused(
                status::FORBIDDEN,
                "the channel's policy does not permit it any more",
            );
        }
        if source.withholds() {
            return refused(status::SERVICE_UNAVAILABLE, WITHHELD);
        }
        let block = block.map_err(|error| {
            tracing::warn!(number, "a block cannot be served: {error}");
            End::Failed(Status::unavailable(format!("block {number} cannot be read")))
        })?;
        out.send(Ok(block.into())).await.map_err(|_| End::Gone)?;
    }
    Ok(status::SUCCESS)
}

/// Reads a block as soon as there is room for it on its way to the client.
async fn read_within(
    shared: &Shared,
    client: &Client,
    source: &Arc<dyn Source>,
    (kind, number, bare): (Kind, u64, bool),
) -> Result<Result<Delivered, Unavailable>, End> {
    loop {
        let reading = shared.reads.acquire().await;
        let from = source.clone();
        let block = match aside(move || read(&*from, kind, number, bare)).await? {
            Ok(block) => block,
            unavailable => return Ok(unavailable),
        };
        if let Some(kept) = block.kept(&client.answers) {
            return Ok(Ok(kept));
        }
        drop((block, reading));
        client.answers.freed().await;
    }
}

fn read(source: &dyn Source, kind: Kind, number: u64, bare: bool) -> Result<Delivered, Unavailable> {
    Ok(match kind {
        Kind::Filtered => Delivered::FilteredBlock(source.filtered(number)?),
        Kind::Blocks if bare => {
            let bare =
                without_data(&source.block(number)?).map_err(|error| Unavailable(error.to_string()))?;
            Delivered::Block(bare.into())
        }
        Kind::Blocks => Delivered::Block(source.block(number)?),
    })
}

/// First and last block, when there are `height`; `None` where the first can be neither had nor waited for.
fn range(start: &SeekPosition, stop: &SeekPosition, height: u64) -> Option<(u64, u64)> {
    let newest = height.saturating_sub(1);
    let first = match start.position.as_ref()? {
        Position::Oldest(_) => 0,
        Position::Newest(_) => newest,
        Position::Specified(at) if at.number > height => return None,
        Position::Specified(at) => at.number,
        Position::NextCommit(_) => height,
    };
    let last = match &stop.position {
        Some(Position::Oldest(_)) => first,
        Some(Position::Newest(_)) if start == stop => first,
        Some(Position::Newest(_)) if newest >= first => newest,
        Some(Position::Specified(at)) => at.number,
        // To a peer the stop is block 0, which may be missed.
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
    fn positions_are_a_peers() {
        let (oldest, newest) = (Position::Oldest(Empty {}), Position::Newest(Empty {}));
        let next = Position::NextCommit(Empty {});
        let range =
            |start: &Position, stop: &Position| super::range(&start.clone().into(), &stop.clone().into(), 10);
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
        assert_eq!(super::range(&nothing, &nothing, 10), None);
        assert_eq!(
            super::range(&newest.clone().into(), &newest.into(), 0),
            Some((0, 0))
        );
    }
}
