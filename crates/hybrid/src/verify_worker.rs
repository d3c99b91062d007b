//! The verify workers: threads that gather the requests of all calls, verify their signatures together, and answer
//! reads.

mod paper_mode;

use crate::answer::Answer;
use crate::execute::SignatureCheck;
use crate::ledger::{Blocks, StoredBlock};
use crate::membership::Membership;
use crate::node::ExecutorInput;
use crate::node_state::NodeState;
use crate::replay_window::NonceOutcome;
use crate::replay_window::READ_EXPIRY_MS;
use crate::ticket::{Call, Ticket, answer_all};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, TrySendError};
use lineside_journal::Disk;
use lineside_messages::hybrid::answer::Past;
use lineside_messages::hybrid::block::{Cargo, Hash, Message};
use lineside_messages::hybrid::paper;
use lineside_messages::hybrid::request::{Body, Head, MemberId, Request, Sees, Version, split};
use lineside_messages::hybrid::sign::REQUEST_TAG;
use lineside_verify::hash::{keccak256_batch, sha256_batch};
use lineside_verify::{Curve, Item, PublicKey, SignatureBytes, Verdict, Verifier};
use lineside_wire::HybridCode as Code;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of signatures that are verified together. Larger batches are not faster, and the first request of a
/// batch waits for the last.
const BATCH_REQUESTS_MAX: usize = 512;
/// Number of requests below which a worker waits for more requests to verify together.
const SMALL_BATCH_REQUESTS: usize = 16;
/// Maximum time for which a worker waits for more requests.
const BATCH_WAIT: Duration = Duration::from_micros(50);
/// Maximum number of writes of a key in one answer. Each of them may have to be read from the ledger.
const HISTORY_MAX: usize = 100;
/// Number of bytes of values after which an answer to a history request ends. It always has at least one write.
const HISTORY_BYTES_MAX: usize = 1 << 20;

/// A request whose signature is verified and that has to be ordered.
pub(crate) struct VerifiedRequest {
    pub ticket: Ticket,
    pub id: Hash,
    pub signed: SignatureCheck,
}

/// Worker that verifies requests. Each verifying thread has a clone of it.
#[derive(Clone)]
pub(crate) struct VerifyWorker<D: Disk> {
    pub shared: Arc<NodeState>,
    pub blocks: Blocks<D>,
    pub verifier: Verifier,
    #[cfg(feature = "laboratory")]
    pub mode: crate::laboratory::Mode,
    pub intake: Receiver<Arc<Call>>,
    pub order: Sender<Vec<VerifiedRequest>>,
    pub steps: Sender<ExecutorInput>,
}

/// Operation of a request, in the native or the paper's format.
enum RequestKind<'a> {
    Native(Request<'a>),
    /// The paper's operation, and the owner of its key.
    Paper(paper::Body<'a>, MemberId),
}

/// A request that has passed the checks that precede the verification of its signature.
pub(crate) struct ValidatedRequest<'a> {
    ticket: Ticket,
    kind: RequestKind<'a>,
    /// The signed bytes with [`REQUEST_TAG`] in front. Their hash is the request's id.
    pub tagged: &'a [u8],
    signature: &'a [u8; 64],
    key: PublicKey,
}

impl<D: Disk> VerifyWorker<D> {
    pub fn run(self) {
        let mut was_small = true;
        while let Ok(call) = self.intake.recv() {
            let mut requests = call.requests.len();
            let mut calls = vec![call];
            let until = Instant::now() + BATCH_WAIT;
            while requests < BATCH_REQUESTS_MAX {
                let next = match self.intake.try_recv() {
                    // Waits only if the previous batch had several calls, so that a single client is never delayed.
                    Err(TryRecvError::Empty) if !was_small && requests < SMALL_BATCH_REQUESTS => {
                        self.intake.recv_deadline(until)
                    }
                    other => other.map_err(|_| RecvTimeoutError::Timeout),
                };
                let Ok(call) = next else { break };
                requests += call.requests.len();
                calls.push(call);
            }
            was_small = calls.len() == 1;
            self.shared.waiting.fetch_sub(requests, Ordering::AcqRel);
            let bytes = calls.iter().map(|call| call.bytes()).sum();
            self.shared.waiting_bytes.fetch_sub(bytes, Ordering::AcqRel);
            self.work(&calls);
        }
    }

    /// Verifies the requests of these calls together. Answers each request or passes it on to be ordered.
    pub fn work(&self, calls: &[Arc<Call>]) {
        let membership = self.shared.read_view().membership().clone();
        let now_ms = (self.shared.clock)();
        let tickets = calls.iter().flat_map(|call| {
            (0..call.requests.len()).map(|place| Ticket {
                call: call.clone(),
                index: place,
            })
        });
        let tickets: Vec<Ticket> = tickets.collect();
        let tagged = TaggedRequests::of(&tickets);
        let mut refused = Vec::new();
        let mut validated = Vec::with_capacity(tickets.len());
        for (number, ticket) in tickets.iter().enumerate() {
            match self.validate(&membership, now_ms, ticket, tagged.get(number)) {
                Ok(request) => validated.push(request),
                Err(code) => refused.push((ticket.clone(), Answer::Refused(code))),
            }
        }
        self.shared.count_refused(&refused);
        answer_all(refused);
        let (ids, verdicts) = self.verify(&validated);
        let mut ordered = Vec::new();
        let mut answered = Vec::new();
        // Result of waiting for the log's end. One wait is enough for all linearizable reads of this batch.
        let mut order = None;
        for ((request, id), verdict) in validated.into_iter().zip(ids).zip(verdicts) {
            let answer = match verdict {
                Verdict::Valid if request.kind.is_ordered() => {
                    let ordered_before = self.answer_if_ordered(&request.kind, &id);
                    let answer = ordered_before.or_else(|| request.kind.refuse(&membership, now_ms));
                    if answer.is_none() {
                        ordered.push(VerifiedRequest {
                            ticket: request.ticket.clone(),
                            id,
                            signed: SignatureCheck::Valid,
                        });
                    }
                    answer
                }
                Verdict::Valid => match &request.kind {
                    RequestKind::Native(native) => {
                        self.read(&membership, now_ms, &request.ticket, native, &mut order)
                    }
                    RequestKind::Paper(body, member) => Some(self.read_paper(&membership, body, *member)),
                },
                Verdict::HighS => Some(Answer::Refused(Code::HighS)),
                _ => Some(Answer::Refused(Code::BadSignature)),
            };
            answered.extend(answer.map(|answer| (request.ticket, answer)));
        }
        self.shared.count_refused(&answered);
        answer_all(answered);
        if ordered.is_empty() {
            return;
        }
        if let Err(refused) = self.order.send(ordered) {
            answer_all(
                refused
                    .0
                    .into_iter()
                    .map(|one| (one.ticket, Answer::Refused(Code::ReadOnly))),
            );
        }
    }

    /// Makes the checks of a request that can precede the verification of its signature.
    fn validate<'a>(
        &self,
        membership: &Membership,
        now_ms: u64,
        ticket: &Ticket,
        (whole, tagged): (&'a [u8], &'a [u8]),
    ) -> Result<ValidatedRequest<'a>, Code> {
        let (signature, signed) = split(whole).map_err(|_| Code::Malformed)?;
        if paper::is_one(signed) {
            return self.validate_paper(membership, ticket, (signature, signed), tagged);
        }
        let request = Request::decode(signed).map_err(|_| Code::Malformed)?;
        let head = &request.head;
        if head.database != self.shared.database {
            return Err(Code::WrongDatabase);
        }
        let key = membership.key(head.member, head.key).ok_or(Code::UnknownMember)?;
        if !membership.is_active(head.member, head.key) {
            return Err(Code::Revoked);
        }
        if membership.is_paper() && !paper::takes_native(&request.body) {
            return Err(Code::WrongMode);
        }
        match request.body.is_ordered() {
            false if head.expiry_ms < now_ms => return Err(Code::Expired),
            false if head.expiry_ms > now_ms + READ_EXPIRY_MS => return Err(Code::ExpiryTooFar),
            true if self.shared.read_only().is_some() => return Err(Code::ReadOnly),
            _ => {}
        }
        Ok(ValidatedRequest {
            ticket: ticket.clone(),
            key: key.public,
            kind: RequestKind::Native(request),
            tagged,
            signature,
        })
    }

    /// Returns the ids of all requests, and the verdicts on their signatures.
    fn verify(&self, validated: &[ValidatedRequest<'_>]) -> (Vec<Hash>, Vec<Verdict>) {
        #[cfg(feature = "laboratory")]
        if let Some(otherwise) = self.verify_otherwise(validated) {
            return otherwise;
        }
        let mut ids = vec![[0; 32]; validated.len()];
        let messages: Vec<&[u8]> = validated.iter().map(|request| request.tagged).collect();
        keccak256_batch(&messages, &mut ids);
        let mut digests = ids.clone();
        hash_for_p256(validated, &mut digests);
        for (request, digest) in validated.iter().zip(&mut digests) {
            if let RequestKind::Paper(body, _) = &request.kind {
                *digest = body.digest();
            }
        }
        let items: Vec<Item<'_>> = validated
            .iter()
            .zip(&digests)
            .map(|(request, digest)| request.item(*digest))
            .collect();
        let verdicts = self.verifier.verify_batch(&items);
        self.shared
            .verified
            .fetch_add(items.len() as u64, Ordering::Relaxed);
        self.shared.batches.fetch_add(1, Ordering::Relaxed);
        (ids, verdicts)
    }

    /// Returns the answer to a request that was already ordered, by this node or another.
    fn ordered_before(&self, id: &Hash) -> Option<Answer> {
        let place = self.shared.read_view().transaction(id)?;
        Some(Answer::Placed {
            code: place.code,
            version: place.version,
        })
    }

    /// Answers a read. A proof is passed to the executing thread instead, and the result is `None`.
    fn read(
        &self,
        membership: &Membership,
        now_ms: u64,
        ticket: &Ticket,
        request: &Request<'_>,
        order: &mut Option<Result<(), Code>>,
    ) -> Option<Answer> {
        let (head, body) = (&request.head, &request.body);
        let nonce_outcome = {
            let mut windows = self.shared.windows.lock().unwrap_or_else(PoisonError::into_inner);
            windows.take(head.member, head.nonce, head.expiry_ms, now_ms)
        };
        match nonce_outcome {
            NonceOutcome::Fresh => {}
            NonceOutcome::Used => return Some(Answer::Refused(Code::NonceUsed)),
            NonceOutcome::NoRoom => return Some(Answer::Refused(Code::Busy)),
        }
        let may_read = |key: &[u8]| membership.rights(head.member, key).read;
        let refused = |code| Some(Answer::Refused(code));
        match body {
            Body::Get { sees, keys } => {
                if !keys.iter().all(|key| may_read(key)) {
                    return refused(Code::NotAllowed);
                }
                if let Err(code) = self.ensure_visible(*sees, order) {
                    return refused(code);
                }
                let view = self.shared.read_view();
                Some(Answer::Cells(
                    keys.iter().map(|key| view.cell(key).cloned()).collect(),
                ))
            }
            Body::Range {
                sees,
                start,
                stop,
                limit,
            } => {
                if let Err(code) = self.ensure_visible(*sees, order) {
                    return refused(code);
                }
                Some(self.shared.read_view().range(head.member, start, stop, *limit))
            }
            Body::Prove { key } if !may_read(key) => refused(Code::NotAllowed),
            Body::Prove { key } => {
                if let Some(code) = self.shared.no_proofs() {
                    return refused(code);
                }
                let step = ExecutorInput::Prove {
                    key: key.to_vec(),
                    ticket: ticket.clone(),
                };
                // Does not wait for room in the queue, because other reads wait for this thread.
                match self.steps.try_send(step) {
                    Ok(()) => None,
                    Err(TrySendError::Full(_)) => refused(Code::Busy),
                    Err(TrySendError::Disconnected(_)) => refused(Code::ReadOnly),
                }
            }
            Body::History { key, .. } if !may_read(key) => refused(Code::NotAllowed),
            Body::History { key, limit, before } => Some(self.history(key, *limit, *before)),
            Body::Head => Some(self.shared.head()),
            Body::Outcome { id } => match self.ordered_before(id) {
                None => refused(Code::Unknown),
                ordered_before => ordered_before,
            },
            Body::Watch { prefix } => Some(self.watch(head, prefix, ticket)),
            Body::Write { .. } | Body::Change { .. } => refused(Code::Malformed),
        }
    }

    /// Waits until this node has executed everything that a linearizable read must see.
    fn ensure_visible(&self, sees: Sees, order: &mut Option<Result<(), Code>>) -> Result<(), Code> {
        match sees {
            Sees::Local => Ok(()),
            Sees::Linearizable => *order.get_or_insert_with(|| self.shared.wait_for_order()),
        }
    }

    fn watch(&self, head: &Head, prefix: &[u8], ticket: &Ticket) -> Answer {
        // If the call has no sink, the request came through a transport that carries only one answer.
        let Some(subscription) = ticket.call.take_subscription() else {
            return Answer::Refused(Code::TooLarge);
        };
        let mut watchers = self.shared.watchers.lock();
        match watchers.add(head, prefix, subscription) {
            true => Answer::Watching {
                block: self.shared.read_view().tip().number,
            },
            false => Answer::Refused(Code::Busy),
        }
    }

    /// Returns a page of a key's writes. It has at most `limit` writes, and ends when their values reach
    /// [`HISTORY_BYTES_MAX`].
    fn history(&self, key: &[u8], limit: u32, before: Option<Version>) -> Answer {
        let limit = HISTORY_MAX.min(limit as usize);
        let view = self.shared.read_view();
        let versions: Vec<_> = view.versions(key, before).take(limit + 1).collect();
        drop(view);
        let (mut past, mut bytes) = (Vec::new(), 0);
        for version in versions.iter().take(limit) {
            let Some(one) = self.past(key, *version) else {
                // The ledger cannot be read, or it differs from what this node has executed.
                return Answer::Refused(Code::ReadOnly);
            };
            bytes += one.value.as_ref().map_or(0, Vec::len);
            if bytes > HISTORY_BYTES_MAX && !past.is_empty() {
                break;
            }
            past.push(one);
        }
        let more = past.len() < versions.len();
        Answer::History { past, more }
    }

    /// Returns a key's write of this version from the ledger.
    fn past(&self, key: &[u8], version: Version) -> Option<Past> {
        let payload = self.blocks.read(version.block).ok()?;
        let stored = StoredBlock::decode(&payload).ok()?;
        let message = Message::decode(stored.message).ok()?;
        let Cargo::Requests(requests) = &message.cargo else {
            return None;
        };
        let (_, signed) = split(requests.get(version.index as usize)?).ok()?;
        let Body::Write { writes, .. } = Request::decode(signed).ok()?.body else {
            return None;
        };
        let write = writes.iter().find(|write| write.key == key)?;
        Some(Past {
            version,
            time_ms: stored.header.time_ms,
            value: write.value.map(<[u8]>::to_vec),
        })
    }
}

impl RequestKind<'_> {
    fn is_ordered(&self) -> bool {
        match self {
            RequestKind::Native(request) => request.body.is_ordered(),
            RequestKind::Paper(body, _) => body.is_ordered(),
        }
    }

    /// Refuses requests that are expired or not allowed by the current state of this node, so that they do not get into
    /// the ledger. Returns `None` if the request is not refused.
    fn refuse(&self, membership: &Membership, now_ms: u64) -> Option<Answer> {
        let RequestKind::Native(Request { head, body }) = self else {
            return None;
        };
        if head.expiry_ms < now_ms {
            return Some(Answer::Refused(Code::Expired));
        }
        let Body::Write { reads, writes } = body else {
            return None;
        };
        let may_read = reads
            .iter()
            .all(|read| membership.rights(head.member, read.key).read);
        let may_write = writes
            .iter()
            .all(|write| membership.rights(head.member, write.key).write);
        (!may_read || !may_write).then_some(Answer::Refused(Code::NotAllowed))
    }
}

impl<'a> ValidatedRequest<'a> {
    /// Returns the digest that is signed. For a native request of a secp256k1 key this is the request's id.
    #[cfg(feature = "laboratory")]
    pub fn digest(&self, id: &Hash) -> Hash {
        match &self.kind {
            RequestKind::Paper(body, _) => body.digest(),
            RequestKind::Native(_) if self.key.curve() == Curve::Secp256k1 => *id,
            RequestKind::Native(_) => lineside_messages::hybrid::sign::digest(self.key.curve(), self.tagged),
        }
    }

    pub fn item(&self, digest: Hash) -> Item<'_> {
        Item {
            key: &self.key,
            digest,
            signature: SignatureBytes::Compact(self.signature),
        }
    }
}

/// Replaces the digests of requests that P-256 keys have signed: those keys sign a SHA-256 hash.
fn hash_for_p256(validated: &[ValidatedRequest<'_>], digests: &mut [Hash]) {
    let of_p256 = |request: &ValidatedRequest<'_>| request.key.curve() == Curve::P256;
    let messages: Vec<&[u8]> = validated
        .iter()
        .filter(|request| of_p256(request))
        .map(|request| request.tagged)
        .collect();
    if messages.is_empty() {
        return;
    }
    let mut hashes = vec![[0; 32]; messages.len()];
    sha256_batch(&messages, &mut hashes);
    let places = validated
        .iter()
        .zip(digests)
        .filter(|(request, _)| of_p256(request));
    places.zip(hashes).for_each(|((_, digest), hash)| *digest = hash);
}

/// Copies of requests in one buffer, each with [`REQUEST_TAG`] inserted between the signature and the signed bytes. So
/// the tag and the signed bytes are hashed without another copy.
struct TaggedRequests {
    bytes: Vec<u8>,
    /// Offset in `bytes` at which each request begins, and then the offset of the end.
    begins: Vec<usize>,
    requests: Vec<bytes::Bytes>,
}

impl TaggedRequests {
    fn of(tickets: &[Ticket]) -> TaggedRequests {
        let requests: Vec<_> = tickets.iter().map(|ticket| ticket.request().clone()).collect();
        let total = requests
            .iter()
            .map(|request| request.len() + REQUEST_TAG.len())
            .sum();
        let mut bytes = Vec::with_capacity(total);
        let mut begins = vec![0];
        for request in &requests {
            bytes.extend_from_slice(REQUEST_TAG);
            bytes.extend_from_slice(request.get(64..).unwrap_or_default());
            begins.push(bytes.len());
        }
        TaggedRequests {
            bytes,
            begins,
            requests,
        }
    }

    /// Returns the whole request with the inserted tag, and the part of it that is hashed.
    fn get(&self, number: usize) -> (&[u8], &[u8]) {
        let (begin, end) = (self.begins[number], self.begins[number + 1]);
        (&self.requests[number], &self.bytes[begin..end])
    }
}
