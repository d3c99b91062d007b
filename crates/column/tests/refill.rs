//! The host over the real near: what it reads beside what was asked for, and what it says then.

use lineside_column::coherence::Coherence;
use lineside_column::embedded::{Embedded, system_clock};
use lineside_column::fill::ColumnId;
use lineside_column::host::{Announcer, ColumnHost, Setup, Telling};
use lineside_column::key::Key;
use lineside_column::native::{self, Answer, Ask, Rows};
use lineside_column::store::{Geometry, Store};
use lineside_column::table::{Change, ColumnName, Nonce, Stretch, Table};
use lineside_column::writer::ColumnWriter;
use lineside_near::{Host, Readers, Reply, Source, Verdict};
use lineside_wire::{COLUMN_REPLY_MORE, NativeHeader};
use proptest::prelude::*;
use std::sync::Arc;

const COLUMN: ColumnId = ColumnId(0);

/// Key and value.
type Row = (Vec<u8>, Vec<u8>);

struct Scene {
    host: ColumnHost,
    table: Arc<Embedded>,
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
    /// Over an empty table that tells near of its changes.
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
        table.watch(Arc::new(Announcer::new(Arc::clone(&coherence), &[foo()])));
        let setup = Setup::new(
            table.clone(),
            Arc::clone(&coherence),
            vec![foo()],
            Telling::ByTable,
        );
        Self {
            host: ColumnHost::new(setup).unwrap(),
            table,
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

    /// Rows, and whether there are more.
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

    /// What the table holds there.
    fn truth(&self, from: u8, to: Option<u8>) -> Vec<Row> {
        let all = Stretch {
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

    fn has_lost(&self, number: u8) -> bool {
        let key = Key::new(&row(number)).unwrap();
        self.coherence.lost_with(COLUMN, &key).is_some()
    }
}

#[test]
fn one_read_brings_back_all_that_a_change_took() {
    let scene = Scene::new();
    for number in 0..32 {
        scene.change(number, &Change::Put(vec![number], None));
    }
    for number in [0, 8, 16, 24] {
        assert_eq!(scene.get(number), Some(vec![number]));
    }
    assert_eq!(scene.coherence.counts().near.rows, 32);
    scene.change(11, &Change::Put(vec![0], None));
    assert!((8..16).all(|number| scene.has_lost(number)), "the block of eight");
    assert!(!scene.has_lost(7) && !scene.has_lost(16));
    // Asked for behind what was changed, and before it.
    for (changed, asked) in [(11, 15), (9, 8), (15, 15)] {
        scene.change(changed, &Change::Put(vec![0], None));
        assert!(scene.has_lost(asked));
        scene.scan(asked, None, 3);
        assert!(!(0..32).any(|number| scene.has_lost(number)), "{changed} {asked}");
        assert_eq!(scene.coherence.counts().near.rows, 32);
    }
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

    /// Whatever is read beside it, what is said is what was asked for.
    #[test]
    fn what_is_said_is_what_the_table_holds(steps in proptest::collection::vec(step(), 1..80)) {
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
                    // It may say so of the last row, too, as near does, which does not look behind it.
                    prop_assert!(more || truth.len() == count);
                }
            }
        }
    }
}
