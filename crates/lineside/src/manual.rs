//! `lineside completions` and `lineside man`: scripts for shells and pages for `man`, made from the program's own help.

use anyhow::{Context, bail};
use clap::{Args, Command};
use clap_complete::Shell;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Name under which the program is installed.
const PROGRAM: &str = "lineside";

/// Print a completion script for a shell.
///
/// For bash: `lineside completions bash > /usr/share/bash-completion/completions/lineside`. For zsh, the file is
/// `_lineside` in a folder of $fpath; for fish, `~/.config/fish/completions/lineside.fish`.
#[derive(Args)]
pub struct Completions {
    /// Shell that reads the script.
    #[arg(value_enum)]
    shell: Shell,
}

/// Write the manual pages, one for each verb, into a directory.
///
/// `man -l DIR/lineside.1` shows the first one.
#[derive(Args)]
pub struct Man {
    /// Existing directory for the pages, such as /usr/local/share/man/man1.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Prints the completion script for a shell.
///
/// # Errors
/// Standard output cannot be written.
pub fn completions(arguments: &Completions, mut command: Command, as_json: bool) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, PROGRAM, &mut script);
    let script = String::from_utf8(script).context("the completion script is not UTF-8")?;
    if as_json {
        let shell = arguments.shell.to_string();
        say!("{}", json!({"shell": shell, "script": script}))?;
    } else {
        crate::out::text(script)?;
    }
    Ok(())
}

/// Writes a manual page for each visible verb of `command`, and prints the number of pages.
///
/// # Errors
/// The directory does not exist, or a page cannot be written.
pub fn man(arguments: &Man, command: Command, as_json: bool) -> anyhow::Result<()> {
    let directory = &arguments.directory;
    if !directory.is_dir() {
        bail!("{}: no such directory; create it first", directory.display());
    }
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let pages = pages(&command, directory)?;
    if as_json {
        say!("{}", json!({"directory": directory, "pages": pages}))?;
    } else {
        say!("{pages} manual pages in {}", directory.display())?;
    }
    Ok(())
}

/// Writes the page of `command` and of its visible subcommands, and returns their number.
fn pages(command: &Command, directory: &Path) -> anyhow::Result<usize> {
    let mut written = 1;
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        written += pages(verb, directory)?;
    }
    clap_mangen::Man::new(command.clone())
        .source(format!("{PROGRAM} {}", crate::version::SHORT))
        .manual("Lineside")
        .generate_to(directory)
        .with_context(|| format!("{}: writing a manual page", directory.display()))?;
    Ok(written)
}
