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
use execute::{NativeExecute, PaperReply, Task};
use lineside_fastpath::{Counters, DropReason, FastPath, Reply, Source, Steps, Verdict, lease};
use lineside_wire::trace::{NoTrace, Rule, Trace};
use lineside_wire::{
    BalanceItem, ExecuteHead, NATIVE_REPLY_BIT, NativeHeader, Operation, PaperTransfer, ReferHead,
    TRANSFER_COMMAND_REFER, TRANSFER_COMMAND_TRANSFER, TRANSFER_CONTRACT_PLAIN, TRANSFER_DURABLE,
    TRANSFER_EXPRESS, TRANSFER_LINE_OPERATIONS_MAX, TRANSFER_OP_EXECUTE, TransferCode as Code,
    TransferCounter, native as wire,
};
use std::mem::offset_of;
use std::ops::Range;
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

    fn paper<T: Trace>(
        &self,
        from: Source,
        now_ns: u64,
        payload: &[u8],
        request: &PaperRequest,
        reply: &mut Reply,
        trace: &mut T,
    ) -> Answer {
        let say = |answer: PaperAnswer, reply: &mut Reply, trace: &mut T| {
            let fits = paper::put_reply(request, payload, answer, reply);
            trace.fact("code", || answer.code as u64);
            match trace.require(Rule::ReplyFits, 0..0, fits) {
                true => Answer::Said(answer.code),
                false => Answer::Hosts,
            }
        };
        let command = request.command();
        trace.choose(Rule::CommandKnown, 0..payload.len(), command.is_ok());
        let command = match command {
            Ok(command) => command,
            Err(code) => return say(PaperAnswer::refused(code), reply, trace),
        };
        let command_range = field(
            0,
            offset_of!(PaperTransfer, command),
            size_of_val(&request.command),
        );
        let is_refer = command == TRANSFER_COMMAND_REFER;
        if trace.choose(Rule::Refer, command_range.clone(), is_refer) {
            let source_range = field(0, offset_of!(PaperTransfer, source), size_of_val(&request.source));
            return match self.balance(&request.source_id(), source_range, trace) {
                Some(Ok((holding, _))) => {
                    let answer = PaperAnswer::done(holding.balance);
                    trace.choose(Rule::BalanceFits, 0..0, answer.code == Code::Done);
                    say(answer, reply, trace)
                }
                Some(Err(code)) => say(PaperAnswer::refused(code), reply, trace),
                None => Answer::Hosts,
            };
        }
        if !self.is_executing(trace) {
            return Answer::Hosts;
        }
        if !trace.choose(Rule::Unsigned, 0..0, !self.store.requires_signature())
            || !trace.choose(Rule::Permitted, command_range, self.may(from, command))
        {
            return say(PaperAnswer::refused(Code::Unauthorised), reply, trace);
        }
        let task = Task {
            now_ns,
            limit: PAPER_LIMIT,
            ..Task::of_paper(request, command)
        };
        match execute::paper(&self.store, &self.ring(), &task, request, trace) {
            Ok(PaperReply { answer, repeated }) => match say(answer, reply, trace) {
                Answer::Said(_) if repeated => Answer::Repeated,
                said => said,
            },
            Err(NotDone::Claimed) => Answer::Hosts,
            Err(NotDone::Busy { ring_full }) => match say(PaperAnswer::refused(Code::Busy), reply, trace) {
                Answer::Said(_) => Answer::Busy { ring_full },
                other => other,
            },
        }
    }

    fn native<T: Trace>(
        &self,
        from: Source,
        now_ns: u64,
        payload: &[u8],
        reply: &mut Reply,
        trace: &mut T,
    ) -> Answer {
        // The host answers malformed requests, with a status code.
        let Ok(parsed) = Request::parse_with(payload, trace) else {
            return Answer::Hosts;
        };
        let has_operation = matches!(parsed, Request::Refer(..) | Request::Execute(..));
        trace.require(Rule::Operation, OPERATION, has_operation);
        match parsed {
            Request::Refer(header, items) => self.refer(header, items, reply, trace),
            Request::Execute(header, head, operations) if self.executes(operations, trace) => {
                let permitted = |operation: &Operation| self.may(from, operation.command);
                let request = NativeExecute {
                    header,
                    head,
                    operations,
                    now_ns,
                    permitted: &permitted,
                };
                execute::native(&self.store, &self.ring(), &request, reply, trace)
            }
            _ => Answer::Hosts,
        }
    }

    fn refer<T: Trace>(
        &self,
        header: &NativeHeader,
        items: &[BalanceItem],
        reply: &mut Reply,
        trace: &mut T,
    ) -> Answer {
        let mut balances = Vec::with_capacity(items.len());
        let first = size_of::<NativeHeader>() + size_of::<ReferHead>();
        for (item, begin) in items.iter().zip((first..).step_by(size_of::<BalanceItem>())) {
            let account = AccountId(item.account);
            let range = field(
                begin,
                offset_of!(BalanceItem, account),
                size_of_val(&item.account),
            );
            let Some(balance) = self.balance(&account, range, trace) else {
                return Answer::Hosts;
            };
            balances.push(native::balance_item(&account, balance));
        }
        let durability = if self.store.is_express() {
            TRANSFER_EXPRESS
        } else {
            TRANSFER_DURABLE
        };
        let fits = native::put_balances(reply, header, &balances, durability);
        match trace.require(Rule::ReplyFits, 0..0, fits) {
            true => Answer::Said(Code::Done),
            false => Answer::Hosts,
        }
    }

    /// Returns the state of an account; `None` if the host has to answer. That is the case if the account was being
    /// changed during all attempts, and, in `durable`, if it is not in the table, which may have had no room for it.
    /// The request names the account in the bytes `range`.
    fn balance<T: Trace>(
        &self,
        account: &AccountId,
        range: Range<usize>,
        trace: &mut T,
    ) -> Option<native::Balance> {
        let found = self.store.find(account);
        match self.store.is_express() {
            true => trace.choose(Rule::AccountExists, range.clone(), found.is_some()),
            false => trace.require(Rule::AccountExists, range.clone(), found.is_some()),
        };
        let Some(index) = found else {
            return self.store.is_express().then_some(Err(Code::UnknownAccount));
        };
        let read = cell::read(&self.store.cells.as_slice()[index]);
        if let Some((holding, version)) = &read {
            trace.fact("balance", || holding.balance);
            trace.fact("version", || *version);
        }
        trace.require(Rule::AccountRead, range, read.is_some());
        read.map(Ok)
    }

    /// Returns whether the fast path executes operations.
    fn is_executing<T: Trace>(&self, trace: &mut T) -> bool {
        trace.require(Rule::Executes, 0..0, self.executes && self.store.is_express())
    }

    /// Returns whether the fast path may execute these operations: at most a few, plain, not linked, not signed.
    fn executes<T: Trace>(&self, operations: &[Operation], trace: &mut T) -> bool {
        let range = field(NATIVE_OPERATIONS, 0, size_of_val(operations));
        self.is_executing(trace)
            && trace.require(Rule::Unsigned, 0..0, !self.store.requires_signature())
            && trace.require(Rule::Plain, range, is_plain(operations))
    }

    /// Returns whether `from` may execute this command, if no signatures are required.
    fn may(&self, from: Source, command: u8) -> bool {
        command == TRANSFER_COMMAND_TRANSFER || self.store.may_issue(from.address)
    }

    /// Returns the reason why a payload is not a request that this service answers, if there is one.
    fn refuses<T: Trace>(
        &self,
        paper: Option<&PaperRequest>,
        payload: &[u8],
        trace: &mut T,
    ) -> Option<DropReason> {
        let all = 0..payload.len();
        trace.choose(Rule::PaperLength, all, paper.is_some());
        match paper {
            Some(paper) if !trace.require(Rule::NoReplyBit, 0..1, !paper.is_refusal()) => {
                Some(DropReason::ReplyBit)
            }
            Some(_) if !trace.require(Rule::PaperFormat, 0..0, self.store.paper_format()) => {
                Some(DropReason::PaperRefused)
            }
            Some(_) => None,
            None if !trace.require(Rule::NativeMagic, 0..2, wire::is_native(payload)) => {
                Some(DropReason::NotARequest)
            }
            None if !trace.require(Rule::NoReplyBit, OPERATION, payload[3] & NATIVE_REPLY_BIT == 0) => {
                Some(DropReason::ReplyBit)
            }
            None => None,
        }
    }

    fn decide<T: Trace>(
        &self,
        from: Source,
        now_ns: u64,
        request: &[u8],
        reply: &mut Reply,
        trace: &mut T,
    ) -> Verdict {
        let paper = PaperRequest::parse(request);
        if let Some(reason) = self.refuses(paper.as_ref(), request, trace) {
            return Verdict::Drop(reason);
        }
        let is_leased = lease::is_valid(&self.store.control().lease_until_ns, now_ns);
        let answer = if !trace.require(Rule::Lease, 0..0, is_leased) {
            Answer::NotLeased
        } else if let Some(paper) = &paper {
            self.paper(from, now_ns, request, paper, reply, trace)
        } else {
            self.native(from, now_ns, request, reply, trace)
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

/// Place of the operation and the reply bit in a native request.
const OPERATION: Range<usize> = 3..4;
/// Place of the operations in a native `execute`.
const NATIVE_OPERATIONS: usize = size_of::<NativeHeader>() + size_of::<ExecuteHead>();

/// Returns the bytes of a field in a part of the request that begins at `begin`.
const fn field(begin: usize, offset: usize, bytes: usize) -> Range<usize> {
    begin + offset..begin + offset + bytes
}

/// Returns whether operations are few and plain: neither linked nor under a contract.
pub(crate) fn is_plain(operations: &[Operation]) -> bool {
    let plain =
        |operation: &Operation| operation.flags == 0 && operation.contract.get() == TRANSFER_CONTRACT_PLAIN;
    operations.len() <= TRANSFER_LINE_OPERATIONS_MAX && operations.iter().all(plain)
}

impl FastPath for TransferFastPath {
    fn answer(&self, from: Source, now_ns: u64, request: &[u8], reply: &mut Reply) -> Verdict {
        self.decide(from, now_ns, request, reply, &mut NoTrace)
    }

    fn explain(
        &self,
        from: Source,
        now_ns: u64,
        request: &[u8],
        reply: &mut Reply,
        steps: &mut Steps,
    ) -> Verdict {
        self.decide(from, now_ns, request, reply, steps)
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
