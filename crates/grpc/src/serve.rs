//! HTTP/2 server of all services: the settings that they share, and the way in which it stops.

use crate::accept::{Accepting, Io};
use crate::gate::Gate;
use std::future::Future;
use std::io;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::transport::server::Router;

/// Maximum number of bytes of a call's headers.
const HEADERS_BYTES_MAX: u32 = 8 << 10;
/// Time after which a silent connection is checked by an HTTP/2 ping.
const PING_AFTER: Duration = Duration::from_secs(60);
/// Maximum time that the answer to a ping may take.
const PING_WAIT: Duration = Duration::from_secs(20);
/// Maximum time for which a server that is stopping waits for open calls to be answered.
const STOP_WAIT: Duration = Duration::from_secs(5);

/// Numbers of bytes that a client may send before the server has processed them (HTTP/2 windows).
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// For one call.
    pub stream_bytes: u32,
    /// For all calls of a connection together.
    pub connection_bytes: u32,
}

/// Returns the builder of a server with these windows, within the limits of `gate`.
pub fn server(gate: &Gate, windows: Windows) -> Server {
    Server::builder()
        .max_concurrent_streams(gate.limits().streams)
        .http2_max_header_list_size(HEADERS_BYTES_MAX)
        .initial_stream_window_size(windows.stream_bytes)
        .initial_connection_window_size(windows.connection_bytes)
        .http2_keepalive_interval(Some(PING_AFTER))
        .http2_keepalive_timeout(Some(PING_WAIT))
}

/// Serves `router` on the connections of [`accept`](crate::accept()) until `stop` is ready. Then it accepts no further
/// connection, calls `end_streams`, which must end the calls that have no end of their own, and waits up to 5 s until
/// the open calls are answered.
///
/// # Errors
/// The transport's error.
pub async fn serve_until(
    router: Router,
    (accepting, connections): (Accepting, ReceiverStream<io::Result<Io>>),
    stop: impl Future<Output = ()> + Send,
    end_streams: impl Fn() + Send,
) -> io::Result<()> {
    let (stopped, wait_stopped) = oneshot::channel::<()>();
    let running = router.serve_with_incoming_shutdown(connections, async {
        let _ = wait_stopped.await;
    });
    tokio::pin!(running, stop);
    let served = tokio::select! {
        served = &mut running => served,
        () = &mut stop => {
            drop(accepting);
            end_streams();
            let _ = stopped.send(());
            tokio::time::timeout(STOP_WAIT, running).await.unwrap_or(Ok(()))
        }
    };
    served.map_err(io::Error::other)
}
