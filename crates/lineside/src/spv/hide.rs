//! Removes a node's password from the command line, which every user of the machine can read (`ps`).

use lineside_bitcoin_node::{NodeUrl, PASSWORD_VARIABLE, Secret};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Executes this program again with the password in the environment, if the URL of `--node` or `--set spv.node=` has
/// one. Only the user of the process and root can read its environment.
///
/// # Errors
/// The program cannot be executed again.
pub fn hide_password() -> anyhow::Result<()> {
    let arguments: Vec<_> = std::env::args_os().collect();
    let Some((arguments, password)) = without_password(&arguments) else {
        return Ok(());
    };
    let mut command = Command::new(std::env::current_exe()?);
    if let Some((name, rest)) = arguments.split_first() {
        command.arg0(name).args(rest);
    }
    Err(command.env(PASSWORD_VARIABLE, password.reveal()).exec().into())
}

/// Returns the arguments without the password in the node's URL, and the password; `None` if there is no password.
fn without_password(arguments: &[OsString]) -> Option<(Vec<OsString>, Secret)> {
    let mut cleaned = Vec::with_capacity(arguments.len());
    let mut found_password = None;
    let mut before = "";
    for argument in arguments {
        let text = argument.to_str().unwrap_or_default();
        match url_in(before, text).and_then(|(prefix, url, suffix)| Some((prefix, split(url)?, suffix))) {
            Some((prefix, (name, password), suffix)) => {
                found_password = Some(password);
                cleaned.push(format!("{prefix}{name}{suffix}").into());
            }
            None => cleaned.push(argument.clone()),
        }
        before = text;
    }
    Some((cleaned, found_password?))
}

/// Splits an argument into the text before the node's URL, the URL, and the text after it; `None` if the argument holds
/// no URL. `before` is the preceding argument.
fn url_in<'a>(before: &str, argument: &'a str) -> Option<(&'a str, &'a str, &'a str)> {
    if before == "--node" {
        return Some(("", argument, ""));
    }
    if let Some(url) = argument.strip_prefix("--node=") {
        return Some(("--node=", url, ""));
    }
    let assignment = match before {
        "--set" => argument,
        _ => argument.strip_prefix("--set=")?,
    };
    let (key, value) = assignment.split_once('=')?;
    if key.trim() != "spv.node" {
        return None;
    }
    let quoted = value.trim();
    let url = quoted.strip_prefix(['"', '\'']).unwrap_or(quoted);
    let url = url.strip_suffix(['"', '\'']).unwrap_or(url);
    let (prefix, suffix) = argument.split_once(url)?;
    Some((prefix, url, suffix))
}

/// Returns the URL without its password, and the password.
fn split(url: &str) -> Option<(String, Secret)> {
    let parsed: NodeUrl = url.parse().ok()?;
    let password = parsed.endpoint()?.password.clone()?;
    let (scheme, rest) = url.split_once("://")?;
    let (login, address) = rest.rsplit_once('@')?;
    let (user, _) = login.split_once(':')?;
    Some((format!("{scheme}://{user}@{address}"), password))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(arguments: &[&str]) -> Option<(Vec<String>, String)> {
        let arguments: Vec<_> = arguments.iter().map(OsString::from).collect();
        let (kept, password) = without_password(&arguments)?;
        let kept = kept.iter().map(|one| one.to_str().unwrap().to_owned());
        Some((kept.collect(), password.reveal().to_owned()))
    }

    #[test]
    fn a_password_is_removed_from_the_command_line() {
        let (kept, password) =
            hidden(&["lineside", "spv", "serve", "--node", "btcd://u:p%40:@[::1]:8334"]).unwrap();
        assert_eq!(
            kept,
            ["lineside", "spv", "serve", "--node", "btcd://u@[::1]:8334"]
        );
        assert_eq!(password, "p@:");
        let (kept, password) = hidden(&["lineside", "--node=bitcoind://u:x@h:1", "--data", "d"]).unwrap();
        assert_eq!(
            (kept[1].as_str(), password.as_str()),
            ("--node=bitcoind://u@h:1", "x")
        );
    }

    #[test]
    fn a_password_is_removed_from_an_assignment() {
        for (argument, shown) in [
            ("spv.node=btcd://u:p@h:1", "spv.node=btcd://u@h:1"),
            ("spv.node = \"btcd://u:p@h:1\"", "spv.node = \"btcd://u@h:1\""),
        ] {
            let (kept, password) = hidden(&["lineside", "run", "--set", argument]).unwrap();
            assert_eq!((kept[3].as_str(), password.as_str()), (shown, "p"));
            let (kept, _) = hidden(&["lineside", "run", &format!("--set={argument}")]).unwrap();
            assert_eq!(kept[2], format!("--set={shown}"));
        }
        assert_eq!(
            hidden(&["lineside", "run", "--set", "spv.data=btcd://u:p@h:1"]),
            None
        );
    }

    #[test]
    fn other_arguments_are_not_changed() {
        for arguments in [
            &["lineside", "spv", "serve", "--node", "btcd://u@h:1"][..],
            &["lineside", "spv", "serve", "--node", "embedded"],
            &["lineside", "--other", "btcd://u:p@h:1"],
            &["lineside", "--node"],
        ] {
            assert_eq!(hidden(arguments), None, "{arguments:?}");
        }
    }
}
