//! Status as text for people.

use super::{ServiceStatus, Snapshot};
use lineside_wire::{Metric, metric};
use std::collections::BTreeMap;
use std::fmt::{Display, Formatter, Result};

impl Display for Snapshot {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let (minutes, seconds) = (self.uptime_s / 60, self.uptime_s % 60);
        let (hours, minutes) = (minutes / 60, minutes % 60);
        writeln!(
            out,
            "lineside {}, up {hours}:{minutes:02}:{seconds:02}",
            self.version
        )?;
        for service in &self.services {
            write!(out, "{service}")?;
        }
        for fault in self.faults() {
            writeln!(out, "problem: {fault}")?;
        }
        for warning in &self.warnings {
            writeln!(out, "warning: {warning}")?;
        }
        Ok(())
    }
}

impl Display for ServiceStatus {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        write!(out, "\n{} on {}, {}", self.name, self.listen, self.way())?;
        if let Some(interface) = &self.interface {
            write!(out, " at {interface}")?;
        }
        if let Some(mode) = &self.mode {
            write!(out, " ({mode})")?;
        }
        writeln!(out)?;
        if let Some(left_ms) = self.lease_left_ms {
            writeln!(
                out,
                "  lease   {}.{} s left",
                left_ms / 1000,
                left_ms % 1000 / 100
            )?;
        }
        if let Some(tip) = &self.tip {
            write!(out, "  tip     {}", tip.hash)?;
            if tip.block != u64::from(tip.height) {
                write!(out, ", block {},", tip.block)?;
            }
            writeln!(out, " at height {}", tip.height)?;
        }
        for line in &self.summary {
            writeln!(out, "  {line}")?;
        }
        write_counts(self, out)
    }
}

/// Width of the columns of numbers.
const NUMBER: usize = 16;
/// Minimum width of the column of names.
const NAME: usize = 22;

/// Writes the tables of counters. All of them have the same column width, which fits the longest name.
fn write_counts(service: &ServiceStatus, out: &mut Formatter<'_>) -> Result {
    let mut names: Vec<&String> = service.counters.values().flat_map(BTreeMap::keys).collect();
    names.sort();
    names.dedup();
    let drops: Vec<(String, u64)> = service
        .drops
        .iter()
        .flat_map(|(datapath, drops)| drops.iter().map(move |(reason, count)| (datapath, reason, count)))
        .filter(|(_, _, count)| **count > 0)
        .map(|(datapath, reason, count)| (format!("drop {reason} ({datapath})"), *count))
        .collect();
    let host = service
        .host
        .iter()
        .map(|(key, value)| with_unit(service, key, key, *value));
    let labelled = service
        .labelled
        .iter()
        .flat_map(|(key, series)| series.iter().map(move |(label, value)| (key, label, value)))
        .map(|(key, label, value)| with_unit(service, key, &format!("{key} {label}"), *value));
    let host: Vec<(String, String)> = host.chain(labelled).collect();
    let lengths = (names.iter().map(|name| name.len()))
        .chain(drops.iter().map(|(name, _)| name.len()))
        .chain(host.iter().map(|(name, _)| name.len()));
    let width = lengths.max().unwrap_or(0).max(NAME);

    if !service.counters.is_empty() {
        write!(out, "  {:<1$}", "fastpath", width + 2)?;
        for datapath in service.counters.keys() {
            write!(out, "{datapath:>NUMBER$}")?;
        }
        writeln!(out)?;
    }
    for name in names {
        write!(out, "    {name:<width$}")?;
        for counters in service.counters.values() {
            match counters.get(name) {
                Some(count) => write!(out, "{count:>NUMBER$}")?,
                None => write!(out, "{:>NUMBER$}", "-")?,
            }
        }
        writeln!(out)?;
    }
    for (name, count) in drops {
        writeln!(out, "    {name:<width$}{count:>NUMBER$}")?;
    }
    if !host.is_empty() {
        writeln!(out, "  host")?;
    }
    for (name, value) in host {
        writeln!(out, "    {name:<width$}{value:>NUMBER$}")?;
    }
    Ok(())
}

/// Returns the name of a value with its unit from `spec/`, and the value in that unit. A status has times in
/// nanoseconds, and the text shows them in seconds.
fn with_unit(service: &ServiceStatus, key: &str, name: &str, value: u64) -> (String, String) {
    let is_own = |metric: &&&Metric| metric.key == key && metric.service == Some(service.name.as_str());
    let is_common = |metric: &&&Metric| metric.key == key && metric.service.is_none();
    let all = || metric::ALL.iter();
    let unit = all()
        .find(is_own)
        .or_else(|| all().find(is_common))
        .map_or("", |metric| metric.unit);
    match unit {
        "" => (name.into(), value.to_string()),
        "seconds" => (format!("{name} (seconds)"), format!("{:.3}", value as f64 / 1e9)),
        unit => (format!("{name} ({unit})"), value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_summary_follow_the_headline_and_are_indented() {
        let service = ServiceStatus {
            name: "fabric".into(),
            datapath: "socket".into(),
            protocols: vec!["Deliver".into(), "Gateway".into()],
            listen: "127.0.0.1:7051".into(),
            summary: vec!["channel lab".into(), "source  sends blocks".into()],
            ..ServiceStatus::default()
        };
        assert_eq!(
            service.to_string(),
            "\nfabric on 127.0.0.1:7051, Deliver, Gateway\n  channel lab\n  source  sends blocks\n"
        );
    }

    #[test]
    fn values_have_the_units_of_their_metrics() {
        let mut service = ServiceStatus {
            name: "fabric".into(),
            ..ServiceStatus::default()
        };
        service.set_labelled(metric::FABRIC_STAGE, "verify", 1_234_567_890);
        service.set_labelled(metric::FABRIC_TRANSACTIONS, "VALID", 7);
        let text = service.to_string();
        let value = |name: &str| {
            let line = text.lines().find(|line| line.trim_start().starts_with(name));
            line.and_then(|line| line.split_whitespace().next_back())
        };
        assert_eq!(value("stage verify (seconds)"), Some("1.235"), "{text}");
        assert_eq!(value("transactions VALID "), Some("7"), "{text}");
    }

    #[test]
    fn the_headline_has_every_interface() {
        let headline = |attached: &[(&str, &str)]| {
            let mut spv = ServiceStatus::default();
            spv.set_interfaces(attached.iter().copied());
            spv.to_string().lines().nth(1).unwrap().to_owned()
        };
        let of_one = headline(&[("lo", "generic")]);
        assert!(of_one.ends_with("datapath at lo (generic)"), "{of_one}");
        let same = headline(&[("x1", "native"), ("y1", "native")]);
        assert!(same.ends_with("datapath at x1, y1 (native)"), "{same}");
        let other = headline(&[("x1", "native"), ("y1", "generic")]);
        assert!(other.ends_with("datapath at x1, y1 (native, generic)"), "{other}");
        assert!(headline(&[]).ends_with("datapath"));
    }

    #[test]
    fn the_numbers_of_all_tables_are_right_aligned_in_one_column() {
        let long = "a_name_that_is_longer_than_the_least_width";
        let mut service = ServiceStatus {
            name: "spv".into(),
            ..ServiceStatus::default()
        };
        service
            .counters
            .insert("socket".into(), [("hits".into(), 7)].into());
        service.host.insert("fills".into(), 8);
        service.host.insert(long.into(), 9);
        service
            .labelled
            .insert("clients_dropped".into(), [("idle".into(), 10)].into());
        let text = service.to_string();
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("    ")).collect();
        assert_eq!(rows.len(), 4, "{text}");
        let heading = text.lines().find(|line| line.contains("fastpath")).unwrap();
        for row in rows {
            assert_eq!(row.len(), heading.len(), "{text}");
        }
    }
}
