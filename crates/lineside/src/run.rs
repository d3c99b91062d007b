//! `lineside run`, `lineside spv serve` and the like: the daemon until a signal ends it.

use crate::config::{Config, DatapathName, IndexName, NetworkName, Prefill, XdpMode};
use crate::daemon::{Daemon, Serving};
use crate::notify;
use crate::out::{self, Unwritten};
use anyhow::{Context, bail};
use clap::Args;
use lineside_console::Console;
use serde::Serialize;
use serde_json::json;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};

/// Serve what the configuration says, with the console.
#[derive(Args)]
pub struct Run {
    /// The configuration file; `lineside.toml` in the repository explains every key.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Start the services, say where they listen, then end: a trial of a configuration.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    spv: SpvOverrides,
}

/// Serve the chain store on UDP until a signal ends it.
#[derive(Args)]
pub struct Serve {
    /// The configuration file; what is given here goes before it.
    #[arg(long)]
    config: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    spv: SpvOverrides,
}

/// What the command line may say otherwise than the configuration file, of any service.
#[derive(Args)]
pub struct Overrides {
    /// Where the fast path runs.
    #[arg(long, value_enum)]
    datapath: Option<DatapathName>,
    /// The interface for XDP.
    #[arg(long)]
    interface: Option<String>,
    /// How XDP is attached.
    #[arg(long, value_enum)]
    xdp_mode: Option<XdpMode>,
    /// Leave the fast path attached at the end, answering until its lease ends.
    #[arg(long)]
    keep_fast_path: bool,
    /// Where maps and link are pinned.
    #[arg(long)]
    pin_dir: Option<PathBuf>,
    /// Address and port of the console.
    #[arg(long)]
    console: Option<SocketAddr>,
}

/// What it may say otherwise of `spv`.
#[derive(Args)]
struct SpvOverrides {
    /// Address and UDP port.
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// The chain store's directory.
    #[arg(long)]
    data: Option<PathBuf>,
    /// The network of the chain store.
    #[arg(long, value_enum)]
    network: Option<NetworkName>,
    /// Where the index of TXIDs is kept.
    #[arg(long, value_enum)]
    index: Option<IndexName>,
    /// What the fast path is filled with before serving: none, tip:N or all.
    #[arg(long, value_parser = |text: &str| Prefill::try_from(text.to_owned()))]
    prefill: Option<Prefill>,
    /// log2 of the number of cache lines of 64 bytes.
    #[arg(long)]
    line_bits: Option<u32>,
    /// Seconds for which the fast path may answer without hearing from the host.
    #[arg(long)]
    lease_s: Option<u64>,
}

fn set<T>(place: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *place = value;
    }
}

impl SpvOverrides {
    fn over(self, mut config: Config) -> anyhow::Result<Config> {
        set(&mut config.spv.listen, self.listen);
        set(&mut config.spv.data, self.data);
        set(&mut config.spv.network, self.network);
        set(&mut config.spv.index, self.index);
        set(&mut config.spv.prefill, self.prefill);
        set(&mut config.spv.line_bits, self.line_bits);
        set(&mut config.spv.lease_s, self.lease_s);
        config.checked("the command line")
    }
}

impl Overrides {
    /// The configuration of `file`, or the default one, with what was said otherwise; not checked yet.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn over(self, file: Option<PathBuf>) -> anyhow::Result<Config> {
        let mut config = match file {
            Some(file) => Config::read(&file)?,
            None => Config::default(),
        };
        set(&mut config.datapath.datapath, self.datapath);
        set(&mut config.datapath.interface, self.interface);
        set(&mut config.datapath.xdp_mode, self.xdp_mode);
        config.datapath.keep_fast_path |= self.keep_fast_path;
        set(&mut config.datapath.pin_dir, self.pin_dir);
        set(&mut config.console.listen, self.console);
        Ok(config)
    }
}

/// Serves until a signal comes.
///
/// # Errors
/// What stands in the way of serving.
pub fn serve(arguments: Serve, as_json: bool) -> anyhow::Result<()> {
    let mut config = arguments.overrides.over(arguments.config)?;
    config.serve_only("spv");
    let config = arguments.spv.over(config)?;
    if config.spv.data().is_none() {
        bail!("--data DIR, or `data` in the configuration, says what to serve");
    }
    until_signal(&config, |_| Ok(None::<String>), false, as_json)
}

/// Serves the services that are enabled, until a signal comes.
///
/// # Errors
/// The reason why they cannot be served.
pub fn run(arguments: Run, as_json: bool) -> anyhow::Result<()> {
    let config = arguments.spv.over(arguments.overrides.over(arguments.config)?)?;
    until_signal(&config, |_| Ok(None::<String>), arguments.once, as_json)
}

/// Starts the enabled services, shows what `show` has to show, and serves until a signal comes.
///
/// # Errors
/// What stands in the way of serving.
pub fn until_signal<S: fmt::Display + Serialize>(
    config: &Config,
    show: impl FnOnce(&Daemon) -> anyhow::Result<Option<S>>,
    once: bool,
    as_json: bool,
) -> anyhow::Result<()> {
    // Capabilities are a thread's: the daemon gives them up before it starts any.
    let daemon = Daemon::start(config)?;
    for warning in daemon.warnings() {
        tell!("lineside: {warning}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // Before anybody can see that it serves, and end it.
    let (mut terminate, mut interrupt) = runtime.block_on(async {
        let terminate = signal(SignalKind::terminate())?;
        std::io::Result::Ok((terminate, signal(SignalKind::interrupt())?))
    })?;
    let observe = daemon.observed();
    let observed = Arc::new(move || observe());
    let console = Console::start(config.console.listen, observed).with_context(|| {
        format!(
            "the console cannot listen on {} (--console gives another address)",
            config.console.listen
        )
    })?;
    let all = daemon.serving();
    let lines = all
        .iter()
        .map(|one| format!("{} on {} ({})", one.name, one.listen, one.datapath));
    let serving: Vec<String> = lines.collect();
    let console = format!("http://{}", console.local_addr());
    // A server serves on where nobody hears it.
    let heard = |said: Result<(), Unwritten>| match once {
        true => said,
        false => {
            out::said_by_server(said);
            Ok(())
        }
    };
    let say = |line: &str| match as_json {
        true => Ok(()),
        false => heard(say!("{line}")),
    };
    serving.iter().try_for_each(|line| say(line))?;
    runtime.block_on(async {
        notify::ready(&serving.join("; "));
        let shown = show(&daemon)?;
        if let Some(shown) = &shown {
            say(&shown.to_string())?;
        }
        if as_json {
            let told =
                |one: &Serving| json!({"name": one.name, "listen": one.listen, "datapath": one.datapath});
            let services: Vec<_> = all.iter().map(told).collect();
            let first = all.first().map(told).unwrap_or_default();
            heard(say!(
                "{}",
                json!({
                    "listen": first["listen"], "datapath": first["datapath"], "services": services,
                    "console": console, "demonstration": shown
                })
            ))?;
        }
        if once {
            return Ok(());
        }
        say(&format!("console on {console}/status, {console}/metrics"))?;
        say("Ctrl-C ends it")?;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        notify::stopping();
        Ok(())
    })
}
