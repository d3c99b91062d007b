//! Random requests (from a seed) for `transfer`, and actions of the host (the thread that owns the data) between them.
//! Requests are of every kind and use few accounts, so that they conflict.

use super::{Case, range};
use crate::diff::Frames;
use lineside_transfer::AccountId;
use lineside_transfer::claims::{Claims, STEP_CELLS_MAX, Slot};
use lineside_transfer::layout::TransferCell;
use lineside_transfer::ledger::Change;
use lineside_transfer::ring::Ring;
use lineside_transfer::rules::Holding;
use lineside_transfer::store::{Mode, Range, Store};
use lineside_transfer::writer::{StoreWriter, TransferFill as _};
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{
    BalanceItem, ExecuteHead, NATIVE_REPLY_BIT, Operation, PaperTransfer, ReferHead, SessionBody,
    TRANSFER_BUCKET_CELLS, TRANSFER_CELL_FROZEN, TRANSFER_CELL_VALID, TRANSFER_OP_CLOSE, TRANSFER_OP_EXECUTE,
    TRANSFER_OP_OPEN, TRANSFER_OP_REFER, TRANSFER_PORT, csum, frame, native,
};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use zerocopy::IntoBytes;

/// Returns the address ranges that may issue money: some of the senders, and addresses of both families that no sender
/// has.
pub(super) fn issuers() -> Vec<Range> {
    let ranges = [
        ("10.0.0.8", 29),
        ("192.0.2.0", 24),
        ("fd00::8", 127),
        ("127.0.0.0", 8),
        ("10.0.0.2", 32),
    ];
    ranges
        .into_iter()
        .filter_map(|(text, bits)| range(text, bits))
        .collect()
}

/// Balances and ids that are edge cases.
const EDGES: [u64; 9] = [
    0,
    1,
    u32::MAX as u64 - 1,
    u32::MAX as u64,
    1 << 32,
    1 << 63,
    u64::MAX - (1 << 32),
    u64::MAX - 1,
    u64::MAX,
];

/// Generator of requests. Each request is made for the present state of the model's store.
pub(super) struct Traffic {
    frames: Frames,
    store: Arc<Store>,
    accounts: u32,
    sessions: u32,
    unrest: bool,
    executes: bool,
    /// Recent payloads, some of which are sent again.
    lately: Vec<Vec<u8>>,
}

impl Traffic {
    pub(super) fn new(seed: u64, case: &Case, endpoint: &Endpoint, store: Arc<Store>) -> Self {
        Self {
            frames: Frames::new(seed, endpoint, TRANSFER_PORT, Vec::new()),
            store,
            accounts: case.accounts,
            sessions: case.geometry.sessions,
            unrest: case.unrest,
            executes: case.geometry.mode == Mode::Express,
            lately: Vec::new(),
        }
    }

    /// Opens all sessions except the last one. If the fast path does not execute requests, the host fills in some
    /// accounts.
    pub(super) fn prepare(&self, store: &Arc<Store>) {
        if !self.executes {
            let changes: Vec<_> = (1..=self.accounts)
                .step_by(2)
                .enumerate()
                .map(|(at, id)| Change {
                    account: AccountId::from_paper(id),
                    holding: Holding {
                        balance: EDGES[at % EDGES.len()],
                        ..Holding::default()
                    },
                    version: 1 + at as u64,
                    step: at as u64,
                })
                .collect();
            StoreWriter::new(Arc::clone(store)).apply(&changes);
        }
        for (index, session) in store.sessions.as_slice().iter().enumerate() {
            let open = index + 1 < self.sessions as usize;
            session
                .token
                .store(if open { token(index as u32) } else { 0 }, Relaxed);
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.frames.random.index(bound)
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.frames.random.one_in(chances)
    }

    /// Returns the next frame.
    pub(super) fn next_frame(&mut self) -> Vec<u8> {
        let payload = match self.below(20) {
            0..=7 => self.paper(),
            8..=14 => self.execute(),
            15..=16 => self.refer(),
            17 => self.other(),
            18 if !self.lately.is_empty() => {
                let at = self.below(self.lately.len());
                self.lately[at].clone()
            }
            _ => self.frames.payload(),
        };
        let place = self.below(8);
        match self.lately.get_mut(place) {
            Some(old) => old.clone_from(&payload),
            None => self.lately.push(payload.clone()),
        }
        let mut frame = self.frames.frame_of(&payload);
        self.sum_up(&mut frame);
        frame
    }

    /// Gives a mutated frame a valid checksum in most cases. In a few cases, gives a valid frame the partial checksum
    /// of a local sender, or none.
    fn sum_up(&mut self, frame: &mut [u8]) {
        let way = self.below(16);
        let Some(found) = frame::parse(frame).filter(|_| way < 14) else {
            return;
        };
        let addresses = if found.source.is_ipv4() {
            found.ip + 12..found.ip + 20
        } else {
            found.ip + 8..found.ip + 40
        };
        let end = found.payload().end;
        let check = found.udp + 6..found.udp + 8;
        let pseudo = csum::sum(&frame[addresses]) + 17 + (end - found.udp) as u64;
        frame[check.clone()].fill(0);
        let value = match way {
            0 => 0,
            1 => csum::fold(pseudo),
            2 => csum::fold(pseudo) ^ 1,
            _ => csum::udp(pseudo + csum::sum(&frame[found.udp..end])),
        };
        frame[check].copy_from_slice(&value.to_be_bytes());
    }

    /// Returns an id of the paper's format, from 1 on. A few of the ids have no account.
    fn paper_id(&mut self) -> u32 {
        match self.below(40) {
            0 => 0,
            1 => u32::MAX,
            _ => 1 + self.below(self.accounts as usize) as u32,
        }
    }

    fn account(&mut self) -> AccountId {
        let id = self.paper_id();
        if self.one_in(4) {
            // The account gets a native id in some cases. Native ids conflict as often, and differ in only one byte.
            let mut native = AccountId::from_paper(id);
            native.0[0] = 0xa5;
            return native;
        }
        AccountId::from_paper(id)
    }

    /// Returns a small amount, an edge case, or an amount that `account` can just pay or just cannot pay.
    fn amount(&mut self, account: &AccountId) -> u64 {
        let held = self.store.find(account).map_or(0, |index| {
            let cell = &self.store.cells.as_slice()[index];
            cell.balance.load(Relaxed)
        });
        match self.below(16) {
            0 => EDGES[self.below(EDGES.len())],
            1 => held,
            2 => held.wrapping_add(1),
            3 => u64::from(u32::MAX).wrapping_sub(held),
            4 => u64::MAX - held,
            5 => self.frames.random.next() >> self.below(64),
            _ => self.below(50) as u64,
        }
    }

    fn paper(&mut self) -> Vec<u8> {
        let command = match self.below(24) {
            0..=9 => 3,
            10..=14 => 2,
            15..=18 => 1,
            19..=21 => 4,
            22 => [0, 5, 6, 256, 0x0100_0003][self.below(5)],
            _ => 0x8000_0000 | self.below(6) as u32,
        };
        let source = self.paper_id();
        let account = AccountId::from_paper(source);
        let last = self.store.find(&account).map_or(0, |index| {
            self.store.paper.as_slice()[index].last_id.load(Relaxed)
        });
        let transaction_id = match self.below(12) {
            0..=3 => 0,
            4..=7 => last.wrapping_add(1),
            8 => last,
            9 => last.wrapping_add(self.below(100) as u32),
            10 => last.saturating_sub(1),
            _ if self.one_in(500) => u32::MAX,
            _ => last.wrapping_add(2),
        };
        let packet = PaperTransfer {
            command: command.into(),
            transaction_id: transaction_id.into(),
            source: source.into(),
            destination: if self.one_in(20) { source } else { self.paper_id() }.into(),
            amount: (self.amount(&account) as u32).into(),
        };
        let mut payload = packet.as_bytes().to_vec();
        for _ in 0..self.below(3) {
            let filler = if self.one_in(30) {
                self.frames.random.next() as u8
            } else {
                0
            };
            payload.push(filler);
        }
        payload
    }

    fn operation(&mut self) -> Operation {
        let command = [3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 1, 1, 1, 5, 6, 0, 4, 7][self.below(18)];
        let source = self.account();
        let destination = match command {
            3 if self.one_in(20) => source,
            3 => self.account(),
            1 if self.one_in(2) => AccountId([self.frames.random.next() as u8; 16]),
            _ if self.one_in(20) => self.account(),
            _ => AccountId::default(),
        };
        let moves = (1..=3).contains(&command) || self.one_in(20);
        let rare = |this: &mut Self, chances| {
            if this.one_in(chances) {
                1 + this.below(3) as u32
            } else {
                0
            }
        };
        Operation {
            command,
            flags: rare(self, 50) as u8,
            code: (rare(self, 60) as u16).into(),
            contract: rare(self, 40).into(),
            source: source.0,
            destination: destination.0,
            amount: if moves { self.amount(&source) } else { 0 }.into(),
            number: u64::from(rare(self, 60)).into(),
            timestamp: self.frames.random.next().into(),
            uuid: std::array::from_fn(|_| self.frames.random.next() as u8),
            nonce: (self.frames.random.next() as u32).into(),
            timeout_s: rare(self, 60).into(),
        }
    }

    fn execute(&mut self) -> Vec<u8> {
        let slot = match self.below(30) {
            0 => self.sessions,
            1 => self.frames.random.next() as u32,
            _ => self.below(self.sessions as usize) as u32,
        };
        let last = self
            .store
            .sessions
            .as_slice()
            .get(slot as usize)
            .map_or(0, |session| session.sequence.load(Relaxed));
        let count = match self.below(12) {
            0..=5 => 1,
            6..=10 => 1 + self.below(4),
            _ => self.below(17),
        };
        let head = ExecuteHead {
            token: match self.below(24) {
                0 => 0,
                1 => self.frames.random.next(),
                _ => token(slot),
            }
            .into(),
            sequence: match self.below(16) {
                0 => last,
                1 => last.wrapping_add(2),
                2 => last.wrapping_sub(1),
                3 => self.frames.random.next(),
                _ => last.wrapping_add(1),
            }
            .into(),
            slot: slot.into(),
            count: if self.one_in(40) { self.below(6) } else { count }
                .try_into()
                .map_or(0.into(), u16::into),
            durability: u16::from(self.one_in(50)).into(),
        };
        let mut body = head.as_bytes().to_vec();
        for _ in 0..count {
            body.extend_from_slice(self.operation().as_bytes());
        }
        self.native(TRANSFER_OP_EXECUTE, &body)
    }

    fn refer(&mut self) -> Vec<u8> {
        let count = match self.below(8) {
            0..=3 => 1,
            4..=6 => self.below(6),
            _ => self.below(31),
        };
        let head = ReferHead {
            count: if self.one_in(30) {
                self.frames.random.next() as u32
            } else {
                count as u32
            }
            .into(),
            durability: u16::from(self.one_in(60)).into(),
            reserved: u16::from(self.one_in(60)).into(),
        };
        let mut body = head.as_bytes().to_vec();
        for _ in 0..count {
            body.extend_from_slice(&self.account().0);
            body.extend_from_slice(&[0; size_of::<BalanceItem>() - 16]);
        }
        if self.one_in(20) {
            let at = self.below(body.len());
            body[at] ^= 1;
        }
        self.native(TRANSFER_OP_REFER, &body)
    }

    /// Returns a request that only the host executes, or an unknown one.
    fn other(&mut self) -> Vec<u8> {
        let op = TRANSFER_OP_OPEN + self.below(4) as u8;
        let bytes = if self.one_in(3) {
            self.below(60)
        } else {
            size_of::<SessionBody>()
        };
        let body: Vec<u8> = (0..bytes)
            .map(|_| {
                if op == TRANSFER_OP_CLOSE {
                    self.frames.random.next() as u8
                } else {
                    0
                }
            })
            .collect();
        self.native(op, &body)
    }

    fn native(&mut self, op: u8, body: &[u8]) -> Vec<u8> {
        let id = self.frames.random.next();
        let mut packet = native::request_header(op, id, body.len() as u16)
            .as_bytes()
            .to_vec();
        packet.extend_from_slice(body);
        if self.one_in(60) {
            let (at, bit) = [(3, NATIVE_REPLY_BIT), (2, 2), (5, 1), (7, 1), (0, 1)][self.below(5)];
            packet[at] ^= bit;
        }
        packet
    }

    /// Applies the host's actions between two frames to both stores. The host always empties the rings. With unrest, it
    /// also ends and renews leases, changes policies, holds locks and changes accounts.
    pub(super) fn disturb(&mut self, stores: &[&Store; 2], rings: [Ring<'_>; 2]) {
        if self.executes && self.one_in(40) {
            let keep = if self.one_in(3) { self.below(8) as u64 } else { 0 };
            let at = rings[0].tail() + rings[0].waiting().saturating_sub(keep);
            rings.iter().for_each(|ring| ring.release(at));
        }
        if !self.unrest || !self.one_in(12) {
            return;
        }
        let (what, value) = (self.below(8), self.frames.random.next());
        // The account is mostly one that occurs in requests.
        let account = self.account();
        let cell = match self.store.find(&account) {
            Some(index) if what != 5 => index,
            Some(index) => index & !(TRANSFER_BUCKET_CELLS - 1),
            None => self.below(self.store.cells.as_slice().len()),
        };
        let slot = self.below(self.sessions as usize);
        let sometimes = u32::from(value.is_multiple_of(4));
        for store in stores {
            let (control, cell) = (store.control(), &store.cells.as_slice()[cell]);
            match what {
                0 => control
                    .lease_until_ns
                    .store(if sometimes == 1 { 0 } else { u64::MAX }, Relaxed),
                1 => control.require_signature.store(sometimes, Relaxed),
                2 => control.paper_format.store(1 - sometimes, Relaxed),
                3 => control.issuers.store((value % 9) as u32, Relaxed),
                4 => cell.lock.store(sometimes, Relaxed),
                5 => cell.bucket_lock.store(sometimes, Relaxed),
                6 => store.sessions.as_slice()[slot].lock.store(sometimes, Relaxed),
                _ if cell.flags.load(Relaxed) & TRANSFER_CELL_VALID != 0 => {
                    let balance = EDGES[(value % EDGES.len() as u64) as usize];
                    let frozen = if sometimes == 1 { TRANSFER_CELL_FROZEN } else { 0 };
                    cell.flags.store(TRANSFER_CELL_VALID | frozen, Relaxed);
                    cell.balance.store(balance, Relaxed);
                    cell.held_out
                        .store((value >> 8).min(balance) >> (value % 64), Relaxed);
                    cell.held_in.store((value >> 4).min(u64::MAX - balance), Relaxed);
                }
                _ => {}
            }
        }
        if what == 4 || what == 5 || what == 6 {
            // In half of these cases all locks are freed, so that no lock stays held for ever.
            if self.one_in(2) {
                free_locks(stores);
            }
        }
    }
}

/// Order of the host about accounts and sessions.
pub(super) enum Order {
    Claim(Vec<u32>, Vec<u32>),
    Put(Vec<(u32, Change)>),
    PutSession(Slot),
    GiveBack(Vec<u32>, Vec<u32>),
}

impl Order {
    pub(super) fn carry_out(&self, claims: &dyn Claims) -> io::Result<()> {
        match self {
            Self::Claim(cells, slots) => claims.claim(cells, slots),
            Self::Put(step) => claims.put(step),
            Self::PutSession(slot) => claims.put_session(slot),
            Self::GiveBack(cells, slots) => claims.give_back(cells, slots),
        }
    }
}

impl Traffic {
    /// Returns the host's next order, if there is one. About half of the accounts that can be claimed are claimed. No
    /// lock is held at that time.
    pub(super) fn next_order(&mut self, stores: &[&Store; 2]) -> Option<Order> {
        if !self.unrest || !self.executes || !self.one_in(16) {
            return None;
        }
        free_locks(stores);
        let bits = self.frames.random.next();
        let store = Arc::clone(&self.store);
        let valid = |(_, cell): &(usize, &TransferCell)| cell.flags.load(Relaxed) & TRANSFER_CELL_VALID != 0;
        let all = store.cells.as_slice().iter().enumerate().filter(valid);
        let chosen = |index: u32| bits >> (index % 64) & 1 == 1;
        let cells: Vec<u32> = all
            .map(|(index, _)| index as u32)
            .filter(|index| chosen(*index))
            .collect();
        let slots = (0..self.sessions).filter(|slot| chosen(slot + 32)).collect();
        Some(match self.below(5) {
            0 => Order::Claim(cells, slots),
            1 => {
                let change = |index: &u32| Change {
                    account: AccountId::default(),
                    holding: Holding {
                        balance: EDGES[(bits % EDGES.len() as u64) as usize],
                        frozen: bits.is_multiple_of(3),
                        ..Holding::default()
                    },
                    version: bits >> 32,
                    step: (*index).into(),
                };
                let step = cells.iter().map(|index| (*index, change(index)));
                Order::Put(step.take(STEP_CELLS_MAX).collect())
            }
            2 => {
                let slot = (bits % u64::from(self.sessions)) as u32;
                let is_open = slot + 1 < self.sessions && !bits.is_multiple_of(7);
                Order::PutSession(Slot {
                    slot,
                    count: (bits % 5) as u32,
                    token: if is_open { token(slot) } else { 0 },
                    sequence: bits % 9,
                    sum: bits,
                    codes: bits % 13,
                    amounts: [bits, 1, 2, 3],
                })
            }
            _ => Order::GiveBack(cells, slots),
        })
    }
}

fn free_locks(stores: &[&Store; 2]) {
    for store in stores {
        store.cells.as_slice().iter().for_each(|cell| {
            cell.lock.store(0, Relaxed);
            cell.bucket_lock.store(0, Relaxed);
        });
        let sessions = store.sessions.as_slice();
        sessions.iter().for_each(|session| session.lock.store(0, Relaxed));
    }
}

fn token(slot: u32) -> u64 {
    super::HASH_STEP.wrapping_mul(u64::from(slot) + 5)
}
