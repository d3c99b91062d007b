//! Encoding of segment headers and records. All numbers are little-endian; `docs/journal.md` has the tables.

use crate::Lsn;

/// Version of the layout of all files of a journal.
pub const VERSION: u32 = 1;
/// Size in bytes of the header of a segment, and of the header of a snapshot.
pub const SEGMENT_HEADER_BYTES: u64 = 64;
/// Size in bytes of the header that precedes the payload of a record.
pub const RECORD_HEADER_BYTES: u64 = 24;
/// Maximum payload length in bytes. The limit bounds how much a damaged length field can make the journal read.
pub(crate) const LARGEST_PAYLOAD_BYTES: u32 = 16 << 20;

const LARGEST_LSN: Lsn = 1 << 62;

const HEADER: usize = SEGMENT_HEADER_BYTES as usize;
const RECORD: usize = RECORD_HEADER_BYTES as usize;
pub(crate) const SEGMENT_MAGIC: [u8; 8] = *b"LSJOURNL";
pub(crate) const SNAPSHOT_MAGIC: [u8; 8] = *b"LSJSNAPS";

/// Returns the size in bytes of a record whose payload has this length. This is the amount to pass to
/// [`reserve`](crate::Journal::reserve).
pub const fn record_bytes(payload_bytes: usize) -> u64 {
    (RECORD_HEADER_BYTES + payload_bytes as u64).next_multiple_of(8)
}

/// Returns the initial CRC of a journal's records, so that records of another journal never pass the check.
pub(crate) fn seed(journal_id: u64) -> u32 {
    crc32c::crc32c(&journal_id.to_le_bytes())
}

pub(crate) fn word(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(|b| b.first_chunk())
        .map_or(0, |b| u32::from_le_bytes(*b))
}

pub(crate) fn long(bytes: &[u8], at: usize) -> u64 {
    bytes
        .get(at..)
        .and_then(|b| b.first_chunk())
        .map_or(0, |b| u64::from_le_bytes(*b))
}

/// First 64 bytes of a segment or a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) journal_id: u64,
    /// Segment: number of its first record. Snapshot: number of the last record that it includes.
    pub(crate) lsn: Lsn,
    /// First record of the previous segment; 0 if there was none. In the header of a snapshot it is 0.
    pub(crate) previous: Lsn,
    /// Size of the whole segment in bytes. In the header of a snapshot it is 0.
    pub(crate) segment_bytes: u64,
    /// Flag in the header of a snapshot: the journal keeps all records, so the snapshot replaces no record. A
    /// program that does not know this flag ignores the snapshot.
    pub(crate) keep_records: bool,
    /// Flag in the header of a segment: a repair created the segment, the records between the previous segment and this
    /// one are lost, and a snapshot replaces them. A program that does not know this flag refuses the segment as
    /// damaged.
    pub(crate) follows_gap: bool,
}

/// Reason why 64 bytes are not a valid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHeader {
    Damaged(&'static str),
    Version(u32),
}

impl Header {
    pub(crate) fn encode(&self, magic: [u8; 8]) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&magic);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.journal_id.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.lsn.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.previous.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.segment_bytes.to_le_bytes());
        bytes[48] = u8::from(self.keep_records || self.follows_gap);
        let crc = Self::crc(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes a header. The fields for magic, version and CRC are at the same offsets in every version, so that a
    /// damaged header can be distinguished from a header of another version.
    pub(crate) fn decode(bytes: &[u8], magic: [u8; 8]) -> Result<Header, BadHeader> {
        let Some(bytes) = bytes.first_chunk::<HEADER>() else {
            return Err(BadHeader::Damaged("the file is shorter than its header"));
        };
        if bytes[..8] != magic {
            return Err(BadHeader::Damaged("the file begins with a wrong magic number"));
        }
        if word(bytes, 12) != Self::crc(bytes) {
            return Err(BadHeader::Damaged("the header's CRC is wrong"));
        }
        let version = word(bytes, 8);
        if version != VERSION {
            return Err(BadHeader::Version(version));
        }
        let is_snapshot = magic == SNAPSHOT_MAGIC;
        let keep_records = is_snapshot && bytes[48] == 1;
        if bytes[48] > 1 || bytes[49..].iter().any(|byte| *byte != 0) {
            return Err(BadHeader::Damaged("the header has bytes that no writer sets"));
        }
        let header = Header {
            journal_id: long(bytes, 16),
            lsn: long(bytes, 24),
            previous: long(bytes, 32),
            segment_bytes: long(bytes, 40),
            keep_records,
            follows_gap: !is_snapshot && bytes[48] == 1,
        };
        if header.follows_gap && header.previous == 0 {
            return Err(BadHeader::Damaged("the header has bytes that no writer sets"));
        }
        // Counting up from a number within this limit never overflows.
        if header.lsn > LARGEST_LSN || (header.previous != 0 && header.previous >= header.lsn) {
            return Err(BadHeader::Damaged("the header has numbers that no writer sets"));
        }
        Ok(header)
    }

    fn crc(bytes: &[u8; HEADER]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..])
    }
}

/// Header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) lsn: Lsn,
    /// Number of records that precede this record in its group.
    pub(crate) group_index: u32,
    pub(crate) kind: u8,
    pub(crate) payload_bytes: u32,
}

impl Head {
    /// Returns the number of the first record of its group. The records of one group became durable together: either
    /// all of them are durable, or the group is the last one and was never acknowledged.
    pub(crate) fn group_lsn(&self) -> Lsn {
        self.lsn.saturating_sub(u64::from(self.group_index))
    }

    pub(crate) fn bytes(&self) -> u64 {
        record_bytes(self.payload_bytes as usize)
    }
}

/// Result of parsing at an offset of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// A valid record.
    Record(Head),
    /// The bytes end within what may be a record. The field is the number of bytes that this record needs.
    Partial(usize),
    /// There are zeros instead of a header, or too few bytes for a header: the records end here without damage.
    End,
    /// The bytes are not a record. The field is the reason.
    Bad(&'static str),
}

/// Parses the record at the beginning of `bytes`, which may contain only the first of the `room` bytes that the segment
/// has left.
pub(crate) fn parse(seed: u32, bytes: &[u8], room: u64) -> Parsed {
    if room < RECORD_HEADER_BYTES {
        return Parsed::End;
    }
    let Some(header) = bytes.first_chunk::<RECORD>() else {
        return Parsed::Partial(RECORD);
    };
    if header.iter().all(|byte| *byte == 0) {
        return Parsed::End;
    }
    let head = Head {
        lsn: long(header, 8),
        group_index: word(header, 16),
        kind: header[20],
        payload_bytes: word(header, 4),
    };
    if head.payload_bytes > LARGEST_PAYLOAD_BYTES || head.bytes() > room {
        return Parsed::Bad("the record's length reaches past the end of the segment");
    }
    if head.lsn <= u64::from(head.group_index) || header[21..] != [0; 3] {
        return Parsed::Bad("the record header is invalid");
    }
    let Some(record) = bytes.get(..head.bytes() as usize) else {
        return Parsed::Partial(head.bytes() as usize);
    };
    if word(header, 0) != crc32c::crc32c_append(seed, &record[4..]) {
        return Parsed::Bad("the CRC is wrong");
    }
    let padding = record
        .get(RECORD + head.payload_bytes as usize..)
        .unwrap_or_default();
    if padding.iter().any(|byte| *byte != 0) {
        return Parsed::Bad("the padding of the record is not zero");
    }
    Parsed::Record(head)
}

/// Appends a record, whose payload is given in parts. The caller has checked that the payload is not too long.
pub(crate) fn encode(seed: u32, head: Head, payload: &[&[u8]], out: &mut Vec<u8>) {
    let start = out.len();
    let mut header = [0; RECORD];
    header[4..8].copy_from_slice(&head.payload_bytes.to_le_bytes());
    header[8..16].copy_from_slice(&head.lsn.to_le_bytes());
    header[16..20].copy_from_slice(&head.group_index.to_le_bytes());
    header[20] = head.kind;
    out.extend_from_slice(&header);
    payload.iter().for_each(|part| out.extend_from_slice(part));
    out.resize(out.len().next_multiple_of(8).max(start + RECORD), 0);
    let crc = crc32c::crc32c_append(seed, &out[start + 4..]);
    out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
}
