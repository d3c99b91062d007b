//! Fast path of `transfer`: the executable specification of `xdp/transfer_fastpath.h` and `xdp/transfer_native.h`.
//!
//! In `durable` it answers REFER from durable balances; the host executes every write. In `express` it also executes
//! plain operations, and forwards the rest to the host.

mod execute;

use crate::cell;
use crate::native::{self, Request};
use crate::paper::{self, PaperAnswer, PaperRequest};
use crate::store::Store;
use crate::{AccountId, rules::PAPER_LIMIT};
use execute::{PaperReply, Task};
use lineside_fastpath::{Counters, DropReason, FastPath, Reply, Source, Verdict, lease};
use lineside_wire::{
    BalanceItem, ExecuteHead, NATIVE_REPLY_BIT, NativeHeader, Operation, TRANSFER_COMMAND_REFER,
    TRANSFER_COMMAND_TRANSFER, TRANSFER_CONTRACT_PLAIN, TRANSFER_DURABLE, TRANSFER_EXPRESS,
    TRANSFER_LINE_OPERATIONS_MAX, TRANSFER_OP_EXECUTE, TransferCode as Code, TransferCounter, native as wire,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Answers requests from a [`Store`], or forwards them to the host.
pub struct TransferFastPath {
    store: Arc<Store>,
    counters: Counters<{ TransferCounter::ALL.len() }>,
    /// One lock for each ring, held by the thread that writes to it. In the kernel, each CPU has its own ring.
    writers: Vec<Mutex<()>>,
    /// False if it only answers REFER, also in `express`.
    executes: bool,
    /// Ring that it writes to; `None`: the ring of the calling thread.
    cpu: Option<usize>,
}

/// Result of a request, before the fast path counts it.
enum Answer {
    /// The fast path has written the reply. The field is the reply's code, or the code of its first operation.
    Said(Code),
    /// The request is a repetition, and gets the reply that its first copy got.
    Repeated,
    /// A lock was not available, or the ring had no space for a record.
    Busy { ring_full: bool },
    /// The lease has ended.
    NotLeased,
    /// The host has to answer the request.
    Hosts,
}

/// Reason why no operation was executed.
enum NotDone {
    /// A lock, space in the ring, or credit for a refusal was not available.
    Busy { ring_full: bool },
    /// The host has claimed an account of the request, and has to execute it.
    Claimed,
}

impl TransferFastPath {
    /// Creates a fast path over `store`.
    pub fn new(store: Arc<Store>) -> Self {
        let writers = store.rings.as_slice().iter().map(|_| Mutex::new(())).collect();
        Self {
            store,
            counters: Counters::default(),
            writers,
            executes: true,
            cpu: None,
        }
    }

    /// Creates a fast path that always writes to ring `cpu`, independent of the calling thread. A simulator uses one
    /// for each CPU. Nothing else may write to that ring.
    pub fn on_cpu(store: Arc<Store>, cpu: usize) -> Self {
        Self {
            cpu: Some(cpu),
            ..Self::new(store)
        }
    }

    /// Creates a fast path over a store on which XDP programs or a NIC execute operations; it only answers REFER. A
    /// thread in user space could be preempted while it holds a lock, and two writers cannot share a ring.
    pub fn beside_xdp(store: Arc<Store>) -> Self {
        Self {
            executes: false,
            ..Self::new(store)
        }
    }

    /// Returns the value of each [`TransferCounter`].
    pub fn counters(&self) -> [u64; TransferCounter::ALL.len()] {
        self.counters.read()
    }

    /// Returns the ring of the calling thread, which is locked until the guard is dropped.
    fn ring(&self) -> (usize, MutexGuard<'_, ()>) {
        let index = self.cpu.unwrap_or_else(lineside_fastpath::thread_index) % self.writers.len();
        (
            index,
            self.writers[index].lock().unwrap_or_else(PoisonError::into_inner),
        )
    }

    fn paper(
        &self,
        from: Source,
        now_ns: u64,
        payload: &[u8],
        request: &PaperRequest,
        reply: &mut Reply,
    ) -> Answer {
        let say = |answer: PaperAnswer, reply: &mut Reply| match paper::put_reply(
            request, payload, answer, reply,
        ) {
            true => Answer::Said(answer.code),
            false => Answer::Hosts,
        };
        let command = match request.command() {
            Ok(command) => command,
            Err(code) => return say(PaperAnswer::refused(code), reply),
        };
        if command == TRANSFER_COMMAND_REFER {
            return match self.balance(&request.source_id()) {
                Some(Ok((holding, _))) => say(PaperAnswer::done(holding.balance), reply),
                Some(Err(code)) => say(PaperAnswer::refused(code), reply),
                None => Answer::Hosts,
            };
        }
        if !self.executes || !self.store.is_express() {
            return Answer::Hosts;
        }
        if !self.may(from, command) {
            return say(PaperAnswer::refused(Code::Unauthorised), reply);
        }
        let task = Task {
            now_ns,
            limit: PAPER_LIMIT,
            ..Task::of_paper(request, command)
        };
        match execute::paper(&self.store, &self.ring(), &task, request) {
            Ok(PaperReply { answer, repeated }) => match say(answer, reply) {
                Answer::Said(_) if repeated => Answer::Repeated,
                said => said,
            },
            Err(NotDone::Claimed) => Answer::Hosts,
            Err(NotDone::Busy { ring_full }) => match say(PaperAnswer::refused(Code::Busy), reply) {
                Answer::Said(_) => Answer::Busy { ring_full },
                other => other,
            },
        }
    }

    fn native(&self, from: Source, now_ns: u64, payload: &[u8], reply: &mut Reply) -> Answer {
        // The host answers malformed requests, with a status code.
        match Request::parse(payload) {
            Ok(Request::Refer(header, items)) => self.refer(header, items, reply),
            Ok(Request::Execute(header, head, operations)) if self.executes(operations) => {
                let permitted = |operation: &Operation| self.may(from, operation.command);
                let ring = self.ring();
                execute::native(
                    &self.store,
                    &ring,
                    now_ns,
                    header,
                    head,
                    operations,
                    &permitted,
                    reply,
                )
            }
            _ => Answer::Hosts,
        }
    }

    fn refer(&self, header: &NativeHeader, items: &[BalanceItem], reply: &mut Reply) -> Answer {
        let mut balances = Vec::with_capacity(items.len());
        for item in items {
            let account = AccountId(item.account);
            let Some(balance) = self.balance(&account) else {
                return Answer::Hosts;
            };
            balances.push(native::balance_item(&account, balance));
        }
        let durability = if self.store.is_express() {
            TRANSFER_EXPRESS
        } else {
            TRANSFER_DURABLE
        };
        match native::put_balances(reply, header, &balances, durability) {
            true => Answer::Said(Code::Done),
            false => Answer::Hosts,
        }
    }

    /// Returns the state of an account; `None` if the host has to answer. That is the case if the account was being
    /// changed during all attempts, and, in `durable`, if it is not in the table, which may have had no room for it.
    fn balance(&self, account: &AccountId) -> Option<native::Balance> {
        let Some(index) = self.store.find(account) else {
            return self.store.is_express().then_some(Err(Code::UnknownAccount));
        };
        cell::read(&self.store.cells.as_slice()[index]).map(Ok)
    }

    /// Returns whether the fast path may execute these operations: at most a few, plain, not linked, not signed.
    fn executes(&self, operations: &[Operation]) -> bool {
        self.executes && self.store.is_express() && !self.store.requires_signature() && is_plain(operations)
    }

    /// Returns whether `from` may execute this command without a signature.
    fn may(&self, from: Source, command: u8) -> bool {
        !self.store.requires_signature()
            && (command == TRANSFER_COMMAND_TRANSFER || self.store.may_issue(from.address))
    }

    fn count(&self, answer: &Answer) {
        let add = |counter: TransferCounter| self.counters.add_one(counter as usize);
        match answer {
            Answer::Hosts => return add(TransferCounter::Forwarded),
            Answer::NotLeased => return add(TransferCounter::NotLeased),
            Answer::Said(Code::Done) => {}
            Answer::Said(_) => add(TransferCounter::Refusals),
            Answer::Repeated => add(TransferCounter::Repeats),
            Answer::Busy { ring_full } => {
                add(TransferCounter::Busy);
                if *ring_full {
                    add(TransferCounter::RingFull);
                }
            }
        }
        add(TransferCounter::Replies);
    }
}

/// Returns whether operations are few and plain: neither linked nor under a contract.
pub(crate) fn is_plain(operations: &[Operation]) -> bool {
    let plain =
        |operation: &Operation| operation.flags == 0 && operation.contract.get() == TRANSFER_CONTRACT_PLAIN;
    operations.len() <= TRANSFER_LINE_OPERATIONS_MAX && operations.iter().all(plain)
}

impl FastPath for TransferFastPath {
    fn answer(&self, from: Source, now_ns: u64, request: &[u8], reply: &mut Reply) -> Verdict {
        let paper = PaperRequest::parse(request);
        let refused = match &paper {
            Some(paper) if paper.is_refusal() => Some(DropReason::ReplyBit),
            Some(_) if !self.store.paper_format() => Some(DropReason::PaperRefused),
            Some(_) => None,
            None if !wire::is_native(request) => Some(DropReason::NotARequest),
            None if request[3] & NATIVE_REPLY_BIT != 0 => Some(DropReason::ReplyBit),
            None => None,
        };
        if let Some(reason) = refused {
            return Verdict::Drop(reason);
        }
        let answer = if !lease::is_valid(&self.store.control().lease_until_ns, now_ns) {
            Answer::NotLeased
        } else if let Some(paper) = &paper {
            self.paper(from, now_ns, request, paper, reply)
        } else {
            self.native(from, now_ns, request, reply)
        };
        self.count(&answer);
        match answer {
            Answer::Hosts | Answer::NotLeased => {
                reply.clear();
                Verdict::Forward
            }
            _ => Verdict::Reply,
        }
    }

    fn changes(&self, request: &[u8]) -> bool {
        // In `durable`, the host executes all writes, and the kernel verifies the checksum of packets that it passes to
        // the host.
        self.store.is_express()
            && match PaperRequest::parse(request) {
                Some(paper) => paper.command != u32::from(TRANSFER_COMMAND_REFER),
                None => {
                    let head = size_of::<NativeHeader>() + size_of::<ExecuteHead>();
                    let operations = request.len().saturating_sub(head) / size_of::<Operation>();
                    wire::is_native(request)
                        && request[3] == TRANSFER_OP_EXECUTE
                        && (1..=TRANSFER_LINE_OPERATIONS_MAX).contains(&operations)
                        && request.len() == head + operations * size_of::<Operation>()
                }
            }
    }
}
