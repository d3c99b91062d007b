//! The `fabric` service of the daemon: a committing replica of one channel. It follows an orderer, validates blocks,
//! writes them to the ledger, and serves them as a peer does.

use crate::config::{FabricConfig, StateName};
use crate::files::{DeliverClient, read_client, read_paper_identities, read_server_tls, read_udp_key};
use crate::intake::BlockIntake;
use crate::ledger;
use crate::udp_source::{DatagramForm, UdpSource};
use crate::watch::{ReplicaInfo, Watch};
use anyhow::{Context, anyhow};
use lineside_fabric::early::EarlyWork;
use lineside_fabric::ledger::results::{Publisher, Results};
use lineside_fabric::ledger::{DurabilityWaiter, Replica};
use lineside_fabric_grpc::client::{Options, follow as follow_blocks, follow_ahead};
use lineside_fabric_grpc::replica::committed;
use lineside_fabric_grpc::serve::Role;
use lineside_fabric_grpc::{CommittedSource, Running as Server, ServerTls, start as start_server};
use lineside_grpc::Gate;
use lineside_journal::FsDisk;
use lineside_service::config::{ConfigIssue, Section, non_empty, section};
use lineside_service::{
    Endpoint, Listen, NamedFile, Rights, Running, Service, ServiceDef, StartContext, StatusBuilder,
    cannot_listen, raise_open_files_limit,
};
use lineside_util::data_dir::NewDirectory;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::{Notify, oneshot, watch};

/// Number of blocks that a results file can hold.
const RESULTS: usize = 64;

/// Registration of the service `fabric` in the daemon.
pub const DEF: ServiceDef = ServiceDef {
    name: "fabric",
    may_repeat: true,
    default_section: || section(&FabricConfig::default()),
    parse,
    pinned_work: None,
    records: None,
};

fn parse(section: &Section) -> Result<Box<dyn Service>, Vec<ConfigIssue>> {
    let config = FabricConfig::parse(section)?;
    Ok(Box::new(FabricService { config, files: None }))
}

struct FabricService {
    config: FabricConfig,
    /// Contents of the configured files; `None` until they are read.
    files: Option<Files>,
}

struct Files {
    client: DeliverClient,
    tls: Option<ServerTls>,
    udp: Option<DatagramForm>,
    genesis: Option<Vec<u8>>,
    results: Publisher,
    disk: FsDisk,
    /// Guard that removes a directory which this start has created, if the start fails.
    new_directory: Option<NewDirectory>,
}

struct RunningFabric {
    shared: Arc<StatusShared>,
    /// Parts that stop with the service; `None` once it has stopped.
    parts: Option<StoppableParts>,
}

/// State that the running service shares with the function that makes its status.
struct StatusShared {
    /// Limits on connections, calls and bytes that all clients of Deliver share.
    gate: Arc<Gate>,
    about: ReplicaInfo,
    watch: Arc<Watch>,
    waiter: DurabilityWaiter,
}

struct StoppableParts {
    runtime: Runtime,
    server: Server,
    /// Channel that stops the thread in `following`.
    end: oneshot::Sender<()>,
    /// Thread that follows orderers and passes their blocks to the intake.
    following: JoinHandle<BlockIntake<FsDisk>>,
}

impl Service for FabricService {
    fn is_enabled(&self) -> bool {
        self.config.enabled
    }

    fn section(&self) -> toml::Table {
        section(&self.config)
    }

    fn listens(&self) -> Vec<Listen> {
        let deliver = self.config.listen;
        // Deliver uses TCP, so the UDP socket may have the same port number.
        let udp = self.config.udp_listen.0;
        let udp = udp.filter(|udp| udp.port() != deliver.port());
        let udp = udp.map(|udp| Listen::new("udp_listen", udp));
        [Listen::new("listen", deliver)].into_iter().chain(udp).collect()
    }

    fn warnings(&self) -> Vec<String> {
        self.config.warnings()
    }

    fn file_warnings(&self) -> Vec<String> {
        let config = &self.config;
        let checks = [
            ("msp", read_client(config).err().map(anyhow::Error::from)),
            ("certificate", read_server_tls(config).err().map(Into::into)),
            ("udp_key", udp_form(config).err()),
            ("genesis", read_genesis(config).err()),
        ];
        let issues = checks.into_iter().filter_map(|(key, error)| Some((key, error?)));
        let warnings = issues.map(|(key, error)| format!("[fabric] {key} cannot be used here: {error:#}"));
        warnings.collect()
    }

    fn files(&self) -> Vec<NamedFile> {
        let keys = [
            "genesis",
            "msp",
            "tls_ca",
            "tls_certificate",
            "tls_key",
            "udp_key",
            "udp_paper_identities",
            "certificate",
            "key",
            "client_ca",
        ];
        NamedFile::of_keys(&self.section(), &keys)
    }

    fn privileged_init(&mut self, _context: &mut StartContext) -> anyhow::Result<()> {
        let config = &self.config;
        raise_open_files_limit();
        // All configured files are read before anything is created, so no new directory remains if a file cannot be
        // used.
        let udp = udp_form(config)?;
        let client = read_client(config)?;
        let tls = read_server_tls(config)?;
        let genesis = read_genesis(config)?;
        let disk = FsDisk::claim(&config.data, &ledger::KIND).with_context(|| opening(&config.data))?;
        let results = match non_empty(&config.results) {
            Some(file) => Publisher::open(file, RESULTS)
                .with_context(|| format!("cannot open the file of block results {}", file.display()))?,
            None => Publisher::anonymous(RESULTS)?,
        };
        self.files = Some(Files {
            client,
            tls,
            udp,
            genesis,
            results,
            new_directory: disk.new_directory(),
            disk,
        });
        Ok(())
    }

    fn rights(&self) -> Rights {
        let rights = Rights::of_directories([self.config.data.clone()]);
        match self.config.state {
            StateName::Memory => rights,
            StateName::Auto | StateName::Fjall => rights.with_database(),
        }
    }

    fn start(self: Box<Self>, _context: &mut StartContext) -> anyhow::Result<Box<dyn Running>> {
        let Self { config, files } = *self;
        let files = files.context("internal error: the files of the replica were not read")?;
        let mut new_directory = files.new_directory;
        let sync_times = files.disk.sync_times();
        let udp = bind_udp(&config, files.udp)?;
        let watch = Watch::new(&files.results);
        let results = files.results.results();
        let replica = open_ledger(&config, files.disk, files.results, files.genesis)?;
        let teller =
            committed(&replica)?.context("internal error: the opened ledger has no genesis block")?;
        let ledger = teller.committed();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("fabric-deliver")
            .enable_all()
            .build()?;
        let source: Arc<dyn CommittedSource> = ledger;
        let heights = source.heights();
        let channel = source.channel().to_owned();
        tracing::info!(
            channel,
            height = replica.next(),
            "fabric: the ledger was recovered"
        );
        let server = start_server(
            config.listen,
            files.tls,
            Role::Peer,
            vec![source],
            config.limits(),
        );
        let server = runtime
            .block_on(server)
            .with_context(|| cannot_listen(DEF.name, config.listen))?;
        let last = replica.blocks().last_hashes();
        let about = ReplicaInfo {
            channel,
            listen: server.address,
            udp: udp.as_ref().map(UdpSource::address).transpose()?,
            height_at_start: replica.next(),
            hash_at_start: last.map(|(hash, _)| hash),
            commit_hash_at_start: last.and_then(|(_, commit_hash)| commit_hash),
            health_after: Duration::from_secs(config.health_after_s),
            sync_times,
        };
        if udp.is_none() {
            watch.expects_source();
        }
        runtime.spawn(log_blocks(about.channel.clone(), heights, results));
        let options = following(&config, &files.client, &about, &watch);
        let shared = Arc::new(StatusShared {
            gate: Arc::clone(&server.gate),
            about,
            watch: Arc::clone(&watch),
            waiter: replica.waiter(),
        });
        let intake = BlockIntake::new(replica, teller, watch);
        let (end, ended) = oneshot::channel();
        let following = spawn_following(runtime.handle().clone(), intake, udp, options, ended)?;
        if let Some(new) = &mut new_directory {
            new.keep();
        }
        Ok(Box::new(RunningFabric {
            shared,
            parts: Some(StoppableParts {
                runtime,
                server,
                end,
                following,
            }),
        }))
    }
}

/// Logs each block once it is durable.
async fn log_blocks(channel: String, mut heights: watch::Receiver<u64>, results: Results) {
    let mut next = *heights.borrow();
    while heights.changed().await.is_ok() {
        let height = *heights.borrow_and_update();
        for number in next..height {
            // If many blocks become durable at once, the results of the oldest of them are already overwritten.
            let Some(block) = results.block(number) else {
                tracing::info!(channel, block = number, "committed");
                continue;
            };
            let (transactions, valid) = (block.transactions, block.valid);
            let ms = block.total_ns / 1_000_000;
            tracing::info!(channel, block = number, transactions, valid, ms, "committed");
        }
        next = height;
    }
}

fn open_ledger(
    config: &FabricConfig,
    disk: FsDisk,
    results: Publisher,
    genesis: Option<Vec<u8>>,
) -> anyhow::Result<Replica<FsDisk>> {
    let validation = config.validation();
    let (mut replica, remarks) = ledger::open(&config.data, disk, validation, config.state, Some(results))?;
    for remark in remarks {
        tracing::warn!("{remark}");
    }
    ledger::begin_channel(&mut replica, genesis)?;
    Ok(replica)
}

fn opening(data: &Path) -> String {
    format!("cannot open the ledger in {}", data.display())
}

fn read_genesis(config: &FabricConfig) -> anyhow::Result<Option<Vec<u8>>> {
    let bytes = non_empty(&config.genesis).map(|file| {
        std::fs::read(file).with_context(|| format!("cannot read the genesis block {}", file.display()))
    });
    bytes.transpose()
}

/// Returns the form of the datagrams, if blocks are received over UDP.
fn udp_form(config: &FabricConfig) -> anyhow::Result<Option<DatagramForm>> {
    match (config.udp_listen.0, non_empty(&config.udp_key)) {
        (None, _) => Ok(None),
        (Some(_), Some(file)) => Ok(Some(DatagramForm::Native(read_udp_key(file)?))),
        (Some(_), None) => {
            let trusted = config.trusted_sources.iter().map(|range| range.0);
            let identities = non_empty(&config.udp_paper_identities).map(read_paper_identities);
            let identities = identities.transpose()?.unwrap_or_default();
            Ok(Some(DatagramForm::Paper(trusted.collect(), identities)))
        }
    }
}

fn bind_udp(config: &FabricConfig, form: Option<DatagramForm>) -> anyhow::Result<Option<UdpSource>> {
    let bound = config.udp_listen.0.zip(form).map(|(listen, form)| {
        UdpSource::bind(listen, form, config.memory_max.bytes() / 8).with_context(|| {
            format!(
                "cannot receive blocks over UDP on {listen}; set another address by `udp_listen` in [fabric] or \
                 --udp-listen"
            )
        })
    });
    bound.transpose()
}

/// Returns the options for following orderers. If the client leaves an endpoint, `watch` records this, and a warning is
/// logged.
fn following(
    config: &FabricConfig,
    client: &DeliverClient,
    about: &ReplicaInfo,
    watch: &Arc<Watch>,
) -> Options {
    let channel = about.channel.clone();
    let on_left = watch.on_left(Some(Arc::new(move |endpoint, left| {
        tracing::warn!(channel, "{endpoint}: {left}");
    })));
    let options = client.options(
        config.orderers.clone(),
        &about.channel,
        about.height_at_start,
        on_left,
    );
    Options {
        on_held: Some(watch.on_held()),
        memory_bytes_max: config.memory_max.bytes() / 4,
        ..options
    }
}

/// Starts the thread that follows orderers until `ended` is sent, or until the intake accepts no further block. The
/// thread returns the intake.
fn spawn_following(
    runtime: Handle,
    mut intake: BlockIntake<FsDisk>,
    udp: Option<UdpSource>,
    options: Options,
    ended: oneshot::Receiver<()>,
) -> anyhow::Result<JoinHandle<BlockIntake<FsDisk>>> {
    let early = match udp {
        Some(_) => intake.early()?,
        None => None,
    };
    let udp = udp.zip(early);
    let run = move || {
        let watch = intake.watch();
        let _panics = ShowPanic(&watch);
        let over = follow_all(&mut intake, udp, options);
        runtime.block_on(async {
            tokio::select! {
                () = over => {}
                _ = ended => {}
            }
        });
        intake
    };
    let thread = std::thread::Builder::new().name("fabric-follow".into());
    Ok(thread.spawn(run)?)
}

/// Passes blocks to the intake until the intake accepts no further block. Then follows the channel's configuration as
/// long as it is known.
async fn follow_all(intake: &mut BlockIntake<FsDisk>, udp: Option<(UdpSource, EarlyWork)>, options: Options) {
    let channel = options.channel.clone();
    let mut after = options.clone();
    if let Err(error) = follow(intake, udp, options).await {
        intake.give_up(format!("UDP: {error}"));
    }
    let why = intake.stopped().unwrap_or_default();
    tracing::warn!(
        channel,
        "the replica has stopped and accepts no further block: {why}; the existing blocks are still served"
    );
    if let Some(next) = intake.next_configuration() {
        after.from = next;
        follow_blocks(after, |received| intake.follow_configuration(&received)).await;
        tracing::warn!(
            channel,
            "the channel's configuration is no longer known, so no client is served"
        );
    }
}

/// Passes blocks from UDP or from orderers to the intake until the intake accepts no further block.
async fn follow(
    intake: &mut BlockIntake<FsDisk>,
    udp: Option<(UdpSource, EarlyWork)>,
    options: Options,
) -> std::io::Result<()> {
    let read = Arc::new(Notify::new());
    intake.notify_read(&read);
    let step = |received| intake.step(received);
    match udp {
        Some((udp, early)) => udp.follow(options, &read, early, step).await,
        None => {
            follow_ahead(options, &read, step).await;
            Ok(())
        }
    }
}

/// Guard that records a panic of the following thread in the status.
struct ShowPanic<'a>(&'a Watch);

impl Drop for ShowPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.record_stop(PANICKED);
        }
    }
}

const PANICKED: &str = "the thread that follows orderers has panicked; see the log, and restart the service";

impl Running for RunningFabric {
    fn name(&self) -> &'static str {
        DEF.name
    }

    fn endpoints(&self) -> Vec<Endpoint> {
        let endpoint = |protocol, address| Endpoint { protocol, address };
        let ReplicaInfo { listen, udp, .. } = self.shared.about;
        let udp = udp.map(|udp| endpoint("udp", udp));
        [endpoint("deliver", listen)].into_iter().chain(udp).collect()
    }

    fn description(&self) -> String {
        let ReplicaInfo { channel, udp, .. } = &self.shared.about;
        match udp {
            Some(udp) => format!("Deliver of channel {channel}; blocks over UDP on {udp}"),
            None => format!("Deliver of channel {channel}"),
        }
    }

    fn status(&self) -> Arc<dyn Fn(&mut StatusBuilder) + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Arc::new(move |out| {
            let refused = &shared.gate.refused_calls;
            shared
                .watch
                .status(&shared.about, shared.waiter.durable(), refused, out);
            let standing = shared.gate.standing();
            let named = |what: String| format!("fabric: Deliver of channel {}: {what}", shared.about.channel);
            out.problems.extend(standing.problems.into_iter().map(named));
            out.warnings.extend(standing.warnings.into_iter().map(named));
        })
    }

    fn stop(&mut self, _keeps_fast_path: bool) -> anyhow::Result<()> {
        let Some(parts) = self.parts.take() else {
            return Ok(());
        };
        // Sending fails only if the thread has already ended.
        let _ = parts.end.send(());
        let followed = parts.following.join();
        let stopped = parts.runtime.block_on(parts.server.stop());
        let intake = followed.map_err(|_| anyhow!("fabric: {PANICKED}"))?;
        intake
            .close()
            .with_context(|| format!("fabric: channel {}", self.shared.about.channel))?;
        stopped.context("fabric: cannot stop the server of Deliver")
    }
}

impl Drop for RunningFabric {
    fn drop(&mut self) {
        if let Err(error) = self.stop(false) {
            tracing::error!("{error:#}");
        }
    }
}
