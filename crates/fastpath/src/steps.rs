//! Record of the decisions that a fast path makes about one frame.

use lineside_wire::trace::{Rule, Trace};
use std::ops::Range;

/// Decision about a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Rule that was applied.
    pub rule: Rule,
    /// Bytes of the frame at which the rule looked; empty if it looked at none. The frame may end before them.
    pub bytes: Range<usize>,
    /// True if the frame must meet the rule to be answered; false if the rule chooses between two ways to go on.
    pub is_required: bool,
    /// Result of the rule.
    pub holds: bool,
    /// Values of the table on which the decision depended, by their names.
    pub facts: Vec<(&'static str, u64)>,
}

impl Step {
    /// Returns true if the frame was not answered because of this step. It is then the last one.
    pub const fn is_decisive(&self) -> bool {
        self.is_required && !self.holds
    }
}

/// Decisions about one frame, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steps {
    steps: Vec<Step>,
    facts: Vec<(&'static str, u64)>,
    base: usize,
}

impl Steps {
    /// Returns the decisions.
    pub fn as_slice(&self) -> &[Step] {
        &self.steps
    }

    fn push(&mut self, rule: Rule, bytes: Range<usize>, is_required: bool, holds: bool) -> bool {
        let bytes = match bytes.is_empty() {
            true => 0..0,
            false => self.base + bytes.start..self.base + bytes.end,
        };
        self.steps.push(Step {
            rule,
            bytes,
            is_required,
            holds,
            facts: std::mem::take(&mut self.facts),
        });
        holds
    }
}

impl Trace for Steps {
    fn choose(&mut self, rule: Rule, bytes: Range<usize>, holds: bool) -> bool {
        self.push(rule, bytes, false, holds)
    }

    fn require(&mut self, rule: Rule, bytes: Range<usize>, holds: bool) -> bool {
        self.push(rule, bytes, true, holds)
    }

    fn fact(&mut self, name: &'static str, value: impl FnOnce() -> u64) {
        self.facts.push((name, value()));
    }

    fn set_base(&mut self, offset: usize) {
        self.base = offset;
    }
}
