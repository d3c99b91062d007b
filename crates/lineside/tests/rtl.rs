//! The datapath `rtl`: real clients of a simulated NIC at a TAP device. Without the feature `rtl`, the program says how
//! to get it.

mod daemons;

use daemons::lineside;
use std::process::Output;

const RTL: [&str; 5] = ["run", "--datapath", "rtl", "--set", "spv.listen=10.77.0.2:7701"];

/// Runs a server that cannot start, and returns its exit code and its message.
fn refused(arguments: &[&str]) -> (Option<i32>, String) {
    let spv = ["--set", "spv.enabled=true", "--set", "spv.data=/nowhere"];
    let Output { status, stderr, .. } = lineside(&[arguments, &spv].concat());
    (status.code(), String::from_utf8(stderr).expect("text"))
}

#[cfg(not(feature = "rtl"))]
mod without_the_feature {
    use super::*;

    #[test]
    fn a_program_without_the_nic_says_how_to_build_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("chain");
        let path = data.to_str().expect("text");
        let made = lineside(&["spv", "init", "--network", "regtest", "--data", path]);
        assert!(made.status.success(), "{made:?}");
        let listen = ["--listen", "10.77.0.2:7701", "--datapath", "rtl"];
        let output = lineside(&[&["spv", "serve", "--data", path][..], &listen].concat());
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("build with `--features rtl`"), "{said}");
        lineside_testkit::skipped("the program was built without the feature `rtl`");
    }
}

#[test]
fn wrong_values_of_the_datapath_are_refused() {
    let (code, said) = refused(&[&RTL[..], &["--set", "datapath.tap_addresses=[\"10.77.0.1\"]"]].concat());
    assert_eq!(code, Some(2), "{said}");
    assert!(
        said.contains("must be an address with the length of its prefix"),
        "{said}"
    );
    let (code, said) = refused(&[&RTL[..], &["--set", "datapath.keep_fast_path=true"]].concat());
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("always ends with its server"), "{said}");
}

#[cfg(feature = "rtl")]
mod with_the_feature {
    use super::*;
    use lineside_client::spv::{Client, reply};
    use lineside_fastpath::{FastPath, Host, Reader, Readers, Reply, Source, Verdict};
    use lineside_net::{SocketDatapath, SocketOptions};
    use lineside_service::{DatapathConfig, DatapathKind, NicAttachment, NicProgram};
    use lineside_spv::chain::Tip;
    use lineside_spv::nic::{NicWriter, geometry};
    use lineside_spv::store::{Geometry, Store};
    use lineside_spv::writer::{BlockRef, SpvFill, StoreWriter};
    use lineside_testkit::netns::alone;
    use lineside_testkit::{Daemon, DemoBlock, DemoChain, can_create_tap};
    use lineside_wire::{RootReply, SPV_OP_ROOT, SPV_SLOT, native};
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
    use std::os::fd::{FromRawFd, OwnedFd};
    use std::sync::Arc;
    use std::time::Duration;
    use zerocopy::IntoBytes;

    /// Address of the NIC.
    const NIC: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
    /// Time after which an answer counts as lost.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn server() -> SocketAddr {
        (NIC, 7701).into()
    }

    fn start(more: &[&str]) -> Daemon {
        daemons::start(&[&RTL[1..], more].concat(), None).expect("a daemon")
    }

    fn has_device() -> bool {
        // /sys shows the interfaces of the namespace in which it was mounted, but /proc those of the reader.
        let all = std::fs::read_to_string("/proc/thread-self/net/dev").expect("/proc");
        all.contains("lineside0:")
    }

    fn status() -> serde_json::Value {
        let output = lineside(&["--json", "status"]);
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    fn hits() -> u64 {
        let hits = status()["services"][0]["counters"]["rtl"]["hits"].as_u64();
        hits.expect("a counter")
    }

    fn metrics() -> String {
        let mut console = TcpStream::connect("127.0.0.1:7700").expect("the console");
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        console.write_all(request.as_bytes()).expect("a request");
        let mut text = String::new();
        console.read_to_string(&mut text).expect("metrics");
        text
    }

    /// Returns a socket that is connected to the server. Its requests are sent only once, unlike those of [`Client`],
    /// so the numbers that the NIC counts are known exactly.
    fn connected() -> UdpSocket {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("a socket");
        socket.connect(server()).expect("a route");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket
    }

    /// Sends `count` requests in the paper's format for transactions of both blocks in turn, with at most `window` of
    /// them without an answer. The answers of the NIC come in the order of the requests, so each one is checked.
    /// Returns the number of right answers.
    fn ask_many(blocks: &[DemoBlock; 2], count: usize, window: usize) -> usize {
        let socket = connected();
        let block = |number: usize| &blocks[number % 2];
        let (mut sent, mut right, mut reply) = (0, 0, [0; 64]);
        while right < count {
            while sent < count && sent - right < window {
                let txids = &block(sent).txids;
                socket.send(&txids[sent / 2 % 256]).expect("a request");
                sent += 1;
            }
            let Ok(bytes) = socket.recv(&mut reply) else { break };
            assert_eq!(reply[..bytes], block(right).root, "answer {right}");
            right += 1;
        }
        right
    }

    /// Sends an echo request of ICMP, and returns true if the reply comes.
    fn ping() -> bool {
        // SAFETY: the call takes only numbers.
        let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP) };
        assert!(socket >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: the kernel has just created this descriptor, so it has no other owner. A raw socket has the calls of
        // a UDP socket that are used here.
        let socket = UdpSocket::from(unsafe { OwnedFd::from_raw_fd(socket) });
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        // Type 8, code 0, checksum, identifier 0x1234, sequence number 1: the sum of all words is 0xffff.
        let checksum: u16 = !(0x0800 + 0x1234 + 1);
        let mut request = vec![8, 0];
        request.extend(checksum.to_be_bytes());
        request.extend([0x12, 0x34, 0, 1]);
        socket.send_to(&request, (NIC, 0)).expect("a request");
        let mut packet = [0; 128];
        while let Ok(bytes) = socket.recv(&mut packet) {
            // An IPv4 header of 20 bytes comes first. Type 0 is the reply.
            if bytes >= 28 && packet[20] == 0 && packet[24..28] == [0x12, 0x34, 0, 1] {
                return true;
            }
        }
        false
    }

    fn two_blocks() -> [DemoBlock; 2] {
        let mut chain = DemoChain::new(1, 2048);
        [chain.next().expect("endless"), chain.next().expect("endless")]
    }

    /// Asks for 256 transactions of each block, one by one: the host answers them and fills the table of the NIC.
    fn fill(blocks: &[DemoBlock]) {
        let socket = connected();
        let mut answer = [0; 64];
        for block in blocks {
            for txid in &block.txids[..256] {
                socket.send(txid).expect("a request");
                let bytes = socket.recv(&mut answer).expect("an answer");
                assert_eq!(answer[..bytes], block.root);
            }
        }
    }

    /// Sends one native request for the location of `txid`, and returns the Merkle root in the answer.
    fn ask_native(txid: &[u8; 32]) -> [u8; 32] {
        const REQUEST_ID: u64 = 7;
        let mut body = [0; size_of::<RootReply>()];
        body[..32].copy_from_slice(txid);
        let header = native::request_header(SPV_OP_ROOT, REQUEST_ID, body.len() as u16);
        let socket = connected();
        socket
            .send(&[header.as_bytes(), &body].concat())
            .expect("a request");
        let mut answer = [0; 512];
        let bytes = socket.recv(&mut answer).expect("an answer");
        let (status, body) =
            reply::parse(SPV_OP_ROOT, REQUEST_ID, &answer[..bytes]).expect("the answer to this request");
        let answer = reply::root(status, body).expect("a location");
        answer.result.expect("a known transaction").root
    }

    #[test]
    fn real_clients_get_every_answer_and_ping_works_beside_them() {
        if !can_create_tap() {
            return;
        }
        alone(|| {
            let daemon = start(&[]);
            assert_eq!(
                daemon.said[0],
                "spv on 10.77.0.2:7701 (rtl datapath, simulated NIC on lineside0)"
            );
            assert!(has_device());
            assert!(ping(), "the kernel answers through the NIC");
            let blocks = two_blocks();
            fill(&blocks);
            assert_eq!(hits(), 0, "the table was empty");
            assert_eq!(ask_many(&blocks, 4000, 32), 4000);
            assert_eq!(hits(), 4000, "the NIC answers all of them");
            assert_eq!(ask_native(&blocks[0].txids[3]), blocks[0].root);
            assert_eq!(hits(), 4001, "the NIC answers native requests too");
            // The RTL does not answer proofs; the socket datapath and the host do. A client that repeats its request
            // changes no number that is checked below.
            let mut client = Client::connect(server(), PATIENCE).expect("a client");
            let proof = client.proof(&blocks[1].txids[5]).expect("an answer");
            assert!(proof.result.is_some());
            assert!(ping());

            let service = &status()["services"][0];
            assert_eq!(service["datapath"], "rtl");
            assert_eq!(service["interface"], "lineside0");
            assert!(
                service["nic"]["forwarded"]
                    .as_u64()
                    .is_some_and(|count| count >= 512)
            );
            assert_eq!(service["nic"]["unsent"], 0);
            let metrics = metrics();
            for line in [
                "lineside_spv_hits_total{datapath=\"rtl\"} 4001",
                "lineside_fastpath_replies_total{service=\"spv\",datapath=\"rtl\"} 4001",
                "lineside_rtl_passed_total{service=\"spv\",reason=\"misses\"} 512",
            ] {
                assert!(metrics.contains(line), "{line} is not in {metrics}");
            }
            let said = daemon.signal(libc::SIGTERM);
            assert!(!said.contains("ERROR"), "{said}");
            assert!(!has_device(), "the device ends with the server");
        });
    }

    #[test]
    fn a_server_that_is_killed_leaves_no_device() {
        if !can_create_tap() {
            return;
        }
        alone(|| {
            let daemon = start(&[]);
            assert!(has_device());
            let second = daemons::start(&[&RTL[1..], &["--console", "127.0.0.1:7799"]].concat(), None);
            let said = second.err().expect("the name of the device is taken");
            assert!(said.contains("there is already an interface lineside0"), "{said}");
            daemon.signal(libc::SIGKILL);
            assert!(!has_device());
        });
    }

    /// Host that answers everything by one byte.
    struct OneByte;

    impl FastPath for OneByte {
        fn answer(&self, _: Source, _now_ns: u64, _: &[u8], _: &mut Reply) -> Verdict {
            Verdict::Forward
        }
    }

    impl Host for OneByte {
        fn serve(&self, _: Source, _: &[u8], reply: &mut Reply, _: &Reader) -> Verdict {
            match reply.put(&[1]) {
                true => Verdict::Reply,
                false => Verdict::Forward,
            }
        }
    }

    /// NIC with a table, and a host that answers by one byte.
    struct Alone {
        nic: NicAttachment,
        store: Arc<Store>,
        writer: NicWriter,
        socket: UdpSocket,
        _host: SocketDatapath,
    }

    impl Alone {
        fn new() -> Self {
            let config = DatapathConfig {
                kind: DatapathKind::Rtl,
                threads: 1,
                ..DatapathConfig::default()
            };
            let program = NicProgram {
                slot: SPV_SLOT,
                listen: server(),
                port_register: lineside_rtl::REGISTER_SPV_PORT,
            };
            let nic = NicAttachment::open(&config, vec![program]).expect("a NIC");
            let nic = nic.expect("the datapath is `rtl`");
            nic.start().expect("a thread");
            let wanted = Geometry {
                line_bits: 6,
                ways: 2,
                block_bits: 1,
                ..Geometry::default()
            };
            let store = Arc::new(Store::anonymous(&geometry(wanted)).expect("memory"));
            let writer = StoreWriter::new(Arc::clone(&store));
            let writer = NicWriter::new(writer, Arc::clone(&store), nic.queue());
            nic.attach();
            let options = SocketOptions {
                listen: server(),
                threads: 1,
                queue: 64,
            };
            let (sockets, host) = (nic.sockets(&options), Arc::new(OneByte));
            let readers = Readers::default();
            let host = SocketDatapath::start_on(sockets, options, Arc::clone(&host) as _, host, &readers);
            Self {
                nic,
                store,
                writer,
                socket: connected(),
                _host: host.expect("a socket of the NIC"),
            }
        }

        fn renew(&self, length_ns: u64) {
            lineside_fastpath::lease::renew(&self.store.control().lease_until_ns, length_ns);
        }

        /// Returns the answer of the NIC; `None` if it forwards the request.
        fn ask(&self, txid: &[u8; 32]) -> Option<[u8; 32]> {
            self.socket.send(txid).expect("a request");
            let mut reply = [0; 64];
            match self.socket.recv(&mut reply).expect("an answer") {
                32 => Some(reply[..32].try_into().expect("32 bytes")),
                bytes => {
                    assert_eq!(bytes, 1, "the host answers by one byte");
                    None
                }
            }
        }
    }

    #[test]
    fn fills_invalidations_epochs_and_the_lease_are_seen_at_once() {
        if !can_create_tap() {
            return;
        }
        alone(|| {
            let mut it = Alone::new();
            let block = |number: u8| BlockRef {
                hash: [number; 32],
                root: [0x80 | number; 32],
                height: number.into(),
            };
            let tip = Tip {
                hash: [9; 32],
                height: 9,
            };
            let txid = |number: u8| std::array::from_fn(|index| number ^ index as u8);
            it.renew(60_000_000_000);
            assert_eq!(it.ask(&txid(1)), None, "the table is empty");
            let first = it.writer.admit(&block(1));
            assert!(it.writer.fill(&txid(1), first, 0) && it.writer.fill(&txid(2), first, 1));
            it.nic.queue().flush();
            assert_eq!(it.ask(&txid(1)), Some(block(1).root));

            it.writer.begin();
            assert_eq!(it.ask(&txid(1)), None, "the chain changes");
            assert!(it.writer.invalidate(&txid(1)));
            it.writer.commit(&tip, 1);
            it.nic.queue().flush();
            assert_eq!(it.ask(&txid(1)), None, "it was invalidated");
            assert_eq!(it.ask(&txid(2)), Some(block(1).root));

            assert!(it.writer.invalidate(&txid(2)));
            assert_eq!(it.ask(&txid(2)), None, "without a wait");
            let second = it.writer.admit(&block(2));
            for number in 10..14 {
                assert!(it.writer.fill(&txid(number), second, 0));
                assert!(it.writer.fill(&txid(number + 20), first, 0));
            }
            it.nic.queue().flush();
            let answers = |it: &Alone, from: u8| {
                (from..from + 4)
                    .filter(|number| it.ask(&txid(*number)).is_some())
                    .count()
            };
            let (of_second, of_first) = (answers(&it, 10), answers(&it, 30));
            assert!(of_second > 0 && of_first > 0, "a set has two lines");
            assert!(it.writer.drop_block(&block(1).hash));
            assert_eq!((answers(&it, 10), answers(&it, 30)), (of_second, 0));
            // The table has two slots, so the third block takes that of the second one.
            it.writer.admit(&block(3));
            it.writer.admit(&block(4));
            it.nic.queue().flush();
            assert_eq!(answers(&it, 10), 0);

            let fourth = it.writer.admit(&block(4));
            assert!(it.writer.fill(&txid(50), fourth, 0));
            it.nic.queue().flush();
            assert_eq!(it.ask(&txid(50)), Some(block(4).root));
            lineside_fastpath::lease::end(&it.store.control().lease_until_ns);
            assert_eq!(it.ask(&txid(50)), None, "the lease has ended");
            it.renew(60_000_000_000);
            assert_eq!(it.ask(&txid(50)), Some(block(4).root));
            it.nic.detach();
            assert!(!has_device());
        });
    }
}
