//! Runs YCSB's own client as a process.

use crate::error::{BenchError, Result, io, java};
use lineside_hbase_mini::{Compilers, Jars};
use std::process::Stdio;

/// Phase of a YCSB run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The client inserts all rows.
    Load,
    /// The client executes the operations of the workload.
    Run,
}

/// Runs a phase of YCSB's core workload with one of the bindings in `clients/java/ycsb`. Returns its output.
///
/// # Errors
/// [`BenchError::Void`] if YCSB failed.
pub fn run(jars: &Jars, phase: Phase, binding: &str, threads: u32, properties: &[String]) -> Result<String> {
    let client = jars.java(&["ycsb"], "site.ycsb.Client", Compilers::Both);
    let mut client = client.map_err(java)?;
    client.arg(match phase {
        Phase::Load => "-load",
        Phase::Run => "-t",
    });
    client.args(["-db", &format!("lineside.ycsb.{binding}")]);
    client.args(["-threads", &threads.to_string()]);
    client.args(["-p", "workload=site.ycsb.workloads.CoreWorkload"]);
    for property in properties {
        client.args(["-p", property]);
    }
    let output = client.stdin(Stdio::null()).output().map_err(io("running YCSB"))?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    if throughput(&out).is_some() {
        return Ok(out);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = errors.lines().rev().take(8).collect();
    Err(BenchError::Void(format!("YCSB failed: {}", lines.join(" | "))))
}

/// Returns the operations per second from YCSB's output.
pub fn throughput(out: &str) -> Option<f64> {
    let overall = out
        .lines()
        .find_map(|line| line.strip_prefix("[OVERALL], Throughput(ops/sec), "));
    overall?.trim().parse().ok()
}
