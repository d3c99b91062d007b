//! Caches that map identities to the records that hold them, and records to identities. A cache that has grown too
//! large is cleared; the identities in it are then read again, or written to new records.

use super::error::LedgerError;
use super::record::kind;
use hashbrown::HashMap;
use lineside_journal::{Disk, Lsn, Reader};
use std::sync::Arc;

/// Size in bytes at which a cache is cleared.
const CACHE_BYTES: usize = 64 << 20;
/// Approximate memory of an entry in addition to the identity, in bytes.
const ENTRY_BYTES: usize = 64;

/// Cache of identities by record, for readers.
#[derive(Default, Debug)]
pub(crate) struct Identities {
    by_lsn: HashMap<Lsn, Arc<[u8]>>,
    bytes: usize,
}

impl Identities {
    pub fn add(&mut self, lsn: Lsn, identity: &[u8]) {
        if self.bytes >= CACHE_BYTES {
            self.by_lsn.clear();
            self.bytes = 0;
        }
        if self.by_lsn.insert(lsn, identity.into()).is_none() {
            self.bytes += identity.len() + ENTRY_BYTES;
        }
    }

    /// Returns the identities in the records `table`, which is ascending. Segments with records that are not cached are
    /// read.
    pub fn resolve<D: Disk>(
        &mut self,
        reader: &Reader<D>,
        table: &[Lsn],
    ) -> Result<Vec<Arc<[u8]>>, LedgerError> {
        let mut identities = Vec::with_capacity(table.len());
        let mut missing = Vec::new();
        for (index, lsn) in table.iter().enumerate() {
            match self.by_lsn.get(lsn) {
                Some(identity) => identities.push(identity.clone()),
                None => {
                    identities.push([].into());
                    missing.push((index, *lsn));
                }
            }
        }
        let mut missing = missing.into_iter().peekable();
        while let Some((_, lsn)) = missing.peek().copied() {
            let wrong = |lsn, what| LedgerError::Record { lsn, what };
            let segment = reader
                .segment_of(lsn)
                .ok_or(wrong(lsn, "a block refers to this record, which does not exist"))?;
            let mut records = reader.records(segment)?;
            while let Some((index, wanted_lsn)) = missing.peek().copied() {
                if reader.segment_of(wanted_lsn) != Some(segment) {
                    break;
                }
                let Some(record) = records.next()? else {
                    return Err(wrong(
                        wanted_lsn,
                        "a block refers to this record, which does not exist",
                    ));
                };
                if record.kind == kind::IDENTITY {
                    self.add(record.lsn, record.payload);
                }
                if record.lsn < wanted_lsn {
                    continue;
                }
                if record.lsn > wanted_lsn || record.kind != kind::IDENTITY {
                    return Err(wrong(
                        wanted_lsn,
                        "a block refers to this record, which is not an identity",
                    ));
                }
                if let Some(slot) = identities.get_mut(index) {
                    *slot = record.payload.into();
                }
                missing.next();
            }
        }
        Ok(identities)
    }
}

/// Cache of records by identity, for the writer.
#[derive(Default, Debug)]
pub(crate) struct IdentityCache {
    lsns: HashMap<Box<[u8]>, Lsn>,
    bytes: usize,
}

impl IdentityCache {
    pub fn get(&self, identity: &[u8]) -> Option<Lsn> {
        self.lsns.get(identity).copied()
    }

    pub fn add(&mut self, identity: &[u8], lsn: Lsn) {
        if self.bytes >= CACHE_BYTES {
            self.lsns.clear();
            self.bytes = 0;
        }
        if self.lsns.insert(identity.into(), lsn).is_none() {
            self.bytes += identity.len() + ENTRY_BYTES;
        }
    }
}
