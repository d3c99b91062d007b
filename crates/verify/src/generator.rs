//! The generator's table of a verifier: small at first, large when enough signatures have come.

use crate::backend::{self, Backend, Machine, lock};
use crate::table::Table;
use crate::verifier::Builds;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// The widths of the large table, the largest first: what fits is taken.
const WIDTHS: [u32; 5] = [16, 13, 10, 8, 5];

/// The width at first: 4,096 points.
pub(crate) const SMALL: u32 = 8;

/// Signatures after which the large table is built: as with keys (`cache::LADDER`), when the additions saved by it so
/// far would have paid for it. At width 16 it has 524,288 points and saves 16 additions of 32.
const USES: u64 = 32_768;

/// The generator of one curve, for one verifier.
pub(crate) struct Generator {
    backend: Backend,
    width: u32,
    state: Mutex<State>,
    /// The large table is due, and nobody builds it yet.
    wanted: AtomicBool,
}

struct State {
    table: Option<Arc<Table>>,
    uses: u64,
    /// The large table is there, due, or under way.
    asked: bool,
}

impl Generator {
    /// The width of which both curves' tables are within a quarter of `bytes`; the least one if there is none.
    pub(crate) fn width_for(bytes: usize) -> u32 {
        let fits = |width: &u32| 2 * Table::bytes(*width) <= bytes / 4;
        WIDTHS.into_iter().find(fits).unwrap_or(WIDTHS[WIDTHS.len() - 1])
    }

    /// With a table of at most `width`.
    pub(crate) fn new(backend: Backend, width: u32) -> Self {
        let state = State {
            table: None,
            uses: 0,
            asked: false,
        };
        Self {
            backend,
            width,
            state: Mutex::new(state),
            wanted: AtomicBool::new(false),
        }
    }

    /// The bytes of the table there is.
    pub(crate) fn bytes(&self) -> usize {
        lock(&self.state)
            .table
            .as_ref()
            .map_or(0, |table| Table::bytes(table.width()))
    }

    /// Whether `grow` has something to do.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Relaxed)
    }

    /// The table for `uses` signatures. The first call builds a small one, unless somebody has a large one already.
    pub(crate) fn table(&self, machine: &dyn Machine, uses: u64, builds: Builds) -> Arc<Table> {
        let mut state = lock(&self.state);
        state.uses += uses;
        let table = match &state.table {
            Some(table) => Arc::clone(table),
            None => {
                let table = backend::shared_generator(self.backend, machine, self.width)
                    .unwrap_or_else(|| backend::generator(self.backend, machine, self.width.min(SMALL)));
                state.table = Some(Arc::clone(&table));
                state.asked = table.width() == self.width;
                table
            }
        };
        if state.asked || state.uses < USES {
            return table;
        }
        state.asked = true;
        self.wanted.store(true, Relaxed);
        drop(state);
        if builds == Builds::Inline && self.grow(machine) {
            return lock(&self.state).table.clone().unwrap_or(table);
        }
        table
    }

    /// Builds the large table, if it is due and nobody else does.
    pub(crate) fn grow(&self, machine: &dyn Machine) -> bool {
        if !self.wanted.swap(false, Relaxed) {
            return false;
        }
        let table = backend::generator(self.backend, machine, self.width);
        lock(&self.state).table = Some(table);
        true
    }
}
