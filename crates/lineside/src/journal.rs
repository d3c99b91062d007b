//! `lineside journal …`: verifies, repairs and prints the journal of any service.

use crate::out::Unwritten;
use crate::out::counted;
use crate::services::SERVICES;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use lineside_journal::{
    Disk, Error, FsDisk, Lsn, Options, Record, RepairReport, VerifyReport, confirm_repair, dump_over_gaps,
    has_journal, repair_unconfirmed, verify,
};
use lineside_service::{DecodedRecord, RecordDecoder};
use lineside_util::hex::to_hex;
use serde_json::json;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Maximum number of payload bytes that `dump` prints for a record.
const SHOWN_BYTES: usize = 32;

/// Subcommands of `lineside journal`.
#[derive(Subcommand)]
pub enum Verb {
    /// Read every byte of a journal and print what is wrong; changes nothing.
    ///
    /// Exit code 1 if something is wrong.
    Verify(JournalDir),
    /// Make a damaged journal usable again, so that its service can start.
    ///
    /// Damage before the newest snapshot loses no state, and the other records before the snapshot remain. Records
    /// after other damage are lost, even if they were acknowledged; the command prints which. Files with the removed
    /// part are kept under other names. The service must be stopped.
    Repair(JournalDir),
    /// Print the records of a journal, one a line; changes nothing.
    ///
    /// The records of a ledger of `transfer` are decoded, and the tokens of its sessions are left out. Of services
    /// without a decoder, the kinds, lengths and first bytes are printed.
    Dump(Dump),
}

#[derive(Args)]
pub struct JournalDir {
    /// Directory of the journal, such as that of `lineside transfer serve --data`.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

#[derive(Args)]
pub struct Dump {
    #[command(flatten)]
    place: JournalDir,
    /// Number (LSN) of the first record to print.
    #[arg(long, value_name = "LSN", default_value_t = 1)]
    from: Lsn,
    /// Maximum number of records to print [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// Runs the given subcommand.
///
/// # Errors
/// The journal cannot be read or written; for `verify` also if something is wrong.
pub fn run(verb: &Verb, as_json: bool) -> anyhow::Result<()> {
    match verb {
        Verb::Verify(place) => place.verify(as_json),
        Verb::Repair(place) => place.repair(as_json),
        Verb::Dump(arguments) => arguments.run(as_json),
    }
}

impl JournalDir {
    fn look(&self) -> anyhow::Result<FsDisk> {
        FsDisk::look(&self.directory).with_context(|| self.directory.display().to_string())
    }

    /// Refuses a directory without any file of a journal.
    fn refuse_other(&self, disk: &FsDisk) -> anyhow::Result<()> {
        match (has_journal(disk)?, disk.used_before()) {
            (true, _) => Ok(()),
            (false, Some(path)) => Err(Error::Emptied { path }.into()),
            (false, None) => Err(Error::NoJournal).with_context(|| self.directory.display().to_string()),
        }
    }

    fn verify(&self, as_json: bool) -> anyhow::Result<()> {
        let disk = self.look()?;
        self.refuse_other(&disk)?;
        let found = verify(&disk).with_context(|| self.directory.display().to_string())?;
        if as_json {
            say!("{}", verified(&found))?;
        } else {
            for segment in &found.segments {
                say!(
                    "{}: {} from record {} on, {} of {} used",
                    segment.file,
                    counted(segment.records, "record"),
                    segment.first_lsn,
                    segment.used_bytes,
                    counted(segment.file_bytes, "byte")
                )?;
            }
            for snapshot in &found.snapshots {
                let state = if snapshot.whole { "whole" } else { "damaged" };
                let (file, lsn) = (&snapshot.file, snapshot.lsn);
                let bytes = counted(snapshot.bytes, "byte");
                say!("{file}: the state after record {lsn}, {bytes}, {state}")?;
            }
            for finding in &found.findings {
                say!("{finding}")?;
            }
            if found.unfinished_bytes > 0 && found.is_sound() {
                let (bytes, last) = (counted(found.unfinished_bytes, "byte"), found.last_lsn);
                say!(
                    "after record {last} the file has {bytes} of a group of records that {}; the next start removes \
                     this group",
                    match found.is_proved {
                        true => "was never acknowledged",
                        false => "seems to be incomplete (this is not certain)",
                    }
                )?;
            }
            if found.is_sound() && !found.is_proved {
                say!(
                    "the file `acknowledged` is missing or damaged, so this command cannot detect whether the newest \
                     records are missing"
                )?;
            }
            for (from, to) in &found.gaps {
                say!("records {from} to {to} are lost since a repair; a snapshot replaces them")?;
            }
            if found.begins_after_gap {
                let first = found.first_lsn;
                say!(
                    "records before {first} are lost since a repair, or were pruned; a snapshot replaces them"
                )?;
            }
            let is_sound = if found.is_sound() {
                "; nothing is wrong"
            } else {
                ""
            };
            match found.records {
                0 => say!("journal {:016x}: no records{is_sound}", found.journal_id)?,
                records => say!(
                    "journal {:016x}: {}, {} to {}, {} of payload{is_sound}",
                    found.journal_id,
                    counted(records, "record"),
                    found.first_lsn,
                    found.last_lsn,
                    counted(found.payload_bytes, "byte")
                )?,
            }
        }
        match found.findings.len() {
            0 => Ok(()),
            1 => bail!(
                "1 error was found: restore the file from a copy, or see `lineside journal repair --help`"
            ),
            count => bail!(
                "{count} errors were found: restore the files from a copy, or see `lineside journal repair --help`"
            ),
        }
    }

    fn repair(&self, as_json: bool) -> anyhow::Result<()> {
        let looked = self.look()?;
        // Opening a directory as a journal would write to it, so a directory of another kind is refused first.
        if looked.used_before().is_none() {
            self.refuse_other(&looked)?;
        }
        let shown = || self.directory.display().to_string();
        let disk = FsDisk::open(&self.directory).with_context(shown)?;
        let done = repair_unconfirmed(&disk, Options::default()).with_context(shown)?;
        match as_json {
            true => say!("{}", repaired(&done))?,
            false => print(&done)?,
        }
        // If the report could not be printed, the next repair prints it.
        confirm_repair(&disk).with_context(shown)
    }
}

/// Prints the report of a repair for people.
fn print(done: &RepairReport) -> anyhow::Result<()> {
    for note in &done.notes {
        say!("{note}")?;
    }
    if let Some(from) = done.dropped_from {
        say!(
            "dropped: everything from record {from} on{}{}",
            match done.dropped_whole_records {
                0 => String::new(),
                count => format!(", with {}", counted(count, "intact record")),
            },
            match done.dropped_bytes {
                0 => String::new(),
                bytes => format!("; the files that were renamed keep {}", counted(bytes, "byte")),
            }
        )?;
    } else if !done.moved.is_empty() && done.last_lsn > 0 {
        say!(
            "no {} was dropped; the files that were renamed keep {}",
            match done.gaps.is_empty() {
                true => "record",
                false => "record that the state needs",
            },
            counted(done.dropped_bytes, "byte")
        )?;
    }
    for (from, to) in &done.gaps {
        say!("gone from the history: records {from} to {to}; a snapshot replaces them, so no state is lost")?;
    }
    if let Some((from, to)) = done.lost {
        match from == to {
            true => say!("lost: the acknowledged record {to}")?,
            false => say!("lost: the acknowledged records {from} to {to}")?,
        }
    }
    match done.last_lsn {
        0 => say!("the journal has no record")?,
        last => say!("the journal ends with record {last}")?,
    }
    Ok(())
}

impl Dump {
    fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let disk = self.place.look()?;
        self.place.refuse_other(&disk)?;
        let decoder = decoder_of(&disk);
        let decode = |record: &Record<'_>| (decoder?.decode)(record.kind, record.payload);
        let mut out = BufWriter::new(std::io::stdout().lock());
        let (mut written, mut left) = (Ok(()), self.limit.unwrap_or(u64::MAX));
        let read = dump_over_gaps(&disk, self.from, |record| {
            if written.is_ok() && left > 0 {
                left -= 1;
                written = match as_json {
                    true => writeln!(out, "{}", shown_json(&record, decode(&record))),
                    false => writeln!(out, "{}", shown(&record, decode(&record))),
                };
            }
        });
        written.and_then(|()| out.flush()).map_err(Unwritten::from)?;
        read.with_context(|| self.place.directory.display().to_string())
    }
}

/// Returns the decoder of the service that the directory's marker names; `None` if the service has none.
fn decoder_of(disk: &FsDisk) -> Option<&'static RecordDecoder> {
    disk.used_before()?;
    let mut all = SERVICES.iter().filter_map(|service| service.records.as_ref());
    all.find(|records| FsDisk::look_at(disk.path(), records.kind).is_ok())
}

fn shown(record: &Record<'_>, decoded: Option<DecodedRecord>) -> String {
    if let Some(decoded) = decoded {
        return format!("{} {} {}", record.lsn, decoded.name, decoded.fields);
    }
    let some = &record.payload[..record.payload.len().min(SHOWN_BYTES)];
    let more = if some.len() < record.payload.len() {
        " ..."
    } else {
        ""
    };
    format!(
        "{} kind {} of {} at {:020}.log:{}: {}{more}",
        record.lsn,
        record.kind,
        counted(record.payload.len(), "byte"),
        record.segment,
        record.offset,
        to_hex(some)
    )
}

fn shown_json(record: &Record<'_>, decoded: Option<DecodedRecord>) -> serde_json::Value {
    let payload = match &decoded {
        Some(decoded) if decoded.is_secret => None,
        _ => Some(to_hex(record.payload)),
    };
    let (name, fields) = decoded.map(|decoded| (decoded.name, decoded.fields)).unzip();
    json!({
        "lsn": record.lsn, "kind": record.kind, "file": format!("{:020}.log", record.segment),
        "offset": record.offset, "name": name, "fields": fields, "payload": payload
    })
}

fn verified(found: &VerifyReport) -> serde_json::Value {
    let segments = found.segments.iter().map(|segment| {
        json!({
            "file": segment.file, "first_lsn": segment.first_lsn, "records": segment.records,
            "used_bytes": segment.used_bytes, "file_bytes": segment.file_bytes
        })
    });
    let snapshots = found.snapshots.iter().map(|snapshot| {
        json!({
            "file": snapshot.file, "lsn": snapshot.lsn, "bytes": snapshot.bytes, "whole": snapshot.whole
        })
    });
    let findings = found.findings.iter().map(|finding| {
        json!({
            "file": finding.file, "offset": finding.offset, "lsn": finding.lsn, "what": finding.what
        })
    });
    json!({
        "journal_id": format!("{:016x}", found.journal_id), "first_lsn": found.first_lsn,
        "last_lsn": found.last_lsn, "records": found.records, "payload_bytes": found.payload_bytes,
        "segments": segments.collect::<Vec<_>>(), "snapshots": snapshots.collect::<Vec<_>>(),
        "unfinished_bytes": found.unfinished_bytes, "acknowledged_lsn": found.acknowledged_lsn,
        "gaps": found.gaps.iter().map(|gap| span(*gap)).collect::<Vec<_>>(),
        "begins_after_gap": found.begins_after_gap,
        "proved": found.is_proved, "sound": found.is_sound(),
        "findings": findings.collect::<Vec<_>>()
    })
}

fn span((from, to): (Lsn, Lsn)) -> serde_json::Value {
    json!({"from": from, "to": to})
}

fn repaired(done: &RepairReport) -> serde_json::Value {
    let moved = done
        .moved
        .iter()
        .map(|(from, to)| json!({"from": from, "to": to}));
    json!({
        "last_lsn": done.last_lsn, "dropped_from": done.dropped_from,
        "lost": done.lost.map(span), "gaps": done.gaps.iter().map(|gap| span(*gap)).collect::<Vec<_>>(),
        "rewritten": done.rewritten, "made": done.made,
        "dropped_whole_records": done.dropped_whole_records, "dropped_bytes": done.dropped_bytes,
        "moved": moved.collect::<Vec<_>>(), "notes": done.notes
    })
}
