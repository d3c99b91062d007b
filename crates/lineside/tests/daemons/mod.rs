//! Starts daemons, each in its own network namespace.
#![allow(dead_code, unused_imports, reason = "each test uses what it needs")]

use lineside_spv::chain::{ChainStore, Network};
pub use lineside_testkit::Daemon;
use lineside_testkit::DemoChain;
use lineside_testkit::bpffs::below_bpffs;
pub use lineside_testkit::netns::alone;
use lineside_testkit::skipped;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;

/// Returns a directory with a chain store of the demonstration chain; `user` can use it. Each daemon has its own copy
/// of the store. The copies are removed when the test program ends.
fn demo_data(user: Option<u32>) -> PathBuf {
    static STORES: OnceLock<TempDir> = OnceLock::new();
    static COPIES: AtomicU32 = AtomicU32::new(0);
    let folder = STORES.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let first = folder.path().join("first");
        let mut chain = ChainStore::open(Some(&first), Network::Regtest).expect("a chain store");
        for block in DemoChain::new(1, 2048).take(64) {
            chain.submit(&block.raw, false).expect("a block");
        }
        chain.catch_up().expect("an index");
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("chmod");
        folder
    });
    let copy = folder
        .path()
        .join(COPIES.fetch_add(1, Ordering::Relaxed).to_string());
    let copied = Command::new("cp")
        .arg("-r")
        .arg(folder.path().join("first"))
        .arg(&copy)
        .status();
    assert!(copied.expect("cp").success());
    if let Some(user) = user {
        let owned = Command::new("chown")
            .args(["-R", &format!("{user}:{user}")])
            .arg(&copy)
            .status();
        assert!(owned.expect("chown").success());
    }
    copy
}

/// Starts `lineside run` with these arguments and the demonstration chain, and waits until it serves. If it does not
/// start, returns its standard error.
pub fn start(arguments: &[&str], user: Option<u32>) -> Result<Daemon, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
    command.arg("run");
    let data = demo_data(user);
    // Assignments among the caller's arguments replace the following ones.
    for assignment in [
        "spv.line_bits=17",
        "spv.prefill=none",
        &format!("spv.data=\"{}\"", data.display()),
    ] {
        command.args(["--set", assignment]);
    }
    if !arguments.contains(&"--config") {
        command.args(["--set", "spv.enabled=true"]);
    }
    command.args(arguments);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    Daemon::start(&mut command)
}

pub fn lineside(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args(arguments)
        .output()
        .expect("run")
}

/// Directory of pins, which is removed when the value is dropped. `Bpf::new` returns `None` and prints a message if BPF
/// cannot be used.
pub struct Bpf(PathBuf);

impl Bpf {
    pub fn new(name: &str) -> Option<Self> {
        let dir = below_bpffs(name)?;
        let made = std::fs::create_dir(&dir).map(|()| Self(dir));
        made.map_err(|error| skipped(format_args!("no folder of pins here ({error})")))
            .ok()
    }

    pub fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }
}

impl Drop for Bpf {
    fn drop(&mut self) {
        lineside(&["xdp", "detach", "--pin-dir", self.path()]);
        let _ = std::fs::remove_dir(&self.0);
    }
}
