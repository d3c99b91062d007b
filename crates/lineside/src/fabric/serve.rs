//! `lineside fabric serve`: options of the command line.

use crate::config::Config;
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

/// Follow an orderer, validate and keep its blocks, and serve them as a peer does, until a signal ends it.
#[derive(Args)]
pub struct Serve {
    /// The configuration file, of which [fabric] and [console] count; what is given here goes before it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The ledger's directory.
    #[arg(long, value_name = "DIR", required_unless_present = "config")]
    data: Option<PathBuf>,
    /// Threads that read transactions and verify signatures; as many as the machine has by default.
    #[arg(long)]
    threads: Option<NonZeroUsize>,
    /// Keep the state in memory, or by fjall in the folder `state` of the ledger's directory. Where a state is there,
    /// fjall is the default, and `memory` removes it; its content is made again from the blocks.
    #[arg(long)]
    state: Option<StateIn>,
    #[command(flatten)]
    following: ServeFollowing,
    #[command(flatten)]
    udp: Udp,
    /// The channel's genesis block, where the ledger has none yet: a file as `peer channel fetch` writes it.
    #[arg(long, value_name = "FILE")]
    genesis: Option<PathBuf>,
    /// Where block events are served [default: 127.0.0.1:7051]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// The server's certificate; without one there is no TLS.
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// CA certificates of clients, for mutual TLS.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    client_ca: Option<PathBuf>,
    /// A file that other processes map, with the results of the last 64 blocks.
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Address and port for `/metrics`, `/healthz` and `/status`; without it, and without a configuration file, there
    /// is no console.
    #[arg(long, value_name = "ADDR:PORT")]
    console: Option<SocketAddr>,
}

/// Place of the state of a ledger.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StateIn {
    Memory,
    Fjall,
}

/// Orderers, and the identity that asks them.
#[derive(Args)]
struct ServeFollowing {
    /// `HOST:PORT` of an orderer; may be given more than once.
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "config",
          value_parser = lineside_fabric_grpc::client::endpoint)]
    orderer: Vec<String>,
    /// The MSP of whom signs the requests.
    #[arg(long, required_unless_present = "config")]
    msp_id: Option<String>,
    /// Its folder, with signcerts and keystore.
    #[arg(long, value_name = "DIR", required_unless_present = "config")]
    msp: Option<PathBuf>,
    /// CA certificates that the endpoints' TLS certificates are checked with; without them there is no TLS.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Our certificate for mutual TLS with them, which most networks ask for.
    #[arg(long, value_name = "FILE", requires_all = ["tls_ca", "tls_key"])]
    tls_certificate: Option<PathBuf>,
    /// Its key.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Host name that the endpoints' certificates are for [default: that of each endpoint]
    #[arg(long, value_name = "NAME")]
    tls_host_name: Option<String>,
    /// Seconds without an orderer after which `/healthz` answers 503; 0: never [default: 60]
    #[arg(long, value_name = "S")]
    health_after_s: Option<u64>,
}

/// Whether and how blocks come over UDP.
#[derive(Args)]
struct Udp {
    /// Take blocks over UDP at this address; the orderer is asked for those that the sender has no more.
    #[arg(long, value_name = "ADDR:PORT")]
    udp_listen: Option<SocketAddr>,
    /// The key shared with `lineside fabric send`: a file with 64 hex digits or more, for its owner's eyes only.
    #[arg(long, value_name = "FILE", requires = "udp_listen")]
    udp_key: Option<PathBuf>,
    /// Take the papers' packets instead, which are not protected against anybody.
    #[arg(long, requires = "udp_listen", conflicts_with = "udp_key")]
    udp_paper: bool,
    /// The papers' configuration (fabric_machine.yaml), whose identities the packets may name without telling them.
    #[arg(long, value_name = "FILE", requires = "udp_paper")]
    udp_paper_identities: Option<PathBuf>,
    /// Source that no share of Deliver's limits binds, and whose papers' packets are believed; may be given more than
    /// once [default: 127.0.0.0/8 ::1/128]
    #[arg(long, value_name = "ADDR")]
    trusted_sources: Vec<IpAddr>,
}

impl Serve {
    /// Returns the configuration, and whether there is to be a console.
    fn config(self) -> anyhow::Result<(Config, bool)> {
        let with_console = self.config.is_some() || self.console.is_some();
        let mut config = match &self.config {
            Some(file) => Config::read(file)?,
            None => Config::default(),
        };
        if config.tables_of("fabric") > 1 {
            let why = "the configuration has several tables [[fabric]]: `lineside run` serves them";
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
        section.set_some("orderers", given(following.orderer));
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
        section.set_some("trusted_sources", given(self.udp.trusted_sources));
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

/// Returns a list that has an item.
fn given<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

/// Serves until a signal comes.
///
/// # Errors
/// The reason why it cannot serve, or why it has taken no more blocks.
pub fn run(arguments: Serve, as_json: bool) -> anyhow::Result<()> {
    let (config, with_console) = arguments.config()?;
    let session = Session::start(&config, with_console)?;
    out::said_by_server(announce(&session, as_json));
    session.serve()
}

/// Prints which channels are served, and where: a line, or an object, for each.
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
            "channel {channel}: {blocks} blocks; block events on {}",
            service.listen
        )?;
        if let Some(udp) = udp.as_str() {
            say!("blocks come over UDP to {udp}")?;
        }
    }
    match as_json {
        true => Ok(()),
        false => announce_end(session),
    }
}
