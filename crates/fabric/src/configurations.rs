//! The configurations of a channel after the block at which a replica stopped: who may read changes also while the
//! replica cannot go on. A configuration depends on the one before it and on no other state.

use crate::config::Config;
use crate::error::Error;
use crate::read::{Reader, Setting, Tip};
use crate::validate::Validator;
use std::sync::Arc;

/// Follows the blocks of a channel for their configurations only.
#[derive(Debug)]
pub struct Configurations {
    reader: Reader,
    tip: Tip,
}

impl Configurations {
    /// From the block on that `validator` takes next.
    pub fn after(validator: &Validator) -> Self {
        let mut reader = validator.reader.clone();
        reader.early = None;
        Self {
            reader,
            tip: validator.tip(),
        }
    }

    /// The number of the block to follow next.
    pub fn next(&self) -> u64 {
        self.tip.number + 1
    }

    /// Follows the next block; returns the configuration that it sets, if it sets one.
    ///
    /// # Errors
    /// [`Error::Refused`] where a peer would not take the block, [`Error::Stop`] where this program does not know what
    /// the configuration becomes. Nothing has changed then.
    pub fn follow(&mut self, bytes: &[u8]) -> Result<Option<Arc<Config>>, Error> {
        let (tip, config) = self.reader.read_config(bytes, self.tip)?;
        self.tip = tip;
        if let Some(config) = &config {
            self.reader.setting = Setting::new(config.clone());
        }
        Ok(config)
    }
}
