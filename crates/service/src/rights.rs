//! Rights that a service needs while it serves, beyond those that every server has.

use std::path::PathBuf;

/// Files and system calls of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Directories that the service changes, with all that is below them. They are there.
    pub writes: Vec<PathBuf>,
    /// Files and directories that the service reads after its start, such as a password that another program renews.
    /// They are there.
    pub reads: Vec<PathBuf>,
    /// Groups of system calls beyond those that every server makes.
    pub calls: Vec<CallGroup>,
}

/// Group of system calls that a service makes beyond those of every server. The table of calls is in the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallGroup {
    /// Makes, changes, renames and removes files, and makes them durable.
    Files,
    /// Makes directories, as a database does that keeps tables in folders (fjall).
    Directories,
}

impl Rights {
    /// Returns the rights of a service that changes files below these directories.
    pub fn of_directories(directories: impl IntoIterator<Item = PathBuf>) -> Self {
        Self {
            writes: directories.into_iter().collect(),
            reads: Vec::new(),
            calls: vec![CallGroup::Files],
        }
    }

    /// Adds the calls of a database that makes directories of its own below those that the service changes.
    #[must_use]
    pub fn with_database(mut self) -> Self {
        self.calls.push(CallGroup::Directories);
        self
    }
}
