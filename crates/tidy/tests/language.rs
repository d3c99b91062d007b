//! Ratchet for the language of the repository: constructions that make text hard to read may only become fewer.
//!
//! The tests count openings of doc comments that do not say what an item is or does, and the phrases of a list. They
//! read the comments and string literals of all Rust and C files except generated ones, the Markdown files of `docs/`,
//! and the README. `language-counts.txt` holds a number for each rule. The test over the repository fails when a count
//! is above its number (text became worse) and when it is below (the number has to be lowered). This command writes the
//! present counts into the file:
//!
//! ```text
//! TIDY_WRITE=1 cargo test -p lineside-tidy --test language --locked
//! ```

mod files;

use files::{File, repository, root};

/// Path of the numbers from the root of the repository.
const COUNTS: &str = "crates/tidy/language-counts.txt";

/// Path of this file. Its rules and bad examples are not counted.
const THIS_FILE: &str = "crates/tidy/tests/language.rs";

/// First words of a doc comment that are counted if they have this capital letter.
const OPENINGS: &[&str] = &["What", "Who", "How", "Whether", "The same", "As"];

/// Words and phrases to avoid, which the test counts in upper and lower case. Each row has a name and its phrases; the
/// phrases of a row are counted together. The tests below use them as bad examples.
const PHRASES: &[(&str, &[&str])] = &[
    ("tell, told", &["tell", "tells", "told", "telling"]),
    ("behind", &["behind"]),
    ("stand", &["stand", "stands", "stood", "standing"]),
    ("none of", &["none of"]),
    ("nobody", &["nobody"]),
    ("beside", &["beside"]),
    ("so many, so long", &["so many", "so long", "so often", "so much"]),
    ("whoever", &["whoever"]),
    ("anew", &["anew"]),
    // "Word of" is not counted: nearly all places mean the words of memory.
    ("word for", &["word for", "words for"]),
    ("how it is", &["how it is"]),
];

/// Name of the rule that counts "no" and "none" after "is", "are" and "was", but not "there is no" and "is no longer".
const IS_NO: &str = "is no, is none";

/// Name of the rule that counts "near" as a noun without an article.
const NEAR: &str = "near";

/// Words before or after "near" with which it is a preposition ("near the end") or part of a noun ("the near cache").
const NOT_A_NOUN_AFTER: &[&str] = &["the", "a", "an", "its", "this", "every", "each"];
const NOT_A_NOUN_BEFORE: &[&str] = &["the", "a", "an", "its", "this", "cache", "caches"];

// ---- text of a file ----

/// Comment or string literal of a source file, or paragraph of a page. A run of `//` comments on lines that follow each
/// other is one piece.
#[derive(Debug, PartialEq)]
struct Piece {
    /// Line on which the piece begins, from 1.
    line: usize,
    text: String,
    /// True if the piece documents an item: `///`, `//!`, `/**` or `/*!` in Rust; in C, a comment at the beginning of
    /// its line.
    doc: bool,
}

/// Returns the text of a Rust or C file that a person reads.
fn pieces_of_source(source: &str, is_c: bool) -> Vec<Piece> {
    let mut reader = Reader {
        text: source.chars().collect(),
        at: 0,
        line: 1,
        is_c,
        code_on_line: false,
        pieces: Vec::new(),
        last_comment: None,
    };
    while reader.at < reader.text.len() {
        reader.step();
    }
    reader.pieces
}

struct Reader {
    text: Vec<char>,
    at: usize,
    line: usize,
    is_c: bool,
    /// True if a token that is not a comment was read on this line.
    code_on_line: bool,
    pieces: Vec<Piece>,
    /// Marker and line of the last `//` comment, if no other token has followed it.
    last_comment: Option<(&'static str, usize)>,
}

impl Reader {
    fn starts_with(&self, prefix: &str) -> bool {
        let mut rest = self.text[self.at..].iter();
        prefix.chars().all(|c| rest.next() == Some(&c))
    }

    fn advance(&mut self) -> Option<char> {
        let next = self.text.get(self.at).copied()?;
        self.at += 1;
        if next == '\n' {
            self.line += 1;
            self.code_on_line = false;
        }
        Some(next)
    }

    /// Reads one token of the source.
    fn step(&mut self) {
        let next = self.text[self.at];
        if self.starts_with("//") {
            self.line_comment();
        } else if self.starts_with("/*") {
            self.block_comment();
        } else if next.is_whitespace() {
            self.advance();
        } else {
            self.code_on_line = true;
            self.last_comment = None;
            match next {
                '"' => self.string(None),
                '\'' => self.quote(),
                _ if next.is_alphanumeric() || next == '_' => self.word(),
                _ => {
                    self.advance();
                }
            }
        }
    }

    fn line_comment(&mut self) {
        let rust_marker = if self.starts_with("////") {
            "//"
        } else if self.starts_with("///") {
            "///"
        } else if self.starts_with("//!") {
            "//!"
        } else {
            "//"
        };
        let marker = if self.is_c { "//" } else { rust_marker };
        let doc = if self.is_c {
            !self.code_on_line
        } else {
            marker != "//"
        };
        let line = self.line;
        self.at += marker.len();
        let start = self.at;
        while self.text.get(self.at).is_some_and(|c| *c != '\n') {
            self.at += 1;
        }
        let text: String = self.text[start..self.at].iter().collect();
        match (self.last_comment, self.pieces.last_mut()) {
            (Some(last), Some(piece)) if last == (marker, line - 1) => {
                piece.text.push('\n');
                piece.text.push_str(&text);
            }
            _ => self.pieces.push(Piece { line, text, doc }),
        }
        self.last_comment = Some((marker, line));
    }

    fn block_comment(&mut self) {
        let (line, start) = (self.line, self.at);
        let documents = self.starts_with("/**") || self.starts_with("/*!");
        let doc = if self.is_c { !self.code_on_line } else { documents };
        let mut depth = 0;
        while self.at < self.text.len() {
            if self.starts_with("/*") && (depth == 0 || !self.is_c) {
                depth += 1;
                self.at += 2;
            } else if self.starts_with("*/") {
                depth -= 1;
                self.at += 2;
                if depth == 0 {
                    break;
                }
            } else {
                self.advance();
            }
        }
        let text: String = self.text[start..self.at].iter().collect();
        let lines = text
            .lines()
            .map(|l| l.trim().trim_matches(&['/', '*', '!'][..]).trim());
        let text = lines.collect::<Vec<_>>().join("\n");
        self.pieces.push(Piece { line, text, doc });
        self.last_comment = None;
    }

    /// Reads an identifier, a number, or a raw string with its prefix.
    fn word(&mut self) {
        let start = self.at;
        while self
            .text
            .get(self.at)
            .is_some_and(|c| c.is_alphanumeric() || *c == '_')
        {
            self.at += 1;
        }
        let word: String = self.text[start..self.at].iter().collect();
        if !self.is_c && ["r", "br", "cr"].contains(&&*word) {
            let hashes = self.text[self.at..].iter().take_while(|c| **c == '#').count();
            if self.text.get(self.at + hashes) == Some(&'"') {
                self.at += hashes;
                self.string(Some(hashes));
            }
        }
    }

    /// Reads a string literal from its first quote: a raw literal with `raw` hashes, or a literal with escapes.
    fn string(&mut self, raw: Option<usize>) {
        let line = self.line;
        let end = format!("\"{}", "#".repeat(raw.unwrap_or(0)));
        let mut text = String::new();
        self.advance();
        while self.at < self.text.len() && !self.starts_with(&end) {
            if raw.is_none() && self.text[self.at] == '\\' {
                self.advance();
                self.advance();
                text.push(' ');
            } else {
                text.extend(self.advance());
            }
        }
        self.at = (self.at + end.len()).min(self.text.len());
        self.code_on_line = true;
        self.pieces.push(Piece {
            line,
            text,
            doc: false,
        });
    }

    /// Reads a character literal, or the quote of a lifetime.
    fn quote(&mut self) {
        self.advance();
        if self.text.get(self.at) == Some(&'\\') {
            self.at += 2;
            while self.text.get(self.at).is_some_and(|c| *c != '\'' && *c != '\n') {
                self.at += 1;
            }
            self.at += 1;
        } else if self.text.get(self.at + 1) == Some(&'\'') {
            self.at += 2;
        }
    }
}

/// Returns the paragraphs of a Markdown page.
fn pieces_of_page(page: &str) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    let mut open = false;
    for (number, text) in page.lines().enumerate() {
        match pieces.last_mut() {
            _ if text.trim().is_empty() => open = false,
            Some(piece) if open => {
                piece.text.push('\n');
                piece.text.push_str(text);
            }
            _ => {
                let (line, text) = (number + 1, text.to_owned());
                pieces.push(Piece {
                    line,
                    text,
                    doc: false,
                });
                open = true;
            }
        }
    }
    pieces
}

fn pieces(file: &File) -> Vec<Piece> {
    let generated = file.text.lines().take(6).any(|l| l.contains("Generated from"));
    if file.path == THIS_FILE || generated && !file.has_extension(&["md"]) {
        Vec::new()
    } else if file.has_extension(&["rs"]) {
        pieces_of_source(&file.text, false)
    } else if file.has_extension(&["c", "h"]) {
        pieces_of_source(&file.text, true)
    } else if file.path == "README.md" || file.path.starts_with("docs/") && file.has_extension(&["md"]) {
        pieces_of_page(&file.text)
    } else {
        Vec::new()
    }
}

// ---- the rules ----

/// Splits text into lower-case words and punctuation marks, each with the number of line breaks before it. Text in
/// backticks is left out. `-`, `_` and `/` join words, so that `--keep-near` is not the word "near".
fn tokens(text: &str) -> Vec<(usize, String)> {
    let (mut found, mut word) = (Vec::new(), String::new());
    let (mut line, mut code) = (0, false);
    for c in text.chars().chain(['\n']) {
        let joins = c.is_alphanumeric() || ['-', '_', '/'].contains(&c);
        if joins && !code {
            word.extend(c.to_lowercase());
            continue;
        }
        let done = std::mem::take(&mut word);
        if done.chars().any(char::is_alphanumeric) {
            found.push((line, done));
        }
        match c {
            '\n' => line += 1,
            '`' => code = !code,
            '.' | ',' | ';' | ':' | '!' | '?' | '(' | ')' => found.push((line, c.to_string())),
            _ => {}
        }
    }
    found
}

/// Returns, for each counted construction in `piece`, the name of its rule and its line.
fn constructions(piece: &Piece) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    if piece.doc {
        let text = piece.text.trim_start();
        let opening = OPENINGS.iter().find(|o| {
            text.strip_prefix(**o)
                .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        });
        found.extend(opening.map(|o| (format!("doc comment begins with \"{o}\""), piece.line)));
    }
    let tokens = tokens(&piece.text);
    let word = |at: usize| tokens.get(at).map_or("", |(_, word)| word.as_str());
    for (at, (line, _)) in tokens.iter().enumerate() {
        let before = if at == 0 { "" } else { word(at - 1) };
        let matches = |phrase: &&str| phrase.split(' ').enumerate().all(|(i, w)| word(at + i) == w);
        let rows = PHRASES.iter().filter(|(_, phrases)| phrases.iter().any(matches));
        found.extend(rows.map(|(name, _)| ((*name).into(), piece.line + line)));
        let is_no = ["is", "are", "was"].contains(&word(at)) && ["no", "none"].contains(&word(at + 1));
        if is_no && before != "there" && !["longer", "more", "less"].contains(&word(at + 2)) {
            found.push((IS_NO.into(), piece.line + line));
        }
        if word(at) == "near"
            && !NOT_A_NOUN_AFTER.contains(&before)
            && !NOT_A_NOUN_BEFORE.contains(&word(at + 1))
        {
            found.push((NEAR.into(), piece.line + line));
        }
    }
    found
}

/// Returns the names of all rules, in the order of `language-counts.txt`.
fn names() -> Vec<String> {
    let openings = OPENINGS
        .iter()
        .map(|o| format!("doc comment begins with \"{o}\""));
    let phrases = PHRASES.iter().map(|(name, _)| (*name).to_owned());
    openings
        .chain(phrases)
        .chain([IS_NO.into(), NEAR.into()])
        .collect()
}

/// Returns, for each counted construction in the files, the name of its rule and its place as `file:line`.
fn all_constructions(files: &[File]) -> Vec<(String, String)> {
    let in_file = |file: &File| {
        let path = file.path.clone();
        let found = pieces(file).iter().flat_map(constructions).collect::<Vec<_>>();
        found
            .into_iter()
            .map(move |(name, line)| (name, format!("{path}:{line}")))
    };
    files.iter().flat_map(in_file).collect()
}

/// Reads lines of the form `number name`. Empty lines and lines that begin with `#` are skipped.
fn read_counts(text: &str) -> Vec<(String, usize)> {
    let lines = text.lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
    let read = |line: &str| {
        let (number, name) = line.trim().split_once(' ')?;
        Some((name.trim().to_owned(), number.parse().ok()?))
    };
    lines
        .map(|line| read(line).unwrap_or_else(|| panic!("{COUNTS}: `{line}` is not a number and a name")))
        .collect()
}

/// Compares the counts with the numbers of the file. Returns a finding for each rule whose count differs from its
/// number.
fn compare(numbers: &[(String, usize)], found: &[(String, String)]) -> Vec<String> {
    let mut findings = Vec::new();
    for name in names() {
        let places: Vec<&str> = found
            .iter()
            .filter(|(n, _)| *n == name)
            .map(|(_, p)| p.as_str())
            .collect();
        let number = numbers
            .iter()
            .find(|(n, _)| *n == name)
            .map_or(0, |(_, number)| *number);
        let count = places.len();
        if count > number {
            findings.push(format!(
                "{name}: {count}, at most {number} allowed; rewrite the text that you added (all places: {})",
                places.join(" ")
            ));
        } else if count < number {
            findings.push(format!(
                "{name}: {count}, which is fewer than {number}; lower the number in {COUNTS}"
            ));
        }
    }
    let unknown = numbers.iter().filter(|(name, _)| !names().contains(name));
    findings.extend(unknown.map(|(name, _)| format!("{COUNTS}: no rule is called `{name}`")));
    findings
}

#[test]
fn counted_constructions_only_become_fewer() {
    let found = all_constructions(&repository());
    let path = root().join(COUNTS);
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    if std::env::var_os("TIDY_WRITE").is_some() {
        let mut new: String = text
            .lines()
            .take_while(|l| l.is_empty() || l.starts_with('#'))
            .fold(String::new(), |text, line| text + line + "\n");
        for name in names() {
            let count = found.iter().filter(|(n, _)| *n == name).count();
            new.push_str(&format!("{count} {name}\n"));
        }
        std::fs::write(&path, new).expect("the file of the counts is writable");
        println!("{} constructions written to {COUNTS}", found.len());
        return;
    }
    let findings = compare(&read_counts(&text), &found);
    assert!(
        findings.is_empty(),
        "{}\nTo write the present counts: TIDY_WRITE=1 cargo test -p lineside-tidy --test language --locked",
        findings.join("\n")
    );
}

#[test]
fn every_rule_finds_its_bad_example() {
    let check = |path: &str, text: &str, expected: &[(&str, usize)]| {
        let found = all_constructions(&[File {
            path: path.into(),
            text: text.into(),
        }]);
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, line)| (String::from(*name), format!("{path}:{line}")))
            .collect();
        assert_eq!(found, expected, "in {path}:\n{text}");
    };

    for opening in OPENINGS {
        let name = format!("doc comment begins with \"{opening}\"");
        check(
            "a.rs",
            &format!("fn a() {{}}\n\n/// {opening} b.\nfn b() {{}}\n"),
            &[(&name, 3)],
        );
        check("a.rs", &format!("//! {opening}\n"), &[(&name, 1)]);
        check("a.rs", &format!("// {opening} b.\n"), &[]);
        check("a.rs", &format!("/// A.\n/// {opening} b.\n"), &[]);
        check("a.rs", &format!("/// {opening}x b.\n"), &[]);
        check("a.h", &format!("/* {opening} b. */\nint b;\n"), &[(&name, 1)]);
        check("a.h", &format!("int b; /* {opening} b. */\n"), &[]);
        check("docs/a.md", &format!("{opening} b.\n"), &[]);
    }
    for (name, phrases) in PHRASES {
        for phrase in *phrases {
            check("a.rs", &format!("// It {phrase} it.\n"), &[(name, 1)]);
            check(
                "a.rs",
                &format!("let a = \"x\n {} y\";\n", phrase.to_uppercase()),
                &[(name, 2)],
            );
            check("a.rs", &format!("let a = r#\"\" {phrase}\"#;\n"), &[(name, 1)]);
            check("a.rs", &format!("{phrase}\n"), &[]);
            check("a.rs", &format!("// `{phrase}`\n"), &[]);
            check("a.c", &format!("a(); /* b\n * {phrase} */\n"), &[(name, 2)]);
            check("docs/a/b.md", &format!("# A\n\n- {phrase}\n"), &[(name, 3)]);
            check("README.md", phrase, &[(name, 1)]);
            check("lab/README.md", phrase, &[]);
        }
    }
    check(
        "a.rs",
        "// a is so\n// many\n\n// so\n\n// many\n",
        &[("so many, so long", 1)],
    );
    check(
        "a.rs",
        "// It is no\n// request. There is no request; it is no longer read. It is none.\n",
        &[(IS_NO, 1), (IS_NO, 2)],
    );
    check(
        "a.rs",
        "// near rests, near the end of the near cache\n",
        &[(NEAR, 1)],
    );
    check("a.rs", "// Generated from a.toml\n// nobody\n", &[]);
    check("a.rs", "let a = '\"'; // nobody\n", &[("nobody", 1)]);
    check("a.rs", "fn a<'a>() {} // nobody\n", &[("nobody", 1)]);
    check("a.rs", "/* /* */ anew */ fn anew() {}\n", &[("anew", 1)]);
    check("a.rs", "let a = \"\\\"\"; f(anew); // nobody\n", &[("nobody", 1)]);
}

#[test]
fn a_count_above_or_below_its_number_is_found() {
    let found = |count: usize| vec![("anew".to_owned(), "a.rs:1".to_owned()); count];
    let numbers = read_counts("# comment\n\n2 anew\n0 beside\n");
    assert_eq!(compare(&numbers, &found(2)), Vec::<String>::new());
    let above = compare(&numbers, &found(3));
    assert!(above[0].starts_with("anew: 3, at most 2 allowed"), "{above:?}");
    let below = compare(&numbers, &found(1));
    assert!(
        below[0].ends_with("lower the number in crates/tidy/language-counts.txt"),
        "{below:?}"
    );
    assert_eq!(compare(&[], &found(1)).len(), 1);
    assert_eq!(compare(&read_counts("1 nothing"), &[]).len(), 1);
}
