//! Daemons in network namespaces of their own.
#![allow(dead_code, reason = "each test uses what it needs")]

use lineside_spv::chain::{ChainStore, Network};
use lineside_testkit::DemoChain;
use lineside_testkit::bpffs::below_bpffs;
pub use lineside_testkit::netns::alone;
use lineside_testkit::skipped;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use tempfile::TempDir;

/// Returns the directory of a chain store that holds the first blocks of the demonstration chain, for `user` to use. It
/// is written once for each test program.
fn demo_data(user: Option<u32>) -> &'static Path {
    static STORE: OnceLock<TempDir> = OnceLock::new();
    let folder = STORE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let mut chain = ChainStore::open(Some(folder.path()), Network::Regtest).expect("a chain store");
        for block in DemoChain::new(1, 2048).take(4) {
            chain.submit(&block.raw, false).expect("a block");
        }
        chain.catch_up().expect("an index");
        folder
    });
    if user.is_some() {
        let files = std::fs::read_dir(folder.path())
            .expect("files")
            .map(|file| file.unwrap().path());
        for path in files.chain([folder.path().to_owned()]) {
            std::os::unix::fs::chown(path, user, user).expect("root gives files away");
        }
    }
    folder.path()
}

/// A running daemon; killed when dropped.
pub struct Daemon {
    pub child: Child,
    pub said: Vec<String>,
}

impl Daemon {
    /// Starts it and waits until it serves; else what it said.
    pub fn start(arguments: &[&str], user: Option<u32>) -> Result<Self, String> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
        command
            .arg("run")
            .args(arguments)
            .args(["--line-bits", "17", "--prefill", "none", "--data"])
            .arg(demo_data(user))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let mut said = Vec::new();
        for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
            said.push(line.expect("text"));
            if said.last().is_some_and(|line| line == "Ctrl-C ends it") {
                return Ok(Self { child, said });
            }
        }
        let mut why = String::new();
        let mut errors = child.stderr.take().expect("piped");
        errors.read_to_string(&mut why).expect("text");
        child.wait().expect("wait");
        Err(why)
    }

    pub fn signal(mut self, signal: i32) -> String {
        // SAFETY: a process that we started and have not waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
        self.child.wait().expect("wait");
        let mut said = String::new();
        let mut errors = self.child.stderr.take().expect("piped");
        errors.read_to_string(&mut said).expect("text");
        said
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn lineside(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args(arguments)
        .output()
        .expect("run")
}

/// A folder of pins, emptied at the end; `None`, said in one line, where BPF cannot be used.
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
