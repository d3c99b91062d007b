//! Contestant `sw`, the paper's software: one thread with recvfrom and sendto, and one table that stores whole keys. It
//! has no journal and does not remember transaction ids, so it executes a repeated packet again.

use super::plan::{BALANCE, Plan};
use super::store::Audit;
use lineside_transfer::paper::{self, PaperAnswer, PaperRequest};
use lineside_wire::{
    TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_ISSUE, TRANSFER_COMMAND_REFER, TransferCode as Code,
};
use std::io::ErrorKind::{Interrupted, WouldBlock};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Maximum size of a request or a reply in bytes.
const BYTES: usize = 64;

#[derive(Clone, Copy, Default)]
struct Slot {
    id: u32,
    balance: u32,
}

/// Accounts in one hash table with open addressing and linear probing, which is at most half full.
pub struct Table {
    slots: Vec<Slot>,
    /// Marks of the slots that are in use. They are separate, so that eight slots fit into a cache line.
    taken: Vec<bool>,
    shift: u32,
    accounts: usize,
    effects: u64,
    issued: u64,
}

impl Table {
    /// Returns a table for 2^bits accounts.
    pub fn new(bits: u32) -> Self {
        let slots = 2 << bits;
        Self {
            slots: vec![Slot::default(); slots],
            taken: vec![false; slots],
            shift: 32 - bits - 1,
            accounts: 0,
            effects: 0,
            issued: 0,
        }
    }

    /// Returns a table that contains the accounts of the plan.
    pub fn filled(bits: u32) -> Self {
        let mut table = Self::new(bits);
        for account in 0..1u32 << bits {
            let request = PaperRequest::new(TRANSFER_COMMAND_CREATE, 0, Plan::id(account), 0, BALANCE);
            table.answer(&request);
        }
        (table.effects, table.issued) = (0, 0);
        table
    }

    /// Returns the slot of `id` and true; if `id` is not in the table, the slot in which it would be and false.
    fn find(&self, id: u32) -> (usize, bool) {
        let mask = self.slots.len() - 1;
        let mut at = (id.wrapping_mul(0x85eb_ca6b) >> self.shift) as usize;
        while self.taken[at] {
            if self.slots[at].id == id {
                return (at, true);
            }
            at = (at + 1) & mask;
        }
        (at, false)
    }

    fn known(&self, id: u32) -> Result<usize, Code> {
        match self.find(id) {
            (at, true) => Ok(at),
            _ => Err(Code::UnknownAccount),
        }
    }

    /// Executes a request.
    pub fn answer(&mut self, request: &PaperRequest) -> PaperAnswer {
        self.execute(request).map(u64::from).into()
    }

    fn execute(&mut self, request: &PaperRequest) -> Result<u32, Code> {
        let command = request.command()?;
        let amount = request.amount;
        if command == TRANSFER_COMMAND_CREATE {
            let (at, known) = self.find(request.source);
            if known {
                return Err(Code::AccountExists);
            }
            if self.accounts >= self.slots.len() / 2 {
                return Err(Code::StoreFull);
            }
            self.accounts += 1;
            self.effects += 1;
            self.taken[at] = true;
            self.slots[at] = Slot {
                id: request.source,
                balance: amount,
            };
            return Ok(amount);
        }
        let from = self.known(request.source)?;
        if command == TRANSFER_COMMAND_REFER {
            return Ok(self.slots[from].balance);
        }
        if command == TRANSFER_COMMAND_ISSUE {
            let balance = self.slots[from]
                .balance
                .checked_add(amount)
                .ok_or(Code::Overflow)?;
            self.slots[from].balance = balance;
            self.effects += 1;
            self.issued += u64::from(amount);
            return Ok(balance);
        }
        if request.source == request.destination {
            return Err(Code::SameAccount);
        }
        let to = self.known(request.destination)?;
        let left = self.slots[from].balance.checked_sub(amount);
        let left = left.ok_or(Code::InsufficientFunds)?;
        let got = self.slots[to].balance.checked_add(amount).ok_or(Code::Overflow)?;
        self.slots[from].balance = left;
        self.slots[to].balance = got;
        self.effects += 1;
        Ok(left)
    }

    /// Audits the accounts; each of them was created with [`BALANCE`].
    pub fn audit(&self) -> Audit {
        let held = self.slots.iter().zip(&self.taken);
        Audit {
            effects: self.effects,
            held: held
                .filter(|(_, taken)| **taken)
                .map(|(slot, _)| u64::from(slot.balance))
                .sum(),
            due: self.accounts as u64 * u64::from(BALANCE) + self.issued,
        }
    }

    /// Answers the datagrams of `socket` until `stop` is set. The socket must have a receive time-out, so that the
    /// thread checks `stop`.
    pub fn serve(&mut self, socket: &UdpSocket, stop: &AtomicBool) -> std::io::Result<()> {
        let mut bytes = [0; BYTES];
        let mut reply = Vec::with_capacity(BYTES);
        while !stop.load(Relaxed) {
            let (count, from) = match socket.recv_from(&mut bytes) {
                Ok(datagram) => datagram,
                Err(error) if matches!(error.kind(), WouldBlock | Interrupted) => continue,
                Err(error) => return Err(error),
            };
            let Some(request) = PaperRequest::parse(&bytes[..count]) else {
                continue;
            };
            reply.clear();
            let answer = self.answer(&request);
            if paper::put_reply(&request, &bytes[..count], answer, &mut reply) {
                // A reply that cannot be sent counts as lost by the client, like any lost datagram.
                let _ = socket.send_to(&reply, from);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transfer::store;
    use lineside_fastpath::{FastPath, Reply, Source, Verdict, lease};
    use lineside_transfer::fastpath::TransferFastPath;
    use std::sync::Arc;

    #[test]
    fn the_software_baseline_answers_like_the_model() {
        let fastpath_store = store::anonymous().unwrap();
        store::clear(&fastpath_store);
        let fastpath = TransferFastPath::new(Arc::clone(&fastpath_store));
        let mut table = Table::new(5);
        let mut state = 7u32;
        let mut random = |below: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % below
        };
        let from = Source {
            address: [127, 0, 0, 1].into(),
            port: 9,
        };
        for step in 0..50_000 {
            let command = random(6) as u8;
            let amount = match random(8) {
                0 => u32::MAX - random(3),
                1 => u32::MAX / 2,
                _ => random(100),
            };
            let request = PaperRequest::new(command, 0, random(32), random(34), amount);
            let mut reply = Reply::default();
            let verdict = fastpath.answer(from, lease::now_ns(), &request.to_bytes(), &mut reply);
            assert_eq!(verdict, Verdict::Reply);
            store::forget_records(&fastpath_store);
            let mut ours = Vec::new();
            assert!(paper::put_reply(
                &request,
                &request.to_bytes(),
                table.answer(&request),
                &mut ours
            ));
            assert_eq!(ours, reply.as_bytes(), "step {step}: {request:?}");
        }
    }
}
