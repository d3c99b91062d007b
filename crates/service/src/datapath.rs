//! The section `[datapath]` of the configuration: where the fast paths of all services run.

use crate::config::{ConfigIssue, Issues, Section};
use clap::ValueEnum;
use lineside_xdp::XdpMode;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The section `[datapath]`; `lineside.toml` explains every key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DatapathConfig {
    /// Datapath of the fast paths.
    pub kind: DatapathKind,
    /// Network interface that XDP programs are attached to.
    pub interface: String,
    /// Mode in which XDP programs are attached.
    pub xdp_mode: XdpModeName,
    /// Number of threads of the socket datapath for each service; 0 means one for each core.
    pub threads: usize,
    /// Maximum number of requests of one service that wait for its host.
    pub queue: usize,
    /// Seconds after which the process is unhealthy if requests wait for a host and it answers none.
    pub stall_s: u64,
    /// True if the XDP programs continue to answer after the daemon has ended, until their lease ends.
    pub keep_fast_path: bool,
    /// Directory of a BPF file system in which maps and the link are pinned.
    pub pin_dir: PathBuf,
}

/// Datapath of the fast paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum DatapathKind {
    /// XDP if it is available, else sockets.
    Auto,
    /// Sockets, in user space.
    Socket,
    /// XDP programs, in the network driver.
    Xdp,
}

/// Mode in which XDP programs are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum XdpModeName {
    /// In the driver where it can run XDP programs, else generic.
    Auto,
    /// In the driver.
    Native,
    /// In the network stack, before it processes the frame.
    Generic,
}

impl Default for DatapathConfig {
    fn default() -> Self {
        Self {
            kind: DatapathKind::Auto,
            interface: "lo".into(),
            xdp_mode: XdpModeName::Auto,
            threads: 0,
            queue: 4096,
            stall_s: 5,
            keep_fast_path: false,
            pin_dir: "/sys/fs/bpf/lineside".into(),
        }
    }
}

impl DatapathConfig {
    /// Reads the section and checks its values.
    ///
    /// # Errors
    /// All issues that were found.
    pub fn parse(section: &Section) -> Result<Self, Vec<ConfigIssue>> {
        let config: Self = section.read()?;
        let mut issues = Issues::new(section);
        issues.range("threads", config.threads as u64, 0..=256);
        issues.range("queue", config.queue as u64, 1..=1 << 20);
        issues.range("stall_s", config.stall_s, 1..=3600);
        let interface = &config.interface;
        // IFNAMSIZ less the final zero byte, and the characters that Linux refuses in names.
        let is_name = (1..=15).contains(&interface.len())
            && !interface.contains(|letter: char| letter == '/' || letter == ':' || letter.is_whitespace())
            && interface != "."
            && interface != "..";
        if !is_name {
            issues.add(
                "interface",
                format!("{interface:?}: must be an interface's name of 1 to 15 bytes"),
            );
        }
        if !config.pin_dir.is_absolute() {
            issues.add(
                "pin_dir",
                format!("{:?}: must be an absolute path", config.pin_dir),
            );
        }
        issues.finish(config)
    }

    /// Returns the time after which a host that answers nothing makes the process unhealthy.
    pub fn stall(&self) -> Duration {
        Duration::from_secs(self.stall_s)
    }

    /// Returns the number of receiving threads of the socket datapath, for each service.
    pub fn socket_threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }
}

impl From<XdpModeName> for XdpMode {
    fn from(mode: XdpModeName) -> Self {
        match mode {
            XdpModeName::Auto => Self::Auto,
            XdpModeName::Native => Self::Native,
            XdpModeName::Generic => Self::Generic,
        }
    }
}
