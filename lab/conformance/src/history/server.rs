//! Simulated server of the table whose messages get lost. It reports the changes of other clients in the way that the
//! module `servers` expects.

use lineside_column::coherence::ColumnRange;
use lineside_column::embedded::ChangeListener;
use lineside_column::fill::ColumnId;
use lineside_column::key::Interval;
use lineside_column::servers::{ChangeProgress, Servers};
use lineside_column::table::{ColumnName, RegionOwner};
use lineside_testkit::Random;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Index of the table's server.
const SERVER: usize = 0;
/// Length in nanoseconds of the lease that the server grants: a few ticks after [`SLACK_NS`] is subtracted.
const LEASE_NS: u64 = 60_000_000;
/// Maximum lag of the fast path's clock in nanoseconds.
pub(super) const SLACK_NS: u64 = 20_000_000;
/// Number of times that the server sends a begin-write notification (PRE) before it waits for the lease to end.
const NOTICE_ATTEMPTS: u32 = 3;

#[derive(Debug)]
struct State {
    next: u64,
    open: BTreeSet<u64>,
    granted_until_ns: u64,
    /// Number of changes that wait until the lease ends.
    waiting: u32,
    random: Random,
}

/// State of the simulated server, and its network connection to Lineside.
#[derive(Debug)]
pub(super) struct LossyServer {
    servers: Arc<Servers>,
    ids: Vec<ColumnName>,
    clock: fn() -> u64,
    state: Mutex<State>,
    /// Number of messages in a thousand that get lost.
    lost: u64,
    /// True if the server does not wait for the lease to end when a notification is not acknowledged.
    pub(super) is_hasty: bool,
}

impl LossyServer {
    pub(super) fn new(
        servers: Arc<Servers>,
        ids: Vec<ColumnName>,
        clock: fn() -> u64,
        seed: u64,
        is_hasty: bool,
    ) -> Self {
        // This is the name that the embedded table gives to the owner of all rows.
        servers.set_name(SERVER, RegionOwner::default().server);
        Self {
            servers,
            ids,
            clock,
            state: Mutex::new(State {
                next: 1,
                open: BTreeSet::new(),
                granted_until_ns: 0,
                waiting: 0,
                random: Random(seed),
            }),
            lost: 200,
            is_hasty,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests a lease, as Lineside does now and then. The request or the answer may get lost.
    pub(super) fn renew(&self) {
        let sent_ns = (self.clock)();
        let mut state = self.state();
        if state.is_lost(self.lost) || state.waiting > 0 {
            drop(state);
            return self.servers.tick((self.clock)());
        }
        let (progress, next) = (state.progress(), state.next);
        state.granted_until_ns = (self.clock)() + LEASE_NS;
        let is_lost = state.is_lost(self.lost);
        drop(state);
        let now_ns = (self.clock)();
        if !is_lost {
            self.servers
                .granted(SERVER, progress, next, sent_ns, LEASE_NS, now_ns);
        }
        self.servers.tick(now_ns);
    }
}

impl State {
    fn is_lost(&mut self, of_1000: u64) -> bool {
        self.random.below(1000) < of_1000
    }

    fn progress(&self) -> ChangeProgress {
        ChangeProgress {
            epoch: 1,
            oldest_open: self.open.first().copied().unwrap_or(self.next),
        }
    }
}

impl ChangeListener for LossyServer {
    fn begin_write(&self, key: &[u8], column: &ColumnName) -> u64 {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.open.insert(number);
        drop(state);
        let Some(id) = self.ids.iter().position(|name| name == column) else {
            return number;
        };
        let touched: [ColumnRange; 1] = [(ColumnId(id as u16), Interval::of_row(key))];
        for _ in 0..NOTICE_ATTEMPTS {
            let mut state = self.state();
            let (asks, answers, progress) = (
                !state.is_lost(self.lost),
                !state.is_lost(self.lost),
                state.progress(),
            );
            drop(state);
            if asks && self.servers.on_pre(SERVER, progress, number, &touched) && answers {
                return number;
            }
            if self.state().granted_until_ns < (self.clock)() {
                // No client has a lease, so the server need not notify any client.
                return number;
            }
        }
        self.state().waiting += 1;
        while !self.is_hasty && (self.clock)() <= self.state().granted_until_ns {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.state().waiting -= 1;
        number
    }

    fn end_write(&self, mark: u64) {
        let mut state = self.state();
        state.open.remove(&mark);
        let (is_lost, progress) = (state.is_lost(2 * self.lost), state.progress());
        drop(state);
        if !is_lost {
            self.servers.apply_progress(SERVER, progress);
        }
    }
}
