//! Namespaces and programs that all parts of the scenario share.

use super::bpf::Programs;
use crate::error::{Result, io};
use crate::field::{CLIENT_CORE, Field};
use crate::sys::{self, RunStatistics};
use crate::workload::Shape;
use serde::Serialize;
use std::os::fd::{AsFd, OwnedFd};

/// XDP program on the server's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attached {
    /// No program.
    None,
    /// A program that passes every packet at once.
    Pass,
    /// Lineside's root program, with the service `spv`.
    Ours,
}

impl Attached {
    /// All cases.
    pub const ALL: [Self; 3] = [Self::None, Self::Pass, Self::Ours];

    /// Returns the name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pass => "pass",
            Self::Ours => "ours",
        }
    }
}

/// Namespaces, loaded programs, and the workload.
pub struct Setting {
    /// Contestants of `spv`.
    pub field: Field,
    /// Programs of this scenario.
    pub programs: Programs,
}

impl Setting {
    /// Creates the namespaces and loads all programs. All TXIDs of the workload are in the fast-path table.
    pub fn new(seed: u64) -> Result<Self> {
        Ok(Self {
            field: Field::new(seed, Shape::default(), false)?,
            programs: Programs::load()?,
        })
    }

    /// Attaches the program of a case to the server's interface, until the result is dropped.
    pub fn attach(&self, which: Attached) -> Result<Option<OwnedFd>> {
        let pair = &self.field.pair;
        Ok(match which {
            Attached::None => None,
            Attached::Pass => {
                let attach = || self.programs.attach_pass(pair.server_index);
                Some(pair.server.run(CLIENT_CORE, attach)?)
            }
            Attached::Ours => {
                let attach = || self.field.fastpath.attach(pair);
                Some(pair.server.run(CLIENT_CORE, attach)?)
            }
        })
    }

    /// Returns the program of a case; `None` if there is no program.
    pub fn program(&self, which: Attached) -> Result<Option<OwnedFd>> {
        match which {
            Attached::None => Ok(None),
            Attached::Pass => self.programs.pass().map(Some),
            Attached::Ours => {
                let root = self.field.fastpath.root().try_clone();
                Ok(Some(root.map_err(io("opening ls_root"))?))
            }
        }
    }

    /// Returns the kernel's statistics of the program of a case; zeros if there is no program.
    pub fn statistics(&self, which: Attached) -> Result<RunStatistics> {
        match self.program(which)? {
            None => Ok(RunStatistics::default()),
            Some(program) => {
                sys::run_statistics(program.as_fd()).map_err(io("reading the statistics of a program"))
            }
        }
    }

    /// Runs `work` on a new thread in the client's namespace, on the client's core.
    pub fn on_client<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.field.pair.client.run(CLIENT_CORE, work)
    }
}
