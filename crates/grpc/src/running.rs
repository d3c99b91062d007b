//! A server that runs in its own task.

use crate::gate::Gate;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, ToSocketAddrs};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A running server. Dropping it stops the server.
pub struct Running {
    /// Address that the server listens on.
    pub address: SocketAddr,
    /// Limits that the server's clients share.
    pub gate: Arc<Gate>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

/// Future that becomes ready when the server is to stop.
pub type Stopped = oneshot::Receiver<()>;

impl Running {
    /// Binds `listen`, calls `serve` with the listener and the stop signal, and spawns the future that `serve` returns.
    ///
    /// # Errors
    /// The system's error if the address cannot be bound.
    pub async fn start<Serving>(
        listen: impl ToSocketAddrs,
        gate: Arc<Gate>,
        serve: impl FnOnce(TcpListener, Stopped) -> Serving,
    ) -> io::Result<Running>
    where
        Serving: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind(listen).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(serve(listener, stopped));
        Ok(Running {
            address,
            gate,
            stop,
            task,
        })
    }

    /// Stops the server, and waits until it has stopped.
    ///
    /// # Errors
    /// The transport's error.
    pub async fn stop(self) -> io::Result<()> {
        drop(self.stop);
        self.task
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}
