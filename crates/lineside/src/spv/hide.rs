//! Takes the password of a node out of the command line, which every user of the machine can read.

use lineside_bitcoin_node::{NodeUrl, PASSWORD_VARIABLE, Secret};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Starts this program again, with the password in the environment, if `--node` has one in its URL. Only the process's
/// own user and root can read its environment.
///
/// # Errors
/// The system's reason why the program cannot be started again.
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

/// Returns the arguments without the password in the URL of `--node`, and the password; `None` where there is none.
fn without_password(arguments: &[OsString]) -> Option<(Vec<OsString>, Secret)> {
    let mut kept = Vec::with_capacity(arguments.len());
    let mut found = None;
    let mut is_url = false;
    for argument in arguments {
        let text = argument.to_str().unwrap_or_default();
        let (prefix, url) = match text.strip_prefix("--node=") {
            Some(url) => ("--node=", url),
            None if is_url => ("", text),
            None => ("", ""),
        };
        is_url = argument == OsStr::new("--node");
        match split(url) {
            Some((shown, password)) => {
                found = Some(password);
                kept.push(format!("{prefix}{shown}").into());
            }
            None => kept.push(argument.clone()),
        }
    }
    Some((kept, found?))
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
    fn a_password_leaves_the_command_line() {
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
    fn other_arguments_stay() {
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
