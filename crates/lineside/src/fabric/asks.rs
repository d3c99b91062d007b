//! Who asks another's Deliver, and over which TLS: options that several verbs have.

use crate::wrong::Wrong;
use clap::Args;
use lineside_fabric_grpc::client::{Left, Options};
use lineside_fabric_grpc::{ClientTls, Signer};
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

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
    /// Our certificate for mutual TLS with them, which most networks ask for.
    #[arg(long, requires_all = ["tls_ca", "tls_key"])]
    tls_certificate: Option<PathBuf>,
    /// Its key.
    #[arg(long, requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Host name that the endpoints' certificates are for [default: that of each endpoint]
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    tls_host_name: Option<String>,
}

/// End of a command whose endpoints have all refused it before one of them answered.
pub struct Refusals {
    endpoints: usize,
    /// Refusals in a row; `None` once an endpoint has answered.
    in_a_row: Mutex<Option<usize>>,
    why: watch::Sender<Option<String>>,
}

impl Refusals {
    fn new(endpoints: usize) -> Arc<Self> {
        Arc::new(Self {
            endpoints,
            in_a_row: Mutex::new(Some(0)),
            why: watch::Sender::new(None),
        })
    }

    /// Notes that an endpoint answered: refusals from now on may pass.
    pub fn answered(&self) {
        *self.in_a_row.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Notes an endpoint that was left.
    fn left(&self, endpoint: &str, left: &Left) {
        let mut in_a_row = self.in_a_row.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = &mut *in_a_row else { return };
        *count = if left.is_final() { *count + 1 } else { 0 };
        if *count >= self.endpoints {
            self.why.send_replace(Some(format!("{endpoint}: {left}")));
        }
    }

    /// Waits until all endpoints have refused; returns the last one's reason.
    pub async fn wait(&self) -> String {
        let mut why = self.why.subscribe();
        loop {
            if let Some(why) = why.borrow_and_update().clone() {
                return why;
            }
            // The sender lives as long as this.
            let _ = why.changed().await;
        }
    }
}

impl Asks {
    /// Returns how `channel` is followed at these endpoints from block `from` on, and what ends that. Endpoints that
    /// are left, and why, go to standard error.
    ///
    /// # Errors
    /// Files that cannot be used.
    pub fn following(
        &self,
        endpoints: &[String],
        channel: &str,
        from: u64,
    ) -> anyhow::Result<(Options, Arc<Refusals>)> {
        let signer = Signer::from_msp_folder(&self.msp_id, &self.msp)
            .map_err(|error| Wrong(format!("--msp {}: {error}", self.msp.display())))?;
        let mut options = Options::new(endpoints.to_vec(), Arc::new(signer), channel, from);
        let own = self.tls_certificate.as_deref().zip(self.tls_key.as_deref());
        if let Some(roots) = &self.tls_ca {
            let files = [Some(roots), self.tls_certificate.as_ref(), self.tls_key.as_ref()];
            let tls = ClientTls::from_files(roots, own);
            let tls = tls.map_err(|error| unusable(&files, &error))?;
            options.tls = Some(match &self.tls_host_name {
                Some(name) => tls.server_name(name),
                None => tls,
            });
        }
        let refusals = Refusals::new(endpoints.len());
        let (on_left, on_held) = (Arc::clone(&refusals), Arc::clone(&refusals));
        options.on_left = Some(Arc::new(move |endpoint, left| {
            // An idle channel is no news, and what ends the command is said at its end.
            on_left.left(endpoint, left);
            if *left != Left::Silent && on_left.why.borrow().is_none() {
                tell!("lineside: {endpoint}: {left}");
            }
        }));
        options.on_held = Some(Arc::new(move |_| on_held.answered()));
        Ok((options, refusals))
    }
}
