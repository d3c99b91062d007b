//! Sessions of clients. In a session, a change is executed once even if its request is repeated. A client gets a
//! session by sending back a challenge, which proves that it receives packets at its address; each challenge is valid
//! for one session. A restart ends all sessions, so a client does not know the outcome of a change that was in progress
//! at that time.
//!
//! Each class of clients has a share of the sessions, so that unknown clients cannot use up the sessions of others:
//!
//! ```text
//! 0                      1/2                 3/4                 all
//! |--- strangers --------|
//! |--- and clients with a history -----------|
//! |--- and trusted sources -----------------------------------------|
//! ```
//!
//! A network is an IPv4 address, or the /64 of an IPv6 address. A network has a history if one of its sessions
//! changed the table at least ten minutes ago. A stranger is a client that is not trusted and whose network has no
//! history.

mod history;

use super::challenges::{CHALLENGE_END_S, Challenge, Challenges};
use history::Histories;
use lineside_fastpath::challenge::UNUSED_S;
use lineside_fastpath::{PAYLOAD_BYTES_MAX, Source};
use lineside_util::network::network_of;
use lineside_wire::{ColumnSession, Status};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zerocopy::FromZeros;

/// Maximum number of sessions, even if the memory has room for more.
const SESSIONS_MAX: usize = 65_536;
/// Maximum memory of one session in bytes: its last request and reply, its entries in the maps, and the entries of two
/// used challenges.
const SESSION_BYTES: usize = 2 * PAYLOAD_BYTES_MAX + 640;
/// Maximum number of sessions of a network.
const PER_NETWORK_MAX: usize = 1024;
/// Time in seconds for which the status reports a problem after a new client was refused.
const REFUSED_S: u64 = 60;

/// Network by which limits count clients: an IPv4 address, or the /64 of an IPv6 address.
pub(super) type Network = [u8; 16];

/// Class of a client, which determines its share of the sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Stranger,
    Known,
    Trusted,
}

/// An open session of a client.
#[derive(Debug)]
pub(super) struct Session {
    token: u64,
    network: Network,
    class: Class,
    used_s: AtomicU64,
    /// Time in seconds at which the network's history last recorded a change of this session; 0 if the session has
    /// changed nothing.
    noted_s: AtomicU64,
    /// The session's last change. This lock is held while a change of the session is executed.
    pub(super) last: Mutex<Last>,
}

/// A session's last change.
#[derive(Debug, Default)]
pub(super) struct Last {
    /// Nonce of the change; 0 if the session has made no change.
    pub(super) nonce: u64,
    /// Body of the request, and the reply to it.
    pub(super) request: Vec<u8>,
    pub(super) reply: Vec<u8>,
}

/// A challenge that was used.
#[derive(Debug)]
struct UsedChallenge {
    /// Id of the request that used the challenge. A repetition of that request gets the same session.
    request_id: u64,
    slot: u32,
    until_s: u64,
}

#[derive(Debug, Default)]
struct Open {
    by_slot: HashMap<u32, Arc<Session>>,
    used: HashMap<Challenge, UsedChallenge>,
    used_order: VecDeque<Challenge>,
    per_network: HashMap<Network, usize>,
    /// Number of sessions of each class.
    counts: [usize; 3],
    histories: Histories,
    next_slot: u32,
    /// Time in seconds of the last search for idle sessions.
    looked_s: Option<u64>,
    /// Time in seconds at which a client was last refused because a share was used up.
    refused_s: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Sessions {
    challenges: Challenges,
    open: Mutex<Open>,
    limits: Limits,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Maximum number of sessions, and time in seconds after which an unused session may be closed.
    count: usize,
    idle_s: u64,
}

/// Numbers of sessions, for the status and the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionUse {
    /// Number of open sessions.
    pub open: usize,
    /// Maximum number of sessions.
    pub max: usize,
    /// Use of the fullest share, in percent.
    pub share_percent: usize,
    /// True if a new client was refused within the last minute because a share was used up.
    pub is_refusing: bool,
}

impl Limits {
    /// Returns the maximum number of sessions that this class and the classes below it may have together.
    const fn share(&self, class: Class) -> usize {
        match class {
            Class::Stranger => self.count / 2,
            Class::Known => self.count / 4 * 3,
            Class::Trusted => self.count,
        }
    }

    /// Returns the maximum number of sessions that a network of this class may have.
    fn per_network(&self, class: Class) -> usize {
        match class {
            Class::Stranger => (self.count / 128).clamp(4, PER_NETWORK_MAX),
            Class::Known | Class::Trusted => PER_NETWORK_MAX,
        }
    }
}

fn network_bytes_of(from: Source) -> Network {
    let address = network_of(from.address);
    Source { address, ..from }.address_bytes()
}

impl Sessions {
    /// Creates an empty set of sessions that takes at most `bytes` bytes of memory. A session that was not used for
    /// `idle_s` seconds may be closed.
    pub(super) fn new(bytes: usize, idle_s: u64) -> io::Result<Self> {
        let count = bytes.saturating_sub(history::BYTES) / SESSION_BYTES;
        Ok(Self {
            challenges: Challenges::new()?,
            open: Mutex::default(),
            limits: Limits {
                count: count.clamp(8, SESSIONS_MAX),
                idle_s,
            },
        })
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles a request to open a session. `now_s` is the time in seconds of any monotonic clock.
    pub(super) fn open(
        &self,
        from: Source,
        is_trusted: bool,
        request_id: u64,
        request: &ColumnSession,
        now_s: u64,
    ) -> Result<ColumnSession, Status> {
        let challenge = request.challenge;
        if challenge == [0; 16] {
            return Ok(ColumnSession {
                challenge: self.challenges.make(from, now_s),
                lease_s: (CHALLENGE_END_S as u32 / 2).into(),
                ..ColumnSession::new_zeroed()
            });
        }
        if !self.challenges.is_good(from, &challenge, now_s) {
            return Err(Status::Unauthorised);
        }
        let mut open = self.lock();
        let slot = match open.used.get(&challenge) {
            Some(used) if used.request_id != request_id => return Err(Status::Unauthorised),
            Some(used) => used.slot,
            None => open.grant(network_bytes_of(from), is_trusted, now_s, self.limits)?,
        };
        // If the session of this challenge was already closed, the challenge opens no other session.
        let token = open.by_slot.get(&slot).ok_or(Status::Unauthorised)?.token;
        open.note_used(challenge, request_id, slot, now_s);
        Ok(ColumnSession {
            challenge,
            token: token.into(),
            slot: slot.into(),
            lease_s: (self.limits.idle_s as u32).into(),
            ..ColumnSession::new_zeroed()
        })
    }

    /// Returns the session with this number, if `token` is the session's secret.
    pub(super) fn find(&self, slot: u32, token: u64, now_s: u64) -> Option<Arc<Session>> {
        let open = self.lock();
        let session = open.by_slot.get(&slot).filter(|session| session.token == token)?;
        session.used_s.store(now_s, Relaxed);
        Some(Arc::clone(session))
    }

    /// Records that a session has changed the table.
    pub(super) fn changed(&self, session: &Session, now_s: u64) {
        let noted_s = session.noted_s.load(Relaxed);
        if noted_s == 0 || now_s.saturating_sub(noted_s) >= history::NOTED_AGAIN_S {
            session.noted_s.store(now_s.max(1), Relaxed);
            self.lock().histories.note(session.network, now_s);
        }
    }

    /// Returns how many sessions are in use.
    pub(super) fn usage(&self, now_s: u64) -> SessionUse {
        let open = self.lock();
        let percent = |class| 100 * open.count_up_to(class) / self.limits.share(class).max(1);
        let shares = [Class::Stranger, Class::Known, Class::Trusted].map(percent);
        SessionUse {
            open: open.by_slot.len(),
            max: self.limits.count,
            share_percent: shares.into_iter().max().unwrap_or(0),
            is_refusing: (open.refused_s)
                .is_some_and(|refused_s| now_s.saturating_sub(refused_s) < REFUSED_S),
        }
    }
}

impl Open {
    /// Returns the number of open sessions of this class and the classes below it.
    fn count_up_to(&self, class: Class) -> usize {
        self.counts[..=class as usize].iter().sum()
    }

    /// Returns true if the share of this class, and the share of each class above it, has room for one more session.
    fn has_share(&self, class: Class, limits: Limits) -> bool {
        let above = [Class::Stranger, Class::Known, Class::Trusted]
            .into_iter()
            .skip(class as usize);
        above
            .into_iter()
            .all(|class| self.count_up_to(class) < limits.share(class))
    }

    fn has_room(&self, network: &Network, class: Class, limits: Limits) -> bool {
        let held = self.per_network.get(network).copied().unwrap_or(0);
        held < limits.per_network(class) && self.has_share(class, limits)
    }

    fn grant(
        &mut self,
        network: Network,
        is_trusted: bool,
        now_s: u64,
        limits: Limits,
    ) -> Result<u32, Status> {
        let class = match () {
            () if is_trusted => Class::Trusted,
            () if self.histories.is_known(&network, now_s) => Class::Known,
            () => Class::Stranger,
        };
        self.forget_challenges(now_s);
        if !self.has_room(&network, class, limits) && self.looked_s != Some(now_s) {
            self.looked_s = Some(now_s);
            self.close_idle(&network, now_s, limits.idle_s);
        }
        if !self.has_room(&network, class, limits) || self.used.len() >= 2 * limits.count {
            if !self.has_share(class, limits) {
                self.refused_s = Some(now_s);
            }
            return Err(Status::Busy);
        }
        let token = loop {
            match getrandom::u64() {
                Ok(0) => {}
                Ok(token) => break token,
                Err(_) => return Err(Status::Busy),
            }
        };
        self.next_slot = self.next_slot.wrapping_add(1);
        let slot = self.next_slot;
        if self.by_slot.contains_key(&slot) {
            return Err(Status::Busy);
        }
        let session = Session {
            token,
            network,
            class,
            used_s: AtomicU64::new(now_s),
            noted_s: AtomicU64::new(0),
            last: Mutex::default(),
        };
        self.by_slot.insert(slot, Arc::new(session));
        self.counts[class as usize] += 1;
        *self.per_network.entry(network).or_default() += 1;
        Ok(slot)
    }

    /// Records a used challenge until it expires, so that it cannot open a second session.
    fn note_used(&mut self, challenge: Challenge, request_id: u64, slot: u32, now_s: u64) {
        if self.used.contains_key(&challenge) {
            return;
        }
        let used = UsedChallenge {
            request_id,
            slot,
            until_s: now_s + CHALLENGE_END_S,
        };
        self.used.insert(challenge, used);
        self.used_order.push_back(challenge);
    }

    /// Forgets used challenges that have expired.
    fn forget_challenges(&mut self, now_s: u64) {
        while let Some(oldest) = self.used_order.front()
            && self.used.get(oldest).is_none_or(|used| used.until_s <= now_s)
        {
            self.used.remove(oldest);
            self.used_order.pop_front();
        }
    }

    /// Closes sessions that were not used for `idle_s` seconds. Sessions of `network`, which asks for another session,
    /// and sessions that have changed nothing are closed after a shorter time.
    fn close_idle(&mut self, network: &Network, now_s: u64, idle_s: u64) {
        let Self {
            by_slot,
            per_network,
            counts,
            ..
        } = self;
        by_slot.retain(|_, session| {
            // A session is not idle while one of its changes is being executed; its lock is held then.
            let is_in_use = session.last.try_lock().is_err();
            let idle_s = match session.network == *network || session.noted_s.load(Relaxed) == 0 {
                // The shorter time also applies to the network that asks for another session.
                true => UNUSED_S.min(idle_s),
                false => idle_s,
            };
            let is_kept = is_in_use || now_s.saturating_sub(session.used_s.load(Relaxed)) < idle_s;
            if !is_kept {
                counts[session.class as usize] -= 1;
                if let Some(count) = per_network.get_mut(&session.network) {
                    *count -= 1;
                }
            }
            is_kept
        });
        per_network.retain(|_, held| *held > 0);
    }
}

#[cfg(test)]
mod tests;
