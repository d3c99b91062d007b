//! Runs the papers by their names, with the parameters that all of them have.

use crate::error::Result;
use crate::section::{Paper, Section};
use crate::{column, fabric, hybrid, rtl, spv, transfer};
use lineside_bench::Progress;
use std::path::PathBuf;

/// Parameters that all papers have.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameters {
    /// Folder for the files; created if it is missing.
    pub out: PathBuf,
    /// True for fewer points and shorter runs.
    pub quick: bool,
    /// Seed of the workloads.
    pub seed: u64,
}

impl Parameters {
    /// Returns the command that makes the figures of a paper alone with these parameters, apart from the folder.
    pub fn command(&self, paper: Paper) -> String {
        let mut command = format!("lineside-lab papers {paper}");
        if self.quick {
            command += " --quick";
        }
        if self.seed != 1 {
            command += &format!(" --seed {}", self.seed);
        }
        command
    }
}

/// Calls `run` of a paper's module with the options that the parameters select.
macro_rules! run_module {
    ($module:ident, $parameters:ident, $progress:ident) => {{
        let out = $parameters.out.clone();
        let mut options = match $parameters.quick {
            true => $module::Options::quick(out),
            false => $module::Options::new(out),
        };
        options.seed = $parameters.seed;
        $module::run(&options, $progress)
    }};
}

/// Makes the figures of a paper and the file that compares its values with Lineside's. Calls `progress` before each
/// step.
///
/// # Errors
/// A contestant fails, or a file cannot be written. Missing rights are not an error; the section names what they
/// prevent.
pub fn make(paper: Paper, parameters: &Parameters, progress: &mut dyn FnMut(Progress)) -> Result<Section> {
    let mut section = match paper {
        Paper::Spv => run_module!(spv, parameters, progress),
        Paper::Transfer => run_module!(transfer, parameters, progress),
        Paper::Fabric => run_module!(fabric, parameters, progress),
        Paper::Column => run_module!(column, parameters, progress),
        Paper::Hybrid => run_module!(hybrid, parameters, progress),
    }?;
    rtl::add(&mut section, &parameters.out, parameters.quick)?;
    section.command = parameters.command(paper);
    section.write_comparison(&parameters.out)?;
    Ok(section)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_has_the_parameters_that_differ_from_their_defaults() {
        let parameters = |quick, seed| Parameters {
            out: "papers".into(),
            quick,
            seed,
        };
        assert_eq!(
            parameters(false, 1).command(Paper::Spv),
            "lineside-lab papers spv"
        );
        assert_eq!(
            parameters(true, 7).command(Paper::Fabric),
            "lineside-lab papers fabric --quick --seed 7"
        );
    }
}
