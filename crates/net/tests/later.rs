//! The socket datapath with a host that answers asynchronously: in any order, with replies that are too long, or not at
//! all.

use lineside_fastpath::{AsyncHost, FastPath, Readers, Reply, Responder, Source, Verdict};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_wire::{NativeHeader, Status, native};
use std::net::UdpSocket;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

const QUEUE: usize = 3;

struct Nothing;

impl FastPath for Nothing {
    fn answer(&self, _: Source, _: u64, _: &[u8], _: &mut Reply) -> Verdict {
        Verdict::Forward
    }
}

/// Requests taken: the bytes of each, its index in the batch, and its way back.
type Taken = Vec<(Vec<u8>, usize, Arc<dyn Responder>)>;

/// Stores the requests that it takes.
#[derive(Default)]
struct Keeper(Mutex<Taken>);

impl AsyncHost for Keeper {
    fn take(&self, asked: Vec<Vec<u8>>, back: Arc<dyn Responder>) {
        let mut taken = self.0.lock().unwrap();
        for (place, request) in asked.into_iter().enumerate() {
            assert_eq!(back.reply_bytes_max(place), request.len());
            taken.push((request, place, back.clone()));
        }
    }
}

fn request(id: u64) -> Vec<u8> {
    let header = native::request_header(1, id, 4);
    [header.as_bytes(), &[0; 4]].concat()
}

#[test]
fn answers_go_where_they_belong_in_any_order_and_nowhere_when_too_long() {
    let host = Arc::new(Keeper::default());
    let options = SocketOptions {
        listen: ([127, 0, 0, 1], 0).into(),
        threads: 1,
        queue: QUEUE,
    };
    let readers = Readers::new(false);
    let datapath = SocketDatapath::start_later(options, Arc::new(Nothing), host.clone(), &readers).unwrap();
    let clients = [(); QUEUE + 1].map(|()| {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        client.connect(datapath.local_addr()).unwrap();
        client
    });
    let mut reply = [0; 100];
    let mut fill = |host: &Keeper| {
        for (id, client) in clients[..QUEUE].iter().enumerate() {
            client.send(&request(id as u64)).unwrap();
        }
        while host.0.lock().unwrap().len() < QUEUE {
            std::thread::yield_now();
        }
        // One more request finds no room and gets the reply `busy`.
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
    for (bytes, place, back) in fill(&host).into_iter().rev() {
        back.send(vec![(place, bytes)]);
    }
    let mut heard = [0; 100];
    for (id, client) in clients[..QUEUE].iter().enumerate() {
        let bytes = client.recv(&mut heard).unwrap();
        assert_eq!(heard[..bytes], request(id as u64));
    }
    // A reply that is too long is withheld, and so is one whose index names no request. A request that is never
    // answered does not wait any more.
    for (mut bytes, place, back) in fill(&host).into_iter().take(2) {
        bytes.push(0);
        back.send(vec![(place, bytes)]);
        back.send(vec![(QUEUE, Vec::new())]);
    }
    assert_eq!(counts.amplification.load(Relaxed), 4);
    fill(&host);
    assert_eq!(counts.queue_full.load(Relaxed), 3);
    assert_eq!(counts.host_replies.load(Relaxed), QUEUE as u64);
    assert_eq!(counts.received.load(Relaxed), 3 * (QUEUE as u64 + 1));
}
