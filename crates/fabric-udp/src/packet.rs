//! Datagrams: header, session, body, MAC.

use super::mac::{Session, SessionKey, SharedKey, Way};
use lineside_wire::native::request_header;
use lineside_wire::{
    FABRIC_MAC_BYTES, FABRIC_OP_ANNOUNCE, FABRIC_OP_DATA, NATIVE_MAGIC, NATIVE_REPLY_BIT, NATIVE_VERSION,
    NativeHeader, SessionHead,
};
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of every datagram besides its body.
pub const AROUND_BYTES: usize = size_of::<NativeHeader>() + size_of::<SessionHead>() + FABRIC_MAC_BYTES;
/// The receiver's one operation.
pub(crate) const OP_WANT: u8 = FABRIC_OP_ANNOUNCE | NATIVE_REPLY_BIT;
pub(crate) const OP_ANNOUNCE: u8 = FABRIC_OP_ANNOUNCE;
pub(crate) const OP_DATA: u8 = FABRIC_OP_DATA;

/// A datagram of the right form. Its MAC is not yet looked at.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The operation, with the reply bit in what receivers send.
    pub op: u8,
    /// The sequence.
    pub sequence: u64,
    /// The session of the end that sent it.
    pub session: Session,
    /// The body.
    pub body: &'a [u8],
    signed: &'a [u8],
    mac: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads a datagram; `None`: it is not of this protocol.
    pub fn read(datagram: &'a [u8]) -> Option<Self> {
        let (header, rest) = NativeHeader::ref_from_prefix(datagram).ok()?;
        let ours = header.magic.get() == NATIVE_MAGIC
            && header.version == NATIVE_VERSION
            && header.status.get() == 0
            && usize::from(header.length.get()) == rest.len()
            && matches!(header.op, OP_ANNOUNCE | OP_DATA | OP_WANT);
        let (signed, mac) = datagram.split_at_checked(datagram.len().checked_sub(FABRIC_MAC_BYTES)?)?;
        let (head, body) = SessionHead::ref_from_prefix(signed.get(size_of::<NativeHeader>()..)?).ok()?;
        ours.then_some(Self {
            op: header.op,
            sequence: header.request_id.get(),
            session: head.session,
            body,
            signed,
            mac,
        })
    }

    pub(crate) fn holds(&self, key: &SessionKey) -> bool {
        key.holds(self.sequence, self.signed, self.mac)
    }
}

/// Writes a datagram into `out`, whose body `fill` appends.
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

/// A datagram with the right MAC and any body: what a sender or, with the reply bit in `op`, a receiver that has the
/// key could send. For tests.
pub fn sealed(shared: &SharedKey, session: &Session, op: u8, sequence: u64, body: &[u8]) -> Vec<u8> {
    let way = if op & NATIVE_REPLY_BIT == 0 {
        Way::ToReceiver
    } else {
        Way::ToSender
    };
    let mut out = Vec::new();
    let key = shared.session(way, session);
    write(&mut out, (op, sequence), session, &key, |out| {
        out.extend_from_slice(body)
    });
    out
}
