//! Commands of claims. They run as programs with arguments, never through a shell.

use super::page::Section;
use anyhow::Context;
use serde_json::Value;
use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Factor by which a command may exceed the minutes of the page before it is ended.
const PATIENCE: u32 = 5;
/// Interval at which a running command is looked at.
const INTERVAL: Duration = Duration::from_millis(50);
/// Maximum length of the output of a command; a report has some kilobytes.
const OUTPUT_MAX: u64 = 64 << 20;

/// Programs that commands may call.
pub struct Programs {
    /// Folder of `lineside` and `lineside-lab`.
    folder: PathBuf,
    cargo: OsString,
}

/// Result of a command that ended by itself.
#[derive(Debug)]
pub struct Ended {
    pub exit_code: i32,
    /// JSON that the command printed; `None` if it printed none. Several objects are an array.
    pub report: Option<Value>,
    /// Last line of standard error, or the message of the JSON error in it.
    pub last_words: String,
}

impl Programs {
    /// Returns the programs in the folder of this program, and cargo.
    ///
    /// # Errors
    /// The path of this program is unknown.
    pub fn next_to_this_one() -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("cannot find the path of this program")?;
        Ok(Self::in_folder(own.parent().unwrap_or(Path::new("."))))
    }

    /// Returns the programs in a folder, and cargo.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            cargo: std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
        }
    }

    /// Returns the file of the program with this name on the page.
    ///
    /// # Errors
    /// The name is not one of the accepted programs.
    pub fn file(&self, name: &str) -> Result<PathBuf, String> {
        match name {
            "lineside" | "lineside-lab" => Ok(self.folder.join(name)),
            "cargo" => Ok(self.cargo.clone().into()),
            script if is_script(script) => Ok(script.into()),
            other => Err(format!(
                "`{other}` is not accepted: a command calls lineside, lineside-lab, cargo or a file in scripts/"
            )),
        }
    }

    /// Runs the command of a section.
    ///
    /// # Errors
    /// Returns the reason why the command did not end by itself.
    pub fn run(&self, section: &Section) -> Result<Ended, String> {
        let (name, arguments) = section.command.split_first().ok_or("the command is empty")?;
        let file = self.file(name)?;
        let mut child = Command::new(&file)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot run {}: {error}", file.display()))?;
        let (out, err) = (collect(child.stdout.take()), collect(child.stderr.take()));
        let limit = Duration::from_secs(60) * section.minutes * PATIENCE;
        let status = wait(&mut child, limit).map_err(|error| format!("cannot wait for {name}: {error}"))?;
        let Some(status) = status else {
            return Err(format!(
                "the command ran for more than {} minutes and was ended",
                section.minutes * PATIENCE
            ));
        };
        let [out, err] = [out, err].map(|text| text.join().unwrap_or_default());
        let last_words = last_words(&err);
        let Some(exit_code) = status.code() else {
            return Err(format!(
                "the command was ended by a signal ({status}): {last_words}"
            ));
        };
        Ok(Ended {
            exit_code,
            report: report(&out),
            last_words,
        })
    }
}

/// Returns true for the name of a file in `scripts/` itself.
fn is_script(name: &str) -> bool {
    let is_plain = |file: &str| {
        !file.is_empty()
            && !file.starts_with('.')
            && (file.chars()).all(|one| one.is_ascii_alphanumeric() || matches!(one, '-' | '_' | '.'))
    };
    name.strip_prefix("scripts/").is_some_and(is_plain)
}

fn collect(from: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(from) = from {
            // If reading fails, the text so far is used; a report that is not complete is not JSON.
            let _ = from.take(OUTPUT_MAX).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for the end of a process; ends it after `limit`, and then returns `None`.
fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(INTERVAL);
    }
}

/// Parses the output of a command: one JSON value, or an array of all values if there are several.
fn report(text: &str) -> Option<Value> {
    let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let values: Result<Vec<_>, _> = values.collect();
    let mut values = values.ok()?;
    match values.len() {
        0 => None,
        1 => values.pop(),
        _ => Some(Value::Array(values)),
    }
}

fn last_words(text: &str) -> String {
    let last = text
        .lines()
        .rfind(|line| !line.trim().is_empty())
        .unwrap_or_default();
    let object: Option<Value> = serde_json::from_str(last).ok();
    let message = object
        .as_ref()
        .and_then(|object| object.pointer("/error/message")?.as_str());
    message.unwrap_or(last).trim().to_owned()
}
