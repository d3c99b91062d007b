//! Effects of operations on balances: pure functions for the fast path, the host and replay. A refusal changes
//! nothing.

use lineside_wire::TransferCode as Code;

/// Balance and holds of one account. Invariants: `held_out <= balance`, and `balance + held_in` fits 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// Total balance, reserved amounts included.
    pub balance: u64,
    /// Part of the balance that pending transfers from this account reserve.
    pub held_out: u64,
    /// Sum of the pending transfers to this account.
    pub held_in: u64,
    /// True if neither debits nor credits are possible.
    pub frozen: bool,
}

/// Maximum balance that the paper's format can represent, and therefore that its operations may leave.
pub const PAPER_LIMIT: u64 = u32::MAX as u64;

impl Holding {
    /// Returns the amount that may be spent.
    pub const fn available(&self) -> u64 {
        self.balance - self.held_out
    }

    /// Returns the balance plus `amount` if it is at most `limit` and leaves room for pending transfers.
    fn with(&self, amount: u64, limit: u64) -> Result<u64, Code> {
        let sum = self.balance.checked_add(amount).ok_or(Code::Overflow)?;
        let fits = sum <= limit && sum.checked_add(self.held_in).is_some();
        if fits { Ok(sum) } else { Err(Code::Overflow) }
    }
}

/// Returns a new account with `amount`.
///
/// # Errors
/// `overflow`.
pub fn create(amount: u64, limit: u64) -> Result<Holding, Code> {
    let balance = Holding::default().with(amount, limit)?;
    Ok(Holding {
        balance,
        ..Holding::default()
    })
}

/// Creates `amount` and adds it to an account.
///
/// # Errors
/// `frozen`, `overflow`.
pub fn issue(to: &mut Holding, amount: u64, limit: u64) -> Result<(), Code> {
    if to.frozen {
        return Err(Code::Frozen);
    }
    to.balance = to.with(amount, limit)?;
    Ok(())
}

/// Transfers `amount` from one account to another.
///
/// # Errors
/// `frozen`, `insufficient_funds`, `overflow`.
pub fn transfer(from: &mut Holding, to: &mut Holding, amount: u64, limit: u64) -> Result<(), Code> {
    let left = spendable(from, to, amount)?;
    // The reply in the paper's format must be able to represent the sender's balance.
    if left > limit {
        return Err(Code::Overflow);
    }
    to.balance = to.with(amount, limit)?;
    from.balance = left;
    Ok(())
}

/// Reserves `amount` for a transfer that is to be posted or voided.
///
/// # Errors
/// `frozen`, `insufficient_funds`, `overflow`.
pub fn set_aside(from: &mut Holding, to: &mut Holding, amount: u64) -> Result<(), Code> {
    spendable(from, to, amount)?;
    let held_in = to.held_in.checked_add(amount).ok_or(Code::Overflow)?;
    to.balance.checked_add(held_in).ok_or(Code::Overflow)?;
    to.held_in = held_in;
    from.held_out += amount;
    Ok(())
}

/// Transfers `amount` of the reserved amount `pending`, and releases the rest.
///
/// # Errors
/// `frozen`; `overflow` if `amount` is more than `pending`.
pub fn post(from: &mut Holding, to: &mut Holding, pending: u64, amount: u64) -> Result<(), Code> {
    if from.frozen || to.frozen {
        return Err(Code::Frozen);
    }
    if amount > pending {
        return Err(Code::Overflow);
    }
    release(from, to, pending);
    from.balance -= amount;
    to.balance += amount;
    Ok(())
}

/// Releases a reserved amount. Works on frozen accounts as well, because no amount leaves them.
pub fn release(from: &mut Holding, to: &mut Holding, pending: u64) {
    from.held_out -= pending;
    to.held_in -= pending;
}

/// Returns the balance that `from` has after it has paid `amount`.
fn spendable(from: &Holding, to: &Holding, amount: u64) -> Result<u64, Code> {
    if from.frozen || to.frozen {
        return Err(Code::Frozen);
    }
    if amount > from.available() {
        return Err(Code::InsufficientFunds);
    }
    Ok(from.balance - amount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn holding() -> impl Strategy<Value = Holding> {
        let edge = prop_oneof![
            0..4u64,
            Just(u64::MAX),
            Just(u64::MAX - 1),
            Just(PAPER_LIMIT),
            any::<u64>()
        ];
        (edge.clone(), edge.clone(), edge, any::<bool>()).prop_map(|(balance, out, held_in, frozen)| {
            Holding {
                balance,
                held_out: out.min(balance),
                held_in: held_in.min(u64::MAX - balance),
                frozen,
            }
        })
    }

    fn is_sound(holding: &Holding) -> bool {
        holding.held_out <= holding.balance && holding.balance.checked_add(holding.held_in).is_some()
    }

    fn total(a: &Holding, b: &Holding) -> u128 {
        u128::from(a.balance) + u128::from(b.balance)
    }

    proptest! {
        #[test]
        fn the_sum_of_all_balances_is_conserved(from in holding(), to in holding(), amount: u64, limit in prop_oneof![
            Just(u64::MAX), Just(PAPER_LIMIT)
        ]) {
            let (mut a, mut b) = (from, to);
            match transfer(&mut a, &mut b, amount, limit) {
                Ok(()) => {
                    prop_assert!(!from.frozen && !to.frozen);
                    prop_assert_eq!(from.balance - a.balance, amount);
                    prop_assert!(a.balance >= from.held_out && a.balance <= limit && b.balance <= limit);
                }
                Err(_) => prop_assert_eq!((a, b), (from, to)),
            }
            prop_assert_eq!(total(&a, &b), total(&from, &to));
            prop_assert!(is_sound(&a) && is_sound(&b));
        }

        #[test]
        fn what_is_set_aside_can_always_be_posted_and_given_back(
            from in holding(), to in holding(), amount: u64, posted: u64
        ) {
            let (mut a, mut b) = (from, to);
            if set_aside(&mut a, &mut b, amount).is_ok() {
                prop_assert!(is_sound(&a) && is_sound(&b));
                let (mut voided_a, mut voided_b) = (a, b);
                release(&mut voided_a, &mut voided_b, amount);
                prop_assert_eq!((voided_a, voided_b), (from, to));
                let posted = posted % amount.saturating_add(1).max(1);
                prop_assert_eq!(post(&mut a, &mut b, amount, posted), Ok(()));
                prop_assert_eq!(from.balance - a.balance, posted);
                prop_assert_eq!(total(&a, &b), total(&from, &to));
                prop_assert!(is_sound(&a) && is_sound(&b));
            } else {
                prop_assert_eq!((a, b), (from, to));
            }
        }

        #[test]
        fn issuing_adds_or_refuses(to in holding(), amount: u64) {
            let mut a = to;
            match issue(&mut a, amount, u64::MAX) {
                Ok(()) => prop_assert_eq!(a.balance - to.balance, amount),
                Err(_) => prop_assert_eq!(a, to),
            }
            prop_assert!(is_sound(&a));
        }
    }

    #[test]
    fn each_refusal_has_its_code() {
        let rich = Holding {
            balance: u64::MAX,
            ..Holding::default()
        };
        let frozen = Holding { frozen: true, ..rich };
        let poor = Holding::default();
        let run =
            |mut from: Holding, mut to: Holding, amount, limit| transfer(&mut from, &mut to, amount, limit);
        assert_eq!(run(frozen, poor, 1, u64::MAX), Err(Code::Frozen));
        assert_eq!(run(rich, frozen, 1, u64::MAX), Err(Code::Frozen));
        assert_eq!(run(poor, rich, 1, u64::MAX), Err(Code::InsufficientFunds));
        assert_eq!(run(rich, rich, 1, u64::MAX), Err(Code::Overflow));
        assert_eq!(
            run(rich, poor, 1, PAPER_LIMIT),
            Err(Code::Overflow),
            "the reply cannot represent the sender's balance"
        );
        assert_eq!(create(PAPER_LIMIT + 1, PAPER_LIMIT), Err(Code::Overflow));
    }
}
