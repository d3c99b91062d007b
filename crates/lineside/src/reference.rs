//! The reference of commands, `docs/cli.md`, written from what clap knows of each verb.
//!
//! `make cli` writes the page; the test fails where it differs from what would be written.

use clap::{Arg, ArgAction, Command, CommandFactory};
use std::fmt::Write;
use std::path::Path;

/// Arguments that every verb has; [`HEAD`] describes them.
const OF_EVERY_VERB: [&str; 5] = ["help", "version", "json", "log_level", "log_format"];

/// Maximum number of columns of a line of text.
const COLUMNS: usize = 120;

/// Text before the first command.
const HEAD: &str = "\
# Commands

Generated from the program's own help by `make cli`. `lineside help VERB` prints the same.

`--json`, before or after any verb, prints JSON objects instead of text, one a line. Placeholders say what they take:
`DIR` a directory, `FILE` a file, `ADDR:PORT` an IP address or host name, and a port. `--log-level
error|warn|info|debug|trace` and `--log-format text|json` set the [log](operations.md#log) on standard error. The exit
codes are in
[operations](operations.md#exit-codes), the benches and tests of `lineside-lab` in [the laboratory](lab.md).
";

/// Returns the page for a command and all its subcommands.
fn reference(mut command: Command) -> String {
    command.build();
    let mut page = HEAD.to_owned();
    verbs(&mut page, &command, 2);
    page
}

/// Writes a section for each visible subcommand, in the order of the help.
fn verbs(page: &mut String, command: &Command, level: usize) {
    let visible = command.get_subcommands();
    for verb in visible.filter(|verb| verb.get_name() != "help" && !verb.is_hide_set()) {
        let name = verb.get_bin_name().unwrap_or(verb.get_name());
        let _ = writeln!(page, "\n{} `{name}`\n", "#".repeat(level));
        let about = verb.get_long_about().or(verb.get_about());
        let about = about.map(ToString::to_string).unwrap_or_default();
        paragraphs(page, &sentence(&about), "", "");
        let usage = verb.clone().render_usage().to_string();
        let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
        page.push('\n');
        for line in usage.lines() {
            let _ = writeln!(page, "    {}", line.trim());
        }
        let arguments: Vec<&Arg> = verb
            .get_arguments()
            .filter(|argument| is_shown(argument))
            .collect();
        if !arguments.is_empty() {
            page.push('\n');
        }
        for argument in arguments {
            describe(page, argument);
        }
        verbs(page, verb, level + 1);
    }
}

/// Returns true for an argument of the verb itself: not hidden, and not one that every verb has.
fn is_shown(argument: &Arg) -> bool {
    !argument.is_hide_set() && !OF_EVERY_VERB.contains(&argument.get_id().as_str())
}

/// Writes the list item of an argument: its form, its help, its default and its values.
fn describe(page: &mut String, argument: &Arg) {
    let takes_values = matches!(argument.get_action(), ArgAction::Set | ArgAction::Append);
    let form = argument.to_string();
    let help = argument.get_long_help().or(argument.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let mut text = format!("`{form}`: {}", sentence(&help));
    let values = argument.get_possible_values();
    if takes_values && !values.is_empty() && !argument.is_hide_possible_values_set() {
        let named: Vec<String> = values
            .iter()
            .filter(|value| !value.is_hide_set())
            .map(|value| match value.get_help() {
                Some(help) => format!("`{}` ({help})", value.get_name()),
                None => format!("`{}`", value.get_name()),
            })
            .collect();
        let _ = write!(text, " Values: {}.", named.join(", "));
    }
    let defaults: Vec<_> = argument
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    if takes_values && !defaults.is_empty() && !argument.is_hide_default_value_set() {
        let _ = write!(text, " Default: `{}`.", defaults.join(" "));
    }
    paragraphs(page, &text, "- ", "  ");
}

/// Returns a text with a full stop at its end, which clap takes away from short helps.
fn sentence(text: &str) -> String {
    let text = text.trim_end();
    if text.is_empty() || text.ends_with(['.', '?', ':']) {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

/// Writes text as paragraphs of lines of at most [`COLUMNS`], the first one after `first`, the others after `rest`.
fn paragraphs(page: &mut String, text: &str, first: &str, rest: &str) {
    for (number, paragraph) in text.split("\n\n").enumerate() {
        if number > 0 {
            page.push('\n');
        }
        let mut line = if number == 0 { first } else { rest }.to_owned();
        let mut is_empty = true;
        for word in escaped(paragraph).split_whitespace() {
            if !is_empty && line.chars().count() + 1 + word.chars().count() > COLUMNS {
                let _ = writeln!(page, "{line}");
                rest.clone_into(&mut line);
                is_empty = true;
            }
            if !is_empty {
                line.push(' ');
            }
            line.push_str(word);
            is_empty = false;
        }
        let _ = writeln!(page, "{line}");
    }
}

/// Escapes what Markdown would read as markup, outside spans of code.
fn escaped(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(number, part)| {
        if number % 2 == 1 {
            part.to_owned()
        } else {
            part.replace('<', "\\<").replace('*', "\\*")
        }
    });
    parts.collect::<Vec<_>>().join("`")
}

#[test]
fn the_page_of_commands_agrees_with_the_help() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let expected = reference(crate::Cli::command());
    if std::env::var_os("LINESIDE_WRITE_CLI").is_some() {
        std::fs::write(&page, &expected).expect("written");
    }
    let page_text = std::fs::read_to_string(&page).unwrap_or_default();
    let differing = expected
        .lines()
        .zip(page_text.lines())
        .position(|(expected, found)| expected != found);
    assert!(
        page_text == expected,
        "docs/cli.md is not fresh from line {differing:?} on: run `make cli`"
    );
}

#[test]
fn a_command_is_described_with_its_arguments_and_options() {
    let verb = Command::new("get")
        .about("Ask for a key")
        .arg(Arg::new("key").required(true).help("The <key>"))
        .arg(
            Arg::new("wait")
                .long("wait")
                .action(ArgAction::SetTrue)
                .help("Wait for `<it>`"),
        )
        .arg(
            Arg::new("from")
                .long("from")
                .value_name("DIR")
                .default_value("here")
                .help("Where it is."),
        );
    let page = reference(Command::new("tool").subcommand(verb));
    let expected = "\n## `tool get`\n\nAsk for a key.\n\n    tool get [OPTIONS] <key>\n\n- `<key>`: The \\<key>.\n\
                    - `--wait`: Wait for `<it>`.\n- `--from <DIR>`: Where it is. Default: `here`.\n";
    assert_eq!(page.strip_prefix(HEAD), Some(expected));
}
