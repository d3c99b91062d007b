//! Gates: required values that the figures of all scenarios are compared with.

use crate::machine::Machine;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::{self, Formatter};

/// Returns the median. For an even number of values, it is the mean of the two middle values.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

/// Required value of a figure, and the result of the comparison.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Gate {
    /// Measured figure; `None` if it was not measured.
    pub value: Option<f64>,
    /// Side of the required value on which the figure must be.
    pub is: Bound,
    /// Required value.
    pub gate: f64,
    /// Stretch goal, which is harder to reach than the required value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stretch: Option<f64>,
    /// Result of the comparison.
    pub outcome: Outcome,
}

/// Side of the required value on which a figure must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The figure must be at least the required value.
    AtLeast,
    /// The figure must be at most the required value.
    AtMost,
}

/// Result of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The figure reached the required value and the stretch goal.
    Stretch,
    /// The figure reached the required value.
    Passed,
    /// The figure did not reach the required value.
    Missed,
    /// A figure that the gate needs was not measured.
    NotMeasured,
    /// The run is not valid, so the figure does not count.
    Void,
    /// The figure was measured, but not judged, because others used too much processor time during the run.
    NotJudged,
}

impl Gate {
    /// Compares `value` with the required value and the stretch goal.
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

impl Gate {
    /// Withdraws the judgement. Gates that were not measured or are void remain so.
    fn withdraw(&mut self) {
        if matches!(self.outcome, Outcome::Stretch | Outcome::Passed | Outcome::Missed) {
            self.outcome = Outcome::NotJudged;
        }
    }
}

/// Withdraws the judgement of the gates whose figures depend on speed, if others used too much processor time during
/// the run (see [`crate::others::TAKEN_PERCENT_MAX`]). The figures remain. `exact` has the keys of the gates whose
/// figures do not depend on speed, such as numbers of bytes.
pub fn judge_only_if_quiet(gates: &mut BTreeMap<&'static str, Gate>, machine: &Machine, exact: &[&str]) {
    if machine.taken.is_some_and(|taken| taken.is_too_much()) {
        let depends_on_speed = gates.iter_mut().filter(|(key, _)| !exact.contains(key));
        depends_on_speed.for_each(|(_, gate)| gate.withdraw());
    }
}

/// Writes the processor time that others used, and the gates as a table.
pub fn write_judged(
    out: &mut Formatter<'_>,
    gates: &BTreeMap<&'static str, Gate>,
    machine: &Machine,
) -> fmt::Result {
    write_gates(out, gates)?;
    match &machine.taken {
        Some(taken) => writeln!(out, "{taken}"),
        None => writeln!(out, "processor time that the machine gave to others: unknown"),
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
        Outcome::NotJudged => "not judged: the machine was busy",
    };
    let gate = format!("{is} {}", gate.gate);
    format!("{value:>9}{gate:>11}{stretch:>9}  {outcome}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::others::TakenTime;

    fn gates() -> BTreeMap<&'static str, Gate> {
        let judge = |value, valid| Gate::judge(value, Bound::AtLeast, 4.5, Some(6.0), valid);
        BTreeMap::from([
            ("stretch", judge(Some(7.0), true)),
            ("passed", judge(Some(5.0), true)),
            ("missed", judge(Some(4.0), true)),
            ("absent", judge(None, true)),
            ("void", judge(Some(5.0), false)),
            ("bytes", judge(Some(5.0), true)),
        ])
    }

    fn outcomes(machine: &Machine) -> Vec<(Option<f64>, Outcome)> {
        let mut gates = gates();
        judge_only_if_quiet(&mut gates, machine, &["bytes"]);
        gates.values().map(|gate| (gate.value, gate.outcome)).collect()
    }

    #[test]
    fn gates_are_not_judged_if_others_used_the_machine() {
        use Outcome::{Missed, NotJudged, NotMeasured, Passed, Stretch, Void};
        let mut machine = Machine::read();
        let judged = [
            (None, NotMeasured),
            (Some(5.0), Passed),
            (Some(4.0), Missed),
            (Some(5.0), Passed),
            (Some(7.0), Stretch),
            (Some(5.0), Void),
        ];
        machine.taken = Some(TakenTime::new(4.0, 0.5));
        assert_eq!(outcomes(&machine), judged);
        // Without a measurement of others, gates are judged.
        machine.taken = None;
        assert_eq!(outcomes(&machine), judged);
        machine.taken = Some(TakenTime::new(4.0, 1.5));
        let withdrawn = [
            (None, NotMeasured),
            // A figure that does not depend on speed.
            (Some(5.0), Passed),
            (Some(4.0), NotJudged),
            (Some(5.0), NotJudged),
            (Some(7.0), NotJudged),
            (Some(5.0), Void),
        ];
        assert_eq!(outcomes(&machine), withdrawn);
        assert!(
            gate_text(&Gate {
                outcome: NotJudged,
                ..gates()["missed"]
            })
            .ends_with("not judged: the machine was busy")
        );
        assert_eq!(serde_json::to_value(NotJudged).unwrap(), "not_judged");
    }
}
