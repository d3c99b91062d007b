//! Parsers of addresses on the command line: ADDR:PORT, NAME:PORT, and the URL of a console.

use std::net::{SocketAddr, ToSocketAddrs};

/// Returns the address given as ADDR:PORT or NAME:PORT. If a name has several addresses, an IPv4 address is preferred,
/// because a server listens on IPv4 by default.
///
/// # Errors
/// The text has another form, or the name has no address.
pub fn parse(text: &str) -> Result<SocketAddr, String> {
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

/// Returns the address of a console, given as [`parse`] takes it or as a URL, such as `http://127.0.0.1:7700/status`.
///
/// # Errors
/// Those of [`parse`].
pub fn console(text: &str) -> Result<SocketAddr, String> {
    let authority = text.strip_prefix("http://").unwrap_or(text);
    parse(authority.split('/').next().unwrap_or(authority))
}

#[cfg(test)]
mod tests {
    use super::{console, parse};

    #[test]
    fn addresses_host_names_and_urls_are_parsed() {
        let local = "127.0.0.1:7700".parse().unwrap();
        for text in [
            "127.0.0.1:7700",
            "localhost:7700",
            "http://localhost:7700/status",
            "http://127.0.0.1:7700",
        ] {
            assert_eq!(console(text), Ok(local), "{text}");
        }
        assert_eq!(parse("[::1]:7701"), Ok("[::1]:7701".parse().unwrap()));
        for wrong in [
            "",
            "7701",
            "127.0.0.1",
            "localhost",
            "127.0.0.1:70000",
            "no such name:1",
        ] {
            let why = parse(wrong).unwrap_err();
            assert!(why.contains("ADDR:PORT or NAME:PORT"), "{wrong}: {why}");
        }
    }
}
