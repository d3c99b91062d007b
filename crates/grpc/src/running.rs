//! A server in a task of its own.

use crate::gate::Gate;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, ToSocketAddrs};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A server that runs; it stops when this is dropped.
pub struct Running {
    /// Where it listens.
    pub address: SocketAddr,
    /// Limits that its clients share.
    pub gate: Arc<Gate>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<io::Result<()>>,
}

/// Ready when a server is to stop.
pub type Stopped = oneshot::Receiver<()>;

impl Running {
    /// Binds, and serves in a task of its own what `serve` makes of the listener and of when to stop.
    ///
    /// # Errors
    /// Where the address cannot be bound.
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

    /// Has it stop as it does, and waits until that is done.
    ///
    /// # Errors
    /// What the transport says.
    pub async fn stop(self) -> io::Result<()> {
        drop(self.stop);
        self.task
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}
