//! The section `[datapath]` of the configuration: where the fast paths of all services run.

use crate::config::{ConfigIssue, Issues, Section};
use clap::ValueEnum;
use lineside_rtl::InterfaceAddress;
use lineside_xdp::XdpMode;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of interfaces of one process.
pub const INTERFACES_MAX: usize = 8;
/// Maximum number of addresses of this machine at the TAP device.
const TAP_ADDRESSES_MAX: usize = 8;

/// The section `[datapath]`; `lineside.toml` explains every key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DatapathConfig {
    /// Datapath of the fast paths.
    pub kind: DatapathKind,
    /// Network interfaces that XDP programs are attached to: 1 to [`INTERFACES_MAX`] different names.
    pub interfaces: Vec<String>,
    /// A single interface, in place of `interfaces`. Parsing moves the name into `interfaces` and leaves this field
    /// empty.
    pub interface: String,
    /// Mode in which XDP programs are attached.
    pub xdp_mode: XdpModeName,
    /// Number of threads of the socket datapath for each service; 0 means one for each core.
    pub threads: usize,
    /// Maximum number of requests of one service that wait for its host.
    pub queue: usize,
    /// Time in seconds for which requests may wait without any answer of the host before the process counts as
    /// unhealthy.
    pub stall_s: u64,
    /// True if the XDP programs continue to answer after the daemon has ended, until their lease ends.
    pub keep_fast_path: bool,
    /// Directory of a BPF file system in which maps and links are pinned.
    pub pin_dir: PathBuf,
    /// Name of the TAP device that the datapath `rtl` creates.
    pub tap: String,
    /// Addresses of this machine at the TAP device, with the lengths of their prefixes.
    pub tap_addresses: Vec<String>,
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
    /// The simulated FPGA NIC, at a TAP device.
    Rtl,
}

impl DatapathKind {
    /// Returns true if the server loads XDP programs with this datapath.
    pub const fn may_be_xdp(self) -> bool {
        match self {
            Self::Auto | Self::Xdp => true,
            Self::Socket | Self::Rtl => false,
        }
    }
}

/// Mode in which XDP programs are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum XdpModeName {
    /// Native if the driver supports it, otherwise generic; a veth is native only if its other end takes the answers.
    Auto,
    /// In the network driver: fast, but the driver must support it.
    Native,
    /// In the kernel's network stack: slower, at any interface.
    Generic,
}

impl Default for DatapathConfig {
    fn default() -> Self {
        Self {
            kind: DatapathKind::Auto,
            interfaces: vec!["lo".into()],
            interface: String::new(),
            xdp_mode: XdpModeName::Auto,
            threads: 0,
            queue: 4096,
            stall_s: 5,
            keep_fast_path: false,
            pin_dir: lineside_xdp::DEFAULT_PIN_DIR.into(),
            tap: "lineside0".into(),
            tap_addresses: vec!["10.77.0.1/24".into()],
        }
    }
}

impl DatapathConfig {
    /// Reads the section and checks its values.
    ///
    /// # Errors
    /// All issues that were found.
    pub fn parse(section: &Section) -> Result<Self, Vec<ConfigIssue>> {
        let mut config: Self = section.read()?;
        let mut issues = Issues::new(section);
        issues.range("threads", config.threads as u64, 0..=256);
        issues.range("queue", config.queue as u64, 1..=1 << 20);
        issues.range("stall_s", config.stall_s, 1..=3600);
        if !config.interface.is_empty() {
            if section.is_set("interfaces") {
                let what = format!(
                    "{:?}: `interfaces` is set as well; remove one of the two",
                    config.interface
                );
                issues.add("interface", what);
            }
            check_name("interface", &config.interface, &mut issues);
            config.interfaces = vec![std::mem::take(&mut config.interface)];
        } else {
            check_interfaces(&config.interfaces, &mut issues);
        }
        check_name("tap", &config.tap, &mut issues);
        if config.tap == "lo" {
            issues.add(
                "tap",
                "\"lo\": the loopback interface has this name; give another name",
            );
        }
        check_tap_addresses(&config.tap_addresses, &mut issues);
        if config.kind == DatapathKind::Rtl && config.keep_fast_path {
            let what =
                "true: the NIC of the datapath `rtl` always ends with its server; remove keep_fast_path";
            issues.add("keep_fast_path", what);
        }
        if !config.pin_dir.is_absolute() {
            issues.add(
                "pin_dir",
                format!("{:?}: must be an absolute path", config.pin_dir),
            );
        }
        issues.finish(config)
    }

    /// Replaces the interfaces in the section by `names`, if there are any.
    pub fn set_interfaces(section: &mut Section, names: &[String]) {
        if !names.is_empty() {
            section.set("interfaces", names);
            section.set("interface", "");
        }
    }

    /// Returns the addresses of this machine at the TAP device.
    pub fn tap_networks(&self) -> Vec<InterfaceAddress> {
        let parsed = self.tap_addresses.iter();
        parsed.filter_map(|text| InterfaceAddress::parse(text)).collect()
    }

    /// Returns the network of the TAP device that contains `ip`, if the datapath is `rtl` and this machine does not
    /// have `ip`, so that only the NIC can have it.
    pub fn nic_network_of(&self, ip: IpAddr) -> Option<InterfaceAddress> {
        let networks = match self.kind {
            DatapathKind::Rtl => self.tap_networks(),
            _ => Vec::new(),
        };
        let ip = ip.to_canonical();
        let is_own = networks.iter().any(|network| network.address == ip);
        networks
            .into_iter()
            .find(|network| network.contains(ip) && !is_own)
    }

    /// Returns the time after which a host that answers no waiting request makes the process unhealthy.
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

/// Adds an issue for each name in the key `interfaces` that no interface can have, for a name that is given twice, and
/// for a wrong number of names.
fn check_interfaces(names: &[String], issues: &mut Issues) {
    if !(1..=INTERFACES_MAX).contains(&names.len()) {
        let what = format!(
            "{} names: must be 1 to {INTERFACES_MAX} names of interfaces",
            names.len()
        );
        issues.add("interfaces", what);
    }
    for (place, name) in names.iter().enumerate() {
        check_name("interfaces", name, issues);
        if names[..place].contains(name) {
            issues.add("interfaces", format!("{name:?} is listed twice"));
        }
    }
}

/// Adds an issue for each address that is not written as `ADDRESS/BITS`, that no machine can have, or that is listed
/// twice, and for a wrong number of addresses.
fn check_tap_addresses(addresses: &[String], issues: &mut Issues) {
    if !(1..=TAP_ADDRESSES_MAX).contains(&addresses.len()) {
        let what = format!(
            "{} addresses: must be 1 to {TAP_ADDRESSES_MAX} addresses",
            addresses.len()
        );
        issues.add("tap_addresses", what);
    }
    let mut known: Vec<(IpAddr, &String)> = Vec::new();
    for text in addresses {
        let what = match InterfaceAddress::parse(text) {
            None => {
                format!(
                    "{text:?}: must be an address with the length of its prefix, such as \"10.77.0.1/24\""
                )
            }
            Some(address) => {
                let same = known.iter().find(|(ip, _)| *ip == address.address);
                let same = same.map(|(_, other)| *other);
                known.push((address.address, text));
                match (same, address.fault()) {
                    (Some(other), _) => {
                        format!("{text:?} has the same address as {other:?}; remove one of the two")
                    }
                    (None, Some(fault)) => {
                        format!("{text:?} {fault}; give an address of one machine, such as \"10.77.0.1/24\"")
                    }
                    (None, None) => continue,
                }
            }
        };
        issues.add("tap_addresses", what);
    }
}

fn check_name(key: &str, name: &str, issues: &mut Issues) {
    // A name has at most 15 bytes (IFNAMSIZ less the final zero byte). Linux refuses these characters and names, and
    // replaces `%d` by a number.
    let is_refused =
        |letter: char| matches!(letter, '/' | ':' | '%') || letter.is_whitespace() || letter.is_control();
    let is_name = (1..=15).contains(&name.len())
        && !name.contains(is_refused)
        && ![".", "..", "all", "default"].contains(&name);
    if !is_name {
        issues.add(
            key,
            format!("{name:?}: must be an interface's name of 1 to 15 bytes"),
        );
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
