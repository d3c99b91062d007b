//! Datagrams: header, session, body and MAC.

use super::mac::{Direction, Session, SessionKey, SharedKey};
use lineside_wire::native::request_header;
use lineside_wire::{
    FABRIC_MAC_BYTES, FABRIC_OP_ANNOUNCE, FABRIC_OP_DATA, NATIVE_MAGIC, NATIVE_REPLY_BIT, NATIVE_VERSION,
    NativeHeader, SessionHead,
};
use zerocopy::{FromBytes, IntoBytes};

/// Size of a datagram without its body, in bytes.
pub const DATAGRAM_OVERHEAD_BYTES: usize =
    size_of::<NativeHeader>() + size_of::<SessionHead>() + FABRIC_MAC_BYTES;
/// Operation of the datagrams that a receiver sends: requests and greetings.
pub(crate) const OP_WANT: u8 = FABRIC_OP_ANNOUNCE | NATIVE_REPLY_BIT;
pub(crate) const OP_ANNOUNCE: u8 = FABRIC_OP_ANNOUNCE;
pub(crate) const OP_DATA: u8 = FABRIC_OP_DATA;

/// A datagram of the right form. Its MAC is not verified yet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Operation; datagrams of receivers have the reply bit set.
    pub op: u8,
    /// Sequence number of the datagram.
    pub sequence: u64,
    /// Session of the end that sent the datagram.
    pub session: Session,
    /// Body of the datagram.
    pub body: &'a [u8],
    signed: &'a [u8],
    mac: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses a datagram; `None` if it does not belong to this protocol.
    pub fn read(datagram: &'a [u8]) -> Option<Self> {
        let (header, rest) = NativeHeader::ref_from_prefix(datagram).ok()?;
        let is_native = header.magic.get() == NATIVE_MAGIC
            && header.version == NATIVE_VERSION
            && header.status.get() == 0
            && usize::from(header.length.get()) == rest.len()
            && matches!(header.op, OP_ANNOUNCE | OP_DATA | OP_WANT);
        let (signed, mac) = datagram.split_at_checked(datagram.len().checked_sub(FABRIC_MAC_BYTES)?)?;
        let (head, body) = SessionHead::ref_from_prefix(signed.get(size_of::<NativeHeader>()..)?).ok()?;
        is_native.then_some(Self {
            op: header.op,
            sequence: header.request_id.get(),
            session: head.session,
            body,
            signed,
            mac,
        })
    }

    pub(crate) fn has_valid_mac(&self, key: &SessionKey) -> bool {
        key.verifies(self.sequence, self.signed, self.mac)
    }
}

/// Writes a datagram into `out`; `fill` appends its body.
pub(crate) fn write(
    out: &mut Vec<u8>,
    (op, sequence): (u8, u64),
    session: &Session,
    key: &SessionKey,
    fill: impl FnOnce(&mut Vec<u8>),
) {
    out.clear();
    out.extend_from_slice(request_header(op, sequence, 0).as_bytes());
    out.extend_from_slice(session);
    fill(out);
    let length = out.len() + FABRIC_MAC_BYTES - size_of::<NativeHeader>();
    let header = request_header(op, sequence, u16::try_from(length).unwrap_or(u16::MAX));
    out[..size_of::<NativeHeader>()].copy_from_slice(header.as_bytes());
    let mac = key.seal(sequence, out);
    out.extend_from_slice(&mac);
}

/// Returns a datagram with a valid MAC and any body, as an end that has the key could send it: a receiver if `op` has
/// the reply bit, otherwise a sender. Only tests use this function.
pub fn sealed_datagram(shared: &SharedKey, session: &Session, op: u8, sequence: u64, body: &[u8]) -> Vec<u8> {
    let way = if op & NATIVE_REPLY_BIT == 0 {
        Direction::ToReceiver
    } else {
        Direction::ToSender
    };
    let mut out = Vec::new();
    let key = shared.session(way, session);
    write(&mut out, (op, sequence), session, &key, |out| {
        out.extend_from_slice(body)
    });
    out
}
