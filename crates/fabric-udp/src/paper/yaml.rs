//! Reads the part of YAML that the papers' configuration is written in: maps, lists and plain or quoted texts, by
//! indentation.
//! Everything else is refused, so that nothing is read as something else than it means.

/// Deepest nesting that is read.
const DEPTH_MAX: usize = 32;

/// A value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Node {
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

impl Node {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match self {
            Self::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, node)| node),
            _ => None,
        }
    }

    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The entries of a list; none of anything else.
    pub fn list(&self) -> &[Node] {
        match self {
            Self::List(entries) => entries,
            _ => &[],
        }
    }
}

/// A line with something on it.
struct Line<'t> {
    number: usize,
    indent: usize,
    text: &'t str,
}

impl Line<'_> {
    fn is_entry(&self) -> bool {
        self.text == "-" || self.text.starts_with("- ")
    }

    fn wrong(&self, what: &str) -> String {
        format!("line {}: {what}", self.number)
    }
}

/// Reads a document.
pub(super) fn parse(text: &str) -> Result<Node, String> {
    let mut lines = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let indent = line.len() - line.trim_start_matches(' ').len();
        let content = without_comment(line);
        let has_tab = content.contains('\t');
        let text = content.trim();
        let line = Line { number, indent, text };
        match text {
            "" => {}
            "---" if lines.is_empty() => {}
            _ if has_tab => return Err(line.wrong("a tab")),
            _ => lines.push(line),
        }
    }
    if lines.is_empty() {
        return Ok(Node::Map(Vec::new()));
    }
    let mut reading = Reading { lines, next: 0 };
    let node = reading.block(0)?;
    match reading.line() {
        Some(line) => Err(line.wrong("it is indented in another way than the lines before it")),
        None => Ok(node),
    }
}

/// The line up to a `#` that begins a comment.
fn without_comment(line: &str) -> &str {
    let (mut quote, mut before) = (None, ' ');
    for (at, letter) in line.char_indices() {
        match (quote, letter) {
            (None, '#') if before == ' ' => return line.get(..at).unwrap_or_default(),
            (None, '"' | '\'') if matches!(before, ' ' | ':') => quote = Some(letter),
            (Some(open), _) if open == letter => quote = None,
            _ => {}
        }
        before = letter;
    }
    line
}

struct Reading<'t> {
    lines: Vec<Line<'t>>,
    next: usize,
}

impl<'t> Reading<'t> {
    fn line(&self) -> Option<&Line<'t>> {
        self.lines.get(self.next)
    }

    /// The lines from the next one on that are indented as it is.
    fn block(&mut self, depth: usize) -> Result<Node, String> {
        let Some(line) = self.line() else {
            return Ok(Node::Text(String::new()));
        };
        if depth > DEPTH_MAX {
            return Err(line.wrong("it is nested too deep"));
        }
        let indent = line.indent;
        match line.is_entry() {
            true => self.list(indent, depth),
            false => self.map(indent, depth),
        }
    }

    fn list(&mut self, indent: usize, depth: usize) -> Result<Node, String> {
        let mut entries = Vec::new();
        while let Some(line) = self.lines.get_mut(self.next) {
            if line.indent != indent || !line.is_entry() {
                break;
            }
            let rest = line.text.get(1..).unwrap_or_default();
            let inner = rest.trim_start();
            if inner.is_empty() {
                self.next += 1;
                entries.push(self.nested(indent, depth)?);
            } else if key_of(inner).is_some() {
                // The entry is a map whose first key is on this line.
                line.indent += 1 + rest.len() - inner.len();
                line.text = inner;
                entries.push(self.block(depth + 1)?);
            } else {
                entries.push(scalar(inner).map_err(|what| line.wrong(what))?);
                self.next += 1;
            }
        }
        Ok(Node::List(entries))
    }

    fn map(&mut self, indent: usize, depth: usize) -> Result<Node, String> {
        let mut entries: Vec<(String, Node)> = Vec::new();
        while let Some(line) = self.line() {
            if line.indent != indent || line.is_entry() {
                break;
            }
            let (key, value) =
                key_of(line.text).ok_or_else(|| line.wrong("neither a key nor an entry of a list"))?;
            if entries.iter().any(|(known, _)| known == key) {
                return Err(line.wrong("a key for the second time"));
            }
            let node = match value {
                "" => None,
                value => Some(scalar(value).map_err(|what| line.wrong(what))?),
            };
            self.next += 1;
            let node = match node {
                Some(node) => node,
                // A list may be indented as its key is.
                None if self
                    .line()
                    .is_some_and(|line| line.indent == indent && line.is_entry()) =>
                {
                    self.list(indent, depth + 1)?
                }
                None => self.nested(indent, depth)?,
            };
            entries.push((key.to_owned(), node));
        }
        Ok(Node::Map(entries))
    }

    /// Reads what is indented deeper than the line before it; an empty text where nothing is.
    fn nested(&mut self, indent: usize, depth: usize) -> Result<Node, String> {
        match self.line() {
            Some(line) if line.indent > indent => self.block(depth + 1),
            _ => Ok(Node::Text(String::new())),
        }
    }
}

/// The key and the value on a line that begins with a key.
fn key_of(text: &str) -> Option<(&str, &str)> {
    let (key, value) = match text.strip_suffix(':') {
        Some(key) if !key.contains(": ") => (key, ""),
        _ => text.split_once(": ")?,
    };
    let is_plain = !key.is_empty() && !key.contains(['"', '\'', '{', '[', '&', '*']);
    is_plain.then_some((key.trim(), value.trim()))
}

fn scalar(text: &str) -> Result<Node, &'static str> {
    for quote in ['"', '\''] {
        if let Some(rest) = text.strip_prefix(quote) {
            let inner = rest
                .strip_suffix(quote)
                .ok_or("a quotation mark without its other one")?;
            if inner.contains([quote, '\\']) {
                return Err("a quoted text with quotation marks or `\\` in it, which is not read");
            }
            return Ok(Node::Text(inner.to_owned()));
        }
    }
    match text.starts_with(['{', '[', '&', '*', '|', '>', '!', '%', '@', '`']) {
        true => Err("a form of YAML that is not read here"),
        false => Ok(Node::Text(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Node {
        Node::Text(text.to_owned())
    }

    #[test]
    fn maps_lists_and_texts() {
        let read = parse(
            "---\na: 1 # one\nb:\n  c: \"x # y\"\n  d:\n    - e\n    - f: 'g'\n      h: i:j\n    -\n      \
             k: l\nm:\n- n\n\no:\n",
        );
        let map = |entries: &[(&str, Node)]| {
            Node::Map(
                entries
                    .iter()
                    .map(|(key, node)| ((*key).to_owned(), node.clone()))
                    .collect(),
            )
        };
        let list = Node::List(vec![
            text("e"),
            map(&[("f", text("g")), ("h", text("i:j"))]),
            map(&[("k", text("l"))]),
        ]);
        let expected = map(&[
            ("a", text("1")),
            ("b", map(&[("c", text("x # y")), ("d", list)])),
            ("m", Node::List(vec![text("n")])),
            ("o", text("")),
        ]);
        assert_eq!(read, Ok(expected));
    }

    #[test]
    fn what_is_not_read_is_refused_with_its_line() {
        for (text, line) in [
            ("a: {b: c}", 1),
            ("a: 1\nb: [c]", 2),
            ("a: |\n  text", 1),
            ("a: &x 1", 1),
            ("a: 1\n  b: 2", 2),
            ("a:\n  b: 1\n c: 2", 3),
            ("a: 1\na: 2", 2),
            ("a: \"b", 1),
            ("text", 1),
            ("a:\n\tb: 1", 2),
        ] {
            let refused = parse(text).unwrap_err();
            assert!(
                refused.starts_with(&format!("line {line}: ")),
                "{text:?}: {refused}"
            );
        }
        assert!(
            parse(
                &(0..50)
                    .map(|at| format!("{}a:\n", " ".repeat(at)))
                    .collect::<String>()
            )
            .is_err()
        );
    }
}
