//! Cache of the lifetimes of a table's column families. They are requested again after the table was altered.

use crate::{ColumnName, TableError};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Names of the families whose cells have a finite lifetime, and the lifetimes in milliseconds.
pub(crate) type Lives = Vec<(Vec<u8>, u64)>;

/// Cached lifetimes of a table's column families.
#[derive(Debug)]
pub(crate) struct Families {
    /// Lifetimes of the families; `None` if they may have changed and must be requested.
    lives_ms: Mutex<Option<Lives>>,
}

impl Families {
    pub(crate) fn new(lives_ms: Lives) -> Self {
        Self {
            lives_ms: Mutex::new(Some(lives_ms)),
        }
    }

    fn lives_ms(&self) -> MutexGuard<'_, Option<Lives>> {
        self.lives_ms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Discards the lifetimes, because the table was altered. The next use requests them again.
    pub(crate) fn outdate(&self) {
        *self.lives_ms() = None;
    }

    /// Returns the lifetime in milliseconds of cells in `column`; `None` if they do not expire. If the lifetimes are
    /// not cached, calls `ask` to request them. If that fails, returns 0, which means that no cell may be cached.
    pub(crate) fn life_ms(
        &self,
        column: &ColumnName,
        ask: impl FnOnce() -> Result<Lives, TableError>,
    ) -> Option<u64> {
        // The lock is held during the request, so that no thread uses outdated lifetimes.
        let mut lives_ms = self.lives_ms();
        if lives_ms.is_none() {
            match ask() {
                Ok(fresh_lives) => *lives_ms = Some(fresh_lives),
                Err(error) => {
                    tracing::warn!(
                        %error,
                        "cannot read the lifetimes of the table's families; no row is cached until HBase returns them"
                    );
                    return Some(0);
                }
            }
        }
        let (family, _) = column.split();
        let mut lives = lives_ms.iter().flatten().filter(|(name, _)| name == family);
        lives.next().map(|(_, life_ms)| *life_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outdated_lifetimes_are_requested_and_count_as_0_until_hbase_answers() {
        let column = ColumnName::new(b"entry:foo").unwrap();
        let never = || panic!("the lifetimes are cached");
        let families = Families::new(vec![(b"entry".to_vec(), 5000)]);
        assert_eq!(families.life_ms(&column, never), Some(5000));
        families.outdate();
        let silent = || Err(TableError::Unavailable("no server answers".into()));
        assert_eq!(families.life_ms(&column, silent), Some(0));
        assert_eq!(families.life_ms(&column, || Ok(Vec::new())), None);
        assert_eq!(families.life_ms(&column, never), None);
    }
}
