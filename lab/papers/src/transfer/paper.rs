//! Values of the paper's text next to those of Lineside.

use super::Parts;
use super::aliasing::{self, Aliasing};
use super::figures::command_of;
use super::replay::Replayed;
use crate::found::{NO_VALUE, finding, holds_if, mean};
use crate::section::{Finding, Verdict};
use lineside_bench::transfer::figure::{Figure as Measured, Row};

/// Throughput that the paper requires, in transactions per second.
const REQUIRED_PER_S: f64 = 100_000.0;
/// Latency that the paper requires, in microseconds.
const REQUIRED_US: f64 = 7.0;
/// Mean gains in throughput and in latency that the paper states.
const PAPER_MEANS: [f64; 2] = [6.04, 15.4];
/// Number of accounts for which the findings state the shares.
const ACCOUNTS: usize = 10_000;
const BURST: &str = "a burst of one packet measures the wake-up of the software's thread";
const CLIENT: &str = "the socket client is the limit of xdp";

/// Client, its name in a finding, and its values of a row.
struct Client {
    name: &'static str,
    gain: fn(&Row) -> f64,
    sw: fn(&Row) -> f64,
    xdp: fn(&Row) -> f64,
    remark: &'static str,
}

const CLIENTS: [Client; 2] = [
    Client {
        name: "live frames",
        gain: |row| row.live_gain,
        sw: |row| row.live_sw,
        xdp: |row| row.live_xdp,
        remark: BURST,
    },
    Client {
        name: "socket client",
        gain: |row| row.gain,
        sw: |row| row.sw,
        xdp: |row| row.xdp,
        remark: CLIENT,
    },
];

/// Returns the findings of all parts.
pub fn findings(parts: &Parts) -> Vec<Finding> {
    let of = |number: u8| parts.figures.iter().filter(move |figure| figure.number == number);
    let throughput: Vec<&Measured> = (7..=10).flat_map(of).collect();
    let mut findings = Vec::new();
    if !throughput.is_empty() {
        findings.extend(self::throughput(&throughput, parts.is_quiet));
    }
    findings.extend(of(11).flat_map(|figure| latency(figure, parts.is_quiet)));
    findings.extend(paper_means());
    findings.extend(replayed(&parts.replayed));
    findings.extend(aliased(&parts.aliasing));
    findings
}

fn text(value: f64) -> String {
    crate::table::number(value)
}

fn throughput(figures: &[&Measured], is_quiet: bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for client in &CLIENTS {
        let mut gains = Vec::new();
        for figure in figures {
            let Some(gain) = mean(&figure.rows.iter().map(client.gain).collect::<Vec<_>>()) else {
                continue;
            };
            let paper = figure.paper.unwrap_or_default();
            let command = command_of(figure.number).to_uppercase();
            findings.push(finding(
                &format!("figure {}", figure.number),
                format!(
                    "gain in throughput of {command}, mean over 1 to 10,000 packets, {}",
                    client.name
                ),
                (&text(paper), Some(paper)),
                Some(gain),
                "",
                holds_if(is_quiet && gain >= paper),
                client.remark,
            ));
            gains.push(gain);
        }
        let gain = mean(&gains);
        findings.push(finding(
            "figures 7 to 10",
            format!("gain in throughput, mean of the commands, {}", client.name),
            (&text(PAPER_MEANS[0]), Some(PAPER_MEANS[0])),
            gain,
            "",
            holds_if(is_quiet && gain >= Some(PAPER_MEANS[0])),
            client.remark,
        ));
        let at = |figure: &&Measured, packets: &str| {
            let row = figure.rows.iter().find(|row| row.what == packets)?;
            Some((client.gain)(row))
        };
        let largest: Vec<f64> = figures.iter().filter_map(|figure| at(figure, "10000")).collect();
        findings.push(finding(
            "figures 7 to 10",
            format!("gain with 10,000 packets, mean of the commands, {}", client.name),
            NO_VALUE,
            mean(&largest),
            "",
            Verdict::None,
            "",
        ));
    }
    findings.extend(required_throughput(figures));
    findings
}

/// Returns the least throughput of the commands with more than 100 packets, for the fast path and for software.
fn required_throughput(figures: &[&Measured]) -> Vec<Finding> {
    let least = |value: fn(&Row) -> f64| {
        let rows = figures.iter().flat_map(|figure| &figure.rows);
        let many = rows.filter(|row| row.what.parse::<u64>().is_ok_and(|packets| packets > 100));
        many.map(value).reduce(f64::min)
    };
    let mut findings = Vec::new();
    for client in &CLIENTS {
        for (who, value) in [("xdp", client.xdp), ("sw", client.sw)] {
            let ours = least(value);
            let is_fast_path = who == "xdp";
            findings.push(finding(
                "figures 7 to 10",
                format!(
                    "least throughput of a command with 1,000 and 10,000 packets, {who}, {}",
                    client.name
                ),
                match is_fast_path {
                    true => ("more than 100,000", Some(REQUIRED_PER_S)),
                    false => NO_VALUE,
                },
                ours,
                "1/s",
                holds_if(is_fast_path && ours > Some(REQUIRED_PER_S)),
                match is_fast_path {
                    true => "",
                    false => "software on a processor of today, to compare with the paper's requirement",
                },
            ));
        }
    }
    findings
}

fn latency(figure: &Measured, is_quiet: bool) -> Vec<Finding> {
    const INTERFACE: &str =
        "at the client's interface; the paper simulates the core modules without a network";
    let mut findings = Vec::new();
    for client in &CLIENTS {
        let remark = match client.name {
            "live frames" => INTERFACE,
            _ => "the socket client adds its own path to both sides",
        };
        for row in &figure.rows {
            let (gain, paper) = ((client.gain)(row), row.paper.unwrap_or_default());
            findings.push(finding(
                "figure 11",
                format!("gain in latency of {}, {}", row.what.to_uppercase(), client.name),
                (&text(paper), Some(paper)),
                Some(gain),
                "",
                holds_if(is_quiet && gain >= paper),
                remark,
            ));
        }
        let gain = mean(&figure.rows.iter().map(client.gain).collect::<Vec<_>>());
        findings.push(finding(
            "figure 11",
            format!("gain in latency, mean of the commands, {}", client.name),
            (&text(PAPER_MEANS[1]), Some(PAPER_MEANS[1])),
            gain,
            "",
            holds_if(is_quiet && gain >= Some(PAPER_MEANS[1])),
            remark,
        ));
        let most = figure.rows.iter().map(client.xdp).reduce(f64::max);
        findings.push(finding(
            "figure 11",
            format!("largest median latency of a command, xdp, {}", client.name),
            ("at most 7", Some(REQUIRED_US)),
            most,
            "us",
            holds_if(most.is_some_and(|most| most <= REQUIRED_US)),
            remark,
        ));
    }
    findings
}

/// Returns the paper's mean gains, computed from the gains of its commands.
fn paper_means() -> [Finding; 2] {
    const THROUGHPUT: [f64; 4] = [6.25, 5.78, 5.97, 6.14];
    const LATENCY: [f64; 4] = [17.2, 17.5, 10.2, 16.6];
    let of = |figure: &str, quantity: &str, stated: f64, gains: &[f64]| {
        let computed = mean(gains);
        // The paper states its means with three digits.
        let agrees = computed.is_some_and(|computed| (computed / stated - 1.0).abs() < 0.005);
        let verdict = if agrees { Verdict::Holds } else { Verdict::Fails };
        let remark = "computed from the paper's gains of the four commands";
        finding(
            figure,
            quantity,
            (&text(stated), Some(stated)),
            computed,
            "",
            verdict,
            remark,
        )
    };
    [
        of(
            "figures 7 to 10",
            "mean of the paper's four gains in throughput",
            PAPER_MEANS[0],
            &THROUGHPUT,
        ),
        of(
            "figure 11",
            "mean of the paper's four gains in latency",
            PAPER_MEANS[1],
            &LATENCY,
        ),
    ]
}

fn replayed(replayed: &[Replayed]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for row in replayed.iter().filter(|row| row.packets == 10_000) {
        findings.push(finding(
            "section V",
            format!(
                "replay of 10,000 captured transfers on the datapath {}",
                row.datapath
            ),
            ("more than 100,000", Some(REQUIRED_PER_S)),
            Some(row.packets_per_s),
            "1/s",
            holds_if(row.packets_per_s > REQUIRED_PER_S),
            match row.datapath {
                "xdp" => "one system call for each frame, without a network interface",
                "native" => "one call of the program for each frame, without a network interface",
                _ => "the model in Rust, without a network interface",
            },
        ));
    }
    let wrong: u64 = replayed
        .iter()
        .map(|row| row.wrong_replies + row.wrong_balances)
        .sum();
    findings.push(finding(
        "section V",
        "replies and balances of all replays that differ from the model",
        NO_VALUE,
        Some(wrong as f64),
        "",
        Verdict::None,
        "the model is a map of balances and shares no code with the fast path",
    ));
    findings
}

fn aliased(rows: &[Aliasing]) -> Vec<Finding> {
    const WHY: &str = "the claim of a key-value store fails: an entry has no id to compare, so all ids with one 16-bit \
                       hash are one account";
    let store = ("a key-value data store", None);
    let mut findings = vec![finding(
        "figure 3",
        "number of accounts of which two share an entry with a probability of 50 %, computed",
        store,
        Some(aliasing::even_chance() as f64),
        "",
        Verdict::Fails,
        WHY,
    )];
    let Some(row) = rows.iter().find(|row| row.accounts == ACCOUNTS) else {
        return findings;
    };
    for (quantity, ours) in [
        (
            "accounts that share an entry, of 10,000, computed",
            row.sharing_computed_percent,
        ),
        (
            "accounts that share an entry, of 10,000, low 16 bits of random ids, measured",
            row.sharing_measured_percent,
        ),
        (
            "accounts whose REFER returns another account's value, of 10,000, measured",
            row.wrong_measured_percent,
        ),
    ] {
        findings.push(finding(
            "figure 3",
            quantity,
            store,
            Some(ours),
            "%",
            Verdict::Fails,
            WHY,
        ));
    }
    let wrong: u64 = rows.iter().map(|row| row.lineside_wrong).sum();
    findings.push(finding(
        "figure 3",
        "accounts whose REFER returns another account's value on Lineside's fast path, in all draws",
        NO_VALUE,
        Some(wrong as f64),
        "",
        Verdict::None,
        "the hash only chooses a place; the whole id decides",
    ));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(what: &str, [sw, xdp, live_sw, live_xdp]: [f64; 4]) -> Row {
        Row {
            what: what.into(),
            sw,
            xdp,
            gain: xdp / sw,
            live_sw,
            live_xdp,
            live_gain: live_xdp / live_sw,
            paper: None,
        }
    }

    fn value(findings: &[Finding], part: &str) -> (Option<f64>, Verdict) {
        let found = findings.iter().find(|finding| finding.quantity.contains(part));
        let found = found.unwrap_or_else(|| panic!("no {part}"));
        (found.ours, found.verdict)
    }

    #[test]
    fn findings_are_means_and_bounds_of_the_rows() {
        let figure = |number, factor: f64| Measured {
            number,
            unit: "replies/s",
            paper: Some(6.0 / factor),
            rows: vec![
                row("1", [1e3, 1e3 * factor, 1e3, 3e3 * factor]),
                row("1000", [1e5, 2e5 * factor, 2e5, 4e5 * factor]),
                row("10000", [1e5, 3e5 * factor, 9e4, 9e4 * factor]),
            ],
        };
        let figures = [figure(7, 1.0), figure(8, 2.0)];
        let figures: Vec<&Measured> = figures.iter().collect();
        let findings = throughput(&figures, true);
        assert_eq!(
            value(&findings, "CREATE, mean over 1 to 10,000 packets, live"),
            (Some(2.0), Verdict::None)
        );
        assert_eq!(
            value(&findings, "of ISSUE, mean over 1 to 10,000 packets, socket").0,
            Some(4.0)
        );
        assert_eq!(
            value(&findings, "mean of the commands, socket client").0,
            Some(3.0)
        );
        assert_eq!(
            value(&findings, "gain with 10,000 packets, mean of the commands, live").0,
            Some(1.5)
        );
        assert_eq!(
            value(&findings, "10,000 packets, xdp, live frames"),
            (Some(9e4), Verdict::None),
            "less than the paper requires"
        );
        assert_eq!(
            value(&findings, "10,000 packets, xdp, socket client"),
            (Some(2e5), Verdict::Holds)
        );
        let issue = "of ISSUE, mean over 1 to 10,000 packets, live";
        assert_eq!(value(&findings, issue), (Some(4.0), Verdict::Holds));
        let busy = throughput(&figures, false);
        assert_eq!(
            value(&busy, issue),
            (Some(4.0), Verdict::None),
            "a busy machine confirms no ratio"
        );
        assert!(
            paper_means()
                .iter()
                .all(|finding| finding.verdict == Verdict::Holds)
        );
    }
}
