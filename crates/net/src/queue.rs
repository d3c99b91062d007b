//! Bounded queue from the receiving threads to the host threads that work in parallel.
//!
//! A host thread that finds the queue empty sleeps at once. The receivers of a crossbeam channel yield the processor
//! several times before they sleep, and sixteen of them would waste processor time by this; so this module does not use
//! one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[derive(Debug)]
struct Inner<T> {
    waiting: Mutex<VecDeque<T>>,
    item_added: Condvar,
    capacity: usize,
    receivers: AtomicUsize,
}

/// Sending half of the queue; each receiving thread of the datapath has one.
#[derive(Debug)]
pub(super) struct QueueSender<T>(Arc<Inner<T>>);

/// Receiving half of the queue, one for each host thread.
#[derive(Debug)]
pub(super) struct QueueReceiver<T>(Arc<Inner<T>>);

/// Returns both halves of an empty queue that holds at most `capacity` items.
pub(super) fn bounded<T>(capacity: usize) -> (QueueSender<T>, QueueReceiver<T>) {
    let inner = Arc::new(Inner {
        waiting: Mutex::default(),
        item_added: Condvar::new(),
        capacity,
        receivers: AtomicUsize::new(1),
    });
    (QueueSender(Arc::clone(&inner)), QueueReceiver(inner))
}

impl<T> Inner<T> {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> QueueSender<T> {
    /// Appends `item` and returns `Some(true)`. Returns `Some(false)` if the queue is full, and `None` if every
    /// [`QueueReceiver`] was dropped.
    pub(super) fn put(&self, item: T) -> Option<bool> {
        if self.0.receivers.load(Relaxed) == 0 {
            return None;
        }
        let mut waiting = self.0.waiting();
        if waiting.len() >= self.0.capacity {
            return Some(false);
        }
        waiting.push_back(item);
        drop(waiting);
        self.0.item_added.notify_one();
        Some(true)
    }
}

impl<T> Clone for QueueSender<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> QueueReceiver<T> {
    /// Removes and returns the oldest item, and waits for one for at most `wait`. Returns `None` if no item arrived.
    pub(super) fn take(&self, wait: Duration) -> Option<T> {
        let waiting = self.0.waiting();
        let waited = (self.0.item_added).wait_timeout_while(waiting, wait, |waiting| waiting.is_empty());
        let (mut waiting, _) = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.pop_front()
    }
}

impl<T> Clone for QueueReceiver<T> {
    fn clone(&self) -> Self {
        self.0.receivers.fetch_add(1, Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for QueueReceiver<T> {
    fn drop(&mut self) {
        self.0.receivers.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_first_in_first_out_and_bounded() {
        let (queue_sender, queue_receiver) = bounded(2);
        assert_eq!(
            [1, 2, 3].map(|item| queue_sender.put(item)),
            [Some(true), Some(true), Some(false)]
        );
        let take = || queue_receiver.take(Duration::ZERO);
        assert_eq!([take(), take(), take()], [Some(1), Some(2), None]);
        let other = queue_receiver.clone();
        drop(queue_receiver);
        assert_eq!(queue_sender.put(4), Some(true));
        drop(other);
        assert_eq!(queue_sender.put(5), None);
    }

    #[test]
    fn each_item_goes_to_one_receiver_and_none_is_lost() {
        const ITEMS: u64 = 20_000;
        let (queue_sender, queue_receiver) = bounded(16);
        let taken: Vec<u64> = std::thread::scope(|scope| {
            let receivers =
                [queue_receiver.clone(), queue_receiver.clone(), queue_receiver].map(|queue_receiver| {
                    scope.spawn(move || {
                        let items = std::iter::from_fn(|| queue_receiver.take(Duration::from_secs(10)));
                        items.take_while(|item| *item > 0).collect::<Vec<_>>()
                    })
                });
            for item in (1..=ITEMS).chain([0, 0, 0]) {
                while queue_sender.put(item) == Some(false) {
                    std::thread::yield_now();
                }
            }
            receivers
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        let mut sorted = taken;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(1..=ITEMS));
    }
}
