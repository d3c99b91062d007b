//! Client subcommands of `lineside hybrid` that read and write the database.

use super::asker::Asker;
use super::member::{Member, hash, refused, version, version_json, version_text};
use crate::column::text;
use crate::out::counted;
use crate::wrong::Wrong;
use anyhow::{Context, bail};
use clap::Args;
use lineside_client::hybrid::answer::code_name;
use lineside_client::hybrid::block::{Header, SignedHead};
use lineside_client::hybrid::grpc::Coded;
use lineside_client::hybrid::grpc::messages;
use lineside_client::hybrid::request::{Body, Sees, Version};
use lineside_client::hybrid::{AskError, Code};
use lineside_util::hex::to_hex;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Bytes from the command line: text, and \xNN for any byte.
#[derive(Clone)]
pub struct BytesArg(pub Vec<u8>);

/// Parses bytes from the command line.
///
/// # Errors
/// The text has an escape sequence that does not exist.
pub fn parse_bytes(words: &str) -> Result<BytesArg, String> {
    text::parse(words).map(BytesArg)
}

fn sees(linearizable: bool) -> Sees {
    match linearizable {
        true => Sees::Linearizable,
        false => Sees::Local,
    }
}

fn value_json(value: Option<&[u8]>) -> Value {
    value.map_or(Value::Null, |value| json!(text::show(value)))
}

/// Print the values and versions of keys.
///
/// Exit code 1 if a key is not found.
#[derive(Args)]
pub struct Get {
    #[command(flatten)]
    member: Member,
    /// Read linearizably: wait until this node has applied every write that any node has acknowledged.
    #[arg(long)]
    linearizable: bool,
    /// Keys; \xNN is the byte with the hex value NN.
    #[arg(required = true, value_parser = parse_bytes)]
    keys: Vec<BytesArg>,
}

impl Get {
    pub fn run(mut self, as_json: bool) -> anyhow::Result<()> {
        // A request lists its keys in ascending order, each once.
        self.keys.sort_by(|one, other| one.0.cmp(&other.0));
        self.keys.dedup_by(|one, other| one.0 == other.0);
        let keys: Vec<&[u8]> = self.keys.iter().map(|key| key.0.as_slice()).collect();
        let ask = async |asker: &Asker| asker.get(sees(self.linearizable), &keys).await;
        let answer: messages::Cells = self.member.ask(ask)?;
        refused(&answer, &[Code::Done])?;
        for (key, cell) in keys.iter().zip(&answer.cells) {
            let value = cell.version.map(|_| &cell.value[..]);
            say_cell(key, cell.version, value, as_json)?;
        }
        match answer.cells.iter().filter(|cell| cell.version.is_none()).count() {
            0 => Ok(()),
            missing => bail!("{missing} of {} not found", counted(keys.len(), "key")),
        }
    }
}

fn say_cell(
    key: &[u8],
    version: Option<messages::Version>,
    value: Option<&[u8]>,
    as_json: bool,
) -> anyhow::Result<()> {
    let key = text::show(key);
    match (as_json, value) {
        (true, _) => {
            let (version, value) = (version_json(version), value_json(value));
            say!("{}", json!({"key": key, "version": version, "value": value}))?;
        }
        (false, Some(value)) => say!("{key}\t{}\t{}", version_text(version), text::show(value))?,
        (false, None) => say!("{key}\t{}\t-", version_text(version))?,
    }
    Ok(())
}

/// Set the value of a key, and print the version and the id of the write.
#[derive(Args)]
pub struct Set {
    #[command(flatten)]
    member: Member,
    /// Write only if the key has this version: BLOCK.INDEX as `get` prints it, or absent.
    #[arg(long, value_name = "VERSION", value_parser = version)]
    if_version: Option<Version>,
    /// Key; \xNN is the byte with the hex value NN.
    #[arg(value_parser = parse_bytes)]
    name: BytesArg,
    /// New value; \xNN is the byte with the hex value NN.
    #[arg(value_parser = parse_bytes)]
    value: BytesArg,
}

impl Set {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let body = Body::set(&self.name.0, self.if_version, &self.value.0);
        write(&self.member, body, as_json)
    }
}

/// Delete a key; succeeds even if the key is absent already.
#[derive(Args)]
pub struct Delete {
    #[command(flatten)]
    member: Member,
    /// Write only if the key has this version: BLOCK.INDEX as `get` prints it, or absent.
    #[arg(long, value_name = "VERSION", value_parser = version)]
    if_version: Option<Version>,
    /// Key; \xNN is the byte with the hex value NN.
    #[arg(value_parser = parse_bytes)]
    name: BytesArg,
}

impl Delete {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        write(&self.member, Body::delete(&self.name.0, self.if_version), as_json)
    }
}

/// Sends a transaction or a change for ordering, and prints its outcome.
///
/// # Errors
/// The request cannot be sent or is refused. If its outcome is unknown, the error says how to ask for it.
pub fn write(member: &Member, body: Body<'_>, as_json: bool) -> anyhow::Result<()> {
    let (id, answer) = member.ask(async |asker: &Asker| {
        let (id, answer) = asker.order(body).await?;
        let id = to_hex(&id);
        let asks =
            || format!("outcome unknown, it may have been executed: ask with `lineside hybrid outcome {id}`");
        let answer = answer.with_context(asks)?;
        Ok((id, answer))
    })?;
    say_placed(&answer, &id, as_json)
}

fn say_placed(answer: &messages::Placed, id: &str, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        let version = version_json(answer.version);
        say!(
            "{}",
            json!({"code": answer.code_name, "version": version, "id": id})
        )?;
    }
    let code = refused(answer, &[Code::Done, Code::Recorded]).with_context(|| format!("id {id}"))?;
    if !as_json {
        say!("{}\t{}\tid {id}", code_name(code), version_text(answer.version))?;
    }
    Ok(())
}

/// Print the keys of a range, with their values and versions.
///
/// If the range has more keys than --limit, a line on standard error says from which key to continue; with --json, the
/// last line on standard output has `more` and this key as `start`.
#[derive(Args)]
pub struct Range {
    #[command(flatten)]
    member: Member,
    /// Read linearizably: wait until this node has applied every write that any node has acknowledged.
    #[arg(long)]
    linearizable: bool,
    /// Maximum number of keys; a reply has at most 10,000 keys and 1 MiB.
    #[arg(long, value_name = "KEYS", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// First key; \xNN is the byte with the hex value NN. Empty: the first key of the database.
    #[arg(default_value = "", value_parser = parse_bytes)]
    start: BytesArg,
    /// Key before which to stop. Empty: print to the last key.
    #[arg(default_value = "", value_parser = parse_bytes)]
    stop: BytesArg,
}

impl Range {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let ask = async |asker: &Asker| {
            let sees = sees(self.linearizable);
            asker.range(sees, &self.start.0, &self.stop.0, self.limit).await
        };
        let answer: messages::KeyCells = self.member.ask(ask)?;
        refused(&answer, &[Code::Done])?;
        for cell in &answer.cells {
            say_cell(&cell.key, cell.version, Some(&cell.value), as_json)?;
        }
        // The smallest key after the last one is the last key with a zero byte appended.
        let last = answer.cells.last().filter(|_| answer.more);
        let start = last.map(|last| text::show(&[&last.key[..], &[0]].concat()));
        match (as_json, start) {
            (true, start) => say!("{}", json!({"more": answer.more, "start": start}))?,
            (false, Some(start)) => {
                tell!(
                    "lineside: there are more keys: give {start} as the first key to continue, or give a higher --limit"
                );
            }
            (false, None) => {}
        }
        Ok(())
    }
}

/// Print the newest writes of a key, newest first.
///
/// If there are older writes, a line on standard error says how to get them; with --json, the last line on standard
/// output has `more` and the version for --before. Exit code 1 if the key was never written.
#[derive(Args)]
pub struct History {
    #[command(flatten)]
    member: Member,
    /// Maximum number of writes, 1 to 100.
    #[arg(long, value_name = "WRITES", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// Print only writes older than this version, in the form BLOCK.INDEX.
    #[arg(long, value_name = "BLOCK.INDEX", value_parser = version)]
    before: Option<Version>,
    /// Key; \xNN is the byte with the hex value NN.
    #[arg(value_parser = parse_bytes)]
    name: BytesArg,
}

impl History {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let ask = async |asker: &Asker| asker.history(&self.name.0, self.limit, self.before).await;
        let answer: messages::Writes = self.member.ask(ask)?;
        refused(&answer, &[Code::Done])?;
        for write in &answer.writes {
            let value = write.value.as_deref();
            if as_json {
                let (version, value) = (version_json(write.version), value_json(value));
                let time_ms = write.time_ms;
                say!(
                    "{}",
                    json!({"version": version, "time_ms": time_ms, "value": value})
                )?;
                continue;
            }
            let value = value.map_or("-".into(), text::show);
            say!("{}\t{}\t{value}", version_text(write.version), write.time_ms)?;
        }
        if answer.writes.is_empty() && self.before.is_none() {
            bail!("no transaction has written this key");
        }
        let last = answer.writes.last().filter(|_| answer.more);
        let before = last.map(|last| version_text(last.version));
        match (as_json, before) {
            (true, before) => say!("{}", json!({"more": answer.more, "before": before}))?,
            (false, Some(before)) => {
                tell!("lineside: there are older writes: give --before {before} to print them")
            }
            (false, None) => {}
        }
        Ok(())
    }
}

/// Print each new write to keys with a prefix, until a signal or until the node ends the stream.
#[derive(Args)]
pub struct Watch {
    #[command(flatten)]
    member: Member,
    /// Prefix of the keys; \xNN is the byte with the hex value NN. Empty: all keys.
    #[arg(default_value = "", value_parser = parse_bytes)]
    prefix: BytesArg,
}

impl Watch {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        self.member.ask(async |asker: &Asker| {
            let Asker::Grpc(client) = asker else {
                let why = "events come by gRPC only: give --server instead of --udp";
                bail!(Wrong(why.into()));
            };
            let mut events = client.watch(&self.prefix.0).await?;
            let begin = events.message().await.map_err(AskError::from)?;
            let begin = begin.context("the node ended the stream without a reply")?;
            refused(&begin, &[Code::Done])?;
            let block = begin.version.unwrap_or_default().block;
            match as_json {
                true => say!("{}", json!({"watching_from_block": block + 1}))?,
                false => tell!("lineside: watching from block {} on", block + 1),
            }
            while let Some(event) = events.message().await.map_err(AskError::from)? {
                if event.known_code()? == Code::Busy {
                    bail!(
                        "writes came faster than they were printed, and some were lost: start `watch` again"
                    );
                }
                refused(&event, &[Code::Done])?;
                say_cell(&event.key, event.version, event.value.as_deref(), as_json)?;
            }
            Ok(())
        })
    }
}

/// Print the newest block, signed by the node.
#[derive(Args)]
pub struct Head {
    #[command(flatten)]
    member: Member,
    /// Write the node's signed statement about the block to this file, for `verify-proof --head`.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Returns the header and the signed head in a node's reply.
///
/// # Errors
/// The node refused, or its reply is malformed.
pub fn read_head(answer: &messages::SignedHeader) -> anyhow::Result<(Header, SignedHead)> {
    refused(answer, &[Code::Done])?;
    let header = answer.header[..]
        .try_into()
        .context("the block header in the node's reply is malformed")?;
    let head = answer.head[..]
        .try_into()
        .context("the signed head in the node's reply is malformed")?;
    Ok((Header::from_bytes(header), SignedHead::read(head)?))
}

impl Head {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let answer = self.member.ask(async |asker: &Asker| asker.head().await)?;
        let (header, head) = read_head(&answer)?;
        if let Some(file) = &self.out {
            std::fs::write(file, head.to_bytes())
                .with_context(|| format!("cannot write the signed head to {}", file.display()))?;
        }
        let (hash, root) = (to_hex(&head.hash), to_hex(&header.state_root));
        match as_json {
            true => say!(
                "{}",
                json!({
                    "block": head.number, "hash": hash, "node": head.node, "state_root": root,
                    "time_ms": header.time_ms, "signature": to_hex(&head.signature),
                })
            )?,
            // The form that the options `--tip` of other commands take.
            false => say!("block {}:{hash}\tsigned by node {}", head.number, head.node)?,
        }
        Ok(())
    }
}

/// Print the outcome of a write or a change, by its id.
#[derive(Args)]
pub struct Outcome {
    #[command(flatten)]
    member: Member,
    /// Id of the write, 64 hex digits, as `set` prints it.
    #[arg(value_parser = hash)]
    id: [u8; 32],
}

impl Outcome {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let ask = async |asker: &Asker| asker.outcome(self.id).await;
        let answer: messages::Placed = self.member.ask(ask)?;
        let code = answer.known_code()?;
        let version = version_json(answer.version);
        match as_json {
            true => say!("{}", json!({"code": answer.code_name, "version": version}))?,
            false => say!(
                "{}\t{}\t{}",
                code_name(code),
                version_text(answer.version),
                code.meaning()
            )?,
        }
        // Every known outcome is a successful answer; only an unknown id is an error.
        refused(&answer, &all_but_unknown()).map(|_| ())
    }
}

/// Returns every result code except the one for an unknown request id.
fn all_but_unknown() -> Vec<Code> {
    let all = (0..).map_while(Code::from_code);
    all.filter(|code| *code != Code::Unknown).collect()
}
