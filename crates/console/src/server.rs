//! HTTP server of the console: one thread with a small runtime, limited in connections, header bytes and time.

use crate::deadline::WriteDeadline;
use crate::history::{self, History};
use crate::{Format, Health, HealthStatus, Observed, Snapshot, events, page, render};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use socket2::SockRef;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Maximum number of connections at a time. Further connections wait in the listener's queue.
const CONNECTIONS_MAX: usize = 32;
/// Maximum size in bytes of the request line and headers together. It is the minimum that hyper allows.
const HEADER_BYTES_MAX: usize = 8192;
const HEADERS_MAX: usize = 32;
/// Time limit for receiving the headers of a request. It also closes idle connections.
const HEADER_TIME: Duration = Duration::from_secs(5);
/// Time limit for reading a snapshot. If it is exceeded, the process counts as stuck.
const SNAPSHOT_TIME: Duration = Duration::from_secs(2);
/// Time limit for answers in progress when the console stops.
const STOP_TIME: Duration = Duration::from_millis(300);
/// Size in bytes of the system's send buffer of a connection. When it is full, the client is known not to read.
const SEND_BUFFER_BYTES: usize = 64 * 1024;

/// Limits of the console. The tests use shorter times.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Time limit for a client to receive the bytes that are waiting for it.
    pub write_time: Duration,
    /// Time between two samples of the history.
    pub sample_time: Duration,
    /// Maximum number of clients of `/events` at a time.
    pub event_clients: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            write_time: Duration::from_secs(15),
            sample_time: Duration::from_secs(1),
            event_clients: 8,
        }
    }
}

/// A running console. Dropping it stops the console.
#[derive(Debug)]
pub struct Console {
    local: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Console {
    /// Listens on `listen`, and answers requests from the snapshots of `observed`.
    ///
    /// # Errors
    /// The system's error if the address cannot be bound, or the thread or its runtime cannot be started.
    pub fn start(listen: SocketAddr, observed: Arc<dyn Observed>) -> io::Result<Self> {
        Self::start_with(listen, &[], observed, Limits::default())
    }

    /// Like [`Console::start`], with other limits. Also answers requests whose `Host` is one of `allowed_hosts`, with
    /// any port.
    ///
    /// # Errors
    /// See [`Console::start`].
    pub fn start_with(
        listen: SocketAddr,
        allowed_hosts: &[String],
        observed: Arc<dyn Observed>,
        limits: Limits,
    ) -> io::Result<Self> {
        let allowed: Arc<[String]> = allowed_hosts.into();
        let listener = TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let local = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(4)
            .thread_name("lineside-snapshot")
            .build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let (stop, stopped) = watch::channel(false);
        let thread = std::thread::Builder::new()
            .name("lineside-console".into())
            .spawn(move || {
                let history = Arc::new(History::new());
                let router = router(Arc::clone(&observed), Arc::clone(&history), allowed, limits);
                let sampler = history::sample(history, observed, limits.sample_time, stopped.clone());
                runtime.block_on(async {
                    tokio::join!(serve(listener, router, limits, stopped), sampler);
                });
                // A snapshot that never returns must not keep the process from ending.
                runtime.shutdown_background();
            })?;
        Ok(Self {
            local,
            stop,
            thread: Some(thread),
        })
    }

    /// Returns the address and port that the console listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has already printed its message.
            let _ = thread.join();
        }
    }
}

async fn serve(
    listener: tokio::net::TcpListener,
    router: Router,
    limits: Limits,
    mut stopped: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let next = async {
            let permit = Arc::clone(&places).acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            next = next => next,
            _ = stopped.changed() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(_) => {
                // The process has no free file descriptor, or the client has gone. The loop waits briefly, so that it
                // does not spin.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        // If the call fails, the buffer is larger, and the time limit for writing only begins later.
        let _ = SockRef::from(&stream).set_send_buffer_size(SEND_BUFFER_BYTES);
        let stream = WriteDeadline::new(stream, limits.write_time);
        let mut stopped = stopped.clone();
        let service = TowerToHyperService::new(router.clone());
        connections.spawn(async move {
            let _place = permit;
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIME)
                .max_buf_size(HEADER_BYTES_MAX)
                .max_headers(HEADERS_MAX)
                .serve_connection(TokioIo::new(stream), service);
            let mut connection = std::pin::pin!(connection);
            // Errors of a connection are not reported: the client has gone, or does not speak HTTP.
            tokio::select! {
                _ = connection.as_mut() => (),
                _ = stopped.changed() => {
                    connection.as_mut().graceful_shutdown();
                    let _ = timeout(STOP_TIME, connection).await;
                }
            }
        });
    }
    drop(listener);
    let _ = timeout(STOP_TIME * 2, async {
        while connections.join_next().await.is_some() {}
    })
    .await;
}

fn router(
    observed: Arc<dyn Observed>,
    history: Arc<History>,
    allowed: Arc<[String]>,
    limits: Limits,
) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/status", get(status))
        .route("/version", get(version))
        .with_state(observed)
        .merge(page::routes())
        .merge(events::routes(history, limits.sample_time, limits.event_clients))
        .layer(middleware::from_fn_with_state(allowed, guard))
}

/// Refuses requests other than GET or HEAD without a body, and requests whose `Host` is not an address, `localhost` or
/// an allowed name.
async fn guard(State(allowed): State<Arc<[String]>>, request: Request, next: Next) -> Response {
    let mut response = match refuse(request.method(), request.headers(), &allowed) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

fn refuse(method: &Method, headers: &HeaderMap, allowed: &[String]) -> Option<Response> {
    if method != Method::GET && method != Method::HEAD {
        let allow = [(header::ALLOW, "GET, HEAD")];
        return Some((StatusCode::METHOD_NOT_ALLOWED, allow, "GET and HEAD only\n").into_response());
    }
    let empty = |value: &HeaderValue| value == "0";
    let has_body = headers.contains_key(header::TRANSFER_ENCODING)
        || !headers.get(header::CONTENT_LENGTH).is_none_or(empty);
    if has_body {
        return Some((StatusCode::PAYLOAD_TOO_LARGE, "a request must not have a body\n").into_response());
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(|host| is_no_name(host) || is_allowed(host, allowed)) {
        let why = "the Host header must be an IP address, localhost, or a name in [console] allowed_hosts\n";
        return Some((StatusCode::FORBIDDEN, why).into_response());
    }
    None
}

/// Returns true for a Host header with an IP address or `localhost`. If an attacker makes the host name of his web page
/// resolve to this machine (DNS rebinding), the browser still sends that name. Therefore all names are refused except
/// `localhost`, which is never looked up.
fn is_no_name(host: &str) -> bool {
    let name = without_port(host);
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    name.eq_ignore_ascii_case("localhost") || bare.unwrap_or(name).parse::<IpAddr>().is_ok()
}

/// Returns true if the name in a Host header is one of the allowed names.
fn is_allowed(host: &str, allowed: &[String]) -> bool {
    let name = without_port(host);
    allowed.iter().any(|other| other.eq_ignore_ascii_case(name))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') && port.parse::<u16>().is_ok() => name,
        _ => host,
    }
}

type Stuck = (StatusCode, &'static str);

async fn snapshot(observed: Arc<dyn Observed>) -> Result<Snapshot, Stuck> {
    let mut taking = tokio::task::spawn_blocking(move || observed.snapshot());
    match timeout(SNAPSHOT_TIME, &mut taking).await {
        Ok(Ok(snapshot)) => Ok(snapshot),
        Ok(Err(_)) => Err((
            StatusCode::SERVICE_UNAVAILABLE,
            "reading the state failed: see the log of the server\n",
        )),
        Err(_) => {
            // Reading a snapshot that has not begun yet is cancelled, so that requests to a stuck process do not pile
            // up.
            taking.abort();
            let why = "the state could not be read within 2 s\n";
            Err((StatusCode::SERVICE_UNAVAILABLE, why))
        }
    }
}

async fn metrics(State(observed): State<Arc<dyn Observed>>, headers: HeaderMap) -> Result<Response, Stuck> {
    let accept = headers.get_all(header::ACCEPT).into_iter();
    let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
    let format = Format::accepted(&accept.join(","));
    let text = render(snapshot(observed).await?, format)
        .map_err(|_| (StatusCode::INTERNAL_SERVER_ERROR, "writing the metrics failed\n"))?;
    let kind = [
        (header::CONTENT_TYPE, format.content_type()),
        (header::VARY, "Accept"),
    ];
    Ok((kind, text).into_response())
}

async fn healthz(State(observed): State<Arc<dyn Observed>>) -> Result<Response, Stuck> {
    let health = Health::from(&snapshot(observed).await?);
    let code = match health.status {
        HealthStatus::Ok => StatusCode::OK,
        HealthStatus::Failed => StatusCode::SERVICE_UNAVAILABLE,
    };
    let object = serde_json::to_string(&health)
        .map_err(|_| (StatusCode::INTERNAL_SERVER_ERROR, "writing the health failed\n"))?;
    let kind = [(header::CONTENT_TYPE, "application/json")];
    Ok((code, kind, object + "\n").into_response())
}

async fn version(State(observed): State<Arc<dyn Observed>>) -> Result<Response, Stuck> {
    let Snapshot {
        version,
        commit,
        features,
        ..
    } = snapshot(observed).await?;
    let object = serde_json::json!({"version": version, "commit": commit, "features": features});
    Ok(axum::Json(object).into_response())
}

async fn status(State(observed): State<Arc<dyn Observed>>) -> Result<Response, Stuck> {
    Ok(axum::Json(snapshot(observed).await?).into_response())
}

#[cfg(test)]
mod tests {
    use super::{is_allowed, is_no_name};

    #[test]
    fn only_addresses_and_localhost_are_answered() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:7700",
            "[::1]:7700",
            "[::1]",
            "localhost:1",
            "LocalHost",
        ] {
            assert!(is_no_name(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:7700",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
        ] {
            assert!(!is_no_name(host), "{host}");
        }
    }

    #[test]
    fn an_allowed_name_is_answered_at_any_port_and_no_other_name() {
        let allowed = ["lineside-1".to_owned(), "db.example".to_owned()];
        for host in [
            "lineside-1",
            "lineside-1:7700",
            "LINESIDE-1:80",
            "db.example:7700",
        ] {
            assert!(is_allowed(host, &allowed), "{host}");
        }
        for host in [
            "",
            "example",
            "db.example.evil.example",
            "x.db.example",
            "db.example:7700:7700",
            "db.example:x",
        ] {
            assert!(!is_allowed(host, &allowed), "{host}");
        }
        assert!(!is_allowed("", &[]));
    }
}
