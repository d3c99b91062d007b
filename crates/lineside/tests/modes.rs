//! Modes of the files that commands create: secrets and the data of a service are for their owner only; other files
//! have the mode that the umask leaves.

mod house;
mod replica;

use house::{HybridDatabase, TWO_MEMBERS};
use replica::recorded;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

/// Hash of a block, for an attestation.
const BLOCK: &str = "1:1111111111111111111111111111111111111111111111111111111111111111";

/// Runs a command with this umask.
fn lineside(folder: &Path, umask: u32, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
    command.args(words).current_dir(folder);
    let set = move || {
        // SAFETY: umask changes only an attribute of the process, and cannot fail.
        unsafe { libc::umask(umask) };
        Ok(())
    };
    // SAFETY: `set` makes one system call and uses no memory that another thread could have locked.
    unsafe { command.pre_exec(set) };
    command.output().expect("the program runs")
}

#[test]
fn secrets_are_for_their_owner_and_other_files_follow_the_umask() {
    for umask in [0o022, 0o002, 0o077] {
        let house = HybridDatabase::new(&TWO_MEMBERS);
        let folder = house.0.path();
        house.serve(&[]).terminate();
        let recorded = recorded();
        let recorded = recorded.to_str().expect("text");
        for words in [
            &["spv", "init", "--data", "chain", "--network", "regtest"][..],
            &["transfer", "key", "new", "transfer.key"],
            &["hybrid", "key", "new", "hybrid.key"],
            &[
                "hybrid",
                "init",
                "--genesis",
                "new.bin",
                "--member",
                "a=a.key:admin",
                "--node",
                "n.key",
            ],
            &["hybrid", "vouch", "--key", "alice.key", "--block", BLOCK],
            &["fabric", "import", "--data", "replica", recorded],
            &["fabric", "snapshot", "--data", "replica", "snapshot"],
        ] {
            let output = lineside(folder, umask, words);
            assert!(output.status.success(), "{words:?}: {output:?}");
        }
        let public = 0o666 & !umask;
        for (name, expected) in [
            ("transfer.key", 0o600),
            ("hybrid.key", 0o600),
            ("a.key", 0o600),
            ("n.key", 0o600),
            ("new.bin", public),
            ("word.bin", public),
            ("chain", 0o700),
            ("replica", 0o700),
            ("snapshot", 0o700),
        ] {
            let about = std::fs::metadata(folder.join(name)).expect(name);
            let mode = about.permissions().mode() & 0o777;
            assert_eq!(mode, expected, "{name}: {mode:04o} with umask {umask:03o}");
        }
    }
}

/// A snapshot contains all values of a database.
#[test]
fn a_snapshot_of_a_database_is_for_its_owner() {
    let house = HybridDatabase::new(&TWO_MEMBERS);
    let server = house.serve(&[]);
    server.done(&house, "set", "alice.key", &["key", "value"]);
    server.terminate();
    let output = lineside(house.0.path(), 0, &["hybrid", "snapshot", "--data", "ledger"]);
    assert!(output.status.success(), "{output:?}");
    let about = std::fs::metadata(house.path("snapshot.bin")).expect("a snapshot");
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
}
