//! Native packets of `transfer`: one parser and encoder for fast path and host.

use crate::AccountId;
use crate::rules::Holding;
use lineside_fastpath::Reply;
use lineside_wire::trace::{NoTrace, Rule, Trace};
use lineside_wire::{
    BalanceItem, ExecuteHead, NativeHeader, Operation, ReferHead, SessionBody, SignedHead, Status,
    TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_FREEZE, TRANSFER_COMMAND_ISSUE, TRANSFER_COMMAND_TRANSFER,
    TRANSFER_COMMAND_UNFREEZE, TRANSFER_CONTRACT_PENDING, TRANSFER_CONTRACT_PLAIN, TRANSFER_CONTRACT_VOID,
    TRANSFER_FLAG_KEYED, TRANSFER_FLAG_LINKED, TRANSFER_OP_CLOSE, TRANSFER_OP_EXECUTE, TRANSFER_OP_OPEN,
    TRANSFER_OP_REFER, TRANSFER_OP_SESSION, TRANSFER_OP_SIGNED, TRANSFER_OPERATIONS_MAX, TRANSFER_REFER_MAX,
    TransferCode as Code, native,
};
use zerocopy::{FromBytes, IntoBytes};

/// Outcome of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// `done`, or the reason of the refusal.
    pub code: Code,
    /// Balance of the source after the operation; 0 for a refusal.
    pub amount: u64,
    /// Number of the operation in the ledger; 0 if it has no number (yet).
    pub number: u64,
}

impl Outcome {
    /// Returns the outcome of a refused operation.
    pub const fn refused(code: Code) -> Self {
        Self {
            code,
            amount: 0,
            number: 0,
        }
    }
}

/// Well-formed native request. An invalid single operation only gets an error code.
#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// Operations of a session.
    Execute(&'a NativeHeader, &'a ExecuteHead, &'a [Operation]),
    /// Signed operations of a session.
    Signed(&'a NativeHeader, &'a SignedHead, &'a ExecuteHead, &'a [Operation]),
    /// Query of account balances (REFER).
    Refer(&'a NativeHeader, &'a [BalanceItem]),
    /// A session is to be opened, closed or queried, according to the op in the header.
    Session(&'a NativeHeader, &'a SessionBody),
}

impl<'a> Request<'a> {
    /// Parses a packet that has the native magic number and no reply bit.
    ///
    /// # Errors
    /// Status of the refusal.
    pub fn parse(payload: &'a [u8]) -> Result<Self, Status> {
        Self::parse_with(payload, &mut NoTrace)
    }

    /// Like [`Request::parse`]; `trace` receives the decisions.
    ///
    /// # Errors
    /// Those of [`Request::parse`].
    #[inline]
    pub fn parse_with<T: Trace>(payload: &'a [u8], trace: &mut T) -> Result<Self, Status> {
        let (header, body) = native::parse_request_with(payload, trace)?;
        let request = match header.op {
            TRANSFER_OP_EXECUTE => {
                execute(body).map(|(head, operations)| Self::Execute(header, head, operations))
            }
            TRANSFER_OP_SIGNED => {
                signed(body).map(|(signed, head, operations)| Self::Signed(header, signed, head, operations))
            }
            TRANSFER_OP_REFER => refer(body).map(|items| Self::Refer(header, items)),
            TRANSFER_OP_OPEN | TRANSFER_OP_CLOSE | TRANSFER_OP_SESSION => SessionBody::ref_from_bytes(body)
                .ok()
                .filter(|body| body.sequence.get() == 0 && body.lease_s.get() == 0)
                .map(|body| Self::Session(header, body)),
            _ => None,
        };
        let begin = payload.len() - body.len();
        trace.fact("operation", || header.op.into());
        trace.fact("body_bytes", || body.len() as u64);
        trace.require(Rule::Body, begin..payload.len(), request.is_some());
        request.ok_or(Status::BadRequest)
    }
}

/// Parses the body of a session's packet.
fn execute(body: &[u8]) -> Option<(&ExecuteHead, &[Operation])> {
    let (head, rest) = ExecuteHead::ref_from_prefix(body).ok()?;
    let operations = <[Operation]>::ref_from_bytes(rest).ok()?;
    let counted = operations.len() == usize::from(head.count.get())
        && (1..=TRANSFER_OPERATIONS_MAX).contains(&operations.len());
    (counted && head.durability.get() == 0).then_some((head, operations))
}

/// Parses the body of a session's packet that is signed.
fn signed(body: &[u8]) -> Option<(&SignedHead, &ExecuteHead, &[Operation])> {
    let (signed, rest) = SignedHead::ref_from_prefix(body).ok()?;
    let is_padded = signed.reserved.get() == 0 && signed.reserved_2.get() == 0;
    let (head, operations) = execute(rest)?;
    is_padded.then_some((signed, head, operations))
}

/// Parses the body of a query of balances.
fn refer(body: &[u8]) -> Option<&[BalanceItem]> {
    let (head, rest) = ReferHead::ref_from_prefix(body).ok()?;
    let items = <[BalanceItem]>::ref_from_bytes(rest).ok()?;
    let is_counted =
        items.len() == head.count.get() as usize && (1..=TRANSFER_REFER_MAX).contains(&items.len());
    let is_padded = head.durability.get() == 0
        && head.reserved.get() == 0
        && items.iter().all(|item| is_zero(&item.as_bytes()[16..]));
    (is_counted && is_padded).then_some(items)
}

/// Checks a requested operation: it must be well-formed, and an ISSUE and a plain transfer must have an amount. Without
/// one, they would cost their sender nothing, but the journal would store them for ever.
///
/// # Errors
/// `bad_command`.
pub fn check(operation: &Operation) -> Result<(), Code> {
    let needs_amount = matches!(
        operation.command,
        TRANSFER_COMMAND_ISSUE | TRANSFER_COMMAND_TRANSFER
    ) && operation.contract.get() == TRANSFER_CONTRACT_PLAIN;
    let is_of_nothing = needs_amount && operation.amount.get() == 0;
    match is_of_nothing {
        true => Err(Code::BadCommand),
        false => check_form(operation),
    }
}

/// Checks whether an operation is well-formed. Journals of earlier versions contain executed operations of the amount
/// 0, which a replay executes again.
///
/// # Errors
/// `bad_command`.
pub(crate) fn check_form(operation: &Operation) -> Result<(), Code> {
    let transfer = operation.command == TRANSFER_COMMAND_TRANSFER;
    let is_known = (TRANSFER_COMMAND_CREATE..=TRANSFER_COMMAND_TRANSFER).contains(&operation.command)
        || (TRANSFER_COMMAND_FREEZE..=TRANSFER_COMMAND_UNFREEZE).contains(&operation.command);
    let contract = operation.contract.get();
    let contracted = contract == TRANSFER_CONTRACT_PLAIN || (transfer && contract <= TRANSFER_CONTRACT_VOID);
    let has_destination = transfer || operation.command == TRANSFER_COMMAND_CREATE;
    let moves = matches!(
        operation.command,
        TRANSFER_COMMAND_CREATE | TRANSFER_COMMAND_ISSUE | TRANSFER_COMMAND_TRANSFER
    ) && contract != TRANSFER_CONTRACT_VOID;
    let padded = (has_destination || is_zero(&operation.destination))
        && (moves || operation.amount.get() == 0)
        && (contract == TRANSFER_CONTRACT_PENDING || operation.timeout_s.get() == 0)
        && operation.code.get() == 0
        && operation.number.get() == 0;
    let sets_aside = contract != TRANSFER_CONTRACT_PENDING || operation.amount.get() != 0;
    let flagged = operation.flags & !(TRANSFER_FLAG_LINKED | TRANSFER_FLAG_KEYED) == 0
        && (!is_keyed(operation) || !is_zero(&operation.uuid));
    if is_known && contracted && padded && sets_aside && flagged {
        Ok(())
    } else {
        Err(Code::BadCommand)
    }
}

/// Returns whether the operation has an idempotency key.
pub(crate) const fn is_keyed(operation: &Operation) -> bool {
    operation.flags & TRANSFER_FLAG_KEYED != 0
}

/// Returns the operations of a packet that were executed now, with their outcomes. Operations that were refused are
/// left out, and so are repetitions of an idempotency key, whose outcomes have the number of the first execution.
/// `number_before` is the number of operations that the ledger had executed before the packet.
pub(crate) fn executed<'a>(
    operations: &'a [Operation],
    outcomes: &'a [Outcome],
    number_before: u64,
) -> impl Iterator<Item = (&'a Operation, &'a Outcome)> {
    let mut last_number = number_before;
    operations.iter().zip(outcomes).filter(move |(_, outcome)| {
        let is_new = outcome.code == Code::Done && outcome.number > last_number;
        last_number = last_number.max(outcome.number);
        is_new
    })
}

/// Returns the two accounts that the operation names, whether or not they exist.
pub(crate) fn accounts(operation: &Operation) -> [AccountId; 2] {
    [AccountId(operation.source), AccountId(operation.destination)]
}

/// Returns a checksum that distinguishes the operations of one packet from those of another: a repeated sequence
/// number gets the stored reply only with the same operations. It is not a protection: a client that finds two packets
/// with one checksum only gets a wrong reply in its own session.
///
/// The checksum is similar to the hash function NH of RFC 4418, but has known keys and combines them by XOR: each word
/// of 64 bits is combined with a key of its own, and the two halves of the result are multiplied. The products do not
/// depend on one another, so the XDP program and the FPGA compute them side by side. The keys are the multiples of an
/// odd number.
pub fn sum(operations: &[Operation]) -> u64 {
    const KEY_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let (mut sum, mut key) = (0_u64, 0_u64);
    let (words, _) = operations.as_bytes().as_chunks::<8>();
    for word in words {
        key = key.wrapping_add(KEY_STEP);
        let halves = u64::from_le_bytes(*word) ^ key;
        sum = sum.wrapping_add((halves & 0xffff_ffff) * (halves >> 32));
    }
    sum
}

/// Receiver of a reply's bytes.
pub trait Sink {
    /// Appends bytes; returns `false` if they do not fit.
    #[must_use]
    fn put(&mut self, bytes: &[u8]) -> bool;
}

impl Sink for Reply {
    fn put(&mut self, bytes: &[u8]) -> bool {
        Reply::put(self, bytes)
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) -> bool {
        self.extend_from_slice(bytes);
        true
    }
}

/// Returns the length of a body with these operations, in bytes. The operations of a request always fit into the length
/// field of its header.
fn body_bytes(operations: &[Operation]) -> u16 {
    (size_of::<ExecuteHead>() + size_of_val(operations)) as u16
}

/// Writes the reply to an `execute`; returns `false` if it does not fit.
#[must_use]
pub fn put_executed(
    reply: &mut impl Sink,
    header: &NativeHeader,
    head: &ExecuteHead,
    operations: &[Operation],
    outcomes: &[Outcome],
    durability: u16,
) -> bool {
    let header = native::reply_header(header, Status::Ok, body_bytes(operations));
    let head = ExecuteHead {
        durability: durability.into(),
        ..*head
    };
    reply.put(header.as_bytes())
        && reply.put(head.as_bytes())
        && operations.iter().zip(outcomes).all(|(operation, outcome)| {
            let operation = Operation {
                code: (outcome.code as u16).into(),
                amount: outcome.amount.into(),
                number: outcome.number.into(),
                ..*operation
            };
            reply.put(operation.as_bytes())
        })
}

/// Writes the refusal of a whole `execute`: the received packet with a status, and the `expected` sequence number of
/// the session (0: unknown).
#[must_use]
pub fn put_refused(
    reply: &mut impl Sink,
    header: &NativeHeader,
    head: &ExecuteHead,
    operations: &[Operation],
    status: Status,
    expected: u64,
) -> bool {
    let header = native::reply_header(header, status, body_bytes(operations));
    let head = ExecuteHead {
        sequence: expected.into(),
        ..*head
    };
    reply.put(header.as_bytes()) && reply.put(head.as_bytes()) && reply.put(operations.as_bytes())
}

/// Writes the refusal of operations that their sender may not execute; the reply has the code `unauthorised` for each
/// of them.
#[must_use]
pub fn put_unauthorised(
    reply: &mut impl Sink,
    header: &NativeHeader,
    head: &ExecuteHead,
    operations: &[Operation],
) -> bool {
    let code = (Code::Unauthorised as u16).into();
    let refused: Vec<Operation> = operations
        .iter()
        .map(|operation| Operation { code, ..*operation })
        .collect();
    put_refused(reply, header, head, &refused, Status::Unauthorised, 0)
}

/// State of an account and its number of changes, or the code for a missing account.
pub type Balance = Result<(Holding, u64), Code>;

/// Returns the item of an account in a reply to `refer`.
pub fn balance_item(account: &AccountId, balance: Balance) -> BalanceItem {
    let (code, (holding, version)) = match balance {
        Ok(account_holding) => (Code::Done, account_holding),
        Err(code) => (code, (Holding::default(), 0)),
    };
    BalanceItem {
        account: account.0,
        balance: holding.balance.into(),
        held: holding.held_out.into(),
        version: version.into(),
        code: (code as u16).into(),
        frozen: u16::from(holding.frozen).into(),
        reserved: 0.into(),
    }
}

/// Writes the reply to a `refer`; returns `false` if it does not fit.
#[must_use]
pub fn put_balances(
    reply: &mut impl Sink,
    header: &NativeHeader,
    balances: &[BalanceItem],
    durability: u16,
) -> bool {
    let header = native::reply_header(header, Status::Ok, header.length.get());
    let head = ReferHead {
        count: (balances.len() as u32).into(),
        durability: durability.into(),
        reserved: 0.into(),
    };
    reply.put(header.as_bytes()) && reply.put(head.as_bytes()) && reply.put(balances.as_bytes())
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}
