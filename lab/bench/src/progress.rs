//! Progress reports of a running scenario.

/// Progress of a benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Description of the present step.
    pub doing: &'static str,
    /// Number of steps done.
    pub done: usize,
    /// Total number of steps.
    pub of: usize,
}
