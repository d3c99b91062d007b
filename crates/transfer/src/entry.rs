//! Journal records of the ledger: each request that changed something or used an id, with its reply. Replay executes
//! the requests again and compares the replies.

use crate::AccountId;
use crate::bytes::{Reader, Writer};
use crate::ledger::image::{outcome, put_outcome};
use crate::ledger::{Limits, PendingId};
use crate::native::Outcome;
use crate::paper::{PaperAnswer, PaperRequest};
use crate::ring::Record;
use crate::settlement::Block;
use crate::store::Mode;
use lineside_wire::{Operation, SignedHead, TRANSFER_OPERATIONS_MAX, TransferCode as Code};
use zerocopy::{FromBytes, IntoBytes};

/// One record of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// Limits of the ledger from here on, and the mode. It is the first record, and is repeated whenever the limits
    /// change.
    Limits {
        /// Maximum numbers of accounts, sessions, pending transfers and idempotency keys.
        limits: Limits,
        /// Mode, which is fixed for the life of the journal.
        mode: Mode,
    },
    /// A request in the paper's format.
    Paper {
        /// Request, as received.
        request: PaperRequest,
        /// Reply.
        answer: PaperAnswer,
    },
    /// A packet of a session.
    Execute {
        /// Slot of the session.
        slot: u32,
        /// Sequence number of the packet.
        sequence: u64,
        /// Host's clock, in seconds since 1970.
        now_s: u64,
        /// Operations, as received.
        operations: Vec<Operation>,
        /// Outcomes of the operations.
        outcomes: Vec<Outcome>,
        /// Signature of the packet, if it had one.
        signed: Option<Box<SignedHead>>,
    },
    /// A session was opened.
    Open {
        /// Slot of the session.
        slot: u32,
        /// Secret token.
        token: u64,
        /// Address of the client: an IPv6 address, or an IPv4 address mapped into it.
        opener: [u8; 16],
        /// Host's clock, in seconds since 1970.
        now_s: u64,
    },
    /// A session was closed.
    Close {
        /// Slot of the session.
        slot: u32,
    },
    /// A pending transfer expired.
    Expire(PendingId),
    /// A block was sealed; it contains the operations up to here.
    Block(Block),
    /// The fast path executed this operation.
    Line(Record),
    /// A packet of a session of which no operation was executed. The operations are not kept: when the packet is
    /// repeated, the reply is made from the request and these codes.
    Refused {
        /// Slot of the session.
        slot: u32,
        /// Sequence number of the packet.
        sequence: u64,
        /// Host's clock, in seconds since 1970.
        now_s: u64,
        /// Checksum of the packet's operations; see [`crate::native::sum`].
        sum: u64,
        /// Codes of the first operations, as many as [`codes_kept`] says; never `done`.
        codes: Vec<Code>,
        /// Number of the operations after those, each of which was answered `busy`.
        rest: u16,
    },
    /// A packet of a session of which some operations were executed and others refused. The refused ones are not kept:
    /// they change nothing, and a linked chain is executed completely or not at all.
    Partly {
        /// Slot of the session.
        slot: u32,
        /// Sequence number of the packet.
        sequence: u64,
        /// Host's clock, in seconds since 1970.
        now_s: u64,
        /// Checksum of all operations of the packet; see [`crate::native::sum`].
        sum: u64,
        /// Codes of all its operations.
        codes: Vec<Code>,
        /// Executed operations, as received.
        operations: Vec<Operation>,
        /// Outcomes of the executed operations.
        outcomes: Vec<Outcome>,
    },
    /// The fast path refused a request in the paper's format that has a transaction id; the source account stores this
    /// id. This entry is the short form of the [`Entry::Line`] of the refusal: it leaves out the fast path's time.
    PaperRefused {
        /// The request.
        request: PaperRequest,
        /// Reason; never `done`.
        code: Code,
        /// Version of the source account after the request.
        version: u64,
    },
    /// Time of the following records without a time field.
    Time {
        /// Seconds since 1970.
        now_s: u64,
    },
}

impl Entry {
    /// Returns the kind of its journal record.
    pub fn kind(&self) -> u8 {
        match self {
            // Kinds 1, 4 and 10 were earlier forms of `Limits` and `Open`, with fewer fields.
            Self::Limits { .. } => 16,
            Self::Paper { .. } => 2,
            Self::Execute { signed: None, .. } => 3,
            Self::Execute { signed: Some(_), .. } => 9,
            Self::Open { .. } => 11,
            Self::Close { .. } => 5,
            Self::Expire(_) => 6,
            Self::Block(_) => 7,
            Self::Line(_) => 8,
            Self::Refused { .. } => 12,
            Self::Time { .. } => 13,
            Self::PaperRefused { .. } => 14,
            Self::Partly { .. } => 15,
        }
    }

    /// Returns the entry for a record of the fast path: the short form if the fast path's time is the only field that
    /// the short form does not keep.
    pub(crate) fn of_record(record: Record) -> Self {
        let request = record.paper_request();
        let version = record.source_version;
        let short = |code| Record {
            time_ns: record.time_ns,
            ..Record::refused(&request, code, version)
        };
        match Code::from_code(record.code) {
            Some(code) if code != Code::Done && record == short(code) => Self::PaperRefused {
                request,
                code,
                version,
            },
            _ => Self::Line(record),
        }
    }

    /// Returns the maximum payload of an [`Entry::Execute`] in bytes.
    pub(crate) const fn execute_bytes_max(operations: usize) -> usize {
        64 + size_of::<SignedHead>() + operations * (size_of::<Operation>() + size_of::<Outcome>())
    }

    /// Returns the record's payload.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::with_capacity(match self {
            Self::Execute { operations, .. } => Self::execute_bytes_max(operations.len()),
            Self::Partly { codes, .. } => Self::execute_bytes_max(codes.len()),
            _ => 256,
        });
        match self {
            Self::Limits { limits, mode } => {
                out.u64(limits.accounts);
                out.u32(limits.sessions);
                out.u64(limits.pendings);
                out.u64(limits.keys);
                out.u64(limits.key_window_s);
                out.u16(mode.durability());
            }
            Self::Paper { request, answer } => {
                out.bytes(&request.to_bytes()[..20]);
                out.u16(answer.code as u16);
                out.u32(answer.amount);
            }
            Self::Execute {
                slot,
                sequence,
                now_s,
                operations,
                outcomes,
                signed,
            } => {
                if let Some(signed) = signed {
                    out.bytes(signed.as_bytes());
                }
                out.u32(*slot);
                out.u64(*sequence);
                out.u64(*now_s);
                out.u16(operations.len() as u16);
                out.bytes(operations.as_bytes());
                outcomes.iter().for_each(|outcome| put_outcome(&mut out, outcome));
            }
            Self::Open {
                slot,
                token,
                opener,
                now_s,
            } => {
                out.u32(*slot);
                out.u64(*token);
                out.bytes(opener);
                out.u64(*now_s);
            }
            Self::Close { slot } => out.u32(*slot),
            Self::Expire((source, uuid)) => {
                out.bytes(&source.0);
                out.bytes(uuid);
            }
            Self::Block(block) => out.bytes(&block.to_bytes()),
            Self::Line(record) => put_record(&mut out, record),
            Self::Refused {
                slot,
                sequence,
                now_s,
                sum,
                codes,
                rest,
            } => {
                put_answered(&mut out, *slot, [*sequence, *now_s, *sum], (&codes[..], *rest));
            }
            Self::Partly {
                slot,
                sequence,
                now_s,
                sum,
                codes,
                operations,
                outcomes,
            } => {
                put_answered(&mut out, *slot, [*sequence, *now_s, *sum], (&codes[..], 0));
                out.bytes(operations.as_bytes());
                for outcome in outcomes {
                    out.u64(outcome.amount);
                    out.u64(outcome.number);
                }
            }
            Self::Time { now_s } => out.u64(*now_s),
            Self::PaperRefused {
                request,
                code,
                version,
            } => {
                out.bytes(&request.to_bytes()[..20]);
                out.u16(*code as u16);
                out.u64(*version);
            }
        }
        out.into_bytes()
    }

    /// Returns the entry of a record; `None` if it is not a valid one.
    pub fn from_record(kind: u8, payload: &[u8]) -> Option<Self> {
        let mut input = Reader::new(payload);
        let entry = match kind {
            // Kind 10 is the form without idempotency keys.
            10 | 16 => {
                let mut limits = Limits {
                    accounts: input.u64()?,
                    sessions: input.u32()?,
                    pendings: input.u64()?,
                    keys: 0,
                    key_window_s: 0,
                };
                if kind == 16 {
                    (limits.keys, limits.key_window_s) = (input.u64()?, input.u64()?);
                }
                Self::Limits {
                    limits,
                    mode: Mode::from_durability(input.u16()?)?,
                }
            }
            2 => Self::Paper {
                request: PaperRequest::parse(&input.array::<20>()?)?,
                answer: PaperAnswer {
                    code: Code::from_code(input.u16()?)?,
                    amount: input.u32()?,
                },
            },
            3 => execute(&mut input, None)?,
            9 => {
                let signed = SignedHead::read_from_bytes(input.take(size_of::<SignedHead>())?).ok()?;
                execute(&mut input, Some(Box::new(signed)))?
            }
            11 => Self::Open {
                slot: input.u32()?,
                token: input.u64()?,
                opener: input.array()?,
                now_s: input.u64()?,
            },
            5 => Self::Close { slot: input.u32()? },
            6 => Self::Expire((AccountId(input.array()?), input.array()?)),
            8 => Self::Line(record(&mut input)?),
            7 => Self::Block(Block::from_bytes(&input.array()?)?),
            12 => {
                let slot = input.u32()?;
                let [sequence, now_s, sum] = [input.u64()?, input.u64()?, input.u64()?];
                let (codes, rest) = codes(&mut input, |code| code != Code::Done)?;
                Self::Refused {
                    slot,
                    sequence,
                    now_s,
                    sum,
                    codes,
                    rest,
                }
            }
            13 => Self::Time { now_s: input.u64()? },
            14 => Self::PaperRefused {
                request: PaperRequest::parse(&input.array::<20>()?)?,
                code: Code::from_code(input.u16()?).filter(|code| *code != Code::Done)?,
                version: input.u64()?,
            },
            15 => partly(&mut input)?,
            _ => return None,
        };
        input.is_empty().then_some(entry)
    }
}

fn execute(input: &mut Reader<'_>, signed: Option<Box<SignedHead>>) -> Option<Entry> {
    let (slot, sequence, now_s) = (input.u32()?, input.u64()?, input.u64()?);
    let count = usize::from(input.u16()?);
    if !(1..=TRANSFER_OPERATIONS_MAX).contains(&count) {
        return None;
    }
    let bytes = input.take(count * size_of::<Operation>())?;
    Some(Entry::Execute {
        slot,
        sequence,
        now_s,
        operations: <[Operation]>::ref_from_bytes(bytes).ok()?.to_vec(),
        outcomes: (0..count).map(|_| outcome(input)).collect::<Option<_>>()?,
        signed,
    })
}

fn partly(input: &mut Reader<'_>) -> Option<Entry> {
    let slot = input.u32()?;
    let [sequence, now_s, sum] = [input.u64()?, input.u64()?, input.u64()?];
    let (codes, rest) = codes(input, |_| true)?;
    let done = codes.iter().filter(|code| **code == Code::Done).count();
    if rest != 0 || done == 0 || done == codes.len() {
        return None;
    }
    let operations = input.take(done * size_of::<Operation>())?;
    let outcome = |_| {
        Some(Outcome {
            amount: input.u64()?,
            number: input.u64()?,
            ..Outcome::refused(Code::Done)
        })
    };
    Some(Entry::Partly {
        slot,
        sequence,
        now_s,
        sum,
        codes,
        operations: <[Operation]>::ref_from_bytes(operations).ok()?.to_vec(),
        outcomes: (0..done).map(outcome).collect::<Option<_>>()?,
    })
}

/// Maximum size of the codes of one packet in bytes, so that its record has at most 96 bytes.
const CODES_BYTES_MAX: usize = 42;
/// Number of codes that the entry of a refused packet keeps if all its codes need more than [`CODES_BYTES_MAX`] bytes.
const CODES_KEPT: usize = 2 * CODES_BYTES_MAX;

/// Returns how many codes the entry of a refused packet keeps, counted from the first: all of them if they take at most
/// [`CODES_BYTES_MAX`] bytes, otherwise [`CODES_KEPT`]. Operations without a stored code are answered `busy`.
pub fn codes_kept(codes: impl ExactSizeIterator<Item = Code>) -> usize {
    let (count, mut runs, mut last) = (codes.len(), 0, None);
    for code in codes {
        runs += usize::from(last != Some(code));
        last = Some(code);
    }
    if 3 * runs <= CODES_BYTES_MAX {
        count
    } else {
        count.min(CODES_KEPT)
    }
}

/// Flag: the codes are run-length encoded.
const IN_RUNS: u16 = 1 << 15;
/// Flag: there are [`CODES_KEPT`] codes, in half a byte each, and all later operations were `busy`.
const REST_IS_BUSY: u16 = 1 << 14;

/// Writes the fields that entries of refused and of partly executed packets begin with: slot; sequence, seconds and
/// sum; codes.
fn put_answered(out: &mut Writer, slot: u32, words: [u64; 3], (codes, rest): (&[Code], u16)) {
    out.u32(slot);
    for word in words {
        out.u64(word);
    }
    put_codes(out, codes, rest);
}

/// Writes codes either run-length encoded or in half a byte each, whichever is shorter. The first two bits give the
/// form, the others the number of the packet's operations. Entries of older versions have more than [`CODES_KEPT`]
/// half bytes, and more runs.
fn put_codes(out: &mut Writer, codes: &[Code], rest: u16) {
    debug_assert!(rest == 0 || codes.len() == CODES_KEPT);
    let runs: Vec<&[Code]> = codes.chunk_by(|one, next| one == next).collect();
    let in_runs = rest == 0 && 3 * runs.len() < codes.len().div_ceil(2);
    let form = match (rest, in_runs) {
        (1.., _) => REST_IS_BUSY,
        (0, true) => IN_RUNS,
        (0, false) => 0,
    };
    out.u16((codes.len() as u16 + rest) | form);
    if in_runs {
        for run in runs {
            out.u8(run[0] as u8);
            out.u16(run.len() as u16);
        }
        return;
    }
    for pair in codes.chunks(2) {
        let second = pair.get(1).map_or(0, |code| *code as u8);
        out.u8(pair[0] as u8 | second << 4);
    }
}

/// Reads the codes of a packet, each of which must satisfy `may`, and the number of its further operations; `None` if
/// they are invalid or not encoded as by [`put_codes`].
fn codes(input: &mut Reader<'_>, may: impl Fn(Code) -> bool) -> Option<(Vec<Code>, u16)> {
    let word = input.u16()?;
    let (form, all) = (word & (IN_RUNS | REST_IS_BUSY), word & !(IN_RUNS | REST_IS_BUSY));
    if !(1..=TRANSFER_OPERATIONS_MAX).contains(&usize::from(all)) {
        return None;
    }
    let rest = match form {
        0 | IN_RUNS => 0,
        REST_IS_BUSY => all.checked_sub(CODES_KEPT as u16).filter(|rest| *rest > 0)?,
        _ => return None,
    };
    let count = usize::from(all - rest);
    let code = |byte: u8| Code::from_code(byte.into()).filter(|code| may(*code));
    let mut codes = Vec::with_capacity(count);
    if form != IN_RUNS {
        for byte in input.take(count.div_ceil(2))? {
            codes.push(code(byte & 15)?);
            match codes.len() < count {
                true => codes.push(code(byte >> 4)?),
                false if byte >> 4 != 0 => return None,
                false => {}
            }
        }
    }
    while codes.len() < count {
        let (code, length) = (code(input.u8()?)?, usize::from(input.u16()?));
        if length == 0 || codes.last() == Some(&code) || codes.len() + length > count {
            return None;
        }
        codes.resize(codes.len() + length, code);
    }
    let runs = codes.chunk_by(|one, next| one == next).count();
    let is_shorter_in_runs = rest == 0 && 3 * runs < count.div_ceil(2);
    (is_shorter_in_runs == (form == IN_RUNS)).then_some((codes, rest))
}

fn put_record(out: &mut Writer, record: &Record) {
    let Record {
        source,
        destination,
        amount,
        source_version,
        destination_version,
        source_balance,
        slot,
        command,
        flags,
        code,
        contract,
        index,
        count,
        sequence,
        sum,
        timestamp,
        uuid,
        nonce,
        time_ns,
    } = record;
    out.bytes(&source.0);
    out.bytes(&destination.0);
    for word in [
        amount,
        source_version,
        destination_version,
        source_balance,
        sequence,
        sum,
        timestamp,
        time_ns,
    ] {
        out.u64(*word);
    }
    out.bytes(&uuid.0);
    out.u32(*slot);
    out.u32(*contract);
    out.u32(*nonce);
    out.u16(*code);
    out.u16(*index);
    out.u16(*count);
    out.u8(*command);
    out.u8(*flags);
}

fn record(input: &mut Reader<'_>) -> Option<Record> {
    Some(Record {
        source: AccountId(input.array()?),
        destination: AccountId(input.array()?),
        amount: input.u64()?,
        source_version: input.u64()?,
        destination_version: input.u64()?,
        source_balance: input.u64()?,
        sequence: input.u64()?,
        sum: input.u64()?,
        timestamp: input.u64()?,
        time_ns: input.u64()?,
        uuid: AccountId(input.array()?),
        slot: input.u32()?,
        contract: input.u32()?,
        nonce: input.u32()?,
        code: input.u16()?,
        index: input.u16()?,
        count: input.u16()?,
        command: input.u8()?,
        flags: input.u8()?,
    })
}
