//! The proposer: the thread that batches writes into messages and appends them to the log.

use crate::answer::Answer;
use crate::node::Options;
use crate::node_state::NodeState;
use crate::persister::PersistedGroup;
use crate::ticket::{answer_all, answer_unknown};
use crate::verify_worker::VerifiedRequest;
use crossbeam_channel::{Receiver, never, select};
use lineside_messages::hybrid::block::{
    Hash, Message, Sender as MessageSender, hashed_message, head_message, message_bytes,
};
use lineside_messages::hybrid::request::SIGNATURE_BYTES;
use lineside_wire::{HYBRID_MESSAGE_BYTES_MAX, HYBRID_MESSAGE_REQUESTS_MAX, HybridCode as Code};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Maximum number of this node's messages in flight: one is executed while another is saved. In the meantime the
/// proposer gathers more requests.
const IN_FLIGHT_MAX: usize = 2;
/// Number of bits by which the clock (in milliseconds) is shifted left to give a node's first sequence number. So a
/// restarted node begins above all its earlier numbers.
const SEQUENCE_CLOCK_BITS: u32 = 16;

/// Returns the first sequence number of a node that starts. The log may contain messages from before the restart that
/// the ledger does not have, and more of them may still arrive there. So reading the log to its end would not show
/// which numbers are used; the clock does. If the clock has gone back, the node learns the used numbers when it reads
/// its old messages from the log. Until then its new messages may be skipped with an unknown outcome, but no message is
/// ever mistaken for another.
pub(crate) fn first_sequence(last: u64, now_ms: u64) -> u64 {
    last.max(now_ms.min(u64::MAX >> (SEQUENCE_CLOCK_BITS + 1)) << SEQUENCE_CLOCK_BITS)
}

/// A message of this node that is in flight.
pub(crate) struct PendingMessage {
    pub signature: [u8; SIGNATURE_BYTES],
    /// The message's [`transactions_hash`](lineside_messages::hybrid::block::transactions_hash).
    pub hash: Hash,
    pub time_ms: u64,
    pub requests: Vec<VerifiedRequest>,
}

impl PendingMessage {
    /// Returns true if a message from the log with this node's number and sequence is exactly the message that this
    /// node sent. The operator of the log could have changed it.
    pub fn is(&self, message: &Message<'_>) -> bool {
        let requests = message.requests();
        let sent = self.requests.iter().map(|one| one.ticket.request());
        message.time_ms == self.time_ms
            && requests.len() == self.requests.len()
            && sent.zip(requests).all(|(sent, request)| sent == request)
    }
}

pub(crate) struct Proposer {
    shared: Arc<NodeState>,
    block_requests: usize,
    block_wait: Duration,
    sequence: u64,
    ordered: Receiver<Vec<VerifiedRequest>>,
    saved: Receiver<PersistedGroup>,
    /// Receives the number of this node's messages that the log has given up.
    lost_messages: Receiver<usize>,
    waiting: VecDeque<VerifiedRequest>,
    /// Time when the oldest request of `waiting` arrived.
    since: Instant,
    in_flight: usize,
}

impl Proposer {
    pub fn new(
        shared: Arc<NodeState>,
        options: &Options,
        sequence: u64,
        ordered: Receiver<Vec<VerifiedRequest>>,
        saved: Receiver<PersistedGroup>,
        lost_messages: Receiver<usize>,
    ) -> Proposer {
        Proposer {
            shared,
            block_requests: options.block_requests.clamp(1, HYBRID_MESSAGE_REQUESTS_MAX),
            block_wait: options.block_wait,
            sequence,
            ordered,
            saved,
            lost_messages,
            waiting: VecDeque::new(),
            since: Instant::now(),
            in_flight: 0,
        }
    }

    pub fn run(mut self) {
        let mut open = true;
        while open || !self.waiting.is_empty() || self.in_flight > 0 {
            let ordered = match open && self.waiting.len() < 2 * self.block_requests {
                true => self.ordered.clone(),
                false => never(),
            };
            let wait = match self.waiting.is_empty() {
                true => Duration::from_secs(1),
                false => self.block_wait.saturating_sub(self.since.elapsed()),
            };
            select! {
                recv(ordered) -> some => match some {
                    Ok(some) => self.take(some),
                    Err(_) => open = false,
                },
                recv(self.saved) -> saved => match saved {
                    Ok(saved) => self.on_persisted(saved),
                    // The persister has ended, so no message in flight will be reported as saved.
                    Err(_) => break,
                },
                recv(self.lost_messages) -> lost => match lost {
                    Ok(count) => self.in_flight = self.in_flight.saturating_sub(count),
                    // The log dropped its sender: it never reports lost messages, so this channel is replaced by one
                    // that never delivers.
                    Err(_) => self.lost_messages = never(),
                },
                default(wait) => {}
            }
            while self.is_due(open) {
                self.send();
            }
        }
        self.shared.close_log();
    }

    fn take(&mut self, some: Vec<VerifiedRequest>) {
        if self.waiting.is_empty() {
            self.since = Instant::now();
        }
        self.waiting.extend(some);
    }

    fn on_persisted(&mut self, saved: PersistedGroup) {
        self.in_flight = self.in_flight.saturating_sub(saved.own_messages);
        let Some(head) = saved.post_head else { return };
        // Other nodes skip messages of a sender that is not a node of the database.
        if self
            .shared
            .read_view()
            .membership()
            .node(self.shared.node)
            .is_none()
        {
            return;
        }
        let sender = MessageSender {
            node: self.shared.node,
            sequence: 0,
            time_ms: (self.shared.clock)(),
        };
        let message = head_message(&self.shared.database, sender, &head, &*self.shared.signer);
        match self.shared.append(message) {
            Ok(_) => tracing::info!(
                block = head.number,
                "hybrid: wrote this node's signed head to the log"
            ),
            Err(error) => tracing::warn!(
                "hybrid: cannot write this node's signed head to the log: {error}; the node writes the head of a later \
                 block instead"
            ),
        }
    }

    /// Returns true if the waiting requests are to be sent now. If no message is in flight, they are sent at once.
    /// Otherwise more requests are gathered, up to the maximum size of a block or the maximum time that it waits.
    fn is_due(&self, open: bool) -> bool {
        !self.waiting.is_empty()
            && (self.in_flight == 0
                || self.waiting.len() >= self.block_requests && self.in_flight < IN_FLIGHT_MAX
                || self.since.elapsed() >= self.block_wait && self.in_flight < IN_FLIGHT_MAX
                || !open)
    }

    fn send(&mut self) {
        let mut count = 0;
        let mut bytes = message_bytes([]);
        for one in self.waiting.iter().take(self.block_requests) {
            bytes += message_bytes([one.ticket.request().len()]) - message_bytes([]);
            if bytes > HYBRID_MESSAGE_BYTES_MAX {
                break;
            }
            count += 1;
        }
        let requests: Vec<VerifiedRequest> = self.waiting.drain(..count).collect();
        self.since = Instant::now();
        if self.shared.read_only().is_some() {
            return answer_all(
                requests
                    .into_iter()
                    .map(|one| (one.ticket, Answer::Refused(Code::ReadOnly))),
            );
        }
        let used = self.shared.used_sequence.load(Ordering::Relaxed);
        self.sequence = self.sequence.max(used) + 1;
        let sender = MessageSender {
            node: self.shared.node,
            sequence: self.sequence,
            time_ms: (self.shared.clock)(),
        };
        let bodies: Vec<_> = requests.iter().map(|one| one.ticket.request()).collect();
        let (message, hash) = hashed_message(&self.shared.database, sender, &bodies, &*self.shared.signer);
        let signature = std::array::from_fn(|i| message[i]);
        let pending = PendingMessage {
            signature,
            hash,
            time_ms: sender.time_ms,
            requests,
        };
        self.shared.pending().insert(self.sequence, pending);
        self.in_flight += 1;
        if let Err(error) = self.shared.append(message) {
            tracing::error!(
                "hybrid: cannot write a message to the log: {error}; the outcome of the requests in this message is \
                 unknown"
            );
            // If `append` has already reported the message as lost, it is no longer pending, and was counted as lost
            // there.
            let pending = self.shared.pending().remove(&self.sequence);
            if let Some(pending) = pending {
                self.in_flight = self.in_flight.saturating_sub(1);
                answer_unknown(pending.requests);
            }
        }
    }
}
