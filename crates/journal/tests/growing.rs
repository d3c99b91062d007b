//! A journal is read while its server appends to it.

use lineside_journal::{Disk, DiskFile, Error, Journal, Options, SimDisk, dump};
use std::io;
use std::sync::{Arc, Mutex};

/// Bytes that a reader reads at once.
const CHUNK: u64 = 1 << 20;

type Append = Arc<Mutex<dyn FnMut() + Send>>;

/// Disk whose server appends records when a reader reads the second chunk of a segment.
#[derive(Clone)]
struct GrowingDisk {
    disk: SimDisk,
    append: Append,
}

struct GrowingFile<F> {
    file: F,
    /// `None` for a file that is not a segment.
    append: Option<Append>,
}

impl GrowingDisk {
    fn file<F>(&self, name: &str, file: F) -> GrowingFile<F> {
        let append = name.ends_with(".log").then(|| Arc::clone(&self.append));
        GrowingFile { file, append }
    }
}

impl Disk for GrowingDisk {
    type File = GrowingFile<<SimDisk as Disk>::File>;

    fn create(&self, name: &str) -> io::Result<Self::File> {
        self.disk.create(name).map(|file| self.file(name, file))
    }

    fn open(&self, name: &str) -> io::Result<Self::File> {
        self.disk.open(name).map(|file| self.file(name, file))
    }

    fn open_read(&self, name: &str) -> io::Result<Self::File> {
        self.disk.open_read(name).map(|file| self.file(name, file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.disk.sync_dir()
    }
}

impl<F: DiskFile> DiskFile for GrowingFile<F> {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        if let Some(append) = self.append.as_ref().filter(|_| offset >= CHUNK) {
            (append.lock().unwrap())();
        }
        self.file.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.file.write_at(offset, bytes)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.file.set_len(length)
    }

    fn allocate(&self, length: u64) -> io::Result<()> {
        self.file.allocate(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}

/// Appends a group of `records` records of 100 kB.
fn append_group(journal: &mut Journal<SimDisk>, records: usize) {
    for _ in 0..records {
        journal.append(1, &[7; 100_000]).unwrap();
    }
    journal.commit().unwrap();
}

/// Returns a journal with one group of three records, and its disk, on which a server appends groups of twelve records
/// while a reader is in the segment: `groups` of them at once, and that `times` times.
fn growing(groups: usize, times: usize) -> (SimDisk, GrowingDisk) {
    let disk = SimDisk::new(1);
    let mut journal = Journal::create(disk.clone(), 9, Options::default()).unwrap();
    append_group(&mut journal, 3);
    let mut left = times;
    let append = move || {
        if left > 0 {
            left -= 1;
            (0..groups).for_each(|_| append_group(&mut journal, 12));
        }
    };
    let growing = GrowingDisk {
        disk: disk.clone(),
        append: Arc::new(Mutex::new(append)),
    };
    (disk, growing)
}

/// Regression test: the reader took records that a server wrote after the place at which it had found the end for
/// damage at that place.
#[test]
fn records_that_are_written_meanwhile_are_no_damage() {
    for (groups, times) in [(1, 1), (2, 1), (3, 2), (2, 7)] {
        let (_, disk) = growing(groups, times);
        let mut lsns = Vec::new();
        dump(&disk, 1, |record| lsns.push(record.lsn)).unwrap();
        let first = (1..).take(lsns.len()).collect::<Vec<_>>();
        assert_eq!(lsns, first);
        assert_eq!(lsns.len() % 12, 3, "whole groups: {}", lsns.len());
        assert!(
            groups == 1 || lsns.len() > 3,
            "the reader has seen the new records"
        );
    }
}

#[test]
fn damage_is_found_also_if_records_are_written_meanwhile() {
    let (sim, disk) = growing(2, 1);
    let name = sim
        .list()
        .unwrap()
        .into_iter()
        .find(|name| name.ends_with(".log"));
    let file = sim.open(&name.expect("a segment")).unwrap();
    // In the payload of the second record.
    file.write_at(150_000, &[0]).unwrap();
    let mut lsns = Vec::new();
    let found = dump(&disk, 1, |record| lsns.push(record.lsn));
    assert!(matches!(found, Err(Error::Damaged { lsn: 2, .. })), "{found:?}");
    assert_eq!(lsns, [1]);
}
