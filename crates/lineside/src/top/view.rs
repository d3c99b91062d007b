//! Drawing of `lineside top`: a table of the services, and a chart and the values of the chosen one. A wide terminal
//! shows several services next to each other, and the values of one service in several columns.

use super::rates::{History, Value};
use lineside_console::ServiceStatus;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Cell, Paragraph, Row, Sparkline, Table, TableState};
use std::net::SocketAddr;

/// Lines of the chart.
const CHART_LINES: u16 = 5;
/// Widths of the columns of the table of services.
const WIDTHS: [u16; 8] = [12, 12, 11, 8, 7, 8, 8, 9];
/// Widths of the columns of a table of values: name, value, and increase per second. The name gets what is left.
const VALUE_WIDTHS: [u16; 3] = [28, 16, 11];
/// Least width of a table of values, with a space after each column.
const VALUES_WIDTH: u16 = VALUE_WIDTHS[0] + VALUE_WIDTHS[1] + VALUE_WIDTHS[2] + 2;
/// Space between two services, or between two tables of values.
const GAP: u16 = 3;

/// State of the display that is not in the statuses.
pub struct View {
    console: SocketAddr,
    /// Index of the service whose values are shown.
    chosen: usize,
    paused: bool,
    /// Reason why the last status could not be read.
    failure: Option<String>,
}

impl View {
    /// Returns the display of the server whose console is at `console`.
    pub const fn new(console: SocketAddr) -> Self {
        Self {
            console,
            chosen: 0,
            paused: false,
            failure: None,
        }
    }

    /// Returns true if the display does not change.
    pub const fn is_paused(&self) -> bool {
        self.paused
    }

    /// Pauses the display, or continues it.
    pub const fn pause(&mut self) {
        self.paused = !self.paused;
    }

    /// Chooses the service `step` lines below; the list is a ring of `services` entries.
    pub fn choose(&mut self, step: isize, services: usize) {
        let next = self.chosen as isize + step;
        self.chosen = next.rem_euclid(services.max(1) as isize) as usize;
    }

    /// Returns the index of the chosen service.
    #[cfg(test)]
    pub const fn chosen(&self) -> usize {
        self.chosen
    }

    /// Records that the console answered.
    pub fn answered(&mut self) {
        self.failure = None;
    }

    /// Records why the console did not answer. The last status stays on the display.
    pub fn failed(&mut self, why: String) {
        self.failure = Some(why);
    }

    /// Draws the last status and its rates.
    pub fn draw(&self, frame: &mut Frame<'_>, history: &History) {
        let services = history.services();
        let messages = self.messages(history);
        let parts = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(messages.len() as u16),
            Constraint::Length(services.len() as u16 + 2),
            Constraint::Min(0),
            Constraint::Length(1),
        ]);
        let [title, problems, table, details, keys] = parts.areas(frame.area());
        frame.render_widget(self.title(history), title);
        frame.render_widget(Paragraph::new(messages), problems);
        let chosen = self.chosen.min(services.len().saturating_sub(1));
        let mut state = TableState::default().with_selected(Some(chosen));
        frame.render_stateful_widget(service_table(history, table.width), table, &mut state);
        let columns = columns(details.width).min(services.len()).max(1);
        // Index of the first service on the page. If there are enough services, the last page is full as well.
        let first = (chosen / columns * columns).min(services.len().saturating_sub(columns));
        let areas = Layout::horizontal(vec![Constraint::Fill(1); columns]).spacing(GAP);
        let shown = services.iter().enumerate().skip(first);
        for ((index, service), area) in shown.zip(&*areas.split(details)) {
            let is_chosen = columns > 1 && index == chosen;
            draw_details(frame, *area, history, service, is_chosen);
        }
        let pause = if self.paused { "p continue" } else { "p pause" };
        let line = format!("up/down service   {pause}   q quit");
        frame.render_widget(Line::from(line).dim(), keys);
    }

    fn title(&self, history: &History) -> Line<'static> {
        let paused = if self.paused { ", paused" } else { "" };
        let text = match history.latest() {
            Some(snapshot) => format!(
                "lineside {} at {}, up {}{paused}",
                snapshot.version,
                self.console,
                duration(snapshot.uptime_s)
            ),
            None => format!("lineside at {}{paused}", self.console),
        };
        Line::from(text).bold()
    }

    fn messages(&self, history: &History) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        if let Some(why) = &self.failure {
            lines.push(Line::from(format!("no answer from the console: {why}")).fg(Color::Red));
        }
        if let Some(snapshot) = history.latest() {
            let problems = snapshot.faults().into_iter();
            lines.extend(problems.map(|problem| Line::from(format!("problem: {problem}")).fg(Color::Red)));
            let warnings = snapshot.warnings.iter();
            lines.extend(warnings.map(|warning| Line::from(format!("warning: {warning}")).fg(Color::Yellow)));
        }
        lines
    }
}

/// Returns the number of tables of values that fit next to each other.
fn columns(width: u16) -> usize {
    usize::from((width + GAP) / (VALUES_WIDTH + GAP)).max(1)
}

/// Returns the table of the services. A narrow terminal shows fewer columns, so that no number is cut.
fn service_table(history: &History, width: u16) -> Table<'static> {
    let number = |text: &str| Cell::from(Line::from(text.to_owned()).right_aligned());
    // Each column has a space after it.
    let fits = |count: &usize| WIDTHS[..*count].iter().map(|width| width + 1).sum::<u16>() <= width + 1;
    let columns = (1..=WIDTHS.len()).rev().find(fits).unwrap_or(1);
    let header = [
        Cell::from("service"),
        Cell::from("datapath"),
        number("fast path/s"),
        number("host/s"),
        number("hits %"),
        number("drops/s"),
        number("lease s"),
        number("height"),
    ];
    let header = Row::new(header.into_iter().take(columns));
    let rows = history.services().iter().map(|service| {
        let rates = history.rates(service);
        let hits = rates.hit_percent().map(|percent| format!("{percent:.1}"));
        let lease = service
            .lease_left_ms
            .map(|left| format!("{:.1}", left as f64 / 1000.0));
        let height = service.tip.as_ref().map(|tip| tip.height.to_string());
        let optional = |text: Option<String>| number(text.as_deref().unwrap_or("-"));
        let cells = [
            Cell::from(title(service)),
            Cell::from(datapath(service)),
            number(&short(rates.fast_path)),
            number(&short(rates.host)),
            optional(hits),
            number(&short(rates.drops)),
            optional(lease),
            optional(height),
        ];
        Row::new(cells.into_iter().take(columns))
    });
    Table::new(
        rows,
        WIDTHS[..columns].iter().map(|width| Constraint::Length(*width)),
    )
    .header(header.style(Style::new().dim()))
    .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
}

/// Draws the chart of the answers per second, the service's own lines, and its values with their rates. The caption of
/// the chosen service is bold.
fn draw_details(
    frame: &mut Frame<'_>,
    area: Rect,
    history: &History,
    service: &ServiceStatus,
    is_chosen: bool,
) {
    let parts = Layout::vertical([
        Constraint::Length(CHART_LINES),
        Constraint::Length(service.summary.len() as u16),
        Constraint::Min(0),
    ]);
    let [chart, summary, values] = parts.areas(area);
    let answers = history.answers(service);
    let newest = &answers[answers.len().saturating_sub(chart.width.into())..];
    let highest = newest.iter().copied().fold(0.0, f64::max);
    let caption = format!(
        "{}: answers per second, highest {}/s",
        title(service),
        short(highest)
    );
    let bars: Vec<u64> = newest.iter().map(|rate| rate.round() as u64).collect();
    let bars = Sparkline::default()
        .data(bars)
        .style(Style::new().fg(Color::Cyan));
    let caption = Line::from(caption);
    let caption = if is_chosen { caption.bold() } else { caption };
    frame.render_widget(bars.block(Block::new().title(caption)), chart);
    let lines: Vec<_> = service
        .summary
        .iter()
        .map(|line| Line::from(line.clone()))
        .collect();
    frame.render_widget(Paragraph::new(lines), summary);
    draw_values(frame, values, history.values(service));
}

/// Draws the values of counters: the fastest-changing first, then the unchanged ones by name. If one table has too few
/// lines for all values, further tables are drawn next to it, as many as the width allows.
fn draw_values(frame: &mut Frame<'_>, area: Rect, mut values: Vec<Value>) {
    values.retain(|value| value.value > 0);
    values.sort_by(|one, other| {
        let rate = |value: &Value| value.rate.unwrap_or(0.0);
        rate(other).total_cmp(&rate(one))
    });
    // The first line of a table is its header.
    let lines = usize::from(area.height.saturating_sub(1)).max(1);
    let tables = values.len().div_ceil(lines).clamp(1, columns(area.width));
    let areas = Layout::horizontal(vec![Constraint::Fill(1); tables]).spacing(GAP);
    for (some, area) in values.chunks(lines).zip(&*areas.split(area)) {
        frame.render_widget(value_table(some), *area);
    }
}

fn value_table(values: &[Value]) -> Table<'static> {
    let number = |text: String| Cell::from(Line::from(text).right_aligned());
    let header = Row::new([
        Cell::from("value"),
        number("now".into()),
        number("increase".into()),
    ]);
    let rows = values.iter().map(|value| {
        let (now, rate) = with_units(value);
        Row::new([Cell::from(value.name.clone()), number(now), number(rate)])
    });
    let [_, value, rate] = VALUE_WIDTHS;
    let widths = [
        Constraint::Min(20),
        Constraint::Length(value),
        Constraint::Length(rate),
    ];
    Table::new(rows, widths).header(header.style(Style::new().dim()))
}

/// Returns the text of a value and of its increase, each with its unit. A value that counts things has none.
fn with_units(value: &Value) -> (String, String) {
    let rate = |text: fn(f64) -> String| value.rate.map_or_else(String::new, text);
    match value.unit {
        "seconds" => (
            format!("{:.3} s", value.value as f64 / 1e9),
            rate(|rate| format!("{:.2} s/s", rate / 1e9)),
        ),
        "bytes" => (
            format!("{} B", value.value),
            rate(|rate| match short(rate) {
                text if text.contains(' ') => format!("{text}B/s"),
                text => format!("{text} B/s"),
            }),
        ),
        _ => (value.value.to_string(), rate(|rate| format!("{}/s", short(rate)))),
    }
}

/// Returns the datapath with its mode, or the protocols of a service without a fast path.
fn datapath(service: &ServiceStatus) -> String {
    match &service.mode {
        Some(mode) => format!("{} {mode}", service.datapath),
        None if service.protocols.is_empty() => service.datapath.clone(),
        None => service.protocols.join(", "),
    }
}

fn title(service: &ServiceStatus) -> String {
    match &service.instance {
        Some(instance) => format!("{} {instance}", service.name),
        None => service.name.clone(),
    }
}

/// Returns a rate with at most four digits and a unit: `7`, `1.25 k`, `12.5 M`.
fn short(rate: f64) -> String {
    let (value, unit) = match rate {
        rate if rate >= 999_500_000.0 => (rate / 1e9, " G"),
        rate if rate >= 999_500.0 => (rate / 1e6, " M"),
        rate if rate >= 999.5 => (rate / 1e3, " k"),
        rate => return format!("{rate:.0}"),
    };
    match value {
        value if value >= 99.95 => format!("{value:.0}{unit}"),
        value if value >= 9.995 => format!("{value:.1}{unit}"),
        value => format!("{value:.2}{unit}"),
    }
}

fn duration(seconds: u64) -> String {
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::rates::tests::snapshot;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use std::net::Ipv4Addr;
    use std::time::{Duration, Instant};

    fn drawn(view: &View, history: &History, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| view.draw(frame, history)).expect("drawn");
        terminal.backend().to_string()
    }

    fn view() -> View {
        View::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 7700)))
    }

    fn two_seconds() -> History {
        let mut history = History::default();
        let start = Instant::now();
        history.add(start, snapshot(3600, 0, 0, 0, 0));
        history.add(
            start + Duration::from_secs(1),
            snapshot(3601, 3_000_000, 0, 1_000_000, 12),
        );
        history
    }

    #[test]
    fn the_rates_of_a_service_are_drawn() {
        let text = drawn(&view(), &two_seconds(), 100, 24);
        for part in [
            "0.1.0 at 127.0.0.1:7700, up 1:00:01",
            "3.00 M",
            "1.00 M",
            "75.0",
            "drop hop_limit (xdp)",
            "4.00 M",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn a_console_that_does_not_answer_is_reported_and_the_last_status_stays() {
        let mut view = view();
        view.failed("connection refused".into());
        let text = drawn(&view, &two_seconds(), 100, 24);
        assert!(
            text.contains("no answer from the console: connection refused") && text.contains("3.00 M"),
            "{text}"
        );
        view.answered();
        assert!(!drawn(&view, &two_seconds(), 100, 24).contains("no answer"));
        assert!(drawn(&view, &History::default(), 100, 24).contains("lineside at 127.0.0.1:7700"));
    }

    #[test]
    fn a_narrow_terminal_shows_fewer_columns_and_cuts_no_number() {
        let wide = drawn(&view(), &two_seconds(), 82, 24);
        assert!(wide.contains("height") && wide.contains("75.0"), "{wide}");
        let narrow = drawn(&view(), &two_seconds(), 54, 24);
        assert!(
            !narrow.contains("height") && !narrow.contains("drops/s"),
            "{narrow}"
        );
        for part in ["fast path/s", "3.00 M", "1.00 M", "hits %", "75.0"] {
            assert!(narrow.contains(part), "{part}: {narrow}");
        }
        assert!(!drawn(&view(), &two_seconds(), 40, 24).contains("75.0"));
    }

    /// Returns two statuses with two services each, one second apart.
    fn two_services() -> History {
        let mut history = History::default();
        let start = Instant::now();
        for (second, host) in [(0, 0), (1, 500)] {
            let mut snapshot = snapshot(second, 0, 0, host, 0);
            let mut other = snapshot.services[0].clone();
            other.name = "hybrid".into();
            other.protocols = vec!["gRPC".into(), "UDP".into()];
            snapshot.services.push(other);
            history.add(start + Duration::from_secs(second), snapshot);
        }
        history
    }

    #[test]
    fn a_wide_terminal_shows_services_next_to_each_other() {
        let narrow = drawn(&view(), &two_services(), 100, 24);
        assert!(
            narrow.contains("transfer: answers per second, highest 500/s"),
            "{narrow}"
        );
        assert!(!narrow.contains("hybrid: answers"), "{narrow}");
        assert!(narrow.contains("gRPC, UDP"), "{narrow}");
        let wide = drawn(&view(), &two_services(), 160, 24);
        let captions = wide.lines().find(|line| line.contains("transfer: answers"));
        assert!(
            captions.is_some_and(|line| line.contains("hybrid: answers")),
            "{wide}"
        );
        let values = wide.lines().find(|line| line.contains("host_replies"));
        assert_eq!(
            values.map(|line| line.matches("host_replies").count()),
            Some(2),
            "{wide}"
        );
        // The columns of the table of services stay next to each other.
        let header = wide
            .lines()
            .find(|line| line.contains("hits %"))
            .expect("a header");
        assert!(header.trim_end_matches(['"', ' ']).len() < 90, "{header}");
    }

    #[test]
    fn a_wide_terminal_shows_more_values_of_one_service() {
        let mut history = two_seconds();
        let mut latest = history.latest().expect("a status").clone();
        for number in 0..40 {
            latest.services[0].host.insert(format!("value_{number:02}"), 7);
        }
        history.add(Instant::now() + Duration::from_secs(2), latest);
        let shown = |width| drawn(&view(), &history, width, 24).matches("value_").count();
        let (narrow, wide) = (shown(100), shown(200));
        assert!(narrow > 5 && wide > 2 * narrow, "{narrow}, {wide}");
    }

    #[test]
    fn a_small_terminal_is_no_error() {
        for (width, height) in [(1, 1), (20, 4), (40, 8), (200, 60)] {
            drawn(&view(), &two_seconds(), width, height);
        }
    }

    #[test]
    fn values_have_their_units() {
        let value = |value, rate, unit| Value {
            name: "name".into(),
            value,
            rate,
            unit,
        };
        for (value, now, rate) in [
            (
                value(1_500_000_000, Some(2.5e8), "seconds"),
                "1.500 s",
                "0.25 s/s",
            ),
            (value(2048, Some(1_250_000.0), "bytes"), "2048 B", "1.25 MB/s"),
            (value(8, Some(4.0), "bytes"), "8 B", "4 B/s"),
            (value(7, Some(3.0), ""), "7", "3/s"),
            (value(7, None, "requests"), "7", ""),
        ] {
            assert_eq!(with_units(&value), (now.into(), rate.into()));
        }
        let narrow = drawn(&view(), &two_seconds(), 54, 24);
        assert!(
            narrow.contains("highest 4.00 M/s") && narrow.contains("1.00 M/s"),
            "{narrow}"
        );
    }

    #[test]
    fn rates_have_at_most_four_digits() {
        for (rate, text) in [
            (0.0, "0"),
            (999.4, "999"),
            (999.6, "1.00 k"),
            (12_345.0, "12.3 k"),
            (999_499.0, "999 k"),
            (999_600.0, "1.00 M"),
            (123_456_789.0, "123 M"),
            (2.5e9, "2.50 G"),
        ] {
            assert_eq!(short(rate), text, "{rate}");
        }
    }
}
