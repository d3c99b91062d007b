//! Who asks another's Deliver, and over which TLS: options that several verbs have.

use crate::wrong::Wrong;
use clap::Args;
use lineside_fabric_grpc::client::Options;
use lineside_fabric_grpc::{ClientTls, Signer};
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

/// What is wrong with TLS, and in which of these files.
pub fn unusable(files: &[Option<&PathBuf>], error: &dyn Display) -> Wrong {
    let files = files.iter().flatten().map(|path| path.display().to_string());
    Wrong(format!("{}: {error}", files.collect::<Vec<_>>().join(", ")))
}

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
        let signer = Signer::from_msp_folder(&self.msp_id, &self.msp)
            .map_err(|error| Wrong(format!("--msp {}: {error}", self.msp.display())))?;
        let mut options = Options::new(endpoints.to_vec(), Arc::new(signer), channel, from);
        let own = self.tls_certificate.as_deref().zip(self.tls_key.as_deref());
        if let Some(roots) = &self.tls_ca {
            let files = [Some(roots), self.tls_certificate.as_ref(), self.tls_key.as_ref()];
            let tls = ClientTls::from_files(roots, own);
            options.tls = Some(tls.map_err(|error| unusable(&files, &error))?);
        }
        options.on_left = Some(Arc::new(|endpoint, left| {
            tell!("lineside: {endpoint}: {left}");
        }));
        Ok(options)
    }
}
