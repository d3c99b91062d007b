//! The daemon: runs all services that a configuration enables in one process and on the same network interfaces. It
//! uses only the traits of `lineside-service` and names no service.

use crate::config::{CheckedConfig, ConfiguredService};
use crate::privileges::{XDP, drop_all_but};
use crate::process::ProcessConfig;
use crate::sandbox::{self, KeptRights, Places};
use crate::version;
use anyhow::{Context, bail};
use lineside_service::config::UsageError;
use lineside_service::{
    DatapathConfig, Endpoint, NicAttachment, NicProgram, Running, Service, ServiceDef, ServiceStatus,
    Snapshot, StartContext, StatusBuilder, XdpAttachment,
};
use lineside_util::data_dir::{self, Watch};
use lineside_util::process_use::ProcessUse;
use lineside_xdp::{Pins, detach_command};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Running services. Dropping the daemon stops them and always detaches their fast paths.
pub struct Daemon {
    /// Services in the order of their start; empty after they have stopped.
    running: Vec<Box<dyn Running>>,
    /// Data directory of each service in `running`; empty for a service without one.
    directories: Vec<PathBuf>,
    attachment: Arc<XdpAttachment>,
    /// The NIC of the datapath `rtl`.
    nic: Option<Arc<NicAttachment>>,
    /// Detects that a data directory was removed, moved or replaced.
    _watch: Watch,
    keeps_fast_path: bool,
    started: Instant,
    warnings: Vec<String>,
}

/// Running service, as the announcement at the start of the server describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// Name of the service.
    pub name: &'static str,
    /// First address of the service.
    pub listen: SocketAddr,
    /// Description of the datapath or protocol, for people.
    pub datapath: String,
    /// Other addresses of the service, with their protocols.
    pub also: Vec<Endpoint>,
}

impl Daemon {
    /// Opens the files of the enabled services, drops privileges that are no longer needed, and starts the services.
    ///
    /// # Errors
    /// No service is enabled, or one cannot start. Then nothing stays attached or running.
    pub fn start(config: CheckedConfig) -> anyhow::Result<Self> {
        config.require_startable()?;
        let mut warnings = config.warnings();
        let CheckedConfig {
            datapath,
            process,
            services,
            definitions,
            ..
        } = config;
        let mut enabled: Vec<_> = services
            .into_iter()
            .filter(|one| one.service.is_enabled())
            .collect();
        let mut context = StartContext {
            datapath,
            attachment: Arc::new(XdpAttachment::none()),
            nic: None,
            warnings: Vec::new(),
        };
        for one in &mut enabled {
            one.service.privileged_init(&mut context)?;
        }
        context.nic = open_nic(&enabled, &context.datapath, &mut context.warnings)?;
        let may_use_xdp =
            context.datapath.kind.may_be_xdp() && enabled.iter().any(|one| has_fast_path(&*one.service));
        drop_all_but(if may_use_xdp { XDP } else { &[] })?;

        let names: Vec<_> = enabled.iter().map(|one| one.name).collect();
        let services: Vec<_> = enabled.into_iter().map(|one| one.service).collect();
        let absent = definitions
            .iter()
            .filter(|definition| !names.contains(&definition.name));
        let absent: Vec<_> = absent.collect();
        context.attachment = Arc::new(load(
            &context.datapath,
            &services,
            &absent,
            &mut context.warnings,
        )?);
        restrict(&process, &names, &services, &mut context)?;
        let mut daemon = Self {
            running: Vec::new(),
            directories: Vec::new(),
            _watch: Watch::start()?,
            attachment: Arc::clone(&context.attachment),
            nic: context.nic.clone(),
            keeps_fast_path: false,
            started: Instant::now(),
            warnings: Vec::new(),
        };
        if let Some(nic) = &context.nic {
            nic.start()?;
        }
        for service in services {
            daemon.directories.push(directory_of(&*service));
            daemon.running.push(service.start(&mut context)?);
        }
        daemon.refuse_equal_instances()?;
        context
            .attachment
            .attach(&context.datapath, &mut context.warnings)?;
        if let Some(nic) = &context.nic {
            nic.attach();
        }
        daemon.running.iter_mut().for_each(|running| running.confirm());
        daemon.keeps_fast_path = context.datapath.keep_fast_path;
        warnings.append(&mut context.warnings);
        daemon.warnings = warnings;
        Ok(daemon)
    }

    /// Refuses two instances of a service with the same identity, such as two replicas of one channel.
    fn refuse_equal_instances(&self) -> anyhow::Result<()> {
        let services = self.observed()().services;
        for (place, service) in services.iter().enumerate() {
            let is_equal =
                |other: &ServiceStatus| (&other.name, &other.instance) == (&service.name, &service.instance);
            if services[..place].iter().any(is_equal) {
                let instance = service.instance.as_deref().unwrap_or_default();
                let why = format!(
                    "two tables [[{}]] serve the same instance, {instance}: remove one of them",
                    service.name
                );
                bail!(UsageError(why));
            }
        }
        Ok(())
    }

    /// Returns the running services that have an address.
    pub fn serving(&self) -> Vec<Serving> {
        let serving = |running: &dyn Running| {
            let mut endpoints = running.endpoints().into_iter();
            let first = endpoints.next()?.address;
            Some(Serving {
                name: running.name(),
                listen: first,
                datapath: running.description(),
                also: endpoints.collect(),
            })
        };
        self.running
            .iter()
            .filter_map(|running| serving(&**running))
            .collect()
    }

    /// Returns the addresses of all services.
    pub fn endpoints(&self) -> Vec<Endpoint> {
        self.running
            .iter()
            .flat_map(|running| running.endpoints())
            .collect()
    }

    /// Returns the warnings of a successful start.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns a function that returns the current status of the process at each call.
    pub fn observed(&self) -> Arc<dyn Fn() -> Snapshot + Send + Sync> {
        let statuses = self.running.iter().map(|running| running.status());
        let statuses: Vec<_> = statuses.zip(self.directories.clone()).collect();
        let (started, known) = (self.started, self.warnings.clone());
        Arc::new(move || {
            let mut out = StatusBuilder {
                warnings: known.clone(),
                ..StatusBuilder::default()
            };
            let mut lost = data_dir::problems();
            for (status, directory) in &statuses {
                let is_own =
                    |(path, _): &mut (PathBuf, String)| !is_empty(directory) && path.starts_with(directory);
                let own: Vec<_> = lost.extract_if(.., is_own).map(|(_, what)| what).collect();
                out.collect(|out| {
                    out.problems.extend(own);
                    status(out);
                });
            }
            out.problems.extend(lost.into_iter().map(|(_, what)| what));
            let mut snapshot = Snapshot {
                version: version::SHORT.into(),
                commit: version::COMMIT.into(),
                features: version::FEATURES.iter().map(|name| (*name).into()).collect(),
                uptime_s: started.elapsed().as_secs(),
                services: out.services,
                problems: out.problems,
                warnings: out.warnings,
                ..Snapshot::default()
            };
            snapshot.set_process(&ProcessUse::read());
            snapshot
        })
    }

    /// Stops all services in two phases: first detaches the XDP programs, so that they add no more operations for the
    /// host to journal; then each service finishes its pending work and stops.
    ///
    /// # Errors
    /// The first error of a service; further errors are logged.
    pub fn stop(mut self) -> anyhow::Result<()> {
        self.end(self.keeps_fast_path)
    }

    fn end(&mut self, may_keep_fast_path: bool) -> anyhow::Result<()> {
        let keeps_fast_path = may_keep_fast_path && self.attachment.keep();
        self.attachment.detach();
        if let Some(nic) = self.nic.take() {
            nic.detach();
        }
        let mut ended = Ok(());
        for mut running in std::mem::take(&mut self.running) {
            match (running.stop(keeps_fast_path), &ended) {
                (Err(error), Ok(())) => ended = Err(error),
                (Err(error), Err(_)) => tracing::error!("{error:#}"),
                (Ok(()), _) => {}
            }
        }
        ended
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Only `stop` can keep the fast path: a failed start leaves nothing attached.
        if let Err(error) = self.end(false) {
            tracing::error!("{error:#}");
        }
    }
}

/// Creates the NIC of the datapath `rtl` for the services that it can serve. Warns of services whose fast path is not
/// in the RTL.
fn open_nic(
    enabled: &[ConfiguredService],
    datapath: &DatapathConfig,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Option<Arc<NicAttachment>>> {
    let programs: Vec<_> = enabled
        .iter()
        .filter_map(|one| one.service.nic_program())
        .collect();
    let nic = NicAttachment::open(datapath, programs.clone())?;
    if nic.is_some() {
        let (in_nic, _) = NicProgram::split(programs);
        let others = enabled.iter().filter(|one| {
            let own = one.service.nic_program();
            has_fast_path(&*one.service) && !own.is_some_and(|own| in_nic.contains(&own))
        });
        warnings.extend(others.map(|one| {
            let why = match one.service.nic_program() {
                Some(_) => "is not the service of the simulated NIC, which has one service",
                None => "has no fast path in the RTL yet",
            };
            format!(
                "{} {why}, so its fast path runs on the socket datapath, and it is not at the TAP device",
                one.name
            )
        }));
    }
    Ok(nic.map(Arc::new))
}

fn is_empty(path: &Path) -> bool {
    path.as_os_str().is_empty()
}

/// Returns the data directory in the section of a service; an empty path if it has none.
fn directory_of(service: &dyn Service) -> PathBuf {
    let section = service.section();
    let data = section.get("data").and_then(|data| data.as_str());
    data.unwrap_or_default().into()
}

fn has_fast_path(service: &dyn Service) -> bool {
    service.listens().iter().any(|listen| listen.has_fast_path)
}

/// Drops the capabilities for XDP if no program was loaded, and enters the sandbox. Must run before a second thread
/// starts.
fn restrict(
    process: &ProcessConfig,
    names: &[&'static str],
    services: &[Box<dyn Service>],
    context: &mut StartContext,
) -> anyhow::Result<()> {
    let has_programs = context.attachment.has_programs();
    if !has_programs {
        drop_all_but(&[])?;
    }
    let rights: Vec<_> = services.iter().map(|service| service.rights()).collect();
    // Without a mounted BPF file system the maps are not pinned, and the directory `pin_dir` does not exist.
    let pins = (context.attachment.has_pins()).then(|| context.datapath.pin_dir.clone());
    let writes = rights.iter().flat_map(|rights| rights.writes.iter().cloned());
    let made = data_dir::made_directories();
    for (name, service) in names.iter().zip(services) {
        let rights = service.rights();
        let above = made.iter().map(|made| folder_of(made));
        let above = above.filter(|above| rights.writes.iter().any(|path| path.starts_with(above)));
        for path in rights.writes.iter().chain(&rights.reads).cloned().chain(above) {
            can_open(name, &service.section(), &path)?;
        }
    }
    let kept = KeptRights {
        places: Places {
            writes: writes.chain(pins.clone()).collect(),
            reads: rights
                .iter()
                .flat_map(|rights| rights.reads.iter().cloned())
                .collect(),
            removes_below: made.iter().chain(&pins).map(|made| folder_of(made)).collect(),
        },
        calls: rights
            .iter()
            .flat_map(|rights| rights.calls.iter().copied())
            .collect(),
        has_programs,
    };
    let lacking = sandbox::enter(process.sandbox, &kept).context(
        "cannot limit the system calls and files of the server (`sandbox` in [process]; \"off\" is for debugging only)",
    )?;
    context.warnings.extend(lacking);
    Ok(())
}

/// Checks that this process, which has given up the rights of root, can open a path that a service needs.
///
/// # Errors
/// The path cannot be opened. The error names the key of the configuration that the path is from.
fn can_open(service: &str, section: &toml::Table, path: &Path) -> anyhow::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let opened = options.read(true).custom_flags(libc::O_PATH).open(path);
    let Err(error) = opened else { return Ok(()) };
    let key = match key_of(section, path) {
        Some((key, value)) => format!("[{service}] {key} = {value:?}"),
        None => format!("[{service}]"),
    };
    let shown = path.display();
    if error.kind() == std::io::ErrorKind::NotFound {
        bail!("{key}: {shown} does not exist; create it, or give another path");
    }
    bail!(
        "{key}: the server cannot open {shown} without the rights of root, which it has given up ({error}); run it as \
         the user who owns this path, or give another path"
    )
}

/// Returns the key of a section, and its value, whose path is `path` or is the nearest one below `path`.
fn key_of<'a>(section: &'a toml::Table, path: &Path) -> Option<(&'a str, &'a str)> {
    let values = section
        .iter()
        .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
    let below = values.filter(|(_, value)| !value.is_empty() && Path::new(value).starts_with(path));
    below.min_by_key(|(_, value)| value.len())
}

/// Returns the parent directory of `path`.
fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.into(),
        _ => ".".into(),
    }
}

/// Loads the XDP programs of the services that have a fast path. Fails if a fast path of a service in `absent` that
/// executes operations is still pinned on one of the interfaces: it may hold operations that are not journaled yet, and
/// loading would replace its programs.
fn load(
    datapath: &DatapathConfig,
    services: &[Box<dyn Service>],
    absent: &[&ServiceDef],
    warnings: &mut Vec<String>,
) -> anyhow::Result<XdpAttachment> {
    let listens = services.iter().flat_map(|service| service.listens());
    let listens: Vec<_> = listens
        .filter(|listen| listen.has_fast_path)
        .map(|listen| listen.address)
        .collect();
    let programs = || services.iter().filter_map(|service| service.program()).collect();
    let check_pins = |pins: &Pins| {
        for definition in absent {
            let Some(pinned_work) = definition.pinned_work else {
                continue;
            };
            if pinned_work(pins.path())?.is_some_and(|work| work.executes) {
                let (name, interface) = (definition.name, pins.interface());
                bail!(
                    "a fast path of `{name}` in mode `express` is pinned on {interface} and may hold operations that \
                     are not journaled: start the server of `{name}` on {interface} first, or remove the fast path \
                     with `{}`",
                    detach_command(interface, pins.dir())
                );
            }
        }
        Ok(())
    };
    XdpAttachment::load(datapath, &listens, programs, check_pins, warnings)
}

#[cfg(test)]
mod tests {
    use super::{can_open, key_of};
    use std::path::Path;

    #[test]
    fn a_path_that_cannot_be_opened_is_told_with_its_key() {
        let text = "listen = '127.0.0.1:7702'\ndata = '/var/lib/lineside/transfer'\n\
                    settle_to = '/proc/no-such-folder/x'\n";
        let section: toml::Table = toml::from_str(text).expect("TOML");
        let folder = Path::new("/proc/no-such-folder");
        assert_eq!(
            key_of(&section, folder),
            Some(("settle_to", "/proc/no-such-folder/x"))
        );
        let data = Path::new("/var/lib/lineside/transfer");
        assert_eq!(key_of(&section, data).map(|(key, _)| key), Some("data"));
        assert_eq!(key_of(&section, Path::new("/srv")), None);
        can_open("transfer", &section, Path::new("/")).expect("every user can open it");
        let message = can_open("transfer", &section, folder)
            .expect_err("it does not exist")
            .to_string();
        let begin =
            "[transfer] settle_to = \"/proc/no-such-folder/x\": /proc/no-such-folder does not exist; ";
        assert!(message.starts_with(begin), "{message}");
    }
}
