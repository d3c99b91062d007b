//! Runs any service in a separate process with the socket datapath, for tests of properties that all services share.
#![allow(dead_code, reason = "each test uses what it needs")]

use lineside_spv::chain::{ChainStore, Network};
use lineside_testkit::{Daemon, DemoChain};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Services with a data directory that their server creates.
pub const SERVICES_WITH_DATA: [&str; 4] = ["transfer", "column", "hybrid", "fabric"];

pub fn lineside(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
    command.args(arguments).output().expect("run")
}

pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Writes a file that only its owner may read.
pub fn write_private(path: &Path, bytes: &[u8]) {
    let mut options = std::fs::OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .expect("made");
    file.write_all(bytes).expect("written");
}

/// Folder with the files that the services' configurations name.
pub struct ServiceFiles {
    folder: TempDir,
    /// Value of the key `state` in `[fabric]`, which says where the channel's state is stored.
    pub fabric_state: &'static str,
}

impl ServiceFiles {
    pub fn new() -> Self {
        let place = Self {
            folder: tempfile::tempdir().expect("a folder"),
            fabric_state: "auto",
        };
        let file = |name: &str| place.path(name).display().to_string();
        let made = lineside(&[
            "hybrid",
            "init",
            "--genesis",
            &file("genesis.bin"),
            "--member",
            &format!("alice={}:admin", file("alice.key")),
            "--node",
            &file("node.key"),
        ]);
        assert!(made.status.success(), "{made:?}");
        place.make_msp();
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fabric/tests/data/edge");
        let packed = std::fs::File::open(recorded.join("00000.orderer.pb.gz")).expect("a recorded block");
        let mut genesis = Vec::new();
        flate2::read::GzDecoder::new(packed)
            .read_to_end(&mut genesis)
            .expect("a block");
        std::fs::write(place.path("genesis.pb"), genesis).expect("written");
        place
    }

    fn make_msp(&self) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).expect("parameters");
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2120, 1, 1));
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        for (folder, text) in [("signcerts", certificate), ("keystore", key.serialize_pem())] {
            let folder = self.path("msp").join(folder);
            std::fs::create_dir_all(&folder).expect("a folder");
            let file = folder.join("one.pem");
            lineside_util::key_file::write_owner_only(&file, text.as_bytes()).expect("written");
        }
    }

    /// Creates the chain store that `spv` serves, with two blocks, and returns the TXID of one of their transactions.
    pub fn make_chain(&self, data: &Path) -> String {
        let blocks: Vec<_> = DemoChain::new(1, 8).take(2).collect();
        let mut chain = ChainStore::open(Some(data), Network::Regtest).expect("a chain store");
        for block in &blocks {
            chain.submit(&block.raw, false).expect("a block");
        }
        chain.catch_up().expect("an index");
        lineside_util::hex::to_display(&blocks[1].txids[0])
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the section of a service in a configuration.
    pub fn section(&self, service: &str, data: &Path, listen: &str) -> String {
        let rest = match service {
            "spv" => "line_bits = 12\nprefill = \"none\"\nindex = \"disk\"\n".to_owned(),
            "transfer" => "account_bits = 10\n".to_owned(),
            "column" => "store = \"embedded\"\nrow_bits = 8\n".to_owned(),
            "hybrid" => format!(
                "genesis = {:?}\nnode_key = {:?}\n",
                self.path("genesis.bin"),
                self.path("node.key")
            ),
            "fabric" => format!(
                "genesis = {:?}\norderers = [\"127.0.0.1:9\"]\nmsp_id = \"Org1MSP\"\nmsp = {:?}\nthreads = 1\n\
                 state = {:?}\n",
                self.path("genesis.pb"),
                self.path("msp"),
                self.fabric_state
            ),
            other => panic!("no service {other}"),
        };
        format!("[{service}]\nenabled = true\nlisten = \"{listen}\"\ndata = {data:?}\n{rest}")
    }

    /// Returns the command that serves `service` from the directory `data`, with a common umask.
    pub fn command(&self, service: &str, data: &Path, listen: &str) -> Command {
        let file = self.path(&format!("{service}.toml"));
        let text = format!(
            "[console]\nlisten = \"127.0.0.1:0\"\n[datapath]\nkind = \"socket\"\nthreads = 1\npin_dir = \
             \"/sys/fs/bpf/lineside-test-rights\"\n[process]\nsandbox = \"strict\"\n{}",
            self.section(service, data, listen)
        );
        std::fs::write(&file, text).expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
        command.args([service, "serve", "--config"]).arg(file);
        // SAFETY: between fork and exec, the closure calls only this function, which is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::umask(0o022);
                Ok(())
            });
        }
        command
    }

    /// Serves `service` from `data` at a free port.
    pub fn serve(&self, service: &'static str, data: &Path) -> Server {
        let daemon = Daemon::start(&mut self.command(service, data, "127.0.0.1:0"));
        let daemon = daemon.unwrap_or_else(|why| panic!("{service}: {why}"));
        let after = |start: &str| {
            let mut lines = daemon.said.iter();
            let rest = lines.find_map(|line| Some(line.split_once(start)?.1.to_owned()));
            let rest = rest.unwrap_or_else(|| panic!("no {start:?} in {:?}", daemon.said));
            rest.split([' ', '/']).next().expect("an address").to_owned()
        };
        let announced = match service {
            "fabric" => "block events on ".to_owned(),
            "hybrid" => "gRPC on ".to_owned(),
            service => format!("{service} on "),
        };
        Server {
            service,
            address: after(&announced),
            console: after("http://"),
            daemon,
            folder: self.path(""),
        }
    }
}

/// Running server, which is killed when this is dropped.
pub struct Server {
    pub service: &'static str,
    pub address: String,
    pub daemon: Daemon,
    pub console: String,
    folder: PathBuf,
}

impl Server {
    /// Sends one write. Returns the command's error text if the write was refused. Each call needs another `number`.
    pub fn write(&self, number: u32) -> Result<(), String> {
        let (server, number) = (self.address.as_str(), number.to_string());
        let key = self.folder.join("alice.key").display().to_string();
        let genesis = self.folder.join("genesis.bin").display().to_string();
        let done = match self.service {
            "transfer" => lineside(&["transfer", "create", "--server", server, &number]),
            "column" => lineside(&["column", "put", "--server", server, "row", &number]),
            "hybrid" => lineside(&[
                "hybrid",
                "set",
                "--server",
                server,
                "--key",
                &key,
                "--genesis",
                &genesis,
                "a",
                &number,
            ]),
            other => panic!("{other} takes no writes"),
        };
        match done.status.success() {
            true => Ok(()),
            false => Err(text(&done)),
        }
    }

    /// Returns a page of the console, with its head.
    pub fn page(&self, path: &str) -> String {
        let mut console = TcpStream::connect(&self.console).expect("the console");
        write!(
            console,
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.console
        )
        .expect("asking");
        let mut said = String::new();
        console.read_to_string(&mut said).expect("an answer");
        said
    }

    /// Returns the value of a line of `/proc/PID/task/TID/status` for each thread.
    pub fn threads(&self, key: &str) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.daemon.child.id())).expect("threads");
        let value = |task: std::io::Result<std::fs::DirEntry>| {
            // A thread that has ended in the meantime has no such file and is skipped.
            let status = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            Some(line.trim().to_owned())
        };
        tasks.filter_map(value).collect()
    }
}
