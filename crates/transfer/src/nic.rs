//! The table of `transfer` in the RAM of the RTL: the commands that copy a store into it, and its responses and
//! records.

mod table;

pub use table::{NicClaims, NicFollower, NicPort, NicWriter, begin, geometry, lease_of, room_note, wait};

use crate::AccountId;
use crate::layout::{TransferCell, TransferPaper, TransferSession};
use crate::paper::PaperRequest;
use crate::ring::Record;
use crate::store::Store;
use lineside_rtl::{
    COMMAND_TRANSFER_CLAIM, COMMAND_TRANSFER_FILL, COMMAND_TRANSFER_GRANT, COMMAND_TRANSFER_LAST,
    COMMAND_TRANSFER_PUT, COMMAND_TRANSFER_READ, COMMAND_TRANSFER_RELEASE, COMMAND_TRANSFER_REMOVE,
    COMMAND_TRANSFER_SESSION, Command, NicRecord, NicResponse, REGISTER_TRANSFER_ISSUER,
    REGISTER_TRANSFER_ISSUERS, REGISTER_TRANSFER_KEY, REGISTER_TRANSFER_LEASE_UNTIL_NS,
    REGISTER_TRANSFER_MODE, REGISTER_TRANSFER_PAPER_FORMAT, REGISTER_TRANSFER_REQUIRE_SIGNATURE,
    REGISTER_TRANSFER_SESSIONS, SIM_SESSION_BITS, TRANSFER_RECORD_AMOUNT_AT, TRANSFER_RECORD_COMMAND_AT,
    TRANSFER_RECORD_DESTINATION_AT, TRANSFER_RECORD_DESTINATION_VERSION_AT, TRANSFER_RECORD_NONCE_AT,
    TRANSFER_RECORD_PLACE_AT, TRANSFER_RECORD_SESSION_SEQUENCE_AT, TRANSFER_RECORD_SLOT_AT,
    TRANSFER_RECORD_SOURCE_AT, TRANSFER_RECORD_SOURCE_BALANCE_AT, TRANSFER_RECORD_SOURCE_VERSION_AT,
    TRANSFER_RECORD_SUM_AT, TRANSFER_RECORD_TIME_NS_AT, TRANSFER_RECORD_TIMESTAMP_AT,
    TRANSFER_RECORD_UUID_AT, TRANSFER_RESPONSE_BALANCE_AT, TRANSFER_RESPONSE_CODE_AT,
    TRANSFER_RESPONSE_HELD_IN_AT, TRANSFER_RESPONSE_HELD_OUT_AT, TRANSFER_RESPONSE_LAST_AMOUNT_AT,
    TRANSFER_RESPONSE_LAST_DESTINATION_AT, TRANSFER_RESPONSE_LAST_ID_AT, TRANSFER_RESPONSE_LAST_REPLY_AT,
    TRANSFER_RESPONSE_VERSION_AT, TRANSFER_SESSION_RESPONSE_AMOUNT_AT, TRANSFER_SESSION_RESPONSE_CODE_AT,
    TRANSFER_SESSION_RESPONSE_OPERATION_CODE_AT, TRANSFER_SESSION_RESPONSE_SESSION_SEQUENCE_AT,
    TRANSFER_SESSION_RESPONSE_SUM_AT, TRANSFER_SESSION_RESPONSE_TOKEN_AT,
};
use lineside_wire::{
    AnsweredOp, ExecuteHead, NativeHeader, Operation, ReferHead, TRANSFER_CELL_CLAIMED, TRANSFER_CELL_FROZEN,
    TRANSFER_CELL_VALID, TRANSFER_FAST_PATH, TRANSFER_OP_EXECUTE, TRANSFER_OP_REFER, native,
};
use std::sync::atomic::Ordering::Relaxed;

/// Flag in the argument `first` of a command: no request is executed between this command and the next one.
const LINKED: u32 = 1;
/// Flags of `transfer_session`: the contents, and the claim, are written.
const WRITES: u32 = 1;
const WRITES_CLAIM: u32 = 2;
/// Number of a command for a session in its response; commands for accounts have 0.
const SESSION_INDEX: u32 = 1;
/// Payload bytes of `refer` of one account, which the RTL answers.
const REFER_BYTES: usize =
    size_of::<NativeHeader>() + size_of::<ReferHead>() + size_of::<lineside_wire::BalanceItem>();
/// Payload bytes of `execute` of one operation, which the RTL answers.
const EXECUTE_BYTES: usize = size_of::<NativeHeader>() + size_of::<ExecuteHead>() + size_of::<Operation>();

/// Native request that the RTL leaves to the host although another datapath may answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftToHost {
    /// `spec/` does not list this operation for the RTL.
    NotListed(AnsweredOp),
    /// The request has not one account or operation.
    NotOne(AnsweredOp),
}

/// Returns why the RTL leaves a request to the host although another datapath may answer it; `None` for a request to
/// which the RTL has the same answer as the other datapaths. Of the operations that it answers, the RTL takes `refer`
/// of one account and `execute` of one operation.
pub fn left_to_host(request: &[u8]) -> Option<LeftToHost> {
    if PaperRequest::parse(request).is_some() {
        return None;
    }
    let code = native::request_op(request)?;
    let op = AnsweredOp::Native(code);
    if !TRANSFER_FAST_PATH.answers(lineside_rtl::DATAPATH, op) {
        return Some(LeftToHost::NotListed(op));
    }
    let is_one = match code {
        TRANSFER_OP_REFER => request.len() == REFER_BYTES,
        TRANSFER_OP_EXECUTE => request.len() == EXECUTE_BYTES,
        _ => false,
    };
    (!is_one).then_some(LeftToHost::NotOne(op))
}

/// Contents of an account in the RTL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicAccount {
    /// Balance.
    pub balance: u64,
    /// Amount reserved by pending transfers from the account.
    pub held_out: u64,
    /// Sum of pending transfers to the account.
    pub held_in: u64,
    /// Number of changes of the account.
    pub version: u64,
    /// True if the account is frozen.
    pub frozen: bool,
    /// True if the host has claimed the account.
    pub claimed: bool,
    /// Last request with a transaction id: id, destination, amount, command, code of the reply, amount of the reply.
    pub last: [u32; 6],
}

impl NicAccount {
    /// Returns the contents of cell `index` of a store.
    pub fn of_cell(store: &Store, index: usize) -> Self {
        let cell: &TransferCell = &store.cells.as_slice()[index];
        let last: &TransferPaper = &store.paper.as_slice()[index];
        let flags = cell.flags.load(Relaxed);
        let command = last.command.load(Relaxed);
        Self {
            balance: cell.balance.load(Relaxed),
            held_out: cell.held_out.load(Relaxed),
            held_in: cell.held_in.load(Relaxed),
            version: cell.version.load(Relaxed),
            frozen: flags & TRANSFER_CELL_FROZEN != 0,
            claimed: flags & TRANSFER_CELL_CLAIMED != 0,
            last: [
                last.last_id.load(Relaxed),
                last.destination.load(Relaxed),
                last.amount.load(Relaxed),
                command & 0xffff,
                command >> 16,
                last.reply_amount.load(Relaxed),
            ],
        }
    }

    /// Returns the contents in a response to `transfer_read`; `None` if the RTL does not have the account.
    pub fn of_response(response: &NicResponse) -> Option<Self> {
        let code = word(response, TRANSFER_RESPONSE_CODE_AT);
        (code & 0xff == 0).then(|| Self {
            balance: wide(response, TRANSFER_RESPONSE_BALANCE_AT),
            held_out: wide(response, TRANSFER_RESPONSE_HELD_OUT_AT),
            held_in: wide(response, TRANSFER_RESPONSE_HELD_IN_AT),
            version: wide(response, TRANSFER_RESPONSE_VERSION_AT),
            frozen: code >> 8 & TRANSFER_CELL_FROZEN != 0,
            claimed: code >> 8 & TRANSFER_CELL_CLAIMED != 0,
            last: [
                word(response, TRANSFER_RESPONSE_LAST_ID_AT),
                // The destination is in the byte order of the packet.
                word(response, TRANSFER_RESPONSE_LAST_DESTINATION_AT).swap_bytes(),
                word(response, TRANSFER_RESPONSE_LAST_AMOUNT_AT),
                code >> 16 & 0xff,
                code >> 24,
                word(response, TRANSFER_RESPONSE_LAST_REPLY_AT),
            ],
        })
    }

    fn flags(&self) -> u32 {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        flag(self.frozen, TRANSFER_CELL_FROZEN) | flag(self.claimed, TRANSFER_CELL_CLAIMED)
    }

    /// Returns the command that writes everything but the last request with a transaction id. If `linked` is true, the
    /// RTL executes no request before the next command.
    pub fn put(&self, account: &AccountId, linked: bool) -> Command {
        self.write(COMMAND_TRANSFER_PUT, account, linked)
    }

    /// Returns the commands that write the whole account.
    pub fn fill(&self, account: &AccountId) -> [Command; 2] {
        let [id, destination, amount, command, code, reply] = self.last;
        let value = [
            id.to_le_bytes(),
            amount.to_le_bytes(),
            reply.to_le_bytes(),
            destination.to_be_bytes(),
        ];
        let last = Command::new(COMMAND_TRANSFER_LAST, 0, command | code << 16, 0, &value.concat());
        [last, self.write(COMMAND_TRANSFER_FILL, account, false)]
    }

    fn write(&self, op: u32, account: &AccountId, linked: bool) -> Command {
        let value = [self.balance, self.held_out, self.held_in, self.version].map(u64::to_le_bytes);
        let flags = self.flags() | if linked { LINKED } else { 0 };
        Command::new(op, 0, flags, 0, &value.concat()).with_id(&account.0)
    }
}

/// Contents of a session in the RTL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicSession {
    /// Secret token; 0 if the session is closed.
    pub token: u64,
    /// Sequence number of the last packet.
    pub sequence: u64,
    /// Checksum of its operations.
    pub sum: u64,
    /// Number of its operations.
    pub count: u32,
    /// Code of its first operation.
    pub code: u16,
    /// Amount in the reply to its first operation.
    pub amount: u64,
    /// True if the host has claimed the session.
    pub claimed: bool,
}

impl NicSession {
    /// Returns the contents of a session slot of a store.
    pub fn of_slot(session: &TransferSession) -> Self {
        Self {
            token: session.token.load(Relaxed),
            sequence: session.sequence.load(Relaxed),
            sum: session.sum.load(Relaxed),
            count: session.count.load(Relaxed),
            code: session.codes.load(Relaxed) as u16,
            amount: session.amounts[0].load(Relaxed),
            claimed: session.claimed.load(Relaxed) != 0,
        }
    }

    /// Returns the contents in a response to `transfer_session`; `None` if the RTL has no such slot.
    pub fn of_response(response: &NicResponse) -> Option<Self> {
        let code = word(response, TRANSFER_SESSION_RESPONSE_CODE_AT);
        (code & 0xff == 0).then(|| Self {
            token: wide(response, TRANSFER_SESSION_RESPONSE_TOKEN_AT),
            sequence: wide(response, TRANSFER_SESSION_RESPONSE_SESSION_SEQUENCE_AT),
            sum: wide(response, TRANSFER_SESSION_RESPONSE_SUM_AT),
            count: code >> 16,
            code: word(response, TRANSFER_SESSION_RESPONSE_OPERATION_CODE_AT) as u16,
            amount: wide(response, TRANSFER_SESSION_RESPONSE_AMOUNT_AT),
            claimed: code >> 8 & TRANSFER_CELL_CLAIMED != 0,
        })
    }

    /// Returns the command that writes the session, with its claim.
    pub fn write(&self, slot: u32) -> Command {
        let claim = if self.claimed { TRANSFER_CELL_CLAIMED } else { 0 };
        self.command(slot, WRITES_CLAIM | claim)
    }

    /// Returns the command that writes the session. Its claim in the RTL remains.
    pub fn put(&self, slot: u32) -> Command {
        self.command(slot, 0)
    }

    fn command(&self, slot: u32, flags: u32) -> Command {
        let value = [self.token, self.sequence, self.sum, self.amount].map(u64::to_le_bytes);
        let first = WRITES | flags | (self.count & 0xffff) << 8 | u32::from(self.code) << 24;
        Command::new(
            COMMAND_TRANSFER_SESSION,
            SESSION_INDEX,
            first,
            slot,
            &value.concat(),
        )
    }
}

/// Returns the command that reads an account.
pub fn read_command(account: &AccountId) -> Command {
    Command::new(COMMAND_TRANSFER_READ, 0, 0, 0, &[]).with_id(&account.0)
}

/// Returns the command that removes an account.
pub fn remove_command(account: &AccountId) -> Command {
    Command::new(COMMAND_TRANSFER_REMOVE, 0, 0, 0, &[]).with_id(&account.0)
}

/// Returns the command that claims an account, or ends its claim.
pub fn claim_command(account: &AccountId, claims: bool) -> Command {
    let op = match claims {
        true => COMMAND_TRANSFER_CLAIM,
        false => COMMAND_TRANSFER_RELEASE,
    };
    Command::new(op, 0, 0, 0, &[]).with_id(&account.0)
}

/// Returns the command that adds to the number of refusals of numbered requests that may be recorded.
pub fn grant_command(more: u64) -> Command {
    Command::new(COMMAND_TRANSFER_GRANT, 0, 0, 0, &more.to_le_bytes())
}

/// Returns the command that reads a session.
pub fn read_session_command(slot: u32) -> Command {
    Command::new(COMMAND_TRANSFER_SESSION, SESSION_INDEX, 0, slot, &[])
}

/// Returns the command that claims a session, or ends its claim.
pub fn claim_session_command(slot: u32, claims: bool) -> Command {
    let claim = if claims { TRANSFER_CELL_CLAIMED } else { 0 };
    Command::new(
        COMMAND_TRANSFER_SESSION,
        SESSION_INDEX,
        WRITES_CLAIM | claim,
        slot,
        &[],
    )
}

/// Returns the id of the account in cell `index`; `None` if the cell is free.
pub fn account_of(store: &Store, index: usize) -> Option<AccountId> {
    let cell = &store.cells.as_slice()[index];
    let is_valid = cell.flags.load(Relaxed) & TRANSFER_CELL_VALID != 0;
    is_valid.then(|| AccountId::from_words(cell.id.each_ref().map(|word| word.load(Relaxed))))
}

/// Returns the commands that copy all accounts, all sessions and the credit for refusals of `store` into a NIC after
/// its reset. Slots that `store` does not have become closed sessions.
pub fn entry_commands(store: &Store) -> Vec<Command> {
    let credit = store.paper_refusals().max(0).cast_unsigned();
    let mut commands = vec![grant_command(credit)];
    commands.extend(table_commands(store));
    commands
}

/// Returns the commands that copy all accounts and all sessions of `store` into a NIC after its reset.
pub fn table_commands(store: &Store) -> Vec<Command> {
    let mut commands = Vec::new();
    for index in 0..store.cells.as_slice().len() {
        if let Some(account) = account_of(store, index) {
            commands.extend(NicAccount::of_cell(store, index).fill(&account));
        }
    }
    let sessions = store.sessions.as_slice();
    commands.extend((0..1 << SIM_SESSION_BITS).map(|slot: u32| {
        let session = sessions.get(slot as usize).map(NicSession::of_slot);
        session.unwrap_or_default().write(slot)
    }));
    commands
}

/// Returns the commands that copy the key and the policies of `store` into the registers of the RTL.
pub fn policy_commands(store: &Store) -> Vec<Command> {
    let control = store.control();
    let key = control.key.iter().map(|word| word.load(Relaxed).to_le_bytes());
    let number = |register, value: u32| Command::register(register, &value.to_le_bytes());
    let mut commands = vec![
        Command::register(REGISTER_TRANSFER_KEY, &key.collect::<Vec<_>>().concat()),
        number(REGISTER_TRANSFER_MODE, control.mode.load(Relaxed)),
        number(REGISTER_TRANSFER_PAPER_FORMAT, control.paper_format.load(Relaxed)),
        number(
            REGISTER_TRANSFER_REQUIRE_SIGNATURE,
            control.require_signature.load(Relaxed),
        ),
        number(REGISTER_TRANSFER_SESSIONS, control.sessions.load(Relaxed)),
        // While the ranges change, the RTL has none.
        number(REGISTER_TRANSFER_ISSUERS, 0),
    ];
    let issuers = control.issuers.load(Relaxed);
    for index in 0..issuers {
        let words = [&control.issuer, &control.issuer_mask];
        let value = words.map(|words| {
            let at = 2 * index as usize;
            [&words[at], &words[at + 1]].map(|word| word.load(Relaxed).to_ne_bytes())
        });
        commands.push(Command::register(
            REGISTER_TRANSFER_ISSUER + index,
            value.as_flattened().as_flattened(),
        ));
    }
    commands.push(number(
        REGISTER_TRANSFER_ISSUERS,
        1u32.unbounded_shl(issuers).wrapping_sub(1),
    ));
    commands
}

/// Returns the commands that copy the key, the policies and the lease of `store` into the registers of the RTL.
pub fn control_commands(store: &Store) -> Vec<Command> {
    let lease = store.control().lease_until_ns.load(Relaxed).to_le_bytes();
    let mut commands = policy_commands(store);
    commands.push(Command::register(REGISTER_TRANSFER_LEASE_UNTIL_NS, &lease));
    commands
}

/// Returns the record in an entry of the stream `transfer_record`.
pub fn record(entry: &NicRecord) -> Record {
    let account = |at: usize| {
        let mut id = AccountId::default();
        id.0.copy_from_slice(&entry[at..at + 16]);
        id
    };
    let command = word(entry, TRANSFER_RECORD_COMMAND_AT);
    let place = word(entry, TRANSFER_RECORD_PLACE_AT);
    Record {
        source: account(TRANSFER_RECORD_SOURCE_AT),
        destination: account(TRANSFER_RECORD_DESTINATION_AT),
        amount: wide(entry, TRANSFER_RECORD_AMOUNT_AT),
        source_version: wide(entry, TRANSFER_RECORD_SOURCE_VERSION_AT),
        destination_version: wide(entry, TRANSFER_RECORD_DESTINATION_VERSION_AT),
        source_balance: wide(entry, TRANSFER_RECORD_SOURCE_BALANCE_AT),
        slot: word(entry, TRANSFER_RECORD_SLOT_AT),
        command: command as u8,
        flags: 0,
        code: (command >> 16) as u16,
        contract: 0,
        index: place as u16,
        count: (place >> 16) as u16,
        sequence: wide(entry, TRANSFER_RECORD_SESSION_SEQUENCE_AT),
        sum: wide(entry, TRANSFER_RECORD_SUM_AT),
        timestamp: wide(entry, TRANSFER_RECORD_TIMESTAMP_AT),
        uuid: account(TRANSFER_RECORD_UUID_AT),
        nonce: word(entry, TRANSFER_RECORD_NONCE_AT),
        time_ns: wide(entry, TRANSFER_RECORD_TIME_NS_AT),
    }
}

fn word(entry: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&entry[at..at + 4]);
    u32::from_le_bytes(bytes)
}

fn wide(entry: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&entry[at..at + 8]);
    u64::from_le_bytes(bytes)
}
