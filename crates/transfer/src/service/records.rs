//! Records of a ledger's journal in a form for people: `lineside journal dump` prints them.

use crate::AccountId;
use crate::entry::Entry;
use crate::native::Outcome;
use lineside_service::DecodedRecord;
use lineside_util::hex::to_hex;
use lineside_wire::{
    Operation, TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_FREEZE, TRANSFER_COMMAND_ISSUE,
    TRANSFER_COMMAND_REFER, TRANSFER_COMMAND_TRANSFER, TRANSFER_COMMAND_UNFREEZE, TRANSFER_CONTRACT_PENDING,
    TRANSFER_CONTRACT_POST, TRANSFER_CONTRACT_VOID, TRANSFER_FLAG_KEYED, TRANSFER_FLAG_LINKED,
    TransferCode as Code,
};
use serde_json::{Value, json};
use std::net::Ipv6Addr;

/// Decodes a record; `None` if it is not a valid record of a ledger. The token of a session is left out, because
/// everybody who knows it can use the session.
pub(super) fn decode(kind: u8, payload: &[u8]) -> Option<DecodedRecord> {
    let entry = Entry::from_record(kind, payload)?;
    let is_secret = matches!(entry, Entry::Open { .. });
    let (name, fields) = match entry {
        Entry::Limits { limits, mode } => (
            "limits",
            json!({"accounts": limits.accounts, "sessions": limits.sessions, "pendings": limits.pendings,
                "idempotency_keys": limits.keys, "idempotency_s": limits.key_window_s,
                "mode": format!("{mode:?}").to_lowercase()}),
        ),
        Entry::Paper { request, answer } => (
            "paper",
            json!({"command": command(request.command), "transaction_id": request.transaction_id,
                "source": request.source, "destination": request.destination, "amount": request.amount,
                "result": answer.code.name(), "balance": (answer.code == Code::Done).then_some(answer.amount)}),
        ),
        Entry::Execute {
            slot,
            sequence,
            now_s,
            operations,
            outcomes,
            signed,
        } => (
            "execute",
            json!({"slot": slot, "sequence": sequence, "time_s": now_s, "signed": signed.is_some(),
                "operations": operations.iter().zip(&outcomes).map(executed).collect::<Vec<_>>()}),
        ),
        Entry::Partly {
            slot,
            sequence,
            now_s,
            codes,
            operations,
            outcomes,
            ..
        } => (
            "execute_in_part",
            json!({"slot": slot, "sequence": sequence, "time_s": now_s, "results": names(&codes),
                "operations": operations.iter().zip(&outcomes).map(executed).collect::<Vec<_>>()}),
        ),
        Entry::Refused {
            slot,
            sequence,
            now_s,
            codes,
            rest,
            ..
        } => (
            "refused",
            json!({"slot": slot, "sequence": sequence, "time_s": now_s, "results": names(&codes),
                "busy_after_these": rest}),
        ),
        Entry::Open {
            slot, opener, now_s, ..
        } => (
            "open_session",
            json!({"slot": slot, "address": Ipv6Addr::from(opener).to_canonical().to_string(), "time_s": now_s}),
        ),
        Entry::Close { slot } => ("close_session", json!({"slot": slot})),
        Entry::Expire((source, uuid)) => (
            "expire",
            json!({"source": source.to_string(), "uuid": to_hex(&uuid)}),
        ),
        Entry::Block(block) => (
            "block",
            json!({"number": block.number, "first": block.first, "count": block.count, "root": to_hex(&block.root),
                "hash": to_hex(&block.hash()), "issued": block.issued.to_string(), "accounts": block.accounts,
                "sealed_s": block.sealed_s}),
        ),
        Entry::Line(record) => (
            "fast_path",
            json!({"command": command(record.command), "source": record.source.to_string(),
                "destination": record.destination.to_string(), "amount": record.amount,
                "result": Code::from_code(record.code).map(Code::name), "balance": record.source_balance,
                "source_version": record.source_version, "destination_version": record.destination_version,
                "slot": record.slot, "sequence": record.sequence, "time_ns": record.time_ns}),
        ),
        Entry::PaperRefused {
            request,
            code,
            version,
        } => (
            "fast_path_refused",
            json!({"command": command(request.command), "transaction_id": request.transaction_id,
                "source": request.source, "destination": request.destination, "amount": request.amount,
                "result": code.name(), "source_version": version}),
        ),
        Entry::Time { now_s } => ("time", json!({"time_s": now_s})),
    };
    Some(DecodedRecord {
        name,
        fields,
        is_secret,
    })
}

/// Returns the name of a command, or the number of one that this version does not know.
fn command(number: impl Into<u32>) -> Value {
    let number = number.into();
    let Ok(known) = u8::try_from(number) else {
        return number.into();
    };
    match known {
        TRANSFER_COMMAND_CREATE => "create".into(),
        TRANSFER_COMMAND_ISSUE => "issue".into(),
        TRANSFER_COMMAND_TRANSFER => "transfer".into(),
        TRANSFER_COMMAND_REFER => "refer".into(),
        TRANSFER_COMMAND_FREEZE => "freeze".into(),
        TRANSFER_COMMAND_UNFREEZE => "unfreeze".into(),
        other => other.into(),
    }
}

/// Returns the names of the flags of an operation, and the number of each bit that this version does not know.
fn flags(flags: u8) -> Vec<Value> {
    let bits = (0..u8::BITS).map(|bit| 1 << bit).filter(|bit| flags & bit != 0);
    let name = |bit: u8| match bit {
        TRANSFER_FLAG_LINKED => "linked".into(),
        TRANSFER_FLAG_KEYED => "keyed".into(),
        other => other.into(),
    };
    bits.map(name).collect()
}

/// Returns the name of a contract, null for an operation without one, or the number of one that this version does not
/// know.
fn contract(number: u32) -> Value {
    match number {
        0 => Value::Null,
        TRANSFER_CONTRACT_PENDING => "pending".into(),
        TRANSFER_CONTRACT_POST => "post".into(),
        TRANSFER_CONTRACT_VOID => "void".into(),
        other => other.into(),
    }
}

fn names(codes: &[Code]) -> Vec<&'static str> {
    codes.iter().map(|code| code.name()).collect()
}

fn executed((operation, outcome): (&Operation, &Outcome)) -> Value {
    json!({"command": command(operation.command), "flags": flags(operation.flags),
        "contract": contract(operation.contract.get()),
        "source": AccountId(operation.source).to_string(),
        "destination": AccountId(operation.destination).to_string(), "amount": operation.amount.get(),
        "uuid": to_hex(&operation.uuid), "timeout_s": operation.timeout_s.get(), "result": outcome.code.name(),
        "balance": (outcome.code == Code::Done).then_some(outcome.amount),
        "number": (outcome.number > 0).then_some(outcome.number)})
}

#[cfg(test)]
mod tests {
    use super::{command, contract, flags};
    use lineside_wire::{TRANSFER_COMMAND_TRANSFER, TRANSFER_CONTRACT_POST};
    use serde_json::json;

    #[test]
    fn commands_flags_and_contracts_have_names() {
        assert_eq!(command(TRANSFER_COMMAND_TRANSFER), json!("transfer"));
        assert_eq!(command(77_u8), json!(77));
        assert_eq!(command(0x303_u32), json!(0x303));
        assert_eq!(flags(0), [json!(null); 0]);
        assert_eq!(flags(3), [json!("linked"), json!("keyed")]);
        assert_eq!(flags(0x82), [json!("keyed"), json!(128)]);
        assert_eq!(contract(0), json!(null));
        assert_eq!(contract(TRANSFER_CONTRACT_POST), json!("post"));
    }
}
