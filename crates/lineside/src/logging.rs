//! Log of the process on standard error: time, level, target and fields of each event, as text or as JSON.

use clap::ValueEnum;
use serde_json::{Map, Value, json};
use std::fmt::{self, Debug};
use std::io::IsTerminal;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Lowest level of the events that are logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Errors only.
    Error,
    /// Errors, and warnings: conditions that an operator should correct.
    Warn,
    /// Errors, warnings, and events of normal operation.
    Info,
    /// All events of `Info`, and details that help to find a fault.
    Debug,
    /// Everything.
    Trace,
}

/// Form of the lines of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line for people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl LogLevel {
    const fn filter(self) -> LevelFilter {
        match self {
            Self::Error => LevelFilter::ERROR,
            Self::Warn => LevelFilter::WARN,
            Self::Info => LevelFilter::INFO,
            Self::Debug => LevelFilter::DEBUG,
            Self::Trace => LevelFilter::TRACE,
        }
    }
}

/// Starts the log. `level` comes from the command line; without one, the variable `RUST_LOG` selects events, and
/// without it, `default` is the lowest level.
pub fn start(level: Option<LogLevel>, format: LogFormat, default: LogLevel) {
    let builder = EnvFilter::builder().with_default_directive(level.unwrap_or(default).filter().into());
    let filter = match level {
        Some(_) => builder.parse_lossy(""),
        None => builder.from_env_lossy(),
    };
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .log_internal_errors(false);
    match format {
        LogFormat::Text => log.init(),
        LogFormat::Json => log.with_ansi(false).event_format(JsonLines).init(),
    }
}

/// Writes each event as one JSON object: `timestamp`, `level`, `target`, and `fields`, among them `message`.
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut fields = Fields(Map::new());
        event.record(&mut fields);
        let metadata = event.metadata();
        let line = line(&time, *metadata.level(), metadata.target(), fields.0);
        writeln!(writer, "{line}")
    }
}

fn line(time: &str, level: Level, target: &str, fields: Map<String, Value>) -> Value {
    json!({"timestamp": time, "level": level.as_str(), "target": target, "fields": fields})
}

/// Fields of an event.
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().into(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }
}
