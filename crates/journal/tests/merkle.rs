//! Merkle trees compared with a literal implementation of RFC 6962, and with published roots.

use lineside_journal::merkle::{
    EMPTY_ROOT, Hash, Hasher, Sha256, Tree, consistency_proof, inclusion_proof, leaf_hash, root,
    root_of_hashes, verify_consistency, verify_inclusion,
};
use sha2::Digest;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

const SIZES: u64 = 200;

fn leaf(number: u64) -> Vec<u8> {
    number.to_le_bytes()[..(number % 9) as usize].to_vec()
}

fn hashes(size: u64) -> Vec<Hash> {
    (0..size).map(|number| leaf_hash(&leaf(number))).collect()
}

fn sha256(parts: &[&[u8]]) -> Hash {
    sha2::Sha256::digest(parts.concat()).into()
}

/// Returns the Merkle tree hash of leaves `from` to `to`: RFC 6962 section 2.1, literally, with each subtree computed
/// only once.
fn mth(from: u64, to: u64) -> Hash {
    thread_local!(static KNOWN: RefCell<HashMap<(u64, u64), Hash>> = RefCell::default());
    if let Some(known) = KNOWN.with_borrow(|known| known.get(&(from, to)).copied()) {
        return known;
    }
    let hash = match to - from {
        0 => sha256(&[]),
        1 => sha256(&[&[0], &leaf(from)]),
        n => sha256(&[&[1], &mth(from, from + half(n)), &mth(from + half(n), to)]),
    };
    KNOWN.with_borrow_mut(|known| known.insert((from, to), hash));
    hash
}

/// Returns the largest power of two smaller than n.
fn half(n: u64) -> u64 {
    let mut k = 1;
    while k * 2 < n {
        k *= 2;
    }
    k
}

/// Returns the audit path, literally as in RFC 6962 section 2.1.1.
fn path(m: u64, from: u64, to: u64) -> Vec<Hash> {
    if to - from == 1 {
        return Vec::new();
    }
    let k = half(to - from);
    if m < k {
        [path(m, from, from + k), vec![mth(from + k, to)]].concat()
    } else {
        [path(m - k, from + k, to), vec![mth(from, from + k)]].concat()
    }
}

/// Returns the consistency proof, literally as in RFC 6962 section 2.1.2.
fn subproof(m: u64, from: u64, to: u64, whole: bool) -> Vec<Hash> {
    if m == to - from {
        return if whole { Vec::new() } else { vec![mth(from, to)] };
    }
    let k = half(to - from);
    if m <= k {
        [subproof(m, from, from + k, whole), vec![mth(from + k, to)]].concat()
    } else {
        [subproof(m - k, from + k, to, false), vec![mth(from, from + k)]].concat()
    }
}

fn hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the eight leaves of certificate-transparency's own tests (google/certificate-transparency, merkletree).
fn published() -> Vec<Vec<u8>> {
    let leaves = [
        "",
        "00",
        "10",
        "2021",
        "3031",
        "40414243",
        "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    ];
    let byte = |digits: &str, at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    leaves
        .iter()
        .map(|digits| (0..digits.len()).step_by(2).map(|at| byte(digits, at)).collect())
        .collect()
}

#[test]
fn published_roots() {
    let roots = [
        "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
        "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
        "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
        "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
        "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ];
    for (size, expected) in (1..).zip(roots) {
        assert_eq!(
            hex(&root(&Sha256, &published()[..size])),
            expected,
            "{size} leaves"
        );
    }
    assert_eq!(root(&Sha256, Vec::<&[u8]>::new()), EMPTY_ROOT);
    assert_eq!(EMPTY_ROOT, sha256(&[]));
}

#[test]
fn published_proofs() {
    let hashes: Vec<Hash> = published().iter().map(|leaf| leaf_hash(leaf)).collect();
    let hex_all = |proof: Option<Vec<Hash>>| proof.unwrap().iter().map(hex).collect::<Vec<_>>();
    let first_of_eight = [
        "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7",
        "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e",
        "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4",
    ];
    assert_eq!(hex_all(inclusion_proof(&Sha256, &hashes, 0)), first_of_eight);
    let six_to_eight = [
        "0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a",
        "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0",
        "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    ];
    assert_eq!(hex_all(consistency_proof(&Sha256, &hashes, 6)), six_to_eight);
}

#[test]
fn roots_and_proofs_of_all_sizes() {
    for size in 0..=SIZES {
        let leaves: Vec<Vec<u8>> = (0..size).map(leaf).collect();
        let all = hashes(size);
        let expected = mth(0, size);
        assert_eq!(root(&Sha256, &leaves), expected);
        assert_eq!(root_of_hashes(&Sha256, &all), expected);
        for index in 0..size {
            let proof = inclusion_proof(&Sha256, &all, index).unwrap();
            assert_eq!(proof, path(index, 0, size), "{index} of {size}");
            assert!(verify_inclusion(
                &all[index as usize],
                index,
                size,
                &proof,
                &expected
            ));
        }
        assert_eq!(inclusion_proof(&Sha256, &all, size), None);
        assert_eq!(consistency_proof(&Sha256, &all, size + 1), None);
        for old in 1..=size {
            let old_root = root_of_hashes(&Sha256, &all[..old as usize]);
            let proof = consistency_proof(&Sha256, &all, old).unwrap();
            assert_eq!(proof, subproof(old, 0, size, true), "{old} of {size}");
            assert!(
                verify_consistency(old, size, &old_root, &expected, &proof),
                "{old} of {size}"
            );
        }
        assert!(verify_consistency(0, size, &EMPTY_ROOT, &expected, &[]));
    }
}

#[test]
fn wrong_proofs_are_refused() {
    for size in 1..=40u64 {
        let all = hashes(size);
        let whole = root_of_hashes(&Sha256, &all);
        for index in 0..size {
            let leaf = &all[index as usize];
            let proof = inclusion_proof(&Sha256, &all, index).unwrap();
            let refused = |leaf, index, size, proof: &[Hash]| {
                assert!(!verify_inclusion(leaf, index, size, proof, &whole))
            };
            refused(&[9; 32], index, size, &proof);
            refused(leaf, index, 0, &proof);
            refused(leaf, u64::MAX, u64::MAX, &proof);
            (0..size)
                .filter(|i| *i != index)
                .for_each(|i| refused(leaf, i, size, &proof));
            refused(leaf, index, size, &[&proof[..], &[[1; 32]]].concat());
            for at in 0..proof.len() {
                refused(leaf, index, size, &[&proof[..at], &proof[at + 1..]].concat());
                let mut other = proof.clone();
                other[at][7] ^= 1;
                refused(leaf, index, size, &other);
            }
        }
        for old in 1..size {
            let root = root_of_hashes(&Sha256, &all[..old as usize]);
            let proof = consistency_proof(&Sha256, &all, old).unwrap();
            let refused = |old, size, root: &Hash, proof: &[Hash]| {
                assert!(
                    !verify_consistency(old, size, root, &whole, proof),
                    "{old} {size}"
                );
            };
            refused(old, size, &[9; 32], &proof);
            refused(size, old, &root, &proof);
            refused(0, size, &root, &proof);
            refused(old, size, &root, &[&proof[..], &[[1; 32]]].concat());
            refused(old, u64::MAX, &root, &proof);
            for at in 0..proof.len() {
                refused(old, size, &root, &[&proof[..at], &proof[at + 1..]].concat());
                let mut other = proof.clone();
                other[at][7] ^= 1;
                refused(old, size, &root, &other);
            }
        }
        assert!(!verify_consistency(size, size, &[9; 32], &whole, &[]));
        assert!(!verify_consistency(size, size, &whole, &whole, &[[1; 32]]));
        assert!(!verify_consistency(0, size, &[9; 32], &whole, &[]));
    }
}

/// Hasher that counts its batches.
#[derive(Default)]
struct Counting {
    calls: Cell<usize>,
    hashed: Cell<usize>,
}

impl Hasher for Counting {
    fn leaves(&self, leaves: &[&[u8]], out: &mut Vec<Hash>) {
        self.calls.set(self.calls.get() + 1);
        self.hashed.set(self.hashed.get() + leaves.len());
        Sha256.leaves(leaves, out);
    }

    fn nodes(&self, pairs: &[[Hash; 2]], out: &mut Vec<Hash>) {
        self.calls.set(self.calls.get() + 1);
        self.hashed.set(self.hashed.get() + pairs.len());
        Sha256.nodes(pairs, out);
    }
}

#[test]
fn a_hasher_receives_its_input_in_batches() {
    let size = 10_000;
    let counting = Counting::default();
    let batched = root(&counting, (0..size).map(leaf));
    assert_eq!(batched, mth(0, size));
    assert!(counting.hashed.get() > 19_900, "{}", counting.hashed.get());
    assert!(counting.calls.get() < 200, "{}", counting.calls.get());
}

#[test]
fn a_tree_grows_in_any_portions_and_can_be_restored() {
    let all = hashes(700);
    for portions in [1, 2, 3, 7, 64, 100, 699] {
        let mut tree = Tree::new();
        let mut one_by_one = Tree::new();
        for part in all.chunks(portions) {
            tree.extend(&Sha256, part);
            part.iter().for_each(|leaf| one_by_one.push(*leaf));
            assert_eq!(tree, one_by_one);
            assert!(tree.subtrees().len() <= 10);
            tree = Tree::from_parts(tree.size(), tree.subtrees().to_vec()).unwrap();
        }
        assert_eq!((tree.size(), tree.root()), (700, root_of_hashes(&Sha256, &all)));
    }
    assert_eq!(Tree::from_parts(3, vec![[0; 32]]), None);
    assert_eq!(Tree::new().root(), EMPTY_ROOT);
}
