//! Changes that others make, told by the servers of the table.
//!
//! A server numbers its changes from 1 on as they begin. Of each it says PRE and waits until that is
//! acknowledged, and only then lets the change be seen. With whatever it says comes the lowest number that is still
//! under way: a POST that is lost is made good by what comes next. It grants leases; when a PRE stays unacknowledged it
//! waits until the last lease it granted is over, and grants none meanwhile. So a range that was read from a server is
//! answered only while the server still asks before it changes it; and whoever takes a lease after one had ended begins
//! anew.
//!
//! A server that opens a range asks before anyone can read it there, and takes a lease for granted then, as the one
//! that held it before may have granted one and fallen.
//!
//! Where it is not known which server a row was read from, a range needs the leases of all of them: whoever may change
//! it is then one whose lease is held, or the fast path is silent.

mod lives;

use crate::coherence::{Coherence, Mark, Touched};
use crate::fill::{ColumnId, ServerId};
use crate::key::Interval;
use lives::Lives;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Servers that the fast path can tell apart at a time; number 0 is not one of them.
pub const SERVERS_MAX: u16 = 64;

/// Of a server that has no number in the fast path.
const NO_ID: ServerId = ServerId(u16::MAX);

/// Where a server's changes stand, said with whatever it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Rises whenever the server starts; its numbers begin anew then.
    pub epoch: u64,
    /// The lowest number of a change that is under way; without one the next number.
    pub oldest_open: u64,
}

/// What one server granted and told.
#[derive(Debug)]
struct Server {
    epoch: u64,
    id: ServerId,
    until_ns: u64,
    /// Changes that it began and did not end, as far as we know: none with a higher number is meant.
    marks: Vec<(u64, Mark)>,
    /// Every number below was told.
    told_below: u64,
    told: BTreeSet<u64>,
}

#[derive(Debug, Default)]
struct Known {
    servers: BTreeMap<usize, Server>,
    /// Which server has a name, hashed.
    names: BTreeMap<u64, usize>,
    /// Epoch and number of the last change that a server told which has no mark any more: a grant that knows nothing of
    /// it comes too late.
    unmarked: BTreeMap<usize, (u64, u64)>,
    /// Numbers in the fast path that were given up, and may still be on ranges there.
    burnt: BTreeSet<u16>,
    /// So many must grant a lease together; their number in the fast path is this one.
    all: Option<(usize, ServerId)>,
    /// Somebody changes the table who is none of them.
    has_stranger: bool,
}

/// The servers that are heard.
#[derive(Debug)]
pub struct Servers {
    coherence: Arc<Coherence>,
    slack_ns: u64,
    known: Mutex<Known>,
    lives: Mutex<Lives>,
}

impl Servers {
    /// None is known yet. Leases are taken for `slack_ns` shorter than they are granted: by so much the fast path's
    /// clock may be behind.
    pub fn new(coherence: Arc<Coherence>, slack_ns: u64) -> Self {
        Self {
            coherence,
            slack_ns,
            known: Mutex::default(),
            lives: Mutex::default(),
        }
    }

    /// The servers 0 to `count` - 1, each of which may hold any row: what is read needs the leases of all.
    pub fn all_of(coherence: Arc<Coherence>, slack_ns: u64, count: usize) -> Self {
        let servers = Self::new(coherence, slack_ns);
        servers.known().all = Some((count, NO_ID));
        servers
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a fill from `server` begins with; `None`: nothing of it may be kept.
    pub fn id(&self, server: usize) -> Option<ServerId> {
        self.known().leased_id(server)
    }

    /// The same by the server's name, hashed, as it said it last. Where any may hold any row nobody's name counts.
    pub fn id_of(&self, name: u64) -> Option<ServerId> {
        let known = self.known();
        match known.all {
            Some(_) => known.leased_id(0),
            None => known.leased_id(*known.names.get(&name)?),
        }
    }

    /// `server` says that it is called `name`, hashed.
    pub fn is_called(&self, server: usize, name: u64) {
        let mut known = self.known();
        known.names.retain(|_, of| *of != server);
        known.names.insert(name, server);
    }

    /// Whether a range is answered by the lease of the server that it was read from alone.
    pub fn are_told_apart(&self) -> bool {
        self.known().all.is_none()
    }

    /// How many servers' leases are held at `now_ns`.
    pub fn leased(&self, now_ns: u64) -> usize {
        let known = self.known();
        let held = known.servers.values().filter(|held| now_ns < held.until_ns);
        held.count()
    }

    /// Somebody changes the table who is none of the servers. What is read from him is not kept; where that cannot be
    /// told, nothing is from here on.
    pub fn meet_stranger(&self) {
        let mut known = self.known();
        known.has_stranger = true;
        if known.all.is_none() {
            return;
        }
        let held: Vec<usize> = known.servers.keys().copied().collect();
        for server in held {
            known.end(&self.coherence, server);
        }
        self.coherence.clear();
    }

    /// Whether [`Servers::meet_stranger`] was called.
    pub fn has_stranger(&self) -> bool {
        self.known().has_stranger
    }

    /// Of a change that is about to be said: a cell in `touched` ends by itself at `end_ms`. `now_ms` is by the same
    /// clock, milliseconds since 1970.
    pub fn will_end(&self, touched: &[Touched], end_ms: u64, now_ms: u64) {
        let mut lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
        lives.add(touched, end_ms, now_ms);
    }

    /// When the first cell of `interval` ends that is known to and may have been there at `read_ms`.
    pub fn first_end_ms(&self, column: ColumnId, interval: &Interval, read_ms: u64) -> Option<u64> {
        let lives = self.lives.lock().unwrap_or_else(PoisonError::into_inner);
        lives.first_end_ms(column, interval, read_ms)
    }

    /// `server` granted a lease of `lease_ns` when asked at `sent_ns` (CLOCK_MONOTONIC, of `now_ns` at the latest). Its
    /// next change will have the number `next`.
    pub fn granted(
        &self,
        server: usize,
        standing: Standing,
        next: u64,
        sent_ns: u64,
        lease_ns: u64,
        now_ns: u64,
    ) {
        let mut known = self.known();
        let is_given_up = known.has_stranger && known.all.is_some();
        let is_before = |told: &(u64, u64)| (standing.epoch, next) <= *told;
        if is_given_up || known.unmarked.get(&server).is_some_and(is_before) {
            return;
        }
        let until_ns = sent_ns.saturating_add(lease_ns.saturating_sub(self.slack_ns));
        let held_epoch = known.servers.get(&server).map(|held| held.epoch);
        if held_epoch.is_some_and(|epoch| standing.epoch < epoch) {
            return;
        }
        if held_epoch != Some(standing.epoch) {
            known.end(&self.coherence, server);
            known.servers.insert(server, Server::new(standing.epoch));
        }
        known.extend(&self.coherence, server, standing, next, until_ns, now_ns);
        known.stands_at(&self.coherence, server, standing);
    }

    /// `server` says PRE of change `number`, which touches `touched`; `false`: not to be acknowledged.
    pub fn pre(&self, server: usize, standing: Standing, number: u64, touched: &[Touched]) -> bool {
        let mut known = self.known();
        let is_of_before = |held: &Server| held.epoch < standing.epoch;
        if known.servers.get(&server).is_none_or(is_of_before) {
            // Without its lease nothing of it is kept.
            known.end(&self.coherence, server);
            known.unmark(server, (standing.epoch, number));
            self.coherence.post(self.coherence.pre(touched));
            return true;
        }
        let Some(held) = known.servers.get_mut(&server) else {
            return false;
        };
        if held.epoch != standing.epoch {
            return false;
        }
        if held.tell(number) && number >= standing.oldest_open {
            held.marks.push((number, self.coherence.pre(touched)));
        }
        known.stands_at(&self.coherence, server, standing);
        true
    }

    /// `server` says POST, or just how far it is.
    pub fn stands_at(&self, server: usize, standing: Standing) {
        let mut known = self.known();
        if known
            .servers
            .get(&server)
            .is_some_and(|held| held.epoch == standing.epoch)
        {
            known.stands_at(&self.coherence, server, standing);
        }
    }

    /// Gives up what servers hold whose lease is over at `now_ns`. To be called now and then: what such a server had
    /// begun must not keep others from filling.
    pub fn tick(&self, now_ns: u64) {
        let mut known = self.known();
        let over = known.servers.iter().filter(|(_, held)| held.until_ns <= now_ns);
        for server in over.map(|(server, _)| *server).collect::<Vec<_>>() {
            known.end(&self.coherence, server);
        }
    }
}

impl Server {
    fn new(epoch: u64) -> Self {
        Self {
            epoch,
            id: NO_ID,
            until_ns: 0,
            marks: Vec::new(),
            told_below: 0,
            told: BTreeSet::new(),
        }
    }

    /// Notes that change `number` was told; `false`: it was before.
    fn tell(&mut self, number: u64) -> bool {
        let is_new = number >= self.told_below && self.told.insert(number);
        self.catch_up();
        is_new
    }

    fn last_told(&self) -> u64 {
        let before = self.told_below.saturating_sub(1);
        self.told.last().copied().unwrap_or_default().max(before)
    }

    fn catch_up(&mut self) {
        self.told = self.told.split_off(&self.told_below);
        while self.told.remove(&self.told_below) {
            self.told_below += 1;
        }
    }
}

impl Known {
    /// Takes over a lease. Where the one before had ended, the server may have changed what we were not told of.
    fn extend(
        &mut self,
        coherence: &Coherence,
        server: usize,
        standing: Standing,
        next: u64,
        until_ns: u64,
        now_ns: u64,
    ) {
        let Some(held) = self.servers.get_mut(&server) else {
            return;
        };
        let had_ended = held.until_ns <= now_ns;
        held.until_ns = held.until_ns.max(until_ns);
        if !had_ended {
            self.set_lease(coherence, server);
            return;
        }
        let last = next.saturating_sub(1);
        if last >= standing.oldest_open {
            // Of what it had begun by then, not all was told; of what it began since, all.
            held.marks.push((last, coherence.pre_all()));
        }
        held.told_below = held.told_below.max(next);
        held.catch_up();
        self.renumber(coherence, server);
    }

    /// The number in the fast path of what is read from `server`.
    fn id(&self, server: usize) -> ServerId {
        match self.all {
            Some((_, id)) => id,
            None => self.servers.get(&server).map_or(NO_ID, |held| held.id),
        }
    }

    /// Until when it may be answered; 0: not at all.
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

    /// Nothing that was read from `server` is answered any more; what will be read is, until its lease ends.
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
            self.burnt.insert(id.0);
            self.set_id(server, NO_ID);
        }
    }

    fn end(&mut self, coherence: &Coherence, server: usize) {
        self.end_id(coherence, server);
        let Some(held) = self.servers.remove(&server) else {
            return;
        };
        self.unmark(server, (held.epoch, held.last_told()));
        for (_, mark) in held.marks {
            coherence.post(mark);
        }
    }

    fn unmark(&mut self, server: usize, told: (u64, u64)) {
        let last = self.unmarked.entry(server).or_default();
        *last = (*last).max(told);
    }

    fn stands_at(&mut self, coherence: &Coherence, server: usize, standing: Standing) {
        let Some(held) = self.servers.get_mut(&server) else {
            return;
        };
        let is_over = |mark: &mut (u64, Mark)| mark.0 < standing.oldest_open;
        for (_, mark) in held.marks.extract_if(.., is_over) {
            coherence.post(mark);
        }
        if standing.oldest_open > held.told_below {
            // A change was made of which we never heard: nothing that was read there is known to be true.
            held.told_below = standing.oldest_open;
            held.catch_up();
            self.renumber(coherence, server);
        }
    }

    /// A number that nothing in the fast path has; [`NO_ID`]: there are more servers than numbers.
    fn new_id(&mut self, coherence: &Coherence) -> ServerId {
        let free = |known: &Self| {
            let shared = known.all.map(|(_, id)| id);
            let ids = known.servers.values().map(|held| held.id).chain(shared);
            let is_used = |id: &u16| ids.clone().any(|used| used.0 == *id);
            (1..SERVERS_MAX).find(|id| !known.burnt.contains(id) && !is_used(id))
        };
        if let Some(id) = free(self) {
            return ServerId(id);
        }
        coherence.clear();
        self.burnt.clear();
        free(self).map_or(NO_ID, ServerId)
    }
}
