//! Cells in memory.

use super::{Shelf, View, Visit};
use crate::table::TableError;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock};

type Cells = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
pub(super) struct Memory(RwLock<Cells>);

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memory")
    }
}

impl Shelf for Memory {
    fn read(&self, act: &mut dyn FnMut(&dyn View) -> Result<(), TableError>) -> Result<(), TableError> {
        act(&*self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, place: Vec<u8>, stored: Option<Vec<u8>>) -> Result<(), TableError> {
        let mut cells = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match stored {
            Some(stored) => cells.insert(place, stored),
            None => cells.remove(&place),
        };
        Ok(())
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
