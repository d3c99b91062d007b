//! The fast-path table of `column`: columns, pages and blocks in memory that the host, the socket datapath and the XDP
//! program share. `spec/column.toml` describes every field.
//!
//! A block holds all rows of an interval of keys: if it lacks a key of its interval, the table has no row with that
//! key. Pages list the blocks of a column in the order of their keys, and the column's tops list the pages. Both are
//! searched by heads, which are eight bytes of each low key. Except for its flags, a block never changes while a page
//! refers to it.

use crate::layout::{
    ColumnBlock, ColumnControl, ColumnLine, ColumnName, ColumnPage, ColumnServers, ColumnTable, ColumnTops,
};
use lineside_fastpath::memory::Table;
use lineside_fastpath::{Range, address_words, hash};
use lineside_wire::{
    COLUMN_BLOCK_ROWS_MAX, COLUMN_NAME_BYTES_MAX, COLUMN_PAGE_BLOCKS, COLUMN_PAGES_MAX, COLUMN_RANGES_MAX,
};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// Version of the layout. Memory that has another version is not reused.
pub const LAYOUT_VERSION: u32 = 1;

/// Number of bytes of an address in the paper: S_value is 36 * 2^a.
const ADDRESS_BYTES: usize = 36;
/// Number of places in the table of names for each column. With 16 places, 16 names are placed without a collision by
/// every second hash key.
const NAME_PLACES: usize = 16;
/// Maximum number of hash keys that are tried. If all of them give collisions, two names must be equal.
const DRAWS: u32 = 4096;
/// Two odd numbers with well-mixed bits, with which the four words of a name are reduced to two.
const FOLD: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f];

/// Size of a fast-path table in the paper's parameters (checklist S3-03, S3-04), and the policies of the fast path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The paper's l: log2 of the number of column families.
    pub family_bits: u32,
    /// The paper's m: log2 of the number of columns of a family.
    pub column_bits: u32,
    /// The paper's n: log2 of the number of rows of a column.
    pub row_bits: u32,
    /// The paper's a: log2 of the memory for a row in the paper's addresses of 36 bytes, so a row may take 36 * 2^a
    /// bytes. A block with longer rows holds fewer rows.
    pub value_bits: u32,
    /// The paper's b: log2 of the number of rows of a block.
    pub block_bits: u32,
    /// Names of the columns, each `family:qualifier`: at most 2^(l+m) columns in at most 2^l families.
    pub columns: Vec<String>,
    /// True if packets of the paper format are answered.
    pub paper_format: bool,
    /// True if the fast path does not learn of changes by other clients. Replies then carry a flag that they may be
    /// stale.
    pub may_be_stale: bool,
    /// True if one invalid block makes the whole column miss, as the text of the paper says.
    pub literal_flags: bool,
    /// Source addresses for whose changes XDP invalidates blocks; at most 8 ranges.
    pub trusted_sources: Vec<Range>,
}

impl Default for Geometry {
    /// Returns a geometry with the paper's families, columns and blocks, and with 2^16 rows for each column.
    fn default() -> Self {
        Self {
            family_bits: 1,
            column_bits: 2,
            row_bits: 16,
            value_bits: 1,
            block_bits: 3,
            columns: Vec::new(),
            paper_format: true,
            may_be_stale: false,
            literal_flags: false,
            trusted_sources: Range::LOOPBACK.to_vec(),
        }
    }
}

impl Geometry {
    /// Returns the number of blocks.
    pub const fn blocks(&self) -> usize {
        1 << (self.family_bits + self.column_bits + self.row_bits - self.block_bits)
    }

    /// Returns the number of pages. It is sufficient if pages are on average a quarter full.
    pub const fn pages(&self) -> usize {
        self.blocks() / (COLUMN_PAGE_BLOCKS / 4) + 2 * self.columns.len() + 2
    }

    /// Returns the maximum number of rows of a block.
    pub const fn block_rows(&self) -> usize {
        1 << self.block_bits
    }

    /// Returns the number of bytes of records for which a block has room.
    pub const fn room_bytes(&self) -> usize {
        (ADDRESS_BYTES << (self.value_bits + self.block_bits)).next_multiple_of(8)
    }

    /// Returns the number of bytes of a block's data. They include 64 spare bytes, because a reader that copies in
    /// steps of 64 bytes may read this far beyond the records.
    pub const fn data_bytes(&self) -> usize {
        (self.room_bytes() + 64).next_multiple_of(64)
    }

    /// Returns the number of places in the table of names.
    pub const fn name_places(&self) -> usize {
        NAME_PLACES * self.columns.len().next_power_of_two()
    }

    /// Returns a description of the first fault in the geometry; `None` if it is valid.
    pub fn fault(&self) -> Option<&'static str> {
        let family = |name: &String| name.split(':').next().map(str::to_owned);
        let mut families: Vec<_> = self.columns.iter().map(family).collect();
        families.sort();
        families.dedup();
        let is_name =
            |name: &String| name.len() <= COLUMN_NAME_BYTES_MAX && name.contains(':') && !name.contains('\0');
        match () {
            () if self.family_bits + self.column_bits > 4 => {
                Some("l + m must be 0 to 4 (l is family_bits, m is column_bits)")
            }
            () if self.block_bits > COLUMN_BLOCK_ROWS_MAX.trailing_zeros() => {
                Some("b must be 0 to 3 (b is block_bits)")
            }
            () if !(self.block_bits..=21).contains(&self.row_bits) => {
                Some("n must be b to 21 (n is row_bits, b is block_bits)")
            }
            () if (1 << (self.row_bits - self.block_bits)) > COLUMN_PAGES_MAX * COLUMN_PAGE_BLOCKS => {
                Some("n - b must be 0 to 18 (n is row_bits, b is block_bits)")
            }
            () if self.value_bits > 5 => Some("a must be 0 to 5 (a is value_bits)"),
            () if self.family_bits + self.column_bits + self.row_bits - self.block_bits > 20 => {
                Some("l + m + n - b must be 0 to 20 (family_bits + column_bits + row_bits - block_bits)")
            }
            () if self.columns.is_empty() => Some("there must be a column, such as \"entry:foo\""),
            () if self.columns.len() > 1 << (self.family_bits + self.column_bits) => {
                Some("at most 2^(l+m) columns are possible (l is family_bits, m is column_bits)")
            }
            () if families.len() > 1 << self.family_bits => {
                Some("at most 2^l column families are possible (l is family_bits)")
            }
            () if !self.columns.iter().all(is_name) => Some("a column is family:qualifier, at most 32 bytes"),
            () if self.trusted_sources.len() > COLUMN_RANGES_MAX => {
                Some("at most 8 trusted ranges are possible")
            }
            () if self.trusted_sources.iter().any(Range::has_fault) => {
                Some("a prefix of a trusted range is longer than its address")
            }
            () => None,
        }
    }
}

/// The parts of a fast-path table in shared memory.
#[derive(Debug)]
pub struct Store {
    /// State of each column, such as its sequence number and number of pages.
    pub tables: Table<ColumnTable>,
    /// Table that maps the names of columns to their numbers.
    pub names: Table<ColumnName>,
    /// For each column, its pages in the order of their keys.
    pub tops: Table<ColumnTops>,
    /// Pages of all columns.
    pub pages: Table<ColumnPage>,
    /// Blocks of all columns.
    pub blocks: Table<ColumnBlock>,
    /// Records of all blocks.
    pub data: Table<ColumnLine>,
    /// CLOCK_MONOTONIC times until which rows of each server may be answered; this table has one entry.
    pub servers: Table<ColumnServers>,
    /// Lease, geometry and policies of the fast path; this table has one entry.
    pub control: Table<ColumnControl>,
}

impl Store {
    /// Creates an empty fast-path table in memory that only this process uses.
    ///
    /// # Errors
    /// Returns the kernel's error of mapping memory, or `InvalidInput` for an invalid geometry.
    pub fn anonymous(geometry: &Geometry) -> io::Result<Self> {
        refuse(geometry.fault())?;
        let store = Self {
            tables: Table::anonymous(geometry.columns.len())?,
            names: Table::anonymous(geometry.name_places())?,
            tops: Table::anonymous(geometry.columns.len())?,
            pages: Table::anonymous(geometry.pages())?,
            blocks: Table::anonymous(geometry.blocks())?,
            data: Table::anonymous(geometry.blocks() * geometry.data_bytes() / size_of::<ColumnLine>())?,
            servers: Table::anonymous(1)?,
            control: Table::anonymous(1)?,
        };
        store.format(geometry)?;
        Ok(store)
    }

    /// Formats the table: writes the geometry, the columns' names and a new hash key, and removes all contents.
    ///
    /// # Errors
    /// `InvalidInput` for an invalid geometry, for tables of another size, or for two columns with the same name; the
    /// kernel's error if it provides no random numbers.
    pub fn format(&self, geometry: &Geometry) -> io::Result<()> {
        let sizes_fit = self.tables.as_slice().len() == geometry.columns.len()
            && self.names.as_slice().len() == geometry.name_places()
            && self.tops.as_slice().len() == geometry.columns.len()
            && self.pages.as_slice().len() == geometry.pages()
            && self.blocks.as_slice().len() == geometry.blocks()
            && self.data.as_words().len() * 8 == geometry.blocks() * geometry.data_bytes()
            && self.servers.as_slice().len() == 1
            && self.control.as_slice().len() == 1;
        refuse(
            geometry
                .fault()
                .or((!sizes_fit).then_some("tables of another size")),
        )?;
        let control = self.control();
        control.lease_until_ns.store(0, Relaxed);
        for table in self.tables.as_slice() {
            table.pages.store(0, Relaxed);
            table.invalid_blocks.store(0, Relaxed);
            let seq = table.seq.load(Relaxed);
            table.seq.store((seq | 1).wrapping_add(1), Release);
        }
        // Rows of the embedded table (number 0) need only the lease of the fast path itself.
        for (server, until_ns) in self.servers().until_ns.iter().enumerate() {
            until_ns.store(if server == 0 { u64::MAX } else { 0 }, Relaxed);
        }
        control.columns.store(geometry.columns.len() as u32, Relaxed);
        control
            .name_mask
            .store(geometry.name_places() as u32 - 1, Relaxed);
        control.pages.store(geometry.pages() as u32, Relaxed);
        control.blocks.store(geometry.blocks() as u32, Relaxed);
        control.block_rows.store(geometry.block_rows() as u32, Relaxed);
        control.data_bytes.store(geometry.data_bytes() as u32, Relaxed);
        self.set_policies(geometry);
        self.place_names(&geometry.columns)?;
        control.layout_version.store(LAYOUT_VERSION, Relaxed);
        Ok(())
    }

    /// Tries random hash keys until all names have different places.
    fn place_names(&self, columns: &[String]) -> io::Result<()> {
        let names: Vec<_> = columns
            .iter()
            .map(|column| name_words(column.as_bytes()))
            .collect();
        for _ in 0..DRAWS {
            hash::new_key(&self.control().key)?;
            let mut places: Vec<_> = names.iter().map(|name| self.name_place(name)).collect();
            places.sort_unstable();
            places.dedup();
            if places.len() < names.len() {
                continue;
            }
            for slot in self.names.as_slice() {
                slot.column.store(0, Relaxed);
            }
            for (number, name) in names.iter().enumerate() {
                let slot = &self.names.as_slice()[self.name_place(name)];
                for (word, value) in slot.name.iter().zip(name) {
                    word.store(*value, Relaxed);
                }
                slot.column.store(number as u32 + 1, Relaxed);
            }
            return Ok(());
        }
        refuse(Some("two columns have the same name"))
    }

    /// Writes the policies. They may differ between two daemons that use the same memory one after the other.
    pub fn set_policies(&self, geometry: &Geometry) {
        let control = self.control();
        control.paper_format.store(geometry.paper_format.into(), Relaxed);
        control.may_be_stale.store(geometry.may_be_stale.into(), Relaxed);
        control
            .literal_flags
            .store(geometry.literal_flags.into(), Relaxed);
        // While the ranges are being written, no range is in effect.
        control.ranges.store(0, Release);
        let ranges = geometry.trusted_sources.iter().take(COLUMN_RANGES_MAX);
        for (index, range) in ranges.enumerate() {
            let (address, mask) = range.words();
            for half in 0..2 {
                control.range[2 * index + half].store(address[half], Relaxed);
                control.range_mask[2 * index + half].store(mask[half], Relaxed);
            }
        }
        let ranges = geometry.trusted_sources.len().min(COLUMN_RANGES_MAX);
        control.ranges.store(ranges as u32, Release);
    }

    /// Returns true if this version of Lineside formatted the table with this geometry. Returns false for new memory.
    pub fn has_geometry(&self, geometry: &Geometry) -> bool {
        let control = self.control();
        let named =
            |(number, column): (usize, &String)| self.column(&name_words(column.as_bytes())) == Some(number);
        control.layout_version.load(Relaxed) == LAYOUT_VERSION
            && control.columns.load(Relaxed) as usize == geometry.columns.len()
            && control.blocks.load(Relaxed) as usize == geometry.blocks()
            && control.block_rows.load(Relaxed) as usize == geometry.block_rows()
            && control.data_bytes.load(Relaxed) as usize == geometry.data_bytes()
            && geometry.columns.iter().enumerate().all(named)
    }

    /// Returns the control entry of the table: its lease, geometry and policies.
    pub fn control(&self) -> &ColumnControl {
        &self.control.as_slice()[0]
    }

    /// Returns the entry with the times until which rows of each server are answered.
    pub fn servers(&self) -> &ColumnServers {
        &self.servers.as_slice()[0]
    }

    /// Returns true if packets of the paper format are answered.
    pub fn paper_format(&self) -> bool {
        self.control().paper_format.load(Relaxed) != 0
    }

    /// Returns true if replies carry the flag that they may be stale.
    pub fn may_be_stale(&self) -> bool {
        self.control().may_be_stale.load(Relaxed) != 0
    }

    /// Returns true if the fast path invalidates blocks for changes from `address`.
    pub fn trusts(&self, address: IpAddr) -> bool {
        let own = address_words(address);
        let control = self.control();
        (0..(control.ranges.load(Acquire) as usize).min(COLUMN_RANGES_MAX)).any(|index| {
            (0..2).all(|half| {
                let mask = control.range_mask[2 * index + half].load(Relaxed);
                own[half] & mask == control.range[2 * index + half].load(Relaxed)
            })
        })
    }

    fn name_place(&self, name: &[u64; 4]) -> usize {
        let folded = [
            name[0] ^ name[1].wrapping_mul(FOLD[0]),
            name[2] ^ name[3].wrapping_mul(FOLD[1]),
        ];
        let hash = hash::index_hash(folded, &self.control().key);
        (hash >> 32) as usize & self.control().name_mask.load(Relaxed) as usize
    }

    /// Returns the number of the column with this name.
    pub fn column(&self, name: &[u64; 4]) -> Option<usize> {
        let place = &self.names.as_slice()[self.name_place(name)];
        let same = place
            .name
            .iter()
            .zip(name)
            .all(|(word, value)| word.load(Relaxed) == *value);
        let column = place.column.load(Relaxed) as usize;
        (same && (1..=self.tables.as_slice().len()).contains(&column)).then(|| column - 1)
    }

    /// Returns the records of block `index` as words.
    pub fn records(&self, index: usize) -> &[AtomicU64] {
        let words = self.control().data_bytes.load(Relaxed) as usize / 8;
        &self.data.as_words()[index * words..(index + 1) * words]
    }
}

/// Returns a column's name in the table's form: padded with zeros, as in packets.
pub fn name_words(name: &[u8]) -> [u64; 4] {
    let mut bytes = [0; COLUMN_NAME_BYTES_MAX];
    let len = name.len().min(COLUMN_NAME_BYTES_MAX);
    bytes[..len].copy_from_slice(&name[..len]);
    std::array::from_fn(|index| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[8 * index..8 * index + 8]);
        u64::from_ne_bytes(word)
    })
}

fn refuse(fault: Option<&'static str>) -> io::Result<()> {
    match fault {
        Some(fault) => Err(io::Error::new(io::ErrorKind::InvalidInput, fault)),
        None => Ok(()),
    }
}
