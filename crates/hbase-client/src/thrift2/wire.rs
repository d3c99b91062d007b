//! Arguments and results of the gateway's calls, with the field numbers of `hbase.thrift`.

use super::value::Value;
use crate::{Cell, ColumnName, FoundCell, ROW_BYTES_MAX, ScanRange};

/// Maximum number of rows that one call reads.
const ROWS_MAX: usize = 10_000;
/// Value of `TDeleteType.DELETE_COLUMNS`, which deletes all versions of a column.
const DELETE_COLUMNS: i32 = 1;

/// Returns the fields of a TColumn. TColumnValue and TColumnIncrement begin with the same fields.
fn name(column: &ColumnName) -> Vec<(i16, Value)> {
    let (family, qualifier) = column.split();
    vec![(1, Value::bytes(family)), (2, Value::bytes(qualifier))]
}

fn names(columns: &[ColumnName]) -> Value {
    Value::List(columns.iter().map(|column| Value::Struct(name(column))).collect())
}

/// Returns a list that has one TColumnValue or TColumnIncrement.
fn one(column: &ColumnName, third: Value) -> Value {
    let mut fields = name(column);
    fields.push((3, third));
    Value::List(vec![Value::Struct(fields)])
}

/// Returns the arguments of a call that take a table's name and a struct about one row.
fn of_row(table: &[u8], key: &[u8], mut fields: Vec<(i16, Value)>) -> Value {
    fields.insert(0, (1, Value::bytes(key)));
    Value::Struct(vec![(1, Value::bytes(table)), (2, Value::Struct(fields))])
}

/// Returns the arguments of `getTableDescriptor`.
pub(super) fn table_name(table: &[u8]) -> Value {
    let mut parts = table.splitn(2, |byte| *byte == b':');
    let (first, second) = (parts.next().unwrap_or_default(), parts.next());
    let name = match second {
        // The name has the form `namespace:table`.
        Some(second) => vec![(1, Value::bytes(first)), (2, Value::bytes(second))],
        None => vec![(2, Value::bytes(first))],
    };
    Value::Struct(vec![(1, Value::Struct(name))])
}

/// Returns the arguments of `get`.
pub(super) fn get(table: &[u8], key: &[u8], columns: &[ColumnName]) -> Value {
    of_row(table, key, vec![(2, names(columns))])
}

/// Returns the arguments of `put`.
pub(super) fn put(table: &[u8], key: &[u8], column: &ColumnName, value: &[u8]) -> Value {
    of_row(table, key, vec![(2, one(column, Value::bytes(value)))])
}

/// Returns the arguments of `deleteSingle`.
pub(super) fn delete(table: &[u8], key: &[u8], column: &ColumnName) -> Value {
    let columns = names(std::slice::from_ref(column));
    of_row(table, key, vec![(2, columns), (4, Value::I32(DELETE_COLUMNS))])
}

/// Returns the arguments of `increment`.
pub(super) fn increment(table: &[u8], key: &[u8], column: &ColumnName, by: i64) -> Value {
    let columns = one(column, Value::I64(by));
    of_row(table, key, vec![(2, columns), (7, Value::Bool(true))])
}

/// Returns the arguments of `append`.
pub(super) fn append(table: &[u8], key: &[u8], column: &ColumnName, tail: &[u8]) -> Value {
    let columns = one(column, Value::bytes(tail));
    of_row(table, key, vec![(2, columns), (6, Value::Bool(true))])
}

/// Returns the arguments of `checkAndPut`.
pub(super) fn check_and_put(
    table: &[u8],
    key: &[u8],
    column: &ColumnName,
    expected: Option<&[u8]>,
    value: &[u8],
) -> Value {
    let (family, qualifier) = column.split();
    let put = vec![(1, Value::bytes(key)), (2, one(column, Value::bytes(value)))];
    let mut fields = vec![
        (1, Value::bytes(table)),
        (2, Value::bytes(key)),
        (3, Value::bytes(family)),
        (4, Value::bytes(qualifier)),
    ];
    fields.extend(expected.map(|expected| (5, Value::bytes(expected))));
    fields.push((6, Value::Struct(put)));
    Value::Struct(fields)
}

/// Returns the arguments of `getScannerResults`; `None` if the range contains no row. In a reverse scan, HBase's start
/// row is inclusive and its stop row is exclusive. But `high` is exclusive and `low` is inclusive, so each bound is
/// replaced by the key directly before it.
pub(super) fn scan(table: &[u8], range: &ScanRange, columns: &[ColumnName]) -> Option<Value> {
    let (start, stop) = match (&range.high, range.reverse) {
        (high, false) => (range.low.clone(), high.clone().unwrap_or_default()),
        (None, true) => (Vec::new(), before(&range.low)),
        (Some(high), true) => (before(high), before(&range.low)),
    };
    let is_below_all = range.reverse && range.high.is_some() && start.is_empty();
    let rows = Value::I32(range.limit.min(ROWS_MAX) as i32);
    let scan = vec![
        (1, Value::Bytes(start)),
        (2, Value::Bytes(stop)),
        (3, names(columns)),
        (4, rows.clone()),
        (11, Value::Bool(range.reverse)),
        (15, rows.clone()),
    ];
    let fields = vec![(1, Value::bytes(table)), (2, Value::Struct(scan)), (3, rows)];
    (!is_below_all).then_some(Value::Struct(fields))
}

/// Returns a key before `key` such that no row of at most [`ROW_BYTES_MAX`] bytes lies between the two. For the first
/// key, returns the first key itself.
fn before(key: &[u8]) -> Vec<u8> {
    match key.split_last() {
        None => Vec::new(),
        Some((0, rest)) => rest.to_vec(),
        Some((last, rest)) => {
            let mut bytes = [rest, &[last - 1]].concat();
            bytes.resize(bytes.len().max(ROW_BYTES_MAX), 0xff);
            bytes
        }
    }
}

/// Returns the cells in a TResult, in the order of the requested columns.
pub(super) fn cells(result: &Value, columns: &[ColumnName]) -> Vec<FoundCell> {
    let key = result.bytes_of(1);
    let cell = |(column, name): (usize, &ColumnName)| {
        let (family, qualifier) = name.split();
        let mut cells = result.list_of(2).iter();
        let cell = cells.find(|cell| cell.bytes_of(1) == family && cell.bytes_of(2) == qualifier)?;
        let timestamp_ms = match cell.field(4) {
            Some(Value::I64(ms)) => (*ms).max(0) as u64,
            _ => 0,
        };
        Some(FoundCell {
            key: key.to_vec(),
            column,
            cell: Cell {
                value: cell.bytes_of(3).to_vec(),
                timestamp_ms,
                expires_ms: None,
            },
        })
    };
    columns.iter().enumerate().filter_map(cell).collect()
}

/// Returns the column families in a TTableDescriptor, each with the lifetime of its cells in seconds if it is set.
pub(super) fn families(descriptor: &Value) -> Vec<(Vec<u8>, Option<i32>)> {
    let family = |family: &Value| {
        let life_s = match family.field(13) {
            Some(Value::I32(life_s)) => Some(*life_s),
            _ => None,
        };
        (family.bytes_of(1).to_vec(), life_s)
    };
    descriptor.list_of(2).iter().map(family).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_key_lies_between_a_key_and_the_key_before_it() {
        assert_eq!(before(b""), b"");
        assert_eq!(before(b"a\0"), b"a");
        let below = before(b"b");
        assert!(below.len() == ROW_BYTES_MAX && below.starts_with(b"a\xff") && below[..] < b"b"[..]);
    }
}
