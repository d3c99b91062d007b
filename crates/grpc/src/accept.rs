//! Connections, taken one after the other within limits, with TLS or without.

use crate::tls::ServerTls;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

/// Connections that wait to be served.
const WAITING: usize = 16;
/// HTTP/2's preface and the head of the frame behind it. Who has sent both is asked by pings from then on.
const OPENING_BYTES: usize = 24 + 9;

/// A task that accepts; it ends when this is dropped.
#[derive(Debug)]
pub struct Accepting(JoinHandle<()>);

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Accepts connections: so many at a time, more are closed at once. `patience` is how long a TLS handshake may take,
/// and then what HTTP/2 begins with.
pub fn accept(
    listener: TcpListener,
    tls: Option<ServerTls>,
    connections: usize,
    patience: Duration,
) -> (Accepting, ReceiverStream<io::Result<Io>>) {
    let (accepted, taken) = mpsc::channel(WAITING);
    let task = tokio::spawn(run(listener, tls, connections, patience, accepted));
    (Accepting(task), ReceiverStream::new(taken))
}

type Accepted = mpsc::Sender<io::Result<Io>>;

async fn run(
    listener: TcpListener,
    tls: Option<ServerTls>,
    connections: usize,
    patience: Duration,
    accepted: Accepted,
) {
    let connections = Arc::new(Semaphore::new(connections));
    let acceptor = tls.map(|tls| TlsAcceptor::from(tls.config));
    loop {
        let (stream, address) = match listener.accept().await {
            Ok(connection) => connection,
            Err(error) => {
                // Out of descriptors, for one: it passes, and is not to be asked for in a loop.
                tracing::warn!("a connection cannot be accepted: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(permit) = connections.clone().try_acquire_owned() else {
            tracing::debug!(%address, "too many connections");
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (acceptor, accepted) = (acceptor.clone(), accepted.clone());
        tokio::spawn(async move {
            let stream = match acceptor {
                None => Stream::Plain(stream),
                Some(acceptor) => match tokio::time::timeout(patience, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => Stream::Tls(Box::new(stream)),
                    Ok(Err(error)) => return tracing::debug!(%address, "TLS: {error}"),
                    Err(_) => return tracing::debug!(%address, "TLS: the handshake took too long"),
                },
            };
            let io = Io {
                stream,
                address,
                opening: Some((OPENING_BYTES, Box::pin(tokio::time::sleep(patience)))),
                _permit: permit,
            };
            let _ = accepted.send(Ok(io)).await;
        });
    }
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A connection.
pub struct Io {
    stream: Stream,
    address: SocketAddr,
    /// Bytes that it has to say, and by when; later, HTTP/2's pings find out whether anybody is there.
    opening: Option<(usize, Pin<Box<tokio::time::Sleep>>)>,
    _permit: OwnedSemaphorePermit,
}

/// The other end of a connection.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Where it is.
    pub address: Option<SocketAddr>,
    /// SHA-256 of its TLS certificate.
    pub certificate_hash: Option<[u8; 32]>,
}

impl Connected for Io {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        use sha2::{Digest, Sha256};
        let certificate_hash = match &self.stream {
            Stream::Plain(_) => None,
            Stream::Tls(stream) => {
                let certificates = stream.get_ref().1.peer_certificates();
                let leaf = certificates.and_then(<[_]>::first);
                leaf.map(|leaf| Sha256::digest(leaf).into())
            }
        };
        Peer {
            address: Some(self.address),
            certificate_hash,
        }
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        };
        let taken = buffer.filled().len() - before;
        match &mut self.opening {
            None => {}
            Some((bytes, _)) if taken >= *bytes => self.opening = None,
            Some((bytes, until)) => {
                *bytes -= taken;
                if until.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
            }
        }
        read
    }
}

impl AsyncWrite for Io {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
