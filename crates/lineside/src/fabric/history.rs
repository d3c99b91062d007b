//! `lineside fabric history`: prints the writes of a key, a transaction or a block.

use super::ledger::Data;
use super::state::escaped;
use crate::out::Unwritten;
use crate::wrong::Wrong;
use anyhow::bail;
use clap::Args;
use lineside_fabric::history::{KeyWrite, of_block, of_key, of_transaction};
use lineside_fabric::state::TxId;
use lineside_fabric_replica::ledger::history_file;
use lineside_util::hex::to_hex;
use serde_json::json;
use std::io::IsTerminal;

/// Print the writes of a key, newest first, or all writes of a transaction or a block.
///
/// Shows only writes of valid transactions, and only keys of the public state.
#[derive(Args)]
pub struct History {
    #[command(flatten)]
    data: Data,
    /// Namespace of the key, usually the name of its chaincode.
    #[arg(requires = "key", required_unless_present_any = ["tx", "block"])]
    namespace: Option<String>,
    /// Key.
    key: Option<String>,
    /// Print the writes of the transaction with this id.
    #[arg(long, value_name = "ID", conflicts_with_all = ["namespace", "block"])]
    tx: Option<String>,
    /// Print the writes of the block with this number.
    #[arg(long, value_name = "NUMBER", conflicts_with = "namespace")]
    block: Option<u64>,
    /// Maximum number of writes to print.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Print keys and values unchanged even to a terminal, where control characters are otherwise escaped.
    #[arg(long)]
    raw: bool,
}

/// Runs `history`.
///
/// # Errors
/// The ledger cannot be read, or no transaction in it has written the key.
pub fn history(arguments: &History, as_json: bool) -> anyhow::Result<()> {
    let look = arguments.data.look()?;
    let blocks = &look.blocks;
    let writes = match (
        &arguments.tx,
        arguments.block,
        &arguments.namespace,
        &arguments.key,
    ) {
        (Some(id), ..) => of_transaction(blocks, &TxId::new(id))?,
        (None, Some(number), ..) => of_block(blocks, number)?,
        (None, None, Some(namespace), Some(key)) => {
            let index = history_file(&arguments.data.data);
            let mut writes = of_key(blocks, &index, namespace, key.as_bytes())?;
            writes.reverse();
            writes
        }
        _ => bail!(Wrong(
            "give NAMESPACE and KEY, or --tx ID, or --block NUMBER".to_owned()
        )),
    };
    let escape = !as_json && !arguments.raw && std::io::stdout().is_terminal();
    for write in writes.iter().take(arguments.limit) {
        show(write, as_json, escape)?;
    }
    let of_one_key = arguments.namespace.is_some();
    if of_one_key && blocks.first() > 0 && !as_json {
        tell!(
            "lineside: the ledger was joined from a snapshot and begins with block {}: it has no earlier writes",
            blocks.first()
        );
    }
    if of_one_key && writes.is_empty() {
        bail!("no transaction in the ledger has written this key");
    }
    Ok(())
}

fn show(write: &KeyWrite, as_json: bool, escape: bool) -> Result<(), Unwritten> {
    let (key, value) = (String::from_utf8_lossy(&write.key), write.value.as_deref());
    let text = value.map(String::from_utf8_lossy);
    let (seconds, nanos) = write.time;
    if as_json {
        let line = json!({
            "block": write.block, "tx": write.tx, "id": write.id, "seconds": seconds, "nanos": nanos,
            "namespace": write.namespace, "key": key, "deleted": value.is_none(), "value": text,
            "value_hex": value.map(to_hex),
        });
        return say!("{line}");
    }
    let text = text.unwrap_or("(deleted)".into());
    let (key, text) = match escape {
        true => (escaped(&key), escaped(&text)),
        false => (key.into_owned(), text.into_owned()),
    };
    let (block, tx, id) = (write.block, write.tx, &write.id);
    say!(
        "{}\t{key}\t{text}\t(block {block}, transaction {tx}, {id})",
        write.namespace
    )
}
