//! Host together with a clock and a data directory. `lineside transfer serve` runs it for its sockets.

use crate::entry::Entry;
use crate::host::{Counts, Host, OpenError, OpenedLedger, Retention, SessionUse, Setup, SteadyUse};
use crate::store::Store;
use crate::writer::{StoreWriter, TransferFill};
use k256::ecdsa::SigningKey;
use lineside_fastpath::{BatchHost, BatchRequest, RequestOutcome};
use lineside_journal::{Error as JournalError, FsDisk, Options, dump_over_gaps, refuse_emptied};
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
/// Name of the file with the public key, which proofs are checked with: 66 hex digits, SEC1 compressed.
pub const PUBLIC_KEY_FILE: &str = "settlement.pub";

/// Kind of a ledger's directory. The operator may put the key of a new ledger into the directory beforehand.
pub const KIND: Kind = Kind::new("transfer", 1).beside(&[KEY_FILE, PUBLIC_KEY_FILE]);

/// Number of operations since the last snapshot after which the server uses an idle moment for a new one.
const SNAPSHOT_OPERATIONS: u64 = 1 << 20;
/// Number of journal bytes since the last snapshot after which the server uses an idle moment for a new one.
const SNAPSHOT_BYTES: u64 = 256 << 20;

/// State of a server, as the status endpoint shows it.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Counters of the host.
    pub counts: Counts,
    /// Number of accounts.
    pub accounts: u64,
    /// Number of open sessions.
    pub sessions: u64,
    /// Number of executed operations.
    pub operations: u64,
    /// Number of sealed blocks.
    pub blocks: u64,
    /// Size of the journal in bytes.
    pub journal_bytes: u64,
    /// Number of operations that the fast path has executed and that are not in the journal yet.
    pub unjournaled: u64,
    /// True if the disk has no room for the fast path's operations or for the last request.
    pub full: bool,
    /// Reason why writing has ended, if it has.
    pub failed: Option<String>,
    /// Use of the sessions.
    pub session_use: SessionUse,
    /// Number of pending transfers, and its maximum.
    pub pendings: (u64, u64),
    /// Number of remembered idempotency keys, and its maximum.
    pub keys: (u64, u64),
    /// Seconds by which the journal's clock is ahead of the machine's.
    pub clock_ahead_s: u64,
    /// Free bytes of the file system, and its size.
    pub space_bytes: (u64, u64),
    /// True if the settings `keep_blocks` and `keep_days`, which are not set, would remove a part of the journal.
    pub may_shorten: bool,
    /// Reason why the last attempt to remove old blocks from the journal failed, if it did.
    pub not_retained: Option<String>,
}

/// Free space on the ledger's disk in bytes below which `/status` warns. It also warns if less than a twentieth of the
/// disk is free.
const SPACE_BYTES: u64 = 512 << 20;

/// Host that executes requests in batches. Its shared report is updated after each batch, and never waits for a disk.
pub struct Server {
    host: Host<FsDisk>,
    report: Arc<Mutex<Report>>,
    disk: FsDisk,
    snapshot_at: u64,
    /// Size of the journal at which a snapshot is due, in bytes.
    snapshot_bytes_at: u64,
    retention: Retention,
    /// Number of the last settled block, if blocks are settled.
    settled: Option<Arc<AtomicU64>>,
    not_retained: Option<String>,
    /// True if the disk had no room at the last update of the report.
    was_full: bool,
    /// Time of the last check of the values that the server checks once a second, in seconds since 1970.
    polled_at_s: u64,
    polled: PolledValues,
    steady_use: SteadyUse,
}

/// Values that the server checks once a second.
#[derive(Clone, Copy, Default)]
struct PolledValues {
    session_use: SessionUse,
    space_bytes: (u64, u64),
    may_shorten: bool,
    clock_ahead_s: u64,
}

impl Server {
    /// Opens the directory `data` with its key, or creates both, and fills `store` from it.
    ///
    /// # Errors
    /// Reason why the ledger cannot be served.
    pub fn open(data: &Path, setup: Setup, store: Arc<Store>) -> Result<(Self, OpenedLedger), OpenError> {
        Self::open_on(FsDisk::claim(data, &KIND)?, setup, store)
    }

    /// Opens a directory that this process has claimed, like [`Server::open`].
    ///
    /// # Errors
    /// Fails as [`Server::open`] does.
    pub fn open_on(disk: FsDisk, setup: Setup, store: Arc<Store>) -> Result<(Self, OpenedLedger), OpenError> {
        let fill = Box::new(StoreWriter::new(Arc::clone(&store)));
        Self::open_with(disk, setup, store, fill)
    }

    /// Opens a directory that this process has claimed, like [`Server::open`], with another writer of the fast-path
    /// table: `fill` writes to `store`.
    ///
    /// # Errors
    /// Fails as [`Server::open`] does.
    pub fn open_with(
        disk: FsDisk,
        setup: Setup,
        store: Arc<Store>,
        fill: Box<dyn TransferFill>,
    ) -> Result<(Self, OpenedLedger), OpenError> {
        refuse_emptied(&disk)?;
        let data = disk.path().to_owned();
        let key = ledger_key(&data)?;
        let public = to_hex(key.verifying_key().to_encoded_point(true).as_bytes());
        fs::write(data.join(PUBLIC_KEY_FILE), public)?;
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
            was_full: false,
            polled_at_s: 0,
            polled: PolledValues::default(),
            steady_use: SteadyUse::default(),
        };
        server.update_status(now_s());
        Ok((server, opened))
    }

    /// Sets which blocks remain in the journal. Blocks after the number in `settled` always remain.
    pub fn retain(&mut self, retention: Retention, settled: Option<Arc<AtomicU64>>) {
        (self.retention, self.settled) = (retention, settled);
    }

    /// Writes a snapshot when it is due, and then removes old blocks from the journal. The server does both in an idle
    /// moment, or at the latest when twice as many operations or bytes have accumulated.
    fn snapshot_when_due(&mut self, now_s: u64, patience: u64) {
        let (number, bytes) = (self.host.ledger().number(), self.host.journal_bytes());
        let is_due = number >= self.snapshot_at + patience * SNAPSHOT_OPERATIONS
            || bytes >= self.snapshot_bytes_at + patience * SNAPSHOT_BYTES;
        if !is_due || self.host.failed().is_some() {
            return;
        }
        // If the snapshot fails, the server tries again later; the journal contains all operations.
        if self.host.snapshot().is_ok() {
            tracing::info!(operation = number, "transfer: wrote a snapshot");
        }
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
                    tracing::info!(
                        segments,
                        archived_bytes,
                        "transfer: removed old blocks from the journal"
                    );
                }
            }
            Err(error) => {
                tracing::warn!(
                    "transfer: old blocks cannot be removed from the journal: {error}; the journal keeps growing"
                );
                self.not_retained = Some(error.to_string());
            }
        }
    }

    /// Returns the report, which is shared with the status endpoint.
    pub fn report(&self) -> Arc<Mutex<Report>> {
        Arc::clone(&self.report)
    }

    fn update_status(&mut self, now_s: u64) {
        if self.polled_at_s != now_s {
            self.polled_at_s = now_s;
            // If the system does not report the free space, the server warns of nothing.
            let space_bytes = self.disk.space_bytes().unwrap_or((u64::MAX, u64::MAX));
            self.polled = PolledValues {
                session_use: self.steady_use.update(now_s, self.host.session_use(now_s)),
                space_bytes,
                may_shorten: is_short(space_bytes)
                    && !self.retention.is_limited()
                    && self.host.has_old_segments(),
                clock_ahead_s: self.host.ledger().clock_s().saturating_sub(now_s),
            };
        }
        let full = self.host.is_full();
        log_change(std::mem::replace(&mut self.was_full, full), full);
        let ledger = self.host.ledger();
        *lock(&self.report) = Report {
            counts: self.host.counts(),
            accounts: ledger.account_count() as u64,
            sessions: ledger.session_count().into(),
            operations: ledger.number(),
            blocks: self.host.blocks(),
            journal_bytes: self.host.journal_bytes(),
            unjournaled: self.host.unjournaled(),
            full,
            failed: self.host.failed().map(str::to_owned),
            session_use: self.polled.session_use,
            pendings: (ledger.pending_count() as u64, ledger.limits().pendings),
            keys: (ledger.key_count() as u64, ledger.limits().keys),
            clock_ahead_s: self.polled.clock_ahead_s,
            space_bytes: self.polled.space_bytes,
            may_shorten: self.polled.may_shorten,
            not_retained: self.not_retained.clone(),
        };
    }
}

/// Returns true if so little of the ledger's disk is free that the server warns: of (free, all) bytes.
pub(crate) fn is_short((free, all): (u64, u64)) -> bool {
    free < SPACE_BYTES || free < all / 20
}

/// Logs that the server begins to refuse changes because the disk is full, or accepts them again.
fn log_change(was_full: bool, is_full: bool) {
    match (was_full, is_full) {
        (false, true) => tracing::error!(
            "transfer: the disk of the ledger is full, or too many files are open: changes are refused (no_room); make \
             space, or raise the limit on open files; the server then accepts changes again without a restart"
        ),
        (true, false) => tracing::info!("transfer: the disk has room again, and changes are accepted"),
        _ => {}
    }
}

/// Locks the report, even if a thread panicked while it held the lock.
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
        self.update_status(now_s());
        Some(said)
    }

    fn idle(&mut self) {
        let now_s = now_s();
        self.host.tick(now_s);
        self.snapshot_when_due(now_s, 0);
        self.update_status(now_s);
    }

    fn end(&mut self) {
        self.host.end();
        self.update_status(now_s());
    }

    fn call_interval_max(&self) -> Duration {
        // In `express` the host has to empty the rings before they are full.
        Duration::from_millis(if self.host.is_express() { 1 } else { 50 })
    }
}

/// Seconds since 1970.
fn now_s() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

/// Returns a random number from the kernel. Without random numbers the server cannot create secret tokens, so it must
/// not run.
fn random() -> u64 {
    let mut bytes = [0; 8];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u64::from_ne_bytes(bytes),
        Err(error) => panic!("the kernel returned no random number: {error}"),
    }
}

/// Returns the key of the ledger in `data`; creates one if the ledger never had one.
///
/// # Errors
/// Fails as [`load_or_make_key`] does, or with `NotFound` if the key was lost: its public key exists, or blocks are
/// sealed.
pub fn ledger_key(data: &Path) -> io::Result<SigningKey> {
    let file = data.join(KEY_FILE);
    if file.exists() || !data.is_dir() {
        return load_or_make_key(&file);
    }
    let public = data.join(PUBLIC_KEY_FILE);
    if public.exists() {
        let what = format!(
            "{key} is missing, but its public key {public} exists: restore {key} from a copy. If there is no copy, \
             remove {public} and start again: a ledger without sealed blocks gets a new key. If that start is refused \
             because the ledger has sealed blocks, keep this directory for its proofs, and begin a new ledger in \
             another one",
            key = file.display(),
            public = public.display()
        );
        return Err(io::Error::new(io::ErrorKind::NotFound, what));
    }
    let mut has_blocks = false;
    let opened_ledger = FsDisk::look(data).and_then(|disk| {
        dump_over_gaps(&disk, 1, |record| {
            let entry = Entry::from_record(record.kind, record.payload);
            has_blocks |= matches!(entry, Some(Entry::Block(_)));
        })
    });
    match opened_ledger {
        Ok(()) | Err(JournalError::NoJournal) => {}
        // A damaged journal may contain blocks that this search does not find.
        Err(error) => return Err(io::Error::other(format!("{}: {error}", data.display()))),
    }
    if has_blocks {
        let what = format!(
            "{} is missing, but this ledger has blocks that were sealed with it: restore the file from a copy",
            file.display()
        );
        return Err(io::Error::new(io::ErrorKind::NotFound, what));
    }
    load_or_make_key(&file)
}

/// Returns the key in `file`; creates one, readable only by its owner, if the file does not exist.
///
/// # Errors
/// Errors of the system, or `InvalidData` if the file does not contain a key.
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

/// Returns the key in `file`.
///
/// # Errors
/// Errors of the system, `InvalidData` if the file does not contain a key, or `PermissionDenied` if other users can
/// read it.
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
                format!(
                    "{} contains no private key (64 hex digits): restore the file from a copy",
                    file.display()
                ),
            )
        })
}
