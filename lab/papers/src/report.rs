//! Report of all papers: one HTML page without scripts, with the plots inside it and links to the tables of data.
//!
//! A paper that fails is part of the report, and does not prevent the others.

mod page;
#[cfg(test)]
mod tests;

use crate::all::{Parameters, make};
use crate::error::{Result, writing};
use crate::section::{Paper, Section};
use lineside_bench::Progress;
use lineside_bench::figures::Machine;
use std::fs;
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

/// Name of the page in the folder of the report.
pub const PAGE: &str = "index.html";

/// Results of one paper, or the error of its run.
#[derive(Clone, Debug)]
pub struct Made {
    /// The paper.
    pub paper: Paper,
    /// Command that makes these results alone.
    pub command: String,
    /// Results, or the message of the error that ended the run.
    pub section: std::result::Result<Section, String>,
    /// Duration of the run in seconds.
    pub took_s: f64,
}

/// Report in progress.
#[derive(Clone, Debug)]
pub struct Report {
    /// Machine on which the papers run.
    pub machine: Machine,
    /// Version of the program, and its build profile.
    pub program: String,
    /// Parameters of all papers. The folder is that of the report; each paper has a folder of its own in it.
    pub parameters: Parameters,
    /// Papers in the order in which they ran.
    pub made: Vec<Made>,
    began: Instant,
    date: SystemTime,
}

impl Report {
    /// Begins a report without papers. `version` is that of the program.
    pub fn new(parameters: Parameters, version: &str) -> Self {
        let profile = match cfg!(debug_assertions) {
            true => "development build",
            false => "release build",
        };
        Self {
            machine: Machine::read(),
            program: format!("Lineside {version}, {profile}"),
            parameters,
            made: Vec::new(),
            began: Instant::now(),
            date: SystemTime::now(),
        }
    }

    /// Runs a paper in its own folder, and adds its results or its error. Calls `progress` before each step.
    pub fn add(&mut self, paper: Paper, progress: &mut dyn FnMut(Progress)) -> &Made {
        let began = Instant::now();
        let parameters = Parameters {
            out: self.parameters.out.join(paper.service()),
            ..self.parameters.clone()
        };
        let made = Made {
            paper,
            command: parameters.command(paper),
            section: make(paper, &parameters, progress).map_err(|error| error.to_string()),
            took_s: began.elapsed().as_secs_f64(),
        };
        let place = self.made.len();
        self.made.push(made);
        &self.made[place]
    }

    /// Returns descriptions of papers that failed, and of replies that were lost or wrong.
    pub fn failures(&self) -> Vec<String> {
        let mut failures = Vec::new();
        for made in &self.made {
            let found = match &made.section {
                Ok(section) => section.failures.clone(),
                Err(error) => vec![error.clone()],
            };
            failures.extend(found.iter().map(|failure| format!("{}: {failure}", made.paper)));
        }
        failures
    }

    /// Returns the time in seconds since the report was begun.
    pub fn took_s(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Writes the page into the folder of the report, and returns its path.
    ///
    /// # Errors
    /// The folder or the page cannot be written.
    pub fn write(&mut self) -> Result<PathBuf> {
        self.machine.end_of_run();
        let out = &self.parameters.out;
        fs::create_dir_all(out).map_err(writing(out))?;
        let path = out.join(PAGE);
        fs::write(&path, page::html(self)).map_err(writing(&path))?;
        Ok(path)
    }
}
