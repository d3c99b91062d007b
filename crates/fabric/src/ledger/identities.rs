//! Identities by the record that holds them, and records by the identity. Both forget when they have grown too large:
//! an identity is then read, or written, again.

use super::error::LedgerError;
use super::record::kind;
use hashbrown::HashMap;
use lineside_journal::{Disk, Lsn, Reader};
use std::sync::Arc;

/// Bytes that one direction keeps.
const KEPT_BYTES: usize = 64 << 20;
/// Bytes beside an identity's own, about.
const ENTRY_BYTES: usize = 64;

/// Identities that were read.
#[derive(Default, Debug)]
pub(crate) struct Identities {
    by_lsn: HashMap<Lsn, Arc<[u8]>>,
    bytes: usize,
}

impl Identities {
    pub fn add(&mut self, lsn: Lsn, identity: &[u8]) {
        if self.bytes >= KEPT_BYTES {
            self.by_lsn.clear();
            self.bytes = 0;
        }
        if self.by_lsn.insert(lsn, identity.into()).is_none() {
            self.bytes += identity.len() + ENTRY_BYTES;
        }
    }

    /// Those at `table`, which ascends; reads the segments of those that are not here.
    pub fn resolve<D: Disk>(
        &mut self,
        reader: &Reader<D>,
        table: &[Lsn],
    ) -> Result<Vec<Arc<[u8]>>, LedgerError> {
        let mut found = Vec::with_capacity(table.len());
        let mut missing = Vec::new();
        for (place, lsn) in table.iter().enumerate() {
            match self.by_lsn.get(lsn) {
                Some(identity) => found.push(identity.clone()),
                None => {
                    found.push([].into());
                    missing.push((place, *lsn));
                }
            }
        }
        let mut missing = missing.into_iter().peekable();
        while let Some((_, lsn)) = missing.peek().copied() {
            let wrong = |lsn, what| LedgerError::Record { lsn, what };
            let segment = reader
                .segment_of(lsn)
                .ok_or(wrong(lsn, "a block refers to it, and it is not there"))?;
            let mut records = reader.records(segment)?;
            while let Some((place, wanted)) = missing.peek().copied() {
                if reader.segment_of(wanted) != Some(segment) {
                    break;
                }
                let Some(record) = records.next()? else {
                    return Err(wrong(wanted, "a block refers to it, and it is not there"));
                };
                if record.kind == kind::IDENTITY {
                    self.add(record.lsn, record.payload);
                }
                if record.lsn < wanted {
                    continue;
                }
                if record.lsn > wanted || record.kind != kind::IDENTITY {
                    return Err(wrong(wanted, "a block refers to it, and it is no identity"));
                }
                if let Some(found) = found.get_mut(place) {
                    *found = record.payload.into();
                }
                missing.next();
            }
        }
        Ok(found)
    }
}

/// Identities that were written.
#[derive(Default, Debug)]
pub(crate) struct Known {
    lsns: HashMap<Box<[u8]>, Lsn>,
    bytes: usize,
}

impl Known {
    pub fn get(&self, identity: &[u8]) -> Option<Lsn> {
        self.lsns.get(identity).copied()
    }

    pub fn add(&mut self, identity: &[u8], lsn: Lsn) {
        if self.bytes >= KEPT_BYTES {
            self.lsns.clear();
            self.bytes = 0;
        }
        if self.lsns.insert(identity.into(), lsn).is_none() {
            self.bytes += identity.len() + ENTRY_BYTES;
        }
    }
}
