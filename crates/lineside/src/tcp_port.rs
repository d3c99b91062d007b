//! TCP ports that a server will listen on.

use socket2::{Domain, Socket, Type};
use std::io;
use std::net::SocketAddr;

/// Checks that a TCP port is free, without listening: a client that can connect expects a server that answers.
///
/// # Errors
/// The system's error if the port is in use, or this process must not bind it.
pub fn require_free(address: SocketAddr) -> io::Result<()> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    // As for a listener, connections that ended a moment ago do not make the port a used one.
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_testkit::free_port;
    use std::io::ErrorKind;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    /// Number of connections that clients attempt while a port is checked repeatedly.
    const ATTEMPTS: u32 = 40_000;

    /// Regression test: the check listened for a moment, so a client that waited for the port could connect before the
    /// server served it, and before the server handled signals.
    #[test]
    fn no_client_can_connect_while_a_port_is_checked() {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let (attempts, connected) = (AtomicU32::new(0), AtomicU32::new(0));
        let is_over = || attempts.load(Relaxed) >= ATTEMPTS || connected.load(Relaxed) > 0;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !is_over() {
                        let is_connected = TcpStream::connect(address).is_ok();
                        connected.fetch_add(is_connected.into(), Relaxed);
                        attempts.fetch_add(1, Relaxed);
                    }
                });
            }
            while !is_over() {
                require_free(address).expect("the port is free");
            }
        });
        assert_eq!(connected.load(Relaxed), 0);
        let _used = TcpListener::bind(address).expect("a listener");
        let error = require_free(address).expect_err("the port is in use");
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
    }
}
