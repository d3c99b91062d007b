//! Parsers of command-line values: transaction ids, and servers by address or name.

use lineside_util::hex::{from_display, to_display};
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// TXID or WTXID, in wire byte order; its text form is that of block explorers (reversed bytes in hex).
#[derive(Clone, Copy)]
pub struct Id(pub [u8; 32]);

impl FromStr for Id {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        from_display(text)
            .map(Self)
            .ok_or_else(|| "a TXID or WTXID is 64 hex digits".to_owned())
    }
}

impl Id {
    /// Returns the text form of block explorers.
    pub fn text(&self) -> String {
        to_display(&self.0)
    }
}

/// Returns the address of a server given as ADDR:PORT or NAME:PORT. If a name has several addresses, an IPv4 address is
/// preferred, because a server listens on IPv4 by default.
pub fn server(text: &str) -> Result<SocketAddr, String> {
    let found = text.to_socket_addrs().map_err(|error| {
        format!("{error}; write ADDR:PORT or NAME:PORT, as in 192.0.2.7:7701 or example.org:7701")
    })?;
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    found
        .first()
        .copied()
        .ok_or_else(|| "this name has no address".to_owned())
}
