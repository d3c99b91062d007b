//! Parts that the modules of several papers share: findings, files of figures, and warnings about a busy machine.

use crate::section::{Figure, Finding, Verdict};
use lineside_bench::figures::Machine;
use std::path::{Path, PathBuf};

/// Value of a paper: the words of its text, and the number in the unit of the finding if there is one.
pub(crate) type PaperValue<'a> = (&'a str, Option<f64>);

/// Paper's value of a quantity for which the paper's text gives none.
pub(crate) const NO_VALUE: PaperValue<'static> = ("", None);

/// Maximum load average of a quiet machine. Above it the results have a warning, because a busy machine takes processor
/// time from servers but hardly from XDP.
const QUIET_LOAD_MAX: f64 = 0.3;

/// Returns a finding.
pub(crate) fn finding(
    figure: &str,
    quantity: impl Into<String>,
    paper: PaperValue<'_>,
    ours: Option<f64>,
    unit: &'static str,
    verdict: Verdict,
    remark: impl Into<String>,
) -> Finding {
    Finding {
        figure: figure.into(),
        quantity: quantity.into(),
        paper: paper.0.into(),
        paper_value: paper.1,
        ours: ours.filter(|value| value.is_finite()),
        unit,
        remark: remark.into(),
        verdict,
    }
}

/// Returns `Holds` if Lineside's value reaches what the paper claims for its own hardware. A value that does not reach
/// it depends on the machine and refutes nothing, so the result is then `None`.
pub(crate) const fn holds_if(reached: bool) -> Verdict {
    match reached {
        true => Verdict::Holds,
        false => Verdict::None,
    }
}

/// Returns the paths of the table and of the plot of a figure in the folder `out`.
pub(crate) fn files(out: &Path, name: &str) -> (PathBuf, PathBuf) {
    (out.join(format!("{name}.csv")), out.join(format!("{name}.svg")))
}

/// Returns a figure whose table and plot were written to these [`files`].
pub(crate) fn made(title: String, (csv, svg): (PathBuf, PathBuf)) -> Figure {
    Figure {
        title,
        svg: Some(svg),
        csv: Some(csv),
    }
}

/// Returns the arithmetic mean; `None` if there are no values.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns a warning if the machine was too busy for valid ratios between a datapath and software. The run must have
/// ended ([`Machine::end_of_run`]).
pub(crate) fn warnings(machine: &Machine) -> Vec<String> {
    let mut warnings = Vec::new();
    if machine.load_before > QUIET_LOAD_MAX {
        warnings.push(format!(
            "the machine was not quiet: its load average was {} before the run, which slows the servers most, so \
             ratios of the fast path to software are too large",
            machine.load_before
        ));
    }
    if let Some(taken) = machine.taken.filter(|taken| taken.is_too_much()) {
        warnings.push(format!(
            "the machine gave processor time to others during the run: {:.0} % to other processes, {:.0} % to the \
             hypervisor",
            taken.others_percent, taken.stolen_percent
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_is_named_in_a_warning() {
        let mut machine = Machine::read();
        machine.load_before = 0.0;
        assert_eq!(warnings(&machine), Vec::<String>::new());
        machine.load_before = 5.5;
        assert!(warnings(&machine)[0].contains("load average was 5.5"));
    }

    #[test]
    fn values_that_are_no_numbers_are_left_out() {
        let of = |ours| finding("1", "a", NO_VALUE, ours, "", holds_if(true), "").ours;
        assert_eq!(of(Some(f64::NAN)), None);
        assert_eq!(of(Some(2.0)), Some(2.0));
        assert_eq!(mean(&[]), None);
        assert_eq!(mean(&[1.0, 4.0]), Some(2.5));
    }
}
