//! The thread that executes what the log has ordered, one message after the other.

use crate::answer::Answer;
use crate::block::{Cargo, Hash, Message, SignedHead};
use crate::execute::{Chain, Executed, Signed};
use crate::log::Entry;
use crate::node::{Shared, Step};
use crate::proof::StateProof;
use crate::signatures::{check, transaction_ids};
use crate::stage::{Mode, Ordered};
use crate::ticket::Ticket;
use crossbeam_channel::{Receiver, Sender};
use lineside_verify::Verifier;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What goes to the thread that saves.
pub(crate) enum Job {
    /// A block.
    Block(Box<BlockJob>),
    /// A node's word for a block that came by the log.
    Head(SignedHead),
    /// An answer that may go when all before it is durable.
    Answer(Ticket, Answer),
    /// A message of this node that was no block.
    Skipped(Vec<Ordered>),
}

pub(crate) struct BlockJob {
    pub executed: Executed,
    pub message: Vec<u8>,
    pub ids: Vec<Hash>,
    /// Of this node's messages: who waits for them.
    pub own: Option<Vec<Ordered>>,
}

pub(crate) struct Executor {
    pub shared: Arc<Shared>,
    pub chain: Chain,
    pub verifier: Verifier,
    pub mode: Mode,
    pub steps: Receiver<Step>,
    pub save: Sender<Job>,
}

impl Executor {
    pub fn run(mut self) {
        while let Ok(step) = self.steps.recv() {
            let job = match step {
                Step::Entry(entry) => self.entry(entry),
                Step::Prove { key, ticket } => Some(Job::Answer(ticket, self.prove(&key))),
            };
            if let Some(job) = job
                && self.save.send(job).is_err()
            {
                return;
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

    fn entry(&mut self, entry: Entry) -> Option<Job> {
        match self.execute(&entry) {
            Ok(job) => Some(job.attach(entry.message)),
            Err(why) => {
                self.shared.skipped.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    "hybrid: the message at {} of the log is no block: {why}",
                    entry.position
                );
                None
            }
        }
    }

    fn execute(&mut self, entry: &Entry) -> Result<Job, String> {
        let message = Message::decode(&entry.message).map_err(|error| error.to_string())?;
        let key = self.chain.state().roster().node(message.node).copied();
        let key = key.ok_or_else(|| format!("node {} is unknown, or revoked", message.node))?;
        if !message.is_signed_by(&self.shared.database, &key, &self.verifier) {
            return Err(format!("its signature is not that of node {}", message.node));
        }
        let requests = match &message.cargo {
            Cargo::Requests(requests) => requests,
            Cargo::Head(head) => {
                let key = self.chain.state().roster().node(head.node).copied();
                let signed =
                    key.is_some_and(|key| head.is_signed_by(&self.shared.database, &key, &self.verifier));
                return match signed {
                    true => Ok(Job::Head(*head)),
                    false => Err("a head that its node has not signed".into()),
                };
            }
        };
        let own = match message.node == self.shared.node {
            true => self.shared.pending().remove(&message.sequence),
            false => None,
        };
        let own = own.filter(|own| own.len() == requests.len());
        let (signatures, ids) = match &own {
            // The same bytes, as this node has signed them; their keys never change.
            Some(own) => (
                own.iter().map(|one| one.signed).collect(),
                own.iter().map(|one| one.id).collect(),
            ),
            None => self.check(requests),
        };
        match self.chain.execute(entry.position, &message, &signatures) {
            Ok(executed) => Ok(Job::Block(Box::new(BlockJob {
                executed,
                message: Vec::new(),
                ids,
                own,
            }))),
            Err(skipped) => match own {
                Some(own) => Ok(Job::Skipped(own)),
                None => Err(skipped.to_string()),
            },
        }
    }

    fn check(&self, requests: &[&[u8]]) -> (Vec<Signed>, Vec<Hash>) {
        let ids = transaction_ids(requests);
        if self.mode == Mode::None {
            return (vec![Signed::Valid; requests.len()], ids);
        }
        let signatures = check(&self.verifier, self.chain.state().roster(), requests, &ids);
        self.shared
            .verified
            .fetch_add(requests.len() as u64, Ordering::Relaxed);
        (signatures, ids)
    }
}

impl Job {
    /// The block's message is given when nothing reads it any more.
    fn attach(mut self, message: Vec<u8>) -> Job {
        if let Job::Block(block) = &mut self {
            block.message = message;
        }
        self
    }
}
