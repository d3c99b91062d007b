//! A daemon in the foreground of a command: warnings, console, service manager, and the signals that end it.

use crate::config::Config;
use crate::daemon::Daemon;
use crate::notify;
use anyhow::Context;
use lineside_console::Console;
use rustix::fs::Mode;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// A daemon that runs until a signal comes.
pub struct Session {
    daemon: Daemon,
    console: Option<Console>,
    runtime: Runtime,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Session {
    /// Starts the services that `config` enables, and the console where `with_console`. Warnings go to standard error.
    ///
    /// # Errors
    /// The reason why it cannot serve.
    pub fn start(config: &Config, with_console: bool) -> anyhow::Result<Self> {
        // Whatever the process makes from here on is for its user only.
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
        let checked = config.check()?;
        let listen = with_console.then_some(checked.console.listen);
        // Capabilities belong to a thread: the daemon gives them up before it starts any.
        let daemon = Daemon::start(checked)?;
        for warning in daemon.warnings() {
            tell!("lineside: {warning}");
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        // Signals are heard before anybody can see that the daemon serves, and end it.
        let (terminate, interrupt, hangup) = runtime.block_on(async {
            let terminate = signal(SignalKind::terminate())?;
            let interrupt = signal(SignalKind::interrupt())?;
            std::io::Result::Ok((terminate, interrupt, signal(SignalKind::hangup())?))
        })?;
        let console = listen.map(|listen| {
            let observe = daemon.observed();
            Console::start(listen, Arc::new(move || observe())).with_context(|| {
                format!("the console cannot listen on {listen} (--console gives another address)")
            })
        });
        let console = console.transpose()?;
        let serving = daemon.serving();
        let lines = serving
            .iter()
            .map(|one| format!("{} on {} ({})", one.name, one.listen, one.datapath));
        notify::ready(&lines.collect::<Vec<_>>().join("; "));
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

    /// Returns the address of the console; `None` where there is none.
    pub fn console(&self) -> Option<SocketAddr> {
        self.console.as_ref().map(Console::local_addr)
    }

    /// Serves until a signal comes, then stops.
    ///
    /// # Errors
    /// The reason that a service gives for its end.
    pub fn serve(mut self) -> anyhow::Result<()> {
        self.runtime.block_on(async {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
                _ = self.hangup.recv() => {}
            }
        });
        notify::stopping();
        self.stop()
    }

    /// Stops the services.
    ///
    /// # Errors
    /// The reason that a service gives for its end.
    pub fn stop(self) -> anyhow::Result<()> {
        let stopped = self.daemon.stop();
        drop(self.console);
        stopped
    }
}
