//! `lineside fabric history`

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

/// Which transactions wrote a key and what, the newest first; or all that a transaction or a block wrote. Only valid
/// transactions and public keys count.
#[derive(Args)]
pub struct History {
    #[command(flatten)]
    data: Data,
    /// The chaincode.
    #[arg(requires = "key", required_unless_present_any = ["tx", "block"])]
    namespace: Option<String>,
    /// The key.
    key: Option<String>,
    /// Print the writes of the transaction with this id.
    #[arg(long, value_name = "ID", conflicts_with_all = ["namespace", "block"])]
    tx: Option<String>,
    /// Print the writes of the block with this number.
    #[arg(long, value_name = "NUMBER", conflicts_with = "namespace")]
    block: Option<u64>,
    /// Writes at most.
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Print keys and values as they are to a terminal, too; elsewhere they always are.
    #[arg(long)]
    raw: bool,
}

/// Does `history`.
///
/// # Errors
/// Errors of the ledger; a key that no transaction in the ledger has written.
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
        _ => bail!(Wrong("NAMESPACE KEY, --tx ID, or --block NUMBER".to_owned())),
    };
    let escape = !as_json && !arguments.raw && std::io::stdout().is_terminal();
    for write in writes.iter().take(arguments.limit) {
        show(write, as_json, escape)?;
    }
    let of_one_key = arguments.namespace.is_some();
    if of_one_key && blocks.first() > 0 && !as_json {
        tell!(
            "lineside: the ledger begins with block {}, after a snapshot: what was written before is not there",
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
