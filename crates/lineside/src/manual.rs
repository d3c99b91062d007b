//! `lineside completions` and `lineside man`: scripts for shells and pages for `man`, made from the program's own help.

use crate::paths;
use anyhow::{Context, bail};
use clap::{Arg, ArgAction, Args, Command};
use clap_complete::Shell;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Name under which the program is installed.
const PROGRAM: &str = "lineside";

/// Exit codes of every verb, and their meanings.
const EXIT_CODES: [(u8, &str); 4] = [
    (0, "Done."),
    (1, "Failed, refused or not found."),
    (crate::EXIT_WRONG_ARGUMENTS, "Wrong arguments or configuration."),
    (
        crate::EXIT_CLOSED_PIPE,
        "The reader of standard output closed it.",
    ),
];

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
    let page = clap_mangen::Man::new(command.clone())
        .source(format!("{PROGRAM} {}", crate::version::SHORT))
        .manual("Lineside");
    let file = directory.join(page.get_filename());
    let mut text = Vec::new();
    page.render(&mut text)?;
    let text = String::from_utf8(text).context("a manual page is not UTF-8")?;
    let text = with_usual_sections(&with_synopsis(&text, command), command);
    std::fs::write(&file, text)
        .with_context(|| format!("{}: cannot write the manual page", file.display()))?;
    Ok(written)
}

/// Returns the page with the synopsis that [`synopsis`] makes, because the one of `clap_mangen` lacks the values of
/// options.
fn with_synopsis(page: &str, command: &Command) -> String {
    let [begin, end] = [".SH SYNOPSIS\n", ".SH DESCRIPTION\n"];
    let parts = page.split_once(begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(end)?;
        Some((before, after))
    });
    match parts {
        Some((before, after)) => format!("{before}{begin}{}\n{end}{after}", synopsis(command)),
        None => page.to_owned(),
    }
}

/// Returns the page with the sections that readers of manual pages expect: the section EXTRA of `clap_mangen`, which
/// groups the verbs, becomes a part of SUBCOMMANDS; EXIT STATUS and FILES are added; VERSION is left out, because the
/// page's last line names the version.
fn with_usual_sections(page: &str, command: &Command) -> String {
    let mut parts = page.split("\n.SH ");
    let mut text = parts.next().unwrap_or_default().to_owned();
    let mut groups = None;
    for part in parts {
        let (title, content) = part.split_once('\n').unwrap_or((part, ""));
        match title {
            "VERSION" => {}
            "EXTRA" => {
                groups = content
                    .split("\n\n")
                    .find(|paragraph| !paragraph.starts_with("Exit codes"))
            }
            _ => text += &format!("\n.SH {title}\n{}", content.trim_end()),
        }
    }
    if let Some(groups) = groups {
        text += &format!("\n.PP\n.nf\n{}\n.fi", groups.trim_end());
    }
    text += "\n.SH \"EXIT STATUS\"";
    for (code, meaning) in EXIT_CODES {
        text += &format!("\n.TP\n{}\n{}", bold(&code.to_string()), escaped(meaning));
    }
    let files = files(command);
    if !files.is_empty() {
        text += "\n.SH FILES";
    }
    for (path, meaning) in files {
        text += &format!("\n.TP\n{}\n{}", italic(path), escaped(meaning));
    }
    text + "\n"
}

/// Returns the files of the installed package that a command uses, each with its meaning. A client uses none.
fn files(command: &Command) -> Vec<(&'static str, &'static str)> {
    let has = |name: &str| command.get_arguments().any(|argument| argument.get_id() == name);
    let is_program = command.get_name() == PROGRAM;
    let mut files = Vec::new();
    if is_program || has("config") || command.get_name() == "check-config" {
        files.push((
            paths::CONFIGURATION,
            "Configuration of the service that the package installs.",
        ));
        files.push((
            paths::DATA,
            "Home directory of the service's user; relative paths in the configuration of the service begin here.",
        ));
    }
    if is_program || has("pin_dir") {
        files.push((
            paths::PINS,
            "Maps and programs of the XDP fast paths, on a BPF file system.",
        ));
    }
    files
}

/// Returns the synopsis of a command in roff: options with their values, arguments, and the place of a verb. `--help`
/// and `--version` are left out.
fn synopsis(command: &Command) -> String {
    let mut words = vec![bold(command.get_bin_name().unwrap_or_else(|| command.get_name()))];
    let is_shown = |argument: &&Arg| {
        let is_help = matches!(
            argument.get_action(),
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong | ArgAction::Version
        );
        !argument.is_hide_set() && !is_help
    };
    for is_required in [false, true] {
        let options = command
            .get_arguments()
            .filter(|argument| !argument.is_positional());
        let these = options
            .filter(is_shown)
            .filter(|one| one.is_required_set() == is_required);
        words.extend(these.map(|option| optional(option, &option_and_value(option))));
    }
    let positionals = command.get_positionals().filter(is_shown);
    words.extend(positionals.map(|argument| optional(argument, &value(argument))));
    if command.has_subcommands() {
        words.push(italic("COMMAND"));
    }
    words.join(" ")
}

fn takes_value(argument: &Arg) -> bool {
    matches!(argument.get_action(), ArgAction::Set | ArgAction::Append)
}

/// Returns the option with its value, if it takes one.
fn option_and_value(option: &Arg) -> String {
    let long = option.get_long().map(|long| format!("--{long}"));
    let name = bold(&long.unwrap_or_else(|| format!("-{}", option.get_short().unwrap_or_default())));
    match takes_value(option) {
        true => format!("{name} {}", value(option)),
        false => name,
    }
}

/// Returns the placeholders of an argument's values, with dots if there may be several.
fn value(argument: &Arg) -> String {
    let names = argument.get_value_names().unwrap_or_default();
    let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
    let name = match names.is_empty() {
        true => argument.get_id().as_str().to_uppercase(),
        false => names.join(" "),
    };
    let dots = if matches!(argument.get_action(), ArgAction::Append) {
        "..."
    } else {
        ""
    };
    format!("{}{dots}", italic(&name))
}

/// Encloses `text` in brackets if the argument may be left out.
fn optional(argument: &Arg, text: &str) -> String {
    match argument.is_required_set() {
        true => text.to_owned(),
        false => format!("[{text}]"),
    }
}

fn bold(text: &str) -> String {
    format!("\\fB{}\\fR", escaped(text))
}

fn italic(text: &str) -> String {
    format!("\\fI{}\\fR", escaped(text))
}

/// Escapes what roff would change: backslashes, and hyphens, which it takes as places to break a word.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_synopsis_has_the_values_of_options() {
        let mut command = crate::command();
        command.build();
        let spv = command.find_subcommand("spv").expect("spv");
        let get = spv.find_subcommand("get").expect("get");
        let plain = |command| {
            synopsis(command)
                .replace("\\fB", "")
                .replace("\\fI", "")
                .replace("\\fR", "")
        };
        let text = plain(get).replace("\\-", "-");
        for part in [
            "lineside spv get [",
            " [--server ADDR:PORT] ",
            " [--timeout-ms MS] ",
            " [--paper] ",
            " [--json] ",
            " [--log-level LEVEL] ",
            " TXID...",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(plain(spv).ends_with(" COMMAND"), "{}", plain(spv));
        let init = spv.find_subcommand("init").expect("init");
        let text = plain(init).replace("\\-", "-");
        assert!(text.ends_with("--data DIR --network NETWORK"), "{text}");
    }

    /// Returns the titles of the sections of a page in their order.
    fn titles(page: &str) -> Vec<&str> {
        let lines = page.lines().filter_map(|line| line.strip_prefix(".SH "));
        lines.map(|title| title.trim_matches('"')).collect()
    }

    #[test]
    fn the_sections_have_their_usual_names_and_places() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut command = crate::command().disable_help_subcommand(true);
        command.build();
        pages(&command, folder.path()).expect("pages");
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).expect(name);
        for entry in std::fs::read_dir(folder.path()).expect("a folder").flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let page = read(&name);
            let titles = titles(&page);
            assert!(
                !titles.contains(&"EXTRA") && !titles.contains(&"VERSION"),
                "{name}: {titles:?}"
            );
            let last = titles.iter().rev().find(|title| **title != "FILES");
            assert_eq!(last, Some(&"EXIT STATUS"), "{name}: {titles:?}");
        }
        let first = read("lineside.1");
        assert_eq!(titles(&first).last(), Some(&"FILES"));
        for path in [paths::CONFIGURATION, paths::DATA, paths::PINS] {
            assert!(
                first.contains(&format!(".TP\n{}\n", italic(path))),
                "{path}: {first}"
            );
        }
        assert!(!first.contains("Exit codes"), "{first}");
        let hybrid = read("lineside-hybrid.1");
        assert!(
            hybrid.contains("\n.nf\nNode:       init, key, serve\nData:"),
            "{hybrid}"
        );
        assert!(titles(&read("lineside-spv-serve.1")).contains(&"FILES"));
        assert!(!titles(&read("lineside-spv-get.1")).contains(&"FILES"));
    }

    #[test]
    fn a_page_has_this_synopsis() {
        let command = Command::new("x")
            .about("does y")
            .arg(Arg::new("z").long("z").value_name("FILE"));
        let mut page = Vec::new();
        clap_mangen::Man::new(command.clone())
            .render(&mut page)
            .expect("a page");
        let page = with_synopsis(&String::from_utf8(page).expect("UTF-8"), &command);
        assert!(
            page.contains(".SH SYNOPSIS\n\\fBx\\fR [\\fB\\-\\-z\\fR \\fIFILE\\fR]\n.SH DESCRIPTION\n"),
            "{page}"
        );
    }
}
