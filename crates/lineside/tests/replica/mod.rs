//! Starts replicas and orderers as processes that serve recorded blocks.
#![allow(dead_code, reason = "each test uses a part of it")]

use lineside_util::key_file::write_owner_only;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

pub fn recorded() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fabric/tests/data/edge")
}

pub fn objects(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Returns the program that has the subcommand at the start of `words`: `lineside-lab` for generated channels and the
/// mock orderer, otherwise `lineside`.
fn program(words: &[&str]) -> PathBuf {
    match words.first() {
        Some(&"make" | &"mock-orderer") => lineside_testkit::binary("lineside-lab"),
        _ => env!("CARGO_BIN_EXE_lineside").into(),
    }
}

pub fn fabric(words: &[&str]) -> Output {
    let mut command = Command::new(program(words));
    command.arg("fabric").args(words).output().unwrap()
}

pub fn one(words: &[&str]) -> Value {
    let output = fabric(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    objects(&output).remove(0)
}

/// Running command, with the first line that it printed; killed when dropped.
pub struct Running {
    pub said: Value,
    child: Child,
    /// Kept open so that the process can write further output.
    _stdout: BufReader<ChildStdout>,
}

impl Running {
    pub fn start(words: &[&str]) -> Self {
        Self::start_saying(words, Stdio::inherit())
    }

    /// Starts a command whose standard error goes to `stderr`.
    pub fn start_saying(words: &[&str], stderr: Stdio) -> Self {
        let mut child = Command::new(program(words))
            .args(["fabric", "--json"])
            .args(words)
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        Self {
            said: serde_json::from_str(&line).unwrap_or_default(),
            child,
            _stdout: stdout,
        }
    }

    pub fn listen(&self) -> &str {
        self.said["listen"].as_str().unwrap()
    }

    /// Sends SIGTERM and returns true if the process ended with success.
    pub fn end(mut self) -> bool {
        // SAFETY: the process is a child that was not waited for yet, so its id still names it.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        self.child.wait().unwrap().success()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        self.child.wait().unwrap();
    }
}

/// Creates an MSP folder with a new key for signing requests, and returns its path.
pub fn msp(directory: &Path) -> PathBuf {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2120, 1, 1));
    let certificate = params.self_signed(&key).unwrap();
    let msp = directory.join("msp");
    for (folder, text) in [
        ("signcerts", certificate.pem()),
        ("keystore", key.serialize_pem()),
    ] {
        std::fs::create_dir_all(msp.join(folder)).unwrap();
        write_owner_only(&msp.join(folder).join("one.pem"), text.as_bytes()).unwrap();
    }
    msp
}
