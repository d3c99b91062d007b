//! `lineside transfer accounts` and `history`: the accounts of a ledger, and what happened to one of them.
//!
//! Both read the ledger's directory, so they work without a server, and also while one runs.

use super::server_key::read_key;
use anyhow::{Context, bail};
use clap::Args;
use lineside_client::transfer::AccountId;
use lineside_journal::FsDisk;
use lineside_transfer::host::{self, ExecutedOperation};
use lineside_transfer::ledger::Account;
use lineside_transfer::server::KIND;
use lineside_wire::{
    Operation, TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_FREEZE, TRANSFER_COMMAND_ISSUE,
    TRANSFER_COMMAND_UNFREEZE, TRANSFER_CONTRACT_PENDING, TRANSFER_CONTRACT_POST, TRANSFER_CONTRACT_VOID,
};
use serde_json::json;
use std::path::PathBuf;

/// List the accounts with their balances, in the order of their ids.
#[derive(Args)]
pub struct Accounts {
    /// Data directory of the ledger; its server may be running.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
}

/// List the operations that an account took part in, the oldest first.
///
/// Refused operations are in no ledger, so they are not listed. Neither is the expiry of a pending transfer.
#[derive(Args)]
pub struct History {
    /// Data directory of the ledger; its server may be running.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Account id: a number below 2^32, or 32 hex digits.
    account: AccountId,
}

impl Accounts {
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let disk = FsDisk::look_at(&self.data, &KIND)?;
        let ledger = host::open_read_only(&disk, read_key(&self.data)?)
            .with_context(|| self.data.display().to_string())?;
        let mut accounts: Vec<(&AccountId, &Account)> = ledger.accounts().collect();
        accounts.sort_unstable_by_key(|(id, _)| **id);
        for (id, account) in accounts {
            let (id, holding) = (id.to_string(), account.holding);
            let owner = (account.owner != [0; 16]).then(|| AccountId(account.owner).to_string());
            if as_json {
                say!(
                    "{}",
                    json!({"account": id, "balance": holding.balance, "held": holding.held_out,
                        "frozen": holding.frozen, "version": account.version, "owner": owner})
                )?;
                continue;
            }
            let mut line = format!("{id}: {}", holding.balance);
            if holding.held_out > 0 {
                line += &format!(", {} of it reserved for pending transfers", holding.held_out);
            }
            if holding.frozen {
                line += ", frozen";
            }
            if let Some(owner) = owner {
                line += &format!(", owner {owner}");
            }
            say!("{line}")?;
        }
        Ok(())
    }
}

impl History {
    pub fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let disk = FsDisk::look_at(&self.data, &KIND)?;
        let (mut found, mut unwritten) = (0_u64, Ok(()));
        host::executed_operations(&disk, |executed| {
            let operation = &executed.operation;
            let is_part = [operation.source, operation.destination].contains(&self.account.0);
            // The destination of CREATE is the fingerprint of a key.
            let is_owner = operation.command == TRANSFER_COMMAND_CREATE && operation.source != self.account.0;
            if is_part && !is_owner && unwritten.is_ok() {
                found += 1;
                unwritten = print(executed, &self.account, as_json);
            }
        })
        .with_context(|| self.data.display().to_string())?;
        unwritten?;
        match found {
            0 => bail!("{}: no executed operation names this account", self.account),
            _ => Ok(()),
        }
    }
}

/// Returns the name of an operation, as `batch` reads it.
pub(super) fn operation_name(operation: &Operation) -> &'static str {
    match (operation.command, operation.contract.get()) {
        (TRANSFER_COMMAND_CREATE, _) => "create",
        (TRANSFER_COMMAND_ISSUE, _) => "issue",
        (TRANSFER_COMMAND_FREEZE, _) => "freeze",
        (TRANSFER_COMMAND_UNFREEZE, _) => "unfreeze",
        (_, TRANSFER_CONTRACT_PENDING) => "pending",
        (_, TRANSFER_CONTRACT_POST) => "post",
        (_, TRANSFER_CONTRACT_VOID) => "void",
        _ => "transfer",
    }
}

fn print(executed: &ExecutedOperation, account: &AccountId, as_json: bool) -> anyhow::Result<()> {
    let operation = &executed.operation;
    let (number, amount) = (operation.number.get(), operation.amount.get());
    let is_source = operation.source == account.0;
    // The ledger records the balance of the source only.
    let balance = is_source.then_some(executed.balance);
    let is_transfer = ["transfer", "pending", "post", "void"].contains(&operation_name(&executed.operation));
    let source = AccountId(operation.source).to_string();
    let destination = is_transfer.then(|| AccountId(operation.destination).to_string());
    let (block, sealed_s) = executed.block.unzip();
    if as_json {
        say!(
            "{}",
            json!({"number": number, "operation": operation_name(&executed.operation), "source": source,
                "destination": destination,
                "amount": amount, "balance": balance, "uuid": AccountId(operation.uuid).to_string(),
                "timestamp": operation.timestamp.get(), "block": block, "sealed_s": sealed_s})
        )?;
        return Ok(());
    }
    let mut line = format!(
        "operation {number}: {} {source}",
        operation_name(&executed.operation)
    );
    if let Some(destination) = destination {
        line += &format!(" {destination}");
    }
    if amount > 0 {
        line += &format!(" {amount}");
    }
    if let Some(balance) = balance {
        line += &format!(", balance {balance}");
    }
    match block {
        Some(block) => say!("{line}, block {block}")?,
        None => say!("{line}, in no block yet")?,
    }
    Ok(())
}
