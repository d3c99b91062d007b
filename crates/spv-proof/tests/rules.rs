//! Tests of the rules of headers, on chains of times and targets without proof of work, against other
//! implementations.

#![cfg(feature = "std")]

use bitcoin::pow::CompactTarget;
use lineside_spv_proof::{
    Ancestor, MAX_FUTURE_S, Network, RETARGET_INTERVAL, RetargetRule, RuleError, check_rules,
    check_rules_with, decode_target, encode_target, median_time, real_bits_after, required_bits, retarget,
};
use lineside_testkit::Random;

fn oracle(network: Network) -> Option<bitcoin::Network> {
    Some(match network {
        Network::Mainnet => bitcoin::Network::Bitcoin,
        Network::Testnet3 => bitcoin::Network::Testnet,
        Network::Testnet4 => bitcoin::Network::Testnet4,
        Network::Signet => bitcoin::Network::Signet,
        Network::Regtest => bitcoin::Network::Regtest,
        Network::Simnet => return None,
    })
}

/// Compares the next target with the `bitcoin` crate, which does not implement the rules of test networks.
#[test]
fn a_retarget_equals_that_of_the_bitcoin_crate() {
    let mut random = Random(5);
    for network in Network::ALL {
        let Some(other) = oracle(network) else {
            continue;
        };
        for _ in 0..20_000 {
            let target = network.limit() >> random.below(180) as u32;
            let bits = encode_target(target) - random.below(200) as u32;
            if decode_target(bits).is_none_or(|target| target > network.limit()) {
                continue;
            }
            let timespan = random.below(6_000_000);
            let last = CompactTarget::from_consensus(bits);
            let expected = CompactTarget::from_next_work_required(last, timespan, other).to_consensus();
            let found = match network.retarget_rule() {
                RetargetRule::Never => required_bits(network, 2015, 0, |_| Ancestor { time: 0, bits }),
                _ => retarget(network, bits, timespan as i64),
            };
            match network {
                // Every header of regtest has the minimum difficulty; the `bitcoin` crate returns its input instead.
                Network::Regtest => assert_eq!((found, expected), (0x207f_ffff, bits)),
                _ => assert_eq!(found, expected, "{network}: {bits:08x} after {timespan} s"),
            }
        }
    }
}

/// Checks known changes of the target: pairs of real headers of the main network, from Bitcoin Core's `pow_tests.cpp`.
#[test]
fn changes_of_the_main_network_are_found_from_its_headers() {
    let cases = [
        (32_255, 1_261_130_161, 1_262_152_739, 0x1d00_ffff, 0x1d00_d86a),
        (2_015, 1_231_006_505, 1_233_061_996, 0x1d00_ffff, 0x1d00_ffff),
        (68_543, 1_279_008_237, 1_279_297_671, 0x1c05_a3f4, 0x1c01_68fd),
    ];
    for (height, first, last, bits, expected) in cases {
        let at = |asked: u32| match asked {
            asked if asked == height => Ancestor { time: last, bits },
            asked if asked == height - 2015 => Ancestor { time: first, bits },
            other => panic!("height {other} is not needed"),
        };
        assert_eq!(required_bits(Network::Mainnet, height, last + 600, at), expected);
        // Between two changes a header must have its parent's target, whatever its time is.
        let parent = |asked: u32| {
            assert_eq!(asked, height + 1);
            Ancestor {
                time: last,
                bits: expected,
            }
        };
        assert_eq!(
            required_bits(Network::Mainnet, height + 1, last + 40_000, parent),
            expected
        );
        assert_eq!(
            required_bits(Network::Signet, height + 1, last + 40_000, parent),
            expected
        );
    }
}

#[test]
fn a_test_network_accepts_an_easy_block_after_20_minutes_and_then_requires_the_real_target() {
    let (limit, real) = (0x1d00_ffff, 0x1b04_04cb);
    for network in [Network::Testnet3, Network::Testnet4] {
        // Chain of the heights 2016 to 2020, in which the blocks 2018 and 2019 have the minimum difficulty.
        let chain = |height: u32| Ancestor {
            time: 10_000 * height,
            bits: if height == 2018 || height == 2019 {
                limit
            } else {
                real
            },
        };
        let next = |parent: u32, gap: u32| required_bits(network, parent, 10_000 * parent + gap, chain);
        assert_eq!(next(2017, 1200), real, "20 minutes are not more than 20 minutes");
        assert_eq!(next(2017, 1201), limit);
        assert_eq!(
            next(2019, 1200),
            real,
            "the target before the blocks of minimum difficulty"
        );
        assert_eq!(next(2020, 600), real);
        // A whole period of easy blocks begins with one at its first height, so its target is the minimum difficulty.
        let easy = |height: u32| Ancestor {
            time: 10_000 * height,
            bits: limit,
        };
        assert_eq!(required_bits(network, 2019, 20_190_000, easy), limit);
        // All headers have the largest possible time.
        let late = |_| Ancestor {
            time: u32::MAX,
            bits: real,
        };
        assert_eq!(required_bits(network, 2019, u32::MAX, late), real);
    }
}

#[test]
fn a_retarget_scales_the_last_target_but_the_first_one_on_testnet4() {
    let (limit, real) = (0x1d00_ffff, 0x1b04_04cb);
    let chain = |height: u32| Ancestor {
        time: 600 * height,
        bits: if height == 4031 { limit } else { real },
    };
    let timespan = 600 * 2015;
    assert_eq!(
        required_bits(Network::Testnet3, 4031, 600 * 4032, chain),
        retarget(Network::Testnet3, limit, timespan)
    );
    let found = required_bits(Network::Testnet4, 4031, 600 * 4032, chain);
    assert_eq!(found, retarget(Network::Testnet4, real, timespan));
    assert!(
        decode_target(found) < decode_target(real),
        "2015 gaps are less than two weeks"
    );
}

/// Checks, on each network, a header that follows every rule, and one header for each broken rule.
#[test]
fn each_broken_rule_is_named() {
    for network in Network::ALL {
        let bits = network.limit_bits();
        let chain = |height: u32| Ancestor {
            time: 1_000_000 + 100 * height,
            bits,
        };
        let parent_height = 50;
        let (parent_time, now) = (1_005_000, 2_000_000);
        let check =
            |time: u32, bits: u32| check_rules(network, Ancestor { time, bits }, parent_height, now, chain);
        assert_eq!(check(parent_time + 600, bits), Ok(()), "{network}");
        let median = parent_time - 500;
        assert_eq!(median_time(parent_height, |height| chain(height).time), median);
        assert_eq!(check(median + 1, bits), Ok(()));
        assert_eq!(
            check(median, bits),
            Err(RuleError::TimeTooOld {
                found: median,
                median
            })
        );
        assert_eq!(check(now + MAX_FUTURE_S, bits), Ok(()));
        let found = now + MAX_FUTURE_S + 1;
        assert_eq!(check(found, bits), Err(RuleError::TimeTooNew { found, now }));
        let wrong = RuleError::WrongTarget {
            found: bits - 1,
            required: bits,
        };
        assert_eq!(check(parent_time + 600, bits - 1), Err(wrong));
    }
}

#[test]
fn the_time_warp_rule_applies_on_testnet4_to_the_first_header_of_a_period() {
    let bits = 0x1d00_ffff;
    // The last header of a period is far ahead of the previous ones.
    let chain = |height: u32| Ancestor {
        time: if height % RETARGET_INTERVAL == 2015 {
            9_000_000
        } else {
            1_000 * (height % RETARGET_INTERVAL)
        },
        bits,
    };
    for network in [Network::Mainnet, Network::Testnet3, Network::Testnet4] {
        let check = |parent: u32, time: u32| {
            let bits = required_bits(network, parent, time, chain);
            check_rules(network, Ancestor { time, bits }, parent, u32::MAX, chain)
        };
        assert_eq!(check(4031, 9_000_000 - 600), Ok(()));
        let found = 9_000_000 - 601;
        let expected = match network {
            Network::Testnet4 => Err(RuleError::TimeWarp {
                found,
                parent: 9_000_000,
            }),
            _ => Ok(()),
        };
        assert_eq!(check(4031, found), expected, "{network}");
        // Within a period a header may be older than its parent.
        let wavy = |height: u32| Ancestor {
            time: if height == 100 { 900_000 } else { 1_000 * height },
            bits,
        };
        let older = Ancestor { time: 99_000, bits };
        assert_eq!(check_rules(network, older, 100, u32::MAX, wavy), Ok(()));
    }
}

#[test]
fn the_median_of_fewer_than_11_headers_uses_all_of_them() {
    let mut random = Random(6);
    for height in 0..40 {
        let times: Vec<u32> = (0..=height).map(|_| random.below(50) as u32).collect();
        let mut last: Vec<u32> = times.iter().rev().take(11).copied().collect();
        last.sort_unstable();
        let found = median_time(height, |height| times[height as usize]);
        assert_eq!(found, last[last.len() / 2], "{times:?}");
    }
}

/// The target stored for each header equals the one found by a walk over all headers of the period.
#[test]
fn stored_real_targets_equal_those_of_a_walk() {
    let mut random = Random(17);
    for network in Network::ALL {
        let limit = network.limit_bits();
        let (mut fields, mut kept): (Vec<Ancestor>, Vec<u32>) = (Vec::new(), Vec::new());
        for height in 0..3 * RETARGET_INTERVAL {
            // Makes long runs of headers of minimum difficulty, also across the end of a period.
            let is_easy = !height.is_multiple_of(3) || random.one_in(2) || height % 2016 > 1500;
            let bits = if is_easy {
                limit
            } else {
                limit - 1 - random.below(9) as u32
            };
            let of_parent = kept.last().copied().unwrap_or(0);
            kept.push(real_bits_after(network, height, bits, of_parent));
            fields.push(Ancestor {
                time: 600 * height,
                bits,
            });
            let at = |height: u32| fields[height as usize];
            for gap in [600, 1201] {
                let time = 600 * height + gap;
                let required = required_bits(network, height, time, at);
                for bits in [required, required - 1] {
                    let header = Ancestor { time, bits };
                    let checked =
                        check_rules_with(network, header, height, u32::MAX, at, || kept[height as usize]);
                    assert_eq!(checked, check_rules(network, header, height, u32::MAX, at));
                    assert_eq!(checked.is_ok(), bits == required);
                }
            }
        }
    }
}
