//! `[hybrid]`.

use super::{TrustedRange, loopback};
use lineside_fastpath::Range;
use lineside_log_kafka::Address;
use lineside_wire::HYBRID_PORT;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Hybrid {
    /// Whether `lineside run` serves it.
    pub enabled: bool,
    /// Of gRPC.
    pub listen: SocketAddr,
    pub udp: UdpName,
    pub data: PathBuf,
    pub genesis: PathBuf,
    pub node_key: PathBuf,
    pub node: u32,
    pub log: LogName,
    pub allow_weak_kafka: bool,
    /// Empty: no TLS.
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Empty: no client needs a certificate.
    pub client_ca: PathBuf,
    pub trusted_sources: Vec<TrustedRange>,
}

/// Where requests by UDP are taken: `auto`, `off`, or an address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum UdpName {
    /// Where gRPC is; nowhere where that is by TLS, which datagrams are not.
    Auto,
    Off,
    At(SocketAddr),
}

/// Who orders: `embedded`, or `kafka://host:port[,host:port][/topic]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum LogName {
    /// This node alone.
    Embedded,
    /// Kafka, at an address that was looked at.
    Kafka(String),
}

impl Default for Hybrid {
    fn default() -> Self {
        Self {
            enabled: false,
            listen: loopback(HYBRID_PORT),
            udp: UdpName::Auto,
            data: PathBuf::new(),
            genesis: "genesis.bin".into(),
            node_key: "node.key".into(),
            node: 1,
            log: LogName::Embedded,
            allow_weak_kafka: false,
            certificate: PathBuf::new(),
            key: PathBuf::new(),
            client_ca: PathBuf::new(),
            trusted_sources: Range::LOOPBACK.into_iter().map(TrustedRange).collect(),
        }
    }
}

/// A path that is given.
pub(super) fn given(path: &Path) -> Option<&Path> {
    (!path.as_os_str().is_empty()).then_some(path)
}

impl Hybrid {
    /// Where requests by UDP are taken, if they are.
    pub fn udp(&self) -> Option<SocketAddr> {
        match self.udp {
            UdpName::Auto => self.tls_files().is_none().then_some(self.listen),
            UdpName::Off => None,
            UdpName::At(address) => Some(address),
        }
    }

    /// The server's certificate and its key, where it is reached by TLS.
    pub fn tls_files(&self) -> Option<(&Path, &Path)> {
        given(&self.certificate).zip(given(&self.key))
    }

    /// CA certificates of clients, where those need one.
    pub fn client_ca(&self) -> Option<&Path> {
        given(&self.client_ca)
    }

    /// Key and what is wrong, of what the types do not say.
    pub(super) fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if self.enabled && given(&self.data).is_none() {
            faults.push(("enabled", "true: needs `data`, which is empty".into()));
        }
        let pairs = [
            ("certificate", &self.certificate, "key", &self.key),
            ("key", &self.key, "certificate", &self.certificate),
            ("client_ca", &self.client_ca, "certificate", &self.certificate),
        ];
        for (name, path, needs, needed) in pairs {
            if given(path).is_some() && given(needed).is_none() {
                faults.push((name, format!("{path:?}: needs `{needs}`, which is empty")));
            }
        }
        faults
    }

    /// What is allowed but should be known.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(udp) = self.udp().filter(|udp| !udp.ip().is_loopback()) {
            warnings.push(format!(
                "[hybrid] requests by UDP to {udp} are signed, but whoever stands between reads them"
            ));
        }
        if self.tls_files().is_none() && !self.listen.ip().is_loopback() {
            warnings.push(format!(
                "[hybrid] listen = {}: without `certificate`, whoever stands between reads what is asked",
                self.listen
            ));
        }
        warnings
    }
}

impl TryFrom<String> for UdpName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for UdpName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            "off" => Ok(Self::Off),
            _ => text
                .parse()
                .map(Self::At)
                .map_err(|_| format!("{text:?} must be \"auto\", \"off\" or an address and a port")),
        }
    }
}

impl From<UdpName> for String {
    fn from(name: UdpName) -> Self {
        match name {
            UdpName::Auto => "auto".into(),
            UdpName::Off => "off".into(),
            UdpName::At(address) => address.to_string(),
        }
    }
}

impl TryFrom<String> for LogName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for LogName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse::<Address>()) {
            ("embedded", _) => Ok(Self::Embedded),
            (_, Ok(_)) => Ok(Self::Kafka(text.into())),
            (_, Err(_)) => Err(format!(
                "{text:?} must be \"embedded\" or \"kafka://host:port[,host:port][/topic]\""
            )),
        }
    }
}

impl From<LogName> for String {
    fn from(name: LogName) -> Self {
        match name {
            LogName::Embedded => "embedded".into(),
            LogName::Kafka(address) => address,
        }
    }
}
