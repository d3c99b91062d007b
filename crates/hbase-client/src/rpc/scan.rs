//! Scan of a range, region after region. A region is read with one call if that is enough, otherwise with a scanner
//! that its server keeps open. If the server loses the scanner, a new one is opened after the last row that was read.

use super::catalog::wrong;
use super::connection::Failure;
use super::messages::ScanRequest;
use super::regions::{Region, RegionLookup};
use super::{HBase, RegionCall, calls};
use crate::{ColumnName, FoundCell, ScanRange, TableError};
use calls::{ScanPart, ScanPiece};
use std::sync::Arc;

/// Maximum number of rows that one call reads.
const ROWS_MAX: usize = 1000;

/// A scanner that its server has left open.
struct OpenScanner {
    region: Arc<Region>,
    id: u64,
    /// Number of calls that were made with the scanner so far.
    calls: u64,
}

/// Returns the cells of the rows of `range`. Calls `answered` for each region that has returned rows, or has none in
/// the range.
pub(super) fn all(
    hbase: &HBase,
    range: &ScanRange,
    columns: &[ColumnName],
    answered: &mut dyn FnMut(&Region),
) -> Result<Vec<FoundCell>, TableError> {
    if columns.is_empty() {
        return Err(TableError::Refused("a scan must name at least one column".into()));
    }
    let mut left = range.clone();
    let mut cells = Vec::new();
    let mut open: Option<OpenScanner> = None;
    while let Some(part) = ScanPart::of(&left, left.limit.min(ROWS_MAX) as u32) {
        let (mut piece, region) = next(hbase, &part, left.limit <= ROWS_MAX, columns, &mut open)?;
        answered(&region);
        left.limit -= piece.rows;
        let last = piece.cells.last().map(|found| found.key.clone());
        cells.append(&mut piece.cells);
        let is_all = match (piece.more, last, left.reverse) {
            (true, Some(last), false) => {
                left.low = [&last[..], &[0]].concat();
                false
            }
            (true, Some(last), true) => {
                left.high = Some(last);
                false
            }
            // The region has no more rows in the range, so the scan continues at the region's end.
            (_, _, false) => {
                left.low = region.end.clone();
                region.end.is_empty()
            }
            (_, _, true) => {
                left.high = Some(region.start.clone());
                region.start.is_empty()
            }
        };
        if is_all {
            break;
        }
    }
    if let Some(open) = open {
        close(hbase, &open);
    }
    Ok(cells)
}

/// Asks the region until it returns at least one row or has no more rows, and returns that piece.
fn ask(
    call: &RegionCall<'_>,
    message: &ScanRequest,
    part: &ScanPart,
    columns: &[ColumnName],
) -> Result<ScanPiece, Failure> {
    let answer = call.call("Scan", message)?;
    let piece = calls::scanned(answer, &part.within(call.region), columns).map_err(wrong)?;
    match piece.more && piece.rows == 0 {
        true => Err(Failure::NoAnswer(
            "the server did not finish reading one row in time".into(),
        )),
        false => Ok(piece),
    }
}

/// Returns the next piece of the scan, and the region that it comes from.
fn next(
    hbase: &HBase,
    part: &ScanPart,
    in_one_call: bool,
    columns: &[ColumnName],
    open: &mut Option<OpenScanner>,
) -> Result<(ScanPiece, Arc<Region>), TableError> {
    let deadline = hbase.deadline();
    if let Some(scanner) = open.take() {
        let mut call = |asked: &RegionCall<'_>| -> Result<ScanPiece, Failure> {
            let message = calls::scan_on(scanner.id, part.rows, scanner.calls);
            ask(asked, &message, part, columns)
        };
        // After any failure, the code below opens a new scanner.
        if let Ok(piece) = hbase.once(&scanner.region, deadline, &mut call) {
            let region = Arc::clone(&scanner.region);
            *open = piece.more.then_some(OpenScanner {
                calls: scanner.calls + 1,
                ..scanner
            });
            return Ok((piece, region));
        }
    }
    let lookup = match (part.reverse, &part.high) {
        (false, _) => RegionLookup::Of(&part.low),
        (true, high) => RegionLookup::Below(high.as_deref()),
    };
    let mut call = |asked: &RegionCall<'_>| {
        let message = calls::scan(asked.region, part, columns, in_one_call);
        ask(asked, &message, part, columns)
    };
    let (piece, region) = hbase.read(lookup, deadline, &mut call)?;
    if let Some(id) = piece.scanner.filter(|_| !in_one_call) {
        *open = Some(OpenScanner {
            region: Arc::clone(&region),
            id,
            calls: 1,
        });
    }
    Ok((piece, region))
}

/// Closes a scanner. If the call fails, the server closes the scanner after its own timeout.
fn close(hbase: &HBase, open: &OpenScanner) {
    let mut call = |asked: &RegionCall<'_>| asked.call("Scan", &calls::scan_on(open.id, 0, 0));
    if let Err(failure) = hbase.once(&open.region, hbase.deadline(), &mut call) {
        tracing::debug!(%failure, "cannot close a scanner; its server closes it after a timeout");
    }
}
