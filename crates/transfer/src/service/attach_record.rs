//! Record, in a ledger's directory, of the interface that its fast path is attached to. A server that starts after a
//! crash reads it, so that no other fast path remains that still answers for the same accounts.

use crate::datapath::pinned;
use anyhow::{Context, bail};
use lineside_service::DatapathConfig;
use lineside_xdp::Pins;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Name of the file in the ledger's directory. It has two lines: the directory of the pins, and the interface.
const FILE: &str = "fastpath";

/// Record that the fast path of a ledger is attached; removed by [`AttachRecord::remove`].
pub struct AttachRecord(PathBuf);

/// Checks whether a fast path of the ledger `tag` in `data` may still be attached elsewhere. `at_line` is true if this
/// server uses the interface of `datapath`. `is_express` is true if the fast path of this ledger executes operations;
/// in `durable` it only has copies, and nothing is lost with it.
///
/// # Errors
/// Interface where it is attached, and the remedy.
pub fn check(
    data: &Path,
    tag: u64,
    datapath: &DatapathConfig,
    at_line: bool,
    is_express: bool,
    warnings: &mut Vec<String>,
) -> anyhow::Result<()> {
    let file = data.join(FILE);
    let text = match fs::read_to_string(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other.with_context(|| file.display().to_string())?,
    };
    let (dir, interface) = text.split_once('\n').with_context(|| {
        format!(
            "{} does not name the interface of the fast path; detach it with `lineside xdp detach INTERFACE`, \
             then remove this file",
            file.display()
        )
    })?;
    let pinned_record = pinned(&Pins::folder_of(Path::new(dir), interface))?;
    // Another ledger's fast path may be attached there by now.
    let Some(fastpath) = pinned_record.filter(|fastpath| fastpath.ledger == tag) else {
        fs::remove_file(&file)?;
        if is_express {
            warnings.push(format!(
                "the fast path that a killed server left at {interface} is gone: unless `lineside xdp detach` removed \
                 it, operations that it executed and that were not journaled are lost"
            ));
        }
        return Ok(());
    };
    if !at_line || Path::new(dir) != datapath.pin_dir || interface != datapath.interface {
        bail!(
            "the fast path of this ledger is still attached at {interface}, where a server was killed, and may be \
             answering: start the server with --datapath xdp --interface {interface} --pin-dir {dir}, or `lineside xdp \
             detach {interface} --pin-dir {dir}` first"
        );
    }
    if fastpath.waiting > 0 {
        let waiting = fastpath.waiting;
        warnings.push(format!(
            "the fast path continued without its server: {waiting} operations of it are journaled now"
        ));
    }
    Ok(())
}

impl AttachRecord {
    /// Writes the record that the fast path of the ledger in `data` is attached at the interface of `datapath`.
    ///
    /// # Errors
    /// Error of the system.
    pub fn write(data: &Path, datapath: &DatapathConfig) -> std::io::Result<Self> {
        let file = data.join(FILE);
        fs::write(
            &file,
            format!("{}\n{}", datapath.pin_dir.display(), datapath.interface),
        )?;
        fs::File::open(&file)?.sync_all()?;
        fs::File::open(data)?.sync_all()?;
        Ok(Self(file))
    }

    /// Removes the record after the fast path was detached.
    pub fn remove(&self) {
        // If it cannot be removed, the next start finds no pins there and removes it.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The directory of pins does not exist, as after a reboot: only in `express` something may be lost.
    #[test]
    fn only_express_loses_operations_with_a_fast_path_that_is_gone() {
        for is_express in [false, true] {
            let data = tempfile::tempdir().unwrap();
            let datapath = DatapathConfig {
                pin_dir: data.path().join("no-pins"),
                ..DatapathConfig::default()
            };
            drop(AttachRecord::write(data.path(), &datapath).unwrap());
            let mut warnings = Vec::new();
            check(data.path(), 7, &datapath, true, is_express, &mut warnings).unwrap();
            assert_eq!(warnings.len(), usize::from(is_express), "{warnings:?}");
            assert!(!data.path().join(FILE).exists());
        }
    }
}
