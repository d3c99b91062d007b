//! Report of a load run: as a table, and as one JSON object.

use super::thread::{ThreadTally, WrongAnswer};
use super::{Pace, Plan, WRONG_KEPT, latencies};
use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::net::SocketAddr;

/// Percentiles of the report: the name in JSON, and the quantile.
const PERCENTILES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p99", 0.99),
    ("p99_9", 0.999),
    ("max", 1.0),
];

/// Time by which a thread may be late before the report mentions it.
const LAG_NS_MAX: u64 = 1_000_000;

/// Counts and latencies of a run, summed over its threads.
#[derive(Debug)]
pub struct Report {
    service: &'static str,
    server: SocketAddr,
    pace: Pace,
    threads: usize,
    connections: usize,
    seconds: f64,
    timeout_ms: u128,
    start_ns: u64,
    last_ns: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Requests with a right answer.
    pub answered: u64,
    /// Requests without an answer within the time-out.
    pub lost: u64,
    unsent: u64,
    resent: u64,
    duplicated: u64,
    late: u64,
    busy: u64,
    lag_ns: u64,
    /// Wrong answers.
    pub wrong: u64,
    wrong_answers: Vec<WrongAnswer>,
    refused: BTreeMap<String, u64>,
    counts: Vec<(&'static str, u64)>,
    latency: Histogram<u64>,
    /// Contradictions that were found after the run, such as a sum that changed.
    pub contradictions: Vec<String>,
}

impl Report {
    /// Returns an empty report of a run that starts now.
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            service: plan.service,
            server: plan.server,
            pace: plan.pace,
            threads: plan.threads,
            connections: plan.connections,
            seconds: plan.duration.as_secs_f64(),
            timeout_ms: plan.timeout.as_millis(),
            start_ns: u64::MAX,
            last_ns: 0,
            sent: 0,
            answered: 0,
            lost: 0,
            unsent: 0,
            resent: 0,
            duplicated: 0,
            late: 0,
            busy: 0,
            lag_ns: 0,
            wrong: 0,
            wrong_answers: Vec::new(),
            refused: BTreeMap::new(),
            counts: Vec::new(),
            latency: latencies(),
            contradictions: Vec::new(),
        }
    }

    /// Adds the counts of a thread.
    pub(super) fn add(&mut self, tally: &ThreadTally) {
        self.start_ns = self.start_ns.min(tally.start_ns);
        self.last_ns = self.last_ns.max(tally.last_ns);
        self.sent += tally.sent;
        self.answered += tally.answered;
        self.lost += tally.lost;
        self.unsent += tally.unsent;
        self.resent += tally.resent;
        self.duplicated += tally.duplicated;
        self.late += tally.late;
        self.busy += tally.busy;
        self.lag_ns = self.lag_ns.max(tally.lag_ns);
        self.wrong += tally.wrong;
        let room = WRONG_KEPT.saturating_sub(self.wrong_answers.len());
        self.wrong_answers
            .extend(tally.wrong_answers.iter().take(room).cloned());
        for (why, count) in &tally.refused {
            *self.refused.entry(why.clone()).or_default() += count;
        }
        // Both histograms have the same bounds.
        let _ = self.latency.add(&tally.latency);
    }

    /// Adds to a count of the service.
    pub fn count(&mut self, name: &'static str, count: u64) {
        match self.counts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += count,
            None => self.counts.push((name, count)),
        }
    }

    /// Returns the seconds from the first scheduled request to the last answer, or the planned ones if these are more.
    fn took_s(&self) -> f64 {
        let seconds = self.last_ns.saturating_sub(self.start_ns) as f64 / 1e9;
        match self.pace {
            Pace::Rate(_) => seconds.max(self.seconds),
            Pace::Window(_) => seconds.max(1e-9),
        }
    }

    /// Returns a rate per second over the run.
    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.took_s()
    }

    /// Returns the sum of all refused requests.
    pub fn refused(&self) -> u64 {
        self.refused.values().sum()
    }

    /// Returns the numbers of refused requests, by reason.
    pub fn reasons(&self) -> &BTreeMap<String, u64> {
        &self.refused
    }

    /// Returns the reason why the run failed; `None` if every answer was right and at least one arrived.
    pub fn failure(&self) -> Option<String> {
        let (wrong, contradictions) = (self.wrong, &self.contradictions);
        if wrong > 0 {
            return Some(format!("{wrong} wrong answers from {}", self.server));
        }
        if let Some(first) = contradictions.first() {
            return Some(first.clone());
        }
        (self.answered == 0).then(|| {
            format!(
                "{} answered 0 of {} requests; check the address, and that `lineside {} serve` runs there",
                self.server, self.sent, self.service
            )
        })
    }

    /// Returns the wrong answers that are kept, each in lines of text.
    pub fn wrong_answers(&self) -> Vec<String> {
        let hex = |bytes: &[u8]| match bytes {
            [] => "none".to_owned(),
            bytes => lineside_util::hex::to_hex(bytes),
        };
        let words = |wrong: &WrongAnswer| {
            format!(
                "wrong answer to `{}`: {}\n  request {}\n  answer  {}",
                wrong.case,
                wrong.why,
                hex(&wrong.request),
                hex(&wrong.answer)
            )
        };
        self.wrong_answers.iter().map(words).collect()
    }

    fn latency_us(&self, quantile: f64) -> f64 {
        self.latency.value_at_quantile(quantile) as f64 / 1e3
    }

    /// Returns the report as one JSON object.
    pub fn to_json(&self) -> Value {
        let latency: Map<String, Value> = PERCENTILES
            .iter()
            .map(|(name, quantile)| ((*name).to_owned(), json!(self.latency_us(*quantile))))
            .collect();
        let (rate, window) = match self.pace {
            Pace::Rate(rate) => (json!(rate), Value::Null),
            Pace::Window(window) => (Value::Null, json!(window)),
        };
        let counts: Map<String, Value> = self
            .counts
            .iter()
            .map(|(name, count)| ((*name).to_owned(), json!(count)))
            .collect();
        let hex = lineside_util::hex::to_hex;
        let wrong_answers: Vec<Value> = self
            .wrong_answers
            .iter()
            .map(|wrong| {
                let (request, answer) = (hex(&wrong.request), hex(&wrong.answer));
                json!({"case": wrong.case, "why": wrong.why, "request": request, "answer": answer})
            })
            .collect();
        json!({
            "service": self.service, "server": self.server.to_string(), "rate": rate, "window": window,
            "threads": self.threads, "connections": self.connections, "seconds": self.took_s(),
            "sent": self.sent, "answered": self.answered,
            "answers_per_second": self.per_second(self.answered), "lost": self.lost, "unsent": self.unsent,
            "resent": self.resent, "duplicated": self.duplicated, "late": self.late,
            "busy_repeated": self.busy, "refused": self.refused,
            "wrong": self.wrong, "wrong_answers": wrong_answers, "contradictions": self.contradictions,
            "counts": counts, "latency_us": latency, "lag_us": self.lag_ns as f64 / 1e3,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pace = match self.pace {
            Pace::Rate(rate) => format!("open loop, {rate} requests/s"),
            Pace::Window(window) => format!("closed loop, {window} in flight"),
        };
        let many = |count: usize, what: &str| match count {
            1 => format!("1 {what}"),
            count => format!("{count} {what}s"),
        };
        let (threads, connections) = (many(self.threads, "thread"), many(self.connections, "connection"));
        let (service, server, took_s) = (self.service, self.server, self.took_s());
        writeln!(
            out,
            "{service} at {server}: {pace}, {threads}, {connections}, {took_s:.1} s\n"
        )?;
        let mut row = |name: &str, count: u64, what: &str| {
            let row = format!("{name:<22}{count:>14}  {what}");
            writeln!(out, "{}", row.trim_end())
        };
        row("sent", self.sent, "")?;
        let rate = format!("{:.0}/s", self.per_second(self.answered));
        row("answered", self.answered, &rate)?;
        row(
            "lost",
            self.lost,
            &format!("no answer within {} ms", self.timeout_ms),
        )?;
        if self.unsent > 0 {
            row(
                "unsent",
                self.unsent,
                "scheduled, but no session was free in time",
            )?;
        }
        row("refused", self.refused(), "")?;
        for (why, count) in &self.refused {
            row(&format!("  {why}"), *count, "")?;
        }
        row("wrong", self.wrong, "")?;
        if self.resent > 0 {
            row("resent", self.resent, "writes repeated without an answer")?;
        }
        if self.duplicated > 0 {
            row("duplicated", self.duplicated, "writes sent twice at once")?;
        }
        if self.busy > 0 {
            row("busy", self.busy, "replies to writes, which were repeated")?;
        }
        if self.late > 0 {
            row(
                "late",
                self.late,
                "answers to requests that were answered or lost before",
            )?;
        }
        for (name, count) in &self.counts {
            let rate = format!("{:.0}/s", self.per_second(*count));
            row(&name.replace('_', " "), *count, &rate)?;
        }
        let mut names = String::new();
        let mut values = String::new();
        for (name, quantile) in PERCENTILES {
            write!(names, "{:>12}", name.replace('_', "."))?;
            write!(values, "{:>12.1}", self.latency_us(quantile))?;
        }
        write!(out, "\n{:<16}{names}\n{:<16}{values}", "latency", "µs")?;
        if self.lag_ns > LAG_NS_MAX {
            let lag_ms = self.lag_ns as f64 / 1e6;
            write!(
                out,
                "\n\nThe load itself was up to {lag_ms:.1} ms late, which the latencies contain: give more \
                 --threads, or a lower --rate."
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn report() -> Report {
        Report::new(&Plan {
            service: "spv",
            server: ([127, 0, 0, 1], 7701).into(),
            pace: Pace::Rate(100.0),
            duration: Duration::from_secs(2),
            threads: 1,
            connections: 1,
            timeout: Duration::from_secs(1),
            resend: Duration::from_millis(100),
            duplicate_percent: 0,
            cores: Vec::new(),
        })
    }

    #[test]
    fn a_run_fails_without_answers_and_with_wrong_answers() {
        let mut run = report();
        run.sent = 3;
        assert!(run.failure().unwrap().contains("answered 0 of 3 requests"));
        run.answered = 2;
        assert_eq!(run.failure(), None);
        run.contradictions.push("the sum changed".into());
        assert_eq!(run.failure().unwrap(), "the sum changed");
        run.wrong = 1;
        assert!(run.failure().unwrap().contains("1 wrong"));
    }

    #[test]
    fn the_table_and_the_object_have_the_percentiles() {
        let mut run = report();
        for us in 1..=1000 {
            run.latency.record(us * 1000).unwrap();
        }
        run.answered = 1000;
        let text = run.to_string();
        assert!(text.contains("500/s"), "{text}");
        assert!(!text.contains("ms late"), "{text}");
        run.lag_ns = 2 * LAG_NS_MAX;
        assert!(run.to_string().contains("up to 2.0 ms late"), "{run}");
        let near = |name: &str, wanted: f64| {
            let value = run.to_json()["latency_us"][name].as_f64().unwrap();
            assert!((value - wanted).abs() <= 0.001 * wanted, "{name}: {value}");
        };
        near("p50", 500.0);
        near("p99", 990.0);
        near("max", 1000.0);
    }
}
