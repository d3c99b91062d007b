//! The paper's packet format: encoder of replies, and the last request of an account.

pub use lineside_messages::transfer::paper::{PaperAnswer, PaperRequest};

use crate::native::Sink;
use lineside_wire::{
    TRANSFER_PAPER_BYTES_MAX, TRANSFER_PAPER_BYTES_MIN, TRANSFER_PAPER_REFUSED, TransferCode as Code,
};
use zerocopy::IntoBytes;

/// Writes the reply to the request received as `payload`; returns `false` if it does not fit.
#[must_use]
pub fn put_reply(request: &PaperRequest, payload: &[u8], answer: PaperAnswer, reply: &mut impl Sink) -> bool {
    let filler = [0; TRANSFER_PAPER_BYTES_MAX - TRANSFER_PAPER_BYTES_MIN];
    let filler = &filler[..payload
        .len()
        .saturating_sub(TRANSFER_PAPER_BYTES_MIN)
        .min(filler.len())];
    let (command, amount) = match answer.code {
        Code::Done => (request.command, answer.amount),
        code => (request.command | TRANSFER_PAPER_REFUSED, code as u32),
    };
    reply.put(request.packet(command, amount).as_bytes()) && reply.put(filler)
}

/// Last request of an account that had a transaction id, with its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaperLast {
    /// The request.
    pub request: PaperRequest,
    /// Reply to the request.
    pub answer: PaperAnswer,
}

impl PaperLast {
    /// Returns the reply to a request with a used transaction id, without executing it; `None` if the id is new.
    pub fn answer(last: Option<&Self>, request: &PaperRequest) -> Option<PaperAnswer> {
        let last = last?;
        match request.transaction_id.cmp(&last.request.transaction_id) {
            std::cmp::Ordering::Greater => None,
            std::cmp::Ordering::Less => Some(PaperAnswer::refused(Code::StaleId)),
            std::cmp::Ordering::Equal if last.request == *request => Some(last.answer),
            std::cmp::Ordering::Equal => Some(PaperAnswer::refused(Code::IdReused)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_fastpath::Reply;

    const PACKET: [u8; 20] = [0, 0, 0, 3, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 1, 0];

    #[test]
    fn replies_have_the_length_and_fields_of_their_request() {
        let mut padded = PACKET.to_vec();
        for _ in 0..3 {
            let request = PaperRequest::parse(&padded).unwrap();
            let mut reply = Reply::default();
            assert!(put_reply(&request, &padded, PaperAnswer::done(77), &mut reply));
            let mut expected = padded.clone();
            expected[16..20].copy_from_slice(&77u32.to_be_bytes());
            assert_eq!(reply.as_bytes(), expected);
            reply.clear();
            assert!(put_reply(
                &request,
                &padded,
                PaperAnswer::refused(Code::Overflow),
                &mut reply
            ));
            expected[0] = 0x80;
            expected[16..20].copy_from_slice(&4u32.to_be_bytes());
            assert_eq!(reply.as_bytes(), expected);
            assert!(PaperRequest::parse(reply.as_bytes()).unwrap().is_refusal());
            padded.push(0);
        }
    }

    #[test]
    fn the_last_id_repeats_and_lower_ones_are_stale() {
        let request = PaperRequest::parse(&PACKET).unwrap();
        let last = PaperLast {
            request,
            answer: PaperAnswer::done(5),
        };
        let with = |transaction_id, amount| {
            let mut other = request;
            (other.transaction_id, other.amount) = (transaction_id, amount);
            other
        };
        assert_eq!(PaperLast::answer(None, &request), None);
        assert_eq!(
            PaperLast::answer(Some(&last), &request),
            Some(PaperAnswer::done(5))
        );
        assert_eq!(PaperLast::answer(Some(&last), &with(10, 1)), None);
        let refused = |code| Some(PaperAnswer::refused(code));
        assert_eq!(
            PaperLast::answer(Some(&last), &with(8, 256)),
            refused(Code::StaleId)
        );
        assert_eq!(
            PaperLast::answer(Some(&last), &with(9, 255)),
            refused(Code::IdReused)
        );
    }
}
