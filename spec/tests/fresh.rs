//! The generated files match `spec/*.toml`.

use std::process::Command;

#[test]
fn generated_files_are_fresh() {
    let output = Command::new(env!("CARGO_BIN_EXE_lineside-spec"))
        .arg("--check")
        .output()
        .expect("run");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
