//! Privileges that a service needs while it runs, in addition to those that every server has. The daemon's sandbox
//! grants no others.

use std::path::PathBuf;

/// Files and groups of system calls that a service needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Directories whose contents the service changes, at any depth. They must exist.
    pub writes: Vec<PathBuf>,
    /// Files and directories that the service reads after its start, such as a password file that another program
    /// renews. They must exist.
    pub reads: Vec<PathBuf>,
    /// Groups of system calls in addition to those that every server makes.
    pub calls: Vec<CallGroup>,
}

/// Group of system calls that a service makes in addition to those of every server. The daemon lists the calls of each
/// group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallGroup {
    /// Create, change, rename, remove and sync files.
    Files,
    /// Create directories, as a database (fjall) does that keeps its tables in folders.
    Directories,
}

impl Rights {
    /// Returns the rights of a service that changes files below `directories`.
    pub fn of_directories(directories: impl IntoIterator<Item = PathBuf>) -> Self {
        Self {
            writes: directories.into_iter().collect(),
            reads: Vec::new(),
            calls: vec![CallGroup::Files],
        }
    }

    /// Adds the system calls of a database that creates directories.
    #[must_use]
    pub fn with_database(mut self) -> Self {
        self.calls.push(CallGroup::Directories);
        self
    }
}
