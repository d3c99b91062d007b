//! Measurement of one request at a time, from a client that shares no thread with the server.

use super::run::{Measured, Sent, Took, measure, two_threads, work};
use super::workload::Call;
use crate::error::{Result, io, void};
use lineside_client::hybrid::grpc::Connection;
use lineside_fastpath::Readers;
use lineside_hybrid::udp::{HybridFastPath, HybridHost};
use lineside_hybrid::{Code, Node};
use lineside_hybrid_grpc::serve::{Limits, start};
use lineside_journal::FsDisk;
use lineside_messages::hybrid::answer::Answered;
use lineside_messages::hybrid::udp::{read_answer, write_request};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_wire::{HYBRID_DATAGRAM_BYTES_MAX, Status};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum time to wait for the answer to a datagram. Loopback loses no datagram; if one is lost, the benchmark fails.
const ANSWER_WAIT: Duration = Duration::from_secs(10);
/// Number of datagrams that can be queued for the node. The client sends one at a time.
const QUEUE: usize = 16;

/// Measures over gRPC. The server has two threads, like `lineside hybrid serve`, and the client has one thread, like
/// the commands of a client.
pub fn by_grpc(node: &Arc<Node<FsDisk>>, calls: &[Call]) -> Result<Measured> {
    let servers = two_threads()?;
    let client = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(io("starting a client"))?;
    let server = start("127.0.0.1:0", None, node.clone(), Limits::default());
    let server = servers.block_on(server).map_err(void)?;
    let connection = client.block_on(Connection::open(&server.address.to_string(), None));
    let connection = connection.map_err(void)?;
    let calls = calls.to_vec();
    let measured = measure(node, || {
        let clock = Took::begin();
        let sent = client.block_on(work(connection, calls));
        Ok(clock.end(sent.map_err(void)?))
    });
    drop(client);
    servers.block_on(server.stop()).map_err(void)?;
    measured
}

/// Measures over UDP. Each request is one datagram, padded to the maximum length of an answer to a get.
pub fn by_udp(node: &Arc<Node<FsDisk>>, calls: &[Call]) -> Result<Measured> {
    let options = SocketOptions {
        listen: (Ipv4Addr::LOCALHOST, 0).into(),
        threads: 1,
        queue: QUEUE,
    };
    let host = Arc::new(HybridHost::new(node.clone(), Vec::new()));
    let datapath = SocketDatapath::start_async(options, Arc::new(HybridFastPath), host, &Readers::new(false));
    let datapath = datapath.map_err(io("serving by UDP"))?;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(io("a socket"))?;
    socket.connect(datapath.local_addr()).map_err(io("a socket"))?;
    socket
        .set_read_timeout(Some(ANSWER_WAIT))
        .map_err(io("a socket"))?;
    let measured = measure(node, || {
        let (clock, mut sent) = (Took::begin(), Sent::nothing());
        for (id, call) in (1..).zip(calls) {
            for request in &call.requests {
                let begin = Instant::now();
                let code = ask(&socket, id, call.sets, request)?;
                let answer = (code as u32, format!("{code:?}"));
                sent.answered(begin, std::slice::from_ref(request), &[answer]);
            }
        }
        Ok(clock.end(sent))
    });
    datapath.stop();
    measured
}

fn ask(socket: &UdpSocket, id: u64, sets: bool, request: &[u8]) -> Result<Code> {
    let room = if sets { 0 } else { HYBRID_DATAGRAM_BYTES_MAX };
    let datagram =
        write_request(id, request, room).ok_or_else(|| void("a request is too long for a datagram"))?;
    socket.send(&datagram).map_err(io("asking"))?;
    let mut reply = [0; HYBRID_DATAGRAM_BYTES_MAX];
    let bytes = socket.recv(&mut reply).map_err(io("waiting for an answer"))?;
    let body = match read_answer(&reply[..bytes]) {
        Some((of, Status::Ok, body)) if of == id => body,
        other => {
            return Err(void(format!(
                "the node's reply does not answer request {id} with the status Ok; the reply (id, status, body) is \
                 {other:?}"
            )));
        }
    };
    let answered = Answered::decode(body).map_err(void)?;
    Ok(answered.code())
}
