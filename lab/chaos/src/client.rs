//! Clients that send one request at a time over UDP or TCP. They send a request again until it is answered.

use crate::packet::{Answer, HEADER_BYTES, Session, answer, be64, column, request, status, transfer};
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Time after which the client sends an unanswered request again.
const AGAIN_AFTER: Duration = Duration::from_millis(250);
/// Pause between a refused connection and the next attempt.
const PAUSE: Duration = Duration::from_millis(10);
/// Maximum size of a datagram in bytes.
const DATAGRAM_BYTES: usize = 1 << 16;

/// Client that sends requests to a server over one kind of transport.
pub trait Ask {
    /// Sends a request with a new id until an answer arrives or `patience` is over. Every repetition is the same
    /// packet, byte for byte.
    fn ask(&mut self, op: u8, body: &[u8], patience: Duration) -> Option<Answer>;

    /// Opens a session of `transfer`.
    fn open_transfer(&mut self, patience: Duration) -> Option<Session> {
        let body = self.open(transfer::OPEN, patience)?;
        Some(Session {
            token: be64(&body, 16),
            next: be64(&body, 24),
            slot: u32::from_be_bytes(body[32..36].try_into().ok()?),
        })
    }

    /// Opens a session of `column`.
    fn open_column(&mut self, patience: Duration) -> Option<Session> {
        let body = self.open(column::OPEN, patience)?;
        Some(Session {
            token: be64(&body, 16),
            next: 1,
            slot: u32::from_be_bytes(body[24..28].try_into().ok()?),
        })
    }

    /// Requests a challenge, and then a session by returning it. Returns the body of the reply, which has at least 40
    /// bytes.
    fn open(&mut self, op: u8, patience: Duration) -> Option<Vec<u8>> {
        let is_session = |answer: &Answer| answer.status == status::OK && answer.body.len() >= 40;
        let challenge = self.ask(op, &[0; 40], patience).filter(is_session)?;
        let mut body = challenge.body[..16].to_vec();
        body.resize(40, 0);
        Some(self.ask(op, &body, patience).filter(is_session)?.body)
    }
}

/// Client over UDP.
pub struct Client {
    socket: UdpSocket,
    next_id: u64,
}

impl Client {
    /// Returns a client of `server` whose request ids start at `first_id`.
    ///
    /// # Errors
    /// Fails if a socket cannot be opened.
    pub fn new(server: SocketAddr, first_id: u64) -> io::Result<Self> {
        let any: IpAddr = match server.is_ipv4() {
            true => Ipv4Addr::UNSPECIFIED.into(),
            false => Ipv6Addr::UNSPECIFIED.into(),
        };
        Self::from(any, server, first_id)
    }

    /// Returns a client that sends from the address `own`.
    ///
    /// # Errors
    /// Fails if a socket cannot be opened.
    pub fn from(own: IpAddr, server: SocketAddr, first_id: u64) -> io::Result<Self> {
        let socket = UdpSocket::bind((own, 0))?;
        socket.connect(server)?;
        socket.set_read_timeout(Some(AGAIN_AFTER))?;
        Ok(Self {
            socket,
            next_id: first_id,
        })
    }

    /// Sends a request with a new id once. Returns `None` if no answer arrives within `patience`.
    pub fn ask_once(&mut self, op: u8, body: &[u8], patience: Duration) -> Option<Answer> {
        let deadline = Instant::now() + patience;
        let id = self.next_id;
        self.send(op, body);
        let mut reply = vec![0; DATAGRAM_BYTES];
        while let Some(rest) = deadline.checked_duration_since(Instant::now()) {
            self.socket
                .set_read_timeout(Some(rest.max(Duration::from_millis(1))))
                .ok()?;
            if let Ok(bytes) = self.socket.recv(&mut reply)
                && let Some(answer) = answer(&reply[..bytes], op, id)
            {
                return Some(answer);
            }
        }
        None
    }

    /// Sends a request without waiting for the answer.
    pub fn send(&mut self, op: u8, body: &[u8]) {
        let packet = request(op, self.next_id, body);
        self.next_id += 1;
        self.send_raw(&packet);
    }

    /// Sends `packet` unchanged.
    pub fn send_raw(&self, packet: &[u8]) {
        // If the kernel refuses the datagram, it counts as lost, like any lost datagram.
        let _ = self.socket.send(packet);
    }

    /// Receives all replies that have arrived. Returns their number, and the length of the longest reply in bytes.
    pub fn drain(&self) -> (u64, usize) {
        let mut reply = vec![0; DATAGRAM_BYTES];
        let (mut count, mut longest) = (0, 0);
        let _ = self.socket.set_nonblocking(true);
        while let Ok(bytes) = self.socket.recv(&mut reply) {
            count += 1;
            longest = longest.max(bytes);
        }
        let _ = self.socket.set_nonblocking(false);
        (count, longest)
    }
}

impl Ask for Client {
    fn ask(&mut self, op: u8, body: &[u8], patience: Duration) -> Option<Answer> {
        let deadline = Instant::now() + patience;
        let id = self.next_id;
        self.next_id += 1;
        let packet = request(op, id, body);
        let mut reply = vec![0; DATAGRAM_BYTES];
        while Instant::now() < deadline {
            // If the daemon is down, the call may report an ICMP error that an earlier packet caused.
            let sent = Instant::now();
            let _ = self.socket.send(&packet);
            while sent.elapsed() < AGAIN_AFTER {
                match self.socket.recv(&mut reply) {
                    Ok(bytes) => {
                        if let Some(answer) = answer(&reply[..bytes], op, id) {
                            return Some(answer);
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                        std::thread::sleep(PAUSE);
                        break;
                    }
                    Err(_) => break,
                }
            }
        }
        None
    }
}

/// Client over TCP. It opens a new connection when a connection breaks.
pub struct StreamClient {
    server: SocketAddr,
    stream: Option<TcpStream>,
    next_id: u64,
}

impl StreamClient {
    /// Returns a client of `server` whose request ids start at `first_id`. The client connects when it sends its first
    /// request.
    pub fn new(server: SocketAddr, first_id: u64) -> Self {
        Self {
            server,
            stream: None,
            next_id: first_id,
        }
    }

    /// Sends `packet`, and reads replies until the reply to request `id` arrives.
    fn exchange(&mut self, packet: &[u8], op: u8, id: u64, patience: Duration) -> io::Result<Answer> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => TcpStream::connect_timeout(&self.server, patience)?,
        };
        stream.set_read_timeout(Some(patience))?;
        stream.write_all(packet)?;
        loop {
            let mut reply = vec![0; HEADER_BYTES];
            stream.read_exact(&mut reply)?;
            let length = usize::from(u16::from_be_bytes([reply[6], reply[7]]));
            reply.resize(HEADER_BYTES + length, 0);
            stream.read_exact(&mut reply[HEADER_BYTES..])?;
            if let Some(answer) = answer(&reply, op, id) {
                self.stream = Some(stream);
                return Ok(answer);
            }
        }
    }
}

impl Ask for StreamClient {
    fn ask(&mut self, op: u8, body: &[u8], patience: Duration) -> Option<Answer> {
        let deadline = Instant::now() + patience;
        let id = self.next_id;
        self.next_id += 1;
        let packet = request(op, id, body);
        while let Some(rest) = deadline.checked_duration_since(Instant::now()) {
            match self.exchange(&packet, op, id, rest.max(PAUSE)) {
                Ok(answer) => return Some(answer),
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
        None
    }
}
