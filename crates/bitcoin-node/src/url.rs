//! URL in the configuration that names the node to follow: parser, and display without secrets.

use crate::secret::Secret;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Node that a configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeUrl {
    /// Bitcoin Core, or a node with its RPC: `bitcoind://[USER[:PASSWORD]@]HOST:PORT`.
    Bitcoind(Endpoint),
    /// btcd with TLS: `btcd://[USER[:PASSWORD]@]HOST:PORT`.
    Btcd(Endpoint),
    /// btcd that was started with `--notls`: `btcd+notls://[USER[:PASSWORD]@]HOST:PORT`. The password and all answers
    /// are sent in clear text, so use it on one host or in a protected network.
    BtcdNoTls(Endpoint),
    /// Directory with block files of Bitcoin Core: `blocks-dir:PATH`.
    BlocksDir(PathBuf),
}

/// Address of a node's RPC, and its user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// User, after percent-decoding.
    pub user: Option<String>,
    /// Password, after percent-decoding.
    pub password: Option<Secret>,
    /// Name or IP address of the host; IPv6 without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

/// Reason why a text is not a node's URL. No message repeats the text, because it may contain a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// The text has no known form.
    #[error(
        "node: this is not the URL of a node; write bitcoind://[USER[:PASSWORD]@]HOST:PORT, \
         btcd://USER[:PASSWORD]@HOST:PORT, btcd+notls://USER[:PASSWORD]@HOST:PORT or blocks-dir:PATH"
    )]
    Form,
    /// Nothing follows `blocks-dir:`.
    #[error(
        "node: the path after blocks-dir: is missing; write blocks-dir:PATH, where PATH is the directory with \
         blk00000.dat"
    )]
    NoPath,
    /// The host is missing or malformed.
    #[error(
        "node: the part before the port is not the name or address of a host; write HOST:PORT, \
         or [ADDRESS]:PORT for IPv6"
    )]
    Host,
    /// The port is missing or is not a number from 1 to 65535.
    #[error(
        "node: the port is missing or not a number from 1 to 65535; write HOST:PORT \
         (bitcoind listens on 8332, btcd on 8334)"
    )]
    Port,
    /// A path follows the port.
    #[error(
        "node: the URL of a node has no path after the port; remove it (write %2F for a `/` in the password)"
    )]
    Path,
    /// The user or the password is malformed.
    #[error(
        "node: the user is empty, or USER:PASSWORD has a `%` without two hexadecimal digits; write %25 for `%`"
    )]
    User,
}

impl NodeUrl {
    /// Returns the address; `None` for a directory.
    pub fn endpoint(&self) -> Option<&Endpoint> {
        match self {
            NodeUrl::Bitcoind(endpoint) | NodeUrl::Btcd(endpoint) | NodeUrl::BtcdNoTls(endpoint) => {
                Some(endpoint)
            }
            NodeUrl::BlocksDir(_) => None,
        }
    }

    fn scheme(&self) -> &'static str {
        match self {
            NodeUrl::Bitcoind(_) => "bitcoind",
            NodeUrl::Btcd(_) => "btcd",
            NodeUrl::BtcdNoTls(_) => "btcd+notls",
            NodeUrl::BlocksDir(_) => "blocks-dir",
        }
    }

    /// Returns the URL without user and password, for messages and status pages.
    pub fn describe(&self) -> String {
        match self {
            NodeUrl::BlocksDir(path) => format!("blocks-dir:{}", path.display()),
            _ => {
                let authority = self.endpoint().map(Endpoint::authority).unwrap_or_default();
                format!("{}://{authority}", self.scheme())
            }
        }
    }
}

impl Endpoint {
    /// Returns `HOST:PORT`, with brackets around an IPv6 address.
    pub fn authority(&self) -> String {
        let Endpoint { host, port, .. } = self;
        if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        }
    }

    fn parse(text: &str) -> Result<Endpoint, UrlError> {
        // The last `@` separates user and host, because a password may contain `@`, but a host may not.
        let (user, address) = match text.rsplit_once('@') {
            Some((user, address)) => (Some(user), address),
            None => (None, text),
        };
        let (user, password) = match user {
            None => (None, None),
            Some(user) => {
                let (user, password) = match user.split_once(':') {
                    Some((user, password)) => (user, Some(password)),
                    None => (user, None),
                };
                let user = percent_decoded(user).filter(|user| !user.is_empty() && !user.contains(':'));
                let password = password.map(|text| percent_decoded(text).ok_or(UrlError::User));
                (
                    Some(user.ok_or(UrlError::User)?),
                    password.transpose()?.map(Secret::new),
                )
            }
        };
        let (address, path) = match address.find('/') {
            Some(at) => address.split_at(at),
            None => (address, ""),
        };
        if !matches!(path, "" | "/") {
            return Err(UrlError::Path);
        }
        let (host, port) = address.rsplit_once(':').ok_or(UrlError::Port)?;
        let digits = port.bytes().all(|byte| byte.is_ascii_digit());
        let port = port.parse().ok().filter(|port| *port != 0 && digits);
        Ok(Endpoint {
            user,
            password,
            host: host_of(host)?,
            port: port.ok_or(UrlError::Port)?,
        })
    }
}

fn host_of(text: &str) -> Result<String, UrlError> {
    let wrong = || UrlError::Host;
    if let Some(inner) = text.strip_prefix('[') {
        let inner = inner.strip_suffix(']').ok_or_else(wrong)?;
        let address: std::net::Ipv6Addr = inner.parse().map_err(|_| wrong())?;
        return Ok(address.to_string());
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if text.is_empty() || text.len() > 253 || !text.bytes().all(is_name) {
        return Err(wrong());
    }
    Ok(text.into())
}

/// Decodes percent-encoding (RFC 3986, section 2.1).
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok()?;
        let [byte] = lineside_util::hex::array_from_hex(digits)?;
        bytes.push(byte);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}

impl FromStr for NodeUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<NodeUrl, UrlError> {
        if let Some(path) = text.strip_prefix("blocks-dir:") {
            return match path {
                "" => Err(UrlError::NoPath),
                path => Ok(NodeUrl::BlocksDir(path.into())),
            };
        }
        let (scheme, rest) = text.split_once("://").ok_or(UrlError::Form)?;
        let node = match scheme {
            "bitcoind" => NodeUrl::Bitcoind,
            "btcd" => NodeUrl::Btcd,
            "btcd+notls" => NodeUrl::BtcdNoTls,
            _ => return Err(UrlError::Form),
        };
        Endpoint::parse(rest).map(node)
    }
}

impl fmt::Display for NodeUrl {
    /// Writes the URL with `***` in place of its password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.endpoint() {
            Some(Endpoint { user, password, .. }) if user.is_some() || password.is_some() => {
                let user = user.as_deref().unwrap_or_default();
                let password = password.as_ref().map_or("", |_| ":***");
                let authority = self.endpoint().map(Endpoint::authority).unwrap_or_default();
                write!(f, "{}://{user}{password}@{authority}", self.scheme())
            }
            _ => f.write_str(&self.describe()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<NodeUrl, UrlError> {
        text.parse()
    }

    #[test]
    fn every_form_of_url_is_parsed() {
        let url = parsed("bitcoind://alice:p%40ss:w@rd@node-1.example:8332").unwrap();
        let endpoint = url.endpoint().unwrap();
        assert_eq!(endpoint.user.as_deref(), Some("alice"));
        assert_eq!(endpoint.password.as_ref().unwrap().reveal(), "p@ss:w@rd");
        assert_eq!((endpoint.host.as_str(), endpoint.port), ("node-1.example", 8332));
        assert_eq!(url.describe(), "bitcoind://node-1.example:8332");
        assert_eq!(url.to_string(), "bitcoind://alice:***@node-1.example:8332");

        let url = parsed("btcd://u@[::1]:8334/").unwrap();
        assert_eq!(url.to_string(), "btcd://u@[::1]:8334");
        assert_eq!(url.endpoint().unwrap().host, "::1");
        assert!(matches!(url, NodeUrl::Btcd(_)));
        assert!(matches!(
            parsed("btcd+notls://127.0.0.1:18556"),
            Ok(NodeUrl::BtcdNoTls(_))
        ));
        let path = parsed("blocks-dir:/var/lib/bitcoin/blocks").unwrap();
        assert_eq!(path, NodeUrl::BlocksDir("/var/lib/bitcoin/blocks".into()));
        assert_eq!(path.to_string(), "blocks-dir:/var/lib/bitcoin/blocks");
    }

    #[test]
    fn an_error_names_the_wrong_part_of_the_url_and_never_the_password() {
        for (text, expected) in [
            ("", UrlError::Form),
            ("node:8332", UrlError::Form),
            ("http://u:secret@node:8332", UrlError::Form),
            ("blocks-dir:", UrlError::NoPath),
            ("bitcoind://u:secret@node", UrlError::Port),
            ("bitcoind://u:secret@node:", UrlError::Port),
            ("bitcoind://node:0", UrlError::Port),
            ("bitcoind://node:65536", UrlError::Port),
            ("bitcoind://node:+1", UrlError::Port),
            ("bitcoind://u:secret@:8332", UrlError::Host),
            ("bitcoind://no de:8332", UrlError::Host),
            ("bitcoind://::1:8332", UrlError::Host),
            ("bitcoind://[::1:8332", UrlError::Host),
            ("bitcoind://node:8332/wallet", UrlError::Path),
            ("bitcoind://u:1/secret@node:8332x", UrlError::Port),
            ("bitcoind://u:8332/secret", UrlError::Path),
            ("bitcoind://u:secret:8332", UrlError::Host),
            ("bitcoind://u:secret%4@node:8332", UrlError::User),
            ("bitcoind://:secret@node:8332", UrlError::User),
        ] {
            let error = parsed(text).unwrap_err();
            assert_eq!(error, expected, "{text}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
}
