//! Options of verbs that request blocks from peers or orderers: the identity that signs the requests, and TLS.

use crate::wrong::Wrong;
use clap::Args;
use lineside_fabric_grpc::client::{LeaveReason, Options};
use lineside_fabric_grpc::{ClientTls, Signer};
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// Returns the error for TLS files that cannot be used; names all of `files`.
pub fn unusable(files: &[Option<&PathBuf>], error: &dyn Display) -> Wrong {
    let files = files.iter().flatten().map(|path| path.display().to_string());
    Wrong(format!("{}: {error}", files.collect::<Vec<_>>().join(", ")))
}

/// Identity that signs requests, and TLS settings.
#[derive(Args)]
pub struct RequestIdentity {
    /// MSP id of the identity that signs the requests, such as Org1MSP.
    #[arg(long, value_name = "NAME")]
    msp_id: String,
    /// MSP folder of that identity, with `signcerts` and `keystore`.
    #[arg(long, value_name = "DIR")]
    msp: PathBuf,
    /// File with the CA certificates to trust for the endpoints' TLS [default: no TLS]
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// File with the client certificate for mutual TLS, which most networks require.
    #[arg(long, value_name = "FILE", requires_all = ["tls_ca", "tls_key"])]
    tls_certificate: Option<PathBuf>,
    /// File with the key of --tls-certificate.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Host name in the endpoints' certificates [default: host of each endpoint]
    #[arg(long, value_name = "NAME", requires = "tls_ca")]
    tls_host_name: Option<String>,
}

/// Detects that all endpoints refused the requests before any of them answered; the command then ends.
pub struct Refusals {
    endpoints: usize,
    /// Number of consecutive refusals by endpoints; `None` after an endpoint has answered.
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

    /// Notes that an endpoint answered; later refusals do not end the command.
    pub fn answered(&self) {
        *self.in_a_row.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Notes that the connection to an endpoint was given up.
    fn on_left(&self, endpoint: &str, left: &LeaveReason) {
        let mut in_a_row = self.in_a_row.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(count) = &mut *in_a_row else { return };
        *count = if left.is_final() { *count + 1 } else { 0 };
        if *count >= self.endpoints {
            self.why.send_replace(Some(format!("{endpoint}: {left}")));
        }
    }

    /// Waits until all endpoints have refused; returns the reason of the last one.
    pub async fn wait(&self) -> String {
        let mut why = self.why.subscribe();
        loop {
            if let Some(why) = why.borrow_and_update().clone() {
                return why;
            }
            // The sender lives as long as `self`, so this cannot fail.
            let _ = why.changed().await;
        }
    }
}

/// Returns the message for an endpoint that was left, with the next attempt.
fn left_text(endpoint: &str, why: &str, next: &str, pause: Duration) -> String {
    let seconds = pause.as_secs_f64();
    match next == endpoint {
        true => format!("{endpoint}: {why}; next attempt in {seconds:.1} s"),
        false => format!("{endpoint}: {why}; next attempt at {next} in {seconds:.1} s"),
    }
}

impl RequestIdentity {
    /// Returns the options for following `channel` at these endpoints from block `from` on, and the detector of
    /// refusals. The options print each endpoint that is given up, with the reason, to standard error.
    ///
    /// # Errors
    /// The MSP folder or a TLS file cannot be used.
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
        let left_endpoint: Arc<Mutex<Option<(String, String)>>> = Arc::default();
        let taken = Arc::clone(&left_endpoint);
        options.on_left = Some(Arc::new(move |endpoint, left| {
            // An idle channel is not printed. The refusal that ends the command is not printed either, because the
            // command then fails with this refusal as its error.
            on_left.on_left(endpoint, left);
            if *left != LeaveReason::Silent && on_left.why.borrow().is_none() {
                let said = Some((endpoint.to_owned(), left.to_string()));
                *left_endpoint.lock().unwrap_or_else(PoisonError::into_inner) = said;
            }
        }));
        options.on_pause = Some(Arc::new(move |next, pause| {
            if let Some((endpoint, why)) = taken.lock().unwrap_or_else(PoisonError::into_inner).take() {
                tell!("lineside: {}", left_text(&endpoint, &why, next, pause));
            }
        }));
        options.on_held = Some(Arc::new(move |_| on_held.answered()));
        Ok((options, refusals))
    }
}
