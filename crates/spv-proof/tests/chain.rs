//! Tests of the chain of headers: mined headers of regtest and simnet, reorganisations, checkpoints, the store.

#![cfg(feature = "std")]

mod common;

use common::mine;
use lineside_spv_proof::{
    Accepted, Ancestor, ChainError, ChainOptions, Checkpoint, FileStore, Hash, Header, HeaderChain,
    HeaderStore, MerklePath, Network, ProofError, RETARGET_INTERVAL, RuleError, StoreError, TipChange,
    TransactionProof, U256, required_bits,
};
use lineside_testkit::Random;
use std::collections::HashMap;

const BITS: u32 = 0x207f_ffff;
/// Clock of the tests, later than all times in them.
const NOW: u32 = 1_800_000_000;

fn regtest() -> HeaderChain {
    HeaderChain::in_memory(Network::Regtest, ChainOptions::default())
}

/// Mines `count` headers of regtest on `parent`, 10 minutes apart; `tag` makes the headers distinct.
fn branch(parent: &Header, count: u32, tag: u32) -> Vec<Header> {
    let mut headers = Vec::new();
    let mut parent = *parent;
    for number in 0..count {
        parent = mine(&parent, BITS, parent.time + 600, tag << 16 | number);
        headers.push(parent);
    }
    headers
}

fn change(disconnected: u32, first: u32, last: u32) -> Option<TipChange> {
    Some(TipChange {
        disconnected,
        connected: first..=last,
    })
}

#[test]
fn headers_are_taken_one_by_one_and_in_ranges() {
    let mut chain = regtest();
    let genesis = Network::Regtest.genesis();
    let headers = branch(&genesis, 30, 1);
    assert_eq!(chain.tip().height, 0);
    assert_eq!(
        chain.accept(&genesis, NOW).unwrap(),
        Accepted::default(),
        "the header is known"
    );
    let first = chain.accept(&headers[0], NOW).unwrap();
    assert_eq!(
        first,
        Accepted {
            added: 1,
            change: change(0, 1, 1)
        }
    );
    // The first of these 20 headers is already known; the other 19 are new.
    let more = chain.accept_range(&headers[..20], NOW).unwrap();
    assert_eq!(
        more,
        Accepted {
            added: 19,
            change: change(0, 2, 20)
        }
    );
    assert_eq!(
        chain.accept_range(&headers[20..], NOW).unwrap().change,
        change(0, 21, 30)
    );
    assert_eq!(chain.accept_range(&[], NOW).unwrap(), Accepted::default());
    let tip = chain.tip();
    assert_eq!((tip.height, tip.hash), (30, headers[29].hash()));
    assert_eq!(tip.work, U256::from(62), "regtest's headers take 2 hashes each");
    assert_eq!(chain.header_at(7), Some(headers[6]));
    assert_eq!(chain.header_at(0), Some(genesis));
    assert_eq!(chain.header_at(31), None);
    assert_eq!(chain.hash_at(30), Some(tip.hash));
    assert_eq!(chain.height_of(&headers[6].hash()), Some(7));
    assert_eq!(chain.find(&headers[6].hash()), Some((headers[6], 7)));
    let confirmations = [0, 29, 30, 31, u32::MAX].map(|height| chain.confirmations(height));
    assert_eq!(confirmations, [31, 2, 1, 0, 0]);
    assert_eq!(chain.median_time_at(30), Some(headers[24].time));
    assert_eq!(chain.median_time_at(31), None);
    assert_eq!(chain.header_count(), 31);
}

#[test]
fn a_wrong_header_is_refused_and_the_headers_before_it_stay() {
    let mut chain = regtest();
    let genesis = Network::Regtest.genesis();
    let headers = branch(&genesis, 20, 1);
    let orphan = chain.accept(&headers[1], NOW).unwrap_err();
    assert!(matches!(orphan, ChainError::UnknownParent { parent, .. } if parent == headers[0].hash()));
    let mut gap = headers.clone();
    gap.remove(5);
    let refused = chain.accept_range(&gap, NOW).unwrap_err();
    assert_eq!((refused.index, refused.accepted.added), (5, 5));
    assert_eq!(refused.accepted.change, change(0, 1, 5));
    assert!(matches!(refused.source, ChainError::UnknownParent { .. }));
    assert_eq!(chain.tip().height, 5);
    chain.accept_range(&headers, NOW).unwrap();

    let tip = headers[19];
    let good = mine(&tip, BITS, tip.time + 600, 99);
    let weak = (0..)
        .map(|nonce| Header { nonce, ..good })
        .find(|header| header.check_proof_of_work(Network::Regtest) == Err(ProofError::WrongProofOfWork));
    let other_target = mine(&tip, 0x207f_fffe, tip.time + 600, 99);
    let old = mine(&tip, BITS, headers[14].time, 99);
    let new = mine(&tip, BITS, tip.time + 7201, 99);
    let clock = tip.time;
    let reason = |header: &Header, chain: &mut HeaderChain| match chain.accept(header, clock).unwrap_err() {
        ChainError::Rule { source, height, .. } => format!("{height} {source:?}"),
        ChainError::Proof { source, .. } => format!("{source:?}"),
        other => panic!("{other}"),
    };
    assert_eq!(reason(&weak.unwrap(), &mut chain), "WrongProofOfWork");
    let mainnet = Header {
        bits: 0x2100_ffff,
        ..good
    };
    assert_eq!(reason(&mainnet, &mut chain), "InvalidTarget");
    let wrong = RuleError::WrongTarget {
        found: 0x207f_fffe,
        required: BITS,
    };
    assert_eq!(reason(&other_target, &mut chain), format!("21 {wrong:?}"));
    let too_old = RuleError::TimeTooOld {
        found: headers[14].time,
        median: headers[14].time,
    };
    assert_eq!(reason(&old, &mut chain), format!("21 {too_old:?}"));
    let too_new = RuleError::TimeTooNew {
        found: clock + 7201,
        now: clock,
    };
    assert_eq!(reason(&new, &mut chain), format!("21 {too_new:?}"));
    assert_eq!(chain.header_count(), 21);
    assert!(chain.accept(&good, clock).is_ok());
    assert!(
        chain.accept(&new, clock + 1).is_ok(),
        "a second later it is in time"
    );
}

#[test]
fn most_work_wins_and_reorganisations_are_reported() {
    let mut chain = regtest();
    let genesis = Network::Regtest.genesis();
    let trunk = branch(&genesis, 10, 1);
    let (left, right) = (branch(&trunk[9], 5, 2), branch(&trunk[9], 7, 3));
    chain.accept_range(&trunk, NOW).unwrap();
    chain.accept_range(&left, NOW).unwrap();
    // The second branch has the same work as the first, so the first one stays the best chain.
    let side = chain.accept_range(&right[..5], NOW).unwrap();
    assert_eq!(
        side,
        Accepted {
            added: 5,
            change: None
        }
    );
    assert_eq!(chain.height_of(&right[0].hash()), None);
    assert_eq!(chain.find(&right[0].hash()), Some((right[0], 11)));
    let over = chain.accept_range(&right[5..], NOW).unwrap();
    assert_eq!(
        over,
        Accepted {
            added: 2,
            change: change(5, 11, 17)
        }
    );
    assert_eq!(chain.height_of(&left[0].hash()), None);
    assert_eq!(chain.hash_at(15), Some(right[4].hash()));
    // One range of headers makes the first branch the longest one again, and also contains a third branch. The reported
    // change is from the tip before the range to the tip after it.
    let back = [branch(&left[4], 3, 4), branch(&left[2], 6, 5)].concat();
    assert_eq!(
        chain.accept_range(&back, NOW).unwrap(),
        Accepted {
            added: 9,
            change: change(7, 11, 19)
        }
    );
    assert_eq!(chain.hash_at(14), Some(back[3].hash()));
    // This branch replaces the whole chain above the genesis header.
    let whole = branch(&genesis, 25, 6);
    assert_eq!(chain.accept_range(&whole, NOW).unwrap().change, change(19, 1, 25));
}

/// Gives random trees of headers in random orders to a chain, and compares its best chain with that of a simple model.
#[test]
fn random_chains_agree_with_a_plain_model() {
    let mut random = Random(8);
    for _ in 0..30 {
        let genesis = Network::Regtest.genesis();
        let mut tree: Vec<(Header, u32)> = vec![(genesis, 0)];
        for tag in 0..120 {
            let from = tree.len().saturating_sub(1 + random.index(12));
            let (parent, height) = tree[from];
            tree.push((mine(&parent, BITS, parent.time + 1, tag), height + 1));
        }
        let mut chain = regtest();
        // Model: for each hash the path from the genesis header. The best chain is the first one of the greatest
        // height.
        let mut paths: HashMap<Hash, Vec<Hash>> = HashMap::from([(genesis.hash(), vec![genesis.hash()])]);
        let mut best = vec![genesis.hash()];
        let mut at = 1;
        while at < tree.len() {
            let end = (at + 1 + random.index(4)).min(tree.len());
            let range: Vec<Header> = tree[at..end].iter().map(|(header, _)| *header).collect();
            let accepted = chain.accept_range(&range, NOW).unwrap();
            let old = best.clone();
            for header in &range {
                let mut path = paths[&header.previous].clone();
                path.push(header.hash());
                paths.insert(header.hash(), path.clone());
                if path.len() > best.len() {
                    best = path;
                }
            }
            let common = old.iter().zip(&best).take_while(|(old, new)| old == new).count();
            let changed = (old != best).then(|| {
                change((old.len() - common) as u32, common as u32, best.len() as u32 - 1).expect("one")
            });
            assert_eq!(accepted.change, changed);
            assert_eq!(chain.tip().hash, best[best.len() - 1]);
            for (height, hash) in (0..).zip(&best) {
                assert_eq!(chain.hash_at(height), Some(*hash));
                assert_eq!(chain.height_of(hash), Some(height));
            }
            at = end;
        }
    }
}

/// Checks the difficulty rules of simnet, which are those of testnet3: the target changes after 2016 blocks; a block
/// may have the minimum difficulty 20 minutes after its parent; and after such blocks the earlier target applies again.
#[test]
fn simnet_changes_its_difficulty() {
    let mut chain = HeaderChain::in_memory(Network::Simnet, ChainOptions::default());
    let mut fields = vec![Network::Simnet.genesis()];
    let mut work = 2_u128;
    let mut random = Random(9);
    while fields.len() < 2 * RETARGET_INTERVAL as usize + 50 {
        let parent = fields[fields.len() - 1];
        let gap = if random.one_in(20) {
            1201 + random.below(9)
        } else {
            1 + random.below(600)
        };
        let time = parent.time + gap as u32;
        let at = |height: u32| Ancestor {
            time: fields[height as usize].time,
            bits: fields[height as usize].bits,
        };
        let bits = required_bits(Network::Simnet, fields.len() as u32 - 1, time, at);
        let header = mine(&parent, bits, time, 0);
        let wrong = mine(&parent, bits - 1, time, 0);
        let refused = chain.accept(&wrong, NOW).unwrap_err();
        assert!(
            matches!(
                refused,
                ChainError::Rule {
                    source: RuleError::WrongTarget { .. },
                    ..
                }
            ),
            "{refused}"
        );
        chain.accept(&header, NOW).unwrap();
        work += header.work().to_u128().unwrap();
        fields.push(header);
    }
    assert_eq!(chain.tip().work, U256::from(work));
    let bits: std::collections::BTreeSet<u32> = fields.iter().map(|header| header.bits).collect();
    assert!(bits.len() >= 3, "{bits:x?}");
}

#[test]
fn a_branch_that_contradicts_a_checkpoint_is_refused() {
    let genesis = Network::Regtest.genesis();
    let (good, bad) = (branch(&genesis, 12, 1), branch(&genesis, 30, 2));
    let checkpoint = Checkpoint {
        height: 10,
        hash: good[9].hash(),
    };
    let options = ChainOptions {
        checkpoints: vec![checkpoint],
        ..ChainOptions::default()
    };
    let mut chain = HeaderChain::in_memory(Network::Regtest, options);
    // Before the checkpoint is reached, a branch may grow up to it.
    let refused = chain.accept_range(&bad, NOW).unwrap_err();
    assert_eq!(refused.index, 9);
    assert!(matches!(
        refused.source,
        ChainError::OtherThanCheckpoint { height: 10, .. }
    ));
    assert_eq!(chain.tip().height, 9);
    assert_eq!(chain.accept_range(&good, NOW).unwrap().change, change(9, 1, 12));
    // After it, no branch may begin below it, but one above it may.
    let refused = chain.accept(&branch(&good[4], 1, 3)[0], NOW).unwrap_err();
    assert!(matches!(
        refused,
        ChainError::BelowCheckpoint {
            height: 6,
            checkpoint: 10,
            ..
        }
    ));
    assert_eq!(chain.accept_range(&good, NOW).unwrap(), Accepted::default());
    assert_eq!(
        chain.accept_range(&branch(&good[9], 5, 4), NOW).unwrap().change,
        change(2, 11, 15)
    );
}

#[test]
fn a_full_chain_refuses_further_headers() {
    let options = ChainOptions {
        max_headers: 10,
        ..ChainOptions::default()
    };
    let mut chain = HeaderChain::in_memory(Network::Regtest, options);
    let headers = branch(&Network::Regtest.genesis(), 12, 1);
    let refused = chain.accept_range(&headers, NOW).unwrap_err();
    assert!(matches!(refused.source, ChainError::Full { max: 10 }));
    assert_eq!(
        (refused.index, chain.header_count(), chain.tip().height),
        (9, 10, 9)
    );
}

#[test]
fn a_proof_counts_only_in_the_best_chain_and_at_its_height() {
    let mut chain = regtest();
    let genesis = Network::Regtest.genesis();
    let (old, new) = (branch(&genesis, 3, 1), branch(&genesis, 5, 2));
    chain.accept_range(&old, NOW).unwrap();
    let proof = TransactionProof {
        header: old[1],
        height: 2,
        transaction_count: 1,
        index: 0,
        path: MerklePath::EMPTY,
    };
    let txid = old[1].merkle_root;
    assert_eq!(chain.verify(&proof, &txid).unwrap(), 2);
    let elsewhere = TransactionProof { height: 3, ..proof };
    assert!(matches!(
        chain.verify(&elsewhere, &txid),
        Err(ChainError::NotInChain { height: 3, .. })
    ));
    let wrong = chain.verify(&proof, &[1; 32]);
    assert!(matches!(
        wrong,
        Err(ChainError::Proof {
            source: ProofError::WrongRoot,
            ..
        })
    ));
    chain.accept_range(&new, NOW).unwrap();
    assert!(matches!(
        chain.verify(&proof, &txid),
        Err(ChainError::NotInChain { height: 2, .. })
    ));
}

// ---- the store ----

fn open(directory: &std::path::Path) -> Result<HeaderChain<FileStore>, ChainError> {
    let store = FileStore::create(directory, Network::Regtest)?;
    HeaderChain::open(Network::Regtest, store, ChainOptions::default())
}

#[test]
fn headers_and_side_chains_are_read_again_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let genesis = Network::Regtest.genesis();
    let (left, right) = (branch(&genesis, 8, 1), branch(&genesis, 9, 2));
    let mut chain = open(directory.path()).unwrap();
    chain.accept_range(&left, NOW).unwrap();
    chain.accept_range(&right, NOW).unwrap();
    chain.sync().unwrap();
    let tip = chain.tip();
    drop(chain);
    let length = std::fs::metadata(directory.path().join("headers.dat"))
        .unwrap()
        .len();
    assert_eq!(length, 16 + 17 * 80);
    let mut chain = open(directory.path()).unwrap();
    assert_eq!((chain.tip(), chain.header_count()), (tip, 18));
    let over = chain.accept_range(&branch(&left[7], 2, 3), NOW).unwrap();
    assert_eq!(over.change, change(9, 1, 10));
    drop(chain);
    assert_eq!(open(directory.path()).unwrap().tip().height, 10);
    assert_eq!(
        FileStore::open(directory.path(), Network::Regtest)
            .unwrap()
            .network(),
        Network::Regtest
    );
}

#[test]
fn a_file_cut_anywhere_opens_with_the_headers_before_the_cut() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("headers.dat");
    let headers = branch(&Network::Regtest.genesis(), 4, 1);
    open(directory.path())
        .unwrap()
        .accept_range(&headers, NOW)
        .unwrap();
    let whole = std::fs::read(&path).unwrap();
    for length in 0..=whole.len() {
        // The file is truncated, or truncated and followed by zeros, as a file system may leave it. If the cut removed
        // only zero bytes at the end of a nonce, the appended zeros restore the header.
        for zeros in [0, 200] {
            let bytes = [&whole[..length], &vec![0; zeros * usize::from(length >= 16)]].concat();
            let same = bytes
                .iter()
                .zip(&whole)
                .take_while(|(found, whole)| found == whole)
                .count();
            let kept = same.saturating_sub(16) / 80;
            std::fs::write(&path, &bytes).unwrap();
            let mut chain = open(directory.path()).unwrap_or_else(|error| panic!("{length}: {error}"));
            assert_eq!(chain.tip().height as usize, kept, "{length}");
            chain.accept_range(&headers, NOW).unwrap();
            chain.sync().unwrap();
            drop(chain);
            assert_eq!(std::fs::read(&path).unwrap()[..whole.len()], whole, "{length}");
            assert_eq!(open(directory.path()).unwrap().tip().height, 4, "{length}");
        }
    }
}

#[test]
fn damaged_and_foreign_files_are_reported_and_stay_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("headers.dat");
    let headers = branch(&Network::Regtest.genesis(), 6, 1);
    open(directory.path())
        .unwrap()
        .accept_range(&headers, NOW)
        .unwrap();
    let whole = std::fs::read(&path).unwrap();
    let mut damaged = whole.clone();
    damaged[16 + 2 * 80 + 40] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    let error = open(directory.path()).err().expect("damage").to_string();
    // The changed byte makes the third header's proof of work invalid, or changes its hash so that the fourth header
    // has no parent.
    assert!(
        error.starts_with("stored header 2: ") || error.starts_with("stored header 3: "),
        "{error}"
    );
    assert!(error.contains("fetch them again"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), damaged);

    let simnet = FileStore::create(directory.path(), Network::Simnet).expect_err("another network");
    assert!(
        simnet
            .to_string()
            .contains("holds headers of regtest, not headers of simnet"),
        "{simnet}"
    );
    let mut newer = whole.clone();
    newer[8] = 9;
    for (bytes, found) in [
        (&b"notes, longer than 16 bytes"[..], "no headers"),
        (&newer, "does not know"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let error = open(directory.path()).err().expect("another file").to_string();
        assert!(error.contains(found), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(
        FileStore::open(directory.path(), Network::Regtest),
        Err(StoreError::Io { .. })
    ));
    assert!(!path.exists());
}

/// Store that refuses to append headers while `is_full` is set, like a full disk.
#[derive(Default)]
struct FullDisk {
    kept: Vec<[u8; 80]>,
    is_full: std::rc::Rc<std::cell::Cell<bool>>,
}

impl HeaderStore for FullDisk {
    fn load(&mut self, each: &mut dyn FnMut(&[u8; 80]) -> bool) -> Result<(), StoreError> {
        self.kept.iter().all(each);
        Ok(())
    }

    fn cut(&mut self, count: u64) -> Result<(), StoreError> {
        self.kept.truncate(count as usize);
        Ok(())
    }

    fn append(&mut self, headers: &[[u8; 80]]) -> Result<(), StoreError> {
        if self.is_full.get() {
            return Err(StoreError::Broken { path: "disk".into() });
        }
        self.kept.extend(headers);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }
}

#[test]
fn headers_that_a_full_disk_refused_are_written_later_in_order() {
    let is_full = std::rc::Rc::new(std::cell::Cell::new(false));
    let store = FullDisk {
        is_full: is_full.clone(),
        ..FullDisk::default()
    };
    let mut chain = HeaderChain::open(Network::Regtest, store, ChainOptions::default()).unwrap();
    let headers = branch(&Network::Regtest.genesis(), 9, 1);
    chain.accept_range(&headers[..3], NOW).unwrap();
    is_full.set(true);
    let failed = chain.accept_range(&headers[3..6], NOW).unwrap_err();
    assert_eq!((failed.index, failed.accepted.added), (3, 3));
    assert!(matches!(failed.source, ChainError::Store(_)));
    assert!(chain.sync().is_err());
    assert_eq!(chain.tip().height, 6, "the headers are in the chain");
    is_full.set(false);
    chain.accept_range(&headers[6..], NOW).unwrap();
    let kept: Vec<[u8; 80]> = headers.iter().map(Header::to_bytes).collect();
    assert_eq!(chain.store().kept, kept);
}
