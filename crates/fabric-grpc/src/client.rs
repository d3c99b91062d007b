//! Client that follows a channel: it receives blocks in order from an orderer or a peer, and reconnects after any
//! failure.

use crate::foreign::without_foreign;
pub use crate::left::LeaveReason;
use crate::left::with_remedy;
use crate::messages::{DeliverContent, DeliverResponse, Envelope, FilteredBlock};
use crate::request::{seek, sign};
use crate::signer::Signer;
use bytes::Bytes;
use lineside_fabric::block::Block;
use lineside_fabric::limits::BLOCK_BYTES_MAX;
use lineside_fabric::proto::Arena;
use lineside_grpc::{ClientTls, chain};
use prost::Message;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;
use tokio_stream::{Stream, StreamExt, once, pending};
use tonic::client::Grpc;
use tonic::codegen::http::uri::{Authority, PathAndQuery};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;

type Codec = ProstCodec<Envelope, DeliverResponse>;

/// Maximum number of bytes that an endpoint may send ahead on one stream: a few blocks of 500 transactions (2 MB each).
const STREAM_WINDOW_BYTES: u32 = 16 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 24 << 20;
const FRAME_BYTES_MAX: u32 = 256 << 10;
/// Interval of HTTP/2 pings. Fabric's servers disconnect clients that ping more than once a minute.
const PING_EVERY: Duration = Duration::from_secs(75);
const PING_WAIT: Duration = Duration::from_secs(20);
/// Maximum number of later blocks that the follower may have handed out when the caller refuses a block.
const HANDED_OUT_BLOCKS_MAX: u64 = 16;
const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// Deliver service to call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// `orderer.AtomicBroadcast/Deliver`: blocks as an orderer delivers them.
    Orderer,
    /// `protos.Deliver/Deliver`: blocks as a peer committed them.
    Peer,
    /// `protos.Deliver/DeliverFiltered`: ids, codes and events of the blocks that a peer committed.
    PeerFiltered,
}

impl Service {
    fn path(self) -> PathAndQuery {
        PathAndQuery::from_static(match self {
            Service::Orderer => "/orderer.AtomicBroadcast/Deliver",
            Service::Peer => "/protos.Deliver/Deliver",
            Service::PeerFiltered => "/protos.Deliver/DeliverFiltered",
        })
    }

    /// Returns a description of the status with which a call ended.
    fn describe_end(self, status: &Status) -> String {
        if status.code() == Code::Unimplemented {
            return format!(
                "the endpoint does not serve {}: check that the endpoint is of the kind that the options name, an \
                 orderer or a peer",
                self.path()
            );
        }
        let source = std::error::Error::source(status).map(chain);
        source.unwrap_or_else(|| status.message().to_owned())
    }
}

/// Callback that the follower calls when it leaves an endpoint, with the endpoint's name and the reason.
pub type OnEndpointLeft = Arc<dyn Fn(&str, &LeaveReason) + Send + Sync>;

/// Callback that the follower calls before it waits: with the name of the endpoint that it tries next, and the time
/// until then.
pub type OnPause = Arc<dyn Fn(&str, Duration) + Send + Sync>;

/// Callback that the follower calls with the name of an endpoint that keeps a request open: the endpoint has no next
/// block yet, and has neither refused nor ended the call.
pub type OnRequestHeld = Arc<dyn Fn(&str) + Send + Sync>;

/// Time without data after which the follower assumes that the endpoint accepted the request and waits for the next
/// block. A refusal arrives sooner.
const REQUEST_HELD_AFTER: Duration = Duration::from_secs(2);

/// Returns `text` if it is an endpoint: a host, a colon and a port.
///
/// # Errors
/// A message that describes the right form.
pub fn endpoint(text: &str) -> Result<String, String> {
    let wrong = || "an endpoint is HOST:PORT, for example orderer.example.com:7050".to_owned();
    let authority: Authority = text.parse().map_err(|_| wrong())?;
    let plain = !authority.host().is_empty() && !text.contains('@');
    match authority.port_u16() {
        Some(1..) if plain => Ok(text.to_owned()),
        _ => Err(wrong()),
    }
}

/// Options of a follower.
#[derive(Clone)]
pub struct Options {
    /// Endpoints as `HOST:PORT`, at least one. All of them must serve the same channel.
    pub endpoints: Vec<String>,
    /// TLS; `None` if the network does not use it.
    pub tls: Option<ClientTls>,
    /// Identity that signs the requests.
    pub signer: Arc<Signer>,
    /// Name of the channel.
    pub channel: String,
    /// Number of the first block.
    pub from: u64,
    /// Service to call.
    pub service: Service,
    /// If there are several endpoints, time without data after which the follower leaves an endpoint for the next one.
    pub patience: Duration,
    /// First wait after an endpoint failed. The wait doubles with each round, up to 64 times this value, until a block
    /// arrives.
    pub backoff: Duration,
    /// Callback for an endpoint that the follower leaves; `None` means that a warning is logged.
    pub on_left: Option<OnEndpointLeft>,
    /// Callback for the time until the next attempt, after [`Options::on_left`].
    pub on_pause: Option<OnPause>,
    /// Callback for an endpoint that keeps the request open because the channel has no new block.
    pub on_held: Option<OnRequestHeld>,
    /// Maximum number of bytes of blocks in transit from an endpoint; a longer block is refused.
    pub memory_bytes_max: usize,
}

impl Options {
    /// Returns options for an orderer's service, with timeouts suitable for a network.
    pub fn new(endpoints: Vec<String>, signer: Arc<Signer>, channel: &str, from: u64) -> Self {
        Self {
            endpoints,
            tls: None,
            signer,
            channel: channel.to_owned(),
            from,
            service: Service::Orderer,
            patience: Duration::from_secs(60),
            backoff: Duration::from_millis(200),
            on_left: None,
            on_pause: None,
            on_held: None,
            memory_bytes_max: BLOCK_BYTES_MAX,
        }
    }
}

/// A block as it was received. Bytes in an orderer's message that do not belong to the block are removed.
#[derive(Clone, Debug)]
pub struct ReceivedBlock {
    /// Number of the block. Each block has the number after that of the previous one.
    pub number: u64,
    /// Bytes of the block.
    pub bytes: Bytes,
}

/// Client that follows the blocks of a channel with Deliver.
pub struct Follower {
    options: Options,
    next: u64,
    endpoint: usize,
    failures: u32,
    /// Number of the last block that was refused.
    refused: Option<u64>,
    stream: Option<Streaming<DeliverResponse>>,
}

impl Follower {
    /// Creates a follower, which is not connected yet.
    pub fn new(options: Options) -> Self {
        Self {
            next: options.from,
            endpoint: 0,
            failures: 0,
            refused: None,
            stream: None,
            options,
        }
    }

    /// Returns the number of the next block.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// Returns the next block, however long it takes and however often connections fail. The future may be dropped
    /// while it waits.
    pub async fn next(&mut self) -> ReceivedBlock {
        loop {
            let left = match self.try_next().await {
                Ok(received) => {
                    self.next += 1;
                    // The caller may refuse a block again that it refused before, or one of the blocks after it. The
                    // count of failures is therefore reset only when enough later blocks have arrived.
                    if self
                        .refused
                        .is_none_or(|refused| received.number > refused + HANDED_OUT_BLOCKS_MAX)
                    {
                        self.failures = 0;
                        self.refused = None;
                    }
                    return received;
                }
                Err(left) => left,
            };
            self.leave_endpoint(&left);
            if left == LeaveReason::Silent {
                continue;
            }
            self.wait().await;
        }
    }

    /// Refuses a block that its endpoint should not have sent. The follower requests the block again from the next
    /// endpoint.
    pub async fn refuse(&mut self, number: u64, why: &str) {
        self.next = number;
        self.refused = Some(number);
        self.leave_endpoint(&LeaveReason::Refused(why.to_owned()));
        self.wait().await;
    }

    /// Waits before the next attempt.
    async fn wait(&mut self) {
        let pause = self.pause();
        if let Some(on_pause) = &self.options.on_pause {
            on_pause(self.endpoint_name(), pause);
        }
        tokio::time::sleep(pause).await;
    }

    fn endpoint_name(&self) -> &str {
        self.options
            .endpoints
            .get(self.endpoint)
            .map_or("", String::as_str)
    }

    fn leave_endpoint(&mut self, left: &LeaveReason) {
        let name = self.endpoint_name();
        match &self.options.on_left {
            Some(on_left) => on_left(name, left),
            None => tracing::warn!(endpoint = name, next = self.next, "left: {left}"),
        }
        self.stream = None;
        self.endpoint = (self.endpoint + 1) % self.options.endpoints.len().max(1);
        if *left != LeaveReason::Silent {
            self.failures = self.failures.saturating_add(1);
        }
    }

    /// Returns the pause after a failure: [`Options::backoff`] during the first round of all endpoints, and twice as
    /// long in each further round. A quarter of the pause is random, so that followers that lost the same orderer do
    /// not return at the same time.
    fn pause(&self) -> Duration {
        let rounds = self.failures.saturating_sub(1) as usize / self.options.endpoints.len().max(1);
        let pause = self.options.backoff * (1 << rounds.min(6));
        let mut random = [0];
        let _ = getrandom::fill(&mut random);
        pause * 3 / 4 + pause * u32::from(random[0]) / 1_024
    }

    async fn try_next(&mut self) -> Result<ReceivedBlock, LeaveReason> {
        let several = self.options.endpoints.len() > 1;
        let patience = if several {
            self.options.patience
        } else {
            Duration::MAX
        };
        let waited = |_| LeaveReason::Silent;
        let has_tls = self.options.tls.is_some();
        let described = |status: Status| with_remedy(self.options.service.describe_end(&status), has_tls);
        let broken = |status: Status| LeaveReason::Broken(described(status));
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let mut grpc = self.connect().await?;
                // Fabric's servers send no response header before the first block, so this call may wait as long as for
                // a block.
                let call = grpc.streaming(self.request(), self.options.service.path(), Codec::default());
                let called =
                    tokio::time::timeout(patience, notify_if_held(&self.options, self.endpoint, call));
                let called = called.await.map_err(waited)?;
                called.map_err(broken)?.into_inner()
            }
        };
        let stream = self.stream.insert(stream);
        let message = tokio::time::timeout(
            patience,
            notify_if_held(&self.options, self.endpoint, stream.message()),
        )
        .await;
        let response = message.map_err(waited)?.map_err(broken)?;
        let ended = || LeaveReason::Broken("the stream ended without a status".to_owned());
        let response = response.ok_or_else(ended)?;
        let number = self.next;
        let not_next = |what: String| LeaveReason::NotNext(what);
        let (bytes, actual_number) = match response.delivered {
            Some(DeliverContent::Block(bytes)) if self.options.service != Service::PeerFiltered => {
                let arena = Arena::new();
                let block = Block::read(&bytes, &arena).map_err(|error| not_next(error.to_string()))?;
                let actual_number = block.number;
                let is_ordered = self.options.service == Service::Orderer && actual_number == number;
                let own = is_ordered.then(|| without_foreign(&block, &bytes)).flatten();
                (own.unwrap_or(bytes), actual_number)
            }
            Some(DeliverContent::FilteredBlock(bytes)) if self.options.service == Service::PeerFiltered => {
                let actual_number = FilteredBlock::decode(bytes.clone()).map(|block| block.number);
                (bytes, actual_number.map_err(|error| not_next(error.to_string()))?)
            }
            Some(DeliverContent::Status(status)) => return Err(LeaveReason::Status(status)),
            _ => return Err(not_next("an empty response".to_owned())),
        };
        if actual_number != number {
            return Err(not_next(format!("block {actual_number}")));
        }
        Ok(ReceivedBlock { number, bytes })
    }

    /// Builds the request and signs it with the current time. The stream of requests stays open after it, as with other
    /// clients.
    fn request(&self) -> Request<impl Stream<Item = Envelope> + Send + 'static> {
        let options = &self.options;
        let hash = options.tls.as_ref().and_then(ClientTls::certificate_hash);
        let seek = seek(self.next, u64::MAX);
        let envelope = sign(&options.signer, &options.channel, &seek, hash, SystemTime::now());
        Request::new(once(envelope).chain(pending()))
    }

    async fn connect(&self) -> Result<Grpc<Channel>, LeaveReason> {
        let options = &self.options;
        let name = options.endpoints.get(self.endpoint);
        let name = name.ok_or_else(|| LeaveReason::Connect("no endpoint is configured".to_owned()))?;
        let has_tls = options.tls.is_some();
        let failed = |error: &dyn std::error::Error| LeaveReason::Connect(with_remedy(chain(error), has_tls));
        // A quarter of the memory is for the flow-control windows, and the rest for the block that is being assembled.
        let window = |bytes: u32| bytes.min(u32::try_from(options.memory_bytes_max / 4).unwrap_or(u32::MAX));
        let block_bytes_max = options.memory_bytes_max.min(BLOCK_BYTES_MAX);
        let scheme = if options.tls.is_some() { "https" } else { "http" };
        let mut endpoint = Endpoint::from_shared(format!("{scheme}://{name}"))
            .map_err(|error| failed(&error))?
            .connect_timeout(CONNECT_WAIT)
            .tcp_nodelay(true)
            .max_frame_size(FRAME_BYTES_MAX)
            .initial_stream_window_size(window(STREAM_WINDOW_BYTES))
            .initial_connection_window_size(window(CONNECTION_WINDOW_BYTES))
            .http2_keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_WAIT);
        if let Some(tls) = &options.tls {
            endpoint = endpoint
                .tls_config(tls.config())
                .map_err(|error| failed(&error))?;
        }
        let connecting = async {
            let channel = endpoint.connect().await?;
            let mut grpc = Grpc::new(channel).max_decoding_message_size(block_bytes_max + 64);
            grpc.ready().await?;
            Ok(grpc)
        };
        let connected = tokio::time::timeout(CONNECT_WAIT, connecting).await;
        let connected = connected.map_err(|_| LeaveReason::Connect("no answer within 10 s".to_owned()))?;
        connected.map_err(|error: tonic::transport::Error| failed(&error))
    }
}

/// Waits for an endpoint's data, and calls `on_held` if the endpoint keeps the request open without sending data.
async fn notify_if_held<T>(options: &Options, endpoint: usize, coming: impl Future<Output = T>) -> T {
    let mut coming = pin!(coming);
    let Some(on_held) = &options.on_held else {
        return coming.await;
    };
    match tokio::time::timeout(REQUEST_HELD_AFTER, &mut coming).await {
        Ok(output) => output,
        Err(_) => {
            on_held(options.endpoints.get(endpoint).map_or("", String::as_str));
            coming.await
        }
    }
}

/// Result of processing a block from [`follow`].
pub enum BlockVerdict {
    /// The block is accepted; the follower continues with the next block.
    Taken,
    /// The block violates the channel's rules, for this reason; the follower requests it from another endpoint.
    Refused(String),
    /// The follower stops.
    Stop,
}

/// Result of processing a block from [`follow_ahead`].
pub enum ReadAheadVerdict {
    /// The follower continues with the next block.
    On,
    /// The block with this number, which was handed out now or before, violates the channel's rules, for this reason.
    /// The follower hands out this block and the following blocks again, perhaps from another endpoint.
    Back(u64, String),
    /// The follower stops.
    Stop,
}

/// Hands out blocks like [`follow`], for a caller that begins a block before it has finished the previous one. The
/// argument `None` means that `read` was notified while no further block was available, so a block that was begun may
/// be ready to be finished.
pub async fn follow_ahead(
    options: Options,
    read: &Notify,
    mut on: impl FnMut(Option<ReceivedBlock>) -> ReadAheadVerdict,
) {
    let mut follower = Follower::new(options);
    loop {
        let next = {
            let mut coming = pin!(follower.next());
            loop {
                let received = tokio::select! {
                    biased;
                    received = &mut coming => Some(received),
                    () = read.notified() => None,
                };
                let is_next = received.is_some();
                match on(received) {
                    ReadAheadVerdict::On if !is_next => {}
                    other => break other,
                }
            }
        };
        match next {
            ReadAheadVerdict::On => {}
            ReadAheadVerdict::Back(number, why) => follower.refuse(number, &why).await,
            ReadAheadVerdict::Stop => return,
        }
    }
}

/// Hands out one block after the other until `on_block` stops it. The connection continues to receive while
/// `on_block` works, within the flow-control window, if the runtime has another thread.
pub async fn follow(options: Options, mut on_block: impl FnMut(ReceivedBlock) -> BlockVerdict) {
    let mut follower = Follower::new(options);
    loop {
        let received = follower.next().await;
        let number = received.number;
        match on_block(received) {
            BlockVerdict::Taken => {}
            BlockVerdict::Refused(why) => follower.refuse(number, &why).await,
            BlockVerdict::Stop => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::endpoint;

    #[test]
    fn an_endpoint_is_a_host_and_a_port() {
        for good in [
            "orderer.example.com:7050",
            "127.0.0.1:1",
            "[::1]:65535",
            "orderer_1:7050",
        ] {
            assert_eq!(endpoint(good), Ok(good.to_owned()));
        }
        let bad = [
            "",
            ":7050",
            "orderer",
            "orderer:",
            "orderer:0",
            "orderer:65536",
            "bad host:1",
            "a@b:1",
            "a:1/x",
        ];
        for bad in bad {
            assert!(endpoint(bad).is_err(), "{bad}");
        }
    }
}
