//! Tests that damage the files of a table: a start either refuses the table with a reason, or has every acknowledged
//! row.

use super::*;
use crate::embedded::KIND;
use lineside_journal::{Lsn, SEGMENT_HEADER_BYTES};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const LIMITS: Limits = Limits {
    rows_bytes: 1 << 20,
    nonces_bytes: 1 << 20,
};

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// Repairs the table and confirms the repair.
fn repaired(directory: &Path) -> Repaired {
    let (done, unconfirmed) = repair(directory).unwrap();
    unconfirmed.confirm().unwrap();
    done
}

fn place(row: u32) -> Vec<u8> {
    [&[b'c'; 32][..], &row.to_be_bytes()].concat()
}

/// Creates a temporary directory, in memory if possible, because each start calls fsync for many files.
fn new_home() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| tempfile::tempdir().unwrap())
}

/// Returns all rows of a table.
fn rows(disk: &Disk) -> Result<Rows, TableError> {
    let mut rows = Rows::new();
    disk.read(&mut |view| {
        let low = place(0);
        view.range(
            (Bound::Included(&low), Bound::Unbounded),
            false,
            &mut |place, stored| {
                rows.insert(place.to_vec(), stored.to_vec());
                std::ops::ControlFlow::Continue(())
            },
        )
    })?;
    Ok(rows)
}

/// Makes changes to `count` rows of `table`: sets all, overwrites some and deletes some. Records acknowledged rows in
/// `rows`.
fn change(table: &Disk, rows: &mut Rows, from: u32, count: u32) {
    for row in from..from + count {
        let stored = vec![row as u8; 40 + row as usize % 90];
        table.write(place(row), Some(stored.clone())).unwrap();
        rows.insert(place(row), stored);
        if row % 5 == 4 {
            table.write(place(row - 2), None).unwrap();
            rows.remove(&place(row - 2));
        }
    }
}

/// Opens the table in `directory` like the service does.
fn open(directory: &Path) -> Result<Disk, TableError> {
    let claimed = FsDisk::claim(directory, &KIND);
    Disk::open(
        claimed.map_err(|error| TableError::Refused(error.to_string()))?,
        &LIMITS,
    )
}

/// Copies a directory as a killed process would leave it. Zeros at the end of fjall's logs are left out.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
            continue;
        }
        // The open table may remove a file during the copy.
        let Ok(bytes) = fs::read(entry.path()) else {
            continue;
        };
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
        fs::write(&target, &bytes[..used]).unwrap();
        // fjall's logs end in 64 MiB of zeros, of which the copy needs only a few.
        let length = match target.extension().is_some_and(|end| end == "jnl") {
            true => bytes.len().min(used + 8192),
            false => bytes.len(),
        };
        let file = fs::OpenOptions::new().write(true).open(&target).unwrap();
        file.set_len(length as u64).unwrap();
    }
}

/// A table that was killed, with or without files in `tables`, and the rows that it had acknowledged.
struct Killed {
    directory: tempfile::TempDir,
    rows: Rows,
}

impl Killed {
    fn new(has_checkpoints: bool) -> Self {
        let home = new_home();
        let table = open(home.path()).unwrap();
        let mut rows = Rows::new();
        let mut from = 0;
        let snapshots = || {
            let snapshots = table.shared.lock_log().journal.snapshots();
            snapshots.latest().unwrap().snapshot.map(|snapshot| snapshot.lsn)
        };
        loop {
            change(&table, &mut rows, from, 60);
            from += 60;
            if !has_checkpoints || snapshots().is_some() {
                break;
            }
        }
        // Adds changes after the last checkpoint. If the checkpoint thread writes these to the files in `tables` too,
        // further changes are added, because the tests need a last change that is only in the journal.
        loop {
            change(&table, &mut rows, from, 20);
            from += 20;
            let directory = new_home();
            copy(home.path(), directory.path());
            let killed = Self { directory, rows };
            let last_lsn = table.shared.lock_log().journal.durable_lsn();
            if killed.last_change_in_tables() < last_lsn {
                return killed;
            }
            rows = killed.rows;
        }
    }

    /// Returns the number of the last change that the files in `tables` contain.
    fn last_change_in_tables(&self) -> Lsn {
        // Opening the files changes them, so a copy is opened.
        let copied = self.copy();
        let last = tables::last_change(&copied.path().join(tables::FOLDER), &LIMITS).unwrap();
        last.map_or(0, |(_, lsn)| lsn)
    }

    fn copy(&self) -> tempfile::TempDir {
        let copied = new_home();
        copy(self.directory.path(), copied.path());
        copied
    }

    /// Returns the paths of all files in the table's directory.
    fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut folders = vec![self.directory.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => found.push(path.strip_prefix(self.directory.path()).unwrap().to_owned()),
                }
            }
        }
        found.sort();
        found
    }
}

/// Opens a table after its files were changed, and returns its rows. Returns `None` if the start refused it with a
/// reason.
fn reopened(directory: &Path) -> Option<Rows> {
    match open(directory) {
        Ok(table) => Some(rows(&table).unwrap()),
        Err(TableError::Refused(why)) => {
            assert!(why.len() > 20, "the reason {why:?} is too short");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Flips one bit in a file. Returns false if the file is too short.
fn flip(file: &Path, at: u64, bit: u8) -> bool {
    let opened = fs::OpenOptions::new().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    if opened.read_at(&mut byte, at).unwrap() == 0 {
        return false;
    }
    opened.write_all_at(&[byte[0] ^ (1 << bit)], at).unwrap();
    true
}

/// Returns the offsets at which a file is changed: all bytes of a short file, some bytes of a long one, and some after
/// the file's contents.
fn places(bytes: &[u8], count: usize) -> Vec<u64> {
    let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
    let step = (used / count).max(1);
    let mut places: Vec<u64> = (0..used as u64).step_by(step).collect();
    places.extend(
        [used as u64 + 3, used as u64 + 4096]
            .into_iter()
            .filter(|at| *at < bytes.len() as u64),
    );
    places
}

#[test]
fn a_flipped_bit_is_refused_or_harmless_and_the_start_loses_nothing() {
    for has_checkpoints in [false, true] {
        let killed = Killed::new(has_checkpoints);
        let (mut refused, mut harmless) = (0, 0);
        for file in killed.files() {
            let bytes = fs::read(killed.directory.path().join(&file)).unwrap();
            for (number, at) in places(&bytes, 8).into_iter().enumerate() {
                let directory = killed.copy();
                let path = directory.path().join(&file);
                assert!(flip(&path, at, (number % 8) as u8));
                let shown = format!("{} at {at}, checkpoints: {has_checkpoints}", file.display());
                match reopened(directory.path()) {
                    Some(rows) => {
                        assert_eq!(rows, killed.rows, "rows after a start without an error: {shown}");
                        harmless += 1;
                    }
                    None => {
                        refused += 1;
                        // A refused start has changed no file, so the table opens after the bit is restored.
                        assert!(flip(&path, at, (number % 8) as u8), "{shown}");
                        let rows = reopened(directory.path());
                        assert_eq!(
                            rows.as_ref(),
                            Some(&killed.rows),
                            "after restoring the bit: {shown}"
                        );
                    }
                }
            }
        }
        assert!(
            refused >= 10 && harmless >= 10,
            "{refused} refused, {harmless} harmless"
        );
    }
}

#[test]
fn a_truncated_file_never_loses_an_acknowledged_row_silently() {
    let killed = Killed::new(true);
    let mut refused = 0;
    for file in killed.files() {
        let bytes = fs::read(killed.directory.path().join(&file)).unwrap();
        for length in places(&bytes, 8) {
            let directory = killed.copy();
            let path = directory.path().join(&file);
            fs::OpenOptions::new()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(length)
                .unwrap();
            match reopened(directory.path()) {
                Some(rows) => assert_eq!(rows, killed.rows, "{} cut to {length}", file.display()),
                None => refused += 1,
            }
        }
    }
    assert!(refused > 10, "{refused} refused");
}

/// A damaged last group of a journal looks unfinished. Only the file `acknowledged` shows that it was complete.
#[test]
fn a_damaged_last_group_is_refused_until_it_is_repaired() {
    let killed = Killed::new(false);
    let directory = killed.copy();
    let segment = directory.path().join(format!("{:020}.log", 1));
    let bytes = fs::read(&segment).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    assert!(flip(&segment, used as u64, 0));
    let why = open(directory.path()).unwrap_err().to_string();
    assert!(
        why.contains("was acknowledged") && why.contains("lineside column repair"),
        "{why}"
    );
    assert_eq!(
        reopened(directory.path()),
        None,
        "a second start truncates nothing either"
    );

    let done = repaired(directory.path());
    assert_eq!(
        done.lost,
        Some((done.last_lsn + 1, done.last_lsn + 1)),
        "{done:?}"
    );
    let rows = reopened(directory.path()).expect("a repaired table opens");
    let missing: Vec<_> = killed
        .rows
        .keys()
        .filter(|place| !rows.contains_key(*place))
        .collect();
    assert!(missing.len() <= 1, "{missing:?}");
    let again = repaired(directory.path());
    assert_eq!(
        (again.lost, again.notes),
        (None, vec!["nothing is wrong".to_owned()])
    );
}

/// A start refuses a table without a journal, whether the file `acknowledged` exists or not. A repair empties the table
/// and reports the loss.
#[test]
fn a_missing_journal_is_refused_until_it_is_repaired() {
    let killed = Killed::new(false);
    let directory = killed.copy();
    fs::remove_file(directory.path().join(format!("{:020}.log", 1))).unwrap();
    let marked = killed.copy();
    fs::remove_file(marked.path().join(format!("{:020}.log", 1))).unwrap();
    fs::remove_file(directory.path().join("acknowledged")).unwrap();
    for (without, what) in [
        (directory.path(), "its journal (*.log) is missing"),
        (marked.path(), "acknowledged: records 1 to"),
    ] {
        let why = open(without).unwrap_err().to_string();
        assert!(
            why.contains(what) && why.contains("lineside column repair"),
            "{why}"
        );
    }
    let done = repaired(marked.path());
    assert!(
        done.lost.is_some_and(|(from, to)| from == 1 && to > 1),
        "{done:?}"
    );
    // A repair that was killed before it moved `tables` aside can be repeated.
    let tables = marked.path().join("tables");
    fs::rename(marked.path().join("tables.damaged"), &tables).unwrap();
    assert_eq!(reopened(marked.path()), None);
    let again = repaired(marked.path());
    assert_eq!((again.last_lsn, tables.exists()), (0, false), "{again:?}");
    assert_eq!(
        repaired(marked.path()).lost,
        None,
        "a third repair finds an empty table"
    );
    assert_eq!(reopened(marked.path()), Some(Rows::new()));
}

/// If a directory has only the file that marks it as a table's, a repair makes an empty table. A directory of another
/// program is not changed.
#[test]
fn only_a_directory_of_a_table_is_repaired() {
    let directory = Killed::new(false).copy();
    for entry in fs::read_dir(directory.path()).unwrap() {
        let path = entry.unwrap().path();
        match (path.ends_with("lineside.dir"), path.is_dir()) {
            (true, _) => {}
            (false, true) => fs::remove_dir_all(path).unwrap(),
            (false, false) => fs::remove_file(path).unwrap(),
        }
    }
    assert_eq!(reopened(directory.path()), None);
    let done = repaired(directory.path());
    assert_eq!((done.last_lsn, done.lost), (0, None), "{done:?}");
    assert_eq!(reopened(directory.path()), Some(Rows::new()));

    let other = new_home();
    for names in [&[][..], &["index.html"]] {
        for name in names {
            fs::write(other.path().join(name), "").unwrap();
        }
        assert!(repair(other.path()).is_err());
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), names.len());
    }
}

/// If only the files in `tables` are left, a repair keeps their changes, and new changes continue after these.
#[test]
fn rows_remain_although_the_whole_journal_is_gone() {
    let killed = Killed::new(true);
    for keeps_mark in [false, true] {
        let directory = killed.copy();
        for name in killed.files() {
            let is_of_journal = name.extension().is_some_and(|end| end == "log" || end == "snap");
            if is_of_journal || (name.ends_with("acknowledged") && !keeps_mark) {
                fs::remove_file(directory.path().join(name)).unwrap();
            }
        }
        assert_eq!(reopened(directory.path()), None);
        let done = repaired(directory.path());
        assert!(done.last_lsn > 0, "{done:?}");
        let rows = reopened(directory.path()).expect("a repaired table opens");
        let lost = done.lost.map_or(0, |(from, to)| to - from + 1);
        if keeps_mark {
            let missing = killed
                .rows
                .iter()
                .filter(|(place, value)| rows.get(*place) != Some(value));
            assert!(missing.count() as u64 <= lost, "{done:?}");
        }
        let mut now = rows;
        let table = open(directory.path()).unwrap();
        change(&table, &mut now, 100_000, 400);
        drop(table);
        assert_eq!(reopened(directory.path()), Some(now));
    }
}

/// After a repair whose report was not confirmed, the table cannot be opened, and the next repair reports the same
/// loss.
#[test]
fn a_repair_that_is_not_confirmed_is_reported_again() {
    for (has_checkpoints, keeps_mark) in [(false, true), (true, true), (false, false), (true, false)] {
        let killed = Killed::new(has_checkpoints);
        let directory = killed.copy();
        let mut names = killed.files();
        names.retain(|name| name.extension().is_some_and(|end| end == "log"));
        let segment = directory.path().join(names.last().unwrap());
        let bytes = fs::read(&segment).unwrap();
        // Without the file `acknowledged`, only later records in the journal show that a change is lost.
        let damaged = match keeps_mark {
            true => bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64,
            false => SEGMENT_HEADER_BYTES + 40,
        };
        assert!(flip(&segment, damaged, 0));
        if !keeps_mark {
            fs::remove_file(directory.path().join("acknowledged")).unwrap();
        }
        let (first, unconfirmed) = repair(directory.path()).unwrap();
        drop(unconfirmed);
        // Without the file `acknowledged`, the first damaged record and the record after it are known. No change is
        // lost if the files in `tables` have both.
        let first_damaged: Lsn = segment.file_stem().unwrap().to_str().unwrap().parse().unwrap();
        let is_lost = keeps_mark || killed.last_change_in_tables() <= first_damaged;
        assert_eq!(first.lost.is_some(), is_lost, "{first:?}");
        for _ in 0..2 {
            let why = open(directory.path()).unwrap_err().to_string();
            assert!(why.contains("its report could not be written"), "{why}");
            let (again, unconfirmed) = repair(directory.path()).unwrap();
            drop(unconfirmed);
            assert_eq!(
                (again.lost, again.last_lsn),
                (first.lost, first.last_lsn),
                "{again:?}"
            );
        }
        assert_eq!(repaired(directory.path()).lost, first.lost);
        reopened(directory.path()).expect("a repaired table opens");
    }
}

#[test]
fn after_a_repair_in_the_middle_changes_are_made_and_kept() {
    for has_checkpoints in [false, true] {
        let killed = Killed::new(has_checkpoints);
        let directory = killed.copy();
        let names = killed.files();
        let last = names
            .iter()
            .rfind(|name| name.extension().is_some_and(|end| end == "log"));
        let segment = directory.path().join(last.unwrap());
        assert!(flip(&segment, SEGMENT_HEADER_BYTES + 40, 3));
        let is_refused = reopened(directory.path()).is_none();
        let done = repaired(directory.path());
        // A damaged journal is refused even if the files in `tables` have all of its changes.
        assert!(done.lost.is_none() || is_refused, "{done:?}");
        let mut now = reopened(directory.path()).expect("a repaired table opens");
        for round in 0..2 {
            let table = open(directory.path()).unwrap();
            change(&table, &mut now, 100_000 + round * 500, 400);
            drop(table);
            assert_eq!(reopened(directory.path()).as_ref(), Some(&now));
        }
    }
}

#[test]
fn the_journal_is_shortened_and_every_row_survives_restarts() {
    let home = new_home();
    let mut kept = Rows::new();
    for round in 0..6 {
        let table = open(home.path()).unwrap();
        assert_eq!(rows(&table).unwrap(), kept);
        change(&table, &mut kept, round * 2000, 2000);
    }
    assert_eq!(reopened(home.path()).as_ref(), Some(&kept));
    let first = fs::read_dir(home.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    let first = first
        .filter(|name| name.to_string_lossy().ends_with(".log"))
        .min()
        .unwrap();
    assert_ne!(
        first.to_string_lossy(),
        format!("{:020}.log", 1),
        "the journal was never shortened"
    );
}

#[test]
fn a_table_of_an_earlier_version_is_refused_unchanged() {
    let home = new_home();
    drop(FsDisk::claim(home.path(), &KIND).unwrap());
    fs::create_dir(home.path().join("keyspaces")).unwrap();
    let why = open(home.path()).unwrap_err().to_string();
    assert!(why.contains("earlier version"), "{why}");
    assert!(home.path().join("keyspaces").exists());
}

#[test]
fn errors_of_fjall_are_told_in_plain_words() {
    let full = fjall::Error::Io(std::io::Error::from_raw_os_error(28));
    assert_eq!(
        plain(&full),
        "the disk was full while a file in `tables` was written"
    );
    let broken = fjall::Error::Io(std::io::Error::from_raw_os_error(5));
    for error in [full, broken, fjall::Error::Poisoned] {
        let message = plain(&error);
        assert!(
            !message.contains("Fjall") && !message.contains("Os {"),
            "{message}"
        );
        assert!(message.contains("`tables`"), "{message}");
    }
}

/// Changes are refused before the disk is full, because fjall takes no change any more after a write found no space.
#[test]
fn changes_are_refused_while_the_reserve_is_not_free_and_accepted_afterwards() {
    let home = new_home();
    let table = open(home.path()).unwrap();
    let reserve = &table.shared.reserve;
    let bytes = reserve.bytes.load(Ordering::Relaxed);
    assert_eq!(bytes, 2 * LIMITS.rows_bytes as u64);
    assert_eq!(reserve.lack_at(bytes), None);
    assert!(reserve.lack_at(bytes - 1).unwrap().contains("a reserve of 2 MiB"));
    table.write(place(1), Some(vec![1])).unwrap();
    // No disk has this much free space.
    reserve.bytes.store(u64::MAX, Ordering::Relaxed);
    let refused = table.write(place(2), Some(vec![2]));
    assert!(matches!(refused, Err(TableError::Full(_))), "{refused:?}");
    assert!(table.full().is_some() && table.failed().is_none());
    reserve.bytes.store(bytes, Ordering::Relaxed);
    table.write(place(3), Some(vec![3])).unwrap();
    assert_eq!(table.full(), None);
    let expected = BTreeMap::from([(place(1), vec![1]), (place(3), vec![3])]);
    assert_eq!(rows(&table).unwrap(), expected);
}
