//! Tests of the listener. The test itself plays a server: it sends notices, receives answers, and checks the effect on
//! the fast path.

use super::*;
use crate::coherence::Coherence;
use crate::fastpath::ColumnFastPath;
use crate::fill::{Filled, Row};
use crate::key::{Interval, Key};
use crate::store::{Geometry, Store};
use crate::table::ColumnName;
use crate::writer::ColumnWriter;
use lineside_fastpath::{FastPath, Reply, Source, Verdict};
use lineside_messages::column::native::{self, Ask, REPLY_HEAD_BYTES};
use std::io::ErrorKind;
use std::time::Instant;

const TABLE: &[u8] = b"table";
/// Hashed name of the configured server.
const SERVER: u64 = 0x5e7;
const EPOCH: u64 = 7;
/// Number of the server's first change.
const FIRST: u64 = 10;
/// Maximum time that a test waits for an expected event.
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

fn key() -> NoticeKey {
    NoticeKey::new(&[7; 32]).unwrap()
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(WAIT_TIMEOUT)).unwrap();
    socket
}

/// A listener, the fast path that it invalidates, and the one server from which it requests leases.
struct Rig {
    listener: Listener,
    servers: Arc<Servers>,
    coherence: Arc<Coherence>,
    fastpath: ColumnFastPath,
    server: UdpSocket,
}

impl Rig {
    fn start() -> Self {
        Self::of(|coherence| Servers::all_of(coherence, 0, 1))
    }

    fn of(servers: impl Fn(Arc<Coherence>) -> Servers) -> Self {
        let geometry = Geometry {
            family_bits: 0,
            column_bits: 0,
            row_bits: 6,
            columns: vec!["entry:foo".into()],
            value_bits: 0,
            ..Geometry::default()
        };
        let store = Arc::new(Store::anonymous(&geometry).unwrap());
        lease::renew(&store.control().lease_until_ns, 1 << 60);
        let writer = ColumnWriter::new(Arc::clone(&store));
        let coherence = Arc::new(Coherence::new(Box::new(writer)));
        let servers = Arc::new(servers(Arc::clone(&coherence)));
        let server = socket();
        let options = Options {
            listen: "127.0.0.1:0".parse().unwrap(),
            servers: vec![server.local_addr().unwrap()],
            key: key(),
            table: TABLE.to_vec(),
            columns: 1,
        };
        let listener = Listener::start(options, Arc::clone(&servers), Box::new(|| ())).unwrap();
        Self {
            listener,
            servers,
            coherence,
            fastpath: ColumnFastPath::new(store),
            server,
        }
    }

    /// Returns a rig whose server has granted a lease, and whose fast path has the row `a`.
    fn leased() -> Self {
        let rig = Self::start();
        rig.grant();
        rig.fill();
        rig
    }

    /// Returns the next notice of `kind` that the server receives. Skips other notices, such as repeated lease
    /// requests.
    fn received(&self, kind: u8) -> Notice {
        let mut bytes = [0; COLUMN_NOTICE_BYTES_MAX];
        loop {
            let (length, from) = self.server.recv_from(&mut bytes).expect("a notice");
            assert_eq!(from, self.listener.local_addr());
            let notice = Notice::parse(&bytes[..length], &key()).expect("signed");
            assert_eq!(notice.table, TABLE);
            if notice.head.kind == kind {
                return notice;
            }
        }
    }

    /// Sends a notice, waits until it was counted, and checks that it was accepted (if `taken` is true) or rejected.
    fn send_from(&self, from: &UdpSocket, bytes: &[u8], taken: bool) {
        let before = self.listener.counts();
        from.send_to(bytes, self.listener.local_addr()).unwrap();
        let began = Instant::now();
        while self.listener.counts() == before {
            assert!(began.elapsed() < WAIT_TIMEOUT, "the notice was not counted");
            std::thread::yield_now();
        }
        let counts = self.listener.counts();
        let risen = (counts.accepted - before.accepted, counts.refused - before.refused);
        assert_eq!(risen, (u64::from(taken), u64::from(!taken)));
    }

    fn says(&self, notice: &Notice, taken: bool) {
        self.send_from(&self.server, &notice.to_bytes(&key()).unwrap(), taken);
    }

    /// Answers a lease request with a lease that lasts longer than the test.
    fn grant(&self) -> Notice {
        let mut grant = notice(COLUMN_NOTICE_GRANT, FIRST);
        grant.head.token = self.received(COLUMN_NOTICE_ASK).head.token;
        grant.head.lease_ms.set(LEASE_MS_MAX);
        self.says(&grant, true);
        grant
    }

    fn fill(&self) {
        let row = Row {
            key: Key::new(b"a").unwrap(),
            value: b"1".to_vec(),
            timestamp_ms: 1,
        };
        let interval = Interval {
            low: Key::FIRST,
            high: None,
        };
        let server = self.servers.id(0).expect("a lease is held");
        let fill = self.coherence.begin(ColumnId(0), interval, server);
        let filled = fill.expect("nothing is under change").finish(&Filled {
            column: ColumnId(0),
            interval,
            rows: &[row],
            until_ns: u64::MAX,
            server,
        });
        assert!(filled && self.answers());
    }

    /// Returns true if the fast path answers a get of the row `a`.
    fn answers(&self) -> bool {
        let column = ColumnName::new(b"entry:foo").unwrap();
        let ask = Ask::Get(b"a".to_vec(), vec![column]);
        let request = native::request(1, &ask, REPLY_HEAD_BYTES + 64).unwrap();
        let from = Source {
            address: [127, 0, 0, 1].into(),
            port: 9,
        };
        let said = self
            .fastpath
            .answer(from, lease::now_ns(), &request, &mut Reply::default());
        assert!([Verdict::Reply, Verdict::Forward].contains(&said));
        said == Verdict::Reply
    }
}

/// Returns a notice of the server which says that all changes before `oldest_open` have ended.
fn notice(kind: u8, oldest_open: u64) -> Notice {
    let mut notice = Notice::new(kind, TABLE);
    notice.head.server.set(SERVER);
    notice.head.epoch.set(EPOCH);
    notice.head.number.set(FIRST);
    notice.head.oldest_open.set(oldest_open);
    notice
}

fn pre_of(row: &[u8]) -> Notice {
    let mut pre = notice(COLUMN_NOTICE_PRE, FIRST);
    pre.keys = vec![row.to_vec()];
    pre
}

/// Checks that no notice has arrived at `socket`. The listener sends its answers before it counts the notice that it
/// received, so this check needs no wait.
fn hears_nothing(socket: &UdpSocket) {
    socket.set_nonblocking(true).unwrap();
    let error = socket.recv(&mut [0; 2048]).expect_err("silence");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_lease_is_requested_and_each_grant_is_accepted_once() {
    let rig = Rig::start();
    assert_eq!(
        rig.servers.id(0),
        None,
        "without a lease no row of the server may be cached"
    );
    let grant = rig.grant();
    assert_eq!(rig.servers.leased(lease::now_ns()), 1);
    rig.fill();
    // A grant that answers no request is ignored, because the start of its lease is not known.
    let mut unasked = grant;
    unasked.head.token.set(unasked.head.token.get() ^ 1);
    rig.says(&unasked, false);
    let mut brief = unasked;
    brief.head.token = rig.received(COLUMN_NOTICE_ASK).head.token;
    brief.head.epoch.set(EPOCH + 1);
    brief.head.lease_ms.set(0);
    rig.says(&brief, true);
    assert!(
        !rig.answers(),
        "rows read before a server's restart are not answered any more"
    );
}

#[test]
fn a_change_is_acknowledged_once_the_fast_path_has_dropped_its_rows() {
    let rig = Rig::leased();
    for _ in 0..2 {
        rig.says(&pre_of(b"a"), true);
        let ack = rig.received(COLUMN_NOTICE_ACK);
        assert_eq!((ack.head.epoch.get(), ack.head.number.get()), (EPOCH, FIRST));
        assert!(!rig.answers());
        assert_eq!(
            rig.coherence.counts().intents,
            1,
            "a repeated notice is the same change"
        );
    }
    rig.says(&notice(COLUMN_NOTICE_POST, FIRST + 1), true);
    assert_eq!(rig.coherence.counts().intents, 0);
    rig.fill();
    // A change of another row in the same block invalidates this block, too. The notice is acknowledged in the same
    // way.
    let mut other = notice(COLUMN_NOTICE_PRE, FIRST + 1);
    other.head.number.set(FIRST + 1);
    other.keys = vec![b"z".to_vec()];
    rig.says(&other, true);
    let ack = rig.received(COLUMN_NOTICE_ACK);
    assert_eq!(ack.head.number.get(), FIRST + 1);
}

#[test]
fn a_skipped_change_number_empties_the_fast_path() {
    for kind in [COLUMN_NOTICE_PRE, COLUMN_NOTICE_POST] {
        let rig = Rig::leased();
        // The server has made change 10 without a notice.
        let mut next = notice(kind, FIRST + 1);
        next.head.number.set(FIRST + 1);
        if kind == COLUMN_NOTICE_PRE {
            next.keys = vec![b"far away".to_vec()];
        }
        rig.says(&next, true);
        assert!(!rig.answers(), "kind {kind}");
        assert!(!rig.servers.has_unknown_writer());
    }
}

#[test]
fn a_notice_signed_with_another_key_is_rejected() {
    let rig = Rig::leased();
    let wrong = NoticeKey::new(&[8; 32]).unwrap();
    let forged = pre_of(b"a").to_bytes(&wrong).unwrap();
    let elsewhere = socket();
    for from in [&rig.server, &elsewhere] {
        rig.send_from(from, &forged, false);
        assert!(rig.answers() && !rig.servers.has_unknown_writer());
    }
    hears_nothing(&elsewhere);
    // A notice with the right signature, but about another table, is refused.
    let mut other = pre_of(b"a");
    other.table = b"tables".to_vec();
    rig.says(&other, false);
    assert!(rig.answers());
}

#[test]
fn a_notice_of_a_known_server_from_another_address_is_a_replay() {
    let rig = Rig::leased();
    let elsewhere = socket();
    for notice in [pre_of(b"a"), notice(COLUMN_NOTICE_POST, FIRST + 5)] {
        rig.send_from(&elsewhere, &notice.to_bytes(&key()).unwrap(), false);
        assert!(rig.answers(), "{notice:?}");
        assert!(!rig.servers.has_unknown_writer());
    }
    hears_nothing(&elsewhere);
}

#[test]
fn an_unconfigured_server_that_changes_the_table_empties_the_fast_path_for_good() {
    let rig = Rig::leased();
    let elsewhere = socket();
    let from_stranger = |mut notice: Notice| {
        notice.head.server.set(SERVER + 1);
        rig.send_from(&elsewhere, &notice.to_bytes(&key()).unwrap(), false);
    };
    // Notices of kinds that do not announce a change have no effect.
    for kind in [COLUMN_NOTICE_ASK, COLUMN_NOTICE_GRANT, COLUMN_NOTICE_ACK] {
        from_stranger(notice(kind, FIRST));
        assert!(rig.answers() && !rig.servers.has_unknown_writer());
    }
    from_stranger(pre_of(b"z"));
    assert!(rig.servers.has_unknown_writer() && !rig.answers());
    hears_nothing(&elsewhere);
    rig.grant();
    assert_eq!(rig.servers.id(0), None, "no lease until the next start");
}

#[test]
fn a_notice_from_another_address_before_any_grant_is_of_an_unknown_writer() {
    let rig = Rig::start();
    rig.send_from(&socket(), &pre_of(b"a").to_bytes(&key()).unwrap(), false);
    assert!(rig.servers.has_unknown_writer());
}

/// A change that is announced while Lineside has no lease: the fast path drops the rows, and a grant that was sent
/// before the change is ignored.
#[test]
fn a_change_without_a_lease_is_acknowledged_and_invalidates_older_grants() {
    let rig = Rig::start();
    let mut early = notice(COLUMN_NOTICE_GRANT, FIRST);
    early.head.token = rig.received(COLUMN_NOTICE_ASK).head.token;
    early.head.lease_ms.set(LEASE_MS_MAX);
    rig.says(&pre_of(b"a"), true);
    assert_eq!(rig.received(COLUMN_NOTICE_ACK).head.number.get(), FIRST);
    rig.says(&early, true);
    assert_eq!(rig.servers.id(0), None, "the grant is older than the change");
    let mut late = notice(COLUMN_NOTICE_GRANT, FIRST);
    late.head.token = rig.received(COLUMN_NOTICE_ASK).head.token;
    late.head.lease_ms.set(LEASE_MS_MAX);
    late.head.number.set(FIRST + 1);
    rig.says(&late, true);
    assert!(rig.servers.id(0).is_some());
    assert_eq!(rig.coherence.counts().intents, 1, "the change is under way");
    rig.says(&notice(COLUMN_NOTICE_POST, FIRST + 1), true);
    rig.fill();
}

/// If rows are attributed to servers, only the rows of an unknown server are not cached.
#[test]
fn an_unknown_writer_does_not_affect_servers_with_leases_of_their_own() {
    let rig = Rig::of(|coherence| Servers::new(coherence, 0));
    rig.grant();
    rig.fill();
    assert_eq!(rig.servers.id_of(SERVER), rig.servers.id(0));
    let mut strange = pre_of(b"a");
    strange.head.server.set(SERVER + 1);
    let elsewhere = socket();
    rig.send_from(&elsewhere, &strange.to_bytes(&key()).unwrap(), false);
    // Without an acknowledgement, the unknown server waits until no lease can exist.
    hears_nothing(&elsewhere);
    assert!(rig.servers.has_unknown_writer() && rig.answers());
    assert_eq!(rig.servers.id_of(SERVER + 1), None);
    // After a restart, the server at the same address has a new name, and its old name belongs to no server.
    let mut again = notice(COLUMN_NOTICE_GRANT, 1);
    again.head.token = rig.received(COLUMN_NOTICE_ASK).head.token;
    again.head.lease_ms.set(LEASE_MS_MAX);
    again.head.server.set(SERVER + 2);
    again.head.epoch.set(EPOCH + 1);
    again.head.number.set(1);
    rig.says(&again, true);
    assert!(!rig.answers());
    assert_eq!(rig.servers.id_of(SERVER), None);
    assert!(rig.servers.id_of(SERVER + 2).is_some());
}
