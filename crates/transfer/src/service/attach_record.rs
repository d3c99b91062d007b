//! Record, in a ledger's directory, of the interfaces to which its fast path is attached. A server that starts after a
//! crash reads it, so that no other fast path continues to answer for the same accounts.

use crate::datapath::{Pinned, pinned};
use anyhow::{Context, bail};
use lineside_service::DatapathConfig;
use lineside_util::counted;
use lineside_xdp::{Pins, detach_command};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Name of the file in the ledger's directory. Its first line is the directory of the pins; each further line is an
/// interface.
const FILE: &str = "fastpath";

/// Record that the fast path of a ledger is attached; [`AttachRecord::remove`] removes it.
pub struct AttachRecord(PathBuf);

/// Fast path that a killed server has left attached.
struct LeftFastPath {
    /// Directory with the pins of the fast path.
    dir: PathBuf,
    /// Interfaces at which it is still pinned, with its state. All of them have the same table.
    at: Vec<(String, Pinned)>,
}

/// Looks for a fast path of the ledger `tag` that a killed server left at the interfaces of the record in `data`.
/// Returns the interfaces where this fast path is still pinned and where this server takes it over. `at_line` is true
/// if this server uses the interfaces of `datapath`. If the fast path is gone and `is_express` is true, a warning says
/// that operations may be lost (in mode `durable` the fast path has only copies of balances).
///
/// # Errors
/// The fast path is still pinned and this server does not take it over; the error names the interfaces and the commands
/// that detach the fast path. Or the record cannot be read.
pub fn check(
    data: &Path,
    tag: u64,
    datapath: &DatapathConfig,
    at_line: bool,
    is_express: bool,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Vec<String>> {
    let file = data.join(FILE);
    let text = match fs::read_to_string(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.with_context(|| {
            format!(
                "cannot read {}, which names the interfaces where the fast path is attached",
                file.display()
            )
        })?,
    };
    let (dir, recorded) = text.split_once('\n').with_context(|| {
        format!(
            "{} does not name the interface of the fast path; detach the fast path with `lineside xdp detach \
             INTERFACE`, then remove this file",
            file.display()
        )
    })?;
    let recorded: Vec<_> = recorded.lines().collect();
    let left = LeftFastPath::find(Path::new(dir), &recorded, tag)?;
    let names = left.names();
    let Some((_, fastpath)) = left.at.first() else {
        fs::remove_file(&file)?;
        if is_express {
            warnings.push(format!(
                "the fast path that a killed server left at {} is gone: unless `lineside xdp detach` removed \
                 it, operations that it executed and that were not journaled are lost",
                recorded.join(" and ")
            ));
        }
        return Ok(Vec::new());
    };
    if !at_line || !left.is_taken_over_by(datapath)? {
        let options = names.iter().map(|name| format!("--interface {name}"));
        // The commands name the directory of the pins in every case, because it is the one of an earlier server.
        let detaches = names
            .iter()
            .map(|name| format!("`lineside xdp detach {name} --pin-dir {dir}`"));
        bail!(
            "the fast path of this ledger is still attached at {}, where a server was killed, and may be \
             answering: start the server with --datapath xdp {} --pin-dir {dir}, or {} first",
            names.join(" and "),
            options.collect::<Vec<_>>().join(" "),
            detaches.collect::<Vec<_>>().join(" and ")
        );
    }
    if fastpath.waiting > 0 {
        let waiting = fastpath.waiting;
        warnings.push(format!(
            "the fast path continued without its server: {} that it executed and that were not journaled are journaled \
             now",
            counted(waiting, "operation")
        ));
    }
    Ok(names)
}

impl LeftFastPath {
    /// Finds the fast path of the ledger `tag` at the interfaces that a record names. The fast path of another ledger
    /// may have been attached there since.
    fn find(dir: &Path, recorded: &[&str], tag: u64) -> anyhow::Result<Self> {
        let mut at = Vec::new();
        for name in recorded {
            let found = pinned(&Pins::folder_of(dir, name)).with_context(|| {
                format!(
                    "cannot read the fast path that a killed server may have left attached at {name}; run `{}` as root",
                    detach_command(name, dir)
                )
            })?;
            let found = found.filter(|fastpath| fastpath.ledger == tag);
            at.extend(found.map(|fastpath| ((*name).to_owned(), fastpath)));
        }
        Ok(Self { dir: dir.into(), at })
    }

    fn names(&self) -> Vec<String> {
        self.at.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Returns true if a server with this configuration may take over the recorded fast path: the directory of the pins
    /// is the same, and each recorded interface where the fast path is still pinned has the same maps as the configured
    /// interfaces. [`lineside_service::XdpAttachment`] then uses the table again, and detaches the interfaces that are
    /// no longer configured.
    fn is_taken_over_by(&self, datapath: &DatapathConfig) -> anyhow::Result<bool> {
        if self.dir != datapath.pin_dir {
            return Ok(false);
        }
        let together = Pins::together(&self.dir, &datapath.interfaces)?;
        Ok(self.at.iter().all(|(name, _)| together.contains(name)))
    }
}

impl AttachRecord {
    /// Writes the record that the fast path of the ledger in `data` is attached at the interfaces of `datapath`. Until
    /// the programs are attached, it is also still attached at `left`, the result of [`check`].
    ///
    /// # Errors
    /// Error of the system.
    pub fn write(data: &Path, datapath: &DatapathConfig, left: &[String]) -> std::io::Result<Self> {
        let file = data.join(FILE);
        let mut text = datapath.pin_dir.display().to_string();
        let more = left.iter().filter(|name| !datapath.interfaces.contains(name));
        for name in datapath.interfaces.iter().chain(more) {
            text.push('\n');
            text.push_str(name);
        }
        fs::write(&file, text)?;
        fs::File::open(&file)?.sync_all()?;
        fs::File::open(data)?.sync_all()?;
        Ok(Self(file))
    }

    /// Removes the record after the fast path was detached.
    pub fn remove(&self) {
        // If the file cannot be removed, the next start finds no pins at these interfaces and removes it.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directory of pins does not exist, as after a reboot: only in `express` operations may be lost.
    #[test]
    fn only_express_loses_operations_with_a_fast_path_that_is_gone() {
        for is_express in [false, true] {
            let data = tempfile::tempdir().unwrap();
            let datapath = DatapathConfig {
                pin_dir: data.path().join("no-pins"),
                ..DatapathConfig::default()
            };
            drop(AttachRecord::write(data.path(), &datapath, &[]).unwrap());
            let mut warnings = Vec::new();
            check(data.path(), 7, &datapath, true, is_express, &mut warnings).unwrap();
            assert_eq!(warnings.len(), usize::from(is_express), "{warnings:?}");
            assert!(!data.path().join(FILE).exists());
        }
    }
}
