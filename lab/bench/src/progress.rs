//! What a scenario tells while it runs.

/// How far a bench is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// What is being done.
    pub doing: &'static str,
    /// Steps done.
    pub done: usize,
    /// Of so many.
    pub of: usize,
}
