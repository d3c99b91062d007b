//! Rows that all contestants have, and the requests for them. Their sizes are those of the paper: keys of 4 bytes in
//! `entry:foo`, values of 18 bytes.

use crate::wrong::{WrongReply, hex};
use lineside_column::table::{Change, ColumnName, ScanRange};
use lineside_messages::column::native::{self, Ask as NativeAsk, Sender};
use lineside_messages::column::paper::{PaperRequest, rows_in};
use lineside_wire::{COLUMN_PAPER_FOUND, COLUMN_PAPER_ROW_BYTES, COLUMN_PAPER_VALUE_BYTES};
use serde::Serialize;

/// Number of rows of the table.
pub const ROWS: u32 = 10_000;
/// Name of the column.
pub const NAME: &[u8] = b"entry:foo";
/// Size of a value in the paper, in bytes.
pub const VALUE_BYTES: usize = COLUMN_PAPER_VALUE_BYTES;
/// Size of a key in bytes.
pub const KEY_BYTES: usize = 4;
/// Key of row 0. All keys end with an odd byte, because zeros at the end of a key are padding in the paper's format.
pub const FIRST_KEY: u32 = 0x4000_0001;
/// Version of each row before the first write.
pub const FIRST_VERSION: u64 = 1;
/// Size of a native get or put in bytes; the reply also fits into it.
pub const NATIVE_BYTES: usize = 128;
/// Last bytes of a value. They are not zero, because zeros at the end of a value are padding.
const TAIL: [u8; 6] = *b"value!";

/// Returns the name of the column.
pub fn column() -> ColumnName {
    ColumnName::new(NAME).expect("the name of a column")
}

/// Returns the key of a row.
pub fn key(row: u32) -> [u8; KEY_BYTES] {
    (FIRST_KEY + 2 * row).to_be_bytes()
}

/// Returns the content of a row: its key, a version, and a constant filler.
pub fn value(row: u32, version: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    value[..KEY_BYTES].copy_from_slice(&key(row));
    value[KEY_BYTES..12].copy_from_slice(&version.to_be_bytes());
    value[12..].copy_from_slice(&TAIL);
    value
}

/// Returns the number of the row with this key.
pub fn row_of(key: &[u8]) -> Option<u32> {
    let number = u32::from_be_bytes(key.try_into().ok()?).checked_sub(FIRST_KEY)?;
    (number.is_multiple_of(2) && number / 2 < ROWS).then_some(number / 2)
}

/// Returns the version in a row's value; `None` if the bytes are not a value of that row.
pub fn version_of(row: u32, value: &[u8]) -> Option<u64> {
    let version = u64::from_be_bytes(value.get(KEY_BYTES..12)?.try_into().ok()?);
    (value == self::value(row, version)).then_some(version)
}

/// Kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// The request reads one row by its key.
    Get,
    /// The request reads a range of this number of consecutive rows: 1 to 64.
    Scan(u32),
}

impl Ask {
    /// All kinds that are measured.
    pub const ALL: [Self; 4] = [Self::Get, Self::Scan(1), Self::Scan(8), Self::Scan(64)];

    /// Returns the name of this kind of request in the keys of the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Scan(1) => "scan1",
            Self::Scan(8) => "scan8",
            Self::Scan(64) => "scan64",
            Self::Scan(_) => "scan",
        }
    }

    /// Returns the number of rows in the reply.
    pub const fn rows(self) -> u32 {
        match self {
            Self::Get => 1,
            Self::Scan(rows) => rows,
        }
    }

    /// Returns the number of rows at which a range may begin without reaching the table's end.
    pub const fn span(self) -> u32 {
        ROWS - self.rows() + 1
    }

    /// Returns the first row of request `number`. The rows are multiples of the golden ratio modulo the number of rows,
    /// so that successive rows are far from one another.
    pub const fn row(self, number: u64) -> u32 {
        let place = (number as u32).wrapping_mul(0x9e37_79b1) as u64;
        ((place * self.span() as u64) >> 32) as u32
    }

    /// Returns the request in the paper's format, padded to whole words.
    pub fn paper(self, row: u32) -> Vec<u8> {
        let (key, name) = (key(row).to_vec(), NAME.to_vec());
        let request = match self {
            Self::Get => PaperRequest::Get(key, name),
            Self::Scan(rows) => PaperRequest::Scan(key, name, self::key(row + rows - 1).to_vec()),
        };
        let mut bytes = request.to_bytes(self.rows() as usize).unwrap_or_default();
        debug_assert!(self == Self::Get || rows_in(bytes.len()) == self.rows() as usize);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    /// Returns the number of bytes of a row in the paper's reply that belong neither to the key nor to the value.
    pub const fn paper_overhead() -> usize {
        COLUMN_PAPER_ROW_BYTES - KEY_BYTES - VALUE_BYTES
    }

    /// Returns the range in the form that a table accepts.
    pub fn range(self, row: u32) -> ScanRange {
        let last = row + self.rows() - 1;
        ScanRange {
            low: key(row).to_vec(),
            high: (last + 1 < ROWS).then(|| key(last + 1).to_vec()),
            limit: self.rows() as usize,
            reverse: false,
        }
    }

    /// Returns a wrong reply to a request in the paper's format about `row`.
    pub fn describe(self, row: u32, reply: &[u8]) -> WrongReply {
        let expected = format!(
            "status {COLUMN_PAPER_FOUND}, {} rows, the first with the key {} and the value {}",
            self.rows(),
            hex(&key(row)),
            hex(&value(row, FIRST_VERSION))
        );
        WrongReply::new(hex(&self.paper(row)), hex(reply), expected)
    }
}

/// Returns a native request for one row. It is as long as a put, so that one call can send both.
pub fn native_get(id: u64, row: u32) -> Vec<u8> {
    let ask = NativeAsk::Get(key(row).to_vec(), vec![column()]);
    native::request(id, &ask, NATIVE_BYTES).unwrap_or_default()
}

/// Returns a native put, as a trusted client sends it.
pub fn native_put(id: u64, row: u32, version: u64) -> Vec<u8> {
    let change = Change::Put(value(row, version).to_vec(), None);
    let ask = NativeAsk::Change(key(row).to_vec(), column(), change, Sender::default());
    native::request(id, &ask, NATIVE_BYTES).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_row_encodes_the_row_and_its_version() {
        for row in [0, 1, 4_999, ROWS - 1] {
            assert_eq!(row_of(&key(row)), Some(row));
            assert_ne!(key(row)[3], 0);
            assert_eq!(version_of(row, &value(row, 7)), Some(7));
            assert_eq!(version_of(row ^ 1, &value(row, 7)), None);
            assert_eq!(version_of(row, &value(row, 7)[..17]), None);
        }
        assert_eq!(row_of(&key(ROWS)), None);
        assert_eq!(row_of(&(FIRST_KEY + 1).to_be_bytes()), None);
    }

    #[test]
    fn generated_requests_are_for_existing_rows_and_do_not_repeat_soon() {
        for ask in Ask::ALL {
            let rows: Vec<u32> = (0..4096).map(|number| ask.row(number)).collect();
            assert!(rows.iter().all(|row| row + ask.rows() <= ROWS));
            for window in rows.windows(64) {
                let mut window = window.to_vec();
                window.sort_unstable();
                window.dedup();
                assert_eq!(window.len(), 64);
            }
            assert!(ask.paper(0).len() <= lineside_fastpath::PAYLOAD_BYTES_MAX);
        }
        assert_eq!(native_get(1, 0).len(), NATIVE_BYTES);
        assert_eq!(native_put(1, 0, 2).len(), NATIVE_BYTES);
    }
}
