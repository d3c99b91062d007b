//! Sessions of the oracle, the model of `transfer`: opening, closing, and their packets.

use super::signatures::{SIGNED_HEAD, signer};
use super::{
    Code, EXECUTE_HEAD, HEAD, Id, OPERATION, OPERATIONS_MAX, Oracle, RequiredReply, Session, TRANSFER,
    address_of, id_at, refused, u16_at, u32_at, u64_at,
};
use lineside_fastpath::Source;
use lineside_wire::{
    NATIVE_REPLY_BIT, Status, TRANSFER_OP_CLOSE as CLOSE, TRANSFER_OP_OPEN as OPEN,
    TRANSFER_OP_SESSION as SESSION,
};

const BODY: usize = 40;
const CHALLENGE_S: u64 = 30;

impl Oracle {
    /// Handles a packet that is preceded by a signature.
    pub(super) fn signed(&mut self, now_s: u64, from: Source, payload: &[u8]) -> RequiredReply {
        let body = &payload[HEAD..];
        if body.len() < SIGNED_HEAD || body[2..8] != [0; 6] {
            return refused(payload, Status::BadRequest);
        }
        let (signature, packet) = body.split_at(SIGNED_HEAD);
        // The reply does not contain the signature.
        let mut plain = [&payload[..HEAD], packet].concat();
        plain[6..8].copy_from_slice(&(packet.len() as u16).to_be_bytes());
        self.packet(now_s, from, &plain, Some(signer(signature, packet)))
    }

    /// Handles a packet. `signer` is the key of its signature, if it has one.
    pub(super) fn packet(
        &mut self,
        now_s: u64,
        from: Source,
        payload: &[u8],
        signer: Option<Option<Id>>,
    ) -> RequiredReply {
        let body = &payload[HEAD..];
        let operations = body.get(EXECUTE_HEAD..).unwrap_or_default();
        let count = operations.len() / OPERATION;
        if body.len() < EXECUTE_HEAD
            || !operations.len().is_multiple_of(OPERATION)
            || usize::from(u16_at(body, 20)) != count
            || !(1..=OPERATIONS_MAX).contains(&count)
            || u16_at(body, 22) != 0
        {
            return refused(payload, Status::BadRequest);
        }
        let signer = match signer {
            None if self.requires_signature => return unauthorised(payload),
            Some(None) => return unauthorised(payload),
            None => None,
            Some(signer) => signer,
        };
        let (token, sequence, slot) = (u64_at(body, 0), u64_at(body, 8), u32_at(body, 16));
        let refused = |status: Status, expected: u64| {
            let mut reply = payload.to_vec();
            reply[3] |= NATIVE_REPLY_BIT;
            reply[4..6].copy_from_slice(&(status as u16).to_be_bytes());
            reply[HEAD + 8..HEAD + 16].copy_from_slice(&expected.to_be_bytes());
            RequiredReply::Reply(reply)
        };
        let session = self.sessions.get(&slot);
        let Some(session) = session.filter(|session| session.token == Some(token)) else {
            return refused(Status::NoSession, 0);
        };
        let next = session.sequence + 1;
        if sequence == session.sequence && sequence != 0 {
            if session.body != operations {
                return refused(Status::Reused, next);
            }
        } else if sequence != next {
            return refused(Status::Sequence, next);
        } else if self.is_strangers(from, operations, signer) {
            return unauthorised(payload);
        } else {
            let mut key = [0; 16];
            key[..8].copy_from_slice(&token.to_be_bytes());
            key[8] = 0xff; // no paper account has such a source
            self.execute_once((key, sequence));
            let is_unnumbered = self.is_express && Self::is_plain(operations);
            let mut outcomes = self.execute(now_s, from, operations, signer);
            put_off(&mut outcomes);
            if is_unnumbered {
                outcomes.iter_mut().for_each(|outcome| outcome.2 = 0);
            }
            let session = self.sessions.get_mut(&slot).unwrap();
            session.is_used |= outcomes.iter().any(|outcome| outcome.0 == Code::Done as u16);
            session.sequence = sequence;
            session.body = operations.to_vec();
            session.outcomes = outcomes;
            session.is_unnumbered = is_unnumbered;
        }
        let mut reply = payload.to_vec();
        reply[3] |= NATIVE_REPLY_BIT;
        let session = &self.sessions[&slot];
        reply[HEAD + 23] = if session.is_unnumbered { 2 } else { 1 };
        let outcomes = &session.outcomes;
        for (operation, outcome) in reply[HEAD + EXECUTE_HEAD..].chunks_mut(OPERATION).zip(outcomes) {
            operation[2..4].copy_from_slice(&outcome.0.to_be_bytes());
            operation[40..48].copy_from_slice(&outcome.1.to_be_bytes());
            operation[48..56].copy_from_slice(&outcome.2.to_be_bytes());
        }
        RequiredReply::Reply(reply)
    }

    /// Returns whether the packet must be refused as a whole where writes must be signed, because no operation of it
    /// can ever be executed: all accounts that it debits belong to others, and its signer may not issue.
    fn is_strangers(&self, from: Source, operations: &[u8], signer: Option<Id>) -> bool {
        let Some(signer) = signer.filter(|_| self.requires_signature && !from.address.is_loopback()) else {
            return false;
        };
        let owner = |operation| {
            self.accounts
                .get(&id_at(operation, 8))
                .map(|account| account.owner)
        };
        let is_others = |operation| owner(operation).is_some_and(|owner| owner != signer);
        operations
            .chunks(OPERATION)
            .all(|operation| operation[0] != TRANSFER || is_others(operation))
    }

    /// Returns whether the sender may execute this operation. Debits from a missing account need no permission.
    fn may_do(&self, from: Source, operation: &[u8], signer: Option<Id>) -> bool {
        if operation[0] != TRANSFER || !self.requires_signature {
            return operation[0] == TRANSFER || from.address.is_loopback();
        }
        let source = self.accounts.get(&id_at(operation, 8));
        source.is_none_or(|account| signer == Some(account.owner))
    }

    /// Executes all operations of a packet, chain by chain.
    fn execute(
        &mut self,
        now_s: u64,
        from: Source,
        operations: &[u8],
        signer: Option<Id>,
    ) -> Vec<(u16, u64, u64)> {
        let all: Vec<&[u8]> = operations.chunks(OPERATION).collect();
        let mut outcomes = Vec::new();
        let mut at = 0;
        while at < all.len() {
            let end = all[at..]
                .iter()
                .position(|operation| operation[1] & 1 == 0)
                .map_or(all.len(), |length| at + length + 1);
            let is_open = all[end - 1][1] & 1 != 0;
            let chain = &all[at..end];
            let before = self.clone();
            let mut results: Vec<Result<(u64, u64), Code>> = Vec::new();
            for (index, operation) in chain.iter().enumerate() {
                let failed = results.iter().any(Result::is_err);
                results.push(if failed {
                    Err(Code::LinkedFailed)
                } else if is_open && index + 1 == chain.len() {
                    Err(Code::BadCommand)
                } else if let Some(code) = self.was_refused(at + index) {
                    Err(code)
                } else {
                    let may = self.may_do(from, operation, signer);
                    Self::permit(operation, may)
                        .and_then(|()| self.first_execution(now_s, chain, index))
                        .and_then(|first| match first {
                            Some(first) => Ok(first),
                            None => self.one(now_s, operation).map(|amount| (amount, 0)),
                        })
                });
            }
            if let Some(failed) = results.iter().position(Result::is_err) {
                *self = before;
                results[..failed].fill(Err(Code::LinkedFailed));
            }
            for (operation, result) in chain.iter().zip(results) {
                self.repeated += u64::from(matches!(result, Ok((_, 1..))));
                self.reused += u64::from(result == Err(Code::IdReused));
                outcomes.push(match result {
                    Ok((amount, 0)) => {
                        self.number += 1;
                        self.remember(now_s, operation, amount);
                        (Code::Done as u16, amount, self.number)
                    }
                    Ok((amount, number)) => (Code::Done as u16, amount, number),
                    Err(code) => (code as u16, 0, 0),
                });
            }
            at = end;
        }
        outcomes
    }

    // ---- opened and closed ----

    pub(super) fn session(&mut self, now_s: u64, from: Source, payload: &[u8]) -> RequiredReply {
        let body = &payload[HEAD..];
        let op = payload[3];
        let is_whole = body.len() == BODY && u64_at(body, 24) == 0 && u32_at(body, 36) == 0;
        if !is_whole || ![OPEN, CLOSE, SESSION].contains(&op) {
            return refused(payload, Status::BadRequest);
        }
        let (token, slot) = (u64_at(body, 16), u32_at(body, 32));
        if op == OPEN {
            return self.open(now_s, from, payload);
        }
        let session = self.sessions.get(&slot);
        let Some(session) = session.filter(|session| session.token == Some(token)) else {
            return refused(payload, Status::NoSession);
        };
        let mut reply = payload.to_vec();
        reply[3] |= NATIVE_REPLY_BIT;
        if op == SESSION {
            reply[HEAD + 24..HEAD + 32].copy_from_slice(&(session.sequence + 1).to_be_bytes());
        } else {
            reply[HEAD..].fill(0);
            self.sessions.remove(&slot);
        }
        RequiredReply::Reply(reply)
    }

    fn open(&mut self, now_s: u64, from: Source, payload: &[u8]) -> RequiredReply {
        let body = &payload[HEAD..];
        if body[16..].iter().any(|byte| *byte != 0) {
            return refused(payload, Status::BadRequest);
        }
        let challenge = id_at(body, 0);
        if challenge == [0; 16] {
            return RequiredReply::Challenge;
        }
        let request_id = u64_at(payload, 8);
        let period = now_s / CHALLENGE_S;
        let opener = address_of(from);
        let is_theirs = self.challenges.get(&challenge).is_some_and(|(to, given)| {
            *to == (opener, from.port) && (*given == period || *given + 1 == period)
        });
        if !is_theirs {
            return refused(payload, Status::Unauthorised);
        }
        self.granted
            .retain(|_, (granted, ..)| period.saturating_sub(*granted) <= 2);
        // A challenge is valid for one session, and for repetitions of the same request while that session is open.
        if let Some((_, by, opening)) = self.granted.get(&challenge) {
            let mut sessions = self.sessions.iter();
            let open = sessions.find(|(_, session)| session.opening == *opening);
            return match open.filter(|_| *by == request_id) {
                Some((slot, _)) => RequiredReply::Granted { slot: *slot },
                None => refused(payload, Status::Unauthorised),
            };
        }
        if !self.may_open(from)
            && let Some(unused) = self.gives_way(now_s, from)
        {
            self.sessions.remove(&unused);
        }
        let slot = (0..self.sessions_max).find(|slot| !self.sessions.contains_key(slot));
        let Some(slot) = slot.filter(|_| self.may_open(from)) else {
            return refused(payload, Status::Busy);
        };
        self.openings += 1;
        let session = Session {
            opener,
            opening: self.openings,
            opened_s: now_s,
            ..Session::default()
        };
        self.sessions.insert(slot, session);
        let granted = (period, request_id, self.openings);
        self.granted.insert(challenge, granted);
        RequiredReply::Granted { slot }
    }

    /// Returns whether a source may open a session. For loopback, only the limit of an address counts. All others
    /// together leave a quarter of the sessions free, and each of them may have 1/64 of the rest, but at least one. In
    /// these tests no session is idle for days.
    fn may_open(&self, from: Source) -> bool {
        let open = self.sessions.len() as u32;
        let opener = address_of(from);
        let own = self.sessions.values().filter(|session| session.opener == opener);
        let own = own.count();
        let rest = self.sessions_max - open;
        let strangers = rest.saturating_sub(self.sessions_max / 4);
        own < self.sessions_per_source
            && (from.address.is_loopback() || (strangers > 0 && own < (strangers as usize / 64).max(1)))
    }

    /// Returns the session that is closed for a newcomer: the oldest in which nothing was executed for 10 s, of the
    /// newcomer's own address if that has reached its limit, otherwise of any address except loopback.
    fn gives_way(&self, now_s: u64, from: Source) -> Option<u32> {
        let opener = address_of(from);
        let own = self.sessions.values().filter(|session| session.opener == opener);
        let rest = self.sessions_max - self.sessions.len() as u32;
        let share = (rest.saturating_sub(self.sessions_max / 4) as usize / 64).max(1);
        let most = match from.address.is_loopback() {
            true => self.sessions_per_source,
            false => self.sessions_per_source.min(share),
        };
        let is_own = own.count() >= most;
        let is_meant = |session: &Session| match is_own {
            true => session.opener == opener,
            false => session.opener[12] != 127,
        };
        let unused = self
            .sessions
            .iter()
            .filter(|(_, session)| !session.is_used && now_s >= session.opened_s + 10 && is_meant(session));
        unused
            .min_by_key(|(slot, session)| (session.opened_s, **slot))
            .map(|(slot, _)| *slot)
    }

    /// Returns whether `reply` is the required reply. The oracle adopts values that are not predictable from it.
    pub fn check(
        &mut self,
        now_s: u64,
        from: Source,
        payload: &[u8],
        said: &RequiredReply,
        reply: &[u8],
    ) -> bool {
        match said {
            RequiredReply::Nothing => false,
            RequiredReply::Reply(expected) => expected == reply,
            RequiredReply::Challenge | RequiredReply::Granted { .. } if !is_session_reply(payload, reply) => {
                false
            }
            RequiredReply::Challenge => {
                let body = &reply[HEAD..];
                let (challenge, to): (Id, _) = (id_at(body, 0), (address_of(from), from.port));
                let given = self.challenges.insert(challenge, (to, now_s / CHALLENGE_S));
                challenge != [0; 16]
                    && body[16..36].iter().all(|byte| *byte == 0)
                    && u32_at(body, 36) == CHALLENGE_S as u32
                    && given.is_none_or(|given| given.0 == to)
            }
            RequiredReply::Granted { slot } => {
                let body = &reply[HEAD..];
                let token = u64_at(body, 16);
                let is_new = self.sessions.values().all(|session| session.token != Some(token));
                let session = self.sessions.get_mut(slot).unwrap();
                let is_right = match session.token {
                    Some(known) => known == token,
                    None => is_new && token != 0,
                };
                session.token = Some(token);
                is_right
                    && id_at(body, 0) == id_at(payload, HEAD)
                    && u64_at(body, 24) == session.sequence + 1
                    && u32_at(body, 32) == *slot
                    && u32_at(body, 36) == 0
            }
        }
    }
}

/// Applies the limit on the reply to a large packet of which nothing was executed: if the code changes more than 13
/// times from one operation to the next, the operations after the first 84 get the code `busy`.
fn put_off(outcomes: &mut [(u16, u64, u64)]) {
    let is_done = outcomes.iter().any(|outcome| outcome.0 == Code::Done as u16);
    let changes = outcomes.windows(2).filter(|two| two[0].0 != two[1].0).count();
    if !is_done && changes >= 14 {
        outcomes
            .iter_mut()
            .skip(84)
            .for_each(|outcome| outcome.0 = Code::Busy as u16);
    }
}

/// Returns the refusal of a packet without a valid signature: the packet as received with that status, sequence number
/// 0 and a code for each operation.
fn unauthorised(payload: &[u8]) -> RequiredReply {
    let mut reply = payload.to_vec();
    reply[3] |= NATIVE_REPLY_BIT;
    reply[4..6].copy_from_slice(&(Status::Unauthorised as u16).to_be_bytes());
    reply[HEAD + 8..HEAD + 16].fill(0);
    for operation in reply[HEAD + EXECUTE_HEAD..].chunks_mut(OPERATION) {
        operation[2..4].copy_from_slice(&(Code::Unauthorised as u16).to_be_bytes());
    }
    RequiredReply::Reply(reply)
}

/// Returns whether this is the header of the reply to a granted session request.
fn is_session_reply(payload: &[u8], reply: &[u8]) -> bool {
    let mut head = payload[..HEAD].to_vec();
    head[3] |= NATIVE_REPLY_BIT;
    reply.len() == payload.len() && reply[..HEAD] == head
}
