//! Tests of the page. A small parser, which shares no code with the page, checks that every element is closed.

use super::page::{date, escaped, html, inlined, relative};
use super::*;
use crate::section::{Figure, Finding, Verdict};
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

const NASTY: &str = "<script>alert('1 & \"2\"')</script>";
const SVG: &str = "<?xml version=\"1.0\"?>\n<svg width=\"96\" height=\"52\" viewBox=\"0 0 96 52\" \
                   xmlns=\"http://www.w3.org/2000/svg\">\n<text x=\"1\">a title</text>\n<circle r=\"1\"/></svg>\n";

/// Element or text of a page.
#[derive(Debug, PartialEq)]
enum Node {
    /// Name of an element that opens, and its attributes.
    Open(String, Vec<(String, String)>),
    Text(String),
}

/// Returns the nodes of a page in their order. Panics if an element is not closed in the right order, an attribute has
/// no quotes, or a reference to a character has no end.
fn parse(page: &str) -> Vec<Node> {
    let (mut nodes, mut open, mut rest) = (Vec::new(), Vec::<String>::new(), page);
    while !rest.is_empty() {
        let Some(after) = rest.strip_prefix('<') else {
            let end = rest.find('<').unwrap_or(rest.len());
            let raw = open.last().is_some_and(|name| name == "style");
            let text = if raw {
                rest[..end].to_owned()
            } else {
                unescaped(&rest[..end])
            };
            nodes.push(Node::Text(text));
            rest = &rest[end..];
            continue;
        };
        let mut quoted = false;
        let end = after.find(|c| {
            quoted ^= c == '"';
            c == '>' && !quoted
        });
        let (tag, after) = after.split_at(end.unwrap_or_else(|| panic!("a tag without an end: {after}")));
        rest = &after[1..];
        if tag.starts_with('!') {
            continue;
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "closed in the wrong order");
            continue;
        }
        let is_closed = tag.ends_with('/');
        let tag = tag.trim_end_matches('/').trim_end();
        let (name, attributes) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
        assert!(
            name.chars().all(|c| c.is_ascii_alphanumeric()),
            "the name of <{tag}>"
        );
        nodes.push(Node::Open(name.to_owned(), parse_attributes(attributes)));
        if !is_closed {
            open.push(name.to_owned());
        }
    }
    assert_eq!(open, Vec::<String>::new(), "elements without an end");
    nodes
}

fn parse_attributes(mut text: &str) -> Vec<(String, String)> {
    let mut attributes = Vec::new();
    while !text.trim().is_empty() {
        let (name, after) = text
            .trim_start()
            .split_once("=\"")
            .expect("an attribute with a quoted value");
        let (value, after) = after.split_once('"').expect("the end of an attribute");
        assert!(!value.contains('<'), "{name}: {value}");
        attributes.push((name.to_owned(), unescaped(value)));
        text = after;
    }
    attributes
}

fn unescaped(text: &str) -> String {
    let mut parts = text.split('&');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (reference, after) = part
            .split_once(';')
            .unwrap_or_else(|| panic!("&{part} has no end"));
        plain += match reference {
            "amp" => "&",
            "lt" => "<",
            "gt" => ">",
            "quot" => "\"",
            "#39" | "apos" => "'",
            "#215" => "\u{d7}",
            other => panic!("an unknown reference: &{other};"),
        };
        plain += after;
    }
    plain
}

/// Returns a report of one paper whose every text has characters that must be escaped, and of one that failed.
fn report(out: &Path) -> Report {
    fs::create_dir_all(out.join("fabric")).expect("a folder");
    let file = |name: &str| Some(out.join("fabric").join(name));
    fs::write(out.join("fabric/a plot.svg"), SVG).expect("a plot");
    let finding = |name: &str, ours, verdict| Finding {
        figure: format!("figure {name} {NASTY}"),
        quantity: format!("quantity {name} {NASTY}"),
        paper: format!("paper {name} {NASTY}"),
        paper_value: Some(2.0),
        ours,
        unit: "B",
        remark: format!("remark {name} {NASTY}"),
        verdict,
    };
    let section = Section {
        paper: Paper::Fabric,
        command: String::new(),
        findings: vec![
            finding("a", Some(3.0), Verdict::Holds),
            finding("b", None, Verdict::None),
            finding("c", Some(9_000.0), Verdict::Fails),
        ],
        figures: vec![
            Figure {
                title: format!("plot {NASTY}"),
                svg: file("a plot.svg"),
                csv: file("a.csv"),
            },
            Figure {
                title: format!("data {NASTY}"),
                svg: None,
                csv: file("b.csv"),
            },
        ],
        not_measured: vec![format!("no rights {NASTY}")],
        warnings: vec![format!("a warning {NASTY}")],
        failures: vec![format!("a failure {NASTY}")],
        took_s: 3.0,
    };
    let parameters = Parameters {
        out: out.to_owned(),
        quick: true,
        seed: 7,
    };
    let mut report = Report::new(parameters, NASTY);
    for (paper, section) in [
        (Paper::Spv, Err(format!("an error {NASTY}"))),
        (Paper::Fabric, Ok(section)),
    ] {
        report.made.push(Made {
            paper,
            command: report.parameters.command(paper),
            section,
            took_s: 63.0,
        });
    }
    report
}

#[test]
fn every_element_is_closed_and_every_text_is_escaped_and_present() {
    let folder = tempfile::tempdir().unwrap();
    let report = report(folder.path());
    let page = html(&report);
    let nodes = parse(&page);
    let texts: Vec<_> = nodes
        .iter()
        .filter_map(|node| match node {
            Node::Text(text) => Some(text.as_str()),
            Node::Open(..) => None,
        })
        .collect();
    let all = texts.join("\n");
    let in_findings = ["a", "b", "c"].into_iter().flat_map(|name| {
        ["figure", "quantity", "paper", "remark"].map(|part| format!("{part} {name} {NASTY}"))
    });
    let others = ["plot", "data", "no rights", "a warning", "a failure", "an error"];
    for text in in_findings.chain(others.map(|part| format!("{part} {NASTY}"))) {
        assert!(all.contains(&text), "{text}");
    }
    for text in [
        "3 B",
        "1.5",
        "9,000 B",
        "4,500",
        "not measured",
        "holds",
        "fails",
        "1 min 3 s",
        "lineside-lab papers fabric --quick --seed 7",
        Paper::Fabric.citation(),
        Paper::Spv.citation(),
        report.machine.cpu.as_str(),
    ] {
        assert!(all.contains(text), "{text}");
    }
    let names: BTreeSet<_> = nodes
        .iter()
        .filter_map(|node| match node {
            Node::Open(name, _) => Some(name.as_str()),
            Node::Text(_) => None,
        })
        .collect();
    for wanted in ["svg", "table", "figure", "style", "circle"] {
        assert!(names.contains(wanted), "{wanted}");
    }
    assert!(!names.contains("script") && !names.contains("img") && !names.contains("link"));
}

#[test]
fn every_file_is_linked_and_nothing_comes_from_outside() {
    let folder = tempfile::tempdir().unwrap();
    let page = html(&report(folder.path()));
    for outside in ["http:", "https:", "src=", "url(", "@import", "<script"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let nodes = parse(&page);
    let links: BTreeSet<_> = nodes
        .iter()
        .filter_map(|node| match node {
            Node::Open(name, attributes) if name == "a" => attributes.first().cloned(),
            _ => None,
        })
        .map(|(name, value)| {
            assert_eq!(name, "href");
            value
        })
        .collect();
    let expected = [
        "#fabric",
        "#spv",
        "fabric/a%20plot.svg",
        "fabric/a.csv",
        "fabric/b.csv",
    ];
    assert_eq!(links, expected.map(String::from).into());
    let is_target = |id: &str| {
        nodes.iter().any(|node| {
            matches!(node, Node::Open(_, attributes) if attributes.contains(&("id".into(), id.into())))
        })
    };
    assert!(is_target("fabric") && is_target("spv"));
}

#[test]
fn the_parser_of_these_tests_finds_faults() {
    for fault in [
        "<p><b></p></b>",
        "<p>",
        "<a href=x></a>",
        "a & b",
        "<p title=\"<\"></p>",
        "</p>",
    ] {
        assert!(std::panic::catch_unwind(|| parse(fault)).is_err(), "{fault}");
    }
    assert_eq!(parse("<p>a &lt; b<br/></p>").len(), 3);
}

#[test]
fn plots_with_active_content_are_not_inlined() {
    let plain = inlined(SVG, "t \"1\"").unwrap();
    assert!(
        plain.starts_with("<svg role=\"img\" aria-label=\"t &quot;1&quot;\" width"),
        "{plain}"
    );
    assert!(plain.ends_with("</svg>") && !plain.contains("xmlns"), "{plain}");
    for active in [
        "<script>1</script>",
        "<a href=\"x\">y</a>",
        "<g onclick=\"x\"></g>",
        "<g style=\"fill: URL(x)\"></g>",
        "<image/>",
    ] {
        assert_eq!(
            inlined(&SVG.replace("<circle r=\"1\"/>", active), ""),
            None,
            "{active}"
        );
    }
    assert_eq!(inlined("no plot", ""), None);
}

#[test]
fn a_failed_paper_and_wrong_replies_are_failures() {
    let folder = tempfile::tempdir().unwrap();
    let mut report = report(&folder.path().join("new/folder"));
    assert_eq!(
        report.failures(),
        [
            format!("spv: an error {NASTY}"),
            format!("fabric: a failure {NASTY}")
        ]
    );
    let path = report.write().unwrap();
    assert_eq!(path, folder.path().join("new/folder/index.html"));
    parse(&fs::read_to_string(path).unwrap());
}

#[test]
fn one_paper_that_fails_does_not_prevent_the_next() {
    let folder = tempfile::tempdir().unwrap();
    // A file where the first paper's folder must be.
    fs::write(folder.path().join("spv"), "").unwrap();
    let parameters = Parameters {
        out: folder.path().to_owned(),
        quick: true,
        seed: 1,
    };
    let mut report = Report::new(parameters, "1");
    let error = report.add(Paper::Spv, &mut |_| ()).section.clone().unwrap_err();
    assert!(error.contains("--out"), "{error}");
    report.made.push(Made {
        paper: Paper::Fabric,
        command: String::new(),
        section: Err("another error".into()),
        took_s: 0.0,
    });
    assert_eq!(report.failures().len(), 2);
}

#[test]
fn dates_agree_with_known_ones() {
    for (seconds, text) in [
        (0, "1970-01-01 00:00 UTC"),
        (951_827_696, "2000-02-29 12:34 UTC"),
        (1_709_251_199, "2024-02-29 23:59 UTC"),
        (1_735_689_600, "2025-01-01 00:00 UTC"),
        (4_107_542_399, "2100-02-28 23:59 UTC"),
        (4_107_542_400, "2100-03-01 00:00 UTC"),
    ] {
        assert_eq!(date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), text);
    }
}

#[test]
fn addresses_and_texts_are_escaped() {
    assert_eq!(
        relative(Path::new("out"), Path::new("out/a b/\"c#.svg")),
        "a%20b/%22c%23.svg"
    );
    assert_eq!(escaped("a<b>&'\""), "a&lt;b&gt;&amp;&#39;&quot;");
}
