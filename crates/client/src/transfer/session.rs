//! Sessions, and their packet without a reply.

use super::{Operation, OutcomeId, operations::keys_of};

/// Session: the server executes each of its packets once, by its sequence number. A session belongs to one client at a
/// time; any client that has it can continue it.
#[derive(Clone, PartialEq, Eq)]
pub struct Session {
    /// Slot number.
    pub slot: u32,
    /// Secret token.
    pub token: u64,
    /// Sequence number of its next packet, or of the packet that has no reply yet.
    pub next: u64,
    /// Operations of the packet that may have been sent and has no reply yet.
    unanswered: Option<Vec<Operation>>,
}

impl Session {
    /// Returns a session of which all packets have replies.
    pub const fn new(slot: u32, token: u64, next: u64) -> Self {
        Self {
            slot,
            token,
            next,
            unanswered: None,
        }
    }

    /// Returns the session with the operations of a packet that may have been sent and has no reply yet, as a program
    /// stored them before it ended.
    #[must_use]
    pub fn with_unanswered(mut self, operations: Vec<Operation>) -> Self {
        self.unanswered = Some(operations);
        self
    }

    /// Returns the operations of the packet that has no reply yet; `None` if there is none.
    pub fn unanswered(&self) -> Option<&[Operation]> {
        self.unanswered.as_deref()
    }

    /// Gives up the packet without a reply, whose outcome then stays unknown. If the server has executed it, it refuses
    /// the next packet, with [`Status::Sequence`](lineside_wire::Status::Sequence) or
    /// [`Status::Reused`](lineside_wire::Status::Reused).
    pub fn abandon(&mut self) {
        self.unanswered = None;
    }

    /// Returns the name of a packet of `operations` with the session's next number.
    pub(super) fn id(&self, operations: &[Operation]) -> OutcomeId {
        OutcomeId::TransferPacket {
            slot: self.slot,
            sequence: self.next,
            idempotency_keys: keys_of(operations),
        }
    }

    pub(super) fn unanswered_id(&self) -> Option<OutcomeId> {
        self.unanswered().map(|operations| self.id(operations))
    }

    /// Notes that the packet has a reply.
    pub(super) fn executed(&mut self) {
        self.unanswered = None;
        self.next += 1;
    }

    /// Notes that the packet may have been executed.
    pub(super) fn unknown(&mut self, operations: &[Operation]) {
        self.unanswered = Some(operations.to_vec());
    }
}

/// Leaves out the token, which must not get into logs.
impl std::fmt::Debug for Session {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Session")
            .field("slot", &self.slot)
            .field("next", &self.next)
            .field("is_unanswered", &self.unanswered.is_some())
            .finish_non_exhaustive()
    }
}

#[test]
fn the_debug_text_of_a_session_has_no_token() {
    let session = Session::new(1, 987_654_321, 2);
    let text = "Session { slot: 1, next: 2, is_unanswered: false, .. }";
    assert_eq!(format!("{session:?}"), text);
}
