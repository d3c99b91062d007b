//! Section `[hybrid]` of the configuration. `lineside.toml` explains every key.

use lineside_fastpath::Range;
use lineside_hybrid::Options;
use lineside_hybrid_grpc::Limits;
use lineside_log_kafka::Address;
use lineside_service::ByteSize;
use lineside_service::address::{self, AddressError};
use lineside_service::config::{AddressRange, ConfigIssue, Issues, Section, loopback, non_empty};
use lineside_wire::HYBRID_PORT;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

/// Minimum of `memory_max`, so that one source's share is enough for the longest message.
const MEMORY_MIN: ByteSize = ByteSize::mib(64);

/// Settings of the section `[hybrid]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HybridConfig {
    /// True if `lineside run` serves this service.
    pub enabled: bool,
    /// Address and port at which the node serves gRPC.
    #[serde(with = "lineside_service::address")]
    pub listen: SocketAddr,
    /// Address at which the node takes requests by UDP.
    pub udp: UdpName,
    /// Directory of the ledger.
    pub data: PathBuf,
    /// File with the database's genesis.
    pub genesis: PathBuf,
    /// File with the node's secret key.
    pub node_key: PathBuf,
    /// Number of the node in the database's membership.
    pub node: u32,
    /// Log that orders the requests of all nodes.
    pub log: LogName,
    /// True if the node may use a Kafka topic whose settings can lose acknowledged messages.
    pub allow_weak_kafka: bool,
    /// File with the server's certificate; empty for no TLS.
    pub certificate: PathBuf,
    /// File with the secret key of the server's certificate.
    pub key: PathBuf,
    /// File with CA certificates of clients; empty if clients need no certificate.
    pub client_ca: PathBuf,
    /// Source addresses to which UDP replies may be longer than their requests.
    pub trusted_sources: Vec<AddressRange>,
    /// Maximum memory of the service for requests, in bytes.
    pub memory_max: ByteSize,
}

/// Setting for the address at which the node takes requests by UDP: `auto`, `off`, or an address and a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum UdpName {
    /// UDP uses the address of gRPC. If gRPC uses TLS, there is no UDP, because datagrams are not encrypted.
    Auto,
    /// The node takes no requests by UDP.
    Off,
    /// UDP uses this address.
    At(SocketAddr),
}

/// Setting for the log that orders requests: `embedded`, or `kafka://host:port[,host:port][/topic]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum LogName {
    /// This node orders alone.
    Embedded,
    /// Kafka at this address orders messages. The syntax of the address is checked.
    Kafka(String),
}

impl Default for HybridConfig {
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
            trusted_sources: Range::LOOPBACK.into_iter().map(AddressRange).collect(),
            memory_max: ByteSize::mib(128),
        }
    }
}

impl HybridConfig {
    /// Returns the address at which the node takes requests by UDP; `None` if UDP is off.
    pub fn udp(&self) -> Option<SocketAddr> {
        match self.udp {
            UdpName::Auto => self.tls_files().is_none().then_some(self.listen),
            UdpName::Off => None,
            UdpName::At(address) => Some(address),
        }
    }

    /// Returns the files with the server's certificate and its key; `None` if the server does not use TLS.
    pub fn tls_files(&self) -> Option<(&Path, &Path)> {
        non_empty(&self.certificate).zip(non_empty(&self.key))
    }

    /// Returns the file with the CA certificates of clients; `None` if clients need no certificate.
    pub fn client_ca(&self) -> Option<&Path> {
        non_empty(&self.client_ca)
    }

    /// Returns the limits of gRPC. Calls in progress may take half of `memory_max`, and events of watchers a quarter.
    pub fn limits(&self) -> Limits {
        let trusted: Vec<_> = self.trusted_sources.iter().map(|range| range.0).collect();
        Limits {
            memory_bytes: self.memory_max.bytes() / 2,
            trusted: Arc::new(move |address| trusted.iter().any(|range| range.contains(address))),
            ..Limits::default()
        }
    }

    /// Returns the options of the node. Requests that wait for verification may take a quarter of `memory_max`.
    pub fn options(&self) -> Options {
        Options {
            node: self.node,
            waiting_bytes: self.memory_max.bytes() / 4,
            ..Options::default()
        }
    }

    /// Reads and checks the section.
    ///
    /// # Errors
    /// Returns all errors in the section.
    pub fn parse(section: &Section) -> Result<Self, Vec<ConfigIssue>> {
        let config: Self = section.read()?;
        let mut issues = Issues::new(section);
        if config.enabled && non_empty(&config.data).is_none() {
            issues.add("enabled", "true: needs `data`, which is empty");
        }
        if config.memory_max < MEMORY_MIN {
            issues.add(
                "memory_max",
                format!("\"{}\" must be at least \"{MEMORY_MIN}\"", config.memory_max),
            );
        }
        let pairs = [
            ("certificate", &config.certificate, "key", &config.key),
            ("key", &config.key, "certificate", &config.certificate),
            ("client_ca", &config.client_ca, "certificate", &config.certificate),
        ];
        for (name, path, needs, needed) in pairs {
            if non_empty(path).is_some() && non_empty(needed).is_none() {
                issues.add(name, format!("{path:?}: needs `{needs}`, which is empty"));
            }
        }
        issues.finish(config)
    }

    /// Returns warnings about settings that are allowed but risky.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if let Some(udp) = self.udp().filter(|udp| !udp.ip().is_loopback()) {
            warnings.push(format!(
                "[hybrid] requests by UDP to {udp} are signed, but not encrypted; use UDP only in a trusted network"
            ));
        }
        if self.tls_files().is_none() && !self.listen.ip().is_loopback() {
            warnings.push(format!(
                "[hybrid] listen = {}: without `certificate`, requests are not encrypted; set `certificate` and `key`, \
                 or use a trusted network",
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
            _ => address::parse(text).map(Self::At).map_err(|why| match why {
                AddressError::Form(_) => {
                    format!("{text:?} must be \"auto\", \"off\" or an address and a port")
                }
                unresolved => unresolved.to_string(),
            }),
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
