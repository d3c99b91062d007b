//! Following a channel: blocks from an orderer or a peer, one after the other, over whatever breaks in between.

use crate::foreign::without_foreign_bytes;
pub use crate::left::Left;
use crate::left::with_remedy;
use crate::messages::{DeliverResponse, Delivered, Envelope, FilteredBlock};
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

/// What flow control lets an endpoint send ahead, at most: some blocks of 500 transactions (2 MB each).
const STREAM_WINDOW_BYTES: u32 = 16 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 24 << 20;
const FRAME_BYTES_MAX: u32 = 256 << 10;
/// Fabric's servers hang up on clients that ping more than once a minute.
const PING_EVERY: Duration = Duration::from_secs(75);
const PING_WAIT: Duration = Duration::from_secs(20);
/// Blocks that may have been handed out behind one that is refused.
const AHEAD_MAX: u64 = 16;
const CONNECT_WAIT: Duration = Duration::from_secs(10);

/// Whose Deliver to call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Service {
    /// `orderer.AtomicBroadcast/Deliver`: blocks as they are ordered.
    Orderer,
    /// `protos.Deliver/Deliver`: blocks as a peer committed them.
    Peer,
    /// `protos.Deliver/DeliverFiltered`.
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

    /// A call's end, in words.
    fn said(self, status: &Status) -> String {
        if status.code() == Code::Unimplemented {
            return format!("it does not serve {}", self.path());
        }
        let source = std::error::Error::source(status).map(chain);
        source.unwrap_or_else(|| status.message().to_owned())
    }
}

/// Told when an endpoint is left: its name, and why.
pub type OnLeft = Arc<dyn Fn(&str, &Left) + Send + Sync>;

/// Called with an endpoint that holds a request: it has no next block yet, and neither refused nor ended the call.
pub type OnHeld = Arc<dyn Fn(&str) + Send + Sync>;

/// Time after which an endpoint that has sent nothing is taken to hold the request. Refusals come sooner.
const HELD_AFTER: Duration = Duration::from_secs(2);

/// `text`, if it names an endpoint: a host, a colon, a port.
///
/// # Errors
/// What it is not, in words.
pub fn endpoint(text: &str) -> Result<String, String> {
    let wrong = || "an endpoint is HOST:PORT".to_owned();
    let authority: Authority = text.parse().map_err(|_| wrong())?;
    let plain = !authority.host().is_empty() && !text.contains('@');
    match authority.port_u16() {
        Some(1..) if plain => Ok(text.to_owned()),
        _ => Err(wrong()),
    }
}

/// What to follow, and how.
#[derive(Clone)]
pub struct Options {
    /// `HOST:PORT` of one endpoint or more, all as good.
    pub endpoints: Vec<String>,
    /// TLS, unless the network has none.
    pub tls: Option<ClientTls>,
    /// Who asks.
    pub signer: Arc<Signer>,
    /// The channel.
    pub channel: String,
    /// The first block.
    pub from: u64,
    /// Whom to ask.
    pub service: Service,
    /// With several endpoints, how long one may send nothing before the next is asked.
    pub patience: Duration,
    /// The first wait after an endpoint failed; it doubles, up to 64 times, until a block comes.
    pub backoff: Duration,
    /// Told when an endpoint is left; where there is none, a warning is.
    pub on_left: Option<OnLeft>,
    /// Called when an endpoint holds the request, on a channel without a new block.
    pub on_held: Option<OnHeld>,
    /// Maximum number of bytes of blocks on their way from an endpoint: a longer block is refused.
    pub memory_bytes_max: usize,
}

impl Options {
    /// With an orderer's service, and times for a network.
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
            on_held: None,
            memory_bytes_max: BLOCK_BYTES_MAX,
        }
    }
}

/// A block, as it was received. Bytes of an orderer's message that are no part of the block are left out.
#[derive(Clone, Debug)]
pub struct Received {
    /// Its number, which is the next one.
    pub number: u64,
    /// Its bytes.
    pub bytes: Bytes,
}

/// Follows a channel.
pub struct Follower {
    options: Options,
    next: u64,
    endpoint: usize,
    failures: u32,
    /// The last block that was refused.
    refused: Option<u64>,
    stream: Option<Streaming<DeliverResponse>>,
}

impl Follower {
    /// Nothing is connected yet.
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

    /// The number of the block that comes next.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// The next block, however long it takes and whatever breaks. It may be dropped while it waits.
    pub async fn next(&mut self) -> Received {
        loop {
            let left = match self.try_next().await {
                Ok(received) => {
                    self.next += 1;
                    // A block that was refused before may be again, and so may be those that come behind it meanwhile.
                    if self
                        .refused
                        .is_none_or(|refused| received.number > refused + AHEAD_MAX)
                    {
                        self.failures = 0;
                        self.refused = None;
                    }
                    return received;
                }
                Err(left) => left,
            };
            self.leave(&left);
            if left == Left::Silent {
                continue;
            }
            tokio::time::sleep(self.pause()).await;
        }
    }

    /// Takes a block back that its endpoint should not have sent: it is asked for again, elsewhere.
    pub async fn refuse(&mut self, number: u64, why: &str) {
        self.next = number;
        self.refused = Some(number);
        self.leave(&Left::Refused(why.to_owned()));
        tokio::time::sleep(self.pause()).await;
    }

    fn leave(&mut self, left: &Left) {
        let name = self
            .options
            .endpoints
            .get(self.endpoint)
            .map_or("", String::as_str);
        match &self.options.on_left {
            Some(on_left) => on_left(name, left),
            None => tracing::warn!(endpoint = name, next = self.next, "left: {left}"),
        }
        self.stream = None;
        self.endpoint = (self.endpoint + 1) % self.options.endpoints.len().max(1);
        if *left != Left::Silent {
            self.failures = self.failures.saturating_add(1);
        }
    }

    /// Once around all endpoints at the first wait, then twice as long each time; a quarter of it at random, so that
    /// followers that lost the same orderer do not come back at once.
    fn pause(&self) -> Duration {
        let rounds = self.failures.saturating_sub(1) as usize / self.options.endpoints.len().max(1);
        let pause = self.options.backoff * (1 << rounds.min(6));
        let mut random = [0];
        let _ = getrandom::fill(&mut random);
        pause * 3 / 4 + pause * u32::from(random[0]) / 1_024
    }

    async fn try_next(&mut self) -> Result<Received, Left> {
        let several = self.options.endpoints.len() > 1;
        let patience = if several {
            self.options.patience
        } else {
            Duration::MAX
        };
        let waited = |_| Left::Silent;
        let has_tls = self.options.tls.is_some();
        let said = |status: Status| with_remedy(self.options.service.said(&status), has_tls);
        let broken = |status: Status| Left::Broken(said(status));
        let stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let mut grpc = self.connect().await?;
                // Fabric's servers answer at all only when there is a block.
                let call = grpc.streaming(self.request(), self.options.service.path(), Codec::default());
                let called = tokio::time::timeout(patience, held(&self.options, self.endpoint, call));
                let called = called.await.map_err(waited)?;
                called.map_err(broken)?.into_inner()
            }
        };
        let stream = self.stream.insert(stream);
        let message =
            tokio::time::timeout(patience, held(&self.options, self.endpoint, stream.message())).await;
        let response = message.map_err(waited)?.map_err(broken)?;
        let ended = || Left::Broken("it ended without a status".to_owned());
        let response = response.ok_or_else(ended)?;
        let number = self.next;
        let not_next = |what: String| Left::NotNext(what);
        let (bytes, found) = match response.delivered {
            Some(Delivered::Block(bytes)) if self.options.service != Service::PeerFiltered => {
                let arena = Arena::new();
                let found = Block::read(&bytes, &arena).map(|block| block.number);
                (bytes, found.map_err(|error| not_next(error.to_string()))?)
            }
            Some(Delivered::FilteredBlock(bytes)) if self.options.service == Service::PeerFiltered => {
                let found = FilteredBlock::decode(bytes.clone()).map(|block| block.number);
                (bytes, found.map_err(|error| not_next(error.to_string()))?)
            }
            Some(Delivered::Status(status)) => return Err(Left::Status(status)),
            _ => return Err(not_next("an empty response".to_owned())),
        };
        if found != number {
            return Err(not_next(format!("block {found}")));
        }
        let bytes = match self.options.service {
            Service::Orderer => without_foreign_bytes(bytes),
            Service::Peer | Service::PeerFiltered => bytes,
        };
        Ok(Received { number, bytes })
    }

    /// The request, signed now. Its stream stays open, as other clients leave it.
    fn request(&self) -> Request<impl Stream<Item = Envelope> + Send + 'static> {
        let options = &self.options;
        let hash = options.tls.as_ref().and_then(ClientTls::certificate_hash);
        let seek = seek(self.next, u64::MAX);
        let envelope = sign(&options.signer, &options.channel, &seek, hash, SystemTime::now());
        Request::new(once(envelope).chain(pending()))
    }

    async fn connect(&self) -> Result<Grpc<Channel>, Left> {
        let options = &self.options;
        let name = options.endpoints.get(self.endpoint);
        let name = name.ok_or_else(|| Left::Connect("there are no endpoints".to_owned()))?;
        let has_tls = options.tls.is_some();
        let failed = |error: &dyn std::error::Error| Left::Connect(with_remedy(chain(error), has_tls));
        // A quarter for what flow control lets in, the rest for the block that is put together.
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
        let connected = connected.map_err(|_| Left::Connect("it takes too long".to_owned()))?;
        connected.map_err(|error: tonic::transport::Error| failed(&error))
    }
}

/// Waits for what an endpoint sends, and says when it holds the request.
async fn held<T>(options: &Options, endpoint: usize, coming: impl Future<Output = T>) -> T {
    let mut coming = pin!(coming);
    let Some(on_held) = &options.on_held else {
        return coming.await;
    };
    match tokio::time::timeout(HELD_AFTER, &mut coming).await {
        Ok(came) => came,
        Err(_) => {
            on_held(options.endpoints.get(endpoint).map_or("", String::as_str));
            coming.await
        }
    }
}

/// What becomes of a block that [`follow`] hands out.
pub enum Next {
    /// It is taken; the next one.
    Taken,
    /// It is not what the channel's rules ask for; another endpoint may have it.
    Refused(String),
    /// That is all.
    Stop,
}

/// What becomes of what [`follow_ahead`] hands out.
pub enum Ahead {
    /// It goes on.
    On,
    /// This block, handed out now or before, is not what the channel's rules ask for: it and those behind it are handed
    /// out again, perhaps from another endpoint.
    Back(u64, String),
    /// That is all.
    Stop,
}

/// [`follow`] for who begins a block before the one ahead of it is finished: `None` tells that `read` was notified
/// while no further block was here, so that a block that was begun may be ready to be finished.
pub async fn follow_ahead(options: Options, read: &Notify, mut on: impl FnMut(Option<Received>) -> Ahead) {
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
                    Ahead::On if !is_next => {}
                    other => break other,
                }
            }
        };
        match next {
            Ahead::On => {}
            Ahead::Back(number, why) => follower.refuse(number, &why).await,
            Ahead::Stop => return,
        }
    }
}

/// Hands out one block after the other until told to stop. The connection goes on receiving while `on_block` works,
/// as far as the window goes, if the runtime has another thread.
pub async fn follow(options: Options, mut on_block: impl FnMut(Received) -> Next) {
    let mut follower = Follower::new(options);
    loop {
        let received = follower.next().await;
        let number = received.number;
        match on_block(received) {
            Next::Taken => {}
            Next::Refused(why) => follower.refuse(number, &why).await,
            Next::Stop => return,
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
