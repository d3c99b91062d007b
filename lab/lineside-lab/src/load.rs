//! `lineside-lab load …`: load on a running server, with every answer checked.

use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use lineside::wrong::Wrong;
use lineside::{address, say, tell};
use lineside_bench::load::{self, IN_FLIGHT_MAX, Pace, Plan, Report, Traffic, column, hybrid, spv, transfer};
use lineside_column::table::ColumnName;
use lineside_wire::{COLUMN_PORT, HYBRID_PORT, SPV_PORT, TRANSFER_PORT};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of threads.
const THREADS_MAX: i64 = 256;
/// Default number of requests in flight in a closed loop.
const WINDOW: u32 = 64;

/// Verbs of `lineside-lab load`: one for each service with UDP requests.
#[derive(Subcommand)]
pub enum Verb {
    Spv(Spv),
    Transfer(Transfer),
    Column(Column),
    Hybrid(Hybrid),
}

/// Rate of requests.
#[derive(Clone, Copy)]
enum Rate {
    PerSecond(f64),
    Max,
}

/// Times of the requests, and the end of the run.
#[derive(Args)]
struct Common {
    /// Requests per second over all threads (open loop): each request is sent at its scheduled time, whatever the
    /// answers do, and its latency counts from that time. `max`: as many as the server answers (closed loop), with
    /// --window requests in flight.
    #[arg(long, value_name = "REQUESTS/S|max", default_value = "10000", value_parser = rate)]
    rate: Rate,
    /// Requests in flight over all threads with `--rate max` [default: 64]
    #[arg(long, value_name = "REQUESTS", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    window: Option<u32>,
    /// Seconds in which requests are scheduled.
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = seconds)]
    duration: f64,
    /// Threads that send and receive. A thread uses a whole core at high rates.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=THREADS_MAX))]
    threads: u16,
    /// UDP sockets over all threads, at least one for each thread, each with its own port; a server distributes its
    /// load over its threads by ports [default: one for each thread]
    #[arg(long, value_name = "SOCKETS", value_parser = clap::value_parser!(u16).range(1..=4096))]
    connections: Option<u16>,
    /// Cores to which the threads are pinned, in turn [default: not pinned]
    #[arg(long, value_name = "CORE", value_delimiter = ',')]
    pin: Vec<usize>,
    /// Milliseconds after which a request without an answer counts as lost.
    #[arg(long, value_name = "MS", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    timeout_ms: u64,
    /// Milliseconds between two sendings of a write without an answer. The server executes a repeated write once.
    #[arg(long, value_name = "MS", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    resend_ms: u64,
    /// Share of writes in percent that are sent twice at once, which the server must execute once.
    #[arg(long, value_name = "PERCENT", default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=100))]
    duplicates: u64,
    /// Seed of the drawn requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn rate(text: &str) -> Result<Rate, String> {
    if text == "max" {
        return Ok(Rate::Max);
    }
    let rate = text.parse().ok().filter(|rate| (0.1..=1e8).contains(rate));
    let rate = rate.ok_or("a rate is a number from 0.1 to 100000000, or max")?;
    Ok(Rate::PerSecond(rate))
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.01..=1e6).contains(seconds));
    seconds.ok_or_else(|| "a duration is a number of seconds from 0.01 to 1000000".into())
}

impl Common {
    fn pace(&self) -> anyhow::Result<Pace> {
        let window = self.window.unwrap_or(WINDOW) as usize;
        let threads = usize::from(self.threads);
        match self.rate {
            Rate::PerSecond(_) if self.window.is_some() => {
                bail!(Wrong(
                    "--window: give it with `--rate max`; a rate has no window".into()
                ))
            }
            Rate::PerSecond(rate) if rate * self.timeout_ms as f64 / 1e3 > IN_FLIGHT_MAX => {
                bail!(Wrong(format!(
                    "--rate: more than {IN_FLIGHT_MAX} requests would wait for answers; give a lower --timeout-ms"
                )))
            }
            Rate::PerSecond(rate) => Ok(Pace::Rate(rate)),
            Rate::Max if window < threads => {
                bail!(Wrong(
                    "--window: each thread needs a request in flight; give fewer --threads".into()
                ))
            }
            Rate::Max => Ok(Pace::Window(window)),
        }
    }

    fn plan(&self, service: &'static str, server: SocketAddr) -> anyhow::Result<Plan> {
        let connections = self.connections.unwrap_or(self.threads);
        self.check_share("--connections", connections.into())?;
        Ok(Plan {
            service,
            server,
            pace: self.pace()?,
            duration: Duration::from_secs_f64(self.duration),
            threads: self.threads.into(),
            connections: connections.into(),
            timeout: Duration::from_millis(self.timeout_ms),
            resend: Duration::from_millis(self.resend_ms),
            duplicate_percent: self.duplicates,
            cores: self.pin.clone(),
        })
    }

    /// Checks that an option gives each thread at least one session or lane.
    fn check_share(&self, option: &str, count: usize) -> anyhow::Result<()> {
        match count < usize::from(self.threads) {
            true => bail!(Wrong(format!(
                "{option}: each thread needs one; give fewer --threads"
            ))),
            false => Ok(()),
        }
    }
}

/// Distribution of keys.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Distribution {
    /// Zipf's law with the exponent 0.99, as in YCSB.
    Zipf,
    /// All keys equally often.
    Uniform,
}

/// Ask a server of `spv` for the locations and proofs of transactions.
///
/// The load first fetches the server's headers. Each answer must name a block of that chain, and one of some proofs is
/// verified whole. The chain must not be reorganised during the run.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct Spv {
    /// Address or name of the server, and its UDP port.
    #[arg(long, value_name = "ADDR:PORT", value_parser = address::parse, default_value_t = local(SPV_PORT))]
    server: SocketAddr,
    #[command(flatten)]
    common: Common,
    /// File with the TXIDs of transactions that the server knows: one a line, 64 hex digits, as block explorers print
    /// them.
    #[arg(long, value_name = "FILE", required_unless_present = "electrum")]
    txids: Option<PathBuf>,
    /// Electrum port of the same server, from which TXIDs at random places of the chain are fetched instead.
    #[arg(long, value_name = "ADDR:PORT", value_parser = address::parse, conflicts_with = "txids")]
    electrum: Option<SocketAddr>,
    /// Number of TXIDs to fetch from --electrum.
    #[arg(
        long,
        value_name = "TXIDS",
        default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(1..=10_000_000)
    )]
    count: u32,
    /// Share of requests for proofs in percent; the others ask for the location (Merkle root, block, height).
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=100))]
    proofs: u64,
    /// Verify the whole path of one of this number of proofs.
    #[arg(long, value_name = "PROOFS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    verify_every: u64,
    /// Distribution of the transactions.
    #[arg(long, value_enum, default_value = "uniform")]
    distribution: Distribution,
}

/// Send batches of transfers to a server of `transfer`.
///
/// The load creates accounts in a reserved range (their ids begin with `6c61622f6c6f6164`), so it must come from an
/// address in `issuers`. The accounts stay. Each session transfers between its own accounts, so that every balance in
/// an answer is known and compared; at the end all balances and their sum are compared again.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct Transfer {
    /// Address or name of the server, and its UDP port.
    #[arg(long, value_name = "ADDR:PORT", value_parser = address::parse, default_value_t = local(TRANSFER_PORT))]
    server: SocketAddr,
    #[command(flatten)]
    common: Common,
    /// Number of the reserved range of accounts; loads that run at the same time need different ranges.
    #[arg(long, value_name = "N", default_value_t = 0)]
    range: u32,
    /// Accounts, at least two for each session.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(2..=10_000_000))]
    accounts: u32,
    /// Sessions over all threads; each has one packet in flight at most. A server grants 64 to one address by default.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=4096))]
    sessions: u16,
    /// Operations in a packet, which is one request.
    #[arg(
        long,
        value_name = "OPERATIONS",
        default_value_t = 1,
        value_parser = clap::value_parser!(u16).range(1..=transfer::BATCH_MAX as i64)
    )]
    batch: u16,
    /// Distribution of the accounts of each session.
    #[arg(long, value_enum, default_value = "uniform")]
    distribution: Distribution,
}

/// Read and write rows of a server of `column`.
///
/// The load first writes all its rows. Every value names its row and version, so that a stale answer is detected.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct Column {
    /// Address or name of the server, and its UDP port.
    #[arg(long, value_name = "ADDR:PORT", value_parser = address::parse, default_value_t = local(COLUMN_PORT))]
    server: SocketAddr,
    #[command(flatten)]
    common: Common,
    /// First bytes of the row keys; loads that run at the same time need different ones.
    #[arg(long, value_name = "TEXT", default_value = "load/")]
    prefix: String,
    /// Column of the values.
    #[arg(long, value_name = "FAMILY:QUALIFIER", value_parser = column_name, default_value = "entry:foo")]
    column: ColumnName,
    /// Rows, at least one for each session.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    keys: u64,
    /// Bytes of a value.
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u16).range(24..=1024))]
    value_bytes: u16,
    /// Share of puts in percent; the other requests are gets.
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u64).range(..=100))]
    puts: u64,
    /// Distribution of the rows.
    #[arg(long, value_enum, default_value = "zipf")]
    distribution: Distribution,
    /// Sessions over all threads; each has one put in flight at most. A server grants 1,024 to one network.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    sessions: u16,
}

/// Read and write keys of a node of `hybrid` over UDP, with signed requests.
///
/// The load first writes all its keys. Every value names its key and version, so that a stale answer is detected.
#[derive(Args)]
#[command(after_help = EXIT_CODES)]
pub struct Hybrid {
    /// Address or name of the node, and its UDP port.
    #[arg(long, value_name = "ADDR:PORT", value_parser = address::parse, default_value_t = local(HYBRID_PORT))]
    server: SocketAddr,
    #[command(flatten)]
    common: Common,
    /// Key file of the member that signs the requests.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// File with the genesis of the database.
    #[arg(long, value_name = "FILE", default_value = "genesis.bin")]
    genesis: PathBuf,
    /// Number of the member, if the key is not in the genesis.
    #[arg(long, value_name = "N")]
    member: Option<u64>,
    /// First bytes of the keys; loads that run at the same time need different ones.
    #[arg(long, value_name = "TEXT", default_value = "load/")]
    prefix: String,
    /// Keys, at least one for each lane.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    keys: u64,
    /// Bytes of a value.
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u16).range(24..=900))]
    value_bytes: u16,
    /// Share of sets in percent; the other requests are gets.
    #[arg(long, value_name = "PERCENT", default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=100))]
    sets: u64,
    /// Distribution of the keys.
    #[arg(long, value_enum, default_value = "zipf")]
    distribution: Distribution,
    /// Lanes of writes over all threads; each has one set in flight at most. The gets use 64 further lanes a thread.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    lanes: u16,
    /// Number of the first lane; loads that run at the same time with the same key need different lanes.
    #[arg(long, value_name = "N", default_value_t = 1024)]
    first_lane: u16,
}

/// Meaning of the exit codes, at the end of the help.
const EXIT_CODES: &str = "\
Exit codes: 0 every answer was right (some may be lost or refused); 1 an answer was wrong, or no answer arrived; 2
wrong arguments";

const fn local(port: u16) -> SocketAddr {
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

fn column_name(text: &str) -> Result<ColumnName, String> {
    ColumnName::new(text.as_bytes())
        .ok_or_else(|| "a column is family:qualifier, of at most 32 bytes".to_owned())
}

/// Runs one verb.
///
/// # Errors
/// An answer was wrong, no answer arrived, or the load could not be prepared.
pub fn run(verb: &Verb, as_json: bool) -> anyhow::Result<()> {
    match verb {
        Verb::Spv(arguments) => arguments.run(as_json),
        Verb::Transfer(arguments) => arguments.run(as_json),
        Verb::Column(arguments) => arguments.run(as_json),
        Verb::Hybrid(arguments) => arguments.run(as_json),
    }
}

/// Prints the report; the wrong answers go to standard error, unless they are in the JSON.
fn finish(report: &Report, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        say!("{}", report.to_json())?;
    } else {
        say!("{report}")?;
        for wrong in report.wrong_answers() {
            tell!("{wrong}");
        }
    }
    match report.failure() {
        None => Ok(()),
        Some(why) => bail!("{why}"),
    }
}

fn run_and_finish<T: Traffic>(plan: &Plan, traffics: Vec<T>, as_json: bool) -> anyhow::Result<()> {
    let (report, _) = with_spinner(plan, || load::run(plan, traffics))?;
    finish(&report, as_json)
}

/// Shows on a terminal that a load runs. The line is redrawn by a thread of its own.
fn with_spinner<T>(plan: &Plan, run: impl FnOnce() -> T) -> T {
    let spinner = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}, {elapsed} of {prefix}") {
        spinner.set_style(style);
    }
    spinner.set_message(format!("loading {} at {}", plan.service, plan.server));
    spinner.set_prefix(format!("{} s", plan.duration.as_secs_f64()));
    spinner.enable_steady_tick(Duration::from_millis(500));
    let result = run();
    spinner.finish_and_clear();
    result
}

impl Spv {
    fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let plan = self.common.plan("spv", self.server)?;
        let chain = Arc::new(spv::KnownChain::fetch(self.server, plan.timeout)?);
        let txids: Arc<[[u8; 32]]> = match (&self.txids, self.electrum) {
            (Some(file), _) => spv::read_txids(file)?.into(),
            (None, Some(electrum)) => {
                spv::fetch_txids(electrum, self.server, &chain, self.count, self.common.seed)?.into()
            }
            (None, None) => bail!(Wrong("give --txids FILE or --electrum ADDR:PORT".into())),
        };
        let options = spv::Options {
            proof_percent: self.proofs,
            verify_every: self.verify_every,
            is_zipf: self.distribution == Distribution::Zipf,
            seed: self.common.seed,
        };
        let traffics = spv::SpvTraffic::of_threads(&options, &txids, &chain, plan.threads);
        run_and_finish(&plan, traffics, as_json)
    }
}

impl Transfer {
    fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let plan = self.common.plan("transfer", self.server)?;
        self.common.check_share("--sessions", self.sessions.into())?;
        if self.accounts / 2 < u32::from(self.sessions) {
            bail!(Wrong(
                "--accounts: each session needs two; give fewer --sessions".into()
            ));
        }
        let options = transfer::Options {
            range: self.range,
            accounts: self.accounts,
            sessions: self.sessions.into(),
            batch: self.batch.into(),
            is_zipf: self.distribution == Distribution::Zipf,
            seed: self.common.seed,
        };
        let prepared = transfer::prepare(self.server, options, plan.timeout)?;
        let traffics = prepared.traffics(plan.threads);
        let (mut report, traffics) = with_spinner(&plan, || load::run(&plan, traffics))?;
        prepared.check(self.server, plan.timeout, &traffics, &mut report)?;
        finish(&report, as_json)
    }
}

impl Column {
    fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let plan = self.common.plan("column", self.server)?;
        self.common.check_share("--sessions", self.sessions.into())?;
        if self.keys < u64::from(self.sessions) {
            bail!(Wrong(
                "--keys: each session needs one; give fewer --sessions".into()
            ));
        }
        let options = column::Options {
            prefix: self.prefix.clone(),
            column: self.column,
            keys: self.keys,
            value_bytes: self.value_bytes.into(),
            put_percent: self.puts,
            is_zipf: self.distribution == Distribution::Zipf,
            sessions: self.sessions.into(),
            seed: self.common.seed,
        };
        run_and_finish(&plan, column::prepare(&plan, &options)?, as_json)
    }
}

impl Hybrid {
    fn run(&self, as_json: bool) -> anyhow::Result<()> {
        let plan = self.common.plan("hybrid", self.server)?;
        self.common.check_share("--lanes", self.lanes.into())?;
        if self.keys < u64::from(self.lanes) {
            bail!(Wrong("--keys: each lane needs one; give fewer --lanes".into()));
        }
        if hybrid::lanes(plan.threads, self.lanes) > hybrid::LANES_MAX {
            bail!(Wrong(
                "--threads: a node remembers the reads of 4096 lanes; give fewer --threads".into()
            ));
        }
        let options = hybrid::Options {
            prefix: self.prefix.clone(),
            keys: self.keys,
            value_bytes: self.value_bytes.into(),
            set_percent: self.sets,
            is_zipf: self.distribution == Distribution::Zipf,
            lanes: self.lanes,
            first_lane: self.first_lane,
            seed: self.common.seed,
        };
        let identity = hybrid::identity(&self.genesis, &self.key, self.member)?;
        run_and_finish(&plan, hybrid::prepare(&plan, &options, &identity)?, as_json)
    }
}
