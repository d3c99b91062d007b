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
}

impl Entry {
    /// The kind of its record in the journal.
    pub fn kind(&self) -> u8 {
        match self {
            Self::Limits { .. } => 1,
            Self::Paper { .. } => 2,
            Self::Execute { signed: None, .. } => 3,
            Self::Execute { signed: Some(_), .. } => 9,
            Self::Open { .. } => 4,
            Self::Close { .. } => 5,
            Self::Expire(_) => 6,
            Self::Block(_) => 7,
            Self::Line(_) => 8,
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
            _ => 256,
        });
        match self {
            Self::Limits { limits, mode } => {
                out.u64(limits.accounts);
                out.u32(limits.sessions);
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
            Self::Open { slot, token, opener } => {
                out.u32(*slot);
                out.u64(*token);
                out.bytes(opener);
            }
            Self::Close { slot } => out.u32(*slot),
            Self::Expire((source, uuid)) => {
                out.bytes(&source.0);
                out.bytes(uuid);
            }
            Self::Block(block) => out.bytes(&block.to_bytes()),
            Self::Line(record) => put_record(&mut out, record),
        }
        out.into_bytes()
    }

    /// The entry of a record; `None`: it is none of ours.
    pub fn from_record(kind: u8, payload: &[u8]) -> Option<Self> {
        let mut input = Reader::new(payload);
        let entry = match kind {
            1 => Self::Limits {
                limits: Limits {
                    accounts: input.u64()?,
                    sessions: input.u32()?,
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
            4 => Self::Open {
                slot: input.u32()?,
                token: input.u64()?,
                opener: input.array()?,
            },
            5 => Self::Close { slot: input.u32()? },
            6 => Self::Expire((AccountId(input.array()?), input.array()?)),
            8 => Self::Line(record(&mut input)?),
            7 => Self::Block(Block::from_bytes(&input.array()?)?),
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
