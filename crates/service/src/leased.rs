//! A running service with one UDP address and one fast path. The fast path answers only while the host renews its
//! lease.

use crate::{Endpoint, Frontend, LeaseRenewal, Running, StartContext, StatusBuilder};
use anyhow::Context;
use lineside_fastpath::{FastPath, Host, Readers, lease};
use lineside_net::SocketDatapath;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Functions of a service that [`RunningLeased`] calls.
pub trait Leased: Send + Sync + 'static {
    /// Name of the service.
    const NAME: &'static str;

    /// Returns the word of the fast-path table that holds the end of the lease.
    fn lease_until_ns(&self) -> &AtomicU64;

    /// Returns a text that is appended to the description of the running service, such as `, the fast path kept from
    /// before` for a fast path that an earlier server left attached.
    fn note(&self) -> &'static str {
        ""
    }

    /// Returns further addresses on which the service listens, in addition to its UDP address.
    fn endpoints(&self) -> Vec<Endpoint> {
        Vec::new()
    }

    /// Ends everything that the service runs except its datapath and its lease. The caller calls it once, before the
    /// datapath ends.
    fn stop(&self) {}

    /// Adds the state of the service to a status.
    fn status(&self, frontend: &Frontend, out: &mut StatusBuilder);
}

/// Running service that consists of one fast path, its host, and a thread that renews the lease.
pub struct RunningLeased<T: Leased> {
    state: Arc<T>,
    frontend: Arc<Frontend>,
    renewal: Option<LeaseRenewal>,
    has_stopped: bool,
}

impl<F: Leased + FastPath> RunningLeased<F> {
    /// Starts a service that listens on `listen` with one host thread and whose state is its fast path. See
    /// [`RunningLeased::begin`] for the other arguments.
    ///
    /// # Errors
    /// The reason why the service cannot listen. Nothing keeps running then.
    pub fn start(
        context: &StartContext,
        listen: SocketAddr,
        length: Duration,
        (fastpath, host): (Arc<F>, Arc<dyn Host + Send + Sync>),
        is_well: impl Fn() -> bool + Send + 'static,
    ) -> anyhow::Result<Box<dyn Running>> {
        let readers = Readers::new(context.attachment.has_programs());
        let answers_first = Arc::clone(&fastpath);
        let socket = SocketDatapath::start(context.socket_options(listen), answers_first, host, &readers)
            .with_context(|| cannot_listen(F::NAME, listen))?;
        Self::begin(context, socket, length, fastpath, is_well)
    }
}

/// Returns the error message of a service that cannot listen on `listen`. Its remedy is right for `lineside run`, which
/// has no option for the address of a service, and for the command that serves this service alone.
pub fn cannot_listen(service: &str, listen: SocketAddr) -> String {
    format!("{service} cannot listen on {listen}; set another address by `listen` in [{service}] or --listen")
}

impl<T: Leased> RunningLeased<T> {
    /// Begins the lease of a service that listens on `socket`. The lease lasts for `length` and is renewed several
    /// times within this time. `is_well` is called before each renewal. The lease is not renewed and ends if `is_well`
    /// returns false, or if it does not return because the host is stuck.
    ///
    /// # Errors
    /// The system's error if the thread cannot be started. Nothing keeps running then.
    pub fn begin(
        context: &StartContext,
        socket: SocketDatapath,
        length: Duration,
        state: Arc<T>,
        is_well: impl Fn() -> bool + Send + 'static,
    ) -> anyhow::Result<Box<dyn Running>> {
        let (renewed, length_ns) = (Arc::clone(&state), length.as_nanos() as u64);
        lease::renew(state.lease_until_ns(), length_ns);
        let renewal = LeaseRenewal::start(length, move || {
            if is_well() {
                report_lost_lease(T::NAME, renewed.lease_until_ns());
                lease::renew(renewed.lease_until_ns(), length_ns);
            }
        })?;
        Ok(Box::new(Self {
            state,
            frontend: Arc::new(Frontend::new(socket, context)),
            renewal: Some(renewal),
            has_stopped: false,
        }))
    }
}

/// Logs a warning if a lease that is about to be renewed has already ended, with the time since its end.
pub fn report_lost_lease(service: &str, until_ns: &AtomicU64) {
    let lost_ms = lease::now_ns().saturating_sub(until_ns.load(Relaxed)) / 1_000_000;
    if lost_ms > 0 {
        tracing::warn!(
            service,
            lost_ms,
            "the fast path did not answer for a time: its lease had ended, because the host thread was stuck for too \
             long; it answers again"
        );
    }
}

impl<T: Leased> Running for RunningLeased<T> {
    fn name(&self) -> &'static str {
        T::NAME
    }

    fn endpoints(&self) -> Vec<Endpoint> {
        let udp = Endpoint {
            protocol: "udp",
            address: self.frontend.socket.local_addr(),
        };
        std::iter::once(udp).chain(self.state.endpoints()).collect()
    }

    fn description(&self) -> String {
        format!("{}{}", self.frontend.description(), self.state.note())
    }

    fn status(&self) -> Arc<dyn Fn(&mut StatusBuilder) + Send + Sync> {
        let (state, frontend) = (Arc::clone(&self.state), Arc::clone(&self.frontend));
        Arc::new(move |out| state.status(&frontend, out))
    }

    fn stop(&mut self, keeps_fast_path: bool) -> anyhow::Result<()> {
        if std::mem::replace(&mut self.has_stopped, true) {
            return Ok(());
        }
        self.state.stop();
        drop(self.renewal.take());
        if !keeps_fast_path {
            lease::end(self.state.lease_until_ns());
        }
        self.frontend.socket.stop();
        Ok(())
    }
}

impl<T: Leased> Drop for RunningLeased<T> {
    fn drop(&mut self) {
        if let Err(error) = self.stop(false) {
            tracing::error!("{error:#}");
        }
    }
}
