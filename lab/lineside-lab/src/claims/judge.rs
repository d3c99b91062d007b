//! Comparison of a command's figures with the claims about them.

use super::command::Ended;
use super::page::{Claim, Figure, Machine, Section};
use serde::Serialize;
use serde_json::Value;

/// Result of the comparison of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The figure is within its tolerance.
    Holds,
    /// The figure is outside its tolerance, or the command found faults.
    #[serde(rename = "no_longer_holds")]
    Fails,
    /// There is no figure that can be compared.
    NotJudged,
}

/// Claim with the result of its comparison.
#[derive(Debug)]
pub struct Judged<'a> {
    pub section: &'a Section,
    pub claim: &'a Claim,
    pub outcome: Outcome,
    /// Value of the figure in this run.
    pub found: Option<f64>,
    /// Reason, if the figure alone does not explain the outcome.
    pub why: Option<String>,
}

/// Compares the claims of a section with one run of its command.
pub struct Judge<'a> {
    pub section: &'a Section,
    /// True if absolute figures can be compared, too.
    pub same_machine: bool,
}

impl<'a> Judge<'a> {
    /// Returns a claim that cannot be judged, with the reason.
    pub fn not_judged(&self, claim: &'a Claim, why: String) -> Judged<'a> {
        self.judged(claim, Outcome::NotJudged, None, Some(why))
    }

    fn judged(
        &self,
        claim: &'a Claim,
        outcome: Outcome,
        found: Option<f64>,
        why: Option<String>,
    ) -> Judged<'a> {
        Judged {
            section: self.section,
            claim,
            outcome,
            found,
            why,
        }
    }

    /// Judges a claim. `busy` is the reason why ratios do not count in this run.
    pub fn judge(&self, claim: &'a Claim, ran: &Result<Ended, String>, busy: Option<&str>) -> Judged<'a> {
        let ended = match ran {
            Ok(ended) => ended,
            Err(why) => return self.not_judged(claim, why.clone()),
        };
        let found = match (&claim.figure, &ended.report) {
            (Figure::ExitCode, _) => Ok(f64::from(ended.exit_code)),
            (Figure::Pointer(pointer), Some(report)) => value_at(report, pointer),
            (Figure::Pointer(_), None) if ended.exit_code == 0 => {
                Err("the command printed no JSON".to_owned())
            }
            (Figure::Pointer(_), None) => Err(format!(
                "the command failed with code {}: {}",
                ended.exit_code, ended.last_words
            )),
        };
        let found = match found {
            Ok(found) => found,
            Err(why) => return self.not_judged(claim, why),
        };
        let (outcome, why) = self.compare(claim, found, ended, busy);
        self.judged(claim, outcome, Some(found), why)
    }

    fn compare(
        &self,
        claim: &Claim,
        found: f64,
        ended: &Ended,
        busy: Option<&str>,
    ) -> (Outcome, Option<String>) {
        let holds = claim.bound.holds(claim.claimed, found);
        // A command that prints its report and then fails has found faults, such as wrong replies.
        let faults = ended.exit_code != 0 && claim.figure != Figure::ExitCode;
        if faults {
            let (code, words) = (ended.exit_code, &ended.last_words);
            return (
                Outcome::Fails,
                Some(format!("the command ended with code {code}: {words}")),
            );
        }
        match (claim.machine, busy) {
            (Machine::Quiet | Machine::Same, Some(busy)) => (Outcome::NotJudged, Some(busy.to_owned())),
            (Machine::Same, None) if !self.same_machine => {
                let why = "an absolute figure of another machine; --same-machine judges it";
                (Outcome::NotJudged, Some(why.to_owned()))
            }
            _ if holds => (Outcome::Holds, None),
            _ if claim.figure == Figure::ExitCode => (Outcome::Fails, Some(ended.last_words.clone())),
            _ => (Outcome::Fails, None),
        }
    }
}

/// Returns the number at a JSON pointer (RFC 6901), in which `*` selects all elements of an array; their numbers are
/// added.
///
/// # Errors
/// Returns the reason why there is no number.
pub fn value_at(report: &Value, pointer: &str) -> Result<f64, String> {
    let Some(rest) = pointer.strip_prefix('/') else {
        return report.as_f64().ok_or_else(|| match report {
            Value::Null => "the command did not measure this figure".to_owned(),
            other => format!("the figure is not a number: {other}"),
        });
    };
    let (name, after) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let name = name.replace("~1", "/").replace("~0", "~");
    if let (Value::Array(elements), "*") = (report, name.as_str()) {
        let all = elements.iter().map(|element| value_at(element, after));
        return all.sum();
    }
    let inner = match report {
        Value::Object(fields) => fields.get(&name),
        Value::Array(elements) => name.parse().ok().and_then(|at: usize| elements.get(at)),
        _ => None,
    };
    let inner = inner.ok_or_else(|| format!("the report has no figure `{name}`"))?;
    // A gate of a run that does not count has a value, but its outcome says that it is void.
    if after == "/value" && inner.get("outcome").is_some_and(|outcome| outcome == "void") {
        return Err("the figure has no valid result in this run (void)".to_owned());
    }
    value_at(inner, after)
}
