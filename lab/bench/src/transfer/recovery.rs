//! Measurement of recovery: opening the directory of a ledger replays a journal of native batches.

use super::disk::Disk;
use super::drain::Removed;
use super::ours::{batch, empty_store, here, make_accounts, open};
use super::peer::Requests;
use crate::error::{BenchError, Result};
use lineside_client::transfer::Session;
use lineside_fastpath::{BatchHost, BatchRequest};
use lineside_journal::{FsDisk, Journal, Options};
use lineside_transfer::entry::Entry;
use lineside_transfer::ledger::{Ledger, Limits};
use lineside_transfer::server::Server;
use lineside_wire::{NativeHeader, SessionBody, TRANSFER_OP_OPEN, TRANSFER_OPERATIONS_MAX, native};
use serde::Serialize;
use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// log2 of the number of accounts.
const BITS: u32 = 16;
/// Number of packets in a batch, which shares one fdatasync.
const GROUP: usize = 8;

/// Result of a recovery, and the time of its stages.
#[derive(Clone, Debug, Serialize)]
pub struct Recovery {
    /// Number of operations replayed.
    pub operations: u64,
    /// Size of the journal in bytes.
    pub bytes: u64,
    /// Operations per second, from opening the directory until the server can answer.
    pub operations_per_s: f64,
    /// Duration of the whole recovery in seconds.
    pub whole_s: f64,
    /// Time to find the journal's end and check every checksum, in seconds.
    pub opening_s: f64,
    /// Time to read all records again for the replay, in seconds.
    pub reading_s: f64,
    /// Time to decode the records, in seconds.
    pub decoding_s: f64,
    /// Time to execute each operation in the ledger without anything else, in seconds.
    pub executing_s: f64,
    /// Remaining time in seconds: comparing replies, hashing and checking blocks, filling the fast-path table.
    pub rest_s: f64,
    /// Type of the file system that contains the folder.
    pub file_system: String,
}

impl Display for Recovery {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            operations,
            bytes,
            operations_per_s,
            whole_s,
            opening_s,
            reading_s,
            decoding_s,
            executing_s,
            rest_s,
            file_system,
        } = self;
        write!(
            out,
            "recovered {operations} operations, {} MB of journal on {file_system}, in {whole_s:.2} s: \
             {operations_per_s:.0} per second; opening {opening_s:.2} s, reading {reading_s:.2}, \
             decoding {decoding_s:.2}, executing {executing_s:.2}, blocks and the fast path {rest_s:.2}",
            bytes / 1_000_000
        )
    }
}

/// Writes a journal of `operations` operations and replays it, in a new folder below `folder`.
///
/// # Errors
/// [`BenchError::NotMeasured`] if the file system is in memory; an error if the ledger cannot be written or opened.
pub fn measure(folder: &Path, operations: u64) -> Result<Recovery> {
    let removed = Removed::make(&folder.join("recovery"))?;
    let disk = Disk::look(&removed.0)?;
    let data = removed.0.join("data");
    let mut server = open(&data, &empty_store()?)?;
    make_accounts(&mut server, 1 << BITS)?;
    let session = open_session(&mut server)?;
    let bytes = write(&mut server, session, operations)?;
    drop(server);
    let store = empty_store()?;
    let start = Instant::now();
    let server = open(&data, &store)?;
    let whole = start.elapsed();
    let replayed = lineside_transfer::server::lock(&server.report()).operations;
    drop(server);
    let [opening, reading, decoded, executed] = parts(&data)?;
    let seconds = |time: Duration| time.as_secs_f64();
    Ok(Recovery {
        operations: replayed,
        bytes,
        operations_per_s: replayed as f64 / seconds(whole),
        whole_s: seconds(whole),
        opening_s: seconds(opening),
        reading_s: seconds(reading),
        decoding_s: seconds(decoded.saturating_sub(reading)),
        executing_s: seconds(executed.saturating_sub(decoded)),
        rest_s: seconds(whole.saturating_sub(opening).saturating_sub(executed)),
        file_system: disk.file_system,
    })
}

fn open_session(server: &mut Server) -> Result<Session> {
    let mut body = SessionBody::new_zeroed();
    for _ in 0..2 {
        let header = native::request_header(TRANSFER_OP_OPEN, 1, size_of::<SessionBody>() as u16);
        let request = [header.as_bytes(), body.as_bytes()].concat();
        let said = server.execute_and_take(&[BatchRequest {
            from: here(),
            payload: &request,
        }]);
        let reply = said
            .into_iter()
            .next()
            .and_then(|said| said.reply)
            .unwrap_or_default();
        let parsed = reply
            .get(size_of::<NativeHeader>()..)
            .map(SessionBody::read_from_bytes);
        let Some(Ok(found)) = parsed else {
            return Err(BenchError::Void("no session was opened".into()));
        };
        if found.token.get() != 0 {
            let (slot, token) = (found.slot.get(), found.token.get());
            return Ok(Session::new(slot, token, found.sequence.get()));
        }
        body.challenge = found.challenge;
    }
    Err(BenchError::Void("no session was granted".into()))
}

/// Executes transfers until the ledger has `operations` operations. Returns the size of the journal in bytes.
fn write(server: &mut Server, mut session: Session, operations: u64) -> Result<u64> {
    let each = TRANSFER_OPERATIONS_MAX as u64;
    let requests = Requests::new(0, BITS, 1, each);
    let mut number = 0;
    while number < operations {
        let mut packets = Vec::with_capacity(GROUP);
        for _ in 0..GROUP {
            let mut packet = Vec::new();
            batch(&mut packet, &session, &requests, number);
            packets.push(packet);
            session.next += 1;
            number += each;
        }
        let asked: Vec<BatchRequest<'_>> = packets
            .iter()
            .map(|packet| BatchRequest {
                from: here(),
                payload: packet,
            })
            .collect();
        let said = server.execute_and_take(&asked);
        let ok = |reply: &Vec<u8>| {
            NativeHeader::ref_from_prefix(reply).is_ok_and(|(header, _)| header.status.get() == 0)
        };
        if !said.iter().all(|said| said.reply.as_ref().is_some_and(ok)) {
            return Err(BenchError::Void("a batch was not executed".into()));
        }
    }
    Ok(lineside_transfer::server::lock(&server.report()).journal_bytes)
}

/// Stages of a replay.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Step {
    Read,
    Decode,
    Execute,
}

/// Measures four times: opening the journal; reading its records; reading and decoding them; and also executing them in
/// a ledger.
fn parts(data: &Path) -> Result<[Duration; 4]> {
    let failed = |error: lineside_journal::Error| BenchError::Void(format!("reading the journal: {error}"));
    let disk = FsDisk::open(data).map_err(failed)?;
    let start = Instant::now();
    let (journal, _) = Journal::open(disk, Options::default()).map_err(failed)?;
    let mut took = [start.elapsed(); 4];
    for (place, step) in [(1, Step::Read), (2, Step::Decode), (3, Step::Execute)] {
        let mut ledger = Ledger::new(Limits {
            accounts: 0,
            sessions: 0,
            pendings: 1 << 20,
            keys: 1 << 20,
            key_window_s: 3600,
        });
        let start = Instant::now();
        let mut records = journal.records(journal.first_lsn()).map_err(failed)?;
        while let Some(record) = records.next().map_err(failed)? {
            if step == Step::Read {
                continue;
            }
            let entry = Entry::from_record(record.kind, record.payload);
            if step == Step::Execute
                && let Some(entry) = &entry
            {
                execute(&mut ledger, entry);
            }
            std::hint::black_box(entry);
        }
        took[place] = start.elapsed();
    }
    Ok(took)
}

fn execute(ledger: &mut Ledger, entry: &Entry) {
    match entry {
        Entry::Limits { limits, .. } => ledger.set_limits(*limits),
        Entry::Paper { request, .. } => _ = std::hint::black_box(ledger.paper(request, true)),
        Entry::Open {
            slot,
            token,
            opener,
            now_s,
        } => ledger.open(*slot, *token, *opener, *now_s),
        Entry::Execute {
            slot,
            sequence,
            now_s,
            operations,
            ..
        } => _ = std::hint::black_box(ledger.execute(*slot, *sequence, operations, |_, _| Ok(()), *now_s)),
        _ => {}
    }
    ledger.take_changes();
}
