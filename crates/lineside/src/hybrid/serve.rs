//! `lineside hybrid serve`: a node, until a signal ends it.

use crate::config::Config;
use crate::out::{self, Unwritten};
use crate::run::announce_end;
use crate::session::Session;
use crate::wrong::Wrong;
use anyhow::bail;
use clap::Args;
use lineside_hybrid_node::config::{HybridConfig, LogName, UdpName};
use lineside_hybrid_node::service::PAPER_MODE_WARNING;
use lineside_service::config::given;
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Serve a database by gRPC and UDP until a signal ends it.
#[derive(Args)]
pub struct Serve {
    /// The configuration file, of which [hybrid] and [console] count; what is given here goes before it.
    #[arg(long)]
    config: Option<PathBuf>,
    /// The ledger's directory; made where it is not there.
    #[arg(long)]
    data: Option<PathBuf>,
    /// The database's genesis [default: genesis.bin]
    #[arg(long)]
    genesis: Option<PathBuf>,
    /// The node's key [default: node.key]
    #[arg(long)]
    node_key: Option<PathBuf>,
    /// The node's number [default: 1]
    #[arg(long)]
    node: Option<u32>,
    /// What orders: `embedded` is this node alone; `kafka://HOST:PORT[,…][/TOPIC]` is Kafka, for any number of nodes
    /// (needs a build with the cargo feature `kafka`) [default: embedded]
    #[arg(long)]
    log: Option<LogName>,
    /// Take a topic of Kafka's that may lose what it has acknowledged; /status says in what it is weak.
    #[arg(long)]
    allow_weak_kafka: bool,
    /// Where gRPC is served [default: 127.0.0.1:7705]
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Where requests by UDP are taken, ADDRESS:PORT or off. By default where gRPC is, without TLS; else nowhere.
    #[arg(long)]
    udp: Option<UdpName>,
    /// The server's certificate; without one there is no TLS.
    #[arg(long, requires = "key")]
    certificate: Option<PathBuf>,
    /// Its key.
    #[arg(long, requires = "certificate")]
    key: Option<PathBuf>,
    /// CA certificates of clients, for mutual TLS.
    #[arg(long)]
    client_ca: Option<PathBuf>,
    /// Address and port for `/metrics`, `/healthz` and `/status`; without it, and without a configuration file, there
    /// is no console.
    #[arg(long)]
    console: Option<SocketAddr>,
}

impl Serve {
    /// Returns the configuration, and whether there is to be a console.
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
            .is_ok_and(|read| given(&read.data).is_none())
        {
            let why = "--data DIR, or `data` in [hybrid] of the configuration, says where the ledger is";
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

/// Prints which database the node serves, and where.
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
    say!("database {database}: {height} blocks; gRPC on {listen}")?;
    if let Some(udp) = at("udp") {
        say!("UDP on {udp}")?;
    }
    if paper {
        say!("{PAPER_MODE_WARNING}")?;
    }
    announce_end(session)
}
