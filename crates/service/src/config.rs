//! Sections of the configuration: reads them, and reports all issues with line numbers.

use serde::Serialize;
use serde::de::{DeserializeOwned, IntoDeserializer};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use lineside_fastpath::Range;

/// Error that the operator corrects by giving other arguments, or another file in place of one that the configuration
/// names. A command that fails with this error has exit code 2.
#[derive(Debug)]
pub struct UsageError(pub String);

impl std::error::Error for UsageError {}

impl fmt::Display for UsageError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Error of a data directory that a server cannot use before an operator has repaired or restored it. A server that
/// fails with this error has exit code 2, so that its supervisor does not start it again and again.
#[derive(Debug)]
pub struct DamagedData(pub String);

impl std::error::Error for DamagedData {}

impl fmt::Display for DamagedData {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// One section of a configuration: its text in the file, and the values that the command line overrides.
#[derive(Clone, Debug)]
pub struct Section {
    name: &'static str,
    /// Whole text of the configuration file; line numbers are lines of this text. Empty if there is no file.
    text: Arc<str>,
    /// Index of the section in an array of tables; `None` for a plain table.
    index: Option<usize>,
    overrides: toml::Table,
}

/// One issue in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigIssue {
    /// Line of the file, counted from 1; `None` if the issue concerns the whole file or a key that is not in it.
    pub line: Option<usize>,
    /// Section, key, value, and the allowed values.
    pub what: String,
}

impl fmt::Display for ConfigIssue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.what)
    }
}

impl Section {
    /// Returns the section `name` of a file with this text. `index` is its index in an array of tables.
    pub fn new(name: &'static str, text: &Arc<str>, index: Option<usize>) -> Self {
        Self {
            name,
            text: Arc::clone(text),
            index,
            overrides: toml::Table::new(),
        }
    }

    /// Returns a section that is not from a file, in which every key has its default.
    pub fn empty(name: &'static str) -> Self {
        Self::new(name, &Arc::from(""), None)
    }

    /// Returns the name of the section.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Overrides the value of `key` in the file by `value`.
    ///
    /// # Panics
    /// If TOML cannot represent `value`.
    pub fn set(&mut self, key: &str, value: impl Serialize) {
        let value = toml::Value::try_from(value).expect("a configuration value is a TOML value");
        self.overrides.insert(key.into(), value);
    }

    /// Calls [`Section::set`] if there is a value.
    pub fn set_some(&mut self, key: &str, value: Option<impl Serialize>) {
        if let Some(value) = value {
            self.set(key, value);
        }
    }

    /// Reads the section as a `T`. The `Default` of `T` supplies the keys that the file does not have.
    ///
    /// # Errors
    /// The first issue: a key that `T` does not have, or a value of the wrong type.
    pub fn read<T: DeserializeOwned + Serialize + Default>(&self) -> Result<T, Vec<ConfigIssue>> {
        let mut config = match self.value() {
            Some(value) => T::deserialize(value.into_deserializer())
                .map_err(|error| vec![issue_of(&self.text, &error)])?,
            None => T::default(),
        };
        for (key, value) in &self.overrides {
            let replaced = replace(&config, key, value);
            config = replaced.map_err(|error| {
                let value = without_secret(&value.to_string());
                let what = format!("[{}] {key} = {value}: {}", self.name, one_line(&error));
                vec![ConfigIssue { line: None, what }]
            })?;
        }
        Ok(config)
    }

    /// Returns the parsed section with the positions of its values in the text, or `None` if the file does not have
    /// this section. The text was already checked to be valid TOML.
    fn value(&self) -> Option<toml::Spanned<toml::de::DeValue<'_>>> {
        let mut whole = toml::de::DeTable::parse(&self.text).ok()?.into_inner();
        let section = whole.remove(self.name)?;
        let Some(index) = self.index else {
            return Some(section);
        };
        match section.into_inner() {
            toml::de::DeValue::Array(array) => array.into_iter().nth(index),
            _ => None,
        }
    }

    /// Returns true if the file or the command line sets `key`.
    pub fn is_set(&self, key: &str) -> bool {
        self.overrides.contains_key(key) || self.line_of(key).is_some()
    }

    /// Returns the line that sets `key`, or `None` if the file does not set it or the command line overrides it.
    pub fn line_of(&self, key: &str) -> Option<usize> {
        if self.overrides.contains_key(key) {
            return None;
        }
        let section = self.value()?;
        let value = section.get_ref().as_table()?.get(key)?;
        Some(line_at(&self.text, value.span().start))
    }
}

fn replace<T: DeserializeOwned + Serialize>(config: &T, key: &str, value: &toml::Value) -> Result<T, String> {
    let mut table = toml::Table::try_from(config).map_err(|error| error.to_string())?;
    table.insert(key.into(), value.clone());
    table
        .try_into()
        .map_err(|error: toml::de::Error| error.message().to_owned())
}

/// Returns `config` as a TOML section that has every key.
///
/// # Panics
/// If `config` is not a struct of values that TOML can represent.
pub fn section(config: &impl Serialize) -> toml::Table {
    toml::Table::try_from(config).expect("a section of a configuration is a TOML table")
}

/// Returns the number of the line that contains the byte at offset `byte`, counted from 1.
pub fn line_at(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|byte| *byte == b'\n').count()
}

/// Returns an error of the TOML parser or of serde as an issue; the issue quotes the line that contains the mistake.
pub fn issue_of(text: &str, error: &toml::de::Error) -> ConfigIssue {
    let what = without_login(&one_line(error.message()));
    let Some(span) = error.span() else {
        return ConfigIssue { line: None, what };
    };
    let line = line_at(text, span.start);
    let source_line = without_secret(text.lines().nth(line - 1).unwrap_or("").trim());
    ConfigIssue {
        line: Some(line),
        what: match source_line.is_empty() {
            true => what,
            false => format!("`{source_line}`: {what}"),
        },
    }
}

/// Returns a value, or a line with a key and its value, for use in a message. Everything before an `@` is removed even
/// if the value is not a URL, because it may be a mistyped URL that contains a password.
fn without_secret(text: &str) -> String {
    let shown = without_login(text);
    match shown.rfind('@') {
        Some(at) if !shown[..at].ends_with('…') => {
            let value = shown[..at].find('=').map_or(0, |at| at + 1);
            let space = if value == 0 { "" } else { " " };
            format!("{}{space}…{}", &shown[..value], &shown[at..])
        }
        _ => shown,
    }
}

/// Returns a text for use in a message. User name and password before the host of a URL are removed, except the
/// placeholders of a help text.
fn without_login(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        cleaned += before;
        cleaned += "://";
        let end = after.find(|c: char| c.is_whitespace() || c == '"' || c == '\'');
        let url = &after[..end.unwrap_or(after.len())];
        rest = match url.rfind('@') {
            Some(at) if !url[..at].contains("[:PASSWORD]") => {
                cleaned += "…";
                &after[at..]
            }
            _ => after,
        };
    }
    cleaned + rest
}

fn one_line(message: &str) -> String {
    message.trim().replace('\n', ", ")
}

/// Collector for the issues of one section while its values are checked.
pub struct Issues<'a> {
    section: &'a Section,
    issues: Vec<ConfigIssue>,
}

impl<'a> Issues<'a> {
    /// Returns an empty list for `section`.
    pub const fn new(section: &'a Section) -> Self {
        Self {
            section,
            issues: Vec::new(),
        }
    }

    /// Adds an issue for `key`. `what` begins with the value and states the allowed values.
    pub fn add(&mut self, key: &str, what: impl fmt::Display) {
        self.issues.push(ConfigIssue {
            line: self.section.line_of(key),
            what: format!("[{}] {key} = {what}", self.section.name),
        });
    }

    /// Adds an issue if `value` of `key` is not in the allowed range.
    pub fn range(&mut self, key: &str, value: u64, allowed: RangeInclusive<u64>) {
        if !allowed.contains(&value) {
            self.add(
                key,
                format!("{value}: must be {} to {}", allowed.start(), allowed.end()),
            );
        }
    }

    /// Returns `checked` if there is no issue.
    ///
    /// # Errors
    /// All issues that were added.
    pub fn finish<T>(self, checked: T) -> Result<T, Vec<ConfigIssue>> {
        match self.issues.is_empty() {
            true => Ok(checked),
            false => Err(self.issues),
        }
    }
}

/// Returns the loopback address with this port, the default address of services.
pub fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Returns `path`, or `None` if it is empty. An empty path in a configuration means that no path is set.
pub fn non_empty(path: &Path) -> Option<&Path> {
    (!path.as_os_str().is_empty()).then_some(path)
}

/// Parses `address/bits` or an address. Returns `None` for anything else.
pub fn parse_range(text: &str) -> Option<Range> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let prefix_bits = bits.unwrap_or(longest);
    (prefix_bits <= longest).then_some(Range { address, prefix_bits })
}

/// Range of addresses in a configuration: `address/bits` or an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AddressRange(pub Range);

impl TryFrom<String> for AddressRange {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let range = parse_range(&text).map(Self);
        range.ok_or_else(|| {
            format!(
                "{text:?} must be an address, or a range with its number of leading bits such \
                 as \"10.0.0.0/8\""
            )
        })
    }
}

impl From<AddressRange> for String {
    fn from(range: AddressRange) -> Self {
        format!("{}/{}", range.0.address, range.0.prefix_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Example {
        depth: u64,
        name: String,
    }

    impl Default for Example {
        fn default() -> Self {
            Self {
                depth: 3,
                name: "none".into(),
            }
        }
    }

    fn section(text: &str) -> Section {
        Section::new("example", &Arc::from(text), None)
    }

    #[test]
    fn a_missing_section_or_key_has_its_default() {
        assert_eq!(section("").read(), Ok(Example::default()));
        let read: Example = section("[example]\nname = \"x\"\n").read().unwrap();
        assert_eq!((read.depth, read.name.as_str()), (3, "x"));
    }

    #[test]
    fn issues_of_the_file_name_its_line_and_issues_of_the_command_line_name_no_line() {
        let text = "[other]\nx = 1\n[example]\n# a comment\ndepth = \"deep\"\n";
        let issues = section(text).read::<Example>().unwrap_err();
        assert_eq!(issues[0].line, Some(5));
        assert!(issues[0].what.contains("`depth = \"deep\"`"), "{issues:?}");

        let mut overridden = section("[example]\ndepth = 4\n");
        assert_eq!(overridden.line_of("depth"), Some(2));
        overridden.set("depth", "deep");
        let issues = overridden.read::<Example>().unwrap_err();
        assert_eq!(issues[0].line, None);
        assert!(
            issues[0].what.starts_with("[example] depth = \"deep\": "),
            "{issues:?}"
        );
        assert_eq!(overridden.line_of("depth"), None);
        overridden.set("depth", 5);
        assert_eq!(overridden.read::<Example>().unwrap().depth, 5);
    }

    #[test]
    fn each_table_of_an_array_is_a_section_of_its_own() {
        let text: Arc<str> = "[[example]]\ndepth = 1\n[[example]]\ndepth = 2\nhidden = 1\n".into();
        let first: Example = Section::new("example", &text, Some(0)).read().unwrap();
        assert_eq!(first.depth, 1);
        let issues = Section::new("example", &text, Some(1))
            .read::<Example>()
            .unwrap_err();
        assert_eq!(issues[0].line, Some(5));
    }

    #[test]
    fn no_message_has_the_login_of_a_url() {
        for (text, shown) in [
            ("node = \"btcd://u:p@h:1x\"", "node = \"btcd://…@h:1x\""),
            ("btcd://u:a@b@h bitcoin://u:p@h", "btcd://…@h bitcoin://…@h"),
            ("https://h/a@", "https://…@"),
            ("tls://h:1 a@b ://", "tls://h:1 a@b ://"),
        ] {
            assert_eq!(without_login(text), shown);
        }
        let help = "write bitcoind://[USER[:PASSWORD]@]HOST:PORT or blocks-dir:PATH";
        assert_eq!(without_login(help), help);
        for (text, shown) in [
            ("node = \"btcd://u:p@h:1\"", "node = \"btcd://…@h:1\""),
            ("node = \"u:p@h:1\"", "node = …@h:1\""),
            ("node = \"btcd:/u:p@h:1\"", "node = …@h:1\""),
            ("node = \"btcd://u:p q@h:1\"", "node = …@h:1\""),
            ("\"u:p@h:1\"", "…@h:1\""),
            ("\"h:1\"", "\"h:1\""),
        ] {
            assert_eq!(without_secret(text), shown);
        }
        let issues = section("[example]\ndepth = \"btcd://u:p@h:1\"\n")
            .read::<Example>()
            .unwrap_err();
        assert!(!issues[0].what.contains("u:p"), "{}", issues[0].what);
    }

    #[test]
    fn every_value_out_of_range_is_reported() {
        let section = section("[example]\ndepth = 9\n");
        let mut issues = Issues::new(&section);
        issues.range("depth", 9, 1..=8);
        issues.add("name", "\"none\": must be a name");
        let found = issues.finish(()).unwrap_err();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].line, found[1].line), (Some(2), None));
        assert_eq!(found[0].what, "[example] depth = 9: must be 1 to 8");
    }

    #[test]
    fn ranges_of_addresses_are_read_and_written() {
        for (text, written) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("::1", "::1/128"),
            ("1.2.3.4", "1.2.3.4/32"),
        ] {
            let range = AddressRange::try_from(text.to_owned()).unwrap();
            assert_eq!(String::from(range), written);
        }
        for text in ["10.0.0.0/33", "::/129", "ten", "", "10.0.0.0/", "10.0.0.0/-1"] {
            assert!(AddressRange::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
