//! Output of `lineside explain` as text and as JSON.

use super::ran::{Cycles, LeftToHost, Ran};
use crate::out::{Unwritten, counted};
use lineside_capture::{Record, Target};
use lineside_fastpath::{FrameVerdict, Step};
use lineside_util::hex::to_hex;
use lineside_wire::trace::Rule;
use lineside_wire::{Status, frame};
use serde_json::{Map, Value, json};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

/// Maximum number of bytes of one step that the text shows.
const SHOWN_BYTES_MAX: usize = 8;
/// Number of bytes of a reply in one line of the text.
const LINE_BYTES: usize = 16;

/// Everything that is printed.
pub struct Report<'a> {
    /// Name of the capture.
    pub file: &'a str,
    /// Number of the frame, from 1.
    pub number: u64,
    /// Frame.
    pub record: &'a Record,
    /// Name of the service.
    pub service: &'static str,
    /// Endpoint of the fast path.
    pub target: &'a Target,
    /// Name of the datapath.
    pub datapath: &'static str,
    /// Decisions of the model.
    pub steps: &'a [Step],
    /// Result of the model.
    pub model: &'a Ran,
    /// Result of the datapath, unless it is the model.
    pub other: Option<&'a Ran>,
    /// Reason why the RTL passes this frame to the host although the model has another result; otherwise `None`.
    pub left_to_host: Option<LeftToHost>,
    /// Clock cycles of the RTL.
    pub cycles: Option<&'a Cycles>,
    /// Returns the meaning of a code in the replies of the service.
    pub meaning_of_code: fn(u16) -> Option<&'static str>,
    /// Differences between the datapath and the model.
    pub differences: &'a [String],
}

impl Report<'_> {
    /// Prints the report.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub fn print(&self, as_json: bool) -> Result<(), Unwritten> {
        if as_json {
            return say!("{}", self.object());
        }
        self.head()?;
        for (number, step) in (1..).zip(self.steps) {
            say!("{}", self.step_line(number, step))?;
        }
        say!("")?;
        self.result("model", self.model)?;
        self.changes_text()?;
        let Some(other) = self.other else {
            return Ok(());
        };
        self.result(self.datapath, other)?;
        self.cycles_text()?;
        match (self.differences.is_empty(), self.left_to_host) {
            (false, _) => Ok(()),
            (true, None) => say!("{}: equal to the model", self.datapath),
            (true, Some(reason)) => say!(
                "{}: passes this frame to the host, because {}",
                self.datapath,
                reason.text()
            ),
        }
    }

    fn ends(&self) -> Option<(SocketAddr, SocketAddr)> {
        frame::parse(&self.record.frame).map(|found| {
            let from = SocketAddr::new(found.source, found.source_port);
            (from, SocketAddr::new(found.destination, found.destination_port))
        })
    }

    fn head(&self) -> Result<(), Unwritten> {
        let bytes = counted(self.record.frame.len(), "byte");
        let ends = self.ends().map_or(
            "not a UDP datagram that the fast path parses".into(),
            |(from, to)| format!("{from} -> {to}"),
        );
        say!("frame {} of {}: {bytes}, {ends}", self.number, self.file)?;
        if self.record.original_bytes as usize > self.record.frame.len() {
            say!(
                "  captured only in part: it had {} on the network",
                counted(self.record.original_bytes, "byte")
            )?;
        }
        let addresses: Vec<_> = self.target.addresses.iter().map(ToString::to_string).collect();
        say!(
            "the fast path of {} at {}, port {}, {}\n",
            self.service,
            addresses.join(" "),
            self.target.port,
            mac_text(&self.target.mac)
        )
    }

    fn result(&self, name: &str, ran: &Ran) -> Result<(), Unwritten> {
        let verdict = match ran.outcome() {
            ("passed", _) => "passed to the host".into(),
            (verdict, Some(reason)) => format!("{verdict} ({reason})"),
            (verdict, None) => verdict.to_owned(),
        };
        say!("{name}: {verdict}, counters: {}", ran.counters_text())
    }

    /// Returns the ranges of bytes in which the reply differs from the request.
    fn changes(&self) -> Vec<Range<usize>> {
        let (before, after) = (&self.record.frame, &self.model.left);
        if self.model.verdict != FrameVerdict::Transmit {
            return Vec::new();
        }
        let mut found: Vec<Range<usize>> = Vec::new();
        for at in (0..before.len()).filter(|at| before.get(*at) != after.get(*at)) {
            match found.last_mut() {
                Some(last) if last.end == at => last.end += 1,
                _ => found.push(at..at + 1),
            }
        }
        found
    }

    fn changes_text(&self) -> Result<(), Unwritten> {
        let changes = self.changes();
        if changes.is_empty() {
            return Ok(());
        }
        say!("  bytes of the reply that differ from the request (offset: request -> reply):")?;
        for change in changes {
            for begin in change.clone().step_by(LINE_BYTES) {
                let line = begin..(begin + LINE_BYTES).min(change.end);
                say!(
                    "  {begin:>5}: {} -> {}",
                    to_hex(&self.record.frame[line.clone()]),
                    to_hex(&self.model.left[line])
                )?;
            }
        }
        Ok(())
    }

    fn cycles_text(&self) -> Result<(), Unwritten> {
        let Some(cycles) = self.cycles else {
            return Ok(());
        };
        say!("  cycle  event")?;
        for (cycle, _, text) in &cycles.events {
            say!("  {cycle:>5}  {text}")?;
        }
        if let Some(latency) = cycles.latency {
            let latency = counted(latency, "cycle");
            say!("  {latency} from the last beat in to the first beat out")?;
        }
        Ok(())
    }

    fn object(&self) -> Value {
        let frame = &self.record.frame;
        let steps: Vec<Value> = self.steps.iter().map(|step| step_object(step, frame)).collect();
        let changes = self.changes();
        let changes = changes.into_iter().map(|change| {
            json!({
                "offset": change.start, "request": to_hex(&frame[change.clone()]),
                "reply": to_hex(&self.model.left[change]),
            })
        });
        let (from, to) = self
            .ends()
            .map(|(from, to)| (from.to_string(), to.to_string()))
            .unzip();
        let mut object = json!({
            "file": self.file, "frame": self.number, "time_ns": self.record.time_ns, "bytes": frame.len(),
            "original_bytes": self.record.original_bytes, "from": from, "to": to, "service": self.service,
            "mac": mac_text(&self.target.mac), "port": self.target.port, "addresses": self.target.addresses,
            "steps": steps, "model": ran_object(self.model), "changes": changes.collect::<Vec<_>>(),
            "datapath": self.datapath, "differences": self.differences,
        });
        if let Some(other) = self.other {
            object["result"] = ran_object(other);
        }
        if let Some(cycles) = self.cycles {
            let events = cycles.events.iter();
            let events: Vec<Value> = events
                .map(|(cycle, name, text)| json!({"cycle": cycle, "event": name, "text": text}))
                .collect();
            object["cycles"] = json!({"events": events, "latency": cycles.latency});
        }
        object
    }

    /// Returns a value with its name, and the meaning of a code or status in a reply.
    fn fact_text(&self, name: &str, value: u64) -> String {
        let number = u16::try_from(value).ok();
        let meaning = match name {
            _ if name.starts_with("code") => number.and_then(self.meaning_of_code),
            "status" => number.and_then(Status::from_code).map(Status::meaning),
            _ => None,
        };
        match meaning {
            Some(meaning) => format!("{name} {value}: {meaning}"),
            None => format!("{name} {value}"),
        }
    }

    fn step_line(&self, number: usize, step: &Step) -> String {
        let bytes = bytes_of(step, &self.record.frame);
        let shown = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
        let rest = if shown.len() < bytes.len() { "…" } else { "" };
        let value = value_of(step.rule, bytes).unwrap_or_else(|| format!("{}{rest}", to_hex(shown)));
        let place = match step.bytes.is_empty() {
            true => String::new(),
            false => format!("{}..{}", step.bytes.start, step.bytes.end),
        };
        let holds = match (step.holds, step.is_decisive()) {
            (true, _) => "yes",
            (false, true) => "NO",
            (false, false) => "no",
        };
        let facts: Vec<String> = step
            .facts
            .iter()
            .map(|(name, value)| self.fact_text(name, *value))
            .collect();
        let facts = match facts.is_empty() {
            true => String::new(),
            false => format!(" ({})", facts.join(", ")),
        };
        format!(
            "{number:>3}  {holds:<3}  {place:<9}  {value:<17}  {}{facts}",
            step.rule.text()
        )
    }
}

fn mac_text(mac: &[u8; 6]) -> String {
    let bytes: Vec<String> = mac.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

fn ran_object(ran: &Ran) -> Value {
    let (verdict, reason) = ran.outcome();
    let counters: Map<String, Value> = ran
        .counters
        .iter()
        .map(|(name, count)| (name.clone(), (*count).into()))
        .collect();
    json!({"verdict": verdict, "reason": reason, "counters": counters})
}

/// Returns the bytes at which a step looked, as far as the frame has them.
fn bytes_of<'a>(step: &Step, frame: &'a [u8]) -> &'a [u8] {
    let end = step.bytes.end.min(frame.len());
    frame.get(step.bytes.start..end).unwrap_or_default()
}

/// Returns the value of the bytes in the form in which people read it; `None` if hexadecimal digits are that form.
fn value_of(rule: Rule, bytes: &[u8]) -> Option<String> {
    match (rule, bytes) {
        (Rule::ServicePort | Rule::SourcePort | Rule::UdpLength | Rule::IpLength, &[high, low]) => {
            Some(u16::from_be_bytes([high, low]).to_string())
        }
        (Rule::ProtocolUdp | Rule::HopLeft, &[value]) => Some(value.to_string()),
        (Rule::OwnAddress | Rule::SourceAddress, bytes) => match bytes.len() {
            4 => <[u8; 4]>::try_from(bytes)
                .ok()
                .map(|four| IpAddr::from(four).to_string()),
            _ => <[u8; 16]>::try_from(bytes)
                .ok()
                .map(|all| IpAddr::from(all).to_string()),
        },
        _ => None,
    }
}

fn step_object(step: &Step, frame: &[u8]) -> Value {
    let bytes = bytes_of(step, frame);
    let facts: Map<String, Value> = step
        .facts
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).into()))
        .collect();
    json!({
        "rule": step.rule.name(), "text": step.rule.text(), "begin": step.bytes.start, "end": step.bytes.end,
        "bytes": to_hex(bytes), "value": value_of(step.rule, bytes), "required": step.is_required,
        "holds": step.holds, "facts": facts,
    })
}
