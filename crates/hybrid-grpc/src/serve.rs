//! Server of the gRPC service `lineside.hybrid.v1.Node`.

use crate::codec::CountingCodec;
use crate::paper::PaperService;
use crate::watch::{Events, Room};
use bytes::Bytes;
pub use lineside_grpc::Limits;
use lineside_grpc::{Gate, Incoming, Running, ServerTls, Windows, accept, serve_until, server};
use lineside_hybrid::answer::Answer;
use lineside_hybrid::watch::{Sink, Watching};
use lineside_hybrid::{Code, Node};
use lineside_journal::Disk;
use lineside_messages::hybrid::grpc::Reply;
use lineside_messages::hybrid::grpc::{
    Cells, CellsBatch, Event, MESSAGE_BYTES_MAX, Placed, PlacedBatch, Signed, SignedBatch,
};
use lineside_messages::hybrid::grpc::{KeyCells, Proof, SignedHeader, Writes};
use lineside_messages::hybrid::request::{Body as RequestBody, Request as HybridRequest, operation, split};
use lineside_wire::{
    HYBRID_OP_CHANGE, HYBRID_OP_GET, HYBRID_OP_HEAD, HYBRID_OP_HISTORY, HYBRID_OP_OUTCOME, HYBRID_OP_PROVE,
    HYBRID_OP_RANGE, HYBRID_OP_WRITE,
};
use prost::Message;
use std::convert::Infallible;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, NamedService, ServerStreamingService, UnaryService};
use tonic::{Request, Response, Status};

/// Number of bytes that a code and its name take in an answer of a batch, including their tags and lengths.
const REFUSED_BYTES: usize = 32;
/// Windows for clients.
const WINDOWS: Windows = Windows {
    stream_bytes: 1 << 20,
    connection_bytes: 2 << 20,
};

/// Interface to the database that answers requests. [`Node`] implements it.
pub trait Database: Send + Sync + 'static {
    /// See [`Node::submit_inline`].
    fn submit(&self, requests: Vec<Bytes>, done: Box<dyn FnOnce(Vec<Answer>) + Send>);

    /// See [`Node::watch`].
    ///
    /// # Errors
    /// Returns the code of the refusal.
    fn watch(&self, request: Bytes, sink: Sink) -> Result<Watching, Code>;

    /// Returns true if the database is in the paper's mode.
    fn is_paper(&self) -> bool;

    /// Notes that the server refused a request before it reached the database.
    fn note_refused(&self, _code: Code) {}
}

impl<D: Disk + Send + Sync + 'static> Database for Node<D> {
    fn submit(&self, requests: Vec<Bytes>, done: Box<dyn FnOnce(Vec<Answer>) + Send>) {
        self.submit_inline(requests, done);
    }

    fn watch(&self, request: Bytes, sink: Sink) -> Result<Watching, Code> {
        Node::watch(self, request, sink)
    }

    fn is_paper(&self) -> bool {
        Node::is_paper(self)
    }
}

/// Serves a node until `stop` is ready. Then the streams of watchers end; other open calls are still answered.
///
/// # Errors
/// Returns an error if the transport cannot be set up.
pub async fn serve(
    listener: TcpListener,
    tls: Option<ServerTls>,
    database: Arc<dyn Database>,
    gate: Arc<Gate>,
    stop: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let (stop_watchers, stopping) = watch::channel(false);
    let service = NodeService {
        database,
        gate: Arc::clone(&gate),
        watch_memory: Room::new(gate.limits().memory_bytes / 2),
        stopping,
    };
    let paper = service.database.is_paper().then(|| PaperService(service.clone()));
    let connections = accept(listener, tls, Arc::clone(&gate));
    let router = server(&gate, WINDOWS)
        .add_optional_service(paper)
        .add_service(service);
    serve_until(router, connections, stop, || {
        let _ = stop_watchers.send(true);
    })
    .await
}

/// Binds the address and serves in a new task. Events that wait for watchers may take half as many bytes as calls in
/// progress, in addition to those.
///
/// # Errors
/// Returns an error if the address cannot be bound.
pub async fn start(
    listen: impl tokio::net::ToSocketAddrs,
    tls: Option<ServerTls>,
    database: Arc<dyn Database>,
    limits: Limits,
) -> io::Result<Running> {
    let gate = Gate::new(limits);
    Running::start(listen, Arc::clone(&gate), |listener, stopped| {
        serve(listener, tls, database, gate, async {
            let _ = stopped.await;
        })
    })
    .await
}

/// Submits requests and returns their answers in order.
pub(crate) async fn ask(database: &dyn Database, requests: Vec<Bytes>) -> Result<Vec<Answer>, Status> {
    let (send, receive) = oneshot::channel();
    database.submit(
        requests,
        Box::new(move |answers| {
            // The call may have been cancelled; then no one receives the answers.
            let _ = send.send(answers);
        }),
    );
    receive
        .await
        .map_err(|_| Status::unavailable("the node is stopping; the outcome of the request is not known"))
}

/// Notes a call that the server ended with `status` before its request reached the database. A node that is stopping,
/// and a client that cancels its call, refuse nothing.
fn note_ended(database: &dyn Database, status: tonic::Code) {
    match status {
        tonic::Code::Ok | tonic::Code::Unavailable | tonic::Code::Cancelled => {}
        tonic::Code::ResourceExhausted => database.note_refused(Code::Busy),
        tonic::Code::OutOfRange => database.note_refused(Code::TooLarge),
        _ => database.note_refused(Code::Malformed),
    }
}

/// Function that returns true if the request belongs to the method.
type IsFor = fn(&Bytes) -> bool;

fn only_deletes(request: &Bytes) -> bool {
    let read = split(request).and_then(|(_, signed)| HybridRequest::decode(signed));
    match read.map(|request| request.body) {
        Ok(RequestBody::Write { writes, .. }) => writes.iter().all(|write| write.value.is_none()),
        _ => false,
    }
}

macro_rules! is_for {
    ($op:expr) => {
        |request| operation(request) == Some($op)
    };
}

/// gRPC method with one request and one answer.
struct One<R> {
    service: NodeService,
    is_for: IsFor,
    reply: PhantomData<fn() -> R>,
}

impl<R: Reply> UnaryService<Signed> for One<R> {
    type Response = R;
    type Future = BoxFuture<Response<R>, Status>;

    fn call(&mut self, request: Request<Signed>) -> Self::Future {
        let (service, is_for) = (self.service.clone(), self.is_for);
        Box::pin(async move {
            let request = request.into_inner().request;
            if !is_for(&request) {
                service.database.note_refused(Code::Malformed);
                return Ok(Response::new(R::refused(Code::Malformed)));
            }
            let answer = ask(&*service.database, vec![request]).await?.pop();
            let answer = answer.unwrap_or(Answer::Refused(Code::OutcomeUnknown));
            Ok(Response::new(R::within(answer.into(), MESSAGE_BYTES_MAX)))
        })
    }
}

/// Message with the answers to a batch.
trait Batch: Message + Default + 'static {
    type Reply: Reply;

    fn of(answers: Vec<Self::Reply>) -> Self;
}

impl Batch for CellsBatch {
    type Reply = Cells;

    fn of(answers: Vec<Cells>) -> Self {
        Self { answers }
    }
}

impl Batch for PlacedBatch {
    type Reply = Placed;

    fn of(answers: Vec<Placed>) -> Self {
        Self { answers }
    }
}

/// gRPC method with many requests and an answer to each.
struct Many<B> {
    service: NodeService,
    is_for: IsFor,
    reply: PhantomData<fn() -> B>,
}

impl<B: Batch> UnaryService<SignedBatch> for Many<B> {
    type Response = B;
    type Future = BoxFuture<Response<B>, Status>;

    fn call(&mut self, request: Request<SignedBatch>) -> Self::Future {
        let (service, is_for) = (self.service.clone(), self.is_for);
        Box::pin(async move {
            let all = request.into_inner().requests;
            let wrong: Vec<bool> = all.iter().map(|request| !is_for(request)).collect();
            let wrong_count = wrong.iter().filter(|wrong| **wrong).count();
            (0..wrong_count).for_each(|_| service.database.note_refused(Code::Malformed));
            let mut wrong_ones = wrong.iter().copied();
            let mut good = all;
            good.retain(|_| !wrong_ones.next().unwrap_or(true));
            let mut answers = ask(&*service.database, good).await?.into_iter();
            let mut room = MESSAGE_BYTES_MAX.saturating_sub(REFUSED_BYTES * wrong.len());
            let one = |wrong| {
                let answer = match wrong {
                    true => None,
                    false => answers.next(),
                };
                let answer = answer.unwrap_or(Answer::Refused(Code::Malformed));
                let reply = B::Reply::within(answer.into(), room);
                room = room.saturating_sub(reply.encoded_len());
                reply
            };
            Ok(Response::new(B::of(wrong.into_iter().map(one).collect())))
        })
    }
}

/// The gRPC method `Watch`.
struct Watch(NodeService);

impl ServerStreamingService<Signed> for Watch {
    type Response = Event;
    type ResponseStream = Events;
    type Future = BoxFuture<Response<Events>, Status>;

    fn call(&mut self, request: Request<Signed>) -> Self::Future {
        let service = self.0.clone();
        Box::pin(async move {
            let request = request.into_inner().request;
            let events =
                Events::of(service.database, request, service.watch_memory, service.stopping).await?;
            Ok(Response::new(events))
        })
    }
}

#[derive(Clone)]
pub(crate) struct NodeService {
    pub database: Arc<dyn Database>,
    gate: Arc<Gate>,
    watch_memory: Arc<Room>,
    stopping: watch::Receiver<bool>,
}

pub(crate) type Answered = BoxFuture<http::Response<Body>, Infallible>;

impl NodeService {
    /// Answers a call. The call counts towards the server's limits from before its message is read until its answer has
    /// been sent.
    pub fn within<Answering>(
        &self,
        request: http::Request<Body>,
        call: impl FnOnce(http::Request<Body>) -> Answering,
    ) -> Answered
    where
        Answering: Future<Output = http::Response<Body>> + Send + 'static,
    {
        match self.gate.call(request, Incoming::One(MESSAGE_BYTES_MAX)) {
            Err(status) => {
                note_ended(&*self.database, status.code());
                Box::pin(async move { Ok(status.into_http()) })
            }
            Ok((request, counted)) => {
                let answering = call(request);
                Box::pin(async move { Ok(counted.answer(answering.await)) })
            }
        }
    }

    fn serve_single<R: Reply>(&self, request: http::Request<Body>, is_for: IsFor) -> Answered {
        let one = One::<R> {
            service: self.clone(),
            is_for,
            reply: PhantomData,
        };
        let database = Arc::clone(&self.database);
        self.within(request, |request| async move {
            noted(&*database, grpc::<R, Signed>().unary(one, request).await)
        })
    }

    fn serve_batch<B: Batch>(&self, request: http::Request<Body>, is_for: IsFor) -> Answered {
        let many = Many::<B> {
            service: self.clone(),
            is_for,
            reply: PhantomData,
        };
        let database = Arc::clone(&self.database);
        self.within(request, |request| async move {
            noted(&*database, grpc::<B, SignedBatch>().unary(many, request).await)
        })
    }
}

/// Notes a refusal of a request whose message is malformed or too long. An answer of the database has its status after
/// the body and not in its headers.
fn noted(database: &dyn Database, response: http::Response<Body>) -> http::Response<Body> {
    if let Some(status) = Status::from_header_map(response.headers()) {
        note_ended(database, status.code());
    }
    response
}

pub(crate) fn grpc<Out, In>() -> Grpc<CountingCodec<Out, In>>
where
    Out: Message + Send + 'static,
    In: Message + Default + Send + 'static,
{
    Grpc::new(CountingCodec::default())
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

impl NamedService for NodeService {
    const NAME: &'static str = "lineside.hybrid.v1.Node";
}

impl Service<http::Request<Body>> for NodeService {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answered;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Answered {
        let method = request.uri().path().rsplit('/').next().unwrap_or_default();
        match method {
            "Get" => self.serve_single::<Cells>(request, is_for!(HYBRID_OP_GET)),
            "Set" => self.serve_single::<Placed>(request, is_for!(HYBRID_OP_WRITE)),
            "Delete" => self.serve_single::<Placed>(request, only_deletes),
            "BatchGet" => self.serve_batch::<CellsBatch>(request, is_for!(HYBRID_OP_GET)),
            "BatchSet" => self.serve_batch::<PlacedBatch>(request, is_for!(HYBRID_OP_WRITE)),
            "Range" => self.serve_single::<KeyCells>(request, is_for!(HYBRID_OP_RANGE)),
            "Verify" => self.serve_single::<Proof>(request, is_for!(HYBRID_OP_PROVE)),
            "History" => self.serve_single::<Writes>(request, is_for!(HYBRID_OP_HISTORY)),
            "Head" => self.serve_single::<SignedHeader>(request, is_for!(HYBRID_OP_HEAD)),
            "Outcome" => self.serve_single::<Placed>(request, is_for!(HYBRID_OP_OUTCOME)),
            "Change" => self.serve_single::<Placed>(request, is_for!(HYBRID_OP_CHANGE)),
            "Watch" => {
                let watch = Watch(self.clone());
                self.within(request, |request| async move {
                    grpc::<Event, Signed>().server_streaming(watch, request).await
                })
            }
            _ => {
                self.database.note_refused(Code::Malformed);
                Box::pin(async { Ok(Status::unimplemented("no such method").into_http()) })
            }
        }
    }
}
