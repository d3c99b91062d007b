//! Kinds of UDP requests that a host answers.

use crate::request::Request;

/// Kinds of requests that are answered. The host refuses the others with the status `not_kept`, and the fast path
/// stores nothing for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tables {
    /// True if `root`, `roots` and the paper's packets are answered.
    pub roots: bool,
    /// True if `proof` is answered.
    pub proofs: bool,
    /// True if `witness_proof` and `wtxid_proof` are answered.
    pub witnesses: bool,
    /// True if `headers` is answered.
    pub headers: bool,
}

impl Default for Tables {
    /// Enables all kinds.
    fn default() -> Self {
        Self {
            roots: true,
            proofs: true,
            witnesses: true,
            headers: true,
        }
    }
}

impl Tables {
    /// Returns true if requests of this kind are answered.
    pub(super) fn answer(&self, request: &Request<'_>) -> bool {
        match request {
            Request::Root(..) | Request::Roots(..) => self.roots,
            Request::Proof(..) => self.proofs,
            Request::WitnessProof(..) | Request::WtxidProof(..) => self.witnesses,
            Request::Headers(..) => self.headers,
        }
    }
}
