//! `lineside fabric serve`: command-line options of the server.

use crate::config::Config;
use crate::out::counted;
use crate::out::{self, Unwritten};
use crate::run::announce_end;
use crate::session::Session;
use crate::wrong::Wrong;
use anyhow::bail;
use clap::{Args, ValueEnum};
use lineside_fabric_replica::config::StateName;
use serde_json::json;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// Follow an orderer, validate and keep its blocks, and serve them as a peer does.
///
/// Runs until SIGINT, SIGTERM or SIGHUP. Only the service `fabric` runs, even if the configuration file enables others.
/// Options replace values of the file.
#[derive(Args)]
pub struct Serve {
    /// Configuration file; its sections [fabric], [console] and [process] apply.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Directory of the ledger, which is created if missing.
    #[arg(long, value_name = "DIR", required_unless_present = "config")]
    data: Option<PathBuf>,
    /// Number of threads that read transactions and verify signatures [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Place of the state: in memory, or on disk (fjall) in the folder `state` of the ledger's directory. `memory`
    /// removes a state on disk; either kind is rebuilt from the blocks [default: fjall if the ledger has a state on
    /// disk, otherwise memory]
    #[arg(long, value_name = "PLACE")]
    state: Option<StateIn>,
    #[command(flatten)]
    following: ServeFollowing,
    #[command(flatten)]
    udp: Udp,
    /// File with the channel's genesis block, as `peer channel fetch` writes it; needed while the ledger is empty.
    #[arg(long, value_name = "FILE")]
    genesis: Option<PathBuf>,
    /// Address and TCP port at which blocks are served (Deliver) [default: 127.0.0.1:7051]
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::parse)]
    listen: Option<SocketAddr>,
    /// File with the server's certificate [default: no TLS]
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// File with the key of --certificate.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// File with the CA certificates of clients, for mutual TLS [default: clients need no certificate]
    #[arg(long, value_name = "FILE", requires = "certificate")]
    client_ca: Option<PathBuf>,
    /// File with the results of the newest 64 blocks, which other processes can map into memory [default: none]
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Address and TCP port of the console: /status, /healthz, /metrics. Without this option and without a
    /// configuration file, there is no console.
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::console)]
    console: Option<SocketAddr>,
}

/// Place of a ledger's state.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StateIn {
    Memory,
    Fjall,
}

/// Orderers, and the identity that signs requests to them.
#[derive(Args)]
struct ServeFollowing {
    /// Host and port of an orderer; may be given more than once.
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "config",
          value_parser = lineside_fabric_grpc::client::endpoint)]
    orderer: Vec<String>,
    /// MSP id of the identity that signs requests to orderers, such as Org1MSP.
    #[arg(long, value_name = "NAME", required_unless_present = "config")]
    msp_id: Option<String>,
    /// MSP folder of that identity, with `signcerts` and `keystore`.
    #[arg(long, value_name = "DIR", required_unless_present = "config")]
    msp: Option<PathBuf>,
    /// File with the CA certificates to trust for the orderers' TLS [default: no TLS]
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// File with this replica's certificate for mutual TLS with orderers, which most networks require.
    #[arg(long, value_name = "FILE", requires_all = ["tls_ca", "tls_key"])]
    tls_certificate: Option<PathBuf>,
    /// File with the key of --tls-certificate.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Host name in the orderers' certificates [default: host of each endpoint]
    #[arg(long, value_name = "NAME")]
    tls_host_name: Option<String>,
    /// Seconds without a working orderer after which /healthz answers 503; 0: never [default: 60]
    #[arg(long, value_name = "S")]
    health_after_s: Option<u64>,
}

/// Options for blocks over UDP, and trusted sources.
#[derive(Args)]
struct Udp {
    /// Address and port to receive blocks over UDP; orderers are asked for blocks that the sender no longer has
    /// [default: none]
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::parse)]
    udp_listen: Option<SocketAddr>,
    /// File with the key that is shared with `lineside fabric send`, at least 64 hex digits; only its owner may be able
    /// to read it.
    #[arg(long, value_name = "FILE", requires = "udp_listen")]
    udp_key: Option<PathBuf>,
    /// Receive the paper's packets instead of the native ones; they have no MAC, so that anybody can forge them.
    #[arg(long, requires = "udp_listen", conflicts_with = "udp_key")]
    udp_paper: bool,
    /// File with the paper's configuration (fabric_machine.yaml), whose identities packets may refer to by number.
    #[arg(long, value_name = "FILE", requires = "udp_paper")]
    udp_paper_identities: Option<PathBuf>,
    /// Trusted source address, exempt from the shares of Deliver's limits, and the only kind of source whose paper's
    /// packets are accepted; may be given more than once [default: 127.0.0.0/8 ::1/128]
    #[arg(long, value_name = "ADDR")]
    trusted_sources: Vec<IpAddr>,
}

impl Serve {
    /// Returns the configuration, and true if the console is to be started.
    fn config(self) -> anyhow::Result<(Config, bool)> {
        let with_console = self.config.is_some() || self.console.is_some();
        let mut config = match &self.config {
            Some(file) => Config::read(file)?,
            None => Config::default(),
        };
        if config.tables_of("fabric") > 1 {
            let why = "the configuration has several tables [[fabric]]: serve them with `lineside run --config FILE`";
            bail!(Wrong(why.into()));
        }
        config.console.set_some("listen", self.console);
        let section = config.section("fabric");
        section.set_some("data", self.data);
        section.set_some("threads", self.threads.map(NonZeroUsize::get));
        section.set_some(
            "state",
            self.state.map(|state| match state {
                StateIn::Memory => StateName::Memory,
                StateIn::Fjall => StateName::Fjall,
            }),
        );
        let following = self.following;
        section.set_some("orderers", non_empty(following.orderer));
        section.set_some("msp_id", following.msp_id);
        section.set_some("msp", following.msp);
        section.set_some("tls_ca", following.tls_ca);
        section.set_some("tls_certificate", following.tls_certificate);
        section.set_some("tls_key", following.tls_key);
        section.set_some("tls_host_name", following.tls_host_name);
        section.set_some("health_after_s", following.health_after_s);
        section.set_some("udp_listen", self.udp.udp_listen);
        section.set_some("udp_key", self.udp.udp_key);
        section.set_some("udp_paper", self.udp.udp_paper.then_some(true));
        section.set_some("udp_paper_identities", self.udp.udp_paper_identities);
        section.set_some("trusted_sources", non_empty(self.udp.trusted_sources));
        section.set_some("genesis", self.genesis);
        section.set_some("listen", self.listen);
        section.set_some("certificate", self.certificate);
        section.set_some("key", self.key);
        section.set_some("client_ca", self.client_ca);
        section.set_some("results", self.results);
        config.serve_only("fabric");
        Ok((config, with_console))
    }
}

/// Returns the list; `None` if it is empty.
fn non_empty<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

/// Serves until a signal ends the process.
///
/// # Errors
/// The replica cannot start, or stopped accepting blocks.
pub fn run(arguments: Serve, as_json: bool) -> anyhow::Result<()> {
    let (config, with_console) = arguments.config()?;
    let session = Session::start(&config, with_console)?;
    out::said_by_server(announce(&session, as_json));
    session.serve()
}

/// Prints the channels and their addresses, a line or a JSON object for each.
fn announce(session: &Session, as_json: bool) -> Result<(), Unwritten> {
    let console = session.console();
    for service in session.daemon().observed()().services {
        let fabric = &service.details["fabric"];
        let (channel, blocks, udp) = (&fabric["channel"], &fabric["height_at_start"], &fabric["udp"]);
        if as_json {
            let line = json!({
                "channel": channel, "blocks": blocks, "listen": service.listen, "udp": udp, "console": console,
            });
            say!("{line}")?;
            continue;
        }
        let channel = channel.as_str().unwrap_or_default();
        say!(
            "channel {channel}: {}; block events on {}",
            counted(blocks, "block"),
            service.listen
        )?;
        if let Some(udp) = udp.as_str() {
            say!("blocks over UDP on {udp}")?;
        }
    }
    match as_json {
        true => Ok(()),
        false => announce_end(session),
    }
}
