//! Options of verbs that receive a channel's blocks from orderers.

use crate::fabric::asks::{Refusals, RequestIdentity};
use clap::Args;
use lineside_fabric_grpc::client::{Options, endpoint};
use std::sync::Arc;

/// Orderers to receive blocks from, and the identity that signs the requests.
#[derive(Args)]
pub struct Following {
    /// Host and port of an orderer; may be given more than once.
    #[arg(long, value_name = "HOST:PORT", required = true, value_parser = endpoint)]
    orderer: Vec<String>,
    #[command(flatten)]
    asks: RequestIdentity,
}

impl Following {
    /// Returns the options for following `channel` from block `from` on, and the detector of refusals.
    ///
    /// # Errors
    /// The MSP folder or a TLS file cannot be used.
    pub fn options(&self, channel: &str, from: u64) -> anyhow::Result<(Options, Arc<Refusals>)> {
        self.asks.following(&self.orderer, channel, from)
    }
}
