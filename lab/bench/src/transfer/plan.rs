//! Requests of the benchmark and their expected replies. The BPF program `bpf/transfer.bpf.c` computes the same ones.
//!
//! Request `i` is about account `i mod 2^bits`. In each pass over the accounts, each account sends 1 and receives 1, so
//! that its balance is known at any time without a model.

use crate::wrong::WrongReply;
use lineside_transfer::paper::PaperRequest;
use lineside_wire::{
    TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_ISSUE, TRANSFER_COMMAND_REFER, TRANSFER_COMMAND_TRANSFER,
    TRANSFER_PAPER_BYTES_MAX, TransferCode as Code,
};

const ODD: u32 = 0x9e37_79b1;
const INVERSE: u32 = 0x0e8b_2f51;
/// Initial balance of each account.
pub const BALANCE: u32 = 1_000_000;
/// log2 of the number of accounts of the express contestants. The paper has 2^16 accounts, too.
pub const ACCOUNT_BITS: u32 = 16;

/// Kind of the requests in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Command {
    /// Creates each account once.
    Create,
    /// Issues 1 to each account in turn.
    Issue,
    /// Transfers 1 from each account in turn.
    Transfer,
    /// Reads each account in turn.
    Refer,
    /// A mix: half TRANSFER, a quarter ISSUE, a quarter REFER.
    Mix,
}

impl Command {
    /// The commands of the paper.
    pub const PAPERS: [Self; 4] = [Self::Create, Self::Issue, Self::Transfer, Self::Refer];

    /// Returns the name of the command in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Issue => "issue",
            Self::Transfer => "transfer",
            Self::Refer => "refer",
            Self::Mix => "mix",
        }
    }
}

/// Stream of requests that is determined by these parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Kind of request.
    pub command: Command,
    /// log2 of the number of accounts.
    pub bits: u32,
    /// True if requests have transaction ids, so that the server executes each request once even if it arrives several
    /// times.
    pub numbered: bool,
}

/// Result of the check of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judged {
    /// The reply is the expected one.
    Right,
    /// The request was not executed, and the client has to send it again.
    Busy,
    /// The server refused the request, but should have executed it.
    Refused,
    /// The reply belongs to another request or has another balance.
    Wrong,
}

impl Plan {
    /// Returns the number of accounts.
    pub const fn accounts(&self) -> u64 {
        1 << self.bits
    }

    /// Returns the account that request `number` is about.
    pub const fn account(&self, number: u64) -> u32 {
        number as u32 & self.mask()
    }

    const fn mask(&self) -> u32 {
        ((1u64 << self.bits) - 1) as u32
    }

    /// Returns the id that an account has in the paper's format.
    pub const fn id(account: u32) -> u32 {
        account.wrapping_add(1).wrapping_mul(ODD)
    }

    /// Returns the number of the account with this id. The result may be outside of the plan.
    pub const fn account_of(id: u32) -> u32 {
        id.wrapping_mul(INVERSE).wrapping_sub(1)
    }

    /// Returns the account that is paid by `account`.
    pub const fn partner(&self, account: u32) -> u32 {
        account.wrapping_add(self.mask() / 2 + 1) & self.mask()
    }

    /// Returns the command of requests about `account`.
    pub const fn command(&self, account: u32) -> u8 {
        match self.command {
            Command::Create => TRANSFER_COMMAND_CREATE,
            Command::Issue => TRANSFER_COMMAND_ISSUE,
            Command::Transfer => TRANSFER_COMMAND_TRANSFER,
            Command::Refer => TRANSFER_COMMAND_REFER,
            // The accounts of the upper half, which are the partners of the lower half, have the same last two bits as
            // their partners.
            Command::Mix => match account & 3 {
                0 | 1 => TRANSFER_COMMAND_TRANSFER,
                2 => TRANSFER_COMMAND_REFER,
                _ => TRANSFER_COMMAND_ISSUE,
            },
        }
    }

    /// Returns request `number`.
    pub const fn request(&self, number: u64) -> PaperRequest {
        let account = self.account(number);
        let command = self.command(account);
        let transaction = match self.numbered && command != TRANSFER_COMMAND_REFER {
            true => (number >> self.bits) as u32 + 1,
            false => 0,
        };
        let destination = match command {
            TRANSFER_COMMAND_TRANSFER => Self::id(self.partner(account)),
            _ => 0,
        };
        let amount = match command {
            TRANSFER_COMMAND_CREATE => BALANCE,
            TRANSFER_COMMAND_REFER => 0,
            _ => 1,
        };
        PaperRequest::new(command, transaction, Self::id(account), destination, amount)
    }

    /// Returns the balance of the source after request `number`.
    pub const fn balance_after(&self, number: u64) -> u32 {
        let account = self.account(number);
        match self.command(account) {
            TRANSFER_COMMAND_ISSUE => BALANCE + (number >> self.bits) as u32 + 1,
            // Accounts of the lower half pay before they are paid.
            TRANSFER_COMMAND_TRANSFER => BALANCE - (account <= self.mask() / 2) as u32,
            _ => BALANCE,
        }
    }

    /// Returns whether the requests about `account` have transaction ids.
    const fn has_ids(&self, account: u32) -> bool {
        self.numbered && self.command(account) != TRANSFER_COMMAND_REFER
    }

    /// Returns the number of the request that `reply` answers, by its transaction id and its account. `sent` is the
    /// number of requests that were sent; returns `None` if the request is not among them. A reply without a
    /// transaction id belongs to the newest request about its account.
    fn answered_by(&self, reply: &PaperRequest, sent: u64) -> Option<u64> {
        let account = Self::account_of(reply.source);
        if account > self.mask() {
            return None;
        }
        let pass = match self.has_ids(account) {
            true => u64::from(reply.transaction_id).checked_sub(1)?,
            false => sent.checked_sub(1 + u64::from(account))? >> self.bits,
        };
        let number = (pass << self.bits) | u64::from(account);
        (number < sent).then_some(number)
    }

    /// Checks a reply after `sent` requests were sent. Returns the number of the request that the reply answers, and
    /// the result of the check; a reply to no request is wrong. If `is_known` is true, all earlier requests were
    /// executed, so the balance is known exactly; otherwise it is known only within one pass over the accounts.
    pub fn judge(&self, sent: u64, payload: &[u8], is_known: bool) -> (Option<u64>, Judged) {
        let reply = PaperRequest::parse(payload).filter(|_| payload.len() == TRANSFER_PAPER_BYTES_MAX);
        let number = reply.and_then(|reply| self.answered_by(&reply, sent));
        let (Some(mut reply), Some(number)) = (reply, number) else {
            return (None, Judged::Wrong);
        };
        let (refused, said) = (reply.is_refusal(), reply.amount);
        reply.command &= 0x7fff_ffff;
        let mut due = self.request(number);
        due.amount = said;
        let slack = if is_known {
            0
        } else {
            (number >> self.bits) as u32 + 1
        };
        // A reply without a transaction id may also belong to an earlier request about its account.
        let account = self.account(number);
        let first = if self.has_ids(account) {
            number
        } else {
            account.into()
        };
        let (least, most) = (
            self.balance_after(first) - slack,
            self.balance_after(number) + slack,
        );
        let judged = match () {
            () if reply != due => Judged::Wrong,
            () if refused && said == Code::Busy as u32 => Judged::Busy,
            () if refused => Judged::Refused,
            () if (least..=most).contains(&said) => Judged::Right,
            () => Judged::Wrong,
        };
        (Some(number), judged)
    }

    /// Describes a wrong reply that came after `sent` requests were sent. A reply without the id of a request that was
    /// sent is compared with the newest request about its account.
    pub fn describe(&self, sent: u64, payload: &[u8]) -> WrongReply {
        let reply = PaperRequest::parse(payload);
        let newest = |reply: &PaperRequest| {
            let account = Some(Self::account_of(reply.source)).filter(|account| *account <= self.mask())?;
            let pass = sent.checked_sub(1 + u64::from(account))? >> self.bits;
            Some((pass << self.bits) | u64::from(account))
        };
        let number = reply.and_then(|reply| self.answered_by(&reply, sent).or_else(|| newest(&reply)));
        let Some(number) = number else {
            return WrongReply::stray(payload);
        };
        let mut due = self.request(number);
        due.amount = self.balance_after(number);
        WrongReply::of_bytes(&self.request(number).to_bytes(), payload, &due.to_bytes())
    }

    /// Returns how many of the first `sent` requests change a balance.
    pub fn writes(&self, sent: u64) -> u64 {
        match self.command {
            Command::Refer => 0,
            Command::Mix => {
                let rest = sent % 4;
                // Of every four accounts, the third one is only read.
                sent / 4 * 3 + rest - u64::from(rest == 3)
            }
            _ => sent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn expected_balances_agree_with_a_model() {
        for command in [Command::Issue, Command::Transfer, Command::Refer, Command::Mix] {
            let plan = Plan {
                command,
                bits: 6,
                numbered: true,
            };
            let mut model: HashMap<u32, u32> = (0..64).map(|account| (Plan::id(account), BALANCE)).collect();
            let mut writes = 0;
            for number in 0..1000 {
                assert_eq!(plan.writes(number), writes, "{command:?} {number}");
                let request = plan.request(number);
                assert_eq!(Plan::account_of(request.source), number as u32 % 64);
                if request.command == u32::from(TRANSFER_COMMAND_TRANSFER) {
                    *model.get_mut(&request.destination).unwrap() += request.amount;
                    *model.get_mut(&request.source).unwrap() -= request.amount;
                } else if request.command == u32::from(TRANSFER_COMMAND_ISSUE) {
                    *model.get_mut(&request.source).unwrap() += request.amount;
                }
                writes += u64::from(request.command != u32::from(TRANSFER_COMMAND_REFER));
                let balance = model[&request.source];
                assert_eq!(plan.balance_after(number), balance, "{command:?} {number}");
                let mut reply = request;
                reply.amount = balance;
                let judge =
                    |reply: &PaperRequest, is_known| plan.judge(number + 1, &reply.to_bytes(), is_known);
                let is = |judged| (Some(number), judged);
                assert_eq!(judge(&reply, true), is(Judged::Right));
                reply.amount += 1;
                assert_eq!(judge(&reply, true), is(Judged::Wrong));
                assert_eq!(judge(&reply, false), is(Judged::Right));
                (reply.command, reply.amount) = (reply.command | 1 << 31, Code::Busy as u32);
                assert_eq!(judge(&reply, true), is(Judged::Busy));
                reply.amount = Code::InsufficientFunds as u32;
                assert_eq!(judge(&reply, true), is(Judged::Refused));
            }
        }
    }
}
