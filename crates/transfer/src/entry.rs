//! What the journal holds of the ledger: each request that changed something or used an id, with its answer. Replay
//! executes it again and compares.

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
    /// How large the ledger may be from here on, and who executes. The first record, and whenever it changes.
    Limits {
        /// Accounts and sessions.
        limits: Limits,
        /// The same for a journal's whole life.
        mode: Mode,
    },
    /// A request in the paper's format.
    Paper {
        /// As it came.
        request: PaperRequest,
        /// As it was answered.
        answer: PaperAnswer,
    },
    /// A packet of a session.
    Execute {
        /// The session.
        slot: u32,
        /// Its sequence.
        sequence: u64,
        /// The host's clock: seconds since 1970.
        now_s: u64,
        /// As they came.
        operations: Vec<Operation>,
        /// What became of them.
        outcomes: Vec<Outcome>,
        /// Whose signature the packet had, if it had one.
        signed: Option<Box<SignedHead>>,
    },
    /// A session was opened.
    Open {
        /// Where.
        slot: u32,
        /// Its secret.
        token: u64,
        /// By whom: an IPv6 address, or an IPv4 one mapped into it.
        opener: [u8; 16],
        /// The host's clock: seconds since 1970.
        now_s: u64,
    },
    /// A session was closed.
    Close {
        /// Which.
        slot: u32,
    },
    /// A pending transfer expired.
    Expire(PendingId),
    /// Operations up to here are sealed.
    Block(Block),
    /// What the fast path executed.
    Line(Record),
    /// A packet of a session of which nothing was done, without its operations: when it is repeated, its reply is made
    /// of the request and these codes.
    Refused {
        /// The session.
        slot: u32,
        /// Its sequence.
        sequence: u64,
        /// The host's clock: seconds since 1970.
        now_s: u64,
        /// Sum of its operations, as of [`crate::native::sum`].
        sum: u64,
        /// Codes of the first operations, as many as [`codes_kept`] says; none is `done`.
        codes: Vec<Code>,
        /// Number of the operations after those, each of which was answered `busy`.
        rest: u16,
    },
    /// A packet of a session of which some operations were done and others refused, without the latter: refused
    /// operations change nothing, and a linked chain is done whole or not at all.
    Partly {
        /// The session.
        slot: u32,
        /// Its sequence.
        sequence: u64,
        /// The host's clock: seconds since 1970.
        now_s: u64,
        /// Sum of all its operations, as of [`crate::native::sum`].
        sum: u64,
        /// Codes of all its operations.
        codes: Vec<Code>,
        /// The operations that were done, as they came.
        operations: Vec<Operation>,
        /// Outcomes of these.
        outcomes: Vec<Outcome>,
    },
    /// A request in the paper's format that the fast path refused, and whose transaction id its account keeps: the
    /// short form of its [`Entry::Line`].
    PaperRefused {
        /// The request.
        request: PaperRequest,
        /// Reason; never `done`.
        code: Code,
        /// Version of the source after this.
        version: u64,
    },
    /// The host's clock, where what follows has no time of its own: seconds since 1970.
    Time {
        /// Seconds since 1970.
        now_s: u64,
    },
}

impl Entry {
    /// The kind of its record in the journal.
    pub fn kind(&self) -> u8 {
        match self {
            // 1 and 4 were limits and openings without what these have now.
            Self::Limits { .. } => 10,
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

    /// The entry of a record of the fast path: the short form where that says the same, but for the fast path's time.
    pub(crate) fn of_record(record: Record) -> Self {
        let low = |account: &AccountId| u128::from_be_bytes(account.0) as u32;
        let request = PaperRequest::new(
            record.command,
            record.sequence as u32,
            low(&record.source),
            low(&record.destination),
            record.amount as u32,
        );
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

    /// Bytes of the payload of an [`Entry::Execute`] at most.
    pub(crate) const fn execute_bytes_max(operations: usize) -> usize {
        64 + size_of::<SignedHead>() + operations * (size_of::<Operation>() + size_of::<Outcome>())
    }

    /// The record's payload.
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

    /// The entry of a record; `None`: it is none of ours.
    pub fn from_record(kind: u8, payload: &[u8]) -> Option<Self> {
        let mut input = Reader::new(payload);
        let entry = match kind {
            10 => Self::Limits {
                limits: Limits {
                    accounts: input.u64()?,
                    sessions: input.u32()?,
                    pendings: input.u64()?,
                },
                mode: Mode::from_durability(input.u16()?)?,
            },
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

/// Bytes of the codes of one packet, so that its record has 96 bytes at most.
const CODES_BYTES_MAX: usize = 42;
/// Number of the first codes that are kept of a packet whose codes take more.
const CODES_KEPT: usize = 2 * CODES_BYTES_MAX;

/// Returns how many of the codes of a refused packet, from the first one on, its entry keeps: all of them where they
/// take [`CODES_BYTES_MAX`] bytes at most, else [`CODES_KEPT`]. The operations after those are answered `busy`.
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

/// Says that codes are written in runs.
const IN_RUNS: u16 = 1 << 15;
/// Says that there are [`CODES_KEPT`] codes, in half a byte each, and that the operations after those were `busy`.
const REST_IS_BUSY: u16 = 1 << 14;

/// Writes what entries of refused and of partly done packets begin with: slot; sequence, seconds and sum; codes.
fn put_answered(out: &mut Writer, slot: u32, words: [u64; 3], (codes, rest): (&[Code], u16)) {
    out.u32(slot);
    for word in words {
        out.u64(word);
    }
    put_codes(out, codes, rest);
}

/// Codes in runs of the same, or in half a byte each, whichever is shorter. The first two bits say which, the others
/// how many operations the packet has. Entries of older versions have more than [`CODES_KEPT`] half bytes, and more
/// runs.
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

/// Codes of a packet, each of which `may` be there, and the number of its further operations; `None`: these are none,
/// or not written as [`put_codes`] does.
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
