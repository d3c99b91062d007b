//! Cases of the scenario besides the one that the gates (required values) judge. Each of them changes one of its
//! parameters.

use super::workload::{Distribution, GATE, KEYS_MAX, Shape};

/// Number of requests in a block by default.
pub const BLOCK: usize = 1000;
/// Minimum number of calls that each worker sends.
const CALLS_MIN: usize = 3;
/// Approximate number of bytes of all values in a case, including their overhead. A case with longer values sends fewer
/// requests.
const CASE_BYTES: usize = 256 << 20;

/// Case of the scenario.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name of the case. The case to which the gates apply has an empty name.
    pub name: String,
    /// Parameters of the requests.
    pub shape: Shape,
    /// Maximum number of requests in a block.
    pub block: usize,
}

impl Case {
    /// Returns the case to which the gates apply.
    pub fn gate() -> Case {
        Case::of(String::new(), GATE)
    }

    fn of(name: impl Into<String>, shape: Shape) -> Case {
        Case {
            name: name.into(),
            shape,
            block: BLOCK,
        }
    }

    /// Returns the number of requests to send if `wanted` are desired. It is larger if a worker would send fewer than
    /// [`CALLS_MIN`] calls.
    pub fn requests(&self, wanted: usize) -> usize {
        let Shape {
            value_bytes,
            per_call,
            workers,
            ..
        } = self.shape;
        let fitting = wanted.min(CASE_BYTES / (value_bytes + 300));
        fitting.max(CALLS_MIN * per_call * workers)
    }
}

/// Returns all cases, or only the first ones if the run is short.
pub fn cases(quick: bool) -> Vec<Case> {
    let mut all = workloads(quick);
    // The case to which the gates apply runs separately.
    all.retain(|case| case.shape != GATE);
    let keys = [1, 256, KEYS_MAX].map(|keys| Case::of(format!("{keys} keys"), Shape { keys, ..GATE }));
    let calls =
        [1, 10, 1000].map(|per_call| Case::of(format!("calls of {per_call}"), Shape { per_call, ..GATE }));
    all.extend(keys.into_iter().chain(calls));
    if quick {
        return all;
    }
    all.extend([512, 4 << 10, 32 << 10, 128 << 10].map(|value_bytes| {
        let per_call = if value_bytes > 4 << 10 { 10 } else { 100 };
        let shape = Shape {
            value_bytes,
            per_call,
            ..GATE
        };
        Case::of(format!("values of {value_bytes} bytes"), shape)
    }));
    all.extend([4, 8, 32, 64, 128, 192, 256].map(|workers| {
        let name = format!("{workers} calls in flight");
        Case::of(name, Shape { workers, ..GATE })
    }));
    all.extend(blocks());
    all
}

/// Returns the cases with other block sizes.
pub fn blocks() -> Vec<Case> {
    let case = |block| Case {
        name: format!("blocks of {block}"),
        block,
        ..Case::gate()
    };
    [10, 100, 10_000].map(case).into()
}

/// Returns YCSB's workloads with each distribution of records; a short run has only the zipfian one.
pub fn workloads(quick: bool) -> Vec<Case> {
    let mut all = Vec::new();
    for (distribution, name) in [
        (Distribution::Zipfian, ""),
        (Distribution::Uniform, ", uniform"),
        (Distribution::Latest, ", latest"),
    ] {
        for (workload, sets_percent) in [("A", 50), ("B", 5), ("C", 0)] {
            let shape = Shape {
                sets_percent,
                distribution,
                ..GATE
            };
            all.push(Case::of(format!("workload {workload}{name}"), shape));
        }
        if quick {
            break;
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_case_has_a_unique_name_and_enough_calls_for_every_worker() {
        for quick in [false, true] {
            let all = cases(quick);
            let names: BTreeSet<_> = all.iter().map(|case| &case.name).collect();
            assert_eq!(names.len(), all.len());
            assert!(!names.contains(&String::new()));
            for case in all {
                let Shape {
                    per_call, workers, ..
                } = case.shape;
                for wanted in [1, 4_000, 40_000] {
                    let calls = case.requests(wanted) / per_call / workers;
                    assert!(calls >= CALLS_MIN, "{}: {calls} calls of a worker", case.name);
                }
            }
        }
    }

    #[test]
    fn a_full_run_has_every_case_of_the_paper() {
        let all = cases(false);
        let has = |what: &dyn Fn(&Case) -> bool| all.iter().any(what);
        for sets_percent in [50, 5, 0] {
            for distribution in [Distribution::Uniform, Distribution::Latest, Distribution::Zipfian] {
                let shape = Shape {
                    sets_percent,
                    distribution,
                    ..GATE
                };
                assert!(shape == GATE || has(&|case| case.shape == shape), "{shape:?}");
            }
        }
        for value_bytes in [512, 128 << 10] {
            assert!(has(&|case| case.shape.value_bytes == value_bytes));
        }
        for workers in [4, 8, 32, 64, 128, 192, 256] {
            assert!(has(&|case| case.shape == Shape { workers, ..GATE }));
        }
        for block in [10, 100, 10_000] {
            assert!(has(&|case| case.block == block));
        }
    }
}
