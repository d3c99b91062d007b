//! Link: the connection to the upstream server that carries one client's forwarded requests.
//!
//! ```text
//! client's task --- lines, bounded channel ---> task of the link ---> upstream server
//!               <-- lines, bounded channel ----                  <---
//! ```
//! A link is a task with two loops, one for each direction. So the link still reads from the upstream server while that
//! server does not read from the link.

use crate::limits::Limits;
use crate::version::Version;
use lineside_util::tls_text;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::value::RawValue;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Maximum number of waiting messages in each direction between a client's task and its link. A message is one line, or
/// all lines of a batch.
const UPSTREAM_QUEUE: usize = 2;

/// Reason why TLS to the upstream server cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error(
    "TLS to the upstream Electrum server (electrum_upstream, electrum_upstream_ca) cannot be set up: {0}"
)]
pub struct UpstreamTlsError(String);

/// TLS settings for the upstream server: the trusted certificates, and the name of the server.
#[derive(Clone)]
pub struct UpstreamTls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl UpstreamTls {
    /// Returns settings that trust a server whose certificate is for `server_name` and signed by one of `roots`.
    /// `roots` are certificates in PEM: of a certificate authority, or the server's own certificate if it is
    /// self-signed.
    ///
    /// # Errors
    /// The certificates or the name cannot be read.
    pub fn from_pem(roots: &[u8], server_name: &str) -> Result<Self, UpstreamTlsError> {
        let wrong = |what: &dyn std::fmt::Display| UpstreamTlsError(what.to_string());
        let mut store = RootCertStore::empty();
        for root in CertificateDer::pem_slice_iter(roots) {
            let root = root.map_err(|error| wrong(&error))?;
            store.add(root).map_err(|error| wrong(&error))?;
        }
        if store.is_empty() {
            return Err(wrong(&"the file contains no certificate in PEM"));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&error))?
            .with_root_certificates(store)
            .with_no_client_auth();
        let name = ServerName::try_from(server_name.to_owned()).map_err(|error| wrong(&error))?;
        Ok(Self {
            config: Arc::new(config),
            name,
        })
    }
}

/// The Electrum server that answers the methods which need more than headers and proofs.
#[derive(Clone)]
pub struct Upstream {
    /// Host and port of the server. A host name is resolved for each connection.
    pub address: String,
    /// TLS to the server; `None`: plain TCP.
    pub tls: Option<UpstreamTls>,
}

/// State of the upstream server after the last attempt to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamState {
    /// Host and port of the server.
    pub address: String,
    /// True if the server has answered at least once.
    pub has_answered: bool,
    /// Reason why the server cannot be reached, and the time since when; `None` while it answers.
    pub away: Option<(String, Instant)>,
}

/// State of the upstream server, shared by the links of all clients.
pub(crate) struct Watch(Mutex<UpstreamState>);

impl Watch {
    pub fn new(address: &str) -> Self {
        Self(Mutex::new(UpstreamState {
            address: address.to_owned(),
            has_answered: false,
            away: None,
        }))
    }

    pub fn state(&self) -> UpstreamState {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records the outcome of an attempt to reach the server, and logs a change.
    fn note(&self, failed: Option<&io::Error>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match failed {
            None => {
                if let Some((_, since)) = state.away.take() {
                    let seconds = since.elapsed().as_secs();
                    tracing::info!(
                        upstream = state.address,
                        seconds,
                        "the upstream Electrum server answers again"
                    );
                }
                state.has_answered = true;
            }
            Some(error) => {
                let since = state.away.take().map(|(_, since)| since);
                if since.is_none() {
                    tracing::warn!(
                        upstream = state.address,
                        "the upstream Electrum server is unreachable: {error}; requests that need it fail until it \
                         answers"
                    );
                }
                state.away = Some((error.to_string(), since.unwrap_or_else(Instant::now)));
            }
        }
    }

    /// Requests the upstream server's version periodically, so that a failure is noticed before a wallet needs the
    /// server.
    pub async fn probe(self: Arc<Self>, upstream: Upstream, limits: Limits, interval: Duration) {
        loop {
            let (_, to_send) = mpsc::channel(1);
            let (to_tell, _events) = mpsc::channel(1);
            let task = Task {
                upstream: upstream.clone(),
                version: Version::V1_4,
                line_max: limits.upstream_line_bytes,
                patience: limits.call_time,
                queued: Arc::default(),
                watch: Arc::clone(&self),
            };
            // The task sends the greeting, records the outcome, and ends, because there is no request to send.
            let _ = task.run(to_send, &to_tell).await;
            tokio::time::sleep(interval).await;
        }
    }
}

/// Event of a client's link to the upstream server.
pub(crate) enum Event {
    /// A line from the upstream server, without its line break.
    Line(Vec<u8>),
    /// The link has ended; the text is the reason.
    Gone(String),
}

/// Handle of a link that is open, or is being opened.
pub(crate) struct Link {
    messages: mpsc::Sender<Vec<u8>>,
    events: mpsc::Receiver<Event>,
    queued: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Link {
    /// Starts to open a link for a client that uses `version` of the protocol.
    pub fn open(upstream: Upstream, watch: Arc<Watch>, version: Version, limits: &Limits) -> Self {
        let (messages, to_send) = mpsc::channel(UPSTREAM_QUEUE);
        let (to_tell, events) = mpsc::channel(UPSTREAM_QUEUE);
        let queued = Arc::new(AtomicUsize::new(0));
        let task = Task {
            upstream,
            version,
            line_max: limits.upstream_line_bytes,
            patience: limits.call_time,
            queued: Arc::clone(&queued),
            watch,
        };
        let task = tokio::spawn(async move {
            let reason = match task.run(to_send, &to_tell).await {
                Ok(()) => return,
                Err(error) => error.to_string(),
            };
            // An error is ignored: it means that the client's task has ended.
            let _ = to_tell.send(Event::Gone(reason)).await;
        });
        Self {
            messages,
            events,
            queued,
            task,
        }
    }

    /// Returns true while the link accepts no further message.
    pub fn is_full(&self) -> bool {
        self.messages.capacity() == 0 && !self.messages.is_closed()
    }

    /// Sends lines that include their line breaks. If the link has ended, its last event reports this.
    pub fn send(&self, lines: Vec<u8>) {
        let bytes = lines.len();
        self.queued.fetch_add(bytes, Ordering::Relaxed);
        if self.messages.try_send(lines).is_err() {
            self.queued.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Returns the number of bytes that were not sent yet.
    pub fn queued_bytes(&self) -> usize {
        self.queued.load(Ordering::Relaxed)
    }

    /// Waits for the next event. If `wants_room` is set, the function also returns when the link can accept a message;
    /// the result is then `None`. No event is lost if this future is cancelled.
    pub async fn event(&mut self, wants_room: bool) -> Option<Event> {
        let ended = || Event::Gone("the connection ended".into());
        tokio::select! {
            event = self.events.recv() => Some(event.unwrap_or_else(ended)),
            Ok(_) = self.messages.reserve(), if wants_room => None,
        }
    }
}

fn timed_out(_: tokio::time::error::Elapsed) -> io::Error {
    other_error("the server did not answer in time")
}

/// Adds advice to the error of a failed TLS handshake.
fn explain_tls(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::InvalidData && error.kind() != io::ErrorKind::UnexpectedEof {
        return error;
    }
    other_error(format!(
        "the TLS handshake failed: {}; set electrum_upstream_ca to the server's own certificate or to the certificate \
         of the authority that signed it, or leave out tls:// in electrum_upstream if the server uses plain TCP",
        tls_text::reason(&error.to_string())
    ))
}

struct Task {
    upstream: Upstream,
    version: Version,
    line_max: usize,
    patience: Duration,
    queued: Arc<AtomicUsize>,
    watch: Arc<Watch>,
}

fn other_error(what: impl Into<String>) -> io::Error {
    io::Error::other(what.into())
}

impl Task {
    async fn run(self, to_send: mpsc::Receiver<Vec<u8>>, to_tell: &mpsc::Sender<Event>) -> io::Result<()> {
        let connected = self.connect().await;
        let stream = connected.inspect_err(|error| self.watch.note(Some(error)))?;
        match self.upstream.tls.clone() {
            None => self.serve(stream, to_send, to_tell).await,
            Some(tls) => {
                let shaking = TlsConnector::from(tls.config).connect(tls.name, stream);
                let shaken = timeout(self.patience, shaking).await.map_err(timed_out).flatten();
                let stream = shaken.map_err(explain_tls);
                let stream = stream.inspect_err(|error| self.watch.note(Some(error)))?;
                self.serve(stream, to_send, to_tell).await
            }
        }
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let connecting = TcpStream::connect(&self.upstream.address);
        let stream = timeout(self.patience, connecting).await.map_err(timed_out)??;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    async fn serve(
        self,
        stream: impl AsyncRead + AsyncWrite,
        mut to_send: mpsc::Receiver<Vec<u8>>,
        to_tell: &mpsc::Sender<Event>,
    ) -> io::Result<()> {
        let (reader, mut writer) = tokio::io::split(stream);
        let mut reader = BufReader::with_capacity(16 << 10, reader);
        let greeting = self.greet(&mut reader, &mut writer);
        let late = |_| other_error("the server did not answer server.version in time");
        let greeted = timeout(self.patience, greeting).await.map_err(late).flatten();
        self.watch.note(greeted.as_ref().err());
        greeted?;
        let writing = async {
            while let Some(lines) = to_send.recv().await {
                let written = timeout(self.patience, writer.write_all(&lines)).await;
                self.queued.fetch_sub(lines.len(), Ordering::Relaxed);
                written.map_err(|_| {
                    other_error("the server does not read the requests that are sent to it")
                })??;
                writer.flush().await?;
            }
            Ok(())
        };
        let reading = async {
            loop {
                let line = read_line(&mut reader, self.line_max).await?;
                if to_tell.send(Event::Line(line)).await.is_err() {
                    return Ok(());
                }
            }
        };
        tokio::select! {
            ended = writing => ended,
            ended = reading => ended,
        }
    }

    /// Negotiates a version, which every server requires first.
    async fn greet(
        &self,
        reader: &mut (impl AsyncBufRead + Unpin),
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        let (min, max) = (Version::V1_4.name(), self.version.name());
        let params = format!(r#"["lineside",["{min}","{max}"]]"#);
        let hello =
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"server.version\",\"params\":{params},\"id\":0}}\n");
        writer.write_all(hello.as_bytes()).await?;
        writer.flush().await?;
        let line = read_line(reader, self.line_max).await?;
        let reply = UpstreamLine::read(&line)
            .ok_or_else(|| other_error("the server's first line is not JSON-RPC"))?;
        match reply.error {
            None => Ok(()),
            Some(error) => {
                let message = crate::request::shorten(error.get());
                Err(other_error(format!(
                    "the server refuses the Electrum protocol version {}: {message}",
                    self.version.name()
                )))
            }
        }
    }
}

/// Reads one line of at most `max` bytes, and returns it without its end.
async fn read_line(reader: &mut (impl AsyncBufRead + Unpin), max: usize) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        let part = reader.fill_buf().await?;
        if part.is_empty() {
            return Err(other_error("the server closed the connection"));
        }
        let end = memchr::memchr(b'\n', part);
        let consumed = end.unwrap_or(part.len());
        if line.len() + consumed > max {
            return Err(other_error(format!(
                "the server sent a line of more than {max} bytes"
            )));
        }
        line.extend_from_slice(&part[..consumed]);
        reader.consume(consumed + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(line);
        }
    }
}

/// Line of the upstream server: a reply or a notification.
#[derive(serde::Deserialize)]
pub(crate) struct UpstreamLine<'a> {
    #[serde(default)]
    pub id: Option<u64>,
    #[serde(borrow, default)]
    pub method: Option<std::borrow::Cow<'a, str>>,
    #[serde(borrow, default)]
    pub result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub error: Option<&'a RawValue>,
}

impl<'a> UpstreamLine<'a> {
    /// Reads a line; `None` if the line is not a JSON object with the members of a reply or a notification.
    pub fn read(line: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}
