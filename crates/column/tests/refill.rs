//! Tests of the host over the real fast path: which rows the host reads around the requested rows, and what it answers.

#[path = "common/gate.rs"]
mod gate;

use gate::Gate;
use lineside_column::coherence::Coherence;
use lineside_column::embedded::{Embedded, system_clock};
use lineside_column::fill::ColumnId;
use lineside_column::host::{ChangeAnnouncer, CoherenceMode, ColumnHost, Setup};
use lineside_column::key::Interval;
use lineside_column::store::{Geometry, Store};
use lineside_column::table::{Change, ColumnName, Nonce, ScanRange, Table};
use lineside_column::writer::ColumnWriter;
use lineside_fastpath::{Host, Readers, Reply, Source, Verdict};
use lineside_messages::column::native::{self, Answer, Ask, Rows};
use lineside_wire::{COLUMN_REPLY_MORE, NativeHeader};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

const COLUMN: ColumnId = ColumnId(0);

/// Key and value of a row.
type Row = (Vec<u8>, Vec<u8>);

struct Scene {
    host: ColumnHost,
    table: Arc<Embedded>,
    gate: Arc<Gate>,
    coherence: Arc<Coherence>,
    readers: Readers,
}

fn foo() -> ColumnName {
    ColumnName::new(b"entry:foo").unwrap()
}

fn row(number: u8) -> Vec<u8> {
    vec![b'r', number]
}

impl Scene {
    /// Creates an empty table, and a fast path that the table informs of its changes.
    fn new() -> Self {
        let geometry = Geometry {
            family_bits: 0,
            column_bits: 0,
            row_bits: 8,
            columns: vec!["entry:foo".into()],
            ..Geometry::default()
        };
        let store = Arc::new(Store::anonymous(&geometry).unwrap());
        let coherence = Arc::new(Coherence::new(Box::new(ColumnWriter::new(store))));
        let table = Arc::new(Embedded::in_memory(system_clock()));
        table.set_listener(Arc::new(ChangeAnnouncer::new(Arc::clone(&coherence), &[foo()])));
        let gate = Arc::new(Gate::before(table.clone()));
        let setup = Setup::new(
            gate.clone(),
            Arc::clone(&coherence),
            vec![foo()],
            CoherenceMode::ByTable,
        );
        Self {
            host: ColumnHost::new(setup).unwrap(),
            table,
            gate,
            coherence,
            readers: Readers::default(),
        }
    }

    fn change(&self, number: u8, change: &Change) {
        self.table
            .change(&row(number), &foo(), change, Nonce::default())
            .unwrap();
    }

    fn ask(&self, ask: &Ask) -> Answer {
        let from = Source {
            address: [127, 0, 0, 1].into(),
            port: 4000,
        };
        let mut reply = Reply::default();
        let request = native::request(1, ask, 1_400).unwrap();
        let verdict = self.host.serve(from, &request, &mut reply, &self.readers.join());
        assert_eq!(verdict, Verdict::Reply);
        native::parse_reply(&reply.as_bytes()[size_of::<NativeHeader>()..]).unwrap_or_default()
    }

    fn get(&self, number: u8) -> Option<Vec<u8>> {
        let answer = self.ask(&Ask::Get(row(number), vec![foo()]));
        answer.rows.into_iter().next().map(|(_, _, value)| value)
    }

    /// Returns the rows of a scan, and true if more rows may follow.
    fn scan(&self, from: u8, to: Option<u8>, limit: u16) -> (Vec<Row>, bool) {
        let rows = Rows {
            start: row(from),
            stop: to.map(row).unwrap_or_default(),
            limit,
            ..Rows::default()
        };
        let answer = self.ask(&Ask::Scan(rows, vec![foo()]));
        let rows = answer.rows.into_iter().map(|(key, _, value)| (key, value));
        (rows.collect(), answer.flags & COLUMN_REPLY_MORE != 0)
    }

    /// Returns the rows that the table itself has.
    fn truth(&self, from: u8, to: Option<u8>) -> Vec<Row> {
        let all = ScanRange {
            low: row(from),
            high: to.map(row),
            limit: usize::MAX,
            reverse: false,
        };
        let found = self.table.scan(&all, &[foo()]).unwrap();
        found
            .into_iter()
            .map(|found| (found.key, found.cell.value))
            .collect()
    }

    fn holds(&self, number: u8) -> bool {
        let row = Interval::of_row(&row(number));
        self.coherence.cached_rows(COLUMN, &row, 1).is_some()
    }

    fn cached_rows_of(&self) -> Vec<u8> {
        (0..=u8::MAX).filter(|number| self.holds(*number)).collect()
    }
}

/// Creates a scene with 32 rows in four blocks.
fn four_blocks() -> Scene {
    let scene = Scene::new();
    for number in 0..32 {
        scene.change(number, &Change::Put(vec![number], None));
    }
    for number in [0, 8, 16, 24] {
        assert_eq!(scene.get(number), Some(vec![number]));
    }
    assert_eq!(scene.coherence.counts().fastpath.blocks, 4);
    scene
}

#[test]
fn one_read_refills_every_row_that_a_change_invalidated() {
    let scene = four_blocks();
    let all: Vec<u8> = (0..=u8::MAX).collect();
    scene.change(11, &Change::Put(vec![0], None));
    assert!(!(8..16).any(|number| scene.holds(number)), "the block of eight");
    assert!(scene.holds(7) && scene.holds(16));
    // Each request begins after the changed row, before it, or in the previous block.
    for (changed, from, to) in [
        (11, 15, None),
        (9, 8, None),
        (15, 15, None),
        (15, 6, None),
        (9, 2, Some(9)),
    ] {
        scene.change(changed, &Change::Put(vec![0], None));
        assert!(!scene.holds(changed));
        scene.scan(from, to, 7);
        assert_eq!(scene.cached_rows_of(), all, "{changed} {from}");
        assert_eq!(scene.coherence.counts().fastpath.blocks, 4);
    }
    // One read restores two blocks.
    scene.change(8, &Change::Delete);
    scene.change(23, &Change::Delete);
    scene.scan(14, None, 4);
    assert_eq!(scene.cached_rows_of(), all);
}

#[test]
fn rows_that_no_longer_fit_a_block_are_split_in_halves() {
    let scene = Scene::new();
    for number in (0..32).step_by(2) {
        scene.change(number, &Change::Put(vec![number], None));
    }
    scene.get(0);
    scene.get(16);
    scene.change(5, &Change::Put(vec![5], None));
    scene.get(0);
    assert_eq!(scene.coherence.counts().fastpath.blocks, 3);
    // Each half has room for three more rows.
    for number in [1, 3, 7, 9, 11, 13] {
        scene.change(number, &Change::Put(vec![number], None));
        scene.get(number);
    }
    assert_eq!(scene.coherence.counts().fastpath.blocks, 3);
    assert_eq!(scene.cached_rows_of().len(), 256);
}

/// Lets two threads read row 11, whose block was invalidated. The second thread asks while the first one's read of the
/// table is delayed. `between` runs while both wait. Returns the results of both, and the number of scans of the table.
fn two_get_what_was_lost(scene: &Scene, between: impl FnOnce()) -> ([Option<Vec<u8>>; 2], usize) {
    let scans = || scene.gate.scans.load(Relaxed);
    let joined = || scene.coherence.counts().joined;
    let (scans_before, joined_before) = (scans(), joined());
    scene.gate.close(true);
    let got = std::thread::scope(|scope| {
        let first = scope.spawn(|| scene.get(11));
        wait_until(|| scans() == scans_before + 1);
        let second = scope.spawn(|| scene.get(11));
        wait_until(|| joined() > joined_before);
        between();
        scene.gate.close(false);
        [first, second].map(|thread| thread.join().unwrap())
    });
    (got, scans() - scans_before)
}

fn wait_until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
}

#[test]
fn concurrent_reads_of_the_same_rows_share_one_table_read() {
    let scene = four_blocks();
    // A slow machine may sleep longer than a reader waits for another, so this is tried up to ten times.
    let is_shared = (0..10).any(|_| {
        scene.change(12, &Change::Put(vec![0], None));
        let shared_before = scene.coherence.counts().shared;
        let (got, scans) = two_get_what_was_lost(&scene, || ());
        assert_eq!(got, [Some(vec![11]), Some(vec![11])]);
        let shared = scene.coherence.counts().shared - shared_before;
        assert_eq!(scans as u64 + shared, 2);
        shared == 1
    });
    assert!(is_shared);
}

#[test]
fn a_reader_that_joined_a_read_overtaken_by_a_change_sees_the_change() {
    let scene = four_blocks();
    scene.change(12, &Change::Put(vec![0], None));
    let change = || scene.change(11, &Change::Put(b"new".to_vec(), None));
    let (got, scans) = two_get_what_was_lost(&scene, change);
    // The first thread read the table before the change, and the second one after it.
    assert_eq!(got, [Some(vec![11]), Some(b"new".to_vec())]);
    assert_eq!((scans, scene.coherence.counts().shared), (2, 0));
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Delete(u8),
    Get(u8),
    Scan(u8, Option<u8>, u16),
}

fn step() -> impl Strategy<Value = Step> {
    let number = || 0u8..40;
    prop_oneof![
        2 => (number(), any::<u8>()).prop_map(|(number, value)| Step::Put(number, value)),
        1 => number().prop_map(Step::Delete),
        2 => number().prop_map(Step::Get),
        3 => (number(), proptest::option::of(number()), 1u16..12)
            .prop_map(|(from, to, limit)| Step::Scan(from, to.filter(|to| *to > from), limit)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The host answers exactly what was requested, whatever rows it reads around that.
    #[test]
    fn answers_during_refills_match_the_table(steps in proptest::collection::vec(step(), 1..80)) {
        let scene = Scene::new();
        for step in steps {
            match step {
                Step::Put(number, value) => scene.change(number, &Change::Put(vec![value], None)),
                Step::Delete(number) => scene.change(number, &Change::Delete),
                Step::Get(number) => {
                    let truth = scene.truth(number, Some(number + 1)).pop();
                    prop_assert_eq!(scene.get(number), truth.map(|(_, value)| value));
                }
                Step::Scan(from, to, limit) => {
                    let (said, more) = scene.scan(from, to, limit);
                    let truth = scene.truth(from, to);
                    let count = truth.len().min(limit.into());
                    prop_assert_eq!(said, &truth[..count]);
                    // The reply may say `more` after the last row, because the fast path does not check whether another
                    // row follows.
                    prop_assert!(more || truth.len() == count);
                }
            }
        }
    }
}
