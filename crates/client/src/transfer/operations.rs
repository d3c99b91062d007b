//! Constructors of operations, and their idempotency keys and links.

use super::{AccountId, ClientError, KeyId};
use lineside_wire::{
    Operation, TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_FREEZE, TRANSFER_COMMAND_ISSUE,
    TRANSFER_COMMAND_TRANSFER, TRANSFER_COMMAND_UNFREEZE, TRANSFER_CONTRACT_PENDING, TRANSFER_CONTRACT_POST,
    TRANSFER_CONTRACT_VOID, TRANSFER_FLAG_KEYED, TRANSFER_FLAG_LINKED,
};
use zerocopy::FromZeros;

/// Key by which the server executes an operation once, in any session: 16 bytes that are not all zero, such as those of
/// a UUID.
pub type IdempotencyKey = [u8; 16];

fn operation(command: u8, source: AccountId, destination: AccountId, amount: u64) -> Operation {
    let mut operation = Operation::new_zeroed();
    operation.command = command;
    (operation.source, operation.destination) = (source.0, destination.0);
    operation.amount = amount.into();
    operation
}

/// Returns the operation that creates an account with an opening balance. If `owner` is given, only this key can debit
/// the account on a server that requires signatures.
pub fn create(account: AccountId, amount: u64, owner: Option<KeyId>) -> Operation {
    let owner = owner.map_or(AccountId::default(), |KeyId(id)| AccountId(id));
    operation(TRANSFER_COMMAND_CREATE, account, owner, amount)
}

/// Returns the operation that issues new units to an account.
pub fn issue(account: AccountId, amount: u64) -> Operation {
    operation(TRANSFER_COMMAND_ISSUE, account, AccountId::default(), amount)
}

/// Returns the operation that transfers an amount between two accounts.
pub fn transfer(source: AccountId, destination: AccountId, amount: u64) -> Operation {
    operation(TRANSFER_COMMAND_TRANSFER, source, destination, amount)
}

/// Returns the operation that freezes an account: neither debits nor credits are possible until [`unfreeze`].
pub fn freeze(account: AccountId) -> Operation {
    operation(TRANSFER_COMMAND_FREEZE, account, AccountId::default(), 0)
}

/// Returns the operation that ends [`freeze`].
pub fn unfreeze(account: AccountId) -> Operation {
    operation(TRANSFER_COMMAND_UNFREEZE, account, AccountId::default(), 0)
}

fn contract(kind: u32, name: [u8; 16], source: AccountId, destination: AccountId, amount: u64) -> Operation {
    let mut operation = transfer(source, destination, amount);
    operation.contract = kind.into();
    operation.uuid = name;
    operation
}

/// Returns the operation that reserves an amount of the source, under the name `name`, until [`post`] or [`void`]. It
/// expires after `timeout_s` seconds; 0: never.
pub fn pending(
    name: [u8; 16],
    source: AccountId,
    destination: AccountId,
    amount: u64,
    timeout_s: u32,
) -> Operation {
    let mut operation = contract(TRANSFER_CONTRACT_PENDING, name, source, destination, amount);
    operation.timeout_s = timeout_s.into();
    operation
}

/// Returns the operation that transfers the amount reserved by [`pending`], or a part of it; 0: all of it.
pub fn post(name: [u8; 16], source: AccountId, destination: AccountId, amount: u64) -> Operation {
    contract(TRANSFER_CONTRACT_POST, name, source, destination, amount)
}

/// Returns the operation that releases the amount reserved by [`pending`].
pub fn void(name: [u8; 16], source: AccountId, destination: AccountId) -> Operation {
    contract(TRANSFER_CONTRACT_VOID, name, source, destination, 0)
}

/// Returns the operation with an idempotency key. The key of [`pending`], [`post`] and [`void`] is the name of the
/// pending transfer, so `key` must be that name for these.
#[must_use]
pub fn keyed(mut operation: Operation, key: IdempotencyKey) -> Operation {
    operation.flags |= TRANSFER_FLAG_KEYED;
    operation.uuid = key;
    operation
}

/// Returns a new random idempotency key. Store it with the payment before the payment is sent.
///
/// # Errors
/// The system's error of its random number generator.
pub fn new_idempotency_key() -> std::io::Result<IdempotencyKey> {
    let mut key = [0; 16];
    // All bytes are zero with a probability of 2^-128; the loop makes that impossible.
    while key == [0; 16] {
        getrandom::fill(&mut key).map_err(std::io::Error::other)?;
    }
    Ok(key)
}

/// Links operations: either all of them are executed or none. They must be in one packet, or in a packet of their own
/// if other operations follow.
#[must_use]
pub fn linked(operations: impl IntoIterator<Item = Operation>) -> Vec<Operation> {
    let mut operations: Vec<_> = operations.into_iter().collect();
    if let Some((_, others)) = operations.split_last_mut() {
        for operation in others {
            operation.flags |= TRANSFER_FLAG_LINKED;
        }
    }
    operations
}

/// Divides operations into packets of at most `most`. Linked operations stay together.
///
/// # Errors
/// [`ClientError::Count`] if more than `most` operations are linked.
pub fn in_packets(operations: &[Operation], most: usize) -> Result<Vec<&[Operation]>, ClientError> {
    let is_linked = |operation: &Operation| operation.flags & TRANSFER_FLAG_LINKED != 0;
    let (mut packets, mut rest) = (Vec::new(), operations);
    while !rest.is_empty() {
        let mut end = rest.len().min(most);
        while end < rest.len() && end > 0 && is_linked(&rest[end - 1]) {
            end -= 1;
        }
        if end == 0 {
            let others = rest.iter().take_while(|operation| is_linked(operation)).count();
            return Err(ClientError::Count {
                items: "linked operations",
                count: others + 1,
                most,
            });
        }
        let (packet, others) = rest.split_at(end);
        packets.push(packet);
        rest = others;
    }
    Ok(packets)
}

/// Returns the idempotency keys of a packet; none unless all its operations have one.
pub(super) fn keys_of(operations: &[Operation]) -> Vec<IdempotencyKey> {
    let key = |operation: &Operation| (operation.flags & TRANSFER_FLAG_KEYED != 0).then_some(operation.uuid);
    operations
        .iter()
        .map(key)
        .collect::<Option<_>>()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_keep_linked_operations_together() {
        let [alice, bob] = [1, 2].map(AccountId::from_paper);
        let plain = [transfer(alice, bob, 1); 7];
        let sizes = |operations: &[Operation], most| {
            in_packets(operations, most)
                .map(|packets| packets.iter().map(|packet| packet.len()).collect::<Vec<_>>())
        };
        assert_eq!(sizes(&plain, 3).unwrap(), [3, 3, 1]);
        let chain = linked([transfer(alice, bob, 1), transfer(bob, alice, 1)]);
        assert_eq!(chain.iter().map(|one| one.flags).collect::<Vec<_>>(), [1, 0]);
        let mixed = [&plain[..2], &chain].concat();
        assert_eq!(sizes(&mixed, 3).unwrap(), [2, 2]);
        let long = linked([transfer(alice, bob, 1); 4]);
        assert!(matches!(
            sizes(&long, 3),
            Err(ClientError::Count {
                count: 4,
                most: 3,
                ..
            })
        ));
    }

    #[test]
    fn a_packet_has_keys_only_if_all_its_operations_have_one() {
        let [alice, bob] = [1, 2].map(AccountId::from_paper);
        let paid = keyed(transfer(alice, bob, 1), [7; 16]);
        assert_eq!(keys_of(&[paid]), [[7; 16]]);
        assert_eq!(keys_of(&[paid, transfer(alice, bob, 1)]), [[0; 16]; 0]);
        assert_ne!(new_idempotency_key().unwrap(), new_idempotency_key().unwrap());
    }
}
