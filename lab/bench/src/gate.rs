//! Gates: the pass criteria of figures in all scenarios.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Formatter};

/// Returns the median; for an even number of values, the mean of the two middle ones.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// Pass criterion of a figure, and its result.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Gate {
    /// Measured figure; `None`: not measured.
    pub value: Option<f64>,
    /// Side of the gate on which the figure must be.
    pub is: Bound,
    /// Value that passes.
    pub gate: f64,
    /// Stretch goal, which is harder than the gate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stretch: Option<f64>,
    /// Result of the comparison.
    pub outcome: Outcome,
}

/// Side of its gate on which a figure must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The figure must be at least the gate's value.
    AtLeast,
    /// The figure must be at most the gate's value.
    AtMost,
}

/// Result of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The figure reached the gate and the stretch goal.
    Stretch,
    /// The figure reached the gate.
    Passed,
    /// The figure did not reach the gate.
    Missed,
    /// A figure that the gate needs was not measured.
    NotMeasured,
    /// The run is not valid.
    Void,
}

impl Gate {
    /// Compares `value` with the gate.
    pub fn judge(value: Option<f64>, is: Bound, gate: f64, stretch: Option<f64>, valid: bool) -> Self {
        let reaches = |value: f64, limit: f64| match is {
            Bound::AtLeast => value >= limit,
            Bound::AtMost => value <= limit,
        };
        let outcome = match value {
            None => Outcome::NotMeasured,
            Some(_) if !valid => Outcome::Void,
            Some(value) if stretch.is_some_and(|stretch| reaches(value, stretch)) => Outcome::Stretch,
            Some(value) if reaches(value, gate) => Outcome::Passed,
            Some(_) => Outcome::Missed,
        };
        Self {
            value,
            is,
            gate,
            stretch,
            outcome,
        }
    }
}

/// Writes the gates as a table.
pub fn write_gates(out: &mut Formatter<'_>, gates: &BTreeMap<&'static str, Gate>) -> fmt::Result {
    let (gate, stretch) = ("gate", "stretch");
    writeln!(out, "\n{:<36}{:>9}{gate:>11}{stretch:>9}  outcome", "judged", "")?;
    for (key, gate) in gates {
        writeln!(out, "{key:<36}{}", gate_text(gate))?;
    }
    Ok(())
}

fn gate_text(gate: &Gate) -> String {
    let value = gate.value.map_or("-".into(), |value| format!("{value:.2}"));
    let stretch = gate.stretch.map_or("-".into(), |stretch| stretch.to_string());
    let is = match gate.is {
        Bound::AtLeast => ">=",
        Bound::AtMost => "<=",
    };
    let outcome = match gate.outcome {
        Outcome::Stretch => "stretch reached",
        Outcome::Passed => "passed",
        Outcome::Missed => "MISSED",
        Outcome::NotMeasured => "not measured",
        Outcome::Void => "VOID",
    };
    let gate = format!("{is} {}", gate.gate);
    format!("{value:>9}{gate:>11}{stretch:>9}  {outcome}")
}
