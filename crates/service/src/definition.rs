//! Registration of a service and the stages of its life.

use crate::config::{ConfigIssue, Section};
use crate::{DatapathConfig, Rights, StatusBuilder, XdpAttachment};
use lineside_net::SocketOptions;
use lineside_xdp::ProgramSpec;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// Function that parses the section of a service.
pub type ParseSection = fn(&Section) -> Result<Box<dyn Service>, Vec<ConfigIssue>>;

/// Function that finds the work that a fast path left in a directory of pinned maps.
pub type FindPinnedWork = fn(&Path) -> anyhow::Result<Option<PinnedWork>>;

/// Registration of a service: everything that the daemon knows of it before it reads a configuration.
#[derive(Clone, Copy, Debug)]
pub struct ServiceDef {
    /// Name of the service, which is also the name of its section in the configuration.
    pub name: &'static str,
    /// Returns the section with every key at its default.
    pub default_section: fn() -> toml::Table,
    /// True if the section may be an array of tables, each of which is an instance of its own. A service with an XDP
    /// program may not: its instances would share the program's slot and its maps.
    pub may_repeat: bool,
    /// Parses one section. A service whose section is an array of tables is parsed once for each of them.
    ///
    /// Fails with every issue that was found, in any order; never with an empty list.
    pub parse: ParseSection,
    /// Returns the work that a fast path left in the pinned maps of a directory, of a service whose fast path executes
    /// requests; `None` for a service whose fast path only caches.
    pub pinned_work: Option<FindPinnedWork>,
}

/// Work that a pinned fast path holds for its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinnedWork {
    /// True if the fast path executes requests, so that only its own service may take its place.
    pub executes: bool,
    /// Operations that the fast path has answered and no host has recorded.
    pub waiting: u64,
}

/// Address that a configured service will listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Key of the section that names the address.
    pub key: &'static str,
    /// Address and port; port 0 is any free one.
    pub address: SocketAddr,
    /// True if a fast path answers here, so that an XDP program may answer at this address too.
    pub has_fast_path: bool,
}

/// A configured service that has not started.
pub trait Service: Send {
    /// Returns whether the configuration enables the service.
    fn is_enabled(&self) -> bool;

    /// Returns the section in effect, with every key.
    fn section(&self) -> toml::Table;

    /// Returns the addresses that the service will listen on; the daemon refuses a port that is given twice.
    fn listens(&self) -> Vec<Listen>;

    /// Returns what the configuration allows but its operator should know, such as a server without signatures.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether the section itself holds a secret, such as the password in a URL, so that only the owner of the
    /// configuration file should be able to read it.
    fn has_secret(&self) -> bool {
        false
    }

    /// Returns what is wrong with the files that the configuration names, on this machine and at this moment.
    fn file_warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether the fast path may go on answering after the daemon has ended, until its lease ends.
    fn may_keep_fast_path(&self) -> bool {
        false
    }

    /// Opens files and makes directories while the process still has all the rights that it was started with.
    ///
    /// # Errors
    /// The reason why a file cannot be used. Nothing that this call made is left behind then.
    fn privileged_init(&mut self, _context: &mut StartContext) -> anyhow::Result<()> {
        Ok(())
    }

    /// Returns what the service uses once [`Service::privileged_init`] has returned: everything else is refused to the
    /// process from then on.
    fn rights(&self) -> Rights {
        Rights::default()
    }

    /// Returns the XDP program of the service, sized for its configuration; `None` for a service without one.
    fn program(&self) -> Option<ProgramSpec> {
        None
    }

    /// Fills the fast-path table, listens, and serves.
    ///
    /// # Errors
    /// The reason why the service cannot serve. Nothing goes on running then.
    fn start(self: Box<Self>, context: &mut StartContext) -> anyhow::Result<Box<dyn Running>>;
}

/// Resources that the daemon gives to services that start.
pub struct StartContext {
    /// The section `[datapath]`.
    pub datapath: DatapathConfig,
    /// The XDP programs of all services at their interface; empty where the datapath is `socket`.
    pub attachment: Arc<XdpAttachment>,
    /// Warnings for the operator; the daemon prints them once everything has started.
    pub warnings: Vec<String>,
}

impl StartContext {
    /// Returns how the socket datapath of a service runs that listens on `listen`.
    pub fn socket_options(&self, listen: SocketAddr) -> SocketOptions {
        SocketOptions {
            listen,
            threads: self.datapath.socket_threads(),
            queue: self.datapath.queue,
        }
    }
}

/// Address at which a running service can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Protocol, such as `udp`, `grpc` or `deliver`.
    pub protocol: &'static str,
    /// Address and port.
    pub address: SocketAddr,
}

/// A running service. Dropping it stops it as [`Running::stop`] does.
pub trait Running: Send {
    /// Returns the name of the service.
    fn name(&self) -> &'static str;

    /// Returns the addresses at which the service can be reached, the most important first; at least one.
    fn endpoints(&self) -> Vec<Endpoint>;

    /// Returns in a few words where the service answers, such as `xdp datapath, native on eth0` or `gRPC`.
    fn description(&self) -> String;

    /// Returns a function that adds the service's state at the time of the call to a status. It may wait for locks, and
    /// it may be called after the service has stopped.
    fn status(&self) -> Arc<dyn Fn(&mut StatusBuilder) + Send + Sync>;

    /// Says that every service has started, so that what `privileged_init` made is there to stay.
    fn confirm(&mut self) {}

    /// Stops the service, the second phase of the daemon's end: in the first, the XDP programs of all services were
    /// detached, so that nothing adds to what a fast path has left for its host. With `keeps_fast_path` they are
    /// attached still, and go on answering until the lease ends. A second call does nothing.
    ///
    /// # Errors
    /// The reason why the service had given up its work before, or why it could not be closed in order.
    fn stop(&mut self, keeps_fast_path: bool) -> anyhow::Result<()>;
}
