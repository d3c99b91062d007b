//! Report of `bench rtl`, as one JSON object or as a table.

use super::area::{self, Area, PAPER_SPV, PAPER_TRANSFER, PaperArea};
use super::{CLOCK_HZ, WIRE_BYTES};
use crate::gate::{Bound, Gate, judge_only_if_quiet, write_judged};
use crate::machine::Machine;
use crate::wrong::WrongReplies;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

/// Pass criteria: the key, direction of the bound, required value (gate), stretch goal.
const GATES: [(&str, Bound, f64, Option<f64>); 7] = [
    (ONE_BEAT, Bound::AtMost, 1.0, None),
    (PAPER, Bound::AtMost, 2.0, None),
    (ROOTS, Bound::AtMost, 1.0, None),
    (TRANSFER, Bound::AtMost, 2.0, Some(1.0)),
    (LATENCY, Bound::AtMost, 64.0, Some(40.0)),
    (FILLS, Bound::AtLeast, 5.0, Some(20.0)),
    (TAP, Bound::AtLeast, 300_000.0, Some(400_000.0)),
];
const ONE_BEAT: &str = "one beat, cycles a frame";
const PAPER: &str = "74 B, cycles a frame";
const ROOTS: &str = "roots of 16, cycles a beat";
const TRANSFER: &str = "TRANSFER, cycles each";
const LATENCY: &str = "hit, cycles of latency";
const FILLS: &str = "fills, M/s at 250 MHz";
const TAP: &str = "TAP, checked replies/s";
/// Gates whose figures are numbers of cycles, which do not depend on the machine.
const EXACT: [&str; 6] = [ONE_BEAT, PAPER, ROOTS, TRANSFER, LATENCY, FILLS];
/// Cases whose frames hit, of which the slowest is judged.
const HITS: [&str; 6] = [
    "paper_hit",
    "paper_hit_ipv6_vlan",
    "native_root_hit",
    "native_root_hit_ipv6_vlan",
    ROOTS_CASES[0],
    ROOTS_CASES[1],
];
/// Cases of `roots` requests with 16 TXIDs, of which the slowest is judged.
const ROOTS_CASES: [&str; 2] = ["native_roots_16_hit", "native_roots_16_hit_ipv6_vlan"];
/// Cases of TRANSFER requests, of which the slowest is judged.
const TRANSFERS: [&str; 3] = ["transfer_one_pair", "transfer_chain", "transfer_separate_pairs"];

/// Returns the keys of the gates that a report of this scenario has.
pub fn gate_keys() -> impl Iterator<Item = &'static str> {
    GATES.into_iter().map(|gate| gate.0)
}

/// Figures of frames of one kind.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CaseFigures {
    /// Length of the frame in bytes.
    pub bytes: usize,
    /// Number of beats of 64 bytes.
    pub beats: usize,
    /// Cycles for each frame, if frames arrive back to back.
    pub cycles_per_frame: f64,
    /// Cycles from the last beat in to the first beat out, of a frame that arrives alone.
    pub latency_cycles: u64,
    /// Millions of frames per second at [`CLOCK_HZ`].
    pub mframes_per_s: f64,
    /// This rate as a share of what 100 Gigabit Ethernet carries.
    pub of_100gbe: f64,
    /// Frames that the simulation takes per second on this machine: the median of the rounds.
    pub simulated_frames_per_s: f64,
}

/// Figures of fills: commands that write one line of the table.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Fills {
    /// Cycles for each fill.
    pub cycles_per_fill: f64,
    /// Millions of fills per second at [`CLOCK_HZ`].
    pub millions_per_s: f64,
}

/// Figures of one client at a TAP device with a fixed number of requests in flight. Times are means over the frames.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TapFigures {
    /// Checked replies per second.
    pub replies_per_s: f64,
    /// Time for reading a frame from the TAP device, in nanoseconds.
    pub read_ns: f64,
    /// Time of the simulated NIC for a frame, in nanoseconds.
    pub nic_ns: f64,
    /// Clock cycles of the NIC for a frame.
    pub nic_cycles: f64,
    /// Time for writing a reply to the TAP device, in nanoseconds.
    pub write_ns: f64,
    /// Processor time of the client, the NIC and the kernel for a request, in nanoseconds.
    pub processor_ns: f64,
}

/// Figures of the simulated NIC.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// Figures by the kind of the frames.
    pub cases: BTreeMap<&'static str, CaseFigures>,
    /// Figures of fills.
    pub fills: Fills,
    /// Figures at a TAP device by the number of requests in flight.
    pub tap: BTreeMap<usize, TapFigures>,
    /// Reason why `tap` is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_tap: Option<NoTap>,
}

/// Reason why there are no figures at a TAP device.
#[derive(Clone, Debug, Serialize)]
pub struct NoTap {
    /// Description of the error.
    pub reason: String,
    /// True if the system under test is at fault, such as after a wrong reply; false if this machine or this user
    /// cannot have a TAP device.
    pub is_fault: bool,
}

/// Contestants of the scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Contestants {
    /// The RTL.
    pub rtl: Rtl,
    /// Values of the paper of `spv`.
    pub paper_spv: PaperArea,
    /// Values of the paper of `transfer`.
    pub paper_transfer: PaperArea,
}

/// The RTL: what the simulation measured, and the recorded cells.
#[derive(Clone, Debug, Serialize)]
pub struct Rtl {
    /// Figures of the simulation.
    #[serde(flatten)]
    pub measured: Measured,
    /// Cells for UltraScale+, recorded by `make rtl-area`. In JSON, an object by design.
    #[serde(serialize_with = "by_design")]
    pub area: Vec<Area>,
}

/// Claims refer to a design by its name, so a new row of the table changes no other row's place.
fn by_design<S: Serializer>(all: &[Area], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(all.iter().map(|area| (&area.design, area)))
}

/// Report of the scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the scenario.
    pub scenario: &'static str,
    /// Seed of the TXIDs.
    pub seed: u64,
    /// Machine of the run.
    pub machine: Machine,
    /// Figures by contestant.
    pub contestants: Contestants,
    /// Rates of the RTL divided by those of 100 Gigabit Ethernet, by the kind of the frames.
    pub ratios: BTreeMap<String, f64>,
    /// Checks that show whether the figures are valid, and gates.
    pub checks: Checks,
}

/// Checks that show whether the figures are valid.
#[derive(Clone, Debug, Serialize)]
pub struct Checks {
    /// Frames whose result differs from that of the model.
    pub wrong_replies: WrongReplies,
    /// Gates by key.
    pub gates: BTreeMap<&'static str, Gate>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

impl Report {
    /// Returns the report of these figures.
    pub fn new(seed: u64, mut machine: Machine, measured: Measured, wrong: WrongReplies) -> Self {
        machine.end_of_run();
        let ratios = measured.cases.iter();
        let ratios = ratios.map(|(name, case)| (format!("{name} rtl/100gbe"), case.of_100gbe));
        let mut gates = judge(&measured, wrong.count == 0);
        judge_only_if_quiet(&mut gates, &machine, &EXACT);
        Self {
            scenario: "rtl",
            seed,
            machine,
            ratios: ratios.collect(),
            checks: Checks {
                gates,
                wrong_replies: wrong,
                notes: notes(measured.no_tap.as_ref()),
            },
            contestants: Contestants {
                rtl: Rtl {
                    measured,
                    area: area::recorded(),
                },
                paper_spv: PAPER_SPV,
                paper_transfer: PAPER_TRANSFER,
            },
        }
    }

    /// Returns the faults of the system itself, which are wrong results.
    pub fn failures(&self) -> Vec<String> {
        let mut failures = match self.checks.wrong_replies.count {
            0 => Vec::new(),
            1 => vec!["1 frame differs from the model".into()],
            count => vec![format!("{count} frames differ from the model")],
        };
        let no_tap = self.contestants.rtl.measured.no_tap.iter();
        failures.extend(
            no_tap
                .filter(|no_tap| no_tap.is_fault)
                .map(|no_tap| format!("at a TAP device: {}", no_tap.reason)),
        );
        failures
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_default()
    }
}

fn judge(measured: &Measured, valid: bool) -> BTreeMap<&'static str, Gate> {
    let cycles = |case: &str| Some(measured.cases.get(case)?.cycles_per_frame);
    let of = |cases: &'static [&str]| cases.iter().filter_map(|case| measured.cases.get(case));
    let value_of = |key: &str| match key {
        ONE_BEAT => cycles("one_beat"),
        PAPER => cycles("paper_hit"),
        ROOTS => of(&ROOTS_CASES)
            .map(|case| case.cycles_per_frame / case.beats as f64)
            .reduce(f64::max),
        TRANSFER => of(&TRANSFERS).map(|case| case.cycles_per_frame).reduce(f64::max),
        LATENCY => of(&HITS).map(|case| case.latency_cycles as f64).reduce(f64::max),
        FILLS => Some(measured.fills.millions_per_s),
        _ => measured
            .tap
            .values()
            .map(|case| case.replies_per_s)
            .reduce(f64::max),
    };
    let judge = |(key, is, gate, stretch)| (key, Gate::judge(value_of(key), is, gate, stretch, valid));
    GATES.map(judge).into()
}

fn notes(no_tap: Option<&NoTap>) -> Vec<String> {
    let mut notes = vec![
        "cycles are those of the simulated RTL and do not depend on this machine; rates assume 250 MHz, for which no \
         timing was computed"
            .into(),
        format!("a frame takes {WIRE_BYTES} more bytes on Ethernet: preamble, frame check sequence and gap"),
        "a fill is one command `line`; a block needs two more commands".into(),
        "cells were counted by Yosys for UltraScale+ without the NIC around the pipeline; the papers' cards include \
         the NIC"
            .into(),
    ];
    notes.push(match no_tap {
        Some(no_tap) => format!("at a TAP device: {}", no_tap.reason),
        None => "at a TAP device, one client checked every reply, and none was lost; NIC, client and kernel shared the \
                 cores of this machine"
            .into(),
    });
    notes
}

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let (scenario, seed, machine) = (self.scenario, self.seed, &self.machine);
        writeln!(out, "{scenario}, seed {seed}, on {machine}")?;
        let Contestants {
            rtl,
            paper_spv,
            paper_transfer,
        } = &self.contestants;
        write_cases(out, &rtl.measured)?;
        write_tap(out, &rtl.measured.tap)?;
        write_area(out, &rtl.area)?;
        write_paper(out, "paper of spv", paper_spv)?;
        write_paper(out, "paper of transfer", paper_transfer)?;
        write_judged(out, &self.checks.gates, machine)?;
        write!(out, "{}", self.checks.wrong_replies)?;
        let mut notes = self.checks.notes.iter();
        notes.try_for_each(|note| writeln!(out, "note: {note}"))
    }
}

fn write_cases(out: &mut Formatter<'_>, measured: &Measured) -> fmt::Result {
    let clock_mhz = CLOCK_HZ / 1e6;
    let columns = [
        "bytes",
        "beats",
        "cycles",
        "latency",
        "M/s",
        "of 100GbE",
        "simulated/s",
    ];
    let title = format!("frames at {clock_mhz} MHz");
    write!(out, "\n{title:<33}")?;
    columns
        .iter()
        .try_for_each(|column| write!(out, "{column:>12}"))?;
    writeln!(out)?;
    for (name, case) in &measured.cases {
        let CaseFigures {
            bytes,
            beats,
            cycles_per_frame,
            latency_cycles,
            mframes_per_s,
            of_100gbe,
            simulated_frames_per_s,
        } = case;
        write!(out, "{name:<33}{bytes:>12}{beats:>12}{cycles_per_frame:>12.2}")?;
        write!(out, "{latency_cycles:>12}{mframes_per_s:>12.1}{of_100gbe:>12.2}")?;
        writeln!(out, "{simulated_frames_per_s:>12.0}")?;
    }
    let Fills {
        cycles_per_fill,
        millions_per_s,
    } = measured.fills;
    writeln!(
        out,
        "\nfills: {cycles_per_fill:.2} cycles each, {millions_per_s:.1} million per second"
    )
}

fn write_tap(out: &mut Formatter<'_>, tap: &BTreeMap<usize, TapFigures>) -> fmt::Result {
    if tap.is_empty() {
        return Ok(());
    }
    write!(out, "\n{:<33}", "in flight at a TAP device")?;
    let columns = [
        "replies/s",
        "read ns",
        "NIC ns",
        "NIC cycles",
        "write ns",
        "CPU ns",
    ];
    columns
        .iter()
        .try_for_each(|column| write!(out, "{column:>12}"))?;
    writeln!(out)?;
    for (window, case) in tap {
        let TapFigures {
            replies_per_s,
            read_ns,
            nic_ns,
            nic_cycles,
            write_ns,
            processor_ns,
        } = case;
        write!(
            out,
            "{window:<33}{replies_per_s:>12.0}{read_ns:>12.0}{nic_ns:>12.0}"
        )?;
        writeln!(out, "{nic_cycles:>12.1}{write_ns:>12.0}{processor_ns:>12.0}")?;
    }
    Ok(())
}

fn write_area(out: &mut Formatter<'_>, all: &[Area]) -> fmt::Result {
    write!(out, "\n{:<33}", "cells for UltraScale+")?;
    let columns = ["LUT", "LUT RAM", "FF", "BRAM36", "URAM", "DSP"];
    columns
        .iter()
        .try_for_each(|column| write!(out, "{column:>12}"))?;
    writeln!(out)?;
    for area in all {
        let Area {
            design,
            lut,
            lutram,
            ff,
            bram36,
            uram,
            dsp,
        } = area;
        writeln!(
            out,
            "{design:<33}{lut:>12}{lutram:>12}{ff:>12}{bram36:>12}{uram:>12}{dsp:>12}"
        )?;
    }
    Ok(())
}

fn write_paper(out: &mut Formatter<'_>, name: &str, paper: &PaperArea) -> fmt::Result {
    let PaperArea {
        device,
        clock_mhz,
        lut,
        lut_of,
        ff,
        bram36,
        bram36_of,
    } = paper;
    let ff = ff.map_or("-".into(), |ff| ff.to_string());
    writeln!(
        out,
        "{name:<33}{lut:>12}{:>12}{ff:>12}{bram36:>12}   {device}, {clock_mhz} MHz, of {lut_of} LUT and {bram36_of} \
         BRAM36",
        "-"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Outcome;

    fn case(cycles_per_frame: f64, latency_cycles: u64) -> CaseFigures {
        CaseFigures {
            bytes: 74,
            beats: 2,
            cycles_per_frame,
            latency_cycles,
            mframes_per_s: 125.0,
            of_100gbe: 0.98,
            simulated_frames_per_s: 1e6,
        }
    }

    fn roots(cycles_per_frame: f64) -> CaseFigures {
        CaseFigures {
            beats: 20,
            ..case(cycles_per_frame, 27)
        }
    }

    fn measured(one_beat: f64, latency: u64, roots_cycles: f64, transfer: f64) -> Measured {
        Measured {
            cases: BTreeMap::from([
                ("one_beat", case(one_beat, 27)),
                ("paper_hit", case(2.0, 27)),
                ("native_root_hit", case(3.0, latency)),
                ("native_roots_16_hit", roots(20.0)),
                ("native_roots_16_hit_ipv6_vlan", roots(roots_cycles)),
                ("transfer_one_pair", case(transfer, 51)),
                ("transfer_chain", case(2.0, 51)),
                ("transfer_separate_pairs", case(2.0, 51)),
            ]),
            fills: Fills {
                cycles_per_fill: 1.0,
                millions_per_s: 250.0,
            },
            tap: BTreeMap::from([(16, tap(145_000.0)), (128, tap(382_000.0))]),
            no_tap: None,
        }
    }

    fn tap(replies_per_s: f64) -> TapFigures {
        TapFigures {
            replies_per_s,
            read_ns: 600.0,
            nic_ns: 1500.0,
            nic_cycles: 2.6,
            write_ns: 300.0,
            processor_ns: 4000.0,
        }
    }

    #[test]
    fn gates_judge_the_slowest_hit_and_every_cycle() {
        let outcomes = |measured: &Measured| {
            let gates = judge(measured, true);
            [ONE_BEAT, PAPER, ROOTS, TRANSFER, LATENCY, FILLS].map(|key| gates[key].outcome)
        };
        use Outcome::{Missed, Passed, Stretch};
        assert_eq!(
            outcomes(&measured(1.0, 27, 20.0, 2.0)),
            [Passed, Passed, Passed, Passed, Stretch, Stretch]
        );
        assert_eq!(
            outcomes(&measured(1.001, 41, 20.5, 2.01)),
            [Missed, Passed, Missed, Missed, Passed, Stretch]
        );
        assert_eq!(
            judge(&measured(1.0, 27, 20.0, 2.0), false)[PAPER].outcome,
            Outcome::Void
        );
    }

    #[test]
    fn the_best_rate_at_a_tap_device_is_judged() {
        let mut measured = measured(1.0, 27, 20.0, 2.0);
        let gate = judge(&measured, true)[TAP];
        assert_eq!((gate.value, gate.outcome), (Some(382_000.0), Outcome::Passed));
        measured.tap.clear();
        assert_eq!(judge(&measured, true)[TAP].outcome, Outcome::NotMeasured);
        for (is_fault, failures) in [(false, 0), (true, 1)] {
            measured.no_tap = Some(NoTap {
                reason: "reply 7 is wrong".into(),
                is_fault,
            });
            let report = Report::new(1, Machine::read(), measured.clone(), WrongReplies::default());
            assert_eq!(report.failures().len(), failures);
            assert!(report.to_string().contains("at a TAP device: reply 7 is wrong"));
        }
    }

    #[test]
    fn the_report_has_every_contestant_and_gate() {
        let report = Report::new(
            1,
            Machine::read(),
            measured(1.0, 27, 20.0, 2.0),
            WrongReplies::default(),
        );
        let json = report.to_json();
        assert_eq!(json["contestants"]["paper_spv"]["lut"], 44_250);
        assert_eq!(
            json["contestants"]["rtl"]["cases"]["paper_hit"]["latency_cycles"],
            27
        );
        for key in gate_keys() {
            assert!(json["checks"]["gates"][key].is_object(), "{key}");
        }
        let text = report.to_string();
        for part in ["one_beat", "Virtex-5", "passed", "note: cycles"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(report.failures(), Vec::<String>::new());
    }
}
