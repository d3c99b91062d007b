//! Tests of joining from a snapshot when the process is killed at any step, and when the directories are not empty or
//! in use.

use lineside_fabric::Options;
use lineside_fabric::ledger::{ExpectedHashes, ReadOnlyLedger, Replica, Setup, StateStore, export};
use lineside_fabric::replay::read;
use lineside_fabric_replica::config::StateName;
use lineside_fabric_replica::join::join;
use lineside_fabric_replica::ledger;
use lineside_journal::{FsDisk, SimDisk};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const KILL_STEP_VARIABLE: &str = "LINESIDE_TEST_JOIN_KILLED_AT";
const FOLDER: &str = "LINESIDE_TEST_JOIN_FOLDER";
const STATE: &str = "LINESIDE_TEST_JOIN_STATE";
/// Number of blocks before the snapshot.
const BLOCKS: u64 = 6;

fn recorded(number: u64) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fabric/tests/data/edge");
    read(&folder, number, "orderer").unwrap().unwrap()
}

fn snapshot(folder: &Path) -> PathBuf {
    let disk = SimDisk::new(1);
    let (mut replica, _) = Replica::open(disk.clone(), Setup::default(), None).unwrap();
    for number in 0..BLOCKS {
        replica.add(recorded(number)).unwrap();
    }
    replica.stop().unwrap();
    let look = ReadOnlyLedger::open(disk, &Options::default(), Some(&StateStore::Memory)).unwrap();
    let snapshot = folder.join("snapshot");
    export(&look, &snapshot).unwrap();
    snapshot
}

fn state_of(name: &str) -> StateName {
    match name {
        "fjall" => StateName::Fjall,
        _ => StateName::Memory,
    }
}

/// This is not a test by itself: the next test starts it as the process that it kills.
#[test]
fn child_process_that_joins_until_it_is_killed() {
    let variable = |name| std::env::var(name).ok();
    let (Some(step), Some(folder), Some(state)) =
        (variable(KILL_STEP_VARIABLE), variable(FOLDER), variable(STATE))
    else {
        return;
    };
    let mut left: u32 = step.parse().unwrap();
    let folder = PathBuf::from(folder);
    let mut each = |_: &str| {
        if left == 0 {
            let pid = std::process::id().to_string();
            Command::new("kill").args(["-9", &pid]).status().unwrap();
            loop {
                std::thread::park();
            }
        }
        left -= 1;
    };
    let (data, from) = (folder.join("ledger"), folder.join("snapshot"));
    join(
        &data,
        &from,
        &ExpectedHashes::default(),
        Options::default(),
        state_of(&state),
        &mut each,
    )
    .unwrap();
}

/// Checks that the ledger is complete and that the next block can be added to it.
fn is_whole(data: &Path, state: &str) {
    let disk = FsDisk::claim_existing(data, &ledger::KIND).unwrap();
    let opened = ledger::open(data, disk, Options::default(), StateName::Auto, None);
    let (mut replica, remarks) = opened.unwrap();
    assert_eq!(remarks, [""; 0]);
    assert_eq!(replica.next(), BLOCKS);
    assert_eq!(StateStore::is_at(&ledger::state_folder(data)), state == "fjall");
    replica.add(recorded(BLOCKS)).unwrap();
    replica.stop().unwrap();
}

#[test]
fn a_join_killed_at_any_step_leaves_nothing_or_a_complete_ledger() {
    for state in ["memory", "fjall"] {
        let (mut absent, mut whole) = (0, 0);
        for step in 0.. {
            let folder = tempfile::tempdir().unwrap();
            snapshot(folder.path());
            let mut child = Command::new(std::env::current_exe().unwrap());
            child.args(["--exact", "child_process_that_joins_until_it_is_killed"]);
            child
                .env(KILL_STEP_VARIABLE, step.to_string())
                .env(FOLDER, folder.path())
                .env(STATE, state);
            let output = child.output().unwrap();
            if output.status.success() {
                is_whole(&folder.path().join("ledger"), state);
                break;
            }
            assert_eq!(output.status.signal(), Some(9), "{output:?}");
            let data = folder.path().join("ledger");
            if data.exists() {
                whole += 1;
            } else {
                absent += 1;
                // The next attempt removes the temporary directory and succeeds.
                let from = folder.path().join("snapshot");
                let expected = ExpectedHashes::default();
                join(
                    &data,
                    &from,
                    &expected,
                    Options::default(),
                    state_of(state),
                    &mut |_| {},
                )
                .unwrap();
            }
            is_whole(&data, state);
            let names = std::fs::read_dir(folder.path()).unwrap();
            assert_eq!(names.count(), 2, "only the ledger and the snapshot may be there");
        }
        assert!(absent >= 6 && whole >= 1, "{state}: {absent} {whole}");
    }
}

#[test]
fn joining_does_not_change_an_existing_directory() {
    let folder = tempfile::tempdir().unwrap();
    let from = snapshot(folder.path());
    let joined = |data: &Path| {
        join(
            data,
            &from,
            &ExpectedHashes::default(),
            Options::default(),
            StateName::Memory,
            &mut |_| {},
        )
    };
    let data = folder.path().join("ledger");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("file"), "mine").unwrap();
    let error = joined(&data).unwrap_err().to_string();
    assert!(error.contains("is not empty"), "{error}");
    assert_eq!(std::fs::read_to_string(data.join("file")).unwrap(), "mine");
    std::fs::remove_file(data.join("file")).unwrap();
    // Joining is refused if the temporary directory contains a file of another kind.
    let building = folder.path().join(".ledger.joining");
    std::fs::create_dir(&building).unwrap();
    std::fs::write(building.join("file"), "mine").unwrap();
    joined(&data).unwrap_err();
    assert_eq!(std::fs::read_to_string(building.join("file")).unwrap(), "mine");
    std::fs::remove_dir_all(&building).unwrap();
    // Joining is refused if another process uses the temporary directory.
    let held = FsDisk::claim(&building, &ledger::KIND).unwrap();
    joined(&data).unwrap_err();
    drop(held);
    // A join from a damaged snapshot leaves no directory.
    let damaged = from.join("txids.data");
    let bytes = std::fs::read(&damaged).unwrap();
    std::fs::write(&damaged, [&bytes[..], b"x"].concat()).unwrap();
    let error = format!("{:#}", joined(&data).unwrap_err());
    assert!(error.contains("txids.data: its SHA-256 is"), "{error}");
    assert!(!building.exists());
    assert_eq!(std::fs::read_dir(&data).unwrap().count(), 0);
    std::fs::write(&damaged, bytes).unwrap();
    // An empty directory is accepted.
    joined(&data).unwrap();
    is_whole(&data, "memory");
}
