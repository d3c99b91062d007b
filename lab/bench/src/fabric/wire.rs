//! Blocks from an orderer's Deliver stream over loopback at a given rate: the latency of each block, and the bytes of
//! the TCP connection.

use super::udp::{BlocksToSend, LatencyFigures};
use crate::error::{BenchError, Result, io, void};
use bytes::Bytes;
use lineside_fabric::access::SignedBy;
use lineside_fabric_grpc::client::{Follower, Options};
use lineside_fabric_grpc::serve::{Limits, Role};
use lineside_fabric_grpc::source::Unavailable;
use lineside_fabric_grpc::{CommittedSource, Signer, start};
use lineside_fabric_maker::{Network, Options as Members};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio::runtime::Builder;
use tokio::sync::watch;

/// Maximum time until the next block arrives.
const BLOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a full TCP segment's payload on Ethernet with an MTU of 1,500 bytes, if TCP has timestamps.
const SEGMENT_PAYLOAD_BYTES: u64 = 1_448;
/// Bytes that a TCP segment takes on Ethernet in addition to its payload: preamble, header, checksum and gap of
/// Ethernet, IPv4, TCP with timestamps.
const SEGMENT_OVERHEAD_BYTES: u64 = 8 + 14 + 4 + 12 + 20 + 32;
const RELAY_BUFFER_BYTES: usize = 256 << 10;

/// Way from the orderer to the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Route {
    /// The client is connected to the orderer.
    Direct,
    /// A relay is between them and counts bytes, which delays the blocks.
    Counted,
}

/// Result of a run.
pub(super) struct DeliveredBlocks {
    pub(super) latency: LatencyFigures,
    /// Bytes from the orderer to the client in the TCP connection; 0 without the relay.
    pub(super) received_bytes: u64,
}

/// Returns the number of bytes on Ethernet of a TCP connection's payload in full segments, without acknowledgements.
pub(super) fn tcp_on_ethernet(payload_bytes: u64) -> u64 {
    payload_bytes + payload_bytes.div_ceil(SEGMENT_PAYLOAD_BYTES) * SEGMENT_OVERHEAD_BYTES
}

/// Blocks in memory that become available one after the other.
struct PacedBlocks {
    channel: String,
    first: u64,
    blocks: Vec<Bytes>,
    heights: watch::Sender<u64>,
}

impl CommittedSource for PacedBlocks {
    fn channel(&self) -> &str {
        &self.channel
    }

    fn heights(&self) -> watch::Receiver<u64> {
        self.heights.subscribe()
    }

    fn first(&self) -> u64 {
        self.first
    }

    fn block(&self, number: u64) -> std::result::Result<Bytes, Unavailable> {
        let place = number.checked_sub(self.first).map(|place| place as usize);
        let block = place.and_then(|place| self.blocks.get(place));
        block
            .cloned()
            .ok_or_else(|| Unavailable(format!("there is no block {number}")))
    }

    fn config_sequence(&self) -> u64 {
        0
    }

    fn permits(&self, _resource: &str, _by: SignedBy<'_>) -> bool {
        true
    }
}

/// Sends the blocks from an orderer to a client, each at its time. The client compares each block with the sent one.
///
/// # Errors
/// Fails if a block does not arrive or differs from the sent one; returns errors of the operating system.
pub(super) fn deliver(sent: &BlocksToSend, route: Route) -> Result<DeliveredBlocks> {
    let source = Arc::new(PacedBlocks {
        channel: Members::default().channel,
        first: sent.first,
        blocks: sent
            .blocks
            .iter()
            .map(|block| Bytes::copy_from_slice(block))
            .collect(),
        // The first block opens the stream, and is not measured.
        heights: watch::Sender::new(sent.first + 1),
    });
    let runtime = |name: &str| {
        let mut builder = Builder::new_multi_thread();
        let builder = builder.worker_threads(1).thread_name(name).enable_all();
        builder.build().map_err(io("starting a runtime"))
    };
    let orderer = runtime("orderer")?;
    let sources: Vec<Arc<dyn CommittedSource>> = vec![Arc::clone(&source) as _];
    let started = start("127.0.0.1:0", None, Role::Orderer, sources, Limits::default());
    let running = orderer.block_on(started).map_err(io("starting an orderer"))?;
    let received_bytes = Arc::new(AtomicU64::new(0));
    let address = match route {
        Route::Direct => running.address,
        Route::Counted => relay(running.address, &received_bytes).map_err(io("starting a relay"))?,
    };
    let client = runtime("deliver")?;
    let late_ms = client.block_on(follow(sent, &source, address));
    client.shutdown_background();
    drop(running);
    orderer.shutdown_background();
    let none = || BenchError::Void("no block was delivered".into());
    Ok(DeliveredBlocks {
        latency: LatencyFigures::of(late_ms?).ok_or_else(none)?,
        received_bytes: received_bytes.load(Relaxed),
    })
}

/// Returns the latency of each block after the first one, in milliseconds.
async fn follow(sent: &BlocksToSend, source: &Arc<PacedBlocks>, address: SocketAddr) -> Result<Vec<f64>> {
    let network = Network::new(1, Members::default());
    let client = network.client(0);
    let signer = Signer::from_pem(&network.orgs[0].msp, &client.pem, client.key.pem().as_bytes());
    let signer = Arc::new(signer.map_err(void)?);
    let options = Options::new(vec![address.to_string()], signer, &source.channel, sent.first);
    let mut follower = Follower::new(options);
    receive(&mut follower, sent, 0).await?;
    let began = Instant::now();
    let due = |place: usize| Duration::from_nanos(sent.due_ns(place) - sent.due_ns(1));
    let times: Vec<Duration> = (1..sent.blocks.len()).map(due).collect();
    let (paced, first) = (Arc::clone(source), sent.first);
    // Dropping the handle lets the thread run to its end, which is the time of the last block.
    let _pacing = std::thread::spawn(move || {
        for (place, due) in (1..).zip(times) {
            std::thread::sleep(due.saturating_sub(began.elapsed()));
            paced.heights.send_replace(first + place + 1);
        }
    });
    let mut late_ms = Vec::new();
    for place in 1..sent.blocks.len() {
        receive(&mut follower, sent, place).await?;
        late_ms.push(began.elapsed().saturating_sub(due(place)).as_secs_f64() * 1e3);
    }
    Ok(late_ms)
}

async fn receive(follower: &mut Follower, sent: &BlocksToSend, place: usize) -> Result<()> {
    let expected = sent.first + place as u64;
    let received = tokio::time::timeout(BLOCK_TIMEOUT, follower.next()).await;
    let received = received
        .map_err(|_| BenchError::Void(format!("block {expected} did not arrive by Deliver within 30 s")))?;
    let is_right = received.number == expected && received.bytes[..] == sent.blocks[place][..];
    match is_right {
        true => Ok(()),
        false => Err(BenchError::Void(format!(
            "block {} arrived by Deliver and differs from the sent block {expected}",
            received.number
        ))),
    }
}

/// Starts a relay for one connection to `to`. Returns its address, and adds the bytes that it carries from there to
/// `counted`. Its threads end with the connection.
fn relay(to: SocketAddr, counted: &Arc<AtomicU64>) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let counted = Arc::clone(counted);
    std::thread::spawn(move || {
        let Ok((client, _)) = listener.accept() else {
            return;
        };
        let Ok(server) = TcpStream::connect(to) else {
            return;
        };
        let (Ok(from_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else {
            return;
        };
        std::thread::spawn(move || carry(from_client, to_server, &AtomicU64::new(0)));
        carry(server, client, &counted);
    });
    Ok(address)
}

/// Copies bytes until one end closes, and adds their number to `counted` before they are passed on.
fn carry(mut from: TcpStream, mut to: TcpStream, counted: &AtomicU64) {
    let mut buffer = vec![0; RELAY_BUFFER_BYTES];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        counted.fetch_add(length as u64, Relaxed);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_s_payload_is_cut_into_full_segments() {
        assert_eq!(tcp_on_ethernet(0), 0);
        assert_eq!(tcp_on_ethernet(1), 91);
        assert_eq!(tcp_on_ethernet(1_448), 1_538);
        assert_eq!(tcp_on_ethernet(1_449), 1_449 + 180);
    }

    #[test]
    fn a_relay_counts_the_bytes_of_one_direction() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let counted = Arc::new(AtomicU64::new(0));
        let address = relay(server.local_addr().unwrap(), &counted).unwrap();
        let mut client = TcpStream::connect(address).unwrap();
        let (mut serving, _) = server.accept().unwrap();
        client.write_all(b"request").unwrap();
        let mut request = [0; 7];
        serving.read_exact(&mut request).unwrap();
        serving.write_all(&[1; 3_000]).unwrap();
        drop(serving);
        let mut reply = Vec::new();
        client.read_to_end(&mut reply).unwrap();
        assert_eq!((&request, reply.len()), (b"request", 3_000));
        assert_eq!(counted.load(Relaxed), 3_000);
    }
}
