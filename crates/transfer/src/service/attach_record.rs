//! Record, in a ledger's directory, of the interface that its fast path is attached to. A server that starts after a
//! crash finds it, and does not leave a fast path behind that goes on answering for the same accounts.

use crate::datapath::pinned;
use anyhow::{Context, bail};
use lineside_service::DatapathConfig;
use lineside_xdp::Pins;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Name of the file in the ledger's directory: where pins lie, and the interface, a line each.
const FILE: &str = "fastpath";

/// Record that the fast path of a ledger is attached; removed by [`AttachRecord::remove`].
pub struct AttachRecord(PathBuf);

/// Looks whether a fast path of the ledger in `data`, known by `tag`, may still stand somewhere else than where this
/// server's will: `at_line` says whether that is at the interface of `datapath`.
///
/// # Errors
/// Where it does, and what to do about it.
pub fn check(
    data: &Path,
    tag: u64,
    datapath: &DatapathConfig,
    at_line: bool,
    warnings: &mut Vec<String>,
) -> anyhow::Result<()> {
    let file = data.join(FILE);
    let text = match fs::read_to_string(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other.with_context(|| file.display().to_string())?,
    };
    let (dir, interface) = text
        .split_once('\n')
        .with_context(|| format!("{} does not say where the fast path stands", file.display()))?;
    let found = pinned(&Pins::folder_of(Path::new(dir), interface))?;
    // Another ledger's may stand there by now.
    let Some(fastpath) = found.filter(|fastpath| fastpath.ledger == tag) else {
        fs::remove_file(&file)?;
        warnings.push(format!(
            "the fast path that a killed server left at {interface} is gone: unless `lineside xdp detach` took it \
             away, what it executed in express and did not hand over is lost"
        ));
        return Ok(());
    };
    if !at_line || Path::new(dir) != datapath.pin_dir || interface != datapath.interface {
        bail!(
            "the fast path of this ledger still stands at {interface}, where a server was killed, and may be \
             answering: start it with --datapath xdp --interface {interface} --pin-dir {dir}, or `lineside xdp \
             detach {interface} --pin-dir {dir}` first"
        );
    }
    if fastpath.waiting > 0 {
        let waiting = fastpath.waiting;
        warnings.push(format!(
            "the fast path went on without its server: {waiting} operations are taken from it"
        ));
    }
    Ok(())
}

impl AttachRecord {
    /// Writes down that the fast path of the ledger in `data` stands at the interface of `datapath`.
    ///
    /// # Errors
    /// What the system says.
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

    /// Removes the record: the fast path is detached.
    pub fn remove(&self) {
        // If it cannot be removed, the next start finds no pins where it points, and removes it.
        let _ = fs::remove_file(&self.0);
    }
}
