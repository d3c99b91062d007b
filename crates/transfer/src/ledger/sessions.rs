//! Sessions of a ledger, with the outcomes of their last packets. Counts by source are maintained, so that the host
//! can check a source's limits at once.

use super::Ledger;
use super::history::History;
use crate::native::{self, Outcome};
use hashbrown::HashMap;
use lineside_util::network;
use lineside_wire::{Operation, TransferCode as Code};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv6Addr};

/// Maximum number of outcomes that every session may keep. The outcomes of a larger packet count as large results.
pub const SMALL_RESULTS: usize = 16;
/// Minimum time between two records that a network's session changed something, in seconds.
const NOTE_S: u64 = 3600;

/// IPv6 address, or IPv4 address mapped into IPv6.
pub type Address = [u8; 16];

/// Returns the network that an address counts towards: the IPv4 address itself, or the /64 of an IPv6 address.
pub fn network_of(address: &Address) -> Address {
    mapped(network::network_of(Ipv6Addr::from(*address).into()))
}

/// Returns the site of an address: an IPv4 address itself, or the /48 of an IPv6 address.
pub fn site_of(address: &Address) -> Address {
    mapped(network::site_of(Ipv6Addr::from(*address).into()))
}

fn mapped(address: IpAddr) -> Address {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Session of a client: its token, and the outcomes of its last packet, which a repetition of the packet gets again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Secret token; 0: the slot is free.
    pub token: u64,
    /// Address of the client that opened it: an IPv6 address, or an IPv4 address mapped into it.
    pub opener: Address,
    /// Time of its last packet, or of its opening while no operation was executed in it; in seconds since 1970,
    /// according to the journal.
    pub last_s: u64,
    /// Time at which its network was last recorded as having changed something; 0: no operation was executed in this
    /// session.
    pub noted_s: u64,
    /// Sequence number of its last packet; 0: none yet.
    pub sequence: u64,
    /// Checksum of the last packet's operations.
    pub sum: u64,
    /// Outcomes of the last packet's operations.
    pub outcomes: Vec<Outcome>,
    /// Number of the last packet's operations that are still in the ring of the fast path.
    pub missing: u16,
}

/// Reply to a packet of a session that the ledger does not execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionAnswer {
    /// The session does not exist, or the token is wrong.
    NoSession,
    /// The packet has a wrong sequence number. The field is the next sequence number of the session.
    Expected(u64),
    /// The packet has the last sequence number but other operations. The field is the next sequence number of the
    /// session.
    Reused(u64),
    /// The packet repeats the last one. The field has the outcomes of the last packet.
    Repeated(Vec<Outcome>),
}

/// Resources of one network.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    sessions: u32,
    /// Number of outcomes of large packets that its sessions keep.
    large_results: u64,
}

/// All sessions of a ledger, by their slots.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    slots: Vec<Session>,
    /// Free slots below the length of `slots`.
    free: BTreeSet<u32>,
    by_address: HashMap<Address, u32>,
    by_network: HashMap<Address, Share>,
    by_site: HashMap<Address, u32>,
    /// Sessions in which no operation was executed: the time of their opening, and the slot.
    unused: BTreeSet<(u64, u32)>,
    /// Index of `unused` by the network of the opener.
    unused_by_network: BTreeSet<(Address, u64, u32)>,
    large_results: u64,
    pub(super) history: History,
}

impl Sessions {
    pub(super) fn slots(&self) -> &[Session] {
        &self.slots
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> Option<&mut Session> {
        self.slots.get_mut(slot as usize)
    }

    pub(super) fn count(&self) -> u32 {
        (self.slots.len() - self.free.len()) as u32
    }

    /// Puts a session into a free slot, which may be beyond the existing ones.
    pub(super) fn put(&mut self, slot: u32, session: Session) {
        while self.slots.len() <= slot as usize {
            self.free.insert(self.slots.len() as u32);
            self.slots.push(Session::default());
        }
        if session.token == 0 || !self.free.remove(&slot) {
            return;
        }
        *self.by_address.entry(session.opener).or_default() += 1;
        let share = self.by_network.entry(network_of(&session.opener)).or_default();
        share.sessions += 1;
        share.large_results += large(&session.outcomes);
        self.large_results += large(&session.outcomes);
        *self.by_site.entry(site_of(&session.opener)).or_default() += 1;
        if session.noted_s == 0 {
            self.unused.insert((session.last_s, slot));
            let network = network_of(&session.opener);
            self.unused_by_network.insert((network, session.last_s, slot));
        }
        self.slots[slot as usize] = session;
    }

    fn take(&mut self, slot: u32) {
        let Some(slot_entry) = self.slots.get_mut(slot as usize) else {
            return;
        };
        let session = std::mem::take(slot_entry);
        if session.token == 0 {
            return;
        }
        self.free.insert(slot);
        let network = network_of(&session.opener);
        if session.noted_s == 0 {
            self.unused.remove(&(session.last_s, slot));
            self.unused_by_network.remove(&(network, session.last_s, slot));
        }
        one_less(&mut self.by_address, &session.opener);
        one_less(&mut self.by_site, &site_of(&session.opener));
        if let Some(share) = self.by_network.get_mut(&network) {
            share.sessions -= 1;
            share.large_results -= large(&session.outcomes);
            if share.sessions == 0 {
                self.by_network.remove(&network);
            }
        }
        self.large_results -= large(&session.outcomes);
    }

    /// Records the outcomes of a session's next packet.
    pub(super) fn record_outcomes(
        &mut self,
        slot: u32,
        sequence: u64,
        sum: u64,
        outcomes: &[Outcome],
        now_s: u64,
    ) {
        let Some(session) = self.slots.get_mut(slot as usize) else {
            return;
        };
        if session.outcomes.len() > SMALL_RESULTS || outcomes.len() > SMALL_RESULTS {
            let (before, after) = (large(&session.outcomes), large(outcomes));
            self.large_results = self.large_results + after - before;
            if let Some(share) = self.by_network.get_mut(&network_of(&session.opener)) {
                share.large_results = share.large_results + after - before;
            }
            // A session does not keep the memory of a large packet after a small one.
            session.outcomes = Vec::with_capacity(outcomes.len());
        }
        session.outcomes.clear();
        session.outcomes.extend_from_slice(outcomes);
        (session.sequence, session.sum, session.missing) = (sequence, sum, 0);
        self.used(slot, outcomes, now_s);
    }

    /// Records the outcomes of a session's packet, or of a further part of it.
    pub(super) fn used(&mut self, slot: u32, outcomes: &[Outcome], now_s: u64) {
        let Some(session) = self.slots.get_mut(slot as usize) else {
            return;
        };
        let is_done = outcomes.iter().any(|outcome| outcome.code == Code::Done);
        if is_done && session.noted_s == 0 {
            self.unused.remove(&(session.last_s, slot));
            let network = network_of(&session.opener);
            self.unused_by_network.remove(&(network, session.last_s, slot));
        }
        if is_done && (session.noted_s == 0 || now_s >= session.noted_s.saturating_add(NOTE_S)) {
            session.noted_s = now_s.max(1);
            self.history.note(network_of(&session.opener), now_s);
        }
        // A refused packet does not extend the life of a session in which no operation was executed.
        if session.noted_s != 0 {
            session.last_s = now_s;
        }
    }
}

fn one_less(counts: &mut HashMap<Address, u32>, key: &Address) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// Returns the number of outcomes that count as large.
fn large(outcomes: &[Outcome]) -> u64 {
    match outcomes.len() {
        0..=SMALL_RESULTS => 0,
        count => count as u64,
    }
}

impl Ledger {
    /// Returns the session in a slot, if one is open there.
    pub fn session(&self, slot: u32) -> Option<&Session> {
        self.sessions
            .slots
            .get(slot as usize)
            .filter(|session| session.token != 0)
    }

    /// Returns every open session with its slot, in the order of slots.
    pub fn sessions(&self) -> impl Iterator<Item = (u32, &Session)> {
        let slots = (0..).zip(&self.sessions.slots);
        slots.filter(|(_, session)| session.token != 0)
    }

    /// Returns the number of open sessions.
    pub fn session_count(&self) -> u32 {
        self.sessions.count()
    }

    /// Returns the slot for the next session; `None` if all slots are taken.
    pub fn free_slot(&self) -> Option<u32> {
        let next = self.sessions.slots.len() as u32;
        let slot = self.sessions.free.first().copied().unwrap_or(next);
        (slot < self.limits.sessions).then_some(slot)
    }

    /// Returns the number of open sessions of this address.
    pub fn sessions_of(&self, opener: &Address) -> usize {
        self.sessions.by_address.get(opener).copied().unwrap_or(0) as usize
    }

    /// Returns the number of open sessions of a network ([`network_of`]).
    pub fn sessions_of_network(&self, network: &Address) -> usize {
        let share = self.sessions.by_network.get(network);
        share.map_or(0, |share| share.sessions as usize)
    }

    /// Returns the number of open sessions of a site ([`site_of`]).
    pub fn sessions_of_site(&self, site: &Address) -> usize {
        self.sessions.by_site.get(site).copied().unwrap_or(0) as usize
    }

    /// Returns the sessions in which no operation was executed, with the time of their opening, the oldest first.
    pub fn unused_sessions(&self) -> impl Iterator<Item = (u64, u32)> {
        self.sessions.unused.iter().copied()
    }

    /// Returns the sessions of the networks from `first` to `last` in which no operation was executed, with the time
    /// of their opening, one network after the other.
    pub fn unused_sessions_of(&self, first: Address, last: Address) -> impl Iterator<Item = (u64, u32)> {
        let range = (first, 0, 0)..=(last, u64::MAX, u32::MAX);
        let unused = self.sessions.unused_by_network.range(range);
        unused.map(|(_, last_s, slot)| (*last_s, *slot))
    }

    /// Returns the numbers of kept outcomes from packets of more than [`SMALL_RESULTS`] operations: of all sessions,
    /// and of those of a network.
    pub fn large_results(&self, network: &Address) -> (u64, u64) {
        let share = self.sessions.by_network.get(network);
        (
            self.sessions.large_results,
            share.map_or(0, |share| share.large_results),
        )
    }

    /// Returns whether sessions of a network have changed something for a day or longer.
    pub fn has_history(&self, network: &Address) -> bool {
        self.sessions.history.is_known(network)
    }

    /// Opens a session in a free slot.
    pub fn open(&mut self, slot: u32, token: u64, opener: Address, now_s: u64) {
        self.time(now_s);
        let session = Session {
            token,
            opener,
            last_s: now_s,
            ..Session::default()
        };
        self.sessions.put(slot, session);
    }

    /// Closes a session. Its token is never valid again.
    pub fn close(&mut self, slot: u32) {
        self.sessions.take(slot);
    }

    /// Sets the journal's clock to `now_s`, in seconds since 1970, unless it is ahead already.
    pub fn time(&mut self, now_s: u64) {
        self.clock_s = self.clock_s.max(now_s);
    }

    /// Returns the latest time in the journal, in seconds since 1970.
    pub fn clock_s(&self) -> u64 {
        self.clock_s
    }

    /// Returns the reply to a packet that is not to be executed; `None` if it is the session's next packet.
    pub fn session_answer(
        &self,
        slot: u32,
        token: u64,
        sequence: u64,
        operations: &[Operation],
    ) -> Option<SessionAnswer> {
        let Some(session) = self.session(slot).filter(|session| session.token == token) else {
            return Some(SessionAnswer::NoSession);
        };
        let next = session.sequence + 1;
        if sequence == next {
            return None;
        }
        Some(if sequence != session.sequence || sequence == 0 {
            SessionAnswer::Expected(next)
        } else if session.sum != native::sum(operations) || session.outcomes.len() != operations.len() {
            SessionAnswer::Reused(next)
        } else {
            SessionAnswer::Repeated(session.outcomes.clone())
        })
    }

    /// Replaces the outcomes of a session's last packet, which was refused, by `busy`, except the first `kept` ones.
    pub fn keep_first(&mut self, slot: u32, kept: usize) {
        if let Some(session) = self.sessions.get_mut(slot) {
            for outcome in session.outcomes.iter_mut().skip(kept) {
                *outcome = Outcome::refused(Code::Busy);
            }
        }
    }

    /// Returns whether a session is open in this slot and `sequence` is the sequence number of its next packet.
    pub(crate) fn is_next(&self, slot: u32, sequence: u64) -> bool {
        self.session(slot)
            .is_some_and(|session| sequence == session.sequence + 1)
    }

    /// Records that a session's next packet was refused, with a code for each operation. Returns `false` if the packet
    /// is not the next one.
    pub fn refused(&mut self, slot: u32, sequence: u64, sum: u64, codes: &[Code], now_s: u64) -> bool {
        let is_next = self.is_next(slot, sequence);
        if is_next {
            self.time(now_s);
            let outcomes: Vec<Outcome> = codes.iter().copied().map(Outcome::refused).collect();
            self.sessions
                .record_outcomes(slot, sequence, sum, &outcomes, now_s);
        }
        is_next
    }
}
