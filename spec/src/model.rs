//! Data model of `spec/*.toml`.

use serde::Deserialize;
use std::{fs, path::Path};

pub struct Spec {
    pub common: Common,
    pub rtl: Rtl,
    pub services: Vec<(String, Service)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Common {
    pub console_port: u16,
    pub native: Native,
    pub service: Vec<ServicePort>,
    pub status: Vec<Code>,
    pub drop: Vec<Named>,
    pub metric: Vec<Metric>,
    #[serde(default)]
    pub panel: Vec<Panel>,
    #[serde(default)]
    pub alert: Vec<Alert>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Native {
    pub magic: u16,
    pub version: u8,
    pub reply_bit: u8,
    pub field: Vec<Field>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServicePort {
    pub name: String,
    pub port: u16,
    pub slot: u32,
    /// True for an example of `lab/`, which the daemon does not contain. Its port is not a service port, it may use the
    /// slot of a service without an XDP program, and its counters are not metrics.
    #[serde(default)]
    pub example: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Code {
    pub name: String,
    pub code: u16,
    pub doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    pub name: String,
    pub doc: String,
    /// True for a counter of requests that the fast path passes on. XDP passes them to the socket datapath, which
    /// counts them again, so the metric leaves XDP's count out.
    #[serde(default)]
    pub passes: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Directory of the service's crate, if it differs from `crates/<name>`.
    pub directory: Option<String>,
    /// Description of the packet in the paper's format; empty if the paper defines none.
    #[serde(default)]
    pub paper: String,
    #[serde(default)]
    pub constant: Vec<Constant>,
    /// Result codes of single operations in a packet, if the service has such codes.
    #[serde(default)]
    pub code: Vec<Code>,
    pub op: Vec<Op>,
    pub message: Vec<Struct>,
    pub layout: Vec<Struct>,
    pub counter: Vec<Named>,
    #[serde(default)]
    pub metric: Vec<Metric>,
    #[serde(default)]
    pub panel: Vec<Panel>,
    #[serde(default)]
    pub alert: Vec<Alert>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    pub name: String,
    /// Name of the constant's type in Rust.
    #[serde(rename = "type")]
    pub kind: String,
    /// Value of the constant, as Rust and C write it.
    pub value: String,
    pub doc: String,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum MetricKind {
    Counter,
    Gauge,
    Histogram,
}

impl MetricKind {
    /// Returns the name in the text formats of metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    pub name: String,
    /// Prefix of the full name: `lineside`, or `process` for the names that all client libraries of Prometheus use.
    #[serde(default = "own_prefix")]
    pub prefix: String,
    pub kind: MetricKind,
    #[serde(default)]
    pub unit: String,
    #[serde(default)]
    pub labels: Vec<String>,
    pub help: String,
    /// See [`Named::passes`].
    #[serde(skip)]
    pub passes: bool,
}

fn own_prefix() -> String {
    "lineside".into()
}

impl Metric {
    /// Returns the name in `/status`, which is unique among the metrics of the process.
    pub fn key(&self) -> String {
        if self.prefix == own_prefix() {
            self.name.clone()
        } else {
            format!("{}_{}", self.prefix, self.name)
        }
    }

    /// Returns the full name, such as `lineside_spv_fills_total`.
    pub fn full_name(&self, service: Option<&str>) -> String {
        let mut name = format!("{}_", self.prefix);
        for part in service.iter().copied().chain([self.name.as_str()]) {
            name.push_str(part);
            name.push('_');
        }
        name.push_str(&self.unit);
        if self.kind == MetricKind::Counter {
            name.push_str("_total");
        }
        name.replace("__", "_").trim_end_matches('_').to_owned()
    }
}

/// Panel of the Grafana dashboard.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Panel {
    pub title: String,
    /// Unit by its name in Grafana, such as `reqps`, `s`, `bytes` or `percentunit`.
    pub unit: String,
    pub query: Vec<Query>,
}

/// Query of a panel: an expression of PromQL, in which `$SELECT` is the selector of the chosen jobs and instances.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    pub expr: String,
    /// Legend, with labels such as `{{datapath}}`.
    pub legend: String,
}

/// Alert rule of Prometheus.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alert {
    /// Name, in camel case.
    pub name: String,
    pub expr: String,
    /// Time for which the expression must hold before the alert fires, such as `5m`.
    #[serde(rename = "for")]
    pub hold: String,
    /// `critical`: requests are refused or data is at risk; `warning`: an operator should look at it today.
    pub severity: String,
    /// One sentence that says what is wrong.
    pub summary: String,
    /// Advice to the operator.
    pub action: String,
}

/// Interface between the host and the FPGA datapath.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rtl {
    pub command: Vec<Command>,
    /// Fields of a command.
    pub field: Vec<Field>,
    pub register: Vec<Register>,
    /// Entries of the streams from the RTL to the host.
    pub stream: Vec<Struct>,
    pub axil: Axil,
}

/// AXI4-Lite window of the RTL. Addresses are offsets in bytes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axil {
    pub address_bits: u32,
    pub identity: u32,
    pub version: u32,
    pub registers_at: u32,
    pub register_stride: u32,
    pub word: Vec<AxilWord>,
    pub counters: Vec<AxilCounters>,
}

/// Word of the AXI4-Lite window, or several ones in a row.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxilWord {
    pub name: String,
    pub at: u32,
    pub words: Option<u32>,
    /// `read`, `write`, or `read, write`.
    pub access: String,
    pub doc: String,
}

/// Place of a group of counters in the AXI4-Lite window.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxilCounters {
    /// `drops`, or the name of a service.
    pub group: String,
    pub at: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    pub name: String,
    pub code: u32,
    pub doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Register {
    pub name: String,
    /// Number of the register, or of the first of `count` registers.
    pub index: u32,
    pub count: Option<u32>,
    pub bits: u32,
    /// Value after a reset; without it, the value is kept, or is undefined after power-on.
    pub reset: Option<u32>,
    pub doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Op {
    pub name: String,
    pub code: u8,
    /// Datapaths whose fast path answers the operation: `socket`, `xdp`, `rtl`. The others forward it to the host.
    /// Empty: the list is not given.
    #[serde(default)]
    pub fast_path: Vec<String>,
    pub request: String,
    pub reply: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Struct {
    pub name: String,
    pub doc: String,
    /// Size in bytes, if the layout must have a certain size.
    pub size: Option<usize>,
    pub field: Vec<Field>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub doc: String,
}

impl Field {
    /// Returns the bytes of one field, by the name of its type: `u8`, `be16`, `u32`, `b16`, `b32` and `b80` (bytes),
    /// `u64x4` (four words), `u32x8`.
    pub fn bytes(&self) -> usize {
        match self.kind.as_str() {
            "u8" => 1,
            "be16" => 2,
            "u32" | "be32" => 4,
            "u64" | "be64" => 8,
            "b16" => 16,
            "b32" => 32,
            "b80" => 80,
            _ => match self.array() {
                Some((bits, count)) => bits / 8 * count,
                None => panic!("spec: field {} has the unknown type {}", self.name, self.kind),
            },
        }
    }

    /// Returns, for a type such as `u64x4`, the bits of a word and the number of words.
    pub fn array(&self) -> Option<(usize, usize)> {
        let (bits, count) = self.kind.strip_prefix('u')?.split_once('x')?;
        let bits = bits.parse().ok().filter(|bits| [32, 64].contains(bits))?;
        Some((bits, count.parse().ok()?))
    }
}

impl Struct {
    pub fn bytes(&self) -> usize {
        let bytes = self.field.iter().map(Field::bytes).sum();
        if let Some(size) = self.size {
            assert_eq!(bytes, size, "spec: {} has {bytes} bytes, not {size}", self.name);
        }
        bytes
    }
}

impl Common {
    /// Returns the services that the daemon can have.
    pub fn daemon_services(&self) -> impl Iterator<Item = &ServicePort> {
        self.service.iter().filter(|service| !service.example)
    }
}

impl Spec {
    pub fn read(folder: &Path) -> Self {
        let text = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        };
        let common: Common = toml::from_str(&text("common.toml")).expect("common.toml");
        let mut services = Vec::new();
        for port in &common.service {
            let name = format!("{}.toml", port.name);
            if folder.join(&name).exists() {
                let service = toml::from_str(&text(&name)).unwrap_or_else(|error| panic!("{name}: {error}"));
                services.push((port.name.clone(), service));
            }
        }
        let rtl = toml::from_str(&text("rtl.toml")).expect("rtl.toml");
        Self {
            common,
            rtl,
            services,
        }
    }

    /// Returns all metrics, each with the service that it belongs to, if any: first those of the process, then each
    /// service's counters and other metrics.
    pub fn metrics(&self) -> Vec<(Option<&str>, Metric)> {
        let mut all: Vec<_> = self
            .common
            .metric
            .iter()
            .map(|metric| (None, metric.clone()))
            .collect();
        let is_example = |name: &String| {
            self.common
                .service
                .iter()
                .any(|port| port.example && port.name == *name)
        };
        for (name, service) in self.services.iter().filter(|(name, _)| !is_example(name)) {
            let fastpath = service.counter.iter().map(|counter| Metric {
                name: counter.name.clone(),
                kind: MetricKind::Counter,
                unit: String::new(),
                prefix: own_prefix(),
                labels: vec!["datapath".into()],
                help: counter.doc.clone(),
                passes: counter.passes,
            });
            let others = service.metric.iter().cloned();
            all.extend(fastpath.chain(others).map(|metric| (Some(name.as_str()), metric)));
        }
        all
    }
}

/// Converts a name such as `root_reply` to `RootReply`.
pub fn camel(name: &str) -> String {
    name.split('_')
        .map(|part| {
            let mut letters = part.chars();
            letters
                .next()
                .map(|first| first.to_uppercase().collect::<String>() + letters.as_str())
                .unwrap_or_default()
        })
        .collect()
}
