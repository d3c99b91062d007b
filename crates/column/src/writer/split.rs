//! Division of an interval with its rows into blocks.

use crate::fill::Row;
use crate::key::{Interval, Key, VALUE_BYTES_MAX};
use lineside_wire::ColumnRow;
use std::ops::Range;
use zerocopy::IntoBytes;

/// Part of an interval that becomes one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockContent {
    /// Interval of the block.
    pub interval: Interval,
    /// Range of the block's rows in the list of all rows.
    pub rows: Range<usize>,
}

/// Returns the record of a row: the bytes that the fast path stores and sends.
pub(super) fn record(row: &Row) -> Vec<u8> {
    let head = ColumnRow {
        key_bytes: row.key.as_bytes().len() as u8,
        column: 0,
        value_bytes: (row.value.len() as u16).into(),
    };
    let mut bytes = [head.as_bytes(), row.key.as_bytes(), &row.value].concat();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

fn record_bytes(row: &Row) -> usize {
    (size_of::<ColumnRow>() + row.key.as_bytes().len() + row.value.len()).next_multiple_of(8)
}

/// Divides `interval` with its `rows` into blocks of at most `rows_max` rows and `room` bytes each. If a row does not
/// fit any block, the blocks leave a gap at its key.
pub(super) fn pieces(interval: &Interval, rows: &[Row], rows_max: usize, room: usize) -> Vec<BlockContent> {
    let mut pieces = Vec::new();
    // First key that no block covers yet; `None` after a key of the maximum length, which has no successor.
    let mut low = Some(interval.low);
    let (mut from, mut bytes) = (0, 0);
    let close = |low: Option<Key>, high: Option<Key>, rows: Range<usize>, pieces: &mut Vec<BlockContent>| {
        let Some(low) = low else { return };
        let interval = Interval { low, high };
        if !interval.is_empty() {
            pieces.push(BlockContent { interval, rows });
        }
    };
    for (number, row) in rows.iter().enumerate() {
        let fits = row.value.len() <= VALUE_BYTES_MAX && record_bytes(row) <= room;
        if !fits {
            close(low, Some(row.key), from..number, &mut pieces);
            low = row.key.successor();
            (from, bytes) = (number + 1, 0);
            continue;
        }
        if number - from == rows_max || bytes + record_bytes(row) > room {
            close(low, Some(row.key), from..number, &mut pieces);
            low = Some(row.key);
            (from, bytes) = (number, 0);
        }
        // `low` is `None` if the row that was left out had a key of the maximum length, which has no successor. The
        // next block then starts at this row.
        low = low.or(Some(row.key));
        bytes += record_bytes(row);
    }
    close(low, interval.high, from..rows.len(), &mut pieces);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bytes: &[u8]) -> Key {
        Key::new(bytes).unwrap()
    }

    fn row(bytes: &[u8], value_bytes: usize) -> Row {
        Row {
            key: key(bytes),
            value: vec![7; value_bytes],
            timestamp_ms: 1,
        }
    }

    fn cut(rows: &[Row]) -> Vec<(Key, Option<Key>, Range<usize>)> {
        let interval = Interval {
            low: key(b"a"),
            high: Some(key(b"z")),
        };
        let pieces = pieces(&interval, rows, 2, 64);
        pieces
            .into_iter()
            .map(|piece| (piece.interval.low, piece.interval.high, piece.rows))
            .collect()
    }

    #[test]
    fn blocks_cover_the_interval_without_gaps() {
        assert_eq!(cut(&[]), [(key(b"a"), Some(key(b"z")), 0..0)]);
        let rows = [row(b"b", 1), row(b"c", 1), row(b"d", 1)];
        assert_eq!(
            cut(&rows),
            [
                (key(b"a"), Some(key(b"d")), 0..2),
                (key(b"d"), Some(key(b"z")), 2..3)
            ]
        );
        let long = [row(b"b", 40), row(b"c", 20)];
        assert_eq!(cut(&long).len(), 2, "48 and 32 bytes do not fit 64");
    }

    #[test]
    fn a_row_too_large_for_a_block_leaves_a_gap() {
        let rows = [row(b"b", 1), row(b"c", 100), row(b"d", 1)];
        assert_eq!(
            cut(&rows),
            [
                (key(b"a"), Some(key(b"c")), 0..1),
                (key(b"c\0"), Some(key(b"z")), 2..3)
            ]
        );
        let rows = [row(b"a", 100), row(&[b'b'; 64], 100), row(b"d", 1)];
        assert_eq!(
            cut(&rows),
            [
                (key(b"a\0"), Some(key(&[b'b'; 64])), 1..1),
                (key(b"d"), Some(key(b"z")), 2..3)
            ]
        );
    }

    #[test]
    fn a_record_is_padded_to_words() {
        assert_eq!(record(&row(b"k", 2)), [1, 0, 0, 2, b'k', 7, 7, 0]);
        assert_eq!(record(&row(b"key4", 9)).len(), 24);
    }
}
