//! Which orderer is followed, and as whom.

use crate::fabric::asks::{Asks, Refusals};
use clap::Args;
use lineside_fabric_grpc::client::{Options, endpoint};
use std::sync::Arc;

/// Which orderer is followed, and as whom.
#[derive(Args)]
pub struct Following {
    /// `HOST:PORT` of an orderer; may be given more than once.
    #[arg(long, required = true, value_parser = endpoint)]
    orderer: Vec<String>,
    #[command(flatten)]
    asks: Asks,
}

impl Following {
    /// Returns how `channel` is followed from block `from` on, and what ends that.
    ///
    /// # Errors
    /// Files that cannot be used.
    pub fn options(&self, channel: &str, from: u64) -> anyhow::Result<(Options, Arc<Refusals>)> {
        self.asks.following(&self.orderer, channel, from)
    }
}
