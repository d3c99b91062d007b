//! Progress reports of a running scenario.

/// Progress of a benchmark.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Description of the step that begins.
    pub doing: &'static str,
    /// Number of steps that are done.
    pub done: usize,
    /// Total number of steps.
    pub of: usize,
}
