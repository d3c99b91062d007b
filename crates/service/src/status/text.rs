//! Text form of a status, for people.

use super::{ServiceStatus, Snapshot};
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
        write!(
            out,
            "\n{} on {}, {} datapath",
            self.name, self.listen, self.datapath
        )?;
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
            writeln!(out, "  tip     {} at height {}", tip.hash, tip.height)?;
        }
        for line in &self.summary {
            writeln!(out, "  {line}")?;
        }
        let datapaths: Vec<&String> = self.counters.keys().collect();
        if !datapaths.is_empty() {
            let mut names: Vec<&String> = self
                .counters
                .values()
                .flat_map(|counters| counters.keys())
                .collect();
            names.sort();
            names.dedup();
            write!(out, "  {:<24}", "fastpath")?;
            datapaths
                .iter()
                .try_for_each(|datapath| write!(out, "{datapath:>16}"))?;
            writeln!(out)?;
            for name in names {
                write!(out, "    {name:<22}")?;
                for counters in self.counters.values() {
                    match counters.get(name) {
                        Some(count) => write!(out, "{count:>16}")?,
                        None => write!(out, "{:>16}", "-")?,
                    }
                }
                writeln!(out)?;
            }
        }
        for (datapath, drops) in &self.drops {
            for (reason, count) in drops.iter().filter(|(_, count)| **count > 0) {
                writeln!(
                    out,
                    "    {:<22}{count:>16}",
                    format!("drop {reason} ({datapath})")
                )?;
            }
        }
        if !self.host.is_empty() {
            writeln!(out, "  host")?;
        }
        for (name, value) in &self.host {
            writeln!(out, "    {name:<22}{value:>16}")?;
        }
        for (name, series) in &self.labelled {
            for (label, value) in series {
                writeln!(out, "    {:<38}{value:>16}", format!("{name} {label}"))?;
            }
        }
        Ok(())
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
            listen: "127.0.0.1:7051".into(),
            summary: vec!["channel lab".into(), "source  sends blocks".into()],
            ..ServiceStatus::default()
        };
        assert_eq!(
            service.to_string(),
            "\nfabric on 127.0.0.1:7051, socket datapath\n  channel lab\n  source  sends blocks\n"
        );
    }
}
