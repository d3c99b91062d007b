//! The configuration file. `lineside.toml` in the repository shows and explains every key with its default.

mod column;
mod hybrid;

pub use column::{CoherenceName, Column, TableName, TrustedRange};
pub use hybrid::{Hybrid, LogName, UdpName};

use clap::ValueEnum;
use lineside_spv::chain::{IndexKind, Network};
use lineside_spv::store::Geometry;
use lineside_transfer as transfer;
use lineside_transfer::host::{SealPolicy, SessionPolicy};
use lineside_transfer::ledger::Limits;
use lineside_transfer::signed::KeyId;
use lineside_transfer::store::Range;
use lineside_wire::{CONSOLE_PORT, SPV_PORT, TRANSFER_ISSUERS_MAX, TRANSFER_PORT};
use lineside_xdp as xdp;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Everything that `lineside run` can be told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub console: Console,
    pub datapath: Datapath,
    pub spv: Spv,
    pub transfer: Transfer,
    pub column: Column,
    pub hybrid: Hybrid,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Console {
    pub listen: SocketAddr,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Datapath {
    pub datapath: DatapathName,
    pub interface: String,
    pub xdp_mode: XdpMode,
    /// 0: one for each core.
    pub threads: usize,
    pub queue: usize,
    pub keep_fast_path: bool,
    pub pin_dir: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Spv {
    /// Whether `lineside run` serves it.
    pub enabled: bool,
    pub listen: SocketAddr,
    /// Empty: the demonstration chain.
    pub data: PathBuf,
    pub network: NetworkName,
    pub index: IndexName,
    pub line_bits: u32,
    pub ways: u32,
    pub block_bits: u32,
    pub paper_index: bool,
    pub paper_format: bool,
    pub lease_s: u64,
    pub prefill: Prefill,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Transfer {
    /// Whether `lineside run` serves it.
    pub enabled: bool,
    pub listen: SocketAddr,
    pub data: PathBuf,
    pub mode: TransferMode,
    pub account_bits: u32,
    pub sessions: u32,
    pub sessions_per_source: usize,
    pub paper_format: bool,
    pub issuers: Vec<Issuer>,
    pub require_signature: bool,
    pub allow_zero_checksum: bool,
    pub lease_s: u64,
    pub block_operations: usize,
    pub block_s: u64,
    /// Empty: nowhere but in the journal.
    pub settle_to: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum TransferMode {
    Durable,
    Express,
}

/// `address/bits`, or an address; or `key:` and a key's fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Issuer {
    Range(Range),
    Key(KeyId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum DatapathName {
    Auto,
    Socket,
    Xdp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum XdpMode {
    Auto,
    Native,
    Generic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum NetworkName {
    Mainnet,
    Testnet3,
    Signet,
    Regtest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum IndexName {
    Memory,
    Disk,
}

/// What the fast path is filled with before serving: `none`, `tip:N` or `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Prefill {
    None,
    /// The newest so many blocks.
    Tip(u32),
    All,
}

impl Default for Console {
    fn default() -> Self {
        Self {
            listen: loopback(CONSOLE_PORT),
        }
    }
}

impl Default for Datapath {
    fn default() -> Self {
        Self {
            datapath: DatapathName::Auto,
            interface: "lo".into(),
            xdp_mode: XdpMode::Auto,
            threads: 0,
            queue: 4096,
            keep_fast_path: false,
            pin_dir: "/sys/fs/bpf/lineside".into(),
        }
    }
}

impl Default for Spv {
    fn default() -> Self {
        let geometry = Geometry::default();
        Self {
            enabled: true,
            listen: loopback(SPV_PORT),
            data: PathBuf::new(),
            network: NetworkName::Regtest,
            index: IndexName::Memory,
            line_bits: geometry.line_bits,
            ways: geometry.ways,
            block_bits: geometry.block_bits,
            paper_index: geometry.paper_index,
            paper_format: geometry.paper_format,
            lease_s: 60,
            prefill: Prefill::Tip(8),
        }
    }
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

impl Spv {
    /// How the fast path is laid out.
    pub fn geometry(&self) -> Geometry {
        Geometry {
            line_bits: self.line_bits,
            ways: self.ways,
            block_bits: self.block_bits,
            paper_index: self.paper_index,
            paper_format: self.paper_format,
        }
    }

    /// How long the fast path may answer without hearing from the host.
    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_s)
    }

    /// The chain store's directory; `None`: the demonstration chain.
    pub fn data(&self) -> Option<&Path> {
        (!self.data.as_os_str().is_empty()).then_some(&self.data)
    }
}

impl Default for Transfer {
    fn default() -> Self {
        let (geometry, seal) = (transfer::store::Geometry::default(), SealPolicy::default());
        Self {
            enabled: false,
            listen: loopback(TRANSFER_PORT),
            data: PathBuf::new(),
            mode: TransferMode::Durable,
            account_bits: geometry.account_bits,
            sessions: geometry.sessions,
            sessions_per_source: SessionPolicy::default().per_source,
            paper_format: geometry.paper_format,
            issuers: geometry.issuers.into_iter().map(Issuer::Range).collect(),
            require_signature: geometry.require_signature,
            allow_zero_checksum: false,
            lease_s: 60,
            block_operations: seal.operations,
            block_s: seal.seconds,
            settle_to: PathBuf::new(),
        }
    }
}

impl Transfer {
    /// How the fast path is laid out.
    pub fn geometry(&self) -> transfer::store::Geometry {
        transfer::store::Geometry {
            mode: match self.mode {
                TransferMode::Durable => transfer::store::Mode::Durable,
                TransferMode::Express => transfer::store::Mode::Express,
            },
            account_bits: self.account_bits,
            sessions: self.sessions,
            paper_format: self.paper_format,
            issuers: self.issuer_ranges().collect(),
            require_signature: self.require_signature,
            ..transfer::store::Geometry::default()
        }
    }

    fn issuer_ranges(&self) -> impl Iterator<Item = Range> {
        self.issuers.iter().filter_map(|issuer| match issuer {
            Issuer::Range(range) => Some(*range),
            Issuer::Key(_) => None,
        })
    }

    /// Keys that may make money from anywhere.
    pub fn issuer_keys(&self) -> Vec<KeyId> {
        let key = |issuer: &Issuer| match issuer {
            Issuer::Range(_) => None,
            Issuer::Key(key) => Some(*key),
        };
        self.issuers.iter().filter_map(key).collect()
    }

    /// How large the ledger may be.
    pub fn limits(&self) -> Limits {
        Limits {
            accounts: 1 << self.account_bits,
            sessions: self.sessions,
        }
    }

    /// The file that sealed blocks are written to, if there is to be one.
    pub fn settle_to(&self) -> Option<&Path> {
        (!self.settle_to.as_os_str().is_empty()).then_some(&self.settle_to)
    }

    /// When blocks are sealed.
    pub fn seal(&self) -> SealPolicy {
        SealPolicy {
            operations: self.block_operations,
            seconds: self.block_s,
        }
    }

    /// How long the fast path may answer without hearing from the host.
    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_s)
    }
}

impl TryFrom<String> for Issuer {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if let Some(key) = text.strip_prefix("key:") {
            return key
                .parse()
                .map(Self::Key)
                .map_err(|why| format!("{text:?}: {why}"));
        }
        let wrong = || {
            format!(
                "{text:?} must be an address, one with its leading bits as in \"10.0.0.0/8\", or a key as in \
                 \"key:0123…\""
            )
        };
        range_of(&text).map(Self::Range).ok_or_else(wrong)
    }
}

/// `address/bits`, or an address.
fn range_of(text: &str) -> Option<Range> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let prefix_bits = bits.unwrap_or(longest);
    (prefix_bits <= longest).then_some(Range { address, prefix_bits })
}

impl From<Issuer> for String {
    fn from(issuer: Issuer) -> Self {
        match issuer {
            Issuer::Range(range) => format!("{}/{}", range.address, range.prefix_bits),
            Issuer::Key(key) => format!("key:{key}"),
        }
    }
}

impl Datapath {
    /// Threads of the socket datapath.
    pub fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }
}

impl From<NetworkName> for Network {
    fn from(name: NetworkName) -> Self {
        match name {
            NetworkName::Mainnet => Self::Mainnet,
            NetworkName::Testnet3 => Self::Testnet3,
            NetworkName::Signet => Self::Signet,
            NetworkName::Regtest => Self::Regtest,
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

impl From<XdpMode> for xdp::XdpMode {
    fn from(mode: XdpMode) -> Self {
        match mode {
            XdpMode::Auto => Self::Auto,
            XdpMode::Native => Self::Native,
            XdpMode::Generic => Self::Generic,
        }
    }
}

impl TryFrom<String> for Prefill {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let blocks = || {
            text.strip_prefix("tip:")?
                .parse()
                .ok()
                .filter(|blocks| *blocks > 0)
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

/// What is wrong with a configuration file; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file.
    pub file: PathBuf,
    /// All that is wrong, in the order of the lines.
    pub faults: Vec<Fault>,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// From 1; `None`: the file as a whole, or a key that is not in it.
    pub line: Option<usize>,
    /// Key, value and what is allowed.
    pub what: String,
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            let separator = if index > 0 { "\n" } else { "" };
            write!(out, "{separator}{}", self.file.display())?;
            if let Some(line) = fault.line {
                write!(out, ":{line}")?;
            }
            write!(out, ": {}", fault.what)?;
        }
        Ok(())
    }
}

impl Config {
    /// Reads and checks `file`.
    ///
    /// # Errors
    /// Everything that is wrong with it; of several wrong types or unknown keys only the first.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let fail = |faults| ConfigError {
            file: file.into(),
            faults,
        };
        let whole = |what| vec![Fault { line: None, what }];
        let text = std::fs::read_to_string(file).map_err(|error| fail(whole(error.to_string())))?;
        Self::parse(&text).map_err(fail)
    }

    /// As [`Config::read`], of a file's text.
    ///
    /// # Errors
    /// As there.
    pub fn parse(text: &str) -> Result<Self, Vec<Fault>> {
        let config: Self = toml::from_str(text).map_err(|error| vec![fault_of(text, &error)])?;
        let mut faults: Vec<Fault> = config
            .faults()
            .into_iter()
            .map(|(section, key, what)| Fault {
                line: line_of(text, section, key),
                what: format!("[{section}] {key} = {what}"),
            })
            .collect();
        faults.sort_by_key(|fault| fault.line);
        if faults.is_empty() {
            Ok(config)
        } else {
            Err(faults)
        }
    }

    /// Itself, when nothing is wrong with it; `from` is where it came from.
    ///
    /// # Errors
    /// Everything that is wrong with its values.
    pub fn checked(self, from: &str) -> anyhow::Result<Self> {
        let faults: Vec<_> = self
            .faults()
            .into_iter()
            .map(|(section, key, what)| Fault {
                line: None,
                what: format!("[{section}] {key} = {what}"),
            })
            .collect();
        match faults.is_empty() {
            true => Ok(self),
            false => Err(ConfigError {
                file: from.into(),
                faults,
            }
            .into()),
        }
    }

    /// Enables one service and none of the others.
    pub fn serve_only(&mut self, service: &str) {
        self.spv.enabled = service == "spv";
        self.transfer.enabled = service == "transfer";
        self.column.enabled = service == "column";
        self.hybrid.enabled = service == "hybrid";
    }

    /// What is allowed but should be known.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let listen = self.console.listen;
        if !listen.ip().is_loopback() {
            warnings.push(format!(
                "[console] listen = {listen}: whoever reaches it can read it"
            ));
        }
        if let Some(range) = self.transfer.issuer_ranges().find(|range| range.prefix_bits == 0) {
            warnings.push(format!(
                "[transfer] issuers: {}/0 is everybody: anyone can make money",
                range.address
            ));
        }
        if self.column.enabled && self.column.may_be_stale() {
            warnings.push(format!(
                "[column] coherence = \"ttl\": what others change is seen up to {} ms later",
                self.column.ttl_ms
            ));
        }
        if self.column.enabled && !self.column.listen.ip().is_loopback() {
            warnings.push(format!(
                "[column] listen = {}: whoever reaches it can change the table, in a session",
                self.column.listen
            ));
        }
        if self.hybrid.enabled {
            warnings.extend(self.hybrid.warnings());
        }
        if self.spv.paper_index {
            warnings.push("[spv] paper_index = true: anyone can grind TXIDs onto one line".into());
        }
        warnings
    }

    /// Section, key and what is wrong, of what the types let through.
    fn faults(&self) -> Vec<(&'static str, &'static str, String)> {
        let mut faults = Vec::new();
        let mut range = |section, key, value: u64, allowed: RangeInclusive<u64>| {
            if !allowed.contains(&value) {
                let what = format!("{value}: must be {} to {}", allowed.start(), allowed.end());
                faults.push((section, key, what));
            }
        };
        let (datapath, spv, transfer) = (&self.datapath, &self.spv, &self.transfer);
        range("datapath", "threads", datapath.threads as u64, 0..=256);
        range("datapath", "queue", datapath.queue as u64, 1..=1 << 20);
        range("spv", "line_bits", spv.line_bits.into(), 3..=28);
        range("spv", "block_bits", spv.block_bits.into(), 1..=24);
        range("spv", "lease_s", spv.lease_s, 1..=3600);
        range("transfer", "account_bits", transfer.account_bits.into(), 1..=26);
        range("transfer", "sessions", transfer.sessions.into(), 1..=1 << 20);
        range(
            "transfer",
            "sessions_per_source",
            transfer.sessions_per_source as u64,
            1..=1 << 20,
        );
        range("transfer", "lease_s", transfer.lease_s, 1..=3600);
        range(
            "transfer",
            "block_operations",
            transfer.block_operations as u64,
            1..=1 << 20,
        );
        range("transfer", "block_s", transfer.block_s, 1..=86_400);
        range("column", "lease_ms", self.column.lease_ms, 100..=60_000);
        range("column", "ttl_ms", self.column.ttl_ms, 100..=3_600_000);
        let column = self.column.faults();
        faults.extend(column.into_iter().map(|(key, what)| ("column", key, what)));
        let hybrid = self.hybrid.faults();
        faults.extend(hybrid.into_iter().map(|(key, what)| ("hybrid", key, what)));
        let issuer_ranges = transfer.issuer_ranges().count();
        if issuer_ranges > TRANSFER_ISSUERS_MAX {
            let what = format!("{issuer_ranges} address ranges: at most 8");
            faults.push(("transfer", "issuers", what));
        }
        if ![1, 2, 4].contains(&spv.ways) {
            faults.push(("spv", "ways", format!("{}: must be 1, 2 or 4", spv.ways)));
        }
        let interface = &datapath.interface;
        // IFNAMSIZ less the final zero; the characters are those that Linux refuses.
        let is_name = (1..=15).contains(&interface.len())
            && !interface.contains(|letter: char| letter == '/' || letter == ':' || letter.is_whitespace())
            && interface != "."
            && interface != "..";
        if !is_name {
            let what = format!("{interface:?}: must be an interface's name of 1 to 15 bytes");
            faults.push(("datapath", "interface", what));
        }
        if !datapath.pin_dir.is_absolute() {
            let what = format!("{:?}: must be an absolute path", datapath.pin_dir);
            faults.push(("datapath", "pin_dir", what));
        }
        if spv.index == IndexName::Disk && spv.data().is_none() {
            faults.push(("spv", "index", "\"disk\": needs `data`, which is empty".into()));
        }
        faults.extend(self.ports_taken_twice());
        if transfer.enabled && transfer.data.as_os_str().is_empty() {
            faults.push(("transfer", "enabled", "true: needs `data`, which is empty".into()));
        }
        faults
    }

    /// Of enabled services: each has a port of its own, though gRPC and UDP of one may share it.
    fn ports_taken_twice(&self) -> Vec<(&'static str, &'static str, String)> {
        let (spv, transfer, column, hybrid) = (&self.spv, &self.transfer, &self.column, &self.hybrid);
        let mut taken = vec![("the console", self.console.listen.port())];
        let mut faults = Vec::new();
        let udp = hybrid.udp().filter(|udp| udp.port() != hybrid.listen.port());
        for (section, key, listen) in [
            ("spv", "listen", spv.enabled.then_some(spv.listen)),
            ("transfer", "listen", transfer.enabled.then_some(transfer.listen)),
            ("column", "listen", column.enabled.then_some(column.listen)),
            ("hybrid", "listen", hybrid.enabled.then_some(hybrid.listen)),
            ("hybrid", "udp", udp.filter(|_| hybrid.enabled)),
        ] {
            let Some(listen) = listen.filter(|listen| listen.port() != 0) else {
                continue;
            };
            if let Some((whose, _)) = taken.iter().find(|(_, port)| *port == listen.port()) {
                let what = format!("\"{listen}\": must have another port than {whose}");
                faults.push((section, key, what));
            }
            taken.push((section, listen.port()));
        }
        faults
    }
}

fn line_at(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|byte| *byte == b'\n').count()
}

fn line_of(text: &str, section: &str, key: &str) -> Option<usize> {
    let whole = toml::de::DeTable::parse(text).ok()?;
    let section = whole.get_ref().get(section)?;
    let value = section.get_ref().as_table()?.get(key)?;
    Some(line_at(text, value.span().start))
}

/// What the parser or serde found wrong, with the text of the line, which has the key.
fn fault_of(text: &str, error: &toml::de::Error) -> Fault {
    let what = error.message().trim().replace('\n', ", ");
    let Some(span) = error.span() else {
        return Fault { line: None, what };
    };
    let line = line_at(text, span.start);
    let shown = text.lines().nth(line - 1).unwrap_or("").trim();
    Fault {
        line: Some(line),
        what: if shown.is_empty() {
            what
        } else {
            format!("`{shown}`: {what}")
        },
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
