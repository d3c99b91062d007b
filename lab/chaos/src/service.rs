//! Service in the form in which the cases start it: a folder with the configuration and the data of one service, and a
//! request whose answer is known.

use crate::Scene;
use crate::cgroup::Cgroup;
use crate::client::{Ask, Client};
use crate::packet::{self, Answer, Session, status};
use crate::server::Server;
use anyhow::{Context, ensure};
use lineside_messages::hybrid::request::{Body, Sees};
use lineside_messages::hybrid::secret::SecretKey;
use lineside_messages::hybrid::signing::{Identity, Signing, counter_now};
use lineside_spv::chain::{ChainStore, Network};
use lineside_testkit::DemoChain;
use lineside_util::key_file::read_signing_key;
use lineside_verify::Curve;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, io};
use tempfile::TempDir;

/// Time-out of the first request of the honest client after the daemon has started.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// Account that the honest client requests; the next constants are its row and its value.
const ACCOUNT: u128 = 1;
pub const BALANCE: u64 = 1_000_000_000_000;
const ROW: &[u8] = b"probe";
const VALUE: &[u8] = b"held";
/// Number of blocks of the chain that `spv` serves, and number of transactions in each block.
const BLOCKS: usize = 4;
const TRANSACTIONS: u32 = 256;
/// Operation of `hybrid` over UDP.
const HYBRID_ASK: u8 = 32;
/// Size of a request of `hybrid` over UDP in bytes, including padding.
const HYBRID_ROOM: usize = 1000;

/// Name of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Spv,
    Transfer,
    Column,
    Fabric,
    Hybrid,
}

impl Name {
    /// Returns the name of the service's configuration section.
    pub fn section(self) -> &'static str {
        match self {
            Self::Spv => "spv",
            Self::Transfer => "transfer",
            Self::Column => "column",
            Self::Fabric => "fabric",
            Self::Hybrid => "hybrid",
        }
    }
}

/// Configuration of a daemon with one service.
pub struct Service {
    /// Folder with configuration and data. Dropping this value removes it.
    pub folder: TempDir,
    name: Name,
    program: PathBuf,
    /// Address on which the service listens. Its port is 0 before the first start.
    listen: SocketAddr,
    /// Lines of the section `[datapath]`.
    datapath: String,
    /// Additional lines of the service's section.
    keys: String,
    /// TXID that the honest client of `spv` requests, and the Merkle root of its block.
    known: ([u8; 32], [u8; 32]),
}

impl Service {
    /// Prepares a service that listens at `listen`, with the additional lines `keys` in its section.
    ///
    /// # Errors
    /// Fails if the data of the service cannot be created.
    pub fn new(scene: &Scene, name: Name, listen: SocketAddr, keys: &str) -> anyhow::Result<Self> {
        let mut service = Self {
            folder: tempfile::tempdir()?,
            name,
            program: scene.program.clone(),
            listen,
            datapath: "kind = \"socket\"\n".to_owned(),
            keys: keys.to_owned(),
            known: ([0; 32], [0; 32]),
        };
        match name {
            Name::Spv => service.make_chain()?,
            Name::Hybrid => service.make_database()?,
            Name::Transfer | Name::Column | Name::Fabric => {}
        }
        if name == Name::Column {
            service.keys.push_str("store = \"embedded\"\n");
        }
        Ok(service)
    }

    /// Configures the fast path to run in the kernel, at `interface`, with its pins in `pins`.
    pub fn at_interface(&mut self, interface: &str, pins: &Path) {
        self.datapath = format!(
            "kind = \"xdp\"\ninterface = \"{interface}\"\nxdp_mode = \"generic\"\npin_dir = {pins:?}\n"
        );
    }

    /// Adds lines to the section of the service. Call this before the first start.
    pub fn add_keys(&mut self, keys: &str) {
        self.keys.push_str(keys);
    }

    /// Moves the data into `folder`, for example on a small disk. Call this before the first start.
    pub fn place_data(&mut self, folder: &Path) {
        // No other code may write the key `data`, because a duplicate key would be an error.
        let _ = writeln!(self.keys, "data = {folder:?}");
    }

    /// Starts the daemon, in the control group if one is given. Later starts use the address of the first one.
    ///
    /// # Errors
    /// Fails if the daemon did not start; the error contains its last messages.
    pub fn start(&mut self, group: Option<&Cgroup>) -> anyhow::Result<Server> {
        let config = self.folder.path().join("lineside.toml");
        fs::write(&config, self.config())?;
        let server = Server::start(&self.program, &config, group)?;
        self.listen = server.listen;
        Ok(server)
    }

    /// Restores the files of the data to their state at the first call. The daemon must not be running.
    ///
    /// # Errors
    /// Error of the operating system.
    pub fn turn_back(&self) -> anyhow::Result<()> {
        let (data, saved) = (self.folder.path().join("data"), self.folder.path().join("saved"));
        let (from, to) = if saved.exists() {
            (&saved, &data)
        } else {
            (&data, &saved)
        };
        if to.exists() {
            fs::remove_dir_all(to)?;
        }
        copy(from, to)?;
        Ok(())
    }

    fn config(&self) -> String {
        let folder = self.folder.path();
        let mut text = format!(
            "[console]\nlisten = \"127.0.0.1:0\"\n[datapath]\n{}[{}]\nenabled = true\nlisten = \"{}\"\n{}",
            self.datapath,
            self.name.section(),
            self.listen,
            self.keys
        );
        if !self.keys.contains("data = ") {
            let _ = writeln!(text, "data = {:?}", folder.join("data"));
        }
        if self.name == Name::Hybrid {
            let (genesis, key) = (folder.join("genesis.bin"), folder.join("node.key"));
            let _ = writeln!(text, "genesis = {genesis:?}\nnode_key = {key:?}");
        }
        text
    }

    /// Runs a command of `lineside` on the data. Returns whether it succeeded, and its output.
    ///
    /// # Errors
    /// Fails if the command cannot be started.
    pub fn command(&self, words: &[&str]) -> anyhow::Result<(bool, String)> {
        let mut command = Command::new(&self.program);
        command.args(words).stdin(Stdio::null());
        let output = command.current_dir(self.folder.path()).output()?;
        let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.push_str(&String::from_utf8_lossy(&output.stderr));
        Ok((output.status.success(), text))
    }

    fn make_chain(&mut self) -> anyhow::Result<()> {
        let mut chain = ChainStore::open(Some(&self.folder.path().join("data")), Network::Regtest)?;
        for block in DemoChain::new(1, TRANSACTIONS).take(BLOCKS) {
            chain.submit(&block.raw, false)?;
            self.known = (block.txids[7], block.root);
        }
        chain.catch_up()?;
        Ok(())
    }

    fn make_database(&self) -> anyhow::Result<()> {
        let words = [
            "hybrid",
            "init",
            "--member",
            "alice=alice.key:admin",
            "--rule",
            "=*:rw",
        ];
        let (is_made, said) = self.command(&words)?;
        ensure!(is_made, "`lineside {}`: {said}", words.join(" "));
        Ok(())
    }

    /// Returns the identity of the member of `hybrid` that uses the lane `lane`.
    ///
    /// # Errors
    /// Fails if the key or the genesis cannot be read.
    pub fn identity(&self, lane: u16) -> anyhow::Result<Identity> {
        let folder = self.folder.path();
        let genesis = fs::read(folder.join("genesis.bin"))?;
        let (curve, secret) = read_signing_key(&folder.join("alice.key"))?;
        let curve = if curve == "p256" {
            Curve::P256
        } else {
            Curve::Secp256k1
        };
        Ok(Identity {
            database: lineside_messages::hybrid::genesis::database_id(&genesis),
            member: 1,
            key: 0,
            lane,
            secret: SecretKey::from_bytes(curve, &secret).context("alice.key is not a valid key")?,
        })
    }

    /// Returns a signer for requests of the member of `hybrid` in the lane `lane`.
    ///
    /// # Errors
    /// Fails if the key or the genesis cannot be read.
    pub fn signing(&self, lane: u16) -> anyhow::Result<Signing> {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH)?;
        Ok(Signing::new(
            self.identity(lane)?,
            counter_now(unix.as_millis() as u64),
        ))
    }

    /// Writes the data that the honest client requests into a new daemon, and returns this client.
    ///
    /// # Errors
    /// Fails if the daemon does not accept the data.
    pub fn honest(&self, server: &Server) -> anyhow::Result<Honest> {
        let mut client = Client::new(server.listen, 1 << 32)?;
        match self.name {
            Name::Spv | Name::Fabric => {}
            Name::Transfer => create_account(&mut client)?,
            Name::Column => {
                let body = packet::column_body(Session::default(), ROW, VALUE, 0);
                let answer = client.ask(packet::column::PUT, &body, FIRST_REQUEST_TIMEOUT);
                let is_put = answer.as_ref().is_some_and(|answer| answer.status == status::OK);
                ensure!(is_put, "the first put failed: {answer:?}");
            }
            Name::Hybrid => {
                let signing = self.signing(1)?;
                let signed = signing.sign(Body::set(ROW, None, VALUE))?;
                let answer = client.ask(HYBRID_ASK, &hybrid_body(&signed), FIRST_REQUEST_TIMEOUT);
                let is_set = answer
                    .as_ref()
                    .is_some_and(|answer| answer.body.starts_with(&[0, 0, 6]));
                ensure!(is_set, "the first set failed: {answer:?}");
            }
        }
        let signing = (self.name == Name::Hybrid).then(|| self.signing(2)).transpose()?;
        Ok(Honest {
            name: self.name,
            client,
            signing,
            known: self.known,
        })
    }
}

/// Copies a folder with its content.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &target)?,
            false => fs::copy(entry.path(), target).map(drop)?,
        }
    }
    Ok(())
}

fn create_account(client: &mut Client) -> anyhow::Result<()> {
    let session = client
        .open_transfer(FIRST_REQUEST_TIMEOUT)
        .context("the service granted no session")?;
    let create = packet::operation(packet::transfer::CREATE, 0, ACCOUNT, 0, BALANCE, 1);
    let body = packet::execute(&session, &[create]);
    let answer = client.ask(packet::transfer::EXECUTE, &body, FIRST_REQUEST_TIMEOUT);
    let code = answer
        .as_ref()
        .and_then(|answer| packet::outcomes(&answer.body).next());
    ensure!(
        matches!(code, Some((0, ..))),
        "creating the first account failed: {answer:?}"
    );
    Ok(())
}

/// Returns a signed request in the form in which it is sent over UDP.
fn hybrid_body(signed: &[u8]) -> Vec<u8> {
    let mut body = (signed.len() as u16).to_be_bytes().to_vec();
    body.extend(signed);
    body.resize(body.len().max(HYBRID_ROOM), 0);
    body
}

/// Client that sends requests whose answers are known.
pub struct Honest {
    name: Name,
    /// Client over UDP that sends the requests.
    pub client: Client,
    signing: Option<Signing>,
    known: ([u8; 32], [u8; 32]),
}

impl Honest {
    /// Returns operation and body of a request for known data; if `is_known` is false, for data that the service does
    /// not have.
    pub fn question(&self, is_known: bool) -> (u8, Vec<u8>) {
        match self.name {
            Name::Spv => {
                let mut body = if is_known { self.known.0 } else { [9; 32] }.to_vec();
                body.resize(packet::spv::ROOT_BYTES, 0);
                (packet::spv::ROOT, body)
            }
            Name::Transfer => {
                let account = if is_known { ACCOUNT } else { u128::MAX };
                (packet::transfer::REFER, packet::refer(account))
            }
            Name::Column | Name::Fabric => {
                let key = if is_known { ROW } else { b"absent" };
                (
                    packet::column::GET,
                    packet::column_body(Session::default(), key, &[], 400),
                )
            }
            Name::Hybrid => {
                let keys = vec![if is_known { ROW } else { b"absent" }];
                let sees = Sees::Local;
                let signing = self.signing.as_ref().expect("hybrid has a key");
                let signed = signing.sign(Body::Get { sees, keys }).expect("one short key");
                (HYBRID_ASK, hybrid_body(&signed))
            }
        }
    }

    /// Returns true if `answer` is right for the request that [`Self::question`] returns.
    pub fn is_right(&self, is_known: bool, answer: &Answer) -> bool {
        match self.name {
            Name::Spv if is_known => answer.status == status::OK && answer.body[..32] == self.known.1,
            Name::Spv => answer.status == 1,
            Name::Transfer => packet::balance(&answer.body).is_some() == is_known,
            Name::Column | Name::Fabric => packet::value(&answer.body) == is_known.then_some(VALUE),
            Name::Hybrid => {
                let has_value = answer.body.windows(VALUE.len()).any(|bytes| bytes == VALUE);
                answer.status == status::OK && answer.body.starts_with(&[0, 0, 1]) && has_value == is_known
            }
        }
    }

    /// Sends both requests, and sends each again while the answer is `busy`.
    ///
    /// # Errors
    /// Fails if there is no answer within `patience`, or if an answer is wrong.
    pub fn check(&mut self, patience: Duration) -> anyhow::Result<()> {
        let deadline = Instant::now() + patience;
        for is_known in [true, false] {
            let (op, body) = self.question(is_known);
            let mut ask = || self.client.ask(op, &body, patience);
            let mut answer = ask();
            while matches!(&answer, Some(busy) if busy.status == status::BUSY) && Instant::now() < deadline {
                answer = ask();
            }
            let is_right = answer
                .as_ref()
                .is_some_and(|answer| self.is_right(is_known, answer));
            ensure!(
                is_right,
                "{}: the honest client got {answer:?}",
                self.name.section()
            );
        }
        Ok(())
    }
}
