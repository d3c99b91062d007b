//! Parts of the running service other than the UDP service: the follower of a node, and the Electrum and HTTP server.

use crate::chain::StoreNetwork;
use crate::config::{SpvConfig, host_and_port};
use crate::follow::{FollowOptions, NodeFollower, blocks_behind};
use crate::host::SpvHost;
use crate::wallets::HostChain;
use anyhow::{Context, bail};
use lineside_bitcoin_node::{BlockFiles, BlocksDir, Node, NodeOptions, NodeUrl, ParallelNode, connect};
use lineside_electrum::{Config, CounterValues, Host, Limits, Server, Upstream, UpstreamTls};
use lineside_grpc::ServerTls;
use lineside_service::config::non_empty;
use lineside_service::{Endpoint, ServiceStatus, StatusBuilder};
use lineside_util::counted;
use lineside_wire::metric;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Number of requests that a client may send at once, in seconds of its permitted rate.
const BURST_S: u32 = 5;

/// Number of additional connections to the node, over which blocks are fetched in advance while the chain catches up.
const EXTRA_CONNECTIONS: usize = 3;
/// Interval between version requests to the upstream Electrum server.
const UPSTREAM_PROBE: Duration = Duration::from_secs(10);

/// Sockets, keys and certificates, opened while the process still has all its rights.
pub struct Prepared {
    node: Option<Box<dyn Node>>,
    wallets: Option<Config>,
}

/// Opens the files and sockets that the configuration names, for a chain store of `network`.
///
/// # Errors
/// A file that cannot be read, an address that cannot be bound, or an invalid configuration of the node.
pub fn prepare(config: &SpvConfig, network: StoreNetwork) -> anyhow::Result<Prepared> {
    let options = NodeOptions {
        credentials: config.credential_sources(),
        ca_file: non_empty(&config.node_ca).map(Path::to_path_buf),
        ..NodeOptions::default()
    };
    check_cookie(config)?;
    let node = match config.node.url() {
        None => None,
        Some(NodeUrl::BlocksDir(path)) => {
            let magic = network.magic();
            BlockFiles::open(path, magic)?;
            Some(Box::new(BlocksDir::new(path, magic, options.poll_interval)) as Box<dyn Node>)
        }
        Some(url) => {
            let further: Result<Vec<_>, _> = (0..EXTRA_CONNECTIONS).map(|_| connect(url, &options)).collect();
            let node = ParallelNode::new(connect(url, &options)?, further?);
            Some(Box::new(node) as Box<dyn Node>)
        }
    };
    Ok(Prepared {
        node,
        wallets: wallets(config)?,
    })
}

/// Checks that the directory of the cookie file can be read. The file itself may be missing until the node starts.
fn check_cookie(config: &SpvConfig) -> anyhow::Result<()> {
    let Some((file, folder)) = cookie(config) else {
        return Ok(());
    };
    match std::fs::read_dir(&folder) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "cookie file {}: neither the file nor its directory exists; give the file `.cookie` in the node's data \
             directory (-datadir; in its folder testnet3, testnet4, signet or regtest for such a network)",
            file.display()
        ),
        Err(error) => Err(error).with_context(|| {
            format!(
                "cookie file {}: the node creates this file at each start, but this user cannot read the file's \
                 directory; give this user the right to read the directory",
                file.display()
            )
        }),
    }
}

/// Returns the cookie file and its directory.
pub fn cookie(config: &SpvConfig) -> Option<(&Path, PathBuf)> {
    let file = non_empty(&config.node_cookie)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    Some((file, folder.unwrap_or(Path::new(".")).to_path_buf()))
}

/// Binds the sockets of the Electrum and HTTP server; `None` if the configuration enables none.
fn wallets(config: &SpvConfig) -> anyhow::Result<Option<Config>> {
    let listen = |key: &str, address: Option<SocketAddr>| {
        let bind = |address| {
            TcpListener::bind(address).with_context(|| {
                format!("spv cannot listen on {address}; set another address with `{key}` in [spv]")
            })
        };
        address.map(bind).transpose()
    };
    let tcp = listen("electrum", config.electrum.0)?;
    let tls = listen("electrum_tls", config.electrum_tls.0)?;
    let http = listen("http", config.http.0)?;
    if tcp.is_none() && tls.is_none() && http.is_none() {
        return Ok(None);
    }
    let tls = match tls {
        None => None,
        Some(listener) => {
            let files = (&config.electrum_certificate, &config.electrum_key);
            Some((listener, ServerTls::from_files(files.0, files.1, None)?))
        }
    };
    let port = |listener: &TcpListener| listener.local_addr().ok().map(|address| address.port());
    let host = Host {
        name: String::new(),
        tcp_port: tcp.as_ref().and_then(port),
        ssl_port: tls.as_ref().and_then(|(listener, _)| port(listener)),
    };
    let proxies = config.trusted_proxies.clone();
    let is_proxy = move |address: IpAddr| proxies.iter().any(|range| range.0.contains(address));
    Ok(Some(Config {
        tcp,
        tls,
        http,
        trusted_proxies: Arc::new(is_proxy),
        upstream: upstream(config)?,
        upstream_probe: Some(UPSTREAM_PROBE),
        limits: limits(config),
        server_version: concat!("Lineside ", env!("CARGO_PKG_VERSION")).to_owned(),
        hosts: vec![host],
        ..Config::default()
    }))
}

/// Returns the limits of the Electrum and HTTP server. Half of `memory_max` is for clients' lines and replies, a
/// quarter for Merkle trees.
fn limits(config: &SpvConfig) -> Limits {
    let burst = config.client_rate.saturating_mul(BURST_S);
    Limits {
        clients: config.electrum_clients as usize,
        clients_by_network: config.electrum_clients_per_network as usize,
        http_clients: config.http_clients as usize,
        http_clients_by_network: config.http_clients_per_network as usize,
        memory_bytes: config.memory_max.bytes() / 2,
        tree_bytes: config.memory_max.bytes() / 4,
        requests_per_second: config.client_rate,
        burst,
        http_requests_per_second: config.client_rate,
        http_burst: burst,
        ..Limits::default()
    }
}

fn upstream(config: &SpvConfig) -> anyhow::Result<Option<Upstream>> {
    let Some((host, port)) = host_and_port(&config.electrum_upstream) else {
        return Ok(None);
    };
    let tls = if config.electrum_upstream.starts_with("tls://") {
        let path = &config.electrum_upstream_ca;
        let roots = std::fs::read(path).with_context(|| {
            format!(
                "cannot read {}, the file in `electrum_upstream_ca` of [spv]",
                path.display()
            )
        })?;
        Some(UpstreamTls::from_pem(&roots, host.trim_matches(['[', ']']))?)
    } else {
        None
    };
    Ok(Some(Upstream {
        address: format!("{host}:{port}"),
        tls,
    }))
}

/// The follower and the Electrum and HTTP server of a running service.
pub struct Frontends {
    follower: Mutex<Option<NodeFollower>>,
    wallets: Mutex<Option<Server>>,
}

impl Frontends {
    /// Starts the follower and the Electrum and HTTP server for which `prepared` has sockets and settings.
    ///
    /// # Errors
    /// The system's error if a thread cannot be started.
    pub fn start(prepared: Prepared, host: &Arc<SpvHost>, options: FollowOptions) -> anyhow::Result<Self> {
        let follow = |node| NodeFollower::start(Arc::clone(host), node, options);
        let follower = prepared.node.map(follow).transpose()?;
        let serve = |config| Server::start(config, Arc::new(HostChain(Arc::clone(host))));
        let wallets = prepared.wallets.map(serve).transpose()?;
        Ok(Self {
            follower: Mutex::new(follower),
            wallets: Mutex::new(wallets),
        })
    }

    /// Returns true if a node is followed.
    pub fn follows_node(&self) -> bool {
        let follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        follower.is_some()
    }

    /// Returns the addresses of the Electrum and HTTP server.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        let wallets = self.wallets.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(server) = wallets.as_ref() else {
            return Vec::new();
        };
        let all = [
            ("electrum", server.tcp()),
            ("electrum_tls", server.tls()),
            ("http", server.http()),
        ];
        let endpoint = |(protocol, address)| {
            Some(Endpoint {
                protocol,
                address: address?,
            })
        };
        all.into_iter().filter_map(endpoint).collect()
    }

    /// Stops the follower and the Electrum and HTTP server.
    pub fn stop(&self) {
        drop(self.wallets.lock().unwrap_or_else(PoisonError::into_inner).take());
        drop(
            self.follower
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
    }

    /// Adds the metrics of the running parts.
    pub fn metrics(&self, height: Option<u32>, out: &mut ServiceStatus) {
        let follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = follower.as_ref().map(NodeFollower::state) {
            out.set_host(metric::SPV_NODE_UP, state.is_up().into());
            if let Some(node) = state.node_height {
                out.set_host(metric::SPV_NODE_HEIGHT, node.into());
                out.set_host(metric::SPV_NODE_BLOCKS_BEHIND, blocks_behind(node, height));
            }
            out.set_host(metric::SPV_NODE_RECONNECTS, state.reconnects);
            out.set_host(metric::SPV_NODE_REFUSED_BLOCKS, state.refused_blocks);
            out.set_host(metric::SPV_REORGANISATIONS, state.reorganisations);
            out.set_host(metric::SPV_REORGANISATION_DEPTH_MAX, state.deepest.into());
        }
        let wallets = self.wallets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(counts) = wallets.as_ref().map(Server::counters) {
            wallet_metrics(&counts, out);
        }
        if let Some(state) = wallets.as_ref().and_then(Server::upstream) {
            let is_up = state.has_answered && state.away.is_none();
            out.set_host(metric::SPV_ELECTRUM_UPSTREAM_UP, is_up.into());
        }
    }

    /// Returns lines for the status display: the node, and the Electrum and HTTP addresses with their numbers of
    /// clients.
    pub fn summary(&self, height: Option<u32>) -> Vec<String> {
        let follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines: Vec<_> = follower
            .as_ref()
            .map(|follower| follower.state().summary(height))
            .into_iter()
            .collect();
        let wallets = self.wallets.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(server) = wallets.as_ref() else {
            return lines;
        };
        let counts = server.counters();
        let electrum = [
            server.tcp().map(|tcp| tcp.to_string()),
            server.tls().map(|tls| format!("{tls} (TLS)")),
        ];
        let electrum: Vec<_> = electrum.into_iter().flatten().collect();
        if !electrum.is_empty() {
            let on = electrum.join(" and ");
            lines.push(format!("Electrum on {on}: {}", clients(counts.clients)));
        }
        if let Some(http) = server.http() {
            lines.push(format!("HTTP on {http}: {}", clients(counts.http_clients)));
        }
        if let Some(upstream) = server.upstream() {
            let state = match &upstream.away {
                Some((_, since)) => format!("unreachable for {} s", since.elapsed().as_secs()),
                None if upstream.has_answered => "answers".into(),
                None => "not contacted yet".into(),
            };
            lines.push(format!("Electrum upstream {}: {state}", upstream.address));
        }
        lines
    }

    /// Adds the health of the node's connection to a status. Returns an object with the state of the connection and the
    /// counters of the Electrum and HTTP server.
    pub fn status(&self, height: Option<u32>, out: &mut StatusBuilder) -> serde_json::Value {
        let mut object = serde_json::Map::new();
        let follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(follower) = follower.as_ref() {
            let state = follower.state();
            let (problems, warnings) = state.health(height);
            out.problems.extend(problems);
            out.warnings.extend(warnings);
            let away_s = state.away.as_ref().map(|(_, since)| since.elapsed().as_secs());
            let node = serde_json::json!({
                "node": state.node, "node_height": state.node_height, "at_tip": state.at_tip, "away_s": away_s,
                "why_away": state.away.as_ref().map(|(why, _)| why), "refused": state.refused,
                "store_failed": state.store_failed, "has_less_work": state.has_less_work,
                "reorganisations": state.reorganisations, "deepest_reorganisation": state.deepest,
                "reconnects": state.reconnects, "refused_blocks": state.refused_blocks,
            });
            object.insert("node".into(), node);
        }
        let wallets = self.wallets.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = wallets.as_ref() {
            object.insert("electrum".into(), counts(server));
            if let Some(upstream) = server.upstream() {
                let away = upstream.away.as_ref();
                let away_s = away.map(|(_, since)| since.elapsed().as_secs());
                if let Some((why, seconds)) = away.map(|(why, _)| why).zip(away_s) {
                    out.warnings.push(format!(
                        "spv: the Electrum server {} has been unreachable for {seconds} s: {why}; requests that \
                         need it fail",
                        upstream.address
                    ));
                }
                object.insert(
                    "electrum_upstream".into(),
                    serde_json::json!({
                        "address": upstream.address, "has_answered": upstream.has_answered, "away_s": away_s,
                        "why_away": away.map(|(why, _)| why),
                    }),
                );
            }
        }
        serde_json::Value::Object(object)
    }
}

fn clients(count: u64) -> String {
    counted(count, "client")
}

fn wallet_metrics(counts: &CounterValues, out: &mut ServiceStatus) {
    for (metric, value) in [
        (metric::SPV_ELECTRUM_CLIENTS, counts.clients),
        (metric::SPV_ELECTRUM_FORWARDED, counts.forwarded),
        (metric::SPV_ELECTRUM_UPSTREAM_FAILURES, counts.upstream_failures),
        (metric::SPV_ELECTRUM_NOTIFICATIONS, counts.notifications),
        (metric::SPV_ELECTRUM_THROTTLED, counts.throttled),
        (metric::SPV_HTTP_CLIENTS, counts.http_clients),
    ] {
        out.set_host(metric, value);
    }
    let http_answered = counts.http_requests.saturating_sub(counts.http_throttled);
    for (metric, label, value) in [
        (metric::SPV_ELECTRUM_REQUESTS, "answered", counts.answered),
        (metric::SPV_ELECTRUM_REQUESTS, "error", counts.errors),
        (metric::SPV_CLIENTS_DROPPED, "clients", counts.refused),
        (metric::SPV_CLIENTS_DROPPED, "line", counts.closed_line),
        (metric::SPV_CLIENTS_DROPPED, "idle", counts.closed_idle),
        (metric::SPV_CLIENTS_DROPPED, "stalled", counts.closed_stalled),
        (metric::SPV_CLIENTS_DROPPED, "memory", counts.closed_memory),
        (metric::SPV_CLIENTS_DROPPED, "handshake", counts.closed_handshake),
        (metric::SPV_HTTP_REQUESTS, "answered", http_answered),
        (metric::SPV_HTTP_REQUESTS, "throttled", counts.http_throttled),
    ] {
        out.set_labelled(metric, label, value);
    }
}

fn counts(server: &Server) -> serde_json::Value {
    let counts = server.counters();
    serde_json::json!({
        "clients": counts.clients, "accepted": counts.accepted, "refused": counts.refused,
        "requests": counts.requests, "answered": counts.answered, "errors": counts.errors,
        "forwarded": counts.forwarded, "upstream_failures": counts.upstream_failures,
        "notifications": counts.notifications, "throttled": counts.throttled,
        "closed_line": counts.closed_line, "closed_idle": counts.closed_idle,
        "closed_stalled": counts.closed_stalled, "closed_memory": counts.closed_memory,
        "closed_handshake": counts.closed_handshake,
        "trees_built": counts.trees_built, "recomputed": counts.recomputed,
        "http_requests": counts.http_requests, "http_clients": counts.http_clients,
        "http_throttled": counts.http_throttled,
    })
}

#[cfg(test)]
mod tests;
