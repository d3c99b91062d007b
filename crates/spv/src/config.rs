//! The configuration section `[spv]`; `lineside.toml` explains every key.

use crate::chain::{IndexKind, Network};
use crate::host::Tables;
use crate::store::Geometry;
use clap::ValueEnum;
use lineside_bitcoin_node::{CredentialSources, Credentials, NodeUrl, SetupError, UrlError};
use lineside_electrum::Limits;
use lineside_service::config::{AddressRange, ConfigIssue, Issues, Section, loopback, non_empty};
use lineside_service::{ByteSize, OptionalAddress};
use lineside_wire::SPV_PORT;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Smallest allowed value of `line_bits`, the binary logarithm of the number of cache lines.
const LINE_BITS_MIN: u32 = 3;

/// The section `[spv]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpvConfig {
    /// True if `lineside run` starts this service.
    pub enabled: bool,
    /// Address and UDP port.
    #[serde(with = "lineside_service::address")]
    pub listen: SocketAddr,
    /// Directory of the chain store.
    pub data: PathBuf,
    /// Expected network of the chain store; empty: the network that the store records.
    pub network: OptionalNetwork,
    /// Place of the index of TXIDs: memory or disk.
    pub index: IndexName,
    /// Kinds of requests that are answered by UDP.
    pub tables: Vec<TableName>,
    /// True if the bytes of new blocks are stored below `data`.
    pub keep_blocks: bool,
    /// Binary logarithm of the number of cache lines.
    pub line_bits: u32,
    /// Number of cache lines in which a TXID may be stored: 1, 2 or 4.
    pub ways: u32,
    /// Binary logarithm of the number of blocks to which cache lines can refer.
    pub block_bits: u32,
    /// Binary logarithm of the number of Merkle tree nodes; 0: the fast path answers no proofs.
    pub tree_bits: u32,
    /// True if the low 22 bits of a TXID choose its line, as in the paper, instead of a keyed hash.
    pub paper_index: bool,
    /// True if requests in the paper's packet format are answered.
    pub paper_format: bool,
    /// Time in seconds for which the fast path may answer without a renewal of its lease by the host.
    pub lease_s: u64,
    /// The newest blocks, whose transactions are loaded into the fast path before the service starts.
    pub prefill: Prefill,
    /// Full node from which new blocks are fetched.
    pub node: NodeName,
    /// Cookie file of Bitcoin Core.
    pub node_cookie: PathBuf,
    /// File with the password of the node's RPC.
    pub node_password: PathBuf,
    /// File with the certificate of btcd's RPC.
    pub node_ca: PathBuf,
    /// Number of confirmations that a block needs before its transactions are found.
    pub min_confirmations: u32,
    /// Address at which the Electrum protocol is served over TCP.
    pub electrum: OptionalAddress,
    /// Address at which the Electrum protocol is served over TLS.
    pub electrum_tls: OptionalAddress,
    /// File with the certificate of `electrum_tls`.
    pub electrum_certificate: PathBuf,
    /// File with the private key of `electrum_certificate`.
    pub electrum_key: PathBuf,
    /// Electrum server to which methods are forwarded that this service does not answer: `HOST:PORT`, or
    /// `tls://HOST:PORT`.
    pub electrum_upstream: String,
    /// File with the certificates that are trusted for an `electrum_upstream` at `tls://`.
    pub electrum_upstream_ca: PathBuf,
    /// Address at which Esplora's paths are served over HTTP.
    pub http: OptionalAddress,
    /// Maximum average number of requests a second of one client of Electrum or HTTP.
    pub client_rate: u32,
    /// Maximum number of Electrum connections.
    pub electrum_clients: u32,
    /// Maximum number of Electrum connections of one IPv4 address or IPv6 network of 64 bits.
    pub electrum_clients_per_network: u32,
    /// Maximum number of HTTP connections.
    pub http_clients: u32,
    /// Maximum number of HTTP connections of one IPv4 address or IPv6 network of 64 bits.
    pub http_clients_per_network: u32,
    /// Addresses of reverse proxies for HTTP. In their requests the header `X-Forwarded-For` names the client.
    pub trusted_proxies: Vec<AddressRange>,
    /// Maximum memory in bytes for the data that the service holds for its Electrum and HTTP clients.
    pub memory_max: ByteSize,
}

/// Full node from which new blocks are fetched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum NodeName {
    /// No node: the service answers from the blocks that are in the chain store.
    #[default]
    Embedded,
    /// Node at this URL.
    At(NodeUrl),
}

impl NodeName {
    /// Returns the URL of the node; `None` if no node is configured.
    pub fn url(&self) -> Option<&NodeUrl> {
        match self {
            Self::Embedded => None,
            Self::At(url) => Some(url),
        }
    }
}

impl TryFrom<String> for NodeName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text == "embedded" {
            return Ok(Self::Embedded);
        }
        // The message does not repeat the URL, which may contain a password.
        text.parse()
            .map(Self::At)
            .map_err(|error: UrlError| error.to_string())
    }
}

impl From<NodeName> for String {
    /// Returns the URL without its password.
    fn from(node: NodeName) -> Self {
        node.url()
            .map_or_else(|| "embedded".to_owned(), NodeUrl::to_string)
    }
}

/// Network of a chain of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum NetworkName {
    /// The main network.
    Mainnet,
    /// The third test network.
    Testnet3,
    /// The fourth test network.
    Testnet4,
    /// The signed test network.
    Signet,
    /// A network for tests on one machine.
    Regtest,
    /// The network of btcd for tests on one machine.
    Simnet,
}

/// Optional network in a configuration: an empty string is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OptionalNetwork(pub Option<NetworkName>);

impl TryFrom<String> for OptionalNetwork {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(None));
        }
        NetworkName::from_str(&text, false)
            .map(Some)
            .map(Self)
            .map_err(|_| {
                let all = Network::ALL.map(|network| format!("`{network}`")).join(", ");
                format!("{text:?} must be empty, for the network of the chain store, or one of {all}")
            })
    }
}

impl From<OptionalNetwork> for String {
    fn from(network: OptionalNetwork) -> Self {
        network
            .0
            .map_or_else(String::new, |name| Network::from(name).to_string())
    }
}

/// Place of the index of TXIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum IndexName {
    /// The index is in memory and is rebuilt at each start.
    Memory,
    /// The index is on disk, in the directory of the chain store.
    Disk,
}

/// Kind of UDP requests, and of the data that the service needs in memory to answer them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum TableName {
    /// TXID to Merkle root.
    Root,
    /// TXID to proof.
    Proof,
    /// TXID or WTXID to witness proof.
    Witness,
    /// Height to header.
    Header,
}

/// Blocks that are loaded into the fast path before the service starts: `none`, `tip:N` or `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Prefill {
    /// No block is loaded.
    None,
    /// This number of the newest blocks is loaded.
    Tip(u32),
    /// All blocks.
    All,
}

impl Default for SpvConfig {
    fn default() -> Self {
        let (geometry, limits) = (Geometry::default(), Limits::default());
        Self {
            enabled: false,
            listen: loopback(SPV_PORT),
            data: PathBuf::new(),
            network: OptionalNetwork(None),
            index: IndexName::Memory,
            tables: TableName::value_variants().to_vec(),
            keep_blocks: false,
            line_bits: geometry.line_bits,
            ways: geometry.ways,
            block_bits: geometry.block_bits,
            tree_bits: geometry.tree_bits,
            paper_index: geometry.paper_index,
            paper_format: geometry.paper_format,
            lease_s: 60,
            prefill: Prefill::Tip(8),
            node: NodeName::Embedded,
            node_cookie: PathBuf::new(),
            node_password: PathBuf::new(),
            node_ca: PathBuf::new(),
            min_confirmations: 1,
            electrum: OptionalAddress(None),
            electrum_tls: OptionalAddress(None),
            electrum_certificate: PathBuf::new(),
            electrum_key: PathBuf::new(),
            electrum_upstream: String::new(),
            electrum_upstream_ca: PathBuf::new(),
            http: OptionalAddress(None),
            client_rate: limits.requests_per_second,
            electrum_clients: limits.clients as u32,
            electrum_clients_per_network: limits.clients_by_network as u32,
            http_clients: limits.http_clients as u32,
            http_clients_per_network: limits.http_clients_by_network as u32,
            trusted_proxies: Vec::new(),
            memory_max: ByteSize::mib(256),
        }
    }
}

impl SpvConfig {
    /// Reads and checks the section.
    ///
    /// # Errors
    /// All errors of the section.
    pub fn parse(section: &Section) -> Result<Self, Vec<ConfigIssue>> {
        let config: Self = section.read()?;
        let mut issues = Issues::new(section);
        issues.range(
            "line_bits",
            config.line_bits.into(),
            u64::from(LINE_BITS_MIN)..=28,
        );
        issues.range("block_bits", config.block_bits.into(), 1..=24);
        if config.tree_bits != 0 {
            issues.range("tree_bits", config.tree_bits.into(), 4..=26);
        }
        issues.range("lease_s", config.lease_s, 1..=3600);
        if ![1, 2, 4].contains(&config.ways) {
            issues.add("ways", format!("{}: must be 1, 2 or 4", config.ways));
        }
        if config.tables.is_empty() {
            issues.add(
                "tables",
                "is empty: name one or more of `root`, `proof`, `witness` and `header`",
            );
        }
        if config.has(TableName::Proof) && !config.has(TableName::Root) {
            issues.add(
                "tables",
                "`proof` needs `root`, because a proof contains the root: add `root`",
            );
        }
        if config.index == IndexName::Disk && config.data().is_none() {
            issues.add(
                "index",
                "\"disk\": needs `data`, which is empty: set `data` to the store's directory",
            );
        }
        if config.enabled && config.data().is_none() {
            issues.add(
                "enabled",
                "true: needs `data`, which is empty: set `data` to the store's directory",
            );
        }
        issues.range("min_confirmations", config.min_confirmations.into(), 1..=1000);
        issues.range("client_rate", config.client_rate.into(), 1..=1_000_000);
        for (key, clients) in [
            ("electrum_clients", config.electrum_clients),
            (
                "electrum_clients_per_network",
                config.electrum_clients_per_network,
            ),
            ("http_clients", config.http_clients),
            ("http_clients_per_network", config.http_clients_per_network),
        ] {
            issues.range(key, clients.into(), 1..=1_000_000);
        }
        if config.memory_max < ByteSize::mib(32) {
            issues.add(
                "memory_max",
                format!("\"{}\": must be at least \"32 MiB\"", config.memory_max),
            );
        }
        config.check_node(&mut issues);
        config.check_wallets(&mut issues);
        issues.finish(config)
    }

    fn check_node(&self, issues: &mut Issues<'_>) {
        let Some(url) = self.node.url() else { return };
        if let Err(error) = Credentials::choose(url, &self.credential_sources())
            && !matches!(
                error,
                SetupError::PasswordFile(_) | SetupError::EmptyPasswordFile { .. }
            )
        {
            issues.add("node", error.to_string().trim_start_matches("node: "));
        }
        if matches!(url, NodeUrl::Btcd(_)) && non_empty(&self.node_ca).is_none() {
            issues.add(
                "node_ca",
                "is empty: a node at btcd:// needs the path of btcd's certificate, rpc.cert",
            );
        }
    }

    fn check_wallets(&self, issues: &mut Issues<'_>) {
        let has_files = non_empty(&self.electrum_certificate).zip(non_empty(&self.electrum_key));
        if let Some(address) = self.electrum_tls.0.filter(|_| has_files.is_none()) {
            issues.add(
                "electrum_tls",
                format!("{address}: needs `electrum_certificate` and `electrum_key`"),
            );
        }
        let upstream = &self.electrum_upstream;
        let is_tls = upstream.starts_with("tls://");
        if !upstream.is_empty() && host_and_port(upstream).is_none() {
            issues.add(
                "electrum_upstream",
                format!("{upstream:?} must be HOST:PORT or tls://HOST:PORT"),
            );
        }
        if is_tls && non_empty(&self.electrum_upstream_ca).is_none() {
            issues.add(
                "electrum_upstream_ca",
                "is empty: an upstream at tls:// needs a file with the certificates to trust",
            );
        }
    }

    /// Returns the sources of the node's credentials except its URL.
    pub fn credential_sources(&self) -> CredentialSources {
        let sources = CredentialSources {
            cookie_file: non_empty(&self.node_cookie).map(Path::to_path_buf),
            password_file: non_empty(&self.node_password).map(Path::to_path_buf),
            password: None,
        };
        sources.with_environment()
    }

    fn has(&self, table: TableName) -> bool {
        self.tables.contains(&table)
    }

    /// Returns the kinds of requests that are answered.
    pub fn tables(&self) -> Tables {
        Tables {
            roots: self.has(TableName::Root),
            proofs: self.has(TableName::Proof),
            witnesses: self.has(TableName::Witness),
            headers: self.has(TableName::Header),
        }
    }

    /// Returns the sizes of the fast-path table. The table has no space for kinds of requests that are not answered.
    pub fn geometry(&self) -> Geometry {
        let tables = self.tables();
        Geometry {
            line_bits: if tables.roots {
                self.line_bits
            } else {
                LINE_BITS_MIN
            },
            ways: self.ways,
            block_bits: if tables.roots { self.block_bits } else { 1 },
            tree_bits: if tables.proofs { self.tree_bits } else { 0 },
            paper_index: self.paper_index,
            paper_format: self.paper_format && tables.roots,
        }
    }

    /// Returns the time for which the fast path may answer without a renewal of its lease.
    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_s)
    }

    /// Returns the directory of the chain store; `None` if none is configured.
    pub fn data(&self) -> Option<&Path> {
        non_empty(&self.data)
    }
}

/// Returns host and port from the configured address of an Electrum server.
pub fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.strip_prefix("tls://").unwrap_or(text).rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    (!host.is_empty() && !host.contains('/')).then_some((host, port))
}

impl From<NetworkName> for Network {
    fn from(name: NetworkName) -> Self {
        match name {
            NetworkName::Mainnet => Self::Mainnet,
            NetworkName::Testnet3 => Self::Testnet3,
            NetworkName::Signet => Self::Signet,
            NetworkName::Regtest => Self::Regtest,
            NetworkName::Testnet4 => Self::Testnet4,
            NetworkName::Simnet => Self::Simnet,
        }
    }
}

impl From<IndexName> for IndexKind {
    fn from(name: IndexName) -> Self {
        match name {
            IndexName::Memory => Self::Memory,
            IndexName::Disk => Self::Disk,
        }
    }
}

impl Prefill {
    /// Returns the number of newest blocks that are loaded into the fast path.
    pub fn blocks(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Tip(blocks) => blocks,
            Self::All => u32::MAX,
        }
    }
}

impl TryFrom<String> for Prefill {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let blocks = || {
            let number = text.strip_prefix("tip:")?.parse().ok();
            number.filter(|blocks| *blocks > 0)
        };
        match text.as_str() {
            "none" => Ok(Self::None),
            "all" => Ok(Self::All),
            _ => blocks().map(Self::Tip).ok_or_else(|| {
                format!(
                    "{text:?} must be \"none\", \"all\" or \"tip:N\" with N from 1 to {}",
                    u32::MAX
                )
            }),
        }
    }
}

impl From<Prefill> for String {
    fn from(prefill: Prefill) -> Self {
        match prefill {
            Prefill::None => "none".into(),
            Prefill::All => "all".into(),
            Prefill::Tip(blocks) => format!("tip:{blocks}"),
        }
    }
}
