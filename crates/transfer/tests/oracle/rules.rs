//! Effects of operations. The oracle checks refusals in the order in which `spec/` ranks them.

use super::{Account, Code, Id, OPERATION, Oracle, PendingName, PendingTransfer, id_at, u32_at, u64_at};
use lineside_wire::{
    TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_FREEZE as FREEZE, TRANSFER_COMMAND_ISSUE as ISSUE,
    TRANSFER_COMMAND_TRANSFER as TRANSFER, TRANSFER_COMMAND_UNFREEZE as UNFREEZE,
};

impl Account {
    fn changed(&mut self) {
        self.version += 1;
    }

    /// Returns whether adding `amount` to the balance would exceed a limit.
    fn overflows(&self, amount: u64, limit: u64) -> bool {
        let sum = u128::from(self.balance) + u128::from(amount);
        sum > u128::from(limit) || sum + u128::from(self.incoming) > u128::from(u64::MAX)
    }
}

impl Oracle {
    pub(super) fn create(&mut self, id: Id, amount: u64, owner: Id, limit: u64) -> Result<u64, Code> {
        if self.accounts.contains_key(&id) {
            return Err(Code::AccountExists);
        }
        if amount > limit {
            return Err(Code::Overflow);
        }
        if self.accounts.len() >= self.accounts_max && !self.is_fastpath {
            return Err(Code::StoreFull);
        }
        self.issued += u128::from(amount);
        let account = Account {
            balance: amount,
            version: 1,
            owner,
            ..Account::default()
        };
        self.accounts.insert(id, account);
        Ok(amount)
    }

    pub(super) fn issue(&mut self, id: Id, amount: u64, limit: u64) -> Result<u64, Code> {
        let account = self.accounts.get_mut(&id).ok_or(Code::UnknownAccount)?;
        if account.frozen {
            return Err(Code::Frozen);
        }
        if account.overflows(amount, limit) {
            return Err(Code::Overflow);
        }
        account.balance += amount;
        account.changed();
        self.issued += u128::from(amount);
        Ok(account.balance)
    }

    /// Returns both accounts, if they exist and differ.
    fn both(&self, from: Id, to: Id) -> Result<(Account, Account), Code> {
        let source = self.accounts.get(&from).ok_or(Code::UnknownAccount)?;
        if from == to {
            return Err(Code::SameAccount);
        }
        let destination = self.accounts.get(&to).ok_or(Code::UnknownAccount)?;
        Ok((source.clone(), destination.clone()))
    }

    fn put(&mut self, from: Id, mut source: Account, to: Id, mut destination: Account) -> u64 {
        source.changed();
        destination.changed();
        let balance = source.balance;
        self.accounts.insert(from, source);
        self.accounts.insert(to, destination);
        balance
    }

    pub(super) fn transfer(&mut self, from: Id, to: Id, amount: u64, limit: u64) -> Result<u64, Code> {
        let (mut source, mut destination) = self.both(from, to)?;
        if source.frozen || destination.frozen {
            return Err(Code::Frozen);
        }
        if u128::from(source.balance) < u128::from(source.out) + u128::from(amount) {
            return Err(Code::InsufficientFunds);
        }
        if source.balance - amount > limit || destination.overflows(amount, limit) {
            return Err(Code::Overflow);
        }
        source.balance -= amount;
        destination.balance += amount;
        Ok(self.put(from, source, to, destination))
    }

    fn set_aside(&mut self, name: PendingName, to: Id, amount: u64, expires_s: u64) -> Result<u64, Code> {
        if self.pendings.contains_key(&name) {
            return Err(Code::PendingExists);
        }
        let (mut source, mut destination) = self.both(name.0, to)?;
        if source.frozen || destination.frozen {
            return Err(Code::Frozen);
        }
        if u128::from(source.balance) < u128::from(source.out) + u128::from(amount) {
            return Err(Code::InsufficientFunds);
        }
        if destination.overflows(amount, u64::MAX) {
            return Err(Code::Overflow);
        }
        source.out += amount;
        destination.incoming += amount;
        self.pendings.insert(
            name,
            PendingTransfer {
                to,
                amount,
                expires_s,
            },
        );
        Ok(self.put(name.0, source, to, destination))
    }

    /// Ends a pending transfer: moves `posted` of its amount (nothing if it is `None`, a void), and releases the rest.
    fn end(&mut self, name: PendingName, to: Id, posted: Option<u64>) -> Result<u64, Code> {
        let pending = self.pendings.get(&name).cloned().ok_or(Code::UnknownPending)?;
        if pending.to != to {
            return Err(Code::UnknownPending);
        }
        let (mut source, mut destination) = self.both(name.0, to)?;
        if let Some(posted) = posted {
            if source.frozen || destination.frozen {
                return Err(Code::Frozen);
            }
            let moved = if posted == 0 { pending.amount } else { posted };
            if moved > pending.amount {
                return Err(Code::Overflow);
            }
            source.balance -= moved;
            destination.balance += moved;
        }
        source.out -= pending.amount;
        destination.incoming -= pending.amount;
        self.pendings.remove(&name);
        Ok(self.put(name.0, source, to, destination))
    }

    /// Returns the expired pending transfers, in the order in which they expire.
    pub fn due(&self, now_s: u64) -> Vec<PendingName> {
        let is_due = |pending: &PendingTransfer| pending.expires_s != 0 && pending.expires_s <= now_s;
        let mut due: Vec<(u64, PendingName)> = self
            .pendings
            .iter()
            .filter(|(_, pending)| is_due(pending))
            .map(|(name, pending)| (pending.expires_s, *name))
            .collect();
        due.sort_unstable();
        due.into_iter().map(|(_, name)| name).collect()
    }

    /// Expires a pending transfer.
    pub fn expire(&mut self, name: &PendingName) {
        let to = self.pendings[name].to;
        self.end(*name, to, None).expect("both accounts are there");
    }

    /// Checks the form of a native operation of 88 bytes, then whether its sender may execute it.
    pub(super) fn permit(operation: &[u8], may: bool) -> Result<(), Code> {
        if !is_well_formed(operation) {
            return Err(Code::BadCommand);
        }
        if !may {
            return Err(Code::Unauthorised);
        }
        Ok(())
    }

    /// Executes one native operation that was checked.
    pub(super) fn one(&mut self, now_s: u64, operation: &[u8]) -> Result<u64, Code> {
        let (command, contract) = (operation[0], u32_at(operation, 4));
        let (source, destination) = (id_at(operation, 8), id_at(operation, 24));
        let (amount, timeout_s) = (u64_at(operation, 40), u32_at(operation, 84));
        let name = (source, id_at(operation, 64));
        match (command, contract) {
            (CREATE, _) => self.create(source, amount, destination, u64::MAX),
            (ISSUE, _) => self.issue(source, amount, u64::MAX),
            (TRANSFER, 0) => self.transfer(source, destination, amount, u64::MAX),
            (TRANSFER, 1) => {
                let expires_s = match timeout_s {
                    0 => 0,
                    _ => now_s + u64::from(timeout_s),
                };
                self.set_aside(name, destination, amount, expires_s)
            }
            (TRANSFER, 2) => self.end(name, destination, Some(amount)),
            (TRANSFER, _) => self.end(name, destination, None),
            (command, _) => {
                let account = self.accounts.get_mut(&source).ok_or(Code::UnknownAccount)?;
                account.frozen = command == FREEZE;
                account.changed();
                Ok(account.balance)
            }
        }
    }
}

/// Returns whether command and contract match, all flags are known, and unused fields are zero.
fn is_well_formed(operation: &[u8]) -> bool {
    assert_eq!(operation.len(), OPERATION);
    let (command, flags, contract) = (operation[0], operation[1], u32_at(operation, 4));
    let is_zero = |from: usize, to: usize| operation[from..to].iter().all(|byte| *byte == 0);
    let destination_is_zero = is_zero(24, 40);
    let amount_is_zero = is_zero(40, 48);
    let timeout_is_zero = is_zero(84, 88);
    let code_and_number_are_zero = is_zero(2, 4) && is_zero(48, 56);
    let fits = match (command, contract) {
        (CREATE, 0) => timeout_is_zero,
        (ISSUE, 0) => destination_is_zero && !amount_is_zero && timeout_is_zero,
        (TRANSFER, 0) => !amount_is_zero && timeout_is_zero,
        (TRANSFER, 2) => timeout_is_zero,
        (TRANSFER, 1) => !amount_is_zero,
        (TRANSFER, 3) => amount_is_zero && timeout_is_zero,
        (FREEZE | UNFREEZE, 0) => destination_is_zero && amount_is_zero && timeout_is_zero,
        _ => false,
    };
    fits && code_and_number_are_zero && flags <= 3 && (flags & 2 == 0 || !is_zero(64, 80))
}
