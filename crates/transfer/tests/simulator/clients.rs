//! Clients that repeat requests until they get a reply, and one that attacks.

use super::keys;
use super::network::Datagram;
use super::requests::{self, Session, Shape};
use crate::oracle::{EXECUTE_HEAD, HEAD, SIGNED_HEAD, is_no_room, u16_at, u32_at, u64_at};
use lineside_fastpath::Source;
use lineside_testkit::Random;
use lineside_wire::{
    Status, TRANSFER_COMMAND_TRANSFER as TRANSFER, TRANSFER_OP_CLOSE as CLOSE,
    TRANSFER_OP_EXECUTE as EXECUTE, TRANSFER_OP_SIGNED as SIGNED, TransferCode as Code,
};

/// Maximum payload of a datagram in bytes.
const DATAGRAM: usize = 1472;

fn is_signed(payload: &[u8]) -> bool {
    payload.len() > HEAD + SIGNED_HEAD && payload[3] == SIGNED
}

/// Returns a signed packet with one bit of its signature, or of its operations, inverted.
fn flipped(rng: &mut Random, mut signed: Vec<u8>) -> Vec<u8> {
    let operations = HEAD + SIGNED_HEAD + EXECUTE_HEAD;
    let at = match rng.percent(50) {
        true => HEAD + 8 + rng.below(SIGNED_HEAD as u64 - 8) as usize,
        false => operations + rng.below((signed.len() - operations) as u64) as usize,
    };
    signed[at] ^= 1 << rng.below(8);
    signed
}

/// Request that waits for its reply.
#[derive(Debug)]
struct Flight {
    payload: Vec<u8>,
    sent_again_at: u64,
}

#[derive(Debug)]
enum RequestKind {
    /// Client in the paper's format: the ids that only it uses as sources, and its last transaction id.
    Paper { sources: Vec<u32>, last_id: u32 },
    Native {
        close_percent: u64,
        session: Option<Session>,
        sequence: u64,
        challenge: [u8; 16],
    },
    /// Attacker that sends changed copies of other clients' answered requests.
    Thief,
}

/// Client with at most one waiting request.
#[derive(Debug)]
pub struct Client {
    pub from: Source,
    kind: RequestKind,
    flight: Option<Flight>,
    requests: u64,
    /// Pending transfers and keyed operations that the client sent.
    earlier: requests::Earlier,
    /// Last request that counts once, with the first reply to it.
    pub last: Option<(Vec<u8>, Vec<u8>)>,
    pub answered: u64,
    /// True if it signs; the number of its key is its port.
    pub has_key: bool,
    /// True if the signature of the current request is wrong on purpose.
    lies: bool,
    pub stream_percent: u64,
    pub is_large: bool,
    pub plain_percent: u64,
    /// True if the ledger may lack the effect of the last reply: the power was cut, and the reply did not say that it
    /// was durable.
    pub may_be_forgotten: bool,
}

impl Client {
    fn new(from: Source, kind: RequestKind) -> Self {
        Self {
            from,
            kind,
            flight: None,
            requests: u64::from(from.port) << 32,
            earlier: requests::Earlier::default(),
            last: None,
            answered: 0,
            has_key: false,
            lies: false,
            stream_percent: 0,
            is_large: false,
            plain_percent: 0,
            may_be_forgotten: false,
        }
    }

    pub fn paper(from: Source, sources: Vec<u32>) -> Self {
        Self::new(from, RequestKind::Paper { sources, last_id: 0 })
    }

    /// Creates a client that closes its session in `close_percent` of 100 cases instead of using it.
    pub fn native(from: Source, close_percent: u64) -> Self {
        let kind = RequestKind::Native {
            close_percent,
            session: None,
            sequence: 0,
            challenge: [0; 16],
        };
        Self::new(from, kind)
    }

    pub fn thief(from: Source) -> Self {
        Self::new(from, RequestKind::Thief)
    }

    /// Returns whether the client sends its current request by stream; it must if a datagram is too small.
    pub fn takes_stream(&self, rng: &mut Random) -> bool {
        let waits = self.flight.as_ref();
        self.stream_percent > 0
            && (rng.percent(self.stream_percent)
                || waits.is_some_and(|flight| flight.payload.len() > DATAGRAM))
    }

    /// Returns the next packet to send.
    pub fn send(
        &mut self,
        rng: &mut Random,
        now: u64,
        seen: &[Datagram],
        by_stream: bool,
    ) -> Option<Vec<u8>> {
        if let Some(flight) = &mut self.flight {
            if now < flight.sent_again_at {
                return None;
            }
            flight.sent_again_at = now + 3 + rng.below(12);
            return Some(flight.payload.clone());
        }
        if rng.percent(50) {
            return None;
        }
        // The client sends a late copy of a request that was answered.
        if rng.percent(5)
            && let Some((request, _)) = &self.last
            && (by_stream || request.len() <= DATAGRAM)
        {
            return Some(request.clone());
        }
        let (payload, waits) = self.next_request(rng, seen, by_stream)?;
        if waits {
            self.flight = Some(Flight {
                payload: payload.clone(),
                sent_again_at: now + 3 + rng.below(12),
            });
        }
        Some(payload)
    }

    fn next_request(
        &mut self,
        rng: &mut Random,
        seen: &[Datagram],
        by_stream: bool,
    ) -> Option<(Vec<u8>, bool)> {
        self.requests += 1;
        self.lies = false;
        let request_id = self.requests;
        match &mut self.kind {
            RequestKind::Thief => {
                let theirs = (!seen.is_empty()).then(|| rng.pick(seen))?;
                Some((requests::stolen(rng, &theirs.payload), false))
            }
            RequestKind::Paper { sources, last_id } => {
                let is_numbered = rng.percent(80);
                let id = if is_numbered {
                    *last_id + 1 + rng.below(3) as u32
                } else {
                    0
                };
                *last_id = (*last_id).max(id);
                let (payload, is_refer) = requests::paper(rng, id, sources);
                Some((payload, is_numbered && !is_refer))
            }
            RequestKind::Native {
                session: None,
                challenge,
                ..
            } => Some((requests::open(request_id, *challenge), true)),
            RequestKind::Native {
                close_percent,
                session: Some(session),
                sequence,
                ..
            } => {
                if rng.percent(15) {
                    return Some((requests::refer(rng, request_id), true));
                }
                if rng.percent(*close_percent) {
                    return Some((requests::close(request_id, *session), true));
                }
                *sequence += 1;
                let owners: &[_] = if self.has_key { keys::owners() } else { &[] };
                let shape = Shape {
                    owners,
                    plain_percent: self.plain_percent,
                    is_large: self.is_large && by_stream,
                };
                let packet =
                    requests::execute(rng, request_id, *session, *sequence, &shape, &mut self.earlier);
                if !self.has_key {
                    return Some((packet, true));
                }
                let own = keys::sign(self.from.port, &packet);
                let theirs = seen.iter().rfind(|datagram| is_signed(&datagram.payload));
                let payload = match (rng.below(16), theirs) {
                    (0, _) => packet,
                    (1, _) => flipped(rng, own),
                    (2, Some(theirs)) => {
                        keys::with_signature(&theirs.payload[HEAD..HEAD + SIGNED_HEAD], &packet)
                    }
                    // The request is signed, but possibly with the key of a client that owns nothing.
                    (3 | 4, _) => {
                        let other = 1 + rng.below(keys::KEYS.into()) as u16;
                        return Some((keys::sign(other, &packet), true));
                    }
                    _ => return Some((own, true)),
                };
                self.lies = true;
                Some((payload, true))
            }
        }
    }

    /// Takes a reply. Returns an error for a reply that an honest client must never get.
    pub fn take(&mut self, reply: &[u8]) -> Result<(), String> {
        let Some(flight) = &self.flight else {
            return Ok(());
        };
        let is_paper = flight.payload.len() <= 22;
        let is_ours = if is_paper {
            reply.len() == flight.payload.len()
                && reply[4..16] == flight.payload[4..16]
                && u32_at(reply, 0) & 0x7fff_ffff == u32_at(&flight.payload, 0)
        } else {
            reply.len() >= HEAD && u64_at(reply, 8) == u64_at(&flight.payload, 8)
        };
        if !is_ours || is_no_room(&flight.payload, reply) {
            return Ok(());
        }
        let request = flight.payload.clone();
        self.flight = None;
        self.answered += 1;
        if is_paper {
            self.take_paper(request, reply)
        } else {
            self.take_native(request, reply)
        }
    }

    fn take_paper(&mut self, request: Vec<u8>, reply: &[u8]) -> Result<(), String> {
        let is_refused = u32_at(reply, 0) & 0x8000_0000 != 0;
        let code = if is_refused { u32_at(reply, 16) } else { 0 };
        let is_of_nothing = u32_at(&request, 0) == u32::from(TRANSFER) && u32_at(&request, 16) == 0;
        if !self.may_be_forgotten
            && !is_of_nothing
            && [
                Code::StaleId as u32,
                Code::IdReused as u32,
                Code::BadCommand as u32,
            ]
            .contains(&code)
        {
            return Err(format!(
                "the client's only open request {request:02x?} got the wrong reply {reply:02x?}"
            ));
        }
        let RequestKind::Paper { sources, .. } = &self.kind else {
            return Ok(());
        };
        // A client with several sources uses its ids for all of them, so its last id need not be the last id of each
        // source.
        let forgets = [
            Code::UnknownAccount as u32,
            Code::StoreFull as u32,
            Code::Unauthorised as u32,
            Code::BadCommand as u32,
        ];
        self.last = (sources.len() == 1 && !forgets.contains(&code)).then(|| (request, reply.to_vec()));
        Ok(())
    }

    fn take_native(&mut self, request: Vec<u8>, reply: &[u8]) -> Result<(), String> {
        let status = u16_at(reply, 4);
        let RequestKind::Native {
            session,
            sequence,
            challenge,
            ..
        } = &mut self.kind
        else {
            return Ok(());
        };
        if let Some(open) = session {
            if request[3] == CLOSE {
                // The closing was refused: the session had been closed before, and that reply was lost.
                if status != Status::Ok as u16 && status != Status::NoSession as u16 {
                    return Err(format!(
                        "closing session {open:?} got the wrong reply {reply:02x?}"
                    ));
                }
                (*session, *sequence, *challenge, self.last) = (None, 0, [0; 16], None);
                return Ok(());
            }
            let is_packet = [EXECUTE, SIGNED].contains(&request[3]);
            let may_be_a_strangers = self.lies || request[3] == SIGNED;
            if is_packet && may_be_a_strangers && status == Status::Unauthorised as u16 {
                // The packet used no sequence number: it was not signed correctly, or its signer does not own the
                // debited accounts.
                *sequence -= 1;
                return Ok(());
            }
            let is_behind = [Status::Sequence as u16, Status::Reused as u16].contains(&status);
            if is_packet && self.may_be_forgotten && is_behind {
                *sequence = u64_at(reply, HEAD + 8) - 1;
                self.last = None;
                return Ok(());
            }
            if status != Status::Ok as u16 {
                return Err(format!(
                    "session {open:?}, sequence {sequence}: {request:02x?} got the wrong reply {reply:02x?}"
                ));
            }
            if is_packet {
                self.last = Some((request, reply.to_vec()));
            }
            return Ok(());
        }
        match Status::from_code(status) {
            Some(Status::Ok) if *challenge == [0; 16] => challenge.copy_from_slice(&reply[HEAD..HEAD + 16]),
            Some(Status::Ok) => {
                *session = Some(Session {
                    token: u64_at(reply, HEAD + 16),
                    slot: u32_at(reply, HEAD + 32),
                });
                *sequence = 0;
                if u64_at(reply, HEAD + 24) != 1 {
                    return Err(format!("a new session begins with {reply:02x?}"));
                }
            }
            // The challenge has expired, or belongs to the host before its restart; or there are too many sessions.
            Some(Status::Unauthorised | Status::Busy) => *challenge = [0; 16],
            _ => return Err(format!("opening a session got the wrong reply {reply:02x?}")),
        }
        Ok(())
    }
}
