//! Ports of 127.0.0.1 for tests that run at the same time, in several processes.

use socket2::{Domain, Protocol, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixListener;
use std::sync::{Mutex, PoisonError};

/// Ports that [`free_port`] returns. They are below those that the kernel gives to connections, and to sockets that ask
/// for any port (32768 to 60999 by default).
const FREE_PORTS: std::ops::Range<u16> = 20_000..30_000;
/// Port of the service `discard`, which never sends anything.
const DISCARD_PORT: u16 = 9;

/// Returns a port that is free for UDP and TCP, for a server that takes it later or several times. No other call
/// returns it until this process ends, and no connection gets it.
///
/// # Panics
/// If all ports of the range are taken.
pub fn free_port() -> u16 {
    // An abstract Unix socket has a name that one process at a time can have, and that the kernel removes.
    static CLAIMS: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    let mut claims = CLAIMS.lock().unwrap_or_else(PoisonError::into_inner);
    for port in FREE_PORTS {
        let name = format!("lineside-test-port-{port}");
        let claim = std::os::unix::net::SocketAddr::from_abstract_name(name)
            .and_then(|name| UnixListener::bind_addr(&name));
        let address = (Ipv4Addr::LOCALHOST, port);
        if let Ok(claim) = claim {
            // A taken port is claimed, too, so that no further call tries it.
            claims.push(claim);
            if UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok() {
                return port;
            }
        }
    }
    panic!("no port of {FREE_PORTS:?} is free");
}

/// Port without a listener as long as this value exists: connections and datagrams to it are refused.
#[derive(Debug)]
pub struct ClosedPort {
    address: SocketAddr,
    /// Sockets that have the port, so that no other socket gets it.
    _sockets: [Socket; 2],
}

impl ClosedPort {
    /// Returns a port that is free for UDP and TCP.
    ///
    /// # Panics
    /// If the kernel gives no socket.
    pub fn new() -> Self {
        let socket = |kind, protocol| Socket::new(Domain::IPV4, kind, Some(protocol)).expect("a socket");
        loop {
            // A TCP socket that does not listen refuses connections. A UDP socket that is connected to another address
            // refuses the datagrams of all others.
            let (tcp, udp) = (
                socket(Type::STREAM, Protocol::TCP),
                socket(Type::DGRAM, Protocol::UDP),
            );
            let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            tcp.bind(&any.into()).expect("a port");
            let bound = tcp.local_addr().expect("an address");
            let discard = SocketAddr::from((Ipv4Addr::LOCALHOST, DISCARD_PORT));
            if let Some(address) = bound.as_socket()
                && udp.bind(&bound).is_ok()
                && udp.connect(&discard.into()).is_ok()
            {
                return Self {
                    address,
                    _sockets: [tcp, udp],
                };
            }
        }
    }

    /// Returns the address.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Default for ClosedPort {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::ErrorKind;
    use std::net::TcpStream;
    use std::time::Duration;

    #[test]
    fn a_closed_port_refuses_connections_and_datagrams() {
        let closed = ClosedPort::new();
        let connected = TcpStream::connect(closed.address());
        assert_eq!(connected.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.connect(closed.address()).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        socket.send(b"x").unwrap();
        let answer = socket.recv(&mut [0; 1]);
        assert_eq!(answer.unwrap_err().kind(), ErrorKind::ConnectionRefused);
        assert!(TcpListener::bind(closed.address()).is_err());
        assert!(UdpSocket::bind(closed.address()).is_err());
    }

    #[test]
    fn free_ports_differ_and_can_be_taken() {
        let threads: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(|| [0; 8].map(|_| free_port())))
            .collect();
        let mut ports: Vec<u16> = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 32);
        for port in ports {
            let address = (Ipv4Addr::LOCALHOST, port);
            assert!(UdpSocket::bind(address).is_ok() && TcpListener::bind(address).is_ok());
        }
    }
}
