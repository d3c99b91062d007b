//! Sessions, in which a change counts once however often it is sent. One is granted to who shows that it gets what is
//! sent to its address: by sending back a challenge, which the host can check without having kept anything. After a
//! restart there are none: what a client then had under way it cannot know.

use lineside_fastpath::challenge::{CHALLENGE_S, Challenges};
use lineside_fastpath::{PAYLOAD_BYTES_MAX, Source};
use lineside_wire::{ColumnSession, Status};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use zerocopy::FromZeros;

/// How long a session is kept that nobody uses, where there is room for no more.
const IDLE_S: u64 = 3600;
/// The same where its own address has as many as it may: longer than a client asks again for.
const OWN_IDLE_S: u64 = 10;
/// Maximum number of sessions, however much memory there is.
const SESSIONS_MAX: usize = 65_536;
/// Bytes of one session at most: its last request and reply, and its places in the maps.
const SESSION_BYTES: usize = 2 * PAYLOAD_BYTES_MAX + 384;
/// Of one address.
const PER_SOURCE_MAX: usize = 1024;

/// A challenge that came back, and the id of the request that it came back in: a repeated request opens no second
/// session, while another client that was given the port of one that has ended gets one of its own.
type Opening = ([u8; 16], u64);

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    token: u64,
    opener: [u8; 16],
    opening: Opening,
    used_s: AtomicU64,
    /// Where it stands; locked while a change of it is made.
    pub(super) last: Mutex<Last>,
}

/// A session's last change.
#[derive(Debug, Default)]
pub(super) struct Last {
    /// Its nonce; 0: there was none.
    pub(super) nonce: u64,
    /// Its packet, and the reply to it.
    pub(super) request: Vec<u8>,
    pub(super) reply: Vec<u8>,
}

#[derive(Debug, Default)]
struct Open {
    by_slot: HashMap<u32, Arc<Session>>,
    by_opening: HashMap<Opening, u32>,
    per_source: HashMap<[u8; 16], usize>,
    next_slot: u32,
}

#[derive(Debug)]
pub(super) struct Sessions {
    challenges: Challenges,
    open: Mutex<Open>,
    /// Maximum number of sessions.
    count_max: usize,
}

impl Sessions {
    /// Returns room for as many sessions as `bytes` hold.
    pub(super) fn new(bytes: usize) -> io::Result<Self> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        Ok(Self {
            challenges: Challenges::new(key),
            open: Mutex::default(),
            count_max: (bytes / SESSION_BYTES).min(SESSIONS_MAX),
        })
    }

    /// Answers `open` at `now_s` of any clock that goes on.
    pub(super) fn open(
        &self,
        from: Source,
        request_id: u64,
        asked: &ColumnSession,
        now_s: u64,
    ) -> Result<ColumnSession, Status> {
        if asked.challenge == [0; 16] {
            return Ok(ColumnSession {
                challenge: self.challenges.of(from, now_s),
                lease_s: (CHALLENGE_S as u32).into(),
                ..ColumnSession::new_zeroed()
            });
        }
        if !self.challenges.answers(from, &asked.challenge, now_s) {
            return Err(Status::Unauthorised);
        }
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let opening = (asked.challenge, request_id);
        let slot = match open.by_opening.get(&opening) {
            // Asked again: the same session.
            Some(slot) => *slot,
            None => open.grant(from.address_bytes(), opening, now_s, self.count_max)?,
        };
        let token = open.by_slot.get(&slot).ok_or(Status::Busy)?.token;
        Ok(ColumnSession {
            challenge: asked.challenge,
            token: token.into(),
            slot: slot.into(),
            lease_s: (IDLE_S as u32).into(),
            ..ColumnSession::new_zeroed()
        })
    }

    /// The session of a number and its secret.
    pub(super) fn find(&self, slot: u32, token: u64, now_s: u64) -> Option<Arc<Session>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let session = open.by_slot.get(&slot).filter(|session| session.token == token)?;
        session.used_s.store(now_s, Relaxed);
        Some(Arc::clone(session))
    }
}

impl Open {
    fn grant(
        &mut self,
        opener: [u8; 16],
        opening: Opening,
        now_s: u64,
        count_max: usize,
    ) -> Result<u32, Status> {
        let held = self.per_source.get(&opener).copied().unwrap_or(0);
        if self.by_slot.len() >= count_max || held >= PER_SOURCE_MAX {
            self.forget_idle(opener, now_s);
        }
        let held = self.per_source.get(&opener).copied().unwrap_or(0);
        if self.by_slot.len() >= count_max || held >= PER_SOURCE_MAX {
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
        let session = Session {
            token,
            opener,
            opening,
            used_s: AtomicU64::new(now_s),
            last: Mutex::default(),
        };
        if self.by_slot.contains_key(&slot) {
            return Err(Status::Busy);
        }
        self.by_slot.insert(slot, Arc::new(session));
        self.by_opening.insert(opening, slot);
        *self.per_source.entry(opener).or_default() += 1;
        Ok(slot)
    }

    /// Forgets sessions that nobody has used for long, and those of `opener` sooner.
    fn forget_idle(&mut self, opener: [u8; 16], now_s: u64) {
        let Self {
            by_slot,
            by_opening,
            per_source,
            ..
        } = self;
        by_slot.retain(|_, session| {
            // One in use is not idle.
            let is_in_use = session.last.try_lock().is_err();
            let idle_s = if session.opener == opener {
                OWN_IDLE_S
            } else {
                IDLE_S
            };
            let is_kept = is_in_use || now_s.saturating_sub(session.used_s.load(Relaxed)) < idle_s;
            if !is_kept {
                by_opening.remove(&session.opening);
                if let Some(held) = per_source.get_mut(&session.opener) {
                    *held -= 1;
                }
            }
            is_kept
        });
        per_source.retain(|_, held| *held > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn from(port: u16) -> Source {
        Source {
            address: IpAddr::from([10, 0, 0, 1]),
            port,
        }
    }

    #[test]
    fn a_session_takes_a_challenge_of_the_same_source_and_time() {
        let sessions = Sessions::new(16 << 20).unwrap();
        let challenge = sessions
            .open(from(1), 1, &ColumnSession::new_zeroed(), 100)
            .unwrap();
        assert_eq!(challenge.token.get(), 0);
        let asked = ColumnSession {
            challenge: challenge.challenge,
            ..ColumnSession::new_zeroed()
        };
        assert_eq!(sessions.open(from(2), 2, &asked, 100), Err(Status::Unauthorised));
        assert_eq!(sessions.open(from(1), 2, &asked, 160), Err(Status::Unauthorised));
        let granted = sessions.open(from(1), 2, &asked, 110).unwrap();
        assert_eq!(sessions.open(from(1), 2, &asked, 111).unwrap(), granted);
        // Another client, which was given the port of the first.
        let other = sessions.open(from(1), 3, &asked, 111).unwrap();
        assert_ne!(other.slot, granted.slot);
        assert_ne!(other.token, granted.token);
        let (slot, token) = (granted.slot.get(), granted.token.get());
        assert!(sessions.find(slot, token, 112).is_some());
        assert!(sessions.find(slot, token ^ 1, 112).is_none());
        assert!(sessions.find(slot + 1, token, 112).is_none());
    }

    #[test]
    fn an_address_has_so_many_sessions_until_they_are_idle() {
        let sessions = Sessions::new(16 << 20).unwrap();
        let open = |port: usize, now_s| {
            let challenge = sessions.open(from(port as u16), 1, &ColumnSession::new_zeroed(), now_s);
            let asked = ColumnSession {
                challenge: challenge.unwrap().challenge,
                ..ColumnSession::new_zeroed()
            };
            sessions.open(from(port as u16), 1, &asked, now_s)
        };
        for port in 0..PER_SOURCE_MAX {
            open(port, 5).unwrap();
        }
        assert_eq!(open(PER_SOURCE_MAX, 5), Err(Status::Busy));
        assert_eq!(open(PER_SOURCE_MAX, 4 + OWN_IDLE_S), Err(Status::Busy));
        assert!(open(PER_SOURCE_MAX, 5 + OWN_IDLE_S).is_ok());
    }
}
