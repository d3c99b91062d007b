//! Fuzz target for snapshots of a Fabric channel. One file of the snapshot is the input, and the others are unchanged.

use crate::fabric::block_of;
use crate::stores::scratch;
use lineside_fabric::Options;
use lineside_fabric::ledger::{ReadOnlyLedger, Replica, Setup, StateStore, export};
use lineside_fabric::snapshot::{
    ADDITIONAL, Contents, FILES, Files, ReadMore, SIGNABLE, SnapshotHead, check, read,
};
use lineside_fabric::state::{Entry, Height, TxId};
use lineside_journal::SimDisk;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::LazyLock;

/// Number of blocks before the snapshot.
const BLOCKS: u64 = 4;

#[derive(Clone)]
struct SnapshotInMemory(BTreeMap<&'static str, Vec<u8>>);

impl Files for SnapshotInMemory {
    fn open<'f>(&'f mut self, name: &str) -> io::Result<Box<dyn Read + 'f>> {
        let bytes = self.0.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(bytes.as_slice()))
    }
}

/// Returns the names of all files. The first byte of an input selects one.
fn names() -> impl Iterator<Item = &'static str> {
    [SIGNABLE, ADDITIONAL].into_iter().chain(FILES)
}

/// Snapshot of the recorded blocks.
static WHOLE: LazyLock<SnapshotInMemory> = LazyLock::new(|| {
    let disk = SimDisk::new(1);
    let opened = Replica::open(disk.clone(), Setup::default(), None);
    let (mut replica, _) = opened.expect("an empty disk");
    for number in 0..BLOCKS {
        replica.add(block_of(number)).expect("a recorded block");
    }
    replica.stop().expect("a disk in memory");
    let look = ReadOnlyLedger::open(disk, &Options::default(), Some(&StateStore::Memory));
    scratch(|folder| {
        let folder = folder.join("snapshot");
        export(&look.expect("a ledger"), &folder).expect("a folder");
        let read = |name: &'static str| Some((name, std::fs::read(folder.join(name)).ok()?));
        SnapshotInMemory(names().filter_map(read).collect())
    })
});

/// Number of bytes that were read.
#[derive(Default)]
struct Sum {
    bytes: usize,
    last: Option<(String, String, Vec<u8>)>,
}

impl Contents for Sum {
    fn config(&mut self, envelope: &[u8], _: Height) -> Result<ReadMore, String> {
        self.bytes += envelope.len();
        Ok(ReadMore::More)
    }

    fn key(&mut self, namespace: &str, collection: &str, key: &[u8], entry: Entry) -> Result<(), String> {
        self.bytes += key.len() + entry.value.len() + entry.validation_parameter.map_or(0, |of| of.len());
        let now = (namespace.to_owned(), collection.to_owned(), key.to_vec());
        if let Some(last) = &self.last
            && (&last.0, &last.1) == (&now.0, &now.1)
        {
            assert!(last.2 < now.2, "keys of one collection ascend");
        }
        self.last = Some(now);
        Ok(())
    }

    fn id(&mut self, _: TxId) -> Result<(), String> {
        self.bytes += 1;
        Ok(())
    }
}

/// Reads a snapshot with one changed file: first with the original digest, then with the digest of the changed file.
pub fn snapshot(bytes: &[u8]) {
    let Some((which, bytes)) = bytes.split_first() else {
        return;
    };
    let Some(name) = names().nth(usize::from(*which) % names().count()) else {
        return;
    };
    let mut files = WHOLE.clone();
    let was = files.0.insert(name, bytes.to_vec());
    let whole = SnapshotHead::read(&mut WHOLE.clone()).expect("the original snapshot is valid");
    let is_same = was.as_deref() == Some(bytes);
    let checked = SnapshotHead::read(&mut files).and_then(|head| check(&mut files, &head).map(|()| head));
    match &checked {
        Ok(head) if !is_same && FILES.contains(&name) => {
            assert!(
                was.is_none(),
                "{name}: other bytes have the digest of {:?}",
                head.files.get(name)
            );
        }
        Ok(head) if !is_same => {
            // In the file that no digest covers, only the digits of the commit hash may differ.
            assert_eq!(name, ADDITIONAL);
            let mut same = head.clone();
            same.commit_hash = whole.commit_hash;
            assert_eq!(same, whole);
            assert_ne!(head.commit_hash, whole.commit_hash);
        }
        checked => assert_eq!(checked.is_ok(), is_same, "{name}: {checked:?}"),
    }
    // With the right digest, the reader reads the content of the file.
    let mut head = whole;
    head.files.insert(name.to_owned(), Sha256::digest(bytes).into());
    let mut sum = Sum::default();
    let taken = read(&mut files, &head, &mut sum);
    let all: usize = files.0.values().map(Vec::len).sum();
    assert!(sum.bytes <= all, "more bytes are read than exist");
    assert!(taken.is_ok() || !is_same);
}

/// Returns each file of a snapshot.
pub fn snapshot_seeds() -> Vec<Vec<u8>> {
    let files = (0u8..).zip(names());
    let seeds = files.filter_map(|(which, name)| Some([&[which], WHOLE.0.get(name)?.as_slice()].concat()));
    seeds.collect()
}
