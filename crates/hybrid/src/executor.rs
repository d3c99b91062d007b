//! Processing of the messages that the log delivers: several threads check messages in parallel, and one thread
//! executes them in order.

use crate::answer::Answer;
use crate::execute::{Chain, Executed};
use crate::log::Entry;
use crate::node::ExecutorInput;
use crate::node_state::NodeState;
use crate::proposer::PendingMessage;
use crate::signatures::{CheckedMessage, Digests};
use crate::ticket::Ticket;
use crate::verify_worker::VerifiedRequest;
use crossbeam_channel::{Receiver, Sender};
use lineside_messages::hybrid::block::{
    Cargo, HASHED_AT_ONCE, Hash, Message, SignedHead, transactions_hashes,
};
use lineside_messages::hybrid::proof::StateProof;
use lineside_verify::Verifier;
use std::collections::{BTreeMap, HashMap};
use std::iter::once;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Input of the thread that makes blocks durable (the persister).
pub(crate) enum PersistJob {
    /// A block that was executed.
    Block(Box<BlockToPersist>),
    /// Position of a message in the log, and the node's signed head that the message carries.
    Head(u64, SignedHead),
    /// An answer that the persister sends when all earlier input is durable.
    Answer(Ticket, Answer),
    /// Position of a message that did not become a block, and this node's requests that wait for the message.
    Skipped(u64, Option<Vec<VerifiedRequest>>),
}

pub(crate) struct BlockToPersist {
    pub executed: Executed,
    pub message: Vec<u8>,
    pub ids: Vec<Hash>,
    /// If the block comes from a message of this node: the requests that wait for the block.
    pub own_requests: Option<Vec<VerifiedRequest>>,
}

/// A message of the log, with the results of all checks that do not depend on earlier messages.
pub(crate) struct CheckedEntry {
    entry: Entry,
    checked: CheckedMessage,
    own_requests: Option<Vec<VerifiedRequest>>,
}

/// Verifies messages that the log delivers, in parallel with the execution of earlier messages. Cheap to clone.
#[derive(Clone)]
pub(crate) struct MessageVerifier {
    pub shared: Arc<NodeState>,
    pub verifier: Verifier,
    #[cfg(feature = "laboratory")]
    pub mode: crate::laboratory::Mode,
    pub steps: Sender<ExecutorInput>,
    /// Number of threads that verify messages.
    pub threads: usize,
}

impl MessageVerifier {
    /// Takes entry `number` of the log. A message that this node itself has sent goes to the executor at once, because
    /// its requests were verified when they arrived. Any other message goes to `others`, whose threads verify it.
    /// Returns false if the executor has ended.
    pub fn take(&self, number: u64, entry: Entry, others: &Sender<(u64, Entry)>) -> bool {
        let own = match Message::decode(&entry.message) {
            Ok(message) => self.take_own_requests(&message),
            Err(error) => {
                skip(&self.shared, entry.position, &error);
                return self
                    .steps
                    .send(ExecutorInput::Passed(number, entry.position))
                    .is_ok();
            }
        };
        match own {
            None => others.send((number, entry)).is_ok(),
            Some((own, checked)) => {
                let own = Some(own);
                let entry = CheckedEntry {
                    entry,
                    checked,
                    own_requests: own,
                };
                self.steps
                    .send(ExecutorInput::Entry(number, Box::new(entry)))
                    .is_ok()
            }
        }
    }

    /// Returns this node's requests that wait for the message, and the results of checking them when they arrived.
    fn take_own_requests(&self, message: &Message<'_>) -> Option<(Vec<VerifiedRequest>, CheckedMessage)> {
        let pending = self.shared.take_pending(message)?;
        let is_it = pending.is(message);
        let PendingMessage {
            hash, requests: own, ..
        } = pending;
        let membership = self.shared.read_view().membership().clone();
        let key = membership.any_node(message.node);
        let by_key = |key| message.is_signed_by(&hash, &self.shared.database, key, &self.verifier);
        // If the bytes are the same as when they were sent, this node has verified the requests and signed the message.
        // Keys never change.
        let checked = CheckedMessage {
            by_node: match is_it {
                true => key.map(by_key),
                false => Some(false),
            },
            signatures: own.iter().map(|one| one.signed).collect(),
            ids: own.iter().map(|one| one.id).collect(),
            digests: Digests::with(message, hash),
        };
        Some((own, checked))
    }

    /// Checks messages of other nodes until the channel closes.
    pub fn run(self, entries: &Receiver<(u64, Entry)>) {
        while let Ok(first) = entries.recv() {
            // Takes only a share of the queue, so that the other checking threads also get messages.
            let more = (entries.len() / self.threads).min(HASHED_AT_ONCE - 1);
            let some: Vec<(u64, Entry)> = once(first).chain(entries.try_iter().take(more)).collect();
            let hashes = transactions_hashes(some.iter().map(|(_, entry)| entry.message.as_slice()));
            for ((number, entry), hash) in some.into_iter().zip(hashes) {
                // `take` has decoded this message before.
                let Ok(message) = Message::decode(&entry.message) else {
                    continue;
                };
                let checked = self.check(&message, hash);
                let own = None;
                let entry = CheckedEntry {
                    entry,
                    checked,
                    own_requests: own,
                };
                if self
                    .steps
                    .send(ExecutorInput::Entry(number, Box::new(entry)))
                    .is_err()
                {
                    return;
                }
            }
        }
    }

    fn check(&self, message: &Message<'_>, hash: Hash) -> CheckedMessage {
        #[cfg(feature = "laboratory")]
        if let Some(unchecked) = self.check_nothing(message, hash) {
            return unchecked;
        }
        let requests = message.requests();
        self.shared
            .verified
            .fetch_add(requests.len() as u64, Ordering::Relaxed);
        let membership = self.shared.read_view().membership().clone();
        CheckedMessage::of(message, hash, &self.shared.database, &membership, &self.verifier)
    }
}

fn skip(shared: &NodeState, position: u64, why: &dyn std::fmt::Display) {
    shared.skipped.fetch_add(1, Ordering::Relaxed);
    tracing::warn!("hybrid: skipped the message at position {position} of the log: {why}");
}

pub(crate) struct Executor {
    pub shared: Arc<NodeState>,
    pub chain: Chain,
    pub verifier: Verifier,
    pub steps: Receiver<ExecutorInput>,
    pub save: Sender<PersistJob>,
    /// For each node, the highest block number in its signed heads since this node was started.
    pub last_heads: HashMap<u32, u64>,
}

impl Executor {
    pub fn run(mut self) {
        // Entries whose check finished before that of an earlier entry; they wait here for their turn.
        let mut checked_entries = BTreeMap::new();
        let mut next = 0;
        while let Ok(step) = self.steps.recv() {
            match step {
                ExecutorInput::Entry(number, entry) => checked_entries.insert(number, Ok(entry)),
                ExecutorInput::Passed(number, position) => checked_entries.insert(number, Err(position)),
                ExecutorInput::Prove { key, ticket } => {
                    if self
                        .save
                        .send(PersistJob::Answer(ticket, self.prove(&key)))
                        .is_err()
                    {
                        return;
                    }
                    continue;
                }
            };
            while let Some(step) = checked_entries.remove(&next) {
                next += 1;
                let job = match step {
                    Ok(entry) => self.entry(*entry),
                    Err(position) => PersistJob::Skipped(position, None),
                };
                if self.save.send(job).is_err() {
                    return;
                }
            }
        }
    }

    fn prove(&self, key: &[u8]) -> Answer {
        Answer::Proof(Box::new(StateProof {
            header: *self.chain.tip(),
            version: self.chain.state().version(key),
            path: self.chain.state().prove(key),
        }))
    }

    fn entry(&mut self, checked: CheckedEntry) -> PersistJob {
        let CheckedEntry {
            entry,
            mut checked,
            own_requests: own,
        } = checked;
        match self.execute(&entry, &mut checked) {
            Ok(EntryOutcome::Block(executed)) => PersistJob::Block(Box::new(BlockToPersist {
                executed: *executed,
                message: entry.message,
                ids: checked.ids,
                own_requests: own,
            })),
            Ok(EntryOutcome::Head(head)) => PersistJob::Head(entry.position, head),
            Err(why) => {
                skip(&self.shared, entry.position, &why);
                PersistJob::Skipped(entry.position, own)
            }
        }
    }

    fn execute(&mut self, entry: &Entry, checked: &mut CheckedMessage) -> Result<EntryOutcome, String> {
        let message = Message::decode(&entry.message).map_err(|error| error.to_string())?;
        let membership = self.chain.state().membership();
        checked.complete(&message, self.chain.database(), membership, &self.verifier);
        if checked.by_node != Some(true) {
            return Err(format!(
                "the signature of the message is not by node {}",
                message.node
            ));
        }
        if let Cargo::Head(head) = &message.cargo {
            return self.head(&message, head).map(EntryOutcome::Head);
        }
        if message.node == self.shared.node {
            self.shared
                .used_sequence
                .fetch_max(message.sequence, Ordering::Relaxed);
        }
        let executed = self
            .chain
            .execute(entry.position, &message, &checked.signatures, &checked.digests);
        match executed {
            Ok(executed) => Ok(EntryOutcome::Block(Box::new(executed))),
            Err(skipped) => Err(skipped.to_string()),
        }
    }
}

impl Executor {
    /// Checks a signed head from the log: the sender of the message must have signed it, must be a node at this time,
    /// and must have signed no newer head before.
    fn head(&mut self, message: &Message<'_>, head: &SignedHead) -> Result<SignedHead, String> {
        let node = head.node;
        let key = self
            .chain
            .state()
            .membership()
            .node(node)
            .filter(|_| node == message.node);
        if !key.is_some_and(|key| head.is_signed_by(self.chain.database(), key, &self.verifier)) {
            return Err(
                "the signed head in the message is not signed by its node, or the sender is no longer a node"
                    .into(),
            );
        }
        let last = self.last_heads.entry(node).or_default();
        // A head that contradicts this node's ledger is always accepted here, so that the contradiction is reported.
        if head.number <= *last && self.shared.read_view().hash(head.number) == Some(&head.hash) {
            return Err("the signed head in the message is not newer than the node's last one".into());
        }
        *last = head.number.max(*last);
        Ok(*head)
    }
}

enum EntryOutcome {
    Block(Box<Executed>),
    Head(SignedHead),
}
