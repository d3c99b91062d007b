//! A host with a clock and a directory: what `lineside transfer serve` puts behind its sockets.

use crate::entry::Entry;
use crate::host::{Counts, Host, OpenError, Opened, Retention, SessionUse, Setup, SteadyUse};
use crate::store::Store;
use crate::writer::StoreWriter;
use k256::ecdsa::SigningKey;
use lineside_fastpath::{BatchRequest, BatchHost, RequestOutcome};
use lineside_journal::{Error as JournalError, FsDisk, Options, dump_over_gaps};
use lineside_util::data_dir::Kind;
use lineside_util::hex::{array_from_hex, to_hex};
use lineside_util::key_file::{KeyFileError, read_owner_only};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
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
/// Bytes of the journal after which it is used so, too.
const SNAPSHOT_BYTES: u64 = 256 << 20;

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
    /// How the sessions are used.
    pub session_use: SessionUse,
    /// Pending transfers, and how many there may be.
    pub pendings: (u64, u64),
    /// Seconds by which the journal's clock is ahead of the machine's.
    pub clock_ahead_s: u64,
    /// Bytes of the file system that are free, and all of them.
    pub space_bytes: (u64, u64),
    /// Why nothing was removed from the journal the last time, if that is so.
    pub not_retained: Option<String>,
}

/// A host that answers groups. Its report is shared: it is written after each group, and never waits for a disk.
pub struct Server {
    host: Host<FsDisk>,
    report: Arc<Mutex<Report>>,
    disk: FsDisk,
    snapshot_at: u64,
    /// Bytes of the journal at which a snapshot is due.
    snapshot_bytes_at: u64,
    retention: Retention,
    /// The last block that is settled, where blocks are settled.
    settled: Option<Arc<AtomicU64>>,
    not_retained: Option<String>,
    /// When what is looked for once a second was last looked for, and what was found.
    looked_at_s: u64,
    looked: Looked,
    steady_use: SteadyUse,
}

/// What is looked for once a second.
#[derive(Clone, Copy, Default)]
struct Looked {
    session_use: SessionUse,
    space_bytes: (u64, u64),
    clock_ahead_s: u64,
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
        let key = ledger_key(&data)?;
        let public = to_hex(key.verifying_key().to_encoded_point(true).as_bytes());
        fs::write(data.join(PUBLIC_KEY_FILE), public)?;
        let fill = Box::new(StoreWriter::new(Arc::clone(&store)));
        let (mut host, opened) = Host::open(
            disk.clone(),
            Options::default(),
            setup,
            key,
            Box::new(random),
            store,
            fill,
        )?;
        host.commit_beside()?;
        let mut server = Self {
            snapshot_at: host.ledger().number() + SNAPSHOT_OPERATIONS,
            snapshot_bytes_at: SNAPSHOT_BYTES,
            host,
            report: Arc::default(),
            disk,
            retention: Retention::default(),
            settled: None,
            not_retained: None,
            looked_at_s: 0,
            looked: Looked::default(),
            steady_use: SteadyUse::default(),
        };
        server.tell(now_s());
        Ok((server, opened))
    }

    /// Says what stays in the journal; blocks behind the number in `settled` do in any case.
    pub fn retain(&mut self, retention: Retention, settled: Option<Arc<AtomicU64>>) {
        (self.retention, self.settled) = (retention, settled);
    }

    /// Writes a snapshot when it is due, and then removes from the journal what need not stay. Where the host is never
    /// idle, both wait for twice as long and are then done all the same.
    fn snapshot_when_due(&mut self, now_s: u64, patience: u64) {
        let (number, bytes) = (self.host.ledger().number(), self.host.journal_bytes());
        let is_due = number >= self.snapshot_at + patience * SNAPSHOT_OPERATIONS
            || bytes >= self.snapshot_bytes_at + patience * SNAPSHOT_BYTES;
        if !is_due || self.host.failed().is_some() {
            return;
        }
        // One that fails is tried again later; the journal has everything.
        let _ = self.host.snapshot();
        self.snapshot_at = number + SNAPSHOT_OPERATIONS;
        self.snapshot_bytes_at = bytes + SNAPSHOT_BYTES;
        let settled = self
            .settled
            .as_ref()
            .map_or(u64::MAX, |settled| settled.load(Relaxed));
        match self.host.retain(&self.retention, now_s, settled) {
            Ok(retained) => {
                self.not_retained = None;
                if retained.segments > 0 {
                    let (segments, archived_bytes) = (retained.segments, retained.archived_bytes);
                    tracing::info!(segments, archived_bytes, "transfer: old blocks left the journal");
                }
            }
            Err(error) => {
                tracing::warn!("transfer: old blocks stay in the journal: {error}");
                self.not_retained = Some(error.to_string());
            }
        }
    }

    /// How it is, whenever it is asked.
    pub fn report(&self) -> Arc<Mutex<Report>> {
        Arc::clone(&self.report)
    }

    fn tell(&mut self, now_s: u64) {
        if self.looked_at_s != now_s {
            self.looked_at_s = now_s;
            self.looked = Looked {
                session_use: self.steady_use.look(now_s, self.host.session_use(now_s)),
                // Where the system does not say, there is no warning.
                space_bytes: self.disk.space_bytes().unwrap_or((u64::MAX, u64::MAX)),
                clock_ahead_s: self.host.ledger().clock_s().saturating_sub(now_s),
            };
        }
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
            session_use: self.looked.session_use,
            pendings: (ledger.pending_count() as u64, ledger.limits().pendings),
            clock_ahead_s: self.looked.clock_ahead_s,
            space_bytes: self.looked.space_bytes,
            not_retained: self.not_retained.clone(),
        };
    }
}

/// The report, whoever wrote it.
pub fn lock(report: &Mutex<Report>) -> MutexGuard<'_, Report> {
    report.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BatchHost for Server {
    fn execute(&mut self, asked: &[BatchRequest<'_>]) {
        let now_s = now_s();
        self.host.execute(now_s, asked);
        self.snapshot_when_due(now_s, 1);
    }

    fn take(&mut self, waits: bool) -> Option<Vec<RequestOutcome>> {
        let said = self.host.take(waits)?;
        self.tell(now_s());
        Some(said)
    }

    fn idle(&mut self) {
        let now_s = now_s();
        self.host.tick(now_s);
        self.snapshot_when_due(now_s, 0);
        self.tell(now_s);
    }

    fn end(&mut self) {
        self.host.end();
        self.tell(now_s());
    }

    fn call_interval_max(&self) -> Duration {
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

/// The key of the ledger in `data`; a new one where there never was one.
///
/// # Errors
/// Those of [`load_or_make_key`]; `NotFound` where the key is gone: its public half is there, or blocks are sealed.
pub fn ledger_key(data: &Path) -> io::Result<SigningKey> {
    let file = data.join(KEY_FILE);
    if file.exists() || !data.is_dir() {
        return load_or_make_key(&file);
    }
    let public = data.join(PUBLIC_KEY_FILE);
    if public.exists() {
        let what = format!(
            "{} is missing, although its public half {} is here: bring the key back from a copy; if it is lost and no \
             block was sealed with it yet, remove the public half, and the next start makes a new key",
            file.display(),
            public.display()
        );
        return Err(io::Error::new(io::ErrorKind::NotFound, what));
    }
    let mut has_blocks = false;
    let looked = FsDisk::look(data).and_then(|disk| {
        dump_over_gaps(&disk, 1, |record| {
            let entry = Entry::from_record(record.kind, record.payload);
            has_blocks |= matches!(entry, Some(Entry::Block(_)));
        })
    });
    match looked {
        // What is wrong with the journal itself is said when it is opened.
        Ok(()) | Err(JournalError::NoJournal | JournalError::Damaged { .. }) => {}
        Err(error) => return Err(io::Error::other(error)),
    }
    if has_blocks {
        let what = format!(
            "{} is missing, and this ledger has blocks that were sealed with it: bring the file back from a copy",
            file.display()
        );
        return Err(io::Error::new(io::ErrorKind::NotFound, what));
    }
    load_or_make_key(&file)
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
