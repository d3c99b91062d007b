//! A scan over all the regions that it crosses, each asked in turn: in one call where that is enough, else by a scanner
//! that stays open as long as its server keeps it. One that is gone is opened again behind the last row.

use super::catalog::wrong;
use super::connection::Failure;
use super::messages::ScanRequest;
use super::regions::{Place, Region};
use super::{Asked, HBase, calls};
use crate::{ColumnName, Found, Stretch, TableError};
use calls::{Part, Piece};
use std::sync::Arc;

/// Rows of one call.
const ROWS_MAX: usize = 1000;

/// A scanner that was left open.
struct Open {
    region: Arc<Region>,
    id: u64,
    /// Calls that it was asked by so far.
    calls: u64,
}

/// The rows of `stretch`; `answered` is told of each region that gave some of them, or said that it has none.
pub(super) fn all(
    hbase: &HBase,
    stretch: &Stretch,
    columns: &[ColumnName],
    answered: &mut dyn FnMut(&Region),
) -> Result<Vec<Found>, TableError> {
    if columns.is_empty() {
        return Err(TableError::Refused("a scan of no column".into()));
    }
    let mut left = stretch.clone();
    let mut found = Vec::new();
    let mut open: Option<Open> = None;
    while let Some(part) = Part::of(&left, left.limit.min(ROWS_MAX) as u32) {
        let (mut piece, region) = next(hbase, &part, left.limit <= ROWS_MAX, columns, &mut open)?;
        answered(&region);
        left.limit -= piece.rows;
        let last = piece.found.last().map(|found| found.key.clone());
        found.append(&mut piece.found);
        let is_all = match (piece.more, last, left.reverse) {
            (true, Some(last), false) => {
                left.low = [&last[..], &[0]].concat();
                false
            }
            (true, Some(last), true) => {
                left.high = Some(last);
                false
            }
            // The region has no more: the next one goes on where it ends.
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
    Ok(found)
}

/// A piece with a row in it, or the last of its region.
fn ask(
    asked: &Asked<'_>,
    message: &ScanRequest,
    part: &Part,
    columns: &[ColumnName],
) -> Result<Piece, Failure> {
    let answer = asked.call("Scan", message)?;
    let piece = calls::scanned(answer, &part.within(asked.region), columns).map_err(wrong)?;
    match piece.more && piece.rows == 0 {
        true => Err(Failure::NoAnswer("the server found no time for a row".into())),
        false => Ok(piece),
    }
}

/// The next piece, and the region that it is of.
fn next(
    hbase: &HBase,
    part: &Part,
    in_one_call: bool,
    columns: &[ColumnName],
    open: &mut Option<Open>,
) -> Result<(Piece, Arc<Region>), TableError> {
    let deadline = hbase.deadline();
    if let Some(scanner) = open.take() {
        let mut call = |asked: &Asked<'_>| -> Result<Piece, Failure> {
            let message = calls::scan_on(scanner.id, part.rows, scanner.calls);
            ask(asked, &message, part, columns)
        };
        // Whatever is wrong with it, it is opened again below.
        if let Ok(piece) = hbase.once(&scanner.region, deadline, &mut call) {
            let region = Arc::clone(&scanner.region);
            *open = piece.more.then_some(Open {
                calls: scanner.calls + 1,
                ..scanner
            });
            return Ok((piece, region));
        }
    }
    let place = match (part.reverse, &part.high) {
        (false, _) => Place::Of(&part.low),
        (true, high) => Place::Below(high.as_deref()),
    };
    let mut call = |asked: &Asked<'_>| {
        let message = calls::scan(asked.region, part, columns, in_one_call);
        ask(asked, &message, part, columns)
    };
    let (piece, region) = hbase.read(place, deadline, &mut call)?;
    if let Some(id) = piece.scanner.filter(|_| !in_one_call) {
        *open = Some(Open {
            region: Arc::clone(&region),
            id,
            calls: 1,
        });
    }
    Ok((piece, region))
}

/// Its server would end it by itself, some time later.
fn close(hbase: &HBase, open: &Open) {
    let mut call = |asked: &Asked<'_>| asked.call("Scan", &calls::scan_on(open.id, 0, 0));
    if let Err(failure) = hbase.once(&open.region, hbase.deadline(), &mut call) {
        tracing::debug!(%failure, "a scanner is left to end by itself");
    }
}
