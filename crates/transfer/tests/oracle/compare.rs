//! Comparison of a ledger with the oracle.

use super::{Account, Oracle};
use lineside_transfer::AccountId;
use lineside_transfer::ledger::{Account as TheirAccount, Ledger};
use lineside_transfer::paper::PaperAnswer;
use lineside_wire::TransferCode as Code;

impl Oracle {
    /// Returns the first difference between the oracle and the ledger, if there is one. The oracle adopts tokens that
    /// no client has seen from the ledger.
    pub fn differs(&mut self, ledger: &Ledger) -> Option<String> {
        for (id, account) in &self.accounts {
            let theirs = ledger.account(&AccountId(*id));
            if !theirs.is_some_and(|theirs| is_same(account, theirs)) {
                return Some(format!(
                    "account {}: the oracle has {account:?}, the ledger {theirs:?}",
                    AccountId(*id)
                ));
            }
        }
        for (slot, session) in &mut self.sessions {
            let Some(theirs) = ledger.session(*slot) else {
                return Some(format!("session {slot} is not open"));
            };
            // Operations that the fast path executes have no number in their reply, so the oracle does not compare
            // their numbers.
            let numbers = |number: u64| if session.is_unnumbered { 0 } else { number };
            let outcomes: Vec<_> = theirs
                .outcomes
                .iter()
                .map(|outcome| (outcome.code as u16, outcome.amount, numbers(outcome.number)))
                .collect();
            let token = *session.token.get_or_insert(theirs.token);
            let is_same = token == theirs.token
                && session.opener == theirs.opener
                && session.sequence == theirs.sequence
                && session.outcomes == outcomes;
            if !is_same {
                return Some(format!(
                    "session {slot}: the oracle has {session:?}, the ledger {theirs:?}"
                ));
            }
        }
        for ((source, uuid), pending) in &self.pendings {
            let theirs = ledger.pending(&(AccountId(*source), *uuid));
            let is_same = theirs.is_some_and(|theirs| {
                theirs.destination.0 == pending.to
                    && (theirs.amount, theirs.expires_s) == (pending.amount, pending.expires_s)
            });
            if !is_same {
                return Some(format!(
                    "pending {uuid:02x?}: the oracle has {pending:?}, the ledger {theirs:?}"
                ));
            }
        }
        let pending: u128 = self
            .pendings
            .values()
            .map(|pending| u128::from(pending.amount))
            .sum();
        let sums = [
            (
                "accounts",
                self.accounts.len() as u128,
                ledger.account_count() as u128,
            ),
            (
                "sessions",
                self.sessions.len() as u128,
                ledger.session_count().into(),
            ),
            ("operations", self.number.into(), ledger.number().into()),
            ("issued", self.issued, ledger.issued()),
            ("held", self.held(), ledger.sum_of_balances()),
            ("pending", pending, ledger.pending_sum()),
        ];
        let wrong = sums.into_iter().find(|(_, ours, theirs)| ours != theirs);
        wrong.map(|(what, ours, theirs)| format!("{what}: the oracle has {ours}, the ledger {theirs}"))
    }
}

fn is_same(ours: &Account, theirs: &TheirAccount) -> bool {
    let last = theirs.last.map(|last| {
        let word = |answer: &PaperAnswer| match answer.code {
            Code::Done => (0, answer.amount),
            code => (0x80, code as u32),
        };
        let request: [u8; 20] = last.request.to_bytes()[..20].try_into().unwrap();
        let mut reply = request;
        let (refused, amount) = word(&last.answer);
        reply[0] |= refused;
        reply[16..].copy_from_slice(&amount.to_be_bytes());
        (request, reply)
    });
    let holding = theirs.holding;
    (holding.balance, holding.held_out, holding.held_in, holding.frozen)
        == (ours.balance, ours.out, ours.incoming, ours.frozen)
        && (theirs.version, theirs.owner) == (ours.version, ours.owner)
        && last == ours.last
}
