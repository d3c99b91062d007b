//! Results of changes by nonce, so that a repeated change is not executed twice.
//!
//! This memory is bounded: the results of the oldest changes are dropped before their nonces are. A change whose nonce
//! is known but whose result was dropped is answered "outcome unknown". For a session, the host itself remembers the
//! newest change and refuses all other repetitions, so sessions do not depend on this memory.

use crate::table::{ChangeOutcome, Nonce, TableError};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Maximum number of nonces that are remembered.
const NONCES_MAX: usize = 65_536;
/// Memory of one nonce in bytes: in the map and in both queues, including their spare capacity.
const NONCE_BYTES: usize = 192;

#[derive(Debug)]
pub(super) struct Nonces {
    kept: Mutex<KeptNonce>,
    nonces_max: usize,
    results_bytes_max: usize,
}

/// Record of one executed change.
#[derive(Debug)]
enum ChangeState {
    /// The result, which contains no value.
    Small(ChangeOutcome),
    /// The result, which contains a value. The value's bytes are counted.
    Long(ChangeOutcome),
    /// The result was dropped; only the nonce is remembered.
    Forgotten,
}

#[derive(Debug, Default)]
struct KeptNonce {
    done: HashMap<Nonce, ChangeState>,
    order: VecDeque<Nonce>,
    /// Nonces whose results contain a value, oldest first.
    long: VecDeque<Nonce>,
    /// Total size in bytes of the values in the results that are kept.
    results_bytes: usize,
}

impl Nonces {
    /// Creates an empty memory that takes at most `bytes_max` bytes.
    pub(super) fn new(bytes_max: usize) -> Self {
        let nonces_max = (bytes_max / 2 / NONCE_BYTES).clamp(1, NONCES_MAX);
        Self {
            kept: Mutex::default(),
            nonces_max,
            results_bytes_max: bytes_max.saturating_sub(nonces_max * NONCE_BYTES),
        }
    }

    /// Returns the result of the change with `nonce`, or `None` if the nonce is not known.
    ///
    /// # Errors
    /// [`TableError::Unknown`] if the change was executed but its result was dropped.
    pub(super) fn before(&self, nonce: Nonce) -> Option<Result<ChangeOutcome, TableError>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        Some(match kept.done.get(&nonce)? {
            ChangeState::Small(changed) | ChangeState::Long(changed) => Ok(changed.clone()),
            ChangeState::Forgotten => {
                let why = "the change was executed before, and its result is no longer stored";
                Err(TableError::Unknown(why.into()))
            }
        })
    }

    /// Stores the result of a change with a new nonce. The default nonce (group 0, number 0) means "no nonce" and is
    /// ignored.
    pub(super) fn keep(&self, nonce: Nonce, changed: &ChangeOutcome) {
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
            0 => ChangeState::Small(changed.clone()),
            _ => {
                kept.results_bytes += bytes;
                kept.long.push_back(nonce);
                ChangeState::Long(changed.clone())
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

    /// Returns the number of bytes of memory in use.
    pub(super) fn bytes(&self) -> usize {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.order.len() * NONCE_BYTES + kept.results_bytes
    }
}

impl KeptNonce {
    /// Drops the oldest result that contains a value, but not its nonce.
    fn forget_result(&mut self) {
        let Some(oldest) = self.long.pop_front() else {
            self.results_bytes = 0;
            return;
        };
        if let Some(kind) = self.done.get_mut(&oldest)
            && let ChangeState::Long(changed) = kind
        {
            self.results_bytes -= value_bytes(changed);
            *kind = ChangeState::Forgotten;
        }
    }

    /// Drops the oldest nonce and its result.
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

/// Returns the number of bytes of the value in a result; 0 if it has none.
fn value_bytes(changed: &ChangeOutcome) -> usize {
    match changed {
        ChangeOutcome::Now(cell) => cell.value.len(),
        ChangeOutcome::Done | ChangeOutcome::Mismatch => 0,
    }
}
