//! `lineside-lab vectors` writes the recorded cases of `vectors/` in other forms.

use anyhow::Context;
use clap::Subcommand;
use lineside::say;
use lineside_conformance::vectors::pcap::{self, Written};
use lineside_util::counted;
use serde_json::json;
use std::io;
use std::path::{Path, PathBuf};

/// Form in which the vectors are written.
#[derive(Subcommand)]
pub enum Verb {
    /// Write each vector of `spv` and `transfer` as a folder with captures, for the test suites of FPGA shells.
    ///
    /// DIR/SERVICE/FILE/NNN-NAME has `packets_in.pcap` (the request), `expected.pcap` (the reply to the network; no
    /// packet if the frame is not answered) and `expected_host.pcap` (the frame that goes to the host).
    /// DIR/SERVICE/FILE has `commands.bin`: the commands of 64 bytes that bring the NIC into the state of the vectors
    /// of a file. For `transfer` the vectors of a file are a sequence, and each folder has the commands before its
    /// frame.
    Pcap {
        /// Folder for the files; created if it is missing. Files of an earlier run are overwritten.
        #[arg(long, value_name = "DIR", default_value = "vectors-pcap")]
        out: PathBuf,
    },
}

/// Writes the vectors, and prints their numbers.
///
/// # Errors
/// The vectors cannot be read, or a file cannot be written.
pub fn run(verb: &Verb, as_json: bool) -> anyhow::Result<()> {
    let Verb::Pcap { out } = verb;
    type Write = fn(&Path) -> io::Result<Written>;
    for (service, write) in [("spv", pcap::write as Write), ("transfer", pcap::transfer::write)] {
        let Written {
            files,
            vectors,
            replies,
        } = write(out)
            .with_context(|| format!("cannot write the vectors of {service} into {}", out.display()))?;
        if as_json {
            let out = out.to_string_lossy();
            say!(
                "{}",
                json!({
                    "service": service, "out": out, "files": files, "vectors": vectors, "replies": replies
                })
            )?;
        } else {
            say!(
                "{service}: wrote {} of {} into {}, with {}",
                counted(vectors, "vector"),
                counted(files, "file"),
                out.display(),
                crate::replies(replies)
            )?;
        }
    }
    Ok(())
}
