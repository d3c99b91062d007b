//! Modes of signature verification for benches, which compare their speed. This module exists only with the cargo
//! feature `laboratory`. Crates of `lab/` enable the feature; the daemon is built without it.

use crate::execute::SignatureCheck;
use crate::executor::MessageVerifier;
use crate::signatures::{CheckedMessage, Digests, transaction_ids};
use crate::verify_worker::{ValidatedRequest, VerifyWorker};
use lineside_journal::Disk;
use lineside_messages::hybrid::block::{Hash, Message};
use lineside_verify::Verdict;
use lineside_verify::hash::{keccak256, keccak256_batch};

/// Way in which a node verifies signatures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Verifies in batches, exactly as without the feature `laboratory`.
    #[default]
    Batch,
    /// Verifies one signature at a time, to compare batches with it.
    Scalar,
    /// Accepts every signature without a check, to measure the cost of verification. With this mode any client can send
    /// requests in the name of any member.
    None,
}

impl<D: Disk> VerifyWorker<D> {
    /// Returns the ids and verdicts of the requests in the modes of this module, or `None` in batch mode.
    pub fn verify_otherwise(&self, validated: &[ValidatedRequest<'_>]) -> Option<(Vec<Hash>, Vec<Verdict>)> {
        let mut ids = vec![[0; 32]; validated.len()];
        match self.mode {
            Mode::Batch => None,
            Mode::Scalar => {
                let one = |(found, id): (&ValidatedRequest<'_>, &mut Hash)| {
                    *id = keccak256(found.tagged);
                    self.verifier.verify(&found.item(found.digest(id)))
                };
                let verdicts = validated.iter().zip(&mut ids).map(one).collect();
                Some((ids, verdicts))
            }
            Mode::None => {
                let messages: Vec<&[u8]> = validated.iter().map(|found| found.tagged).collect();
                keccak256_batch(&messages, &mut ids);
                Some((ids, vec![Verdict::Valid; validated.len()]))
            }
        }
    }
}

impl MessageVerifier {
    /// Returns the message as if all its signatures were valid, or `None` if the mode verifies signatures.
    pub fn check_nothing(&self, message: &Message<'_>, hash: Hash) -> Option<CheckedMessage> {
        let requests = message.requests();
        (self.mode == Mode::None).then(|| CheckedMessage {
            by_node: Some(true),
            signatures: vec![SignatureCheck::Valid; requests.len()],
            ids: transaction_ids(requests),
            digests: Digests::with(message, hash),
        })
    }
}
