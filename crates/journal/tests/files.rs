//! Tests of the journal on real files: the lock, reopening, segments, snapshots, and a disk that is really full.

use lineside_journal::{Error, FsDisk, GroupCommit, Journal, Options, repair, verify};
use lineside_util::data_dir::Watch;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Writes groups until one is refused; returns the reason. Panics after a minute.
fn write_until_refused(journal: &mut Journal<FsDisk>) -> Error {
    let began = Instant::now();
    loop {
        match journal.append(1, b"after").and_then(|_| journal.commit()) {
            Ok(_) => assert!(
                began.elapsed() < Duration::from_secs(60),
                "not noticed within a minute"
            ),
            Err(error) => return error,
        }
    }
}

fn options() -> Options {
    Options {
        segment_bytes: 64 << 10,
        record_bytes_max: 4096,
        group_bytes_max: 32 << 10,
        ..Options::default()
    }
}

/// Opens a directory that has no owner any more, and repeats the attempt: a process that another test is just starting
/// has inherited this test's open files, and their locks, until it executes its own program.
fn open(path: &Path) -> FsDisk {
    let began = Instant::now();
    loop {
        match FsDisk::open(path) {
            Err(Error::Locked { .. }) if began.elapsed() < Duration::from_secs(10) => {
                std::thread::yield_now()
            }
            opened => return opened.unwrap(),
        }
    }
}

#[test]
fn a_directory_has_only_one_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b");
    let disk = FsDisk::open(&path).unwrap();
    assert!(matches!(FsDisk::open(&path), Err(Error::Locked { .. })));
    let (journal, recovery) = Journal::open_or_create(disk.clone(), 1, options()).unwrap();
    assert!(recovery.created);
    drop(disk);
    assert!(
        matches!(FsDisk::open(&path), Err(Error::Locked { .. })),
        "the journal also owns the directory"
    );
    drop(journal);
    let (_, recovery) = Journal::open_or_create(open(&path), 1, options()).unwrap();
    assert!(!recovery.created);
}

#[test]
fn records_and_snapshots_in_real_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut last = 0;
    for round in 0..3u64 {
        let disk = open(folder.path());
        let (journal, recovery) = Journal::open_or_create(disk, 1, options()).unwrap();
        assert_eq!((recovery.last_lsn, recovery.cut_bytes), (last, 0));
        let shared = GroupCommit::start(journal).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                let shared = &shared;
                scope.spawn(move || {
                    for _ in 0..100 {
                        let lsn = shared.append(&[(thread, &[thread; 100]), (thread, &[])]).unwrap();
                        shared.wait(lsn).unwrap();
                    }
                });
            }
        });
        let mut journal = shared.stop().unwrap();
        last = journal.durable_lsn();
        assert_eq!(last, 800 * (round + 1));
        journal
            .write_snapshot(last, |w| w.write_all(&[round as u8; 100_000]))
            .unwrap();
        if round == 1 {
            assert!(journal.prune(last).unwrap() > 0);
        }
    }
    let disk = open(folder.path());
    assert!(verify(&disk).unwrap().is_sound());
    let (journal, _) = Journal::open(disk, options()).unwrap();
    let mut read = Vec::new();
    journal
        .latest_snapshot()
        .unwrap()
        .snapshot
        .unwrap()
        .read_to_end(&mut read)
        .unwrap();
    assert_eq!(read, [2; 100_000]);
    let mut records = journal.records(journal.first_lsn()).unwrap();
    let mut next = journal.first_lsn();
    while let Some(record) = records.next().unwrap() {
        assert_eq!(
            (record.lsn, record.payload),
            (next, &[record.kind; 100][..record.payload.len()])
        );
        next += 1;
    }
    assert_eq!(next, last + 1);
}

/// The owner is a process that ends abruptly: its descriptors are closed, and nothing is flushed or cleaned up.
#[test]
fn a_killed_owner_leaves_a_journal_that_opens() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open_or_create(open(folder.path()), 1, options()).unwrap();
    for _ in 0..20 {
        journal.reserve(32 << 10).unwrap();
        (0..7).for_each(|_| assert!(journal.append(1, &[1; 4096]).is_ok()));
        journal.commit().unwrap();
    }
    journal.append(1, b"never committed").unwrap();
    drop(journal);
    let (_, recovery) = Journal::open(open(folder.path()), options()).unwrap();
    assert_eq!((recovery.last_lsn, recovery.cut_bytes), (140, 0));
}

/// File modes exclude other users; docs/journal.md describes this guarantee.
#[test]
fn only_the_owner_can_read_files_and_directory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let (mut journal, _) = Journal::open_or_create(open(&path), 1, options()).unwrap();
    journal.append(1, b"secret").unwrap();
    let last = journal.commit().unwrap();
    journal.write_snapshot(last, |w| w.write_all(b"secret")).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    let names: Vec<_> = std::fs::read_dir(&path).unwrap().flatten().collect();
    assert!(names.len() >= 3, "lock, segment, snapshot: {names:?}");
    for entry in names {
        assert_eq!(mode(&entry.path()), 0o600, "{entry:?}");
    }
}

const FIRST_SEGMENT: &str = "00000000000000000001.log";

/// A restart would not find data that was written after the removal, so each later fdatasync counts as failed.
#[test]
fn a_journal_without_its_directory_or_one_of_its_files_stops_writing() {
    type Remove = fn(&Path) -> std::io::Result<()>;
    // The segment is so large that no other segment is created meanwhile; creating one would fail first.
    let one_segment = Options::default();
    let removals: [Remove; 6] = [
        |path| std::fs::remove_dir_all(path),
        |path| std::fs::remove_file(path.join("lock")),
        |path| std::fs::remove_file(path.join("acknowledged")),
        |path| std::fs::remove_file(path.join(FIRST_SEGMENT)),
        // A copy in the place of the file is another file, which lacks all later data.
        |path| {
            std::fs::copy(path.join(FIRST_SEGMENT), path.join("copy"))?;
            std::fs::rename(path.join("copy"), path.join(FIRST_SEGMENT))
        },
        |path| std::fs::rename(path.join(FIRST_SEGMENT), path.join("kept")),
    ];
    for remove in removals {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        let (mut journal, _) = Journal::open_or_create(open(&path), 1, one_segment).unwrap();
        let watch = Watch::start().unwrap();
        journal.append(1, b"before").unwrap();
        journal.commit().unwrap();
        assert!(matches!(FsDisk::open(&path), Err(Error::Locked { .. })));
        remove(&path).unwrap();
        let refused = write_until_refused(&mut journal);
        assert!(
            refused.to_string().contains("was removed, moved or replaced"),
            "{refused}"
        );
        let poisoned = journal.append(1, b"later");
        assert!(matches!(poisoned, Err(Error::Poisoned { .. })), "{poisoned:?}");
        drop(watch);
    }
}

/// A segment that another process has truncated lacks acknowledged data, although writing to it would succeed.
#[test]
fn a_journal_whose_segment_is_truncated_stops_writing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let (mut journal, _) = Journal::open_or_create(open(&path), 1, Options::default()).unwrap();
    let watch = Watch::start().unwrap();
    journal.append(1, b"before").unwrap();
    journal.commit().unwrap();
    let segment = std::fs::OpenOptions::new()
        .write(true)
        .open(path.join(FIRST_SEGMENT))
        .unwrap();
    segment.set_len(64).unwrap();
    let refused = write_until_refused(&mut journal);
    assert!(
        refused.to_string().contains("was truncated while it was in use"),
        "{refused}"
    );
    drop(watch);
}

/// The watch ignores files that the journal removes itself, and files that are not the journal's.
#[test]
fn pruning_does_not_trigger_the_watch_for_removed_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let (mut journal, _) = Journal::open_or_create(open(&path), 1, options()).unwrap();
    let watch = Watch::start().unwrap();
    std::fs::write(path.join("00000000000000000001.blocks"), "an archive").unwrap();
    let (mut removed, began) = (0, Instant::now());
    // The run covers several checks of the directory, with a reader that opens segments meanwhile.
    while began.elapsed() < Duration::from_millis(3_500) {
        journal.reserve(32 << 10).unwrap();
        (0..7).for_each(|_| assert!(journal.append(1, &[1; 4096]).is_ok()));
        let last = journal.commit().unwrap();
        journal
            .write_snapshot(last, |w| w.write_all(b"all of it"))
            .unwrap();
        let mut records = journal.records(last).unwrap();
        while records.next().unwrap().is_some() {}
        drop(records);
        removed += journal.prune(last).unwrap();
        let _ = std::fs::remove_file(path.join("00000000000000000001.blocks"));
    }
    assert!(removed > 3, "{removed}");
    drop(watch);
}

/// Copies the files of a journal in the order of docs/journal.md.
fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir(to)?;
    std::fs::copy(from.join("acknowledged"), to.join("acknowledged"))?;
    for ending in ["snap", "log"] {
        let names = std::fs::read_dir(from)?.map(|entry| entry.map(|entry| entry.path()));
        let mut paths = names.collect::<std::io::Result<Vec<_>>>()?;
        paths.retain(|path| path.extension().is_some_and(|end| end == ending));
        paths.sort();
        for path in paths {
            std::fs::copy(&path, to.join(path.file_name().unwrap()))?;
        }
    }
    Ok(())
}

/// A copy that is made while the journal is written either is found to be incomplete, or has all records that were
/// acknowledged before the copy began.
#[test]
fn a_copy_of_a_running_journal_has_all_acknowledged_records() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data");
    let (mut journal, _) = Journal::open_or_create(open(&path), 1, options()).unwrap();
    let (acknowledged, is_done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Relaxed) {
                (0..5).for_each(|_| assert!(journal.append(1, &[7; 500]).is_ok()));
                let lsn = journal.commit().unwrap();
                if lsn.is_multiple_of(100) {
                    journal.write_snapshot(lsn, |w| w.write_all(b"state")).unwrap();
                }
                acknowledged.store(lsn, Relaxed);
            }
        });
        let (mut sound, mut lost) = (0, None);
        for attempt in 0..2_000 {
            let copy = folder.path().join(format!("copy-{attempt}"));
            let before = acknowledged.load(Relaxed);
            // A copy fails if the journal removes a snapshot meanwhile, which happens to old snapshots.
            let is_whole = copy_files(&path, &copy).is_ok()
                && verify(&FsDisk::look(&copy).unwrap()).is_ok_and(|found| found.is_sound());
            if is_whole {
                let last = Journal::open(open(&copy), options()).map(|(_, recovery)| recovery.last_lsn);
                if !last.as_ref().is_ok_and(|last| *last >= before) {
                    lost = Some(format!(
                        "the copy ends with {last:?}, but record {before} was acknowledged before it"
                    ));
                }
                sound += usize::from(before > 300);
            }
            std::fs::remove_dir_all(&copy).unwrap();
            if sound == 3 || lost.is_some() {
                break;
            }
        }
        is_done.store(true, Relaxed);
        assert_eq!((sound, lost), (3, None));
    });
}

#[test]
fn damage_in_a_real_file_is_refused_and_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open_or_create(open(folder.path()), 1, options()).unwrap();
    for _ in 0..3 {
        journal.append(1, &[1; 100]).unwrap();
        journal.commit().unwrap();
    }
    drop(journal);
    let path = folder.path().join("00000000000000000001.log");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[64 + 128 + 30] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let disk = open(folder.path());
    assert!(matches!(
        Journal::open(disk.clone(), options()),
        Err(Error::Damaged {
            offset: 192,
            lsn: 2,
            ..
        })
    ));
    let report = repair(&disk, options()).unwrap();
    assert_eq!(
        (report.last_lsn, report.dropped_from, report.dropped_whole_records),
        (1, Some(2), 1)
    );
    assert_eq!(
        std::fs::read(folder.path().join(&report.moved[0].1)).unwrap(),
        bytes
    );
    let (_, recovery) = Journal::open(disk, options()).unwrap();
    assert_eq!((recovery.last_lsn, recovery.cut_bytes), (1, 0));
}

/// File system tmpfs of 1 MiB. Mounting it needs root.
struct SmallDisk {
    folder: tempfile::TempDir,
}

impl SmallDisk {
    fn mount() -> Option<SmallDisk> {
        let folder = tempfile::tempdir().ok()?;
        let mount = ["-t", "tmpfs", "-o", "size=1m,mode=0700", "lineside-journal-test"];
        let output = Command::new("mount")
            .args(mount)
            .arg(folder.path())
            .output()
            .ok()?;
        output.status.success().then_some(SmallDisk { folder })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.folder.path()).output();
    }
}

#[test]
fn a_full_tmpfs_refuses_records_and_accepts_them_again() {
    let Some(small) = SmallDisk::mount() else {
        println!("skipped: a full disk needs a small tmpfs, and mounting one needs root");
        return;
    };
    let disk = FsDisk::open(small.path()).unwrap();
    let (mut journal, _) = Journal::open_or_create(disk.clone(), 1, options()).unwrap();
    let filler = small.path().join("filler");
    std::fs::write(&filler, vec![0; 600 << 10]).unwrap();
    let mut last = 0;
    let refused = loop {
        match journal.append(1, &[7; 1000]) {
            Ok(lsn) => last = lsn,
            Err(error) => break error,
        }
        journal.commit().unwrap();
    };
    assert!(
        matches!(
            refused,
            Error::Full {
                needed_bytes: 65536,
                ..
            }
        ),
        "{refused}"
    );
    assert!(last > 100, "{last}");
    assert!(!small.path().join("next.tmp").exists());
    assert!(matches!(journal.reserve(32 << 10), Err(Error::Full { .. })));
    let state = vec![1; 300 << 10];
    assert!(matches!(
        journal.write_snapshot(last, |w| w.write_all(&state)),
        Err(Error::Full { .. })
    ));
    std::fs::remove_file(&filler).unwrap();
    assert_eq!(journal.append(1, &[7; 1000]).unwrap(), last + 1);
    assert_eq!(journal.commit().unwrap(), last + 1);
    journal.write_snapshot(last, |w| w.write_all(&state)).unwrap();
    drop(journal);
    let (_, recovery) = Journal::open(disk, options()).unwrap();
    assert_eq!(recovery.last_lsn, last + 1);
}
