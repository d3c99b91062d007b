//! Encodings of datagrams: signed requests, and answers, each of which has exactly one encoding.
//! `docs/hybrid-ledger.md` specifies them.

use super::answer::{Answered, Cell, Past, SharedKey};
use super::block::{HEADER_BYTES, Header, SIGNED_HEAD_BYTES, SignedHead};
use super::codec::{Input, Malformed, Output};
use super::proof::StateProof;
use super::request::{HEAD_BYTES, SIGNATURE_BYTES, Version};
use lineside_wire::{
    AnswerHead, HYBRID_ANSWER_CELLS, HYBRID_ANSWER_HISTORY, HYBRID_ANSWER_PLACED, HYBRID_ANSWER_PROOF,
    HYBRID_ANSWER_RANGE, HYBRID_ANSWER_REFUSED, HYBRID_ANSWER_SIGNED_HEAD,
    HYBRID_DATAGRAM_BYTES_MAX as DATAGRAM_MAX, HYBRID_KEY_BYTES_MAX as KEY_MAX, HYBRID_OP_ASK,
    HYBRID_VALUE_BYTES_MAX as VALUE_MAX, HybridCode as Code, NATIVE_REPLY_BIT, NativeHeader, Status, native,
};
use std::sync::Arc;
use zerocopy::{FromBytes, IntoBytes};

/// Number of bytes of the native header, which precedes the body.
const HEADER: usize = size_of::<NativeHeader>();
/// Number of bytes of the field with the signed request's length.
const LENGTH: usize = size_of::<u16>();
/// Maximum number of bytes of a signed request over UDP.
pub const REQUEST_BYTES_MAX: usize = DATAGRAM_MAX - HEADER - LENGTH;

/// Builds a datagram with a signed request. It is padded to `answer_bytes`, the maximum length of its answer, but to at
/// most [`DATAGRAM_MAX`]. Returns `None` if the request is longer than [`REQUEST_BYTES_MAX`].
pub fn write_request(request_id: u64, request: &[u8], answer_bytes: usize) -> Option<Vec<u8>> {
    if request.len() > REQUEST_BYTES_MAX {
        return None;
    }
    let bytes = (HEADER + LENGTH + request.len()).max(answer_bytes.min(DATAGRAM_MAX));
    let header = native::request_header(HYBRID_OP_ASK, request_id, (bytes - HEADER) as u16);
    let mut out = Vec::with_capacity(bytes);
    out.put(header.as_bytes());
    out.short(request);
    out.resize(bytes, 0);
    Some(out)
}

/// Reason why a datagram is not a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoRequest {
    /// The datagram is answered with this status.
    Status(Status),
    /// The datagram is longer than [`DATAGRAM_MAX`], and is answered with the code `too_large`.
    TooLarge,
}

/// Parses a datagram that has the native magic and no reply bit. Returns the header and the signed request.
///
/// # Errors
/// [`NoRequest`]. The status `bad_request` is also for a request that is too short, and for padding that is not zero.
pub fn read_request(datagram: &[u8]) -> Result<(&NativeHeader, &[u8]), NoRequest> {
    let bad = NoRequest::Status(Status::BadRequest);
    let (header, body) = native::parse_request(datagram).map_err(NoRequest::Status)?;
    if header.op != HYBRID_OP_ASK {
        return Err(bad);
    }
    if datagram.len() > DATAGRAM_MAX {
        return Err(NoRequest::TooLarge);
    }
    let mut input = Input(body);
    let request = input.short(REQUEST_BYTES_MAX).map_err(|_| bad)?;
    let is_one = request.len() >= SIGNATURE_BYTES + HEAD_BYTES && input.0.iter().all(|byte| *byte == 0);
    is_one.then_some((header, request)).ok_or(bad)
}

/// Output with a maximum length. Bytes beyond that length are not written, but `is_over` is set.
struct Bounded {
    bytes: Vec<u8>,
    bytes_max: usize,
    is_over: bool,
}

impl Output for Bounded {
    fn put(&mut self, bytes: &[u8]) {
        self.is_over |= self.bytes.len() + bytes.len() > self.bytes_max;
        if !self.is_over {
            self.bytes.extend_from_slice(bytes);
        }
    }
}

/// Builds the datagram that answers a request, of at most `bytes_max` bytes. An answer that would be longer is replaced
/// by `too_large`.
pub fn write_answer(request: &NativeHeader, answered: &Answered, bytes_max: usize) -> Vec<u8> {
    let body_max = bytes_max.min(DATAGRAM_MAX).saturating_sub(HEADER);
    let body = answered.encode(body_max).unwrap_or_else(|| {
        let refused = Answered::Refused(Code::TooLarge);
        refused.encode(size_of::<AnswerHead>()).unwrap_or_default()
    });
    let header = native::reply_header(request, Status::Ok, body.len() as u16);
    [header.as_bytes(), &body].concat()
}

/// Parses a datagram that answers a request. Returns the request's id, the status and the body.
pub fn read_answer(datagram: &[u8]) -> Option<(u64, Status, &[u8])> {
    let (header, body) = NativeHeader::ref_from_prefix(datagram).ok()?;
    let is_one = native::is_native(datagram)
        && header.version == lineside_wire::NATIVE_VERSION
        && header.op == HYBRID_OP_ASK | NATIVE_REPLY_BIT
        && usize::from(header.length.get()) == body.len();
    let status = Status::from_code(header.status.get()).filter(|_| is_one)?;
    Some((header.request_id.get(), status, body))
}

impl Answered {
    fn content_code(&self) -> u8 {
        match self {
            Self::Refused(_) => HYBRID_ANSWER_REFUSED,
            Self::Cells(_) => HYBRID_ANSWER_CELLS,
            Self::Range { .. } => HYBRID_ANSWER_RANGE,
            Self::Proof(_) => HYBRID_ANSWER_PROOF,
            Self::History { .. } => HYBRID_ANSWER_HISTORY,
            Self::Head(_) => HYBRID_ANSWER_SIGNED_HEAD,
            Self::Placed { .. } => HYBRID_ANSWER_PLACED,
        }
    }

    /// Encodes the part after the native header. Returns `None` if it would have more than `bytes_max` bytes.
    pub fn encode(&self, bytes_max: usize) -> Option<Vec<u8>> {
        let mut out = Bounded {
            bytes: Vec::with_capacity(bytes_max.min(DATAGRAM_MAX)),
            bytes_max,
            is_over: false,
        };
        out.u16(self.code() as u16);
        out.u8(self.content_code());
        match self {
            Self::Refused(_) => {}
            Self::Cells(cells) => {
                write_count(&mut out, cells.len());
                for cell in cells {
                    match cell {
                        None => out.u8(0),
                        Some(cell) => {
                            out.u8(1);
                            write_cell(&mut out, cell);
                        }
                    }
                }
            }
            Self::Range { cells, more } => {
                out.u8((*more).into());
                write_count(&mut out, cells.len());
                for (key, cell) in cells {
                    out.short(key);
                    write_cell(&mut out, cell);
                }
            }
            Self::Proof(proof) => out.put(proof),
            Self::History { past, more } => {
                out.u8((*more).into());
                write_count(&mut out, past.len());
                for past in past {
                    write_version(&mut out, past.version);
                    out.u64(past.time_ms);
                    match &past.value {
                        None => out.u8(0),
                        Some(value) => {
                            out.u8(1);
                            out.long(value);
                        }
                    }
                }
            }
            Self::Head(both) => {
                out.put(&both.0.to_bytes());
                out.put(&both.1.to_bytes());
            }
            Self::Placed { version, .. } => write_version(&mut out, *version),
        }
        (!out.is_over).then_some(out.bytes)
    }

    /// Decodes the part after a native header whose status is ok.
    ///
    /// # Errors
    /// [`Malformed`] for bytes that [`Self::encode`] does not write for an answer of a node.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input(bytes);
        let code = Code::from_code(input.u16()?).ok_or(Malformed("unknown code"))?;
        let says = input.u8()?;
        let is_of_a_kind = match says {
            HYBRID_ANSWER_REFUSED => code != Code::Done,
            HYBRID_ANSWER_PLACED => true,
            _ => code == Code::Done,
        };
        if !is_of_a_kind {
            return Err(Malformed("the code does not match the kind of answer"));
        }
        let answered = match says {
            HYBRID_ANSWER_REFUSED => Self::Refused(code),
            HYBRID_ANSWER_CELLS => Self::Cells(read_all(&mut input, |input| {
                Ok(match read_flag(input)? {
                    false => None,
                    true => Some(read_cell(input)?),
                })
            })?),
            HYBRID_ANSWER_RANGE => {
                let more = read_flag(&mut input)?;
                let cells = read_all(&mut input, |input| Ok((read_key(input)?, read_cell(input)?)))?;
                if !cells.windows(2).all(|pair| pair[0].0 < pair[1].0) {
                    return Err(Malformed("the keys are not in ascending order"));
                }
                Self::Range { cells, more }
            }
            HYBRID_ANSWER_PROOF => {
                let proof = input.take(input.0.len())?;
                if !StateProof::is_written_well(proof) {
                    return Err(Malformed("the proof is malformed"));
                }
                Self::Proof(proof.to_vec())
            }
            HYBRID_ANSWER_HISTORY => {
                let more = read_flag(&mut input)?;
                let past = read_all(&mut input, read_past)?;
                if !past.windows(2).all(|pair| pair[0].version > pair[1].version) {
                    return Err(Malformed(
                        "the writes are not ordered from the newest to the oldest",
                    ));
                }
                Self::History { past, more }
            }
            HYBRID_ANSWER_SIGNED_HEAD => {
                let header = Header::from_bytes(&input.array::<HEADER_BYTES>()?);
                let head = SignedHead::read(&input.array::<SIGNED_HEAD_BYTES>()?)?;
                Self::Head(Box::new((header, head)))
            }
            HYBRID_ANSWER_PLACED => {
                let version = read_version(&mut input)?;
                Self::Placed { code, version }
            }
            _ => return Err(Malformed("unknown kind of answer")),
        };
        input.end()?;
        Ok(answered)
    }
}

/// Writes a count of 16 bits. A higher count does not fit a datagram anyway, so it sets `is_over`.
fn write_count(out: &mut Bounded, count: usize) {
    out.is_over |= count > usize::from(u16::MAX);
    out.u16(count as u16);
}

fn write_version(out: &mut Bounded, version: Version) {
    out.u64(version.block);
    out.u32(version.index);
}

fn write_cell(out: &mut Bounded, cell: &Cell) {
    write_version(out, cell.version);
    out.long(&cell.value);
}

/// Reads a count, and then this number of items.
fn read_all<'a, T>(
    input: &mut Input<'a>,
    mut one: impl FnMut(&mut Input<'a>) -> Result<T, Malformed>,
) -> Result<Vec<T>, Malformed> {
    let count = input.u16()?;
    (0..count).map(|_| one(input)).collect()
}

fn read_flag(input: &mut Input<'_>) -> Result<bool, Malformed> {
    match input.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed("a flag is neither 0 nor 1")),
    }
}

/// Reads the version of a write. Block 0 is the genesis, which contains no writes, so it is refused.
fn read_version(input: &mut Input<'_>) -> Result<Version, Malformed> {
    match (input.u64()?, input.u32()?) {
        (0, _) => Err(Malformed("a version names block 0")),
        (block, index) => Ok(Version { block, index }),
    }
}

fn read_key(input: &mut Input<'_>) -> Result<SharedKey, Malformed> {
    match input.short(KEY_MAX)? {
        [] => Err(Malformed("a key is empty")),
        key => Ok(Arc::from(key)),
    }
}

fn read_cell(input: &mut Input<'_>) -> Result<Cell, Malformed> {
    Ok(Cell {
        version: read_version(input)?,
        value: Arc::from(input.long(VALUE_MAX)?),
    })
}

fn read_past(input: &mut Input<'_>) -> Result<Past, Malformed> {
    Ok(Past {
        version: read_version(input)?,
        time_ms: input.u64()?,
        value: match read_flag(input)? {
            false => None,
            true => Some(input.long(VALUE_MAX)?.to_vec()),
        },
    })
}

#[cfg(test)]
#[path = "udp_tests.rs"]
mod tests;
