//! Options of a journal.

use crate::error::{Error, Result};
use crate::format::{LARGEST_PAYLOAD_BYTES, SEGMENT_HEADER_BYTES, record_bytes};

/// Sizes and behaviour of a journal. The sizes may change from one opening to the next, because each file contains its
/// own sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Size of a new segment file in bytes, allocated at once. Default 64 MiB.
    pub segment_bytes: u64,
    /// Maximum payload of a record in bytes. Default 1 MiB; at most 16 MiB.
    pub record_bytes_max: u32,
    /// Maximum size of a group in bytes, headers included; must fit into a segment. Default 16 MiB.
    pub group_bytes_max: u64,
    /// True if the journal keeps all records. A snapshot then only shortens the next start and replaces no record;
    /// nothing is pruned, and [`repair`](crate::repair) drops snapshots rather than records. Every snapshot contains
    /// this setting. Default false.
    pub keep_records: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            segment_bytes: 64 << 20,
            record_bytes_max: 1 << 20,
            group_bytes_max: 16 << 20,
            keep_records: false,
        }
    }
}

impl Options {
    /// Returns small sizes for tests: segments of 4 KiB, payloads of 1 KiB, groups of 3 KiB.
    pub fn small() -> Options {
        Options {
            segment_bytes: 4096,
            record_bytes_max: 1024,
            group_bytes_max: 3072,
            keep_records: false,
        }
    }

    /// Checks that the sizes are consistent.
    pub(crate) fn check(&self) -> Result<()> {
        let bad = |what| Err(Error::BadOptions { what });
        if self.record_bytes_max > LARGEST_PAYLOAD_BYTES {
            return bad("record_bytes_max is more than 16 MiB");
        }
        if record_bytes(self.record_bytes_max as usize) > self.group_bytes_max {
            return bad("group_bytes_max does not hold one record of record_bytes_max");
        }
        if !self.segment_bytes.is_multiple_of(8) || self.segment_bytes > 1 << 32 {
            return bad("segment_bytes must be a multiple of 8, at most 4 GiB");
        }
        if self.group_bytes_max > self.segment_bytes.saturating_sub(SEGMENT_HEADER_BYTES) {
            return bad("segment_bytes does not hold its header and one group of group_bytes_max");
        }
        Ok(())
    }
}
