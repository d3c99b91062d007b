//! A daemon that runs in the foreground of a command: prints warnings, starts the console, notifies the service
//! manager, and stops on a signal.

use crate::config::Config;
use crate::daemon::{Daemon, Serving};
use crate::notify;
use crate::tcp_port;
use crate::version::{COMMIT, SHORT};
use anyhow::Context;
use lineside_console::{Console, Limits};
use lineside_service::Snapshot;
use rustix::fs::Mode;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Daemon with its console, which runs until SIGTERM, SIGINT or SIGHUP.
pub struct Session {
    daemon: Daemon,
    console: Option<Console>,
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

fn cannot_listen(listen: SocketAddr) -> String {
    format!("the console cannot listen on {listen}; give another address with --console")
}

impl Session {
    /// Starts the services that `config` enables, and the console if `with_console` is true. Logs warnings.
    ///
    /// # Errors
    /// The configuration is wrong, a service cannot start, or the console cannot listen.
    pub fn start(config: &Config, with_console: bool) -> anyhow::Result<Self> {
        // Files that the process creates from here on can be used by its user only.
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
        let checked = config.check()?;
        checked.require_startable()?;
        let listen = with_console.then_some(checked.console.listen);
        let allowed_hosts = checked.console.allowed_hosts.clone();
        // An address that is in use is found before services start, because a start that fails must not leave new
        // directories. The console itself listens when the services have started and signals are handled.
        if let Some(listen) = listen {
            tcp_port::require_free(listen).with_context(|| cannot_listen(listen))?;
        }
        // A thread has its own capabilities, so the daemon drops them before it starts another thread.
        let daemon = Daemon::start(checked)?;
        for warning in daemon.warnings() {
            tracing::warn!("{warning}");
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        // Signal handlers are installed before the daemon reports that it is ready, so that a signal always stops it in
        // order.
        let (terminate, interrupt, hangup) = runtime.block_on(async {
            let terminate = signal(SignalKind::terminate())?;
            let interrupt = signal(SignalKind::interrupt())?;
            std::io::Result::Ok((terminate, interrupt, signal(SignalKind::hangup())?))
        })?;
        let console = listen.map(|listen| {
            let observe = daemon.observed();
            let observed = Arc::new(move || observe());
            Console::start_with(listen, &allowed_hosts, observed, Limits::default())
                .with_context(|| cannot_listen(listen))
        });
        let console = console.transpose()?;
        let serving = daemon.serving();
        let line = |one: &Serving| {
            let also = one.also.iter();
            let also: String = also
                .map(|also| format!(", {} on {}", also.protocol, also.address))
                .collect();
            format!("{} on {} ({}){also}", one.name, one.listen, one.datapath)
        };
        let services: Vec<_> = serving.iter().map(line).collect();
        let services = services.join("; ");
        let console_at = console.as_ref().map(|console| console.local_addr().to_string());
        tracing::info!(
            version = SHORT,
            commit = COMMIT,
            console = console_at,
            services,
            "started"
        );
        notify::ready(&services);
        Ok(Self {
            daemon,
            console,
            runtime,
            terminate,
            interrupt,
            hangup,
        })
    }

    /// Returns the daemon.
    pub const fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// Returns the address of the console; `None` without a console.
    pub fn console(&self) -> Option<SocketAddr> {
        self.console.as_ref().map(Console::local_addr)
    }

    /// Serves until a signal arrives, then stops the services.
    ///
    /// # Errors
    /// A service ended with an error.
    pub fn serve(mut self) -> anyhow::Result<()> {
        let observe = self.daemon.observed();
        self.runtime.block_on(async {
            tokio::select! {
                () = report_alive(observe) => {}
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
                _ = self.hangup.recv() => {}
            }
        });
        notify::stopping();
        tracing::info!("a signal arrived: stopping");
        self.stop()?;
        tracing::info!("stopped");
        Ok(())
    }

    /// Stops the services.
    ///
    /// # Errors
    /// A service ended with an error.
    pub fn stop(self) -> anyhow::Result<()> {
        let stopped = self.daemon.stop();
        drop(self.console);
        stopped
    }
}

/// Reports to systemd's watchdog that the process is alive, each time after the status of every service was read: a
/// service that holds its locks for ever ends the reports. Never returns.
async fn report_alive(observe: Arc<dyn Fn() -> Snapshot + Send + Sync>) {
    let Some(interval) = notify::watchdog_interval() else {
        return std::future::pending().await;
    };
    let mut ticks = tokio::time::interval(interval);
    loop {
        ticks.tick().await;
        let observe = Arc::clone(&observe);
        // The status is read in another thread, so that this one handles signals while a service does not answer.
        if tokio::task::spawn_blocking(move || observe()).await.is_ok() {
            notify::alive();
        }
    }
}
