//! The paper's packet format: parser, and encoder of replies.

use crate::AccountId;
use crate::native::Sink;
use lineside_wire::{
    PaperTransfer, TRANSFER_COMMAND_CREATE, TRANSFER_COMMAND_REFER, TRANSFER_COMMAND_TRANSFER,
    TRANSFER_PAPER_BYTES_MAX, TRANSFER_PAPER_BYTES_MIN, TRANSFER_PAPER_REFUSED, TransferCode as Code,
};
use zerocopy::{FromBytes, IntoBytes};

/// Request in the paper's format; its length is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaperRequest {
    /// 1 CREATE, 2 ISSUE, 3 TRANSFER, 4 REFER; others are refused.
    pub command: u32,
    /// Transaction id; 0 if the request is sent once and never repeated.
    pub transaction_id: u32,
    /// Source account: the sender, the account to create, or the account that is queried.
    pub source: u32,
    /// Destination account.
    pub destination: u32,
    /// Amount.
    pub amount: u32,
    /// True if the padding of the frame consists of zeros, as the format requires.
    filled_with_zeros: bool,
}

impl PaperRequest {
    /// Parses a payload; `None` if its length is not one of the paper's format.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        if !(TRANSFER_PAPER_BYTES_MIN..=TRANSFER_PAPER_BYTES_MAX).contains(&payload.len()) {
            return None;
        }
        let (packet, filler) = PaperTransfer::ref_from_prefix(payload).ok()?;
        Some(Self {
            command: packet.command.get(),
            transaction_id: packet.transaction_id.get(),
            source: packet.source.get(),
            destination: packet.destination.get(),
            amount: packet.amount.get(),
            filled_with_zeros: filler.iter().all(|byte| *byte == 0),
        })
    }

    /// Creates a request as a client sends it.
    pub const fn new(command: u8, transaction_id: u32, source: u32, destination: u32, amount: u32) -> Self {
        Self {
            command: command as u32,
            transaction_id,
            source,
            destination,
            amount,
            filled_with_zeros: true,
        }
    }

    /// Returns the bytes that a client sends.
    pub fn to_bytes(&self) -> [u8; TRANSFER_PAPER_BYTES_MAX] {
        let mut bytes = [0; TRANSFER_PAPER_BYTES_MAX];
        bytes[..TRANSFER_PAPER_BYTES_MIN].copy_from_slice(self.packet(self.command, self.amount).as_bytes());
        bytes
    }

    /// Returns whether the packet is a refusal, and therefore not a request.
    pub const fn is_refusal(&self) -> bool {
        self.command & TRANSFER_PAPER_REFUSED != 0
    }

    /// Returns the command if the request is valid. A TRANSFER of 0 is invalid.
    ///
    /// # Errors
    /// `bad_command`.
    pub fn command(&self) -> Result<u8, Code> {
        match self.command_in_journal() {
            Ok(TRANSFER_COMMAND_TRANSFER) if self.amount == 0 => Err(Code::BadCommand),
            command => command,
        }
    }

    /// Returns the command of a request in the journal. Journals of earlier versions contain transfers of 0.
    ///
    /// # Errors
    /// `bad_command`.
    pub(crate) fn command_in_journal(&self) -> Result<u8, Code> {
        let known = u32::from(TRANSFER_COMMAND_CREATE)..=u32::from(TRANSFER_COMMAND_REFER);
        if self.filled_with_zeros && known.contains(&self.command) {
            Ok(self.command as u8)
        } else {
            Err(Code::BadCommand)
        }
    }

    /// Returns the source as a native account.
    pub const fn source_id(&self) -> AccountId {
        AccountId::from_paper(self.source)
    }

    /// Returns the destination as a native account.
    pub const fn destination_id(&self) -> AccountId {
        AccountId::from_paper(self.destination)
    }

    /// Returns whether the request has a transaction id, so that a repetition gets the stored reply.
    pub const fn is_numbered(&self) -> bool {
        self.transaction_id != 0 && self.command != TRANSFER_COMMAND_REFER as u32
    }

    /// Writes the reply to the request received as `payload`; returns `false` if it does not fit.
    #[must_use]
    pub fn put_reply(&self, payload: &[u8], answer: PaperAnswer, reply: &mut impl Sink) -> bool {
        let filler = [0; TRANSFER_PAPER_BYTES_MAX - TRANSFER_PAPER_BYTES_MIN];
        let filler = &filler[..payload
            .len()
            .saturating_sub(TRANSFER_PAPER_BYTES_MIN)
            .min(filler.len())];
        let (command, amount) = match answer.code {
            Code::Done => (self.command, answer.amount),
            code => (self.command | TRANSFER_PAPER_REFUSED, code as u32),
        };
        reply.put(self.packet(command, amount).as_bytes()) && reply.put(filler)
    }

    fn packet(&self, command: u32, amount: u32) -> PaperTransfer {
        PaperTransfer {
            command: command.into(),
            transaction_id: self.transaction_id.into(),
            source: self.source.into(),
            destination: self.destination.into(),
            amount: amount.into(),
        }
    }
}

/// Reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PaperAnswer {
    /// `done`, or the reason of the refusal.
    pub code: Code,
    /// Balance of the source after the request; 0 for a refusal.
    pub amount: u32,
}

impl PaperAnswer {
    /// Returns the reply `done` with the source's balance, or a refusal if the format cannot represent the balance.
    pub fn done(balance: u64) -> Self {
        match u32::try_from(balance) {
            Ok(amount) => Self {
                code: Code::Done,
                amount,
            },
            Err(_) => Self::refused(Code::Overflow),
        }
    }

    /// Returns a refusal.
    pub const fn refused(code: Code) -> Self {
        Self { code, amount: 0 }
    }
}

impl From<Result<u64, Code>> for PaperAnswer {
    fn from(outcome: Result<u64, Code>) -> Self {
        match outcome {
            Ok(balance) => Self::done(balance),
            Err(code) => Self::refused(code),
        }
    }
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
    use lineside_wire::TRANSFER_COMMAND_TRANSFER;

    const PACKET: [u8; 20] = [0, 0, 0, 3, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 1, 0];

    #[test]
    fn the_papers_fields_are_where_the_paper_has_them() {
        let request = PaperRequest::parse(&PACKET).unwrap();
        let same = PaperRequest::new(TRANSFER_COMMAND_TRANSFER, 9, 0x01020304, 0x05060708, 256);
        assert_eq!(request, same);
        assert_eq!(&request.to_bytes()[..20], &PACKET);
        for bytes in 0..64 {
            let payload = [0; 64];
            assert_eq!(
                PaperRequest::parse(&payload[..bytes]).is_some(),
                (20..=22).contains(&bytes)
            );
        }
    }

    #[test]
    fn replies_have_the_length_and_fields_of_their_request() {
        let mut padded = PACKET.to_vec();
        for _ in 0..3 {
            let request = PaperRequest::parse(&padded).unwrap();
            let mut reply = Reply::default();
            assert!(request.put_reply(&padded, PaperAnswer::done(77), &mut reply));
            let mut expected = padded.clone();
            expected[16..20].copy_from_slice(&77u32.to_be_bytes());
            assert_eq!(reply.as_bytes(), expected);
            reply.clear();
            assert!(request.put_reply(&padded, PaperAnswer::refused(Code::Overflow), &mut reply));
            expected[0] = 0x80;
            expected[16..20].copy_from_slice(&4u32.to_be_bytes());
            assert_eq!(reply.as_bytes(), expected);
            assert!(PaperRequest::parse(reply.as_bytes()).unwrap().is_refusal());
            padded.push(0);
        }
    }

    #[test]
    fn malformed_operations_are_bad_commands() {
        for command in [0u32, 5, 6, 256, 0x4000_0003] {
            let mut packet = PACKET;
            packet[..4].copy_from_slice(&command.to_be_bytes());
            assert_eq!(
                PaperRequest::parse(&packet).unwrap().command(),
                Err(Code::BadCommand)
            );
        }
        let mut packet = PACKET.to_vec();
        packet.push(1);
        assert_eq!(
            PaperRequest::parse(&packet).unwrap().command(),
            Err(Code::BadCommand)
        );
        assert_eq!(PaperAnswer::done(1 << 32), PaperAnswer::refused(Code::Overflow));
    }

    #[test]
    fn the_last_id_repeats_and_lower_ones_are_stale() {
        let request = PaperRequest::parse(&PACKET).unwrap();
        let last = PaperLast {
            request,
            answer: PaperAnswer::done(5),
        };
        let with = |transaction_id, amount| PaperRequest {
            transaction_id,
            amount,
            ..request
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
