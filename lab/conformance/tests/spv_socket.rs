//! Tests of `spv` on a real UDP socket: the first answer comes from the host, the next one comes from the fast path,
//! and some requests get no answer.

use lineside_fastpath::{DropReason, FastPath, Host, Reader, Readers, Reply, Source, Verdict, lease};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_spv::chain::{ChainStore, Network};
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::host::SpvHost;
use lineside_spv::store::{Geometry, Store};
use lineside_spv::writer::StoreWriter;
use lineside_testkit::DemoChain;
use lineside_testkit::skipped;
use lineside_wire::{NATIVE_REPLY_BIT, NativeHeader, Status, native};
use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

fn serve(listen: &str) -> (SocketDatapath, Vec<[u8; 32]>, [u8; 32]) {
    serve_with(listen, 2)
}

fn serve_with(listen: &str, threads: usize) -> (SocketDatapath, Vec<[u8; 32]>, [u8; 32]) {
    let geometry = Geometry {
        line_bits: 10,
        block_bits: 4,
        ..Geometry::default()
    };
    let store = Arc::new(Store::anonymous(&geometry).unwrap());
    lease::renew(&store.control().lease_until_ns, 1 << 40);
    let block = DemoChain::new(1, 40).next().unwrap();
    let chain = ChainStore::open(None, Network::Regtest).unwrap();
    let readers = Readers::default();
    let writer = Box::new(StoreWriter::new(Arc::clone(&store)));
    let host = SpvHost::new(chain, writer, readers.clone(), true);
    host.submit(&block.raw, false).unwrap();
    let datapath = SocketDatapath::start(
        SocketOptions {
            listen: listen.parse().unwrap(),
            threads,
            queue: 64,
        },
        Arc::new(SpvFastPath::new(store)),
        Arc::new(host),
        &readers,
    )
    .unwrap();
    (datapath, block.txids, block.root)
}

fn client(bind: &str) -> UdpSocket {
    let socket = UdpSocket::bind(bind).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

#[test]
fn the_host_gives_the_first_answer_and_the_fast_path_the_second() {
    for (listen, bind) in [("127.0.0.1:0", "127.0.0.1:0"), ("[::1]:0", "[::1]:0")] {
        let (datapath, txids, root) = serve(listen);
        let client = client(bind);
        client.connect(datapath.local_addr()).unwrap();
        let mut reply = [0; 64];
        for _ in 0..2 {
            for txid in &txids {
                client.send(txid).unwrap();
                let bytes = client.recv(&mut reply).unwrap();
                assert_eq!(&reply[..bytes], &root);
            }
        }
        client.send(&[7; 32]).unwrap();
        assert_eq!(client.recv(&mut reply).unwrap(), 32);
        assert_eq!(&reply[..32], &[0; 32]);
        let count = txids.len() as u64;
        // The server counts a reply after it has sent it, so the last reply of the host may not be counted yet.
        assert!([count, count + 1].contains(&datapath.counts().host_replies.load(Relaxed)));
        assert!([count - 1, count].contains(&datapath.counts().fastpath_replies.load(Relaxed)));
    }
}

#[test]
fn datagrams_from_a_services_port_and_noise_get_no_answer() {
    let (datapath, txids, root) = serve_with("127.0.0.1:0", 1);
    let Ok(forger) = UdpSocket::bind("127.0.0.1:7705") else {
        skipped("port 7705 is in use");
        return;
    };
    forger.send_to(&txids[0], datapath.local_addr()).unwrap();
    let client = client("127.0.0.1:0");
    client.connect(datapath.local_addr()).unwrap();
    client.send(&[1; 31]).unwrap();
    client.send(&[1; 2000]).unwrap();
    // One thread handles the datagrams in order, so the answer to this one shows that the earlier ones were handled.
    client.send(&txids[0]).unwrap();
    let mut reply = [0; 64];
    assert_eq!(client.recv(&mut reply).unwrap(), 32);
    assert_eq!(&reply[..32], &root);
    let counts = datapath.counts();
    assert_eq!(counts.drops[DropReason::SourcePort as usize].load(Relaxed), 1);
    assert_eq!(counts.drops[DropReason::NotARequest as usize].load(Relaxed), 1);
    assert_eq!(counts.oversize.load(Relaxed), 1);
    forger.set_nonblocking(true).unwrap();
    assert!(forger.recv(&mut reply).is_err(), "the forger got an answer");
}

#[test]
fn dropping_the_datapath_frees_the_port() {
    let (datapath, ..) = serve("127.0.0.1:0");
    let address = datapath.local_addr();
    drop(datapath);
    UdpSocket::bind(address).unwrap();
}

#[test]
fn a_reply_comes_from_the_address_that_received_the_request() {
    for (listen, asked) in [
        ("0.0.0.0:0", "127.0.0.7"),
        ("[::]:0", "::1"),
        ("[::]:0", "127.0.0.7"),
    ] {
        let (datapath, txids, root) = serve(listen);
        let asked: IpAddr = asked.parse().unwrap();
        let client = client(if asked.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" });
        // The client's socket is connected, so the kernel passes it only datagrams from the server's address.
        client.connect((asked, datapath.local_addr().port())).unwrap();
        for _ in 0..2 {
            client.send(&txids[0]).unwrap();
            let mut reply = [0; 64];
            assert_eq!(client.recv(&mut reply).unwrap(), 32, "{listen} {asked}");
            assert_eq!(&reply[..32], &root);
        }
    }
}

#[test]
fn a_port_in_use_is_not_shared() {
    let (datapath, ..) = serve("127.0.0.1:0");
    let options = SocketOptions {
        listen: datapath.local_addr(),
        threads: 1,
        queue: 1,
    };
    let fastpath = Arc::new(ForwardAll);
    let second = SocketDatapath::start(options, fastpath, Arc::new(Stuck::default()), &Readers::default());
    assert_eq!(second.err().map(|error| error.kind()), Some(ErrorKind::AddrInUse));
}

struct ForwardAll;

impl FastPath for ForwardAll {
    fn answer(&self, _: Source, _: u64, _: &[u8], _: &mut Reply) -> Verdict {
        Verdict::Forward
    }
}

/// Host that blocks in a request until the test releases it.
#[derive(Default)]
struct Stuck {
    gate: Mutex<()>,
}

impl Host for Stuck {
    fn serve(&self, _: Source, _: &[u8], _: &mut Reply, _: &Reader) -> Verdict {
        drop(self.gate.lock());
        Verdict::Forward
    }
}

#[test]
fn a_full_queue_answers_busy_in_the_native_format() {
    let host = Arc::new(Stuck::default());
    let gate = host.gate.lock().unwrap();
    let options = SocketOptions {
        listen: "127.0.0.1:0".parse().unwrap(),
        threads: 1,
        queue: 2,
    };
    let datapath = SocketDatapath::start(
        options,
        Arc::new(ForwardAll),
        Arc::clone(&host) as _,
        &Readers::default(),
    )
    .unwrap();
    let client = client("127.0.0.1:0");
    client.connect(datapath.local_addr()).unwrap();
    // Two requests are in the queue, and one is with the host if the host has already taken it. All others are refused
    // at once.
    for id in 0..20 {
        client.send(native::request_header(1, id, 0).as_bytes()).unwrap();
    }
    client.send(&[0; 32]).unwrap();
    let mut reply = [0; 64];
    let mut refused = Vec::new();
    while refused.last() != Some(&19) {
        assert_eq!(client.recv(&mut reply).unwrap(), 16);
        let (header, _) = NativeHeader::ref_from_prefix(&reply).unwrap();
        assert_eq!(header.status.get(), Status::Busy as u16);
        assert_eq!(header.op, 1 | NATIVE_REPLY_BIT);
        refused.push(header.request_id.get());
    }
    drop(gate);
    assert!([17, 18].contains(&refused.len()), "{refused:?}");
    // The paper's format has no refusal, so the request in that format was dropped and counted.
    let full = datapath.counts().queue_full.load(Relaxed);
    let (paper, native) = (1, refused.len() as u64);
    assert!([native, native + paper].contains(&full), "{full}");
}
