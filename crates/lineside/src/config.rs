//! The configuration: a file, with what the command line puts in its place. `lineside.toml` in the repository shows and
//! explains every key with its default.

use crate::process::ProcessConfig;
use crate::services::SERVICES;
use lineside_service::config::{ConfigIssue, Issues, Section, issue_of, line_at, loopback, section};
use lineside_service::{DatapathConfig, Service, ServiceDef};
use lineside_util::key_file::exposed_mode;
use lineside_wire::CONSOLE_PORT;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Sections that are not of a service.
const SHARED: [&str; 3] = ["console", "datapath", "process"];

/// A configuration whose values have not been checked: sections of a file, and what replaces their values.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file; `None` where there is none.
    file: Option<PathBuf>,
    /// The section `[console]`.
    pub console: Section,
    /// The section `[datapath]`.
    pub datapath: Section,
    /// The section `[process]`.
    pub process: Section,
    /// Sections of services, in the order of the list of services.
    services: Vec<ServiceSection>,
    /// Services that the configuration may name.
    definitions: &'static [ServiceDef],
}

#[derive(Clone, Debug)]
struct ServiceSection {
    /// Place of the service in the list of services.
    definition: usize,
    section: Section,
}

/// The section `[console]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConsoleConfig {
    /// Address and port of the console.
    pub listen: SocketAddr,
}

impl Default for ConsoleConfig {
    fn default() -> Self {
        Self {
            listen: loopback(CONSOLE_PORT),
        }
    }
}

/// A configuration with nothing wrong in it.
pub struct Checked {
    /// The file; `None` where there is none.
    file: Option<PathBuf>,
    /// The section `[console]`.
    pub console: ConsoleConfig,
    /// The section `[datapath]`.
    pub datapath: DatapathConfig,
    /// The section `[process]`.
    pub process: ProcessConfig,
    /// The services that the configuration has a section of, whether enabled or not.
    pub services: Vec<ConfiguredService>,
    /// Services that the configuration could have named.
    pub definitions: &'static [ServiceDef],
}

/// A service and what the configuration says of it.
pub struct ConfiguredService {
    /// Name of the service.
    pub name: &'static str,
    /// The service, before it starts.
    pub service: Box<dyn Service>,
}

/// Everything that is wrong with a configuration; never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, or `the command line`.
    pub file: PathBuf,
    /// The issues, in the order of their lines.
    pub issues: Vec<ConfigIssue>,
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, issue) in self.issues.iter().enumerate() {
            let separator = if index > 0 { "\n" } else { "" };
            write!(out, "{separator}{}", self.file.display())?;
            if let Some(line) = issue.line {
                write!(out, ":{line}")?;
            }
            write!(out, ": {issue}")?;
        }
        Ok(())
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::of_services(SERVICES)
    }
}

impl Config {
    /// Returns the configuration of a program with these services where there is no file.
    pub fn of_services(definitions: &'static [ServiceDef]) -> Self {
        Self {
            file: None,
            console: Section::empty("console"),
            datapath: Section::empty("datapath"),
            process: Section::empty("process"),
            services: Vec::new(),
            definitions,
        }
    }

    /// Reads `file`. Values are checked by [`Config::check`].
    ///
    /// # Errors
    /// A file that cannot be read or is not TOML; a section that no service has.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let fail = |issue| ConfigError {
            file: file.into(),
            issues: vec![issue],
        };
        let text = std::fs::read_to_string(file).map_err(|error| {
            fail(ConfigIssue {
                line: None,
                what: error.to_string(),
            })
        })?;
        let mut config = Self::parse(&text, SERVICES).map_err(fail)?;
        config.file = Some(file.into());
        Ok(config)
    }

    /// Takes the text of a configuration file apart, for a program with these services.
    ///
    /// # Errors
    /// A text that is not TOML; a section that no service has.
    pub fn parse(text: &str, definitions: &'static [ServiceDef]) -> Result<Self, ConfigIssue> {
        let mut config = Self::of_services(definitions);
        // The error of a duplicate key and the like has the same place in a plain table.
        toml::from_str::<toml::Table>(text).map_err(|error| issue_of(text, &error))?;
        let whole = toml::de::DeTable::parse(text).map_err(|error| issue_of(text, &error))?;
        let shared: Arc<str> = text.into();
        for (name, value) in whole.get_ref() {
            let unknown = || {
                let line = line_at(text, name.span().start);
                let known = definitions.iter().map(|definition| definition.name);
                let known: Vec<_> = SHARED.into_iter().chain(known).collect();
                ConfigIssue {
                    line: Some(line),
                    what: format!(
                        "`{}`: unknown section `{}`, expected one of {}",
                        text.lines().nth(line - 1).unwrap_or("").trim(),
                        name.get_ref(),
                        known.join(", ")
                    ),
                }
            };
            let tables = match value.get_ref() {
                toml::de::DeValue::Array(tables) => Some(tables.len()),
                _ => None,
            };
            match name.get_ref().as_ref() {
                shared if SHARED.contains(&shared) && tables.is_some() => return Err(one_table(text, name)),
                "console" => config.console = Section::new("console", &shared, None),
                "datapath" => config.datapath = Section::new("datapath", &shared, None),
                "process" => config.process = Section::new("process", &shared, None),
                other => {
                    let mut all = definitions.iter().enumerate();
                    let found = all.find(|(_, definition)| definition.name == other);
                    let (place, definition) = found.ok_or_else(unknown)?;
                    if tables.is_some() && !definition.may_repeat {
                        return Err(one_table(text, name));
                    }
                    let indices = tables.map_or(vec![None], |count| (0..count).map(Some).collect());
                    for index in indices {
                        let section = Section::new(definition.name, &shared, index);
                        config.services.push(ServiceSection {
                            definition: place,
                            section,
                        });
                    }
                }
            }
        }
        config.services.sort_by_key(|service| service.definition);
        Ok(config)
    }

    /// Returns the first section of the service `name`, which is added where the file lacks it.
    ///
    /// # Panics
    /// When there is no such service.
    pub fn section(&mut self, name: &str) -> &mut Section {
        let definitions = self.definitions;
        let mut all = definitions.iter();
        let definition = all
            .position(|definition| definition.name == name)
            .expect("a service");
        let is_it = |service: &ServiceSection| service.definition == definition;
        let place = match self.services.iter().position(is_it) {
            Some(place) => place,
            None => {
                let section = Section::empty(definitions[definition].name);
                self.services.push(ServiceSection { definition, section });
                self.services.len() - 1
            }
        };
        &mut self.services[place].section
    }

    /// Returns the number of tables that the section `name` has.
    pub fn tables_of(&self, name: &str) -> usize {
        let all = self.services.iter();
        all.filter(|service| service.section.name() == name).count()
    }

    /// Leaves the service `name` alone, and enables it.
    ///
    /// # Panics
    /// When there is no such service.
    pub fn serve_only(&mut self, name: &str) {
        self.section(name).set("enabled", true);
        self.services.retain(|service| service.section.name() == name);
    }

    /// Replaces one value, given as `SECTION.KEY=VALUE`. The value is written as in the file; text may go without
    /// quotes.
    ///
    /// # Errors
    /// Another form; a section that no service has.
    pub fn set(&mut self, assignment: &str) -> Result<(), String> {
        let parts = || {
            let (path, value) = assignment.split_once('=')?;
            let (section, key) = path.trim().split_once('.')?;
            Some((section, key.trim(), value.trim()))
        };
        let (section, key, value) =
            parts().ok_or_else(|| format!("{assignment:?} is not SECTION.KEY=VALUE"))?;
        let value = match toml::from_str::<toml::Table>(&format!("x = {value}")) {
            Ok(mut table) => table.remove("x").unwrap_or_else(|| value.into()),
            Err(_) => value.into(),
        };
        if self.tables_of(section) > 1 {
            return Err(format!(
                "{assignment:?}: the file has several tables [[{section}]]; change it there"
            ));
        }
        let section = match section {
            "console" => &mut self.console,
            "datapath" => &mut self.datapath,
            "process" => &mut self.process,
            name if self.definitions.iter().any(|definition| definition.name == name) => self.section(name),
            name => return Err(format!("{assignment:?}: there is no section [{name}]")),
        };
        section.set(key, value);
        Ok(())
    }

    /// Checks every value.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn check(&self) -> Result<Checked, ConfigError> {
        let mut issues = Vec::new();
        let console = self.console.read().unwrap_or_else(|found| {
            issues.extend(found);
            ConsoleConfig::default()
        });
        let datapath = DatapathConfig::parse(&self.datapath).unwrap_or_else(|found| {
            issues.extend(found);
            DatapathConfig::default()
        });
        let process = self.process.read().unwrap_or_else(|found| {
            issues.extend(found);
            ProcessConfig::default()
        });
        let mut services = Vec::new();
        // Ports that are taken, and what takes them.
        let mut taken = vec![("the console", console.listen.port())];
        let mut sections: Vec<_> = self.services.iter().collect();
        sections.sort_by_key(|service| service.definition);
        for ServiceSection { definition, section } in sections {
            let definition = &self.definitions[*definition];
            match (definition.parse)(section) {
                Ok(service) => {
                    issues.extend(ports_taken_twice(section, &*service, &mut taken));
                    if datapath.keep_fast_path && ends_with_server(&*service) {
                        let what = format!(
                            "true: the fast path of {} always ends with its server",
                            definition.name
                        );
                        let mut of_datapath = Issues::new(&self.datapath);
                        of_datapath.add("keep_fast_path", what);
                        issues.extend(of_datapath.finish(()).err().unwrap_or_default());
                    }
                    services.push(ConfiguredService {
                        name: definition.name,
                        service,
                    });
                }
                Err(found) => issues.extend(found),
            }
        }
        if issues.is_empty() {
            return Ok(Checked {
                file: self.file.clone(),
                console,
                datapath,
                process,
                services,
                definitions: self.definitions,
            });
        }
        issues.sort_by_key(|issue| issue.line);
        let file = self.file.clone().unwrap_or_else(|| "the command line".into());
        Err(ConfigError { file, issues })
    }
}

/// Returns the issue of a section that is an array of tables and may not be.
fn one_table(text: &str, name: &toml::Spanned<std::borrow::Cow<'_, str>>) -> ConfigIssue {
    let line = line_at(text, name.span().start);
    let name = name.get_ref();
    ConfigIssue {
        line: Some(line),
        what: format!("[[{name}]]: must be one table, [{name}]"),
    }
}

/// Returns whether an enabled service has a fast path that cannot go on without its server.
fn ends_with_server(service: &dyn Service) -> bool {
    let has_fast_path = service.listens().iter().any(|listen| listen.has_fast_path);
    service.is_enabled() && has_fast_path && !service.may_keep_fast_path()
}

/// Returns an issue for each port of an enabled service that another one takes as well. A service's own endpoints may
/// share one, as [`Service::listens`] says.
fn ports_taken_twice(
    section: &Section,
    service: &dyn Service,
    taken: &mut Vec<(&'static str, u16)>,
) -> Vec<ConfigIssue> {
    let mut issues = Issues::new(section);
    if service.is_enabled() {
        for listen in service.listens() {
            let port = listen.address.port();
            if port == 0 {
                continue;
            }
            if let Some((whose, _)) = taken.iter().find(|(_, other)| *other == port) {
                let what = format!("\"{}\": must have another port than {whose}", listen.address);
                issues.add(listen.key, what);
            }
            taken.push((section.name(), port));
        }
    }
    issues.finish(()).err().unwrap_or_default()
}

impl Checked {
    /// Returns what the configuration allows but its operator should know.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let listen = self.console.listen;
        if !listen.ip().is_loopback() {
            warnings.push(format!(
                "[console] listen = {listen}: every client that reaches it can read it"
            ));
        }
        warnings.extend(self.exposed_secret());
        warnings.extend(self.enabled().flat_map(Service::warnings));
        warnings
    }

    /// Returns a warning where others than its owner may read a configuration file that holds a secret.
    fn exposed_secret(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        let has_secret = self
            .services
            .iter()
            .any(|configured| configured.service.has_secret());
        let mode = exposed_mode(file).ok().flatten().filter(|_| has_secret)?;
        Some(format!(
            "{}: it holds a password, and others may use it (mode {mode:03o}): chmod 600 it",
            file.display()
        ))
    }

    /// Returns what is wrong with the files that the configuration names, on this machine and at this moment.
    pub fn file_warnings(&self) -> Vec<String> {
        self.enabled().flat_map(Service::file_warnings).collect()
    }

    /// Returns the configuration in effect, with every key of the sections that it has.
    pub fn sections(&self) -> toml::Table {
        let mut all = toml::Table::new();
        all.insert("console".into(), section(&self.console).into());
        all.insert("datapath".into(), section(&self.datapath).into());
        all.insert("process".into(), section(&self.process).into());
        for ConfiguredService { name, service } in &self.services {
            let own = toml::Value::from(service.section());
            match all.remove(*name) {
                None => all.insert((*name).into(), own),
                Some(toml::Value::Array(mut tables)) => {
                    tables.push(own);
                    all.insert((*name).into(), tables.into())
                }
                Some(first) => all.insert((*name).into(), vec![first, own].into()),
            };
        }
        all
    }

    fn enabled(&self) -> impl Iterator<Item = &dyn Service> {
        let all = self.services.iter().map(|configured| &*configured.service);
        all.filter(|service| service.is_enabled())
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
