//! Marker of a data directory: a small text file that names the service and its format version.

use super::{DataDirError, names};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Name of the marker's file.
pub const MARKER: &str = "lineside.dir";
/// Name of a marker file that is being written.
const UNFINISHED: &str = "lineside.dir.new";
/// Names that an empty directory may contain: files of an interrupted claim, and what file systems create.
const EMPTY: &[&str] = &["lock", "lost+found", UNFINISHED];

/// Kind of a data directory, as stated in its marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    service: &'static str,
    format: u32,
    /// Names of files that may be in a directory that has no marker yet.
    beside: &'static [&'static str],
}

impl Kind {
    /// Returns the kind of the data directories of `service` in this format version.
    pub const fn new(service: &'static str, format: u32) -> Self {
        Self {
            service,
            format,
            beside: &[],
        }
    }

    /// Allows files of these names in a directory that has no marker yet, such as a key that the operator provides.
    #[must_use]
    pub const fn beside(mut self, names: &'static [&'static str]) -> Self {
        self.beside = names;
        self
    }

    fn text(&self) -> String {
        format!("service {}\nformat {}\n", self.service, self.format)
    }

    fn words(&self) -> String {
        words(self.service, &self.format.to_string())
    }
}

fn words(service: &str, format: &str) -> String {
    format!("data of the service `{service}` in format {format}")
}

/// Refuses a directory with the marker of another kind. Returns true if there is a marker.
pub(super) fn check_marked(path: &Path, kind: &Kind) -> Result<bool, DataDirError> {
    let file = path.join(MARKER);
    let text = match fs::read(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        read => read.map_err(DataDirError::io("reading", &file))?,
    };
    if text == kind.text().as_bytes() {
        return Ok(true);
    }
    let text = String::from_utf8_lossy(&text);
    let value = |line: usize, key: &str| text.lines().nth(line)?.strip_prefix(key)?.strip_prefix(' ');
    let owner = match (value(0, "service"), value(1, "format")) {
        (Some(service), Some(format)) => words(service, format),
        _ => format!("a marker `{MARKER}` that cannot be read"),
    };
    Err(DataDirError::OtherKind {
        path: path.into(),
        found: owner,
        expected: kind.words(),
    })
}

/// Refuses a directory that has the marker of another kind, or files but no marker. Returns true if it contains no data
/// of a service. If `kind` is `None`, any directory is accepted and the result is false.
pub(super) fn check(path: &Path, kind: Option<&Kind>) -> Result<bool, DataDirError> {
    let Some(kind) = kind else {
        return Ok(false);
    };
    if check_marked(path, kind)? {
        return Ok(false);
    }
    let names = names(path).map_err(DataDirError::io("reading", path))?;
    let is_known = |name: &str| EMPTY.contains(&name) || kind.beside.contains(&name);
    let is_kept = names.iter().any(|name| kind.beside.contains(&name.as_str()));
    match names.into_iter().find(|name| !is_known(name)) {
        None => Ok(!is_kept),
        Some(file) => Err(DataDirError::Unmarked {
            path: path.into(),
            file,
            expected: kind.words(),
            text: kind.text().replace('\n', "\\n"),
        }),
    }
}

/// Writes the marker if it is missing. The file appears under its final name only once it is complete and durable.
pub(super) fn write(path: &Path, kind: &Kind) -> io::Result<()> {
    let (file, unfinished) = (path.join(MARKER), path.join(UNFINISHED));
    if file.exists() {
        return Ok(());
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut out = options.open(&unfinished)?;
    out.write_all(kind.text().as_bytes())?;
    out.sync_all()?;
    fs::rename(unfinished, file)?;
    File::open(path)?.sync_all()
}
