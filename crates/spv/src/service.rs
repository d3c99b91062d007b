//! The `spv` service of the daemon: chain store, host, fast path, sockets, and the lease.

use crate::chain::{ChainStore, Network, StoreNetwork};
use crate::config::{IndexName, Prefill, SpvConfig};
use crate::datapath;
use crate::fastpath::SpvFastPath;
use crate::follow::FollowOptions;
use crate::frontends::{self, Frontends, Prepared};
use crate::host::SpvHost;
use crate::nic::{self, NicWriter};
use crate::store::Store;
use crate::writer::{SpvFill, StoreWriter};
use anyhow::{Context, bail};
use lineside_bitcoin_node::NodeUrl;
use lineside_fastpath::{Readers, lease};
use lineside_net::SocketDatapath;
use lineside_rtl::REGISTER_SPV_PORT;
use lineside_service::config::{ConfigIssue, Section, UsageError, section};
use lineside_service::{
    Counted, Endpoint, Frontend, Leased, Listen, NamedFile, NicProgram, Rights, Running, RunningLeased,
    Service, ServiceDef, StartContext, StatusBuilder, Tip, cannot_listen,
};
use lineside_util::counted;
use lineside_util::hex::to_display;
use lineside_wire::{SPV_SLOT, SpvCounter, metric};
use lineside_xdp::ProgramSpec;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Definition of the service, by which the daemon starts it.
pub const DEF: ServiceDef = ServiceDef {
    name: "spv",
    may_repeat: false,
    default_section: || section(&SpvConfig::default()),
    parse,
    pinned_work: None,
    records: None,
};

fn parse(section: &Section) -> Result<Box<dyn Service>, Vec<ConfigIssue>> {
    let config = SpvConfig::parse(section)?;
    let prepared = None;
    Ok(Box::new(SpvService { config, prepared }))
}

struct SpvService {
    config: SpvConfig,
    /// Sockets and keys, which `privileged_init` opened; `None` before that and after the start.
    prepared: Option<Prepared>,
}

/// State of the running service.
struct SpvState {
    store: Arc<Store>,
    fastpath: Arc<SpvFastPath>,
    host: Arc<SpvHost>,
    frontends: Frontends,
    /// True if this process uses the fast-path table of an earlier process with its contents.
    was_kept: bool,
}

impl Service for SpvService {
    fn is_enabled(&self) -> bool {
        self.config.enabled
    }

    fn section(&self) -> toml::Table {
        section(&self.config)
    }

    fn listens(&self) -> Vec<Listen> {
        vec![Listen::of_fast_path(self.config.listen)]
    }

    fn tcp_listens(&self) -> Vec<Listen> {
        let all = [
            ("electrum", self.config.electrum.0),
            ("electrum_tls", self.config.electrum_tls.0),
            ("http", self.config.http.0),
        ];
        let all = all.into_iter();
        all.filter_map(|(key, address)| Some(Listen::new(key, address?)))
            .collect()
    }

    fn warnings(&self) -> Vec<String> {
        let paper = self.config.paper_index;
        let warning = paper.then(|| {
            "[spv] paper_index = true: attackers can choose TXIDs that use the same cache line; set it to false if \
             untrusted clients can reach the server".to_owned()
        });
        warning.into_iter().collect()
    }

    fn has_secret(&self) -> bool {
        let endpoint = self.config.node.url().and_then(NodeUrl::endpoint);
        endpoint.is_some_and(|endpoint| endpoint.password.is_some())
    }

    fn file_warnings(&self) -> Vec<String> {
        let cookie = frontends::cookie(&self.config).filter(|(file, _)| !file.exists());
        let warning = cookie.map(|(file, _)| {
            format!(
                "[spv] node_cookie = \"{}\": the file does not exist; Bitcoin Core creates it when it starts",
                file.display()
            )
        });
        warning.into_iter().collect()
    }

    fn files(&self) -> Vec<NamedFile> {
        let keys = [
            "node_password",
            "node_ca",
            "electrum_certificate",
            "electrum_key",
            "electrum_upstream_ca",
        ];
        let mut files = NamedFile::of_keys(&self.section(), &keys);
        if let Some(NodeUrl::BlocksDir(path)) = self.config.node.url() {
            files.push(NamedFile {
                key: "node",
                path: path.clone(),
                maker: None,
            });
        }
        files.extend(frontends::cookie(&self.config).map(|(file, _)| NamedFile {
            key: "node_cookie",
            path: file.into(),
            maker: Some("Bitcoin Core"),
        }));
        files
    }

    fn init_command(&self) -> Option<String> {
        let data = self.config.data()?;
        let network = self.config.network.0.map(Network::from);
        Some(init_command(data, network))
    }

    fn data_fault(&self) -> Option<String> {
        let fault = network_of(&self.config).err()?;
        Some(format!("{fault:#}"))
    }

    fn may_keep_fast_path(&self) -> bool {
        true
    }

    fn privileged_init(&mut self, _context: &mut StartContext) -> anyhow::Result<()> {
        // `start` opens the store, not this function: opening it starts threads, which would keep the rights that the
        // process drops after this function.
        let network = network_of(&self.config)?;
        if self.config.keep_blocks {
            ChainStore::make_blocks_folder(data_of(&self.config)?)?;
        }
        self.prepared = Some(frontends::prepare(&self.config, network)?);
        Ok(())
    }

    fn rights(&self) -> Rights {
        let mut rights = Rights::of_directories([self.config.data.clone()]);
        if self.config.index == IndexName::Disk {
            rights = rights.with_database();
        }
        // Bitcoin Core creates a new cookie file at each start, so the sandbox must allow reads in its directory.
        rights
            .reads
            .extend(frontends::cookie(&self.config).map(|(_, folder)| folder));
        if let Some(NodeUrl::BlocksDir(path)) = self.config.node.url() {
            rights.reads.push(path.clone());
        }
        rights
    }

    fn program(&self) -> Option<ProgramSpec> {
        Some(datapath::program(
            &self.config.geometry(),
            self.config.listen.port(),
        ))
    }

    fn nic_program(&self) -> Option<NicProgram> {
        Some(NicProgram {
            slot: SPV_SLOT,
            listen: self.config.listen,
            port_register: REGISTER_SPV_PORT,
        })
    }

    fn start(self: Box<Self>, context: &mut StartContext) -> anyhow::Result<Box<dyn Running>> {
        let Self { config, prepared } = *self;
        let prepared =
            prepared.context("internal error: the sockets of spv were not opened before the start")?;
        let chain = open_chain(&config, &mut context.warnings)?;
        let nic = context.nic_of(config.listen).cloned();
        let geometry = match &nic {
            Some(_) => {
                if let Some(note) = nic::room_note(config.geometry()) {
                    tracing::info!("{note}");
                }
                nic::geometry(config.geometry())
            }
            None => config.geometry(),
        };
        let mut programs = context.attachment.programs();
        let readers = Readers::new(programs.is_some());
        let store = Arc::new(match programs.as_mut() {
            Some(xdp) => datapath::store(xdp, &geometry)?,
            None => Store::anonymous(&geometry)?,
        });
        drop(programs);
        let (writer, was_kept) = if store.has_geometry(&geometry) {
            StoreWriter::adopt(Arc::clone(&store), chain.state())
        } else {
            lease::end(&store.control().lease_until_ns);
            let writer = StoreWriter::new(Arc::clone(&store));
            store.format(&geometry)?;
            (writer, false)
        };
        let writer: Box<dyn SpvFill + Send> = match &nic {
            Some(nic) => Box::new(NicWriter::new(writer, Arc::clone(&store), nic.queue())),
            None => Box::new(writer),
        };
        let host = SpvHost::new(chain, writer, readers.clone(), config.paper_format);
        let host = host
            .with_tables(config.tables())
            .with_tree_cache(config.memory_max.bytes() / 8)
            .with_witness_tree_cache(config.memory_max.bytes() / 16);
        let host = Arc::new(host);
        let (blocks, transactions) = host.size();
        let height = host.tip().map(|tip| tip.height);
        tracing::info!(blocks, transactions, height, "spv: the chain store was recovered");
        host.prefill(config.prefill.blocks());
        let fastpath = Arc::new(SpvFastPath::new(Arc::clone(&store)));
        let options = context.socket_options(config.listen);
        let (answers_first, answers_rest) = (Arc::clone(&fastpath) as _, Arc::clone(&host) as _);
        let socket = match &nic {
            Some(nic) => SocketDatapath::start_on(
                nic.sockets(&options),
                options,
                answers_first,
                answers_rest,
                &readers,
            ),
            None => SocketDatapath::start(options, answers_first, answers_rest, &readers),
        };
        let socket = socket.with_context(|| cannot_listen(DEF.name, config.listen))?;
        let status_host = Arc::clone(&host);
        let options = FollowOptions::new(config.min_confirmations, config.prefill.blocks());
        let frontends = Frontends::start(prepared, &host, options)?;
        let state = Arc::new(SpvState {
            store,
            fastpath,
            host,
            frontends,
            was_kept,
        });
        let is_well = move || {
            // `tip` waits for the host's lock. If the host is stuck, this call does not return, the lease is not
            // renewed, and it ends.
            status_host.tip();
            true
        };
        RunningLeased::begin(context, socket, config.lease(), state, is_well)
    }
}

impl Leased for SpvState {
    const NAME: &'static str = DEF.name;

    fn lease_until_ns(&self) -> &AtomicU64 {
        &self.store.control().lease_until_ns
    }

    fn note(&self) -> &'static str {
        match self.was_kept {
            true => ", with the fast-path table of the previous process",
            false => "",
        }
    }

    fn endpoints(&self) -> Vec<Endpoint> {
        self.frontends.endpoints()
    }

    fn stop(&self) {
        self.frontends.stop();
    }

    fn status(&self, frontend: &Frontend, out: &mut StatusBuilder) {
        let counted = Counted {
            names: SpvCounter::ALL.map(SpvCounter::name),
            socket: self.fastpath.counters(),
            slot: SPV_SLOT,
            map: "spv_counts",
            replies: SpvCounter::Hits as usize,
        };
        let mut status = frontend.status(DEF.name, self.lease_until_ns(), &counted, out);
        status.tip = self.host.tip().map(|tip| Tip {
            hash: to_display(&tip.hash),
            block: tip.height.into(),
            height: tip.height,
        });
        let height = self.host.tip().map(|tip| tip.height);
        if !self.frontends.follows_node() && self.host.size().0 == 0 {
            out.problems.push(
                "spv: the chain store has no block; stop the server and fill the store with `lineside spv import`, or \
                 let the server follow a node ([spv] node, --node)"
                    .into(),
            );
        }
        status
            .details
            .insert("spv".into(), self.frontends.status(height, out));
        status.summary = self.frontends.summary(height);
        self.frontends.metrics(height, &mut status);
        let written = self.host.writer_counts();
        let [lines, slots, nodes] = self.store.capacities();
        status.set_table("lines", self.store.used_lines(), lines);
        status.set_table("blocks", written.used_blocks, slots);
        status.set_table("tree_nodes", written.used_nodes, nodes);
        let (blocks, transactions) = self.host.size();
        for (metric, value) in [
            (metric::SPV_FILLS, written.fills),
            (metric::SPV_CONFLICTS, written.conflicts),
            (metric::SPV_INVALIDATIONS, written.invalidations),
            (metric::SPV_LATE_FILLS, written.late_fills),
            (metric::SPV_TREE_FILLS, written.tree_fills),
            (metric::SPV_TREE_EVICTIONS, written.tree_evictions),
            (metric::SPV_BLOCKS, blocks),
            (metric::SPV_TRANSACTIONS, transactions),
        ] {
            status.set_host(metric, value);
        }
        out.services.push(status);
    }
}

/// Opens the chain store that the configuration names. A message about a rebuilt index is added to `warnings`.
///
/// # Errors
/// The reason why the store cannot be opened.
pub fn open_chain(config: &SpvConfig, warnings: &mut Vec<String>) -> anyhow::Result<ChainStore> {
    let (data, network) = (data_of(config)?, network_of(config)?.network);
    let opened = ChainStore::open_with(Some(data), network, config.index.into());
    let opening = || format!("opening {}", data.display());
    let (mut chain, mut rebuilt) = opened.with_context(opening)?;
    if config.tables().witnesses {
        let wtxids = chain.index_wtxids(Some(data), config.index.into());
        rebuilt = rebuilt.or(wtxids.with_context(opening)?);
    }
    if config.keep_blocks {
        let missing = chain.keep_blocks(data).with_context(opening)?;
        if missing > 0 {
            warnings.push(format!(
                "{}: the files of `keep_blocks` lack {} after the first block that they hold; the server fetches these \
                 blocks if `node` is set",
                data.display(),
                counted(missing, "block")
            ));
        }
    }
    warnings.extend(rebuilt.map(|rebuilt| format!("{}: {rebuilt}", data.display())));
    Ok(chain)
}

/// Fills the fast-path table in `store` from `chain`, as `prefill` says, and lets the fast path answer from it for
/// `lease_ns` nanoseconds, as long as the returned host exists.
pub fn fill_table(config: &SpvConfig, chain: ChainStore, store: &Arc<Store>, lease_ns: u64) -> SpvHost {
    let writer = Box::new(StoreWriter::new(Arc::clone(store)));
    let host = SpvHost::new(chain, writer, Readers::default(), config.paper_format);
    match config.prefill {
        Prefill::None => {}
        Prefill::Tip(blocks) => host.prefill(blocks),
        Prefill::All => host.prefill(u32::MAX),
    }
    lease::renew(&store.control().lease_until_ns, lease_ns);
    host
}

/// Returns the directory of the chain store.
fn data_of(config: &SpvConfig) -> anyhow::Result<&Path> {
    let missing = || UsageError("[spv] data is empty; set it to the directory of a chain store".into());
    Ok(config.data().ok_or_else(missing)?)
}

/// Returns the command that creates a chain store.
fn init_command(data: &Path, network: Option<Network>) -> String {
    let network = network.map_or_else(|| "NETWORK".to_owned(), |network| network.to_string());
    format!("lineside spv init --data {} --network {network}", data.display())
}

/// Returns the error text for a directory without a chain store. The command that creates one accepts only a missing or
/// an empty directory.
pub fn no_store(data: &Path, network: Option<Network>) -> String {
    let is_used = std::fs::read_dir(data).is_ok_and(|mut entries| entries.next().is_some());
    match is_used {
        false => format!(
            "{}: there is no chain store; `{}` creates an empty one",
            data.display(),
            init_command(data, network)
        ),
        true => format!(
            "{}: this directory has files, but no chain store; give the directory of a chain store",
            data.display()
        ),
    }
}

/// Returns the network of the chain store. The store must exist, because a server does not create one, and must have
/// the configured network, if there is one.
///
/// # Errors
/// [`UsageError`]: the configuration names no store, or one of another network. A restart would not help.
fn network_of(config: &SpvConfig) -> anyhow::Result<StoreNetwork> {
    let data = data_of(config)?;
    let wanted = config.network.0.map(Network::from);
    let Some(stored) = ChainStore::network_of(data)? else {
        bail!(UsageError(no_store(data, wanted)));
    };
    if let Some(wanted) = wanted.filter(|wanted| *wanted != stored.network) {
        bail!(UsageError(format!(
            "{}: this chain store holds {stored}, not {wanted}; give --network {}, or another --data",
            data.display(),
            stored.network
        )));
    }
    Ok(stored)
}
