//! The section `[process]`: limits that the serving process puts on itself.

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
    /// What a server does not need is refused.
    #[default]
    On,
    /// A system call that a server does not need ends the process.
    Strict,
    /// Neither system calls nor files are limited.
    Off,
}
