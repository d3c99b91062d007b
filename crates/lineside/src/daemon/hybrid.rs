//! `hybrid` put together: a node, gRPC and UDP before it.

use crate::config::{Config, Hybrid, LogName};
use crate::descriptors;
use crate::hybrid::key;
use crate::hybrid::member::{hex, read_genesis};
use crate::hybrid::paper;
use crate::line::set_counts;
use anyhow::{Context, anyhow};
use lineside_console::{ServiceStatus, Tip};
use lineside_fastpath::Readers;
use lineside_hybrid::answer::code_name;
use lineside_hybrid::genesis::{Genesis, database_id};
use lineside_hybrid::node::{OpenLog, embedded};
use lineside_hybrid::secret::SecretKey;
use lineside_hybrid::udp::{HybridFastPath, HybridHost};
use lineside_hybrid::{Node, Options};
use lineside_hybrid_grpc as grpc;
use lineside_journal::FsDisk;
use lineside_log_kafka as kafka;
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_wire::metric;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::runtime::Runtime;

/// What was read of files.
pub struct Prepared {
    genesis: Vec<u8>,
    key: SecretKey,
    tls: Option<grpc::ServerTls>,
    disk: FsDisk,
}

/// A running `hybrid`.
pub struct Running {
    inner: Arc<Inner>,
    server: Option<(Runtime, grpc::Running)>,
    listen: SocketAddr,
    database: String,
}

/// How it is, whenever it is asked.
pub struct Inner {
    node: Arc<Node<FsDisk>>,
    udp: Option<SocketDatapath>,
    listen: SocketAddr,
}

/// What is wrong with the files that the configuration names, here and now.
pub fn warnings(config: &Hybrid) -> Vec<String> {
    let genesis = read_genesis(&config.genesis);
    let key = key::read(&config.node_key);
    let is_another = match (&genesis, &key) {
        (Ok((genesis, _)), Ok(key)) => is_another(config.node, key, genesis),
        _ => None,
    };
    let genesis = genesis.err().map(|error| ("genesis", error));
    let key = key.err().or(is_another).map(|error| ("node_key", error));
    let tls = tls(config).err().map(|error| ("certificate", error));
    let faults = genesis.into_iter().chain(key).chain(tls);
    let said = faults.map(|(key, error)| format!("[hybrid] {key} cannot be used here: {error:#}"));
    said.collect()
}

/// Of a node that the genesis names: its key never changes. Others may have been added since.
fn is_another(node: u32, key: &SecretKey, genesis: &Genesis) -> Option<anyhow::Error> {
    let (_, first) = genesis.nodes.iter().find(|(first, _)| *first == node)?;
    (*first != key.public()).then(|| anyhow!("the genesis has another key for node {node}"))
}

fn tls(config: &Hybrid) -> anyhow::Result<Option<grpc::ServerTls>> {
    let tls = config
        .tls_files()
        .map(|(certificate, key)| grpc::ServerTls::from_files(certificate, key, config.client_ca()));
    Ok(tls.transpose()?)
}

/// What must be done while this process may still do everything: files are read, the directory is made and taken.
///
/// # Errors
/// What cannot be read; another node in the directory.
pub fn prepare(config: &Hybrid) -> anyhow::Result<Prepared> {
    descriptors::raise_limit();
    let tls = tls(config)?;
    let (_, genesis) = read_genesis(&config.genesis)?;
    let key = key::read(&config.node_key)?;
    let disk = FsDisk::open(&config.data)
        .with_context(|| format!("opening the ledger in {}", config.data.display()))?;
    Ok(Prepared {
        genesis,
        key,
        tls,
        disk,
    })
}

fn open_log(config: &Hybrid) -> anyhow::Result<OpenLog> {
    match &config.log {
        LogName::Embedded => Ok(embedded()),
        LogName::Kafka(address) => Ok(kafka::open(kafka::Options {
            allow_weak_kafka: config.allow_weak_kafka,
            ..kafka::Options::new(address.parse()?)
        })),
    }
}

impl Running {
    /// Starts the node, then what is before it.
    ///
    /// # Errors
    /// What stands in the way, and what to do about it.
    pub fn start(config: &Config, prepared: Prepared) -> anyhow::Result<Self> {
        let hybrid = &config.hybrid;
        let options = Options {
            node: hybrid.node,
            ..Options::default()
        };
        let Prepared {
            genesis,
            key,
            tls,
            disk,
        } = prepared;
        let node = Node::start(disk, &genesis, Arc::new(key), options, open_log(hybrid)?);
        let node = node.with_context(|| format!("opening the ledger in {}", hybrid.data.display()))?;
        let node = Arc::new(node);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("hybrid-grpc")
            .enable_all()
            .build()?;
        let start = grpc::start(hybrid.listen, tls, node.clone(), grpc::Limits::default());
        let server = runtime.block_on(start).with_context(|| {
            format!(
                "hybrid cannot listen on {} (--listen gives another address)",
                hybrid.listen
            )
        })?;
        let udp = hybrid
            .udp()
            .map(|listen| {
                start_udp(config, listen, node.clone()).with_context(|| {
                    format!("hybrid cannot listen on {listen} by UDP (--udp gives another address, or off)")
                })
            })
            .transpose()?;
        let listen = server.address;
        Ok(Self {
            inner: Arc::new(Inner { node, udp, listen }),
            server: Some((runtime, server)),
            listen,
            database: hex(&database_id(&genesis)),
        })
    }

    /// How it is, whenever it is asked.
    pub fn inner(&self) -> Arc<Inner> {
        Arc::clone(&self.inner)
    }

    /// Where gRPC is.
    pub const fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Where requests by UDP are taken.
    pub fn udp(&self) -> Option<SocketAddr> {
        self.inner.udp.as_ref().map(SocketDatapath::local_addr)
    }

    /// The database's id, in hex.
    pub fn database(&self) -> &str {
        &self.database
    }

    /// How it is reached, in words.
    pub fn ways(&self) -> String {
        match self.udp() {
            Some(udp) => format!("gRPC; UDP on {udp}"),
            None => "gRPC".into(),
        }
    }
}

/// One thread receives: what it takes at once is verified at once.
fn start_udp(
    config: &Config,
    listen: SocketAddr,
    node: Arc<Node<FsDisk>>,
) -> std::io::Result<SocketDatapath> {
    let trusted = config.hybrid.trusted_sources.iter().map(|range| range.0);
    let host = HybridHost::new(node, trusted.collect());
    let options = SocketOptions {
        listen,
        threads: 1,
        queue: config.datapath.queue,
    };
    let readers = Readers::new(false);
    SocketDatapath::start_later(options, Arc::new(HybridFastPath), Arc::new(host), &readers)
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(udp) = &self.inner.udp {
            udp.stop();
        }
        if let Some((runtime, server)) = self.server.take()
            && let Err(error) = runtime.block_on(server.stop())
        {
            tell!("lineside: hybrid: {error}");
        }
        // Calls that were cut off hold the node no more: it answers what it has, and ends with the last who asks how
        // it is.
    }
}

impl Inner {
    /// Blocks in the ledger.
    pub fn height(&self) -> u64 {
        self.node.status().height
    }

    /// Whether it takes the paper's requests.
    pub fn is_paper(&self) -> bool {
        self.node.status().paper
    }

    /// Its part of a snapshot; what ends its work is put among the `problems`, and what should be known among the
    /// `warnings`.
    pub fn status(&self, problems: &mut Vec<String>, warnings: &mut Vec<String>) -> ServiceStatus {
        let status = self.node.status();
        if let Some(why) = &status.read_only {
            problems.push(format!("hybrid: no writes are taken: {why}"));
        }
        warnings.extend(status.log_weaknesses);
        if status.paper {
            warnings.push(format!("hybrid: {}", paper::WARNING));
        }
        let udp = self.udp.as_ref().map(SocketDatapath::local_addr);
        let mut service = ServiceStatus {
            name: "hybrid".into(),
            datapath: "socket".into(),
            listen: match udp.filter(|udp| *udp != self.listen) {
                Some(udp) => format!("{}, UDP {udp}", self.listen),
                None => self.listen.to_string(),
            },
            tip: Some(Tip {
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
        if let Some(udp) = &self.udp {
            let counts = udp.counts();
            set_counts(&mut service, counts);
            service.set_host(metric::HYBRID_DATAGRAMS, counts.received.load(Relaxed));
        }
        service
    }
}
