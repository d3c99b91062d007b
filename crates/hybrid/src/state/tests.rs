//! Test of the state's root: it equals the root of a map that is built in one step from the same content.

use super::*;
use lineside_messages::hybrid::proof::value_content;
use lineside_verify::hash::keccak256;

/// The test uses few keys and lanes, so that each block writes, deletes and rewrites every one of them.
#[test]
fn the_root_depends_only_on_the_state_at_the_end_of_the_block() {
    let (mut state, mut random) = (State::new(), 1_u64);
    let (mut cells, mut lanes) = (BTreeMap::new(), BTreeMap::new());
    for block in 1..=300 {
        for index in 0..12 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let [a, b, c, ..] = random.to_be_bytes();
            let (key, version) = (vec![a % 5], Version { block, index });
            let value = (b % 3 > 0).then(|| vec![c; 3]);
            state.write(&key, version, value.as_deref());
            match value {
                Some(value) => cells.insert(key, (version, value)),
                None => cells.remove(&key),
            };
            let (member, lane, counter) = (
                u64::from(a % 2),
                u16::from(b % 2),
                1 + block / 2 + u64::from(c % 4),
            );
            let last = lanes.entry((member, lane)).or_insert(0);
            assert_eq!(state.take_nonce(member, Nonce { lane, counter }), counter > *last);
            *last = counter.max(*last);
        }
        let values = cells.iter().map(|(key, (version, value))| Leaf {
            key: value_place(key),
            value: Some(value_content(*version, value)),
        });
        let nonces = lanes.iter().map(|((member, lane), counter)| Leaf {
            key: keccak256(&[&b"n"[..], &member.to_be_bytes(), &lane.to_be_bytes()].concat()),
            value: Some(keccak256(&u64::to_be_bytes(*counter))),
        });
        let mut anew = Tree::new();
        anew.update(&mut values.chain(nonces).collect());
        let (root, writes) = state.end_block();
        assert_eq!((root, writes.len()), (anew.root(), 12), "block {block}");
    }
}
