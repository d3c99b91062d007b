//! Grace periods: a writer that has changed or removed an entry waits until every answer that was read before the
//! change has been sent.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// List of the threads that answer from a fast path. A clone is another handle to the same list.
#[derive(Clone, Debug, Default)]
pub struct Readers {
    list: Arc<Mutex<Vec<Arc<AtomicU64>>>>,
    /// True if BPF programs read the same table.
    kernel: bool,
    /// Wait for a device that answers, too.
    device: Option<Device>,
}

#[derive(Clone)]
struct Device(Arc<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Device {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Device")
    }
}

/// One registered thread that answers requests. Dropping the value removes the thread from the list.
#[derive(Debug)]
pub struct Reader {
    /// Odd while an answer is in progress: from before the thread reads the fast path until it has sent its answer.
    pin_count: Arc<AtomicU64>,
    readers: Readers,
}

impl Readers {
    /// Returns an empty list. `kernel` is true if XDP programs read the fast-path table too.
    pub fn new(kernel: bool) -> Self {
        Self {
            list: Arc::default(),
            kernel,
            device: None,
        }
    }

    /// Adds a device that answers. `wait` returns when the device has sent every answer that it began before the call.
    #[must_use]
    pub fn with_device(mut self, wait: Arc<dyn Fn() + Send + Sync>) -> Self {
        self.device = Some(Device(wait));
        self
    }

    /// Registers the calling thread.
    pub fn join(&self) -> Reader {
        let pin_count = Arc::new(AtomicU64::new(0));
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(Arc::clone(&pin_count));
        Reader {
            pin_count,
            readers: self.clone(),
        }
    }

    /// Waits until every answer that was begun before this call has been sent.
    ///
    /// The call waits for one thread after the other. XDP programs run under RCU, and membarrier's global command waits
    /// for them because it is synchronize_rcu (membarrier(2)). If the kernel refuses that command (nohz_full), the call
    /// does not wait for XDP answers: one answer takes less than a microsecond, far less than the caller's next system
    /// call.
    pub fn wait(&self) {
        fence(Ordering::SeqCst);
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for reader in list {
            let pin_count = reader.load(Ordering::SeqCst);
            while pin_count & 1 == 1 && reader.load(Ordering::Acquire) == pin_count {
                std::thread::sleep(Duration::from_micros(20));
            }
        }
        if let Some(Device(wait)) = &self.device {
            wait();
        }
        if self.kernel {
            const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
            // SAFETY: membarrier with these arguments reads and writes no memory of this process.
            unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
        }
    }
}

impl Reader {
    /// Marks the start of an answer. A fast path calls `pin` before it reads the table; a host calls it before it
    /// releases the lock under which it found its answer. Repeated calls have no further effect.
    pub fn pin(&self) {
        self.pin_count.fetch_or(1, Ordering::SeqCst);
        // Orders the mark before every read of the table. So either the writer sees the mark and waits, or this thread
        // sees the writer's change.
        fence(Ordering::SeqCst);
    }

    /// Marks the end of an answer, once everything that was read has been sent. Does nothing if [`Reader::pin`] was not
    /// called.
    pub fn unpin(&self) {
        let pin_count = self.pin_count.load(Ordering::Relaxed);
        self.pin_count
            .store(pin_count + (pin_count & 1), Ordering::Release);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut list = self.readers.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|pin_count| !Arc::ptr_eq(pin_count, &self.pin_count));
        // A writer must not wait for a thread that ends during an answer.
        self.pin_count.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    #[test]
    fn wait_outlasts_an_answer_in_flight_but_not_later_ones() {
        let readers = Readers::new(true);
        let reader = readers.join();
        let idle = readers.join();
        reader.pin();
        let (waited, answered) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                readers.wait();
                assert!(
                    answered.load(Ordering::SeqCst),
                    "the wait ended before the answer"
                );
                waited.store(true, Ordering::SeqCst);
            });
            for _ in 0..1000 {
                std::thread::yield_now();
            }
            assert!(!waited.load(Ordering::SeqCst));
            answered.store(true, Ordering::SeqCst);
            // On a busy machine, the writer may begin to wait only now. Then it waits for the answer in progress, which
            // is allowed.
            let is_done = (0..30).any(|_| {
                reader.unpin();
                reader.pin();
                let began = Instant::now();
                while !waited.load(Ordering::SeqCst) && began.elapsed() < Duration::from_secs(1) {
                    std::thread::yield_now();
                }
                waited.load(Ordering::SeqCst)
            });
            reader.unpin();
            assert!(
                is_done,
                "the writer also waited for answers that began after its call"
            );
        });
        reader.pin();
        drop((reader, idle));
        readers.wait();
    }
}
