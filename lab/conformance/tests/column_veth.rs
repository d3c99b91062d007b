//! Tests of `column` on a veth pair and with a tap device, in both modes of XDP, over both address families, with and
//! without a VLAN tag. The fast path must answer the second request for a row, and every write must be visible to the
//! next read, whichever client writes.

#[allow(dead_code, reason = "the tests of spv use the rest")]
mod tap;

use lineside_client::column::{Client, Outcome};
use lineside_column::coherence::Coherence;
use lineside_column::datapath;
use lineside_column::embedded::{Embedded, system_clock};
use lineside_column::fastpath::ColumnFastPath;
use lineside_column::host::{ChangeAnnouncer, CoherenceMode, ColumnHost, Setup};
use lineside_column::store::{Geometry, Store};
use lineside_column::table::{Change, ColumnName, Nonce, Table};
use lineside_column::writer::ColumnWriter;
use lineside_fastpath::{Range, Readers, lease};
use lineside_messages::column::native::Rows;
use lineside_messages::column::paper::{PaperAnswer, PaperRequest};
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_testkit::netns::Wire;
use lineside_testkit::skipped;
use lineside_wire::{
    COLUMN_PORT, COLUMN_SOURCE_FASTPATH, COLUMN_SOURCE_HOST, ColumnCode as Code, ColumnCounter as Counter,
};
use lineside_xdp::{AttachedMode, Interface, XdpDatapath, XdpError, XdpMode};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tap::Tap;
use tap::far::{Encapsulation, PLAIN, behind_a_tap, checked_payload, is_udp, reply, request};

const FRAME_TIMEOUT: Duration = Duration::from_secs(10);
const MODES: [(XdpMode, AttachedMode); 2] = [
    (XdpMode::Native, AttachedMode::Native),
    (XdpMode::Generic, AttachedMode::Generic),
];
const SERVERS: [&str; 2] = ["10.0.0.2:7703", "[fd00::2]:7703"];
/// Number of changes. Each change is followed by a read.
const TURNS: u64 = 60;

fn foo() -> ColumnName {
    ColumnName::new(b"entry:foo").expect("a name")
}

fn geometry() -> Geometry {
    let alone = |text: &str| Range {
        address: text.parse().expect("an address"),
        prefix_bits: if text.contains(':') { 128 } else { 32 },
    };
    Geometry {
        family_bits: 0,
        column_bits: 0,
        row_bits: 8,
        columns: vec!["entry:foo".into()],
        trusted_sources: ["10.0.0.1", "fd00::1"].map(alone).to_vec(),
        ..Geometry::default()
    }
}

fn may_load_bpf() -> bool {
    match XdpDatapath::load(vec![datapath::program(&geometry(), COLUMN_PORT)], None) {
        Ok(_) => true,
        Err(XdpError::NotAllowed(why)) => {
            skipped(format_args!("BPF is not allowed here ({why})"));
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// Complete `column` service at an interface of the calling thread's namespace.
struct Server {
    xdp: XdpDatapath,
    table: Arc<Embedded>,
    mode: AttachedMode,
    _socket: SocketDatapath,
}

impl Server {
    fn start(interface: &str, mode: XdpMode) -> Self {
        let geometry = geometry();
        let mut xdp = XdpDatapath::load(vec![datapath::program(&geometry, COLUMN_PORT)], None).expect("load");
        let store: Arc<Store> = Arc::new(datapath::store(&mut xdp, &geometry).expect("store"));
        store.format(&geometry).expect("geometry");
        let writer = Box::new(ColumnWriter::new(Arc::clone(&store)));
        let coherence = Arc::new(Coherence::new(writer));
        let table = Arc::new(Embedded::in_memory(system_clock()));
        table.set_listener(Arc::new(ChangeAnnouncer::new(Arc::clone(&coherence), &[foo()])));
        let mut setup = Setup::new(
            Arc::clone(&table) as _,
            coherence,
            vec![foo()],
            CoherenceMode::ByTable,
        );
        let trusting = Arc::clone(&store);
        setup.trusted = Box::new(move |address| trusting.trusts(address));
        let host = Arc::new(ColumnHost::new(setup).expect("random numbers"));
        let options = SocketOptions {
            listen: (std::net::Ipv6Addr::UNSPECIFIED, COLUMN_PORT).into(),
            threads: 1,
            queue: 64,
        };
        let fastpath = Arc::new(ColumnFastPath::new(Arc::clone(&store)));
        let socket = SocketDatapath::start(options, fastpath, host, &Readers::new(true)).expect("listening");
        lease::renew(&store.control().lease_until_ns, 1 << 50);
        let interface = Interface::find(interface).expect("the interface");
        let mode = xdp.attach(&interface, mode).expect("attach");
        Self {
            xdp,
            table,
            mode,
            _socket: socket,
        }
    }

    fn count(&mut self, counter: Counter) -> u64 {
        let counts: [u64; Counter::ALL.len()] = self.xdp.counts("column_counts").expect("counts");
        counts[counter as usize]
    }
}

/// Returns a veth pair whose client side receives XDP_TX frames. A veth delivers such frames only to an interface that
/// also has an XDP program.
fn wire() -> Option<(Wire, XdpDatapath)> {
    if !may_load_bpf() {
        return None;
    }
    let wire = Wire::new()?;
    let pass = wire.client.run(|| {
        let mut pass = XdpDatapath::load(Vec::new(), None).expect("load");
        let x0 = Interface::find("x0").expect("x0");
        pass.attach(&x0, XdpMode::Native).expect("attach");
        pass
    });
    Some((wire, pass))
}

fn client(server: &str) -> Client {
    let server: SocketAddr = server.parse().expect("an address");
    Client::connect(server, FRAME_TIMEOUT).expect("a client")
}

fn put(table: &Embedded, key: &[u8], value: &[u8]) {
    let change = Change::Put(value.to_vec(), None);
    table
        .change(key, &foo(), &change, Nonce::default())
        .expect("memory");
}

/// Way in which a row is written.
#[derive(Clone, Copy, Debug)]
enum By {
    Session,
    Paper,
    Table,
}

/// Returns the content of a row as `client` reads it, and the source of the answer.
fn read(client: &mut Client, key: &[u8]) -> (Option<Vec<u8>>, u8) {
    let answer = client.get(key, &[foo()]).expect("an answer");
    let value = answer.rows.into_iter().next().map(|(_, _, value)| value);
    (value, answer.source)
}

#[test]
fn the_next_read_sees_every_change_and_the_fast_path_answers_every_second_read() {
    for (xdp, attached) in MODES {
        let Some((wire, _pass)) = wire() else { return };
        let mut server = wire.server.run(move || Server::start("x1", xdp));
        assert_eq!(server.mode, attached);
        let table = Arc::clone(&server.table);
        wire.client.run(move || {
            for (address, keys) in SERVERS
                .iter()
                .zip([[b"key1", b"key2", b"key3"], [b"row1", b"row2", b"row3"]])
            {
                let [one, two, three] = keys.map(|key| &key[..]);
                let mut client = client(address);
                for turn in 0..TURNS {
                    let by = [By::Session, By::Paper, By::Table][turn as usize % 3];
                    let value = format!("{turn} {by:?}").into_bytes();
                    match by {
                        By::Table => put(&table, one, &value),
                        By::Session => {
                            let change = Change::Put(value.clone(), None);
                            let said = client.change(one, &foo(), &change).expect("an answer");
                            assert_eq!(said, Outcome::Done);
                        }
                        By::Paper => {
                            let put = PaperRequest::Put(one.to_vec(), b"entry:foo".to_vec(), value.clone());
                            let said = client.paper(&put, 0).expect("an answer");
                            assert_eq!(said, PaperAnswer::Put(Code::Done));
                        }
                    }
                    for source in [COLUMN_SOURCE_HOST, COLUMN_SOURCE_FASTPATH, COLUMN_SOURCE_FASTPATH] {
                        let said = read(&mut client, one);
                        assert_eq!(said, (Some(value.clone()), source), "{address} {turn} {by:?}");
                    }
                    let get = PaperRequest::Get(one.to_vec(), b"entry:foo".to_vec());
                    let said = client.paper(&get, 0).expect("an answer");
                    assert_eq!(said, PaperAnswer::Get(Ok(Some(value))));
                }
                // The fast-path table first contains that this row is absent, and then that it is present.
                put(&table, three, b"3");
                assert_eq!(read(&mut client, two), (None, COLUMN_SOURCE_HOST));
                assert_eq!(read(&mut client, two), (None, COLUMN_SOURCE_FASTPATH));
                put(&table, two, b"2");
                let rows = Rows {
                    start: one.to_vec(),
                    ..Rows::default()
                };
                for source in [COLUMN_SOURCE_HOST, COLUMN_SOURCE_FASTPATH] {
                    let answer = client.scan(&rows, &[foo()]).expect("an answer");
                    let keys: Vec<_> = answer.rows.iter().map(|(key, _, _)| &key[..]).collect();
                    assert_eq!(keys, [one, two, three]);
                    assert_eq!(answer.source, source);
                }
                for key in [two, three] {
                    let change = table.change(key, &foo(), &Change::Delete, Nonce::default());
                    change.expect("memory");
                    assert_eq!(read(&mut client, key), (None, COLUMN_SOURCE_HOST));
                }
            }
        });
        let hits = 2 * (3 * TURNS + 2);
        // If an answer was late, the client has sent the request again, which counts twice.
        assert!(server.count(Counter::Hits) >= hits, "{xdp:?}");
        // If the fast-path table contains the row, the fast path itself handles a put in the paper's format.
        assert_eq!(server.count(Counter::LineInvalidations), 2 * TURNS / 3, "{xdp:?}");
    }
}

#[test]
fn no_xdp_read_returns_a_value_older_than_an_acknowledged_write() {
    for (xdp, _) in MODES {
        let Some((wire, _pass)) = wire() else { return };
        let mut server = wire.server.run(move || Server::start("x1", xdp));
        put(&server.table, b"a", &0u64.to_be_bytes());
        let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let writer = std::thread::spawn({
            let (stop, written, table) = (Arc::clone(&stop), Arc::clone(&written), Arc::clone(&server.table));
            move || {
                for number in 1u64.. {
                    put(&table, b"a", &number.to_be_bytes());
                    written.store(number, SeqCst);
                    // The pause is long enough for the row to be filled into the fast-path table.
                    std::thread::sleep(Duration::from_micros(number % 8 * 100));
                    if stop.load(SeqCst) {
                        return;
                    }
                }
            }
        });
        let floor = Arc::clone(&written);
        let (fastpath, reads) = wire.client.run(move || {
            let mut fastpath = 0;
            let mut clients = SERVERS.map(client);
            let mut turn = 0;
            // On a busy machine the loop continues until the writer and the fast path have had enough turns.
            while turn < 2000 || fastpath < 20 || floor.load(SeqCst) < 20 {
                turn += 1;
                let before = floor.load(SeqCst);
                let (value, source) = read(&mut clients[turn % 2], b"a");
                let value: [u8; 8] = value.and_then(|value| value.try_into().ok()).expect("a number");
                let value = u64::from_be_bytes(value);
                assert!(
                    value >= before,
                    "a read returned {value} although {before} had been written before"
                );
                fastpath += u64::from(source == COLUMN_SOURCE_FASTPATH);
            }
            (fastpath, turn)
        });
        stop.store(true, SeqCst);
        writer.join().expect("the writer");
        let written = written.load(SeqCst);
        println!("{xdp:?}: {fastpath} of {reads} reads at the line, {written} changes meanwhile");
        // If an answer was late, the client has sent the request again, which counts twice.
        assert!(server.count(Counter::Hits) >= fastpath);
    }
}

/// Returns a get in the paper's format. Every byte of the reply to it is known.
fn get(key: &[u8]) -> Vec<u8> {
    let get = PaperRequest::Get(key.to_vec(), b"entry:foo".to_vec());
    get.to_bytes(0).expect("short enough")
}

fn got(value: &[u8]) -> Vec<u8> {
    let mut reply = [&[0], value].concat();
    reply.resize(19, 0);
    reply
}

fn answered(tap: &mut Tap, asked: &[u8]) -> Vec<u8> {
    tap.send(&request(COLUMN_PORT, PLAIN, asked));
    checked_payload(COLUMN_PORT, &tap.receive(is_udp))
}

#[test]
fn replies_through_a_tap_are_correct_to_the_byte_in_every_encapsulation() {
    for (xdp, attached) in MODES {
        if !may_load_bpf() {
            return;
        }
        let Some((alone, mut tap)) = behind_a_tap(false) else {
            return;
        };
        alone.run(move || {
            let mut server = Server::start(tap::NAME, xdp);
            assert_eq!(server.mode, attached);
            put(&server.table, b"key1", b"one");
            assert_eq!(answered(&mut tap, &get(b"key1")), got(b"one"));
            assert_eq!(server.count(Counter::Misses), 1);
            let mut hits = 0;
            for (v6, vlan) in [(false, false), (false, true), (true, false), (true, true)] {
                let way = Encapsulation { v6, vlan };
                let value = format!("{v6} {vlan}").into_bytes();
                put(&server.table, b"key1", &value);
                assert_eq!(
                    answered(&mut tap, &get(b"key1")),
                    got(&value),
                    "{way:?}: the write is visible at once"
                );
                for _ in 0..2 {
                    tap.send(&request(COLUMN_PORT, way, &get(b"key1")));
                    let expected = reply(COLUMN_PORT, way, &got(&value));
                    assert_eq!(tap.receive(is_udp), expected, "{way:?}");
                }
                hits += 2;
                assert_eq!(server.count(Counter::Hits), hits, "{way:?}");
                // The fast path sees the put in every encapsulation. If it has a VLAN tag, the kernel delivers it to no
                // socket.
                let put = PaperRequest::Put(b"key1".to_vec(), b"entry:foo".to_vec(), b"put".to_vec());
                let put = put.to_bytes(0).expect("short enough");
                tap.send(&request(COLUMN_PORT, way, &put));
                let expected = if vlan { value } else { b"put".to_vec() };
                if !vlan {
                    let mut done = b"ok\0".to_vec();
                    done.resize(put.len(), 0);
                    assert_eq!(checked_payload(COLUMN_PORT, &tap.receive(is_udp)), done);
                }
                assert_eq!(answered(&mut tap, &get(b"key1")), got(&expected));
            }
            assert_eq!(server.count(Counter::Hits), hits);
            assert_eq!(server.count(Counter::LineInvalidations), 4);
        });
    }
}
