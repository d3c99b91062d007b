//! `lineside xdp …`: what is attached and pinned, and how to take it away.

use crate::services::SERVICES;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use lineside_service::DatapathConfig;
use lineside_xdp::{Interface, Link, Pins, XdpError, attached};
use serde_json::json;
use std::path::PathBuf;

/// What can be done with XDP.
#[derive(Subcommand)]
pub enum Verb {
    /// Say on which interfaces the fast path is pinned, and whether a daemon owns it.
    Status(Where),
    /// Take the fast path off an interface, and its pins away.
    Detach(Detach),
}

#[derive(Args)]
pub struct Where {
    /// Where maps and link are pinned.
    #[arg(long)]
    pin_dir: Option<PathBuf>,
}

#[derive(Args)]
pub struct Detach {
    #[command(flatten)]
    place: Where,
    /// The interface; without it, every one that no running daemon owns.
    interface: Option<String>,
    /// Take the fast path of `transfer` away with what it has executed and no journal has yet.
    #[arg(long)]
    lose: bool,
}

impl Where {
    fn dir(&self) -> PathBuf {
        self.pin_dir
            .clone()
            .unwrap_or_else(|| DatapathConfig::default().pin_dir)
    }
}

/// Does one verb.
///
/// # Errors
/// What stands in its way.
pub fn run(verb: &Verb, as_json: bool) -> anyhow::Result<()> {
    match verb {
        Verb::Status(place) => status(&place.dir(), as_json),
        Verb::Detach(arguments) => detach(arguments, as_json),
    }
}

fn status(dir: &std::path::Path, as_json: bool) -> anyhow::Result<()> {
    let names = Pins::list(dir).with_context(|| format!("reading {}", dir.display()))?;
    if names.is_empty() && !as_json {
        say!("nothing is pinned in {}", dir.display())?;
    }
    for name in names {
        let owned = Pins::is_owned(dir, &name);
        let program = match Interface::find(&name) {
            Ok(interface) => attached(&interface)?,
            Err(XdpError::NoInterface(_)) => None,
            Err(error) => return Err(error.into()),
        };
        let (id, mode) = program.map(|(id, mode)| (id, mode.name())).unzip();
        if as_json {
            say!(
                "{}",
                json!({"interface": name, "owned": owned, "program": id, "mode": mode})
            )?;
        } else {
            let program = match (id, mode) {
                (Some(id), Some(mode)) => format!("{mode}, program {id}"),
                _ => "no program attached".into(),
            };
            let owner = if owned { "a daemon serves it" } else { "no daemon" };
            say!("{name}: {program}, {owner}")?;
        }
    }
    Ok(())
}

fn detach(arguments: &Detach, as_json: bool) -> anyhow::Result<()> {
    let dir = arguments.place.dir();
    let names = Pins::list(&dir).with_context(|| format!("reading {}", dir.display()))?;
    let chosen: Vec<_> = match &arguments.interface {
        Some(name) if names.contains(name) => vec![name.clone()],
        Some(name) => bail!("nothing of {name} is pinned in {}", dir.display()),
        None => names
            .into_iter()
            .filter(|name| !Pins::is_owned(&dir, name))
            .collect(),
    };
    if chosen.is_empty() && !as_json {
        say!("nothing to detach in {}", dir.display())?;
    }
    for name in chosen {
        let pins = Pins::own(&dir, &name)?;
        if let Ok(interface) = Interface::find(&name)
            && let Some(link) = Link::open(&pins.link(), &interface)?
        {
            link.detach()?;
        }
        if !arguments.lose {
            refuse_to_lose(&name, &pins)?;
        }
        pins.remove()?;
        if as_json {
            say!("{}", json!({"interface": name, "detached": true}))?;
        } else {
            say!("{name}: detached")?;
        }
    }
    Ok(())
}

/// Refuses to remove maps with work that a fast path has answered and no host has recorded. The fast path has stopped:
/// what it holds stays until a server takes it.
fn refuse_to_lose(interface: &str, pins: &Pins) -> anyhow::Result<()> {
    for definition in SERVICES {
        let Some(pinned_work) = definition.pinned_work else {
            continue;
        };
        if let Some(work) = pinned_work(pins.path())?.filter(|work| work.waiting > 0) {
            bail!(
                "{interface}: the fast path has stopped, but holds {} operations of `{}` that were answered and are in \
                 no journal: start its server at this interface again, or --lose them",
                work.waiting,
                definition.name
            );
        }
    }
    Ok(())
}
