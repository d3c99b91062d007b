//! Parser of CLAIMS.md. The page itself describes its format, for people and for this parser.

use std::fmt::{self, Display, Formatter};

/// Line of names of every table of claims.
const HEADER: &str = "| id | claim | page | figure | claimed | holds if | machine |";
/// Line between the names and the rows.
const SEPARATOR: &str = "|---|---|---|---|---|---|---|";

/// Sections of the page in their order.
#[derive(Debug)]
pub struct Page {
    pub sections: Vec<Section>,
}

/// Command with the claims that it shows.
#[derive(Debug)]
pub struct Section {
    /// Heading, without backquotes.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Duration that the page states.
    pub minutes: u32,
    pub needs: Vec<Need>,
    pub claims: Vec<Claim>,
}

/// Requirement of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Root and BPF.
    Root,
    /// Two cores without other work.
    Quiet,
}

impl Need {
    /// Returns the name on the page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Quiet => "quiet",
        }
    }
}

/// Row of a table.
#[derive(Debug)]
pub struct Claim {
    pub id: String,
    /// Sentence that states the claim.
    pub text: String,
    /// Target of the link to the page that has the claim.
    pub page: String,
    pub figure: Figure,
    pub claimed: f64,
    /// Claimed figure as it is written on the page.
    pub claimed_text: String,
    pub bound: Bound,
    pub machine: Machine,
}

impl Claim {
    /// Returns the claimed figure and its bound for a reader.
    pub fn claimed_words(&self) -> String {
        format!("claimed {} ({})", self.claimed_text, self.bound)
    }
}

/// Place of a figure in the result of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Exit code of the command.
    ExitCode,
    /// JSON pointer into the command's output; `*` selects all elements of an array, whose figures are added.
    Pointer(String),
}

impl Display for Figure {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::ExitCode => "exit code",
            Self::Pointer(pointer) => pointer,
        })
    }
}

/// Condition under which a figure agrees with the claimed one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Equal.
    Exact,
    /// Within this many percent of the claimed value.
    Within(f64),
    /// At most this many percent less than claimed.
    Less(f64),
    /// At most this many percent more than claimed.
    More(f64),
    AtLeast(f64),
    AtMost(f64),
}

impl Bound {
    fn parse(text: &str) -> Option<Self> {
        if text == "exact" {
            return Some(Self::Exact);
        }
        let percent = |sign: char| number(text.strip_prefix(sign)?.strip_suffix(" %")?);
        let positive = |value: Option<f64>| value.filter(|value| *value > 0.0);
        None.or_else(|| positive(percent('±')).map(Self::Within))
            .or_else(|| positive(percent('-')).map(Self::Less))
            .or_else(|| positive(percent('+')).map(Self::More))
            .or_else(|| number(text.strip_prefix(">= ")?).map(Self::AtLeast))
            .or_else(|| number(text.strip_prefix("<= ")?).map(Self::AtMost))
    }

    /// Returns true if the bound is a share of the claimed value, which must then be positive.
    const fn is_relative(self) -> bool {
        matches!(self, Self::Within(_) | Self::Less(_) | Self::More(_))
    }

    /// Returns true if a claim of `claimed` holds with the value `found`.
    pub fn holds(self, claimed: f64, found: f64) -> bool {
        let low = |percent: f64| claimed * (1.0 - percent / 100.0);
        let high = |percent: f64| claimed * (1.0 + percent / 100.0);
        match self {
            Self::Exact => found == claimed,
            Self::Within(percent) => (low(percent)..=high(percent)).contains(&found),
            Self::Less(percent) => found >= low(percent),
            Self::More(percent) => found <= high(percent),
            Self::AtLeast(limit) => found >= limit,
            Self::AtMost(limit) => found <= limit,
        }
    }
}

impl Display for Bound {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => write!(out, "exact"),
            Self::Within(percent) => write!(out, "±{percent} %"),
            Self::Less(percent) => write!(out, "-{percent} %"),
            Self::More(percent) => write!(out, "+{percent} %"),
            Self::AtLeast(limit) => write!(out, ">= {limit}"),
            Self::AtMost(limit) => write!(out, "<= {limit}"),
        }
    }
}

/// Dependence of a figure on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// No machine changes the figure.
    Any,
    /// Ratio of one run, valid without other work on the cores.
    Quiet,
    /// Absolute figure of the machine that the page names.
    Same,
}

impl Machine {
    fn parse(text: &str) -> Option<Self> {
        [Self::Any, Self::Quiet, Self::Same]
            .into_iter()
            .find(|one| one.name() == text)
    }

    /// Returns the name on the page.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Quiet => "quiet",
            Self::Same => "same",
        }
    }
}

/// Fault of a page.
#[derive(Debug, PartialEq, Eq)]
pub struct Fault {
    /// Number of the line, from 1.
    pub line: usize,
    pub words: String,
}

impl Display for Fault {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "line {}: {}", self.line, self.words)
    }
}

fn fault<T>(line: usize, words: impl Into<String>) -> Result<T, Fault> {
    let words = words.into();
    Err(Fault { line, words })
}

/// Parses a number that may have commas between thousands.
fn number(text: &str) -> Option<f64> {
    let is_number = |text: &str| {
        let mut parts = text.splitn(2, '.');
        let digits =
            |part: &str| !part.is_empty() && part.chars().all(|one| one.is_ascii_digit() || one == ',');
        parts.next().is_some_and(digits) && parts.next().is_none_or(digits)
    };
    is_number(text)
        .then(|| text.replace(',', "").parse().ok())
        .flatten()
}

/// Section that is being read.
struct Draft {
    line: usize,
    name: String,
    command: Option<Vec<String>>,
    minutes: Option<(u32, Vec<Need>)>,
    claims: Vec<Claim>,
}

impl Draft {
    fn finish(self) -> Result<Section, Fault> {
        let Some(command) = self.command else {
            return fault(self.line, "the section has no command");
        };
        let Some((minutes, needs)) = self.minutes else {
            return fault(self.line, "the section has no line `Minutes: N.`");
        };
        if self.claims.is_empty() {
            return fault(self.line, "the section has no claim");
        }
        Ok(Section {
            name: self.name,
            command,
            minutes,
            needs,
            claims: self.claims,
        })
    }
}

/// Part of the table in which a line is.
#[derive(PartialEq, Eq)]
enum Table {
    Outside,
    Separator,
    Rows,
}

impl Page {
    /// Parses a page. Text before the first section is not read.
    ///
    /// # Errors
    /// The page does not have the format that CLAIMS.md describes.
    pub fn parse(text: &str) -> Result<Self, Fault> {
        let (mut sections, mut draft, mut table) = (Vec::new(), None::<Draft>, Table::Outside);
        for (line, words) in (1..).zip(text.lines()) {
            if let Some(heading) = words.strip_prefix("## ") {
                sections.extend(draft.take().map(Draft::finish).transpose()?);
                table = Table::Outside;
                draft = Some(Draft {
                    line,
                    name: heading.replace('`', ""),
                    command: None,
                    minutes: None,
                    claims: Vec::new(),
                });
                continue;
            }
            if let Some(draft) = &mut draft {
                table = read_line(draft, line, words, &table)?;
            }
        }
        sections.extend(draft.map(Draft::finish).transpose()?);
        let page = Self { sections };
        page.without_repetitions()?;
        Ok(page)
    }

    fn without_repetitions(&self) -> Result<(), Fault> {
        if self.sections.is_empty() {
            return fault(1, "the page has no section");
        }
        let mut ids: Vec<_> = self.claims().map(|claim| &claim.id).collect();
        ids.sort();
        if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return fault(1, format!("two claims have the id `{}`", twice[0]));
        }
        let mut commands: Vec<_> = self.sections.iter().map(|section| &section.command).collect();
        commands.sort();
        match commands.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(twice) => fault(
                1,
                format!("two sections have the command `{}`", twice[0].join(" ")),
            ),
            None => Ok(()),
        }
    }

    /// Returns all claims.
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.sections.iter().flat_map(|section| &section.claims)
    }
}

/// Reads a line of a section, and returns the part of the table that follows it.
fn read_line(draft: &mut Draft, line: usize, words: &str, table: &Table) -> Result<Table, Fault> {
    match table {
        Table::Separator if words == SEPARATOR => return Ok(Table::Rows),
        Table::Separator => return fault(line, format!("this must be the line `{SEPARATOR}`")),
        Table::Rows if words.starts_with('|') => {
            draft.claims.push(claim(line, words)?);
            return Ok(Table::Rows);
        }
        Table::Rows | Table::Outside => {}
    }
    if words.starts_with('|') {
        return match words == HEADER && draft.claims.is_empty() {
            true => Ok(Table::Separator),
            false => fault(
                line,
                format!("a section has one table, which begins with `{HEADER}`"),
            ),
        };
    }
    if let Some(command) = words.strip_prefix("    ") {
        if draft.command.is_some() {
            return fault(line, "the section has a second command");
        }
        draft.command = Some(command.split_whitespace().map(str::to_owned).collect());
    } else if let Some(rest) = words.strip_prefix("Minutes: ") {
        if draft.minutes.is_some() {
            return fault(line, "the section has a second line `Minutes: N.`");
        }
        draft.minutes = Some(minutes(line, rest)?);
    }
    Ok(Table::Outside)
}

/// Parses the line `Minutes: N. Needs: root, quiet.` after its first word.
fn minutes(line: usize, rest: &str) -> Result<(u32, Vec<Need>), Fault> {
    let (count, needs) = match rest.split_once(". Needs: ") {
        Some((count, needs)) => (count, needs.strip_suffix('.')),
        None => (rest.strip_suffix('.').unwrap_or_default(), Some("")),
    };
    let (Ok(count @ 1..), Some(needs)) = (count.parse(), needs) else {
        return fault(
            line,
            "the line must be `Minutes: N.` or `Minutes: N. Needs: NAME, NAME.`",
        );
    };
    let known = |name: &str| match name {
        "root" => Ok(Need::Root),
        "quiet" => Ok(Need::Quiet),
        name => fault(line, format!("there is no need `{name}`; give root or quiet")),
    };
    let names = needs.split(", ").filter(|name| !name.is_empty());
    Ok((count, names.map(known).collect::<Result<_, _>>()?))
}

/// Parses a row.
fn claim(line: usize, words: &str) -> Result<Claim, Fault> {
    let cells: Vec<_> = words
        .strip_prefix("| ")
        .and_then(|words| words.strip_suffix(" |"))
        .map_or_else(Vec::new, |words| words.split(" | ").map(str::trim).collect());
    let [id, text, page, figure, claimed_text, bound, machine] = cells[..] else {
        return fault(line, "a row has seven cells, with ` | ` between them");
    };
    let is_id = |id: &str| {
        id.chars()
            .all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-')
    };
    if id.is_empty() || !is_id(id) {
        return fault(
            line,
            format!("`{id}` is not an id of small letters, digits and hyphens"),
        );
    }
    let target = page
        .split_once("](")
        .and_then(|(_, target)| target.strip_suffix(')'));
    let Some(page) = target else {
        return fault(line, format!("`{page}` is not a link to a page"));
    };
    let figure = match figure {
        "exit code" => Figure::ExitCode,
        pointer if pointer.starts_with('/') => Figure::Pointer(pointer.to_owned()),
        other => {
            return fault(
                line,
                format!("`{other}` is neither a JSON pointer nor `exit code`"),
            );
        }
    };
    let Some(claimed) = number(claimed_text) else {
        return fault(line, format!("`{claimed_text}` is not a number"));
    };
    let Some(bound) = Bound::parse(bound) else {
        return fault(
            line,
            format!("`{bound}` is not a bound such as `exact`, `-25 %` or `>= 4`"),
        );
    };
    if bound.is_relative() && claimed <= 0.0 {
        return fault(line, "a tolerance in percent needs a claimed value above 0");
    }
    let Some(machine) = Machine::parse(machine) else {
        return fault(line, format!("`{machine}` is not one of any, quiet and same"));
    };
    Ok(Claim {
        id: id.to_owned(),
        text: text.to_owned(),
        page: page.to_owned(),
        figure,
        claimed,
        claimed_text: claimed_text.to_owned(),
        bound,
        machine,
    })
}
