//! The `hybrid` service of the daemon: a node with gRPC and UDP.

use crate::config::{HybridConfig, LogName};
use crate::files::{read_genesis, read_key};
use anyhow::{Context, anyhow};
use lineside_fastpath::Readers;
use lineside_hybrid::Node;
use lineside_hybrid::node::{OpenLog, embedded};
use lineside_hybrid::udp::{HybridFastPath, HybridHost};
use lineside_hybrid_grpc::{self as grpc, RequestCounts};
use lineside_journal::FsDisk;
use lineside_log_kafka as kafka;
use lineside_messages::hybrid::answer::code_name;
use lineside_messages::hybrid::genesis::{Genesis, database_id};
use lineside_messages::hybrid::secret::SecretKey;
use lineside_messages::hybrid::signing::unix_ms;
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_service::config::{ConfigIssue, Section, section};
use lineside_service::{
    Endpoint, Listen, NamedFile, Rights, Running, Service, ServiceDef, ServiceStatus, StartContext,
    StatusBuilder, Tip, cannot_listen, raise_open_files_limit, set_socket_counts, stall_problem,
};
use lineside_util::data_dir::{Kind, NewDirectory};
use lineside_util::hex::to_hex;
use lineside_util::histogram::Histogram;
use lineside_wire::metric;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::runtime::Runtime;

/// Warning about a database in the paper's mode, which its genesis has chosen.
pub const PAPER_MODE_WARNING: &str = "the mode is the paper's: anyone who has seen a request can resend it, and its \
                                      signature is valid for other keys, values and versions, too (docs/hybrid.md)";

/// Registration of the service `hybrid` in the daemon.
pub const DEF: ServiceDef = ServiceDef {
    name: "hybrid",
    may_repeat: false,
    default_section: || section(&HybridConfig::default()),
    parse,
    pinned_work: None,
    records: None,
};

/// Kind of a node's directory. The operator may store `genesis.bin` and `node.key` in it.
pub const KIND: Kind = Kind::new("hybrid", 1).beside(&["genesis.bin", "node.key"]);

fn parse(section: &Section) -> Result<Box<dyn Service>, Vec<ConfigIssue>> {
    let config = HybridConfig::parse(section)?;
    Ok(Box::new(HybridService { config, files: None }))
}

struct HybridService {
    config: HybridConfig,
    /// Contents of the files that the configuration names; `None` before they are read.
    files: Option<Files>,
}

struct Files {
    genesis: Vec<u8>,
    key: SecretKey,
    tls: Option<grpc::ServerTls>,
    disk: FsDisk,
    /// Guard that removes a directory that the start has created, unless the service is used.
    new_directory: Option<NewDirectory>,
}

/// Number of milliseconds by which the ledger's clock may be ahead of this machine's without a warning.
const CLOCK_AHEAD_MS: u64 = 10_000;

/// State that the status function shares with the running service.
struct StatusShared {
    node: Arc<Node<FsDisk>>,
    udp: Option<SocketDatapath>,
    stall: Duration,
    listen: SocketAddr,
    /// Limits on connections and calls that all clients of gRPC share.
    gate: Arc<grpc::Gate>,
    /// Counts of the requests that arrived by gRPC.
    requests: Arc<grpc::RequestCounts>,
    /// Durations of fdatasync for the ledger's journal.
    sync_times: Arc<Histogram>,
    /// Identifier of the database, in hex.
    database: String,
}

struct RunningHybrid {
    shared: Arc<StatusShared>,
    server: Option<(Runtime, grpc::Running)>,
}

impl Service for HybridService {
    fn is_enabled(&self) -> bool {
        self.config.enabled
    }

    fn section(&self) -> toml::Table {
        section(&self.config)
    }

    fn listens(&self) -> Vec<Listen> {
        let grpc = self.config.listen;
        // UDP and TCP have separate ports, so UDP is listed only if its port differs from gRPC's.
        let udp = self.config.udp().filter(|udp| udp.port() != grpc.port());
        let udp = udp.map(|udp| Listen::new("udp", udp));
        [Listen::new("listen", grpc)].into_iter().chain(udp).collect()
    }

    fn warnings(&self) -> Vec<String> {
        self.config.warnings()
    }

    fn file_warnings(&self) -> Vec<String> {
        let config = &self.config;
        let genesis = read_genesis(&config.genesis);
        let key = read_key(&config.node_key);
        let is_another = match (&genesis, &key) {
            (Ok((genesis, _)), Ok(key)) => has_another_key(config.node, key, genesis),
            _ => None,
        };
        let genesis = genesis.err().map(|error| ("genesis", error.into()));
        let key = key.err().map(anyhow::Error::from).or(is_another);
        let key = key.map(|error| ("node_key", error));
        let tls = tls(config).err().map(|error| ("certificate", error));
        let issues = genesis.into_iter().chain(key).chain(tls);
        let warnings = issues.map(|(key, error)| format!("[hybrid] {key} cannot be used here: {error:#}"));
        warnings.collect()
    }

    fn files(&self) -> Vec<NamedFile> {
        let keys = ["genesis", "node_key", "certificate", "key", "client_ca"];
        NamedFile::of_keys(&self.section(), &keys)
    }

    fn privileged_init(&mut self, _context: &mut StartContext) -> anyhow::Result<()> {
        let config = &self.config;
        raise_open_files_limit();
        let tls = tls(config)?;
        let (_, genesis) = read_genesis(&config.genesis)?;
        let key = read_key(&config.node_key)?;
        let disk = FsDisk::claim(&config.data, &KIND)
            .with_context(|| format!("cannot open the ledger in {}", config.data.display()))?;
        self.files = Some(Files {
            genesis,
            key,
            tls,
            new_directory: disk.new_directory(),
            disk,
        });
        Ok(())
    }

    fn rights(&self) -> Rights {
        Rights::of_directories([self.config.data.clone()])
    }

    fn start(self: Box<Self>, context: &mut StartContext) -> anyhow::Result<Box<dyn Running>> {
        let Self { config, files } = *self;
        let Files {
            genesis,
            key,
            tls,
            disk,
            mut new_directory,
        } = files.context("internal error: the files of the node were not read")?;
        let sync_times = disk.sync_times();
        let options = config.options();
        let node = Node::start(disk, &genesis, Arc::new(key), options, open_log(&config)?);
        let node = node.with_context(|| format!("cannot open the ledger in {}", config.data.display()))?;
        let node = Arc::new(node);
        let (height, keys) = (node.status().height, node.status().keys);
        tracing::info!(height, keys, "hybrid: the ledger was recovered");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("hybrid-grpc")
            .enable_all()
            .build()?;
        let counted = grpc::Counted::new(node.clone());
        let requests = counted.counts();
        let start = grpc::start(config.listen, tls, Arc::new(counted), config.limits());
        let server = runtime
            .block_on(start)
            .with_context(|| cannot_listen(DEF.name, config.listen))?;
        // If both settings have the same address, UDP uses the port that gRPC was given, because the system chooses the
        // port if the configuration says 0.
        let with_same_port = |udp| if udp == config.listen { server.address } else { udp };
        let udp = config.udp().map(with_same_port).map(|listen| {
            start_udp(&config, listen, node.clone(), context.datapath.queue).with_context(|| {
                format!(
                    "hybrid cannot listen on {listen} by UDP; set another address, or \"off\", by `udp` in [hybrid] \
                     or --udp"
                )
            })
        });
        let udp = udp.transpose()?;
        // From here on a client may have an acknowledgement of a durable write, so the new directory must not be
        // removed.
        if let Some(new) = &mut new_directory {
            new.keep();
        }
        let shared = Arc::new(StatusShared {
            node,
            udp,
            stall: context.datapath.stall(),
            listen: server.address,
            gate: Arc::clone(&server.gate),
            requests,
            sync_times,
            database: to_hex(&database_id(&genesis)),
        });
        Ok(Box::new(RunningHybrid {
            shared,
            server: Some((runtime, server)),
        }))
    }
}

/// Returns a warning if the ledger's clock is far ahead of this machine's. The ledger's clock never goes back, so a
/// single node whose clock was once wrong can cause this.
fn clock_warning(tip_time_ms: u64, now_ms: u64) -> Option<String> {
    let ahead_ms = tip_time_ms.checked_sub(now_ms)?;
    (ahead_ms >= CLOCK_AHEAD_MS).then(|| {
        format!(
            "hybrid: the ledger's clock is {} s ahead of this machine's: requests that expire before then are refused \
             as `expired`; give requests a later expiry, and check the clocks of all nodes",
            ahead_ms / 1000
        )
    })
}

/// Returns an error if the genesis has another key for this node, because a node's key never changes. A node that is
/// not in the genesis may have been added later.
fn has_another_key(node: u32, key: &SecretKey, genesis: &Genesis) -> Option<anyhow::Error> {
    let (_, first) = genesis.nodes.iter().find(|(first, _)| *first == node)?;
    (*first != key.public()).then(|| {
        anyhow!(
            "the genesis has another key for node {node}; give the number (`node`, --node) and the key file \
             (`node_key`, --node-key) of the same node"
        )
    })
}

fn tls(config: &HybridConfig) -> anyhow::Result<Option<grpc::ServerTls>> {
    let tls = config
        .tls_files()
        .map(|(certificate, key)| grpc::ServerTls::from_files(certificate, key, config.client_ca()));
    Ok(tls.transpose()?)
}

fn open_log(config: &HybridConfig) -> anyhow::Result<OpenLog> {
    match &config.log {
        LogName::Embedded => Ok(embedded()),
        LogName::Kafka(address) => Ok(kafka::open(kafka::Options {
            allow_weak_kafka: config.allow_weak_kafka,
            ..kafka::Options::new(address.parse()?)
        })),
    }
}

/// Starts the UDP socket with one receiving thread. Requests that are received together are then verified together.
fn start_udp(
    config: &HybridConfig,
    listen: SocketAddr,
    node: Arc<Node<FsDisk>>,
    queue: usize,
) -> std::io::Result<SocketDatapath> {
    let trusted = config.trusted_sources.iter().map(|range| range.0);
    let host = HybridHost::new(node, trusted.collect());
    let options = SocketOptions {
        listen,
        threads: 1,
        queue,
    };
    let readers = Readers::new(false);
    SocketDatapath::start_async(options, Arc::new(HybridFastPath), Arc::new(host), &readers)
}

impl Running for RunningHybrid {
    fn name(&self) -> &'static str {
        DEF.name
    }

    fn endpoints(&self) -> Vec<Endpoint> {
        let endpoint = |protocol, address| Endpoint { protocol, address };
        let udp = self
            .shared
            .udp
            .as_ref()
            .map(|udp| endpoint("udp", udp.local_addr()));
        [endpoint("grpc", self.shared.listen)]
            .into_iter()
            .chain(udp)
            .collect()
    }

    fn description(&self) -> String {
        match &self.shared.udp {
            Some(udp) => format!("gRPC; UDP on {}", udp.local_addr()),
            None => "gRPC".into(),
        }
    }

    fn status(&self) -> Arc<dyn Fn(&mut StatusBuilder) + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Arc::new(move |out| shared.status(out))
    }

    fn stop(&mut self, _keeps_fast_path: bool) -> anyhow::Result<()> {
        let Some((runtime, server)) = self.server.take() else {
            return Ok(());
        };
        if let Some(udp) = &self.shared.udp {
            udp.stop();
        }
        // After the server has stopped, no call refers to the node any more. The node answers the requests that it has,
        // and then stops.
        runtime
            .block_on(server.stop())
            .context("hybrid: cannot stop gRPC")
    }
}

impl Drop for RunningHybrid {
    fn drop(&mut self) {
        if let Err(error) = self.stop(false) {
            tracing::error!("{error:#}");
        }
    }
}

impl StatusShared {
    fn status(&self, out: &mut StatusBuilder) {
        let status = self.node.status();
        if let Some(why) = &status.read_only {
            out.problems
                .push(format!("hybrid: the node takes no writes: {why}"));
        }
        out.warnings.extend(status.log_weaknesses);
        out.warnings
            .extend(status.cut.map(|cut| format!("hybrid: {cut}")));
        out.warnings.extend(clock_warning(status.tip_time_ms, unix_ms()));
        let standing = self.gate.standing();
        let named = |what: String| format!("hybrid: gRPC: {what}");
        out.problems.extend(standing.problems.into_iter().map(named));
        out.warnings.extend(standing.warnings.into_iter().map(named));
        if status.paper {
            out.warnings.push(format!("hybrid: {}", PAPER_MODE_WARNING));
        }
        let udp = self.udp.as_ref().map(SocketDatapath::local_addr);
        let protocols = ["gRPC"].into_iter().chain(udp.map(|_| "UDP"));
        let mut service = ServiceStatus {
            name: "hybrid".into(),
            datapath: "socket".into(),
            protocols: protocols.map(str::to_owned).collect(),
            listen: match udp.filter(|udp| *udp != self.listen) {
                Some(udp) => format!("{}, UDP {udp}", self.listen),
                None => self.listen.to_string(),
            },
            tip: Some(Tip {
                hash: to_hex(&status.tip_hash),
                block: status.height,
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
            let count = count + self.requests.refused(*code);
            service.set_labelled(metric::HYBRID_REQUESTS, code_name(*code), count);
        }
        if let Some(udp) = &self.udp {
            set_socket_counts(&mut service, udp);
            out.problems.extend(stall_problem(DEF.name, udp, self.stall));
            service.set_host(metric::HYBRID_DATAGRAMS, udp.counts().received.load(Relaxed));
        }
        let RequestCounts {
            passed,
            answered,
            latency,
            ..
        } = &*self.requests;
        service.add_host_requests(passed.load(Relaxed), answered.load(Relaxed), latency.read());
        service.set_histogram(metric::FDATASYNC, self.sync_times.read());
        service.details.insert("database".into(), json!(self.database));
        service.details.insert("paper".into(), json!(status.paper));
        let membership = json!({"members": status.members, "nodes": status.nodes, "quorum": status.quorum});
        service.details.insert("membership".into(), membership);
        let (open, refused) = (standing.connections, standing.refused);
        let connections = json!({"open": open, "refused": refused});
        service.details.insert("connections".into(), connections);
        out.services.push(service);
    }
}

#[cfg(test)]
mod tests {
    use super::clock_warning;

    #[test]
    fn a_ledger_clock_that_is_far_ahead_gives_a_warning() {
        assert_eq!(clock_warning(1_000, 500_000), None);
        assert_eq!(clock_warning(509_999, 500_000), None);
        let warning = clock_warning(86_900_000, 500_000).expect("a day ahead");
        assert!(warning.contains("86400 s ahead"), "{warning}");
    }
}
