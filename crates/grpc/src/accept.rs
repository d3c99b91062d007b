//! Accepts connections within the limits of a [`Gate`], with or without TLS.

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

/// Maximum number of accepted connections that wait to be served.
const WAITING: usize = 16;
/// Size in bytes of the HTTP/2 preface and of the header of the frame after it. Once a client has sent both, HTTP/2
/// pings check its connection.
const OPENING_BYTES: usize = 24 + 9;

/// Task that accepts connections. Dropping this ends it.
#[derive(Debug)]
pub struct Accepting(JoinHandle<()>);

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// HTTP/2 frame that ends a connection properly: GOAWAY with 8 bytes of payload, on stream 0, with the code NO_ERROR.
/// The last stream id in it is the maximum, because the server may have answered every stream in progress.
const GOAWAY: [u8; 17] = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Accepts the connections that the gate admits, and closes all others at once.
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
                // The error may be temporary, such as a lack of file descriptors, so the loop waits before it tries
                // again.
                tracing::warn!("a gRPC connection cannot be accepted: {error}; the server tries again");
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

/// An accepted connection.
pub struct Io {
    stream: Stream,
    address: SocketAddr,
    /// Number of bytes that the client must still send before a time limit, and the timer of this limit. `None` once
    /// these bytes have arrived; from then on, HTTP/2 pings detect that the client is gone.
    opening: Option<(usize, Pin<Box<tokio::time::Sleep>>)>,
    admitted: Admitted,
    /// True if the connection is being closed for another one.
    is_closing: bool,
}

impl Io {
    /// Returns true once the gate has asked to close this connection in favour of a new one.
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

/// The peer of a connection.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// Address and port of the peer.
    pub address: Option<SocketAddr>,
    /// SHA-256 of the peer's TLS certificate.
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
            // This reports the end of the stream to HTTP/2, which then ends the connection and calls poll_shutdown.
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        };
        let read_bytes = buffer.filled().len() - before;
        match &mut self.opening {
            None => {}
            Some((bytes, _)) if read_bytes >= *bytes => self.opening = None,
            Some((bytes, until)) => {
                *bytes -= read_bytes;
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
            // The client may have stopped reading, and the server must not wait for it.
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
            // HTTP/2 has written only whole frames before it shuts down, so GOAWAY may follow them. If the client does
            // not read, the frame is lost; the server does not wait.
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
