//! The section `[spv]` of the configuration; `lineside.toml` explains every key.

use crate::chain::{IndexKind, Network};
use crate::store::Geometry;
use clap::ValueEnum;
use lineside_service::config::{ConfigIssue, Issues, Section, given, loopback};
use lineside_wire::SPV_PORT;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The section `[spv]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SpvConfig {
    /// True if `lineside run` serves it.
    pub enabled: bool,
    /// Address and UDP port.
    pub listen: SocketAddr,
    /// Directory of the chain store.
    pub data: PathBuf,
    /// Network of the chain store.
    pub network: NetworkName,
    /// Place of the index of TXIDs.
    pub index: IndexName,
    /// Binary logarithm of the number of cache lines.
    pub line_bits: u32,
    /// Lines in which a TXID may be: 1, 2 or 4.
    pub ways: u32,
    /// Binary logarithm of the number of blocks.
    pub block_bits: u32,
    /// True if a TXID's low 22 bits choose its line, as in the paper, in place of a keyed hash.
    pub paper_index: bool,
    /// True if the paper's packets are answered.
    pub paper_format: bool,
    /// Seconds for which the fast path may answer without hearing from the host.
    pub lease_s: u64,
    /// Blocks that the fast path is filled with before it serves.
    pub prefill: Prefill,
}

/// Network of a chain of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum NetworkName {
    /// The main network.
    Mainnet,
    /// The third test network.
    Testnet3,
    /// The signed test network.
    Signet,
    /// A network for tests on one machine.
    Regtest,
}

/// Place of the index of TXIDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum IndexName {
    /// In memory, made again at each start.
    Memory,
    /// On the disk.
    Disk,
}

/// Blocks that the fast path is filled with before it serves: `none`, `tip:N` or `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Prefill {
    /// Nothing.
    None,
    /// The newest blocks, this many.
    Tip(u32),
    /// All blocks.
    All,
}

impl Default for SpvConfig {
    fn default() -> Self {
        let geometry = Geometry::default();
        Self {
            enabled: false,
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

impl SpvConfig {
    /// Reads and checks the section.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(section: &Section) -> Result<Self, Vec<ConfigIssue>> {
        let config: Self = section.read()?;
        let mut issues = Issues::new(section);
        issues.range("line_bits", config.line_bits.into(), 3..=28);
        issues.range("block_bits", config.block_bits.into(), 1..=24);
        issues.range("lease_s", config.lease_s, 1..=3600);
        if ![1, 2, 4].contains(&config.ways) {
            issues.add("ways", format!("{}: must be 1, 2 or 4", config.ways));
        }
        if config.index == IndexName::Disk && config.data().is_none() {
            issues.add("index", "\"disk\": needs `data`, which is empty");
        }
        if config.enabled && config.data().is_none() {
            issues.add("enabled", "true: needs `data`, which is empty");
        }
        issues.finish(config)
    }

    /// Returns the layout of the fast-path table.
    pub fn geometry(&self) -> Geometry {
        Geometry {
            line_bits: self.line_bits,
            ways: self.ways,
            block_bits: self.block_bits,
            tree_bits: Geometry::default().tree_bits,
            paper_index: self.paper_index,
            paper_format: self.paper_format,
        }
    }

    /// Returns the time for which the fast path may answer without hearing from the host.
    pub fn lease(&self) -> Duration {
        Duration::from_secs(self.lease_s)
    }

    /// Returns the directory of the chain store; `None` where none is given.
    pub fn data(&self) -> Option<&Path> {
        given(&self.data)
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
