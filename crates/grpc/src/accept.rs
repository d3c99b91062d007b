//! Connections, taken one after the other within limits, with TLS or without.

use crate::gate::{Admitted, Connection, Gate};
use crate::tls::ServerTls;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
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

/// HTTP/2's frame that ends a connection in order: GOAWAY of 8 bytes, on stream 0, NO_ERROR. Its last stream is the
/// highest number, because a stream that was under way may have been answered.
const GOAWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Accepts connections that the gate lets in; all others are closed at once.
pub fn accept(
    listener: TcpListener,
    tls: Option<ServerTls>,
    gate: Arc<Gate>,
) -> (Accepting, ReceiverStream<io::Result<Io>>) {
    let (accepted, taken) = mpsc::channel(WAITING);
    let task = tokio::spawn(run(listener, tls, gate, accepted));
    (Accepting(task), ReceiverStream::new(taken))
}

type Accepted = mpsc::Sender<io::Result<Io>>;

async fn run(listener: TcpListener, tls: Option<ServerTls>, gate: Arc<Gate>, accepted: Accepted) {
    let patience = gate.limits().handshake;
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
        let Some(mut admitted) = gate.connect(address.ip()) else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (acceptor, accepted) = (acceptor.clone(), accepted.clone());
        tokio::spawn(async move {
            let stream = match acceptor {
                None => Stream::Plain(stream),
                Some(acceptor) => {
                    let shaken = tokio::select! {
                        shaken = tokio::time::timeout(patience, acceptor.accept(stream)) => shaken,
                        _ = &mut admitted.close => return,
                    };
                    match shaken {
                        Ok(Ok(stream)) => Stream::Tls(Box::new(stream)),
                        Ok(Err(error)) => return tracing::debug!(%address, "TLS: {error}"),
                        Err(_) => return tracing::debug!(%address, "TLS: the handshake took too long"),
                    }
                }
            };
            let io = Io {
                stream,
                address,
                opening: Some((OPENING_BYTES, Box::pin(tokio::time::sleep(patience)))),
                admitted,
                is_closing: false,
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
    admitted: Admitted,
    /// It is closed for another connection.
    is_closing: bool,
}

impl Io {
    /// Returns true from the moment when it is to be closed for another connection.
    fn poll_closing(&mut self, context: &mut Context<'_>) -> bool {
        if !self.is_closing {
            self.is_closing = Pin::new(&mut self.admitted.close).poll(context).is_ready();
        }
        self.is_closing
    }

    fn poll_write_stream(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }
}

/// The other end of a connection.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// Where it is.
    pub address: Option<SocketAddr>,
    /// SHA-256 of its TLS certificate.
    pub certificate_hash: Option<[u8; 32]>,
    pub(crate) connection: Option<Arc<Connection>>,
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
            connection: Some(Arc::clone(&self.admitted.connection)),
        }
    }
}

impl AsyncRead for Io {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.poll_closing(context) {
            // The end of the stream: HTTP/2 ends the connection, and shuts it down below.
            return Poll::Ready(Ok(()));
        }
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
        if self.poll_closing(context) {
            // Its client may not read: nothing waits for that.
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        self.poll_write_stream(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_closing {
            // HTTP/2 has written whole frames before it shuts down. A client that does not read is not waited for.
            let _ = self.poll_write_stream(context, &GOAWAY);
        }
        let shut_down = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        };
        match self.is_closing && shut_down.is_pending() {
            true => Poll::Ready(Ok(())),
            false => shut_down,
        }
    }
}
