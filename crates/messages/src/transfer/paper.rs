//! Requests and answers in the paper's packet format.

use super::AccountId;
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
    #[inline]
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
    #[inline]
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
    #[inline]
    pub fn command_in_journal(&self) -> Result<u8, Code> {
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

    /// Returns the packet with another command and amount, as in a reply.
    #[inline]
    pub fn packet(&self, command: u32, amount: u32) -> PaperTransfer {
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
    #[inline]
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
