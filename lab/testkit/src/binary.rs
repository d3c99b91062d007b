//! Paths of the programs of this workspace, for tests that run a program of another package.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;

/// Lock that a test holds while it builds a program, so that two tests do not build at the same time.
static BUILDING: Mutex<()> = Mutex::new(());

/// Returns the path of the program `name`, which the package of the same name builds, next to the running test. `cargo
/// test --workspace` builds it before the tests run; if one package is tested alone, this function builds it.
///
/// # Panics
/// Panics if the program cannot be built.
pub fn binary(name: &str) -> PathBuf {
    let _building = BUILDING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let test = std::env::current_exe().expect("the path of this test");
    let path = test
        .ancestors()
        .nth(2)
        .expect("target/<profile>/deps/<test>")
        .join(name);
    if !path.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .args(["build", "--locked", "--package", name])
            .status();
        assert!(
            built.is_ok_and(|status| status.success()),
            "cargo cannot build {name}"
        );
        assert!(path.exists(), "cargo did not build {name} in {}", path.display());
    }
    path
}
