//! Tests that compare the tree with a naive implementation, and tests that forged proofs are refused.

use std::collections::BTreeMap;

use lineside_verify::hash::keccak256;
use proptest::prelude::*;

use super::{Change, Tree};
use lineside_messages::hybrid::map_proof::{Proof, ProofError};

type Hash = [u8; 32];
type Map = BTreeMap<Hash, Hash>;

/// Computes the root by the table in the module's documentation, one leaf and one hash at a time. Unlike the tree, it
/// computes the bits of keys from numbers.
fn naive_root(leaves: &[(Hash, Hash)], depth: usize) -> Hash {
    match leaves {
        [] => [0; 32],
        [(key, value)] => keccak256(&[&[0], &key[..], &value[..]].concat()),
        _ => {
            let is_left = |leaf: &(Hash, Hash)| leaf.0[depth / 8] << (depth % 8) < 128;
            let (left, right): (Vec<_>, Vec<_>) = leaves.iter().copied().partition(is_left);
            let (left, right) = (naive_root(&left, depth + 1), naive_root(&right, depth + 1));
            keccak256(&[&[1], &left[..], &right[..]].concat())
        }
    }
}

fn root_of(map: &Map) -> Hash {
    naive_root(
        &map.iter().map(|(key, value)| (*key, *value)).collect::<Vec<_>>(),
        0,
    )
}

/// Returns the hash of a number, as a key. Such keys are spread evenly.
fn spread(number: u32) -> Hash {
    keccak256(&number.to_be_bytes())
}

/// Returns a key that shares its first `shared_bits` bits with `key`, and in which all other bits are inverted.
fn diverging(key: &Hash, shared_bits: usize) -> Hash {
    std::array::from_fn(|byte| {
        let kept = shared_bits.saturating_sub(byte * 8).min(8);
        key[byte] ^ 0xff_u8.checked_shr(kept as u32).unwrap_or(0)
    })
}

fn set(key: Hash, value: u8) -> Change {
    Change {
        key,
        value: Some([value; 32]),
    }
}

fn remove(key: Hash) -> Change {
    Change { key, value: None }
}

fn tree_of(keys: &[Hash]) -> Tree {
    let mut tree = Tree::new();
    tree.update(&mut keys.iter().map(|key| set(*key, key[31])).collect());
    tree
}

/// Checks that the tree has the same content as the map for these keys, and that its proofs show this content.
fn assert_is(tree: &Tree, map: &Map, keys: &[Hash]) {
    assert_eq!(tree.root(), root_of(map));
    assert_eq!((tree.len(), tree.is_empty()), (map.len(), map.is_empty()));
    for key in keys {
        let value = map.get(key).copied();
        assert_eq!(tree.get(key), value);
        let proof = tree.prove(key);
        let bytes = proof.encode();
        assert_eq!(Proof::decode(&bytes).as_ref(), Ok(&proof));
        assert_eq!(proof.check(&tree.root(), key), Ok(value));
        let mut root = tree.root();
        root[0] ^= 1;
        assert_eq!(proof.check(&root, key), Err(ProofError::Root));
    }
}

/// Keys that share paths in the tree: hashes of a few numbers, and keys that share any number of first bits with such a
/// hash.
fn any_key() -> impl Strategy<Value = Hash> {
    let fastpath = (0..4_u32, prop_oneof![0..256_usize, 240..256_usize]);
    let fastpath = fastpath.prop_map(|(number, bits)| diverging(&spread(number), bits));
    let nested = (0..256_usize, 0..256_usize).prop_map(|(a, b)| diverging(&diverging(&[0; 32], a), b));
    prop_oneof![4 => (0..60_u32).prop_map(spread), 2 => fastpath, 1 => nested]
}

fn any_change() -> impl Strategy<Value = Change> {
    let value = prop_oneof![3 => (0..4_u8).prop_map(|value| Some([value; 32])), 2 => Just(None)];
    (any_key(), value).prop_map(|(key, value)| Change { key, value })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn batch_updates_give_the_tree_of_the_naive_model(
        batches in prop::collection::vec(prop::collection::vec(any_change(), 0..40), 1..12),
    ) {
        let (mut tree, mut map) = (Tree::new(), Map::new());
        let mut keys: Vec<Hash> = (60..64).map(spread).collect();
        for batch in &batches {
            for Change { key, value } in batch {
                keys.push(*key);
                match value {
                    Some(value) => drop(map.insert(*key, *value)),
                    None => drop(map.remove(key)),
                }
            }
            tree.update(&mut batch.clone());
            prop_assert_eq!(tree.root(), root_of(&map));
        }
        keys.sort_unstable();
        keys.dedup();
        assert_is(&tree, &map, &keys);

        // A tree that is built in one step from the same map must have the same number of nodes.
        let mut at_once = Tree::new();
        at_once.update(&mut map.iter().map(|(key, value)| Change { key: *key, value: Some(*value) }).collect());
        prop_assert_eq!(at_once.root(), tree.root());
        let alive = |tree: &Tree| (tree.leaves.len(), tree.forks.len(), tree.chains.len());
        prop_assert_eq!(alive(&at_once), alive(&tree));

        tree.update(&mut map.keys().map(|key| remove(*key)).collect());
        prop_assert_eq!((tree.root(), alive(&tree)), ([0; 32], (0, 0, 0)));
    }

    #[test]
    fn decoding_any_bytes_of_a_proof_succeeds_or_is_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        head in 0..0xc101_u16,
    ) {
        let mut with_head = head.to_be_bytes().to_vec();
        with_head.extend_from_slice(&bytes);
        for bytes in [bytes, with_head] {
            if let Ok(proof) = Proof::decode(&bytes) {
                prop_assert_eq!(proof.encode(), bytes);
                let _ = proof.check(&[1; 32], &[0; 32]);
            }
        }
    }

    #[test]
    fn a_changed_proof_proves_no_other_statement(
        keys in prop::collection::vec(any_key(), 1..30),
        asked in any_key(),
        (at, with) in (any::<prop::sample::Index>(), 1..=255_u8),
        cut in any::<prop::sample::Index>(),
    ) {
        let tree = tree_of(&keys);
        let honest = tree.prove(&asked).encode();
        let mut changed = honest.clone();
        changed[at.index(honest.len())] ^= with;
        assert_shows_nothing_else(&tree, &asked, &changed);
        assert_shows_nothing_else(&tree, &asked, &honest[..cut.index(honest.len())]);
        for other in keys {
            let shown = Proof::decode(&honest).and_then(|proof| proof.check(&tree.root(), &other));
            prop_assert!(shown.is_err() || shown == Ok(tree.get(&other)));
        }
    }
}

fn assert_shows_nothing_else(tree: &Tree, key: &Hash, bytes: &[u8]) {
    let shown = Proof::decode(bytes).and_then(|proof| proof.check(&tree.root(), key));
    assert!(
        shown.is_err() || shown == Ok(tree.get(key)),
        "{shown:?} from {bytes:02x?}"
    );
}

/// Trees and keys whose proofs have every form: all kinds of ends; depth 0, some depth and 256; empty siblings and
/// others.
fn shapes() -> Vec<(Tree, Hash)> {
    let key = spread(0);
    let twin = diverging(&key, 255);
    let many: Vec<Hash> = (0..300).map(spread).collect();
    vec![
        (Tree::new(), key),
        (tree_of(&[key]), key),
        (tree_of(&[key]), twin),
        (tree_of(&many), key),
        (tree_of(&many), spread(1000)),
        (tree_of(&many), twin),
        (tree_of(&[key, twin]), key),
        (tree_of(&[key, twin]), diverging(&key, 100)),
        (tree_of(&[key, twin]), diverging(&key, 0)),
        (tree_of(&[key, diverging(&key, 70), diverging(&key, 9)]), twin),
    ]
}

#[test]
fn a_flipped_bit_in_a_proof_proves_no_other_statement() {
    for (tree, key) in shapes() {
        let honest = tree.prove(&key).encode();
        assert_eq!(
            Proof::decode(&honest).unwrap().check(&tree.root(), &key),
            Ok(tree.get(&key))
        );
        for bit in 0..honest.len() * 8 {
            let mut flipped = honest.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // A proof with a flipped bit must not even show the same value, because a proof has only one encoding.
            let shown = Proof::decode(&flipped).and_then(|proof| proof.check(&tree.root(), &key));
            assert!(shown.is_err(), "bit {bit} of {honest:02x?}: {shown:?}");
        }
        for longer in [[0], [1]] {
            let longer = [&honest[..], &longer[..]].concat();
            assert!(matches!(Proof::decode(&longer), Err(ProofError::Length { .. })));
        }
        for cut in 0..honest.len() {
            assert!(Proof::decode(&honest[..cut]).is_err(), "cut to {cut}");
        }
    }
}

#[test]
fn a_proof_is_valid_only_for_its_key_and_root() {
    let keys: Vec<Hash> = (0..50).map(spread).collect();
    let (tree, other) = (tree_of(&keys), tree_of(&keys[..49]));
    for key in keys.iter().copied().chain((50..80).map(spread)) {
        let proof = tree.prove(&key);
        assert_eq!(proof.check(&other.root(), &key), Err(ProofError::Root));
        for wrong in &keys {
            let shown = proof.check(&tree.root(), wrong);
            assert_eq!(shown.is_ok(), key == *wrong, "{shown:?}");
        }
    }
}

#[test]
fn proofs_have_the_documented_encoding() {
    let (left, right) = ([0; 32], [0x20; 32]);
    let tree = tree_of(&[left, right]);
    let leaf = |key: &Hash| keccak256(&[&[0], &key[..], &[key[31]; 32][..]].concat());
    let own = [&[0x40, 3, 0b0010_0000][..], &leaf(&right), &[0; 32]].concat();
    assert_eq!(tree.prove(&left).encode(), own);
    let mut beside = [0; 32];
    beside[0] = 0x3f;
    let other = [&[0x80, 3, 0b0010_0000][..], &leaf(&left), &right, &[0x20; 32]].concat();
    assert_eq!(tree.prove(&beside).encode(), other);
    let inner = keccak256(&[&[1], &leaf(&left)[..], &leaf(&right)[..]].concat());
    let inner = keccak256(&[&[1], &inner[..], &[0; 32]].concat());
    let empty = [&[0x00, 1, 0b1000_0000][..], &inner].concat();
    assert_eq!(tree.prove(&[0x80; 32]).encode(), empty);
}

#[test]
fn proofs_that_no_tree_can_have_are_refused() {
    let read = |parts: &[&[u8]]| Proof::decode(&parts.concat()).map(drop);
    let word = [7; 32];
    assert_eq!(read(&[]), Err(ProofError::Length { got: 0, wanted: 2 }));
    assert_eq!(read(&[&[0, 9, 0]]), Err(ProofError::Length { got: 3, wanted: 4 }));
    assert_eq!(read(&[&[0xc0, 0]]), Err(ProofError::End));
    assert_eq!(read(&[&[0x01, 0x01], &[0; 33]]), Err(ProofError::Depth(257)));
    assert_eq!(
        read(&[&[0x00, 1, 0xc0], &word, &word]),
        Err(ProofError::Form),
        "a bit past the depth"
    );
    assert_eq!(
        read(&[&[0x00, 1, 0x80], &[0; 32]]),
        Err(ProofError::Form),
        "an empty sibling written out"
    );
    assert_eq!(
        read(&[&[0x00, 1, 0x00]]),
        Err(ProofError::Shape),
        "two empty siblings"
    );
    assert_eq!(
        read(&[&[0x40, 2, 0x80], &word, &word]),
        Err(ProofError::Shape),
        "a leaf with an empty sibling"
    );
    assert_eq!(
        read(&[&[0x80, 2, 0x80], &word, &word, &word]),
        Err(ProofError::Shape),
        "another leaf with an empty sibling"
    );
    let mut last = [0; 32];
    last[31] = 1;
    assert_eq!(read(&[&[0x41, 0], &last, &word, &word]), Ok(()));
    assert_eq!(
        read(&[&[0x01, 0], &last, &word]),
        Err(ProofError::Shape),
        "nothing at depth 256"
    );
    assert_eq!(
        read(&[&[0x81, 0], &last, &word, &word, &word]),
        Err(ProofError::Shape),
        "another leaf at depth 256"
    );
}

#[test]
fn another_leaf_proves_absence_only_on_the_path_of_the_key() {
    let key = spread(0);
    let leaf = |key: &Hash| keccak256(&[&[0], &key[..], &word(9)[..]].concat());
    // Forged trees: in one, the other leaf is the key's own leaf; in the second, the other leaf belongs to the other
    // side of the root.
    let astray = diverging(&key, 0);
    for other in [key, astray] {
        let (here, sibling) = (leaf(&other), word(3));
        let sides = if key[0] < 128 {
            [here, sibling]
        } else {
            [sibling, here]
        };
        let root = keccak256(&[&[1], &sides[0][..], &sides[1][..]].concat());
        let bytes = [&[0x80, 1, 0x80][..], &sibling, &other, &word(9)].concat();
        let proof = Proof::decode(&bytes).unwrap();
        assert_eq!(proof.check(&root, &key), Err(ProofError::OtherLeaf));
    }
    // A proof never presents an inner node as a leaf, whatever the node holds, nor a leaf as an inner node.
    let (left, right) = (word(1), word(2));
    let inner = keccak256(&[&[1], &left[..], &right[..]].concat());
    let as_leaf = Proof::decode(&[&[0x40, 0][..], &right].concat()).unwrap();
    assert_eq!(as_leaf.check(&inner, &left), Err(ProofError::Root));
    let as_inner = Proof::decode(&[&[0x00, 1, 0x80][..], &word(9)].concat()).unwrap();
    assert_eq!(as_inner.check(&leaf(&key), &key), Err(ProofError::Root));
}

fn word(byte: u8) -> Hash {
    [byte; 32]
}

#[test]
fn the_last_of_several_changes_of_a_key_counts() {
    let (a, b) = (spread(1), spread(2));
    let mut tree = Tree::new();
    let mut changes = vec![set(a, 1), set(b, 1), remove(a), set(b, 2), set(a, 3), remove(b)];
    tree.update(&mut changes);
    assert_eq!((tree.get(&a), tree.get(&b), tree.len()), (Some([3; 32]), None, 1));
    assert_eq!(changes.len(), 2);
    let root = tree.root();
    tree.update(&mut vec![remove(b), set(a, 3), remove(diverging(&a, 200))]);
    assert_eq!(tree.root(), root);
    tree.update(&mut Vec::new());
    assert_eq!(tree.root(), root);
}

#[test]
fn large_batches_use_all_hash_lanes_and_parallel_walks() {
    let (mut tree, mut map) = (Tree::new(), Map::new());
    for round in 0..6_u32 {
        let numbers = (0..1500).map(|number| (number * 7 + round * 1000) % 4000);
        let mut changes: Vec<Change> = numbers
            .map(|number| match (number + round) % 5 {
                0 => remove(spread(number)),
                _ => set(spread(number), round as u8),
            })
            .collect();
        for Change { key, value } in &changes {
            match value {
                Some(value) => drop(map.insert(*key, *value)),
                None => drop(map.remove(key)),
            }
        }
        tree.update(&mut changes);
        let keys: Vec<Hash> = (0..4000).step_by(37).map(spread).collect();
        assert_is(&tree, &map, &keys);
    }
}

#[test]
fn freed_nodes_are_reused() {
    let mut tree = Tree::new();
    let far: Vec<Hash> = (0..20).map(|number| diverging(&spread(number), 250)).collect();
    let mut most = 0;
    for round in 0..60_u32 {
        let keys: Vec<Hash> = (0..500)
            .map(|number| spread(round * 500 + number))
            .chain(far.clone())
            .collect();
        tree.update(&mut keys.iter().map(|key| set(*key, 1)).collect());
        tree.update(&mut keys.iter().map(|key| remove(*key)).collect());
        assert_eq!((tree.len(), tree.root()), (0, [0; 32]));
        if round == 9 {
            most = tree.node_bytes();
        }
    }
    // Sets of 520 random keys need slightly different numbers of nodes, so the test allows an eighth more.
    assert!(
        tree.node_bytes() <= most + most / 8,
        "{} bytes, {most} after 10 rounds",
        tree.node_bytes()
    );
}
