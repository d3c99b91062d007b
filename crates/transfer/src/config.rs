//! Section `[transfer]` of the configuration; `lineside.toml` explains every key.

use crate::host::{Retention, SealPolicy, SessionPolicy};
use crate::ledger::Limits;
use crate::native::Outcome;
use crate::store::{Geometry, Mode, Range};
use clap::ValueEnum;
use lineside_messages::transfer::KeyId;
use lineside_service::ByteSize;
use lineside_service::config::{
    AddressRange, ConfigIssue, Issues, Section, loopback, non_empty, parse_range,
};
use lineside_wire::{TRANSFER_ISSUERS_MAX, TRANSFER_PORT};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Seconds in a day.
const DAY_S: u64 = 86_400;
/// Maximum number of trusted address ranges.
const TRUSTED_MAX: usize = 8;
/// Maximum memory in bytes that one pending transfer takes in its two indexes, also while an index grows.
const PENDING_BYTES: u64 = 256;
/// Seconds in an hour.
const HOUR_S: u64 = 3600;
/// Smallest permitted value of `memory_max`.
const MEMORY_MIN: ByteSize = ByteSize::mib(1);

/// The section `[transfer]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransferConfig {
    /// True if `lineside run` serves this service.
    pub enabled: bool,
    /// IP address and port on which the service listens for UDP and TCP.
    #[serde(with = "lineside_service::address")]
    pub listen: SocketAddr,
    /// Directory of the ledger.
    pub data: PathBuf,
    /// Mode, which decides whether the host or the fast path executes operations.
    pub mode: TransferMode,
    /// Binary logarithm of the number of accounts.
    pub account_bits: u32,
    /// Maximum number of open sessions.
    pub sessions: u32,
    /// Maximum number of open sessions of one source address.
    pub sessions_per_source: usize,
    /// Maximum number of open sessions of one /64 of IPv6.
    pub sessions_per_network: usize,
    /// Days without a packet after which a session may be closed when its slot is needed.
    pub session_idle_days: u64,
    /// Sources for which a quarter of the sessions is reserved, and whose refusals are not limited.
    pub trusted_sources: Vec<AddressRange>,
    /// Maximum number of refused packets that are journaled per second: for the sessions of one source, and for all
    /// packets in the paper's format. Also the maximum number of sessions that one source opens per second.
    pub refusals_per_s: u32,
    /// Maximum number of bytes that requests can make the service store in addition to its tables.
    pub memory_max: ByteSize,
    /// Maximum number of idempotency keys that the ledger remembers.
    pub idempotency_keys: u64,
    /// Hours after the execution of an operation for which the ledger remembers its idempotency key.
    pub idempotency_hours: u64,
    /// True if the service answers packets in the paper's format.
    pub paper_format: bool,
    /// Sources and keys that may create assets.
    pub issuers: Vec<Issuer>,
    /// True if every operation that changes something must be signed.
    pub require_signature: bool,
    /// True if a request that changes something may have no UDP checksum, on IPv4.
    pub allow_zero_checksum: bool,
    /// Seconds for which the fast path may answer without hearing from the host.
    pub lease_s: u64,
    /// Operations after which a block is sealed.
    pub block_operations: usize,
    /// Maximum time in seconds from the first operation of a block until the block is sealed.
    pub block_s: u64,
    /// File that sealed blocks are written to; empty for none.
    pub settle_to: PathBuf,
    /// Number of newest blocks that remain in the journal. If this and `keep_days` are 0, all blocks remain.
    pub keep_blocks: u64,
    /// Number of days for which blocks remain in the journal. If this and `keep_blocks` are 0, all blocks remain.
    pub keep_days: u64,
    /// True if blocks that leave the journal are kept in archive files, so that they can be proved.
    pub archive: bool,
}

/// Decides whether the host or the fast path executes operations, and when they are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum TransferMode {
    /// The host executes operations and replies once they are on the disk.
    Durable,
    /// The fast path executes operations and replies at once; the journal follows.
    Express,
}

/// Source or key that may create assets: `address/bits`, an address, or `key:` and a key's fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Issuer {
    /// Source addresses.
    Range(Range),
    /// Key whose signed operations may create assets, from any address.
    Key(KeyId),
}

impl Default for TransferConfig {
    fn default() -> Self {
        let (geometry, seal) = (Geometry::default(), SealPolicy::default());
        let sessions = SessionPolicy::default();
        Self {
            enabled: false,
            listen: loopback(TRANSFER_PORT),
            data: PathBuf::new(),
            mode: TransferMode::Durable,
            account_bits: geometry.account_bits,
            sessions: geometry.sessions,
            sessions_per_source: sessions.per_source,
            sessions_per_network: sessions.per_network,
            session_idle_days: sessions.idle_s / DAY_S,
            trusted_sources: sessions.trusted.into_iter().map(AddressRange).collect(),
            refusals_per_s: sessions.refusals_per_s,
            memory_max: ByteSize::mib(64),
            idempotency_keys: 1_000_000,
            idempotency_hours: 24,
            paper_format: geometry.paper_format,
            issuers: geometry.issuers.into_iter().map(Issuer::Range).collect(),
            require_signature: geometry.require_signature,
            allow_zero_checksum: false,
            lease_s: 60,
            block_operations: seal.operations,
            block_s: seal.seconds,
            settle_to: PathBuf::new(),
            keep_blocks: 0,
            keep_days: 0,
            archive: true,
        }
    }
}

impl TransferConfig {
    /// Reads and checks the section.
    ///
    /// # Errors
    /// Returns an issue for each value that is not valid.
    pub fn parse(section: &Section) -> Result<Self, Vec<ConfigIssue>> {
        let config: Self = section.read()?;
        let mut issues = Issues::new(section);
        for (key, value, allowed) in [
            ("account_bits", config.account_bits.into(), 1..=26),
            ("sessions", config.sessions.into(), 1..=1 << 20),
            (
                "sessions_per_source",
                config.sessions_per_source as u64,
                1..=1 << 20,
            ),
            (
                "sessions_per_network",
                config.sessions_per_network as u64,
                1..=1 << 20,
            ),
            ("idempotency_keys", config.idempotency_keys, 0..=1 << 32),
            ("idempotency_hours", config.idempotency_hours, 1..=87_600),
            ("keep_days", config.keep_days, 0..=36_500),
            ("session_idle_days", config.session_idle_days, 1..=3650),
            ("refusals_per_s", config.refusals_per_s.into(), 1..=1 << 20),
            ("lease_s", config.lease_s, 1..=3600),
            ("block_operations", config.block_operations as u64, 1..=1 << 20),
            ("block_s", config.block_s, 1..=86_400),
        ] {
            issues.range(key, value, allowed);
        }
        let ranges = config.issuer_ranges().count();
        if ranges > TRANSFER_ISSUERS_MAX {
            issues.add(
                "issuers",
                format!("{ranges} address ranges: at most {TRANSFER_ISSUERS_MAX} are possible"),
            );
        }
        if config.trusted_sources.len() > TRUSTED_MAX {
            let ranges = config.trusted_sources.len();
            issues.add(
                "trusted_sources",
                format!("{ranges} address ranges: at most {TRUSTED_MAX} are possible"),
            );
        }
        if config.memory_max < MEMORY_MIN {
            let (configured, least) = (config.memory_max, MEMORY_MIN);
            issues.add(
                "memory_max",
                format!("\"{configured}\" must be at least \"{least}\""),
            );
        }
        if config.enabled && non_empty(&config.data).is_none() {
            issues.add("enabled", "true: needs `data`, which is empty");
        }
        issues.finish(config)
    }

    /// Returns the layout of the fast-path table.
    pub fn geometry(&self) -> Geometry {
        Geometry {
            mode: match self.mode {
                TransferMode::Durable => Mode::Durable,
                TransferMode::Express => Mode::Express,
            },
            account_bits: self.account_bits,
            sessions: self.sessions,
            paper_format: self.paper_format,
            issuers: self.issuer_ranges().collect(),
            require_signature: self.require_signature,
            ..Geometry::default()
        }
    }

    /// Returns the source addresses that may create assets.
    pub fn issuer_ranges(&self) -> impl Iterator<Item = Range> {
        self.issuers.iter().filter_map(|issuer| match issuer {
            Issuer::Range(range) => Some(*range),
            Issuer::Key(_) => None,
        })
    }

    /// Returns the keys that may create assets from any address.
    pub fn issuer_keys(&self) -> Vec<KeyId> {
        let key = |issuer: &Issuer| match issuer {
            Issuer::Range(_) => None,
            Issuer::Key(key) => Some(*key),
        };
        self.issuers.iter().filter_map(key).collect()
    }

    /// Returns the largest size of the ledger.
    pub fn limits(&self) -> Limits {
        Limits {
            accounts: 1 << self.account_bits,
            sessions: self.sessions,
            pendings: self.memory_max.0 / 4 / PENDING_BYTES,
            keys: self.idempotency_keys,
            key_window_s: self.idempotency_hours * HOUR_S,
        }
    }

    /// Returns the limits on sessions, and on the data that one source can make the host store.
    pub fn session_policy(&self) -> SessionPolicy {
        SessionPolicy {
            per_source: self.sessions_per_source,
            per_network: self.sessions_per_network,
            idle_s: self.session_idle_days * DAY_S,
            trusted: self.trusted_sources.iter().map(|range| range.0).collect(),
            refusals_per_s: self.refusals_per_s,
            large_results: self.memory_max.0 / 4 / size_of::<Outcome>() as u64,
        }
    }

    /// Returns the number of bytes for precomputed tables for the public keys that sign packets.
    pub fn key_table_bytes(&self) -> usize {
        self.memory_max.bytes() / 2
    }

    /// Returns the file that sealed blocks are written to, where there is one.
    pub fn settle_to(&self) -> Option<&Path> {
        non_empty(&self.settle_to)
    }

    /// Returns the rules for the blocks that remain in the journal.
    pub fn retention(&self) -> Retention {
        Retention {
            keep_blocks: self.keep_blocks,
            keep_days: self.keep_days,
            archive: self.archive,
        }
    }

    /// Returns the conditions for sealing a block.
    pub fn seal(&self) -> SealPolicy {
        SealPolicy {
            operations: self.block_operations,
            seconds: self.block_s,
        }
    }

    /// Returns the time for which the fast path may answer without hearing from the host.
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
        parse_range(&text).map(Self::Range).ok_or_else(|| {
            format!(
                "{text:?} must be an address, an address range as in \"10.0.0.0/8\", or a key as in \
                 \"key:0123…\""
            )
        })
    }
}

impl From<Issuer> for String {
    fn from(issuer: Issuer) -> Self {
        match issuer {
            Issuer::Range(range) => format!("{}/{}", range.address, range.prefix_bits),
            Issuer::Key(key) => format!("key:{key}"),
        }
    }
}
