//! The configuration: sections of a TOML file, and values from the command line that replace values of the file.
//!
//! [`Config`] holds unchecked values; [`Config::check`] turns it into [`CheckedConfig`], or into every mistake with
//! its line. `lineside.toml` in the repository explains every key and shows its default.

use crate::process::ProcessConfig;
use crate::services::SERVICES;
use lineside_rtl::{HAS_SIMULATED_NIC, RtlError};
use lineside_service::address;
use lineside_service::config::{ConfigIssue, Issues, Section, issue_of, line_at, loopback, section};
use lineside_service::{DatapathConfig, DatapathKind, Service, ServiceDef, placement_faults};
use lineside_util::data_dir::service_of;
use lineside_util::key_file::exposed_mode;
use lineside_wire::CONSOLE_PORT;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Maximum length of a host name in bytes (RFC 1035).
const HOST_BYTES_MAX: usize = 253;

/// Names of the sections that belong to no single service.
const SHARED: [&str; 3] = ["console", "datapath", "process"];

/// Configuration before its values are checked: sections of a file, and values that replace values of the file.
#[derive(Clone, Debug)]
pub struct Config {
    /// Configuration file; `None` if none was given.
    file: Option<PathBuf>,
    /// The section `[console]`.
    pub console: Section,
    /// The section `[datapath]`.
    pub datapath: Section,
    /// The section `[process]`.
    pub process: Section,
    /// Sections of the services, in the order of [`SERVICES`] once a file is parsed.
    services: Vec<ServiceSection>,
    /// Services that the configuration can have sections for.
    definitions: &'static [ServiceDef],
}

#[derive(Clone, Debug)]
struct ServiceSection {
    /// Index of the service in [`Config::definitions`].
    definition: usize,
    section: Section,
}

/// The section `[console]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConsoleConfig {
    /// Address and TCP port of the console.
    #[serde(with = "lineside_service::address")]
    pub listen: SocketAddr,
    /// Names that a request's `Host` may have, in addition to addresses and `localhost`.
    pub allowed_hosts: Vec<String>,
}

impl Default for ConsoleConfig {
    fn default() -> Self {
        Self {
            listen: loopback(CONSOLE_PORT),
            allowed_hosts: Vec::new(),
        }
    }
}

/// Configuration without mistakes.
pub struct CheckedConfig {
    /// Configuration file; `None` if none was given.
    file: Option<PathBuf>,
    /// The section `[console]`.
    pub console: ConsoleConfig,
    /// The section `[datapath]`.
    pub datapath: DatapathConfig,
    /// The section `[process]`.
    pub process: ProcessConfig,
    /// Services that have a section, enabled or not.
    pub services: Vec<ConfiguredService>,
    /// Services that the configuration can have sections for.
    pub definitions: &'static [ServiceDef],
}

/// Service with its checked section.
pub struct ConfiguredService {
    /// Name of the service.
    pub name: &'static str,
    /// Service that has not started yet.
    pub service: Box<dyn Service>,
}

/// All mistakes in a configuration; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Configuration file, or the words `the command line` if none was given.
    pub file: PathBuf,
    /// Mistakes, in the order of their lines.
    pub issues: Vec<ConfigIssue>,
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    /// Returns true if host names without an address are the only mistakes. The file is right then, and the resolver
    /// may know the names later, for example when the network has started.
    pub fn is_unresolved(&self) -> bool {
        self.issues
            .iter()
            .all(|issue| address::is_unresolved(&issue.what))
    }
}

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
    /// Returns the default configuration of a program that has these services.
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

    /// Reads `file`; [`Config::check`] checks the values.
    ///
    /// # Errors
    /// The file cannot be read, is not TOML, or has a section whose name is neither a service nor a shared section.
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

    /// Parses the text of a configuration file for a program that has these services.
    ///
    /// # Errors
    /// The text is not TOML, or has a section whose name is neither a service nor a shared section.
    pub fn parse(text: &str, definitions: &'static [ServiceDef]) -> Result<Self, ConfigIssue> {
        let mut config = Self::of_services(definitions);
        // A plain table reports duplicate keys, which `DeTable` accepts.
        toml::from_str::<toml::Table>(text).map_err(|error| issue_of(text, &error))?;
        let document = toml::de::DeTable::parse(text).map_err(|error| issue_of(text, &error))?;
        let shared: Arc<str> = text.into();
        for (name, value) in document.get_ref() {
            let unknown = || {
                let line = line_at(text, name.span().start);
                let services = definitions.iter().map(|definition| definition.name);
                let known_sections: Vec<_> = SHARED.into_iter().chain(services).collect();
                ConfigIssue {
                    line: Some(line),
                    what: format!(
                        "`{}`: unknown section `{}`, expected one of {}",
                        text.lines().nth(line - 1).unwrap_or("").trim(),
                        name.get_ref(),
                        known_sections.join(", ")
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
                    let other_definition = all.find(|(_, definition)| definition.name == other);
                    let (definition_index, definition) = other_definition.ok_or_else(unknown)?;
                    if tables.is_some() && !definition.may_repeat {
                        return Err(one_table(text, name));
                    }
                    let indices = tables.map_or(vec![None], |count| (0..count).map(Some).collect());
                    for index in indices {
                        let section = Section::new(definition.name, &shared, index);
                        config.services.push(ServiceSection {
                            definition: definition_index,
                            section,
                        });
                    }
                }
            }
        }
        config.services.sort_by_key(|service| service.definition);
        Ok(config)
    }

    /// Returns the first section of the service `name`. Adds an empty one if the file has none.
    ///
    /// # Panics
    /// No service has this name.
    pub fn section(&mut self, name: &str) -> &mut Section {
        let definitions = self.definitions;
        let mut all = definitions.iter();
        let definition = all
            .position(|definition| definition.name == name)
            .expect("a service");
        let is_it = |service: &ServiceSection| service.definition == definition;
        let index = match self.services.iter().position(is_it) {
            Some(index) => index,
            None => {
                let section = Section::empty(definitions[definition].name);
                self.services.push(ServiceSection { definition, section });
                self.services.len() - 1
            }
        };
        &mut self.services[index].section
    }

    /// Returns the number of sections of the service `name`; `[[name]]` can be repeated.
    pub fn tables_of(&self, name: &str) -> usize {
        let all = self.services.iter();
        all.filter(|service| service.section.name() == name).count()
    }

    /// Enables the service `name` and removes the sections of all others.
    ///
    /// # Panics
    /// No service has this name.
    pub fn serve_only(&mut self, name: &str) {
        self.section(name).set("enabled", true);
        self.services.retain(|service| service.section.name() == name);
    }

    /// Replaces one value, given as `SECTION.KEY=VALUE`. The value has the form that it has in the file, except that
    /// text needs no quotes.
    ///
    /// # Errors
    /// The text does not have this form, or names a section that does not exist or is repeated in the file.
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
                "{assignment:?}: the file has several tables [[{section}]]; change the value in the file"
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

    /// Checks all values.
    ///
    /// # Errors
    /// All mistakes.
    pub fn check(&self) -> Result<CheckedConfig, ConfigError> {
        let mut issues = Vec::new();
        let console = self.console.read().unwrap_or_else(|found| {
            issues.extend(found);
            ConsoleConfig::default()
        });
        issues.extend(wrong_hosts(&self.console, &console));
        let datapath = DatapathConfig::parse(&self.datapath).unwrap_or_else(|found| {
            issues.extend(found);
            DatapathConfig::default()
        });
        issues.extend(console_at_tap(&self.console, console.listen, &datapath));
        let process = self.process.read().unwrap_or_else(|found| {
            issues.extend(found);
            ProcessConfig::default()
        });
        let mut services = Vec::new();
        let mut ports = vec![TakenPort {
            service: None,
            user: "the console".into(),
            address: console.listen,
            is_tcp: false,
        }];
        let mut directories = Vec::new();
        let mut sections: Vec<_> = self.services.iter().collect();
        sections.sort_by_key(|service| service.definition);
        for ServiceSection { definition, section } in sections {
            let definition = &self.definitions[*definition];
            match (definition.parse)(section) {
                Ok(service) => {
                    issues.extend(ports_taken_twice(section, &*service, &mut ports));
                    issues.extend(addresses_of_nic(section, &*service, &datapath));
                    issues.extend(directory_taken_twice(section, &*service, &mut directories));
                    if datapath.keep_fast_path && ends_with_server(&*service) {
                        let what = format!(
                            "true: the fast path of {} always ends with its server; remove keep_fast_path",
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
                Err(section_issues) => issues.extend(section_issues),
            }
        }
        // A service whose section has a mistake is missing here, so the others alone say nothing about the datapath.
        let enabled: Vec<&dyn Service> = services
            .iter()
            .map(|configured: &ConfiguredService| &*configured.service)
            .filter(|service| service.is_enabled() && services.len() == self.services.len())
            .collect();
        let mut of_datapath = Issues::new(&self.datapath);
        for (key, what) in placement_faults(&datapath, &enabled) {
            of_datapath.add(key, what);
        }
        issues.extend(of_datapath.finish(()).err().unwrap_or_default());
        if issues.is_empty() {
            return Ok(CheckedConfig {
                file: self.file.clone(),
                console,
                datapath,
                process,
                services,
                definitions: self.definitions,
            });
        }
        issues.sort_by_key(|issue| issue.line);
        Err(config_error(self.file.as_deref(), issues))
    }
}

/// Returns the mistakes in `file`, or on the command line if no file was given.
fn config_error(file: Option<&Path>, issues: Vec<ConfigIssue>) -> ConfigError {
    let file = file.unwrap_or(Path::new("the command line")).into();
    ConfigError { file, issues }
}

/// Returns a mistake for each entry of `allowed_hosts` that cannot be the host name of a `Host` header.
fn wrong_hosts(section: &Section, console: &ConsoleConfig) -> Vec<ConfigIssue> {
    let is_name = |name: &str| {
        let is_part = |part: &str| {
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            !part.is_empty() && part.bytes().all(is_letter)
        };
        name.len() <= HOST_BYTES_MAX && name.split('.').all(is_part)
    };
    let mut issues = Issues::new(section);
    for name in console.allowed_hosts.iter().filter(|name| !is_name(name)) {
        let what = format!("{name:?}: must be a host name without port, such as \"lineside-1\"");
        issues.add("allowed_hosts", what);
    }
    issues.finish(()).err().unwrap_or_default()
}

/// Returns the mistake of a console at an address of the TAP device's network. The TAP device does not exist yet when
/// the console starts.
fn console_at_tap(section: &Section, listen: SocketAddr, datapath: &DatapathConfig) -> Vec<ConfigIssue> {
    let networks = match datapath.kind {
        DatapathKind::Rtl => datapath.tap_networks(),
        _ => Vec::new(),
    };
    let mut issues = Issues::new(section);
    let ip = listen.ip().to_canonical();
    if let Some(network) = networks.iter().find(|network| network.contains(ip)) {
        let what = format!(
            "\"{listen}\": the console cannot listen in the network of the TAP device, {network}; give another address \
             of this machine, such as {}",
            loopback(CONSOLE_PORT)
        );
        issues.add("listen", what);
    }
    issues.finish(()).err().unwrap_or_default()
}

/// Returns a mistake for each address of an enabled service that only the NIC can have, although the NIC does not serve
/// it.
fn addresses_of_nic(section: &Section, service: &dyn Service, datapath: &DatapathConfig) -> Vec<ConfigIssue> {
    let mut listens = service.tcp_listens();
    // A service with a program for the NIC is checked with the programs of all services.
    if service.nic_program().is_none() {
        listens.extend(service.listens());
    }
    let mut issues = Issues::new(section);
    for listen in listens.iter().filter(|_| service.is_enabled()) {
        if let Some(network) = datapath.nic_network_of(listen.address.ip()) {
            let what = format!(
                "\"{}\": this machine does not have this address of the TAP device, and the NIC does not serve it; \
                 give {}, or another address of this machine",
                listen.address,
                SocketAddr::new(network.address, listen.address.port())
            );
            issues.add(listen.key, what);
        }
    }
    issues.finish(()).err().unwrap_or_default()
}

/// Returns the mistake for a section that is an array of tables but must be a single table.
fn one_table(text: &str, name: &toml::Spanned<std::borrow::Cow<'_, str>>) -> ConfigIssue {
    let line = line_at(text, name.span().start);
    let name = name.get_ref();
    ConfigIssue {
        line: Some(line),
        what: format!("[[{name}]]: must be one table, [{name}]"),
    }
}

/// Returns true if the service is enabled and its fast path cannot answer after the server stops.
fn ends_with_server(service: &dyn Service) -> bool {
    let has_fast_path = service.listens().iter().any(|listen| listen.has_fast_path);
    service.is_enabled() && has_fast_path && !service.may_keep_fast_path()
}

/// Port that the console or an enabled service uses.
struct TakenPort {
    /// Name of the service; `None` for the console.
    service: Option<&'static str>,
    /// Name of the user for a message.
    user: String,
    address: SocketAddr,
    /// True for an address of [`Service::tcp_listens`].
    is_tcp: bool,
}

impl TakenPort {
    /// Returns true if an enabled service cannot use `address` as well. `is_tcp` is true for an address of
    /// [`Service::tcp_listens`].
    fn refuses(&self, service: &str, address: SocketAddr, is_tcp: bool) -> bool {
        let is_same_service = self.service == Some(service);
        match (self.is_tcp, is_tcp) {
            _ if self.address.port() != address.port() => false,
            (false, false) => true,
            (true, true) => overlap(self.address.ip(), address.ip()),
            // A service may have the same port on UDP and on TCP, see [`Service::tcp_listens`].
            _ => !is_same_service && overlap(self.address.ip(), address.ip()),
        }
    }
}

/// Returns true if two sockets with the same port cannot listen at these addresses. A socket at `[::]` listens at the
/// IPv4 addresses as well.
fn overlap(one: IpAddr, other: IpAddr) -> bool {
    let takes = |ip: IpAddr, other: IpAddr| ip.is_unspecified() && (ip.is_ipv6() || other.is_ipv4());
    one == other || takes(one, other) || takes(other, one)
}

/// Returns a mistake for each port of an enabled service that another service, the console or another TCP address of
/// the service uses, and adds the service's ports to `ports`.
fn ports_taken_twice(
    section: &Section,
    service: &dyn Service,
    ports: &mut Vec<TakenPort>,
) -> Vec<ConfigIssue> {
    let mut issues = Issues::new(section);
    let tcp = service.tcp_listens().into_iter().map(|listen| (listen, true));
    let all = service.listens().into_iter().map(|listen| (listen, false));
    for (listen, is_tcp) in all.chain(tcp) {
        let (name, address) = (section.name(), listen.address);
        if address.port() == 0 || !service.is_enabled() {
            continue;
        }
        if let Some(taken) = ports.iter().find(|taken| taken.refuses(name, address, is_tcp)) {
            let user = &taken.user;
            issues.add(
                listen.key,
                format!("\"{address}\": must have another port than {user}"),
            );
        }
        let user = match is_tcp {
            true => format!("`{}` of [{name}]", listen.key),
            false => name.into(),
        };
        ports.push(TakenPort {
            service: Some(name),
            user,
            address,
            is_tcp,
        });
    }
    issues.finish(()).err().unwrap_or_default()
}

/// Data directory of an enabled service.
struct TakenDirectory {
    /// Name of the service.
    service: &'static str,
    /// Value of the key `data`.
    value: String,
    /// The directory, without symbolic links as far as it exists.
    path: PathBuf,
}

/// Returns a mistake if the data directory of an enabled service is the directory of another service, or if one of the
/// two is inside the other. Adds the directory to `taken`.
fn directory_taken_twice(
    section: &Section,
    service: &dyn Service,
    taken: &mut Vec<TakenDirectory>,
) -> Vec<ConfigIssue> {
    let value = service
        .section()
        .get("data")
        .and_then(|data| data.as_str())
        .map(str::to_owned);
    let Some(value) = value.filter(|value| service.is_enabled() && !value.is_empty()) else {
        return Vec::new();
    };
    let path = resolved(Path::new(&value));
    let mut issues = Issues::new(section);
    for other in taken.iter() {
        let relation = match (path.starts_with(&other.path), other.path.starts_with(&path)) {
            (true, true) => "is also the directory of",
            (true, false) => "is inside the directory of",
            (false, true) => "contains the directory of",
            (false, false) => continue,
        };
        let what = format!(
            "{value:?}: {relation} [{}] data = {:?}; give each service a directory of its own",
            other.service, other.value
        );
        issues.add("data", what);
    }
    taken.push(TakenDirectory {
        service: section.name(),
        value,
        path,
    });
    issues.finish(()).err().unwrap_or_default()
}

/// Returns the absolute form of `path`. Symbolic links are resolved in the part of the path that exists.
fn resolved(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.into());
    let mut ancestors = absolute.ancestors();
    let found = ancestors.find_map(|above| {
        let rest = absolute.strip_prefix(above).ok()?;
        Some(above.canonicalize().ok()?.join(rest))
    });
    // `..` in the part that does not exist yet.
    let mut plain = PathBuf::new();
    for part in found.unwrap_or(absolute).components() {
        match part {
            Component::ParentDir => _ = plain.pop(),
            other => plain.push(other),
        }
    }
    plain
}

impl CheckedConfig {
    /// Returns warnings about values that are allowed but risky.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        let listen = self.console.listen;
        if !listen.ip().is_loopback() {
            warnings.push(format!(
                "[console] listen = {listen}: every client that reaches this address can read status and metrics; the \
                 console asks for no password; restrict access to this port"
            ));
        }
        warnings.extend(self.exposed_secret());
        warnings.extend(self.enabled().flat_map(Service::warnings));
        warnings
    }

    /// Returns a warning if the configuration file holds a password and users other than its owner can read it.
    fn exposed_secret(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        let has_secret = self
            .services
            .iter()
            .any(|configured| configured.service.has_secret());
        let mode = exposed_mode(file).ok().flatten().filter(|_| has_secret)?;
        Some(format!(
            "{}: this file holds a password and other users may read it (mode {mode:03o}): chmod 600 it",
            file.display()
        ))
    }

    /// Returns warnings about files that the configuration names and that cannot be used on this machine now.
    pub fn file_warnings(&self) -> Vec<String> {
        self.enabled().flat_map(Service::file_warnings).collect()
    }

    /// Returns warnings about data directories that exist on this machine and that their servers would refuse.
    pub fn data_warnings(&self) -> Vec<String> {
        let enabled = self.services.iter().filter(|one| one.service.is_enabled());
        let warning = |ConfiguredService { name, service }: &ConfiguredService| {
            let section = service.section();
            let data = section.get("data")?.as_str().filter(|data| !data.is_empty())?;
            let fault = match service_of(Path::new(data)).filter(|other| other != name) {
                Some(other) => format!("{data} holds data of the service {other}; set another directory"),
                None => service.data_fault()?,
            };
            Some(format!("[{name}] data: {fault}"))
        };
        enabled.filter_map(warning).collect()
    }

    /// Returns the configuration in effect: the shared sections and those of the services, each with all its keys.
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

    /// Refuses a configuration that enables no service, because no server starts with it.
    ///
    /// # Errors
    /// No service is enabled.
    pub fn require_enabled(&self) -> Result<(), ConfigError> {
        if self.enabled().next().is_some() {
            return Ok(());
        }
        let all = self.definitions.iter();
        let sections: Vec<_> = all.map(|one| format!("[{}]", one.name)).collect();
        let remedy = match self.file {
            Some(_) => "set `enabled = true`",
            None => "give --config FILE with `enabled = true`",
        };
        let issue = ConfigIssue {
            line: None,
            what: format!(
                "no service is enabled; {remedy} in one or more of {}",
                sections.join(", ")
            ),
        };
        Err(config_error(self.file.as_deref(), vec![issue]))
    }

    /// Refuses a configuration with which no server of this program starts on any machine: it enables no service, or
    /// its datapath is not part of the program.
    ///
    /// # Errors
    /// No service is enabled, or the program was built without the NIC of the datapath `rtl`.
    pub fn require_startable(&self) -> Result<(), ConfigError> {
        self.require_enabled()?;
        if self.datapath.kind != DatapathKind::Rtl || HAS_SIMULATED_NIC {
            return Ok(());
        }
        let issue = ConfigIssue {
            line: None,
            what: format!("[datapath] kind = \"rtl\": {}", RtlError::NotBuilt),
        };
        Err(config_error(self.file.as_deref(), vec![issue]))
    }

    /// Returns true if the values are from a file.
    pub fn has_file(&self) -> bool {
        self.file.is_some()
    }

    /// Returns the enabled services.
    pub fn enabled(&self) -> impl Iterator<Item = &dyn Service> {
        let all = self.services.iter().map(|configured| &*configured.service);
        all.filter(|service| service.is_enabled())
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "config_datapath_tests.rs"]
mod datapath_tests;
