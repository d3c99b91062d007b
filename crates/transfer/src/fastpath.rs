//! The fast path of `transfer`: the executable specification of `xdp/transfer_fastpath.h` and `xdp/transfer_native.h`.
//!
//! `durable`: refers, from what is on the disk; every write is the host's. `express`: executes what is plain, and
//! leaves the rest to the host.

mod execute;

use crate::cell;
use crate::native::{self, Request};
use crate::paper::{PaperAnswer, PaperRequest};
use crate::store::Store;
use crate::{AccountId, rules::PAPER_LIMIT};
use execute::{Done, Task};
use lineside_fastpath::{Counters, DropReason, FastPath, Reply, Source, Verdict, lease};
use lineside_wire::{
    BalanceItem, ExecuteHead, NATIVE_REPLY_BIT, NativeHeader, Operation, TRANSFER_COMMAND_REFER,
    TRANSFER_COMMAND_TRANSFER, TRANSFER_CONTRACT_PLAIN, TRANSFER_DURABLE, TRANSFER_EXPRESS,
    TRANSFER_LINE_OPERATIONS_MAX, TRANSFER_OP_EXECUTE, TransferCode as Code, TransferCounter, native as wire,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Answers from a [`Store`], or leaves it to the host.
pub struct TransferFastPath {
    store: Arc<Store>,
    counters: Counters<{ TransferCounter::ALL.len() }>,
    /// Who writes to each ring; the kernel has a CPU for that.
    writers: Vec<Mutex<()>>,
    /// It may execute; else it only refers, in `express` too.
    executes: bool,
    /// The ring that it writes to; `None`: that of the calling thread.
    cpu: Option<usize>,
}

/// What the fast path says, before it is counted.
enum Answer {
    /// The reply is written; the code of it, or of its first operation.
    Said(Code),
    /// The same as the first time.
    Repeated,
    /// A lock, or room in the ring, was not to be had.
    Busy { ring_full: bool },
    /// The lease has ended.
    NotLeased,
    /// The host's.
    Hosts,
}

/// Why nothing was executed.
enum NotDone {
    /// A lock, room in the ring, or credit for a refusal was not to be had.
    Busy { ring_full: bool },
    /// The host has claimed an account, and is to say.
    Claimed,
}

impl TransferFastPath {
    /// A fast path over `store`.
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

    /// A fast path that writes to ring `cpu`, whoever calls it: what a simulator has for a CPU. Nothing else writes
    /// there.
    pub fn on_cpu(store: Arc<Store>, cpu: usize) -> Self {
        Self {
            cpu: Some(cpu),
            ..Self::new(store)
        }
    }

    /// A fast path over a store in which XDP programs execute: it only refers. A thread of user space that held a lock
    /// could be stopped there, and two cannot write to one ring.
    pub fn beside_xdp(store: Arc<Store>) -> Self {
        Self {
            executes: false,
            ..Self::new(store)
        }
    }

    /// How often each of [`TransferCounter`] was counted.
    pub fn counters(&self) -> [u64; TransferCounter::ALL.len()] {
        self.counters.read()
    }

    /// The ring of the calling thread, for it alone until the guard is dropped.
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
        let say = |answer: PaperAnswer, reply: &mut Reply| match request.put_reply(payload, answer, reply) {
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
            Ok(Done { answer, repeated }) => match say(answer, reply) {
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
        // What is not well-formed gets its status code from the host.
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
            let Some(found) = self.balance(&account) else {
                return Answer::Hosts;
            };
            balances.push(native::balance_item(&account, found));
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

    /// What an account holds; `None`: the host must say. That is where it was being changed all the time, and in
    /// `durable` where it is not here, for it may have found no room.
    fn balance(&self, account: &AccountId) -> Option<native::Balance> {
        let Some(index) = self.store.find(account) else {
            return self.store.is_express().then_some(Err(Code::UnknownAccount));
        };
        cell::read(&self.store.cells.as_slice()[index]).map(Ok)
    }

    /// Whether these operations are the fast path's to execute: few, plain, not linked, not signed.
    fn executes(&self, operations: &[Operation]) -> bool {
        self.executes && self.store.is_express() && !self.store.requires_signature() && is_plain(operations)
    }

    /// Whether `from` may do this without a signature.
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

/// Whether operations are few and plain: neither linked nor under a contract.
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
        // In `durable` the kernel checks what goes to the host.
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
