//! The verbs that read and write.

use super::asker::Asker;
use super::member::{Member, hash, refused, shown, version, version_json};
use crate::column::text;
use crate::wrong::Wrong;
use anyhow::Context;
use clap::Args;
use lineside_hybrid::Code;
use lineside_hybrid::answer::code_name;
use lineside_hybrid::block::{Header, SignedHead};
use lineside_hybrid::request::{Body, Sees, Version};
use lineside_hybrid_grpc::client::Coded;
use lineside_hybrid_grpc::{AskError, messages};
use lineside_util::hex::to_hex;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Bytes as they were given: text, and \xNN for any byte.
#[derive(Clone)]
pub struct Given(pub Vec<u8>);

/// Reads them.
///
/// # Errors
/// What is wrong with the text.
pub fn given(words: &str) -> Result<Given, String> {
    text::parse(words).map(Given)
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

/// Ask what keys hold.
#[derive(Args)]
pub struct Get {
    #[command(flatten)]
    member: Member,
    /// Wait until this node has all that any node has answered.
    #[arg(long)]
    linearizable: bool,
    /// The keys; \xNN is any byte.
    #[arg(required = true, value_parser = given)]
    keys: Vec<Given>,
}

impl Get {
    pub fn run(mut self, as_json: bool) -> anyhow::Result<()> {
        // A request has its keys in one order, each once.
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
        Ok(())
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
        (false, Some(value)) => say!("{key}\t{}\t{}", shown(version), text::show(value))?,
        (false, None) => say!("{key}\t{}\t-", shown(version))?,
    }
    Ok(())
}

/// Set a key. Says where the write stands in the ledger, and its name.
#[derive(Args)]
pub struct Set {
    #[command(flatten)]
    member: Member,
    /// Only if the key has this version: BLOCK.INDEX, or absent.
    #[arg(long, value_parser = version)]
    if_version: Option<Version>,
    /// The key; \xNN is any byte.
    #[arg(value_parser = given)]
    name: Given,
    /// What it holds from then on.
    #[arg(value_parser = given)]
    value: Given,
}

impl Set {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let body = Body::set(&self.name.0, self.if_version, &self.value.0);
        write(&self.member, body, as_json)
    }
}

/// Delete a key; it may be absent already.
#[derive(Args)]
pub struct Delete {
    #[command(flatten)]
    member: Member,
    /// Only if the key has this version: BLOCK.INDEX, or absent.
    #[arg(long, value_parser = version)]
    if_version: Option<Version>,
    /// The key; \xNN is any byte.
    #[arg(value_parser = given)]
    name: Given,
}

impl Delete {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        write(&self.member, Body::delete(&self.name.0, self.if_version), as_json)
    }
}

/// Has a transaction or a change ordered, and says what became of it.
///
/// # Errors
/// What stands in its way; where that is not known, how to ask.
pub fn write(member: &Member, body: Body<'_>, as_json: bool) -> anyhow::Result<()> {
    let (id, answer) = member.ask(async |asker: &Asker| {
        let (id, answer) = asker.order(body).await?;
        let id = to_hex(&id);
        let asks = || format!("whether it was done is not known: `lineside hybrid outcome {id}` asks");
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
        say!("{}\t{}\tid {id}", code_name(code), shown(answer.version))?;
    }
    Ok(())
}

/// Ask what keys from one on hold. Where there are more keys, a line on standard error says so; with --json, the last
/// line on standard output has `more` and the first key of the rest.
#[derive(Args)]
pub struct Range {
    #[command(flatten)]
    member: Member,
    /// Wait until this node has all that any node has answered.
    #[arg(long)]
    linearizable: bool,
    /// Keys at most; 10,000 and 1 MiB at most in any case.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// The first key; \xNN is any byte.
    #[arg(default_value = "", value_parser = given)]
    start: Given,
    /// The first key that is not meant; without it, there is none.
    #[arg(default_value = "", value_parser = given)]
    stop: Given,
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
        // The key after the last one is that key with a zero byte at its end.
        let last = answer.cells.last().filter(|_| answer.more);
        let start = last.map(|last| text::show(&[&last.key[..], &[0]].concat()));
        match (as_json, start) {
            (true, start) => say!("{}", json!({"more": answer.more, "start": start}))?,
            (false, Some(start)) => {
                tell!(
                    "lineside: there are more keys, from {start} on: ask from there, or give a higher --limit"
                );
            }
            (false, None) => {}
        }
        Ok(())
    }
}

/// Ask for the newest writes of a key, the newest first. Where there are older ones, a line on standard error says so;
/// with --json, the last line on standard output has `more` and the version for --before.
#[derive(Args)]
pub struct History {
    #[command(flatten)]
    member: Member,
    /// Maximum number of writes.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// Only writes that are older than this version, BLOCK.INDEX as it is shown.
    #[arg(long, value_name = "BLOCK.INDEX", value_parser = version)]
    before: Option<Version>,
    /// The key; \xNN is any byte.
    #[arg(value_parser = given)]
    name: Given,
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
            say!("{}\t{}\t{value}", shown(write.version), write.time_ms)?;
        }
        let last = answer.writes.last().filter(|_| answer.more);
        let before = last.map(|last| shown(last.version));
        match (as_json, before) {
            (true, before) => say!("{}", json!({"more": answer.more, "before": before}))?,
            (false, Some(before)) => tell!("lineside: there are older writes: --before {before} shows them"),
            (false, None) => {}
        }
        Ok(())
    }
}

/// Say every write below a prefix, from now on, until a signal comes or the node ends it.
#[derive(Args)]
pub struct Watch {
    #[command(flatten)]
    member: Member,
    /// The prefix; without it, every key.
    #[arg(default_value = "", value_parser = given)]
    prefix: Given,
}

impl Watch {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        self.member.ask(async |asker: &Asker| {
            let Asker::Grpc(client) = asker else {
                let why = "events come by gRPC alone: --server instead of --udp";
                anyhow::bail!(Wrong(why.into()));
            };
            let mut events = client.watch(&self.prefix.0).await?;
            let begin = events.message().await.map_err(AskError::from)?;
            let begin = begin.context("the node ended the stream without a word")?;
            refused(&begin, &[Code::Done])?;
            let block = begin.version.unwrap_or_default().block;
            match as_json {
                true => say!("{}", json!({"watching_from_block": block + 1}))?,
                false => tell!("lineside: watching from block {} on", block + 1),
            }
            while let Some(event) = events.message().await.map_err(AskError::from)? {
                if event.known_code()? == Code::Busy {
                    anyhow::bail!("writes came faster than they were taken, and some were lost: begin again");
                }
                refused(&event, &[Code::Done])?;
                say_cell(&event.key, event.version, event.value.as_deref(), as_json)?;
            }
            Ok(())
        })
    }
}

/// Ask for the newest block, signed by the node.
#[derive(Args)]
pub struct Head {
    #[command(flatten)]
    member: Member,
    /// Keep the node's word in this file, for `verify-proof --head`.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// A head as a node gave it.
///
/// # Errors
/// What cannot be read.
pub fn read_head(answer: &messages::SignedHeader) -> anyhow::Result<(Header, SignedHead)> {
    refused(answer, &[Code::Done])?;
    let header = answer.header[..]
        .try_into()
        .context("the server's header cannot be read")?;
    let head = answer.head[..]
        .try_into()
        .context("the server's head cannot be read")?;
    Ok((Header::from_bytes(header), SignedHead::read(head)?))
}

impl Head {
    pub fn run(self, as_json: bool) -> anyhow::Result<()> {
        let answer = self.member.ask(async |asker: &Asker| asker.head().await)?;
        let (header, head) = read_head(&answer)?;
        if let Some(file) = &self.out {
            std::fs::write(file, head.to_bytes()).with_context(|| file.display().to_string())?;
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
            false => say!("block {}\t{hash}\tsigned by node {}", head.number, head.node)?,
        }
        Ok(())
    }
}

/// Ask what became of a write or a change.
#[derive(Args)]
pub struct Outcome {
    #[command(flatten)]
    member: Member,
    /// Its id, 64 hex digits, as `set` says it.
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
                shown(answer.version),
                code.meaning()
            )?,
        }
        // Whatever became of it is what was asked; that the node does not know it is not.
        refused(&answer, &all_but_unknown()).map(|_| ())
    }
}

fn all_but_unknown() -> Vec<Code> {
    let all = (0..).map_while(Code::from_code);
    all.filter(|code| *code != Code::Unknown).collect()
}
