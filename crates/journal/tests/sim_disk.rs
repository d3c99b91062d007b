//! Tests of the simulated disk: it loses only data that a real disk may lose.

use lineside_journal::{Disk, DiskFile, Op, SimDisk};
use std::collections::BTreeSet;

fn read(disk: &SimDisk, name: &str) -> Option<Vec<u8>> {
    disk.content(name)
}

#[test]
fn synced_data_survives_and_unsynced_data_may_survive_in_part() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let disk = SimDisk::new(seed);
        let file = disk.create("a").unwrap();
        file.write_at(0, &[1; 1536]).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir().unwrap();
        file.write_at(512, &[2; 512]).unwrap();
        file.write_at(512, &[3; 512]).unwrap();
        file.write_at(1024, &[4; 512]).unwrap();
        disk.power_cut();
        let bytes = read(&disk, "a").unwrap();
        assert_eq!((bytes.len(), &bytes[..512]), (1536, &[1; 512][..]));
        assert!(
            bytes
                .chunks(512)
                .all(|sector| sector.iter().all(|byte| *byte == sector[0]))
        );
        seen.insert((bytes[512], bytes[1024]));
        assert!(
            file.len().is_err(),
            "a file that was opened before a power cut must return errors"
        );
    }
    let all = [1, 2, 3].into_iter().flat_map(|a| [(a, 1), (a, 4)]);
    assert_eq!(seen, all.collect());
}

#[test]
fn names_are_durable_after_the_sync_of_the_directory() {
    let (mut kept, mut lost, mut renamed) = (0, 0, 0);
    for seed in 0..200 {
        let disk = SimDisk::new(seed);
        for name in ["stays", "old"] {
            disk.create(name).unwrap();
        }
        disk.sync_dir().unwrap();
        let file = disk.create("new").unwrap();
        file.write_at(0, b"bytes").unwrap();
        file.sync_data().unwrap();
        disk.rename("old", "other").unwrap();
        disk.power_cut();
        let names = disk.list().unwrap();
        assert!(names.contains(&"stays".into()));
        assert!(names.contains(&"old".into()) != names.contains(&"other".into()));
        renamed += usize::from(names.contains(&"other".into()));
        match read(&disk, "new") {
            Some(bytes) => {
                assert_eq!(bytes, b"bytes");
                kept += 1;
            }
            None => lost += 1,
        }
    }
    assert!(
        kept > 20 && lost > 20 && renamed > 20 && renamed < 180,
        "{kept} {lost} {renamed}"
    );
}

#[test]
fn a_failed_sync_may_lose_data_that_can_still_be_read() {
    let mut forgotten = 0;
    for seed in 0..100 {
        let disk = SimDisk::new(seed);
        let file = disk.create("a").unwrap();
        file.allocate(512).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir().unwrap();
        file.write_at(0, &[9; 512]).unwrap();
        disk.fail_nth(Op::SyncData, 1);
        assert!(file.sync_data().is_err());
        assert_eq!(read(&disk, "a").unwrap(), [9; 512]);
        file.sync_data().unwrap();
        disk.power_cut();
        forgotten += usize::from(read(&disk, "a").unwrap() == [0; 512]);
    }
    assert!(forgotten > 20 && forgotten < 100, "{forgotten}");
}

#[test]
fn a_fault_happens_once_at_the_operation_for_which_it_was_set() {
    let disk = SimDisk::new(1);
    let file = disk.create("a").unwrap();
    disk.fail_nth(Op::Write, 2);
    assert!(
        file.write_at(0, b"1").is_ok() && file.write_at(0, b"2").is_err() && file.write_at(0, b"3").is_ok()
    );
    disk.cut_at(2);
    assert!(file.write_at(0, b"4").is_ok());
    assert!(!disk.is_dead() && file.sync_data().is_err() && disk.is_dead());
    assert!(disk.create("b").is_err() && disk.list().is_err() && disk.open("a").is_err());
    disk.power_cut();
    assert!(!disk.is_dead() && disk.create("b").is_ok());
    disk.skip_nth(Op::SyncDir, 1);
    let counts = disk.counts();
    assert!(disk.sync_dir().is_ok());
    assert_eq!(disk.counts().sync_dirs, counts.sync_dirs + 1);
}

#[test]
fn a_full_disk_accepts_data_again_after_space_is_freed() {
    let disk = SimDisk::new(1);
    disk.set_capacity_bytes(Some(1536));
    let file = disk.create("a").unwrap();
    file.allocate(1024).unwrap();
    let other = disk.create("b").unwrap();
    assert_eq!(
        other.allocate(1024).unwrap_err().kind(),
        std::io::ErrorKind::StorageFull
    );
    assert_eq!((disk.used_bytes(), other.len().unwrap()), (1024, 0));
    assert_eq!(
        other.write_at(0, &[1; 2000]).unwrap(),
        512,
        "a write uses the space that is left"
    );
    assert_eq!(
        other.write_at(512, &[1]).unwrap_err().kind(),
        std::io::ErrorKind::StorageFull
    );
    assert_eq!(
        file.write_at(0, &[1; 1024]).unwrap(),
        1024,
        "allocated space is available on a full disk"
    );
    disk.remove("a").unwrap();
    assert_eq!(other.write_at(512, &[1]).unwrap(), 1);
}

#[test]
fn the_same_seed_and_calls_give_the_same_disk() {
    let run = |seed| {
        let disk = SimDisk::new(seed);
        disk.set_short_writes(true);
        let file = disk.create("a").unwrap();
        disk.sync_dir().unwrap();
        let written: Vec<usize> = (0..20)
            .map(|i| file.write_at(i * 700, &[i as u8; 900]).unwrap())
            .collect();
        let fork = disk.fork(5);
        disk.power_cut();
        fork.power_cut();
        (written, disk.content("a"), fork.content("a"))
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
