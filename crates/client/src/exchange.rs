//! Request and reply over UDP for clients: sends a request again, at growing intervals, until a reply arrives or the
//! time is over.

use crate::ClientError;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Time between sending a request and sending it again the first time; the time doubles with each repetition.
const RESEND_PAUSE_FIRST: Duration = Duration::from_millis(20);
const RESEND_PAUSE_MAX: Duration = Duration::from_secs(1);
/// Size of the receive buffer: one byte more than the longest reply, so that a longer datagram is detected.
const RECEIVE_BUFFER_BYTES: usize = lineside_wire::PAYLOAD_BYTES_MAX + 1;

/// Reason why there is no reply.
#[derive(Debug)]
pub enum ExchangeError {
    /// No reply arrived in time.
    Timeout {
        /// Server that was asked.
        server: SocketAddr,
        /// Time waited.
        timeout: Duration,
    },
    /// The server answered `busy`, and nothing else until the time was over.
    Busy {
        /// Server that was asked.
        server: SocketAddr,
        /// Time waited.
        timeout: Duration,
        /// True if every copy of the request was answered `busy`, so that none was executed.
        is_every_copy: bool,
    },
    /// A system call failed.
    Io {
        /// Server that was asked.
        server: SocketAddr,
        /// Error of the system call.
        source: io::Error,
        /// True if a copy of the request was sent before.
        is_sent: bool,
    },
}

/// Reason why a datagram does not end the exchange.
pub enum Again {
    /// The datagram is malformed or belongs to another request: keep waiting.
    Wait,
    /// Reply `busy`: pause, then send the request again.
    Busy,
}

/// Opens a UDP socket that is connected to `server`, so that it receives datagrams from `server` only.
///
/// # Errors
/// The system's error if the socket cannot be opened or connected.
pub fn open(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    // The kernel delivers to a connected socket only datagrams from its peer.
    socket.connect(server)?;
    Ok(socket)
}

/// Socket of a client, with what all requests through it have in common.
#[derive(Debug)]
pub(crate) struct Link {
    /// Server that the socket is connected to.
    pub server: SocketAddr,
    /// Socket of the client.
    pub socket: UdpSocket,
    /// Maximum time to wait for a reply.
    pub timeout: Duration,
    /// Number of requests that were repeated.
    pub resent: u64,
    next_id: u64,
}

impl Link {
    /// Opens a socket like [`open`]. The id of the first request is random, so that an attacker who does not see the
    /// requests cannot forge replies.
    ///
    /// # Errors
    /// [`ClientError::Io`] if the socket cannot be opened or connected, or if there is no random number.
    pub fn open(server: SocketAddr, timeout: Duration) -> Result<Self, ClientError> {
        let opened =
            open(server).and_then(|socket| Ok((socket, getrandom::u64().map_err(io::Error::other)?)));
        let (socket, next_id) = opened.map_err(|source| ClientError::Io { server, source })?;
        Ok(Self {
            server,
            socket,
            timeout,
            resent: 0,
            next_id,
        })
    }

    /// Returns the id of the next request.
    pub fn take_id(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        id
    }

    /// Sends `request` and returns its reply, as [`exchange`] does, and counts repetitions in [`Link::resent`].
    ///
    /// # Errors
    /// See [`ExchangeError`].
    pub fn exchange<T>(
        &mut self,
        request: &[u8],
        answer: impl Fn(&[u8]) -> Option<Result<T, Again>>,
    ) -> Result<T, ExchangeError> {
        let (answer, resent) = exchange(&self.socket, self.server, self.timeout, request, answer)?;
        self.resent += resent;
        Ok(answer)
    }
}

/// Sends `request` repeatedly until `answer` accepts a reply or `timeout` has passed. `answer` is called with each
/// datagram: it returns the result, an [`Again`] to continue, or `None` to ignore the datagram. Returns the result and
/// the number of retransmissions.
///
/// # Errors
/// See [`ExchangeError`].
pub fn exchange<T>(
    socket: &UdpSocket,
    server: SocketAddr,
    timeout: Duration,
    request: &[u8],
    answer: impl Fn(&[u8]) -> Option<Result<T, Again>>,
) -> Result<(T, u64), ExchangeError> {
    let io = |source, sent: u64| ExchangeError::Io {
        server,
        source,
        is_sent: sent > 0,
    };
    let end = Instant::now() + timeout;
    let (mut pause, mut sent, mut busy) = (RESEND_PAUSE_FIRST, 0, 0);
    let mut reply = [0; RECEIVE_BUFFER_BYTES];
    while Instant::now() < end {
        match socket.send(request) {
            // ECONNREFUSED means that no socket listens at the server's port (ICMP reply to an earlier request). The
            // server may still be starting, so the client continues until the timeout.
            Err(error) if error.kind() != ErrorKind::ConnectionRefused => return Err(io(error, sent)),
            _ => sent += 1,
        }
        let resend_at = (Instant::now() + pause).min(end);
        while let Some(left) = resend_at
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
        {
            socket
                .set_read_timeout(Some(left))
                .map_err(|error| io(error, sent))?;
            match socket.recv(&mut reply).map(|bytes| answer(&reply[..bytes])) {
                Ok(Some(Ok(answer))) => return Ok((answer, sent - 1)),
                Ok(Some(Err(Again::Busy))) => {
                    busy += 1;
                    std::thread::sleep(resend_at.saturating_duration_since(Instant::now()));
                }
                Ok(_) => {}
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    ErrorKind::ConnectionRefused => {
                        std::thread::sleep(resend_at.saturating_duration_since(Instant::now()));
                    }
                    _ => return Err(io(error, sent)),
                },
            }
        }
        pause = (pause * 2).min(RESEND_PAUSE_MAX);
    }
    Err(match busy {
        0 => ExchangeError::Timeout { server, timeout },
        busy => ExchangeError::Busy {
            server,
            timeout,
            is_every_copy: busy >= sent,
        },
    })
}
