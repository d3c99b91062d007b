//! Table of the generator that a verifier uses: a small one at first, and a large one after enough signatures.

use crate::backend::{self, Backend, Machine, lock};
use crate::table::Table;
use crate::verifier::Builds;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Possible widths of the large table, the largest first; the first width that fits into the memory limit is used.
const WIDTHS: [u32; 5] = [16, 13, 10, 8, 5];

/// Width of the first table: 4,096 points.
pub(crate) const SMALL_WIDTH: u32 = 8;

/// Number of signatures after which the large table is built. As for keys (`cache::PROMOTIONS`), this is when the
/// additions that the table would have saved so far equal the cost of building it. At width 16 the table has 524,288
/// points, and saves 16 of 32 additions for each signature.
const LARGE_TABLE_USES: u64 = 32_768;

/// The generator of one curve, for one verifier.
pub(crate) struct Generator {
    backend: Backend,
    width: u32,
    state: Mutex<State>,
    /// True if the large table must be built and no thread builds it yet.
    wanted: AtomicBool,
}

struct State {
    table: Option<Arc<Table>>,
    uses: u64,
    /// True if the large table exists, must be built, or is being built.
    is_large_due: bool,
}

impl Generator {
    /// Returns the largest width at which the tables of both curves fit into a quarter of `bytes`, or the smallest
    /// width if no width fits.
    pub(crate) fn width_for(bytes: usize) -> u32 {
        let fits = |width: &u32| 2 * Table::bytes(*width) <= bytes / 4;
        WIDTHS.into_iter().find(fits).unwrap_or(WIDTHS[WIDTHS.len() - 1])
    }

    /// Creates a generator with a table of at most `width`.
    pub(crate) fn new(backend: Backend, width: u32) -> Self {
        let state = State {
            table: None,
            uses: 0,
            is_large_due: false,
        };
        Self {
            backend,
            width,
            state: Mutex::new(state),
            wanted: AtomicBool::new(false),
        }
    }

    /// Returns the number of bytes of the current table.
    pub(crate) fn bytes(&self) -> usize {
        lock(&self.state)
            .table
            .as_ref()
            .map_or(0, |table| Table::bytes(table.width()))
    }

    /// Returns true if the large table must be built and no thread builds it, so that `grow` should be called.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed)
    }

    /// Returns the table for the verification of `uses` signatures, and counts them. The first call builds a small
    /// table, unless another verifier already has a large one.
    pub(crate) fn table(&self, machine: &dyn Machine, uses: u64, builds: Builds) -> Arc<Table> {
        let mut state = lock(&self.state);
        state.uses += uses;
        let table = match &state.table {
            Some(table) => Arc::clone(table),
            None => {
                let table =
                    backend::shared_generator(self.backend, machine, self.width).unwrap_or_else(|| {
                        backend::generator(self.backend, machine, self.width.min(SMALL_WIDTH))
                    });
                state.table = Some(Arc::clone(&table));
                state.is_large_due = table.width() == self.width;
                table
            }
        };
        if state.is_large_due || state.uses < LARGE_TABLE_USES {
            return table;
        }
        state.is_large_due = true;
        self.wanted.store(true, Relaxed);
        drop(state);
        if builds == Builds::Inline && self.grow(machine) {
            return lock(&self.state).table.clone().unwrap_or(table);
        }
        table
    }

    /// Builds the large table, if it must be built and no other thread builds it.
    pub(crate) fn grow(&self, machine: &dyn Machine) -> bool {
        if !self.wanted.swap(false, Relaxed) {
            return false;
        }
        let table = backend::generator(self.backend, machine, self.width);
        lock(&self.state).table = Some(table);
        true
    }
}
