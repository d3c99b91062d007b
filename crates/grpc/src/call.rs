//! One call in progress: counts the bytes of its request as they arrive, and those of its answer until they have been
//! sent.

use crate::gate::{Connection, Gate};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http;

/// Size in bytes of the prefix that gRPC puts before a message.
const PREFIX_BYTES: usize = 5;
/// Maximum time that an answer waits for a notification before it checks again whether memory is free.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Messages that a call's client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// One message of at most this number of bytes, which must arrive within [`crate::Limits::message_wait`].
    One(usize),
    /// Any number of messages, of which at most this number of bytes is buffered at a time.
    Stream(usize),
}

/// A call that counts against the limits until it is dropped or, once it was answered, until the last byte of its
/// answer has been sent.
pub struct Call {
    counted: Arc<Counted>,
    in_use: InUse,
}

/// Guard for one call in progress: while it exists, the connection does not count as idle.
struct InUse(Arc<Connection>);

impl InUse {
    fn new(connection: Arc<Connection>) -> Self {
        connection.calls.fetch_add(1, Ordering::AcqRel);
        Self(connection)
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A call that the server's gate (its limits) counts.
pub(crate) struct Counted {
    gate: Arc<Gate>,
    connection: Arc<Connection>,
    /// True if [`Answers`] counts the answers of this call.
    is_stream: bool,
    /// Number of bytes that the call has taken from the gate's limit for its request.
    request_bytes: AtomicUsize,
    /// Number of bytes of answers that [`Answers`] has counted and that were dropped since HTTP/2 took the last part of
    /// the body. The next part contains their encoded form, so they stay counted until it is counted itself.
    encoded_bytes: AtomicUsize,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let bytes = self.request_bytes.load(Ordering::Acquire) + self.encoded_bytes.load(Ordering::Acquire);
        self.gate.give_back_bytes(&self.connection, bytes);
        self.gate.end_call(&self.connection);
    }
}

impl Call {
    pub(crate) fn new(gate: Arc<Gate>, connection: Arc<Connection>, message: Incoming) -> Self {
        gate.used(&connection);
        Self {
            in_use: InUse::new(Arc::clone(&connection)),
            counted: Arc::new(Counted {
                gate,
                connection,
                is_stream: matches!(message, Incoming::Stream(_)),
                request_bytes: AtomicUsize::new(0),
                encoded_bytes: AtomicUsize::new(0),
            }),
        }
    }

    pub(crate) fn counted(&self) -> Arc<Counted> {
        Arc::clone(&self.counted)
    }

    /// Returns the counter of answers that wait to be sent, for a call of [`Incoming::Stream`].
    pub fn answers(&self) -> Answers {
        Answers(Arc::clone(&self.counted))
    }

    /// Returns the answer in a form that counts its bytes until they have been sent.
    pub fn answer(self, response: http::Response<Body>) -> http::Response<Body> {
        response.map(|body| {
            Body::new(AnswerBody {
                inner: body,
                counted: self.counted,
                in_use: self.in_use,
                is_unread: false,
                is_cut: false,
            })
        })
    }
}

impl Counted {
    /// Takes bytes from the gate's limit for a part of the answer. Uses the bytes that the call took for its request
    /// first. Returns `None` if the limit is reached.
    fn take_for_answer(self: &Arc<Self>, bytes: Bytes) -> Option<Bytes> {
        let remaining = |had: usize| Some(had.saturating_sub(bytes.len()));
        let had = self
            .request_bytes
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, remaining);
        let had = had.unwrap_or_default().min(bytes.len());
        if self.is_stream {
            // [`Answers`] has already counted this answer, so the limit cannot refuse it. Only the difference between
            // the answer and its encoded form is taken or given back. If all bytes were given back and then taken
            // again, another answer could be admitted in between, and the limit would be exceeded until this client
            // reads.
            let (needed, encoded) = (bytes.len() - had, self.encoded_bytes.swap(0, Ordering::AcqRel));
            if needed >= encoded {
                self.gate.take_bytes_beyond(&self.connection, needed - encoded);
            } else {
                self.gate.give_back_bytes(&self.connection, encoded - needed);
            }
        } else if !self.gate.take_bytes(&self.connection, bytes.len() - had) {
            self.request_bytes.fetch_add(had, Ordering::AcqRel);
            return None;
        }
        Some(Bytes::from_owner(Sending {
            bytes,
            counted: Arc::clone(self),
        }))
    }
}

/// Counter of one call's answers that wait to be sent.
pub struct Answers(Arc<Counted>);

impl Answers {
    /// Counts an answer against the memory limit until its encoded form is counted. This is when HTTP/2 takes the next
    /// part of the call's body after the last clone of the answer was dropped. The answer also stops to count when the
    /// call ends. All clones must be in the message that is sent: if one is dropped after HTTP/2 has taken the message,
    /// the bytes stay counted until the next answer of the call. Returns `None` if the limit is reached now. An answer
    /// that is larger than one network's share is accepted if the network uses nothing else.
    pub fn count_until_encoded(&self, bytes: &Bytes) -> Option<Bytes> {
        let Counted { gate, connection, .. } = &*self.0;
        let is_kept = gate.take_bytes_alone(connection, bytes.len());
        is_kept.then(|| {
            Bytes::from_owner(Waiting {
                bytes: bytes.clone(),
                counted: Arc::clone(&self.0),
            })
        })
    }

    /// Waits until bytes were released, so that an answer may fit the limit.
    pub async fn freed(&self) {
        let freed = self.0.gate.freed.notified();
        // A client that does not read causes no notification, so the wait also ends after [`LOOK_AGAIN`].
        let _ = tokio::time::timeout(LOOK_AGAIN, freed).await;
    }
}

/// Answer that [`Answers`] has counted and that has not been encoded yet.
struct Waiting {
    bytes: Bytes,
    counted: Arc<Counted>,
}

impl AsRef<[u8]> for Waiting {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let encoded = &self.counted.encoded_bytes;
        encoded.fetch_add(self.bytes.len(), Ordering::AcqRel);
    }
}

/// Part of an answer that has not been sent yet.
struct Sending {
    bytes: Bytes,
    counted: Arc<Counted>,
}

impl AsRef<[u8]> for Sending {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let Counted { gate, connection, .. } = &*self.counted;
        gate.give_back_bytes(connection, self.bytes.len());
        gate.used(connection);
    }
}

/// Body of a request, whose bytes are counted against the gate's limit as they arrive.
pub(crate) struct RequestBody {
    inner: Body,
    counted: Arc<Counted>,
    message: Incoming,
    arrived_bytes: usize,
    until: Instant,
    /// Timer for the time limit of the message; created when the call first has to wait for the message.
    wait: Option<Pin<Box<Sleep>>>,
}

impl RequestBody {
    pub fn new(inner: Body, counted: Arc<Counted>, message: Incoming) -> Self {
        let until = Instant::now() + counted.gate.limits().message_wait;
        Self {
            inner,
            counted,
            message,
            arrived_bytes: 0,
            until,
            wait: None,
        }
    }

    fn take(&mut self, bytes: usize) -> Result<(), Status> {
        let before = self.arrived_bytes;
        self.arrived_bytes = before.saturating_add(bytes);
        let more = match self.message {
            Incoming::One(max) if self.arrived_bytes > max + PREFIX_BYTES => {
                return Err(Status::out_of_range(format!(
                    "the message is longer than {max} bytes"
                )));
            }
            Incoming::One(_) => bytes,
            Incoming::Stream(max) => self.arrived_bytes.min(max).saturating_sub(before),
        };
        let Counted {
            gate,
            connection,
            request_bytes,
            ..
        } = &*self.counted;
        if !gate.take_bytes(connection, more) {
            return Err(Status::resource_exhausted(
                "the server's memory limit for messages of calls is reached; try again later",
            ));
        }
        request_bytes.fetch_add(more, Ordering::AcqRel);
        Ok(())
    }

    fn poll_wait(&mut self, context: &mut Context<'_>) -> Poll<Status> {
        let until = self.until;
        let wait = self
            .wait
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        let late = || Status::deadline_exceeded("the call's message took too long to arrive");
        wait.as_mut().poll(context).map(|()| late())
    }
}

impl HttpBody for RequestBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                Poll::Ready(Some(self.take(bytes).map(|()| frame)))
            }
            Poll::Pending if matches!(self.message, Incoming::One(_)) => {
                self.poll_wait(context).map(|late| Some(Err(late)))
            }
            other => other,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

/// Body of an answer, whose bytes are counted against the gate's limit until they have been sent.
struct AnswerBody {
    inner: Body,
    counted: Arc<Counted>,
    in_use: InUse,
    /// True if a part of the body was handed to HTTP/2 and the next part was not requested yet.
    is_unread: bool,
    is_cut: bool,
}

impl AnswerBody {
    fn set_unread(&mut self, is_unread: bool) {
        let unread = &self.in_use.0.unread;
        match (self.is_unread, is_unread) {
            (false, true) => unread.fetch_add(1, Ordering::AcqRel),
            (true, false) => unread.fetch_sub(1, Ordering::AcqRel),
            _ => return,
        };
        self.is_unread = is_unread;
    }

    fn cut(&mut self) -> Frame<Bytes> {
        self.is_cut = true;
        let mut trailers = http::HeaderMap::new();
        let status =
            Status::resource_exhausted("the server's memory limit for answers is reached; try again later");
        // Adding the header cannot fail, because the text and the code are plain ASCII.
        let _ = status.add_header(&mut trailers);
        Frame::trailers(trailers)
    }
}

impl Drop for AnswerBody {
    fn drop(&mut self) {
        self.set_unread(false);
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.set_unread(false);
        if self.is_cut {
            return Poll::Ready(None);
        }
        let frame = match Pin::new(&mut self.inner).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => frame,
            other => return other,
        };
        let frame = match frame.into_data() {
            Err(frame) => frame,
            Ok(bytes) => match self.counted.take_for_answer(bytes) {
                Some(bytes) => {
                    self.set_unread(true);
                    Frame::data(bytes)
                }
                None => self.cut(),
            },
        };
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.is_cut || self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
#[path = "call_tests.rs"]
mod tests;
