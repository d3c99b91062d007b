//! Rule for links in the documents: every relative link leads to a file of the repository, every anchor leads to a
//! heading of its page, and every page of `docs/` is in the book's table of contents.
//!
//! The anchor of a heading has the form that GitHub and mdBook give it: lower case, without punctuation, spaces as
//! hyphens, and a number if the page has the same heading again. Links within code are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

/// Path of the book's table of contents.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Link of a page: its line, counted from 1, and its target.
type Link = (usize, String);

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the lines of a page outside fenced and indented code, with their numbers, counted from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let (mut fenced, mut blank) = (false, true);
    let mut indented = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        // Four spaces after a blank line begin a block of code; after text they continue a paragraph or a list.
        indented = line.starts_with("    ") && (blank || indented);
        blank = line.trim().is_empty();
        (!fenced && !indented).then_some((index + 1, line))
    })
}

/// Removes code spans from a line, because text within them is not a link.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// Returns the links of a page. A link may have a line break before its target.
fn links(text: &str) -> Vec<Link> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        let mut rest = line.as_str();
        while let Some((_, after)) = rest.split_once("](") {
            let target = after.split([')', ' ']).next().unwrap_or_default();
            found.push((number, target.trim_matches(['<', '>']).to_owned()));
            rest = after;
        }
    }
    found
}

/// Returns the anchor of a heading. It lacks the number that a repeated heading gets.
fn anchor(heading: &str) -> String {
    let mut text = String::new();
    // The text of a link belongs to the anchor; its target does not.
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        text.push_str(before);
        rest = after.split_once(')').map_or("", |(_, rest)| rest);
    }
    text.push_str(rest);
    let kept = text.trim().to_lowercase();
    let kept = kept
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the anchors of a page's headings.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut found = BTreeSet::new();
    for (_, line) in prose(text) {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let anchor = anchor(heading);
        let time = times.entry(anchor.clone()).or_default();
        found.insert(match *time {
            0 => anchor,
            time => format!("{anchor}-{time}"),
        });
        *time += 1;
    }
    found
}

/// Resolves `.` and `..` in a path of the repository. Returns `None` if the path leads out of the repository.
fn resolve(path: &Path) -> Option<PathBuf> {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(part) => resolved.push(part),
            Component::CurDir => {}
            Component::ParentDir => {
                if !resolved.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(resolved)
}

/// Returns the findings in the links of the pages, in the form `page:line: what`. `exists` returns true if the
/// repository has this file or folder.
fn broken(pages: &BTreeMap<String, String>, exists: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for (page, text) in pages {
        for (line, target) in links(text) {
            if ["http://", "https://", "mailto:"]
                .iter()
                .any(|scheme| target.starts_with(scheme))
            {
                continue;
            }
            let (file, wanted) = target
                .split_once('#')
                .map_or((&*target, None), |(f, a)| (f, Some(a)));
            let path = if file.is_empty() {
                Some(PathBuf::from(page))
            } else {
                let folder = Path::new(page).parent().unwrap_or(Path::new(""));
                resolve(&folder.join(file))
            };
            let Some(path) = path.filter(|path| exists(path)) else {
                found.push(format!("{page}:{line}: there is no file for `{target}`"));
                continue;
            };
            let Some(wanted) = wanted else { continue };
            let other = pages.get(path.to_str().unwrap_or_default());
            if other.is_some_and(|text| !anchors(text).contains(wanted)) {
                found.push(format!("{page}:{line}: there is no heading for `{target}`"));
            }
        }
    }
    found
}

/// Returns a finding for each page of `docs/` that is missing in the table of contents.
fn not_in_the_book(pages: &BTreeMap<String, String>) -> Vec<String> {
    let summary = pages.get(SUMMARY).map(String::as_str).unwrap_or_default();
    let listed: BTreeSet<String> = links(summary).into_iter().map(|(_, target)| target).collect();
    let in_docs = pages.keys().filter_map(|page| page.strip_prefix("docs/"));
    let lacking = in_docs.filter(|page| *page != "SUMMARY.md" && !listed.contains(*page));
    lacking
        .map(|page| format!("{SUMMARY}: `{page}` is missing"))
        .collect()
}

/// Returns every Markdown file that git tracks or would track, by its path; empty without git.
fn pages() -> BTreeMap<String, String> {
    let listing = Command::new("git")
        .args([
            "-c",
            "safe.directory=*",
            "ls-files",
            "-co",
            "--exclude-standard",
            "*.md",
        ])
        .current_dir(root())
        .output();
    let Ok(listing) = listing else {
        return BTreeMap::new();
    };
    let names = String::from_utf8_lossy(&listing.stdout).into_owned();
    let read = |name: &str| Some((name.to_owned(), std::fs::read_to_string(root().join(name)).ok()?));
    names.lines().filter_map(read).collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let pages = pages();
    if pages.is_empty() {
        println!("skipped: git lists no Markdown files here");
        return;
    }
    assert!(
        pages.contains_key("README.md") && pages.contains_key(SUMMARY),
        "{:?}",
        pages.keys()
    );
    let found = broken(&pages, |path| root().join(path).exists());
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn every_page_is_in_the_book() {
    let pages = pages();
    if pages.is_empty() {
        println!("skipped: git lists no Markdown files here");
        return;
    }
    let found = not_in_the_book(&pages);
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn broken_links_are_found() {
    let page = "# The `one` page, 2\n\n[a](b.md) [c](b.md#two) [d](#the-one-page-2) [e](../README.md)\n\n\
                [f](https://example.com/x) `[g](gone.md)`\n\n    [h](gone.md)\n\n```\n[i](gone.md)\n```\n";
    let other = "## Two\n## Two\n### [Three](x.md) more\n";
    let pages = |page: &str| {
        let named = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
        BTreeMap::from([("docs/a.md", page), ("docs/b.md", other), ("docs/x.md", "")].map(named))
    };
    let files = ["docs/a.md", "docs/b.md", "docs/x.md", "README.md"];
    let found = |page: &str| {
        broken(&pages(page), |path| {
            files.iter().any(|file| Path::new(file) == path)
        })
    };
    assert_eq!(found(page), Vec::<String>::new());
    assert_eq!(
        found("[a](b.md#two-1) [b](b.md#three-more)\n"),
        Vec::<String>::new()
    );
    for (line, what) in [
        ("[a](c.md)", "docs/a.md:1: there is no file for `c.md`"),
        (
            "[a](../../README.md)",
            "docs/a.md:1: there is no file for `../../README.md`",
        ),
        (
            "[a](b.md#three)",
            "docs/a.md:1: there is no heading for `b.md#three`",
        ),
        ("[a](#two)", "docs/a.md:1: there is no heading for `#two`"),
        ("[a\nb](c.md)", "docs/a.md:2: there is no file for `c.md`"),
    ] {
        assert_eq!(found(line), [what]);
    }
}

#[test]
fn a_page_that_the_book_lacks_is_found() {
    let pages = |summary: &str| {
        let named = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
        BTreeMap::from([(SUMMARY, summary), ("docs/a/b.md", ""), ("README.md", "")].map(named))
    };
    assert_eq!(not_in_the_book(&pages("- [b](a/b.md)\n")), Vec::<String>::new());
    assert_eq!(
        not_in_the_book(&pages("- [b](b.md)\n")),
        ["docs/SUMMARY.md: `a/b.md` is missing"]
    );
}
