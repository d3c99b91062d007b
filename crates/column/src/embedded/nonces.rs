//! Results of changes by nonce, so that no change is made twice.
//!
//! The memory is bounded: the results of the oldest changes are forgotten before their nonces are. A change whose nonce
//! is known and whose result is forgotten is answered "outcome unknown". Inside a session the host remembers the newest
//! change by itself and refuses all others, so that it never depends on this memory.

use crate::table::{Changed, Nonce, TableError};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Maximum number of nonces.
const NONCES_MAX: usize = 65_536;
/// Bytes that one nonce takes in the map and in both queues, with their spare room.
const NONCE_BYTES: usize = 192;

#[derive(Debug)]
pub(super) struct Nonces {
    kept: Mutex<Kept>,
    nonces_max: usize,
    results_bytes_max: usize,
}

/// Memory of one change.
#[derive(Debug)]
enum Kind {
    /// Its result holds no value.
    Small(Changed),
    /// Its result holds a value, whose bytes are counted.
    Long(Changed),
    /// Its result is forgotten.
    Forgotten,
}

#[derive(Debug, Default)]
struct Kept {
    done: HashMap<Nonce, Kind>,
    order: VecDeque<Nonce>,
    /// Nonces whose results hold a value, oldest first.
    long: VecDeque<Nonce>,
    /// Bytes of those values.
    results_bytes: usize,
}

impl Nonces {
    /// Returns an empty memory of at most `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        let nonces_max = (bytes_max / 2 / NONCE_BYTES).clamp(1, NONCES_MAX);
        Self {
            kept: Mutex::default(),
            nonces_max,
            results_bytes_max: bytes_max.saturating_sub(nonces_max * NONCE_BYTES),
        }
    }

    /// Returns the result of the change under `nonce`, if there was one.
    ///
    /// # Errors
    /// [`TableError::Unknown`]: the change was decided, and its result is forgotten.
    pub(super) fn before(&self, nonce: Nonce) -> Option<Result<Changed, TableError>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        Some(match kept.done.get(&nonce)? {
            Kind::Small(changed) | Kind::Long(changed) => Ok(changed.clone()),
            Kind::Forgotten => {
                let why = "it was decided before, and the result is no longer remembered";
                Err(TableError::Unknown(why.into()))
            }
        })
    }

    /// Remembers the result of a new nonce. Nonce 0 of group 0 stands for none.
    pub(super) fn keep(&self, nonce: Nonce, changed: &Changed) {
        if nonce == Nonce::default() {
            return;
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.done.contains_key(&nonce) {
            return;
        }
        let bytes = value_bytes(changed);
        kept.order.push_back(nonce);
        let kind = match bytes {
            0 => Kind::Small(changed.clone()),
            _ => {
                kept.results_bytes += bytes;
                kept.long.push_back(nonce);
                Kind::Long(changed.clone())
            }
        };
        kept.done.insert(nonce, kind);
        while kept.results_bytes > self.results_bytes_max {
            kept.forget_result();
        }
        while kept.order.len() > self.nonces_max {
            kept.forget_nonce();
        }
    }

    /// Returns the bytes that are accounted for what is remembered.
    pub(super) fn bytes(&self) -> usize {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.order.len() * NONCE_BYTES + kept.results_bytes
    }
}

impl Kept {
    /// Forgets the oldest result that holds a value.
    fn forget_result(&mut self) {
        let Some(oldest) = self.long.pop_front() else {
            self.results_bytes = 0;
            return;
        };
        if let Some(kind) = self.done.get_mut(&oldest)
            && let Kind::Long(changed) = kind
        {
            self.results_bytes -= value_bytes(changed);
            *kind = Kind::Forgotten;
        }
    }

    /// Forgets the oldest nonce and its result.
    fn forget_nonce(&mut self) {
        let Some(oldest) = self.order.pop_front() else {
            return;
        };
        if self.long.front() == Some(&oldest) {
            self.forget_result();
        }
        self.done.remove(&oldest);
    }
}

/// Bytes of the value that a result holds.
fn value_bytes(changed: &Changed) -> usize {
    match changed {
        Changed::Now(cell) => cell.value.len(),
        Changed::Done | Changed::Mismatch => 0,
    }
}
