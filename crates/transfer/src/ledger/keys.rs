//! Idempotency keys. A client marks an operation with a key of 128 bits of its choice. While the ledger remembers the
//! key, a repetition of the operation gets the outcome of the first execution and changes nothing, in any session and
//! also after a restart. Only executed operations are remembered: after a refusal the key can be used again.

use crate::AccountId;
use crate::bytes::{Reader, Writer};
use crate::native::{self, Outcome};
use hashbrown::HashMap;
use lineside_wire::{
    Operation, TRANSFER_COMMAND_TRANSFER, TRANSFER_CONTRACT_POST, TRANSFER_CONTRACT_VOID,
    TransferCode as Code,
};
use std::collections::VecDeque;
use zerocopy::IntoBytes;

/// Identifier of a keyed operation. Accounts have separate keys, so that the clients of one account cannot take the
/// keys of another. `uuid` names the pending transfer in its post and void, too, so these have keys of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey {
    source: AccountId,
    uuid: [u8; 16],
    /// Contract code of a post or void, otherwise 0.
    ending: u8,
}

impl IdempotencyKey {
    /// Returns the key of an operation; `None` if the operation has none.
    pub fn of(operation: &Operation) -> Option<Self> {
        let ending = match (operation.command, operation.contract.get()) {
            (TRANSFER_COMMAND_TRANSFER, contract @ (TRANSFER_CONTRACT_POST | TRANSFER_CONTRACT_VOID)) => {
                contract as u8
            }
            _ => 0,
        };
        native::is_keyed(operation).then_some(Self {
            source: AccountId(operation.source),
            uuid: operation.uuid,
            ending,
        })
    }

    /// Writes the key into a snapshot.
    pub(super) fn put(&self, out: &mut Writer) {
        out.bytes(&self.source.0);
        out.bytes(&self.uuid);
        out.u8(self.ending);
    }

    /// Reads a key from a snapshot.
    pub(super) fn read(input: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            source: AccountId(input.array()?),
            uuid: input.array()?,
            ending: input.u8()?,
        })
    }
}

/// Executed operation that has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyedOperation {
    /// Checksum of the operation without the fields that a repetition may change.
    pub(super) sum: u64,
    /// Time of its packet, or that of an earlier keyed operation if that was later, in seconds since 1970.
    pub(super) executed_s: u64,
    /// Balance of the source after the operation.
    pub(super) amount: u64,
    /// Number of the operation in the ledger.
    pub(super) number: u64,
}

/// Result of looking up the key of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyLookup {
    /// The key is not remembered: the operation is to be executed.
    New,
    /// The operation was executed before, with this outcome.
    Repeated(Outcome),
    /// The key belongs to another operation.
    Reused,
}

/// Remembered keys, with their operations. Only the execution of an operation changes them, because only that is in
/// the journal: a replay must find the same keys.
#[derive(Debug, Default)]
pub(super) struct Keys {
    operations: HashMap<IdempotencyKey, KeyedOperation>,
    /// Keys in the order of execution, with the times of their executions, which never decrease.
    order: VecDeque<(IdempotencyKey, u64)>,
}

impl Keys {
    pub(super) fn len(&self) -> usize {
        self.operations.len()
    }

    /// Returns the time at which keys are looked up: the clock's, or that of the last execution if the clock was set
    /// back since then.
    fn time_s(&self, now_s: u64) -> u64 {
        self.order.back().map_or(now_s, |(_, last_s)| now_s.max(*last_s))
    }

    /// Returns the number of keys that are remembered at the time `now_s`, if each is for `window_s` seconds.
    pub(super) fn remembered(&self, now_s: u64, window_s: u64) -> usize {
        let time_s = self.time_s(now_s);
        let forgotten = self
            .order
            .partition_point(|(_, executed_s)| is_over(*executed_s, time_s, window_s));
        self.order.len() - forgotten
    }

    /// Looks up the key of an operation. A key is remembered for `window_s` seconds after its execution.
    pub(super) fn look_up(
        &self,
        key: &IdempotencyKey,
        operation: &Operation,
        now_s: u64,
        window_s: u64,
    ) -> KeyLookup {
        let time_s = self.time_s(now_s);
        match self.operations.get(key) {
            Some(known) if is_over(known.executed_s, time_s, window_s) => KeyLookup::New,
            Some(known) if known.sum == sum(operation) => KeyLookup::Repeated(Outcome {
                code: Code::Done,
                amount: known.amount,
                number: known.number,
            }),
            Some(_) => KeyLookup::Reused,
            None => KeyLookup::New,
        }
    }

    /// Remembers an executed operation, and removes the keys that are no longer remembered.
    pub(super) fn record(
        &mut self,
        key: IdempotencyKey,
        operation: &Operation,
        outcome: &Outcome,
        now_s: u64,
        window_s: u64,
    ) {
        let time_s = self.time_s(now_s);
        while let Some((oldest, executed_s)) = self.order.front()
            && is_over(*executed_s, time_s, window_s)
        {
            self.operations.remove(oldest);
            self.order.pop_front();
        }
        let operation = KeyedOperation {
            sum: sum(operation),
            executed_s: time_s,
            amount: outcome.amount,
            number: outcome.number,
        };
        self.insert(key, operation);
    }

    /// Adds a key that was not executed before any other one.
    pub(super) fn insert(&mut self, key: IdempotencyKey, operation: KeyedOperation) {
        self.order.push_back((key, operation.executed_s));
        self.operations.insert(key, operation);
    }

    /// Returns all keys in the order of their execution.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&IdempotencyKey, &KeyedOperation)> {
        self.order
            .iter()
            .filter_map(|(key, _)| self.operations.get_key_value(key))
    }
}

/// Returns whether a key is no longer remembered at the time `time_s`.
const fn is_over(executed_s: u64, time_s: u64, window_s: u64) -> bool {
    time_s.saturating_sub(executed_s) > window_s
}

/// Returns the checksum of an operation without the fields that may differ between repetitions: its timestamp, its
/// nonce, and whether it is linked with the next one. Snapshots contain it, so it stays the same in all versions.
fn sum(operation: &Operation) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let compared = Operation {
        flags: 0,
        timestamp: 0.into(),
        nonce: 0.into(),
        ..*operation
    };
    let (words, _) = compared.as_bytes().as_chunks::<8>();
    words.iter().fold(1, |sum, word| {
        let product = (sum ^ u64::from_le_bytes(*word)).wrapping_mul(ODD);
        product ^ product >> 32
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromBytes;

    #[test]
    fn the_checksum_is_that_of_earlier_versions() {
        let operation = |first: u8| {
            let bytes: Vec<u8> = (0..size_of::<Operation>())
                .map(|at| first.wrapping_add(at as u8))
                .collect();
            Operation::read_from_bytes(&bytes).unwrap()
        };
        // Computed by another program from the definition of the first version.
        let sums = [0x740b_6ebd_cfe9_1fd4, 0xf0b6_737a_623f_9108];
        assert_eq!([0, 1].map(|first| sum(&operation(first))), sums);
    }
}
