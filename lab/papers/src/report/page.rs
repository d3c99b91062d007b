//! Text of the page. Every text from outside this module is escaped.

use super::{Made, Report};
use crate::section::{Figure, Finding, HEADINGS, Section, Verdict};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const STYLE: &str = include_str!("style.css");
const SECONDS_PER_DAY: u64 = 24 * 3_600;

/// Returns the page of a report. Plots are read from their files.
pub(super) fn html(report: &Report) -> String {
    let mut page = String::from("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n");
    page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n";
    page += "<title>The papers' figures by Lineside</title>\n";
    page += &format!("<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n");
    head(report, &mut page);
    for made in &report.made {
        paper(report, made, &mut page);
    }
    page += "</main>\n</body>\n</html>\n";
    page
}

/// Returns a text with the characters that have a meaning in HTML escaped.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            other => escaped.push(other),
        }
    }
    escaped
}

/// Appends one line of HTML. Writing into a `String` never fails.
macro_rules! put {
    ($page:expr, $($text:tt)*) => {{
        let _ = writeln!($page, $($text)*);
    }};
}

fn head(report: &Report, page: &mut String) {
    put!(page, "<h1>The papers' figures by Lineside</h1>");
    let all = "lineside-lab papers all";
    let quick = if report.parameters.quick { " --quick" } else { "" };
    put!(
        page,
        "<p>{}, {}, seed {}, on {}. The run began on {} and took {}. Command: <code>{all}{quick}</code></p>",
        escaped(&report.program),
        if report.parameters.quick {
            "short run"
        } else {
            "full run"
        },
        report.parameters.seed,
        escaped(&report.machine.to_string()),
        date(report.date),
        duration(report.took_s())
    );
    if let Some(taken) = &report.machine.taken {
        let text = format!(
            "Processor time that the machine gave to others during the run: other processes {:.1} %, the hypervisor \
             {:.1} %.",
            taken.others_percent, taken.stolen_percent
        );
        let advice = match taken.is_too_much() {
            true => " The machine was not quiet; run the command again before you use the ratios.",
            false => "",
        };
        put!(page, "<p class=\"notice\">{text}{advice}</p>");
    }
    page.push_str(
        "<p>The column of the paper has the words of its text; values that are only drawn in a figure are not \
         used. The ratio is Lineside's value divided by the paper's. The papers used other hardware, so most ratios \
         compare machines too; <b>holds</b> and <b>fails</b> mark claims that software can confirm or refute.</p>\n",
    );
    overview(report, page);
}

fn overview(report: &Report, page: &mut String) {
    let headings = ["paper", "values", "holds", "fails", "not measured", "time"];
    open_table(&headings, page);
    for made in &report.made {
        let name = format!(
            "<a href=\"#{0}\">{1}: {0}</a>",
            made.paper.service(),
            made.paper.number()
        );
        let numbers = match &made.section {
            Ok(section) => {
                let count = |of: Verdict| section.findings.iter().filter(|one| one.verdict == of).count();
                let missing = section.findings.iter().filter(|one| one.ours.is_none()).count();
                let values = [
                    section.findings.len(),
                    count(Verdict::Holds),
                    count(Verdict::Fails),
                    missing + section.not_measured.len(),
                ];
                values.map(|value| value.to_string())
            }
            Err(_) => ["the run failed", "", "", ""].map(str::to_owned),
        };
        let mut cells = vec![name];
        cells.extend(numbers);
        cells.push(duration(made.took_s));
        row(&headings, &cells, page);
    }
    page.push_str("</tbody>\n</table>\n");
}

fn open_table(headings: &[&str], page: &mut String) {
    page.push_str("<table>\n<thead><tr>");
    for heading in headings {
        let _ = write!(page, "<th scope=\"col\">{}</th>", escaped(heading));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
}

/// Appends a row of cells, which are HTML. Narrow screens show the heading of each cell.
fn row(headings: &[&str], cells: &[String], page: &mut String) {
    page.push_str("<tr>");
    for (heading, cell) in headings.iter().zip(cells) {
        let class = match *heading {
            "Lineside" | "ratio" => " class=\"number\"",
            _ => "",
        };
        let _ = write!(page, "<td{class} data-label=\"{}\">{cell}</td>", escaped(heading));
    }
    page.push_str("</tr>\n");
}

fn paper(report: &Report, made: &Made, page: &mut String) {
    let paper = made.paper;
    put!(page, "<section id=\"{}\">", paper.service());
    put!(page, "<h2>Paper {}: {}</h2>", paper.number(), paper.service());
    put!(page, "<p>{}</p>", escaped(paper.citation()));
    put!(
        page,
        "<p>Command: <code>{}</code>. The run took {} on {} &#215; {}, Linux {}.</p>",
        escaped(&made.command),
        duration(made.took_s),
        report.machine.cores,
        escaped(&report.machine.cpu),
        escaped(&report.machine.kernel)
    );
    match &made.section {
        Ok(section) => results(report, section, page),
        Err(error) => notices(
            "fails",
            "The run of this paper failed",
            std::slice::from_ref(error),
            page,
        ),
    }
    page.push_str("</section>\n");
}

fn results(report: &Report, section: &Section, page: &mut String) {
    notices("fails", "Failure", &section.failures, page);
    notices("", "Warning", &section.warnings, page);
    notices("", "Not measured", &section.not_measured, page);
    if !section.findings.is_empty() {
        page.push_str("<h3>Values</h3>\n");
        open_table(&HEADINGS, page);
        for finding in &section.findings {
            row(&HEADINGS, &cells(finding), page);
        }
        page.push_str("</tbody>\n</table>\n");
    }
    let (plots, data): (Vec<_>, Vec<_>) = section.figures.iter().partition(|one| one.svg.is_some());
    if !plots.is_empty() {
        page.push_str("<h3>Figures</h3>\n");
        plots.iter().for_each(|figure| plot(report, figure, page));
    }
    if !data.is_empty() {
        page.push_str("<h3>Further data</h3>\n<ul>\n");
        for figure in data {
            put!(
                page,
                "<li>{}{}</li>",
                escaped(&figure.title),
                links(report, figure)
            );
        }
        page.push_str("</ul>\n");
    }
}

fn notices(class: &str, name: &str, texts: &[String], page: &mut String) {
    for text in texts {
        put!(
            page,
            "<p class=\"notice {class}\"><b>{name}:</b> {}</p>",
            escaped(text)
        );
    }
}

fn cells(finding: &Finding) -> Vec<String> {
    let mut cells: Vec<String> = finding.cells().iter().map(|cell| escaped(cell)).collect();
    if !finding.remark.is_empty() {
        let remark = escaped(&finding.remark);
        cells[1] = format!("<span>{}<span class=\"remark\">{remark}</span></span>", cells[1]);
    }
    if finding.ours.is_none() {
        cells[3] = "not measured".into();
    }
    if finding.verdict != Verdict::None {
        cells[5] = format!("<span class=\"{0}\">{0}</span>", finding.verdict);
    }
    cells
}

fn plot(report: &Report, figure: &Figure, page: &mut String) {
    page.push_str("<figure>\n");
    let text = figure.svg.as_ref().and_then(|path| fs::read_to_string(path).ok());
    match text.and_then(|text| inlined(&text, &figure.title)) {
        Some(svg) => put!(page, "{svg}"),
        None => page.push_str("<p>The plot cannot be shown here; its file is linked below.</p>\n"),
    }
    let title = escaped(&figure.title);
    put!(page, "<figcaption>{title}{}</figcaption>", links(report, figure));
    page.push_str("</figure>\n");
}

/// Returns the `svg` element of a plot with a label for screen readers. Returns `None` for an SVG that has active
/// content or refers to other files.
pub(super) fn inlined(svg: &str, title: &str) -> Option<String> {
    let (from, to) = (svg.find("<svg")?, svg.rfind("</svg>")?);
    let body = svg.get(from + "<svg".len()..to)?;
    let namespace = " xmlns=\"http://www.w3.org/2000/svg\"";
    let body = body.replacen(namespace, "", 1);
    let lower = body.to_ascii_lowercase();
    let is_active = ["<script", "href", "url(", "://", "<foreignobject", "<image"];
    let has_handler = lower
        .split_whitespace()
        .any(|word| word.starts_with("on") && word.contains('='));
    if has_handler || is_active.iter().any(|part| lower.contains(part)) {
        return None;
    }
    Some(format!(
        "<svg role=\"img\" aria-label=\"{}\"{body}</svg>",
        escaped(title)
    ))
}

fn links(report: &Report, figure: &Figure) -> String {
    let mut links = String::new();
    for (name, path) in [("CSV", &figure.csv), ("SVG", &figure.svg)] {
        if let Some(path) = path {
            let to = relative(&report.parameters.out, path);
            let _ = write!(links, " <a href=\"{}\">{name}</a>", escaped(&to));
        }
    }
    links
}

/// Returns the address of a file relative to the page. Bytes that have a meaning in an address are escaped.
pub(super) fn relative(out: &Path, path: &Path) -> String {
    let path = path.strip_prefix(out).unwrap_or(path).to_string_lossy();
    let mut address = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' => address.push(byte.into()),
            other => {
                let _ = write!(address, "%{other:02X}");
            }
        }
    }
    address
}

/// Returns a duration in minutes and seconds.
fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole / 60 {
        0 => format!("{whole} s"),
        minutes => format!("{minutes} min {} s", whole % 60),
    }
}

/// Returns date and time in UTC, as 2026-11-26 18:40 UTC.
pub(super) fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (mut days, of_day) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [
        31,
        28 + u64::from(is_leap(year)),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
        31,
    ];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let (hour, minute) = (of_day / 3_600, of_day % 3_600 / 60);
    format!(
        "{year}-{:02}-{:02} {hour:02}:{minute:02} UTC",
        month + 1,
        days + 1
    )
}
