//! The thread that makes messages of writes and gives them to the log.

use crate::answer::Answer;
use crate::block::{Sender as MessageSender, head_message, message_bytes, request_message};
use crate::node::{Options, Shared};
use crate::save::Saved;
use crate::stage::Ordered;
use crate::ticket::answer_all;
use crossbeam_channel::{Receiver, never, select};
use lineside_wire::{HYBRID_MESSAGE_BYTES_MAX, HYBRID_MESSAGE_REQUESTS_MAX, HybridCode as Code};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Messages under way while more are gathered: one is executed while another is saved.
const UNDER_WAY: usize = 2;

pub(crate) struct Orderer {
    shared: Arc<Shared>,
    block_requests: usize,
    block_wait: Duration,
    sequence: u64,
    ordered: Receiver<Vec<Ordered>>,
    saved: Receiver<Saved>,
    waiting: VecDeque<Ordered>,
    /// When the oldest of `waiting` came.
    since: Instant,
    under_way: usize,
}

impl Orderer {
    pub fn new(
        shared: Arc<Shared>,
        options: &Options,
        sequence: u64,
        ordered: Receiver<Vec<Ordered>>,
        saved: Receiver<Saved>,
    ) -> Orderer {
        Orderer {
            shared,
            block_requests: options.block_requests.clamp(1, HYBRID_MESSAGE_REQUESTS_MAX),
            block_wait: options.block_wait,
            sequence,
            ordered,
            saved,
            waiting: VecDeque::new(),
            since: Instant::now(),
            under_way: 0,
        }
    }

    pub fn run(mut self) {
        let mut open = true;
        while open || !self.waiting.is_empty() || self.under_way > 0 {
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
                    Ok(saved) => self.has_saved(saved),
                    // The saver is gone: nothing that is under way comes back.
                    Err(_) => break,
                },
                default(wait) => {}
            }
            while self.is_due(open) {
                self.send();
            }
        }
        self.shared.close_log();
    }

    fn take(&mut self, some: Vec<Ordered>) {
        if self.waiting.is_empty() {
            self.since = Instant::now();
        }
        self.waiting.extend(some);
    }

    fn has_saved(&mut self, saved: Saved) {
        self.under_way = self.under_way.saturating_sub(saved.own_messages);
        let Some(head) = saved.post_head else { return };
        let sender = MessageSender {
            node: self.shared.node,
            sequence: 0,
            time_ms: (self.shared.clock)(),
        };
        let message = head_message(&self.shared.database, sender, &head, &*self.shared.signer);
        if let Err(error) = self.shared.append(message) {
            tracing::warn!("hybrid: the signed head was not posted: {error}");
        }
    }

    /// A lone request goes at once. While others are under way more are gathered, up to a block's size and patience.
    fn is_due(&self, open: bool) -> bool {
        !self.waiting.is_empty()
            && (self.under_way == 0
                || self.waiting.len() >= self.block_requests && self.under_way < UNDER_WAY
                || self.since.elapsed() >= self.block_wait && self.under_way < UNDER_WAY
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
        let requests: Vec<Ordered> = self.waiting.drain(..count).collect();
        self.since = Instant::now();
        if self.shared.read_only().is_some() {
            return answer_all(
                requests
                    .into_iter()
                    .map(|one| (one.ticket, Answer::Refused(Code::ReadOnly))),
            );
        }
        self.sequence += 1;
        let sender = MessageSender {
            node: self.shared.node,
            sequence: self.sequence,
            time_ms: (self.shared.clock)(),
        };
        let bodies: Vec<_> = requests.iter().map(|one| one.ticket.request()).collect();
        let message = request_message(&self.shared.database, sender, &bodies, &*self.shared.signer);
        self.shared.pending().insert(self.sequence, requests);
        self.under_way += 1;
        if let Err(error) = self.shared.append(message) {
            tracing::error!("hybrid: {error}");
            self.under_way -= 1;
            let lost = self.shared.pending().remove(&self.sequence).unwrap_or_default();
            answer_all(
                lost.into_iter()
                    .map(|one| (one.ticket, Answer::Refused(Code::OutcomeUnknown))),
            );
        }
    }
}
