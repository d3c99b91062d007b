//! The daemon: runs all services that a configuration enables in one process and on the same network interfaces. It
//! uses only the traits of `lineside-service` and names no service.

use crate::config::CheckedConfig;
use crate::privileges::{XDP, drop_all_but};
use crate::process::ProcessConfig;
use crate::sandbox::{self, KeptRights, Places};
use crate::version;
use anyhow::{Context, bail};
use lineside_service::config::UsageError;
use lineside_service::{
    DatapathConfig, DatapathKind, Endpoint, Running, Service, ServiceDef, ServiceStatus, Snapshot,
    StartContext, StatusBuilder, XdpAttachment,
};
use lineside_util::data_dir::{self, Watch};
use lineside_util::process_use::ProcessUse;
use lineside_xdp::{Pins, detach_command};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Running services. Dropping the daemon stops them and always detaches their fast paths.
pub struct Daemon {
    /// Services in the order of their start; empty after they have stopped.
    running: Vec<Box<dyn Running>>,
    attachment: Arc<XdpAttachment>,
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
        config.require_enabled()?;
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
            warnings: Vec::new(),
        };
        for one in &mut enabled {
            one.service.privileged_init(&mut context)?;
        }
        let may_use_xdp = context.datapath.kind != DatapathKind::Socket
            && enabled.iter().any(|one| has_fast_path(&*one.service));
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
        restrict(&process, &services, &mut context)?;
        let mut daemon = Self {
            running: Vec::new(),
            _watch: Watch::start()?,
            attachment: Arc::clone(&context.attachment),
            keeps_fast_path: false,
            started: Instant::now(),
            warnings: Vec::new(),
        };
        for service in services {
            daemon.running.push(service.start(&mut context)?);
        }
        daemon.refuse_equal_instances()?;
        context
            .attachment
            .attach(&context.datapath, &mut context.warnings)?;
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
        let statuses: Vec<_> = self.running.iter().map(|running| running.status()).collect();
        let (started, known) = (self.started, self.warnings.clone());
        Arc::new(move || {
            let mut out = StatusBuilder {
                warnings: known.clone(),
                ..StatusBuilder::default()
            };
            out.problems.extend(data_dir::problems());
            statuses.iter().for_each(|status| out.collect(|out| status(out)));
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

fn has_fast_path(service: &dyn Service) -> bool {
    service.listens().iter().any(|listen| listen.has_fast_path)
}

/// Drops the capabilities for XDP if no program was loaded, and enters the sandbox. Must run before a second thread
/// starts.
fn restrict(
    process: &ProcessConfig,
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
