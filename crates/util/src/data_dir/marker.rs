//! Marker of a data directory: a small text file that names the service and its format version.

use super::{DataDirError, names};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Name of the marker file.
pub const MARKER: &str = "lineside.dir";
/// Name of a marker file while it is being written.
const UNFINISHED: &str = "lineside.dir.new";
/// Name of the lock file, which a service creates after the marker.
const LOCK: &str = "lock";
/// Names that a directory may contain and still count as empty: files of an interrupted claim, and files that file
/// systems create.
const EMPTY: &[&str] = &[LOCK, "lost+found", UNFINISHED];

/// Kind of a data directory, as stated in its marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    service: &'static str,
    format: u32,
    /// Names of files that may already be in a directory that has no marker yet.
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

    /// Allows files with these names in a directory that has neither a marker nor a lock file yet. An example is a key
    /// that the operator provides.
    #[must_use]
    pub const fn beside(mut self, names: &'static [&'static str]) -> Self {
        self.beside = names;
        self
    }

    fn text(&self) -> String {
        format!("service {}\nformat {}\n", self.service, self.format)
    }

    /// Returns the text of the marker in the form that `printf` needs.
    fn shell_text(&self) -> String {
        self.text().replace('\n', "\\n")
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
        read => read.map_err(DataDirError::io("read", &file))?,
    };
    if text == kind.text().as_bytes() {
        return Ok(true);
    }
    let text = String::from_utf8_lossy(&text);
    let value = |line: usize, key: &str| text.lines().nth(line)?.strip_prefix(key)?.strip_prefix(' ');
    match (value(0, "service"), value(1, "format")) {
        (Some(service), Some(format))
            if service == kind.service && format.parse().is_ok_and(|format: u32| format > kind.format) =>
        {
            Err(DataDirError::Newer {
                path: path.into(),
                found: words(service, format),
                expected: format!("format {}", kind.format),
            })
        }
        (Some(service), Some(format)) => Err(DataDirError::OtherKind {
            path: path.into(),
            found: words(service, format),
            expected: kind.words(),
        }),
        _ => Err(DataDirError::BadMarker {
            path: path.into(),
            expected: kind.words(),
            text: kind.shell_text(),
        }),
    }
}

/// Refuses a directory that has the marker of another kind, or files but no marker. Returns true if it contains no data
/// of any service. If `kind` is `None`, any directory is accepted and the result is false.
pub(super) fn check(path: &Path, kind: Option<&Kind>) -> Result<bool, DataDirError> {
    let Some(kind) = kind else {
        return Ok(false);
    };
    if check_marked(path, kind)? {
        return Ok(false);
    }
    let names = names(path).map_err(DataDirError::io("read", path))?;
    // A lock file without a marker means that a server has used the directory and that the marker was removed since
    // then.
    let was_used = names.iter().any(|name| name == LOCK);
    let is_known = |name: &str| EMPTY.contains(&name) || (kind.beside.contains(&name) && !was_used);
    let is_kept = names.iter().any(|name| kind.beside.contains(&name.as_str()));
    match names.into_iter().find(|name| !is_known(name)) {
        None => Ok(!is_kept),
        Some(file) => Err(DataDirError::Unmarked {
            path: path.into(),
            file,
            expected: kind.words(),
            text: kind.shell_text(),
        }),
    }
}

/// Returns true if the names of a directory's entries are the marker and, otherwise, only names that an empty directory
/// may contain.
pub(super) fn is_alone(names: &[String]) -> bool {
    let is_marker = |name: &String| name == MARKER;
    let is_known = |name: &String| is_marker(name) || EMPTY.contains(&name.as_str());
    names.iter().any(is_marker) && names.iter().all(is_known)
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
