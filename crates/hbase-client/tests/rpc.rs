//! Tests of the RPC client with a real HBase of two region servers. The results are compared with those of the Thrift 2
//! gateway and of the embedded table.

use lineside_column::embedded::{Embedded, system_clock};
use lineside_column::table::Table;
use lineside_hbase_client::rpc::HBase;
use lineside_hbase_client::thrift2::Thrift2;
use lineside_hbase_client::{
    Cell, Change, ChangeOutcome, ColumnName, FoundCell, Nonce, ScanRange, TableError,
};
use lineside_hbase_mini::{Error, HBase as Mini, Jars, Options};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Time limit of a call. It is longer than HBase takes to split, move or merge regions on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(30);

fn name(text: &str) -> ColumnName {
    ColumnName::new(text.as_bytes()).unwrap()
}

fn foo() -> ColumnName {
    name("entry:foo")
}

/// Connects through the server at `port` (a region server or the master). The first address in the list is closed.
fn open(mini: &Mini, table: &str, port: u16) -> HBase {
    let gone = "127.0.0.1:1";
    let server = format!("127.0.0.1:{port}");
    assert!(mini.ports.regionserver != mini.ports.master);
    HBase::connect(&[gone, &server], table.as_bytes(), TIMEOUT).unwrap()
}

fn change(table: &dyn Table, key: &[u8], change: &Change) -> Result<ChangeOutcome, TableError> {
    table.change(key, &foo(), change, Nonce::default())
}

fn put(table: &dyn Table, key: &[u8], value: &[u8]) {
    assert_eq!(
        change(table, key, &Change::Put(value.to_vec(), None)),
        Ok(ChangeOutcome::Done)
    );
}

fn get(table: &dyn Table, key: &[u8]) -> Option<Vec<u8>> {
    let cells = table.get(key, &[foo()]).unwrap();
    cells.into_iter().next().flatten().map(|cell| cell.value)
}

fn all(limit: usize, reverse: bool) -> ScanRange {
    ScanRange {
        low: Vec::new(),
        high: None,
        limit,
        reverse,
    }
}

/// Waits for the next millisecond, because HBase hides a put that has the same timestamp as a delete.
fn next_millisecond(table: &dyn Table) {
    let now_ms = table.now_ms();
    while table.now_ms() == now_ms {
        std::hint::spin_loop();
    }
}

fn now(changed: Result<ChangeOutcome, TableError>) -> Cell {
    match changed {
        Ok(ChangeOutcome::Now(cell)) => cell,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_operation_works_over_a_real_hbase() {
    let jars = match Jars::build() {
        Err(error @ Error::NotHere(_)) => {
            eprintln!("skipped: {error}");
            return;
        }
        jars => jars.unwrap(),
    };
    let options = Options {
        region_servers: 2,
        ..Options::default()
    };
    let mut mini = jars.start(&options).unwrap();
    verbs(&mut mini);
    long_scans(&mut mini);
    oracle(&mut mini);
    regions_that_change(&mut mini);
    truncate(&mut mini);
}

fn verbs(mini: &mut Mini) {
    mini.command("create verbs entry h q").unwrap();
    let table = open(mini, "verbs", mini.ports.regionserver);
    assert_eq!(get(&table, b"a"), None);
    put(&table, b"a", b"1");
    put(&table, b"a", b"");
    assert_eq!(get(&table, b"a"), Some(Vec::new()));
    // Requests several columns, one of them twice; the cells are in the requested order.
    let (empty, bar) = (name("entry:"), name("entry:bar"));
    let value = Change::Put(b"e".to_vec(), None);
    table.change(b"a", &empty, &value, Nonce::default()).unwrap();
    let cells = table.get(b"a", &[bar, empty, foo(), empty]).unwrap();
    let values: Vec<_> = cells
        .iter()
        .map(|cell| cell.as_ref().map(|cell| &cell.value[..]))
        .collect();
    assert_eq!(values, [None, Some(&b"e"[..]), Some(&b""[..]), Some(&b"e"[..])]);
    assert_eq!(change(&table, b"a", &Change::Delete), Ok(ChangeOutcome::Done));
    assert_eq!(get(&table, b"a"), None);
    assert_eq!(change(&table, b"never", &Change::Delete), Ok(ChangeOutcome::Done));

    // Sums wrap. A change with a repeated nonce is executed once, and is answered as it was the first time.
    let nonce = |number| Nonce { group: 9, number };
    for (number, by, sum) in [
        (1, i64::MAX, i64::MAX),
        (2, 2, i64::MIN + 1),
        (2, 2, i64::MIN + 1),
    ] {
        let cell = now(table.change(b"n", &foo(), &Change::Increment(by), nonce(number)));
        assert_eq!(cell.value, sum.to_be_bytes());
    }
    for (number, value) in [(3, &b"x"[..]), (4, b"xx"), (4, b"xx")] {
        let cell = now(table.change(b"s", &foo(), &Change::Append(b"x".to_vec()), nonce(number)));
        assert_eq!(cell.value, value);
    }
    let refused = change(&table, b"s", &Change::Increment(1)).unwrap_err();
    assert_eq!(refused, TableError::NotANumber);

    let check = |expected: Option<&[u8]>, value: &[u8]| {
        let expected = expected.map(<[u8]>::to_vec);
        let value = value.to_vec();
        change(&table, b"c", &Change::CheckAndPut { expected, value })
    };
    assert_eq!(check(Some(b"1"), b"2"), Ok(ChangeOutcome::Mismatch));
    assert_eq!(check(None, b"1"), Ok(ChangeOutcome::Done));
    assert_eq!(check(None, b"2"), Ok(ChangeOutcome::Mismatch));
    assert_eq!(check(Some(b"1"), b"2"), Ok(ChangeOutcome::Done));
    assert_eq!(get(&table, b"c"), Some(b"2".to_vec()));
    assert!(matches!(check(Some(b""), b"3"), Err(TableError::Refused(_))));

    // A cell that has its own lifetime expires.
    change(&table, b"t", &Change::Put(b"1".to_vec(), Some(200))).unwrap();
    let began = Instant::now();
    while get(&table, b"t").is_some() {
        assert!(began.elapsed() < Duration::from_secs(10));
    }
    assert_eq!(table.family_ttl_ms(&foo()), None);

    let unknown = table.get(b"a", &[name("other:x")]).unwrap_err();
    assert!(matches!(unknown, TableError::UnknownFamily(_)), "{unknown:?}");
    assert!(matches!(table.get(b"", &[foo()]), Err(TableError::Refused(_))));
    let server = format!("127.0.0.1:{}", mini.ports.master);
    let none = HBase::connect(&[&server], b"nothing", TIMEOUT).unwrap_err();
    assert!(matches!(none, TableError::Refused(_)), "{none:?}");
}

/// Scans more rows than one call returns, over three regions: in ascending and descending order, and with a limit.
fn long_scans(mini: &mut Mini) {
    const ROWS: usize = 3_500;
    mini.command("create long entry k1000 k3000").unwrap();
    let table = &open(mini, "long", mini.ports.master);
    std::thread::scope(|scope| {
        for part in 0..8 {
            scope.spawn(move || {
                for row in (part..ROWS).step_by(8) {
                    put(table, format!("k{row:04}").as_bytes(), row.to_string().as_bytes());
                }
            });
        }
    });
    for (limit, reverse) in [
        (usize::MAX, false),
        (usize::MAX, true),
        (2_500, false),
        (2_500, true),
        (999, true),
        (ROWS, false),
    ] {
        let found = table.scan(&all(limit, reverse), &[foo()]).unwrap();
        let row = |at: usize| if reverse { ROWS - 1 - at } else { at };
        assert_eq!(found.len(), limit.min(ROWS), "{limit} {reverse}");
        for (at, found) in found.iter().enumerate() {
            assert_eq!(
                found.key,
                format!("k{:04}", row(at)).as_bytes(),
                "{limit} {reverse}"
            );
            assert_eq!(found.cell.value, row(at).to_string().as_bytes());
        }
    }
}

/// One step of the comparison with the embedded table.
#[derive(Clone, Debug)]
enum Step {
    Change(Vec<u8>, usize, Change),
    Get(Vec<u8>, Vec<usize>),
    Scan(ScanRange, Vec<usize>),
}

fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(
            prop_oneof![
                Just(0),
                Just(b'g'),
                Just(b'h'),
                Just(b'p'),
                Just(b','),
                Just(0xff)
            ],
            1..4
        ),
        Just(b"h".to_vec()),
        Just(b"p".to_vec()),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let columns = || proptest::collection::vec(0..3_usize, 1..4);
    let value = || proptest::collection::vec(any::<u8>(), 1..20);
    let change = prop_oneof![
        4 => value().prop_map(|value| Change::Put(value, None)),
        1 => Just(Change::Delete),
        1 => value().prop_map(Change::Append),
        1 => (proptest::option::of(value()), value())
            .prop_map(|(expected, value)| Change::CheckAndPut { expected, value }),
    ];
    let bound = || prop_oneof![Just(Vec::new()), key()];
    let range = (bound(), proptest::option::of(key()), 0..12_usize, any::<bool>());
    prop_oneof![
        3 => (key(), 0..3_usize, change).prop_map(|(key, column, change)| Step::Change(key, column, change)),
        2 => (key(), columns()).prop_map(|(key, columns)| Step::Get(key, columns)),
        2 => (range, columns()).prop_map(|((low, high, limit, reverse), columns)| {
            Step::Scan(ScanRange { low, high, limit, reverse }, columns)
        }),
    ]
}

/// Removes the timestamps, because they differ between HBase and the embedded table.
fn plain(found: &[FoundCell]) -> Vec<(&[u8], usize, &[u8])> {
    found
        .iter()
        .map(|found| (&found.key[..], found.column, &found.cell.value[..]))
        .collect()
}

/// Makes random steps over three regions. Each answer must equal that of the embedded table, and each read must equal
/// that of the Thrift 2 gateway, including timestamps.
fn oracle(mini: &mut Mini) {
    mini.command("create oracle entry h p").unwrap();
    let table = open(mini, "oracle", mini.ports.master);
    let gateway = format!("127.0.0.1:{}", mini.ports.thrift);
    let thrift2 = Thrift2::connect(&gateway, b"oracle", TIMEOUT).unwrap();
    let oracle = Embedded::in_memory(system_clock());
    let columns = [name("entry:a"), name("entry:b"), name("entry:")];
    let named = |chosen: &[usize]| -> Vec<ColumnName> { chosen.iter().map(|at| columns[*at]).collect() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[6; 32]);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let mut rows = 0;
    for _ in 0..2_500 {
        match step().new_tree(&mut runner).unwrap().current() {
            Step::Change(key, column, change) => {
                let changed = table.change(&key, &columns[column], &change, Nonce::default());
                let expected = oracle.change(&key, &columns[column], &change, Nonce::default());
                match (changed, expected) {
                    (Ok(ChangeOutcome::Now(cell)), Ok(ChangeOutcome::Now(expected))) => {
                        assert_eq!(cell.value, expected.value)
                    }
                    (changed, expected) => assert_eq!(changed, expected, "{key:?} {change:?}"),
                }
                if change == Change::Delete {
                    next_millisecond(&table);
                }
            }
            Step::Get(key, chosen) => {
                let chosen = named(&chosen);
                let cells = table.get(&key, &chosen).unwrap();
                let values = |cells: &[Option<Cell>]| -> Vec<Option<Vec<u8>>> {
                    cells
                        .iter()
                        .map(|cell| cell.as_ref().map(|cell| cell.value.clone()))
                        .collect()
                };
                assert_eq!(
                    values(&cells),
                    values(&oracle.get(&key, &chosen).unwrap()),
                    "{key:?}"
                );
                assert_eq!(cells, thrift2.get(&key, &chosen).unwrap(), "{key:?}");
            }
            Step::Scan(range, chosen) => {
                let chosen = named(&chosen);
                let found = table.scan(&range, &chosen).unwrap();
                let expected = oracle.scan(&range, &chosen).unwrap();
                assert_eq!(plain(&found), plain(&expected), "{range:?} {chosen:?}");
                assert_eq!(
                    found,
                    thrift2.scan(&range, &chosen).unwrap(),
                    "{range:?} {chosen:?}"
                );
                rows += found.len();
            }
        }
    }
    assert!(rows > 1_000, "{rows} rows were read");
}

/// Reads and increments while the table's regions split, move and merge. Every scan must find all rows that are not
/// deleted, and every increment must count once.
fn regions_that_change(mini: &mut Mini) {
    const ROWS: u8 = 200;
    const COUNTERS: u8 = 4;
    mini.command("create busy entry k@").unwrap();
    let table = &open(mini, "busy", mini.ports.master);
    for row in 0..ROWS {
        put(table, &[b'k', row], &[row]);
    }
    let (stop, scans, gets) = (&AtomicBool::new(false), &AtomicU64::new(0), &AtomicU64::new(0));
    let (made, open) = (&AtomicU64::new(0), &AtomicU64::new(0));
    std::thread::scope(|scope| {
        for reverse in [false, true] {
            scope.spawn(move || {
                let _end = StopWhenDropped(stop);
                while !stop.load(Relaxed) {
                    let range = ScanRange {
                        low: b"k".to_vec(),
                        high: Some(b"l".to_vec()),
                        ..all(500, reverse)
                    };
                    let mut found = table.scan(&range, &[foo()]).unwrap();
                    if reverse {
                        found.reverse();
                    }
                    let keys: Vec<u8> = found.iter().map(|found| found.key[1]).collect();
                    assert_eq!(keys, (0..ROWS).collect::<Vec<_>>());
                    scans.fetch_add(1, Relaxed);
                }
            });
        }
        scope.spawn(move || {
            let _end = StopWhenDropped(stop);
            let mut row = 0;
            while !stop.load(Relaxed) {
                assert_eq!(get(table, &[b'k', row]), Some(vec![row]));
                row = (row + 1) % ROWS;
                gets.fetch_add(1, Relaxed);
            }
        });
        for counter in 0..COUNTERS {
            scope.spawn(move || {
                let _end = StopWhenDropped(stop);
                let (key, mut least) = ([b'a' + 6 * counter], 0);
                while !stop.load(Relaxed) {
                    match change(table, &key, &Change::Increment(1)) {
                        Ok(ChangeOutcome::Now(cell)) => {
                            let sum = i64::from_be_bytes(cell.value.try_into().unwrap());
                            assert!(sum > least, "{sum} after {least}");
                            least = sum;
                            made.fetch_add(1, Relaxed);
                        }
                        Err(TableError::Unknown(_)) => _ = open.fetch_add(1, Relaxed),
                        other => panic!("{other:?}"),
                    }
                }
            });
        }
        let until_more = |mini: &mut Mini, command: &str| {
            let before = (scans.load(Relaxed), gets.load(Relaxed), made.load(Relaxed));
            mini.command(command).unwrap();
            let is_more = || {
                let now = (scans.load(Relaxed), gets.load(Relaxed), made.load(Relaxed));
                now.0 > before.0 + 2 && now.1 > before.1 && now.2 > before.2
            };
            while !is_more() && !stop.load(Relaxed) {
                std::thread::yield_now();
            }
        };
        // If this thread panics, the guard ends the other threads, too.
        let end = StopWhenDropped(stop);
        // HBase does not split a daughter region again before it was compacted.
        for command in [
            "split busy k0",
            "split busy kZ",
            "move busy k",
            "move busy kb",
            "move busy z",
            "move busy k",
        ] {
            until_more(mini, command);
        }
        drop(end);
    });
    let sum: i64 = (0..COUNTERS)
        .map(|counter| get(table, &[b'a' + 6 * counter]).unwrap())
        .map(|value| i64::from_be_bytes(value.try_into().unwrap()))
        .sum();
    let (made, open) = (made.load(Relaxed), open.load(Relaxed));
    assert!(
        (made..=made + open).contains(&(sum as u64)),
        "{sum} of {made} and {open}"
    );
    println!(
        "{} scans, {} gets, {made} increments, {open} of them open",
        scans.load(Relaxed),
        gets.load(Relaxed)
    );

    mini.command("create merged entry h q").unwrap();
    let table = self::open(mini, "merged", mini.ports.master);
    let keys = [&b"a"[..], b"h", b"m", b"q", b"z"];
    keys.iter().for_each(|key| put(&table, key, key));
    mini.command("merge merged").unwrap();
    assert_eq!(mini.command("regions merged").unwrap(), "2");
    for reverse in [false, true] {
        let mut found = table.scan(&all(9, reverse), &[foo()]).unwrap();
        if reverse {
            found.reverse();
        }
        assert_eq!(found.iter().map(|found| &found.key[..]).collect::<Vec<_>>(), keys);
    }
    keys.iter().for_each(|key| put(&table, key, b"again"));
    assert!(keys.iter().all(|key| get(&table, key) == Some(b"again".to_vec())));
}

struct StopWhenDropped<'a>(&'a AtomicBool);

impl Drop for StopWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

fn truncate(mini: &mut Mini) {
    mini.command("create gone entry m").unwrap();
    let table = open(mini, "gone", mini.ports.master);
    for key in [b"a", b"z"] {
        put(&table, key, b"1");
    }
    mini.command("truncate gone").unwrap();
    assert_eq!(table.scan(&all(9, false), &[foo()]), Ok(Vec::new()));
    for key in [b"a", b"z"] {
        assert_eq!(get(&table, key), None);
        put(&table, key, b"2");
        assert_eq!(get(&table, key), Some(b"2".to_vec()));
    }
    mini.command("drop gone").unwrap();
    let quick = HBase::connect(&[&format!("127.0.0.1:{}", mini.ports.master)], b"gone", TIMEOUT);
    assert!(matches!(quick, Err(TableError::Refused(_))));
}
