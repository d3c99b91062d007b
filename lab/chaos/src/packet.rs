//! Packets of the native formats, implemented from `docs/wire-formats.md` without Lineside's code.

/// Size of the native header in bytes.
pub const HEADER_BYTES: usize = 16;
/// Size of an operation of `transfer` in bytes.
pub const OPERATION_BYTES: usize = 88;
/// Size of the header of `execute` in bytes.
pub const EXECUTE_HEAD_BYTES: usize = 24;
/// Size of the header of a reply of `column` in bytes.
const COLUMN_REPLY_BYTES: usize = 24;
/// Name of the column that the client of `column` uses.
const COLUMN: &[u8] = b"entry:foo";

/// Operations of `spv`.
pub mod spv {
    pub const ROOT: u8 = 1;
    /// Size of the body of a request and of a reply in bytes.
    pub const ROOT_BYTES: usize = 104;
}

/// Operations of `transfer`, and commands inside `execute`.
pub mod transfer {
    pub const EXECUTE: u8 = 1;
    pub const REFER: u8 = 2;
    pub const OPEN: u8 = 3;
    pub const CREATE: u8 = 1;
    pub const TRANSFER: u8 = 3;
    /// Contract code of a pending transfer.
    pub const PENDING: u32 = 1;
}

/// Operations of `column`.
pub mod column {
    pub const GET: u8 = 1;
    pub const PUT: u8 = 3;
    pub const INCREMENT: u8 = 5;
    pub const APPEND: u8 = 7;
    pub const OPEN: u8 = 8;
}

/// Status codes.
pub mod status {
    pub const OK: u16 = 0;
    pub const BUSY: u16 = 3;
    pub const NO_SESSION: u16 = 5;
    pub const NO_ROOM: u16 = 9;
    pub const OUTCOME_UNKNOWN: u16 = 10;
}

/// Codes of an operation of `transfer`.
pub mod code {
    pub const DONE: u16 = 0;
    pub const BUSY: u16 = 8;
}

/// Returns a request: native header and body.
pub fn request(op: u8, id: u64, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x4c, 0x53, 1, op, 0, 0];
    packet.extend((body.len() as u16).to_be_bytes());
    packet.extend(id.to_be_bytes());
    packet.extend(body);
    packet
}

/// Reply that belongs to a request.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Body of the reply, which is everything after the header.
    pub body: Vec<u8>,
}

/// Returns the reply in `packet` to the request `id` of operation `op`; `None` if the packet is not that reply.
pub fn answer(packet: &[u8], op: u8, id: u64) -> Option<Answer> {
    let (head, body) = packet.split_at_checked(HEADER_BYTES)?;
    let is_ours = head[..4] == [0x4c, 0x53, 1, op | 0x80] && head[8..] == id.to_be_bytes();
    let length = usize::from(u16::from_be_bytes([head[6], head[7]]));
    (is_ours && length <= body.len()).then(|| Answer {
        status: u16::from_be_bytes([head[4], head[5]]),
        body: body[..length].to_vec(),
    })
}

/// Returns the big-endian number in the 8 bytes that begin at offset `at`.
///
/// # Panics
/// Panics if `bytes` is too short.
pub fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// Session of `transfer` or of `column`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Session {
    /// Slot number of the session.
    pub slot: u32,
    /// Secret token of the session.
    pub token: u64,
    /// Sequence number (`transfer`) or nonce (`column`) of the next change.
    pub next: u64,
}

/// Returns the body of `execute`.
pub fn execute(session: &Session, operations: &[[u8; OPERATION_BYTES]]) -> Vec<u8> {
    let mut body = session.token.to_be_bytes().to_vec();
    body.extend(session.next.to_be_bytes());
    body.extend(session.slot.to_be_bytes());
    body.extend((operations.len() as u16).to_be_bytes());
    body.extend([0; 2]);
    body.extend(operations.as_flattened());
    body
}

/// Returns one operation of `transfer`.
pub fn operation(
    command: u8,
    contract: u32,
    source: u128,
    destination: u128,
    amount: u64,
    uuid: u128,
) -> [u8; OPERATION_BYTES] {
    let mut bytes = [0; OPERATION_BYTES];
    bytes[0] = command;
    bytes[4..8].copy_from_slice(&contract.to_be_bytes());
    bytes[8..24].copy_from_slice(&source.to_be_bytes());
    bytes[24..40].copy_from_slice(&destination.to_be_bytes());
    bytes[40..48].copy_from_slice(&amount.to_be_bytes());
    bytes[64..80].copy_from_slice(&uuid.to_be_bytes());
    bytes
}

/// Returns code, uuid and ledger number of each operation in the body of a reply to `execute`.
pub fn outcomes(body: &[u8]) -> impl Iterator<Item = (u16, u128, u64)> {
    let operations = body.get(EXECUTE_HEAD_BYTES..).unwrap_or_default();
    operations.chunks_exact(OPERATION_BYTES).map(|operation| {
        let code = u16::from_be_bytes([operation[2], operation[3]]);
        let uuid = u128::from_be_bytes(operation[64..80].try_into().expect("16 bytes"));
        (code, uuid, be64(operation, 48))
    })
}

/// Returns the body of `refer` for one account.
pub fn refer(account: u128) -> Vec<u8> {
    let mut body = 1u32.to_be_bytes().to_vec();
    body.extend([0; 4]);
    body.extend(account.to_be_bytes());
    body.extend([0; 32]);
    body
}

/// Returns the balance in the body of a reply to [`refer`]; `None` for an unknown account.
pub fn balance(body: &[u8]) -> Option<u64> {
    let item = body.get(8..56)?;
    (item[40..42] == [0, 0]).then(|| be64(item, 16))
}

/// Returns the body of a request of `column` about one row, padded with zeros to at least `room` bytes.
pub fn column_body(session: Session, key: &[u8], value: &[u8], room: usize) -> Vec<u8> {
    let padded = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    };
    let mut body = vec![0, key.len() as u8, 0, 1, 0, 0];
    body.extend((value.len() as u16).to_be_bytes());
    body.extend([0; 4]);
    body.extend(session.slot.to_be_bytes());
    body.extend(session.token.to_be_bytes());
    body.extend(session.next.to_be_bytes());
    let mut name = COLUMN.to_vec();
    name.resize(32, 0);
    body.extend(name);
    body.extend(padded(key));
    body.extend(padded(value));
    body.resize(body.len().max(room).next_multiple_of(8), 0);
    body
}

/// Returns the value of the only row in a reply of `column`; `None` if there is no row.
pub fn value(body: &[u8]) -> Option<&[u8]> {
    let row = body.get(COLUMN_REPLY_BYTES..)?;
    if body[2..4] == [0, 0] {
        return None;
    }
    let key_bytes = usize::from(row[0]);
    let value_bytes = usize::from(u16::from_be_bytes([row[2], row[3]]));
    row.get(4 + key_bytes..4 + key_bytes + value_bytes)
}
