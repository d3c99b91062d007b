//! Tests of `spv` on real interfaces: veth pairs in network namespaces that the tests create.

use lineside_fastpath::{Readers, lease};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_spv::chain::{ChainStore, Network};
use lineside_spv::datapath as spv;
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::host::SpvHost;
use lineside_spv::store::{Geometry, Store};
use lineside_spv::writer::StoreWriter;
use lineside_testkit::bpffs::below_bpffs;
use lineside_testkit::netns::{Namespace, Wire};
use lineside_testkit::skipped;
use lineside_testkit::{DemoBlock, DemoChain};
use lineside_wire::{SPV_PORT, SpvCounter, TRANSFER_PORT, TRANSFER_SLOT};
use lineside_xdp::{
    AttachedMode, Interface, Pins, ProgramSpec, XdpDatapath, XdpError, XdpMode, attached,
    may_lose_native_answers, native_needs,
};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

static ECHO: &[u8] = include_bytes!(env!("LINESIDE_ECHO_OBJECT"));
const SERVER: &str = "10.0.0.2:7701";

fn geometry() -> Geometry {
    Geometry {
        line_bits: 12,
        block_bits: 4,
        ..Geometry::default()
    }
}

fn echo_image() -> ProgramSpec {
    ProgramSpec {
        object: ECHO,
        program: "ls_echo",
        slot: TRANSFER_SLOT,
        port: TRANSFER_PORT,
        entries: Vec::new(),
        value_bytes: Vec::new(),
        constants: Vec::new(),
    }
}

/// Complete `spv` service at `x1` (or another interface) of the calling thread's namespace.
struct Server {
    datapath: XdpDatapath,
    store: Arc<Store>,
    socket: SocketDatapath,
    mode: AttachedMode,
}

impl Server {
    fn start(
        listen: &str,
        interface: &str,
        mode: XdpMode,
        pins: Option<Pins>,
        block: &DemoBlock,
    ) -> Result<Self, XdpError> {
        let images = vec![spv::program(&geometry(), SPV_PORT), echo_image()];
        let mut datapath = XdpDatapath::load(images, pins)?;
        let store = Arc::new(spv::store(&mut datapath, &geometry())?);
        if !datapath.is_adopted() {
            store.format(&geometry()).expect("geometry");
        }
        lease::renew(&store.control().lease_until_ns, 60_000_000_000);
        let readers = Readers::new(true);
        let chain = ChainStore::open(None, Network::Regtest).expect("chain");
        let writer = Box::new(StoreWriter::new(Arc::clone(&store)));
        let host = SpvHost::new(chain, writer, readers.clone(), true);
        host.submit(&block.raw, false).expect("block");
        let options = SocketOptions {
            listen: listen.parse().expect("address"),
            threads: 2,
            queue: 64,
        };
        let fastpath = Arc::new(SpvFastPath::new(Arc::clone(&store)));
        let host = Arc::new(host);
        // Between its fork and its exec, a child process of another test has copies of all descriptors, and with them
        // the port of a server that was just dropped. The bind is therefore repeated.
        let until = Instant::now() + Duration::from_secs(10);
        let socket = loop {
            let (fastpath, host) = (Arc::clone(&fastpath), Arc::clone(&host));
            match SocketDatapath::start(options, fastpath, host, &readers) {
                Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < until => {
                    std::thread::yield_now();
                }
                socket => break socket.expect("socket datapath"),
            }
        };
        let mode = datapath.attach(&Interface::find(interface)?, mode)?;
        Ok(Self {
            datapath,
            store,
            socket,
            mode,
        })
    }

    fn hits(&mut self) -> u64 {
        let counts: [u64; SpvCounter::ALL.len()] = self.datapath.counts("spv_counts").expect("spv_counts");
        counts[SpvCounter::Hits as usize]
    }
}

/// Returns a veth pair whose client side receives XDP_TX frames. A veth delivers such frames only to an interface with
/// NAPI, which needs GRO or an XDP program. This interface has the root program without services, which passes every
/// frame.
fn listening_wire() -> Option<(Wire, XdpDatapath)> {
    let wire = Wire::new()?;
    let pass = wire.client.run(|| {
        let mut pass = XdpDatapath::load(Vec::new(), None).expect("load");
        pass.attach(&Interface::find("x0").expect("x0"), XdpMode::Native)
            .expect("attach");
        pass
    });
    Some((wire, pass))
}

fn may_load_bpf() -> bool {
    match XdpDatapath::load(vec![spv::program(&geometry(), SPV_PORT)], None) {
        Ok(_) => true,
        Err(XdpError::NotAllowed(why)) => {
            skipped(format_args!("BPF is not allowed here ({why})"));
            false
        }
        Err(error) => panic!("{error}"),
    }
}

fn block() -> DemoBlock {
    DemoChain::new(7, 50).next().expect("endless")
}

/// Requests every transaction twice and checks the roots. The second time, the fast path must have the answers.
fn ask_all(server: SocketAddr, block: &DemoBlock) {
    let bind: SocketAddr = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }
        .parse()
        .unwrap();
    let client = UdpSocket::bind(bind).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    client.connect(server).unwrap();
    let mut reply = [0; 64];
    for txid in block.txids.iter().chain(&block.txids) {
        client.send(txid).unwrap();
        let bytes = client.recv(&mut reply).expect("an answer");
        assert_eq!(reply[..bytes], block.root);
    }
}

#[test]
fn a_server_answers_over_ipv4_and_ipv6_in_both_modes_and_detaches_completely() {
    if !may_load_bpf() {
        return;
    }
    for (mode, expected) in [
        // The server cannot check the other end of the veth, which is in another namespace.
        (XdpMode::Auto, AttachedMode::Generic),
        (XdpMode::Native, AttachedMode::Native),
        (XdpMode::Generic, AttachedMode::Generic),
    ] {
        for listen in [SERVER, "[fd00::2]:7701"] {
            let Some((wire, _pass)) = listening_wire() else {
                return;
            };
            let asked = block();
            let served = asked.clone();
            let mut server = wire
                .server
                .run(move || Server::start(listen, "x1", mode, None, &served).expect("server"));
            assert_eq!(server.mode, expected);
            let count = asked.txids.len() as u64;
            wire.client.run(move || ask_all(listen.parse().unwrap(), &asked));
            assert_eq!(
                server.hits(),
                count,
                "{mode:?} {listen}: the fast path answered the second round"
            );
            // The server counts a reply after it has sent it, so the last reply may not be counted yet.
            let host = server.socket.counts().host_replies.load(Ordering::Relaxed);
            assert!([count - 1, count].contains(&host));
            wire.server.run(move || {
                let x1 = Interface::find("x1").expect("x1");
                assert!(attached(&x1).expect("query").is_some());
                server.datapath.detach().expect("detach");
                assert_eq!(attached(&x1).expect("query"), None);
            });
        }
    }
}

#[test]
fn the_loopback_interface_takes_the_program_in_generic_mode() {
    if !may_load_bpf() {
        return;
    }
    let Some(alone) = Namespace::new() else { return };
    alone.run(|| {
        let block = block();
        let refused = Server::start("127.0.0.1:7701", "lo", XdpMode::Native, None, &block).err();
        assert!(
            matches!(refused, Some(XdpError::DriverWithoutXdp { .. })),
            "{refused:?}"
        );
        let mut server = Server::start("127.0.0.1:7701", "lo", XdpMode::Auto, None, &block).expect("server");
        assert_eq!(server.mode, AttachedMode::Generic);
        ask_all("127.0.0.1:7701".parse().unwrap(), &block);
        assert_eq!(server.hits(), block.txids.len() as u64);
    });
}

#[test]
fn addresses_without_broadcast_or_with_a_label_are_read() {
    let Some(alone) = Namespace::new() else { return };
    alone.ip("link add v0 type veth peer name v1");
    alone.ip("address add 10.9.0.2/24 dev v0");
    alone.ip("address add 10.9.1.2/31 dev v0 label v0:5");
    alone.ip("address add 10.9.2.2 peer 10.9.2.9/32 dev v0");
    alone.run(|| {
        let v0 = Interface::find("v0").expect("v0").endpoint;
        let own: Vec<_> = v0.v4().collect();
        let expected = [[10, 9, 0, 2], [10, 9, 1, 2], [10, 9, 2, 2]];
        assert_eq!(own, expected.map(Ipv4Addr::from));
        let refused = |source: [u8; 4]| v0.refuses_source(source.into(), 4000).is_some();
        assert!(refused([10, 9, 0, 255]));
        assert!(!refused([10, 9, 0, 254]));
        assert!(
            !refused([10, 9, 1, 3]),
            "a subnet of two addresses has no broadcast"
        );
    });
}

#[test]
fn a_veth_is_recognised_by_its_driver() {
    let Some(alone) = Namespace::new() else { return };
    alone.ip("link add v0 type veth peer name v1");
    alone.run(|| {
        let lines = native_needs("v0");
        assert!(
            lines.len() == 1 && lines[0].contains("ethtool -K PEER gro on"),
            "{lines:?}"
        );
        assert!(lines[0].contains("xdp_mode = \"generic\""), "{lines:?}");
        assert!(may_lose_native_answers("v0"));
        assert!(native_needs("lo").is_empty());
    });
}

/// Regression test: mode `auto` chose native mode on a veth whose other end drops the frames that XDP sends.
#[test]
fn mode_auto_is_native_on_a_veth_only_if_its_other_end_takes_the_answers() {
    if !may_load_bpf() {
        return;
    }
    let Some(alone) = Namespace::new() else { return };
    alone.ip("link add v0 type veth peer name v1");
    alone.run(|| {
        let v0 = Interface::find("v0").expect("v0");
        let attach = |mode| {
            let mut datapath = XdpDatapath::load(Vec::new(), None).expect("load");
            let attached = datapath.attach(&v0, mode).expect("attach");
            (datapath, attached)
        };
        let (mut datapath, mode) = attach(XdpMode::Auto);
        assert_eq!(mode, AttachedMode::Generic);
        datapath.detach().expect("detach");
        // A native XDP program at the other end switches NAPI on there, as GRO does.
        let v1 = Interface::find("v1").expect("v1");
        let mut peer = XdpDatapath::load(Vec::new(), None).expect("load");
        peer.attach(&v1, XdpMode::Native).expect("attach");
        assert!(!may_lose_native_answers("v0"));
        assert_eq!(attach(XdpMode::Auto).1, AttachedMode::Native);
    });
}

#[test]
fn two_services_share_an_interface_and_other_ports_are_not_answered() {
    if !may_load_bpf() {
        return;
    }
    let Some((wire, _pass)) = listening_wire() else {
        return;
    };
    let asked = block();
    let served = asked.clone();
    let server = wire
        .server
        .run(move || Server::start(SERVER, "x1", XdpMode::Native, None, &served).expect("server"));
    wire.client.run(move || {
        ask_all(SERVER.parse().unwrap(), &asked);
        let client = UdpSocket::bind("0.0.0.0:0").unwrap();
        client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        client.connect(("10.0.0.2", TRANSFER_PORT)).unwrap();
        let request: [u8; 16] = std::array::from_fn(|index| index as u8 * 7);
        client.send(&request).unwrap();
        let mut reply = [0; 32];
        assert_eq!(client.recv(&mut reply).unwrap(), 16);
        assert!(
            reply
                .iter()
                .zip(&request)
                .all(|(reply, request)| *reply == !request)
        );
        // If a service has no program in its slot, the kernel reports that the port is not open.
        client.connect(("10.0.0.2", 7703)).unwrap();
        client.send(&request).unwrap();
        let refused = client.recv(&mut reply).unwrap_err();
        assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    });
    drop(server);
}

#[test]
fn a_program_of_another_server_is_named_and_not_replaced() {
    if !may_load_bpf() {
        return;
    }
    let Some(wire) = Wire::new() else { return };
    wire.server.run(|| {
        let x1 = Interface::find("x1").expect("x1");
        let mut foreign = XdpDatapath::load(Vec::new(), None).expect("load");
        foreign.attach(&x1, XdpMode::Native).expect("attach");
        let before = attached(&x1).expect("query").expect("a program");
        for mode in [XdpMode::Auto, XdpMode::Native, XdpMode::Generic] {
            match Server::start(SERVER, "x1", mode, None, &block()).err() {
                Some(XdpError::Occupied { interface, id, name }) => {
                    assert_eq!(
                        (interface.as_str(), id, name.as_str()),
                        ("x1", before.0, "ls_root")
                    );
                }
                other => panic!("{mode:?}: {other:?}"),
            }
        }
        assert_eq!(attached(&x1).expect("query"), Some(before));
    });
}

/// Folder of pins, which is removed at the end of the test in any case.
struct PinDir(PathBuf);

impl Drop for PinDir {
    fn drop(&mut self) {
        let left = Pins::own(&self.0, "x1").and_then(Pins::remove);
        if !std::thread::panicking() {
            left.expect("the pins can be removed");
        }
    }
}

/// Returns a folder of pins; `None` if there is no BPF file system.
fn pin_dir(name: &str) -> Option<PinDir> {
    let dir = below_bpffs(name)?;
    match Pins::own(&dir, "probe") {
        Ok(pins) => {
            pins.remove().expect("remove");
            Some(PinDir(dir))
        }
        Err(XdpError::NoBpffs(path)) => {
            skipped(format_args!("{} is not on a BPF file system", path.display()));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_fast_path_answers_between_two_daemons_and_the_second_takes_it_over() {
    if !may_load_bpf() {
        return;
    }
    // The threads of the wire inherit the mounts that this thread has when it starts them, so the BPF file system is
    // mounted first.
    let (Some(dir), Some((wire, _pass))) = (pin_dir("adopt"), listening_wire()) else {
        return;
    };
    let (dir, held) = (dir.0.clone(), dir);
    let asked = Arc::new(block());
    let start = {
        let (asked, dir) = (Arc::clone(&asked), dir.clone());
        move || {
            let pins = Pins::own(&dir, "x1").expect("pins");
            Server::start(SERVER, "x1", XdpMode::Native, Some(pins), &asked)
        }
    };
    let first = start.clone();
    let mut server = wire.server.run(move || first().expect("server"));
    assert!(!server.datapath.is_adopted());
    let all = Arc::clone(&asked);
    wire.client.run(move || ask_all(SERVER.parse().unwrap(), &all));
    // If a second process tries to own the pins, it is refused, and the first owner continues.
    let also = dir.clone();
    assert!(matches!(Pins::own(&also, "x1"), Err(XdpError::Owned(name)) if name == "x1"));
    let hits = server.hits();
    assert!(hits > 0);
    // The daemon ends without cleaning up, as after kill -9: its descriptors are closed, but its pins remain.
    drop(server);
    let one = Arc::clone(&asked);
    wire.client.run(move || {
        let client = UdpSocket::bind("0.0.0.0:0").unwrap();
        client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut reply = [0; 64];
        client.send_to(&one.txids[1], SERVER).unwrap();
        assert_eq!(client.recv(&mut reply).expect("the fast path answers alone"), 32);
        assert_eq!(reply[..32], one.root);
    });
    let other = Geometry {
        line_bits: 13,
        ..geometry()
    };
    let refused_dir = dir.clone();
    wire.server.run(move || {
        let pins = Pins::own(&refused_dir, "x1").expect("pins");
        let refused = XdpDatapath::load(vec![spv::program(&other, SPV_PORT)], Some(pins)).err();
        assert!(
            matches!(refused, Some(XdpError::OtherLayout { .. })),
            "{refused:?}"
        );
    });
    let mut server = wire.server.run(move || start().expect("second server"));
    assert!(server.datapath.is_adopted());
    let all = Arc::clone(&asked);
    wire.client.run(move || ask_all(SERVER.parse().unwrap(), &all));
    assert!(server.hits() > hits, "the counters were taken over too");
    wire.server.run(move || {
        server.datapath.detach().expect("detach");
        assert_eq!(
            attached(&Interface::find("x1").expect("x1")).expect("query"),
            None
        );
    });
    assert!(!dir.exists(), "files remain in {}", dir.display());
    drop(held);
}

#[test]
fn no_reply_is_lost_while_programs_are_replaced() {
    if !may_load_bpf() {
        return;
    }
    let Some((wire, _pass)) = listening_wire() else {
        return;
    };
    let asked = block();
    let served = asked.clone();
    let mut server = wire
        .server
        .run(move || Server::start(SERVER, "x1", XdpMode::Native, None, &served).expect("server"));
    let stop = Arc::new(AtomicBool::new(false));
    let answered = Arc::new(AtomicU64::new(0));
    let client = wire.client.spawn({
        let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
        move || {
            let client = UdpSocket::bind("0.0.0.0:0").unwrap();
            client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            client.connect(SERVER).unwrap();
            let mut reply = [0; 64];
            for txid in asked.txids.iter().cycle() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                client.send(txid).unwrap();
                assert_eq!(client.recv(&mut reply).expect("a reply was lost"), 32);
                assert_eq!(reply[..32], asked.root);
                answered.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    while answered.load(Ordering::Relaxed) < 100 && !client.is_finished() {
        std::thread::yield_now();
    }
    for _ in 0..20 {
        let images = vec![spv::program(&geometry(), SPV_PORT), echo_image()];
        server.datapath.replace(images).expect("replace");
    }
    stop.store(true, Ordering::Relaxed);
    client.join().expect("the client saw every reply");
    let hits = server.hits();
    let fastpath = hits + server.socket.counts().fastpath_replies.load(Ordering::Relaxed);
    let host = server.socket.counts().host_replies.load(Ordering::Relaxed);
    // The server counts a reply after it has sent it, so the last reply may not be counted yet.
    assert!(fastpath + host + 1 >= answered.load(Ordering::Relaxed));
    assert!(hits > 100);
}

#[test]
fn the_host_answers_after_the_lease_has_ended() {
    if !may_load_bpf() {
        return;
    }
    let Some((wire, _pass)) = listening_wire() else {
        return;
    };
    let asked = Arc::new(block());
    let served = Arc::clone(&asked);
    let mut server = wire
        .server
        .run(move || Server::start(SERVER, "x1", XdpMode::Native, None, &served).expect("server"));
    let all = Arc::clone(&asked);
    wire.client.run(move || ask_all(SERVER.parse().unwrap(), &all));
    let hits = server.hits();
    lease::end(&server.store.control().lease_until_ns);
    wire.client.run(move || ask_all(SERVER.parse().unwrap(), &asked));
    assert_eq!(server.hits(), hits, "the fast path answered after its lease");
}

#[test]
fn two_servers_do_not_answer_each_other() {
    if !may_load_bpf() {
        return;
    }
    let Some(wire) = Wire::new() else { return };
    let asked = block();
    let (left, right) = (asked.clone(), asked.clone());
    let mut one = wire
        .server
        .run(move || Server::start(SERVER, "x1", XdpMode::Native, None, &left).expect("server"));
    let mut other = wire
        .client
        .run(move || Server::start("10.0.0.1:7701", "x0", XdpMode::Native, None, &right).expect("server"));
    // The test sends forged requests with one server's address and port as their source to the other server.
    let forged = asked.txids[0];
    wire.client.run(move || {
        let forger = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
        forger.set_reuse_port(true).unwrap();
        let own: SocketAddr = "10.0.0.1:7701".parse().unwrap();
        forger
            .bind(&own.into())
            .expect("the same user may share the port");
        let to: SocketAddr = SERVER.parse().unwrap();
        for _ in 0..10 {
            forger.send_to(&forged, &to.into()).unwrap();
        }
    });
    // A valid request follows the forged ones; its answer shows that they were handled.
    wire.client.run(move || ask_all(SERVER.parse().unwrap(), &asked));
    let drops: [u64; lineside_fastpath::DropReason::ALL.len()] = one.datapath.drop_counts(None).unwrap();
    assert_eq!(drops[lineside_fastpath::DropReason::SourcePort as usize], 10);
    assert_eq!(other.hits(), 0);
    let replies = &other.socket.counts().fastpath_replies;
    assert_eq!(replies.load(Ordering::Relaxed), 0);
}
