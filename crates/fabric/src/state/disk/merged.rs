//! Iterator over a range of keys, which merges the database with later changes in memory.

use super::{Disk, catch_panic, entry_of};
use crate::state::{Entry, Update};
use fjall::Guard;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A range of the database, merged with later changes.
pub(super) struct MergedRange<'a> {
    pub disk: &'a Disk,
    /// Number of bytes before the key in the key's place (its database key).
    pub head: usize,
    pub on_disk: Option<fjall::Iter>,
    pub next: Option<(Vec<u8>, Entry)>,
    pub changed: BTreeMap<&'a [u8], &'a Update>,
}

impl MergedRange<'_> {
    /// Returns the next entry of the database.
    fn read(&mut self) -> Option<(Vec<u8>, Entry)> {
        let on_disk = self.on_disk.as_mut()?;
        match catch_panic(|| on_disk.next().map(Guard::into_inner).transpose()) {
            Ok(None) => None,
            Ok(Some((db_key, bytes))) => {
                let key = db_key.get(self.head..).unwrap_or_default().to_vec();
                Some((key, self.disk.decode(&bytes)?))
            }
            Err(error) => {
                self.disk.fail(&error);
                None
            }
        }
    }
}

impl<'a> Iterator for MergedRange<'a> {
    type Item = (Cow<'a, [u8]>, Entry);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.next.is_none() {
                self.next = self.read();
            }
            let changed = self.changed.first_key_value().map(|(key, _)| *key);
            let (key, update) = match (&self.next, changed) {
                (Some((on_disk, _)), Some(changed)) if changed <= on_disk.as_slice() => {
                    if changed == on_disk.as_slice() {
                        self.next = None;
                    }
                    self.changed.pop_first()?
                }
                (None, Some(_)) => self.changed.pop_first()?,
                (Some(_), _) => {
                    let (key, entry) = self.next.take()?;
                    return Some((Cow::Owned(key), entry));
                }
                (None, None) => return None,
            };
            if let Some(entry) = entry_of(update) {
                return Some((Cow::Borrowed(key), entry));
            }
        }
    }
}
