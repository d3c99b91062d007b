//! The socket datapath with a host that answers asynchronously: in any order, with replies that are too long, or never.

use lineside_fastpath::{AsyncHost, FastPath, Readers, Reply, Responder, Source, Verdict};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_wire::{NativeHeader, Status, native};
use std::net::UdpSocket;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

const QUEUE: usize = 3;

struct ForwardingFastPath;

impl FastPath for ForwardingFastPath {
    fn answer(&self, _: Source, _: u64, _: &[u8], _: &mut Reply) -> Verdict {
        Verdict::Forward
    }
}

/// Requests taken: the bytes of each, its index in the batch, and its responder.
type TakenRequests = Vec<(Vec<u8>, usize, Arc<dyn Responder>)>;

/// Host that stores the requests that it receives, and never answers by itself.
#[derive(Default)]
struct KeepingHost(Mutex<TakenRequests>);

impl AsyncHost for KeepingHost {
    fn take(&self, requests: Vec<Vec<u8>>, responder: Arc<dyn Responder>) {
        let mut taken = self.0.lock().unwrap();
        for (index, request) in requests.into_iter().enumerate() {
            assert_eq!(responder.reply_bytes_max(index), request.len());
            taken.push((request, index, responder.clone()));
        }
    }
}

fn request(id: u64) -> Vec<u8> {
    let header = native::request_header(1, id, 4);
    [header.as_bytes(), &[0; 4]].concat()
}

#[test]
fn replies_in_any_order_reach_their_clients_and_too_long_ones_are_withheld() {
    let host = Arc::new(KeepingHost::default());
    let options = SocketOptions {
        listen: ([127, 0, 0, 1], 0).into(),
        threads: 1,
        queue: QUEUE,
    };
    let readers = Readers::new(false);
    let datapath =
        SocketDatapath::start_async(options, Arc::new(ForwardingFastPath), host.clone(), &readers).unwrap();
    let clients = [(); QUEUE + 1].map(|()| {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client.connect(datapath.local_addr()).unwrap();
        client
    });
    let mut reply = [0; 100];
    let mut fill = |host: &KeepingHost| {
        for (id, client) in clients[..QUEUE].iter().enumerate() {
            client.send(&request(id as u64)).unwrap();
        }
        while host.0.lock().unwrap().len() < QUEUE {
            std::thread::yield_now();
        }
        // One more request does not fit the queue and gets the reply `busy`.
        clients[QUEUE].send(&request(9)).unwrap();
        let bytes = clients[QUEUE].recv(&mut reply).unwrap();
        let (header, _) = NativeHeader::ref_from_prefix(&reply[..bytes]).unwrap();
        assert_eq!(
            (header.request_id.get(), header.status.get()),
            (9, Status::Busy as u16)
        );
        std::mem::take(&mut *host.0.lock().unwrap())
    };
    let counts = datapath.counts();
    for (bytes, index, responder) in fill(&host).into_iter().rev() {
        responder.send(vec![(index, bytes)]);
    }
    let mut received = [0; 100];
    for (id, client) in clients[..QUEUE].iter().enumerate() {
        let bytes = client.recv(&mut received).unwrap();
        assert_eq!(received[..bytes], request(id as u64));
    }
    // A reply that is too long is not sent, and neither is one whose index names no request. A request whose responder
    // was dropped without an answer no longer counts as waiting.
    for (mut bytes, index, responder) in fill(&host).into_iter().take(2) {
        bytes.push(0);
        responder.send(vec![(index, bytes)]);
        responder.send(vec![(QUEUE, Vec::new())]);
    }
    assert_eq!(counts.amplification.load(Relaxed), 4);
    fill(&host);
    assert_eq!(counts.queue_full.load(Relaxed), 3);
    assert_eq!(counts.host_replies.load(Relaxed), QUEUE as u64);
    assert_eq!(counts.received.load(Relaxed), 3 * (QUEUE as u64 + 1));
}
