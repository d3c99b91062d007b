//! Execution in the fast path, in `express`: one operation at a time, under the locks of its accounts, with a record
//! in the ring.

use super::{Answer, NATIVE_OPERATIONS, NotDone, field};
use crate::AccountId;
use crate::cell::{self, CellGuard};
use crate::layout::{TransferCell, TransferSession};
use crate::native::{self, Outcome};
use crate::paper::{PaperAnswer, PaperLast, PaperRequest};
use crate::ring::{NO_SESSION, Record, Ring};
use crate::rules::{self, Holding};
use crate::store::Store;
use lineside_fastpath::Reply;
use lineside_wire::trace::{Rule, Trace};
use lineside_wire::{
    ExecuteHead, NativeHeader, Operation, PaperTransfer, Status, TRANSFER_COMMAND_CREATE,
    TRANSFER_COMMAND_FREEZE, TRANSFER_COMMAND_ISSUE, TRANSFER_COMMAND_TRANSFER, TRANSFER_EXPRESS,
    TRANSFER_LINE_OPERATIONS_MAX, TransferCode as Code,
};
use std::mem::offset_of;
use std::ops::Range;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

/// Names of the codes of a packet's operations in the steps.
const CODE_NAMES: [&str; TRANSFER_LINE_OPERATIONS_MAX] = ["code", "code_2", "code_3", "code_4"];

/// One operation, with the parts of its record that describe its packet.
#[derive(Clone, Copy, Default)]
pub(super) struct Task {
    pub(super) command: u8,
    pub(super) source: AccountId,
    pub(super) destination: AccountId,
    pub(super) amount: u64,
    /// Maximum balance that the format of the request can represent.
    pub(super) limit: u64,
    pub(super) now_ns: u64,
    /// Record of the operation. [`push`] sets the fields that are in this struct, and those that depend on the outcome.
    pub(super) record: Record,
}

impl Task {
    pub(super) fn of_paper(request: &PaperRequest, command: u8) -> Self {
        let destination = match command {
            TRANSFER_COMMAND_TRANSFER => request.destination_id(),
            _ => AccountId::default(),
        };
        Self {
            command,
            source: request.source_id(),
            destination,
            amount: request.amount.into(),
            record: Record {
                slot: NO_SESSION,
                // The destination is stored as received, because the reply repeats it; CREATE and ISSUE allow any value
                // in this field.
                destination: request.destination_id(),
                sequence: request.transaction_id.into(),
                count: 1,
                ..Record::default()
            },
            ..Self::default()
        }
    }

    fn of_native(operation: &Operation, index: usize, head: &ExecuteHead, sum: u64) -> Self {
        Self {
            command: operation.command,
            source: AccountId(operation.source),
            destination: AccountId(operation.destination),
            amount: operation.amount.get(),
            limit: u64::MAX,
            record: Record {
                destination: AccountId(operation.destination),
                slot: head.slot.get(),
                flags: operation.flags,
                contract: operation.contract.get(),
                index: index as u16,
                count: head.count.get(),
                sequence: head.sequence.get(),
                sum,
                timestamp: operation.timestamp.get(),
                uuid: AccountId(operation.uuid),
                nonce: operation.nonce.get(),
                ..Record::default()
            },
            ..Self::default()
        }
    }

    fn is_native(&self) -> bool {
        self.record.slot != NO_SESSION
    }

    /// Returns the bytes of the operation in the payload of its request.
    fn range(&self) -> Range<usize> {
        match self.is_native() {
            true => {
                let bytes = size_of::<Operation>();
                field(NATIVE_OPERATIONS, usize::from(self.record.index) * bytes, bytes)
            }
            false => 0..size_of::<PaperTransfer>(),
        }
    }

    /// Returns the bytes of the source account in the payload of the request.
    fn source_range(&self) -> Range<usize> {
        match self.is_native() {
            true => field(
                self.range().start,
                offset_of!(Operation, source),
                size_of::<AccountId>(),
            ),
            false => field(0, offset_of!(PaperTransfer, source), size_of::<u32>()),
        }
    }

    /// Returns the bytes of the destination account in the payload of the request.
    fn destination_range(&self) -> Range<usize> {
        match self.is_native() {
            true => field(
                self.range().start,
                offset_of!(Operation, destination),
                size_of::<AccountId>(),
            ),
            false => field(0, offset_of!(PaperTransfer, destination), size_of::<u32>()),
        }
    }
}

/// Request of a session, with what its execution depends on.
pub(super) struct NativeExecute<'a> {
    pub(super) header: &'a NativeHeader,
    pub(super) head: &'a ExecuteHead,
    pub(super) operations: &'a [Operation],
    pub(super) now_ns: u64,
    /// Returns whether the sender may execute an operation.
    pub(super) permitted: &'a dyn Fn(&Operation) -> bool,
}

/// Result of a request in the paper's format.
pub(super) struct PaperReply {
    pub(super) answer: PaperAnswer,
    /// True if the same reply was given before, and nothing was executed.
    pub(super) repeated: bool,
}

/// Versions of the accounts after one operation; 0 for an account that it did not change.
#[derive(Default)]
struct Effect {
    source_version: u64,
    destination_version: u64,
}

type Writer<'a> = (usize, MutexGuard<'a, ()>);

/// Executes a request in the paper's format, or repeats the reply stored for its transaction id.
pub(super) fn paper<T: Trace>(
    store: &Store,
    writer: &Writer<'_>,
    task: &Task,
    request: &PaperRequest,
    trace: &mut T,
) -> Result<PaperReply, NotDone> {
    let ring = Ring::of(store, writer.0);
    if !has_room(&ring, 1, trace) {
        return Err(NotDone::Busy { ring_full: true });
    }
    let numbered = request.is_numbered().then_some(request);
    let mut effect = Effect::default();
    let (outcome, repeated) = match run(store, task, numbered, &mut effect, &ring, trace)? {
        OperationResult::Done(outcome) => (outcome.into(), false),
        OperationResult::Repeated(answer) => (answer, true),
    };
    Ok(PaperReply {
        answer: outcome,
        repeated,
    })
}

/// Returns whether the ring has room for this number of records.
fn has_room<T: Trace>(ring: &Ring<'_>, records: u64, trace: &mut T) -> bool {
    let free = ring.free_records();
    trace.fact("free_records", || free);
    trace.choose(Rule::RingRoom, 0..0, free >= records)
}

/// Executes a packet of a session, or repeats its reply.
pub(super) fn native<T: Trace>(
    store: &Store,
    writer: &Writer<'_>,
    request: &NativeExecute<'_>,
    reply: &mut Reply,
    trace: &mut T,
) -> Answer {
    let NativeExecute {
        header,
        head,
        operations,
        ..
    } = *request;
    let mut refuse = |status: Status, expected: u64, answer: Answer, trace: &mut T| {
        let fits = native::put_refused(reply, header, head, operations, status, expected);
        trace.fact("status", || status as u64);
        match trace.require(Rule::ReplyFits, 0..0, fits) {
            true => answer,
            false => Answer::Hosts,
        }
    };
    let no_session = Answer::Said(Code::Unauthorised);
    let token = head.token.get();
    let slot = head.slot.get();
    let found = (slot < store.control().sessions.load(Relaxed))
        .then(|| &store.sessions.as_slice()[slot as usize])
        .filter(|session| token != 0 && session.token.load(Acquire) == token);
    // The steps show the slot, and not the token, which is a secret.
    let slot_range = field(
        size_of::<NativeHeader>(),
        offset_of!(ExecuteHead, slot),
        size_of::<u32>(),
    );
    trace.choose(Rule::SessionOpen, slot_range, found.is_some());
    let Some(session) = found else {
        return refuse(Status::NoSession, 0, no_session, trace);
    };
    let lock = cell::lock(&session.lock);
    trace.choose(Rule::Unlocked, 0..0, lock.is_some());
    let Some(_session_lock) = lock else {
        return refuse(Status::Busy, 0, Answer::Busy { ring_full: false }, trace);
    };
    let is_unclaimed = session.claimed.load(Relaxed) == 0;
    if !trace.require(Rule::SessionUnclaimed, 0..0, is_unclaimed) {
        return Answer::Hosts;
    }
    if session.token.load(Acquire) != token {
        return refuse(Status::NoSession, 0, no_session, trace);
    }
    let (last, sum) = (session.sequence.load(Relaxed), native::sum(operations));
    let is_repeat = last != 0 && head.sequence.get() == last;
    let sequence_range = field(
        size_of::<NativeHeader>(),
        offset_of!(ExecuteHead, sequence),
        size_of::<u64>(),
    );
    trace.fact("last_sequence", || last);
    if trace.choose(Rule::NewSequence, sequence_range.clone(), !is_repeat) {
        let is_next = head.sequence.get() == last + 1;
        if !trace.choose(Rule::NextSequence, sequence_range, is_next) {
            return refuse(Status::Sequence, last + 1, Answer::Said(Code::StaleId), trace);
        }
    } else {
        let is_same =
            session.sum.load(Relaxed) == sum && session.count.load(Relaxed) as usize == operations.len();
        let range = field(NATIVE_OPERATIONS, 0, size_of_val(operations));
        if !trace.choose(Rule::SameOperations, range, is_same) {
            return refuse(Status::Reused, last + 1, Answer::Said(Code::IdReused), trace);
        }
    }
    let mut outcomes = [Outcome::refused(Code::Busy); TRANSFER_LINE_OPERATIONS_MAX];
    if is_repeat {
        stored(session, &mut outcomes);
    } else {
        let ring = Ring::of(store, writer.0);
        if !has_room(&ring, operations.len() as u64, trace) {
            return refuse(Status::Busy, last + 1, Answer::Busy { ring_full: true }, trace);
        }
        for (index, (operation, outcome)) in operations.iter().zip(&mut outcomes).enumerate() {
            let task = Task {
                now_ns: request.now_ns,
                ..Task::of_native(operation, index, head, sum)
            };
            match one(
                store,
                &task,
                operation,
                (request.permitted)(operation),
                &ring,
                trace,
            ) {
                Some(done) => *outcome = done,
                None => return Answer::Hosts,
            }
        }
        record_outcomes(session, head.sequence.get(), sum, &outcomes[..operations.len()]);
    }
    let fits = native::put_executed(reply, header, head, operations, &outcomes, TRANSFER_EXPRESS);
    for (name, outcome) in CODE_NAMES.iter().zip(&outcomes[..operations.len()]) {
        trace.fact(name, || outcome.code as u64);
    }
    match trace.require(Rule::ReplyFits, 0..0, fits) {
        true if is_repeat => Answer::Repeated,
        true => Answer::Said(outcomes[0].code),
        false => Answer::Hosts,
    }
}

/// Executes one operation of a session. Every outcome gets a record, because the sequence number is used. Returns
/// `None` if the operation is the first of its packet and the host has claimed an account of it; the host then
/// executes the whole packet.
fn one<T: Trace>(
    store: &Store,
    task: &Task,
    operation: &Operation,
    permitted: bool,
    ring: &Ring<'_>,
    trace: &mut T,
) -> Option<Outcome> {
    let form = native::check(operation);
    trace.choose(Rule::WellFormed, task.range(), form.is_ok());
    let allowed = form.and_then(|()| {
        let command_range = field(
            task.range().start,
            offset_of!(Operation, command),
            size_of::<u8>(),
        );
        match trace.choose(Rule::Permitted, command_range, permitted) {
            true => Ok(()),
            false => Err(Code::Unauthorised),
        }
    });
    let mut effect = Effect::default();
    let outcome = match allowed {
        Err(code) => {
            push(ring, task, Err(code), &effect);
            Err(code)
        }
        Ok(()) => match run(store, task, None, &mut effect, ring, trace) {
            Ok(OperationResult::Done(outcome)) => outcome,
            Err(NotDone::Claimed) if task.record.index == 0 => return None,
            // A single operation of a session has no transaction id, so `Repeated` cannot occur here.
            Ok(OperationResult::Repeated(_)) | Err(NotDone::Busy { .. } | NotDone::Claimed) => {
                push(ring, task, Err(Code::Busy), &effect);
                Err(Code::Busy)
            }
        },
    };
    Some(match outcome {
        Ok(amount) => Outcome {
            code: Code::Done,
            amount,
            number: 0,
        },
        Err(code) => Outcome::refused(code),
    })
}

/// Reads the reply that a session's slot stores.
fn stored(session: &TransferSession, outcomes: &mut [Outcome]) {
    let codes = session.codes.load(Relaxed);
    for (index, outcome) in outcomes.iter_mut().enumerate() {
        *outcome = Outcome {
            code: Code::from_code((codes >> (16 * index)) as u16).unwrap_or(Code::Busy),
            amount: session.amounts[index].load(Relaxed),
            number: 0,
        };
    }
}

fn record_outcomes(session: &TransferSession, sequence: u64, sum: u64, outcomes: &[Outcome]) {
    let mut codes = 0;
    for (index, outcome) in outcomes.iter().enumerate() {
        codes |= u64::from(outcome.code as u16) << (16 * index);
        session.amounts[index].store(outcome.amount, Relaxed);
    }
    session.codes.store(codes, Relaxed);
    session.count.store(outcomes.len() as u32, Relaxed);
    session.sum.store(sum, Relaxed);
    session.sequence.store(sequence, Relaxed);
}

enum OperationResult {
    Done(Result<u64, Code>),
    Repeated(PaperAnswer),
}

/// Returns whether a refusal gets a record in the ring: the refused request has used a transaction id or a sequence
/// number, so a retry must get the same reply.
fn is_kept(task: &Task, numbered: Option<&PaperRequest>) -> bool {
    task.record.slot != NO_SESSION || numbered.is_some()
}

fn run<T: Trace>(
    store: &Store,
    task: &Task,
    numbered: Option<&PaperRequest>,
    effect: &mut Effect,
    ring: &Ring<'_>,
    trace: &mut T,
) -> Result<OperationResult, NotDone> {
    if task.command == TRANSFER_COMMAND_CREATE {
        return create(store, task, numbered, effect, ring, trace);
    }
    let Some(source) = find(store, &task.source, task.source_range(), trace) else {
        return Ok(nowhere(task, Code::UnknownAccount, effect, ring));
    };
    let destination = match task.command {
        TRANSFER_COMMAND_TRANSFER => {
            let is_other = task.source != task.destination;
            match trace.choose(Rule::OtherAccount, task.destination_range(), is_other) {
                true => find(store, &task.destination, task.destination_range(), trace)
                    .ok_or(Code::UnknownAccount)
                    .map(Some),
                false => Err(Code::SameAccount),
            }
        }
        _ => Ok(None),
    };
    settle(store, task, numbered, source, destination, effect, ring, trace)
}

/// Returns the index of the cell of an account, which the request names in the bytes `range`.
fn find<T: Trace>(store: &Store, account: &AccountId, range: Range<usize>, trace: &mut T) -> Option<usize> {
    let found = store.find(account);
    trace.choose(Rule::AccountExists, range, found.is_some());
    found
}

/// Records the refusal of an operation whose source account does not exist. Only a session can store it.
fn nowhere(task: &Task, code: Code, effect: &Effect, ring: &Ring<'_>) -> OperationResult {
    if task.record.slot != NO_SESSION {
        push(ring, task, Err(code), effect);
    }
    OperationResult::Done(Err(code))
}

/// Executes an operation on existing accounts.
#[expect(
    clippy::too_many_arguments,
    reason = "the operation, the accounts that it was found to concern, and where the result goes"
)]
fn settle<T: Trace>(
    store: &Store,
    task: &Task,
    numbered: Option<&PaperRequest>,
    source: usize,
    destination: Result<Option<usize>, Code>,
    effect: &mut Effect,
    ring: &Ring<'_>,
    trace: &mut T,
) -> Result<OperationResult, NotDone> {
    let cells = store.cells.as_slice();
    let destination_cell = destination.ok().flatten();
    let locks = lock_two(cells, source, destination_cell);
    trace.choose(Rule::Unlocked, 0..0, locks.is_ok());
    let _locks = locks?;
    let is_claimed = [Some(source), destination_cell]
        .into_iter()
        .flatten()
        .any(|index| cell::is_claimed(&cells[index]));
    // The host executes the whole request if the first operation needs it; a later operation is answered with `busy`.
    let is_unclaimed = match task.record.index {
        0 => trace.require(Rule::AccountsUnclaimed, task.range(), !is_claimed),
        _ => trace.choose(Rule::AccountsUnclaimed, task.range(), !is_claimed),
    };
    if !is_unclaimed {
        return Err(NotDone::Claimed);
    }
    if let Some(request) = numbered {
        let last = cell::load_last(&store.paper.as_slice()[source], request.source);
        let answer = PaperLast::answer(last.as_ref(), request);
        if let Some(last) = &last {
            trace.fact("last_id", || last.request.transaction_id.into());
        }
        let id_range = field(0, offset_of!(PaperTransfer, transaction_id), size_of::<u32>());
        trace.choose(Rule::NewTransactionId, id_range, answer.is_none());
        if let Some(answer) = answer {
            return Ok(OperationResult::Repeated(answer));
        }
    }
    let (mut from, mut version) = cell::load(&cells[source]);
    trace.fact("source_balance", || from.balance);
    let outcome = destination.and_then(|destination| {
        let Some(index) = destination else {
            return execute_on_source(task, &mut from);
        };
        let (mut to, to_version) = cell::load(&cells[index]);
        rules::transfer(&mut from, &mut to, task.amount, task.limit)?;
        cell::save(&cells[index], &to, to_version + 1);
        effect.destination_version = to_version + 1;
        Ok(())
    });
    let outcome = outcome.map(|()| from.balance);
    trace.fact("code", || code_of(outcome).into());
    trace.choose(Rule::Done, task.range(), outcome.is_ok());
    if outcome.is_err()
        && numbered.is_some()
        && !trace.choose(Rule::RefusalCredit, 0..0, store.take_paper_refusal())
    {
        return Err(NotDone::Busy { ring_full: false });
    }
    if outcome.is_ok() || is_kept(task, numbered) {
        if outcome.is_ok() || numbered.is_some() {
            version += 1;
            cell::save(&cells[source], &from, version);
            effect.source_version = version;
        }
        remember(store, source, numbered, outcome);
        push(ring, task, outcome, effect);
    }
    Ok(OperationResult::Done(outcome))
}

/// Executes an operation that concerns only the source.
fn execute_on_source(task: &Task, holding: &mut Holding) -> Result<(), Code> {
    match task.command {
        TRANSFER_COMMAND_CREATE => Err(Code::AccountExists),
        TRANSFER_COMMAND_ISSUE => rules::issue(holding, task.amount, task.limit),
        command => {
            holding.frozen = command == TRANSFER_COMMAND_FREEZE;
            Ok(())
        }
    }
}

fn create<T: Trace>(
    store: &Store,
    task: &Task,
    numbered: Option<&PaperRequest>,
    effect: &mut Effect,
    ring: &Ring<'_>,
    trace: &mut T,
) -> Result<OperationResult, NotDone> {
    let buckets = store.buckets(task.source.words());
    let [low, high] = [buckets[0].min(buckets[1]), buckets[0].max(buckets[1])];
    let locks = [low, high].map(|first| cell::lock(&store.cells.as_slice()[first].bucket_lock));
    let is_locked = locks.iter().all(Option::is_some);
    if !trace.choose(Rule::Unlocked, 0..0, is_locked) {
        return Err(NotDone::Busy { ring_full: false });
    }
    if let Some(index) = find(store, &task.source, task.source_range(), trace) {
        return settle(store, task, numbered, index, Ok(None), effect, ring, trace);
    }
    let created = rules::create(task.amount, task.limit);
    trace.fact("code", || code_of(created.map(|holding| holding.balance)).into());
    trace.choose(Rule::Done, task.range(), created.is_ok());
    let holding = match created {
        Ok(holding) => holding,
        Err(code) => return Ok(nowhere(task, code, effect, ring)),
    };
    let vacancy = store.vacancy(buckets);
    trace.choose(Rule::CellFree, 0..0, vacancy.is_some());
    let Some(index) = vacancy else {
        return Ok(nowhere(task, Code::StoreFull, effect, ring));
    };
    // No reader looks at an invalid cell; `save` makes it valid, as the last step.
    let cell = &store.cells.as_slice()[index];
    for (target, word) in cell.id.iter().zip(task.source.words()) {
        target.store(word, Relaxed);
    }
    let _lock = cell::lock(&cell.lock).ok_or(NotDone::Busy { ring_full: false })?;
    let outcome = Ok(holding.balance);
    remember(store, index, numbered, outcome);
    effect.source_version = 1;
    cell::save(cell, &holding, 1);
    push(ring, task, outcome, effect);
    Ok(OperationResult::Done(outcome))
}

/// Stores a request that has a transaction id, with its reply, so that a repetition gets the same reply.
fn remember(store: &Store, index: usize, numbered: Option<&PaperRequest>, outcome: Result<u64, Code>) {
    if let Some(request) = numbered {
        let last = PaperLast {
            request: *request,
            answer: outcome.into(),
        };
        cell::save_last(&store.paper.as_slice()[index], &last);
    }
}

/// Acquires the locks of one or two cells, the lower index first.
fn lock_two(
    cells: &[TransferCell],
    a: usize,
    b: Option<usize>,
) -> Result<[Option<CellGuard<'_>>; 2], NotDone> {
    let lock = |index: usize| cell::lock(&cells[index].lock).ok_or(NotDone::Busy { ring_full: false });
    let Some(b) = b else {
        return Ok([Some(lock(a)?), None]);
    };
    let first = lock(a.min(b))?;
    Ok([Some(first), Some(lock(a.max(b))?)])
}

fn code_of(outcome: Result<u64, Code>) -> u16 {
    outcome.err().unwrap_or(Code::Done) as u16
}

/// Writes the record of an operation. The caller has checked that there is room.
fn push(ring: &Ring<'_>, task: &Task, outcome: Result<u64, Code>, effect: &Effect) {
    ring.push(&Record {
        source: task.source,
        amount: task.amount,
        source_version: effect.source_version,
        destination_version: effect.destination_version,
        source_balance: outcome.unwrap_or(0),
        command: task.command,
        code: code_of(outcome),
        time_ns: task.now_ns,
        ..task.record
    });
}
