//! What the host needs of a wide table, whoever keeps it.

use std::fmt;

/// Bytes of the longest column name, `family:qualifier`.
pub const NAME_BYTES_MAX: usize = 32;
/// Bytes of the longest row key that can be asked for: what a record's length byte can say.
pub const ROW_BYTES_MAX: usize = 255;

/// A column: `family:qualifier` in at most [`NAME_BYTES_MAX`] bytes, zeros behind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnName([u8; NAME_BYTES_MAX]);

impl ColumnName {
    /// `None`: too long, without a family, or with a zero byte, which would be padding.
    pub fn new(name: &[u8]) -> Option<Self> {
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes.get_mut(..name.len())?.copy_from_slice(name);
        let colon = name.iter().position(|byte| *byte == b':')?;
        (colon > 0 && !name.contains(&0)).then_some(Self(bytes))
    }

    /// The name in a packet's field: zeros only behind it.
    pub fn from_padded(bytes: &[u8; NAME_BYTES_MAX]) -> Option<Self> {
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let (name, padding) = bytes.split_at(end);
        padding
            .iter()
            .all(|byte| *byte == 0)
            .then(|| Self::new(name))
            .flatten()
    }

    /// The name.
    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|byte| *byte == 0);
        &self.0[..end.unwrap_or(NAME_BYTES_MAX)]
    }

    /// The name with the zeros behind it.
    pub const fn padded(&self) -> &[u8; NAME_BYTES_MAX] {
        &self.0
    }

    /// Family and qualifier.
    pub fn split(&self) -> (&[u8], &[u8]) {
        let name = self.as_bytes();
        let colon = name.iter().position(|byte| *byte == b':').unwrap_or(name.len());
        (&name[..colon], name.get(colon + 1..).unwrap_or_default())
    }
}

impl fmt::Debug for ColumnName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_bytes().escape_ascii())
    }
}

/// What one column of one row holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its value.
    pub value: Vec<u8>,
    /// Milliseconds since 1970, by the table's clock: its version.
    pub timestamp_ms: u64,
    /// When it ceases to be, by the same clock; `None`: never.
    pub expires_ms: Option<u64>,
}

/// A cell of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its row.
    pub key: Vec<u8>,
    /// Which of the columns that were asked for.
    pub column: usize,
    /// What it holds.
    pub cell: Cell,
}

/// A stretch of rows, in the order in which they are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The lowest row.
    pub low: Vec<u8>,
    /// The first row above; `None`: to the table's end.
    pub high: Option<Vec<u8>>,
    /// Rows at most; a row of several columns is one.
    pub limit: usize,
    /// From the highest row down.
    pub reverse: bool,
}

/// The same write again is not done again where both are the same: HBase's nonces. 0, 0: it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nonce {
    /// Whose.
    pub group: u64,
    /// Which of theirs.
    pub number: u64,
}

/// A change of one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It holds this from now on, for so long (milliseconds; `None`: for as long as its family says).
    Put(Vec<u8>, Option<u64>),
    /// It holds nothing.
    Delete,
    /// So much is added to a number of eight bytes, big-endian and signed, that wraps; nothing counts as 0.
    Increment(i64),
    /// This is appended.
    Append(Vec<u8>),
    /// It holds `value`, if it held `expected` (`None`: nothing).
    CheckAndPut {
        /// What it must hold.
        expected: Option<Vec<u8>>,
        /// What it will.
        value: Vec<u8>,
    },
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Done.
    Done,
    /// Done; this is what the cell holds now.
    Now(Cell),
    /// Nothing changed: it did not hold what was expected.
    Mismatch,
}

/// Why a table did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// Nothing was done; it may work later.
    #[error("the table cannot be asked now: {0}")]
    Unavailable(String),
    /// Nothing was done, and it will not work.
    #[error("the table refuses this: {0}")]
    Refused(String),
    /// Nothing was done: the table has no such column family.
    #[error("the table has no such column family: {0}")]
    UnknownFamily(String),
    /// Nothing was done: what the cell holds is no number of 8 bytes.
    #[error("what is incremented has not 8 bytes")]
    NotANumber,
    /// Nothing was done, nor will be before a restart.
    #[error("writing has ended: {0}")]
    Ended(String),
    /// It may have been done, or may yet be.
    #[error("the table did not say what became of this: {0}")]
    Unknown(String),
}

impl TableError {
    /// What HBase refuses, by its words.
    pub(crate) fn refused_by_hbase(why: String) -> Self {
        match () {
            () if why.contains("NoSuchColumnFamilyException") => Self::UnknownFamily(why),
            () if why.contains("Field is not a long") => Self::NotANumber,
            () => Self::Refused(why),
        }
    }
}

/// Which of a table's servers holds rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// Its name, hashed (`column_notice` in `spec/column.toml`); 0 where they are not told apart.
    pub server: u64,
    /// The first row behind that another one may hold; `None`: there is none.
    pub end: Option<Vec<u8>>,
}

/// A wide table. Each call is one whole action: what it reads of one row is of one moment; a change is seen whole or
/// not at all, and by everyone who asks after it was answered.
pub trait Table: Send + Sync + fmt::Debug {
    /// The cells of one row, in the order of `columns`.
    ///
    /// # Errors
    /// See [`TableError`].
    fn get(&self, key: &[u8], columns: &[ColumnName]) -> Result<Vec<Option<Cell>>, TableError>;

    /// The cells of the rows of `stretch`, row by row, each row's in the order of `columns`. Rows that were there all
    /// the while are found; of rows that come, go or change meanwhile, one state.
    ///
    /// # Errors
    /// See [`TableError`].
    fn scan(&self, stretch: &Stretch, columns: &[ColumnName]) -> Result<Vec<Found>, TableError>;

    /// Changes one cell. The same `nonce` again, within the time that the table remembers it, changes nothing and is
    /// answered as before.
    ///
    /// # Errors
    /// See [`TableError`].
    fn change(
        &self,
        key: &[u8],
        column: &ColumnName,
        change: &Change,
        nonce: Nonce,
    ) -> Result<Changed, TableError>;

    /// Who holds the rows from `key` on; `None`: nobody can say now.
    fn holder(&self, _key: &[u8]) -> Option<Holder> {
        Some(Holder::default())
    }

    /// [`Table::scan`], and whether `holder` answered of all rows before its end.
    ///
    /// # Errors
    /// See [`TableError`].
    fn scan_of(
        &self,
        _holder: &Holder,
        stretch: &Stretch,
        columns: &[ColumnName],
    ) -> Result<(Vec<Found>, bool), TableError> {
        Ok((self.scan(stretch, columns)?, true))
    }

    /// Nobody knows the holder that it named: it looks again, next time.
    fn look_anew(&self) {}

    /// How long anything in `column` lives at most, in milliseconds; `None`: as long as its cells say.
    fn family_ttl_ms(&self, _column: &ColumnName) -> Option<u64> {
        None
    }

    /// What is known of the table beside its rows may be another from now on: it is asked for again.
    fn describe_anew(&self) {}

    /// Milliseconds since 1970 by the clock of the cells' timestamps.
    fn now_ms(&self) -> u64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_a_family_and_end_at_their_padding() {
        let name = ColumnName::new(b"entry:foo").unwrap();
        assert_eq!(name.split(), (&b"entry"[..], &b"foo"[..]));
        assert_eq!(ColumnName::from_padded(name.padded()), Some(name));
        assert_eq!(ColumnName::new(b"cf:").unwrap().split(), (&b"cf"[..], &b""[..]));
        for wrong in [&b""[..], b"foo", b":foo", b"a:b\0c", &[b':'; 33]] {
            assert_eq!(ColumnName::new(wrong), None, "{wrong:?}");
        }
        let mut broken = *name.padded();
        broken[20] = b'x';
        assert_eq!(ColumnName::from_padded(&broken), None);
    }
}
