//! What was done under a nonce, so that it is not done again.

use crate::table::{Changed, Nonce};
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

/// Nonces that are remembered: the newest.
const KEPT: usize = 65_536;

#[derive(Debug, Default)]
pub(super) struct Nonces(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    done: HashMap<Nonce, Changed>,
    order: VecDeque<Nonce>,
}

impl Nonces {
    /// What a change under `nonce` was answered, if there was one.
    pub(super) fn before(&self, nonce: Nonce) -> Option<Changed> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.done.get(&nonce).cloned()
    }

    /// Remembers it. None is 0, 0.
    pub(super) fn keep(&self, nonce: Nonce, changed: &Changed) {
        if nonce == Nonce::default() {
            return;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.done.insert(nonce, changed.clone()).is_none() {
            kept.order.push_back(nonce);
        }
        if kept.order.len() > KEPT
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.done.remove(&oldest);
        }
    }
}
