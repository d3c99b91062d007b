//! TCP connections, with or without TLS.

use crate::error::NodeFault;
use lineside_util::tls_text;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio_rustls::TlsConnector;

/// Idle time after which the kernel probes the connection.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Address of a peer, and the TLS configuration for it.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// Name or IP address.
    pub(crate) host: String,
    /// TCP port.
    pub(crate) port: u16,
    /// TLS configuration; `None` for a connection without TLS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
}

/// Stream with both directions of a connection.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A connection.
pub(crate) type Stream = Box<dyn Duplex>;

impl Address {
    /// Opens a connection to the first address of the host that accepts one.
    pub(crate) async fn open(&self) -> Result<Stream, NodeFault> {
        let tcp = self.tcp().await.map_err(|source| NodeFault::Connect { source })?;
        let Some(tls) = &self.tls else {
            return Ok(Box::new(tcp));
        };
        let wrong = |why: String| NodeFault::Tls { why };
        let name = ServerName::try_from(self.host.clone()).map_err(|error| wrong(error.to_string()))?;
        let connector = TlsConnector::from(Arc::clone(tls));
        match connector.connect(name, tcp).await {
            Ok(stream) => Ok(Box::new(stream)),
            // rustls reports its own errors as `InvalidData`. An error of any other kind is not about TLS: the peer
            // closed the connection.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Err(wrong(tls_text::reason(&error.to_string())))
            }
            Err(source) => Err(NodeFault::Connect { source }),
        }
    }

    async fn tcp(&self) -> io::Result<TcpStream> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name of the host has no address");
        for address in lookup_host((self.host.as_str(), self.port)).await? {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE);
                    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}
