//! Random requests of the simulated clients.

use crate::oracle::{EXECUTE_HEAD, HEAD, Id, OPERATION, SIGNED_HEAD, paper_id};
use lineside_testkit::Random;
use lineside_wire::{
    NATIVE_MAGIC, NATIVE_VERSION, TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_FREEZE as FREEZE,
    TRANSFER_COMMAND_ISSUE as ISSUE, TRANSFER_COMMAND_REFER as REFER, TRANSFER_COMMAND_TRANSFER as TRANSFER,
    TRANSFER_COMMAND_UNFREEZE as UNFREEZE, TRANSFER_FLAG_KEYED, TRANSFER_OP_CLOSE, TRANSFER_OP_EXECUTE,
    TRANSFER_OP_OPEN, TRANSFER_OP_REFER, TRANSFER_OP_SIGNED,
};

/// Number of account ids in the paper's format; more than the ledger accepts.
pub const PAPER_ACCOUNTS: u32 = 14;
/// Number of operations in the largest packet over a stream; one less if it is signed.
const OPERATIONS_MAX: u64 = 744;
/// Number of further, native account ids.
const NATIVE_ACCOUNTS: u8 = 8;

#[derive(Clone, Copy, Debug)]
pub struct Session {
    pub token: u64,
    pub slot: u32,
}

/// Kind of a client's packets.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shape<'a> {
    /// Keys that may own new accounts; empty if any value may be the owner.
    pub owners: &'a [Id],
    /// Percentage of packets for the fast path: few operations, neither linked nor pending.
    pub plain_percent: u64,
    /// True if some packets are as large as a stream allows.
    pub is_large: bool,
}

/// Source, destination and uuid of a pending transfer.
pub type PendingIds = (Id, Id, Id);

/// Requests that a client sent before and may send again.
#[derive(Debug, Default)]
pub struct Earlier {
    /// Pending transfers that the client created.
    pendings: Vec<PendingIds>,
    /// Operations with an idempotency key.
    keyed: Vec<[u8; OPERATION]>,
}

/// Returns every account that a client may query.
pub fn accounts() -> Vec<Id> {
    let native = (1..=NATIVE_ACCOUNTS).map(|number| {
        let mut id = [number; 16];
        id[15] = 1;
        id
    });
    (1..=PAPER_ACCOUNTS).map(paper_id).chain(native).collect()
}

fn header(op: u8, request_id: u64, body_bytes: usize) -> Vec<u8> {
    let mut packet = Vec::with_capacity(HEAD + body_bytes);
    packet.extend(NATIVE_MAGIC.to_be_bytes());
    packet.extend([NATIVE_VERSION, op, 0, 0]);
    packet.extend((body_bytes as u16).to_be_bytes());
    packet.extend(request_id.to_be_bytes());
    packet
}

/// Returns a request in the paper's format, and whether it is a REFER.
pub fn paper(rng: &mut Random, id: u32, sources: &[u32]) -> (Vec<u8>, bool) {
    let command = *rng.pick(&[
        CREATE, CREATE, ISSUE, ISSUE, TRANSFER, TRANSFER, TRANSFER, TRANSFER, REFER,
    ]);
    let amount = match rng.below(20) {
        0 => u32::MAX - rng.below(10) as u32,
        1 => 0,
        _ => rng.below(200) as u32,
    };
    let mut packet = Vec::new();
    let destination = 1 + rng.below(PAPER_ACCOUNTS.into()) as u32;
    for word in [command.into(), id, *rng.pick(sources), destination, amount] {
        packet.extend(word.to_be_bytes());
    }
    packet.resize(20 + rng.below(3) as usize, 0);
    (packet, command == REFER)
}

fn session_body(op: u8, request_id: u64, challenge: Id, session: Option<Session>) -> Vec<u8> {
    let mut packet = header(op, request_id, 40);
    packet.extend(challenge);
    packet.extend(session.map_or(0, |session| session.token).to_be_bytes());
    packet.extend([0; 8]);
    packet.extend(session.map_or(0, |session| session.slot).to_be_bytes());
    packet.extend([0; 4]);
    packet
}

pub fn open(request_id: u64, challenge: Id) -> Vec<u8> {
    session_body(TRANSFER_OP_OPEN, request_id, challenge, None)
}

pub fn close(request_id: u64, session: Session) -> Vec<u8> {
    session_body(TRANSFER_OP_CLOSE, request_id, [0; 16], Some(session))
}

/// Returns a query of some balances.
pub fn refer(rng: &mut Random, request_id: u64) -> Vec<u8> {
    let accounts = accounts();
    let some: Vec<Id> = (0..1 + rng.below(5)).map(|_| *rng.pick(&accounts)).collect();
    refer_to(request_id, &some)
}

pub fn refer_to(request_id: u64, accounts: &[Id]) -> Vec<u8> {
    let mut packet = header(TRANSFER_OP_REFER, request_id, 8 + 48 * accounts.len());
    packet.extend((accounts.len() as u32).to_be_bytes());
    packet.extend([0; 4]);
    for account in accounts {
        packet.extend(account);
        packet.extend([0; 32]);
    }
    packet
}

pub fn execute(
    rng: &mut Random,
    request_id: u64,
    session: Session,
    sequence: u64,
    shape: &Shape<'_>,
    earlier: &mut Earlier,
) -> Vec<u8> {
    let is_plain = rng.percent(shape.plain_percent);
    let count = if shape.is_large && rng.percent(8) {
        1 + rng.below(OPERATIONS_MAX - u64::from(!shape.owners.is_empty()))
    } else if is_plain || rng.percent(70) {
        1 + rng.below(4)
    } else {
        1 + rng.below(16)
    };
    let mut body = Vec::new();
    body.extend(session.token.to_be_bytes());
    body.extend(sequence.to_be_bytes());
    body.extend(session.slot.to_be_bytes());
    body.extend((count as u16).to_be_bytes());
    body.extend([0; 2]);
    let linked_percent = *rng.pick(&[0, 0, 50]);
    // In most packets all operations have a key, or none has.
    let keyed_percent = *rng.pick(&[0, 0, 0, 10, 100, 100]);
    for index in 0..count {
        let may_link = index + 1 < count || rng.percent(5);
        let is_linked = may_link && !is_plain && rng.percent(linked_percent);
        let mut operation = operation(rng, is_linked, &mut earlier.pendings);
        if !is_plain && rng.percent(keyed_percent) {
            operation = keyed(rng, operation, &mut earlier.keyed);
        }
        if is_plain {
            operation[4..8].fill(0);
            operation[84..88].fill(0);
        }
        if operation[0] == CREATE && !shape.owners.is_empty() {
            operation[24..40].copy_from_slice(rng.pick::<Id>(shape.owners));
        }
        body.extend(operation);
    }
    assert_eq!(body.len(), EXECUTE_HEAD + count as usize * OPERATION);
    [header(TRANSFER_OP_EXECUTE, request_id, body.len()), body].concat()
}

/// Gives an operation an idempotency key, or replaces it by a repetition of an earlier one.
fn keyed(
    rng: &mut Random,
    mut operation: [u8; OPERATION],
    keyed: &mut Vec<[u8; OPERATION]>,
) -> [u8; OPERATION] {
    if !keyed.is_empty() && rng.percent(50) {
        let is_linked = operation[1];
        operation = *rng.pick(keyed);
        operation[1] = is_linked | TRANSFER_FLAG_KEYED;
        // A repetition may have another time and nonce.
        operation[56..64].copy_from_slice(&rng.next().to_be_bytes());
        operation[80..84].copy_from_slice(&(rng.next() as u32).to_be_bytes());
        if rng.percent(10) {
            // The operation repeats a known key with another amount, so it must be refused.
            operation[47] ^= 1;
        }
        return operation;
    }
    operation[1] |= TRANSFER_FLAG_KEYED;
    keyed.push(operation);
    let first = keyed.len().saturating_sub(8);
    keyed.drain(..first);
    operation
}

fn operation(rng: &mut Random, is_linked: bool, pendings: &mut Vec<PendingIds>) -> [u8; OPERATION] {
    let accounts = accounts();
    let (mut source, mut destination) = (*rng.pick(&accounts), *rng.pick(&accounts));
    let mut uuid = [rng.below(6) as u8; 16];
    let mut amount = match rng.below(40) {
        0 => u64::MAX - rng.below(200),
        1 => u32::MAX.into(),
        2 => 0,
        _ => rng.below(150),
    };
    let (mut contract, mut timeout_s) = (0u32, 0u32);
    let command = match rng.below(20) {
        0..3 => CREATE,
        3..5 => ISSUE,
        5 => FREEZE,
        6..9 => UNFREEZE,
        9 => 1 + rng.below(9) as u8, // some of them none
        _ => TRANSFER,
    };
    if command == TRANSFER {
        contract = *rng.pick(&[0, 0, 0, 1, 1, 1, 2, 2, 3, 4]);
        if contract == 1 {
            timeout_s = *rng.pick(&[0, 1, 20, 60]);
            pendings.push((source, destination, uuid));
            let first = pendings.len().saturating_sub(8);
            pendings.drain(..first);
        } else if contract > 1 && !pendings.is_empty() && rng.percent(90) {
            (source, destination, uuid) = *rng.pick(pendings);
            amount = *rng.pick(&[0, 0, 1, 20, 100]);
        }
        if contract == 3 && rng.percent(95) {
            amount = 0;
        }
    } else if command != CREATE && rng.percent(95) {
        destination = [0; 16];
        if command != ISSUE {
            amount = 0;
        }
    }
    let mut bytes = [0; OPERATION];
    bytes[0] = command;
    bytes[1] = is_linked.into();
    bytes[4..8].copy_from_slice(&contract.to_be_bytes());
    bytes[8..24].copy_from_slice(&source);
    bytes[24..40].copy_from_slice(&destination);
    bytes[40..48].copy_from_slice(&amount.to_be_bytes());
    bytes[56..64].copy_from_slice(&rng.next().to_be_bytes());
    bytes[64..80].copy_from_slice(&uuid);
    bytes[80..84].copy_from_slice(&(rng.next() as u32).to_be_bytes());
    bytes[84..88].copy_from_slice(&timeout_s.to_be_bytes());
    bytes
}

/// Returns a changed copy of an answered request, as an attacker sends it.
pub fn stolen(rng: &mut Random, seen: &[u8]) -> Vec<u8> {
    let mut packet = seen.to_vec();
    if packet.len() < HEAD {
        return packet;
    }
    let is_paper = packet.len() <= 22;
    // Offset of token and sequence number in the packet.
    let head = match packet.get(3) {
        Some(&TRANSFER_OP_SIGNED) if !is_paper => HEAD + SIGNED_HEAD,
        _ => HEAD,
    };
    let at = match rng.below(8) {
        0 => return packet,
        // The copy has another amount, destination or id, but never a higher id than those used before.
        1 if is_paper => 19,
        2 if is_paper => 15,
        3 if is_paper && packet[4..8] > [0, 0, 0, 1][..] => {
            let id = u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]);
            packet[4..8].copy_from_slice(&(1 + rng.below((id - 1).into()) as u32).to_be_bytes());
            return packet;
        }
        4 if is_paper => {
            packet.extend([1]);
            return packet;
        }
        // The copy has another token, slot, sequence number or body.
        1 => head + 7,
        2 => head + 19,
        3 if packet.len() > head + EXECUTE_HEAD => {
            let sequence = u64::from_be_bytes(packet[head + 8..head + 16].try_into().unwrap());
            packet[head + 8..head + 16].copy_from_slice(&rng.below(sequence).to_be_bytes());
            return packet;
        }
        4 => packet.len().saturating_sub(40),
        // The copy is not a request at all.
        5 => {
            packet[if is_paper { 0 } else { 3 }] |= 0x80;
            return packet;
        }
        6 => {
            packet.truncate(rng.below(packet.len() as u64) as usize);
            return packet;
        }
        _ => 3,
    };
    let at = at.min(packet.len() - 1);
    packet[at] ^= 1 << rng.below(3);
    packet
}
