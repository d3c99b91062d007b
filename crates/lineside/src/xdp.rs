//! `lineside xdp …`: shows the XDP fast paths on this machine, and detaches those that are pinned.

use crate::out::counted;
use crate::services::SERVICES;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use lineside_service::DatapathConfig;
use lineside_xdp::{AttachedRoot, Interface, Link, Pins, XdpError, attached, attached_roots};
use serde_json::json;
use std::path::PathBuf;

/// Subcommands of `lineside xdp`.
#[derive(Subcommand)]
pub enum Verb {
    /// List the interfaces with a fast path: attached program, mode, and whether it is pinned and a server owns it.
    Status(PinDir),
    /// Detach the fast path from an interface and remove its pinned maps and programs.
    Detach(Detach),
}

#[derive(Args)]
pub struct PinDir {
    /// Directory on a BPF file system in which maps and programs are pinned [default: /sys/fs/bpf/lineside]
    #[arg(long, value_name = "DIR")]
    pin_dir: Option<PathBuf>,
}

#[derive(Args)]
pub struct Detach {
    #[command(flatten)]
    pins: PinDir,
    /// Network interface; without it, every interface whose fast path no running server owns.
    #[arg(value_name = "INTERFACE")]
    interface: Option<String>,
    /// Detach even though the fast path of `transfer` holds operations that are not in the journal; they are lost.
    #[arg(long)]
    lose: bool,
}

impl PinDir {
    fn dir(&self) -> PathBuf {
        self.pin_dir
            .clone()
            .unwrap_or_else(|| DatapathConfig::default().pin_dir)
    }
}

/// Runs the given subcommand.
///
/// # Errors
/// A pin, link or interface cannot be read or removed, or operations would be lost.
pub fn run(verb: &Verb, as_json: bool) -> anyhow::Result<()> {
    match verb {
        Verb::Status(place) => status(&place.dir(), as_json),
        Verb::Detach(arguments) => detach(arguments, as_json),
    }
}

fn status(dir: &std::path::Path, as_json: bool) -> anyhow::Result<()> {
    let names = Pins::list(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut unpinned = attached_roots()?;
    unpinned.retain(|root| !names.contains(&root.interface));
    if names.is_empty() && !as_json {
        let also = match unpinned.is_empty() {
            true => ", and no interface has a fast path",
            false => "",
        };
        say!("nothing is pinned in {}{also}", dir.display())?;
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
                json!({"interface": name, "owned": owned, "program": id, "mode": mode, "pinned": true})
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
    for root in unpinned {
        show_unpinned(&root, dir, as_json)?;
    }
    Ok(())
}

/// Prints a program that has no pins in `dir`. A running server holds it, or it has pins in another directory.
fn show_unpinned(root: &AttachedRoot, dir: &std::path::Path, as_json: bool) -> anyhow::Result<()> {
    let AttachedRoot {
        interface, id, mode, ..
    } = root;
    if as_json {
        say!(
            "{}",
            json!({"interface": interface, "owned": null, "program": id, "mode": mode.name(), "pinned": false})
        )?;
        return Ok(());
    }
    let whose = match root.is_certain {
        true => "",
        false => " (its name cannot be read here; run as root)",
    };
    say!(
        "{interface}: {}, program {id}{whose}, not pinned in {}: it ends with its server, unless that has another \
         --pin-dir",
        mode.name(),
        dir.display()
    )?;
    Ok(())
}

fn detach(arguments: &Detach, as_json: bool) -> anyhow::Result<()> {
    let dir = arguments.pins.dir();
    let names = Pins::list(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let chosen: Vec<_> = match &arguments.interface {
        Some(name) if names.contains(name) => vec![name.clone()],
        Some(name) => bail!(
            "{}: no fast path of {name} is pinned here; `lineside xdp status` lists the interfaces",
            dir.display()
        ),
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
        // Interfaces that a server has served together have pins of the same maps, so the other ones keep them.
        let is_last = Pins::together(&dir, std::slice::from_ref(&name))?.len() <= 1;
        if is_last && !arguments.lose {
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

/// Refuses to remove maps with operations that a fast path has answered and no journal holds. The program is detached
/// already, so the maps keep these operations until a server reads them.
fn refuse_to_lose(interface: &str, pins: &Pins) -> anyhow::Result<()> {
    for definition in SERVICES {
        let Some(pinned_work) = definition.pinned_work else {
            continue;
        };
        if let Some(work) = pinned_work(pins.path())?.filter(|work| work.waiting > 0) {
            bail!(
                "{interface}: detached, but its maps hold {0} of `{1}` that were answered and are not in the journal: \
                 start the server of `{1}` on this interface again, which journals them, or discard them with --lose",
                counted(work.waiting, "operation"),
                definition.name
            );
        }
    }
    Ok(())
}
