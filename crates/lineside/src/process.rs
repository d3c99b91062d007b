//! The section `[process]`: limits that a server sets on its own process.

use serde::{Deserialize, Serialize};

/// The section `[process]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProcessConfig {
    /// Limits on system calls and files.
    pub sandbox: SandboxName,
}

/// Limits on the system calls and files of a serving process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxName {
    /// Refuses system calls and files that a server does not need.
    #[default]
    On,
    /// Ends the process at a system call that a server does not need.
    Strict,
    /// Limits neither system calls nor files.
    Off,
}
