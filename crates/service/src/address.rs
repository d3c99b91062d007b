//! Addresses on the command line and in the configuration: ADDR:PORT, NAME:PORT, and the URL of a console. A name is
//! resolved once, when it is read.
//!
//! The functions [`serialize`] and [`deserialize`] are for a field of a configuration with the attribute
//! `#[serde(with = "lineside_service::address")]`; [`list`] is for a field with several addresses.

use serde::de::Visitor;
use serde::{Deserializer, Serializer};
use std::fmt;
use std::io::ErrorKind;
use std::net::{SocketAddr, ToSocketAddrs};

/// Text in the message of [`AddressError::Unresolved`] and of no other error.
const NO_ADDRESS: &str = "this name has no address";

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
                write!(out, "{text}: {NO_ADDRESS} ({why}); {what_to_do}")
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

/// Returns true if `message`, an error of the configuration, says that a host name has no address. The message is all
/// that serde keeps of an [`AddressError`].
pub fn is_unresolved(message: &str) -> bool {
    message.contains(NO_ADDRESS)
}

/// Writes an address as ADDR:PORT.
///
/// # Errors
/// Errors of the serializer.
pub fn serialize<S: Serializer>(address: &SocketAddr, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(address)
}

/// Reads an address that is written as ADDR:PORT or NAME:PORT.
///
/// # Errors
/// The value is not a text, or see [`parse`].
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    from.deserialize_str(AddressVisitor)
}

/// Reader of an address that says in its error what it expects.
struct AddressVisitor;

impl Visitor<'_> for AddressVisitor {
    type Value = SocketAddr;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an address, \"ADDR:PORT\" or \"NAME:PORT\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<SocketAddr, E> {
        parse(text).map_err(E::custom)
    }
}

/// Lists of addresses in a configuration: `#[serde(with = "lineside_service::address::list")]`.
pub mod list {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::net::SocketAddr;

    /// Writes each address as ADDR:PORT.
    ///
    /// # Errors
    /// Errors of the serializer.
    pub fn serialize<S: Serializer>(addresses: &[SocketAddr], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(addresses.iter().map(ToString::to_string))
    }

    /// Reads addresses that are written as ADDR:PORT or NAME:PORT.
    ///
    /// # Errors
    /// The value is not a list of texts, or see [`parse`](super::parse).
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SocketAddr>, D::Error> {
        let texts = Vec::<String>::deserialize(from)?;
        // The message of a wrong form lacks the text, which need not be in the line that the issue quotes.
        let parse = |text: &String| match super::parse(text) {
            Err(super::AddressError::Form(why)) => Err(format!("{text:?}: {why}")),
            other => other.map_err(|why| why.to_string()),
        };
        let parsed: Result<_, _> = texts.iter().map(parse).collect();
        parsed.map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::{AddressError, console, is_unresolved, parse};
    use crate::config::Section;
    use serde::{Deserialize, Serialize};
    use std::net::SocketAddr;
    use std::sync::Arc;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Example {
        #[serde(with = "super")]
        listen: SocketAddr,
        #[serde(with = "super::list")]
        servers: Vec<SocketAddr>,
    }

    impl Default for Example {
        fn default() -> Self {
            Self {
                listen: crate::config::loopback(7702),
                servers: Vec::new(),
            }
        }
    }

    #[test]
    fn a_configuration_may_name_hosts() {
        let text: Arc<str> =
            "[example]\nlisten = \"localhost:1\"\nservers = [\"localhost:2\", \"[::1]:3\"]\n".into();
        let mut section = Section::new("example", &text, None);
        let read: Example = section.read().expect("addresses");
        assert_eq!(read.listen, crate::config::loopback(1));
        let third = "[::1]:3".parse().expect("an address");
        assert_eq!(read.servers, [crate::config::loopback(2), third]);
        section.set("listen", "localhost:4");
        let read: Example = section.read().expect("addresses");
        assert_eq!(read.listen, crate::config::loopback(4));
    }

    /// The message has the key, the value and the reason.
    #[test]
    fn a_wrong_address_in_a_configuration_is_named() {
        for (value, cause, unresolved) in [
            ("localhost", "write ADDR:PORT or NAME:PORT", false),
            ("127.0.0.1:70000", "write ADDR:PORT or NAME:PORT", false),
            ("no-such-host.invalid:7702", "check the name", true),
        ] {
            let text: Arc<str> = format!("[example]\nlisten = \"{value}\"\n").into();
            let of_file = Section::new("example", &text, None).read::<Example>();
            let of_file = of_file.expect_err("no address");
            let mut section = Section::new("example", &"[example]\n".into(), None);
            section.set("listen", value);
            let of_option = section.read::<Example>().expect_err("no address");
            assert_eq!((of_file[0].line, of_option[0].line), (Some(2), None));
            for issue in [&of_file[0].what, &of_option[0].what] {
                for said in [&format!("listen = \"{value}\""), cause] {
                    assert!(issue.contains(said), "{issue:?} lacks {said:?}");
                }
                assert_eq!(is_unresolved(issue), unresolved, "{issue}");
            }
        }
    }

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
