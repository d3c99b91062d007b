//! Encoding of a segment's bytes: literal bytes, copies of earlier bytes, entries of the cache, and hex digits. A run
//! is a sequence of segments in one datagram that are encoded together.
//!
//! | first byte | means |
//! |---|---|
//! | 0x00–0x7f | that number of literal bytes, plus one, follow |
//! | 0x80–0xbf | a copy of 6 bytes or more (0xbf: the next byte adds to the number); the distance (16 bits) follows |
//! | 0xc0 | a whole entry of the cache, whose id (16 bits) follows |
//! | 0xc1 | 64 lower-case hex digits, from the 32 bytes that follow |
//!
//! A copy refers back into the run, and past its beginning into the run's dictionary, but never across the border
//! between the two.

use super::cut::{CutRange, Note};
use lineside_fabric::proto::wire;
use lineside_wire::FABRIC_COPY_BYTES_MIN as COPY_MIN;

const COPY: u8 = 0x80;
const COPY_LONG: u8 = 0x3f;
const ENTRY: u8 = 0xc0;
const HEX: u8 = 0xc1;
const DIGITS: &[u8; 16] = b"0123456789abcdef";
const COPY_MAX: usize = COPY_MIN + COPY_LONG as usize + 255;
const TABLE_BITS: u32 = 12;
const DISTANCE_MAX: usize = 0xffff;

/// Reason why a stream is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamError {
    /// The stream has a form that no sender writes.
    Malformed,
    /// The stream refers to an entry with this id, which is not in the cache.
    Unknown(u16),
}

/// Encoder of runs.
#[derive(Debug)]
pub struct Encoder {
    table: Vec<u32>,
    history: Vec<u8>,
    dictionary: usize,
}

impl Default for Encoder {
    fn default() -> Self {
        Self {
            table: vec![u32::MAX; 1 << TABLE_BITS],
            history: Vec::new(),
            dictionary: 0,
        }
    }
}

fn hash(bytes: &[u8]) -> Option<usize> {
    let six = bytes.first_chunk::<6>()?;
    let low = u32::from_le_bytes([six[0], six[1], six[2], six[3]]);
    let high = u16::from_le_bytes([six[4], six[5]]);
    let value = u64::from(low) | u64::from(high) << 32;
    Some((value.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - TABLE_BITS)) as usize)
}

impl Encoder {
    /// Returns a placeholder that cannot encode. It takes the encoder's place while another function uses the encoder.
    pub(crate) fn none() -> Self {
        Self {
            table: Vec::new(),
            history: Vec::new(),
            dictionary: 0,
        }
    }

    /// Begins a run. Copies in the run may refer to the bytes of `dictionary`.
    pub fn begin(&mut self, dictionary: &[u8]) {
        self.table.fill(u32::MAX);
        self.history.clear();
        self.history.extend_from_slice(dictionary);
        self.dictionary = dictionary.len();
        for at in 0..dictionary.len() {
            self.index_position(at);
        }
    }

    fn index_position(&mut self, at: usize) {
        if let Some(place) = self.history.get(at..).and_then(hash) {
            self.table[place] = at as u32;
        }
    }

    /// Removes the last segment, which has `bytes` bytes, from the history.
    pub(crate) fn take_back(&mut self, bytes: usize) {
        self.history.truncate(self.history.len().saturating_sub(bytes));
    }

    /// Encodes a segment in which no range is replaced by a cache entry or hex.
    pub fn plain_segment(&mut self, segment: &[u8], out: &mut Vec<u8>) {
        self.segment(segment, &[], None, |_| None, out);
    }

    /// Encodes a segment. `cuts` are the ranges that may be sent in another form; `entry` returns the cache id of such
    /// a range, if it is in the cache.
    pub(crate) fn segment(
        &mut self,
        segment: &[u8],
        cuts: &[CutRange],
        notes: Option<&[Note]>,
        mut entry: impl FnMut(&[u8]) -> Option<u16>,
        out: &mut Vec<u8>,
    ) {
        wire::put_varint(out, segment.len() as u64);
        if let Some(notes) = notes {
            let notes = notes.get(..notes.len().min(255)).unwrap_or_default();
            out.push(notes.len() as u8);
            for note in notes {
                out.push(note.kind);
                wire::put_varint(out, u64::from(note.at));
                wire::put_varint(out, u64::from(note.bytes));
            }
        }
        let start = self.history.len();
        self.history.extend_from_slice(segment);
        let mut done = 0;
        for cut in cuts {
            let Some(content) = segment.get(cut.range.clone()) else {
                continue;
            };
            if cut.hex {
                self.literals(start + done, start + cut.range.start, out);
                out.push(HEX);
                let digit = |byte: u8| {
                    if byte >= b'a' {
                        byte - b'a' + 10
                    } else {
                        byte.wrapping_sub(b'0')
                    }
                };
                let pairs = content.chunks_exact(2);
                out.extend(pairs.map(|pair| digit(pair[0]) << 4 | digit(pair[1]) & 15));
            } else if let Some(id) = entry(content) {
                self.literals(start + done, start + cut.range.start, out);
                out.push(ENTRY);
                out.extend(id.to_be_bytes());
            } else {
                continue;
            }
            done = cut.range.end;
        }
        self.literals(start + done, start + segment.len(), out);
    }

    fn literals(&mut self, from: usize, to: usize, out: &mut Vec<u8>) {
        let (mut at, mut plain) = (from, from);
        while at + COPY_MIN <= to {
            let candidate = hash(&self.history[at..to]).map_or(u32::MAX, |place| self.table[place]) as usize;
            self.index_position(at);
            let length = self.matching(candidate, at, to);
            if length < COPY_MIN {
                at += 1;
                continue;
            }
            self.plain(plain, at, out);
            let beyond = length - COPY_MIN;
            if beyond < usize::from(COPY_LONG) {
                out.push(COPY | beyond as u8);
            } else {
                out.push(COPY | COPY_LONG);
                out.push((beyond - usize::from(COPY_LONG)) as u8);
            }
            out.extend(((at - candidate) as u16).to_be_bytes());
            for learned in at + 1..at + length {
                self.index_position(learned);
            }
            at += length;
            plain = at;
        }
        self.plain(plain, to, out);
    }

    fn matching(&self, candidate: usize, at: usize, to: usize) -> usize {
        if candidate >= at || at - candidate > DISTANCE_MAX {
            return 0;
        }
        let border = if candidate < self.dictionary {
            self.dictionary
        } else {
            at
        };
        let limit = (border - candidate).min(to - at).min(COPY_MAX);
        let (old, new) = (
            &self.history[candidate..candidate + limit],
            &self.history[at..at + limit],
        );
        old.iter().zip(new).take_while(|(a, b)| a == b).count()
    }

    fn plain(&self, from: usize, to: usize, out: &mut Vec<u8>) {
        for piece in self.history.get(from..to).unwrap_or_default().chunks(128) {
            out.push(piece.len() as u8 - 1);
            out.extend_from_slice(piece);
        }
    }
}

/// Position of an identity in a segment that was copied from the cache, so that its user need not hash it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CachedIdentity {
    /// Offset from the segment's first byte.
    pub at: u32,
    /// Length in bytes.
    pub bytes: u32,
    /// Id of the identity in the cache.
    pub id: u16,
}

/// Information that the decoder returns in addition to a segment's bytes.
#[derive(Default, Debug)]
pub struct SegmentNotes {
    /// Annotations that the sender made about the segment; they are not checked yet.
    pub notes: Vec<Note>,
    /// Cache entries in the segment. Their bytes are known to be correct, because they were copied from the cache.
    pub cached_identities: Vec<CachedIdentity>,
}

fn byte(stream: &mut &[u8]) -> Result<u8, StreamError> {
    let (&first, rest) = stream.split_first().ok_or(StreamError::Malformed)?;
    *stream = rest;
    Ok(first)
}

fn number(stream: &mut &[u8]) -> Result<usize, StreamError> {
    let value = wire::varint(stream).map_err(|_| StreamError::Malformed)?;
    u32::try_from(value)
        .map(|value| value as usize)
        .map_err(|_| StreamError::Malformed)
}

fn take<'a>(stream: &mut &'a [u8], bytes: usize) -> Result<&'a [u8], StreamError> {
    let (taken, rest) = stream.split_at_checked(bytes).ok_or(StreamError::Malformed)?;
    *stream = rest;
    Ok(taken)
}

fn short(stream: &mut &[u8]) -> Result<u16, StreamError> {
    let taken = take(stream, 2)?;
    Ok(u16::from_be_bytes([taken[0], taken[1]]))
}

/// Number of bytes that `put` copies in one step if both slices are long enough. Most pieces are short, and a copy of a
/// fixed length costs less than one of a variable length.
const COPY_STEP_BYTES: usize = 16;

/// Copies the first `bytes` of `from` to the beginning of `to`, and perhaps some of the following bytes. The caller
/// has checked that both are long enough.
fn put(to: &mut [u8], from: &[u8], bytes: usize) {
    match (
        to.first_chunk_mut::<COPY_STEP_BYTES>(),
        from.first_chunk::<COPY_STEP_BYTES>(),
    ) {
        (Some(to), Some(from)) if bytes <= COPY_STEP_BYTES => *to = *from,
        _ => to[..bytes].copy_from_slice(&from[..bytes]),
    }
}

/// Decodes one segment into `block` at offset `at`. `run` is the offset at which the run of this segment began. Returns
/// the number of bytes of the segment.
pub fn decode<'c>(
    stream: &mut &[u8],
    notes: bool,
    block: &mut [u8],
    (run, at): (usize, usize),
    dictionary: &[u8],
    entries: impl Fn(u16) -> Option<&'c [u8]>,
    aside: &mut SegmentNotes,
) -> Result<usize, StreamError> {
    aside.notes.clear();
    aside.cached_identities.clear();
    let length = number(stream)?;
    let end = at
        .checked_add(length)
        .filter(|&end| end <= block.len() && run <= at);
    let end = end.ok_or(StreamError::Malformed)?;
    if notes {
        for _ in 0..byte(stream)? {
            let kind = byte(stream)?;
            let (from, bytes) = (number(stream)?, number(stream)?);
            if from.checked_add(bytes).is_none_or(|end| end > length) {
                return Err(StreamError::Malformed);
            }
            aside.notes.push(Note {
                kind,
                at: from as u32,
                bytes: bytes as u32,
            });
        }
    }
    let mut position = at;
    let room = |place: usize, bytes: usize| {
        if bytes <= end - place {
            Ok(())
        } else {
            Err(StreamError::Malformed)
        }
    };
    while position < end {
        let op = byte(stream)?;
        match op {
            ..COPY => {
                let (from, bytes) = (*stream, usize::from(op) + 1);
                take(stream, bytes)?;
                room(position, bytes)?;
                put(&mut block[position..end], from, bytes);
                position += bytes;
            }
            COPY..ENTRY => {
                let mut bytes = COPY_MIN + usize::from(op & COPY_LONG);
                if op & COPY_LONG == COPY_LONG {
                    bytes += usize::from(byte(stream)?);
                }
                let distance = usize::from(short(stream)?);
                room(position, bytes)?;
                if distance <= position - run {
                    if distance < bytes {
                        return Err(StreamError::Malformed);
                    }
                    let (before, after) = block.split_at_mut(position);
                    put(
                        &mut after[..end - position],
                        &before[position - distance..],
                        bytes,
                    );
                } else {
                    let back = distance - (position - run);
                    let from = dictionary.len().checked_sub(back).ok_or(StreamError::Malformed)?;
                    let content = dictionary.get(from..).filter(|content| bytes <= content.len());
                    put(
                        &mut block[position..end],
                        content.ok_or(StreamError::Malformed)?,
                        bytes,
                    );
                }
                position += bytes;
            }
            ENTRY => {
                let id = short(stream)?;
                let content = entries(id).ok_or(StreamError::Unknown(id))?;
                room(position, content.len())?;
                block[position..position + content.len()].copy_from_slice(content);
                aside.cached_identities.push(CachedIdentity {
                    at: (position - at) as u32,
                    bytes: content.len() as u32,
                    id,
                });
                position += content.len();
            }
            HEX => {
                let raw = take(stream, 32)?;
                room(position, 64)?;
                for (pair, byte) in block[position..position + 64].chunks_exact_mut(2).zip(raw) {
                    pair[0] = DIGITS[usize::from(byte >> 4)];
                    pair[1] = DIGITS[usize::from(byte & 15)];
                }
                position += 64;
            }
            _ => return Err(StreamError::Malformed),
        }
    }
    Ok(length)
}
