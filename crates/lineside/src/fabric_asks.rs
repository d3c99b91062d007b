//! Who asks another's Deliver, and over which TLS: options that several verbs have.

use clap::Args;
use lineside_fabric_grpc::client::Options;
use lineside_fabric_grpc::{ClientTls, Signer};
use std::path::PathBuf;
use std::sync::Arc;

/// Who asks.
#[derive(Args)]
pub struct Asks {
    /// The MSP of whom signs the requests.
    #[arg(long)]
    msp_id: String,
    /// Its folder, with signcerts and keystore.
    #[arg(long)]
    msp: PathBuf,
    /// CA certificates that the endpoints' TLS certificates are checked with; without them there is no TLS.
    #[arg(long)]
    tls_ca: Option<PathBuf>,
    /// Our certificate for mutual TLS with them.
    #[arg(long, requires_all = ["tls_ca", "tls_key"])]
    tls_certificate: Option<PathBuf>,
    /// Its key.
    #[arg(long, requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
}

impl Asks {
    /// Follows `channel` at these endpoints from block `from` on; who is left, and why, goes to standard error.
    pub fn following(&self, endpoints: &[String], channel: &str, from: u64) -> anyhow::Result<Options> {
        let signer = Arc::new(Signer::from_msp_folder(&self.msp_id, &self.msp)?);
        let mut options = Options::new(endpoints.to_vec(), signer, channel, from);
        let own = self.tls_certificate.as_deref().zip(self.tls_key.as_deref());
        options.tls = match &self.tls_ca {
            Some(roots) => Some(ClientTls::from_files(roots, own)?),
            None => None,
        };
        options.on_left = Some(Arc::new(|endpoint, left| {
            tell!("lineside: {endpoint}: {left}");
        }));
        Ok(options)
    }
}
