//! `spv` behind a real UDP socket: host first, near after, and who gets no answer.

use lineside_near::{DropReason, lease};
use lineside_plane::socket::SocketPlane;
use lineside_spv::chain::{ChainStore, DemoChain, Network};
use lineside_spv::host::SpvHost;
use lineside_spv::near::SpvNear;
use lineside_spv::store::{Geometry, Store};
use lineside_spv::writer::StoreWriter;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

fn serve(listen: &str) -> (SocketPlane, Vec<[u8; 32]>, [u8; 32]) {
    let geometry = Geometry {
        line_bits: 10,
        block_bits: 4,
        ..Geometry::default()
    };
    let store = Arc::new(Store::anonymous(&geometry).unwrap());
    lease::renew(&store.control().lease_until_ns, 1 << 40);
    let block = DemoChain::new(1, 40).next().unwrap();
    let chain = ChainStore::open(None, Network::Regtest).unwrap();
    let host = SpvHost::new(chain, Box::new(StoreWriter::new(Arc::clone(&store))), true);
    host.submit(&block.raw, false).unwrap();
    let plane = SocketPlane::start(
        listen.parse().unwrap(),
        64,
        Arc::new(SpvNear::new(store)),
        Arc::new(host),
    )
    .unwrap();
    (plane, block.txids, block.root)
}

fn client(bind: &str) -> UdpSocket {
    let socket = UdpSocket::bind(bind).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

#[test]
fn the_first_answer_is_the_hosts_the_second_nears() {
    for (listen, bind) in [("127.0.0.1:0", "127.0.0.1:0"), ("[::1]:0", "[::1]:0")] {
        let (plane, txids, root) = serve(listen);
        let client = client(bind);
        client.connect(plane.local_addr()).unwrap();
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
        // A reply is counted after it was sent: the host's last one may still be uncounted.
        assert!([count, count + 1].contains(&plane.counts().host_replies.load(Relaxed)));
        assert!([count - 1, count].contains(&plane.counts().near_replies.load(Relaxed)));
    }
}

#[test]
fn no_answer_for_a_services_port_nor_for_noise() {
    let (plane, txids, root) = serve("127.0.0.1:0");
    let Ok(forger) = UdpSocket::bind("127.0.0.1:7705") else {
        eprintln!("skipped: port 7705 is taken here");
        return;
    };
    forger.send_to(&txids[0], plane.local_addr()).unwrap();
    let client = client("127.0.0.1:0");
    client.connect(plane.local_addr()).unwrap();
    client.send(&[1; 31]).unwrap();
    client.send(&[1; 2000]).unwrap();
    // One thread takes datagrams in order, so this answer shows that those before it were dealt with.
    client.send(&txids[0]).unwrap();
    let mut reply = [0; 64];
    assert_eq!(client.recv(&mut reply).unwrap(), 32);
    assert_eq!(&reply[..32], &root);
    let counts = plane.counts();
    assert_eq!(counts.drops[DropReason::SourcePort as usize].load(Relaxed), 1);
    assert_eq!(counts.drops[DropReason::NotARequest as usize].load(Relaxed), 1);
    assert_eq!(counts.oversize.load(Relaxed), 1);
    forger.set_nonblocking(true).unwrap();
    assert!(forger.recv(&mut reply).is_err(), "the forger got an answer");
}

#[test]
fn dropping_it_frees_the_port() {
    let (plane, ..) = serve("127.0.0.1:0");
    let address = plane.local_addr();
    drop(plane);
    UdpSocket::bind(address).unwrap();
}
