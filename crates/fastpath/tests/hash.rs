//! Keys that count up, as account ids do, fill a table almost as evenly as random keys, for every hash key.

use lineside_fastpath::hash::index_hash;
use lineside_testkit::Random;
use std::sync::atomic::AtomicU64;

const BITS: u32 = 14;
const HASH_KEYS: u64 = 400;

/// Fills a table of 2^[`BITS`] places with keys. The place of a key is given by the bits of its hash from bit `shift`
/// on. Returns the number of empty places, and the number of keys in the fullest place.
fn spread(hash_key: &[AtomicU64; 3], shift: u32, key_of: impl Fn(u64) -> [u64; 2]) -> (usize, u32) {
    let mut places = vec![0u32; 1 << BITS];
    for number in 0..1 << BITS {
        let hash = index_hash(key_of(number), hash_key);
        places[(hash >> shift) as usize & ((1 << BITS) - 1)] += 1;
    }
    let empty = places.iter().filter(|count| **count == 0).count();
    (empty, places.into_iter().max().unwrap_or_default())
}

#[test]
fn keys_that_count_up_fill_a_table_nearly_as_by_chance() {
    // Random keys, as many as there are places, leave a share of 1/e of the places empty, and hardly ever put 12 keys
    // into one place.
    let due = (f64::from(1 << BITS) / std::f64::consts::E) as usize;
    let mut random = Random(0);
    for number in 0..HASH_KEYS {
        let words = [(); 3].map(|()| random.next());
        let hash_key = [words[0], words[1], words[2] | 1].map(AtomicU64::new);
        for shift in [64 - BITS, 64 - 2 * BITS] {
            for step in [1, 3, 16, 1 << 10] {
                for (word, up) in [(0, 0), (0, 32), (1, 0), (1, 32)] {
                    let (empty, fullest) = spread(&hash_key, shift, |number| {
                        let mut key = [7, 7];
                        key[word] = (number * step) << up;
                        key
                    });
                    let case = format!(
                        "hash key {number}, bits from {shift}, step {step}, word {word} from bit {up}"
                    );
                    assert!(
                        empty.abs_diff(due) < 1000,
                        "{case}: {empty} empty, {due} expected"
                    );
                    assert!(fullest <= 13, "{case}: {fullest} keys in one place");
                }
            }
        }
    }
}
