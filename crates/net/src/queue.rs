//! Bounded queue from the receiving threads to the host threads that work in parallel.
//!
//! A host thread that finds the queue empty sleeps at once. A crossbeam channel is not used here, because its receivers
//! yield the processor several times first, and sixteen of them doing so cause load of their own.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug)]
struct Inner<T> {
    waiting: Mutex<VecDeque<T>>,
    came: Condvar,
    room: usize,
    takers: AtomicUsize,
}

/// Sending half of the queue.
#[derive(Debug)]
pub(super) struct Putter<T>(Arc<Inner<T>>);

/// Receiving half of the queue, one for each host thread.
#[derive(Debug)]
pub(super) struct Taker<T>(Arc<Inner<T>>);

/// Returns both halves of an empty queue that holds at most `room` items.
pub(super) fn bounded<T>(room: usize) -> (Putter<T>, Taker<T>) {
    let inner = Arc::new(Inner {
        waiting: Mutex::default(),
        came: Condvar::new(),
        room,
        takers: AtomicUsize::new(1),
    });
    (Putter(Arc::clone(&inner)), Taker(inner))
}

impl<T> Inner<T> {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Putter<T> {
    /// Appends `item` and returns `Some(true)`. Returns `Some(false)` if the queue is full, and `None` if every
    /// [`Taker`] was dropped.
    pub(super) fn put(&self, item: T) -> Option<bool> {
        if self.0.takers.load(Relaxed) == 0 {
            return None;
        }
        let mut waiting = self.0.waiting();
        if waiting.len() >= self.0.room {
            return Some(false);
        }
        waiting.push_back(item);
        drop(waiting);
        self.0.came.notify_one();
        Some(true)
    }
}

impl<T> Clone for Putter<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Taker<T> {
    /// Removes the oldest item and waits at most `patience` for one. Returns `None` if none arrived.
    pub(super) fn take(&self, patience: Duration) -> Option<T> {
        let waiting = self.0.waiting();
        let waited = (self.0.came).wait_timeout_while(waiting, patience, |waiting| waiting.is_empty());
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.pop_front()
    }
}

impl<T> Clone for Taker<T> {
    fn clone(&self) -> Self {
        self.0.takers.fetch_add(1, Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Taker<T> {
    fn drop(&mut self) {
        self.0.takers.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_first_in_first_out_and_bounded() {
        let (putter, taker) = bounded(2);
        assert_eq!(
            [1, 2, 3].map(|item| putter.put(item)),
            [Some(true), Some(true), Some(false)]
        );
        let take = || taker.take(Duration::ZERO);
        assert_eq!([take(), take(), take()], [Some(1), Some(2), None]);
        let other = taker.clone();
        drop(taker);
        assert_eq!(putter.put(4), Some(true));
        drop(other);
        assert_eq!(putter.put(5), None);
    }

    #[test]
    fn each_item_goes_to_one_taker_and_none_is_lost() {
        const ITEMS: u64 = 20_000;
        let (putter, taker) = bounded(16);
        let taken: Vec<u64> = std::thread::scope(|scope| {
            let takers = [taker.clone(), taker.clone(), taker].map(|taker| {
                scope.spawn(move || {
                    let items = std::iter::from_fn(|| taker.take(Duration::from_secs(10)));
                    items.take_while(|item| *item > 0).collect::<Vec<_>>()
                })
            });
            for item in (1..=ITEMS).chain([0, 0, 0]) {
                while putter.put(item) == Some(false) {
                    std::thread::yield_now();
                }
            }
            takers
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        let mut sorted = taken;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(1..=ITEMS));
    }
}
