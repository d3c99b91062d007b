//! Client sessions: one opened for a single command, or one kept in a file for many commands.
//!
//! The server executes each packet of a session once, by its sequence number. A session file therefore stores the
//! packet that has no reply yet, and the next command must repeat exactly that packet.

use super::ask::Server;
use anyhow::{Context, anyhow, bail};
use clap::{Args, Subcommand};
use lineside_client::transfer::AccountId;
use lineside_client::transfer::{Client, ClientError, Executed, Session};
use lineside_util::key_file::remedy_for;
use lineside_wire::{
    Operation, TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_FREEZE, TRANSFER_COMMAND_ISSUE,
    TRANSFER_COMMAND_UNFREEZE, TRANSFER_CONTRACT_PENDING, TRANSFER_CONTRACT_POST, TRANSFER_CONTRACT_VOID,
    TRANSFER_FLAG_KEYED, TRANSFER_FLAG_LINKED,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use zerocopy::{FromBytes, IntoBytes};

/// Subcommands of `lineside transfer session`.
#[derive(Subcommand)]
pub enum SessionVerb {
    /// Open a session and store it in a new file.
    Open(SessionFile),
    /// Print the number of a session, its next sequence number, and the packet that has no reply yet.
    Show(SessionFile),
    /// Close a session and remove its file.
    ///
    /// Refuses to close a session whose last packet has no reply yet, because that packet may have been executed, and
    /// only the session has its outcome: repeat the command of that packet first.
    Close(CloseSession),
}

/// Arguments of `session close`.
#[derive(Args)]
pub struct CloseSession {
    #[command(flatten)]
    session: SessionFile,
    /// Close the session even if its last packet has no reply; the outcome of that packet is then known only from the
    /// accounts.
    #[arg(long)]
    force: bool,
}

/// Session file, and the server that knows the session.
#[derive(Args)]
pub struct SessionFile {
    #[command(flatten)]
    server: Server,
    /// Session file; everybody who can read it can use the session.
    file: PathBuf,
}

/// Content of a session file. `unanswered` holds the operations of the packet that may have been sent and has no reply
/// yet, in hex; the next packet must be the same.
#[derive(Serialize, Deserialize)]
struct SessionContent {
    slot: u32,
    token: u64,
    next: u64,
    unanswered: Option<Vec<String>>,
}

/// Returns the path with `ending` appended to the file name.
fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(ending);
    name.into()
}

/// Waits until no other command uses the session; two commands would send different packets with one sequence number.
/// The lock is a separate file, because each command replaces the session file.
fn lock(file: &Path) -> anyhow::Result<File> {
    let path = beside(file, ".lock");
    let locking = || {
        let lock = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)?;
        lock.lock()?;
        std::io::Result::Ok(lock)
    };
    locking().with_context(|| format!("cannot lock the session file with {}", path.display()))
}

impl SessionContent {
    fn read(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(file).map_err(|error| {
            let remedy = remedy_for(&error, "`lineside transfer session open` creates one");
            anyhow!(
                "{}: cannot read the session file: {error}{remedy}",
                file.display()
            )
        })?;
        serde_json::from_str(&text).with_context(|| {
            format!(
                "{}: this file contains no session; give a file of `lineside transfer session open`",
                file.display()
            )
        })
    }

    /// Returns the locked session. Creates no lock file if the session file does not exist.
    fn locked(file: &Path) -> anyhow::Result<(File, Self)> {
        Self::read(file)?;
        let lock = lock(file)?;
        Ok((lock, Self::read(file)?))
    }

    fn write(&self, file: &Path) -> anyhow::Result<()> {
        let new = beside(file, ".new");
        let writing = || {
            let mut out = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&new)?;
            out.write_all(serde_json::to_string(self)?.as_bytes())?;
            out.sync_all()?;
            fs::rename(&new, file)
        };
        writing().with_context(|| format!("cannot write the session file {}", file.display()))
    }

    /// Returns the operations of the packet that has no reply yet, in the notation of `batch`.
    fn unanswered_text(&self) -> Option<String> {
        let texts: Vec<_> = self
            .unanswered
            .as_ref()?
            .iter()
            .map(|words| operation_text(words))
            .collect();
        Some(texts.join("; "))
    }

    fn session(&self) -> Session {
        Session::new(self.slot, self.token, self.next)
    }

    /// Executes the operations as the next packet. If an earlier packet has no reply yet, the operations must be the
    /// same; the server then executes them once.
    fn execute(
        &mut self,
        file: &Path,
        client: &mut Client,
        operations: &[Operation],
    ) -> anyhow::Result<Executed> {
        let words: Vec<_> = operations
            .iter()
            .map(|operation| lineside_util::hex::to_hex(operation.as_bytes()))
            .collect();
        if self.unanswered.as_ref().is_some_and(|before| *before != words) {
            bail!(
                "{}: `{}` was sent and has no reply yet; repeat exactly this command first",
                file.display(),
                self.unanswered_text().unwrap_or_default()
            );
        }
        let is_repeated = self.unanswered.replace(words).is_some();
        self.write(file)?;
        let mut session = self.session();
        if is_repeated {
            session = session.with_unanswered(operations.to_vec());
        }
        let executed = client.execute(&mut session, operations);
        if session.unanswered().is_none() {
            // The packet was executed, or no copy of it, so other packets may follow.
            self.next = session.next;
            self.unanswered = None;
            self.write(file)?;
        }
        Ok(executed?)
    }
}

/// Returns a stored operation in the notation of `batch`.
fn operation_text(words: &str) -> String {
    let bytes = lineside_util::hex::from_hex(words).unwrap_or_default();
    let Ok(operation) = Operation::read_from_bytes(&bytes) else {
        return words.to_owned();
    };
    let (source, destination) = (AccountId(operation.source), AccountId(operation.destination));
    let (amount, name) = (operation.amount, String::from_utf8_lossy(&operation.uuid));
    let name = name.trim_end_matches('\0');
    let linked = match operation.flags & TRANSFER_FLAG_LINKED {
        0 => "",
        _ => "linked ",
    };
    let text = match (operation.command, operation.contract.get()) {
        (TRANSFER_COMMAND_CREATE, _) => format!("create {source} {amount}"),
        (TRANSFER_COMMAND_ISSUE, _) => format!("issue {source} {amount}"),
        (TRANSFER_COMMAND_FREEZE, _) => format!("freeze {source}"),
        (TRANSFER_COMMAND_UNFREEZE, _) => format!("unfreeze {source}"),
        (_, TRANSFER_CONTRACT_PENDING) => format!("pending {name} {source} {destination} {amount}"),
        (_, TRANSFER_CONTRACT_POST) => format!("post {name} {source} {destination} {amount}"),
        (_, TRANSFER_CONTRACT_VOID) => format!("void {name} {source} {destination}"),
        _ => format!("transfer {source} {destination} {amount}"),
    };
    let is_keyed = operation.flags & TRANSFER_FLAG_KEYED != 0;
    let key = match is_keyed {
        true => format!(" key={}", lineside_util::hex::to_hex(&operation.uuid)),
        false => String::new(),
    };
    format!("{linked}{text}{key}")
}

/// Executes one packet of operations, in the session in `file`, or in a new session that is closed afterwards.
///
/// # Errors
/// See [`execute_all`].
pub fn execute(
    client: &mut Client,
    file: Option<&Path>,
    operations: &[Operation],
) -> anyhow::Result<Executed> {
    let mut executed = None;
    execute_all(client, file, &[operations.to_vec()], |_, outcome| {
        executed = Some(outcome.clone());
        Ok(())
    })?;
    executed.context("the packet has no outcome")
}

/// Executes packets of operations one after the other, in the session in `file`, or in a new session that is closed
/// afterwards. Passes the index and the outcome of each packet to `done` before the next one is sent.
///
/// # Errors
/// The number of operations of a packet is wrong, the session file cannot be used, the server does not answer, it
/// refuses a whole packet, or `done` fails. The packets after that are not sent.
pub fn execute_all(
    client: &mut Client,
    file: Option<&Path>,
    packets: &[Vec<Operation>],
    mut done: impl FnMut(usize, &Executed) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let most = client.operations_max();
    if let Some(wrong) = packets.iter().find(|packet| !(1..=most).contains(&packet.len())) {
        bail!(ClientError::Count {
            items: "operations",
            count: wrong.len(),
            most,
        });
    }
    if let Some(file) = file {
        let (_lock, mut content) = SessionContent::locked(file)?;
        for (index, packet) in packets.iter().enumerate() {
            done(index, &content.execute(file, client, packet)?)?;
        }
        return Ok(());
    }
    let mut session = client.open()?;
    let executed = packets
        .iter()
        .enumerate()
        .try_for_each(|(index, packet)| done(index, &client.execute(&mut session, packet)?));
    // Closed even after an error: sessions of an address are limited, and only this command knows the session.
    session.abandon();
    let closed = client.close(&session);
    executed?;
    if let Err(error) = closed {
        tell!(
            "lineside: warning: the session of this command could not be closed: {error}; the server closes it when it \
             needs the slot"
        );
    }
    Ok(())
}

fn open(file: &Path, client: &mut Client) -> anyhow::Result<Session> {
    if file.exists() {
        bail!(
            "{}: this file exists already; give another file, or close the session in it first (`lineside transfer \
             session close`)",
            file.display()
        );
    }
    let session = client.open()?;
    let content = SessionContent {
        slot: session.slot,
        token: session.token,
        next: session.next,
        unanswered: None,
    };
    content.write(file)?;
    Ok(session)
}

impl SessionVerb {
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let (arguments, is_forced) = match self {
            Self::Open(arguments) | Self::Show(arguments) => (arguments, false),
            Self::Close(arguments) => (&arguments.session, arguments.force),
        };
        let mut unanswered = None;
        let mut client = arguments.server.client()?;
        let file = &arguments.file;
        let session = match self {
            Self::Open(_) => {
                let _lock = lock(file)?;
                let opened = open(file, &mut client);
                if !file.exists() {
                    fs::remove_file(beside(file, ".lock"))?;
                }
                opened?
            }
            Self::Show(_) => {
                let (_lock, content) = SessionContent::locked(file)?;
                let mut session = content.session();
                session.next = client.next_sequence(&session)?;
                unanswered = content.unanswered_text();
                session
            }
            Self::Close(_) => {
                let (_lock, content) = SessionContent::locked(file)?;
                if let Some(text) = content.unanswered_text().filter(|_| !is_forced) {
                    bail!(
                        "{}: `{text}` was sent and has no reply yet, and only this session has its outcome; \
                         repeat exactly this command first, or close the session with --force",
                        file.display()
                    );
                }
                let session = content.session();
                if !client.close(&session)? {
                    tell!("lineside: the server had closed this session already");
                }
                fs::remove_file(file)?;
                fs::remove_file(beside(file, ".lock"))?;
                session
            }
        };
        match as_json {
            true => say!(
                "{}",
                json!({"slot": session.slot, "next": session.next, "unanswered": unanswered})
            )?,
            false => {
                say!("session {}, next sequence {}", session.slot, session.next)?;
                if let Some(text) = unanswered {
                    say!("`{text}` was sent and has no reply yet; repeat exactly this command first")?;
                }
            }
        }
        Ok(())
    }
}
