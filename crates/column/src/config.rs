//! The section `[column]` of the configuration. `lineside.toml` explains every key.

use crate::host::SESSION_IDLE_S;
use crate::store::Geometry;
use clap::ValueEnum;
use lineside_service::ByteSize;
use lineside_service::config::{AddressRange, ConfigIssue, Issues, Section, loopback};
use lineside_wire::{COLUMN_NOTIFY_PORT, COLUMN_PORT};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// Settings of the section `[column]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ColumnConfig {
    /// True if `lineside run` serves `column`.
    pub enabled: bool,
    /// Address and UDP port at which the service takes requests.
    #[serde(with = "lineside_service::address")]
    pub listen: SocketAddr,
    /// Storage of the table's rows.
    pub store: TableName,
    /// Directory of the embedded table.
    pub data: PathBuf,
    /// Columns that the fast path may cache, as `family:qualifier`.
    pub columns: Vec<String>,
    /// Binary logarithm of the number of column families; the paper calls it l.
    pub family_bits: u32,
    /// Binary logarithm of the number of columns of a family; the paper calls it m.
    pub column_bits: u32,
    /// Binary logarithm of the number of rows of a column; the paper calls it n.
    pub row_bits: u32,
    /// Binary logarithm of the memory for a row, in units of 36 bytes; the paper calls it a.
    pub value_bits: u32,
    /// Binary logarithm of the number of rows of a block; the paper calls it b.
    pub block_bits: u32,
    /// True if one invalid block makes every read of its column miss, as the text of the paper says.
    pub literal_flags: bool,
    /// Source from which the fast path learns of changes in a table of HBase.
    pub coherence: CoherenceName,
    /// Time in milliseconds for which rows are cached with `coherence = "ttl"`.
    pub ttl_ms: u64,
    /// Address and UDP port at which the table's servers announce changes.
    #[serde(with = "lineside_service::address")]
    pub notify_listen: SocketAddr,
    /// Addresses from which the table's servers send their notices.
    #[serde(with = "lineside_service::address::list")]
    pub servers: Vec<SocketAddr>,
    /// File with the secret key that signs the servers' notices.
    pub notify_key_file: PathBuf,
    /// Duration of the fast path's lease in milliseconds.
    pub lease_ms: u64,
    /// Source addresses that may change the table without a session, and with the paper format.
    pub trusted_sources: Vec<AddressRange>,
    /// True if the service answers packets of the paper format.
    pub paper_format: bool,
    /// Maximum memory in bytes that clients' requests can make the service use.
    pub memory_max: ByteSize,
    /// Seconds after which an unused session may be closed.
    pub session_idle_s: u64,
}

/// Storage of the rows: `memory`, `embedded`, or HBase. HBase is reached through its region servers
/// (`hbase://host:port,host:port/table`) or its Thrift 2 gateway (`thrift2://host:port/table`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TableName {
    /// The rows are in memory. They are lost when the process ends.
    Memory,
    /// The rows are in the directory `data`.
    Embedded,
    /// The rows are in HBase, and Lineside uses HBase's own RPC.
    HBase {
        /// Addresses of region servers, `host:port` each.
        servers: Vec<String>,
        /// Name of the table.
        table: String,
    },
    /// The rows are in HBase, and Lineside uses the Thrift 2 gateway.
    Thrift2 {
        /// Address of the gateway, `host:port`.
        gateway: String,
        /// Name of the table.
        table: String,
    },
}

impl TableName {
    /// Returns true if the table is in HBase, where other clients may change it too.
    pub const fn is_hbase(&self) -> bool {
        matches!(self, Self::HBase { .. } | Self::Thrift2 { .. })
    }
}

/// Source from which the fast path learns of changes in a table of HBase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum CoherenceName {
    /// No source: the fast path caches no rows.
    None,
    /// No source: the fast path caches rows for `ttl_ms`, and its answers may be stale.
    Ttl,
    /// The coprocessor in the table's servers sends notices of changes.
    Coprocessor,
}

impl Default for ColumnConfig {
    fn default() -> Self {
        let geometry = Geometry::default();
        Self {
            enabled: false,
            listen: loopback(COLUMN_PORT),
            store: TableName::Memory,
            data: PathBuf::new(),
            columns: vec!["entry:foo".into()],
            family_bits: geometry.family_bits,
            column_bits: geometry.column_bits,
            row_bits: geometry.row_bits,
            value_bits: geometry.value_bits,
            block_bits: geometry.block_bits,
            literal_flags: geometry.literal_flags,
            coherence: CoherenceName::None,
            ttl_ms: 1000,
            notify_listen: loopback(COLUMN_NOTIFY_PORT),
            servers: Vec::new(),
            notify_key_file: PathBuf::new(),
            lease_ms: 1000,
            trusted_sources: geometry.trusted_sources.into_iter().map(AddressRange).collect(),
            paper_format: geometry.paper_format,
            memory_max: ByteSize::mib(128),
            session_idle_s: SESSION_IDLE_S,
        }
    }
}

/// Allowed values of `memory_max`.
const MEMORY_MAX: RangeInclusive<ByteSize> = ByteSize::mib(32)..=ByteSize::mib(1 << 20);

impl ColumnConfig {
    /// Returns the geometry of the fast-path table.
    pub fn geometry(&self) -> Geometry {
        Geometry {
            family_bits: self.family_bits,
            column_bits: self.column_bits,
            row_bits: self.row_bits,
            value_bits: self.value_bits,
            block_bits: self.block_bits,
            columns: self.columns.clone(),
            paper_format: self.paper_format,
            may_be_stale: self.may_be_stale(),
            literal_flags: self.literal_flags,
            trusted_sources: self.trusted_sources.iter().map(|range| range.0).collect(),
        }
    }

    /// Returns true if the fast path may answer with values that were already replaced in the table.
    pub const fn may_be_stale(&self) -> bool {
        self.store.is_hbase() && matches!(self.coherence, CoherenceName::Ttl)
    }

    /// Returns the duration of the fast path's lease.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// Reads the section and checks its values.
    ///
    /// # Errors
    /// Returns all issues that were found.
    pub fn parse(section: &Section) -> Result<Self, Vec<ConfigIssue>> {
        let config: Self = section.read()?;
        let mut issues = Issues::new(section);
        issues.range("lease_ms", config.lease_ms, 100..=60_000);
        issues.range("ttl_ms", config.ttl_ms, 100..=3_600_000);
        issues.range("session_idle_s", config.session_idle_s, 60..=31_536_000);
        if !MEMORY_MAX.contains(&config.memory_max) {
            let (low, high) = (MEMORY_MAX.start(), MEMORY_MAX.end());
            issues.add(
                "memory_max",
                format!("{}: must be {low} to {high}", config.memory_max),
            );
        }
        config.check_columns(&mut issues);
        config.check_coherence(&mut issues);
        issues.finish(config)
    }

    fn check_columns(&self, issues: &mut Issues<'_>) {
        if let Some(fault) = self.geometry().fault() {
            let key = match fault {
                _ if fault.contains("l + m") => "column_bits",
                _ if fault.starts_with("b ") => "block_bits",
                _ if fault.starts_with("n ") => "row_bits",
                _ if fault.starts_with("a must") => "value_bits",
                _ if fault.contains("trusted") => "trusted_sources",
                _ => "columns",
            };
            issues.add(key, fault.to_owned());
        }
        let mut names = self.columns.clone();
        names.sort();
        if let Some(twice) = names.windows(2).find(|two| two[0] == two[1]) {
            issues.add("columns", format!("{:?} is listed twice; remove one", twice[0]));
        }
        if let Some(wrong) =
            (self.columns.iter()).find(|name| crate::table::ColumnName::new(name.as_bytes()).is_none())
        {
            let what = format!("{wrong:?}: must be family:qualifier, at most 32 bytes");
            issues.add("columns", what);
        }
        if self.store == TableName::Embedded && self.data.as_os_str().is_empty() {
            issues.add("store", "\"embedded\": needs `data`, which is empty");
        }
        if self.store != TableName::Embedded && !self.data.as_os_str().is_empty() {
            let store = String::from(self.store.clone());
            let what = format!(
                "{:?}: no row would be kept in this directory, because `store` is {store:?}; set store = \"embedded\", \
                 or remove `data`",
                self.data
            );
            issues.add("data", what);
        }
    }

    fn check_coherence(&self, issues: &mut Issues<'_>) {
        if self.is_told_by_servers() {
            if self.notify_listen.ip().is_unspecified() {
                let what = "must be the address in the servers' setting `lineside.subscribers`";
                issues.add("notify_listen", format!("{}: {what}", self.notify_listen));
            }
            if self.servers.is_empty() {
                let what = "\"coprocessor\": needs `servers`, which is empty";
                issues.add("coherence", what);
            }
            if self.notify_key_file.as_os_str().is_empty() {
                let what = "\"coprocessor\": needs `notify_key_file`, which is empty";
                issues.add("coherence", what);
            }
        }
        let mut servers = self.servers.clone();
        servers.sort();
        if let Some(twice) = servers.windows(2).find(|two| two[0] == two[1]) {
            issues.add("servers", format!("{} is listed twice; remove one", twice[0]));
        }
    }

    /// Returns true if the table's servers announce changes to the fast path.
    pub const fn is_told_by_servers(&self) -> bool {
        matches!(
            (&self.store, self.coherence),
            (
                TableName::HBase { .. } | TableName::Thrift2 { .. },
                CoherenceName::Coprocessor
            )
        )
    }
}

impl TryFrom<String> for TableName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_address = |address: &&str| {
            let parts = address.rsplit_once(':');
            parts.is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        let in_hbase = || {
            let (scheme, location) = text.split_once("://")?;
            let (servers, table) = location.split_once('/').filter(|(_, table)| !table.is_empty())?;
            let servers: Vec<&str> = servers.split(',').collect();
            match (scheme, &servers[..], servers.iter().all(is_address)) {
                ("hbase", servers, true) => Some(Self::HBase {
                    servers: servers.iter().map(|server| (*server).to_owned()).collect(),
                    table: table.into(),
                }),
                ("thrift2", [gateway], true) => Some(Self::Thrift2 {
                    gateway: (*gateway).into(),
                    table: table.into(),
                }),
                _ => None,
            }
        };
        match text.as_str() {
            "memory" => Ok(Self::Memory),
            "embedded" => Ok(Self::Embedded),
            _ => in_hbase().ok_or_else(|| {
                format!(
                    "{text:?} must be \"memory\", \"embedded\", \"hbase://host:port/table\" or \
                     \"thrift2://host:port/table\""
                )
            }),
        }
    }
}

impl From<TableName> for String {
    fn from(name: TableName) -> Self {
        match name {
            TableName::Memory => "memory".into(),
            TableName::Embedded => "embedded".into(),
            TableName::HBase { servers, table } => format!("hbase://{}/{table}", servers.join(",")),
            TableName::Thrift2 { gateway, table } => format!("thrift2://{gateway}/{table}"),
        }
    }
}
