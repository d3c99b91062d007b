//! Tests of targets and times of blocks. The store accepts a chain whose difficulty changes, and refuses each block
//! whose target is not the required one at its height. The tests compute the expected targets independently of the
//! store, with 128-bit integers.

use bitcoin::hashes::Hash;
use lineside_spv::chain::*;
use lineside_spv_proof::RuleError;
use lineside_testkit::{DemoBlock, DemoChain, Random};

const SIMNET_LIMIT: u32 = 0x207f_ffff;
const PERIOD: usize = 2016;

/// Time, target and hash of a mined header.
#[derive(Clone, Copy)]
struct Mined {
    time: u32,
    bits: u32,
    hash: [u8; 32],
}

/// Returns the target that btcd's simnet requires of the next block after `chain`, if this block has this time.
fn required(chain: &[Mined], time: u32) -> u32 {
    let last = chain[chain.len() - 1];
    let begin = (chain.len() - 1) / PERIOD * PERIOD;
    if chain.len().is_multiple_of(PERIOD) {
        return retargeted(last.bits, last.time - chain[begin].time);
    }
    if time > last.time + 1200 {
        return SIMNET_LIMIT;
    }
    let real = chain[begin..]
        .iter()
        .rev()
        .find(|mined| mined.bits != SIMNET_LIMIT);
    real.unwrap_or(&chain[begin]).bits
}

/// Returns the target after a period of `timespan_s` seconds. The computation truncates low bytes; the three highest
/// bytes of the result, which the compact form keeps, are those of the exact computation.
fn retargeted(bits: u32, timespan_s: u32) -> u32 {
    let timespan = u128::from(timespan_s.clamp(302_400, 4_838_400));
    let mut size = (bits >> 24) - 4;
    let mut mantissa = (u128::from(bits & 0x00ff_ffff) << 32) * timespan / 1_209_600;
    while mantissa > 0x007f_ffff {
        mantissa >>= 8;
        size += 1;
    }
    let found = size << 24 | mantissa as u32;
    if found > SIMNET_LIMIT { SIMNET_LIMIT } else { found }
}

fn median(chain: &[Mined]) -> u32 {
    let mut times: Vec<u32> = chain.iter().rev().take(11).map(|mined| mined.time).collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn mine(seed: u64, chain: &[Mined], bits: u32, time: u32) -> DemoBlock {
    let mut next = DemoChain::branch(seed, 1, chain[chain.len() - 1].hash, chain.len() as u32);
    next.next().unwrap().mined_again(bits, time)
}

fn rule(refused: Result<Submitted, Refused>, at: usize) -> RuleError {
    match refused {
        Err(Refused::Rule { height, source }) => {
            assert_eq!(height as usize, at);
            source
        }
        other => panic!("{other:?}"),
    }
}

/// Fills `store` with `length` blocks above simnet's genesis, and submits wrong blocks in between.
fn fill(store: &mut ChainStore, length: usize) -> Vec<Mined> {
    let genesis = Network::Simnet.rules().genesis();
    let first = Mined {
        time: genesis.time,
        bits: genesis.bits,
        hash: genesis.hash(),
    };
    let mut chain = vec![first];
    let mut random = Random(4);
    store.submit(&genesis_block(), false).unwrap();
    while chain.len() < length {
        let last = chain[chain.len() - 1];
        // Some blocks are found more than 20 minutes after their parent and have the easiest target. The other gaps are
        // at most 500 s, less than the intended 600 s, so that the targets become harder.
        let gap = if random.one_in(12) {
            1201
        } else {
            1 + random.below(500) as u32
        };
        let time = last.time + gap;
        let bits = required(&chain, time);
        let is_change = chain.len().is_multiple_of(PERIOD);
        if random.one_in(40) || is_change || chain.len() % PERIOD == 1 {
            refuse_wrong(store, &chain, bits, time);
        }
        let block = mine(1, &chain, bits, time);
        assert_eq!(
            store.submit(&block.raw, false).unwrap().height as usize,
            chain.len()
        );
        chain.push(Mined {
            time,
            bits,
            hash: block.hash,
        });
    }
    store.catch_up().unwrap();
    assert_eq!(store.tip().unwrap().height as usize, length - 1);
    chain
}

fn refuse_wrong(store: &mut ChainStore, chain: &[Mined], bits: u32, time: u32) {
    let height = chain.len();
    let mut wrong = vec![bits - 1];
    if bits != SIMNET_LIMIT {
        wrong.push(SIMNET_LIMIT);
    }
    for found in wrong {
        let block = mine(2, chain, found, time);
        let broken = rule(store.submit(&block.raw, false), height);
        assert_eq!(
            broken,
            RuleError::WrongTarget {
                found,
                required: bits
            }
        );
        assert!(store.find(&block.hash).is_none());
    }
    let median = median(chain);
    let late = mine(3, chain, required(chain, median), median);
    assert_eq!(
        rule(store.submit(&late.raw, false), height),
        RuleError::TimeTooOld {
            found: median,
            median
        }
    );
}

fn genesis_block() -> Vec<u8> {
    // All genesis blocks except testnet4's have the coinbase of the main network.
    let main = bitcoin::constants::genesis_block(bitcoin::Network::Bitcoin);
    let mut raw = Network::Simnet.rules().genesis().to_bytes().to_vec();
    raw.push(1);
    raw.extend(bitcoin::consensus::serialize(&main.txdata[0]));
    raw
}

#[test]
fn a_wrong_target_is_refused_at_each_height() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = ChainStore::open(Some(dir.path()), Network::Simnet).unwrap();
    let chain = fill(&mut store, 2 * PERIOD + 60);
    let targets: std::collections::BTreeSet<u32> = chain.iter().map(|mined| mined.bits).collect();
    assert!(targets.len() >= 3, "the difficulty changed twice: {targets:x?}");
    // A branch that begins far below the tip is checked against its own ancestors, which are not connected.
    let fork = PERIOD + 30;
    let mut branch = chain[..fork].to_vec();
    for _ in 0..30 {
        let time = branch[branch.len() - 1].time + 600;
        let bits = required(&branch, time);
        refuse_wrong(&mut store, &branch, bits, time);
        let block = mine(5, &branch, bits, time);
        store.submit(&block.raw, false).unwrap();
        branch.push(Mined {
            time,
            bits,
            hash: block.hash,
        });
    }
    store.sync().unwrap();
    drop(store);
    // Opening applies the same checks to the files.
    let mut store = ChainStore::open(Some(dir.path()), Network::Simnet).unwrap();
    assert_eq!(store.tip().unwrap().height as usize, chain.len() - 1);
    let time = chain[chain.len() - 1].time + 5;
    refuse_wrong(&mut store, &chain, required(&chain, time), time);
}

#[test]
fn a_block_with_a_time_in_the_future_is_refused_with_its_height() {
    let mut store = ChainStore::open(None, Network::Simnet).unwrap();
    let chain = fill(&mut store, 20);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let time = now.unwrap().as_secs() as u32 + 3 * 60 * 60;
    let block = mine(1, &chain, SIMNET_LIMIT, time);
    let refused = store.submit(&block.raw, false).unwrap_err().to_string();
    assert!(
        refused.contains("at height 20") && refused.contains("clock"),
        "{refused}"
    );
    let near = mine(1, &chain, SIMNET_LIMIT, time - 2 * 60 * 60);
    store.submit(&near.raw, false).unwrap();
}

#[test]
fn targets_are_not_checked_where_the_height_is_unknown() {
    // The height is unknown for a detached block, and for a chain that does not begin with the genesis block.
    let odd = |block: DemoBlock| block.mined_again(SIMNET_LIMIT - 1, 1_300_000_000);
    let mut store = ChainStore::open(None, Network::Regtest).unwrap();
    let detached = odd(DemoChain::branch(1, 2, [9; 32], 7).next().unwrap());
    assert_eq!(store.submit(&detached.raw, true).unwrap().height, DETACHED_HEIGHT);
    let child = odd(DemoChain::branch(1, 2, detached.hash, 8).next().unwrap());
    assert_eq!(store.submit(&child.raw, false).unwrap().height, DETACHED_HEIGHT);
    let first = odd(DemoChain::new(1, 2).next().unwrap());
    store.submit(&first.raw, false).unwrap();
    let second = odd(DemoChain::branch(1, 2, first.hash, 1).next().unwrap());
    assert_eq!(store.submit(&second.raw, false).unwrap().height, 1);
    // Every block above the genesis block is checked.
    let genesis = bitcoin::constants::genesis_block(bitcoin::Network::Regtest);
    store
        .submit(&bitcoin::consensus::serialize(&genesis), false)
        .unwrap();
    let parent = genesis.block_hash().to_byte_array();
    let above = odd(DemoChain::branch(1, 2, parent, 1).next().unwrap());
    let broken = rule(store.submit(&above.raw, false), 1);
    assert!(matches!(broken, RuleError::WrongTarget { .. }), "{broken}");
}

#[test]
fn a_first_block_of_another_network_is_refused() {
    let genesis = |network| bitcoin::consensus::serialize(&bitcoin::constants::genesis_block(network));
    let known = [
        (bitcoin::Network::Bitcoin, Network::Mainnet),
        (bitcoin::Network::Testnet, Network::Testnet3),
        (bitcoin::Network::Testnet4, Network::Testnet4),
        (bitcoin::Network::Signet, Network::Signet),
        (bitcoin::Network::Regtest, Network::Regtest),
    ];
    for of in Network::ALL {
        let mut store = ChainStore::open(None, of).unwrap();
        for (name, network) in known {
            let taken = store.submit(&genesis(name), false);
            if network == of {
                assert_eq!(taken.unwrap().height, 0);
            } else {
                let refused = taken.unwrap_err();
                assert!(
                    matches!(
                        refused,
                        Refused::OtherGenesis(_) | Refused::TargetAboveLimit(_) | Refused::WrongProofOfWork
                    ),
                    "{network} in {of}: {refused}"
                );
            }
        }
        let made = DemoChain::new(1, 2).next().unwrap();
        let is_regtest = of == Network::Regtest;
        assert_eq!(store.submit(&made.raw, false).is_ok(), is_regtest, "{of}");
    }
}
