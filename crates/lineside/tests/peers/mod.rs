//! Programs of other projects, run as processes: the wallet `electrum` and ElectrumX. Also a small Electrum server that
//! answers forwarded requests.

pub mod upstream;

use crate::common::until;
use lineside_testkit::{CoreMini, free_port};
use serde_json::Value;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Returns the program in the environment variable, or the one of this name on the path.
pub fn program(variable: &str, name: &str) -> Option<PathBuf> {
    if let Some(program) = std::env::var_os(variable) {
        return Some(program.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
}

/// Daemon of the wallet `electrum` on regtest, with one new wallet; killed when dropped.
pub struct Wallet {
    program: PathBuf,
    folder: tempfile::TempDir,
    daemon: Option<Child>,
}

impl Wallet {
    /// Creates the wallet, which has no connection yet.
    pub fn make(program: PathBuf) -> Self {
        let wallet = Self {
            program,
            folder: tempfile::tempdir().unwrap(),
            daemon: None,
        };
        wallet.call(&["--offline", "create"]).unwrap();
        wallet
    }

    /// Starts the daemon with `server` as its only server, and loads the wallet.
    pub fn connect(&mut self, server: SocketAddr) {
        let server = format!("{}:{}:t", server.ip(), server.port());
        let daemon = self.command(&["daemon", "--oneserver", "--server", &server]);
        self.daemon = Some(
            { daemon }
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        );
        until("the wallet's daemon", || self.call(&["load_wallet"]).ok());
    }

    /// Returns the first address of the wallet.
    pub fn address(&self) -> String {
        let addresses = self.call(&["--offline", "listaddresses"]).unwrap();
        addresses[0].as_str().unwrap().to_owned()
    }

    /// Returns the confirmations of a transaction that the wallet has verified.
    pub fn confirmations(&self, txid: &str) -> Option<u64> {
        self.call(&["get_tx_status", txid]).ok()?["confirmations"].as_u64()
    }

    /// Runs a command of the wallet; returns its output, or the error messages.
    pub fn call(&self, words: &[&str]) -> Result<Value, String> {
        let output = self.command(words).output().unwrap();
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text.trim())))
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        let folder = self.folder.path();
        command
            .env("HOME", folder)
            .args(["--regtest", "-D"])
            .arg(folder)
            .args(words);
        command
    }
}

impl Drop for Wallet {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// ElectrumX server of a node; killed when dropped.
pub struct ElectrumX {
    child: Child,
    folder: tempfile::TempDir,
    pub address: SocketAddr,
}

impl ElectrumX {
    /// Starts ElectrumX and waits until it serves.
    pub fn start(program: &PathBuf, node: &CoreMini) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let log = std::fs::File::create(folder.path().join("log")).unwrap();
        let child = Command::new(program)
            .env("DB_DIRECTORY", folder.path())
            .env("DB_ENGINE", "leveldb")
            .env("COIN", "Bitcoin")
            .env("NET", "regtest")
            .env("DAEMON_URL", node.http_url())
            .env("SERVICES", format!("tcp://{address}"))
            .env("PEER_DISCOVERY", "off")
            .env("PEER_ANNOUNCE", "")
            .env("ALLOW_ROOT", "true")
            .env("COST_SOFT_LIMIT", "0")
            .env("COST_HARD_LIMIT", "0")
            .env("DAEMON_POLL_INTERVAL_BLOCKS", "100")
            .env("DAEMON_POLL_INTERVAL_MEMPOOL", "100")
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut server = Self {
            child,
            folder,
            address,
        };
        until("ElectrumX", || {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none(), "ElectrumX ended: {}", server.log());
            TcpStream::connect(server.address).ok()
        });
        server
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for ElectrumX {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
