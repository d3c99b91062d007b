//! A running service with one UDP address, whose fast path answers while its host renews a lease.

use crate::{Endpoint, Frontend, LeaseRenewal, Running, StartContext, StatusBuilder};
use anyhow::Context;
use lineside_fastpath::{FastPath, Host, Readers, lease};
use lineside_net::{SocketDatapath, SocketOptions};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Fast path under a lease: what [`RunningLeased`] must know of it.
pub trait Leased: FastPath + Send + 'static {
    /// Name of the service.
    const NAME: &'static str;

    /// Returns the word of the fast-path table that says when the lease ends.
    fn lease_until_ns(&self) -> &AtomicU64;

    /// Adds the state of the service to a status.
    fn status(&self, frontend: &Frontend, out: &mut StatusBuilder);
}

/// Running service of one fast path, its host, and a thread that renews the lease.
pub struct RunningLeased<F: Leased> {
    fastpath: Arc<F>,
    frontend: Arc<Frontend>,
    renewal: Option<LeaseRenewal>,
    has_stopped: bool,
}

impl<F: Leased> RunningLeased<F> {
    /// Listens on `listen`, then begins the lease, which lasts for `length` unless it is renewed. `ask_host` is called
    /// before each renewal; while it does not return, because the host is stuck, the lease runs out.
    ///
    /// # Errors
    /// The reason why the service cannot listen. Nothing goes on running then.
    pub fn start(
        context: &StartContext,
        listen: SocketAddr,
        length: Duration,
        (fastpath, host): (Arc<F>, Arc<dyn Host + Send + Sync>),
        ask_host: impl Fn() + Send + 'static,
    ) -> anyhow::Result<Box<dyn Running>> {
        let options = SocketOptions {
            listen,
            threads: context.datapath.socket_threads(),
            queue: context.datapath.queue,
        };
        let readers = Readers::new(context.attachment.programs().is_some());
        let answers_first = Arc::clone(&fastpath);
        let socket = SocketDatapath::start(options, answers_first, host, &readers)
            .with_context(|| format!("{} cannot listen on {listen}", F::NAME))?;
        let (renewed, length_ns) = (Arc::clone(&fastpath), length.as_nanos() as u64);
        lease::renew(fastpath.lease_until_ns(), length_ns);
        let renewal = LeaseRenewal::start(length, move || {
            ask_host();
            lease::renew(renewed.lease_until_ns(), length_ns);
        })?;
        Ok(Box::new(Self {
            fastpath,
            frontend: Arc::new(Frontend::new(socket, &context.attachment)),
            renewal: Some(renewal),
            has_stopped: false,
        }))
    }
}

impl<F: Leased> Running for RunningLeased<F> {
    fn name(&self) -> &'static str {
        F::NAME
    }

    fn endpoints(&self) -> Vec<Endpoint> {
        vec![Endpoint {
            protocol: "udp",
            address: self.frontend.socket.local_addr(),
        }]
    }

    fn description(&self) -> String {
        self.frontend.description()
    }

    fn status(&self) -> Arc<dyn Fn(&mut StatusBuilder) + Send + Sync> {
        let (fastpath, frontend) = (Arc::clone(&self.fastpath), Arc::clone(&self.frontend));
        Arc::new(move |out| fastpath.status(&frontend, out))
    }

    fn stop(&mut self, keeps_fast_path: bool) -> anyhow::Result<()> {
        if std::mem::replace(&mut self.has_stopped, true) {
            return Ok(());
        }
        drop(self.renewal.take());
        if !keeps_fast_path {
            lease::end(self.fastpath.lease_until_ns());
        }
        self.frontend.socket.stop();
        Ok(())
    }
}

impl<F: Leased> Drop for RunningLeased<F> {
    fn drop(&mut self) {
        if let Err(error) = self.stop(false) {
            tracing::error!("{error:#}");
        }
    }
}
