//! Storage of cells in memory, with a maximum size.

use super::{CellStore, View, Visit};
use crate::table::TableError;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock};

type Cells = BTreeMap<Vec<u8>, Vec<u8>>;

/// Estimated overhead of one cell in bytes, in addition to its place and stored bytes: two vectors, their allocations,
/// and a share of a tree node.
const CELL_BYTES: usize = 128;

pub(super) struct Memory {
    table: RwLock<Counted>,
    bytes_max: usize,
}

#[derive(Default)]
struct Counted {
    cells: Cells,
    /// Total size of all cells in bytes, each computed by [`bytes_of`].
    bytes: usize,
}

impl Memory {
    /// Returns an empty storage for at most `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            table: RwLock::default(),
            bytes_max,
        }
    }
}

fn bytes_of(place: &[u8], stored: &[u8]) -> usize {
    CELL_BYTES + place.len() + stored.len()
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}

impl CellStore for Memory {
    fn read(&self, act: &mut dyn FnMut(&dyn View) -> Result<(), TableError>) -> Result<(), TableError> {
        act(&self.table.read().unwrap_or_else(PoisonError::into_inner).cells)
    }

    fn write(&self, place: Vec<u8>, stored: Option<Vec<u8>>) -> Result<(), TableError> {
        let mut table = self.table.write().unwrap_or_else(PoisonError::into_inner);
        let held = table.cells.get(&place);
        let before = held.map_or(0, |held| bytes_of(&place, held));
        let after = stored.as_ref().map_or(0, |stored| bytes_of(&place, stored));
        let bytes = table.bytes - before + after;
        if after > before && bytes > self.bytes_max {
            return Err(TableError::Full(format!(
                "the rows would take {bytes} bytes of memory, but the limit is {}; delete rows, or raise \
                 `memory_max`",
                self.bytes_max
            )));
        }
        table.bytes = bytes;
        match stored {
            Some(stored) => table.cells.insert(place, stored),
            None => table.cells.remove(&place),
        };
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.table.read().unwrap_or_else(PoisonError::into_inner).bytes
    }
}

impl View for Cells {
    fn get(&self, place: &[u8]) -> Result<Option<Vec<u8>>, TableError> {
        Ok(BTreeMap::get(self, place).cloned())
    }

    fn range(
        &self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        reverse: bool,
        visit: Visit<'_>,
    ) -> Result<(), TableError> {
        let mut cells = BTreeMap::range::<[u8], _>(self, bounds);
        while let Some((place, stored)) = if reverse { cells.next_back() } else { cells.next() } {
            if visit(place, stored).is_break() {
                break;
            }
        }
        Ok(())
    }
}
