//! Cache of the lifetimes of a table's families, which are requested again when the table was altered.

use crate::{ColumnName, TableError};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Names of the families whose cells have a finite lifetime, and the lifetimes in milliseconds.
pub(crate) type Lives = Vec<(Vec<u8>, u64)>;

/// Cached lifetimes of families.
#[derive(Debug)]
pub(crate) struct Families {
    /// `None` if the lifetimes may have changed.
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

    /// Discards the lifetimes because the table was altered. They are requested again before they are used.
    pub(crate) fn outdate(&self) {
        *self.lives_ms() = None;
    }

    /// Returns the lifetime of cells in `column` in milliseconds, or `None` if they do not expire. Calls `ask` if the
    /// lifetimes must be requested. If that fails, returns 0, which means that nothing may be cached.
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
                        "the lifetimes of the table's families cannot be read; nothing is cached until they can"
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
    fn what_may_be_otherwise_is_asked_for_and_0_until_there_is_an_answer() {
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
