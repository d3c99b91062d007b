//! Coherence with the table's servers: this module handles the changes that other clients make, which the servers
//! announce.
//!
//! A server numbers its changes from 1, in the order in which they begin. It sends a PRE notice for each change, waits
//! until Lineside acknowledges it, and only then makes the change visible. Every notice also carries the lowest number
//! of a change that is still in progress, so if a POST notice is lost, the next notice has the same effect. The server
//! grants leases. While a PRE notice is not acknowledged, the server grants no lease, and waits until the last lease
//! that it granted has ended. So while the fast path answers rows of a server, that server asks before it changes them.
//! If Lineside gets a lease after an earlier one had ended, all rows that it read before from this server become
//! invalid.
//!
//! A server that opens a region sends a PRE notice before the region can be read there. It assumes that a lease exists,
//! because the server that served the region before may have granted one and crashed.
//!
//! If it is not known which server a row was read from, the fast path answers rows only while it has the leases of all
//! servers. Then each server that may change a row has granted a lease, or the fast path answers nothing.

mod expiries;

use crate::coherence::{Coherence, ColumnRange, WriteIntent};
use crate::fill::{ColumnId, ServerId};
use crate::key::Interval;
use expiries::Expiries;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of servers that the fast path can distinguish at the same time. Number 0 is the embedded table.
pub const SERVERS_MAX: u16 = 64;

/// Value for a server that has no number in the fast path.
const NO_ID: ServerId = ServerId(u16::MAX);

/// Progress of a server's changes. Every notice carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeProgress {
    /// Epoch of the server. It increases with each start of the server; the numbers of changes then begin at 1 again.
    pub epoch: u64,
    /// Lowest number of a change in progress, or the number of the next change if none is in progress.
    pub oldest_open: u64,
}

/// Lease and announced changes of one server.
#[derive(Debug)]
struct Server {
    epoch: u64,
    id: ServerId,
    until_ns: u64,
    /// Changes that the server has begun and, as far as Lineside knows, has not ended. An entry with number n also
    /// covers unannounced changes in progress with lower numbers.
    intents: Vec<(u64, WriteIntent)>,
    /// Lowest number of a change that may not have been announced. All changes with lower numbers were announced.
    announced_below: u64,
    announced: BTreeSet<u64>,
}

#[derive(Debug, Default)]
struct LeaseTable {
    servers: BTreeMap<usize, Server>,
    /// Index of each server by its hashed name.
    names: BTreeMap<u64, usize>,
    /// For each server, epoch and number of its last announced change whose mark was removed. A grant that is not newer
    /// is ignored.
    last_released: BTreeMap<usize, (u64, u64)>,
    /// Numbers that no server has any more, but that rows in the fast path may still have.
    retired_ids: BTreeSet<u16>,
    /// `None` if rows are attributed to servers. Otherwise the number of servers that must all grant a lease, and the
    /// number in the fast path that all their rows have.
    all: Option<(usize, ServerId)>,
    /// True if a server that is not configured changes the table.
    has_unknown_writer: bool,
}

/// The table's servers, with their leases and the changes that they have in progress.
#[derive(Debug)]
pub struct Servers {
    coherence: Arc<Coherence>,
    slack_ns: u64,
    leases: Mutex<LeaseTable>,
    expiries: Mutex<Expiries>,
}

impl Servers {
    /// Creates an object that knows no server yet. Leases are shortened by `slack_ns` nanoseconds, because the clock of
    /// the fast path may lag by this time.
    pub fn new(coherence: Arc<Coherence>, slack_ns: u64) -> Self {
        Self {
            coherence,
            slack_ns,
            leases: Mutex::default(),
            expiries: Mutex::default(),
        }
    }

    /// Like [`Servers::new`], for servers with the indices 0 to `count` - 1, each of which may serve any row. The fast
    /// path answers rows only while it has the leases of all of them.
    pub fn all_of(coherence: Arc<Coherence>, slack_ns: u64, count: usize) -> Self {
        let servers = Self::new(coherence, slack_ns);
        servers.leases().all = Some((count, NO_ID));
        servers
    }

    fn leases(&self) -> MutexGuard<'_, LeaseTable> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number with which a fill of rows of `server` begins; `None` if these rows may not be cached.
    pub fn id(&self, server: usize) -> Option<ServerId> {
        self.leases().leased_id(server)
    }

    /// Like [`Servers::id`], for the server with this hashed name. The name is ignored if rows are not attributed to
    /// servers.
    pub fn id_of(&self, name: u64) -> Option<ServerId> {
        let leases = self.leases();
        match leases.all {
            Some(_) => leases.leased_id(0),
            None => leases.leased_id(*leases.names.get(&name)?),
        }
    }

    /// Records that `server` has the hashed name `name`.
    pub fn set_name(&self, server: usize, name: u64) {
        let mut leases = self.leases();
        leases.names.retain(|_, of| *of != server);
        leases.names.insert(name, server);
    }

    /// Returns true if rows are attributed to servers, so that a row needs only the lease of its own server.
    pub fn has_lease_per_server(&self) -> bool {
        self.leases().all.is_none()
    }

    /// Returns the number of servers whose leases are valid at `now_ns`.
    pub fn leased(&self, now_ns: u64) -> usize {
        let leases = self.leases();
        let held = leases.servers.values().filter(|held| now_ns < held.until_ns);
        held.count()
    }

    /// Records that a server that is not configured changes the table; its rows are not cached. If rows are not
    /// attributed to servers, no row is cached from now on.
    pub fn record_unknown_writer(&self) {
        let mut leases = self.leases();
        leases.has_unknown_writer = true;
        if leases.all.is_none() {
            return;
        }
        let leased_servers: Vec<usize> = leases.servers.keys().copied().collect();
        for server in leased_servers {
            leases.end(&self.coherence, server);
        }
        self.coherence.clear();
    }

    /// Returns true if [`Servers::record_unknown_writer`] was called.
    pub fn has_unknown_writer(&self) -> bool {
        self.leases().has_unknown_writer
    }

    /// Records, before a change is announced, that a cell in `touched` will expire at `end_ms`. `now_ms` is the present
    /// time by the same clock. Both are in milliseconds since 1970.
    pub fn record_expiry(&self, touched: &[ColumnRange], end_ms: u64, now_ms: u64) {
        let mut expiries = self.expiries.lock().unwrap_or_else(PoisonError::into_inner);
        expiries.add(touched, end_ms, now_ms);
    }

    /// Returns the earliest known expiry, in milliseconds since 1970, of a cell in `interval` that may have existed at
    /// `read_ms`.
    pub fn first_expiry_ms(&self, column: ColumnId, interval: &Interval, read_ms: u64) -> Option<u64> {
        let expiries = self.expiries.lock().unwrap_or_else(PoisonError::into_inner);
        expiries.first_expiry_ms(column, interval, read_ms)
    }

    /// Handles a lease of `lease_ns` nanoseconds that `server` has granted. The grant answers a request that was sent
    /// at `sent_ns` (CLOCK_MONOTONIC, not after `now_ns`). The server's next change will have the number `next`.
    pub fn granted(
        &self,
        server: usize,
        progress: ChangeProgress,
        next: u64,
        sent_ns: u64,
        lease_ns: u64,
        now_ns: u64,
    ) {
        let mut leases = self.leases();
        let caches_nothing = leases.has_unknown_writer && leases.all.is_some();
        let is_before = |announced: &(u64, u64)| (progress.epoch, next) <= *announced;
        if caches_nothing || leases.last_released.get(&server).is_some_and(is_before) {
            return;
        }
        let until_ns = sent_ns.saturating_add(lease_ns.saturating_sub(self.slack_ns));
        let held_epoch = leases.servers.get(&server).map(|held| held.epoch);
        if held_epoch.is_some_and(|epoch| progress.epoch < epoch) {
            return;
        }
        if held_epoch != Some(progress.epoch) {
            leases.end(&self.coherence, server);
            leases.servers.insert(server, Server::new(progress.epoch));
        }
        leases.extend(&self.coherence, server, progress, next, until_ns, now_ns);
        leases.apply_progress(&self.coherence, server, progress);
    }

    /// Handles the PRE notice of `server` that its change `number` will affect `touched`. Returns false if the notice
    /// must not be acknowledged.
    pub fn on_pre(
        &self,
        server: usize,
        progress: ChangeProgress,
        number: u64,
        touched: &[ColumnRange],
    ) -> bool {
        let mut leases = self.leases();
        let is_of_before = |held: &Server| held.epoch < progress.epoch;
        if leases.servers.get(&server).is_none_or(is_of_before) {
            // Without a lease, rows of this server are not cached, so the change needs no mark.
            leases.end(&self.coherence, server);
            leases.record_released(server, (progress.epoch, number));
            self.coherence.end_write(self.coherence.begin_write(touched));
            return true;
        }
        let Some(lease) = leases.servers.get_mut(&server) else {
            return false;
        };
        if lease.epoch != progress.epoch {
            return false;
        }
        if lease.record_announced(number) && number >= progress.oldest_open {
            lease.intents.push((number, self.coherence.begin_write(touched)));
        }
        leases.apply_progress(&self.coherence, server, progress);
        true
    }

    /// Handles a POST notice, or the progress that is part of any other notice.
    pub fn apply_progress(&self, server: usize, progress: ChangeProgress) {
        let mut leases = self.leases();
        if leases
            .servers
            .get(&server)
            .is_some_and(|held| held.epoch == progress.epoch)
        {
            leases.apply_progress(&self.coherence, server, progress);
        }
    }

    /// Removes the marks of changes of servers whose lease has ended at `now_ns`. Must be called regularly, because
    /// these marks would otherwise block fills.
    pub fn tick(&self, now_ns: u64) {
        let mut leases = self.leases();
        let over = leases.servers.iter().filter(|(_, held)| held.until_ns <= now_ns);
        for server in over.map(|(server, _)| *server).collect::<Vec<_>>() {
            leases.end(&self.coherence, server);
        }
    }
}

impl Server {
    fn new(epoch: u64) -> Self {
        Self {
            epoch,
            id: NO_ID,
            until_ns: 0,
            intents: Vec::new(),
            announced_below: 0,
            announced: BTreeSet::new(),
        }
    }

    /// Records that change `number` was announced. Returns false if it was already recorded.
    fn record_announced(&mut self, number: u64) -> bool {
        let is_new = number >= self.announced_below && self.announced.insert(number);
        self.compact_announced();
        is_new
    }

    fn last_announced(&self) -> u64 {
        let before = self.announced_below.saturating_sub(1);
        self.announced.last().copied().unwrap_or_default().max(before)
    }

    fn compact_announced(&mut self) {
        self.announced = self.announced.split_off(&self.announced_below);
        while self.announced.remove(&self.announced_below) {
            self.announced_below += 1;
        }
    }
}

impl LeaseTable {
    /// Extends the lease of a server. If the earlier lease had ended, the server may have made changes in the meantime
    /// without announcing them, so all its rows become invalid.
    fn extend(
        &mut self,
        coherence: &Coherence,
        server: usize,
        progress: ChangeProgress,
        next: u64,
        until_ns: u64,
        now_ns: u64,
    ) {
        let Some(lease) = self.servers.get_mut(&server) else {
            return;
        };
        let had_ended = lease.until_ns <= now_ns;
        lease.until_ns = lease.until_ns.max(until_ns);
        if !had_ended {
            self.set_lease(coherence, server);
            return;
        }
        let last = next.saturating_sub(1);
        if last >= progress.oldest_open {
            // Changes that the server began before this lease may not have been announced, so all rows are marked until
            // these changes have ended. All later changes are announced.
            lease.intents.push((last, coherence.begin_write_all()));
        }
        lease.announced_below = lease.announced_below.max(next);
        lease.compact_announced();
        self.renumber(coherence, server);
    }

    /// Returns the number that the fast path gives to rows of `server`.
    fn id(&self, server: usize) -> ServerId {
        match self.all {
            Some((_, id)) => id,
            None => self.servers.get(&server).map_or(NO_ID, |held| held.id),
        }
    }

    /// Returns the CLOCK_MONOTONIC time in nanoseconds until which rows of `server` may be answered; 0: they may not.
    fn until_ns(&self, server: usize) -> u64 {
        match self.all {
            Some((count, _)) if self.servers.len() < count => 0,
            Some(_) => self.servers.values().map(|held| held.until_ns).min().unwrap_or(0),
            None => self.servers.get(&server).map_or(0, |held| held.until_ns),
        }
    }

    fn leased_id(&self, server: usize) -> Option<ServerId> {
        let id = self.id(server);
        (id != NO_ID && self.until_ns(server) > 0).then_some(id)
    }

    fn set_id(&mut self, server: usize, id: ServerId) {
        match (&mut self.all, self.servers.get_mut(&server)) {
            (Some((_, all)), _) => *all = id,
            (None, Some(held)) => held.id = id,
            (None, None) => {}
        }
    }

    fn set_lease(&self, coherence: &Coherence, server: usize) {
        let id = self.id(server);
        if id != NO_ID {
            coherence.set_server_lease(id, self.until_ns(server));
        }
    }

    /// Gives `server` a new number in the fast path. Rows with the old number are never answered again. Rows that are
    /// read from now on get the new number, and are answered until the lease ends.
    fn renumber(&mut self, coherence: &Coherence, server: usize) {
        self.end_id(coherence, server);
        let id = self.new_id(coherence);
        self.set_id(server, id);
        self.set_lease(coherence, server);
    }

    fn end_id(&mut self, coherence: &Coherence, server: usize) {
        let id = self.id(server);
        if id != NO_ID {
            coherence.end_server(id);
            self.retired_ids.insert(id.0);
            self.set_id(server, NO_ID);
        }
    }

    fn end(&mut self, coherence: &Coherence, server: usize) {
        self.end_id(coherence, server);
        let Some(held) = self.servers.remove(&server) else {
            return;
        };
        self.record_released(server, (held.epoch, held.last_announced()));
        for (_, intent) in held.intents {
            coherence.end_write(intent);
        }
    }

    fn record_released(&mut self, server: usize, announced: (u64, u64)) {
        let last = self.last_released.entry(server).or_default();
        *last = (*last).max(announced);
    }

    fn apply_progress(&mut self, coherence: &Coherence, server: usize, progress: ChangeProgress) {
        let Some(lease) = self.servers.get_mut(&server) else {
            return;
        };
        let is_over = |intent: &mut (u64, WriteIntent)| intent.0 < progress.oldest_open;
        for (_, intent) in lease.intents.extract_if(.., is_over) {
            coherence.end_write(intent);
        }
        if progress.oldest_open > lease.announced_below {
            // The server made a change without announcing it, so any row that was read from this server may be stale.
            lease.announced_below = progress.oldest_open;
            lease.compact_announced();
            self.renumber(coherence, server);
        }
    }

    /// Returns a number that no row in the fast path has; [`NO_ID`] if all numbers are in use.
    fn new_id(&mut self, coherence: &Coherence) -> ServerId {
        let free = |leases: &Self| {
            let shared = leases.all.map(|(_, id)| id);
            let ids = leases.servers.values().map(|held| held.id).chain(shared);
            let is_used = |id: &u16| ids.clone().any(|used| used.0 == *id);
            (1..SERVERS_MAX).find(|id| !leases.retired_ids.contains(id) && !is_used(id))
        };
        if let Some(id) = free(self) {
            return ServerId(id);
        }
        coherence.clear();
        self.retired_ids.clear();
        free(self).map_or(NO_ID, ServerId)
    }
}
