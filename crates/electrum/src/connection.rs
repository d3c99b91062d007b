//! Connection of one Electrum client: one task that reads lines, answers them in order, and writes the replies.
//!
//! ```text
//!            +------------------------ task ------------------------+
//! client --> | lines -> parse -> answer from chain and trees -> out | --> client
//!            |               \-> forward -> link ... reply  -> out  |
//! chain ---> | new generation -> notification               -> out  |
//!            +------------------------------------------------------+
//! ```
//!
//! Requests are answered one after the other, and a notification has the tip at the time when it is written. So no
//! notification of an older tip follows a reply that was computed with a newer tip. While a limit is reached, the task
//! reads no further data, and TCP flow control stops the client.

mod requests;

use crate::forward::Forwarder;
use crate::gate::Admitted;
use crate::limits::{Counters, Limits, count};
use crate::methods::{ClientView, notify};
use crate::rate::Rate;
use crate::reply;
use crate::request::{INVALID_REQUEST, RequestLine, RpcError, parse};
use crate::server::Shared;
use crate::version::Version;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::Instant;

/// Free bytes in the input buffer before data of a client is read: the initial number, and the number for a client that
/// has filled the buffer before.
const READ_BYTES: usize = 2 << 10;
const READ_BYTES_MAX: usize = 64 << 10;
/// Time without a request after which large buffers are freed.
const BUFFER_IDLE_TIME: Duration = Duration::from_secs(2);
/// Maximum number of lines of one client that are answered before the task yields to other clients.
const LINES_PER_TURN: usize = 64;
/// Number of requests that one invalid line counts as, in the limit on the rate.
const FAULT_COST: u32 = 5;

/// Reason why no further line is answered now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// There is no complete line.
    Input,
    /// The client does not read, or too many of its requests wait for the upstream server.
    Full,
    /// The upstream server does not read.
    Upstream,
    /// The rate limit is reached until this time, in nanoseconds since the start of the server.
    Rate(u64),
}

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    Open,
    /// The client has ended its side of the connection; the requests that it sent before are still answered.
    Ended,
    /// The client broke a limit: no further line is answered, and the connection ends when the replies are written.
    Refused,
}

struct Client {
    shared: Arc<Shared>,
    admitted: Admitted,
    view: ClientView,
    is_negotiated: bool,
    has_requested: bool,
    input: Vec<u8>,
    /// Number of bytes of `input` that were searched and contain no end of a line.
    searched: usize,
    out: Vec<u8>,
    /// Number of bytes of `out` that were written to the connection.
    written: usize,
    forwarder: Forwarder,
    rate: Rate,
    line_since: u64,
    request_at: u64,
    progress_at: u64,
    /// True if TLS may still buffer bytes that were written.
    is_unflushed: bool,
    state: ConnectionState,
}

/// Writes some of `bytes` and returns their number, or flushes the writer if `bytes` is empty. No data is lost if this
/// future is cancelled.
async fn push(writer: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> std::io::Result<usize> {
    match bytes {
        [] => writer.flush().await.map(|()| 0),
        bytes => match writer.write(bytes).await? {
            0 => Err(std::io::ErrorKind::WriteZero.into()),
            written => Ok(written),
        },
    }
}

/// Serves one client until it disconnects, a limit is reached, or the server stops.
pub(crate) async fn serve<S>(
    stream: S,
    is_tls: bool,
    admitted: Admitted,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite,
{
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut changes = shared.answers.chain.changes();
    let mut client = Client::new(shared, admitted);
    let timer = tokio::time::sleep(Duration::ZERO);
    tokio::pin!(timer);
    loop {
        let pause = client.work().await;
        if client.is_done(pause) {
            break;
        }
        if !client.account() {
            count(&client.counters().closed_memory);
            break;
        }
        let due = client.instant(client.next_deadline(pause));
        if due < timer.deadline() || timer.is_elapsed() {
            timer.as_mut().reset(due);
        }
        let has_room = client.queued() < client.limits().queued_bytes;
        let may_read = pause == Pause::Input && client.state == ConnectionState::Open;
        tokio::select! {
            _ = stopped.changed() => break,
            written = push(&mut writer, &client.out[client.written..]), if client.is_unwritten() => match written {
                Ok(bytes) => client.wrote(bytes, is_tls),
                Err(_) => break,
            },
            read = reader.read_buf(&mut client.input), if may_read => match read {
                Ok(0) => client.state = ConnectionState::Ended,
                Ok(_) => {}
                Err(_) => break,
            },
            event = client.forwarder.next(pause == Pause::Upstream), if has_room => if let Some(event) = event {
                client.upstream(event);
            },
            changed = changes.changed(), if client.view.is_subscribed && has_room => match changed {
                Ok(()) => client.notify(),
                // The chain was dropped, so the server is about to stop.
                Err(_) => break,
            },
            () = &mut timer => if let Some(counter) = client.overdue() {
                count(counter);
                break;
            },
        }
    }
    // An error is ignored, because the client may have disconnected. The timeout ends the wait for a client that does
    // not read.
    let _ = tokio::time::timeout(Duration::from_millis(100), writer.shutdown()).await;
}

impl Client {
    fn new(shared: Arc<Shared>, admitted: Admitted) -> Self {
        let limits = &shared.answers.limits;
        let rate = Rate::new(limits.requests_per_second, limits.burst);
        let now = shared.now();
        Self {
            forwarder: Forwarder::new(Arc::clone(&shared)),
            shared,
            admitted,
            view: ClientView {
                version: Version::V1_4,
                is_subscribed: false,
                last_tip_sent: None,
                memo: None,
                proof: None,
            },
            is_negotiated: false,
            has_requested: false,
            input: Vec::new(),
            searched: 0,
            out: Vec::new(),
            written: 0,
            rate,
            line_since: now,
            request_at: now,
            progress_at: now,
            is_unflushed: false,
            state: ConnectionState::Open,
        }
    }

    fn limits(&self) -> &Limits {
        &self.shared.answers.limits
    }

    fn counters(&self) -> &Counters {
        &self.shared.answers.counters
    }

    fn instant(&self, time: u64) -> Instant {
        Instant::from_std(self.shared.start + Duration::from_nanos(time))
    }

    /// Returns the number of bytes that the client has not read yet.
    fn queued(&self) -> usize {
        self.out.len() - self.written
    }

    /// Returns true while the operating system has not accepted all bytes of the replies.
    fn is_unwritten(&self) -> bool {
        self.queued() > 0 || self.is_unflushed
    }

    fn is_done(&self, pause: Pause) -> bool {
        match self.state {
            ConnectionState::Open => false,
            ConnectionState::Ended => {
                pause == Pause::Input && !self.is_unwritten() && self.forwarder.in_flight() == 0
            }
            ConnectionState::Refused => !self.is_unwritten(),
        }
    }

    fn wrote(&mut self, bytes: usize, is_tls: bool) {
        self.written += bytes;
        self.is_unflushed = is_tls && bytes > 0;
        self.progress_at = self.shared.now();
        if self.written == self.out.len() {
            self.out.clear();
            self.written = 0;
        }
    }

    /// Answers complete lines until there is none or a limit is reached.
    async fn work(&mut self) -> Pause {
        let mut now = self.shared.now();
        self.begin_output();
        let had_part = self.searched > 0;
        let input = std::mem::take(&mut self.input);
        let (mut start, mut lines) = (0, 0);
        let pause = loop {
            if self.state == ConnectionState::Refused {
                break Pause::Full;
            }
            self.forwarder.renew(self.view.version, now);
            let limits = self.limits();
            if self.queued() >= limits.queued_bytes || self.forwarder.in_flight() >= limits.in_flight {
                break Pause::Full;
            }
            if self.forwarder.is_full() {
                break Pause::Upstream;
            }
            let unsearched = start + self.searched;
            let Some(length) = memchr::memchr(b'\n', &input[unsearched..]) else {
                self.searched = input.len() - start;
                break Pause::Input;
            };
            if let Some(until) = self.rate.wait(now) {
                count(&self.counters().throttled);
                break Pause::Rate(until);
            }
            let end = unsearched + length;
            self.line(&input[start..end], now).await;
            (start, self.searched) = (end + 1, 0);
            lines += 1;
            if lines % LINES_PER_TURN == 0 {
                tokio::task::yield_now().await;
                now = self.shared.now();
            }
        };
        self.input = input;
        if start > 0 || (!had_part && self.has_requested) {
            self.line_since = now;
        }
        self.compact_input(start, pause);
        pause
    }

    /// Keeps the part of the input that was not answered, and provides space for more.
    fn compact_input(&mut self, start: usize, pause: Pause) {
        let was_full = self.input.len() == self.input.capacity();
        self.input.drain(..start);
        if pause != Pause::Input {
            self.searched = 0;
        }
        if self.searched > self.limits().line_bytes && self.state == ConnectionState::Open {
            self.refuse_line();
        }
        if self.state == ConnectionState::Refused {
            self.input.clear();
            self.searched = 0;
        }
        if pause == Pause::Input && self.state == ConnectionState::Open {
            let free = self.input.capacity() - self.input.len();
            if free < READ_BYTES {
                let wanted_capacity = if was_full { 2 * self.input.capacity() } else { 0 };
                self.input
                    .reserve(wanted_capacity.clamp(READ_BYTES, READ_BYTES_MAX));
            }
        }
    }

    /// Answers a line that is too long with an error, and closes the connection.
    fn refuse_line(&mut self) {
        count(&self.counters().closed_line);
        count(&self.counters().errors);
        let max = self.limits().line_bytes;
        let error = RpcError::new(
            INVALID_REQUEST,
            format!("the line is too long: a line has at most {max} bytes"),
        );
        reply::error(&mut self.out, None, &error);
        self.out.push(b'\n');
        self.state = ConnectionState::Refused;
    }

    async fn line(&mut self, line: &[u8], now: u64) {
        if line.trim_ascii().is_empty() {
            return self.rate.charge(now, 1);
        }
        if line.len() > self.limits().line_bytes {
            return self.refuse_line();
        }
        self.request_at = now;
        match parse(line, self.limits().batch) {
            Err(fault) => {
                count(&self.counters().errors);
                self.rate.charge(now, FAULT_COST);
                reply::error(&mut self.out, fault.id, &fault.error);
                self.out.push(b'\n');
            }
            Ok(RequestLine::One(request)) => {
                self.rate.charge(now, 1);
                self.one(&request, now).await;
            }
            Ok(RequestLine::Batch(batch)) => {
                self.rate.charge(now, batch.len() as u32);
                self.batch(&batch, now).await;
            }
        }
    }

    /// Starts to measure how long the client does not read its replies, if all earlier replies were written. Without
    /// this, a long time without any reply would count as time in which the client does not read.
    fn begin_output(&mut self) {
        if !self.is_unwritten() {
            self.progress_at = self.shared.now();
        }
    }

    fn upstream(&mut self, event: crate::upstream::Event) {
        let now = self.shared.now();
        self.begin_output();
        self.forwarder.take(event, now, &mut self.out);
    }

    fn notify(&mut self) {
        self.begin_output();
        if notify(&self.shared.answers, &mut self.view, &mut self.out) {
            count(&self.counters().notifications);
        }
    }

    /// Records how much memory the client uses now. Returns false if this exceeds the memory limit.
    fn account(&mut self) -> bool {
        let bytes = self.input.capacity() + self.out.capacity() + self.forwarder.memory_bytes();
        self.admitted.set_memory(bytes)
    }

    /// Returns the next time at which a time limit may end.
    fn next_deadline(&self, pause: Pause) -> u64 {
        let after = |start: u64, time: Duration| start + time.as_nanos() as u64;
        let limits = self.limits();
        let mut due = after(self.request_at, limits.idle);
        if self.is_waiting_for_line() {
            due = due.min(after(self.line_since, limits.line_time));
        }
        if self.is_unwritten() {
            due = due.min(after(self.progress_at, limits.stall));
        }
        if self.state == ConnectionState::Refused {
            return due;
        }
        if let Pause::Rate(until) = pause {
            due = due.min(until);
        }
        if self.has_large_buffers() {
            due = due.min(after(self.request_at, BUFFER_IDLE_TIME));
        }
        self.forwarder
            .next_deadline()
            .map_or(due, |forwarder| due.min(forwarder))
    }

    fn is_waiting_for_line(&self) -> bool {
        !self.has_requested || self.searched > 0
    }

    fn has_large_buffers(&self) -> bool {
        let is_large = |buffer: &Vec<u8>| buffer.is_empty() && buffer.capacity() > 2 * READ_BYTES;
        is_large(&self.input) || is_large(&self.out)
    }

    /// Handles time limits that have ended. If the connection must end, returns the counter for the reason.
    fn overdue(&mut self) -> Option<&AtomicU64> {
        let now = self.shared.now();
        let is_over = |start: u64, time: Duration| now >= start + time.as_nanos() as u64;
        let limits = self.limits();
        if self.is_unwritten() && is_over(self.progress_at, limits.stall) {
            return Some(&self.counters().closed_stalled);
        }
        let is_late = self.is_waiting_for_line() && is_over(self.line_since, limits.line_time);
        if is_late || is_over(self.request_at, limits.idle) {
            return Some(&self.counters().closed_idle);
        }
        if self.has_large_buffers() && is_over(self.request_at, BUFFER_IDLE_TIME) {
            for buffer in [&mut self.input, &mut self.out] {
                if buffer.is_empty() {
                    *buffer = Vec::new();
                }
            }
        }
        self.begin_output();
        self.forwarder.expire(now, &mut self.out);
        None
    }
}
