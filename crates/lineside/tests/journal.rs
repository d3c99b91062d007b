//! `lineside journal` on a journal that is sound, damaged, in use, and missing.

use lineside_journal::{Error, FsDisk, Journal, Options};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const RECORDS: u64 = 200;
const GROUP: u64 = 5;

fn lineside(words: &[&str], directory: &Path) -> (bool, String) {
    let output: Output = Command::new(env!("CARGO_BIN_EXE_lineside"))
        .arg("journal")
        .args(words)
        .arg(directory)
        .output()
        .expect("run");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (output.status.success(), said)
}

fn json(words: &[&str], directory: &Path) -> serde_json::Value {
    let (_, said) = lineside(&[words, &["--json"]].concat(), directory);
    let first = said.lines().next().unwrap_or_default();
    serde_json::from_str(first).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Opens the directory of a journal. If another test starts a process at this moment, that process inherits all open
/// files of this one, with their locks, until it executes its program. A directory that was closed just now may
/// therefore be locked for a moment.
fn open_disk(directory: &Path) -> FsDisk {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match FsDisk::open(directory) {
            Err(Error::Locked { .. }) if Instant::now() < end => std::thread::yield_now(),
            disk => return disk.expect("open"),
        }
    }
}

/// Creates a journal of several segments, with records of 64 bytes in groups.
fn written() -> TempDir {
    let directory = TempDir::new().expect("a directory");
    let disk = FsDisk::open(directory.path()).expect("open");
    let mut journal = Journal::create(disk, 7, Options::small()).expect("create");
    for number in 1..=RECORDS {
        let lsn = journal.append(3, &[number as u8; 64]).expect("append");
        assert_eq!(lsn, number);
        if number % GROUP == 0 {
            journal.commit().expect("commit");
        }
    }
    directory
}

/// Returns the segment files, oldest first.
fn segments(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("read");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "log"));
    paths.sort();
    paths
}

/// Flips a bit in the payload of the first record of `segment`, and returns the record's number.
fn damage(segment: &Path) -> u64 {
    let mut bytes = std::fs::read(segment).expect("read");
    bytes[64 + 24 + 10] ^= 1;
    std::fs::write(segment, bytes).expect("write");
    let name = segment.file_stem().expect("a name").to_str().expect("text");
    name.parse().expect("a number")
}

#[test]
fn verify_and_dump_describe_a_sound_journal() {
    let journal = written();
    let (sound, said) = lineside(&["verify"], journal.path());
    assert!(
        sound && said.contains("journal 0000000000000007: 200 records, 1 to 200"),
        "{said}"
    );
    assert!(
        said.ends_with("12800 bytes of payload; nothing is wrong\n"),
        "{said}"
    );
    let report = json(&["verify"], journal.path());
    assert_eq!(
        (&report["sound"], &report["records"]),
        (&true.into(), &RECORDS.into())
    );
    assert_eq!(
        report["segments"].as_array().expect("segments").len(),
        segments(journal.path()).len()
    );

    let (all, said) = lineside(&["dump"], journal.path());
    assert!(all && said.lines().count() as u64 == RECORDS);
    let first = format!(
        "1 kind 3 of 64 bytes at {:020}.log:64: {} ...",
        1,
        "01".repeat(32)
    );
    assert_eq!(said.lines().next(), Some(&first[..]));
    let (all, said) = lineside(&["dump", "--from", "150", "--limit", "3"], journal.path());
    assert!(
        all && said.lines().count() == 3 && said.starts_with("150 kind 3"),
        "{said}"
    );
    let record = json(&["dump", "--from", "200"], journal.path());
    assert_eq!((&record["lsn"], &record["kind"]), (&200.into(), &3.into()));
    assert_eq!(record["payload"], "c8".repeat(64));

    let before = segments(journal.path());
    let (done, said) = lineside(&["repair"], journal.path());
    assert!(
        done && said == "nothing is wrong\nthe journal ends with record 200\n",
        "{said}"
    );
    assert_eq!(segments(journal.path()), before);
}

#[test]
fn damage_is_named_and_repair_lists_the_lost_records() {
    let journal = written();
    let all = segments(journal.path());
    let from = damage(&all[1]);
    let file = all[1]
        .file_name()
        .expect("a name")
        .to_str()
        .expect("text")
        .to_owned();
    let (sound, said) = lineside(&["verify"], journal.path());
    assert!(!sound, "{said}");
    assert!(
        said.contains(&format!("{file} at byte 64, record {from}: ")),
        "{said}"
    );
    assert!(
        said.contains("errors were found") || said.contains("1 error was found"),
        "{said}"
    );
    let report = json(&["verify"], journal.path());
    assert_eq!(
        (&report["sound"], &report["last_lsn"]),
        (&false.into(), &(from - 1).into())
    );

    // `dump` prints the records before the damage, then an error.
    let (whole, said) = lineside(&["dump"], journal.path());
    assert!(!whole && said.contains(&file), "{said}");
    assert_eq!(
        said.lines().filter(|line| line.contains(" kind ")).count() as u64,
        from - 1
    );

    let (done, said) = lineside(&["repair"], journal.path());
    assert!(done, "{said}");
    let later = RECORDS - from;
    for wanted in [
        format!(
            "the last record that remains is {}; all later records are dropped",
            from - 1
        ),
        format!("everything from record {from} on, with {later} intact records"),
        format!(
            "was moved to {}.damaged",
            all[2].file_name().expect("a name").to_str().expect("text")
        ),
        format!("the journal ends with record {}", from - 1),
    ] {
        assert!(said.contains(&wanted), "no {wanted:?}: {said}");
    }
    let (sound, said) = lineside(&["verify"], journal.path());
    assert!(sound && said.contains(&format!("{} records", from - 1)), "{said}");

    // The next record gets the number after the last record that remains.
    let disk = open_disk(journal.path());
    let (mut again, _) = Journal::open(disk, Options::small()).expect("open");
    assert_eq!(again.append(3, &[1; 64]).expect("append"), from);
    again.commit().expect("commit");
}

/// The first segment is unusable, but a snapshot replaces its records. The repair names these records and drops nothing
/// else.
#[test]
fn records_that_a_snapshot_replaces_are_named() {
    let journal = written();
    let disk = open_disk(journal.path());
    let (mut opened, _) = Journal::open(disk, Options::small()).expect("open");
    let snapshot = opened.write_snapshot(120, |file| std::io::Write::write_all(file, b"state"));
    snapshot.expect("a snapshot");
    drop(opened);
    let all = segments(journal.path());
    let second: u64 = all[1]
        .file_stem()
        .expect("a name")
        .to_str()
        .expect("text")
        .parse()
        .expect("a number");
    std::fs::write(&all[0], vec![0xa5; 4096]).expect("write");
    let (done, said) = lineside(&["repair"], journal.path());
    assert!(done, "{said}");
    let gone = format!(
        "gone from the history: records 1 to {}; a snapshot replaces them",
        second - 1
    );
    for wanted in [
        &gone[..],
        "no record that the state needs was dropped",
        "the journal ends with record 200",
    ] {
        assert!(said.contains(wanted), "no {wanted:?}: {said}");
    }
    assert!(
        !said.contains("dropped: everything") && !said.contains("lost:"),
        "{said}"
    );
    let (done, said) = lineside(&["repair"], journal.path());
    assert!(done && said.starts_with("nothing is wrong\n"), "{said}");
    assert!(lineside(&["verify"], journal.path()).0);
}

/// Only the file `acknowledged` of the journal is left, and the message says so.
#[test]
fn a_journal_of_which_only_the_mark_is_left_is_described() {
    let journal = written();
    for segment in segments(journal.path()) {
        std::fs::remove_file(segment).expect("removed");
    }
    let (sound, said) = lineside(&["verify"], journal.path());
    let wanted =
        "records 1 to 200 are missing: no segment contains them, although the file `acknowledged` shows";
    assert!(!sound && said.contains(wanted), "{said}");
    let (done, said) = lineside(&["repair"], journal.path());
    assert!(
        done && said.contains("lost: the acknowledged records 1 to 200"),
        "{said}"
    );
    is_empty(journal.path());
}

/// Checks that the commands find a journal without records and without damage.
fn is_empty(directory: &Path) {
    let (sound, said) = lineside(&["verify"], directory);
    assert!(sound && said.contains("no records; nothing is wrong"), "{said}");
    let (done, said) = lineside(&["dump"], directory);
    assert!(done && said.is_empty(), "{said}");
    let (done, said) = lineside(&["repair"], directory);
    assert!(
        done && said == "nothing is wrong\nthe journal has no record\n",
        "{said}"
    );
}

/// The journal was removed, but the marker shows that a server has used the directory. A repair makes the directory
/// usable again.
#[test]
fn a_directory_of_which_only_the_marker_is_left_becomes_an_empty_journal() {
    let directory = TempDir::new().expect("a directory");
    let marker = directory.path().join("lineside.dir");
    std::fs::write(marker, "service transfer\nformat 1\n").expect("written");
    let (sound, said) = lineside(&["verify"], directory.path());
    assert!(
        !sound && said.contains("the journal's files were removed"),
        "{said}"
    );
    let (done, said) = lineside(&["repair"], directory.path());
    assert!(
        done && said.contains("the journal's files were removed"),
        "{said}"
    );
    is_empty(directory.path());
}

/// A repair whose report cannot be printed is not complete: the journal stays closed, and the next repair prints the
/// loss.
#[test]
fn a_repair_whose_report_cannot_be_printed_is_repeated() {
    let journal = written();
    let last = segments(journal.path()).pop().expect("a segment");
    let from = damage(&last);
    let lost = format!("lost: the acknowledged records {from} to {RECORDS}");
    for as_json in [false, true] {
        let full = std::fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("open");
        let (reader, closed) = std::io::pipe().expect("a pipe");
        drop(reader);
        for stdout in [Stdio::from(full), Stdio::from(closed)] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
            command.args(["journal", "repair"]).arg(journal.path());
            command.args(as_json.then_some("--json")).stdout(stdout);
            command.output().expect("run");
            let opened = Journal::open(open_disk(journal.path()), Options::small());
            assert!(matches!(opened, Err(Error::Unrepaired)), "{:?}", opened.err());
        }
    }
    let (done, said) = lineside(&["repair"], journal.path());
    assert!(done && said.contains(&lost), "{said}");
    let (done, said) = lineside(&["repair"], journal.path());
    assert!(done && said.starts_with("nothing is wrong\n"), "{said}");
}

/// A directory that does not belong to Lineside keeps its mode and its files.
#[test]
fn a_directory_without_a_journal_is_not_changed() {
    use std::os::unix::fs::PermissionsExt;
    let directory = TempDir::new().expect("a directory");
    std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).expect("chmod");
    for names in [vec![], vec!["repair"]] {
        for name in &names {
            std::fs::write(directory.path().join(name), "Notes about the house.").expect("written");
        }
        for command in [["journal", "repair"], ["column", "repair"]] {
            let run = Command::new(env!("CARGO_BIN_EXE_lineside"))
                .args(command)
                .arg(directory.path())
                .output();
            assert!(!run.expect("run").status.success());
            let entries = std::fs::read_dir(directory.path()).expect("read");
            let left: Vec<_> = entries
                .map(|entry| entry.expect("an entry").file_name())
                .collect();
            assert_eq!(left, names, "{command:?}");
            let mode = std::fs::metadata(directory.path())
                .expect("metadata")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o755, "{command:?}");
        }
    }
}

#[test]
fn a_journal_in_use_is_not_repaired() {
    let journal = written();
    damage(&segments(journal.path())[1]);
    let before: Vec<_> = segments(journal.path());
    let owner = FsDisk::open(journal.path()).expect("open");
    let (done, said) = lineside(&["repair"], journal.path());
    assert!(!done && said.contains("is in use"), "{said}");
    assert_eq!(segments(journal.path()), before);
    // `verify` works even while a server uses the journal.
    assert_eq!(json(&["verify"], journal.path())["sound"], false);
    drop(owner);
    assert!(lineside(&["repair"], journal.path()).0);
}

#[test]
fn the_journal_of_a_running_ledger_is_verified_and_not_repaired() {
    let data = TempDir::new().expect("a directory");
    let mut server = Server::start(data.path());
    let done = Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args(["transfer", "create", "1", "5", "--server", &server.address])
        .output()
        .expect("run");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(lineside(&["verify"], data.path()).0);
    let (done, said) = lineside(&["repair"], data.path());
    assert!(!done && said.contains("is in use"), "{said}");
    server.child.kill().expect("kill");
    server.child.wait().expect("wait");
    let (done, said) = lineside(&["repair"], data.path());
    assert!(done && said.starts_with("nothing is wrong"), "{said}");
}

#[test]
fn no_subcommand_creates_a_journal() {
    let nowhere = TempDir::new().expect("a directory");
    for verb in ["verify", "repair", "dump"] {
        let (done, said) = lineside(&[verb], nowhere.path());
        assert!(!done && said.contains("no journal"), "{verb}: {said}");
        let missing = nowhere.path().join("missing");
        let (done, said) = lineside(&[verb], &missing);
        assert!(!done && said.contains("missing"), "{verb}: {said}");
        assert!(!missing.exists(), "{verb} made it");
    }
}

/// Server of a ledger with the socket datapath; killed when dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(data: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_lineside"))
            .args([
                "transfer",
                "serve",
                "--datapath",
                "socket",
                "--listen",
                "127.0.0.1:0",
            ])
            .args(["--console", "127.0.0.1:0", "--account-bits", "8", "--data"])
            .arg(data)
            .env_remove("INVOCATION_ID")
            .env_remove("NOTIFY_SOCKET")
            .stdout(Stdio::piped())
            .spawn()
            .expect("a server");
        let mut address = String::new();
        for line in BufReader::new(child.stdout.take().expect("piped")).lines() {
            let line = line.expect("text");
            if let Some(rest) = line.strip_prefix("transfer on ") {
                address = rest.split(' ').next().expect("an address").into();
            }
            if line.ends_with(" ends it") {
                break;
            }
        }
        Self { child, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
