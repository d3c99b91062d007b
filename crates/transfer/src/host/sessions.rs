//! Opening and closing sessions. A client gets a session if it proves that it receives packets at its source address,
//! by returning a challenge, which the host can verify without having stored it. A challenge grants one session.
//!
//! Sessions are limited by address, by network (an IPv4 address, or a /64 of IPv6), and by the number of free sessions.
//! A quarter is reserved for trusted sources and for networks with a history: their sessions have changed something
//! over a day or longer. All other networks are strangers. One network of strangers has at most 1/64 of the sessions
//! that are free for strangers; a /48 of IPv6 has four times as many. When a slot is needed, the host closes a session
//! that was idle for `idle_s` seconds, or a session of strangers in which no operation was executed for some seconds.
//! The journal records this like any other closing, and the token is never valid again.

use super::{Host, NoRoom};
use crate::entry::Entry;
use crate::ledger::{Address, Session, network_of, site_of};
use lineside_fastpath::challenge::{CHALLENGE_S, UNUSED_S};
use lineside_fastpath::{BatchRequest, Range, Source};
use lineside_journal::Disk;
use lineside_wire::{
    NativeHeader, SessionBody, Status, TRANSFER_OP_CLOSE, TRANSFER_OP_OPEN, TRANSFER_OP_SESSION,
    native as wire,
};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use zerocopy::{FromZeros, IntoBytes};

/// Divisor of all sessions: one part of this size is reserved for trusted sources and networks with a history.
const RESERVED: u32 = 4;
/// Divisor of the sessions that are free for strangers: one network of strangers has at most one part of this size.
const STRANGERS_SHARE: u32 = 64;
/// Sessions that one site of strangers may have, as a multiple of a network's. A site is a /48 of IPv6, which has
/// 65,536 networks.
const SITE_NETWORKS: usize = 4;
/// Seconds for which new clients are reported as refused after a refusal. Unused sessions of strangers give way after
/// [`UNUSED_S`], so this is several times as long.
const STEADY_S: u64 = 6 * UNUSED_S;
/// Maximum number of used challenges that are remembered. If it is reached, no session is granted until the oldest
/// ones have expired.
const SPENT_MAX: usize = 1 << 16;

/// Limits on sessions, and on the data that a source can make the host store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionPolicy {
    /// Maximum number of open sessions of one address.
    pub per_source: usize,
    /// Maximum number of open sessions of one /64 of IPv6.
    pub per_network: usize,
    /// Seconds without a packet after which a session may be closed when its slot is needed.
    pub idle_s: u64,
    /// Sources that may use the reserved sessions, and whose refusals are not limited.
    pub trusted: Vec<Range>,
    /// Maximum number of refused packets that are journaled per second: for the sessions of one source, and for all
    /// packets that prove no source. Also the maximum number of sessions that one source opens per second.
    pub refusals_per_s: u32,
    /// Maximum number of outcomes that all sessions together keep of packets with more than
    /// [`crate::ledger::SMALL_RESULTS`] operations.
    pub large_results: u64,
}

impl Default for SessionPolicy {
    fn default() -> Self {
        Self {
            per_source: 64,
            per_network: 256,
            idle_s: 7 * 86_400,
            trusted: Range::LOOPBACK.to_vec(),
            refusals_per_s: 16,
            large_results: 1 << 20,
        }
    }
}

/// State for granting sessions that is not in the ledger.
pub(super) struct Sessions {
    pub(super) policy: SessionPolicy,
    key: [u8; 32],
    /// Number of challenges created, so that no two are equal.
    challenges: u64,
    random: Box<dyn FnMut() -> u64 + Send>,
    /// Challenges that were returned, until they expire: a repeated request gets the same session, and no other
    /// request gets a second one.
    spent: HashMap<[u8; 16], GrantedSession>,
    /// Period in which expired challenges were last removed.
    period: u64,
    /// Time before which no session can be idle long enough to be closed, in seconds since 1970.
    idle_from_s: u64,
}

/// Session that was granted for a challenge.
#[derive(Clone, Copy)]
struct GrantedSession {
    period: u64,
    request_id: u64,
    slot: u32,
    token: u64,
}

impl Sessions {
    pub(super) fn new(policy: SessionPolicy, mut random: Box<dyn FnMut() -> u64 + Send>) -> Self {
        let mut key = [0; 32];
        for word in key.chunks_exact_mut(8) {
            word.copy_from_slice(&random().to_ne_bytes());
        }
        Self {
            policy,
            key,
            challenges: 0,
            random,
            spent: HashMap::new(),
            period: 0,
            idle_from_s: 0,
        }
    }

    fn token(&mut self) -> u64 {
        loop {
            match (self.random)() {
                0 => {}
                token => return token,
            }
        }
    }

    /// Returns whether the operator trusts this source.
    pub(super) fn trusts(&self, from: Source) -> bool {
        self.policy
            .trusted
            .iter()
            .any(|range| range.contains(from.address))
    }

    /// Returns a new challenge, which was never sent before.
    fn challenge(&mut self, from: Source, now_s: u64) -> [u8; 16] {
        self.challenges += 1;
        self.of_period(from, self.challenges.to_be_bytes(), now_s / CHALLENGE_S)
    }

    /// Returns whether `from` was sent this challenge and it has not expired.
    fn is_answered(&self, from: Source, challenge: &[u8; 16], now_s: u64) -> bool {
        let period = now_s / CHALLENGE_S;
        let Some((number, _)) = challenge.split_first_chunk::<8>() else {
            return false;
        };
        [period, period.saturating_sub(1)]
            .into_iter()
            .any(|period| self.of_period(from, *number, period) == *challenge)
    }

    /// Returns the challenge's number, and half of a hash over the number, the source and the time.
    fn of_period(&self, from: Source, number: [u8; 8], period: u64) -> [u8; 16] {
        let hash: [u8; 32] = Sha256::new()
            .chain_update(self.key)
            .chain_update(from.address_bytes())
            .chain_update(from.port.to_be_bytes())
            .chain_update(period.to_be_bytes())
            .chain_update(number)
            .finalize()
            .into();
        let mut challenge = [0; 16];
        challenge[..8].copy_from_slice(&number);
        challenge[8..].copy_from_slice(&hash[..8]);
        challenge
    }

    fn forget_old(&mut self, now_s: u64) {
        let period = now_s / CHALLENGE_S;
        if period != self.period {
            self.period = period;
            self.spent
                .retain(|_, granted| period.saturating_sub(granted.period) <= 2);
        }
    }
}

/// Use of the sessions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionUse {
    /// Maximum number of sessions.
    pub most: u32,
    /// Number of open sessions from which on strangers get none.
    pub strangers_most: u32,
    /// Number of open sessions.
    pub open: u32,
    /// True if strangers are refused a session.
    pub refuses_strangers: bool,
    /// True if every client is refused a session.
    pub refuses_all: bool,
}

impl SessionUse {
    /// Returns whether at least four fifths of the sessions that strangers may use are open.
    pub fn is_nearly_used_up(&self) -> bool {
        u64::from(self.open) * 5 >= u64::from(self.strangers_most) * 4
    }
}

/// Use of the sessions for the health report. New clients are reported as refused until [`STEADY_S`] have passed
/// without a refusal: sessions of strangers give way to newcomers after some seconds, and a client that takes all of
/// them takes them again at once, so the result of single checks changes constantly.
#[derive(Clone, Copy, Debug, Default)]
pub struct SteadyUse {
    /// Time at which strangers were last refused, in seconds since 1970.
    strangers_s: Option<u64>,
    /// Time at which every client was last refused, in seconds since 1970.
    all_s: Option<u64>,
}

impl SteadyUse {
    /// Returns the use to report at the time `now_s`; `used` is the current use.
    pub fn update(&mut self, now_s: u64, used: SessionUse) -> SessionUse {
        let steady = |at_s: &mut Option<u64>, is_refused: bool| {
            if is_refused {
                *at_s = Some(now_s);
            }
            at_s.is_some_and(|at_s| now_s.abs_diff(at_s) < STEADY_S)
        };
        SessionUse {
            refuses_strangers: steady(&mut self.strangers_s, used.refuses_strangers),
            refuses_all: steady(&mut self.all_s, used.refuses_all),
            ..used
        }
    }
}

impl<D: Disk> Host<D> {
    /// Returns the use of the sessions at the time `now_s`.
    pub fn session_use(&self, now_s: u64) -> SessionUse {
        let has_idle = || {
            self.unused(now_s)
                .next()
                .or(self.oldest(now_s, |_| true))
                .is_some()
        };
        let most = self.ledger.limits().sessions;
        SessionUse {
            most,
            strangers_most: most - most / RESERVED,
            open: self.ledger.session_count(),
            refuses_strangers: self.free_for(false) == 0 && !has_idle(),
            refuses_all: self.free_for(true) == 0 && !has_idle(),
        }
    }

    pub(super) fn session(
        &mut self,
        now_s: u64,
        request: &BatchRequest<'_>,
        header: &NativeHeader,
        body: &SessionBody,
    ) -> Result<Vec<u8>, NoRoom> {
        let answer = match header.op {
            TRANSFER_OP_OPEN => self.open_session(now_s, request.from, header.request_id.get(), body)?,
            TRANSFER_OP_CLOSE | TRANSFER_OP_SESSION => {
                let (slot, token) = (body.slot.get(), body.token.get());
                let session = self.ledger.session(slot).filter(|session| session.token == token);
                match session
                    .map(|session| self.fastpath_sequence(slot, token).unwrap_or(session.sequence) + 1)
                {
                    None => Err(Status::NoSession),
                    Some(sequence) if header.op == TRANSFER_OP_SESSION => Ok(SessionBody {
                        sequence: sequence.into(),
                        ..*body
                    }),
                    Some(_) => {
                        self.reserve(64)?;
                        self.close_session(slot);
                        Ok(SessionBody::new_zeroed())
                    }
                }
            }
            _ => Err(Status::BadRequest),
        };
        Ok(match answer {
            Ok(body) => {
                let header = wire::reply_header(header, Status::Ok, size_of::<SessionBody>() as u16);
                [header.as_bytes(), body.as_bytes()].concat()
            }
            Err(status) => wire::reply_header(header, status, 0).as_bytes().to_vec(),
        })
    }

    /// Closes a session. The caller has ensured that the journal has room.
    fn close_session(&mut self, slot: u32) {
        self.ledger.close(slot);
        self.touch(slot);
        self.no_longer_withheld(slot);
        self.budgets.closed(slot);
        self.append(&Entry::Close { slot });
    }

    fn open_session(
        &mut self,
        now_s: u64,
        from: Source,
        request_id: u64,
        body: &SessionBody,
    ) -> Result<Result<SessionBody, Status>, NoRoom> {
        if body.token.get() != 0 || body.slot.get() != 0 {
            return Ok(Err(Status::BadRequest));
        }
        if body.challenge == [0; 16] {
            return Ok(Ok(SessionBody {
                challenge: self.sessions.challenge(from, now_s),
                lease_s: (CHALLENGE_S as u32).into(),
                ..SessionBody::new_zeroed()
            }));
        }
        if !self.sessions.is_answered(from, &body.challenge, now_s) {
            return Ok(Err(Status::Unauthorised));
        }
        self.sessions.forget_old(now_s);
        if let Some(before) = self.sessions.spent.get(&body.challenge) {
            let session = self
                .ledger
                .session(before.slot)
                .filter(|session| session.token == before.token && before.request_id == request_id);
            return Ok(session.ok_or(Status::Unauthorised).map(|session| {
                let sequence = self.fastpath_sequence(before.slot, session.token);
                let next = sequence.unwrap_or(session.sequence) + 1;
                granted(body, before.slot, session.token, next)
            }));
        }
        let opener = from.address_bytes();
        if !self.may_open(from, now_s) || self.sessions.spent.len() >= SPENT_MAX {
            return Ok(Err(Status::Busy));
        }
        self.reserve_all(3 * 128)?;
        if !self.has_session_for(from)
            && let Some(idle) = self.idle_for(now_s, from, 0).filter(|slot| self.may_close(*slot))
        {
            self.close_session(idle);
        }
        let Some(slot) = self.ledger.free_slot().filter(|_| self.has_session_for(from)) else {
            return Ok(Err(Status::Busy));
        };
        let token = self.sessions.token();
        self.ledger.open(slot, token, opener, now_s);
        self.touch(slot);
        self.append(&Entry::Open {
            slot,
            token,
            opener,
            now_s,
        });
        self.charge_opening(from, now_s);
        self.withhold_new(slot);
        let spent = GrantedSession {
            period: now_s / CHALLENGE_S,
            request_id,
            slot,
            token,
        };
        self.sessions.spent.insert(body.challenge, spent);
        Ok(Ok(granted(body, slot, token, 1)))
    }

    /// Returns the number of free sessions: for known clients, or for strangers.
    fn free_for(&self, is_known: bool) -> u32 {
        let most = self.ledger.limits().sessions;
        let free = most.saturating_sub(self.ledger.session_count());
        let reserved = if is_known { 0 } else { most / RESERVED };
        free.saturating_sub(reserved)
    }

    fn is_known(&self, from: Source) -> bool {
        self.sessions.trusts(from) || self.ledger.has_history(&network_of(&from.address_bytes()))
    }

    /// Returns whether a source may have another session.
    fn has_session_for(&self, from: Source) -> bool {
        self.is_below_limits(from) && self.free_for(self.is_known(from)) > 0
    }

    fn is_below_limits(&self, from: Source) -> bool {
        self.limit_reached(from).is_none()
    }

    /// Returns the first and the last network of the group that has reached its limit and to which `from` belongs, if
    /// there is one.
    fn limit_reached(&self, from: Source) -> Option<(Address, Address)> {
        let (address, policy) = (from.address_bytes(), &self.sessions.policy);
        let network = network_of(&address);
        let own = self.ledger.sessions_of_network(&network);
        let is_known = self.is_known(from);
        let share = (self.free_for(is_known) / STRANGERS_SHARE).max(1) as usize;
        let is_network_full = self.ledger.sessions_of(&address) >= policy.per_source
            || (network != address && own >= policy.per_network)
            || (!is_known && own >= share);
        if is_network_full {
            return Some((network, network));
        }
        let site = site_of(&address);
        let of_site = SITE_NETWORKS * share.min(policy.per_network);
        (site != address && !is_known && self.ledger.sessions_of_site(&site) >= of_site).then(|| {
            let mut last = [0xff; 16];
            last[..6].copy_from_slice(&site[..6]);
            (site, last)
        })
    }

    /// Returns the session to close so that this source gets one. The caller has already chosen `before` other
    /// sessions. The choice is the oldest session in which no operation was executed, otherwise the session that was
    /// idle for the longest time. If the source has reached a limit, only sessions of its own network or site count.
    pub(super) fn idle_for(&self, now_s: u64, from: Source, before: usize) -> Option<u32> {
        let Some((first, last)) = self.limit_reached(from) else {
            return self
                .unused(now_s)
                .nth(before)
                .or_else(|| self.oldest(now_s, |_| true));
        };
        let oldest = self.ledger.unused_sessions_of(first, last).min();
        oldest
            .filter(|(opened_s, _)| is_unused_long(*opened_s, now_s))
            .map(|(_, slot)| slot)
            .or_else(|| self.oldest(now_s, |opener| (first..=last).contains(&network_of(opener))))
    }

    /// Returns the sessions of strangers in which no operation was executed for some seconds, the oldest first.
    fn unused(&self, now_s: u64) -> impl Iterator<Item = u32> {
        let old = self.ledger.unused_sessions();
        let old = old.take_while(move |(opened_s, _)| is_unused_long(*opened_s, now_s));
        old.map(|(_, slot)| slot)
            .filter(|slot| !self.opener(*slot).is_some_and(|opener| self.is_known(opener)))
    }

    /// Returns whether this source gets a session only if another one is closed.
    pub(super) fn needs_idle(&self, from: Source) -> bool {
        !self.has_session_for(from)
    }

    fn oldest(&self, now_s: u64, is_meant: impl Fn(&Address) -> bool) -> Option<u32> {
        if now_s < self.sessions.idle_from_s {
            return None;
        }
        let is_idle = |session: &Session| session.last_s.saturating_add(self.sessions.policy.idle_s) <= now_s;
        let idle = self
            .ledger
            .sessions()
            .filter(|(_, session)| is_idle(session) && is_meant(&session.opener));
        idle.min_by_key(|(slot, session)| (session.last_s, *slot))
            .map(|(slot, _)| slot)
    }

    /// Computes the time before which no session can be idle, so that the host searches for one only after that time.
    pub(super) fn look_for_idle(&mut self, now_s: u64) {
        if now_s < self.sessions.idle_from_s {
            return;
        }
        let oldest_s = self.ledger.sessions().map(|(_, session)| session.last_s).min();
        let idle_s = self.sessions.policy.idle_s;
        // A session that is opened later also becomes idle later.
        self.sessions.idle_from_s = oldest_s.unwrap_or(now_s).saturating_add(idle_s);
    }

    /// Returns whether the outcomes of a packet with `operations` operations can be kept with this session.
    pub(super) fn can_keep(&self, slot: u32, operations: usize) -> bool {
        if operations <= crate::ledger::SMALL_RESULTS {
            return true;
        }
        let Some(session) = self.ledger.session(slot) else {
            return true;
        };
        let (all, own) = self.ledger.large_results(&network_of(&session.opener));
        let free = self.sessions.policy.large_results.saturating_sub(all);
        // Even if one network keeps many outcomes, another network still has space for its own.
        let is_fair = own == 0 || own + operations as u64 <= free;
        let given_back = match session.outcomes.len() {
            count if count > crate::ledger::SMALL_RESULTS => count as u64,
            _ => 0,
        };
        operations as u64 <= given_back || (is_fair && operations as u64 <= free)
    }
}

fn is_unused_long(opened_s: u64, now_s: u64) -> bool {
    now_s.saturating_sub(opened_s) >= UNUSED_S
}

fn granted(body: &SessionBody, slot: u32, token: u64, sequence: u64) -> SessionBody {
    SessionBody {
        challenge: body.challenge,
        token: token.into(),
        sequence: sequence.into(),
        slot: slot.into(),
        lease_s: 0.into(),
    }
}
