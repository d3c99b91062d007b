//! Errors of commands as text and as JSON, and their exit codes.

use crate::config::ConfigError;
use crate::wrong::Wrong;
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
}

impl Code {
    const fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Configuration => "configuration",
        }
    }
}

/// Returns the kind of an error.
pub fn code(error: &anyhow::Error) -> Code {
    if error.is::<ConfigError>() {
        Code::Configuration
    } else if error.is::<Wrong>() {
        Code::Usage
    } else {
        Code::Failed
    }
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

/// Returns the JSON object of an error.
pub fn object(code: Code, message: &str, hint: Option<&str>) -> Value {
    json!({"error": {"code": code.name(), "message": message, "hint": hint}})
}

/// Returns the JSON object of clap's error, whose text is the message, then an empty line and what to do.
pub fn usage_object(text: &str) -> Value {
    let text = text.trim();
    let text = text.strip_prefix("error: ").unwrap_or(text);
    let (message, hint) = text.split_once("\n\n").unzip();
    let message = message.unwrap_or(text);
    object(Code::Usage, &one_line(message), hint.map(one_line).as_deref())
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
mod tests {
    use super::{asks_for_json, usage_object};
    use serde_json::json;

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
    fn json_is_an_option_only_before_two_dashes() {
        let line = |words: &[&str]| asks_for_json(words.iter().map(Into::into));
        assert!(line(&["lineside", "run", "--json"]));
        assert!(!line(&["--json", "run"]));
        assert!(!line(&["lineside", "column", "put", "--", "--json"]));
    }
}
