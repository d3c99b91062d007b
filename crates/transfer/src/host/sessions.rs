//! Sessions opened and closed. A session is granted to who shows that it gets what is sent to its address: by sending
//! back a challenge, which the host can check without having kept anything.

use super::{Host, NoRoom};
use crate::entry::Entry;
use lineside_fastpath::challenge::{CHALLENGE_S, Challenges};
use lineside_fastpath::{Asked, Source};
use lineside_journal::Disk;
use lineside_wire::{
    NativeHeader, SessionBody, Status, TRANSFER_OP_CLOSE, TRANSFER_OP_OPEN, TRANSFER_OP_SESSION,
    native as wire,
};
use std::collections::HashMap;
use zerocopy::{FromZeros, IntoBytes};

/// A challenge that came back, and the id of the request that it came back in.
type Opening = ([u8; 16], u64);

/// Who may have how many sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionPolicy {
    /// Sessions that one address may have open.
    pub per_source: usize,
}

impl Default for SessionPolicy {
    fn default() -> Self {
        Self { per_source: 64 }
    }
}

/// What granting sessions needs besides the ledger.
pub(super) struct Sessions {
    policy: SessionPolicy,
    challenges: Challenges,
    random: Box<dyn FnMut() -> u64 + Send>,
    /// The slot that a challenge was answered with in the request of an id: a repeated request opens no second
    /// session, while another client that was given the port of one that has ended gets one of its own. Challenges of
    /// old times are forgotten.
    granted: HashMap<Opening, (u64, u32)>,
}

impl Sessions {
    pub(super) fn new(policy: SessionPolicy, mut random: Box<dyn FnMut() -> u64 + Send>) -> Self {
        let mut key = [0; 32];
        for word in key.chunks_exact_mut(8) {
            word.copy_from_slice(&random().to_ne_bytes());
        }
        Self {
            policy,
            challenges: Challenges::new(key),
            random,
            granted: HashMap::new(),
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
}

impl<D: Disk> Host<D> {
    pub(super) fn session(
        &mut self,
        now_s: u64,
        asked: &Asked<'_>,
        header: &NativeHeader,
        body: &SessionBody,
    ) -> Result<Vec<u8>, NoRoom> {
        let answer = match header.op {
            TRANSFER_OP_OPEN => self.open_session(now_s, asked.from, header.request_id.get(), body)?,
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
                        self.ledger.close(slot);
                        self.touch(slot);
                        self.sessions.granted.retain(|_, (_, granted)| *granted != slot);
                        self.append(&Entry::Close { slot });
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
                challenge: self.sessions.challenges.of(from, now_s),
                lease_s: (CHALLENGE_S as u32).into(),
                ..SessionBody::new_zeroed()
            }));
        }
        let period = now_s / CHALLENGE_S;
        if !self.sessions.challenges.answers(from, &body.challenge, now_s) {
            return Ok(Err(Status::Unauthorised));
        }
        self.sessions
            .granted
            .retain(|_, (granted, _)| period.saturating_sub(*granted) <= 2);
        let opening = (body.challenge, request_id);
        if let Some((_, slot)) = self.sessions.granted.get(&opening)
            && let Some(session) = self.ledger.session(*slot)
        {
            let sequence = self.fastpath_sequence(*slot, session.token);
            let next = sequence.unwrap_or(session.sequence) + 1;
            return Ok(Ok(granted(body, *slot, session.token, next)));
        }
        let opener = from.address_bytes();
        let Some(slot) = self
            .ledger
            .free_slot()
            .filter(|_| self.ledger.sessions_of(&opener) < self.sessions.policy.per_source)
        else {
            return Ok(Err(Status::Busy));
        };
        self.reserve(64)?;
        let token = self.sessions.token();
        self.ledger.open(slot, token, opener);
        self.touch(slot);
        self.append(&Entry::Open { slot, token, opener });
        self.sessions.granted.insert(opening, (period, slot));
        Ok(Ok(granted(body, slot, token, 1)))
    }
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
