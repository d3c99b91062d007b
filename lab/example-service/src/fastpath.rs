//! Fast path of `odometer`: the executable specification of `xdp/odometer.bpf.c`.

use crate::layout::OdometerControl;
use lineside_fastpath::memory::Table;
use lineside_fastpath::{Counters, FastPath, Reply, Source, Verdict, lease};
use lineside_wire::{
    NativeHeader, ODOMETER_OP_ADD, ODOMETER_OP_READ, OdometerCounter, OdometerNumber, Status, native,
};
use std::sync::{Arc, atomic::Ordering::Acquire};
use zerocopy::{FromBytes, IntoBytes};

/// Fast-path table: one control record, in this process's memory or in a BPF map.
pub type Store = Table<OdometerControl>;

/// Returns the header of a request, and the number that the request adds to the odometer; for `read` this is 0.
///
/// # Errors
/// Status code with which the host answers an invalid request.
pub fn parse(payload: &[u8]) -> Result<(&NativeHeader, u64), Status> {
    let (header, body) = native::parse_request(payload)?;
    let body = OdometerNumber::ref_from_bytes(body).map_err(|_| Status::BadRequest)?;
    match (header.op, body.number.get()) {
        (ODOMETER_OP_READ, 0) => Ok((header, 0)),
        (ODOMETER_OP_ADD, added) => Ok((header, added)),
        _ => Err(Status::BadRequest),
    }
}

/// Writes the reply to a request, which is as long as the request. Returns false if it does not fit.
pub fn put_number(reply: &mut Reply, request: &NativeHeader, number: u64) -> bool {
    let header = native::reply_header(request, Status::Ok, size_of::<OdometerNumber>() as u16);
    let number = number.into();
    let body = OdometerNumber { number };
    reply.put(header.as_bytes()) && reply.put(body.as_bytes())
}

/// Fast path that answers `read` from a [`Store`] and forwards everything else to the host.
pub struct OdometerFastPath {
    /// Table to which the host writes.
    pub store: Arc<Store>,
    /// Counts of the events in [`OdometerCounter`].
    pub counters: Counters<{ OdometerCounter::ALL.len() }>,
}

impl FastPath for OdometerFastPath {
    fn answer(&self, _from: Source, now_ns: u64, request: &[u8], reply: &mut Reply) -> Verdict {
        if let Some(reason) = native::drop_reason(request) {
            return Verdict::Drop(reason);
        }
        let control = &self.store.as_slice()[0];
        let read = parse(request)
            .ok()
            .filter(|(header, _)| header.op == ODOMETER_OP_READ);
        let leased = read.filter(|_| lease::is_valid(&control.lease_until_ns, now_ns));
        // The number is one atomic word, so a reader never sees half of a change, and no sequence number is needed.
        let (counter, verdict) = match leased {
            Some((header, _)) if put_number(reply, header, control.number.load(Acquire)) => {
                (OdometerCounter::Reads, Verdict::Reply)
            }
            _ => (OdometerCounter::Forwarded, Verdict::Forward),
        };
        self.counters.add_one(counter as usize);
        verdict
    }
}
