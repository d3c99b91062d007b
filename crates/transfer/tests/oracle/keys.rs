//! Idempotency keys: operations with the flag 2, whose `uuid` names them.

use super::{Code, Id, OPERATION, Oracle, TRANSFER, id_at, u32_at};

/// Source, uuid, and the contract of a post or void (otherwise 0).
pub type Key = (Id, Id, u32);

/// Executed operation with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keyed {
    /// The operation without flags, timestamp and nonce.
    body: Vec<u8>,
    executed_s: u64,
    amount: u64,
    number: u64,
}

fn key_of(operation: &[u8]) -> Option<Key> {
    let (command, contract) = (operation[0], u32_at(operation, 4));
    let ending = if command == TRANSFER && contract >= 2 {
        contract
    } else {
        0
    };
    (operation[1] & 2 != 0).then(|| (id_at(operation, 8), id_at(operation, 64), ending))
}

fn body_of(operation: &[u8]) -> Vec<u8> {
    let mut body = operation.to_vec();
    body[1] = 0;
    body[56..64].fill(0);
    body[80..84].fill(0);
    assert_eq!(body.len(), OPERATION);
    body
}

impl Oracle {
    /// Returns the time for keys, which does not go back when the clock is set back.
    fn key_time(&self, now_s: u64) -> u64 {
        let executed = self.keys.values().map(|keyed| keyed.executed_s);
        executed.fold(now_s, u64::max)
    }

    fn known(&self, now_s: u64, key: &Key) -> Option<&Keyed> {
        let time_s = self.key_time(now_s);
        let is_remembered = |keyed: &&Keyed| time_s - keyed.executed_s <= self.key_window_s;
        self.keys.get(key).filter(is_remembered)
    }

    /// Returns amount and number of the first execution of `chain[index]`, if its key is known. The keys of the chain
    /// itself are not in `self.keys` yet.
    pub(super) fn first_execution(
        &self,
        now_s: u64,
        chain: &[&[u8]],
        index: usize,
    ) -> Result<Option<(u64, u64)>, Code> {
        let operation = chain[index];
        let key = key_of(operation);
        if chain[..index]
            .iter()
            .any(|before| key_of(before).is_some() != key.is_some())
        {
            return Err(Code::BadCommand);
        }
        let Some(key) = key else {
            return Ok(None);
        };
        let known = self.known(now_s, &key);
        if known.is_some_and(|keyed| keyed.body != body_of(operation)) {
            return Err(Code::IdReused);
        }
        let first_key = key_of(chain[0]).unwrap();
        if self.known(now_s, &first_key).is_some() != known.is_some() {
            return Err(Code::IdReused);
        }
        if let Some(keyed) = known {
            return Ok(Some((keyed.amount, keyed.number)));
        }
        let remembered = self
            .keys
            .keys()
            .filter(|key| self.known(now_s, key).is_some())
            .count();
        if remembered + index >= self.keys_max {
            return Err(Code::StoreFull);
        }
        if chain[..index].iter().any(|before| key_of(before) == Some(key)) {
            return Err(Code::IdReused);
        }
        Ok(None)
    }

    /// Remembers an executed operation, if it has a key. `self.number` is its number.
    pub(super) fn remember(&mut self, now_s: u64, operation: &[u8], amount: u64) {
        if let Some(key) = key_of(operation) {
            let keyed = Keyed {
                body: body_of(operation),
                executed_s: self.key_time(now_s),
                amount,
                number: self.number,
            };
            self.keys.insert(key, keyed);
        }
    }
}
