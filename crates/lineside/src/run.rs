//! `lineside run`: serves all enabled services until a signal ends the process. The `serve` commands of the services
//! share its options and its announcement.

use crate::config::Config;
use crate::daemon::Serving;
use crate::notify;
use crate::out::{self, Unwritten};
use crate::session::Session;
use crate::spv::hide::hide_password;
use crate::wrong::Wrong;
use clap::Args;
use lineside_service::{DatapathConfig, DatapathKind, Endpoint, XdpModeName};
use serde_json::json;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Variables that systemd sets for the processes of a unit.
const UNIT_VARIABLES: [&str; 2] = ["INVOCATION_ID", "NOTIFY_SOCKET"];

/// Serve all services that the configuration file enables, until SIGINT, SIGTERM or SIGHUP.
///
/// Starts every service with `enabled = true`, and the console, which answers /status, /healthz and /metrics.
#[derive(Args)]
pub struct Run {
    /// Configuration file; without one every key has its default, and no service is enabled. `lineside.toml` in the
    /// repository explains every key.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Start everything, print the addresses, then stop: tests a configuration on this machine.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    set: Assignments,
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    keep: KeepFastPath,
}

/// Options that every server has; each replaces a value of the configuration file.
#[derive(Args)]
pub struct Overrides {
    /// Place of the fast path: in the network driver (xdp), in user space (socket), xdp where possible (auto), or in a
    /// simulated FPGA NIC at a TAP device (rtl, if the program was built with it) [default: auto]
    #[arg(long, value_enum, help_heading = "Datapath and console")]
    datapath: Option<DatapathKind>,
    /// Network interface that XDP is attached to; may be given more than once, or as names with commas between them
    /// [default: lo]
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        help_heading = "Datapath and console"
    )]
    interface: Vec<String>,
    /// Mode in which XDP programs are attached to the interfaces: native, generic or auto, which chooses one of the two
    /// for each interface [default: auto]
    #[arg(long, value_enum, help_heading = "Datapath and console")]
    xdp_mode: Option<XdpModeName>,
    /// Directory on a BPF file system in which maps and programs are pinned [default: /sys/fs/bpf/lineside]
    #[arg(long, value_name = "DIR", help_heading = "Datapath and console")]
    pin_dir: Option<PathBuf>,
    /// Address and TCP port of the console: /status, /healthz, /metrics [default: 127.0.0.1:7700]
    #[arg(
        long,
        value_name = "ADDR:PORT",
        value_parser = crate::address::console,
        help_heading = "Datapath and console"
    )]
    console: Option<SocketAddr>,
}

/// Option of servers whose fast path can answer without them.
#[derive(Args)]
pub struct KeepFastPath {
    /// Leave the XDP fast path attached when the server stops; it answers until its lease expires. Only the fast path
    /// of `spv` can do that.
    #[arg(long, help_heading = "Datapath and console")]
    keep_fast_path: bool,
}

/// Option `--keep-fast-path` of servers whose fast path cannot answer without them. The help does not show it, and its
/// error says why it is refused.
#[derive(Args)]
pub struct NoKeepFastPath {
    #[arg(long, hide = true)]
    keep_fast_path: bool,
}

impl KeepFastPath {
    /// Sets the value in `config` if the option is given.
    pub fn over(self, config: &mut Config) {
        let keep = self.keep_fast_path.then_some(true);
        config.datapath.set_some("keep_fast_path", keep);
    }
}

impl NoKeepFastPath {
    /// Refuses the option.
    ///
    /// # Errors
    /// The option is given to the server of `service`.
    pub fn check(&self, service: &str) -> Result<(), Wrong> {
        match self.keep_fast_path {
            false => Ok(()),
            true => Err(Wrong(format!(
                "--keep-fast-path: the fast path of {service} always ends with its server; leave the option out"
            ))),
        }
    }
}

/// Options that replace values of the configuration file by their names.
#[derive(Args)]
pub struct Assignments {
    /// Replace one value of the configuration file, such as spv.lease_s=30; may be given more than once. A value that
    /// also has a separate option, such as --console, must be given only once.
    #[arg(long = "set", value_name = "SECTION.KEY=VALUE")]
    set: Vec<String>,
}

impl Assignments {
    /// Replaces values of `config`. `given` has the keys that separate options have already set, with these options.
    ///
    /// # Errors
    /// An assignment is malformed, or an option gives the same value.
    pub fn over(self, config: &mut Config, given: &[(&str, &str)]) -> Result<(), Wrong> {
        for assignment in &self.set {
            let key = assignment.split_once('=').map_or("", |(key, _)| key.trim());
            if let Some((_, option)) = given.iter().find(|(other, _)| *other == key) {
                return Err(Wrong(format!(
                    "--set {assignment} and {option} give the same value; leave one of them out"
                )));
            }
            config
                .set(assignment)
                .map_err(|why| Wrong(format!("--set {why}")))?;
        }
        Ok(())
    }
}

impl Overrides {
    /// Returns the configuration in `file`, or the default one, with the values of all these options.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or has a section whose name is neither a service nor a shared section; or
    /// two options give the same value.
    pub fn over_all(
        self,
        file: Option<PathBuf>,
        keep: KeepFastPath,
        set: Assignments,
    ) -> anyhow::Result<Config> {
        let mut given = self.given();
        given.extend(
            keep.keep_fast_path
                .then_some(("datapath.keep_fast_path", "--keep-fast-path")),
        );
        let mut config = self.over(file)?;
        keep.over(&mut config);
        set.over(&mut config, &given)?;
        Ok(config)
    }

    /// Returns the keys that the given options replace, with the options.
    fn given(&self) -> Vec<(&'static str, &'static str)> {
        let all = [
            (self.datapath.is_some(), "datapath.kind", "--datapath"),
            (!self.interface.is_empty(), "datapath.interface", "--interface"),
            (!self.interface.is_empty(), "datapath.interfaces", "--interface"),
            (self.xdp_mode.is_some(), "datapath.xdp_mode", "--xdp-mode"),
            (self.pin_dir.is_some(), "datapath.pin_dir", "--pin-dir"),
            (self.console.is_some(), "console.listen", "--console"),
        ];
        let given = all.into_iter().filter(|(is_given, ..)| *is_given);
        given.map(|(_, key, option)| (key, option)).collect()
    }

    /// Returns the configuration in `file`, or the default one, with the values of these options.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or has a section whose name is neither a service nor a shared section.
    pub fn over(self, file: Option<PathBuf>) -> anyhow::Result<Config> {
        let mut config = match file {
            Some(file) => Config::read(&file)?,
            None => Config::default(),
        };
        let datapath = &mut config.datapath;
        datapath.set_some("kind", self.datapath);
        DatapathConfig::set_interfaces(datapath, &self.interface);
        datapath.set_some("xdp_mode", self.xdp_mode);
        datapath.set_some("pin_dir", self.pin_dir);
        config.console.set_some("listen", self.console);
        Ok(config)
    }
}

/// Serves the enabled services until a signal ends the process.
///
/// # Errors
/// The configuration is wrong, or a service cannot start or ended with an error.
pub fn run(arguments: Run, as_json: bool) -> anyhow::Result<()> {
    hide_password()?;
    let Run {
        config,
        once,
        set,
        overrides,
        keep,
    } = arguments;
    let config = overrides.over_all(config, keep, set)?;
    let session = Session::start(&config, true)?;
    if once {
        announce(&session, as_json)?;
        return session.stop();
    }
    serve(session, as_json)
}

/// Prints the addresses of the services, then serves until a signal ends the process.
///
/// # Errors
/// A service ended with an error.
pub fn serve(session: Session, as_json: bool) -> anyhow::Result<()> {
    // A server continues when standard output cannot be written. If standard output is the journal of systemd, the log
    // is there too, and already has a line with the same content.
    if as_json || !notify::is_journal(std::io::stdout()) {
        out::said_by_server(announce(&session, as_json));
        if !as_json {
            out::said_by_server(announce_end(&session));
        }
    }
    session.serve()
}

/// Prints the addresses of the services of `session`.
///
/// # Errors
/// Standard output cannot be written.
pub fn announce(session: &Session, as_json: bool) -> Result<(), Unwritten> {
    let all = session.daemon().serving();
    if as_json {
        return say!("{}", started(session));
    }
    for one in &all {
        say!("{} on {} ({})", one.name, one.listen, one.datapath)?;
        for Endpoint { protocol, address } in &one.also {
            say!("  {protocol} on {address}")?;
        }
    }
    Ok(())
}

/// Prints the address of the console, and how to end the server.
///
/// # Errors
/// Standard output cannot be written.
pub fn announce_end(session: &Session) -> Result<(), Unwritten> {
    if let Some(console) = session.console() {
        say!("console on http://{console}/ (also /status, /metrics and /healthz)")?;
    }
    match end_notice() {
        Some(notice) => say!("{notice}"),
        None => Ok(()),
    }
}

/// Returns the line that says how to end a server: by Ctrl-C if standard input is a terminal, otherwise by a signal.
/// `None` for a unit of systemd, which `systemctl stop` ends.
pub fn end_notice() -> Option<&'static str> {
    let is_unit = UNIT_VARIABLES.iter().any(|name| std::env::var_os(name).is_some());
    match (std::io::stdin().is_terminal(), is_unit) {
        (true, _) => Some("Ctrl-C ends it"),
        (false, false) => Some("SIGTERM ends it"),
        (false, true) => None,
    }
}

/// Returns the JSON object that announces the services of `session`.
pub fn started(session: &Session) -> serde_json::Value {
    let object = |one: &Serving| {
        let also = one
            .also
            .iter()
            .map(|also| (also.protocol.to_owned(), json!(also.address)));
        let also: serde_json::Map<_, _> = also.collect();
        json!({"name": one.name, "listen": one.listen, "datapath": one.datapath, "also": also})
    };
    let services: Vec<_> = session.daemon().serving().iter().map(object).collect();
    let first = services.first().cloned().unwrap_or_default();
    json!({
        "listen": first["listen"], "datapath": first["datapath"], "services": services,
        "console": session.console().map(|console| format!("http://{console}")),
    })
}
