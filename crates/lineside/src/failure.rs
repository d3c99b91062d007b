//! Errors of commands as text and as JSON, and their exit codes.

use crate::address::AddressError;
use crate::config::ConfigError;
use crate::wrong::Wrong;
use clap::error::ContextKind;
use lineside_bitcoin_node::SetupError;
use lineside_client::ClientError;
use lineside_fabric::ledger::LedgerError as FabricError;
use lineside_hybrid::join::JoinError;
use lineside_hybrid::ledger::LedgerError;
use lineside_hybrid::node::StartError;
use lineside_journal::Error as JournalError;
use lineside_service::config::DamagedData;
use lineside_spv::chain::ChainError;
use lineside_spv_proof::StoreError as HeadersError;
use lineside_transfer::host::OpenError;
use lineside_util::data_dir::DataDirError;
use lineside_util::key_file::KeyFileError;
use lineside_wire::Status;
use serde_json::{Value, json};
use std::ffi::OsString;

/// Kind of an error; `error.code` in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The command failed, was refused, or found nothing; exit code 1.
    Failed,
    /// The arguments are wrong; exit code 2.
    Usage,
    /// The configuration is wrong; exit code 2.
    Configuration,
    /// A server cannot start before an operator has repaired or restored its data; exit code 2.
    Damaged,
}

impl Code {
    const fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Configuration => "configuration",
            Self::Damaged => "damaged",
        }
    }
}

/// Returns the kind of an error with which a server ended. A server with damaged data fails in the same way at each
/// start, so a supervisor must not restart it; for all other commands damage is a failure.
pub fn code_of_server(error: &anyhow::Error) -> Code {
    match code(error) {
        Code::Failed if error.chain().any(is_damage) => Code::Damaged,
        other => other,
    }
}

/// Returns true if `cause` says that a server's data must be repaired or restored.
fn is_damage(cause: &(dyn std::error::Error + 'static)) -> bool {
    // The chain of causes skips the error inside of a transparent variant, so it is taken out of the variant here.
    let start = cause.downcast_ref::<StartError>();
    let of_hybrid = match start {
        Some(StartError::Ledger(error)) => Some(error),
        _ => cause.downcast_ref::<LedgerError>(),
    };
    let of_fabric = cause.downcast_ref::<FabricError>();
    let of_transfer = cause.downcast_ref::<OpenError>();
    let journal = match (of_hybrid, of_fabric, of_transfer) {
        (Some(LedgerError::Journal(error)), ..)
        | (_, Some(FabricError::Journal(error)), _)
        | (.., Some(OpenError::Journal(error))) => Some(error),
        _ => cause.downcast_ref::<JournalError>(),
    };
    journal.is_some_and(JournalError::needs_repair)
        || cause.is::<DamagedData>()
        || matches!(of_hybrid, Some(LedgerError::Damaged { .. }))
        || matches!(
            start,
            Some(StartError::NotReproduced { .. } | StartError::Snapshot(_))
        )
        || matches!(
            of_fabric,
            Some(
                FabricError::Record { .. }
                    | FabricError::Block { .. }
                    | FabricError::Checkpoint { .. }
                    | FabricError::Snapshot(_)
            )
        )
        || matches!(of_transfer, Some(OpenError::Replay { .. }))
        || matches!(
            cause.downcast_ref(),
            Some(ChainError::Corrupt { .. } | ChainError::NotAStore { .. })
        )
}

/// Returns the kind of an error.
pub fn code(error: &anyhow::Error) -> Code {
    if let Some(wrong) = error.downcast_ref::<ConfigError>() {
        match wrong.is_unresolved() {
            true => Code::Failed,
            false => Code::Configuration,
        }
    } else if error.is::<Wrong>()
        || matches!(error.downcast_ref(), Some(AddressError::Form(_)))
        || error.chain().any(is_wrong_setting)
    {
        Code::Usage
    } else {
        Code::Failed
    }
}

/// Returns true if the arguments or the configuration name a directory with data of another service, network, database
/// or mode, a directory of another user, the key of another node, or a file with a secret or a certificate that cannot
/// be used. The same command fails until they are corrected, so a supervisor must not restart it.
fn is_wrong_setting(cause: &(dyn std::error::Error + 'static)) -> bool {
    let of_directory = |error: &DataDirError| error.is_wrong_argument();
    let of_node = |error: &SetupError| !matches!(error, SetupError::Runtime(_));
    // The chain of causes skips the error inside of a transparent variant, so it is taken out of the variant here.
    let join = cause.downcast_ref();
    let start = match join {
        Some(JoinError::Start(error)) => Some(error),
        _ => cause.downcast_ref::<StartError>(),
    };
    let ledger = match (join, start) {
        (Some(JoinError::Ledger(error)), _) | (_, Some(StartError::Ledger(error))) => Some(error),
        _ => cause.downcast_ref::<LedgerError>(),
    };
    cause.downcast_ref().is_some_and(of_directory)
        || matches!(ledger, Some(LedgerError::OtherGenesis))
        || matches!(start, Some(StartError::NotANode(_)))
        || cause.downcast_ref().is_some_and(of_node)
        || cause.is::<KeyFileError>()
        || matches!(cause.downcast_ref(), Some(ChainError::OtherNetwork { .. }))
        || matches!(cause.downcast_ref(), Some(HeadersError::OtherKind { .. }))
        || matches!(cause.downcast_ref(), Some(OpenError::OtherMode(_)))
}

/// Returns the text of an error and its causes, without causes whose text the message already contains.
pub fn words(error: &anyhow::Error) -> String {
    error.chain().skip(1).fold(error.to_string(), |told, cause| {
        let cause = cause.to_string();
        if told.contains(&cause) {
            told
        } else {
            format!("{told}: {cause}")
        }
    })
}

/// First words of the clause of an error's text that says what to do. Such a clause follows `; ` or `: ` and ends with
/// the text of its error; causes follow.
const REMEDIES: [&str; 65] = [
    "add", "ask", "bring", "build", "capture", "change", "check", "chmod", "choose", "close", "commit",
    "compare", "convert", "copy", "correct", "create", "cut", "decide", "delete", "detach", "disable", "do",
    "enable", "end", "fill", "follow", "free", "give", "import", "install", "join", "leave", "load", "lower",
    "make", "mount", "move", "name", "open", "raise", "read", "redirect", "remove", "rename", "repair",
    "repeat", "report", "restart", "restore", "restrict", "resume", "run", "see", "send", "set", "split",
    "start", "stop", "try", "unpack", "upgrade", "use", "verify", "wait", "write",
];

/// Beginnings of clauses that name a command to run.
const COMMANDS: [&str; 3] = ["`lineside ", "`bpftool ", "--"];

/// First word of a clause.
fn first_word(clause: &str) -> &str {
    clause.split([' ', ',', ':']).next().unwrap_or_default()
}

/// Returns true if a clause after `separator` says what to do.
fn is_remedy(separator: &str, clause: &str) -> bool {
    let is_imperative = |clause: &str| {
        let first = first_word(clause);
        let rest = &clause[first.len()..];
        REMEDIES.contains(&first) && rest.starts_with(' ') && !rest.starts_with(" of ")
    };
    if separator == ": " {
        // "remove x: permission denied" names what failed.
        return is_imperative(clause) && !clause.contains(": ");
    }
    // "if this happens again, remove the folder"; "to read it, run …".
    let depends = ["if ", "to "].iter().any(|word| clause.starts_with(word));
    let then = clause.split_once(", ").filter(|_| depends);
    let is_question = clause.starts_with("is ") && clause.trim_end().ends_with('?');
    let is_command = COMMANDS.iter().any(|command| clause.starts_with(command));
    is_imperative(clause)
        || then.is_some_and(|(_, then)| is_imperative(then))
        || is_question
        || is_command
        || clause == "restart"
}

/// Splits the text of one error into its statement and its remedy, such as `give another directory`.
fn split_remedy(text: &str) -> (&str, Option<&str>) {
    let separators = text.char_indices().filter_map(|(at, _)| {
        let separator = text.get(at..at + 2)?;
        matches!(separator, "; " | ": ").then_some((at, separator))
    });
    for (at, separator) in separators {
        let clause = &text[at + separator.len()..];
        if is_remedy(separator, clause) {
            return (&text[..at], Some(clause));
        }
    }
    (text, None)
}

/// Returns the message of an error with its causes but without remedies, and the remedies. Together they say the same
/// as [`words`].
pub fn message_and_hint(error: &anyhow::Error) -> (String, Option<String>) {
    let chain: Vec<String> = error.chain().map(ToString::to_string).collect();
    let (mut told, mut message, mut hints) = (String::new(), String::new(), Vec::new());
    for (at, text) in chain.iter().enumerate() {
        if at > 0 && told.contains(text.as_str()) {
            continue;
        }
        told.push_str(text);
        // If an error repeats the text of its cause at its end, the remedy ends where that text begins.
        let cause = chain
            .get(at + 1)
            .and_then(|cause| text.strip_suffix(cause.as_str()));
        let own = cause.and_then(|own| own.strip_suffix(": ")).unwrap_or(text);
        // Each line of the error reports a separate mistake, with its own remedy. Among several, a remedy begins with
        // the place of its mistake, which is the beginning of the line.
        let lines: Vec<_> = own.lines().map(split_remedy).collect();
        let place = |statement: &str| match lines.len() {
            1 => String::new(),
            _ => statement
                .split_once(": ")
                .map_or(String::new(), |(place, _)| format!("{place}: ")),
        };
        let statements: Vec<_> = lines.iter().map(|(statement, _)| *statement).collect();
        let statement = statements.join("\n");
        let separator = if message.is_empty() { "" } else { ": " };
        message = format!("{message}{separator}{statement}{}", &text[own.len()..]);
        let remedies = lines
            .iter()
            .filter_map(|(statement, remedy)| Some(format!("{}{}", place(statement), (*remedy)?)));
        hints.extend(remedies);
    }
    (message, (!hints.is_empty()).then(|| hints.join("; ")))
}

/// Returns the name of the status with which a server refused a request as a whole. Names stay the same in all
/// versions.
pub fn refusal(error: &anyhow::Error) -> Option<&'static str> {
    error.chain().find_map(|cause| match cause.downcast_ref()? {
        ClientError::Refused { status, .. } => Some(status.name()),
        ClientError::Busy(_) => Some(Status::Busy.name()),
        _ => None,
    })
}

/// Returns the JSON object of an error.
pub fn object(code: Code, message: &str, hint: Option<&str>) -> Value {
    json!({"error": {"code": code.name(), "message": message, "hint": hint}})
}

/// Returns the JSON object of clap's error, whose text is the message, then an empty line and what to do.
pub fn usage_object(text: &str) -> Value {
    let text = text.trim();
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let (message, hint) = text.split_once("\n\n").unzip();
    let message = one_line(message.unwrap_or(text));
    let (statement, remedy) = split_remedy(&message);
    let hints: Vec<_> = remedy
        .map(str::to_owned)
        .into_iter()
        .chain(hint.map(one_line))
        .collect();
    let hint = (!hints.is_empty()).then(|| hints.join("; "));
    object(Code::Usage, statement, hint.as_deref())
}

/// Returns the error of a command line that clap refused only because a host name has no address. Its exit code is that
/// of a failed command, because the command line itself is right.
pub fn unresolved(told: &clap::Error) -> Option<anyhow::Error> {
    let error = std::error::Error::source(told)?.downcast_ref::<AddressError>()?;
    matches!(error, AddressError::Unresolved { .. }).then_some(())?;
    let option = told.get(ContextKind::InvalidArg).map(ToString::to_string);
    let option = option.and_then(|option| option.split(' ').next().map(str::to_owned));
    let error = anyhow::Error::new(error.clone());
    Some(match option {
        Some(option) => error.context(option),
        None => error,
    })
}

/// Returns `text` with each run of white space as one space.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns true if `--json` is among the options of a command line that clap refused.
pub fn asks_for_json(arguments: impl IntoIterator<Item = OsString>) -> bool {
    arguments
        .into_iter()
        .skip(1)
        .take_while(|argument| argument != "--")
        .any(|argument| argument == "--json")
}

#[cfg(test)]
#[path = "failure_text_tests.rs"]
mod texts;

#[cfg(test)]
mod tests {
    use super::{
        Code, FabricError, JournalError, asks_for_json, code, code_of_server, message_and_hint, usage_object,
        words,
    };
    use crate::config::Config;
    use anyhow::{Error, anyhow};
    use lineside_bitcoin_node::SetupError;
    use lineside_hybrid::ledger::LedgerError;
    use lineside_hybrid::node::StartError;
    use lineside_service::config::DamagedData;
    use lineside_transfer::host::OpenError;
    use lineside_util::key_file::KeyFileError;
    use serde_json::json;

    /// Regression test: these errors of the configuration had the exit code of a failure, so a supervisor restarted
    /// the server again and again.
    #[test]
    fn files_and_keys_that_cannot_be_used_are_wrong_arguments() {
        let exposed = || KeyFileError::Exposed {
            path: "password".into(),
            mode: 0o644,
        };
        for wrong in [
            Error::new(SetupError::from(exposed())),
            Error::new(SetupError::NoUser),
            Error::new(exposed()).context("cannot start"),
            Error::new(StartError::NotANode(7)).context("cannot open the ledger"),
        ] {
            assert_eq!(code(&wrong), Code::Usage, "{wrong:#}");
        }
        let failed = Error::new(std::io::Error::from(std::io::ErrorKind::NotFound)).context("cannot start");
        assert_eq!(code(&failed), Code::Failed);
    }

    /// Regression test: systemd started a server with a damaged journal again in each second.
    #[test]
    fn damaged_data_ends_a_server_for_good_but_an_error_of_the_disk_does_not() {
        let damaged = || JournalError::Damaged {
            file: "1.log".into(),
            offset: 9,
            lsn: 3,
            what: "a record is damaged",
        };
        let full = || JournalError::Full {
            file: "1.log".into(),
            needed_bytes: 9,
        };
        type Wrap = fn(JournalError) -> Error;
        let wraps: [Wrap; 5] = [
            |error| Error::new(error).context("cannot start"),
            |error| Error::new(OpenError::Journal(error)).context("cannot start"),
            |error| Error::new(LedgerError::Journal(error)).context("cannot start"),
            |error| Error::new(StartError::Ledger(LedgerError::Journal(error))),
            |error| Error::new(FabricError::Journal(error)),
        ];
        for wrap in wraps {
            let (damaged, full) = (wrap(damaged()), wrap(full()));
            assert_eq!(code_of_server(&damaged), Code::Damaged, "{damaged:#}");
            assert_eq!(code(&damaged), Code::Failed, "a client's command: {damaged:#}");
            assert_eq!(code_of_server(&full), Code::Failed, "{full:#}");
        }
        let marked = Error::new(DamagedData("bad rows".into())).context("opening /data");
        assert_eq!(code_of_server(&marked), Code::Damaged);
    }

    /// The resolver may know the name later, so a supervisor must start the server again.
    #[test]
    fn a_name_without_an_address_in_a_configuration_is_a_failure() {
        let of = |listen: &str| {
            let mut config = Config::default();
            config.console.set("listen", listen);
            Error::new(config.check().err().expect("a mistake"))
        };
        assert_eq!(code(&of("no-such-host.invalid:1")), Code::Failed);
        assert_eq!(code(&of("localhost")), Code::Configuration);
    }

    #[test]
    fn an_error_of_clap_has_a_message_and_a_hint() {
        let text = "error: unexpected argument '--x' found\n\nUsage: lineside run\n\n\
                    For more information, try '--help'.";
        let expected = json!({"error": {
            "code": "usage",
            "message": "unexpected argument '--x' found",
            "hint": "Usage: lineside run For more information, try '--help'.",
        }});
        assert_eq!(usage_object(text), expected);
        let required = "error: the following required arguments were not provided:\n  <DIR>\n";
        let object = usage_object(required);
        assert_eq!(
            object["error"]["message"],
            "the following required arguments were not provided: <DIR>"
        );
        assert_eq!(object["error"]["hint"], json!(null));
    }

    #[test]
    fn the_clause_that_says_what_to_do_is_the_hint() {
        for (error, message, hint) in [
            (
                anyhow!("data: no chain store; `lineside spv init --data data` creates one"),
                "data: no chain store",
                Some("`lineside spv init --data data` creates one"),
            ),
            (
                anyhow!("address in use")
                    .context("cannot listen on 7702; give another address with --listen"),
                "cannot listen on 7702: address in use",
                Some("give another address with --listen"),
            ),
            (
                anyhow!("refused").context("a: use gRPC: refused"),
                "a: refused",
                Some("use gRPC"),
            ),
            (
                anyhow!("mode 644: chmod 600 it").context("key file; remove it"),
                "key file: mode 644",
                Some("remove it; chmod 600 it"),
            ),
            (
                anyhow!("cannot reach the node; is a server running at --server?"),
                "cannot reach the node",
                Some("is a server running at --server?"),
            ),
            (
                anyhow!("f:2: a = 1: no such key; remove it\nf:3: b = 2: must be 1"),
                "f:2: a = 1: no such key\nf:3: b = 2: must be 1",
                Some("f:2: remove it"),
            ),
            (
                anyhow!("no member has this key; if it was added later, give its member with --member N"),
                "no member has this key",
                Some("if it was added later, give its member with --member N"),
            ),
            (
                anyhow!("the state is read; if it is large, this takes time"),
                "the state is read; if it is large, this takes time",
                None,
            ),
            (anyhow!("read: No such file"), "read: No such file", None),
            (anyhow!("data: remove x: denied"), "data: remove x: denied", None),
            (
                anyhow!("cannot load: read of 8 bytes"),
                "cannot load: read of 8 bytes",
                None,
            ),
            (anyhow!("3 of 4 keys not found"), "3 of 4 keys not found", None),
        ] {
            let found = message_and_hint(&error);
            assert_eq!(
                (found.0.as_str(), found.1.as_deref()),
                (message, hint),
                "{}",
                words(&error)
            );
        }
    }

    #[test]
    fn json_is_an_option_only_before_two_dashes() {
        let line = |words: &[&str]| asks_for_json(words.iter().map(Into::into));
        assert!(line(&["lineside", "run", "--json"]));
        assert!(!line(&["--json", "run"]));
        assert!(!line(&["lineside", "column", "put", "--", "--json"]));
    }
}
