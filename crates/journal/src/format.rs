//! Bytes of a segment: its header, and records. All little-endian; `docs/journal.md` has the tables.

/// Version of the layout.
pub const VERSION: u32 = 1;
/// Bytes of a segment's header.
pub const SEGMENT_HEADER_BYTES: u64 = 64;
/// Bytes of a record before its payload.
pub const RECORD_HEADER_BYTES: u64 = 24;
/// A longer payload is no record: bounds what a damaged length makes us read.
pub(crate) const LARGEST_PAYLOAD_BYTES: u32 = 16 << 20;

/// Bytes that a record with so long a payload takes: what to [`reserve`](crate::Journal::reserve) for it.
pub const fn record_bytes(payload_bytes: usize) -> u64 {
    (RECORD_HEADER_BYTES + payload_bytes as u64).next_multiple_of(8)
}
