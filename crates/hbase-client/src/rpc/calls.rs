//! Encoding of the requests to a region, and decoding and validation of the answers: they must contain only cells of
//! the requested rows and columns, each cell once, and in the right order.

use super::Region;
use super::catalog::decode;
use super::frame::Malformed;
use super::messages::{
    APPEND, BinaryComparator, ByteArrayComparable, CELL_PUT, Cell as WireCell, Column, ColumnValue,
    Comparator, Condition, DELETE, DELETE_MULTIPLE_VERSIONS, EQUAL, Get, GetRequest, GetResponse, INCREMENT,
    MutateRequest, MutateResponse, Mutation, NameBytesPair, PREAD, PUT, QualifierValue, REGION_NAME,
    RegionSpecifier, Row, Scan, ScanRequest, ScanResponse,
};
use crate::{Cell, Change, ChangeOutcome, ColumnName, FoundCell, Nonce, ScanRange};
use bytes::Bytes;
use std::collections::BTreeMap;

/// Number of bytes of rows after which a region server ends one part of a scan.
const SCAN_BYTES: u64 = 2 << 20;
const BINARY_COMPARATOR: &str = "org.apache.hadoop.hbase.filter.BinaryComparator";
/// Name of the attribute of a put that sets the lifetime of its cell, in milliseconds as eight big-endian bytes.
const TTL: &str = "_ttl";

pub(super) fn specifier(region: &Region) -> RegionSpecifier {
    RegionSpecifier {
        kind: REGION_NAME,
        value: region.name.clone(),
    }
}

fn names(columns: &[ColumnName]) -> Vec<Column> {
    let mut families: BTreeMap<&[u8], Vec<Vec<u8>>> = BTreeMap::new();
    for column in columns {
        let (family, qualifier) = column.split();
        families.entry(family).or_default().push(qualifier.to_vec());
    }
    let families = families.into_iter();
    families
        .map(|(family, qualifier)| Column {
            family: family.to_vec(),
            qualifier,
        })
        .collect()
}

/// Returns the row key of a result's cells; `None` if the result has no cells.
fn row_of(row: &Row) -> Result<Option<&Bytes>, Malformed> {
    if row.associated_cell_count.unwrap_or(0) != 0 || row.partial.unwrap_or(false) {
        return Err(Malformed("a row is incomplete"));
    }
    if row.stale.unwrap_or(false) {
        return Err(Malformed("a row comes from a stale replica"));
    }
    let Some(first) = row.cell.first() else {
        return Ok(None);
    };
    let key = first.row.as_ref().filter(|key| !key.is_empty());
    let key = key.ok_or(Malformed("a cell has no row"))?;
    let is_of_it = |cell: &WireCell| cell.row.as_ref() == Some(key);
    if !row.cell.iter().all(is_of_it) {
        return Err(Malformed("a row has cells of another row"));
    }
    Ok(Some(key))
}

fn cell_of(cell: &WireCell) -> Cell {
    Cell {
        value: cell.value.as_deref().unwrap_or_default().to_vec(),
        timestamp_ms: cell.timestamp.unwrap_or(0),
        expires_ms: None,
    }
}

/// Returns a row's cells: one entry for each of `columns`, which is `None` if the row has no such cell.
fn cells_of(row: &Row, columns: &[ColumnName]) -> Result<Vec<Option<Cell>>, Malformed> {
    let mut cells = vec![None; columns.len()];
    for cell in &row.cell {
        let name = (
            cell.family.as_deref().unwrap_or_default(),
            cell.qualifier.as_deref().unwrap_or_default(),
        );
        if cell.cell_type.unwrap_or(CELL_PUT) != CELL_PUT {
            return Err(Malformed("a cell is not of the type PUT"));
        }
        let mut is_known = false;
        for (slot, column) in cells.iter_mut().zip(columns) {
            if column.split() != name {
                continue;
            }
            if slot.is_some() {
                return Err(Malformed("a row has a cell twice"));
            }
            *slot = Some(cell_of(cell));
            is_known = true;
        }
        if !is_known {
            return Err(Malformed("a cell is of a column that was not requested"));
        }
    }
    Ok(cells)
}

// ---- get ----

pub(super) fn get(region: &Region, key: &[u8], columns: &[ColumnName]) -> GetRequest {
    GetRequest {
        region: specifier(region),
        get: Get {
            row: key.to_vec(),
            column: names(columns),
        },
    }
}

/// Decodes the answer to a get of `key`. Returns the cells in the order of `columns`.
///
/// # Errors
/// [`Malformed`] if the bytes are not a valid answer to that get.
pub fn got(answer: Bytes, key: &[u8], columns: &[ColumnName]) -> Result<Vec<Option<Cell>>, Malformed> {
    let answer: GetResponse = decode(answer)?;
    let Some(row) = answer.result else {
        return Err(Malformed("the answer to a get has no result"));
    };
    if row_of(&row)?.is_some_and(|found| found != key) {
        return Err(Malformed("the row was not requested"));
    }
    cells_of(&row, columns)
}

// ---- scan ----

/// Part of a scan: the range that is still to be read, or the portion of it in one region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanPart {
    /// Lowest row of the part (inclusive).
    pub low: Vec<u8>,
    /// First row after the part; `None` if the part extends to the end of the table.
    pub high: Option<Vec<u8>>,
    /// True if the rows are read in descending order.
    pub reverse: bool,
    /// Maximum number of rows.
    pub rows: u32,
}

/// Answer to a part of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanPiece {
    /// Cells, ordered by row; the cells of a row are in the order of the requested columns.
    pub cells: Vec<FoundCell>,
    /// Number of rows.
    pub rows: usize,
    /// True if this region may have more rows of the part. If it is true and there is no row, the server's time was
    /// over before it had read the first row.
    pub more: bool,
    /// Id of the scanner that can continue the scan, if the server left one open.
    pub scanner: Option<u64>,
}

impl ScanPart {
    /// Returns the part of a scan that `range` describes, with at most `rows` rows; `None` if the range is empty.
    pub(super) fn of(range: &ScanRange, rows: u32) -> Option<Self> {
        let is_empty = range.high.as_ref().is_some_and(|high| *high <= range.low);
        (!is_empty && rows > 0).then(|| Self {
            low: range.low.clone(),
            high: range.high.clone(),
            reverse: range.reverse,
            rows,
        })
    }

    /// Returns the portion of this part that lies in `region`.
    pub(super) fn within(&self, region: &Region) -> Self {
        let end = Some(&region.end).filter(|end| !end.is_empty());
        Self {
            low: self.low.clone().max(region.start.clone()),
            high: [self.high.as_ref(), end].into_iter().flatten().min().cloned(),
            ..*self
        }
    }

    fn contains(&self, key: &[u8]) -> bool {
        &self.low[..] <= key && self.high.as_ref().is_none_or(|high| key < &high[..])
    }
}

/// Returns the request that opens a scanner on a region and reads the part. If `close` is true, it also closes the
/// scanner.
pub(super) fn scan(region: &Region, part: &ScanPart, columns: &[ColumnName], close: bool) -> ScanRequest {
    let (low, high) = (part.low.clone(), part.high.clone().unwrap_or_default());
    let (start_row, stop_row) = if part.reverse { (high, low) } else { (low, high) };
    let scan = Scan {
        column: names(columns),
        // In descending order, the start row is the exclusive upper bound, and the stop row is the inclusive lower
        // bound.
        include_start_row: Some(!part.reverse || start_row.is_empty()),
        include_stop_row: Some(part.reverse && !stop_row.is_empty()),
        start_row: Some(start_row),
        stop_row: Some(stop_row),
        max_result_size: Some(SCAN_BYTES),
        reversed: Some(part.reverse),
        caching: Some(part.rows),
        read_type: close.then_some(PREAD),
    };
    ScanRequest {
        region: Some(specifier(region)),
        scan: Some(scan),
        number_of_rows: Some(part.rows),
        close_scanner: Some(close),
        ..ScanRequest::default()
    }
}

/// Returns the request that reads at most `rows` further rows from an open scanner. With 0 rows, it closes the scanner.
pub(super) fn scan_on(scanner: u64, rows: u32, sequence: u64) -> ScanRequest {
    ScanRequest {
        scanner_id: Some(scanner),
        number_of_rows: Some(rows),
        close_scanner: Some(rows == 0),
        next_call_seq: (rows > 0).then_some(sequence),
        ..ScanRequest::default()
    }
}

/// Decodes the answer to a scan of `part`.
///
/// # Errors
/// [`Malformed`] if the bytes are not a valid answer to that scan.
pub fn scanned(answer: Bytes, part: &ScanPart, columns: &[ColumnName]) -> Result<ScanPiece, Malformed> {
    let answer: ScanResponse = decode(answer)?;
    if !answer.cells_per_result.is_empty() || answer.stale.unwrap_or(false) {
        return Err(Malformed(
            "the rows are outside the message, or come from a stale replica",
        ));
    }
    if answer.results.len() > part.rows as usize {
        return Err(Malformed("the answer has more rows than were requested"));
    }
    let mut all_cells = Vec::with_capacity(answer.results.len());
    let mut last: Option<&Bytes> = None;
    for row in &answer.results {
        let key = row_of(row)?.ok_or(Malformed("a row has no cells"))?;
        let is_next = last.is_none_or(|last| if part.reverse { key < last } else { key > last });
        if !is_next || !part.contains(key) {
            return Err(Malformed("the rows are outside the range or not in order"));
        }
        last = Some(key);
        let cells = cells_of(row, columns)?.into_iter().enumerate();
        all_cells.extend(cells.filter_map(|(column, cell)| {
            let key = key.to_vec();
            cell.map(|cell| FoundCell { key, column, cell })
        }));
    }
    let more = answer.more_results_in_region.unwrap_or(true);
    Ok(ScanPiece {
        rows: answer.results.len(),
        cells: all_cells,
        more,
        scanner: answer.scanner_id.filter(|_| more),
    })
}

// ---- changes ----

/// Returns a column with its new value, or with the kind of its deletion if `value` is `None`.
fn value(column: &ColumnName, value: Option<&[u8]>, delete_type: Option<i32>) -> Vec<ColumnValue> {
    let (family, qualifier) = column.split();
    vec![ColumnValue {
        family: family.to_vec(),
        qualifier_value: vec![QualifierValue {
            qualifier: Some(qualifier.to_vec()),
            value: value.map(<[u8]>::to_vec),
            delete_type,
        }],
    }]
}

fn equals(key: &[u8], column: &ColumnName, expected: Option<&[u8]>) -> Condition {
    let (family, qualifier) = column.split();
    let comparator = BinaryComparator {
        comparable: ByteArrayComparable {
            value: expected.map(<[u8]>::to_vec),
        },
    };
    Condition {
        row: key.to_vec(),
        family: Some(family.to_vec()),
        qualifier: Some(qualifier.to_vec()),
        compare_type: Some(EQUAL),
        comparator: Some(Comparator {
            name: BINARY_COMPARATOR.into(),
            serialized_comparator: Some(prost::Message::encode_to_vec(&comparator)),
        }),
    }
}

pub(super) fn change(
    region: &Region,
    key: &[u8],
    column: &ColumnName,
    change: &Change,
    nonce: Nonce,
) -> MutateRequest {
    let number;
    let (kind, column_value) = match change {
        Change::Put(bytes, _) | Change::CheckAndPut { value: bytes, .. } => {
            (PUT, value(column, Some(bytes), None))
        }
        Change::Delete => (DELETE, value(column, None, Some(DELETE_MULTIPLE_VERSIONS))),
        Change::Increment(by) => {
            number = by.to_be_bytes();
            (INCREMENT, value(column, Some(&number), None))
        }
        Change::Append(tail) => (APPEND, value(column, Some(tail), None)),
    };
    let life = match change {
        Change::Put(_, Some(life_ms)) => vec![NameBytesPair {
            name: TTL.into(),
            value: Some(Bytes::copy_from_slice(&life_ms.to_be_bytes())),
        }],
        _ => Vec::new(),
    };
    let condition = match change {
        Change::CheckAndPut { expected, .. } => Some(equals(key, column, expected.as_deref())),
        _ => None,
    };
    MutateRequest {
        region: specifier(region),
        mutation: Mutation {
            row: Some(key.to_vec()),
            mutate_type: Some(kind),
            column_value,
            attribute: life,
            nonce: Some(nonce.number),
        },
        condition,
        nonce_group: Some(nonce.group),
    }
}

/// Decodes the answer to a change of `key`.
///
/// # Errors
/// [`Malformed`] if the bytes are not a valid answer to that change.
pub fn changed(
    answer: Bytes,
    key: &[u8],
    column: &ColumnName,
    change: &Change,
) -> Result<ChangeOutcome, Malformed> {
    let answer: MutateResponse = decode(answer)?;
    match change {
        Change::Put(..) | Change::Delete => Ok(ChangeOutcome::Done),
        Change::CheckAndPut { .. } => match answer.processed {
            Some(true) => Ok(ChangeOutcome::Done),
            Some(false) => Ok(ChangeOutcome::Mismatch),
            None => Err(Malformed("the answer to a check has no outcome")),
        },
        Change::Increment(_) | Change::Append(_) => {
            let row = answer
                .result
                .ok_or(Malformed("the answer to a change has no result"))?;
            if row_of(&row)?.is_none_or(|found| found != key) {
                return Err(Malformed("the answer has a row that was not changed"));
            }
            let mut cells = cells_of(&row, std::slice::from_ref(column))?;
            let cell = cells.pop().flatten();
            cell.map(ChangeOutcome::Now)
                .ok_or(Malformed("the answer to a change has no result"))
        }
    }
}
