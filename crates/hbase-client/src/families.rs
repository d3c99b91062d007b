//! How long the cells of a table's families live, asked for again when the table was altered.

use crate::{ColumnName, TableError};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Names of families, and milliseconds that their cells live, of those that do not live for ever.
pub(crate) type Lives = Vec<(Vec<u8>, u64)>;

/// What was last heard of it.
#[derive(Debug)]
pub(crate) struct Families {
    /// `None`: it may be otherwise by now.
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

    /// The table was altered: what it says is asked for before anybody goes by it again.
    pub(crate) fn outdate(&self) {
        *self.lives_ms() = None;
    }

    /// Milliseconds that cells of `column` live, where they end; `ask` is asked where that must be known anew, and 0 is
    /// said where it has no answer: nothing may be kept then.
    pub(crate) fn life_ms(
        &self,
        column: &ColumnName,
        ask: impl FnOnce() -> Result<Lives, TableError>,
    ) -> Option<u64> {
        // Held while asking: nobody goes by what was true before.
        let mut lives_ms = self.lives_ms();
        if lives_ms.is_none() {
            match ask() {
                Ok(found) => *lives_ms = Some(found),
                Err(error) => {
                    tracing::warn!(%error, "the table does not say how long its cells live: nothing is kept");
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
        let never = || panic!("it is known");
        let families = Families::new(vec![(b"entry".to_vec(), 5000)]);
        assert_eq!(families.life_ms(&column, never), Some(5000));
        families.outdate();
        let silent = || Err(TableError::Unavailable("nobody answers".into()));
        assert_eq!(families.life_ms(&column, silent), Some(0));
        assert_eq!(families.life_ms(&column, || Ok(Vec::new())), None);
        assert_eq!(families.life_ms(&column, never), None);
    }
}
