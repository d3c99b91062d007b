//! Server of the paper's gRPC service.

use crate::serve::{Answered, NodeService, ask, grpc};
use bytes::Bytes;
use lineside_hybrid::Code;
use lineside_hybrid::answer::Answer;
use lineside_messages::hybrid::answer::code_name;
use lineside_messages::hybrid::grpc::paper::{
    BatchGetRequest, BatchGetResponse, BatchSetRequest, BatchSetResponse, GetRequest, GetResponse,
    SetRequest, SetResponse, VerifyRequest, VerifyResponse,
};
use lineside_messages::hybrid::grpc::{CODE_HEADER, MESSAGE_BYTES_MAX};
use lineside_messages::hybrid::paper::{Body, Request as PaperRequest, read_cell};
use lineside_util::hex::{array_from_hex, to_hex};
use prost::Message;
use std::convert::Infallible;
use std::marker::PhantomData;
use std::task::{Context, Poll};
use tonic::body::Body as HttpBody;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::metadata::MetadataValue;
use tonic::server::{NamedService, UnaryService};
use tonic::{Code as GrpcCode, Request, Response, Status};

/// Number of bytes that a code and its name take in an answer of a batch, including their tags and lengths.
const REFUSED_BYTES: usize = 40;

/// A request message of the paper's service.
trait RequestMessage: Message + Default + 'static {
    type Reply: AnswerMessage;

    /// Converts the request for a node; `None` if it is malformed.
    fn request(&self) -> Option<Bytes>;
}

/// An answer message of the paper's service.
trait AnswerMessage: Message + Default + 'static {
    /// # Errors
    /// The code of the refusal.
    fn of(answer: Answer) -> Result<Self, Code>;

    fn set_code(&mut self, code: Code);
}

macro_rules! asks {
    ($type:ident -> $reply:ident, $body:expr) => {
        impl RequestMessage for $type {
            type Reply = $reply;

            fn request(&self) -> Option<Bytes> {
                let of: fn(&$type) -> Option<Body<'_>> = $body;
                let public_key = array_from_hex(&self.pubkey)?;
                let body = of(self)?;
                let request = PaperRequest { public_key, body };
                request
                    .with(&array_from_hex(&self.signature)?)
                    .ok()
                    .map(Bytes::from)
            }
        }
    };
}

asks!(GetRequest -> GetResponse, |asked| Some(Body::Get { key: &asked.key }));
asks!(VerifyRequest -> VerifyResponse, |asked| Some(Body::Verify { key: &asked.key }));
asks!(SetRequest -> SetResponse, |asked| Some(Body::Set {
    key: &asked.key,
    value: &asked.value,
    version: u64::try_from(asked.version).ok()?,
}));

macro_rules! told {
    ($type:ident, $answer:pat => $made:expr) => {
        impl AnswerMessage for $type {
            fn of(answer: Answer) -> Result<Self, Code> {
                match answer {
                    $answer => $made,
                    other => Err(match other.code() {
                        Code::Done => Code::Malformed,
                        code => code,
                    }),
                }
            }

            fn set_code(&mut self, code: Code) {
                self.code = code as u32;
                self.code_name = code_name(code).into();
            }
        }
    };
}

told!(GetResponse, Answer::Cells(cells) => {
    let cell = cells.into_iter().flatten().next().ok_or(Code::Unknown)?;
    let (version, value) = read_cell(&cell.value);
    Ok(GetResponse {
        // A node stores only valid UTF-8 in this mode, so no byte is replaced.
        value: String::from_utf8_lossy(value).into_owned(),
        version: version as i64,
        ..GetResponse::default()
    })
});
told!(SetResponse, Answer::Placed { code: Code::Done, version } => Ok(SetResponse {
    txid: format!("txid{}tx{}", version.block, version.index),
    ..SetResponse::default()
}));
told!(VerifyResponse, Answer::Block(header) => Ok(VerifyResponse {
    block_id: header.number.to_string(),
    block_hash: to_hex(&header.paper_hash),
    txn_hash: to_hex(&header.transactions_hash),
    ..VerifyResponse::default()
}));

/// Converts an answer to a message. If the message would have more than `bytes_max` bytes, returns the code
/// `too_large`.
fn within<R: AnswerMessage>(answer: Answer, bytes_max: usize) -> Result<R, Code> {
    let mut reply = R::of(answer)?;
    reply.set_code(Code::Done);
    match reply.encoded_len() <= bytes_max {
        true => Ok(reply),
        false => Err(Code::TooLarge),
    }
}

/// Converts a refusal to a gRPC status.
fn status(code: Code) -> Status {
    let grpc = match code {
        Code::Malformed => GrpcCode::InvalidArgument,
        Code::BadSignature | Code::HighS => GrpcCode::Unauthenticated,
        Code::UnknownMember | Code::Revoked | Code::NotAllowed => GrpcCode::PermissionDenied,
        Code::OldVersion => GrpcCode::Aborted,
        Code::Unknown => GrpcCode::NotFound,
        Code::Busy | Code::TooLarge => GrpcCode::ResourceExhausted,
        Code::ReadOnly => GrpcCode::Unavailable,
        Code::OutcomeUnknown => GrpcCode::Unknown,
        _ => GrpcCode::FailedPrecondition,
    };
    let mut status = Status::new(grpc, format!("{}: {}", code_name(code), code.meaning()));
    status
        .metadata_mut()
        .insert(CODE_HEADER, MetadataValue::from(code as u32));
    status
}

/// gRPC method with one request and one answer.
struct One<Q> {
    service: NodeService,
    asks: PhantomData<fn() -> Q>,
}

impl<Q: RequestMessage> UnaryService<Q> for One<Q> {
    type Response = Q::Reply;
    type Future = BoxFuture<Response<Q::Reply>, Status>;

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let service = self.service.clone();
        Box::pin(async move {
            let request = request.into_inner().request();
            let request = request.ok_or_else(|| status(Code::Malformed))?;
            let answer = ask(&*service.database, vec![request]).await?.pop();
            let answer = answer.unwrap_or(Answer::Refused(Code::OutcomeUnknown));
            within(answer, MESSAGE_BYTES_MAX)
                .map(Response::new)
                .map_err(status)
        })
    }
}

/// Message with a batch of requests.
trait Batch: Message + Default + 'static {
    type One: RequestMessage;
    type Reply: Message + Default + 'static;

    fn requests(self) -> Vec<Self::One>;
    fn reply(responses: Vec<<Self::One as RequestMessage>::Reply>) -> Self::Reply;
}

macro_rules! batch {
    ($type:ident of $one:ident -> $reply:ident) => {
        impl Batch for $type {
            type One = $one;
            type Reply = $reply;

            fn requests(self) -> Vec<$one> {
                self.requests
            }

            fn reply(responses: Vec<<$one as RequestMessage>::Reply>) -> $reply {
                $reply { responses }
            }
        }
    };
}

batch!(BatchGetRequest of GetRequest -> BatchGetResponse);
batch!(BatchSetRequest of SetRequest -> BatchSetResponse);

/// gRPC method with many requests and an answer to each.
struct Many<B> {
    service: NodeService,
    batch: PhantomData<fn() -> B>,
}

impl<B: Batch> UnaryService<B> for Many<B> {
    type Response = B::Reply;
    type Future = BoxFuture<Response<B::Reply>, Status>;

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.service.clone();
        Box::pin(async move {
            let all = request.into_inner().requests();
            let all: Vec<Option<Bytes>> = all.iter().map(RequestMessage::request).collect();
            let wrong: Vec<bool> = all.iter().map(Option::is_none).collect();
            let good = all.into_iter().flatten().collect();
            let mut answers = ask(&*service.database, good).await?.into_iter();
            let mut room = MESSAGE_BYTES_MAX.saturating_sub(REFUSED_BYTES * wrong.len());
            let one = |wrong: bool| {
                let answer = match wrong {
                    true => Answer::Refused(Code::Malformed),
                    false => answers.next().unwrap_or(Answer::Refused(Code::OutcomeUnknown)),
                };
                let reply = within(answer, room).unwrap_or_else(|code| {
                    let mut refused = <B::One as RequestMessage>::Reply::default();
                    refused.set_code(code);
                    refused
                });
                room = room.saturating_sub(reply.encoded_len());
                reply
            };
            Ok(Response::new(B::reply(wrong.into_iter().map(one).collect())))
        })
    }
}

/// The paper's service, answered by a node.
#[derive(Clone)]
pub(crate) struct PaperService(pub NodeService);

impl PaperService {
    fn serve_single<Q: RequestMessage>(&self, request: http::Request<HttpBody>) -> Answered {
        let one = One::<Q> {
            service: self.0.clone(),
            asks: PhantomData,
        };
        self.0.within(request, |request| async move {
            grpc::<Q::Reply, Q>().unary(one, request).await
        })
    }

    fn serve_batch<B: Batch>(&self, request: http::Request<HttpBody>) -> Answered {
        let many = Many::<B> {
            service: self.0.clone(),
            batch: PhantomData,
        };
        self.0.within(request, |request| async move {
            grpc::<B::Reply, B>().unary(many, request).await
        })
    }
}

impl NamedService for PaperService {
    const NAME: &'static str = "controller.Node";
}

impl Service<http::Request<HttpBody>> for PaperService {
    type Response = http::Response<HttpBody>;
    type Error = Infallible;
    type Future = Answered;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<HttpBody>) -> Answered {
        let method = request.uri().path().rsplit('/').next().unwrap_or_default();
        match method {
            "Get" => self.serve_single::<GetRequest>(request),
            "Set" => self.serve_single::<SetRequest>(request),
            "Verify" => self.serve_single::<VerifyRequest>(request),
            "BatchGet" => self.serve_batch::<BatchGetRequest>(request),
            "BatchSet" => self.serve_batch::<BatchSetRequest>(request),
            _ => {
                self.0.database.note_refused(Code::Malformed);
                Box::pin(async { Ok(Status::unimplemented("no such method").into_http()) })
            }
        }
    }
}
