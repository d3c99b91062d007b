//! Progress of a host, to notice a stalled one: the time for which requests have waited without any of them being
//! answered.

use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Numbers of requests that a host has received and finished, to detect that it makes no progress. All times are
/// CLOCK_MONOTONIC in ns.
#[derive(Debug, Default)]
pub(super) struct Progress {
    forwarded_count: AtomicU64,
    done: AtomicU64,
    /// Time at which the host last finished a request, or at which it received one while it had none.
    moved_ns: AtomicU64,
    /// Time since which no reply of the host could be sent because its send buffer was full; 0 once a reply was sent.
    unsent_since_ns: AtomicU64,
}

impl Progress {
    /// Counts requests that were handed to the host.
    pub fn add_forwarded(&self, count: u64, now_ns: u64) {
        if count == 0 {
            return;
        }
        // The time precedes the count, so that the idle time before these requests does not count as a stall.
        if self.forwarded_count.load(Relaxed) <= self.done.load(Relaxed) {
            self.moved_ns.store(now_ns, Relaxed);
        }
        self.forwarded_count.fetch_add(count, Release);
    }

    /// Counts requests that the host has finished, with or without an answer.
    pub fn finish(&self, count: u64, now_ns: u64) {
        self.moved_ns.store(now_ns, Relaxed);
        self.done.fetch_add(count, Relaxed);
    }

    /// Records how many replies of a batch were sent, and how many were lost because the send buffer was full.
    pub fn add_sends(&self, sent: usize, lost: usize, now_ns: u64) {
        if sent > 0 {
            self.unsent_since_ns.store(0, Relaxed);
        } else if lost > 0 {
            let _ = (self.unsent_since_ns).compare_exchange(0, now_ns, Relaxed, Relaxed);
        }
    }

    /// Returns the number of requests that were handed to the host.
    pub fn forwarded_count(&self) -> u64 {
        self.forwarded_count.load(Relaxed)
    }

    /// Returns the number of requests that the host has received and not finished.
    pub fn waiting(&self) -> u64 {
        let done = self.done.load(Relaxed);
        self.forwarded_count.load(Acquire).saturating_sub(done)
    }

    /// Returns the time in ns for which requests have waited without any of them being finished, or for which no reply
    /// could be sent. Returns 0 while the host makes progress or has nothing to do.
    pub fn stalled_ns(&self, now_ns: u64) -> u64 {
        let unsent_since_ns = self.unsent_since_ns.load(Relaxed);
        let unsent_ns = match unsent_since_ns {
            0 => 0,
            since_ns => now_ns.saturating_sub(since_ns),
        };
        let idle_ns = if self.waiting() > 0 {
            now_ns.saturating_sub(self.moved_ns.load(Relaxed))
        } else {
            0
        };
        idle_ns.max(unsent_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_stalled_while_requests_wait_and_none_is_finished() {
        let progress = Progress::default();
        assert_eq!((progress.waiting(), progress.stalled_ns(1_000)), (0, 0));
        progress.add_forwarded(2, 1_000);
        assert_eq!((progress.waiting(), progress.stalled_ns(1_700)), (2, 700));
        progress.add_forwarded(1, 1_800);
        assert_eq!(progress.stalled_ns(1_900), 900, "the oldest request counts");
        progress.finish(1, 2_000);
        assert_eq!((progress.waiting(), progress.stalled_ns(2_100)), (2, 100));
        progress.finish(2, 2_200);
        assert_eq!((progress.waiting(), progress.stalled_ns(9_000)), (0, 0));
        progress.add_forwarded(1, 9_000);
        assert_eq!(
            progress.stalled_ns(9_050),
            50,
            "idle time before it does not count"
        );
    }

    #[test]
    fn a_host_is_stalled_while_none_of_its_replies_is_sent() {
        let progress = Progress::default();
        progress.add_sends(0, 3, 1_000);
        progress.add_sends(0, 3, 1_500);
        assert_eq!(progress.stalled_ns(2_000), 1_000);
        progress.add_sends(1, 2, 2_500);
        assert_eq!(progress.stalled_ns(3_000), 0);
    }
}
