//! Registration of a service, and the stages of its life: configured, started, stopped.

use crate::config::{ConfigIssue, Section};
use crate::{DatapathConfig, NicAttachment, NicProgram, Rights, StatusBuilder, XdpAttachment};
use lineside_net::SocketOptions;
use lineside_util::data_dir::Kind;
use lineside_xdp::ProgramSpec;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Function that parses the section of a service.
pub type ParseSection = fn(&Section) -> Result<Box<dyn Service>, Vec<ConfigIssue>>;

/// Function that finds the pending work of a fast path in a directory of pinned maps.
pub type FindPinnedWork = fn(&Path) -> anyhow::Result<Option<PinnedWork>>;

/// Registration of a service: everything that the daemon knows about it before it reads a configuration.
#[derive(Clone, Copy, Debug)]
pub struct ServiceDef {
    /// Name of the service, which is also the name of its section in the configuration.
    pub name: &'static str,
    /// Returns the section with every key at its default.
    pub default_section: fn() -> toml::Table,
    /// True if the section may be an array of tables, each of which configures a separate instance. Must be false for a
    /// service with an XDP program, because its instances would share the program's slot and maps.
    pub may_repeat: bool,
    /// Parses one section. If the section is an array of tables, the daemon calls this function for each table.
    ///
    /// Fails with all issues that were found, in any order; the list of issues is never empty.
    pub parse: ParseSection,
    /// Returns the pending work that a fast path left in the pinned maps of a directory. `None` for a service whose
    /// fast path only caches and does not execute requests.
    pub pinned_work: Option<FindPinnedWork>,
    /// Decoder for the records of the service's journal, which `lineside journal dump` uses. `None` for a service
    /// without a journal, or one whose records are printed as bytes.
    pub records: Option<RecordDecoder>,
}

impl ServiceDef {
    /// Returns the registration of a service with one section, whose fast path executes nothing, and whose journal, if
    /// it has one, is printed as bytes.
    pub const fn new(name: &'static str, default_section: fn() -> toml::Table, parse: ParseSection) -> Self {
        Self {
            name,
            may_repeat: false,
            default_section,
            parse,
            pinned_work: None,
            records: None,
        }
    }
}

/// Decoder for the records of a journal.
#[derive(Clone, Copy, Debug)]
pub struct RecordDecoder {
    /// Kind of the data directories whose journals have these records.
    pub kind: &'static Kind,
    /// Decodes a record from its kind and payload. Returns `None` for a record that is not valid.
    pub decode: fn(u8, &[u8]) -> Option<DecodedRecord>,
}

/// Record of a journal in a form for people.
#[derive(Clone, Debug, PartialEq)]
pub struct DecodedRecord {
    /// Name of the kind of record.
    pub name: &'static str,
    /// Fields of the record, without secrets.
    pub fields: serde_json::Value,
    /// True if the bytes of the record contain a secret, so that they are not printed.
    pub is_secret: bool,
}

/// Pending work that a pinned fast path holds for its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PinnedWork {
    /// True if the fast path executes requests, so that only its own service may replace it.
    pub executes: bool,
    /// Number of operations that the fast path has answered and no host has recorded.
    pub waiting: u64,
}

/// File or directory that a section names and that the service reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// Key in the section that names it.
    pub key: &'static str,
    /// Path as the section has it; it may be relative.
    pub path: PathBuf,
    /// Name of the program that creates the file later; `None` if the file must exist before the service starts.
    pub maker: Option<&'static str>,
}

impl NamedFile {
    /// Returns the files of these keys of a section. Leaves out keys that are empty.
    pub fn of_keys(section: &toml::Table, keys: &[&'static str]) -> Vec<Self> {
        let file = |key: &&'static str| {
            let path = section.get(*key)?.as_str().filter(|path| !path.is_empty())?;
            Some(Self {
                key,
                path: path.into(),
                maker: None,
            })
        };
        keys.iter().filter_map(file).collect()
    }
}

/// Address that a configured service will listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Key in the section that sets the address.
    pub key: &'static str,
    /// Address and port; port 0 means any free port.
    pub address: SocketAddr,
    /// True if a fast path answers at this address, so that an XDP program may answer there too.
    pub has_fast_path: bool,
}

impl Listen {
    /// Returns the address in `key` of a section, at which no fast path answers.
    pub const fn new(key: &'static str, address: SocketAddr) -> Self {
        Self {
            key,
            address,
            has_fast_path: false,
        }
    }

    /// Returns the address in the key `listen` of a section, at which a fast path answers.
    pub const fn of_fast_path(address: SocketAddr) -> Self {
        Self {
            key: "listen",
            address,
            has_fast_path: true,
        }
    }
}

/// A configured service that has not been started.
pub trait Service: Send {
    /// Returns true if the configuration enables the service.
    fn is_enabled(&self) -> bool;

    /// Returns the effective section, with every key.
    fn section(&self) -> toml::Table;

    /// Returns the addresses that the service will listen on. The daemon refuses a port that is used twice.
    fn listens(&self) -> Vec<Listen>;

    /// Returns the TCP addresses that the service will listen on in addition to [`Service::listens`]. They may have the
    /// port number of an address there, because that one uses UDP. The daemon refuses an address that is used twice.
    fn tcp_listens(&self) -> Vec<Listen> {
        Vec::new()
    }

    /// Returns the reasons why the service cannot run with this section `[datapath]`: a key of that section, and a text
    /// that begins with its value and says what to do. Reads no file and asks nothing of the machine.
    fn datapath_faults(&self, _datapath: &DatapathConfig) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Returns warnings about settings that are allowed but that the operator should know about, such as a server
    /// without signatures.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns true if the section contains a secret, such as the password in a URL, so that only the owner of the
    /// configuration file should be able to read it.
    fn has_secret(&self) -> bool {
        false
    }

    /// Returns warnings about files that the configuration names, if this machine cannot use them now.
    fn file_warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the files and directories that the configuration names and that the service reads, except its data
    /// directory.
    fn files(&self) -> Vec<NamedFile> {
        Vec::new()
    }

    /// Returns the command that creates the data directory of the service; `None` if the server creates it when it
    /// starts, or if the service needs none.
    fn init_command(&self) -> Option<String> {
        None
    }

    /// Returns the reason why the server refuses the existing data directory: it holds no data of this service, or data
    /// of another network or mode than the configured one. `None` if it fits, if it is missing and the server creates
    /// it, or if it cannot be read. Changes nothing, and does not check the data itself.
    fn data_fault(&self) -> Option<String> {
        None
    }

    /// Returns true if the fast path may continue to answer after the daemon has ended, until its lease ends.
    fn may_keep_fast_path(&self) -> bool {
        false
    }

    /// Opens files and creates directories while the process still has the privileges that it was started with.
    ///
    /// # Errors
    /// The reason why a file cannot be used. Everything that this call had created was removed again.
    fn privileged_init(&mut self, _context: &mut StartContext) -> anyhow::Result<()> {
        Ok(())
    }

    /// Returns the files and system calls that the service needs after [`Service::privileged_init`]. The process then
    /// gives up all other access.
    fn rights(&self) -> Rights {
        Rights::default()
    }

    /// Returns the XDP program of the service, sized for its configuration, or `None` if it has none.
    fn program(&self) -> Option<ProgramSpec> {
        None
    }

    /// Returns the fast path of the service in the RTL, or `None` if it has none there.
    fn nic_program(&self) -> Option<NicProgram> {
        None
    }

    /// Starts the service: fills the fast-path table, listens, and serves.
    ///
    /// # Errors
    /// The reason why the service cannot serve. In this case no part of it keeps running.
    fn start(self: Box<Self>, context: &mut StartContext) -> anyhow::Result<Box<dyn Running>>;
}

/// Resources that the daemon provides to services that start.
pub struct StartContext {
    /// The section `[datapath]`.
    pub datapath: DatapathConfig,
    /// The XDP programs of all services at their interfaces. Empty if the datapath is `socket`.
    pub attachment: Arc<XdpAttachment>,
    /// The NIC of the datapath `rtl`; `None` on the other datapaths.
    pub nic: Option<Arc<NicAttachment>>,
    /// Warnings for the operator. The daemon prints them after all services have started.
    pub warnings: Vec<String>,
}

impl StartContext {
    /// Returns the NIC if the service that listens on `listen` answers there.
    pub fn nic_of(&self, listen: SocketAddr) -> Option<&Arc<NicAttachment>> {
        self.nic.as_ref().filter(|nic| nic.serves(listen))
    }

    /// Returns the options of the socket datapath for a service that listens on `listen`.
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

/// A running service. Dropping it has the effect of [`Running::stop`].
pub trait Running: Send {
    /// Returns the name of the service.
    fn name(&self) -> &'static str;

    /// Returns the addresses at which the service can be reached, the most important one first. There is at least one.
    fn endpoints(&self) -> Vec<Endpoint>;

    /// Returns a short description of where the service answers, such as `xdp datapath, native on eth0` or `gRPC`.
    fn description(&self) -> String;

    /// Returns a function that adds the service's current state to a status. It may block on locks, and may be called
    /// after the service has stopped.
    fn status(&self) -> Arc<dyn Fn(&mut StatusBuilder) + Send + Sync>;

    /// Notifies the service that all services have started. Files that `privileged_init` created are kept from then on.
    fn confirm(&mut self) {}

    /// Stops the service. This is the second phase of the daemon's shutdown: in the first phase, the daemon has
    /// detached the XDP programs of all services, so that fast paths add no further work for their hosts. If
    /// `keeps_fast_path` is true, the programs stay attached and continue to answer until the lease ends. A second call
    /// does nothing.
    ///
    /// # Errors
    /// The reason why the service had stopped working earlier, or why it could not be closed properly.
    fn stop(&mut self, keeps_fast_path: bool) -> anyhow::Result<()>;
}
