//! `lineside fabric state`: prints keys of the state (keys of the public state, and hashes of the keys of private data
//! collections) and the channel's configuration.

use crate::fabric::ledger::Data;
use crate::out::Unwritten;
use anyhow::{Context, bail};
use clap::Args;
use lineside_fabric::block::Block;
use lineside_fabric::ledger::{ReadOnlyLedger, StateStore};
use lineside_fabric::proto::{self, Arena, wire};
use lineside_fabric::state::{Entry, Height, State as KeyState};
use lineside_fabric_grpc::gateway::last_config;
use lineside_journal::FsDisk;
use lineside_util::hex::to_hex;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::io::IsTerminal;

/// Key under which a peer stores the channel's configuration, in the namespace "".
const CONFIG_KEY: &str = "CHANNEL_CONFIG_ENV_BYTES";
/// Name of the only metadata that a peer's validation reads.
const VALIDATION_PARAMETER: &str = "VALIDATION_PARAMETER";

/// Print a key of the state with its value, or the keys of a namespace.
///
/// A namespace is the name of a chaincode, `_lifecycle`, or "" for the channel's configuration. Private data is stored
/// as hashes: the SHA-256 of keys and of values, in hex.
#[derive(Args)]
pub struct State {
    #[command(flatten)]
    data: Data,
    /// Namespace; CHAINCODE$$COLLECTION for a collection of private data.
    namespace: String,
    /// Key; without it, all keys from --start to --end. In a collection, the key itself or its SHA-256 in hex.
    key: Option<String>,
    /// Collection of private data in the namespace.
    #[arg(long, value_name = "NAME")]
    collection: Option<String>,
    /// First key; in a collection, a SHA-256 in hex.
    #[arg(long, value_name = "KEY", default_value = "")]
    start: String,
    /// Key before which to stop; empty: print to the last key.
    #[arg(long, value_name = "KEY", default_value = "")]
    end: String,
    /// Maximum number of keys to print.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Print keys and values unchanged even to a terminal, where control characters are otherwise escaped.
    #[arg(long)]
    raw: bool,
}

/// Form in which keys and values are printed.
#[derive(Clone, Copy)]
struct ConfigForm {
    as_json: bool,
    escape: bool,
    /// True if keys and values are hashes.
    hashed: bool,
}

impl ConfigForm {
    fn text(self, bytes: &[u8]) -> String {
        if self.hashed {
            return to_hex(bytes);
        }
        let text = String::from_utf8_lossy(bytes);
        if self.escape {
            escaped(&text)
        } else {
            text.into_owned()
        }
    }

    fn show(self, key: &[u8], entry: &Entry) -> Result<(), Unwritten> {
        let (key, value) = (self.text(key), self.text(&entry.value));
        let Height { block, tx } = entry.version;
        let parameter = entry.validation_parameter.as_deref().map(to_hex);
        if self.as_json {
            let mut line = json!({
                "key": key, "value": value, "value_hex": to_hex(&entry.value), "block": block, "tx": tx,
            });
            if let Some(parameter) = parameter {
                line["metadata"] = json!({ VALIDATION_PARAMETER: parameter });
            }
            return say!("{line}");
        }
        let metadata = parameter.map(|parameter| format!("\t{VALIDATION_PARAMETER} {parameter}"));
        let metadata = metadata.unwrap_or_default();
        say!("{key}\t{value}\t(block {block}, transaction {tx}){metadata}")
    }
}

/// Returns `text` with escaped control characters. Clients of chaincodes choose the text, which could otherwise control
/// the terminal.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\'' => out.push(c),
            c => out.extend(c.escape_debug()),
        }
    }
    out
}

impl State {
    /// Returns the namespace and the name of the private data collection; the name is empty for the public state.
    fn space(&self) -> anyhow::Result<(&str, &str)> {
        match (self.namespace.split_once("$$"), &self.collection) {
            (Some(_), Some(_)) => {
                bail!("the collection is given twice, by `$$` and by --collection: leave one out")
            }
            (Some(space), None) => Ok(space),
            (None, collection) => Ok((&self.namespace, collection.as_deref().unwrap_or_default())),
        }
    }
}

/// Returns the name of the collection, without the `h` that a peer puts before it to mean the hashes.
fn known_collection<'a>(
    spaces: &BTreeSet<(String, String)>,
    namespace: &str,
    collection: &'a str,
) -> anyhow::Result<&'a str> {
    let is_known = |collection: &str| spaces.contains(&(namespace.to_owned(), collection.to_owned()));
    if is_known(collection) {
        return Ok(collection);
    }
    if let Some(name) = collection.strip_prefix('h').filter(|name| is_known(name)) {
        return Ok(name);
    }
    let of_namespace = spaces.iter().filter(|(name, _)| name == namespace);
    let names: Vec<&str> = of_namespace.map(|(_, collection)| collection.as_str()).collect();
    if names.is_empty() {
        let known_names: BTreeSet<&str> = spaces.iter().map(|(name, _)| name.as_str()).collect();
        let known_names: Vec<&str> = known_names.into_iter().collect();
        bail!(
            "the state has no namespace {namespace:?}; it has {}",
            known_names.join(", ")
        );
    }
    let collections: Vec<&str> = names.into_iter().filter(|name| !name.is_empty()).collect();
    match (collection.is_empty(), collections.is_empty()) {
        (true, _) => bail!(
            "the namespace {namespace} has no keys in the public state, only in private data collections; give \
             --collection with one of {}",
            collections.join(", ")
        ),
        (false, true) => bail!("the namespace {namespace} has no collections with keys"),
        (false, false) => bail!(
            "the namespace {namespace} has no collection {collection:?} with keys; it has {}",
            collections.join(", ")
        ),
    }
}

/// Returns the hash under which a key of private data is stored: the SHA-256 of `key`, or `key` itself if it is such a
/// hash in hex.
fn hash_of(state: &KeyState, (namespace, collection): (&str, &str), key: &str) -> Vec<u8> {
    let given = unhex(key).filter(|hash| state.get(namespace, collection, hash).is_some());
    given.unwrap_or_else(|| Sha256::digest(key).to_vec())
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let is_hex = digits.len().is_multiple_of(2) && digits.iter().all(u8::is_ascii_hexdigit);
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    is_hex.then(|| (0..digits.len()).step_by(2).map_while(byte).collect())
}

/// Runs `state`.
///
/// # Errors
/// The state cannot be read, or does not have the namespace, collection or key.
pub fn state(arguments: &State, as_json: bool) -> anyhow::Result<()> {
    let (namespace, collection) = arguments.space()?;
    let form = ConfigForm {
        as_json,
        escape: !as_json && !arguments.raw && std::io::stdout().is_terminal(),
        hashed: !collection.is_empty(),
    };
    if namespace.is_empty() && collection.is_empty() {
        return configuration(arguments, form);
    }
    let (mut look, stateless) = arguments.data.look_with_state()?;
    if let Some(why) = stateless {
        tell!("lineside: {why}; reading the state from the blocks instead");
        look = arguments
            .data
            .look_at(Some(&StateStore::Memory))
            .with_context(|| arguments.data.reading())?;
    }
    let state = look.validator.state();
    let spaces = state.namespaces();
    state.check().map_err(anyhow::Error::msg)?;
    let collection = known_collection(&spaces, namespace, collection)?;
    if let Some(key) = &arguments.key {
        let key = match form.hashed {
            true => hash_of(state, (namespace, collection), key),
            false => key.clone().into_bytes(),
        };
        let entry = state.get(namespace, collection, &key);
        state.check().map_err(anyhow::Error::msg)?;
        form.show(&key, &*entry.context("there is no such key")?)?;
        return Ok(());
    }
    let bound = |text: &str| match form.hashed {
        true => unhex(text)
            .with_context(|| format!("{text:?}: keys of a collection are hashes: give a SHA-256 in hex")),
        false => Ok(text.as_bytes().to_vec()),
    };
    let (start, end) = (bound(&arguments.start)?, bound(&arguments.end)?);
    let keys = state.range_of(namespace, collection, &start, &end);
    for (key, entry) in keys.take(arguments.limit) {
        form.show(&key, &entry)?;
    }
    state.check().map_err(anyhow::Error::msg)
}

/// Prints the channel's configuration as a peer stores it: the `Config` of the newest configuration block.
fn configuration(arguments: &State, form: ConfigForm) -> anyhow::Result<()> {
    if arguments.key.as_ref().is_some_and(|key| key != CONFIG_KEY) {
        bail!("there is no such key: the namespace \"\" has only {CONFIG_KEY}");
    }
    let data = &arguments.data;
    let look = data.look_at(None).with_context(|| data.reading())?;
    let (number, config) = newest_config(&look)?;
    let entry = Entry {
        value: config.into(),
        validation_parameter: None,
        version: Height { block: number, tx: 0 },
    };
    form.show(CONFIG_KEY.as_bytes(), &entry)?;
    Ok(())
}

/// Returns the number of the newest configuration block, and its configuration.
fn newest_config(look: &ReadOnlyLedger<FsDisk>) -> anyhow::Result<(u64, Vec<u8>)> {
    let newest = look
        .blocks
        .count()
        .checked_sub(1)
        .context("the ledger is empty")?;
    let stored = look.blocks.block(newest)?;
    let arena = Arena::new();
    let number = last_config(&Block::read(&stored.bytes, &arena)?).unwrap_or(0);
    let stored = look.blocks.block(number)?;
    let arena = Arena::new();
    let block = Block::read(&stored.bytes, &arena)?;
    let config = block
        .transactions
        .first()
        .and_then(|envelope| config_in(envelope));
    Ok((
        number,
        config.with_context(|| format!("block {number} has no configuration"))?,
    ))
}

/// Returns the `Config` in a transaction that sets the configuration.
fn config_in(envelope: &[u8]) -> Option<Vec<u8>> {
    let arena = Arena::new();
    let envelope: proto::Envelope<'_> = proto::decode(envelope, &arena).ok()?;
    let payload: proto::Payload<'_> = proto::decode(envelope.payload, &arena).ok()?;
    let mut rest = payload.data;
    while !rest.is_empty() {
        let (number, wire_type) = wire::tag(&mut rest).ok()?;
        if (number, wire_type) == (1, wire::BYTES) {
            return wire::length_delimited(&mut rest).ok().map(<[u8]>::to_vec);
        }
        wire::skip(number, wire_type, &mut rest).ok()?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_for_a_terminal() {
        let plain = "{\"owner\":\"O'Neil\"} straße 銀";
        assert_eq!(escaped(plain), plain);
        let hostile = "\u{1b}]0;mine\u{7}\u{202e}\r\n\u{9b}2J\\";
        assert_eq!(escaped(hostile), r"\u{1b}]0;mine\u{7}\u{202e}\r\n\u{9b}2J\\");
    }

    #[test]
    fn unknown_namespaces_and_collections_are_named() {
        let spaces = [
            ("_lifecycle", ""),
            ("kv", ""),
            ("kv", "collA"),
            ("only", "private"),
        ];
        let spaces = spaces.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
        let known = |namespace, collection| known_collection(&spaces, namespace, collection);
        assert_eq!(known("kv", "").unwrap(), "");
        assert_eq!(known("kv", "collA").unwrap(), "collA");
        assert_eq!(known("kv", "hcollA").unwrap(), "collA");
        for (namespace, collection, said) in [
            (
                "none",
                "",
                "the state has no namespace \"none\"; it has _lifecycle, kv, only",
            ),
            (
                "kv",
                "collB",
                "the namespace kv has no collection \"collB\" with keys; it has collA",
            ),
            (
                "_lifecycle",
                "collA",
                "the namespace _lifecycle has no collections with keys",
            ),
            (
                "only",
                "",
                "the namespace only has no keys in the public state, only in private data collections; give \
                 --collection with one of private",
            ),
        ] {
            assert_eq!(known(namespace, collection).unwrap_err().to_string(), said);
        }
    }

    #[test]
    fn only_complete_hex_is_parsed() {
        assert_eq!(unhex("00fF"), Some(vec![0, 255]));
        assert_eq!(unhex(""), Some(vec![]));
        assert_eq!((unhex("0"), unhex("0g"), unhex("é")), (None, None, None));
    }
}
