//! gRPC calls whose message never ends, over HTTP/2.

use anyhow::Context;
use bytes::Bytes;
use h2::SendStream;
use h2::client::{SendRequest, handshake};
use http::Request;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// Length in bytes that each message announces.
const MESSAGE_BYTES: u32 = 4 << 20;
/// Number of bytes of each message that are sent.
const SENT_BYTES: usize = 1 << 20;
/// Number of calls on one connection.
const CALLS: usize = 16;
/// Maximum time to wait until the server's flow-control window permits more of a message.
const WINDOW_TIMEOUT: Duration = Duration::from_millis(300);

/// Calls that stay open as long as this value exists.
pub struct HeldCalls {
    /// Number of open calls.
    pub calls: u64,
    /// Number of bytes of the calls' messages that the server has accepted.
    pub bytes: u64,
    open: Vec<(SendRequest<Bytes>, SendStream<Bytes>, h2::client::ResponseFuture)>,
    connections: Vec<JoinHandle<Result<(), h2::Error>>>,
}

impl Drop for HeldCalls {
    fn drop(&mut self) {
        self.open.clear();
        for connection in &self.connections {
            connection.abort();
        }
    }
}

/// Opens `connections` connections with some calls of `path` each, and sends a part of a message on every call. The
/// server may refuse connections and calls over its limits; refused ones are not counted.
///
/// # Errors
/// Fails if the server cannot be reached at all.
pub async fn hold(server: SocketAddr, path: &str, connections: usize) -> anyhow::Result<HeldCalls> {
    let mut held = HeldCalls {
        calls: 0,
        bytes: 0,
        open: Vec::new(),
        connections: Vec::new(),
    };
    for _ in 0..connections {
        let stream = TcpStream::connect(server).await?;
        // An error here means that the server has refused the connection or a call.
        let _ = call(stream, path, &mut held).await;
    }
    Ok(held)
}

/// Opens the calls of one connection, as many as the server accepts.
async fn call(stream: TcpStream, path: &str, held: &mut HeldCalls) -> anyhow::Result<()> {
    let server = stream.peer_addr()?;
    let (mut requests, connection) = handshake(stream).await?;
    held.connections.push(tokio::spawn(connection));
    for _ in 0..CALLS {
        requests = tokio::time::timeout(WINDOW_TIMEOUT, requests.ready()).await??;
        let request = Request::post(format!("http://{server}{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(())?;
        let (response, mut message) = requests.send_request(request, false)?;
        held.bytes += send(&mut message)
            .await
            .context("the server ended a call before the client had sent the message")?
            as u64;
        held.calls += 1;
        held.open.push((requests.clone(), message, response));
    }
    Ok(())
}

/// Sends the beginning of a message, as far as the flow-control window allows. Returns the number of bytes sent.
async fn send(message: &mut SendStream<Bytes>) -> anyhow::Result<usize> {
    let mut begin = vec![0];
    begin.extend(MESSAGE_BYTES.to_be_bytes());
    message.send_data(begin.into(), false)?;
    let mut sent = 0;
    message.reserve_capacity(SENT_BYTES);
    while sent < SENT_BYTES {
        let room = std::future::poll_fn(|context| message.poll_capacity(context));
        let Ok(Some(room)) = tokio::time::timeout(WINDOW_TIMEOUT, room).await else {
            break;
        };
        let bytes = room?.min(SENT_BYTES - sent);
        message.send_data(vec![0; bytes].into(), false)?;
        sent += bytes;
    }
    Ok(sent)
}
