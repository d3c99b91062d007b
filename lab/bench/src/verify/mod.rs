//! Scenario `verify`: ECDSA verification and hashing by Lineside, compared with common libraries.
//!
//! All contestants run in this thread, in turn, for a slice of a few milliseconds each, over many rounds. A figure is
//! the value of the best slice; the report also has the median. On a machine with other load, the best slice is one
//! that was not disturbed.

mod contestants;
mod cpu;
mod gates;
mod hashing;
mod limits;
mod measure;
mod report;
#[cfg(test)]
mod tests;
mod whole;
mod workload;

pub use gates::gate_keys;
pub use limits::{Limit, Limits};
pub use measure::Figures;
pub use report::{Checks, Contestant, Report};

use crate::machine::Machine;
use crate::progress::Progress;
use crate::wrong::WrongReplies;
use contestants::Work;
use cpu::Instructions;
use hashing::{Hash, Messages};
use lineside_verify::{Backend, Curve, Verifier, hash};
use measure::{Name, Rates, Runner, SliceResults};
use report::Findings;
use std::time::Duration;
use workload::{Pool, Sizes, Workload};

/// Number of signatures in a batch by default.
const BATCH: usize = 256;
/// Number of signatures in a slice that begins without precomputed tables for public keys.
const COLD: usize = 10_000;
/// Number of signatures after which each of 16 keys has its largest table. The table is built after 16,384 valid
/// signatures, and 15 of 16 signatures are valid.
const FEW_USES: u64 = 18_500;
/// Number of signatures after which each of 256 keys has its table. The memory has no room for larger tables.
const MANY_USES: u64 = 320;
/// Cases in which the work begins with bytes: keys that are seen once, and keys that come back.
const SEEN_ONCE: &str = "seen_once";
const COME_BACK: &str = "come_back";
/// Case in which tables of prepared keys are built. Its figures are for one key, not for one signature.
const PREPARE: &str = "prepare";
/// Names of contestants in the report.
const IFMA: &str = "ifma";
const PORTABLE: &str = "portable";
const AWS_LC_RS: &str = "aws-lc-rs";
const RING: &str = "ring";
const LIBSECP256K1: &str = "libsecp256k1";
const SHA2: &str = "sha2";
const SHA3: &str = "sha3";
/// Reason why a contestant that needs AVX-512 has no figures in a run with `avx512: false`.
const LEFT_OUT: &str = "the option --no-avx512 leaves it out";

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Seed of the workload.
    pub seed: u64,
    /// Number of rounds; in each, every contestant has a slice.
    pub rounds: usize,
    /// Length of a slice. Slices that begin without tables take longer.
    pub slice: Duration,
    /// A slice that begins without tables is run in one of this many rounds, because it is long.
    pub cold_every: usize,
    /// Percentage of the workload's signatures, and of the signatures that build tables. Below 100, tables remain small
    /// and the figures are meaningless, so lower values are only for tests.
    pub percent: u64,
    /// False to leave the contestants out that need AVX-512, as on a processor without it.
    pub avx512: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            rounds: 200,
            slice: Duration::from_millis(3),
            cold_every: 10,
            percent: 100,
            avx512: true,
        }
    }
}

impl Options {
    /// Returns the options of a run of less than 40 s.
    pub fn quick() -> Self {
        Self {
            rounds: 24,
            cold_every: 6,
            ..Self::default()
        }
    }
}

/// Runs the scenario, and calls `progress` before each step. The run cannot fail: a contestant that this machine does
/// not support is reported as not measured.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Report {
    let mut findings = Findings::default();
    let mut instructions = match Instructions::new() {
        Ok(counter) => Some(counter),
        Err(error) => {
            findings.uncounted = Some(format!("perf_event_open: {error}"));
            None
        }
    };
    let machine = Machine::read();
    let mut step = 0;
    let mut tell = |doing| {
        let of = 3 * (options.rounds + 1);
        progress(Progress {
            doing,
            done: step,
            of,
        });
        step += 1;
    };
    for curve in [Curve::P256, Curve::Secp256k1] {
        tell("signing, building tables");
        over_curve(curve, options, &mut instructions, &mut findings, &mut || {
            tell("verifying")
        });
    }
    tell("making messages");
    hashing(options, &mut instructions, &mut findings, &mut || tell("hashing"));
    Report::new(options.seed, machine, findings)
}

/// Runs all contestants for `curve`.
fn over_curve(
    curve: Curve,
    options: &Options,
    instructions: &mut Option<Instructions>,
    findings: &mut Findings,
    tell: &mut dyn FnMut(),
) {
    let full = Sizes::default();
    let part = |count: usize| (count * options.percent as usize / 100).max(BATCH);
    let sizes = Sizes {
        few: part(full.few),
        many: part(full.many),
        unknown: part(full.unknown),
    };
    let workload = Workload::new(curve, options.seed, sizes);
    let mut field = Field {
        primitive: name_of(curve),
        runners: Vec::new(),
    };
    field.libraries(curve, &workload.few);
    if curve == Curve::P256 {
        field.add(AWS_LC_RS, SEEN_ONCE, whole::aws_lc_rs(&workload.unknown, false));
        field.add(AWS_LC_RS, COME_BACK, whole::aws_lc_rs(&workload.many, true));
    }
    for (backend, contestant) in [(Backend::Avx512Ifma, IFMA), (Backend::Portable, PORTABLE)] {
        if backend == Backend::Avx512Ifma && !options.avx512 {
            findings.missing.insert(contestant, LEFT_OUT.into());
        } else if backend.is_available() {
            let hot = field.ours(backend, contestant, &workload, options);
            if (curve, backend) == (Curve::P256, Backend::Avx512Ifma) {
                findings.hot_tables_bytes = Some(hot.stats().table_bytes);
            }
            if curve == Curve::P256 {
                let Workload { many, unknown, .. } = &workload;
                field.add(contestant, SEEN_ONCE, whole::seen_once(backend, unknown, BATCH));
                field.add(contestant, COME_BACK, whole::come_back(backend, many, BATCH));
                field.add(contestant, PREPARE, whole::prepare(backend, many));
            }
        } else {
            findings.missing.insert(contestant, not_here(backend));
        }
    }
    let Options { rounds, slice, .. } = *options;
    measure::rounds(
        &mut field.runners,
        rounds,
        slice,
        instructions,
        &mut findings.rates,
        tell,
    );
    findings.take(field.runners);
}

fn hashing(
    options: &Options,
    instructions: &mut Option<Instructions>,
    findings: &mut Findings,
    tell: &mut dyn FnMut(),
) {
    let [sha256, keccak256] = [Hash::Sha256, Hash::Keccak256].map(|hash| Messages::new(hash, options.seed));
    let mut runners = Vec::new();
    for (primitive, case, crates, messages) in [
        ("sha256", "messages_1k", SHA2, &sha256),
        ("keccak256", "messages_short", SHA3, &keccak256),
    ] {
        let mut field = Field {
            primitive,
            runners: Vec::new(),
        };
        field.add(crates, case, messages.by_crates());
        for (backend, contestant) in [
            (hash::Backend::Avx512, "avx512"),
            (hash::Backend::Portable, PORTABLE),
        ] {
            if backend == hash::Backend::Avx512 && !options.avx512 {
                findings.missing.insert(contestant, LEFT_OUT.into());
                continue;
            }
            match messages.in_batch(backend) {
                Some(work) => field.add(contestant, case, work),
                None => {
                    let why = "this processor, or this build, lacks AVX-512 F and BW";
                    findings.missing.insert(contestant, why.into());
                }
            }
        }
        runners.extend(field.runners);
    }
    let Options { rounds, slice, .. } = *options;
    let slice = slice / 3;
    measure::rounds(
        &mut runners,
        rounds,
        slice,
        instructions,
        &mut Rates::default(),
        tell,
    );
    findings.take(runners);
}

/// Contestants of one primitive.
struct Field<'a> {
    primitive: &'static str,
    runners: Vec<Runner<'a>>,
}

impl<'a> Field<'a> {
    fn add(&mut self, contestant: &'static str, case: &'static str, work: Box<dyn Work + 'a>) {
        let name = Name {
            primitive: self.primitive,
            contestant,
            case,
        };
        self.runners.push(Runner {
            name,
            work,
            every: 1,
            seen: SliceResults::default(),
        });
    }

    fn libraries(&mut self, curve: Curve, pool: &'a Pool) {
        match curve {
            Curve::P256 => {
                self.add(AWS_LC_RS, "single", contestants::aws_lc_rs(pool));
                self.add(RING, "single", contestants::ring(pool));
            }
            Curve::Secp256k1 => self.add(LIBSECP256K1, "single", contestants::libsecp256k1(pool)),
        }
    }

    /// Adds every case of one of Lineside's backends. Returns the verifier with the large tables of 16 keys.
    fn ours(
        &mut self,
        backend: Backend,
        contestant: &'static str,
        workload: &'a Workload,
        options: &Options,
    ) -> Verifier {
        let Workload { few, many, unknown } = workload;
        let mut wrong = WrongReplies::default();
        let mut warm = |pool, uses: u64| {
            let (verifier, uses) = (contestants::fresh(backend), uses * options.percent / 100);
            let done = contestants::warm_keeping(&verifier, pool, BATCH, uses, &mut wrong);
            (verifier, done.mismatches)
        };
        let (hot, wrong_few) = warm(few, FEW_USES);
        let (hot_256, wrong_many) = warm(many, MANY_USES);
        let mut add = |case, work| self.add(contestant, case, work);
        add("hot", contestants::with_tables(&hot, few, BATCH));
        add("batch_8", contestants::with_tables(&hot, few, 8));
        add("single", contestants::with_tables(&hot, few, 1));
        add("keys_256", contestants::with_tables(&hot_256, many, BATCH));
        add("unknown", contestants::unknown(backend, unknown, BATCH));
        add("cold", contestants::from_cold(backend, few, BATCH, COLD));
        if let Some(cold) = self.runners.last_mut() {
            cold.every = options.cold_every.max(1);
            // Mismatches during the warm-up count too, although they belong to no slice.
            cold.seen.mismatches += wrong_few + wrong_many;
            cold.seen.wrong = wrong;
        }
        hot
    }
}

fn name_of(curve: Curve) -> &'static str {
    match curve {
        Curve::P256 => "p256",
        Curve::Secp256k1 => "secp256k1",
    }
}

fn not_here(backend: Backend) -> String {
    lineside_verify::BackendUnavailable(backend).to_string()
}
