//! Advice for a request of `lineside transfer` whose outcome is unknown. The text of the library is for programs, which
//! still have their session; a command has only the session file, and the idempotency keys of its operations.

use anyhow::{Error, anyhow};
use lineside_client::transfer::{AccountId, ClientError, IdempotencyKey, NoOutcome, OutcomeId};
use lineside_util::hex::to_hex;

/// Protection of a command's operation against a second execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// The session file has the packet, and the next command of the session must repeat it.
    SessionFile,
    /// The operation has an idempotency key, which was given or drawn.
    Key(IdempotencyKey),
    /// A second execution is refused, or changes nothing: CREATE, FREEZE and UNFREEZE.
    Repeatable,
    /// None: a repetition is executed again.
    Unprotected,
}

/// Returns true if the error says that the outcome of a packet of a session is unknown.
pub fn is_unknown(error: &Error) -> bool {
    matches!(
        error.downcast_ref(),
        Some(ClientError::OutcomeUnknown {
            id: OutcomeId::TransferPacket { .. },
            ..
        })
    )
}

/// Replaces the advice of a packet's error by `advice`; returns other errors unchanged.
pub fn advise(error: Error, advice: &str) -> Error {
    match error.downcast_ref() {
        Some(ClientError::OutcomeUnknown {
            server,
            cause,
            id: id @ OutcomeId::TransferPacket { .. },
        }) => {
            let cause = match cause {
                NoOutcome::Timeout(timeout) => format!("no answer from {server} within {timeout:?}"),
                cause => format!("{server}: {cause}"),
            };
            anyhow!("{cause}, so that the outcome of {id} is unknown; {advice}")
        }
        _ => error,
    }
}

/// Returns the advice for one operation of `account`.
pub fn advice(protection: Protection, account: AccountId) -> String {
    match protection {
        Protection::SessionFile => {
            "repeat exactly this command, with the same session file: the operation is executed once"
                .to_owned()
        }
        Protection::Key(key) => format!(
            "repeat this command with `--idempotency-key {}`, while the server remembers the key (24 hours by \
             default): the operation is executed once",
            to_hex(&key)
        ),
        Protection::Repeatable => {
            "repeat this command: a second execution is refused or changes nothing".to_owned()
        }
        Protection::Unprotected => format!(
            "do not repeat this command: it may be executed twice; {}",
            look(&account)
        ),
    }
}

/// Returns the advice for lines of a batch; `after` is the number of the line after them.
pub fn advice_for_lines(
    protection: Protection,
    (first, last): (usize, usize),
    after: Option<usize>,
    account: AccountId,
) -> String {
    match protection {
        Protection::SessionFile => format!(
            "send the unchanged lines from line {first} on again, with the same session file: each is executed once"
        ),
        Protection::Key(_) => format!(
            "send the unchanged lines from line {first} on again, while the server remembers the keys of the lines \
             {first} to {last} (24 hours by default): each of these lines is executed once"
        ),
        Protection::Repeatable | Protection::Unprotected => {
            let next = after.map_or(String::new(), |after| {
                format!(", then send the file from line {after} on")
            });
            format!(
                "do not send the lines {first} to {last} again: they may be executed twice; {}{next}",
                look(&account)
            )
        }
    }
}

fn look(account: &AccountId) -> String {
    format!(
        "`lineside transfer history {account} --data DIR`, on the server's machine, shows what was executed"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn unknown() -> Error {
        ClientError::OutcomeUnknown {
            server: ([127, 0, 0, 1], 7702).into(),
            cause: NoOutcome::Timeout(Duration::from_millis(400)),
            id: OutcomeId::TransferPacket {
                slot: 11,
                sequence: 1,
                idempotency_keys: Vec::new(),
            },
        }
        .into()
    }

    #[test]
    fn the_advice_of_a_command_replaces_that_of_the_library() {
        let account = AccountId::from_paper(77_001);
        let said = |protection| advise(unknown(), &advice(protection, account)).to_string();
        let all = [
            Protection::SessionFile,
            Protection::Key([0xab; 16]),
            Protection::Repeatable,
            Protection::Unprotected,
        ];
        for protection in all {
            let said = said(protection);
            assert!(
                said.starts_with(
                    "no answer from 127.0.0.1:7702 within 400ms, so that the outcome of packet 1 of session 11"
                ),
                "{said}"
            );
            assert!(!said.contains("same packet"), "{said}");
        }
        assert!(
            said(Protection::Key([0xab; 16])).contains(&format!("--idempotency-key {}", "ab".repeat(16)))
        );
        assert!(said(Protection::Unprotected).contains("do not repeat"));
        assert!(said(Protection::Unprotected).contains("history 77001"));
        assert!(is_unknown(&unknown()));
    }

    #[test]
    fn unprotected_lines_are_not_to_be_sent_again() {
        let account = AccountId::from_paper(7);
        let said = advice_for_lines(Protection::Unprotected, (3, 18), Some(19), account);
        assert!(said.starts_with("do not send the lines 3 to 18 again"), "{said}");
        assert!(
            said.contains("history 7 ") && said.ends_with("from line 19 on"),
            "{said}"
        );
        let said = advice_for_lines(Protection::SessionFile, (3, 18), Some(19), account);
        assert!(
            said.contains("from line 3 on again, with the same session file"),
            "{said}"
        );
    }
}
