//! Tests of clients that request blocks and do not read them: the memory for their blocks is bounded, and other clients
//! are still served.

mod common;

use bytes::Bytes;
use common::{CHANNEL, DELIVER, Network, ask, blocks, connect};
use h2::client::{ResponseFuture, SendRequest};
use lineside_fabric::access::SignedBy;
use lineside_fabric_grpc::Running;
use lineside_fabric_grpc::messages::DeliverContent;
use lineside_fabric_grpc::request::{seek, sign};
use lineside_fabric_grpc::serve::{Limits, Role, start};
use lineside_fabric_grpc::source::{CommittedSource, MemorySource, ReadAccess, Unavailable};
use lineside_grpc::Limits as Transport;
use prost::Message;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tonic::codegen::http::Request;

/// Time after which a test fails because an expected event did not occur.
const EVENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Number of calls of the client that does not read.
const CALLS: usize = 20;

/// Source that counts its blocks that are still in memory.
struct CountingSource {
    memory: MemorySource,
    alive: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

struct CountedBlock(Bytes, Arc<AtomicUsize>);

impl AsRef<[u8]> for CountedBlock {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for CountedBlock {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::AcqRel);
    }
}

impl CommittedSource for CountingSource {
    fn channel(&self) -> &str {
        self.memory.channel()
    }

    fn heights(&self) -> watch::Receiver<u64> {
        self.memory.heights()
    }

    fn block(&self, number: u64) -> Result<Bytes, Unavailable> {
        let block = self.memory.block(number)?;
        let alive = self.alive.fetch_add(1, Ordering::AcqRel) + 1;
        self.most.fetch_max(alive, Ordering::AcqRel);
        Ok(Bytes::from_owner(CountedBlock(block, Arc::clone(&self.alive))))
    }

    fn config_sequence(&self) -> u64 {
        self.memory.config_sequence()
    }

    fn permits(&self, resource: &str, by: SignedBy<'_>) -> bool {
        self.memory.permits(resource, by)
    }
}

/// Starts a server whose limit on bytes in transit is four times the size of the largest block. Returns the server, the
/// largest number of blocks that were in memory at the same time so far, and the size of the largest block in bytes.
async fn serve(idle: Duration) -> (Running, Arc<AtomicUsize>, usize) {
    let blocks = blocks(8);
    let largest = blocks.iter().map(Bytes::len).max().unwrap();
    let most = Arc::new(AtomicUsize::new(0));
    let source = CountingSource {
        memory: MemorySource::new(CHANNEL, blocks, ReadAccess::Everybody),
        alive: Arc::default(),
        most: Arc::clone(&most),
    };
    let limits = Limits {
        transport: Transport {
            memory_bytes: 4 * largest,
            idle,
            ..Transport::default()
        },
        ..Limits::default()
    };
    let running = start("127.0.0.1:0", None, Role::Peer, vec![Arc::new(source)], limits);
    (running.await.unwrap(), most, largest)
}

/// Requests all blocks many times, over a connection that reads no byte of an answer.
async fn ask_without_reading(address: SocketAddr) -> (SendRequest<Bytes>, Vec<ResponseFuture>) {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(0);
    let (mut sender, connection) = builder.handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = sign(
        &Network::new().client(),
        CHANNEL,
        &seek(0, u64::MAX),
        None,
        SystemTime::now(),
    );
    let message = request.encode_to_vec();
    let prefix = [&[0][..], &(message.len() as u32).to_be_bytes()].concat();
    let mut responses = Vec::new();
    for _ in 0..CALLS {
        // The server may have closed the connection for another client.
        let Ok(ready) = sender.clone().ready().await else {
            break;
        };
        sender = ready;
        let head = Request::post(format!("http://peer{DELIVER}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let Ok((response, mut stream)) = sender.send_request(head.body(()).unwrap(), false) else {
            break;
        };
        let bytes = [&prefix[..], &message].concat();
        let _ = stream.send_data(bytes.into(), false);
        // The stream is not closed, so the call stays open like that of a real client.
        std::mem::forget(stream);
        responses.push(response);
    }
    (sender, responses)
}

#[tokio::test(flavor = "multi_thread")]
async fn blocks_for_clients_that_do_not_read_are_bounded() {
    let (running, most, largest) = serve(Duration::MAX).await;
    let _lazy = ask_without_reading(running.address).await;
    let gate = &running.gate;
    let filled = async {
        while gate.bytes_under_way() < 3 * largest {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Now all calls wait until the limit on bytes in transit admits their blocks.
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    tokio::time::timeout(EVENT_TIMEOUT, filled).await.unwrap();
    // More than four blocks may fit if they are small. In addition, four blocks at a time are read before the limit
    // refuses them.
    let most = most.load(Ordering::Acquire);
    assert!(most < CALLS, "{most} blocks were held for {CALLS} calls");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_gives_way() {
    let (running, ..) = serve(Duration::ZERO).await;
    let _lazy = ask_without_reading(running.address).await;
    let channel = connect(running.address, None, None).await;
    let request = sign(
        &Network::new().client(),
        CHANNEL,
        &seek(0, 7),
        None,
        SystemTime::now(),
    );
    let asked = async {
        loop {
            let (all, status) = ask(&channel, DELIVER, vec![request.clone()]).await;
            // The server refuses a request that exceeds the limit on bytes in transit, and closes another connection.
            // With an idle limit of 0, the server may also close this connection while it waits.
            if status.is_none() {
                return all;
            }
        }
    };
    let all = tokio::time::timeout(EVENT_TIMEOUT, asked).await.unwrap();
    assert_eq!(all.len(), 9);
    assert!(matches!(all[8], DeliverContent::Status(200)));
}
