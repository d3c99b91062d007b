//! `lineside hybrid serve`: command-line options of a node.

use crate::address::AddressError;
use crate::config::Config;
use crate::out::counted;
use crate::out::{self, Unwritten};
use crate::run::announce_end;
use crate::session::Session;
use crate::wrong::Wrong;
use anyhow::bail;
use clap::Args;
use lineside_hybrid_node::config::{HybridConfig, LogName, UdpName};
use lineside_hybrid_node::service::PAPER_MODE_WARNING;
use lineside_service::config::non_empty;
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Parses `auto`, `off`, ADDR:PORT or NAME:PORT.
fn udp(text: &str) -> Result<UdpName, AddressError> {
    let is_word = ["auto", "off"].contains(&text);
    let address = if is_word {
        text.to_owned()
    } else {
        crate::address::parse(text)?.to_string()
    };
    Ok(UdpName::try_from(address)?)
}

/// Serve a database by gRPC and UDP until SIGINT, SIGTERM or SIGHUP.
///
/// Only the service `hybrid` runs, even if the configuration file enables others. Options replace values of the file.
#[derive(Args)]
pub struct Serve {
    /// Configuration file; its sections [hybrid], [console] and [process] apply.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory of the ledger, which is created if missing; needed here or in the configuration file.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// File with the genesis of the database [default: genesis.bin]
    #[arg(long, value_name = "FILE")]
    genesis: Option<PathBuf>,
    /// File with the key of this node [default: node.key]
    #[arg(long, value_name = "FILE")]
    node_key: Option<PathBuf>,
    /// Number of this node in the database [default: 1]
    #[arg(long, value_name = "N")]
    node: Option<u32>,
    /// Log that orders writes: `embedded` for this node alone, or `kafka://HOST:PORT[,…][/TOPIC]` for any number of
    /// nodes [default: embedded]
    #[arg(long, value_name = "LOG")]
    log: Option<LogName>,
    /// Accept a Kafka topic that may lose acknowledged messages; /status lists its weak settings.
    #[arg(long)]
    allow_weak_kafka: bool,
    /// Address and TCP port for gRPC [default: 127.0.0.1:7705]
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::parse)]
    listen: Option<SocketAddr>,
    /// Address and port for requests over UDP, or `off` [default: the address of gRPC, or off if gRPC uses TLS]
    #[arg(long, value_name = "ADDR:PORT", value_parser = udp)]
    udp: Option<UdpName>,
    /// File with the server's certificate [default: no TLS]
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// File with the key of --certificate.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// File with CA certificates; clients must present a certificate signed by one of them [default: no client
    /// certificates]
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Address and TCP port of the console: /status, /healthz, /metrics. Without this option and without a
    /// configuration file, there is no console.
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::address::console)]
    console: Option<SocketAddr>,
}

impl Serve {
    /// Returns the configuration, and true if the console is to be started.
    fn config(self) -> anyhow::Result<(Config, bool)> {
        let with_console = self.config.is_some() || self.console.is_some();
        let mut config = match &self.config {
            Some(file) => Config::read(file)?,
            None => Config::default(),
        };
        config.console.set_some("listen", self.console);
        let section = config.section("hybrid");
        section.set_some("data", self.data);
        section.set_some("genesis", self.genesis);
        section.set_some("node_key", self.node_key);
        section.set_some("node", self.node);
        section.set_some("log", self.log);
        section.set_some("allow_weak_kafka", self.allow_weak_kafka.then_some(true));
        section.set_some("listen", self.listen);
        section.set_some("udp", self.udp);
        section.set_some("certificate", self.certificate);
        section.set_some("key", self.key);
        section.set_some("client_ca", self.client_ca);
        if section
            .read::<HybridConfig>()
            .is_ok_and(|read| non_empty(&read.data).is_none())
        {
            let why = "no data directory: give --data DIR, or `data` in [hybrid] of the configuration file";
            bail!(Wrong(why.into()));
        }
        config.serve_only("hybrid");
        Ok((config, with_console))
    }

    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let (config, with_console) = self.config()?;
        let session = Session::start(&config, with_console)?;
        out::said_by_server(announce(&session, as_json));
        session.serve()
    }
}

/// Prints the database and the addresses of the node.
fn announce(session: &Session, as_json: bool) -> Result<(), Unwritten> {
    let endpoints = session.daemon().endpoints();
    let at = |protocol: &str| {
        let mut all = endpoints.iter();
        all.find(|endpoint| endpoint.protocol == protocol)
            .map(|endpoint| endpoint.address)
    };
    let snapshot = session.daemon().observed()();
    let service = snapshot.services.first().cloned().unwrap_or_default();
    let (database, paper) = (&service.details["database"], service.details["paper"] == true);
    let height = service.tip.as_ref().map_or(0, |tip| tip.height);
    if as_json {
        let line = json!({
            "database": database, "blocks": height, "listen": at("grpc"), "udp": at("udp"),
            "console": session.console(), "paper": paper,
        });
        return say!("{line}");
    }
    let (database, listen) = (database.as_str().unwrap_or_default(), at("grpc"));
    let listen = listen.map(|listen| listen.to_string()).unwrap_or_default();
    say!(
        "database {database}: {}; gRPC on {listen}",
        counted(height, "block")
    )?;
    if let Some(udp) = at("udp") {
        say!("UDP on {udp}")?;
    }
    if paper {
        say!("{PAPER_MODE_WARNING}")?;
    }
    announce_end(session)
}
