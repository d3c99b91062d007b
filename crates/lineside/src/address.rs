//! Parsers of addresses on the command line: ADDR:PORT, NAME:PORT, and the URL of a console.

use std::fmt;
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};

/// Reason why a text cannot be used as an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// The text does not have a supported form. The user must correct the command line; the exit code is 2.
    Form(String),
    /// The text has a supported form, but the resolver of this machine knows no address for the name; the exit code is
    /// 1.
    Unresolved {
        /// The text.
        text: String,
        /// The resolver's reason.
        why: String,
    },
}

impl std::error::Error for AddressError {}

impl fmt::Display for AddressError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form(why) => out.write_str(why),
            Self::Unresolved { text, why } => {
                let what_to_do = "check the name, and the resolver of this machine";
                write!(out, "{text}: this name has no address ({why}); {what_to_do}")
            }
        }
    }
}

impl From<String> for AddressError {
    fn from(why: String) -> Self {
        Self::Form(why)
    }
}

/// Returns the address given as ADDR:PORT or NAME:PORT. If a name has several addresses, an IPv4 address is preferred,
/// because a server listens on IPv4 by default.
///
/// # Errors
/// The text does not have this form, or the name has no address.
pub fn parse(text: &str) -> Result<SocketAddr, AddressError> {
    let form = |why: &dyn fmt::Display| {
        AddressError::Form(format!(
            "{why}; write ADDR:PORT or NAME:PORT, as in 192.0.2.7:7701 or example.org:7701"
        ))
    };
    let unresolved = |why: &dyn fmt::Display| AddressError::Unresolved {
        text: text.into(),
        why: why.to_string(),
    };
    let is_host = |host: &str| !host.is_empty() && !host.contains(char::is_whitespace);
    if text.rsplit_once(':').is_some_and(|(host, _)| !is_host(host)) {
        return Err(form(&"no host name"));
    }
    let found = text.to_socket_addrs().map_err(|error| match error.kind() {
        // The port is missing or is not a number.
        ErrorKind::InvalidInput => form(&error),
        _ => unresolved(&error),
    })?;
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    let first = found.first().copied();
    first.ok_or_else(|| unresolved(&"the resolver found none"))
}

/// Returns the address of a console. The text has a form that [`parse`] accepts, or is a URL such as
/// `http://127.0.0.1:7700/status`.
///
/// # Errors
/// See [`parse`].
pub fn console(text: &str) -> Result<SocketAddr, AddressError> {
    let authority = text.strip_prefix("http://").unwrap_or(text);
    parse(authority.split('/').next().unwrap_or(authority))
}

#[cfg(test)]
mod tests {
    use super::{AddressError, console, parse};

    /// RFC 6761 keeps the domain `invalid` for names that never exist.
    #[test]
    fn a_name_without_an_address_is_no_error_of_form() {
        let why = parse("no-such-host.invalid:7701").unwrap_err();
        assert!(matches!(why, AddressError::Unresolved { .. }), "{why}");
    }

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
            assert!(matches!(why, AddressError::Form(_)), "{wrong}: {why}");
            assert!(
                why.to_string().contains("ADDR:PORT or NAME:PORT"),
                "{wrong}: {why}"
            );
        }
    }
}
