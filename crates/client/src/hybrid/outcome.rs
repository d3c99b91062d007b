//! Outcome of a transaction, which a client asks for by its id.
//!
//! ```text
//!   read the outcome -> placed                                    -> Placed
//!      `-> unknown   -> no expiry is known                        -> NotYet
//!             `-> read, with an expiry above that of the request
//!                    -> unknown, or the expiry is too far         -> NotYet
//!                    -> expired: the node's clock is past both, and the node accepts no copy of the request any more
//!                         `-> read the outcome -> placed          -> Placed
//!                                `-> unknown                      -> NotExecuted
//! ```

use super::AskError;
use super::request::Version;
use lineside_wire::HybridCode as Code;

/// Time in milliseconds after the expiry of a request until its outcome is final.
const AFTER_EXPIRY_MS: u64 = 2_000;

/// Outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransactionOutcome {
    /// The transaction is in the ledger. This outcome is final.
    Placed {
        /// Result of its execution.
        code: Code,
        /// Block of the transaction, and its index in the block.
        version: Version,
    },
    /// The transaction was not executed and never will be: the node has no such transaction, and accepts no copy of its
    /// request any more. This outcome is final.
    NotExecuted,
    /// The outcome is not final yet: the node has no such transaction, and a copy of its request may still arrive. Ask
    /// again later, and do not make the change again in another request before that.
    NotYet,
}

/// Answer of a node to one read of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Placed { code: Code, version: Version },
    Refused(Code),
}

/// Next read of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// The first read.
    First,
    /// A read that is valid until this time in milliseconds since 1970, after the request's expiry.
    Until(u64),
    /// The last read, after the node has refused a read that expires later than the request.
    Last,
}

/// Step after a read of an outcome.
#[derive(Debug)]
pub(super) enum Step {
    Again(Read),
    End(Result<TransactionOutcome, AskError>),
}

/// Returns the step after an answer to a read. `expiry_ms` is the expiry of the transaction's request, if it is known.
pub(super) fn next(read: Read, answer: Answer, expiry_ms: Option<u64>) -> Step {
    let code = match answer {
        Answer::Placed { code, version } => {
            return Step::End(Ok(TransactionOutcome::Placed { code, version }));
        }
        Answer::Refused(code) => code,
    };
    match (read, code, expiry_ms) {
        (_, Code::OutcomeUnknown, _) | (Read::First, Code::Unknown, None) => {
            Step::End(Ok(TransactionOutcome::NotYet))
        }
        (Read::First, Code::Unknown, Some(expiry_ms)) => {
            Step::Again(Read::Until(expiry_ms.saturating_add(AFTER_EXPIRY_MS)))
        }
        (Read::Until(_), Code::Unknown | Code::ExpiryTooFar, _) => Step::End(Ok(TransactionOutcome::NotYet)),
        (Read::Until(_), Code::Expired, _) => Step::Again(Read::Last),
        (Read::Last, Code::Unknown, _) => Step::End(Ok(TransactionOutcome::NotExecuted)),
        (_, code, _) => Step::End(Err(AskError::Refused(code))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asks a node that gives these answers. Returns the outcome, and the reads.
    fn asked(
        expiry_ms: Option<u64>,
        answers: &[Answer],
    ) -> (Result<TransactionOutcome, AskError>, Vec<Read>) {
        let mut reads = vec![Read::First];
        for answer in answers {
            match next(reads[reads.len() - 1], *answer, expiry_ms) {
                Step::Again(read) => reads.push(read),
                Step::End(outcome) => return (outcome, reads),
            }
        }
        panic!("the client still asks: {reads:?}");
    }

    #[test]
    fn only_an_answer_after_the_expiry_is_final() {
        let (unknown, expired) = (Answer::Refused(Code::Unknown), Answer::Refused(Code::Expired));
        let placed = Answer::Placed {
            code: Code::Conflict,
            version: Version { block: 7, index: 1 },
        };
        let found = TransactionOutcome::Placed {
            code: Code::Conflict,
            version: Version { block: 7, index: 1 },
        };
        let after = Read::Until(12_000);
        for (expiry_ms, answers, outcome, reads) in [
            (None, &[placed][..], found, vec![Read::First]),
            (None, &[unknown], TransactionOutcome::NotYet, vec![Read::First]),
            (
                Some(10_000),
                &[unknown, unknown],
                TransactionOutcome::NotYet,
                vec![Read::First, after],
            ),
            (
                Some(10_000),
                &[unknown, Answer::Refused(Code::ExpiryTooFar)],
                TransactionOutcome::NotYet,
                vec![Read::First, after],
            ),
            (
                Some(10_000),
                &[Answer::Refused(Code::OutcomeUnknown)],
                TransactionOutcome::NotYet,
                vec![Read::First],
            ),
            (Some(10_000), &[unknown, placed], found, vec![Read::First, after]),
            (
                Some(10_000),
                &[unknown, expired, unknown],
                TransactionOutcome::NotExecuted,
                vec![Read::First, after, Read::Last],
            ),
            // A copy of the request arrived between the first read and the expiry.
            (
                Some(10_000),
                &[unknown, expired, placed],
                found,
                vec![Read::First, after, Read::Last],
            ),
        ] {
            let (found, asked) = asked(expiry_ms, answers);
            assert_eq!((found.unwrap(), asked), (outcome, reads), "{answers:?}");
        }
    }

    #[test]
    fn the_refusal_of_a_read_says_nothing_about_the_transaction() {
        for code in [Code::Expired, Code::Revoked, Code::Busy] {
            let (refused, _) = asked(Some(1), &[Answer::Refused(code)]);
            assert!(
                matches!(refused, Err(AskError::Refused(named)) if named == code),
                "{refused:?}"
            );
        }
    }
}
