//! Execution in the fast path, in `express`: one operation at a time, under the locks of its accounts, with a record
//! in the ring.

use super::{Answer, NotDone};
use crate::AccountId;
use crate::cell::{self, CellGuard};
use crate::layout::{TransferCell, TransferSession};
use crate::native::{self, Outcome};
use crate::paper::{PaperAnswer, PaperLast, PaperRequest};
use crate::ring::{NO_SESSION, Record, Ring};
use crate::rules::{self, Holding};
use crate::store::Store;
use lineside_fastpath::Reply;
use lineside_wire::{
    ExecuteHead, NativeHeader, Operation, Status, TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_FREEZE,
    TRANSFER_COMMAND_ISSUE, TRANSFER_COMMAND_TRANSFER, TRANSFER_EXPRESS, TRANSFER_LINE_OPERATIONS_MAX,
    TransferCode as Code,
};
use std::sync::MutexGuard;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

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
pub(super) fn paper(
    store: &Store,
    writer: &Writer<'_>,
    task: &Task,
    request: &PaperRequest,
) -> Result<PaperReply, NotDone> {
    let ring = Ring::of(store, writer.0);
    if ring.free_records() == 0 {
        return Err(NotDone::Busy { ring_full: true });
    }
    let numbered = request.is_numbered().then_some(request);
    let mut effect = Effect::default();
    let (outcome, repeated) = match run(store, task, numbered, &mut effect, &ring)? {
        OperationResult::Done(outcome) => (outcome.into(), false),
        OperationResult::Repeated(answer) => (answer, true),
    };
    Ok(PaperReply {
        answer: outcome,
        repeated,
    })
}

/// Executes a packet of a session, or repeats its reply.
#[expect(
    clippy::too_many_arguments,
    reason = "the parts of one packet, and where it is executed"
)]
pub(super) fn native(
    store: &Store,
    writer: &Writer<'_>,
    now_ns: u64,
    header: &NativeHeader,
    head: &ExecuteHead,
    operations: &[Operation],
    permitted: &dyn Fn(&Operation) -> bool,
    reply: &mut Reply,
) -> Answer {
    let mut refuse = |status: Status, expected: u64, answer: Answer| match native::put_refused(
        reply, header, head, operations, status, expected,
    ) {
        true => answer,
        false => Answer::Hosts,
    };
    let no_session = Answer::Said(Code::Unauthorised);
    let token = head.token.get();
    let slot = head.slot.get();
    let Some(session) = (slot < store.control().sessions.load(Relaxed))
        .then(|| &store.sessions.as_slice()[slot as usize])
        .filter(|session| token != 0 && session.token.load(Acquire) == token)
    else {
        return refuse(Status::NoSession, 0, no_session);
    };
    let Some(_session_lock) = cell::lock(&session.lock) else {
        return refuse(Status::Busy, 0, Answer::Busy { ring_full: false });
    };
    if session.claimed.load(Relaxed) != 0 {
        return Answer::Hosts;
    }
    if session.token.load(Acquire) != token {
        return refuse(Status::NoSession, 0, no_session);
    }
    let (last, sum) = (session.sequence.load(Relaxed), native::sum(operations));
    let is_repeat = last != 0 && head.sequence.get() == last;
    if is_repeat
        && (session.sum.load(Relaxed) != sum || session.count.load(Relaxed) as usize != operations.len())
    {
        return refuse(Status::Reused, last + 1, Answer::Said(Code::IdReused));
    }
    if !is_repeat && head.sequence.get() != last + 1 {
        return refuse(Status::Sequence, last + 1, Answer::Said(Code::StaleId));
    }
    let mut outcomes = [Outcome::refused(Code::Busy); TRANSFER_LINE_OPERATIONS_MAX];
    if is_repeat {
        stored(session, &mut outcomes);
    } else {
        let ring = Ring::of(store, writer.0);
        if ring.free_records() < operations.len() as u64 {
            return refuse(Status::Busy, last + 1, Answer::Busy { ring_full: true });
        }
        for (index, (operation, outcome)) in operations.iter().zip(&mut outcomes).enumerate() {
            let task = Task {
                now_ns,
                ..Task::of_native(operation, index, head, sum)
            };
            match one(store, &task, operation, permitted(operation), &ring) {
                Some(done) => *outcome = done,
                None => return Answer::Hosts,
            }
        }
        record_outcomes(session, head.sequence.get(), sum, &outcomes[..operations.len()]);
    }
    match native::put_executed(reply, header, head, operations, &outcomes, TRANSFER_EXPRESS) {
        true if is_repeat => Answer::Repeated,
        true => Answer::Said(outcomes[0].code),
        false => Answer::Hosts,
    }
}

/// Executes one operation of a session. Every outcome gets a record, because the sequence number is used. Returns
/// `None` if the operation is the first of its packet and the host has claimed an account of it; the host then
/// executes the whole packet.
fn one(
    store: &Store,
    task: &Task,
    operation: &Operation,
    permitted: bool,
    ring: &Ring<'_>,
) -> Option<Outcome> {
    let allowed = native::check(operation).and(if permitted {
        Ok(())
    } else {
        Err(Code::Unauthorised)
    });
    let mut effect = Effect::default();
    let outcome = match allowed {
        Err(code) => {
            push(ring, task, Err(code), &effect);
            Err(code)
        }
        Ok(()) => match run(store, task, None, &mut effect, ring) {
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

fn run(
    store: &Store,
    task: &Task,
    numbered: Option<&PaperRequest>,
    effect: &mut Effect,
    ring: &Ring<'_>,
) -> Result<OperationResult, NotDone> {
    if task.command == TRANSFER_COMMAND_CREATE {
        return create(store, task, numbered, effect, ring);
    }
    let Some(source) = store.find(&task.source) else {
        return Ok(nowhere(task, Code::UnknownAccount, effect, ring));
    };
    let destination = match task.command {
        TRANSFER_COMMAND_TRANSFER if task.source == task.destination => Err(Code::SameAccount),
        TRANSFER_COMMAND_TRANSFER => store
            .find(&task.destination)
            .ok_or(Code::UnknownAccount)
            .map(Some),
        _ => Ok(None),
    };
    settle(store, task, numbered, source, destination, effect, ring)
}

/// Records the refusal of an operation whose source account does not exist. Only a session can store it.
fn nowhere(task: &Task, code: Code, effect: &Effect, ring: &Ring<'_>) -> OperationResult {
    if task.record.slot != NO_SESSION {
        push(ring, task, Err(code), effect);
    }
    OperationResult::Done(Err(code))
}

/// Executes an operation on existing accounts.
fn settle(
    store: &Store,
    task: &Task,
    numbered: Option<&PaperRequest>,
    source: usize,
    destination: Result<Option<usize>, Code>,
    effect: &mut Effect,
    ring: &Ring<'_>,
) -> Result<OperationResult, NotDone> {
    let cells = store.cells.as_slice();
    let destination_cell = destination.ok().flatten();
    let _locks = lock_two(cells, source, destination_cell)?;
    if [Some(source), destination_cell]
        .into_iter()
        .flatten()
        .any(|index| cell::is_claimed(&cells[index]))
    {
        return Err(NotDone::Claimed);
    }
    if let Some(request) = numbered {
        let last = cell::load_last(&store.paper.as_slice()[source], request.source);
        if let Some(answer) = PaperLast::answer(last.as_ref(), request) {
            return Ok(OperationResult::Repeated(answer));
        }
    }
    let (mut from, mut version) = cell::load(&cells[source]);
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
    if outcome.is_err() && numbered.is_some() && !store.take_paper_refusal() {
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

fn create(
    store: &Store,
    task: &Task,
    numbered: Option<&PaperRequest>,
    effect: &mut Effect,
    ring: &Ring<'_>,
) -> Result<OperationResult, NotDone> {
    let buckets = store.buckets(task.source.words());
    let [low, high] = [buckets[0].min(buckets[1]), buckets[0].max(buckets[1])];
    let locks = [low, high].map(|first| cell::lock(&store.cells.as_slice()[first].bucket_lock));
    if locks.iter().any(Option::is_none) {
        return Err(NotDone::Busy { ring_full: false });
    }
    if let Some(index) = store.find(&task.source) {
        return settle(store, task, numbered, index, Ok(None), effect, ring);
    }
    let holding = match rules::create(task.amount, task.limit) {
        Ok(holding) => holding,
        Err(code) => return Ok(nowhere(task, code, effect, ring)),
    };
    let Some(index) = store.vacancy(buckets) else {
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

/// Writes the record of an operation. The caller has checked that there is room.
fn push(ring: &Ring<'_>, task: &Task, outcome: Result<u64, Code>, effect: &Effect) {
    ring.push(&Record {
        source: task.source,
        amount: task.amount,
        source_version: effect.source_version,
        destination_version: effect.destination_version,
        source_balance: outcome.unwrap_or(0),
        command: task.command,
        code: outcome.err().unwrap_or(Code::Done) as u16,
        time_ns: task.now_ns,
        ..task.record
    });
}
