//! Tests that compare the view's ranges with a search over all keys.

use super::*;
use lineside_messages::hybrid::change::{Change, Rights};
use lineside_wire::HYBRID_EVERYONE;
use std::collections::BTreeMap;

fn header() -> Header {
    Header {
        database: [0; 16],
        number: 1,
        position: 0,
        time_ms: 0,
        transactions: 0,
        committed: 0,
        previous: [0; 32],
        transactions_hash: [0; 32],
        transactions_root: [0; 32],
        codes_hash: [0; 32],
        state_root: [0; 32],
        paper_hash: [0; 32],
    }
}

/// Returns all strings of these bytes up to this length.
fn strings(bytes: &[u8], length: usize) -> Vec<Vec<u8>> {
    let mut all = vec![Vec::new()];
    let mut begin = 0;
    for _ in 0..length {
        let end = all.len();
        for place in begin..end {
            for byte in bytes {
                all.push([&all[place][..], &[*byte]].concat());
            }
        }
        begin = end;
    }
    all
}

/// The rules are nested, and some allow no reader. Keys lie at the ends of the rules' prefixes, also after a prefix
/// whose last byte is 255.
#[test]
fn a_range_returns_the_readable_keys_under_nested_rules() {
    let (keys, prefixes) = (strings(&[0, 1, 2, 255], 4), strings(&[0, 1, 255], 3));
    let mut random = 1_u64;
    let mut below = |bound: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % bound
    };
    let (mut shown, mut kept) = (0, 0);
    for _ in 0..200 {
        let mut membership = Membership::default();
        for number in 0..below(8) {
            let rights = Rights {
                read: below(2) == 0,
                write: true,
            };
            let change = Change::SetRule {
                prefix: &prefixes[if number == 0 { 0 } else { below(prefixes.len()) }],
                member: HYBRID_EVERYONE,
                rights,
            };
            membership.apply(&change).unwrap();
        }
        let version = Version { block: 1, index: 0 };
        let cells = keys.iter().filter(|_| below(2) == 0).map(|key| {
            let value = Arc::from(&key[..]);
            (SharedKey::from(&key[..]), Cell { version, value })
        });
        let cells: BTreeMap<_, _> = cells.collect();
        let view = ReadView::restored(header(), membership, cells.clone().into_iter().collect());
        for _ in 0..50 {
            let (start, stop) = (&keys[below(keys.len())], &keys[below(keys.len())]);
            let limit = 1 + below(40);
            let within = cells
                .iter()
                .filter(|(key, _)| ***key >= **start && (stop.is_empty() || ***key < **stop));
            let (readable, others): (Vec<_>, Vec<_>) =
                within.partition(|(key, _)| view.membership.rights(5, key).read);
            shown += readable.len();
            kept += others.len();
            let expected = Answer::Range {
                more: readable.len() > limit,
                cells: readable
                    .into_iter()
                    .take(limit)
                    .map(|(key, cell)| (key.clone(), cell.clone()))
                    .collect(),
            };
            assert_eq!(
                view.range(5, start, stop, limit as u32),
                expected,
                "{start:?} {stop:?}"
            );
        }
    }
    assert!(shown > 100_000 && kept > 100_000, "{shown} {kept}");
}
