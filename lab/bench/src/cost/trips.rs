//! Round trips of a socket client with one request in flight, to a socket server that answers every request itself.

use super::setting::Setting;
use crate::client::LOST_AFTER_NS;
use crate::error::{Result, io};
use crate::gate::median;
use crate::netns::SERVER_ADDRESS;
use crate::servers::ServerThread;
use crate::sys;
use crate::workload::{Expect, Hash, Workload};
use lineside_wire::SPV_PORT;
use serde::Serialize;
use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Port of the echo servers. No service of Lineside has it.
pub const FOREIGN_PORT: u16 = 9_001;
/// Interval at which a waiting server checks whether it must stop.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Size in bytes of a write of a client that sends as much as it can.
const BULK_BYTES: usize = 64 * 1024;

/// Traffic that the fast path passes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Traffic {
    /// Requests of `spv` for TXIDs that are not in the fast-path table.
    Miss,
    /// UDP datagrams to a port without a service of Lineside.
    ForeignUdp,
    /// Messages on a TCP connection.
    ForeignTcp,
}

impl Traffic {
    /// All kinds of traffic.
    pub const ALL: [Self; 3] = [Self::Miss, Self::ForeignUdp, Self::ForeignTcp];

    /// Returns the name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Miss => "miss",
            Self::ForeignUdp => "foreign_udp",
            Self::ForeignTcp => "foreign_tcp",
        }
    }
}

/// Way in which a server waits for the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    /// The server sleeps until a request arrives.
    Blocking,
    /// The server polls its socket. Without the wake-up, the round trip is shorter.
    Polling,
}

impl Waiting {
    /// Both ways.
    pub const ALL: [Self; 2] = [Self::Blocking, Self::Polling];

    /// Returns the name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::Polling => "polling",
        }
    }

    fn timeout(self) -> Option<Duration> {
        (self == Self::Blocking).then_some(STOP_CHECK_INTERVAL)
    }
}

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub struct Trips {
    /// Number of requests that the client sent.
    pub sent: u64,
    /// Number of right replies.
    pub right: u64,
    /// Number of replies with other bytes.
    pub wrong: u64,
    /// Number of requests that the server received, by its own count.
    pub served: u64,
    /// Durations of the round trips after the warm-up, in nanoseconds.
    pub took_ns: Vec<u32>,
}

impl Trips {
    /// Returns the median of the round trips in nanoseconds; `None` without round trips.
    pub fn median_ns(&self) -> Option<f64> {
        median(self.took_ns.iter().map(|ns| f64::from(*ns)))
    }
}

/// Client's side of a run: sends requests and receives replies, without blocking.
trait Line {
    fn send(&mut self, request: &Hash) -> std::io::Result<()>;
    fn receive(&mut self, reply: &mut [u8; 64]) -> std::io::Result<usize>;
}

impl Line for UdpSocket {
    fn send(&mut self, request: &Hash) -> std::io::Result<()> {
        UdpSocket::send(self, request).map(drop)
    }

    fn receive(&mut self, reply: &mut [u8; 64]) -> std::io::Result<usize> {
        self.recv(reply)
    }
}

impl Line for TcpStream {
    fn send(&mut self, request: &Hash) -> std::io::Result<()> {
        self.write_all(request)
    }

    /// A reply of 32 bytes is one segment, which the kernel does not split.
    fn receive(&mut self, reply: &mut [u8; 64]) -> std::io::Result<usize> {
        self.read(reply)
    }
}

/// Sends requests one after another for `duration`, after a warm-up of an eighth of it.
fn ask(
    line: &mut impl Line,
    workload: &Workload,
    places: u64,
    expect: Expect,
    duration: Duration,
) -> Result<Trips> {
    let mut trips = Trips::default();
    let began_ns = sys::now_ns();
    let counts_from_ns = began_ns + duration.as_nanos() as u64 / 8;
    let ends_ns = counts_from_ns + duration.as_nanos() as u64;
    let mut bytes = [0; 64];
    loop {
        let sent_ns = sys::now_ns();
        if sent_ns >= ends_ns && !trips.took_ns.is_empty() {
            return Ok(trips);
        }
        let number = trips.sent % places;
        line.send(workload.request(number))
            .map_err(io("sending a request"))?;
        trips.sent += 1;
        loop {
            let got = match line.receive(&mut bytes) {
                Ok(count) => &bytes[..count],
                Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => {
                    if sys::now_ns() - sent_ns > LOST_AFTER_NS {
                        return Ok(trips);
                    }
                    continue;
                }
                Err(error) => return Err(io("receiving a reply")(error)),
            };
            let took_ns = sys::now_ns() - sent_ns;
            if got == workload.reply(number, expect) {
                trips.right += 1;
                if sent_ns >= counts_from_ns {
                    trips.took_ns.push(u32::try_from(took_ns).unwrap_or(u32::MAX));
                }
            } else {
                trips.wrong += 1;
            }
            break;
        }
    }
}

/// Starts the server of `traffic`, sends requests to it, and stops it. The client asks for the first `places` TXIDs of
/// the workload in turn. After a lost request the run ends early.
pub fn run(
    setting: &Setting,
    traffic: Traffic,
    waiting: Waiting,
    places: u64,
    duration: Duration,
) -> Result<Trips> {
    let served = Arc::new(AtomicU64::new(0));
    let server = start(setting, traffic, waiting, &served)?;
    let workload = &*setting.field.workload;
    let asked = setting.on_client(|| match traffic {
        Traffic::Miss | Traffic::ForeignUdp => {
            let (port, expect) = match traffic {
                Traffic::Miss => (SPV_PORT, Expect::Root),
                _ => (FOREIGN_PORT, Expect::Echo),
            };
            let mut socket = UdpSocket::bind("0.0.0.0:0").map_err(io("binding the client's socket"))?;
            socket
                .connect((SERVER_ADDRESS, port))
                .and_then(|()| socket.set_nonblocking(true))
                .map_err(io("connecting the client's socket"))?;
            ask(&mut socket, workload, places, expect, duration)
        }
        Traffic::ForeignTcp => {
            let mut stream =
                TcpStream::connect((SERVER_ADDRESS, FOREIGN_PORT)).map_err(io("connecting by TCP"))?;
            stream
                .set_nodelay(true)
                .and_then(|()| stream.set_nonblocking(true))
                .map_err(io("setting up the client's connection"))?;
            ask(&mut stream, workload, places, Expect::Echo, duration)
        }
    });
    server.end()?;
    let mut trips = asked?;
    trips.served = served.load(Relaxed);
    Ok(trips)
}

fn start(
    setting: &Setting,
    traffic: Traffic,
    waiting: Waiting,
    served: &Arc<AtomicU64>,
) -> Result<ServerThread> {
    let (served, tree) = (Arc::clone(served), Arc::clone(&setting.field.truth.tree));
    ServerThread::start(&setting.field.pair, move |stop, ready| {
        let count = || {
            served.fetch_add(1, Relaxed);
        };
        if traffic == Traffic::ForeignTcp {
            let listener = listen()?;
            let _ = ready.send(());
            return serve_tcp(&listener, stop, waiting, count).map_err(io("serving by TCP"));
        }
        let port = if traffic == Traffic::Miss {
            SPV_PORT
        } else {
            FOREIGN_PORT
        };
        let socket = UdpSocket::bind((SERVER_ADDRESS, port)).map_err(io("binding a server's socket"))?;
        socket
            .set_nonblocking(waiting == Waiting::Polling)
            .and_then(|()| socket.set_read_timeout(waiting.timeout()))
            .map_err(io("setting up a server's socket"))?;
        let _ = ready.send(());
        serve_udp(&socket, stop, |request| {
            count();
            match traffic {
                Traffic::Miss => tree.get(request).copied().unwrap_or_default(),
                _ => *request,
            }
        })
        .map_err(io("serving"))
    })
}

fn serve_udp(
    socket: &UdpSocket,
    stop: &AtomicBool,
    mut answer: impl FnMut(&Hash) -> Hash,
) -> std::io::Result<()> {
    let mut bytes = [0; 64];
    while !stop.load(Relaxed) {
        let (count, from) = match socket.recv_from(&mut bytes) {
            Ok(datagram) => datagram,
            Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => continue,
            Err(error) => return Err(error),
        };
        if let Ok(request) = <&Hash>::try_from(&bytes[..count]) {
            // A reply that cannot be sent counts as lost by the client, like any lost datagram.
            let _ = socket.send_to(&answer(request), from);
        }
    }
    Ok(())
}

fn listen() -> Result<TcpListener> {
    let listener =
        TcpListener::bind((SERVER_ADDRESS, FOREIGN_PORT)).map_err(io("binding a server's TCP socket"))?;
    listener
        .set_nonblocking(true)
        .map_err(io("setting up a server's TCP socket"))?;
    Ok(listener)
}

/// Waits for a connection; `None` if the server must stop.
fn accept(listener: &TcpListener, stop: &AtomicBool) -> std::io::Result<Option<TcpStream>> {
    while !stop.load(Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => return Ok(Some(stream)),
            Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn serve_tcp(
    listener: &TcpListener,
    stop: &AtomicBool,
    waiting: Waiting,
    count: impl Fn(),
) -> std::io::Result<()> {
    let Some(mut stream) = accept(listener, stop)? else {
        return Ok(());
    };
    stream.set_nodelay(true)?;
    stream.set_nonblocking(waiting == Waiting::Polling)?;
    stream.set_read_timeout(waiting.timeout())?;
    let mut bytes: Hash = [0; 32];
    while !stop.load(Relaxed) {
        match stream.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(got) => {
                count();
                stream.write_all(&bytes[..got])?;
            }
            Err(error) if matches!(error.kind(), WouldBlock | Interrupted | TimedOut) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sends bytes over one TCP connection for `duration`, as fast as the server reads them. Returns the number of bytes
/// that the server read, and the number of megabytes a second.
pub fn bulk(setting: &Setting, duration: Duration) -> Result<(u64, f64)> {
    let read_bytes = Arc::new(AtomicU64::new(0));
    let sum = Arc::clone(&read_bytes);
    let server = ServerThread::start(&setting.field.pair, move |stop, ready| {
        let listener = listen()?;
        let _ = ready.send(());
        let Some(mut stream) = accept(&listener, stop).map_err(io("accepting a connection"))? else {
            return Ok(());
        };
        let mut bytes = vec![0; BULK_BYTES];
        stream.set_nonblocking(false).map_err(io("serving by TCP"))?;
        loop {
            let got = stream.read(&mut bytes).map_err(io("serving by TCP"))?;
            if got == 0 {
                return Ok(());
            }
            sum.fetch_add(got as u64, Relaxed);
        }
    })?;
    let sent = setting.on_client(|| {
        let mut stream =
            TcpStream::connect((SERVER_ADDRESS, FOREIGN_PORT)).map_err(io("connecting by TCP"))?;
        stream
            .set_write_timeout(Some(Duration::from_nanos(LOST_AFTER_NS)))
            .map_err(io("setting up the client's connection"))?;
        let bytes = vec![0x5a; BULK_BYTES];
        let (began_ns, mut sent) = (sys::now_ns(), 0u64);
        let ends_ns = began_ns + duration.as_nanos() as u64;
        while sys::now_ns() < ends_ns {
            sent += stream.write(&bytes).map_err(io("sending by TCP"))? as u64;
        }
        Ok((sent, sys::now_ns() - began_ns))
    });
    server.end()?;
    let (sent, took_ns) = sent?;
    let read = read_bytes.load(Relaxed);
    Ok((read, sent.min(read) as f64 * 1e3 / took_ns.max(1) as f64))
}
