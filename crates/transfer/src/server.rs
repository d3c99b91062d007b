//! A host with a clock and a directory: what `lineside transfer serve` puts behind its sockets.

use crate::host::{Counts, Host, OpenError, Opened, Setup};
use crate::store::Store;
use crate::writer::StoreWriter;
use k256::ecdsa::SigningKey;
use lineside_fastpath::{Asked, GroupHost, Said};
use lineside_journal::{FsDisk, Options};
use lineside_util::data_dir::Kind;
use lineside_util::hex::{array_from_hex, to_hex};
use lineside_util::key_file::{KeyFileError, read_owner_only};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Name of the file with the key that signs blocks: 64 hex digits.
pub const KEY_FILE: &str = "settlement.key";
/// Name of the file with its public half, which proofs are checked with: 66 hex digits, SEC1 compressed.
pub const PUBLIC_KEY_FILE: &str = "settlement.pub";

/// Kind of a ledger's directory. The operator may bring the key of a new ledger.
pub const KIND: Kind = Kind::new("transfer", 1).beside(&[KEY_FILE, PUBLIC_KEY_FILE]);

/// Operations after which a moment of rest is used for a snapshot.
const SNAPSHOT_OPERATIONS: u64 = 1 << 20;

/// How a server is, whenever it is asked.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What the host counted.
    pub counts: Counts,
    /// Accounts.
    pub accounts: u64,
    /// Open sessions.
    pub sessions: u64,
    /// Operations numbered so far.
    pub operations: u64,
    /// Blocks sealed so far.
    pub blocks: u64,
    /// Bytes of the journal.
    pub journal_bytes: u64,
    /// Operations that the fast path has executed and the journal has not yet.
    pub unjournaled: u64,
    /// The disk has no room: for what the fast path did, or for what was last asked for.
    pub full: bool,
    /// Why nothing is written any more, if that is so.
    pub failed: Option<String>,
}

/// A host that answers groups. Its report is shared: it is written after each group, and never waits for a disk.
pub struct Server {
    host: Host<FsDisk>,
    report: Arc<Mutex<Report>>,
    snapshot_at: u64,
}

impl Server {
    /// Opens the directory `data`, which is made where it is not there, with its key; fills `store` from it.
    ///
    /// # Errors
    /// Why it cannot be served.
    pub fn open(data: &Path, setup: Setup, store: Arc<Store>) -> Result<(Self, Opened), OpenError> {
        Self::open_on(FsDisk::claim(data, &KIND)?, setup, store)
    }

    /// Opens a directory that was claimed, as [`Server::open`] does.
    ///
    /// # Errors
    /// Those of [`Server::open`].
    pub fn open_on(disk: FsDisk, setup: Setup, store: Arc<Store>) -> Result<(Self, Opened), OpenError> {
        let data = disk.path().to_owned();
        let key = load_or_make_key(&data.join(KEY_FILE))?;
        let public = to_hex(key.verifying_key().to_encoded_point(true).as_bytes());
        fs::write(data.join(PUBLIC_KEY_FILE), public)?;
        let fill = Box::new(StoreWriter::new(Arc::clone(&store)));
        let (mut host, opened) = Host::open(
            disk,
            Options::default(),
            setup,
            key,
            Box::new(random),
            store,
            fill,
        )?;
        host.commit_beside()?;
        let server = Self {
            snapshot_at: host.ledger().number() + SNAPSHOT_OPERATIONS,
            host,
            report: Arc::default(),
        };
        server.tell();
        Ok((server, opened))
    }

    /// How it is, whenever it is asked.
    pub fn report(&self) -> Arc<Mutex<Report>> {
        Arc::clone(&self.report)
    }

    fn tell(&self) {
        let ledger = self.host.ledger();
        *lock(&self.report) = Report {
            counts: self.host.counts(),
            accounts: ledger.account_count() as u64,
            sessions: ledger.session_count().into(),
            operations: ledger.number(),
            blocks: self.host.blocks(),
            journal_bytes: self.host.journal_bytes(),
            unjournaled: self.host.unjournaled(),
            full: self.host.is_full(),
            failed: self.host.failed().map(str::to_owned),
        };
    }
}

/// The report, whoever wrote it.
pub fn lock(report: &Mutex<Report>) -> MutexGuard<'_, Report> {
    report.lock().unwrap_or_else(PoisonError::into_inner)
}

impl GroupHost for Server {
    fn execute(&mut self, asked: &[Asked<'_>]) {
        self.host.execute(now_s(), asked);
    }

    fn take(&mut self, waits: bool) -> Option<Vec<Said>> {
        let said = self.host.take(waits)?;
        self.tell();
        Some(said)
    }

    fn idle(&mut self) {
        self.host.tick(now_s());
        let number = self.host.ledger().number();
        if number >= self.snapshot_at && self.host.failed().is_none() {
            // One that fails is tried again later; the journal has everything.
            let _ = self.host.snapshot();
            self.snapshot_at = number + SNAPSHOT_OPERATIONS;
        }
        self.tell();
    }

    fn end(&mut self) {
        self.host.end();
        self.tell();
    }

    fn patience(&self) -> Duration {
        // A ring that is not emptied fills.
        Duration::from_millis(if self.host.is_express() { 1 } else { 50 })
    }
}

/// Seconds since 1970.
fn now_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// From the kernel. Without it there are no secrets, and so no server.
fn random() -> u64 {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(error) => panic!("the kernel gives no random numbers: {error}"),
    }
}

/// The key in `file`; a new one, for nobody else to read, where there is none.
///
/// # Errors
/// What the system says, or `InvalidData` where the file holds no key.
pub fn load_or_make_key(file: &Path) -> io::Result<SigningKey> {
    match load_key(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        found => return found,
    }
    let key = loop {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        if let Ok(key) = SigningKey::from_slice(&bytes) {
            break key;
        }
    };
    let mut out = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file)?;
    out.write_all(to_hex(&key.to_bytes()).as_bytes())?;
    out.sync_all()?;
    if let Some(folder) = file.parent() {
        fs::File::open(folder)?.sync_all()?;
    }
    Ok(key)
}

/// The key in `file`.
///
/// # Errors
/// What the system says, `InvalidData` where the file holds no key, or `PermissionDenied` where others may use it.
pub fn load_key(file: &Path) -> io::Result<SigningKey> {
    let text = read_owner_only(file).map_err(|error| match error {
        KeyFileError::Unreadable { source, .. } => source,
        exposed => io::Error::new(io::ErrorKind::PermissionDenied, exposed),
    })?;
    array_from_hex(text.trim())
        .and_then(|bytes: [u8; 32]| SigningKey::from_slice(&bytes).ok())
        .ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{} holds no key", file.display()),
            )
        })
}
