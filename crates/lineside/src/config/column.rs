//! `[column]`.

use super::{loopback, range_of};
use clap::ValueEnum;
use lineside_column::store::Geometry;
use lineside_fastpath::Range;
use lineside_wire::{COLUMN_NOTIFY_PORT, COLUMN_PORT};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Column {
    /// Whether `lineside run` serves it.
    pub enabled: bool,
    pub listen: SocketAddr,
    pub store: TableName,
    /// Of the embedded table.
    pub data: PathBuf,
    pub columns: Vec<String>,
    pub family_bits: u32,
    pub column_bits: u32,
    pub row_bits: u32,
    pub value_bits: u32,
    pub block_bits: u32,
    pub literal_flags: bool,
    pub coherence: CoherenceName,
    pub ttl_ms: u64,
    pub notify_listen: SocketAddr,
    pub servers: Vec<SocketAddr>,
    pub notify_key_file: PathBuf,
    pub lease_ms: u64,
    pub trusted_sources: Vec<TrustedRange>,
    pub paper_format: bool,
}

/// Where the rows are: `memory`, `embedded`, or in HBase: `hbase://host:port,host:port/table` by its region servers,
/// `thrift2://host:port/table` by its Thrift 2 gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum TableName {
    Memory,
    Embedded,
    HBase { servers: Vec<String>, table: String },
    Thrift2 { gateway: String, table: String },
}

impl TableName {
    /// Whether others change it without a word, as they do in HBase.
    pub const fn is_hbase(&self) -> bool {
        matches!(self, Self::HBase { .. } | Self::Thrift2 { .. })
    }
}

/// How the fast path learns what others change in a table that does not tell itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum CoherenceName {
    /// It does not, and keeps nothing.
    None,
    /// It does not, and keeps what it has for a while.
    Ttl,
    /// The table's servers tell it.
    Coprocessor,
}

/// `address/bits`, or an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TrustedRange(pub Range);

impl Default for Column {
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
            trusted_sources: geometry.trusted_sources.into_iter().map(TrustedRange).collect(),
            paper_format: geometry.paper_format,
        }
    }
}

impl Column {
    /// How the fast path is laid out.
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

    /// Whether the fast path may answer what others have changed since.
    pub const fn may_be_stale(&self) -> bool {
        self.store.is_hbase() && matches!(self.coherence, CoherenceName::Ttl)
    }

    /// How long the fast path may answer without hearing from the host.
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// Key and what is wrong, of what neither the types nor plain limits say.
    pub(super) fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if let Some(fault) = self.geometry().fault() {
            let key = match fault {
                _ if fault.contains("l + m") => "column_bits",
                _ if fault.starts_with("b ") => "block_bits",
                _ if fault.starts_with("n ") => "row_bits",
                _ if fault.starts_with("a must") => "value_bits",
                _ if fault.contains("trusted") => "trusted_sources",
                _ => "columns",
            };
            faults.push((key, fault.to_owned()));
        }
        let mut names = self.columns.clone();
        names.sort();
        if let Some(twice) = names.windows(2).find(|two| two[0] == two[1]) {
            faults.push(("columns", format!("{:?} is there twice", twice[0])));
        }
        if let Some(wrong) = (self.columns.iter())
            .find(|name| lineside_column::table::ColumnName::new(name.as_bytes()).is_none())
        {
            let what = format!("{wrong:?}: must be family:qualifier, at most 32 bytes");
            faults.push(("columns", what));
        }
        if self.store == TableName::Embedded && self.data.as_os_str().is_empty() {
            faults.push(("store", "\"embedded\": needs `data`, which is empty".into()));
        }
        if self.is_told_by_servers() {
            if self.notify_listen.ip().is_unspecified() {
                let what = "must be the address that the servers' `lineside.subscribers` names";
                faults.push(("notify_listen", format!("{}: {what}", self.notify_listen)));
            }
            if self.servers.is_empty() {
                let what = "coherence = \"coprocessor\" needs `servers`, which is empty";
                faults.push(("coherence", what.into()));
            }
            if self.notify_key_file.as_os_str().is_empty() {
                let what = "coherence = \"coprocessor\" needs `notify_key_file`, which is empty";
                faults.push(("coherence", what.into()));
            }
        }
        let mut servers = self.servers.clone();
        servers.sort();
        if let Some(twice) = servers.windows(2).find(|two| two[0] == two[1]) {
            faults.push(("servers", format!("{} is there twice", twice[0])));
        }
        faults
    }

    /// Whether the fast path is told of changes by the table's servers.
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
            let (scheme, place) = text.split_once("://")?;
            let (servers, table) = place.split_once('/').filter(|(_, table)| !table.is_empty())?;
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

impl TryFrom<String> for TrustedRange {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        range_of(&text).map(Self).ok_or_else(|| {
            format!("{text:?} must be an address, or one with its leading bits as in \"10.0.0.0/8\"")
        })
    }
}

impl From<TrustedRange> for String {
    fn from(range: TrustedRange) -> Self {
        format!("{}/{}", range.0.address, range.0.prefix_bits)
    }
}
