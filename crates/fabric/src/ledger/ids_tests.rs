//! Tests of a ledger with ids in files: a repeated transaction is a duplicate after any restart and any damage of the
//! files.

use super::{LedgerError, OpenFindings, Replica, Setup, StateStore, verify_ledger};
use crate::code::TxCode;
use crate::tests::network::{Network, Tx};
use crate::validate::Options;
use lineside_journal::FsDisk;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Number of transactions in a block.
const BLOCK: usize = 120;
/// Number of blocks before the checkpoint. Their ids are in a merged run, in runs that are not merged, and in memory.
const BLOCKS: usize = 13;

/// Makes blocks of transactions without endorsements. Such transactions are invalid, but their ids are recorded.
struct Sender {
    network: Network,
    tx: Tx,
    sent: Vec<Vec<u8>>,
}

fn setup(folder: &Path) -> Setup {
    Setup {
        state: StateStore::Disk(folder.join("state")),
        checkpoint_after: 0,
        ..Setup::default()
    }
}

fn open(folder: &Path) -> (Replica<FsDisk>, OpenFindings) {
    Replica::open(FsDisk::open(folder).unwrap(), setup(folder), None).unwrap()
}

impl Sender {
    /// Creates a ledger.
    fn begin(folder: &Path) -> (Self, Replica<FsDisk>) {
        let mut network = Network::new();
        let (mut replica, _) = open(folder);
        replica.add(network.genesis()).unwrap();
        let tx = network.tx("cc", b"").by(&[]);
        let sent = Vec::new();
        (Self { network, tx, sent }, replica)
    }

    fn new_transaction(&mut self) -> Vec<u8> {
        self.tx.nonce += 1;
        self.tx.build()
    }

    /// Adds a block of these transactions and returns its codes.
    fn add(
        &mut self,
        replica: &mut Replica<FsDisk>,
        transactions: &[Vec<u8>],
    ) -> Result<Vec<TxCode>, LedgerError> {
        let validator = replica.validator().unwrap();
        self.network.last = (validator.last(), validator.last_hash().to_vec());
        let block = self.network.block(transactions);
        replica.add(block).map(|added| added.codes)
    }

    /// Adds blocks of new transactions.
    fn grow(&mut self, replica: &mut Replica<FsDisk>, blocks: usize) {
        for _ in 0..blocks {
            let transactions: Vec<Vec<u8>> = (0..BLOCK).map(|_| self.new_transaction()).collect();
            let codes = self.add(replica, &transactions).unwrap();
            assert!(!codes.contains(&TxCode::DuplicateTxid), "{codes:?}");
            self.sent.extend(transactions);
        }
    }

    /// Adds a block with one new transaction and some earlier transactions, which must all get the code for duplicates.
    fn repeat(&mut self, replica: &mut Replica<FsDisk>) -> Result<(), LedgerError> {
        let mut transactions = vec![self.new_transaction()];
        transactions.extend(self.sent.iter().step_by(13).cloned());
        transactions.extend(self.sent.last().cloned());
        let codes = self.add(replica, &transactions)?;
        for (at, code) in codes.iter().enumerate() {
            let is_duplicate = *code == TxCode::DuplicateTxid;
            assert_eq!(is_duplicate, at > 0, "transaction {at} of the block: {code:?}");
        }
        Ok(())
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &to),
            false => drop(fs::copy(&path, &to).unwrap()),
        }
    }
}

/// Returns the files of ids in a ledger's folder, with their content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let all = fs::read_dir(folder.join("state/ids")).unwrap();
    let paths = all.map(|entry| entry.unwrap().path());
    paths
        .map(|path| {
            (
                path.strip_prefix(folder).unwrap().to_owned(),
                fs::read(&path).unwrap(),
            )
        })
        .collect()
}

/// Creates a ledger with a complete checkpoint and closes it. Returns its sender.
fn made(folder: &Path) -> Sender {
    let (mut sender, mut replica) = Sender::begin(folder);
    sender.grow(&mut replica, BLOCKS);
    replica.checkpoint().unwrap();
    replica.stop().unwrap();
    let names: Vec<String> = files(folder)
        .keys()
        .map(|path| path.display().to_string())
        .collect();
    let expected = [
        "state/ids/run-0000000000-0000001024",
        "state/ids/run-0000001024-0000000256",
        "state/ids/run-0000001280-0000000256",
        "state/ids/transactions",
    ];
    assert_eq!(names, expected);
    sender
}

#[test]
fn an_id_that_comes_again_is_found_across_restarts_and_merged_runs() {
    let folder = tempfile::tempdir().unwrap();
    let mut sender = made(folder.path());
    for round in 0..4 {
        let (mut replica, opened) = open(folder.path());
        assert_eq!(
            (opened.ledger.damaged, opened.ledger.ids_remade),
            (vec![], vec![])
        );
        sender.repeat(&mut replica).unwrap();
        sender.grow(&mut replica, 2);
        sender.repeat(&mut replica).unwrap();
        // Without a checkpoint, in the even rounds, the next opening replays all blocks since the previous checkpoint.
        if round % 2 == 1 {
            replica.checkpoint().unwrap();
        }
        replica.stop().unwrap();
    }
    let state = setup(folder.path()).state;
    let disk = FsDisk::open(folder.path()).unwrap();
    let report = verify_ledger(&disk, &state, &Options::default(), &mut |_| {}).unwrap();
    assert_eq!(report.findings, Vec::<String>::new());
}

/// Replaces a file in a copy of an intact ledger with `bytes`, and checks that the change causes no wrong code. There
/// are three acceptable results: the change is reported when the ledger is opened; a block whose codes depend on the
/// file is refused, and the next opening reports the change; or no code depends on the file. Returns the reports.
fn opens_or_refuses(sound: &Path, sender: &mut Sender, file: &Path, bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    copy(sound, folder.path());
    fs::write(folder.path().join(file), bytes).unwrap();
    let mut said = Vec::new();
    for _ in 0..2 {
        let (mut replica, opened) = open(folder.path());
        said.extend(opened.ledger.damaged);
        said.extend(opened.ledger.ids_remade);
        assert_eq!(opened.ledger.state_remade, None);
        match sender.repeat(&mut replica) {
            Ok(()) => return said.join("; "),
            Err(error) => said.push(format!("refused: {}", causes(&error))),
        }
    }
    panic!("refused again: {said:?}");
}

fn causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[test]
fn a_changed_bit_in_a_file_of_ids_never_gives_a_wrong_code() {
    let sound = tempfile::tempdir().unwrap();
    let mut sender = made(sound.path());
    for (file, bytes) in files(sound.path()) {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let (mut named, mut refused) = (0, 0);
        let step = (bytes.len() / 5) | 1;
        let ends = [0, 9, bytes.len() - 1, bytes.len() - 60];
        for at in (40..bytes.len()).step_by(step).chain(ends) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            let said = opens_or_refuses(sound.path(), &mut sender, &file, &changed);
            assert!(said.is_empty() || said.contains(&name), "{name} at {at}: {said}");
            refused += usize::from(said.contains("refused"));
            named += usize::from(!said.is_empty());
        }
        eprintln!("{name}: {named} changes were reported, {refused} of them after a block was refused");
        assert!(
            named > 4 && refused > 0,
            "{name}: {named} named, {refused} refused"
        );
    }
}

/// A query fails with an error if the page of ids that it needs cannot be read; it does not answer that there is no
/// such transaction.
#[test]
fn an_unreadable_page_is_an_error_and_not_a_missing_transaction() {
    let folder = tempfile::tempdir().unwrap();
    made(folder.path());
    let (replica, _) = open(folder.path());
    let blocks = replica.blocks();
    let arena = crate::proto::Arena::new();
    let block = blocks.block(1).unwrap();
    let bytes = block.committed();
    let block = crate::block::Block::read(&bytes, &arena).unwrap();
    let rules = crate::rules::Rules::default();
    let parsed = crate::tx::parse(
        &block.transactions,
        replica.validator().unwrap().channel(),
        &arena,
        rules,
    );
    let id = parsed[0].id.clone().unwrap();
    let found = blocks.transaction(&id).unwrap().unwrap();
    assert_eq!((found.block, found.index), (1, 0));
    let file = folder.path().join("state/ids/transactions");
    let bytes = fs::read(&file).unwrap();
    let file = fs::File::options().write(true).open(file).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[bytes[5_000] ^ 1], 5_000).unwrap();
    let unread = blocks.transaction(&id);
    assert!(
        matches!(&unread, Err(LedgerError::State { what }) if what.contains("transactions")),
        "{unread:?}"
    );
}

#[test]
fn files_of_ids_that_are_cut_older_or_of_another_ledger_never_give_a_wrong_code() {
    let (older, sound, other) = (
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let mut sender = made(older.path());
    copy(older.path(), sound.path());
    let (mut replica, _) = open(sound.path());
    sender.grow(&mut replica, 3);
    replica.checkpoint().unwrap();
    replica.stop().unwrap();
    // The other ledger has the same number of transactions, with other ids.
    let (mut others, mut replica) = Sender::begin(other.path());
    others.tx.nonce += 1_000_000;
    others.grow(&mut replica, BLOCKS + 3);
    replica.checkpoint().unwrap();
    replica.stop().unwrap();
    let (older, other) = (files(older.path()), files(other.path()));
    for (file, bytes) in files(sound.path()) {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        let is_run = name.starts_with("run-");
        for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
            let said = opens_or_refuses(sound.path(), &mut sender, &file, &bytes[..cut]);
            assert!(said.contains(&name), "{name} cut at {cut}: {said}");
        }
        if let Some(bytes) = older.get(&file) {
            let said = opens_or_refuses(sound.path(), &mut sender, &file, bytes);
            // An older run of the same transactions has the same ids.
            assert!(is_run || said.contains(&name), "{name}, an older one: {said}");
        }
        let said = opens_or_refuses(sound.path(), &mut sender, &file, &other[&file]);
        assert!(said.contains(&name), "{name} of another ledger: {said}");
    }
    // The complete set of files of the other ledger is consistent, but does not match the checkpoint.
    let folder = tempfile::tempdir().unwrap();
    copy(sound.path(), folder.path());
    for (file, bytes) in &other {
        fs::write(folder.path().join(file), bytes).unwrap();
    }
    let (mut replica, opened) = open(folder.path());
    let said = opened.ledger.damaged.join("; ");
    assert!(
        said.contains("not those that the checkpoint was written for"),
        "{said}"
    );
    sender.repeat(&mut replica).unwrap();
}
