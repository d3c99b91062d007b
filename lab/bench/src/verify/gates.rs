//! Ratios between figures, and the required values (gates) that they are compared with.

use super::measure::Figures;
use super::{AWS_LC_RS, COME_BACK, IFMA, LIBSECP256K1, PORTABLE, RING, SEEN_ONCE, SHA2, SHA3};
use crate::gate::Bound::{self, AtLeast, AtMost};
use crate::gate::Gate;
use std::collections::BTreeMap;

/// Pass criteria: the key of a ratio, or a figure with its unit; direction of the bound; required value (gate); stretch
/// goal.
const GATES: [(&str, Bound, f64, Option<f64>); 13] = [
    ("p256 ifma/aws-lc-rs", AtLeast, 35.0, Some(50.0)),
    ("p256 portable/aws-lc-rs", AtLeast, 10.0, Some(12.0)),
    ("p256 batch_8 ifma/aws-lc-rs", AtLeast, 12.0, None),
    (BATCH_8, AtMost, 35.0, None),
    ("p256 cold ifma/aws-lc-rs", AtLeast, 15.0, None),
    ("p256 keys_256 ifma/aws-lc-rs", AtLeast, 20.0, None),
    ("p256 unknown ifma/aws-lc-rs", AtLeast, 7.0, None),
    ("secp256k1 ifma/libsecp256k1", AtLeast, 15.0, Some(22.0)),
    ("secp256k1 portable/libsecp256k1", AtLeast, 4.0, None),
    ("secp256k1 unknown ifma/libsecp256k1", AtLeast, 4.0, None),
    ("sha256 batch/sha2", AtLeast, 2.0, None),
    ("keccak256 batch/sha3", AtLeast, 7.0, None),
    (PORT_SHARE, AtLeast, 40.0, Some(60.0)),
];
const BATCH_8: &str = "p256 batch_8 ifma, us a batch";
const PORT_SHARE: &str = "p256 ifma port share, %";
/// Cases that Lineside runs. The keys of ratios do not name the first case.
const CASES: [&str; 6] = ["hot", "batch_8", "single", "keys_256", "cold", "unknown"];

/// Returns the keys of the gates that a report of this scenario has.
pub fn gate_keys() -> impl Iterator<Item = &'static str> {
    GATES.into_iter().map(|gate| gate.0)
}

/// Figures by primitive, contestant and case.
pub(super) type All = BTreeMap<(&'static str, &'static str, &'static str), Figures>;

/// Returns the speed-ups, computed from the value that `of` returns: that of the best slice or of the median slice.
pub(super) fn ratios(all: &All, of: fn(&Figures) -> f64) -> BTreeMap<String, f64> {
    let mut ratios = BTreeMap::new();
    let mut add = |key: String, ours, theirs| {
        if let Some((ours, theirs)) = all.get(&ours).zip(all.get(&theirs)) {
            ratios.insert(key, of(theirs) / of(ours));
        }
    };
    let libraries = [("p256", AWS_LC_RS), ("p256", RING), ("secp256k1", LIBSECP256K1)];
    for (curve, library) in libraries {
        for contestant in [IFMA, PORTABLE] {
            for case in CASES {
                let named = if case == CASES[0] {
                    String::new()
                } else {
                    format!("{case} ")
                };
                let key = format!("{curve} {named}{contestant}/{library}");
                add(key, (curve, contestant, case), (curve, library, "single"));
            }
        }
    }
    // In these cases, the library has the same work as Lineside.
    for contestant in [IFMA, PORTABLE] {
        for case in [SEEN_ONCE, COME_BACK] {
            let key = format!("p256 {case} {contestant}/{AWS_LC_RS}");
            add(key, ("p256", contestant, case), ("p256", AWS_LC_RS, case));
        }
    }
    for (hash, case, library) in [
        ("sha256", "messages_1k", SHA2),
        ("keccak256", "messages_short", SHA3),
    ] {
        let theirs = (hash, library, case);
        add(format!("{hash} batch/{library}"), (hash, "avx512", case), theirs);
        add(
            format!("{hash} portable/{library}"),
            (hash, PORTABLE, case),
            theirs,
        );
    }
    ratios
}

/// Compares the best slices with the required values. All gates are void if any contestant gave a wrong result.
pub(super) fn judge(
    all: &All,
    ratios: &BTreeMap<String, f64>,
    port_share_percent: Option<f64>,
    valid: bool,
) -> BTreeMap<&'static str, Gate> {
    let value_of = |key: &str| match key {
        BATCH_8 => {
            let figures = all.get(&("p256", IFMA, "batch_8"))?;
            Some(8.0 * figures.best_ns / 1e3)
        }
        PORT_SHARE => port_share_percent,
        ratio => ratios.get(ratio).copied(),
    };
    let judge = |(key, is, gate, stretch)| (key, Gate::judge(value_of(key), is, gate, stretch, valid));
    GATES.map(judge).into()
}
