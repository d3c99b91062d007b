//! Checks of the interfaces, and of BPF: rights, file system for pins, and whether the kernel accepts the programs.

use super::{Finding, Level};
use crate::config::CheckedConfig;
use crate::privileges;
use caps::{CapSet, Capability};
use lineside_service::{DatapathConfig, DatapathKind, Listen, Service};
use lineside_xdp::{Interface, Pins, XdpDatapath, XdpError, attached, harmful_offloads, native_needs};
use std::fs;
use std::net::IpAddr;
use std::path::Path;

/// End of a remedy that names the alternative to XDP.
const OR_SOCKET: &str = "or set kind = \"socket\" in [datapath], which does not need that";
/// Remedy if the kernel does not accept the programs; the kernel's error, which is printed too, says what is missing.
const TAKE_SOCKET: &str = "do what the message says, or set kind = \"socket\" in [datapath]";

pub(super) fn check(config: &CheckedConfig) -> Vec<Finding> {
    let datapath = &config.datapath;
    if datapath.kind == DatapathKind::Socket {
        return vec![Finding::ok(
            "datapath",
            "sockets: rights, BPF and the interfaces are not checked",
        )];
    }
    if datapath.kind == DatapathKind::Rtl {
        return vec![simulated_nic(), tap_rights(), tap_device(&datapath.tap)];
    }
    if !config.services.is_empty() && config.enabled().next().is_some() && !config.enabled().any(has_program)
    {
        return vec![Finding::ok(
            "datapath",
            "the enabled services have no fast path: rights, BPF and the interfaces are not checked",
        )];
    }
    let mut findings = vec![rights(), pin_dir(&datapath.pin_dir), programs(config)];
    let names = datapath.interfaces.iter();
    findings.extend(names.flat_map(|name| interface(config, name)));
    if datapath.kind == DatapathKind::Auto {
        // With `kind = "auto"` the server starts with sockets if XDP cannot be used, so a failed check is only a
        // warning.
        for finding in &mut findings {
            if finding.level == Level::Failed {
                finding.level = Level::Warning;
            }
        }
    }
    findings
}

/// Returns true if an XDP program can answer for the service.
fn has_program(service: &dyn Service) -> bool {
    service.program().is_some()
}

fn simulated_nic() -> Finding {
    match lineside_rtl::HAS_SIMULATED_NIC {
        true => Finding::ok("nic", "this program has the simulated NIC"),
        false => Finding::failed(
            "nic",
            "this program was built without the simulated NIC",
            "run `make rtl-setup`, then build with `--features rtl`, or set another `kind` in [datapath]",
        ),
    }
}

fn tap_rights() -> Finding {
    let needed = [Capability::CAP_NET_ADMIN, Capability::CAP_SYS_ADMIN];
    let is_missing = |one: &Capability| !caps::has_cap(None, CapSet::Effective, *one).unwrap_or(false);
    match needed.iter().any(is_missing) {
        false => Finding::ok(
            "rights",
            "this process may create a TAP device and a network namespace",
        ),
        true => Finding::failed(
            "rights",
            "this process lacks CAP_NET_ADMIN or CAP_SYS_ADMIN",
            "run as root, or set another `kind` in [datapath]",
        ),
    }
}

fn tap_device(name: &str) -> Finding {
    if Path::new("/sys/class/net").join(name).exists() {
        return Finding::failed(
            "tap",
            format!("there is already an interface {name}"),
            "stop the server that has it, or set another name as `tap` in [datapath]",
        );
    }
    match Path::new("/dev/net/tun").exists() {
        true => Finding::ok("tap", "the kernel offers TAP devices (/dev/net/tun)"),
        false => Finding::failed(
            "tap",
            "there is no /dev/net/tun",
            "run `modprobe tun`; in a container, give it the device /dev/net/tun",
        ),
    }
}

fn rights() -> Finding {
    let missing: Vec<_> = privileges::XDP
        .iter()
        .filter(|capability| !caps::has_cap(None, CapSet::Effective, **capability).unwrap_or(false))
        .map(ToString::to_string)
        .collect();
    if missing.is_empty() {
        return Finding::ok("rights", "this process may load and attach XDP programs");
    }
    Finding::failed(
        "rights",
        format!("this process lacks {}", missing.join(", ")),
        format!("run as root, or give the program these capabilities; {OR_SOCKET}"),
    )
}

fn pin_dir(dir: &Path) -> Finding {
    match Pins::check_dir(dir) {
        Err(error @ XdpError::OtherUser(_)) => {
            Finding::failed("pins", error.to_string(), "do what the message says")
        }
        Ok(()) => Finding::ok("pins", format!("{} is on a BPF file system", dir.display())),
        Err(error) => Finding::failed(
            "pins",
            error.to_string(),
            format!("mount -t bpf bpf /sys/fs/bpf, or set `pin_dir` in [datapath]; {OR_SOCKET}"),
        ),
    }
}

/// Loads the XDP programs of the enabled services with their tables, as the server would, and discards them.
fn programs(config: &CheckedConfig) -> Finding {
    let datapath = &config.datapath;
    let mut names = datapath.interfaces.iter();
    let served = names.find(|name| Pins::is_owned(&datapath.pin_dir, name));
    // The tables of a running server exist already; a second copy might not fit the memory.
    let specs: Vec<_> = match served {
        Some(_) => Vec::new(),
        None => config.enabled().filter_map(Service::program).collect(),
    };
    let count = specs.len();
    match (XdpDatapath::load(specs, None), served) {
        (Ok(_), Some(name)) => Finding::ok(
            "programs",
            format!("a server runs on {name}; the kernel accepts XDP programs"),
        ),
        (Ok(_), None) => Finding::ok(
            "programs",
            format!(
                "the kernel accepts the XDP programs of the enabled services ({count}), with their tables"
            ),
        ),
        (Err(error), _) => Finding::failed("programs", error.to_string(), TAKE_SOCKET),
    }
}

/// Checks one interface.
fn interface(config: &CheckedConfig, name: &str) -> Vec<Finding> {
    let datapath = &config.datapath;
    let found = match Interface::find(name) {
        Ok(found) => found,
        Err(error) => {
            let remedy = "set `interfaces` in [datapath] to the interfaces on which requests arrive";
            return vec![Finding::failed("interface", error.to_string(), remedy)];
        }
    };
    let mut findings = vec![addresses(&found), link_state(name)];
    let listens = config.enabled().flat_map(Service::listens);
    let listens: Vec<_> = listens.filter(|listen| listen.has_fast_path).collect();
    findings.extend(elsewhere(&found, &listens));
    if let Some(finding) = attached_program(datapath, &found) {
        findings.push(finding);
    }
    let offloads = harmful_offloads(name);
    if offloads.is_empty() {
        findings.push(Finding::ok(
            "offloads",
            format!("{name} has no active offload that changes frames before XDP"),
        ));
    }
    let remedies = offloads.into_iter().map(|line| ("offloads", line));
    let needs = native_needs(name).into_iter().map(|line| ("driver", line));
    for (check, line) in remedies.chain(needs) {
        // Each line has the form "state: command".
        let (what, remedy) = line.split_once(": ").unwrap_or((&line, "see docs/operations.md"));
        findings.push(Finding::warning(check, what, remedy));
    }
    findings
}

fn addresses(interface: &Interface) -> Finding {
    let name = &interface.name;
    let (v4, v6) = (interface.endpoint.v4().count(), interface.endpoint.v6().count());
    match v4 + v6 {
        0 => Finding::failed(
            "interface",
            format!("{name} has no IP address, so XDP answers nothing there"),
            format!(
                "ip address add ADDR/PREFIX dev {name}, or leave {name} out of `interfaces` in [datapath]"
            ),
        ),
        _ => Finding::ok(
            "interface",
            format!("{name} has {v4} IPv4 and {v6} IPv6 addresses"),
        ),
    }
}

/// Returns a finding if XDP at the interface would answer nothing, because the addresses of all services with a fast
/// path are elsewhere.
fn elsewhere(interface: &Interface, listens: &[Listen]) -> Option<Finding> {
    let is_here = |address: IpAddr| match address {
        IpAddr::V4(address) => interface.endpoint.v4().any(|own| own == address),
        IpAddr::V6(address) => interface.endpoint.v6().any(|own| own == address),
    };
    let answers = |listen: &Listen| listen.address.ip().is_unspecified() || is_here(listen.address.ip());
    let first = listens.first()?.address;
    (!listens.iter().any(answers)).then(|| {
        let name = &interface.name;
        Finding::failed(
            "interface",
            format!(
                "no service listens at an address of {name} (the first listens at {first}), so XDP cannot be used"
            ),
            format!(
                "set `listen` to an address of {name} or to 0.0.0.0, or `interfaces` to the interface of that \
                 address"
            ),
        )
    })
}

/// Checks `/sys/class/net/NAME/operstate`; `lo` and other virtual interfaces report `unknown` while they work.
fn link_state(name: &str) -> Finding {
    let state = fs::read_to_string(format!("/sys/class/net/{name}/operstate")).unwrap_or_default();
    match state.trim() {
        "up" | "unknown" => Finding::ok("link", format!("{name} is up")),
        state => Finding::failed(
            "link",
            format!("{name} is {state}"),
            format!("ip link set {name} up, and check the cable or the other end"),
        ),
    }
}

fn attached_program(datapath: &DatapathConfig, interface: &Interface) -> Option<Finding> {
    let name = &interface.name;
    let is_pinned = Pins::folder_of(&datapath.pin_dir, name).exists();
    match attached(interface) {
        Ok(None) => None,
        Ok(Some((id, mode))) if is_pinned => Some(Finding::ok(
            "attached",
            format!(
                "{name} has a fast path of Lineside ({}, program {id})",
                mode.name()
            ),
        )),
        Ok(Some((id, _))) => Some(Finding::failed(
            "attached",
            format!(
                "{name} has an XDP program that is not pinned in {}",
                datapath.pin_dir.display()
            ),
            format!(
                "`bpftool prog show id {id}` describes the program; detach it, or choose another interface"
            ),
        )),
        Err(error) => Some(Finding::warning(
            "attached",
            format!("the XDP program of {name} cannot be read: {error}"),
            "run as root",
        )),
    }
}
