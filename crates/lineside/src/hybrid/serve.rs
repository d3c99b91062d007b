//! `lineside hybrid serve`: a node, until a signal ends it.

use super::key;
use super::member::{hex, read_genesis};
use crate::out::{self, Unwritten};
use crate::wrong::Wrong;
use anyhow::{Context, bail};
use clap::Args;
use lineside_console::{Console, Observed, ServiceStatus, Snapshot};
use lineside_hybrid::answer::code_name;
use lineside_hybrid::genesis::database_id;
use lineside_hybrid::node::{OpenLog, Status, embedded};
use lineside_hybrid::{Node, Options};
use lineside_hybrid_grpc::{Limits, ServerTls, start};
use lineside_hybrid_kafka::Address;
use lineside_journal::FsDisk;
use lineside_wire::{HYBRID_PORT, metric};
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;
use tokio::signal::unix::{SignalKind, signal};

/// Serve a database by gRPC until a signal ends it.
#[derive(Args)]
pub struct Serve {
    /// The ledger's directory; made where it is not there.
    #[arg(long)]
    data: PathBuf,
    /// The database's genesis.
    #[arg(long, default_value = "genesis.bin")]
    genesis: PathBuf,
    /// The node's key.
    #[arg(long, default_value = "node.key")]
    node_key: PathBuf,
    /// The node's number.
    #[arg(long, default_value_t = 1)]
    node: u32,
    /// What orders: `embedded` is this node alone; `kafka://HOST:PORT[,…][/TOPIC]` is Kafka, for any number of nodes
    /// (needs a build with the cargo feature `kafka`).
    #[arg(long, default_value = "embedded")]
    log: String,
    /// Take a topic of Kafka's that may lose what it has acknowledged; /status says in what it is weak.
    #[arg(long)]
    allow_weak_kafka: bool,
    /// Where gRPC is served.
    #[arg(long, default_value_t = SocketAddr::from((Ipv4Addr::LOCALHOST, HYBRID_PORT)))]
    listen: SocketAddr,
    /// The server's certificate; without one there is no TLS.
    #[arg(long, requires = "key")]
    certificate: Option<PathBuf>,
    /// Its key.
    #[arg(long, requires = "certificate")]
    key: Option<PathBuf>,
    /// CA certificates of clients, for mutual TLS.
    #[arg(long, requires = "certificate")]
    client_ca: Option<PathBuf>,
    /// Address and port for `/metrics`, `/healthz` and `/status`; without it there is no console.
    #[arg(long)]
    console: Option<SocketAddr>,
}

impl Serve {
    fn tls(&self) -> anyhow::Result<Option<ServerTls>> {
        let Some((certificate, key)) = self.certificate.as_ref().zip(self.key.as_ref()) else {
            return Ok(None);
        };
        let clients = self.client_ca.as_deref();
        Ok(Some(ServerTls::from_files(certificate, key, clients)?))
    }

    fn open_log(&self) -> anyhow::Result<OpenLog> {
        if self.log == "embedded" {
            return Ok(embedded());
        }
        let address = self.log.parse::<Address>();
        let address = address.map_err(|error| Wrong(format!("--log {}: {error}", self.log)))?;
        Ok(lineside_hybrid_kafka::open(lineside_hybrid_kafka::Options {
            allow_weak_kafka: self.allow_weak_kafka,
            ..lineside_hybrid_kafka::Options::new(address)
        }))
    }

    fn start_node(&self) -> anyhow::Result<(Node<FsDisk>, String)> {
        let (_, genesis) = read_genesis(&self.genesis)?;
        let key = key::read(&self.node_key)?;
        let shown = self.data.display();
        let disk = FsDisk::open(&self.data)
            .with_context(|| format!("opening the ledger in {shown}: another node may have it open"))?;
        let options = Options {
            node: self.node,
            ..Options::default()
        };
        let node = Node::start(disk, &genesis, Arc::new(key), options, self.open_log()?);
        let node = node.with_context(|| format!("opening the ledger in {shown}"))?;
        Ok((node, hex(&database_id(&genesis))))
    }

    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        if self.data.as_os_str().is_empty() {
            bail!(Wrong("--data DIR says where the ledger is".into()));
        }
        let tls = self.tls()?;
        let (node, database) = self.start_node()?;
        let node = Arc::new(node);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        runtime.block_on(async {
            // Before anybody can see that it serves, and end it.
            let mut terminate = signal(SignalKind::terminate())?;
            let mut interrupt = signal(SignalKind::interrupt())?;
            let server = start(self.listen, tls, node.clone(), Limits::default()).await;
            let server = server.with_context(|| format!("listening on {} (--listen)", self.listen))?;
            let observed = observed(node.clone(), server.address);
            let console = self.console.map(|address| {
                let console = Console::start(address, observed);
                console.with_context(|| format!("the console on {address} (--console)"))
            });
            let console = console.transpose()?;
            let at = console.as_ref().map(Console::local_addr);
            let status = node.status();
            out::said_by_server(say_started(&database, server.address, at, &status, as_json));
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            drop(console);
            server.stop().await?;
            anyhow::Ok(())
        })?;
        // Calls that were cut off hold it no more.
        drop(runtime);
        drop(node);
        Ok(())
    }
}

fn say_started(
    database: &str,
    listen: SocketAddr,
    console: Option<SocketAddr>,
    status: &Status,
    as_json: bool,
) -> Result<(), Unwritten> {
    let (height, paper) = (status.height, status.paper);
    if as_json {
        let line = json!({
            "database": database, "blocks": height, "listen": listen, "console": console, "paper": paper,
        });
        return say!("{line}");
    }
    say!("database {database}: {height} blocks; gRPC on {listen}")?;
    if paper {
        say!("{}", super::paper::WARNING)?;
    }
    if let Some(console) = console {
        say!("console on http://{console}/status, http://{console}/metrics")?;
    }
    say!("Ctrl-C ends it")
}

fn observed(node: Arc<Node<FsDisk>>, listen: SocketAddr) -> Arc<dyn Observed> {
    let started = Instant::now();
    Arc::new(move || {
        let status = node.status();
        let mut problems = Vec::new();
        if let Some(why) = &status.read_only {
            problems.push(format!("hybrid: no writes are taken: {why}"));
        }
        let mut warnings = status.log_weaknesses.clone();
        if status.paper {
            warnings.push(format!("hybrid: {}", super::paper::WARNING));
        }
        Snapshot {
            version: env!("CARGO_PKG_VERSION").into(),
            uptime_s: started.elapsed().as_secs(),
            services: vec![service(&status, listen)],
            problems,
            warnings,
        }
    })
}

/// How a node is, for the console.
fn service(status: &Status, listen: SocketAddr) -> ServiceStatus {
    let mut service = ServiceStatus {
        name: "hybrid".into(),
        plane: "socket".into(),
        listen: listen.to_string(),
        tip: Some(lineside_console::Tip {
            hash: hex(&status.tip_hash),
            height: u32::try_from(status.height).unwrap_or(u32::MAX),
        }),
        ..ServiceStatus::default()
    };
    let host = [
        (metric::HYBRID_HEIGHT, status.height),
        (metric::HYBRID_VERIFIED, status.verified),
        (metric::HYBRID_BATCHES, status.batches),
        (metric::HYBRID_KEYS, status.keys as u64),
        (metric::HYBRID_READ_ONLY, u64::from(status.read_only.is_some())),
    ];
    for (metric, value) in host {
        service.set_host(metric, value);
    }
    for (code, count) in &status.codes {
        service.set_labelled(metric::HYBRID_REQUESTS, code_name(*code), *count);
    }
    service
}
