//! What figures are judged by, in every scenario.

use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Formatter};

/// The middle one; of an even number the mean of the two.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// What a figure must reach.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Gate {
    /// The figure; `None`: not measured.
    pub value: Option<f64>,
    /// Whether it must be at least, or at most, what the gate says.
    pub is: Bound,
    /// This is enough.
    pub gate: f64,
    /// Better still.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stretch: Option<f64>,
    /// Whether it did.
    pub outcome: Outcome,
}

/// On which side of its gate a figure must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The more the better.
    AtLeast,
    /// The less the better.
    AtMost,
}

/// How a gate was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Reached, and the stretch too.
    Stretch,
    /// Reached.
    Passed,
    /// Not reached.
    Missed,
    /// A side was not measured.
    NotMeasured,
    /// The run is not valid.
    Void,
}

impl Gate {
    /// What `value` is worth against the gate.
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

/// The gates as a table.
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
