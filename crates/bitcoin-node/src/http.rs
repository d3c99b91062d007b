//! HTTP/1.1 client of one server: one connection, kept open between requests, with a limit on the length of answers.

use crate::error::NodeFault;
use crate::secret::Secret;
use crate::stream::Address;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;

/// HTTP request.
#[derive(Clone, Debug)]
pub(crate) struct Ask<'a> {
    /// Name of the call, for messages.
    pub(crate) call: &'static str,
    /// Path on the server.
    pub(crate) path: &'a str,
    /// Body of a POST; `None` for a GET.
    pub(crate) body: Option<Bytes>,
    /// Maximum length of the answer, in bytes.
    pub(crate) limit_bytes: usize,
}

/// Answer to an HTTP request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Client of one HTTP server.
pub(crate) struct Http {
    address: Address,
    host: HeaderValue,
    connection: Option<SendRequest<Full<Bytes>>>,
    /// Task that owns the socket, and reads and writes the connection; `None` while there is no connection.
    task: Option<JoinHandle<()>>,
    /// Number of connections opened so far.
    opened: u64,
}

/// Returns the header of basic authentication (RFC 7617), marked as sensitive so that hyper does not log it.
pub(crate) fn basic(pair: &Secret) -> Option<HeaderValue> {
    let text = format!("Basic {}", BASE64_STANDARD.encode(pair.reveal()));
    let mut value = HeaderValue::try_from(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

impl Http {
    /// Returns a client of the server at `address`; `authority` is the value of the header `Host`.
    pub(crate) fn new(address: Address, authority: &str) -> Http {
        Http {
            address,
            host: HeaderValue::from_str(authority).unwrap_or(HeaderValue::from_static("localhost")),
            connection: None,
            task: None,
            opened: 0,
        }
    }

    /// Returns the number of connections opened so far. It has increased if the node was restarted.
    pub(crate) fn opened(&self) -> u64 {
        self.opened
    }

    /// Closes the connection; the next request opens a new one.
    pub(crate) async fn close(&mut self) {
        self.connection = None;
        if let Some(task) = self.task.take() {
            task.abort();
            // Wait until the task has ended, which closes the socket.
            let _ = task.await;
        }
    }

    /// Sends a request and reads the whole answer.
    ///
    /// If the server has closed an idle connection, the request is sent once more on a new connection. The caller sets
    /// the time limit. If the caller drops the future, the connection is closed, so that a late answer is never used
    /// for another request.
    pub(crate) async fn send(
        &mut self,
        ask: &Ask<'_>,
        authorization: Option<&HeaderValue>,
    ) -> Result<Answer, NodeFault> {
        if let Some(mut connection) = self.connection.take()
            && connection.ready().await.is_ok()
            && let Ok(response) = connection.send_request(self.request(ask, authorization)?).await
        {
            return self.take(connection, response, ask).await;
        }
        let stream = self.address.open().await?;
        let lost_fault = |error: hyper::Error| NodeFault::Lost {
            call: ask.call,
            why: chain(&error),
        };
        let (mut connection, task) = handshake(TokioIo::new(stream)).await.map_err(lost_fault)?;
        self.opened += 1;
        self.task = Some(tokio::spawn(async move {
            // An error of the connection is ignored here, because the request on this connection returns it.
            let _ = task.await;
        }));
        let request = self.request(ask, authorization)?;
        let response = connection.send_request(request).await.map_err(lost_fault)?;
        self.take(connection, response, ask).await
    }

    fn request(
        &self,
        ask: &Ask<'_>,
        authorization: Option<&HeaderValue>,
    ) -> Result<Request<Full<Bytes>>, NodeFault> {
        let method = if ask.body.is_some() {
            Method::POST
        } else {
            Method::GET
        };
        let mut builder = Request::builder()
            .method(method)
            .uri(ask.path)
            .header(HOST, &self.host);
        if ask.body.is_some() {
            builder = builder.header(CONTENT_TYPE, "application/json");
        }
        if let Some(authorization) = authorization {
            builder = builder.header(AUTHORIZATION, authorization);
        }
        let body = Full::new(ask.body.clone().unwrap_or_default());
        builder.body(body).map_err(|error| NodeFault::Lost {
            call: ask.call,
            why: error.to_string(),
        })
    }

    async fn take(
        &mut self,
        connection: SendRequest<Full<Bytes>>,
        response: Response<Incoming>,
        ask: &Ask<'_>,
    ) -> Result<Answer, NodeFault> {
        let too_large = || NodeFault::TooLarge {
            call: ask.call,
            limit_bytes: ask.limit_bytes,
        };
        let status = response.status().as_u16();
        let mut body = response.into_body();
        let announced = body.size_hint().exact().unwrap_or(0);
        if announced > ask.limit_bytes as u64 {
            return Err(too_large());
        }
        let mut bytes = Vec::with_capacity(announced as usize);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| NodeFault::Lost {
                call: ask.call,
                why: chain(&error),
            })?;
            let data = frame.data_ref().map(AsRef::as_ref).unwrap_or_default();
            if bytes.len() + data.len() > ask.limit_bytes {
                return Err(too_large());
            }
            bytes.extend_from_slice(data);
        }
        self.connection = Some(connection);
        Ok(Answer { status, body: bytes })
    }
}

/// Returns the messages of an error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
