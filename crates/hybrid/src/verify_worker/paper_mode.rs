//! Requests in the paper's format in the verify workers.

use super::{RequestKind, ValidatedRequest, VerifyWorker};
use crate::answer::Answer;
use crate::ledger::StoredBlock;
use crate::membership::Membership;
use crate::ticket::Ticket;
use lineside_journal::Disk;
use lineside_messages::hybrid::block::{Hash, Header};
use lineside_messages::hybrid::paper::{Body, Request};
use lineside_messages::hybrid::request::MemberId;
use lineside_wire::HybridCode as Code;

impl<D: Disk> VerifyWorker<D> {
    /// Makes the checks of a request that can precede the verification of its signature.
    pub(super) fn validate_paper<'a>(
        &self,
        membership: &Membership,
        ticket: &Ticket,
        (signature, bytes): (&'a [u8; 64], &'a [u8]),
        tagged: &'a [u8],
    ) -> Result<ValidatedRequest<'a>, Code> {
        let request = Request::decode(bytes).map_err(|_| Code::Malformed)?;
        if !membership.is_paper() {
            return Err(Code::WrongMode);
        }
        let key_owner = membership.key_owner(&request.public_key);
        let (member, number, key) = key_owner.ok_or(Code::UnknownMember)?;
        if !membership.is_active(member, number) {
            return Err(Code::Revoked);
        }
        if request.body.is_ordered() && self.shared.read_only().is_some() {
            return Err(Code::ReadOnly);
        }
        Ok(ValidatedRequest {
            ticket: ticket.clone(),
            kind: RequestKind::Paper(request.body, member),
            tagged,
            signature,
            key: *key,
        })
    }

    /// Returns the answer to a request that was already ordered and executed. A refusal in the paper's mode is not
    /// final, so a refused request is ordered again.
    pub(super) fn answer_if_ordered(&self, kind: &RequestKind<'_>, id: &Hash) -> Option<Answer> {
        let ordered_before = self.ordered_before(id)?;
        (matches!(kind, RequestKind::Native(_)) || ordered_before.code() == Code::Done)
            .then_some(ordered_before)
    }

    /// Answers a read. The paper's requests have no nonce, so a replayed read is answered again.
    pub(super) fn read_paper(&self, membership: &Membership, body: &Body<'_>, member: MemberId) -> Answer {
        let key = body.key().as_bytes();
        if !membership.rights(member, key).read {
            return Answer::Refused(Code::NotAllowed);
        }
        let cell = self.shared.read_view().cell(key).cloned();
        match (body, cell) {
            (Body::Get { .. }, cell) => Answer::Cells(vec![cell]),
            (Body::Verify { .. }, Some(cell)) => match self.header(cell.version.block) {
                Some(header) => Answer::Block(Box::new(header)),
                // The ledger cannot be read.
                None => Answer::Refused(Code::ReadOnly),
            },
            (Body::Verify { .. }, None) => Answer::Refused(Code::Unknown),
            (Body::Set { .. }, _) => Answer::Refused(Code::Malformed),
        }
    }

    fn header(&self, block: u64) -> Option<Header> {
        let payload = self.blocks.read(block).ok()?;
        Some(StoredBlock::decode(&payload).ok()?.header)
    }
}
