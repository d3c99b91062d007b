//! Counts of the calls that a server refused, by their gRPC code.

use std::sync::atomic::{AtomicU64, Ordering};
use tonic::Code;

/// Codes of refused calls, in the order of the counters. Other codes, which a server does not choose itself, count as
/// UNKNOWN.
const CODES: [(Code, &str); 10] = [
    (Code::Unknown, "UNKNOWN"),
    (Code::InvalidArgument, "INVALID_ARGUMENT"),
    (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"),
    (Code::NotFound, "NOT_FOUND"),
    (Code::PermissionDenied, "PERMISSION_DENIED"),
    (Code::ResourceExhausted, "RESOURCE_EXHAUSTED"),
    (Code::OutOfRange, "OUT_OF_RANGE"),
    (Code::Unimplemented, "UNIMPLEMENTED"),
    (Code::Internal, "INTERNAL"),
    (Code::Unavailable, "UNAVAILABLE"),
];

/// Counters of refused calls, one for each code.
#[derive(Debug, Default)]
pub struct RefusedCalls([AtomicU64; CODES.len()]);

impl RefusedCalls {
    /// Counts a call that ended with `code`. [`Code::Ok`], and [`Code::Cancelled`], with which a client ends its own
    /// call, refuse nothing.
    pub fn count(&self, code: Code) {
        if matches!(code, Code::Ok | Code::Cancelled) {
            return;
        }
        let at = CODES.iter().position(|(known, _)| *known == code).unwrap_or(0);
        self.0[at].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the codes by name, each with its number of calls.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        CODES.into_iter().map(|(_, name)| name).zip(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_code_and_unlisted_codes_as_unknown() {
        let refused = RefusedCalls::default();
        let ended = [
            Code::Ok,
            Code::Cancelled,
            Code::PermissionDenied,
            Code::PermissionDenied,
            Code::Aborted,
            Code::Unknown,
        ];
        ended.into_iter().for_each(|code| refused.count(code));
        let counted: Vec<_> = refused.counts().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [("UNKNOWN", 2), ("PERMISSION_DENIED", 2)]);
    }
}
