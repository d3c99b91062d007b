use super::log::{PAGE_BYTES, RECORD_BYTES, RECORDS};
use super::memory::MemoryIds;
use super::{DiskIds, IdsCheckpoint, NO_ID, Record};
use lineside_testkit::Random;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Reference model of the index: all records, and the first number of each id.
#[derive(Default)]
struct Model {
    records: Vec<Record>,
    first: BTreeMap<[u8; 32], u32>,
}

impl Model {
    /// Adds and returns the next record: mostly with a new id, sometimes with an earlier id or without an id.
    fn next(&mut self, random: &mut Random) -> Record {
        let id = match random.below(20) {
            0 => NO_ID,
            1 if !self.records.is_empty() => self.records[random.below(self.records.len() as u64) as usize].0,
            _ => id(random.next()),
        };
        let record = (id, random.below(26) as u8);
        if id != NO_ID {
            let number = self.records.len() as u32;
            self.first.entry(id).or_insert(number);
        }
        self.records.push(record);
        record
    }

    /// Returns the part of a checkpoint for the first `count` records.
    fn tail(&self, count: usize) -> IdsCheckpoint {
        let mut all = MemoryIds::default();
        let records = self.records[..count].iter();
        records.clone().for_each(|(id, code)| all.push(*id, *code));
        let pages = count / RECORDS;
        IdsCheckpoint {
            sum: all.sum_after(pages as u64),
            records: records
                .skip(pages * RECORDS)
                .flat_map(|(id, code)| id.iter().copied().chain([*code]))
                .collect(),
        }
    }

    fn open(&self, folder: &Path, count: usize) -> std::io::Result<(DiskIds, Vec<String>)> {
        DiskIds::open(folder, count as u64, self.tail(count))
    }

    /// Adds the records that the index lacks, as the replay of blocks after a checkpoint does.
    fn catch_up(&self, ids: &mut DiskIds) {
        for (id, code) in &self.records[ids.len()..] {
            ids.push(*id, *code);
        }
    }

    fn compare(&self, ids: &DiskIds, random: &mut Random) {
        assert_eq!(ids.len(), self.records.len());
        for (number, record) in self.records.iter().enumerate() {
            assert_eq!(ids.record(number), Some(*record), "record {number}");
        }
        assert_eq!(ids.record(self.records.len()), None);
        for (id, number) in &self.first {
            assert_eq!(ids.find(id), Some(*number));
            assert_eq!(ids.find(&super::tests::id(random.next())), None);
        }
        assert_eq!(ids.failure(), None);
    }
}

fn id(seed: u64) -> [u8; 32] {
    let words = [seed, !seed, seed.rotate_left(7), seed.wrapping_mul(3)];
    let bytes = words.map(u64::to_be_bytes);
    bytes.as_flattened().try_into().unwrap()
}

/// Returns the paths of the runs' files, sorted.
fn runs(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_run = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("run-");
    let mut runs: Vec<PathBuf> = all.filter(is_run).collect();
    runs.sort();
    runs
}

/// Creates an index of `count` transactions, which is durable and closed.
fn made(folder: &Path, count: usize) -> Model {
    let (mut model, mut random) = (Model::default(), Random(7));
    let mut ids = DiskIds::create(folder).unwrap();
    for _ in 0..count {
        let (id, code) = model.next(&mut random);
        ids.push(id, code);
    }
    ids.sync().unwrap()().unwrap();
    model
}

/// Compares the index with a map, across restarts from checkpoints of various ages.
#[test]
fn ids_behave_as_a_map_across_restarts() {
    for seed in 1..6 {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("ids");
        let (mut random, mut model) = (Random(seed), Model::default());
        let mut memory = MemoryIds::default();
        let mut ids = DiskIds::create(&folder).unwrap();
        let mut checkpoint = 0;
        for _ in 0..12 {
            for _ in 0..random.below(1_500) {
                let (id, code) = model.next(&mut random);
                ids.push(id, code);
                memory.push(id, code);
            }
            model.compare(&ids, &mut random);
            for (id, number) in &model.first {
                assert_eq!(memory.find(id), Some(*number));
            }
            if random.below(2) == 0 {
                checkpoint = ids.len();
            }
            ids.sync().unwrap()().unwrap();
            drop(ids);
            let (again, remade) = model.open(&folder, checkpoint).unwrap();
            assert_eq!((again.len(), remade), (checkpoint, vec![]));
            ids = again;
            model.catch_up(&mut ids);
            model.compare(&ids, &mut random);
        }
        assert!(!runs(&folder).is_empty() && runs(&folder).len() < 12);
    }
}

#[test]
fn ids_after_the_checkpoint_are_discarded() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("ids");
    let model = made(&folder, 5_000);
    // Simulate the files after a crash: an incomplete page, an incomplete run, and a run of transactions after the
    // checkpoint.
    let log = folder.join("transactions");
    let mut bytes = fs::read(&log).unwrap();
    let from = (1 + 4_000 / RECORDS) * PAGE_BYTES;
    bytes[from..].fill(0xee);
    fs::write(&log, bytes).unwrap();
    fs::write(folder.join("run-0000009999-0000000256.new"), b"x").unwrap();
    let (mut ids, remade) = model.open(&folder, 4_000).unwrap();
    assert_eq!(remade, Vec::<String>::new());
    assert!(!folder.join("run-0000009999-0000000256.new").exists());
    let beyond = |(id, number): &(&[u8; 32], &u32)| **number >= 4_000 && ids.find(id).is_some();
    assert_eq!(model.first.iter().filter(beyond).count(), 0);
    model.catch_up(&mut ids);
    model.compare(&ids, &mut Random(3));
}

/// A damaged run is reported and rebuilt from the file of all ids.
#[test]
fn damaged_and_missing_runs_are_named_and_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("ids");
    let model = made(&folder, 5_000);
    let all = runs(&folder);
    assert!(all.len() > 2, "{all:?}");
    let name = all[0].file_name().unwrap().to_str().unwrap().to_owned();
    let length = fs::metadata(&all[0]).unwrap().len() as usize;
    for at in [length - 1, length - 60, length - 100] {
        let mut bytes = fs::read(&runs(&folder)[0]).unwrap();
        bytes[at] ^= 4;
        fs::write(&runs(&folder)[0], bytes).unwrap();
        let (ids, remade) = model.open(&folder, 5_000).unwrap();
        assert!(remade[0].contains(&name), "{remade:?}");
        model.compare(&ids, &mut Random(at as u64));
        drop(ids);
        // The rebuilt run has another size, and later runs depend on it, so the folder is created again for the next
        // round.
        fs::remove_dir_all(&folder).unwrap();
        made(&folder, 5_000);
        // The new folder has another seed and the same ids.
        assert_eq!(runs(&folder), all);
    }
    fs::remove_file(&all[0]).unwrap();
    let (ids, remade) = model.open(&folder, 5_000).unwrap();
    assert!(remade[0].contains("is missing"), "{remade:?}");
    model.compare(&ids, &mut Random(9));
}

/// A changed page of a run is detected when an id is looked up in it.
#[test]
fn a_damaged_page_is_an_error_that_names_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("ids");
    let model = made(&folder, 5_000);
    let (run, log) = (runs(&folder)[0].clone(), folder.join("transactions"));
    for file in [run, log] {
        let sound = fs::read(&file).unwrap();
        let mut bytes = sound.clone();
        // Change the first page of a run, or in the file of all ids the second page of records, which is the third page
        // of that file.
        let at = if file.ends_with("transactions") {
            2 * PAGE_BYTES + 40
        } else {
            40
        };
        bytes[at] ^= 1;
        fs::write(&file, bytes).unwrap();
        let (ids, _) = model.open(&folder, 5_000).unwrap();
        for id in model.first.keys() {
            ids.find(id);
        }
        let failure = ids.failure().unwrap().to_owned();
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(failure.contains(name) && failure.contains("page"), "{failure}");
        drop(ids);
        let refused = model.open(&folder, 5_000).unwrap_err().to_string();
        assert_eq!(refused, failure);
        fs::write(&file, sound).unwrap();
        fs::remove_file(folder.join("damaged")).unwrap();
    }
}

/// An error names the file that cannot be written, for example on a full disk. The failure does not count as damage:
/// after a restart from the checkpoint, the index accepts transactions again.
#[test]
fn a_failed_write_is_named_and_the_next_start_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("ids");
    let mut model = made(&folder, 3_000);
    let (mut ids, _) = model.open(&folder, 3_000).unwrap();
    ids.refuse_writes();
    let mut random = Random(8);
    let mut before_failure = 0;
    while ids.failure().is_none() {
        let (id, code) = model.next(&mut random);
        ids.push(id, code);
        before_failure += 1;
        assert!(before_failure <= RECORDS, "no write of a whole page has failed");
    }
    let failure = ids.failure().unwrap().to_owned();
    assert!(failure.contains("transactions: "), "{failure}");
    assert!(
        ids.sync().is_err(),
        "records that were not written must not count as durable"
    );
    drop(ids);
    let (mut ids, remade) = model.open(&folder, 3_000).unwrap();
    assert_eq!((ids.len(), remade), (3_000, vec![]));
    model.catch_up(&mut ids);
    model.compare(&ids, &mut random);
    assert_eq!(ids.failure(), None);
}

#[test]
fn a_damaged_or_missing_file_of_ids_is_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("ids");
    let model = made(&folder, 3_000);
    let log = folder.join("transactions");
    let sound = fs::read(&log).unwrap();
    let refused = |model: &Model, count| {
        let error = model.open(&folder, count).unwrap_err().to_string();
        assert!(error.contains("ids/transactions"), "{error}");
    };
    for bytes in [&sound[..sound.len() - 1], &sound[..PAGE_BYTES], &sound[..7], b""] {
        fs::write(&log, bytes).unwrap();
        refused(&model, 3_000);
    }
    let mut changed = sound.clone();
    changed[9] ^= 1;
    fs::write(&log, changed).unwrap();
    refused(&model, 3_000);
    fs::write(&log, &sound).unwrap();
    let mut short = model.tail(3_000);
    short.records.drain(..RECORD_BYTES);
    let error = DiskIds::open(&folder, 3_000, short).unwrap_err().to_string();
    assert!(error.contains("ids/transactions"), "{error}");
    assert!(model.open(&folder, 3_000).is_ok());
    fs::remove_file(&log).unwrap();
    refused(&model, 3_000);
}
