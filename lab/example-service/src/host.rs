//! Host of `odometer`: owns the number, and answers the requests that the fast path forwards.

use crate::fastpath::{Store, parse, put_number};
use lineside_fastpath::{Host, Reader, Reply, Source, Verdict};
use lineside_wire::{Status, native};
use std::sync::atomic::Ordering::Release;
use std::sync::{Arc, Mutex, PoisonError};
use zerocopy::IntoBytes;

/// Host that stores the number in memory. Only the host writes the number in the fast-path table.
pub struct OdometerHost {
    number: Mutex<u64>,
    store: Arc<Store>,
}

impl OdometerHost {
    /// Returns a host whose number is 0, and writes 0 into the table.
    pub fn new(store: Arc<Store>) -> Self {
        store.as_slice()[0].number.store(0, Release);
        let number = Mutex::new(0);
        Self { number, store }
    }

    /// Adds to the number and returns the sum, or `None` if the sum overflows.
    ///
    /// The table contains the new number before this call returns, so no `read` after the answer to `add` gets the old
    /// number. One atomic store is enough; `spv` and `column` change several words, protected by sequence numbers.
    pub fn add(&self, added: u64) -> Option<u64> {
        let mut number = self.number.lock().unwrap_or_else(PoisonError::into_inner);
        *number = number.checked_add(added)?;
        self.store.as_slice()[0].number.store(*number, Release);
        Some(*number)
    }
}

impl Host for OdometerHost {
    fn serve(&self, _from: Source, request: &[u8], reply: &mut Reply, sender: &Reader) -> Verdict {
        if let Some(reason) = native::drop_reason(request) {
            return Verdict::Drop(reason);
        }
        let answer = parse(request)
            .and_then(|(header, added)| Ok((header, self.add(added).ok_or(Status::BadRequest)?)));
        sender.pin();
        let is_written = match answer {
            Ok((header, number)) => put_number(reply, header, number),
            Err(status) => {
                native::refusal(request, status).is_some_and(|header| reply.put(header.as_bytes()))
            }
        };
        if is_written {
            Verdict::Reply
        } else {
            Verdict::Forward
        }
    }
}
