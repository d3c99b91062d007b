//! The server: listeners, its own runtime, and the state that all connections share.

use crate::answers::Answers;
use crate::chain::ProofChain;
use crate::connection;
use crate::esplora::{self, Client};
use crate::gate::{Admitted, Gate};
use crate::limits::{CounterValues, Counters, Limits, count};
use crate::methods::About;
use crate::proxies::TrustedProxies;
use crate::rate::Rates;
use crate::upstream::{Upstream, UpstreamState, Watch};
use lineside_grpc::ServerTls;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Maximum time for connections to end when the server stops.
const STOP_TIME: Duration = Duration::from_secs(1);

/// Name and ports at which the server is reachable, for `server.features`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Host name or address.
    pub name: String,
    /// Port of the Electrum protocol over TCP.
    pub tcp_port: Option<u16>,
    /// Port of the Electrum protocol over TLS.
    pub ssl_port: Option<u16>,
}

/// Sockets and texts of a server. The caller binds the listeners.
pub struct Config {
    /// Socket for the Electrum protocol over TCP.
    pub tcp: Option<TcpListener>,
    /// Socket and certificate for the Electrum protocol over TLS.
    pub tls: Option<(TcpListener, ServerTls)>,
    /// Socket for Esplora's paths over HTTP/1.1.
    pub http: Option<TcpListener>,
    /// Reverse proxies for HTTP. If a proxy sends a request, the client is the address in the header `X-Forwarded-For`.
    pub trusted_proxies: TrustedProxies,
    /// Electrum server to which this server forwards the methods that it does not answer itself.
    pub upstream: Option<Upstream>,
    /// Interval at which the upstream server's version is requested, also while no client needs that server. `None`:
    /// the upstream server is contacted only for clients.
    pub upstream_probe: Option<Duration>,
    /// Limits of the server.
    pub limits: Limits,
    /// Number of threads that serve connections, at least one. Trees are built on other threads,
    /// [`Limits::tree_builds`] at the same time.
    pub threads: usize,
    /// Name and version of this software, as in `Lineside 0.1.0`.
    pub server_version: String,
    /// Text of the server's operator that wallets show.
    pub banner: String,
    /// Donation address of the operator.
    pub donation_address: String,
    /// Names and ports at which the server is reachable.
    pub hosts: Vec<Host>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tcp: None,
            tls: None,
            http: None,
            trusted_proxies: Arc::new(|_| false),
            upstream: None,
            upstream_probe: None,
            limits: Limits::default(),
            threads: 2,
            server_version: concat!("Lineside ", env!("CARGO_PKG_VERSION")).into(),
            banner: String::new(),
            donation_address: String::new(),
            hosts: Vec::new(),
        }
    }
}

/// State that the connections of a server share.
pub(crate) struct Shared {
    pub answers: Arc<Answers>,
    pub about: About,
    pub banner: String,
    pub donation_address: String,
    pub upstream: Option<Upstream>,
    pub watch: Arc<Watch>,
    /// Number of subscriptions of all clients at the upstream server.
    pub subscriptions: AtomicUsize,
    pub start: Instant,
}

impl Shared {
    /// Returns the nanoseconds since the start of the server.
    pub fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

/// A running server. Dropping it stops it, within about a second.
pub struct Server {
    tcp: Option<SocketAddr>,
    tls: Option<SocketAddr>,
    http: Option<SocketAddr>,
    counters: Arc<Counters>,
    gates: [Arc<Gate>; 2],
    /// State of the upstream server; `None` if no upstream server is configured.
    watch: Option<Arc<Watch>>,
    stop: watch::Sender<bool>,
    runtime: Option<tokio::runtime::Runtime>,
}

/// Loop of one listener, which accepts connections.
struct Listening {
    listener: tokio::net::TcpListener,
    gate: Arc<Gate>,
    counters: Arc<Counters>,
    /// Addresses of reverse proxies. A connection of a proxy has requests of many clients.
    proxies: TrustedProxies,
    stopped: watch::Receiver<bool>,
}

impl Server {
    /// Starts a server that answers from `chain`.
    ///
    /// # Errors
    /// The operating system's error for a socket or a thread.
    pub fn start(config: Config, chain: Arc<dyn ProofChain>) -> io::Result<Self> {
        let counters = Arc::new(Counters::default());
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(config.threads.max(1))
            .max_blocking_threads(config.limits.tree_builds.max(1) + 2)
            .thread_name("lineside-electrum")
            .enable_all()
            .build()?;
        let limits = config.limits.clone();
        let gate = Gate::new(limits.clients, limits.clients_by_network, limits.memory_bytes);
        let http_gate = Gate::new(limits.http_clients, limits.http_clients_by_network, usize::MAX);
        let address = config.upstream.as_ref().map(|upstream| upstream.address.as_str());
        let watch = Arc::new(Watch::new(address.unwrap_or_default()));
        if let Some((upstream, interval)) = config.upstream.clone().zip(config.upstream_probe) {
            runtime.spawn(Arc::clone(&watch).probe(upstream, limits.clone(), interval));
        }
        let has_upstream = config.upstream.is_some();
        let shared = Arc::new(Shared {
            watch: Arc::clone(&watch),
            answers: Arc::new(Answers::new(chain, limits, Arc::clone(&counters))),
            about: About {
                server_version: config.server_version,
                hosts: config.hosts,
            },
            banner: config.banner,
            donation_address: config.donation_address,
            upstream: config.upstream,
            subscriptions: AtomicUsize::new(0),
            start: Instant::now(),
        });
        let (stop, stopped) = watch::channel(false);
        let _inside = runtime.enter();
        let no_proxies: TrustedProxies = Arc::new(|_| false);
        let listen = |listener: TcpListener, gate: &Arc<Gate>| -> io::Result<(SocketAddr, Listening)> {
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            let listening = Listening {
                listener: tokio::net::TcpListener::from_std(listener)?,
                gate: Arc::clone(gate),
                counters: Arc::clone(&counters),
                proxies: Arc::clone(&no_proxies),
                stopped: stopped.clone(),
            };
            Ok((address, listening))
        };
        let tcp = config.tcp.map(|listener| listen(listener, &gate)).transpose()?;
        let tls = match config.tls {
            Some((listener, tls)) => Some((listen(listener, &gate)?, tls)),
            None => None,
        };
        let http = config
            .http
            .map(|listener| listen(listener, &http_gate))
            .transpose()?;
        let addresses = (
            tcp.as_ref().map(|(address, _)| *address),
            tls.as_ref().map(|((address, _), _)| *address),
            http.as_ref().map(|(address, _)| *address),
        );
        if let Some((_, listening)) = tcp {
            tokio::spawn(serve_tcp(listening, Arc::clone(&shared)));
        }
        if let Some(((_, listening), tls)) = tls {
            tokio::spawn(serve_tls(listening, tls, Arc::clone(&shared)));
        }
        if let Some((_, mut listening)) = http {
            listening.proxies = config.trusted_proxies;
            tokio::spawn(serve_http(listening, Arc::clone(&shared.answers)));
        }
        drop(_inside);
        Ok(Self {
            tcp: addresses.0,
            tls: addresses.1,
            http: addresses.2,
            counters,
            gates: [gate, http_gate],
            watch: has_upstream.then_some(watch),
            stop,
            runtime: Some(runtime),
        })
    }

    /// Returns the address at which the Electrum protocol is served over TCP.
    pub fn tcp(&self) -> Option<SocketAddr> {
        self.tcp
    }

    /// Returns the address at which the Electrum protocol is served over TLS.
    pub fn tls(&self) -> Option<SocketAddr> {
        self.tls
    }

    /// Returns the address at which Esplora's paths are served over HTTP.
    pub fn http(&self) -> Option<SocketAddr> {
        self.http
    }

    /// Returns the state of the upstream server; `None` if there is none.
    pub fn upstream(&self) -> Option<UpstreamState> {
        self.watch.as_ref().map(|watch| watch.state())
    }

    /// Returns the current values of the counters.
    pub fn counters(&self) -> CounterValues {
        CounterValues {
            clients: self.gates[0].clients() as u64,
            http_clients: self.gates[1].clients() as u64,
            ..self.counters.values()
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_timeout(STOP_TIME);
        }
    }
}

impl Listening {
    /// Accepts connections and serves each in a task, until the server stops.
    async fn run<Serving>(mut self, serve: impl Fn(TcpStream, IpAddr, Admitted) -> Serving)
    where
        Serving: Future<Output = ()> + Send + 'static,
    {
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = self.stopped.changed() => break,
            };
            let (stream, address) = match accepted {
                Ok((stream, address)) => (stream, address.ip()),
                Err(error) => {
                    // The error is temporary, for example because no file descriptor is free. An immediate retry would
                    // waste CPU time.
                    tracing::warn!(
                        "a connection of a client cannot be accepted: {error}; the server tries again"
                    );
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let is_proxy = (self.proxies)(address);
            let Some(admitted) = self.gate.admit(address, is_proxy) else {
                if self
                    .counters
                    .refused
                    .fetch_add(1, Ordering::Relaxed)
                    .is_power_of_two()
                {
                    tracing::info!(
                        %address,
                        "a client is refused: the maximum number of Electrum or HTTP connections is open, in total \
                         (`electrum_clients`, `http_clients`) or from the client's network \
                         (`electrum_clients_per_network`, `http_clients_per_network`)"
                    );
                }
                continue;
            };
            // Replies are written in one piece, so the kernel need not wait for more data (TCP_NODELAY).
            let _ = stream.set_nodelay(true);
            connections.spawn(serve(stream, address, admitted));
        }
        drop(self.listener);
        while connections.join_next().await.is_some() {}
    }
}

async fn serve_tcp(listening: Listening, shared: Arc<Shared>) {
    let stopped = listening.stopped.clone();
    let serve = move |stream, _, admitted| {
        count(&shared.answers.counters.accepted);
        connection::serve(stream, false, admitted, Arc::clone(&shared), stopped.clone())
    };
    listening.run(serve).await;
}

async fn serve_tls(listening: Listening, tls: ServerTls, shared: Arc<Shared>) {
    let stopped = listening.stopped.clone();
    let acceptor = TlsAcceptor::from(tls.stream_config());
    let serve = move |stream, address: IpAddr, admitted| {
        let (shared, stopped, acceptor) = (Arc::clone(&shared), stopped.clone(), acceptor.clone());
        async move {
            let patience = shared.answers.limits.handshake;
            match timeout(patience, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    count(&shared.answers.counters.accepted);
                    connection::serve(stream, true, admitted, shared, stopped).await;
                }
                Ok(Err(error)) => {
                    count(&shared.answers.counters.closed_handshake);
                    tracing::debug!(%address, "the TLS handshake of a client failed: {error}");
                }
                Err(_) => {
                    count(&shared.answers.counters.closed_handshake);
                    tracing::debug!(%address, "a client's TLS handshake took too long, and its connection is closed");
                }
            }
        }
    };
    listening.run(serve).await;
}

async fn serve_http(listening: Listening, answers: Arc<Answers>) {
    let stopped = listening.stopped.clone();
    let router = esplora::router(Arc::clone(&answers));
    let limits = &answers.limits;
    let proxies = Arc::clone(&listening.proxies);
    let rates = Arc::new(Rates::new(limits.http_requests_per_second, limits.http_burst));
    let serve = move |stream, address, admitted| {
        let (rates, proxies) = (Arc::clone(&rates), Arc::clone(&proxies));
        esplora::serve(
            stream,
            admitted,
            Client { address, rates },
            proxies,
            router.clone(),
            answers.limits.http_connection_time,
            stopped.clone(),
        )
    };
    listening.run(serve).await;
}
