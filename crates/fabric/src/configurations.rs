//! Follows a channel's configurations after the block at which a replica stopped, so that access control stays current
//! although the replica cannot continue. A configuration depends only on the previous one, not on the state.

use crate::config::Config;
use crate::error::Error;
use crate::read::{ChannelContext, Reader, Tip};
use crate::validate::Validator;
use std::sync::Arc;

/// Reads the blocks of a channel in order, only for the channel configurations in them.
#[derive(Debug)]
pub struct Configurations {
    reader: Reader,
    tip: Tip,
}

impl Configurations {
    /// Returns a reader that expects the block after the last one that `validator` committed.
    pub fn after(validator: &Validator) -> Self {
        let mut reader = validator.reader.clone();
        reader.early = None;
        Self {
            reader,
            tip: validator.tip(),
        }
    }

    /// Returns the number of the next block to follow.
    pub fn next(&self) -> u64 {
        self.tip.number + 1
    }

    /// Follows the next block. Returns the configuration that it sets, if it sets one.
    ///
    /// # Errors
    /// [`Error::Refused`] if a peer would reject the block, [`Error::Stop`] if this program cannot determine
    /// the new configuration. After an error, `self` is unchanged.
    pub fn follow(&mut self, bytes: &[u8]) -> Result<Option<Arc<Config>>, Error> {
        let (tip, config) = self.reader.read_config(bytes, self.tip)?;
        self.tip = tip;
        if let Some(config) = &config {
            self.reader.setting = ChannelContext::new(config.clone());
        }
        Ok(config)
    }
}
