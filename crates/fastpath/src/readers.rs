//! Who is in the middle of an answer: lets a writer wait until nothing can leave that was read before.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The threads that answer from the fast path. A clone is another handle to the same list.
#[derive(Clone, Debug, Default)]
pub struct Readers {
    list: Arc<Mutex<Vec<Arc<AtomicU64>>>>,
    /// Whether BPF programs read the same store.
    kernel: bool,
}

/// One thread that answers; it leaves the list when dropped.
#[derive(Debug)]
pub struct Reader {
    /// Odd while the thread is between reading the fast path and having sent what it read.
    turn: Arc<AtomicU64>,
    readers: Readers,
}

impl Readers {
    /// An empty list. `kernel`: XDP programs read the fast path too.
    pub fn new(kernel: bool) -> Self {
        Self {
            list: Arc::default(),
            kernel,
        }
    }

    /// Puts the calling thread on the list.
    pub fn join(&self) -> Reader {
        let turn = Arc::new(AtomicU64::new(0));
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(Arc::clone(&turn));
        Reader {
            turn,
            readers: self.clone(),
        }
    }

    /// Returns when every answer that was begun before this call has left.
    ///
    /// Threads are waited for one by one. XDP programs run under RCU, which membarrier's global command waits for
    /// (membarrier(2): it is synchronize_rcu); where the kernel refuses that (nohz_full), their answers are not waited
    /// for: an XDP answer takes under a microsecond, far less than the caller's next system call.
    pub fn wait(&self) {
        fence(Ordering::SeqCst);
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for reader in list {
            let turn = reader.load(Ordering::SeqCst);
            while turn & 1 == 1 && reader.load(Ordering::Acquire) == turn {
                std::thread::sleep(Duration::from_micros(20));
            }
        }
        if self.kernel {
            const MEMBARRIER_CMD_GLOBAL: libc::c_int = 1;
            // SAFETY: takes no memory of ours.
            unsafe { libc::syscall(libc::SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) };
        }
    }
}

impl Reader {
    /// Before the fast path is read; for a host, before it lets go of the lock under which it found its answer. Again
    /// is the same as once.
    pub fn enter(&self) {
        self.turn.fetch_or(1, Ordering::SeqCst);
        // Ordered before every read of the fast path, against the writer's change and its look at this word.
        fence(Ordering::SeqCst);
    }

    /// After everything that was read has left; without [`Reader::enter`] nothing happens.
    pub fn leave(&self) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn + (turn & 1), Ordering::Release);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut list = self.readers.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|turn| !Arc::ptr_eq(turn, &self.turn));
        // A thread that ends in the middle of an answer must not be waited for.
        self.turn.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    #[test]
    fn wait_outlasts_an_answer_in_flight_and_no_other() {
        let readers = Readers::new(true);
        let reader = readers.join();
        let idle = readers.join();
        reader.enter();
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
            // One that begins to wait only now, on a busy machine, waits for the answer that it finds.
            let is_done = (0..30).any(|_| {
                reader.leave();
                reader.enter();
                let began = Instant::now();
                while !waited.load(Ordering::SeqCst) && began.elapsed() < Duration::from_secs(1) {
                    std::thread::yield_now();
                }
                waited.load(Ordering::SeqCst)
            });
            reader.leave();
            assert!(is_done, "it waits for other answers, too");
        });
        reader.enter();
        drop((reader, idle));
        readers.wait();
    }
}
