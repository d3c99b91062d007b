//! The gRPC server. It serves `protos.Deliver` and parts of a peer's other services, or `orderer.AtomicBroadcast` as an
//! orderer does.

use crate::deliver::{self, Kind, Shared};
use crate::gateway;
use crate::messages::{DeliverResponse, Envelope};
use crate::source::CommittedSource;
use lineside_grpc::{
    Answers, Gate, Incoming, Peer, Running, ServerTls, Windows, accept, serve_until, server,
};
use prost::Message;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::{Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

/// Maximum number of bytes of a request. An identity with its certificate has about 1 kB.
const REQUEST_BYTES_MAX: usize = 64 << 10;
/// Number of blocks that a call reads ahead while the client's flow-control window is full.
const BLOCKS_READ_AHEAD: usize = 1;
/// Maximum number of blocks that are read at the same time, before they count against the limit on bytes in transit.
const CONCURRENT_READS: usize = 4;
/// Windows for clients: one request on each call, with gRPC's 5 bytes before it, and four on a connection.
const WINDOWS: Windows = Windows {
    stream_bytes: REQUEST_BYTES_MAX as u32 + 5,
    connection_bytes: 4 * (REQUEST_BYTES_MAX as u32 + 5),
};

/// Limits of a server.
#[derive(Clone)]
pub struct Limits {
    /// Limits of connections, calls and bytes. A peer's default is 2,500 calls.
    pub transport: lineside_grpc::Limits,
    /// Time that an open call may wait for a request.
    pub request_wait: Duration,
    /// Maximum difference between a request's timestamp and the server's clock. A peer's default is 15 minutes.
    pub time_window: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            transport: lineside_grpc::Limits {
                calls: 2_500,
                streams: 128,
                ..lineside_grpc::Limits::default()
            },
            request_wait: Duration::from_secs(60),
            time_window: Duration::from_secs(15 * 60),
        }
    }
}

/// Kind of server, which determines the services.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// `protos.Deliver`, and the methods of [`crate::gateway`].
    Peer,
    /// `orderer.AtomicBroadcast`, without Broadcast.
    Orderer,
}

/// Serves channels until `stop` is ready; running calls then end with status `SERVICE_UNAVAILABLE`.
///
/// # Errors
/// The transport cannot be set up.
pub async fn serve(
    listener: TcpListener,
    tls: Option<ServerTls>,
    role: Role,
    sources: Vec<Arc<dyn CommittedSource>>,
    limits: Limits,
    gate: Arc<Gate>,
    stop: impl Future<Output = ()> + Send,
) -> io::Result<()> {
    let (stop_calls, stopping) = watch::channel(false);
    let shared = Arc::new(Shared {
        reads: Semaphore::new(CONCURRENT_READS),
        sources,
        mutual: tls.as_ref().is_some_and(ServerTls::is_mutual),
        stopping,
        limits,
        gate: Arc::clone(&gate),
    });
    let connections = accept(listener, tls, Arc::clone(&gate));
    let handler = Handler(shared);
    let mut server = server(&gate, WINDOWS);
    let router = match role {
        Role::Peer => server
            .add_service(PeerDeliver(handler.clone()))
            .add_service(Gateway(handler.clone()))
            .add_service(Endorser(handler.clone()))
            .add_service(Discovery(handler)),
        Role::Orderer => server.add_service(AtomicBroadcast(handler)),
    };
    serve_until(router, connections, stop, || {
        let _ = stop_calls.send(true);
    })
    .await
}

/// Binds an address, and serves channels on it in a separate task.
///
/// # Errors
/// The address cannot be bound.
pub async fn start(
    listen: impl tokio::net::ToSocketAddrs,
    tls: Option<ServerTls>,
    role: Role,
    sources: Vec<Arc<dyn CommittedSource>>,
    limits: Limits,
) -> io::Result<Running> {
    let gate = Gate::new(limits.transport.clone());
    Running::start(listen, Arc::clone(&gate), |listener, stopped| {
        serve(listener, tls, role, sources, limits, gate, async {
            let _ = stopped.await;
        })
    })
    .await
}

#[derive(Clone)]
struct Handler(Arc<Shared>);

/// Function that answers one call, given the client, the requests, and a queue for the answers.
type AnswerCall<In, Out> = Box<dyn FnOnce(deliver::Client, Streaming<In>, Queue<Out>) -> CallFuture + Send>;
type Queue<Out> = mpsc::Sender<Result<Out, Status>>;
type CallFuture = Pin<Box<dyn Future<Output = Result<(), Status>> + Send>>;

/// One call of a method.
struct Call<In, Out> {
    /// Function that answers the call, and the counter of its answers; `None` once it has run.
    run: Option<(AnswerCall<In, Out>, Answers)>,
    gate: Arc<Gate>,
}

impl<In: Send + 'static, Out: Send + 'static> StreamingService<In> for Call<In, Out> {
    type Response = Out;
    type ResponseStream = ReceiverStream<Result<Out, Status>>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: Request<Streaming<In>>) -> Self::Future {
        let call = self.run.take();
        let gate = Arc::clone(&self.gate);
        let peer = request.extensions().get::<Peer>().cloned();
        Box::pin(async move {
            let (run, answers) = call.ok_or_else(|| Status::internal("a call was answered twice"))?;
            let from = deliver::Client {
                peer: peer.unwrap_or_default(),
                answers,
            };
            let (out, responses) = mpsc::channel(BLOCKS_READ_AHEAD);
            tokio::spawn(async move {
                if let Err(status) = run(from, request.into_inner(), out.clone()).await {
                    gate.refused_calls.count(status.code());
                    // Sending fails only if the client has disconnected; it then needs no status.
                    let _ = out.send(Err(status)).await;
                }
            });
            Ok(Response::new(ReceiverStream::new(responses)))
        })
    }
}

type HttpAnswer = BoxFuture<http::Response<Body>, Infallible>;

/// Method of a service.
#[derive(Clone, Copy)]
enum Method {
    Deliver(Kind),
    CommitStatus,
    ChaincodeEvents,
    Evaluate,
    ProcessProposal,
}

/// Answers a call of a method. A method with one request and one answer is treated as two streams with one message
/// each, which look the same on the wire. All answers are therefore counted, and wait for the limit on bytes in
/// transit, in the same way.
async fn answer(
    shared: Arc<Shared>,
    method: Method,
    request: http::Request<Body>,
    counted: lineside_grpc::Call,
) -> http::Response<Body> {
    let gate = Arc::clone(&shared.gate);
    macro_rules! run {
        ($call:path) => {
            answer_by(
                gate,
                request,
                counted,
                Box::new(move |from, requests, out| {
                    Box::pin(async move { $call(&shared, &from, requests, &out).await })
                }),
            )
            .await
        };
    }
    match method {
        Method::Deliver(kind) => {
            let run: AnswerCall<Envelope, DeliverResponse> = Box::new(move |from, requests, out| {
                Box::pin(async move { deliver::call(&shared, kind, &from, requests, &out).await })
            });
            answer_by(gate, request, counted, run).await
        }
        Method::CommitStatus => run!(gateway::commit_status),
        Method::ChaincodeEvents => run!(gateway::chaincode_events),
        Method::Evaluate => run!(gateway::evaluate),
        Method::ProcessProposal => run!(gateway::process_proposal),
    }
}

async fn answer_by<In, Out>(
    gate: Arc<Gate>,
    request: http::Request<Body>,
    counted: lineside_grpc::Call,
    run: AnswerCall<In, Out>,
) -> http::Response<Body>
where
    In: Message + Default + Send + Sync + 'static,
    Out: Message + Send + Sync + 'static,
{
    let call = Call {
        run: Some((run, counted.answers())),
        gate,
    };
    let codec = ProstCodec::<Out, In>::default();
    let mut grpc = Grpc::new(codec).max_decoding_message_size(REQUEST_BYTES_MAX);
    counted.answer(grpc.streaming(call, request).await)
}

/// Answers a call of a service. A method that is not in `methods` gets UNIMPLEMENTED.
fn route(
    handler: &Handler,
    methods: &[(&str, Method)],
    absent: &'static str,
    request: http::Request<Body>,
) -> HttpAnswer {
    let shared = Arc::clone(&handler.0);
    let known_method = methods.iter().find(|(path, _)| *path == request.uri().path());
    let call = match known_method {
        Some((_, method)) => shared
            .gate
            .call(request, Incoming::Stream(REQUEST_BYTES_MAX))
            .map(|call| (*method, call)),
        None => Err(Status::unimplemented(absent)),
    };
    Box::pin(async move {
        Ok(match call {
            Ok((method, (request, counted))) => answer(shared, method, request, counted).await,
            Err(status) => {
                shared.gate.refused_calls.count(status.code());
                status.into_http()
            }
        })
    })
}

macro_rules! service {
    ($type:ident, $name:literal, $methods:expr, $absent:literal) => {
        #[derive(Clone)]
        struct $type(Handler);

        impl NamedService for $type {
            const NAME: &'static str = $name;
        }

        impl Service<http::Request<Body>> for $type {
            type Response = http::Response<Body>;
            type Error = Infallible;
            type Future = HttpAnswer;

            fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
                Poll::Ready(Ok(()))
            }

            fn call(&mut self, request: http::Request<Body>) -> HttpAnswer {
                route(&self.0, $methods, $absent, request)
            }
        }
    };
}

service!(
    PeerDeliver,
    "protos.Deliver",
    &[
        ("/protos.Deliver/Deliver", Method::Deliver(Kind::Blocks)),
        ("/protos.Deliver/DeliverFiltered", Method::Deliver(Kind::Filtered))
    ],
    "a replica holds no private data: Deliver and DeliverFiltered are served"
);
service!(
    Gateway,
    "gateway.Gateway",
    &[
        ("/gateway.Gateway/CommitStatus", Method::CommitStatus),
        ("/gateway.Gateway/ChaincodeEvents", Method::ChaincodeEvents),
        ("/gateway.Gateway/Evaluate", Method::Evaluate)
    ],
    "a replica neither endorses nor submits: send Endorse and Submit to a peer's gateway; CommitStatus and \
     ChaincodeEvents are served here, and Evaluate for qscc and cscc"
);
service!(
    Endorser,
    "protos.Endorser",
    &[("/protos.Endorser/ProcessProposal", Method::ProcessProposal)],
    "only ProcessProposal is served, for qscc and cscc"
);
service!(
    Discovery,
    "discovery.Discovery",
    &[],
    "a replica takes no part in discovery: ask a peer"
);
service!(
    AtomicBroadcast,
    "orderer.AtomicBroadcast",
    &[("/orderer.AtomicBroadcast/Deliver", Method::Deliver(Kind::Blocks))],
    "only Deliver is served"
);
