//! Determines the client of an HTTP request that a reverse proxy has forwarded.

use axum::http::HeaderMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// Function that returns true for the addresses of reverse proxies whose header `X-Forwarded-For` is trusted.
pub type TrustedProxies = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// Returns the client of a request that `peer` sent: the peer itself, or, if the peer is a trusted proxy, the last
/// address of `X-Forwarded-For` that is not a trusted proxy. Earlier addresses in the header are not trusted, because
/// the client itself may have written them. If the header is missing or one of its entries is not an address, the
/// function returns the address of the proxy itself.
pub(crate) fn client_of(peer: IpAddr, headers: &HeaderMap, is_trusted: &dyn Fn(IpAddr) -> bool) -> IpAddr {
    let mut client = peer;
    if !is_trusted(client) {
        return client;
    }
    let lines: Vec<_> = headers.get_all(FORWARDED_FOR).iter().collect();
    for line in lines.into_iter().rev() {
        // A header line that is not text counts as one entry that is not an address.
        let hops = line.to_str().unwrap_or_default();
        for hop in hops.rsplit(',') {
            let Some(address) = address_of(hop.trim()) else {
                return client;
            };
            client = address;
            if !is_trusted(client) {
                return client;
            }
        }
    }
    client
}

/// Reads an address in `X-Forwarded-For`. Some proxies add a port, or write an IPv6 address in brackets.
fn address_of(hop: &str) -> Option<IpAddr> {
    let with_port = || hop.parse().ok().map(|address: SocketAddr| address.ip());
    let in_brackets = || hop.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    hop.parse().ok().or_else(with_port).or_else(in_brackets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn the_last_address_that_is_not_a_trusted_proxy_is_the_client() {
        let is_trusted =
            |address: IpAddr| ["10.0.0.1", "10.0.0.2", "fd00::1"].contains(&&*address.to_string());
        for (peer, lines, expected) in [
            // A peer that is not trusted is the client, even if it sends the header.
            ("192.0.2.1", &["198.51.100.7"][..], "192.0.2.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["198.51.100.7:4711"], "198.51.100.7"),
            ("10.0.0.1", &["[2001:db8::7]:4711"], "2001:db8::7"),
            ("10.0.0.1", &["[2001:db8::7]"], "2001:db8::7"),
            // Addresses before the client were sent by the client itself.
            ("10.0.0.1", &["203.0.113.9, 198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["203.0.113.9", "198.51.100.7"], "198.51.100.7"),
            ("10.0.0.1", &["10.0.0.1, 198.51.100.7 ,10.0.0.2"], "198.51.100.7"),
            ("fd00::1", &["198.51.100.7", "10.0.0.2, 10.0.0.1"], "198.51.100.7"),
            ("10.0.0.1", &["10.0.0.2"], "10.0.0.2"),
            // A hop that is not an address ends the search at the proxy that wrote it.
            ("10.0.0.1", &["198.51.100.7, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.7, , 10.0.0.2"], "10.0.0.2"),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(FORWARDED_FOR, HeaderValue::from_static(line));
            }
            let found = client_of(peer.parse().expect("an address"), &headers, &is_trusted);
            assert_eq!(found.to_string(), expected, "{peer} {lines:?}");
        }
    }
}
