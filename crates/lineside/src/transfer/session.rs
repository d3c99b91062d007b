//! Sessions: of one command, or kept in a file over many.

use super::ask::Server;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use lineside_transfer::AccountId;
use lineside_transfer::client::{Client, ClientError, Executed, Session};
use lineside_wire::{
    Operation, Status, TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_FREEZE, TRANSFER_COMMAND_ISSUE,
    TRANSFER_COMMAND_UNFREEZE, TRANSFER_CONTRACT_PENDING, TRANSFER_CONTRACT_POST, TRANSFER_CONTRACT_VOID,
    TRANSFER_FLAG_LINKED,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use zerocopy::{FromBytes, IntoBytes};

/// What can be done with a session.
#[derive(Subcommand)]
pub enum SessionVerb {
    /// Open one and keep it in a file, which must not be there yet.
    Open(SessionFile),
    /// Say where it stands.
    Show(SessionFile),
    /// Close it and remove the file.
    Close(SessionFile),
}

/// A session's file.
#[derive(Args)]
pub struct SessionFile {
    #[command(flatten)]
    server: Server,
    /// The file: who can read it can move money with it.
    file: PathBuf,
}

/// A session as its file has it. `unanswered` is the packet that may have been sent and has no answer yet: it goes
/// first, with the same words, before anything else does.
#[derive(Serialize, Deserialize)]
struct Kept {
    slot: u32,
    token: u64,
    next: u64,
    unanswered: Option<Vec<String>>,
}

/// The path with `ending` behind its name.
fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(file);
    name.push(ending);
    name.into()
}

/// Waits until no other command uses the session: two would send different packets by one number. The lock is a file
/// of its own, since the session's is replaced by each command.
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
    locking().with_context(|| path.display().to_string())
}

impl Kept {
    fn read(file: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(file)
            .with_context(|| format!("{}: `lineside transfer session open` makes it", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is no session", file.display()))
    }

    /// What is in the file, and the lock that keeps it so. Where there is no file, no lock is left behind.
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
        writing().with_context(|| file.display().to_string())
    }

    fn session(&self) -> Session {
        Session {
            slot: self.slot,
            token: self.token,
            next: self.next,
        }
    }

    /// Executes the operations as the next packet. What an earlier call left unanswered must be the same: it is then
    /// the same packet, and done once.
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
        if let Some(before) = &self.unanswered
            && *before != words
        {
            let before: Vec<_> = before.iter().map(|words| told(words)).collect();
            bail!(
                "{}: `{}` was sent and has no answer yet; send the same again first",
                file.display(),
                before.join("; ")
            );
        }
        self.unanswered = Some(words);
        self.write(file)?;
        let mut session = self.session();
        let executed = client.execute(&mut session, operations)?;
        self.next = session.next;
        self.unanswered = None;
        self.write(file)?;
        Ok(executed)
    }
}

/// An operation that was kept, as `batch` writes it.
fn told(words: &str) -> String {
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
    let told = match (operation.command, operation.contract.get()) {
        (TRANSFER_COMMAND_CREATE, _) => format!("create {source} {amount}"),
        (TRANSFER_COMMAND_ISSUE, _) => format!("issue {source} {amount}"),
        (TRANSFER_COMMAND_FREEZE, _) => format!("freeze {source}"),
        (TRANSFER_COMMAND_UNFREEZE, _) => format!("unfreeze {source}"),
        (_, TRANSFER_CONTRACT_PENDING) => format!("pending {name} {source} {destination} {amount}"),
        (_, TRANSFER_CONTRACT_POST) => format!("post {name} {source} {destination} {amount}"),
        (_, TRANSFER_CONTRACT_VOID) => format!("void {name} {source} {destination}"),
        _ => format!("transfer {source} {destination} {amount}"),
    };
    format!("{linked}{told}")
}

/// Executes the operations as one packet: the next of the session in `file`, or the only one of a session of its own.
///
/// # Errors
/// What stands in the way, and whatever the server refuses the whole packet for.
pub fn execute(
    client: &mut Client,
    file: Option<&Path>,
    operations: &[Operation],
) -> anyhow::Result<Executed> {
    let most = client.operations_max();
    if !(1..=most).contains(&operations.len()) {
        bail!(ClientError::Count(operations.len(), most));
    }
    if let Some(file) = file {
        let (_lock, mut kept) = Kept::locked(file)?;
        return kept.execute(file, client, operations);
    }
    let mut session = client.open()?;
    let executed = client.execute(&mut session, operations);
    // Whatever became of them: an address may have so many sessions, and nobody else knows this one.
    let closed = client.close(&session);
    let executed = executed?;
    if let Err(error) = closed {
        tell!("lineside: the session of this command stays open: {error}");
    }
    Ok(executed)
}

fn open(file: &Path, client: &mut Client) -> anyhow::Result<Session> {
    if file.exists() {
        bail!("{} is there already", file.display());
    }
    let session = client.open()?;
    let kept = Kept {
        slot: session.slot,
        token: session.token,
        next: session.next,
        unanswered: None,
    };
    kept.write(file)?;
    Ok(session)
}

impl SessionVerb {
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let (Self::Open(arguments) | Self::Show(arguments) | Self::Close(arguments)) = self;
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
                let (_lock, kept) = Kept::locked(file)?;
                let mut session = kept.session();
                session.next = client.next_sequence(&session)?;
                session
            }
            Self::Close(_) => {
                let (_lock, kept) = Kept::locked(file)?;
                let session = kept.session();
                match client.close(&session) {
                    // Closed by an earlier call, whose answer was lost.
                    Err(ClientError::Refused {
                        status: Status::NoSession,
                        ..
                    }) => tell!("lineside: the server has no such session any more"),
                    closed => closed?,
                }
                fs::remove_file(file)?;
                fs::remove_file(beside(file, ".lock"))?;
                session
            }
        };
        match as_json {
            true => say!("{}", json!({"slot": session.slot, "next": session.next}))?,
            false => say!("session {}, next sequence {}", session.slot, session.next)?,
        }
        Ok(())
    }
}
