//! A question over UDP: sent again until it is answered.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// First pause before a request is sent again; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Room for the longest reply, and one byte more so that a longer one shows.
const ROOM: usize = crate::PAYLOAD_BYTES_MAX + 1;

/// Why there is no answer.
#[derive(Debug)]
pub enum ExchangeError {
    /// Nothing came in time.
    Timeout {
        /// Who was asked.
        server: SocketAddr,
        /// How long.
        timeout: Duration,
    },
    /// The server's host was overloaded all the time.
    Busy(SocketAddr),
    /// The system's word.
    Io {
        /// Who was asked.
        server: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// Why a datagram is not the answer yet.
pub enum Again {
    /// It is another's, or broken: wait on.
    Wait,
    /// The server has no room: pause, then ask again.
    Busy,
}

/// A socket that only `server` is heard on.
///
/// # Errors
/// What the system says of a socket to that address.
pub fn open(server: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    let socket = UdpSocket::bind(any)?;
    // Connected: the kernel hands over only what the server sent.
    socket.connect(server)?;
    Ok(socket)
}

/// Sends `request` until `answer` takes a reply or the time is over. Returns also how often it was sent again.
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
    let io = |source| ExchangeError::Io { server, source };
    let end = Instant::now() + timeout;
    let (mut pause, mut sent, mut busy) = (FIRST_PAUSE, 0, false);
    let mut reply = [0; ROOM];
    while Instant::now() < end {
        match socket.send(request) {
            // The answer to an earlier request: nobody listens there. A server may be starting: go on until the end.
            Err(error) if error.kind() != ErrorKind::ConnectionRefused => return Err(io(error)),
            _ => sent += 1,
        }
        let again = (Instant::now() + pause).min(end);
        while let Some(left) = again
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
        {
            socket.set_read_timeout(Some(left)).map_err(io)?;
            match socket.recv(&mut reply).map(|bytes| answer(&reply[..bytes])) {
                Ok(Some(Ok(answer))) => return Ok((answer, sent - 1)),
                Ok(Some(Err(Again::Busy))) => {
                    busy = true;
                    std::thread::sleep(again.saturating_duration_since(Instant::now()));
                }
                Ok(_) => {}
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    ErrorKind::ConnectionRefused => {
                        std::thread::sleep(again.saturating_duration_since(Instant::now()));
                    }
                    _ => return Err(io(error)),
                },
            }
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Err(match busy {
        true => ExchangeError::Busy(server),
        false => ExchangeError::Timeout { server, timeout },
    })
}
