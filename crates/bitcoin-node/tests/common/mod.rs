//! Helpers of the tests: a local chain, and btcd as a process.

#![allow(dead_code, reason = "each test file uses a part")]

use bitcoin::hashes::Hash as _;
use lineside_bitcoin_node::{BlockHash, ChainStep, LocalChain};
use lineside_testkit::free_port;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Maximum time for which a test waits for a condition.
pub const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until `condition` returns a value.
pub fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + WAIT_TIMEOUT;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < end, "timeout: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A chain in memory: hashes and targets by height.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainInMemory(pub Vec<(BlockHash, u32)>);

impl LocalChain for ChainInMemory {
    fn tip(&self) -> Option<(u32, BlockHash)> {
        let (hash, _) = self.0.last()?;
        Some((self.0.len() as u32 - 1, *hash))
    }

    fn hash_at(&self, height: u32) -> Option<BlockHash> {
        self.0.get(height as usize).map(|(hash, _)| *hash)
    }

    fn bits_at(&self, height: u32) -> Option<u32> {
        self.0.get(height as usize).map(|(_, bits)| *bits)
    }
}

impl ChainInMemory {
    /// Carries out a step, and checks that the step keeps the guarantees of the follower.
    pub fn apply(&mut self, step: &ChainStep) {
        match step {
            ChainStep::Disconnect { to_height } => {
                assert!(
                    (*to_height as usize) < self.0.len() - 1,
                    "{step:?} removes no block"
                );
                self.0.truncate(*to_height as usize + 1);
            }
            ChainStep::Connect { height, hash, raw } => {
                assert_eq!(*height as usize, self.0.len(), "blocks are connected in order");
                assert_eq!(BlockHash::of_block(raw), Some(*hash));
                if let Some((parent, _)) = self.0.last() {
                    assert_eq!(raw[4..36], parent.0, "a block is connected to its parent");
                }
                let bits = u32::from_le_bytes(raw[72..76].try_into().unwrap());
                self.0.push((*hash, bits));
            }
        }
    }

    pub fn hashes(&self) -> Vec<BlockHash> {
        self.0.iter().map(|(hash, _)| *hash).collect()
    }
}

/// Returns the program of btcd: `LINESIDE_BTCD`, or `btcd` on the path.
pub fn btcd_program() -> Option<PathBuf> {
    if let Some(program) = std::env::var_os("LINESIDE_BTCD") {
        return Some(program.into());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join("btcd"))
        .find(|program| program.is_file())
}

/// A running btcd on simnet, which is killed when this value is dropped.
pub struct Btcd {
    child: Child,
    pub folder: tempfile::TempDir,
    pub rpc: u16,
    pub p2p: u16,
    pub tls: bool,
    peer: Option<u16>,
}

pub const USER: &str = "lineside";
pub const PASSWORD: &str = "no/secret@all";

impl Btcd {
    /// Starts btcd, connected to the node at port `peer`; waits until its RPC port is open.
    pub fn start(program: &PathBuf, tls: bool, peer: Option<u16>) -> Btcd {
        let folder = tempfile::tempdir().unwrap();
        let (rpc, p2p) = (free_port(), free_port());
        let child = Btcd::spawn(program, &folder, rpc, p2p, tls, peer);
        let mut btcd = Btcd {
            child,
            folder,
            rpc,
            p2p,
            tls,
            peer,
        };
        btcd.wait_for_port();
        btcd
    }

    fn spawn(
        program: &PathBuf,
        folder: &tempfile::TempDir,
        rpc: u16,
        p2p: u16,
        tls: bool,
        peer: Option<u16>,
    ) -> Child {
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("btcd.conf"), "").unwrap();
        let mut command = Command::new(program);
        // Simnet's version byte of script addresses is 0x7b (chaincfg/params.go). The script is OP_TRUE, so that tests
        // can spend mined coins without keys.
        let script = bitcoin::hashes::hash160::Hash::hash(&[0x51]).to_byte_array();
        let address = bitcoin::base58::encode_check(&[&[0x7b][..], &script].concat());
        command
            .args(["--simnet", "--nodnsseed", "--norelaypriority"])
            .args(["--rpcuser", USER, "--rpcpass", PASSWORD, "--miningaddr", &address])
            .args(["--configfile", &path("btcd.conf"), "--datadir", &path("data")])
            .args(["--logdir", &path("logs"), "--rpccert", &path("rpc.cert")])
            .args([
                "--rpckey",
                &path("rpc.key"),
                "--rpclisten",
                &format!("127.0.0.1:{rpc}"),
            ])
            .args(["--listen", &format!("127.0.0.1:{p2p}")]);
        if !tls {
            command.arg("--notls");
        }
        if let Some(peer) = peer {
            command.args(["--connect", &format!("127.0.0.1:{peer}")]);
        }
        command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn wait_for_port(&mut self) {
        until("btcd's RPC port", || {
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "btcd ended: {ended:?}; start it manually to see the reason"
            );
            let has_certificate = !self.tls || self.folder.path().join("rpc.cert").exists();
            TcpStream::connect(("127.0.0.1", self.rpc))
                .ok()
                .filter(|_| has_certificate)
        });
    }

    /// Kills btcd and starts it with the same data and peer. It may have lost its newest blocks.
    pub fn restart(&mut self, program: &PathBuf) {
        self.kill();
        self.child = Btcd::spawn(program, &self.folder, self.rpc, self.p2p, self.tls, self.peer);
        self.wait_for_port();
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns the URL for the client.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "btcd" } else { "btcd+notls" };
        format!(
            "{scheme}://{USER}:{}@127.0.0.1:{}",
            PASSWORD.replace('@', "%40"),
            self.rpc
        )
    }

    /// Calls a method by plain HTTP, without the client under test.
    pub fn call(&self, method: &str, params: Value) -> Value {
        assert!(!self.tls, "this helper does not support TLS");
        let body = serde_json::json!({"jsonrpc": "1.0", "id": 1, "method": method, "params": params});
        let answer = post(self.rpc, &body.to_string());
        let mut answer: Value =
            serde_json::from_str(&answer).unwrap_or_else(|error| panic!("{error}: {answer}"));
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].take()
    }

    /// Mines blocks and returns their hashes.
    pub fn generate(&self, count: u32) -> Vec<BlockHash> {
        let hashes = self.call("generate", serde_json::json!([count]));
        let hashes = hashes.as_array().unwrap().iter();
        hashes
            .map(|hash| hash.as_str().unwrap().parse().unwrap())
            .collect()
    }

    /// Returns the whole best chain.
    pub fn chain(&self) -> Vec<BlockHash> {
        let count = self
            .call("getblockcount", serde_json::json!([]))
            .as_u64()
            .unwrap();
        let hash = |height| self.call("getblockhash", serde_json::json!([height]));
        (0..=count)
            .map(|height| hash(height).as_str().unwrap().parse().unwrap())
            .collect()
    }
}

impl Drop for Btcd {
    fn drop(&mut self) {
        self.kill();
    }
}

fn post(port: u16, body: &str) -> String {
    use base64::Engine as _;
    let user = base64::prelude::BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}"));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(WAIT_TIMEOUT)).unwrap();
    write!(
        stream,
        "POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic {user}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").expect("an answer of HTTP");
    // A long answer is sent in chunks, whose lengths are on separate lines. The JSON begins at the first bracket and is
    // in one line.
    let start = body.find(['{', '[']).unwrap_or(0);
    body[start..].lines().next().unwrap_or_default().to_owned()
}
