//! Group of records that become durable together.

use crate::Lsn;
use crate::error::{Error, Result};
use crate::format::{Head, encode, record_bytes, word};

/// Encoded records of a group, with consecutive numbers.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) bytes: Vec<u8>,
    /// Number of the first record.
    pub(crate) first_lsn: Lsn,
    pub(crate) records: u32,
}

impl Group {
    pub(crate) fn starting_at(first_lsn: Lsn) -> Group {
        Group {
            bytes: Vec::new(),
            first_lsn,
            records: 0,
        }
    }

    /// Returns the number of the next record.
    pub(crate) fn next_lsn(&self) -> Lsn {
        self.first_lsn + u64::from(self.records)
    }

    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Adds a record whose payload is given in parts, and returns its number.
    pub(crate) fn push(&mut self, seed: u32, kind: u8, payload: &[&[u8]]) -> Lsn {
        let lsn = self.next_lsn();
        let head = Head {
            lsn,
            group_index: self.records,
            kind,
            payload_bytes: payload.iter().map(|part| part.len()).sum::<usize>() as u32,
        };
        encode(seed, head, payload, &mut self.bytes);
        self.records += 1;
        lsn
    }

    /// Removes all records, sets the number of the next one, and keeps the memory.
    pub(crate) fn restart(&mut self, first_lsn: Lsn) {
        self.bytes.clear();
        (self.first_lsn, self.records) = (first_lsn, 0);
    }

    /// Returns how many of the first records fit into `room` bytes: their size in bytes, and their number.
    pub(crate) fn fitting(&self, room: u64) -> (usize, u32) {
        if self.len() <= room {
            return (self.bytes.len(), self.records);
        }
        let (mut at, mut records) = (0, 0);
        while let Some(header) = self.bytes.get(at..) {
            let end = at + record_bytes(word(header, 4) as usize) as usize;
            if end as u64 > room || end > self.bytes.len() {
                break;
            }
            (at, records) = (end, records + 1);
        }
        (at, records)
    }
}

/// Returns an error if a payload is too long.
pub(crate) fn check_payload(payload_bytes: usize, max_bytes: u32) -> Result<()> {
    if payload_bytes as u64 > u64::from(max_bytes) {
        let (bytes, max_bytes) = (payload_bytes as u64, u64::from(max_bytes));
        return Err(Error::RecordTooLarge { bytes, max_bytes });
    }
    Ok(())
}
