//! The persister: the thread that makes blocks durable, shows them to readers, and answers the requests that wait for
//! them.

use crate::answer::Answer;
use crate::execute::Executed;
use crate::executor::{BlockToPersist, PersistJob};
use crate::ledger::{LedgerError, Writer, encode_block};
use crate::node_state::NodeState;
use crate::ticket::{Ticket, answer_all, answer_unknown};
use crate::verify_worker::VerifiedRequest;
use crossbeam_channel::{Receiver, Sender};
use lineside_journal::{Disk, Error as JournalError};
use lineside_messages::hybrid::block::{Hash, SignedHead};
use lineside_messages::hybrid::request::Version;
use lineside_util::log_limit::LogLimit;
use lineside_wire::HybridCode as Code;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Number of bytes of messages in a group at which the persister stops gathering and writes the group to the disk.
const GROUP_BYTES_MAX: usize = 4 << 20;
/// Time between two attempts to write to a full disk.
const FULL_DISK_RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Report to the proposer that a group of blocks is durable.
pub(crate) struct PersistedGroup {
    pub own_messages: usize,
    pub post_head: Option<SignedHead>,
}

/// Logs a durable block, but at most one block in each second, because a node may make many blocks in a second.
fn log_commit(block: u64, requests: usize) {
    static LIMIT: LogLimit = LogLimit::new(Duration::from_secs(1));
    tracing::debug!(block, requests, "hybrid: committed a block");
    if let Some(left_out) = LIMIT.admit() {
        tracing::info!(
            block,
            requests,
            blocks_not_logged = left_out,
            "hybrid: committed a block"
        );
    }
}

pub(crate) struct Persister<D: Disk> {
    pub shared: Arc<NodeState>,
    pub writer: Writer<D>,
    pub jobs: Receiver<PersistJob>,
    pub saved: Sender<PersistedGroup>,
    /// Reason why the persister saves nothing any more.
    pub failure: Option<String>,
}

impl<D: Disk> Persister<D> {
    pub fn run(mut self) -> Writer<D> {
        while let Ok(job) = self.jobs.recv() {
            let mut bytes = size(&job);
            let mut jobs = vec![job];
            while bytes < GROUP_BYTES_MAX
                && let Ok(job) = self.jobs.try_recv()
            {
                bytes += size(&job);
                jobs.push(job);
            }
            let saved = match &self.failure {
                Some(failure) => Err(failure.clone()),
                None => self.save(&jobs).map_err(|error| error.to_string()),
            };
            match saved {
                Ok(()) => self.publish(jobs),
                Err(error) => self.fail_pending(error, jobs),
            }
        }
        self.writer
    }

    fn save(&mut self, jobs: &[PersistJob]) -> Result<(), LedgerError> {
        let mut appended = false;
        for job in jobs {
            match job {
                PersistJob::Block(block) => {
                    let payload = encode_block(&block.executed.header, &block.executed.codes, &block.message);
                    self.append(|writer| writer.append(&payload))?;
                }
                PersistJob::Head(_, head) => self.append(|writer| writer.append_head(head))?,
                PersistJob::Answer(..) | PersistJob::Skipped(..) => continue,
            }
            appended = true;
        }
        match appended {
            true => self.writer.commit(),
            false => Ok(()),
        }
    }

    /// Appends to the ledger. If the group is full, commits it first. If the disk is full, tries again until the disk
    /// has room.
    fn append(&mut self, one: impl Fn(&mut Writer<D>) -> Result<(), LedgerError>) -> Result<(), LedgerError> {
        let mut waited = false;
        loop {
            match one(&mut self.writer) {
                Err(LedgerError::Journal(JournalError::GroupFull { .. })) => self.writer.commit()?,
                Err(LedgerError::Journal(error @ JournalError::Full { .. }))
                    if !self.shared.stopping.load(Ordering::Acquire) =>
                {
                    self.shared.refuse_writes(Some(&error.to_string()));
                    waited = true;
                    std::thread::park_timeout(FULL_DISK_RETRY_INTERVAL);
                }
                result => {
                    if waited {
                        self.shared.refuse_writes(None);
                    }
                    return result;
                }
            }
        }
    }

    /// Shows a durable group to readers and answers the requests that wait for it.
    fn publish(&mut self, jobs: Vec<PersistJob>) {
        let mut saved = PersistedGroup {
            own_messages: 0,
            post_head: None,
        };
        for job in jobs {
            match job {
                PersistJob::Answer(ticket, answer) => {
                    self.shared.count(answer.code());
                    ticket.answer(answer);
                }
                PersistJob::Head(position, head) => {
                    self.compare(&head);
                    self.shared.pass(position);
                }
                PersistJob::Skipped(position, own) => {
                    self.shared.pass(position);
                    saved.own_messages += usize::from(own.is_some());
                    answer_unknown(own.unwrap_or_default());
                }
                PersistJob::Block(block) => {
                    let BlockToPersist {
                        executed,
                        ids,
                        own_requests: own,
                        ..
                    } = *block;
                    let header = executed.header;
                    let codes = executed.codes.clone();
                    log_commit(header.number, codes.len());
                    self.apply(executed, &ids);
                    saved.own_messages += usize::from(own.is_some());
                    if self.shared.head_every > 0 && header.number.is_multiple_of(self.shared.head_every) {
                        let (database, node) = (&self.shared.database, self.shared.node);
                        let signer = &*self.shared.signer;
                        saved.post_head = Some(SignedHead::sign(
                            database,
                            node,
                            header.number,
                            header.hash(),
                            signer,
                        ));
                    }
                    self.answer(own.unwrap_or_default(), &codes, header.number);
                }
            }
        }
        // If the proposer has ended, the node is stopping and the error does not matter.
        let _ = self.saved.send(saved);
    }

    /// Makes a block visible to readers and notifies watchers.
    fn apply(&self, executed: Executed, ids: &[Hash]) {
        let mut watchers = self.shared.watchers.lock();
        let writes = watchers.copy_if_watched(&executed.writes);
        let position = executed.header.position;
        let membership_changed = executed.membership.is_some();
        self.shared
            .change_view(position, |view| view.apply(executed, ids));
        let membership = self.shared.read_view().membership().clone();
        if membership_changed {
            self.shared.refresh_membership(&membership);
        }
        watchers.notify(&membership, &writes);
    }

    fn answer(&self, own: Vec<VerifiedRequest>, codes: &[Code], block: u64) {
        let answers = own.into_iter().zip(codes).zip(0..).map(|((one, code), index)| {
            // A request that was ordered twice gets the outcome of its first execution.
            let first = match code {
                Code::NonceUsed | Code::OldVersion => self.shared.read_view().transaction(&one.id),
                _ => None,
            };
            let (code, version) = first.map_or((*code, Version { block, index }), |place| {
                (place.code, place.version)
            });
            self.shared.count(code);
            (one.ticket, Answer::Placed { code, version })
        });
        answer_all(answers);
    }

    /// Compares another node's signed head with this ledger. If the two nodes have different blocks, this node takes no
    /// more writes and reports both hashes.
    fn compare(&self, head: &SignedHead) {
        let disagreement = self.shared.read_view().disagreement(head);
        if let Some(why) = disagreement {
            self.shared.refuse_for_good(&why);
        }
    }

    /// Handles a failure of the disk, or a disk that is still full when the node stops. It is not known whether the
    /// blocks of `jobs` are durable, and the persister writes nothing more.
    fn fail_pending(&mut self, error: String, jobs: Vec<PersistJob>) {
        self.shared.disk_lost.store(true, Ordering::Release);
        if self.failure.is_none() {
            self.shared.refuse_for_good(&error);
            self.failure = Some(error);
        }
        let tickets = jobs.into_iter().flat_map(|job| match job {
            PersistJob::Block(block) => block
                .own_requests
                .into_iter()
                .flatten()
                .map(|one| one.ticket)
                .collect(),
            PersistJob::Answer(ticket, _) => vec![ticket],
            PersistJob::Skipped(_, own) => own.into_iter().flatten().map(|one| one.ticket).collect(),
            PersistJob::Head(..) => Vec::<Ticket>::new(),
        });
        answer_all(tickets.map(|ticket| (ticket, Answer::Refused(Code::OutcomeUnknown))));
        let all = PersistedGroup {
            own_messages: usize::MAX,
            post_head: None,
        };
        let _ = self.saved.send(all);
    }
}

fn size(job: &PersistJob) -> usize {
    match job {
        PersistJob::Block(block) => block.message.len(),
        PersistJob::Head(..) | PersistJob::Answer(..) | PersistJob::Skipped(..) => 0,
    }
}
