//! Tests of the host over the embedded table and a simple model of the fast path: its answers, the rows that it
//! installs, and the requests that it refuses.

#[path = "common/apart.rs"]
mod apart;
mod common;

use apart::Apart;
use common::ModelFastPath;
use lineside_column::coherence::Coherence;
use lineside_column::embedded::{ChangeListener, Clock, Embedded};
use lineside_column::fill::ColumnId;
use lineside_column::host::{ChangeAnnouncer, CoherenceMode, ColumnHost, Setup};
use lineside_column::key::{Interval, Key};
use lineside_column::table::{Change, ColumnName, Nonce, Table};
use lineside_fastpath::{DropReason, Host, Readers, Reply, Source, Verdict};
use lineside_messages::column::native::{self, Answer, Ask, LeftOut, REPLY_HEAD_BYTES, Rows, Sender};
use lineside_messages::column::paper::{PaperAnswer, PaperRequest};
use lineside_wire::{
    COLUMN_REPLY_LEFT_OUT, COLUMN_REPLY_MAY_BE_STALE, COLUMN_REPLY_MORE, COLUMN_REPLY_NOT_APPLIED,
    COLUMN_SOURCE_HOST, ColumnCode as Code, ColumnSession, NativeHeader, Status,
};
use proptest::prelude::*;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use zerocopy::{FromBytes, FromZeros};

const COLUMN: ColumnId = ColumnId(0);
const NOW_NS: u64 = 5_000_000_000;

struct Scene {
    host: ColumnHost,
    fastpath: ModelFastPath,
    table: Arc<Embedded>,
    time_ms: Arc<AtomicU64>,
    readers: Readers,
}

fn name(text: &str) -> ColumnName {
    ColumnName::new(text.as_bytes()).unwrap()
}

fn foo() -> ColumnName {
    name("entry:foo")
}

fn scene_told(coherence_mode: CoherenceMode) -> Scene {
    scene_watched(coherence_mode, None)
}

/// Creates a scene in which `listener` replaces the listener that informs the fast path of changes.
fn scene_watched(coherence_mode: CoherenceMode, listener: Option<Arc<dyn ChangeListener>>) -> Scene {
    scene_of(coherence_mode, listener, |table| table)
}

/// Creates a scene over the table that `with` returns for the embedded table.
fn scene_of(
    coherence_mode: CoherenceMode,
    listener: Option<Arc<dyn ChangeListener>>,
    with: impl Fn(Arc<dyn Table>) -> Arc<dyn Table>,
) -> Scene {
    let time_ms = Arc::new(AtomicU64::new(1_000));
    let read = Arc::clone(&time_ms);
    let clock: Clock = Arc::new(move || read.load(Relaxed));
    let table = Arc::new(Embedded::in_memory(clock).with_ttl(b"short", 500));
    let fastpath = ModelFastPath::default();
    let coherence = Arc::new(Coherence::new(Box::new(fastpath.clone())));
    let columns = vec![foo(), name("short:a")];
    let announcer = || Arc::new(ChangeAnnouncer::new(Arc::clone(&coherence), &columns)) as _;
    table.set_listener(listener.unwrap_or_else(announcer));
    let mut setup = Setup::new(with(table.clone()), coherence, columns, coherence_mode);
    setup.clock = || NOW_NS;
    Scene {
        host: ColumnHost::new(setup).unwrap(),
        fastpath,
        table,
        time_ms,
        readers: Readers::default(),
    }
}

fn scene() -> Scene {
    scene_told(CoherenceMode::ByTable)
}

fn key(bytes: &[u8]) -> Key {
    Key::new(bytes).unwrap()
}

impl Scene {
    fn serve_from(&self, address: [u8; 4], request: &[u8]) -> Result<Vec<u8>, Verdict> {
        let from = Source {
            address: IpAddr::from(address),
            port: 4000,
        };
        let mut reply = Reply::default();
        match self.host.serve(from, request, &mut reply, &self.readers.join()) {
            Verdict::Reply => Ok(reply.as_bytes().to_vec()),
            verdict => Err(verdict),
        }
    }

    fn paper(&self, request: &PaperRequest) -> PaperAnswer {
        let sent = request.to_bytes(8).unwrap();
        let reply = self.serve_from([127, 0, 0, 1], &sent).unwrap();
        assert_eq!(reply.len(), sent.len());
        PaperAnswer::parse(request, &reply).unwrap()
    }

    fn native_from(&self, address: [u8; 4], ask: &Ask, room: usize) -> (Status, Vec<u8>) {
        let sent = native::request(77, ask, room).unwrap();
        let reply = self.serve_from(address, &sent).unwrap();
        let (header, body) = NativeHeader::ref_from_prefix(&reply).unwrap();
        assert_eq!((header.op, header.request_id.get()), (sent[3] | 0x80, 77));
        assert_eq!(usize::from(header.length.get()), body.len());
        let status = Status::from_code(header.status.get()).unwrap();
        assert!(body.is_empty() || reply.len() == sent.len(), "{ask:?}");
        (status, body.to_vec())
    }

    fn ask(&self, ask: &Ask) -> (Status, Answer) {
        let (status, body) = self.native_from([127, 0, 0, 1], ask, 600);
        (status, native::parse_reply(&body).unwrap_or_default())
    }

    fn get(&self, row: &[u8]) -> Option<Vec<u8>> {
        let (status, answer) = self.ask(&Ask::Get(row.to_vec(), vec![foo()]));
        assert_eq!(answer.source, COLUMN_SOURCE_HOST);
        assert_eq!(status == Status::Unknown, answer.rows.is_empty());
        answer.rows.into_iter().next().map(|(_, _, value)| value)
    }

    fn change(&self, row: &[u8], change: Change) -> (Status, Answer) {
        self.ask(&Ask::Change(row.to_vec(), foo(), change, Sender::default()))
    }

    fn fill_rows(&self, count: u8) {
        for row in 0..count {
            let put = Change::Put(vec![row; 3], None);
            self.table
                .change(&[b'r', row], &foo(), &put, Nonce::default())
                .unwrap();
        }
    }
}

fn put(value: &[u8]) -> Change {
    Change::Put(value.to_vec(), None)
}

#[test]
fn packets_of_the_paper_format_are_answered_as_documented() {
    let scene = scene();
    let entry = b"entry:foo".to_vec();
    let put = |row: &[u8], value: &[u8]| PaperRequest::Put(row.to_vec(), entry.clone(), value.to_vec());
    let get = |row: &[u8]| PaperRequest::Get(row.to_vec(), entry.clone());
    let scan = |from: &[u8], to: &[u8]| PaperRequest::Scan(from.to_vec(), entry.clone(), to.to_vec());
    assert_eq!(scene.paper(&put(b"key1", b"one")), PaperAnswer::Put(Code::Done));
    assert_eq!(
        scene.paper(&put(b"key2", b"eighteen byte long")),
        PaperAnswer::Put(Code::Done)
    );
    assert_eq!(scene.paper(&put(b"keyA", b"A")), PaperAnswer::Put(Code::Done));
    assert_eq!(
        scene.paper(&put(b"key3", b"")),
        PaperAnswer::Put(Code::EmptyValue)
    );
    assert_eq!(scene.paper(&put(b"", b"x")), PaperAnswer::Put(Code::BadRequest));
    assert_eq!(
        scene.paper(&get(b"key1")),
        PaperAnswer::Get(Ok(Some(b"one".to_vec())))
    );
    assert_eq!(scene.paper(&get(b"key9")), PaperAnswer::Get(Ok(None)));
    // The stop row belongs to the range.
    let PaperAnswer::Scan(rows, more) = scene.paper(&scan(b"key1", b"keyA")) else {
        panic!("no scan")
    };
    assert_eq!((rows.len(), more, &rows[2].0[..]), (3, false, &b"keyA"[..]));
    assert_eq!(
        scene.paper(&scan(b"keyA", b"key1")),
        PaperAnswer::Scan(Vec::new(), false)
    );
    assert_eq!(
        scene.paper(&scan(b"l", b"m")),
        PaperAnswer::Scan(Vec::new(), false)
    );
    // If the format cannot represent a value, the reply has the status `more`.
    scene.change(b"key4", self::put(&[b'x'; 19]));
    assert_eq!(scene.paper(&get(b"key4")), PaperAnswer::Get(Err(())));
    let PaperAnswer::Scan(rows, more) = scene.paper(&scan(b"key1", b"keyA")) else {
        panic!("no scan")
    };
    assert_eq!((rows.len(), more), (2, true));
    // The reply consists of exactly these bytes.
    let reply = scene
        .serve_from([127, 0, 0, 1], b"getkey1entry:foo\0\0\0")
        .unwrap();
    assert_eq!(reply, b"\0one\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    let reply = scene
        .serve_from([127, 0, 0, 1], b"putkey7entry:fooseven")
        .unwrap();
    assert_eq!(reply, *b"ok\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    assert_eq!(scene.get(b"key7"), Some(b"seven".to_vec()));
}

#[test]
fn untrusted_sources_change_nothing_and_get_no_longer_replies() {
    let scene = scene();
    scene.change(b"key1", put(b"one"));
    let reply = scene.serve_from([10, 0, 0, 1], b"putkey1entry:footwo").unwrap();
    assert_eq!(reply[..3], [b'e', b'r', Code::Unauthorised as u8]);
    let stranger = |change| {
        let ask = Ask::Change(b"key1".to_vec(), foo(), change, Sender::default());
        scene.native_from([10, 0, 0, 1], &ask, 0).0
    };
    assert_eq!(stranger(put(b"two")), Status::Unauthorised);
    assert_eq!(stranger(Change::Delete), Status::Unauthorised);
    assert_eq!(scene.get(b"key1"), Some(b"one".to_vec()));
    let short = scene.serve_from([10, 0, 0, 1], b"getkey1entry:foo");
    assert_eq!(short, Err(Verdict::Drop(DropReason::NotARequest)));
    assert_eq!(
        scene
            .serve_from([127, 0, 0, 1], b"getkey1entry:foo")
            .unwrap()
            .len(),
        19
    );
}

#[test]
fn native_changes_take_effect() {
    let scene = scene();
    let number = |value: i64| value.to_be_bytes().to_vec();
    assert_eq!(scene.change(b"k", put(b"v")).0, Status::Ok);
    assert_eq!(scene.get(b"k"), Some(b"v".to_vec()));
    let (_, answer) = scene.change(b"k", Change::Append(b"w".to_vec()));
    assert_eq!(answer.rows, [(b"k".to_vec(), 0, b"vw".to_vec())]);
    let (status, _) = scene.change(b"k", Change::Increment(1));
    assert_eq!(status, Status::NotANumber);
    let (_, answer) = scene.change(b"n", Change::Increment(-3));
    assert_eq!(answer.rows, [(b"n".to_vec(), 0, number(-3))]);
    let check = |expected: Option<&[u8]>, value: &[u8]| {
        let expected = expected.map(<[u8]>::to_vec);
        let value = value.to_vec();
        let (status, answer) = scene.change(b"k", Change::CheckAndPut { expected, value });
        assert_eq!(status, Status::Ok);
        answer.flags & COLUMN_REPLY_NOT_APPLIED == 0
    };
    assert!(!check(None, b"x") && !check(Some(b"v"), b"x") && check(Some(b"vw"), b""));
    assert_eq!(scene.get(b"k"), Some(Vec::new()));
    assert!(check(Some(b""), b"y"));
    scene.change(b"k", Change::Delete);
    assert_eq!(scene.get(b"k"), None);
    assert!(check(None, b"again"));
}

#[test]
fn scans_stop_at_their_limits_and_continue() {
    let scene = scene();
    scene.fill_rows(20);
    let keys = |rows: Rows| {
        let (status, answer) = scene.ask(&Ask::Scan(rows, vec![foo()]));
        assert_eq!(status, Status::Ok);
        let keys: Vec<u8> = answer.rows.iter().map(|(key, _, _)| key[1]).collect();
        (keys, answer.flags & COLUMN_REPLY_MORE != 0)
    };
    let from_to = |from: u8, to: u8| Rows {
        start: vec![b'r', from],
        stop: vec![b'r', to],
        ..Rows::default()
    };
    assert_eq!(keys(from_to(3, 6)), (vec![3, 4, 5], false));
    let with = |change: fn(&mut Rows)| {
        let mut rows = from_to(3, 6);
        change(&mut rows);
        keys(rows)
    };
    assert_eq!(with(|rows| rows.stop_inclusive = true), (vec![3, 4, 5, 6], false));
    assert_eq!(with(|rows| rows.start_exclusive = true), (vec![4, 5], false));
    assert_eq!(with(|rows| rows.limit = 2), (vec![3, 4], true));
    // The scan ended at its limit. Like the fast path, the host does not check whether rows follow, so `more` is true.
    assert_eq!(with(|rows| rows.limit = 3), (vec![3, 4, 5], true));
    assert_eq!(with(|rows| rows.limit = 4), (vec![3, 4, 5], false));
    assert_eq!(with(|rows| rows.stop = rows.start.clone()), (vec![], false));
    let mut down = Rows {
        reverse: true,
        ..from_to(6, 3)
    };
    assert_eq!(keys(down.clone()), (vec![6, 5, 4], false));
    down.start.clear();
    assert_eq!(keys(Rows { limit: 2, ..down }), (vec![19, 18], true));
    // The 20 rows take 16 bytes each, so all of them fit the 560 bytes.
    let (first, more) = keys(Rows::default());
    assert_eq!((first.len(), more), (20, false));
    let ask = Ask::Scan(Rows::default(), vec![foo()]);
    let (_, body) = scene.native_from([127, 0, 0, 1], &ask, REPLY_HEAD_BYTES + 16 * 7);
    let answer = native::parse_reply(&body).unwrap();
    assert_eq!(
        (answer.rows.len(), answer.flags & COLUMN_REPLY_MORE),
        (7, COLUMN_REPLY_MORE)
    );
    let (status, _) = scene.ask(&Ask::Scan(from_to(6, 3), vec![foo()]));
    assert_eq!(status, Status::StartBehindStop);
}

#[test]
fn several_columns_of_a_row_are_returned_together() {
    let scene = scene();
    let columns = [foo(), name("x:a"), name("x:b")];
    for (row, column) in [(1u8, 0), (1, 2), (2, 1), (3, 0), (3, 1), (3, 2)] {
        let value = put(&[row, column as u8]);
        scene
            .table
            .change(&[row], &columns[column], &value, Nonce::default())
            .unwrap();
    }
    let (_, answer) = scene.ask(&Ask::Get(vec![1], columns.to_vec()));
    let cells = |answer: &Answer| -> Vec<(u8, usize)> {
        answer
            .rows
            .iter()
            .map(|(key, column, _)| (key[0], *column))
            .collect()
    };
    assert_eq!(cells(&answer), [(1, 0), (1, 2)]);
    let (_, answer) = scene.ask(&Ask::Scan(
        Rows {
            limit: 2,
            ..Rows::default()
        },
        columns.to_vec(),
    ));
    assert_eq!(cells(&answer), [(1, 0), (1, 2), (2, 1)]);
    assert_eq!(answer.flags & COLUMN_REPLY_MORE, COLUMN_REPLY_MORE);
    // A reply never has a part of a row. It has room for four cells of 8 bytes, and two rows do not fit.
    let ask = Ask::Scan(Rows::default(), columns.to_vec());
    let (_, body) = scene.native_from([127, 0, 0, 1], &ask, REPLY_HEAD_BYTES + 5 * 8);
    let short = native::parse_reply(&body).unwrap();
    // The names of columns make the request longer, so the reply has room for more cells.
    assert!(short.rows.len() == 3 || short.rows.len() == 6, "{short:?}");
}

#[test]
fn a_row_that_fits_no_packet_is_reported_and_skipped() {
    let scene = scene();
    let (foo, bar) = (foo(), name("x:a"));
    let holds = |row: &[u8], column: &ColumnName, bytes: usize| {
        let put = put(&vec![7; bytes]);
        scene.table.change(row, column, &put, Nonce::default()).unwrap();
    };
    let get = |row: &[u8], columns: &[ColumnName], room| {
        let ask = Ask::Get(row.to_vec(), columns.to_vec());
        let (status, body) = scene.native_from([127, 0, 0, 1], &ask, room);
        (status, native::parse_reply(&body).unwrap())
    };
    let long = |row: &[u8], column, value_bytes, behind| LeftOut {
        key: row.to_vec(),
        is_cut: false,
        column,
        value_bytes,
        rows_before: behind,
    };
    // The longest packet of whole words has 1,448 bytes: 40 before the rows, then 4 bytes and the key before the value.
    const FITS: usize = 1448 - 40 - 4 - 1;
    for (bytes, status, rows) in [
        (FITS, Status::Ok, 1),
        (FITS + 1, Status::TooLong, 0),
        (70_000, Status::TooLong, 0),
    ] {
        holds(b"b", &foo, bytes);
        let (said, answer) = get(b"b", &[foo], 1448);
        assert_eq!((said, answer.rows.len()), (status, rows), "{bytes}");
        let left_out = (rows == 0).then(|| long(b"b", 0, bytes as u64, 0));
        assert_eq!(answer.left_out, Vec::from_iter(left_out));
        let is_told = answer.flags & COLUMN_REPLY_LEFT_OUT != 0;
        assert_eq!(is_told, rows == 0);
    }
    // If the row would fit a longer packet, the reply does not say that it is too long.
    holds(b"c", &foo, 100);
    let (status, answer) = get(b"c", &[foo], 72);
    assert_eq!((status, answer.flags), (Status::Ok, COLUMN_REPLY_MORE));
    assert!(answer.rows.is_empty() && answer.left_out.is_empty());
    // The two cells fit a packet separately but not together. The reply names the first of the longest cells.
    holds(b"d", &foo, 1000);
    holds(b"d", &bar, 1000);
    let (status, answer) = get(b"d", &[bar, foo], 1448);
    assert_eq!(status, Status::TooLong);
    assert_eq!(answer.left_out, [long(b"d", 0, 1000, 0)]);
    assert_eq!(get(b"d", &[bar], 1448).0, Status::Ok);

    holds(b"a", &foo, 1);
    holds(b"e", &foo, 2000);
    let scan = |reverse, start: &[u8], exclusive| {
        let rows = Rows {
            start: start.to_vec(),
            start_exclusive: exclusive,
            reverse,
            ..Rows::default()
        };
        let (status, body) = scene.native_from([127, 0, 0, 1], &Ask::Scan(rows, vec![foo]), 1448);
        assert_eq!(status, Status::Ok);
        native::parse_reply(&body).unwrap()
    };
    let keys = |answer: &Answer| -> Vec<u8> { answer.rows.iter().map(|(key, _, _)| key[0]).collect() };
    let answer = scan(false, b"", false);
    assert_eq!(keys(&answer), *b"acd");
    assert_eq!(
        answer.left_out,
        [long(b"b", 0, 70_000, 1), long(b"e", 0, 2000, 3)]
    );
    assert_eq!(answer.flags, COLUMN_REPLY_LEFT_OUT);
    assert_eq!(answer.count(), 5);
    let answer = scan(true, b"", false);
    assert_eq!(keys(&answer), *b"dca");
    assert_eq!(
        answer.left_out,
        [long(b"e", 0, 2000, 0), long(b"b", 0, 70_000, 3 - 1)]
    );
    // The fast path has the rows around this row, but never the row itself.
    let held = |row: &[u8]| scene.fastpath.get(COLUMN, &key(row), NOW_NS);
    assert_eq!(held(b"a").unwrap().unwrap().value, [7]);
    assert!(held(b"b").is_none() && held(b"e").is_none());

    // An append makes a cell too long for a packet. The change is made, and the reply has the new length of the value.
    let (status, answer) = scene.change(b"d", Change::Append(vec![8; 500]));
    assert_eq!(
        (status, &answer.left_out[..]),
        (Status::Ok, &[long(b"d", 0, 1500, 0)][..])
    );
}

#[test]
fn a_miss_fills_the_fast_path_and_a_change_invalidates_it() {
    let scene = scene();
    scene.fill_rows(20);
    let held = |row: u8| scene.fastpath.get(COLUMN, &key(&[b'r', row]), NOW_NS);
    assert_eq!(scene.get(&[b'r', 4]), Some(vec![4; 3]));
    assert_eq!(held(4).unwrap().unwrap().value, vec![4; 3]);
    assert!(held(3).is_none() && held(11).is_some() && held(12).is_none());
    // The fast path also knows that no rows lie between these rows.
    assert_eq!(
        scene.fastpath.get(COLUMN, &key(&[b'r', 5, 1]), NOW_NS),
        Some(None)
    );
    assert_eq!(scene.get(&[b'r', 7, 7]), None);
    assert_eq!(
        scene.fastpath.get(COLUMN, &key(&[b'r', 7, 7]), NOW_NS),
        Some(None)
    );
    scene.change(&[b'r', 7, 7], put(b"new"));
    assert_eq!(scene.fastpath.get(COLUMN, &key(&[b'r', 7, 7]), NOW_NS), None);
    // The fast path also drops a row that is changed directly in the table.
    scene.get(&[b'r', 15]);
    assert!(held(16).is_some());
    scene
        .table
        .change(&[b'r', 16], &foo(), &Change::Delete, Nonce::default())
        .unwrap();
    assert_eq!(held(16), None);
    // The fast path knows that no row follows the last row, up to the end of the table.
    scene.get(&[b'r', 17]);
    assert_eq!(scene.fastpath.get(COLUMN, &key(b"zz"), NOW_NS), Some(None));
    let (_, answer) = scene.ask(&Ask::Scan(
        Rows {
            start: vec![b'r', 0],
            limit: 3,
            ..Rows::default()
        },
        vec![foo()],
    ));
    assert_eq!(answer.rows.len(), 3);
    // The host reads eight rows into the fast path even if a client requests fewer.
    let eight = Interval {
        low: key(&[b'r', 0]),
        high: Some(key(&[b'r', 7, 7])),
    };
    assert_eq!(scene.fastpath.scan(COLUMN, &eight, NOW_NS).unwrap().len(), 8);
    assert_eq!(scene.fastpath.get(COLUMN, &key(&[b'r', 7, 7]), NOW_NS), None);
}

#[test]
fn switching_the_fast_path_off_empties_it_until_it_is_on_again() {
    let scene = scene();
    scene.fill_rows(20);
    let held = |row: u8| scene.fastpath.get(COLUMN, &key(&[b'r', row]), NOW_NS);
    let switch = |address, off| scene.native_from(address, &Ask::Switch(off), 0).0;
    scene.get(&[b'r', 4]);
    assert!(held(4).is_some());
    assert_eq!(switch([10, 9, 9, 9], true), Status::Unauthorised);
    assert!(held(4).is_some());
    assert_eq!(switch([127, 0, 0, 1], true), Status::Ok);
    assert_eq!(held(4), None);
    // While the fast path is off, the host still answers, and the table can be changed.
    assert_eq!(scene.get(&[b'r', 4]), Some(vec![4; 3]));
    scene.change(&[b'r', 4], put(b"new"));
    assert_eq!(scene.get(&[b'r', 4]), Some(b"new".to_vec()));
    assert_eq!(held(4), None);
    assert_eq!(switch([127, 0, 0, 1], false), Status::Ok);
    assert_eq!(scene.get(&[b'r', 4]), Some(b"new".to_vec()));
    assert_eq!(held(4).unwrap().unwrap().value, b"new");
    // Switching the fast path on again has no further effect.
    assert_eq!(switch([127, 0, 0, 1], false), Status::Ok);
    assert!(held(4).is_some());
}

#[test]
fn a_row_too_long_for_the_fast_path_ends_the_cached_interval() {
    let scene = scene();
    let long = [&[b'b'; 70][..], b"x"].concat();
    for row in [&b"a"[..], &long, b"c", b"d", b"e"] {
        let value = if row == b"d" { vec![1; 1025] } else { vec![1; 2] };
        scene
            .table
            .change(row, &foo(), &put(&value), Nonce::default())
            .unwrap();
    }
    assert_eq!(scene.get(b"a"), Some(vec![1; 2]));
    let held = |row: &[u8]| scene.fastpath.get(COLUMN, &key(row), NOW_NS);
    assert!(held(b"a").is_some() && held(b"b").is_some() && held(&[b'b'; 64]).is_none());
    assert!(scene.get(&long).is_some() && held(b"c").is_none());
    assert!(scene.get(b"c").is_some() && held(b"c").is_some() && held(b"d").is_none());
    // The row exists, but its value does not fit this packet.
    let (status, answer) = scene.ask(&Ask::Get(b"d".to_vec(), vec![foo()]));
    assert_eq!(
        (status, answer.rows.len(), answer.flags),
        (Status::Ok, 0, COLUMN_REPLY_MORE)
    );
    let (_, body) = scene.native_from([127, 0, 0, 1], &Ask::Get(b"d".to_vec(), vec![foo()]), 1200);
    assert_eq!(native::parse_reply(&body).unwrap().rows[0].2.len(), 1025);
}

#[test]
fn cached_rows_end_before_a_cell_expires() {
    let scene = scene();
    let short = name("short:a");
    scene
        .table
        .change(b"a", &short, &put(b"1"), Nonce::default())
        .unwrap();
    scene.time_ms.fetch_add(200, Relaxed);
    scene
        .table
        .change(b"b", &short, &put(b"2"), Nonce::default())
        .unwrap();
    let (_, answer) = scene.ask(&Ask::Get(b"a".to_vec(), vec![short]));
    assert_eq!(answer.rows.len(), 1);
    // The first cell expires in 300 ms, and the clock of the fast path may lag by 100 ms.
    let held = |after_ms: u64| {
        scene
            .fastpath
            .get(ColumnId(1), &key(b"b"), NOW_NS + after_ms * 1_000_000)
    };
    assert!(held(199).is_some() && held(200).is_none());
    // Cells that would expire within the clocks' difference are not cached.
    scene.time_ms.fetch_add(250, Relaxed);
    scene
        .table
        .change(b"c", &short, &put(b"3"), Nonce::default())
        .unwrap();
    scene.ask(&Ask::Get(b"a".to_vec(), vec![short]));
    assert!(scene.fastpath.get(ColumnId(1), &key(b"b"), NOW_NS).is_none());
}

#[test]
fn without_coherence_nothing_is_cached_or_replies_are_flagged() {
    let untold = scene_told(CoherenceMode::Uncached);
    untold.fill_rows(3);
    assert!(untold.get(&[b'r', 1]).is_some() && untold.fastpath.len() == 0);
    let stale = scene_told(CoherenceMode::Ttl(1_000_000_000));
    stale.fill_rows(3);
    let (_, answer) = stale.ask(&Ask::Get(vec![b'r', 1], vec![foo()]));
    assert_eq!(answer.flags, COLUMN_REPLY_MAY_BE_STALE);
    let held = |after_ns| stale.fastpath.get(COLUMN, &key(&[b'r', 1]), NOW_NS + after_ns);
    assert!(held(999_999_999).is_some() && held(1_000_000_000).is_none());
}

#[test]
fn the_region_owner_is_looked_up_only_when_its_lease_matters() {
    for coherence_mode in [CoherenceMode::ByTable, CoherenceMode::Ttl(1_000_000_000)] {
        let scene = scene_of(coherence_mode, None, |table| Arc::new(Apart(table)));
        scene.fill_rows(3);
        scene.ask(&Ask::Get(vec![b'r', 1], vec![foo()]));
        assert!(scene.fastpath.get(COLUMN, &key(&[b'r', 1]), NOW_NS).is_some());
    }
}

#[test]
fn a_change_in_a_session_takes_effect_once() {
    let scene = scene();
    let stranger = [10, 0, 0, 1];
    let open = |challenge| {
        let asked = ColumnSession {
            challenge,
            ..ColumnSession::new_zeroed()
        };
        let (status, body) = scene.native_from(stranger, &Ask::Open(asked), 0);
        assert_eq!(status, Status::Ok);
        ColumnSession::read_from_bytes(&body).unwrap()
    };
    let granted = open(open([0; 16]).challenge);
    let change = |nonce, by, token| {
        let sender = Sender {
            slot: granted.slot.get(),
            token,
            nonce,
        };
        let ask = Ask::Change(b"n".to_vec(), foo(), Change::Increment(by), sender);
        let (status, body) = scene.native_from(stranger, &ask, 200);
        (status, native::parse_reply(&body).unwrap_or_default().rows)
    };
    let token = granted.token.get();
    let is = |sum: i64| (Status::Ok, vec![(b"n".to_vec(), 0, sum.to_be_bytes().to_vec())]);
    assert_eq!(change(1, 5, token), is(5));
    assert_eq!(change(1, 5, token), is(5));
    assert_eq!(change(1, 6, token).0, Status::Reused);
    assert_eq!(change(3, 5, token).0, Status::Sequence);
    assert_eq!(change(0, 5, token).0, Status::Sequence);
    assert_eq!(change(2, 5, token ^ 1).0, Status::NoSession);
    assert_eq!(change(2, 7, token), is(12));
    assert_eq!(change(1, 5, token).0, Status::Sequence);
    assert_eq!(scene.get(b"n"), Some(12i64.to_be_bytes().to_vec()));
}

/// Listener that blocks a change until the test lets it continue.
#[derive(Debug)]
struct Gate {
    reached: SyncSender<()>,
    open: Mutex<Receiver<()>>,
}

impl ChangeListener for Gate {
    fn begin_write(&self, _: &[u8], _: &ColumnName) -> u64 {
        self.reached.send(()).unwrap();
        self.open.lock().unwrap().recv().unwrap();
        0
    }

    fn end_write(&self, _: u64) {}
}

#[test]
fn a_change_in_progress_blocks_only_its_session() {
    let (reached, is_reached) = sync_channel(1);
    let (go, gate) = sync_channel(1);
    let gate = Gate {
        reached,
        open: Mutex::new(gate),
    };
    let scene = scene_watched(CoherenceMode::ByTable, Some(Arc::new(gate)));
    let open = |challenge, id| {
        let asked = ColumnSession {
            challenge,
            ..ColumnSession::new_zeroed()
        };
        let sent = native::request(id, &Ask::Open(asked), 0).unwrap();
        let reply = scene.serve_from([127, 0, 0, 1], &sent).unwrap();
        ColumnSession::read_from_bytes(&reply[size_of::<NativeHeader>()..]).unwrap()
    };
    let challenge = open([0; 16], 1).challenge;
    let granted = open(challenge, 2);
    let sender = Sender {
        slot: granted.slot.get(),
        token: granted.token.get(),
        nonce: 1,
    };
    let ask = Ask::Change(b"n".to_vec(), foo(), Change::Increment(5), sender);
    let sent = &native::request(3, &ask, 200).unwrap();
    let made = std::thread::scope(|threads| {
        let first = threads.spawn(|| scene.serve_from([127, 0, 0, 1], sent));
        is_reached.recv().unwrap();
        // A repetition of the request gets no answer while the change is in progress. Requests to open a session, also
        // a repeated one for this session, do not wait.
        assert_eq!(scene.serve_from([127, 0, 0, 1], sent), Err(Verdict::Forward));
        assert_eq!(open(challenge, 2), granted);
        let another = open([0; 16], 4).challenge;
        assert_ne!(open(another, 5).slot, granted.slot);
        go.send(()).unwrap();
        first.join().unwrap()
    });
    assert!(made.is_ok());
    assert_eq!(scene.serve_from([127, 0, 0, 1], sent), made);
}

#[test]
fn a_reply_is_never_answered() {
    let scene = scene();
    scene.fill_rows(9);
    let asks = [
        Ask::Get(vec![b'r', 1], vec![foo()]),
        Ask::Scan(Rows::default(), vec![foo()]),
        Ask::Open(ColumnSession::new_zeroed()),
    ];
    let native = asks.iter().map(|ask| native::request(1, ask, 300).unwrap());
    let papers = [
        &b"getr1\0\0entry:foo\0\0\0"[..],
        b"putkey1entry:foogetkey1",
        b"sc1a\0\0\0entry:fooz\0\0\0",
    ];
    let papers = papers.iter().map(|paper| [paper, &[0; 60][..]].concat());
    for request in native.chain(papers) {
        let reply = scene.serve_from([127, 0, 0, 1], &request).unwrap();
        assert!(
            matches!(scene.serve_from([127, 0, 0, 1], &reply), Err(Verdict::Drop(_))),
            "{reply:?}"
        );
    }
}

/// Generates requests that are changed and truncated at random.
fn mangled() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..70);
    let rows = (bytes(), bytes(), any::<[bool; 3]>(), 0u16..5).prop_map(|(start, stop, flags, limit)| Rows {
        start,
        stop,
        start_exclusive: flags[0],
        stop_inclusive: flags[1],
        reverse: flags[2],
        limit,
    });
    let change = prop_oneof![
        bytes().prop_map(|value| Change::Put(value, None)),
        Just(Change::Delete),
        any::<i64>().prop_map(Change::Increment),
        (proptest::option::of(bytes()), bytes())
            .prop_map(|(expected, value)| Change::CheckAndPut { expected, value }),
    ];
    let ask = prop_oneof![
        bytes().prop_map(|key| Ask::Get(key, vec![foo(), name("x:a")])),
        rows.prop_map(|rows| Ask::Scan(rows, vec![foo()])),
        (bytes(), change).prop_map(|(key, change)| Ask::Change(key, foo(), change, Sender::default())),
    ];
    let native = (ask, 0usize..800).prop_map(|(ask, room)| native::request(3, &ask, room).unwrap());
    let paper =
        (0usize..3, bytes()).prop_map(|(op, rest)| [[&b"put"[..], b"get", b"sc1"][op], &rest[..]].concat());
    let request = prop_oneof![3 => native, 1 => paper, 1 => bytes()];
    let flips = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    (request, flips, 0usize..40).prop_map(|(mut request, flips, cut)| {
        for (at, byte) in flips {
            if !request.is_empty() {
                let at = at.index(request.len());
                request[at] = byte;
            }
        }
        request.truncate(request.len().saturating_sub(cut.saturating_sub(30)));
        request
    })
}

proptest! {
    #[test]
    fn any_request_gets_a_reply_within_its_length_or_none(requests in proptest::collection::vec(mangled(), 1..30)) {
        let scene = scene();
        scene.fill_rows(5);
        for request in requests {
            if let Ok(reply) = scene.serve_from([10, 0, 0, 9], &request) {
                prop_assert!(reply.len() <= request.len().max(3), "{:?}", request);
            }
        }
        // The untrusted source has changed nothing.
        prop_assert_eq!(scene.get(&[b'r', 2]), Some(vec![2; 3]));
    }
}
