//! Tests of the Thrift 2 client with a small gateway over the embedded table. If LINESIDE_THRIFT2 is set to
//! `host:port/table`, the tests also use that real gateway; its table must have the families `a` and `b`.

use lineside_column::embedded::{Embedded, system_clock};
use lineside_column::table::Table;
use lineside_hbase_client::thrift2::Thrift2;
use lineside_hbase_client::thrift2::value::Value;
use lineside_hbase_client::{Change, ChangeOutcome, ColumnName, FoundCell, Nonce, ScanRange, TableError};
use lineside_testkit::ClosedPort;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::io::{BufReader, BufWriter};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TInputProtocol, TMessageIdentifier, TMessageType,
    TOutputProtocol,
};

const TIMEOUT: Duration = Duration::from_secs(5);

fn name(text: &str) -> ColumnName {
    ColumnName::new(text.as_bytes()).unwrap()
}

/// Behaviour of the test's gateway.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Plain,
    /// Executes the first two changes, but closes the connection instead of answering.
    Silent,
}

/// Starts a gateway that supports the calls that the client uses. It runs until the test ends.
fn gateway(table: Arc<Embedded>, manner: Manner) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let changes = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (table, changes) = (Arc::clone(&table), Arc::clone(&changes));
            std::thread::spawn(move || serve(&stream, &table, manner, &changes));
        }
    });
    address
}

fn serve(stream: &TcpStream, table: &Embedded, manner: Manner, changes: &AtomicUsize) -> Option<()> {
    let mut input = TBinaryInputProtocol::new(BufReader::new(stream.try_clone().ok()?), true);
    let mut output = TBinaryOutputProtocol::new(BufWriter::new(stream.try_clone().ok()?), true);
    loop {
        let call = input.read_message_begin().ok()?;
        let arguments = Value::read_struct(&mut input).ok()?;
        input.read_message_end().ok()?;
        let returned = answer(table, &call.name, &arguments);
        if manner == Manner::Silent && call.name == "put" && changes.fetch_add(1, Relaxed) < 2 {
            return None;
        }
        let id = TMessageIdentifier::new(call.name, TMessageType::Reply, call.sequence_number);
        output.write_message_begin(&id).ok()?;
        returned.write(&mut output).ok()?;
        output.write_message_end().ok()?;
        output.flush().ok()?;
    }
}

fn returns(value: Value) -> Value {
    Value::Struct(vec![(0, value)])
}

fn throws(message: &str) -> Value {
    Value::Struct(vec![(
        1,
        Value::Struct(vec![(1, Value::bytes(message.as_bytes()))]),
    )])
}

/// Returns the column that a TColumn or TColumnValue names.
fn column_of(column: &Value) -> Option<ColumnName> {
    ColumnName::new(&[column.bytes_of(1), b":", column.bytes_of(2)].concat())
}

fn result(columns: &[ColumnName], found: &[FoundCell]) -> Value {
    let cell = |found: &FoundCell| {
        let (family, qualifier) = columns[found.column].split();
        Value::Struct(vec![
            (1, Value::bytes(family)),
            (2, Value::bytes(qualifier)),
            (3, Value::bytes(&found.cell.value)),
            (4, Value::I64(found.cell.timestamp_ms as i64)),
        ])
    };
    let cells = (2, Value::List(found.iter().map(cell).collect()));
    match found.first() {
        None => Value::Struct(vec![cells]),
        Some(first) => Value::Struct(vec![
            (1, Value::bytes(&first.key)),
            cells,
            (3, Value::Bool(false)),
        ]),
    }
}

fn answer(table: &Embedded, call: &str, arguments: &Value) -> Value {
    if call == "getTableDescriptor" {
        let name = arguments.field(1).unwrap();
        if name.bytes_of(2) != b"t" {
            return throws("org.apache.hadoop.hbase.TableNotFoundException: no such table");
        }
        let family = |name: &str, life_s| {
            Value::Struct(vec![(1, Value::bytes(name.as_bytes())), (13, Value::I32(life_s))])
        };
        let families = Value::List(vec![family("a", i32::MAX), family("b", 30)]);
        return returns(Value::Struct(vec![(1, name.clone()), (2, families)]));
    }
    assert_eq!(arguments.bytes_of(1), b"t");
    let of_row = arguments.field(2).unwrap();
    let columns: Vec<ColumnName> = match call {
        "getScannerResults" => of_row.list_of(3),
        _ => of_row.list_of(2),
    }
    .iter()
    .map(|column| column_of(column).unwrap())
    .collect();
    if columns.iter().any(|column| column.split().0 == b"none") {
        return throws("NoSuchColumnFamilyException: none");
    }
    let key = of_row.bytes_of(1);
    let change = |column, change| table.change(key, column, &change, Nonce::default());
    let third = |place: usize| of_row.list_of(2)[place].bytes_of(3).to_vec();
    let now = |changed| match changed {
        Ok(ChangeOutcome::Now(cell)) => {
            let found = FoundCell {
                key: key.to_vec(),
                column: 0,
                cell,
            };
            returns(result(&columns, &[found]))
        }
        _ => throws("DoNotRetryIOException: Field is not a long, it's 1 bytes wide"),
    };
    match call {
        "get" => {
            let cells = table.get(key, &columns).unwrap();
            let found: Vec<FoundCell> = cells
                .into_iter()
                .enumerate()
                .filter_map(|(column, cell)| {
                    let key = key.to_vec();
                    cell.map(|cell| FoundCell { key, column, cell })
                })
                .collect();
            returns(result(&columns, &found))
        }
        "put" => change(&columns[0], Change::Put(third(0), None))
            .map(|_| Value::Struct(vec![]))
            .unwrap(),
        "deleteSingle" => {
            assert_eq!(of_row.field(4), Some(&Value::I32(1)), "all versions are deleted");
            change(&columns[0], Change::Delete)
                .map(|_| Value::Struct(vec![]))
                .unwrap()
        }
        "increment" => {
            let Some(Value::I64(by)) = of_row.list_of(2)[0].field(3) else {
                panic!("no amount")
            };
            now(change(&columns[0], Change::Increment(*by)))
        }
        "append" => now(change(&columns[0], Change::Append(third(0)))),
        "checkAndPut" => check_and_put(table, arguments),
        "getScannerResults" => scan(table, of_row, arguments, &columns),
        other => panic!("{other} is not used by the client"),
    }
}

fn check_and_put(table: &Embedded, arguments: &Value) -> Value {
    let column = [arguments.bytes_of(3), b":", arguments.bytes_of(4)].concat();
    let put = arguments.field(6).unwrap();
    let change = Change::CheckAndPut {
        expected: arguments.field(5).map(|_| arguments.bytes_of(5).to_vec()),
        value: put.list_of(2)[0].bytes_of(3).to_vec(),
    };
    let key = arguments.bytes_of(2);
    assert_eq!(put.bytes_of(1), key);
    let changed = table.change(key, &ColumnName::new(&column).unwrap(), &change, Nonce::default());
    returns(Value::Bool(changed.unwrap() == ChangeOutcome::Done))
}

/// Scans with HBase's bounds: in both directions, the start row is inclusive and the stop row is exclusive.
fn scan(table: &Embedded, scan: &Value, arguments: &Value, columns: &[ColumnName]) -> Value {
    let reverse = scan.field(11) == Some(&Value::Bool(true));
    let Some(Value::I32(limit)) = arguments.field(3) else {
        panic!("no number of rows")
    };
    let (start, stop) = (scan.bytes_of(1).to_vec(), scan.bytes_of(2).to_vec());
    let all = ScanRange {
        low: Vec::new(),
        high: None,
        limit: usize::MAX,
        reverse,
    };
    let found = table.scan(&all, columns).unwrap();
    let is_in = |key: &Vec<u8>| match reverse {
        false => *key >= start && (stop.is_empty() || *key < stop),
        true => (start.is_empty() || *key <= start) && (stop.is_empty() || *key > stop),
    };
    let rows = found.chunk_by(|one, other| one.key == other.key);
    let rows = rows.filter(|row| is_in(&row[0].key)).take(*limit as usize);
    returns(Value::List(rows.map(|row| result(columns, row)).collect()))
}

#[derive(Clone, Debug)]
enum Step {
    Change(u8, usize, Change),
    Get(u8),
    Scan(u8, Option<u8>, usize, bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let value = || proptest::collection::vec(0u8..3, 1..3);
    let change = prop_oneof![
        4 => value().prop_map(|value| Change::Put(value, None)),
        2 => Just(Change::Delete),
        1 => any::<i64>().prop_map(Change::Increment),
        1 => value().prop_map(Change::Append),
        2 => (proptest::option::of(value()), value())
            .prop_map(|(expected, value)| Change::CheckAndPut { expected, value }),
    ];
    let step = prop_oneof![
        6 => (1u8..6, 0usize..2, change).prop_map(|(key, column, change)| Step::Change(key, column, change)),
        2 => (1u8..6).prop_map(Step::Get),
        3 => (0u8..6, proptest::option::of(0u8..7), 0usize..4, any::<bool>())
            .prop_map(|(low, high, limit, reverse)| Step::Scan(low, high, limit, reverse)),
    ];
    proptest::collection::vec(step, 1..40)
}

fn without_times(found: Vec<FoundCell>) -> Vec<(Vec<u8>, usize, Vec<u8>)> {
    found
        .into_iter()
        .map(|found| (found.key, found.column, found.cell.value))
        .collect()
}

/// Applies the same steps to `table` and to an embedded table, and compares the results.
fn check(table: &Thrift2, steps: &[Step]) -> Result<(), TestCaseError> {
    let model = Embedded::in_memory(system_clock());
    let columns = [name("a:x"), name("b:x")];
    for key in 1..7 {
        for column in &columns {
            table
                .change(&[key], column, &Change::Delete, Nonce::default())
                .unwrap();
        }
    }
    for step in steps {
        match step {
            Step::Change(key, column, change) => {
                let said = table.change(&[*key], &columns[*column], change, Nonce::default());
                match model.change(&[*key], &columns[*column], change, Nonce::default()) {
                    Ok(ChangeOutcome::Now(due)) => {
                        let Ok(ChangeOutcome::Now(cell)) = said else {
                            return Err(TestCaseError::fail(format!("{change:?}: {said:?}")));
                        };
                        prop_assert_eq!(cell.value, due.value);
                    }
                    Ok(due) => prop_assert_eq!(said, Ok(due)),
                    Err(error) => prop_assert_eq!(said, Err(error)),
                }
            }
            Step::Get(key) => {
                let values = |table: &dyn Table| -> Vec<Option<Vec<u8>>> {
                    let cells = table.get(&[*key], &columns).unwrap();
                    cells
                        .into_iter()
                        .map(|cell| cell.map(|cell| cell.value))
                        .collect()
                };
                prop_assert_eq!(values(table), values(&model));
            }
            Step::Scan(low, high, limit, reverse) => {
                let range = ScanRange {
                    low: vec![*low],
                    high: high.map(|high| vec![high]),
                    limit: *limit,
                    reverse: *reverse,
                };
                let said = without_times(table.scan(&range, &columns).unwrap());
                prop_assert_eq!(said, without_times(model.scan(&range, &columns).unwrap()));
            }
        }
    }
    Ok(())
}

fn check_all(table: &Thrift2, cases: u32) {
    let mut runner = TestRunner::new(ProptestConfig::with_cases(cases));
    runner.run(&steps(), |steps| check(table, &steps)).unwrap();
}

fn memory() -> Arc<Embedded> {
    Arc::new(Embedded::in_memory(system_clock()))
}

#[test]
fn a_table_behaves_the_same_through_a_gateway() {
    let gateway = gateway(memory(), Manner::Plain);
    let table = Thrift2::connect(&gateway, b"t", TIMEOUT).unwrap();
    assert_eq!(table.family_ttl_ms(&name("a:x")), None);
    assert_eq!(table.family_ttl_ms(&name("b:x")), Some(30_000));
    check_all(&table, 60);
}

#[test]
fn a_table_behaves_the_same_through_a_real_gateway() {
    let Ok(place) = std::env::var("LINESIDE_THRIFT2") else {
        return eprintln!("skipped: LINESIDE_THRIFT2 names no gateway (host:port/table)");
    };
    let (gateway, table) = place.split_once('/').expect("host:port/table");
    let table = Thrift2::connect(gateway, table.as_bytes(), Duration::from_secs(30)).unwrap();
    check_all(&table, 20);
}

#[test]
fn impossible_requests_are_refused_and_unknown_outcomes_reported() {
    let table = memory();
    let refused = Thrift2::connect(&gateway(Arc::clone(&table), Manner::Plain), b"other", TIMEOUT);
    assert!(matches!(refused, Err(TableError::Refused(_))), "{refused:?}");
    let closed = ClosedPort::new();
    let unreachable = Thrift2::connect(&closed.address().to_string(), b"t", TIMEOUT);
    assert!(
        matches!(unreachable, Err(TableError::Unavailable(_))),
        "{unreachable:?}"
    );

    let thrift2 = Thrift2::connect(&gateway(Arc::clone(&table), Manner::Silent), b"t", TIMEOUT).unwrap();
    let column = name("a:x");
    let change = |column: &ColumnName, change| thrift2.change(b"k", column, &change, Nonce::default());
    let put = || Change::Put(b"v".to_vec(), None);
    // The gateway makes the change but does not answer. The client does not use the connection again.
    for _ in 0..2 {
        assert!(matches!(change(&column, put()), Err(TableError::Unknown(_))));
    }
    assert_eq!(
        thrift2.get(b"k", &[column]).unwrap()[0].as_ref().unwrap().value,
        b"v"
    );
    assert_eq!(change(&column, put()), Ok(ChangeOutcome::Done));
    let missing = name("none:x");
    assert!(matches!(
        change(&missing, put()),
        Err(TableError::UnknownFamily(_))
    ));
    assert!(matches!(
        thrift2.get(b"k", &[missing]),
        Err(TableError::UnknownFamily(_))
    ));
    let empty = Change::CheckAndPut {
        expected: Some(Vec::new()),
        value: b"w".to_vec(),
    };
    assert!(matches!(change(&column, empty), Err(TableError::Refused(_))));
    let short_lived = Change::Put(b"v".to_vec(), Some(5));
    assert!(matches!(
        change(&column, short_lived),
        Err(TableError::Refused(_))
    ));
}
