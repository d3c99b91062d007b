//! Records of a ledger's journal in a form for people: `lineside journal dump` prints them.

use crate::AccountId;
use crate::entry::Entry;
use crate::native::Outcome;
use lineside_service::DecodedRecord;
use lineside_util::hex::to_hex;
use lineside_wire::{Operation, TransferCode as Code};
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
            json!({"command": request.command, "transaction_id": request.transaction_id, "source": request.source,
                "destination": request.destination, "amount": request.amount, "result": answer.code.name(),
                "balance": (answer.code == Code::Done).then_some(answer.amount)}),
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
            json!({"command": record.command, "source": record.source.to_string(),
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
            json!({"command": request.command, "transaction_id": request.transaction_id, "source": request.source,
                "destination": request.destination, "amount": request.amount, "result": code.name(),
                "source_version": version}),
        ),
        Entry::Time { now_s } => ("time", json!({"time_s": now_s})),
    };
    Some(DecodedRecord {
        name,
        fields,
        is_secret,
    })
}

fn names(codes: &[Code]) -> Vec<&'static str> {
    codes.iter().map(|code| code.name()).collect()
}

fn executed((operation, outcome): (&Operation, &Outcome)) -> Value {
    json!({"command": operation.command, "flags": operation.flags, "contract": operation.contract.get(),
        "source": AccountId(operation.source).to_string(),
        "destination": AccountId(operation.destination).to_string(), "amount": operation.amount.get(),
        "uuid": to_hex(&operation.uuid), "timeout_s": operation.timeout_s.get(), "result": outcome.code.name(),
        "balance": (outcome.code == Code::Done).then_some(outcome.amount),
        "number": (outcome.number > 0).then_some(outcome.number)})
}
