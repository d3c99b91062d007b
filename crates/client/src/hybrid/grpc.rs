//! Client over gRPC: signs requests and sends them to a node.

pub mod paper;

pub use lineside_grpc::{ClientTls, SetupError};
pub use lineside_messages::hybrid::grpc as messages;
pub use lineside_messages::hybrid::grpc::Reply;
pub use lineside_messages::hybrid::signing::{Identity, Signing, counter_now, id_of};

use super::error::why_broken;
use super::outcome::{self, Answer, Read, Step};
use super::{AskError, TransactionOutcome};
use bytes::Bytes;
use lineside_grpc::chain;
use lineside_messages::hybrid::Code;
use lineside_messages::hybrid::request::{self, Body, Sees};
use lineside_messages::hybrid::signing::{expiry_of, unix_ms};
use messages::{
    Cells, CellsBatch, Event, KeyCells, MESSAGE_BYTES_MAX, Placed, PlacedBatch, Proof, Signed, SignedBatch,
    SignedHeader, Writes,
};
use prost::Message;
use std::time::{Duration, Instant};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request as GrpcRequest, Status, Streaming};
use tonic_prost::ProstCodec;

const CONNECT_WAIT: Duration = Duration::from_secs(10);
/// Time until a call fails, unless the caller sets another one.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Time between a failed write and its first repetition. Each later wait is twice as long.
const RESEND_PAUSE: Duration = Duration::from_millis(100);
const RESEND_PAUSE_MAX: Duration = Duration::from_secs(2);

/// Returns the error of a write or change whose last call failed with a status that leaves its outcome open.
fn outcome_unknown(request: &[u8], status: &Status) -> AskError {
    AskError::OutcomeUnknown {
        id: id_of(request),
        expiry_ms: expiry_of(request),
        why: format!("no definite answer ({})", why_broken(status)),
    }
}

/// Returns true if a status says that the server has not executed the request.
fn is_refusal(status: &Status) -> bool {
    use tonic::Code::{
        InvalidArgument, OutOfRange, PermissionDenied, ResourceExhausted, Unauthenticated, Unimplemented,
    };
    [
        InvalidArgument,
        OutOfRange,
        PermissionDenied,
        ResourceExhausted,
        Unauthenticated,
        Unimplemented,
    ]
    .contains(&status.code())
}

/// An answer that contains the code of its outcome.
pub trait Coded {
    /// Returns the outcome of the request.
    ///
    /// # Errors
    /// [`AskError::Answer`] if this version of the client does not know the code.
    fn known_code(&self) -> Result<Code, AskError>;
}

macro_rules! coded {
    ($($type:ident),+) => {
        $(impl Coded for $type {
            fn known_code(&self) -> Result<Code, AskError> {
                let code = u16::try_from(self.code).ok().and_then(Code::from_code);
                code.ok_or_else(|| AskError::Answer(format!("code {} ({})", self.code, self.code_name)))
            }
        })+
    };
}

coded!(Cells, Placed, KeyCells, Proof, Writes, SignedHeader, Event);

/// A connection to a node. Cheap to clone; all clones share the connection.
#[derive(Clone)]
pub struct Connection {
    grpc: Grpc<Channel>,
    timeout: Duration,
}

impl Connection {
    /// Connects to the server at `HOST:PORT`.
    ///
    /// # Errors
    /// [`AskError::Connect`].
    pub async fn open(endpoint: &str, tls: Option<&ClientTls>) -> Result<Connection, AskError> {
        let failed = |why: String| AskError::Connect {
            endpoint: endpoint.to_owned(),
            why,
        };
        let scheme = if tls.is_some() { "https" } else { "http" };
        let channel = Endpoint::from_shared(format!("{scheme}://{endpoint}"));
        let mut channel = channel
            .map_err(|error| failed(chain(&error)))?
            .connect_timeout(CONNECT_WAIT)
            .tcp_nodelay(true)
            .initial_stream_window_size(Some(4 << 20))
            .initial_connection_window_size(Some(16 << 20));
        if let Some(tls) = tls {
            channel = channel
                .tls_config(tls.config())
                .map_err(|error| failed(chain(&error)))?;
        }
        let connected = tokio::time::timeout(CONNECT_WAIT, channel.connect()).await;
        let connected = connected.map_err(|_| failed("the server did not answer in time".to_owned()))?;
        let channel = connected.map_err(|error| failed(chain(&error)))?;
        Ok(Connection {
            grpc: Grpc::new(channel)
                .max_decoding_message_size(MESSAGE_BYTES_MAX + 64)
                .max_encoding_message_size(MESSAGE_BYTES_MAX),
            timeout: TIMEOUT,
        })
    }

    /// Sets the time until a call fails (default: 60 seconds). A stream of [`Client::watch`] has no such limit.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Connection {
        self.timeout = timeout;
        self
    }

    pub(crate) async fn call<In, Out>(&self, path: &'static str, message: In) -> Result<Out, AskError>
    where
        In: Message + 'static,
        Out: Message + Default + 'static,
    {
        let call = async {
            let mut grpc = self.ready().await?;
            let codec = ProstCodec::<In, Out>::default();
            let path = PathAndQuery::from_static(path);
            grpc.unary(GrpcRequest::new(message), path, codec).await
        };
        let late = |_| Status::deadline_exceeded(format!("no answer within {:?}", self.timeout));
        let answer = tokio::time::timeout(self.timeout, call).await.map_err(late)?;
        Ok(answer?.into_inner())
    }

    async fn ready(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = self.grpc.clone();
        grpc.ready()
            .await
            .map_err(|error| Status::unavailable(chain(&error)))?;
        Ok(grpc)
    }

    /// Calls a method that takes one signed request and returns one answer.
    async fn one<Out: Message + Default + 'static>(
        &self,
        path: &'static str,
        request: Bytes,
    ) -> Result<Out, AskError> {
        self.call(path, Signed { request }).await
    }

    /// Calls a method that takes one signed write or change.
    async fn order(&self, path: &'static str, request: Bytes) -> Result<Placed, AskError> {
        let answer = self.one(path, request.clone()).await;
        answer.map_err(|error| match error {
            AskError::Broken(status) if !is_refusal(&status) => outcome_unknown(&request, &status),
            error => error,
        })
    }

    /// Sends signed get requests. Returns an answer to each.
    ///
    /// # Errors
    /// [`AskError::Broken`].
    pub async fn batch_get(&self, requests: Vec<Bytes>) -> Result<Vec<Cells>, AskError> {
        let path = "/lineside.hybrid.v1.Node/BatchGet";
        let batch: CellsBatch = self.call(path, SignedBatch { requests }).await?;
        Ok(batch.answers)
    }

    /// Sends signed write requests. Returns an answer to each.
    ///
    /// # Errors
    /// [`AskError::Broken`].
    pub async fn batch_set(&self, requests: Vec<Bytes>) -> Result<Vec<Placed>, AskError> {
        let path = "/lineside.hybrid.v1.Node/BatchSet";
        let batch: PlacedBatch = self.call(path, SignedBatch { requests }).await?;
        Ok(batch.answers)
    }

    /// Sends a signed write request. Does not repeat it.
    ///
    /// # Errors
    /// [`AskError::OutcomeUnknown`], [`AskError::Broken`].
    pub async fn set(&self, request: Bytes) -> Result<Placed, AskError> {
        self.order("/lineside.hybrid.v1.Node/Set", request).await
    }

    /// Sends a signed write request that only deletes. Does not repeat it.
    ///
    /// # Errors
    /// [`AskError::OutcomeUnknown`], [`AskError::Broken`].
    pub async fn delete(&self, request: Bytes) -> Result<Placed, AskError> {
        self.order("/lineside.hybrid.v1.Node/Delete", request).await
    }

    /// Sends a signed get request.
    ///
    /// # Errors
    /// [`AskError::Broken`].
    pub async fn get(&self, request: Bytes) -> Result<Cells, AskError> {
        self.one("/lineside.hybrid.v1.Node/Get", request).await
    }

    /// Sends a signed change request. Does not repeat it.
    ///
    /// # Errors
    /// [`AskError::OutcomeUnknown`], [`AskError::Broken`].
    pub async fn change(&self, request: Bytes) -> Result<Placed, AskError> {
        self.order("/lineside.hybrid.v1.Node/Change", request).await
    }
}

/// Client that signs requests and sends them. Concurrent writes may overtake one another, and the node then refuses one
/// of them with `nonce_used`. To write concurrently, use clients with separate lanes, or one batch.
pub struct Client {
    signing: Signing,
    connection: Connection,
}

impl Client {
    /// Connects to the server at `HOST:PORT`. Counters start from the clock, see [`counter_now`].
    ///
    /// # Errors
    /// [`AskError::Connect`].
    pub async fn connect(
        endpoint: &str,
        tls: Option<&ClientTls>,
        identity: Identity,
    ) -> Result<Client, AskError> {
        let connection = Connection::open(endpoint, tls).await?;
        let signing = Signing::new(identity, counter_now(unix_ms()));
        Ok(Client { signing, connection })
    }

    /// Sets the time until a request fails (default: 60 seconds). A stream of [`Client::watch`] has no such limit.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Client {
        self.connection = self.connection.with_timeout(timeout);
        self
    }

    /// Sends a signed write ([`Signing::sign`]), and sends it again while calls fail, until the time-out. The node
    /// executes it once.
    ///
    /// # Errors
    /// [`AskError`]. After [`AskError::OutcomeUnknown`], [`Client::outcome`] of its id returns the outcome.
    pub async fn write(&self, request: Bytes) -> Result<Placed, AskError> {
        self.repeat("/lineside.hybrid.v1.Node/Set", request).await
    }

    /// Sends a signed change of the membership, like [`Client::write`].
    ///
    /// # Errors
    /// See [`Client::write`].
    pub async fn change(&self, request: Bytes) -> Result<Placed, AskError> {
        self.repeat("/lineside.hybrid.v1.Node/Change", request).await
    }

    async fn repeat(&self, path: &'static str, request: Bytes) -> Result<Placed, AskError> {
        let end = Instant::now() + self.connection.timeout;
        let (mut pause, mut is_first) = (RESEND_PAUSE, true);
        loop {
            match self.connection.order(path, request.clone()).await {
                Err(AskError::OutcomeUnknown { .. }) if Instant::now() + pause < end => {
                    tokio::time::sleep(pause).await;
                }
                // The refusal of a repetition does not exclude that an earlier copy was executed.
                Err(AskError::Broken(status)) if !is_first => {
                    return Err(outcome_unknown(&request, &status));
                }
                answered => return answered,
            }
            pause = (pause * 2).min(RESEND_PAUSE_MAX);
            is_first = false;
        }
    }

    /// Returns the connection to the node.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the signer of this client's requests.
    pub fn signing(&self) -> &Signing {
        &self.signing
    }

    /// Reads the cells of keys, which must be in ascending order.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn get(&self, sees: Sees, keys: &[&[u8]]) -> Result<Cells, AskError> {
        let keys = keys.to_vec();
        let request = self.signing.sign(Body::Get { sees, keys })?;
        self.connection.get(request).await
    }

    /// Sets a key. If `read` names a version, the key must have this version.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn set(
        &self,
        key: &[u8],
        read: Option<request::Version>,
        value: &[u8],
    ) -> Result<Placed, AskError> {
        let request = self.signing.sign(Body::set(key, read, value))?;
        self.write(request).await
    }

    /// Deletes a key. If `read` names a version, the key must have this version.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn delete(&self, key: &[u8], read: Option<request::Version>) -> Result<Placed, AskError> {
        let request = self.signing.sign(Body::delete(key, read))?;
        self.repeat("/lineside.hybrid.v1.Node/Delete", request).await
    }

    /// Reads the cells of keys from `start` (inclusive) to `stop` (exclusive; empty: no end).
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn range(
        &self,
        sees: Sees,
        start: &[u8],
        stop: &[u8],
        limit: u32,
    ) -> Result<KeyCells, AskError> {
        let request = self.signing.sign(Body::Range {
            sees,
            start,
            stop,
            limit,
        })?;
        self.connection
            .one("/lineside.hybrid.v1.Node/Range", request)
            .await
    }

    /// Requests a proof of a key's value, or of its absence.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn prove(&self, key: &[u8]) -> Result<Proof, AskError> {
        let request = self.signing.sign(Body::Prove { key })?;
        self.connection
            .one("/lineside.hybrid.v1.Node/Verify", request)
            .await
    }

    /// Returns the newest writes of a key; if `before` is given, only older writes.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn history(
        &self,
        key: &[u8],
        limit: u32,
        before: Option<request::Version>,
    ) -> Result<Writes, AskError> {
        let request = self.signing.sign(Body::History { key, limit, before })?;
        self.connection
            .one("/lineside.hybrid.v1.Node/History", request)
            .await
    }

    /// Returns the newest block's header, signed by the node.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn head(&self) -> Result<SignedHeader, AskError> {
        let request = self.signing.sign(Body::Head)?;
        self.connection
            .one("/lineside.hybrid.v1.Node/Head", request)
            .await
    }

    /// Asks for the outcome of a transaction. `expiry_ms` is the time at which its request expires, in milliseconds
    /// since 1970: [`expiry_of`] the request, or that in [`AskError::OutcomeUnknown`]. Without it, the outcome of a
    /// transaction that the node does not have is never final.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn outcome(
        &self,
        id: [u8; 32],
        expiry_ms: Option<u64>,
    ) -> Result<TransactionOutcome, AskError> {
        let mut read = Read::First;
        loop {
            let until_ms = match read {
                Read::Until(until_ms) => Some(until_ms),
                Read::First | Read::Last => None,
            };
            let placed = self.read_outcome(id, until_ms).await?;
            let code = placed.known_code()?;
            let answer = match placed.version {
                Some(messages::Version { block, index }) => Answer::Placed {
                    code,
                    version: request::Version { block, index },
                },
                None => Answer::Refused(code),
            };
            match outcome::next(read, answer, expiry_ms) {
                Step::Again(next) => read = next,
                Step::End(outcome) => return outcome,
            }
        }
    }

    /// Reads what the node knows about a transaction now. The code `unknown` is not final: a copy of the transaction's
    /// request may still arrive. [`Client::outcome`] says when it is. The read is valid until `expiry_ms`, in
    /// milliseconds since 1970, or for 30 seconds.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn read_outcome(&self, id: [u8; 32], expiry_ms: Option<u64>) -> Result<Placed, AskError> {
        let body = Body::Outcome { id };
        let request = match expiry_ms {
            Some(expiry_ms) => self.signing.sign_until(body, expiry_ms)?,
            None => self.signing.sign(body)?,
        };
        self.connection
            .one("/lineside.hybrid.v1.Node/Outcome", request)
            .await
    }

    /// Subscribes to all writes below a prefix. The first event has a block number, after which all writes are
    /// reported, or the code of a refusal.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn watch(&self, prefix: &[u8]) -> Result<Streaming<Event>, AskError> {
        let request = self.signing.sign(Body::Watch { prefix })?;
        let mut grpc = self.connection.ready().await?;
        let path = PathAndQuery::from_static("/lineside.hybrid.v1.Node/Watch");
        let codec = ProstCodec::<Signed, Event>::default();
        let called = grpc.server_streaming(GrpcRequest::new(Signed { request }), path, codec);
        Ok(called.await?.into_inner())
    }
}
