//! Tests of the embedded table, in memory and in a directory, against a simple model.

use lineside_column::embedded::{CELL_BYTES_MAX, ChangeListener, Clock, Embedded, Limits};
use lineside_column::table::{
    Cell, Change, ChangeOutcome, ColumnName, FoundCell, Nonce, ScanRange, Table, TableError,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

fn name(text: &str) -> ColumnName {
    ColumnName::new(text.as_bytes()).unwrap()
}

/// Returns a clock, and the number with which the test sets its time in milliseconds.
fn hand_clock() -> (Arc<AtomicU64>, Clock) {
    let time = Arc::new(AtomicU64::new(1_000));
    let read = Arc::clone(&time);
    (time, Arc::new(move || read.load(Relaxed)))
}

#[derive(Clone, Debug)]
enum Step {
    Change(u8, usize, Change),
    Get(u8),
    Scan(u8, Option<u8>, usize, bool, bool),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let value = || proptest::collection::vec(0u8..3, 0..3);
    let change = prop_oneof![
        4 => (value(), proptest::option::of(1u64..50)).prop_map(|(value, ttl)| Change::Put(value, ttl)),
        2 => Just(Change::Delete),
        1 => any::<i64>().prop_map(Change::Increment),
        1 => value().prop_map(Change::Append),
        2 => (proptest::option::of(value()), value())
            .prop_map(|(expected, value)| Change::CheckAndPut { expected, value }),
    ];
    let step = prop_oneof![
        6 => (0u8..6, 0usize..2, change).prop_map(|(key, column, change)| Step::Change(key, column, change)),
        2 => (0u8..6).prop_map(Step::Get),
        3 => (0u8..6, proptest::option::of(0u8..7), 0usize..5, any::<bool>(), any::<bool>())
            .prop_map(|(low, high, limit, reverse, both)| Step::Scan(low, high, limit, reverse, both)),
        1 => (0u64..40).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..40)
}

#[derive(Default)]
struct Model {
    cells: BTreeMap<(Vec<u8>, usize), Cell>,
    now_ms: u64,
}

impl Model {
    fn get(&self, key: &[u8], column: usize) -> Option<Cell> {
        let cell = self.cells.get(&(key.to_vec(), column))?;
        let is_over = cell.expires_ms.is_some_and(|end| end <= self.now_ms);
        (!is_over).then(|| cell.clone())
    }

    fn change(&mut self, key: &[u8], column: usize, change: &Change) -> Option<ChangeOutcome> {
        let held = self.get(key, column);
        let value = held.as_ref().map(|cell| cell.value.clone());
        let (value, ttl, says) = match change {
            Change::Delete => {
                self.cells.remove(&(key.to_vec(), column));
                return Some(ChangeOutcome::Done);
            }
            Change::Put(value, ttl) => (value.clone(), *ttl, false),
            Change::Increment(by) => {
                let held: [u8; 8] = value.map_or(Some([0; 8]), |value| value.try_into().ok())?;
                let sum = i64::from_be_bytes(held).wrapping_add(*by);
                (sum.to_be_bytes().to_vec(), None, true)
            }
            Change::Append(tail) => ([value.unwrap_or_default(), tail.clone()].concat(), None, true),
            Change::CheckAndPut { expected, value: new } => {
                if value != *expected {
                    return Some(ChangeOutcome::Mismatch);
                }
                (new.clone(), None, false)
            }
        };
        // Column 1 belongs to a family with a time to live of 30 ms.
        let ttl = [ttl, (column == 1).then_some(30)].into_iter().flatten().min();
        let cell = Cell {
            value,
            timestamp_ms: self.now_ms,
            expires_ms: ttl.map(|ttl| self.now_ms + ttl),
        };
        self.cells.insert((key.to_vec(), column), cell.clone());
        Some(if says {
            ChangeOutcome::Now(cell)
        } else {
            ChangeOutcome::Done
        })
    }

    fn scan(&self, range: &ScanRange, columns: &[usize]) -> Vec<FoundCell> {
        let mut keys: Vec<&Vec<u8>> = self.cells.keys().map(|(key, _)| key).collect();
        keys.dedup();
        if range.reverse {
            keys.reverse();
        }
        let is_in =
            |key: &&&Vec<u8>| ***key >= range.low && range.high.as_ref().is_none_or(|high| ***key < *high);
        let row = |key: &Vec<u8>| -> Vec<FoundCell> {
            let cells = columns.iter().enumerate();
            let found = cells.filter_map(|(place, column)| {
                let cell = self.get(key, *column)?;
                let key = key.clone();
                Some(FoundCell {
                    key,
                    column: place,
                    cell,
                })
            });
            found.collect()
        };
        let rows = keys.iter().filter(is_in).map(|key| row(key));
        rows.filter(|row| !row.is_empty())
            .take(range.limit)
            .flatten()
            .collect()
    }
}

fn check(table: &Embedded, time: &AtomicU64, steps: &[Step]) -> Result<(), TestCaseError> {
    let columns = [name("a:x"), name("b:x")];
    let mut model = Model::default();
    for step in steps {
        model.now_ms = time.load(Relaxed);
        match step {
            Step::Change(key, column, change) => {
                let said = table.change(&[*key + 1], &columns[*column], change, Nonce::default());
                match model.change(&[*key + 1], *column, change) {
                    Some(due) => prop_assert_eq!(said, Ok(due)),
                    None => prop_assert_eq!(said, Err(TableError::NotANumber)),
                }
            }
            Step::Get(key) => {
                let said = table.get(&[*key + 1], &columns).unwrap();
                prop_assert_eq!(said, vec![model.get(&[*key + 1], 0), model.get(&[*key + 1], 1)]);
            }
            Step::Scan(low, high, limit, reverse, both) => {
                let range = ScanRange {
                    low: vec![*low],
                    high: high.map(|high| vec![high]),
                    limit: *limit,
                    reverse: *reverse,
                };
                let wanted: &[usize] = if *both { &[1, 0] } else { &[1] };
                let names: Vec<_> = wanted.iter().map(|column| columns[*column]).collect();
                prop_assert_eq!(table.scan(&range, &names).unwrap(), model.scan(&range, wanted));
            }
            Step::Wait(ms) => {
                time.fetch_add(*ms, Relaxed);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_table_in_memory_behaves_as_the_model(steps in steps()) {
        let (time, clock) = hand_clock();
        check(&Embedded::in_memory(clock).with_ttl(b"b", 30), &time, &steps)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn the_table_in_a_directory_behaves_as_the_model(steps in steps()) {
        let (time, clock) = hand_clock();
        let directory = tempfile::tempdir().unwrap();
        check(&Embedded::open(directory.path(), clock).unwrap().with_ttl(b"b", 30), &time, &steps)?;
    }
}

#[test]
fn written_cells_survive_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let column = name("cf:a");
    let put = |table: &Embedded, key: u32| {
        let change = Change::Put(key.to_be_bytes().to_vec(), None);
        table.change(&key.to_be_bytes(), &column, &change, Nonce::default())
    };
    {
        let table = Embedded::open(directory.path(), hand_clock().1).unwrap();
        // Several threads write at the same time, so that their changes are written to the disk in groups.
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (table, put) = (&table, &put);
                scope.spawn(move || (0..25).for_each(|key| drop(put(table, 25 * thread + key).unwrap())));
            }
        });
    }
    let table = Embedded::open(directory.path(), hand_clock().1).unwrap();
    let all = ScanRange {
        low: Vec::new(),
        high: None,
        limit: 1000,
        reverse: false,
    };
    let found = table.scan(&all, &[column]).unwrap();
    assert_eq!(found.len(), 100);
    assert!(found.iter().all(|found| found.cell.value == found.key));
}

#[test]
fn a_repeated_nonce_changes_nothing() {
    let table = Embedded::in_memory(hand_clock().1);
    let (column, by) = (name("cf:n"), Change::Increment(5));
    let nonce = |number| Nonce { group: 7, number };
    let first = table.change(b"k", &column, &by, nonce(1)).unwrap();
    assert_eq!(table.change(b"k", &column, &by, nonce(1)).unwrap(), first);
    assert_ne!(table.change(b"k", &column, &by, nonce(2)).unwrap(), first);
    // The default nonce means "no nonce".
    let none = table.change(b"k", &column, &by, Nonce::default()).unwrap();
    assert_ne!(table.change(b"k", &column, &by, Nonce::default()).unwrap(), none);
    let held = table.get(b"k", &[column]).unwrap();
    assert_eq!(held[0].as_ref().unwrap().value, 20i64.to_be_bytes());
}

type RowChange = (&'static str, Option<Vec<u8>>);

/// Listener that records its calls, and which value readers see at that moment.
#[derive(Debug)]
struct Witness {
    table: Mutex<Option<std::sync::Weak<Embedded>>>,
    seen: Mutex<Vec<RowChange>>,
}

impl Witness {
    fn look(&self, when: &'static str) {
        let table = self.table.lock().unwrap().clone().unwrap().upgrade().unwrap();
        let cell = table.get(b"k", &[name("cf:a")]).unwrap().pop().unwrap();
        self.seen
            .lock()
            .unwrap()
            .push((when, cell.map(|cell| cell.value)));
    }
}

impl ChangeListener for Witness {
    fn begin_write(&self, key: &[u8], column: &ColumnName) -> u64 {
        assert_eq!((key, *column), (&b"k"[..], name("cf:a")));
        self.look("pre");
        9
    }

    fn end_write(&self, mark: u64) {
        assert_eq!(mark, 9);
        self.look("post");
    }
}

#[test]
fn listeners_are_notified_before_a_change_is_visible_and_after() {
    let directory = tempfile::tempdir().unwrap();
    for table in [
        Embedded::in_memory(hand_clock().1),
        Embedded::open(directory.path(), hand_clock().1).unwrap(),
    ] {
        let table = Arc::new(table);
        let witness = Arc::new(Witness {
            table: Mutex::new(Some(Arc::downgrade(&table))),
            seen: Mutex::default(),
        });
        table.set_listener(witness.clone());
        let change = |change| {
            table
                .change(b"k", &name("cf:a"), &change, Nonce::default())
                .unwrap()
        };
        change(Change::Put(b"1".to_vec(), None));
        change(Change::CheckAndPut {
            expected: None,
            value: b"2".to_vec(),
        });
        change(Change::Delete);
        let one = || Some(b"1".to_vec());
        let due = [("pre", None), ("post", one()), ("pre", one()), ("post", None)];
        assert_eq!(*witness.seen.lock().unwrap(), due);
    }
}

/// Appends `bytes` bytes to the cell of `row`. The change has the nonce number `number`.
fn append(table: &Embedded, row: u16, bytes: usize, number: u64) -> Result<ChangeOutcome, TableError> {
    let tail = Change::Append(vec![7; bytes]);
    table.change(
        &row.to_be_bytes(),
        &name("cf:a"),
        &tail,
        Nonce { group: 0, number },
    )
}

/// Without a limit on memory, 1,100 of these appends would take 1 GiB.
#[test]
fn many_appends_stay_within_the_memory_limit_and_none_is_applied_twice() {
    let directory = tempfile::tempdir().unwrap();
    let limits = Limits {
        rows_bytes: 4 << 20,
        // Half of this memory is for nonces; the test uses fewer nonces than fit.
        nonces_bytes: 4 << 20,
    };
    let tables = [
        Embedded::in_memory_within(&limits, hand_clock().1),
        Embedded::open_within(directory.path(), &limits, hand_clock().1).unwrap(),
    ];
    for (table, appends) in tables.into_iter().zip([6_000, 300]) {
        let (mut too_long, mut done) = (0, Vec::new());
        for number in 1..=appends {
            let row = (number % 7) as u16;
            match append(&table, row, 1000, number) {
                Ok(ChangeOutcome::Now(cell)) => {
                    assert!(cell.value.len() <= CELL_BYTES_MAX);
                    done.push((number, row, cell));
                }
                Err(TableError::TooLong(_)) => {
                    too_long += 1;
                    // The cell is deleted and written again, so that each result contains a long value.
                    table
                        .change(
                            &row.to_be_bytes(),
                            &name("cf:a"),
                            &Change::Delete,
                            Nonce::default(),
                        )
                        .unwrap();
                }
                other => panic!("append {number}: {other:?}"),
            }
            let (nonces, rows) = table.kept_bytes();
            assert!(nonces <= limits.nonces_bytes, "{nonces} bytes of results");
            assert!(rows <= limits.rows_bytes, "{rows} bytes of rows");
        }
        assert_eq!(too_long > 0, appends > 7 * 131);
        let before = table.get(&1u16.to_be_bytes(), &[name("cf:a")]).unwrap();
        let (mut stored, mut unknown) = (0, 0);
        for (number, row, cell) in done {
            match append(&table, row, 1000, number) {
                Ok(ChangeOutcome::Now(now)) if now == cell => stored += 1,
                Err(TableError::Unknown(_)) => unknown += 1,
                other => panic!("append {number} again: {other:?}"),
            }
        }
        assert!(stored > 0 && unknown > 0, "{stored} stored, {unknown} unknown");
        assert_eq!(table.get(&1u16.to_be_bytes(), &[name("cf:a")]).unwrap(), before);
    }
}

#[test]
fn a_full_table_in_memory_refuses_only_changes_that_make_it_larger() {
    let limits = Limits {
        rows_bytes: 100_000,
        ..Limits::default()
    };
    let table = Embedded::in_memory_within(&limits, hand_clock().1);
    let change =
        |row: u16, change| table.change(&row.to_be_bytes(), &name("cf:a"), &change, Nonce::default());
    let mut rows = 0;
    let refused = loop {
        match change(rows, Change::Put(vec![1; 1000], None)) {
            Ok(_) => rows += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, TableError::Full(_)), "{refused:?}");
    assert!((80..100).contains(&rows), "{rows} rows");
    change(0, Change::Put(vec![2; 1000], None)).unwrap();
    assert!(matches!(
        change(0, Change::Append(vec![2; 2000])),
        Err(TableError::Full(_))
    ));
    change(1, Change::Delete).unwrap();
    change(rows, Change::Put(vec![3; 1000], None)).unwrap();
}
