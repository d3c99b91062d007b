//! Runs cargo in the repository, for the tests that read its dependencies.

use crate::common::root;
use std::process::Command;

/// Runs cargo with `--locked --offline`. If that fails because a package of the lock file is not on this machine yet,
/// runs it again without `--offline`. Returns the standard output of cargo.
pub fn cargo(arguments: &[&str]) -> String {
    let run = |more: &[&str]| {
        Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()))
            .args(arguments)
            .arg("--locked")
            .args(more)
            .current_dir(root())
            .output()
            .expect("cargo runs")
    };
    let mut output = run(&["--offline"]);
    if !output.status.success() {
        output = run(&[]);
    }
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("names are UTF-8")
}
