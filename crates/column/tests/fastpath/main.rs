//! Tests of the fast path and its writer against a table that is a map: whatever is installed, invalidated or evicted,
//! the answers of the fast path equal the map's.

mod asks;
mod race;

use asks::{NAME, Scan, Table, get, get_reply, paper_get, paper_scan, row};
use lineside_column::fastpath::ColumnFastPath;
use lineside_column::fill::{ColumnFill, ColumnId, Filled, Row, ServerId};
use lineside_column::key::{Interval, Key};
use lineside_column::store::{Geometry, Store};
use lineside_column::writer::ColumnWriter;
use lineside_fastpath::{FastPath, Reply, Source, Verdict, lease};
use lineside_wire::ColumnCounter;
use proptest::prelude::*;
use std::sync::Arc;

const COLUMN: ColumnId = ColumnId(1);
const NOW_NS: u64 = 1000;

struct World {
    store: Arc<Store>,
    fastpath: ColumnFastPath,
    writer: ColumnWriter,
    truth: Table,
    clock: u64,
}

impl World {
    fn new(geometry: &Geometry) -> Self {
        let store = Arc::new(Store::anonymous(geometry).expect("memory"));
        lease::renew(&store.control().lease_until_ns, 1 << 60);
        Self {
            fastpath: ColumnFastPath::new(Arc::clone(&store)),
            writer: ColumnWriter::new(Arc::clone(&store)),
            store,
            truth: Table::new(),
            clock: 1,
        }
    }

    fn answer(&self, request: &[u8]) -> Option<Vec<u8>> {
        let from = Source {
            address: [127, 0, 0, 1].into(),
            port: 9,
        };
        let mut reply = Reply::default();
        match self.fastpath.answer(from, NOW_NS, request, &mut reply) {
            Verdict::Reply => Some(reply.as_bytes().to_vec()),
            Verdict::Forward => None,
            Verdict::Drop(reason) => panic!("dropped: {reason:?}"),
        }
    }

    fn install(&mut self, interval: Interval) {
        self.install_until(interval, u64::MAX, ServerId(0));
    }

    fn install_until(&mut self, interval: Interval, until_ns: u64, server: ServerId) {
        let rows: Vec<Row> = self
            .truth
            .values()
            .filter(|row| interval.contains(&row.key))
            .cloned()
            .collect();
        self.writer.install(&Filled {
            column: COLUMN,
            interval,
            rows: &rows,
            until_ns,
            server,
        });
    }

    fn change(&mut self, key: &[u8], value: Option<&[u8]>) {
        let low = Key::new(key).expect("a key");
        // A key of 64 bytes has no successor, so the keys after it are invalidated, too.
        let high = low.successor();
        self.writer.invalidate(COLUMN, &Interval { low, high });
        self.clock += 1;
        match value {
            Some(value) => _ = self.truth.insert(key.to_vec(), row(key, value, self.clock)),
            None => _ = self.truth.remove(key),
        }
    }

    fn check_get(&self, key: &[u8]) -> bool {
        let said = self.answer(&get(key));
        if let Some(said) = &said {
            assert_eq!(
                *said,
                get_reply(&self.truth, key),
                "get {:?}",
                key.escape_ascii().to_string()
            );
        }
        said.is_some()
    }

    fn check_scan(&self, scan: &Scan) -> bool {
        let said = self.answer(&scan.request());
        if let Some(said) = &said {
            assert_eq!(Some(said), scan.reply(&self.truth).as_ref(), "{scan:?}");
        }
        said.is_some()
    }
}

fn geometry(row_bits: u32, value_bits: u32) -> Geometry {
    Geometry {
        family_bits: 0,
        column_bits: 1,
        row_bits,
        value_bits,
        columns: vec!["entry:bar".into(), NAME.into()],
        ..Geometry::default()
    }
}

/// Generates keys that are close to each other: short and long prefixes, followed by few different bytes (0 and 255
/// among them).
fn key() -> impl Strategy<Value = Vec<u8>> {
    let letter = prop_oneof![Just(0u8), Just(1), Just(b'a'), Just(b'b'), Just(255)];
    let beginning = prop_oneof![
        5 => Just(Vec::new()),
        2 => Just(b"customer/0000001".to_vec()),
        1 => Just(vec![b'k'; 61]),
    ];
    (beginning, proptest::collection::vec(letter, 0..4))
        .prop_map(|(beginning, end)| [beginning, end].concat())
}

#[derive(Clone, Debug)]
enum Step {
    Install(Vec<u8>, Option<Vec<u8>>),
    Put(Vec<u8>, usize),
    Delete(Vec<u8>),
    Invalidate(Vec<u8>, Vec<u8>),
    Clear,
    Get(Vec<u8>),
    Scan(Scan),
}

fn step() -> impl Strategy<Value = Step> {
    let scan = (
        key(),
        key(),
        0u8..8,
        0u16..20,
        prop_oneof![Just(1400usize), 0usize..600],
    )
        .prop_map(|(start, stop, flags, limit, payload_bytes)| {
            Step::Scan(Scan {
                start,
                stop,
                flags: flags & 6,
                limit,
                payload_bytes: payload_bytes.next_multiple_of(8),
            })
        });
    let long = prop_oneof![8 => 0usize..24, 1 => 200usize..1025];
    prop_oneof![
        6 => (key(), proptest::option::weighted(0.8, key())).prop_map(|(low, high)| Step::Install(low, high)),
        6 => (key(), long).prop_map(|(key, bytes)| Step::Put(key, bytes)),
        2 => key().prop_map(Step::Delete),
        1 => (key(), key()).prop_map(|(low, high)| Step::Invalidate(low, high)),
        1 => Just(Step::Clear),
        8 => key().prop_map(Step::Get),
        8 => scan,
    ]
}

fn play(world: &mut World, steps: &[Step]) {
    let interval = |low: &[u8], high: Option<&[u8]>| Interval {
        low: Key::new(low).expect("a key"),
        high: high.map(|high| Key::new(high).expect("a key")),
    };
    for step in steps {
        match step {
            Step::Install(low, high) => world.install(interval(low, high.as_deref())),
            Step::Put(key, bytes) if !key.is_empty() => {
                let value: Vec<u8> = (0..*bytes).map(|at| at as u8 ^ world.clock as u8).collect();
                world.change(key, Some(&value));
            }
            Step::Delete(key) if !key.is_empty() => world.change(key, None),
            Step::Put(..) | Step::Delete(_) => {}
            Step::Invalidate(low, high) => world.writer.invalidate(COLUMN, &interval(low, Some(high))),
            Step::Clear => world.writer.clear(),
            Step::Get(key) => _ = world.check_get(key),
            Step::Scan(scan) => _ = world.check_scan(scan),
        }
    }
    let keys: Vec<_> = world.truth.keys().cloned().collect();
    for key in keys {
        world.check_get(&key);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_fast_path_answers_as_the_table(steps in proptest::collection::vec(step(), 1..200)) {
        play(&mut World::new(&geometry(12, 2)), &steps);
    }

    #[test]
    fn the_fast_path_answers_as_the_table_when_blocks_run_out(steps in proptest::collection::vec(step(), 1..200)) {
        play(&mut World::new(&geometry(4, 0)), &steps);
    }
}

/// Installs rows whose keys have a common prefix, and checks that the fast path answers every row, keys between rows,
/// and scans.
fn check_all_held(prefix: &[u8], count: u32) {
    let mut world = World::new(&geometry(14, 2));
    let number = |number: u32| [prefix, &number.to_be_bytes()[1..]].concat();
    for at in 0..count {
        world.change(&number(10 * at), Some(&at.to_be_bytes()));
    }
    world.install(Interval::ALL);
    for at in 0..count {
        assert!(world.check_get(&number(10 * at)), "key {at} is answered");
        assert!(
            world.check_get(&number(10 * at + 5)),
            "the fast path knows that no row follows {at}"
        );
        let scan = |limit, stop: u32| Scan {
            start: number(10 * at),
            stop: number(10 * (at + stop)),
            flags: 0,
            limit,
            payload_bytes: 1400,
        };
        for scan in [scan(8, 100), scan(0, 3), scan(1, 1)] {
            assert!(world.check_scan(&scan), "{scan:?} is answered");
        }
    }
    let behind = Scan {
        start: number(10 * (count - 3)),
        stop: Vec::new(),
        flags: 0,
        limit: 8,
        payload_bytes: 1400,
    };
    assert!(world.check_scan(&behind), "the table's end is answered");
}

#[test]
fn cached_rows_are_answered() {
    check_all_held(b"", 1000);
    check_all_held(b"user", 1000);
    check_all_held(b"a beginning of 24 bytes:", 1000);
    check_all_held(&[b'x'; 60], 1000);
}

#[test]
fn many_small_fills_cache_the_whole_table() {
    let mut world = World::new(&geometry(12, 0));
    let key = |number: u64| format!("{number:08}").into_bytes();
    for number in 0..2000 {
        world.change(&key(number), Some(b"value"));
    }
    // The order of the fills differs from the order of keys, so that pages are split at many places.
    for step in 0..250u64 {
        let first = step * 97 % 250 * 8;
        let high = Key::new(&key(first + 8));
        let low = Key::new(&key(first)).expect("a key");
        world.install(Interval { low, high });
    }
    for number in 0..2000 {
        assert!(world.check_get(&key(number)), "{number}");
    }
    let scan = Scan {
        start: key(3),
        stop: key(1999),
        flags: 0,
        limit: 40,
        payload_bytes: 1400,
    };
    assert!(world.check_scan(&scan));
    assert_eq!(world.writer.counts().blocks, 250);
}

#[test]
fn rows_read_once_evict_nothing_from_a_full_fast_path() {
    // The geometry has room for two columns, of which only one is used.
    const ROWS: u32 = 1 << 11;
    let mut world = World::new(&geometry(10, 0));
    let key = |number: u32| number.to_be_bytes().to_vec();
    for number in 0..4 * ROWS {
        let key = key(number);
        world.truth.insert(key.clone(), row(&key, b"value", 1));
    }
    let eight = |first: u32| Interval {
        low: Key::new(&key(first)).unwrap(),
        high: Key::new(&key(first + 8)),
    };
    // Reads rows repeatedly. The fast path has room for all of them.
    for first in (0..ROWS).step_by(8) {
        world.install(eight(first));
    }
    let held = |world: &World| (0..ROWS).filter(|number| world.check_get(&key(*number))).count();
    let before = held(&world);
    assert!(before > ROWS as usize * 9 / 10, "{before}");
    // Reads the rest of the table once. The sketch may take some of these rows for hot, but only few.
    for first in (ROWS..4 * ROWS).step_by(8) {
        world.install(eight(first));
    }
    assert!(
        world.writer.counts().cold > u64::from(ROWS) / 4,
        "{:?}",
        world.writer
    );
    let after = held(&world);
    assert!(after * 100 >= before * 97, "{before} rows became {after}");
    // Rows that are read for the second time are installed.
    world.install(eight(2 * ROWS));
    assert!(world.check_get(&key(2 * ROWS + 5)));
}

#[test]
fn rows_read_twice_are_admitted_and_survive_a_scan_of_the_whole_table() {
    const ROWS: u32 = 1 << 11;
    let mut world = World::new(&geometry(10, 0));
    let key = |number: u32| number.to_be_bytes().to_vec();
    for number in 0..6 * ROWS {
        let key = key(number);
        world.truth.insert(key.clone(), row(&key, b"value", 1));
    }
    let eight = |first: u32| Interval {
        low: Key::new(&key(first)).unwrap(),
        high: Key::new(&key(first + 8)),
    };
    // Fills the fast path with rows that were read once. The test does not read them again, because a second read would
    // make them hot.
    for first in (4 * ROWS..6 * ROWS).step_by(8) {
        world.install(eight(first));
    }
    assert!(world.writer.counts().cold > 0, "{:?}", world.writer);
    // Reads half as many rows as the fast path has room for, each row twice.
    for first in (0..ROWS / 2).step_by(8).chain((0..ROWS / 2).step_by(8)) {
        world.install(eight(first));
    }
    let held = |world: &World| {
        (0..ROWS / 2)
            .filter(|number| world.check_get(&key(*number)))
            .count()
    };
    let before = held(&world);
    assert!(before * 100 >= ROWS as usize / 2 * 97, "{before} of {}", ROWS / 2);
    for first in (0..4 * ROWS).step_by(8) {
        world.install(eight(first));
    }
    let after = held(&world);
    assert!(after * 100 >= before * 97, "{before} rows became {after}");
}

#[test]
fn requests_in_the_paper_format_are_answered() {
    let mut world = World::new(&geometry(12, 0));
    for number in 0..100u8 {
        let key = [b'k', number / 10 + b'0', number % 10 + b'0'];
        world.change(&key, Some(&vec![number + 1; usize::from(number % 18) + 1]));
    }
    world.install(Interval::ALL);
    for (key, held) in [
        (&b"k07"[..], true),
        (b"k7", true),
        (b"k", true),
        (b"k99", true),
        (b"zzzz", true),
    ] {
        let (request, reply) = paper_get(&world.truth, key);
        assert_eq!(world.answer(&request).as_ref() == Some(&reply), held, "{key:?}");
        assert_eq!(
            world.answer(&request[..18]),
            None,
            "the request is shorter than its reply"
        );
    }
    let ranges: [(&[u8], &[u8], usize); 7] = [
        (b"k10", b"k17", 178),
        (b"k10", b"k17", 200),
        (b"k10", b"k17", 177),
        (b"k1", b"k2", 1400),
        (b"k5", b"k4", 40),
        (b"k990", b"k999", 40),
        (b"", b"k04", 401),
    ];
    for (start, stop, bytes) in ranges {
        let (request, reply) = paper_scan(&world.truth, start, stop, bytes);
        assert_eq!(world.answer(&request).expect("held"), reply, "{start:?} {stop:?}");
    }
    // Rows that the paper format cannot represent are answered by the host.
    world.change(b"long key", Some(b"v"));
    world.change(b"long", Some(&[7; 19]));
    world.install(Interval::ALL);
    assert_eq!(world.answer(&paper_get(&Table::new(), b"long").0), None);
    assert_eq!(world.answer(&paper_scan(&Table::new(), b"l", b"m", 400).0), None);
}

#[test]
fn rows_are_not_answered_after_a_lease_or_a_cell_has_expired() {
    let mut world = World::new(&geometry(8, 0));
    world.change(b"k", Some(b"v"));
    world.install_until(Interval::ALL, NOW_NS + 1, ServerId(3));
    assert!(
        !world.check_get(b"k"),
        "the fast path answered before server 3 had a lease"
    );
    world.writer.set_server_lease(ServerId(3), NOW_NS + 1);
    assert!(world.check_get(b"k"));
    world.writer.set_server_lease(ServerId(3), NOW_NS);
    assert!(
        !world.check_get(b"k"),
        "the fast path answered after the server's lease had ended"
    );
    world.install_until(Interval::ALL, NOW_NS, ServerId(0));
    assert!(
        !world.check_get(b"k"),
        "the fast path answered a row that has expired"
    );
    world.install(Interval::ALL);
    lease::end(&world.store.control().lease_until_ns);
    assert!(
        !world.check_get(b"k"),
        "the fast path answered after its own lease had ended"
    );
    assert_eq!(world.fastpath.counters()[ColumnCounter::NotLeased as usize], 4);
}

#[test]
fn the_fast_path_invalidates_changed_rows_itself() {
    let mut world = World::new(&Geometry {
        literal_flags: true,
        ..geometry(8, 0)
    });
    for number in 0..20u8 {
        world.change(&[b'k', number], Some(b"v"));
    }
    let put = asks::native(lineside_wire::COLUMN_OP_DELETE, 0, &[b'k', 3], b"", 0, 0);
    let paper = [&b"putk\x13\0\0"[..], NAME.as_bytes(), b"new"].concat();
    for (change, block) in [(put, 0u8), (paper, 16)] {
        world.install(Interval::ALL);
        assert!(world.check_get(&[b'k', 9]));
        let source = |address: [u8; 4]| Source {
            address: address.into(),
            port: 1,
        };
        assert!(world.fastpath.changes(&change));
        let said = |from| {
            world
                .fastpath
                .answer(from, NOW_NS, &change, &mut Reply::default())
        };
        assert_eq!(said(source([10, 0, 0, 1])), Verdict::Forward);
        assert!(
            world.check_get(&[b'k', block]),
            "a change from an untrusted source invalidated the block"
        );
        assert_eq!(said(source([127, 0, 0, 1])), Verdict::Forward);
        assert!(!world.check_get(&[b'k', block]));
        assert!(
            !world.check_get(&[b'k', 9]),
            "with literal_flags the whole column misses"
        );
        world
            .store
            .control()
            .literal_flags
            .store(0, std::sync::atomic::Ordering::Relaxed);
        assert!(!world.check_get(&[b'k', block]));
        assert!(world.check_get(&[b'k', 9]), "a change invalidated another block");
        world
            .store
            .control()
            .literal_flags
            .store(1, std::sync::atomic::Ordering::Relaxed);
    }
    assert_eq!(
        world.fastpath.counters()[ColumnCounter::LineInvalidations as usize],
        2
    );
    world.install(Interval::ALL);
    assert!(
        world.check_get(&[b'k', 9]),
        "a fill did not clear the invalid flags"
    );
}

/// A fill does not remove rows next to its interval that remain valid for at least half as long as the fill.
#[test]
fn a_fill_removes_no_more_of_a_block_than_necessary() {
    const SECOND_NS: u64 = 1_000_000_000;
    for (seconds, held) in [(190, 12), (210, 8)] {
        let mut world = World::new(&geometry(8, 0));
        for row in 0..16 {
            world.change(&[b'k', row], Some(b"value"));
        }
        let now_ns = lease::now_ns();
        let rows = |low, high| Interval {
            low: Key::new(&[b'k', low]).unwrap(),
            high: Key::new(&[b'k', high]),
        };
        world.install_until(rows(0, 8), now_ns + 100 * SECOND_NS, ServerId(0));
        world.install_until(rows(4, 12), now_ns + seconds * SECOND_NS, ServerId(0));
        assert_eq!(world.writer.counts().rows, held, "{seconds} s");
    }
}

#[test]
fn impossible_geometries_are_refused() {
    let fault = |change: &dyn Fn(&mut Geometry)| {
        let mut geometry = geometry(8, 0);
        change(&mut geometry);
        Store::anonymous(&geometry).err().map(|error| error.to_string())
    };
    assert_eq!(fault(&|_| {}), None);
    assert!(fault(&|geometry| geometry.block_bits = 4).is_some());
    assert!(fault(&|geometry| geometry.row_bits = 2).is_some());
    assert!(
        fault(&|geometry| geometry.value_bits = 12).is_some(),
        "value_bits = 12 was accepted; the paper's a is larger because it also covers versions"
    );
    assert!(fault(&|geometry| geometry.columns.clear()).is_some());
    assert!(fault(&|geometry| geometry.columns.push("entry:third".into())).is_some());
    assert!(
        fault(&|geometry| geometry.columns[1] = "other:foo".into()).is_some(),
        "two families were accepted with family_bits = 0"
    );
    assert!(fault(&|geometry| geometry.columns[1] = geometry.columns[0].clone()).is_some());
    assert!(fault(&|geometry| geometry.columns[1] = "entry".into()).is_some());
}
