//! Oracle: a second implementation of the ledger from its specification, as simple as possible. It reads requests as
//! bytes and shares no code with the crate that it checks; both use only the same numbers of `spec/`.
#![allow(dead_code, reason = "each test uses what it needs")]

mod compare;
mod keys;
mod rules;
mod sessions;
mod signatures;

use lineside_fastpath::Source;
use lineside_wire::{
    NATIVE_MAGIC, NATIVE_REPLY_BIT, NATIVE_VERSION, Status, TRANSFER_COMMAND_CREATE as CREATE,
    TRANSFER_COMMAND_ISSUE as ISSUE, TRANSFER_COMMAND_REFER as REFER, TRANSFER_COMMAND_TRANSFER as TRANSFER,
    TRANSFER_LINE_OPERATIONS_MAX, TRANSFER_OP_EXECUTE, TRANSFER_OP_REFER, TRANSFER_OP_SIGNED,
    TransferCode as Code,
};
use std::collections::BTreeMap;

#[allow(unused_imports, reason = "each test uses what it needs")]
pub use signatures::{DOMAIN, SIGNED_HEAD, fingerprint};

pub type Id = [u8; 16];
/// Source and uuid of a pending transfer.
pub type PendingName = (Id, Id);

pub const HEAD: usize = 16;
pub const EXECUTE_HEAD: usize = 24;
pub const OPERATION: usize = 88;
const ITEM: usize = 48;
const OPERATIONS_MAX: usize = 744;
const ITEMS_MAX: usize = 29;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub balance: u64,
    /// Amount that pending transfers from this account reserve.
    pub out: u64,
    pub incoming: u64,
    pub frozen: bool,
    pub version: u64,
    pub owner: Id,
    /// Last numbered request in the paper's format, and its reply, without filler.
    pub last: Option<([u8; 20], [u8; 20])>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// `None` if the token was in a reply that no client has seen.
    pub token: Option<u64>,
    pub opener: Id,
    /// Number of its opening among all openings.
    pub opening: u64,
    pub opened_s: u64,
    /// True if an operation was executed in it.
    pub is_used: bool,
    pub sequence: u64,
    /// Operations of its last packet as received, and their outcomes: code, amount, number.
    pub body: Vec<u8>,
    pub outcomes: Vec<(u16, u64, u64)>,
    /// True if the fast path could have answered its last packet, so that the reply has no numbers and is not durable.
    pub is_unnumbered: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingTransfer {
    pub to: Id,
    pub amount: u64,
    /// Expiry in seconds since 1970; 0 if the transfer never expires.
    pub expires_s: u64,
}

/// Reply that the oracle requires.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequiredReply {
    /// No reply, because the packet is not a request.
    Nothing,
    /// A reply of exactly these bytes.
    Reply(Vec<u8>),
    /// A challenge, whose value is not predictable.
    Challenge,
    /// A session; the token of a new one is not predictable.
    Granted { slot: u32 },
}

/// Key of a request that counts once: source and transaction id in the paper's format, token and sequence number in a
/// session. (A session whose token no client knows has no packets.)
type Key = (Id, u64);

/// Everything that a ledger stores, and how often each request was executed.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    pub accounts: BTreeMap<Id, Account>,
    pub sessions: BTreeMap<u32, Session>,
    pub pendings: BTreeMap<PendingName, PendingTransfer>,
    /// Operations with idempotency keys; forgotten ones are not removed.
    pub keys: BTreeMap<keys::Key, keys::Keyed>,
    pub keys_max: usize,
    pub key_window_s: u64,
    /// Operations whose key was known: of the same operation, and of another one.
    pub repeated: u64,
    pub reused: u64,
    pub accounts_max: usize,
    pub sessions_max: u32,
    pub sessions_per_source: usize,
    pub number: u64,
    pub issued: u128,
    /// True in `express`, where the fast path's replies have no numbers and say 2 where the host says 1.
    pub is_express: bool,
    /// True if the fast path executes the request. It creates accounts as long as it has cells.
    pub is_fastpath: bool,
    /// True if writes must be signed. A debit must be signed with the key that the account names as its owner.
    pub requires_signature: bool,
    /// Codes of the operations of the next request, if they are known: the oracle adopts a refusal, whatever its
    /// reason.
    pub told: Vec<u16>,
    executed: BTreeMap<Key, u32>,
    /// Challenges that the host forgets at a restart: those that were sent (to which client, in which period), and
    /// those that were returned (in which period, in which request), with the opening that each was used for.
    challenges: BTreeMap<Id, (Source2, u64)>,
    granted: BTreeMap<Id, (u64, u64, u64)>,
    openings: u64,
}

/// Address in IPv6 form, and port.
type Source2 = (Id, u16);

pub fn address_of(from: Source) -> Id {
    match from.address {
        std::net::IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        std::net::IpAddr::V6(v6) => v6.octets(),
    }
}

pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().unwrap())
}
pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap())
}
pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap())
}
pub fn id_at(bytes: &[u8], at: usize) -> Id {
    bytes[at..at + 16].try_into().unwrap()
}

/// Returns an id of the paper's format as an account.
pub fn paper_id(id: u32) -> Id {
    u128::from(id).to_be_bytes()
}

/// Returns whether the reply only reports that nothing can be written, which means that nothing was executed.
pub fn is_no_room(request: &[u8], reply: &[u8]) -> bool {
    if (20..=22).contains(&request.len()) {
        reply.len() == request.len()
            && u32_at(reply, 0) & 0x8000_0000 != 0
            && u32_at(reply, 16) == Code::Busy as u32
    } else {
        (reply.len() == HEAD && u16_at(reply, 4) == Status::NoRoom as u16)
            || (request[3] == TRANSFER_OP_EXECUTE && u16_at(reply, 4) == Status::Busy as u16)
    }
}

impl Oracle {
    pub fn new(accounts_max: usize, sessions_max: u32, sessions_per_source: usize) -> Self {
        Self {
            accounts_max,
            sessions_max,
            sessions_per_source,
            ..Self::default()
        }
    }

    /// Forgets everything that is lost when the host restarts.
    pub fn restarted(&mut self) {
        self.challenges.clear();
        self.granted.clear();
    }

    /// Returns how often the request with this key was executed.
    pub fn executed(&self, key: &Key) -> u32 {
        self.executed.get(key).copied().unwrap_or(0)
    }

    fn execute_once(&mut self, key: Key) {
        let times = self.executed.entry(key).or_default();
        *times += 1;
        assert_eq!(*times, 1, "the oracle itself has executed {key:?} more than once");
    }

    /// Returns whether a request in the paper's format, which has no signatures, is permitted.
    fn may(&self, from: Source, command: u8) -> bool {
        !self.requires_signature && (command == TRANSFER || from.address.is_loopback())
    }

    /// Returns the known reason for the refusal of operation `index`.
    fn was_refused(&self, index: usize) -> Option<Code> {
        let code = self.told.get(index).copied().and_then(Code::from_code);
        code.filter(|code| *code != Code::Done)
    }

    /// Returns whether the fast path can execute `operations`: at most four operations without flags and with contract
    /// code 0 (plain): no operation reserves (pending), posts or voids an amount.
    fn is_plain(operations: &[u8]) -> bool {
        operations.len() <= TRANSFER_LINE_OPERATIONS_MAX * OPERATION
            && operations
                .chunks(OPERATION)
                .all(|operation| operation[1] == 0 && u32_at(operation, 4) == 0)
    }

    /// Executes a request and returns the required reply.
    pub fn ask(&mut self, now_s: u64, from: Source, payload: &[u8]) -> RequiredReply {
        if (20..=22).contains(&payload.len()) {
            return self.paper(from, payload);
        }
        if payload.len() < HEAD
            || payload[..2] != NATIVE_MAGIC.to_be_bytes()
            || payload[3] & NATIVE_REPLY_BIT != 0
        {
            return RequiredReply::Nothing;
        }
        if payload[2] != NATIVE_VERSION {
            return refused(payload, Status::UnsupportedVersion);
        }
        if usize::from(u16_at(payload, 6)) != payload.len() - HEAD || u16_at(payload, 4) != 0 {
            return refused(payload, Status::BadRequest);
        }
        match payload[3] {
            TRANSFER_OP_EXECUTE => self.packet(now_s, from, payload, None),
            TRANSFER_OP_SIGNED => self.signed(now_s, from, payload),
            TRANSFER_OP_REFER => self.refer(payload),
            _ => self.session(now_s, from, payload),
        }
    }

    // ---- the paper's format ----

    fn paper(&mut self, from: Source, payload: &[u8]) -> RequiredReply {
        let (command, id, amount) = (u32_at(payload, 0), u32_at(payload, 4), u32_at(payload, 16));
        if command & 0x8000_0000 != 0 {
            return RequiredReply::Nothing;
        }
        let say = |result: Result<u64, Code>| {
            let mut reply = payload.to_vec();
            reply[20..].fill(0);
            let (refused, word) = match result.map(u32::try_from) {
                Ok(Ok(balance)) => (0, balance),
                Ok(Err(_)) => (0x80, Code::Overflow as u32),
                Err(code) => (0x80, code as u32),
            };
            reply[0] |= refused;
            reply[16..20].copy_from_slice(&word.to_be_bytes());
            reply
        };
        let known = (1..=4).contains(&command) && payload[20..].iter().all(|byte| *byte == 0);
        if !known || (command == u32::from(TRANSFER) && amount == 0) {
            return RequiredReply::Reply(say(Err(Code::BadCommand)));
        }
        let (source, destination) = (paper_id(u32_at(payload, 8)), paper_id(u32_at(payload, 12)));
        let command = command as u8;
        if command == REFER {
            let account = self.accounts.get(&source).ok_or(Code::UnknownAccount);
            return RequiredReply::Reply(say(account.map(|account| account.balance)));
        }
        if !self.may(from, command) {
            return RequiredReply::Reply(say(Err(Code::Unauthorised)));
        }
        let request: [u8; 20] = payload[..20].try_into().unwrap();
        if id != 0
            && let Some((last, reply)) = self.accounts.get(&source).and_then(|account| account.last)
        {
            let last_id = u32_at(&last, 4);
            if id < last_id {
                return RequiredReply::Reply(say(Err(Code::StaleId)));
            }
            if id == last_id && last != request {
                return RequiredReply::Reply(say(Err(Code::IdReused)));
            }
            if id == last_id {
                let mut again = payload.to_vec();
                again[..20].copy_from_slice(&reply);
                return RequiredReply::Reply(again);
            }
        }
        let amount = u64::from(amount);
        let result = match (self.was_refused(0), command) {
            (Some(code), _) => Err(code),
            (_, CREATE) => self.create(source, amount, [0; 16], u32::MAX.into()),
            (_, ISSUE) => self.issue(source, amount, u32::MAX.into()),
            _ => self.transfer(source, destination, amount, u32::MAX.into()),
        };
        let reply = say(result);
        if id != 0
            && let Some(account) = self.accounts.get_mut(&source)
        {
            account.last = Some((request, reply[..20].try_into().unwrap()));
            account.version += u64::from(result.is_err());
            self.execute_once((source, id.into()));
        }
        self.number += u64::from(result.is_ok());
        RequiredReply::Reply(reply)
    }

    // ---- REFER ----

    fn refer(&self, payload: &[u8]) -> RequiredReply {
        let body = &payload[HEAD..];
        let items = body.len().saturating_sub(8) / ITEM;
        let is_whole = body.len() >= 8 && (body.len() - 8).is_multiple_of(ITEM);
        if !is_whole
            || u32_at(body, 0) as usize != items
            || !(1..=ITEMS_MAX).contains(&items)
            || body[4..8] != [0; 4]
            || body[8..]
                .chunks(ITEM)
                .any(|item| item[16..].iter().any(|byte| *byte != 0))
        {
            return refused(payload, Status::BadRequest);
        }
        let mut reply = payload.to_vec();
        reply[3] |= NATIVE_REPLY_BIT;
        reply[HEAD + 4..HEAD + 6].copy_from_slice(&self.durability());
        for item in reply[HEAD + 8..].chunks_mut(ITEM) {
            match self.accounts.get(&id_at(item, 0)) {
                None => item[40..42].copy_from_slice(&(Code::UnknownAccount as u16).to_be_bytes()),
                Some(account) => {
                    item[16..24].copy_from_slice(&account.balance.to_be_bytes());
                    item[24..32].copy_from_slice(&account.out.to_be_bytes());
                    item[32..40].copy_from_slice(&account.version.to_be_bytes());
                    item[43] = account.frozen.into();
                }
            }
        }
        RequiredReply::Reply(reply)
    }

    fn durability(&self) -> [u8; 2] {
        [0, if self.is_express { 2 } else { 1 }]
    }

    // ---- money ----

    pub fn held(&self) -> u128 {
        self.accounts
            .values()
            .map(|account| u128::from(account.balance))
            .sum()
    }

    /// Returns an inconsistency of the oracle's own totals, if there is one.
    pub fn fault(&self) -> Option<String> {
        if self.held() != self.issued {
            return Some(format!(
                "the balances sum up to {}, but {} was issued",
                self.held(),
                self.issued
            ));
        }
        let (mut out, mut incoming): (BTreeMap<Id, u128>, BTreeMap<Id, u128>) = Default::default();
        for ((source, _), pending) in &self.pendings {
            *out.entry(*source).or_default() += u128::from(pending.amount);
            *incoming.entry(pending.to).or_default() += u128::from(pending.amount);
        }
        for (id, account) in &self.accounts {
            let aside = |map: &BTreeMap<Id, u128>| map.get(id).copied().unwrap_or(0);
            if aside(&out) != account.out.into() || aside(&incoming) != account.incoming.into() {
                return Some(format!(
                    "{id:02x?}: the reserved amounts differ from the pending transfers"
                ));
            }
            let is_within = account.out <= account.balance && account.balance <= u64::MAX - account.incoming;
            if !is_within {
                return Some(format!("{id:02x?}: {account:?} is out of bounds"));
            }
        }
        None
    }
}

/// Returns the refusal of a whole native packet: its header, with a status.
fn refused(payload: &[u8], status: Status) -> RequiredReply {
    let mut reply = payload[..HEAD].to_vec();
    reply[3] |= NATIVE_REPLY_BIT;
    reply[2] = NATIVE_VERSION;
    reply[4..6].copy_from_slice(&(status as u16).to_be_bytes());
    reply[6..8].fill(0);
    RequiredReply::Reply(reply)
}
