//! Check of the steps that a model records for a frame.

use lineside_fastpath::{FrameVerdict, Steps};
use lineside_wire::trace::Rule;

/// Returns the rule because of which a frame was not answered; `None` for an answered frame.
///
/// # Errors
/// The steps do not fit the verdict: an answered frame has a requirement that does not hold; or another frame has none,
/// more than one, or steps after it.
pub fn reason(steps: &Steps, verdict: FrameVerdict) -> Result<Option<Rule>, String> {
    let steps = steps.as_slice();
    let is_answered = verdict == FrameVerdict::Transmit;
    let first = steps.iter().position(|step| step.is_decisive());
    match first {
        None if is_answered => Ok(None),
        Some(at) if !is_answered && at + 1 == steps.len() => Ok(Some(steps[at].rule)),
        _ => Err(format!("{verdict:?} does not fit these steps: {steps:#?}")),
    }
}
