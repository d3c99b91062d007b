//! `lineside-lab demo` runs a daemon over a demonstration chain. It shows some answers and where they came from, the
//! hit rate, the round-trip time compared with that of the paper's software, and, unless it ends at once, two commands
//! to try.

use crate::demo_chain::{BLOCKS, TRANSACTIONS, demo_blocks, write_demo_store};
use crate::signals::EndSignals;
use anyhow::{Context, bail};
use clap::Args;
use lineside::out::{self, Unwritten};
use lineside::run::{self, Overrides};
use lineside::say;
use lineside::session::Session;
use lineside_bench::software::{RoundTrips, Software, round_trips};
use lineside_client::spv::Client;
use lineside_console::Snapshot;
use lineside_service::{DatapathConfig, DatapathKind};
use lineside_util::hex::to_display;
use lineside_wire::SPV_PORT;
use serde::Serialize;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// Number of answers that the command prints.
const PRINTED_ANSWERS: usize = 5;
/// Distance between the positions in a block of two transactions that are queried one after the other.
const STRIDE: usize = 32;
/// Number of rounds of the comparison. In each round, all questions go to one contestant, and then all to the other.
const ROUNDS: usize = 5;
const QUESTIONS_PER_ROUND: usize = 1000;
/// Command that starts the daemon if its program is not next to this one: cargo builds the program first.
const BUILT_FIRST: &str = "cargo run --release --locked --quiet -p lineside --";
const REPLY_TIMEOUT: Duration = Duration::from_secs(5);
/// Address of the simulated NIC without `--listen`. It is in the default network of the TAP device.
const NIC_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

type Hash = [u8; 32];

/// Results that the command prints.
#[derive(Serialize)]
pub struct Demonstration {
    blocks: usize,
    transactions_per_block: u32,
    answers: Vec<ShownCommand>,
    /// Number of questions in each of the two passes.
    asked: usize,
    /// Number of questions of the first pass that the fast path answered; the next field is that of the second pass.
    fastpath_first: u64,
    fastpath_again: u64,
    round_trip: Comparison,
    /// Name of the measured datapath, such as `xdp generic`.
    datapath: String,
    /// True if the datapath is the simulated NIC.
    #[serde(skip)]
    is_nic: bool,
    /// Commands that ask the server about one of the transactions; `None` if the server ends before a user can run
    /// them.
    #[serde(skip_serializing_if = "Option::is_none")]
    commands: Option<Commands>,
}

/// Command lines that a user can paste into a shell.
#[derive(Serialize)]
struct Commands {
    get: String,
    /// Command that verifies the proof with block headers that the client checks itself.
    verify: String,
}

#[derive(Serialize)]
struct ShownCommand {
    txid: String,
    root: String,
    height: u32,
    /// Part of the server that answered the first question; the next field is that for the repeated question.
    first: Answerer,
    again: Answerer,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Answerer {
    /// The fast path in the kernel.
    Xdp,
    /// The simulated NIC.
    Nic,
    /// The fast path in user space.
    UserSpace,
    Host,
}

#[derive(Serialize)]
struct Comparison {
    questions: usize,
    lineside_p50_us: f64,
    sw_p50_us: f64,
    /// Median round trip of the software divided by that of Lineside. This field is the smallest value of the rounds;
    /// the next field is the largest one.
    ratio_min: f64,
    ratio_max: f64,
    rounds: usize,
    lost: u64,
    /// Address to which the client sent the questions for Lineside; the next field is that for the software.
    lineside_server: SocketAddr,
    sw_server: SocketAddr,
}

/// Numbers of requests that the fast path has answered since its start: in the kernel, in the simulated NIC, and in
/// user space.
#[derive(Clone, Copy)]
struct Hits {
    xdp: u64,
    nic: u64,
    user: u64,
}

impl Hits {
    fn of(snapshot: &Snapshot) -> Self {
        let counted = |datapath| {
            let services = snapshot.services.iter();
            services
                .filter_map(|service| service.counters.get(datapath)?.get("hits"))
                .sum()
        };
        Self {
            xdp: counted("xdp"),
            nic: counted("rtl"),
            user: counted("socket"),
        }
    }

    const fn all(self) -> u64 {
        self.xdp + self.nic + self.user
    }

    const fn since(self, before: Self) -> u64 {
        self.all() - before.all()
    }

    /// Returns the part of the server that answered the only request since `before`.
    const fn answerer(self, before: Self) -> Answerer {
        if self.xdp > before.xdp {
            Answerer::Xdp
        } else if self.nic > before.nic {
            Answerer::Nic
        } else if self.user > before.user {
            Answerer::UserSpace
        } else {
            Answerer::Host
        }
    }
}

/// Serve a generated chain of Bitcoin blocks, send it some questions, then keep serving until a signal arrives.
#[derive(Args)]
pub struct Demo {
    /// Exit after the questions.
    #[arg(long)]
    once: bool,
    /// Address and UDP port of `spv` [default: 127.0.0.1:7701; with --datapath rtl: 10.77.0.2:7701].
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// log2 of the number of cache lines of 64 bytes.
    #[arg(long)]
    line_bits: Option<u32>,
    #[command(flatten)]
    overrides: Overrides,
}

/// Runs the demonstration.
///
/// # Errors
/// The daemon cannot serve, or an answer is wrong.
pub fn run(arguments: Demo, as_json: bool) -> anyhow::Result<()> {
    // A signal must not end the process before the directory is removed.
    let mut signals = EndSignals::listen().context("cannot handle signals")?;
    let folder = tempfile::tempdir().context("cannot create a directory for the demonstration chain")?;
    let data = folder.path().join("chain");
    write_demo_store(&data)?;
    if signals.have_arrived() {
        return Ok(());
    }
    // A server restricts the file access of its thread, which would prevent that thread from removing the directory at
    // the end. The server therefore runs in a thread of its own.
    let served = std::thread::scope(|scope| {
        scope
            .spawn(|| serve(arguments, &data, &mut signals, as_json))
            .join()
    });
    served.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Serves the demonstration chain in `data`, and prints its answers, until one of `signals` arrives.
fn serve(arguments: Demo, data: &Path, signals: &mut EndSignals, as_json: bool) -> anyhow::Result<()> {
    let mut config = arguments.overrides.over(None)?;
    // If the section has a mistake, the start of the server reports it.
    let kind = DatapathConfig::parse(&config.datapath).map(|datapath| datapath.kind);
    let nic_listen = (kind == Ok(DatapathKind::Rtl)).then(|| SocketAddr::from((NIC_ADDRESS, SPV_PORT)));
    let section = config.section("spv");
    section.set("data", data);
    section.set_some("listen", arguments.listen.or(nic_listen));
    section.set_some("line_bits", arguments.line_bits);
    config.serve_only("spv");
    let session = Session::start(&config, true)?;
    // If standard output is closed, the server continues to run, but a run with `--once` ends.
    let heard = |said: Result<(), Unwritten>| match arguments.once {
        true => said,
        false => {
            out::said_by_server(said);
            Ok(())
        }
    };
    if !as_json {
        heard(run::announce(&session, false))?;
    }
    let serving = session.daemon().serving();
    let spv = serving.first().context("spv does not run")?;
    // The headers of the light client are stored next to the chain, and are removed when the demonstration ends. A run
    // with `--once` ends before another program can ask its server.
    let headers = (!arguments.once).then(|| data.with_file_name("headers"));
    let shown = show(
        spv.listen,
        spv.datapath.clone(),
        headers.as_deref(),
        &*session.daemon().observed(),
    )?;
    if as_json {
        let mut started = run::started(&session);
        started["demonstration"] = serde_json::to_value(&shown)?;
        heard(say!("{started}"))?;
    } else {
        heard(say!("{shown}"))?;
    }
    // The session itself handles a signal that arrives from here on.
    if arguments.once || signals.have_arrived() {
        return session.stop();
    }
    if !as_json {
        heard(run::announce_end(&session))?;
    }
    session.serve()
}

/// Sends questions to the server at `listen`, which serves the demonstration chain, and prints the answers. `observe`
/// returns the server's counters. The printed verify command stores its block headers in `headers`; if that is `None`,
/// no commands are printed.
///
/// # Errors
/// A missing or wrong answer, or an error of the operating system.
pub fn show(
    listen: SocketAddr,
    datapath: String,
    headers: Option<&Path>,
    observe: &dyn Fn() -> Snapshot,
) -> anyhow::Result<Demonstration> {
    let chain: Vec<_> = demo_blocks().map(|block| (block.root, block.txids)).collect();
    let mut client = Client::connect(listen, REPLY_TIMEOUT)?;
    let mut answers = Vec::new();
    let every = BLOCKS / PRINTED_ANSWERS;
    for (root, txids) in chain.iter().skip(every - 1).step_by(every).take(PRINTED_ANSWERS) {
        let txid = &txids[txids.len() / 2];
        let (height, first) = ask(&mut client, (txid, root), observe)?;
        let (_, again) = ask(&mut client, (txid, root), observe)?;
        let (txid, root) = (to_display(txid), to_display(root));
        answers.push(ShownCommand {
            txid,
            root,
            height,
            first,
            again,
        });
    }

    let of_block = |(root, txids): &(Hash, Vec<Hash>)| {
        let chosen = txids.iter().skip(STRIDE / 2).step_by(STRIDE);
        chosen.map(|txid| (*txid, *root)).collect::<Vec<_>>()
    };
    let questions: Vec<(Hash, Hash)> = chain.iter().flat_map(of_block).collect();
    let mut passes = [0; 2];
    for fastpath in &mut passes {
        let before = Hits::of(&observe());
        for (txid, root) in &questions {
            check(client.root(txid)?.result.map(|place| place.root), txid, root)?;
        }
        *fastpath = Hits::of(&observe()).since(before);
    }

    let index = chain
        .iter()
        .flat_map(|(root, txids)| txids.iter().map(|txid| (*txid, *root)));
    let is_nic = observe().services.iter().any(|service| service.datapath == "rtl");
    let sw_listen = SocketAddr::new(software_address(listen.ip(), is_nic), 0);
    let software = Software::start(sw_listen, index.collect()).with_context(|| {
        format!(
            "the software for the comparison cannot listen on {}",
            sw_listen.ip()
        )
    })?;
    // The selected questions are spread over the chain and over the software's tree.
    let few: Vec<_> = questions
        .iter()
        .step_by(questions.len() / QUESTIONS_PER_ROUND)
        .copied()
        .collect();
    let round_trip = compare(listen, software.local_addr(), &few)?;
    let txid = answers.last().map_or("", |shown| &shown.txid);
    Ok(Demonstration {
        commands: headers.map(|headers| commands(listen, txid, headers)),
        blocks: BLOCKS,
        transactions_per_block: TRANSACTIONS,
        answers,
        asked: questions.len(),
        fastpath_first: passes[0],
        fastpath_again: passes[1],
        round_trip,
        datapath,
        is_nic,
    })
}

fn ask(
    client: &mut Client,
    (txid, root): (&Hash, &Hash),
    observe: &dyn Fn() -> Snapshot,
) -> anyhow::Result<(u32, Answerer)> {
    let before = Hits::of(&observe());
    let found = client.root(txid)?.result;
    check(found.map(|place| place.root), txid, root)?;
    let after = Hits::of(&observe());
    Ok((found.map_or(0, |place| place.height), after.answerer(before)))
}

fn check(found: Option<Hash>, txid: &Hash, root: &Hash) -> anyhow::Result<()> {
    match found {
        Some(found) if found == *root => Ok(()),
        Some(_) => bail!(
            "{}: the server answered with a wrong Merkle root",
            to_display(txid)
        ),
        None => bail!(
            "{}: the server did not find this transaction, although the chain contains it",
            to_display(txid)
        ),
    }
}

/// Returns the address under which a client on this machine reaches a server that listens at `address`.
fn reachable(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) if address.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(address) if address.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        address => address,
    }
}

/// Returns the address at which the software of the comparison listens, for a server at `listen`: the address of the
/// server, or a loopback address if the simulated NIC has that address, because this machine does not have it then.
fn software_address(listen: IpAddr, is_nic: bool) -> IpAddr {
    match (is_nic, listen) {
        (false, listen) => reachable(listen),
        (true, IpAddr::V4(_)) => Ipv4Addr::LOCALHOST.into(),
        (true, IpAddr::V6(_)) => Ipv6Addr::LOCALHOST.into(),
    }
}

fn commands(listen: SocketAddr, txid: &str, headers: &Path) -> Commands {
    let next = std::env::current_exe().map(|program| program.with_file_name("lineside"));
    let program = match next {
        Ok(program) if program.is_file() => program.display().to_string(),
        _ => BUILT_FIRST.into(),
    };
    let server = SocketAddr::new(reachable(listen.ip()), listen.port());
    let headers = headers.display();
    Commands {
        get: format!("{program} spv get --server {server} {txid}"),
        verify: format!(
            "{program} spv verify --network regtest --headers {headers} --server {server} {txid}"
        ),
    }
}

fn compare(lineside: SocketAddr, sw: SocketAddr, questions: &[(Hash, Hash)]) -> anyhow::Result<Comparison> {
    let mut seen = [RoundTrips::default(), RoundTrips::default()];
    let mut ratios = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        let mut medians = [f64::NAN; 2];
        for ((seen, median), server) in seen.iter_mut().zip(&mut medians).zip([lineside, sw]) {
            let round = round_trips(server, questions)
                .with_context(|| format!("sending the questions to {server}"))?;
            *median = p50_us(&round);
            seen.add(round);
        }
        ratios.push(medians[1] / medians[0]);
    }
    let [ours, theirs] = &seen;
    if ours.wrong + theirs.wrong > 0 {
        bail!(
            "wrong answers: {} by Lineside, {} by the software of the comparison",
            ours.wrong,
            theirs.wrong
        );
    }
    Ok(Comparison {
        questions: ours.taken.len(),
        lineside_p50_us: p50_us(ours),
        sw_p50_us: p50_us(theirs),
        ratio_min: ratios.iter().copied().fold(f64::INFINITY, f64::min),
        ratio_max: ratios.iter().copied().fold(0.0, f64::max),
        rounds: ROUNDS,
        lost: ours.lost + theirs.lost,
        lineside_server: lineside,
        sw_server: sw,
    })
}

fn p50_us(seen: &RoundTrips) -> f64 {
    seen.median()
        .map_or(f64::NAN, |median| median.as_nanos() as f64 / 1e3)
}

impl Answerer {
    const fn words(self) -> &'static str {
        match self {
            Self::Xdp => "XDP",
            Self::Nic => "the simulated NIC",
            Self::UserSpace => "the fast path in user space",
            Self::Host => "the host",
        }
    }
}

impl fmt::Display for Demonstration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "a demonstration chain of {} blocks with {} transactions each: which Merkle root holds this one?",
            self.blocks, self.transactions_per_block
        )?;
        for ShownCommand {
            txid,
            root,
            height,
            first,
            again,
        } in &self.answers
        {
            let again = match first == again {
                true => String::new(),
                false => format!("; asked again: from {}", again.words()),
            };
            let (txid, root, first) = (&txid[..16], &root[..16], first.words());
            writeln!(
                out,
                "  {txid}… -> {root}… at height {height:2}  from {first}{again}"
            )?;
        }
        let rate = |fastpath: u64| 100.0 * fastpath as f64 / self.asked.max(1) as f64;
        writeln!(
            out,
            "hit rate over {} transactions of all blocks: {:.1} % asked first, {:.1} % asked again",
            self.asked,
            rate(self.fastpath_first),
            rate(self.fastpath_again)
        )?;
        let Comparison {
            questions,
            lineside_p50_us,
            sw_p50_us,
            ratio_min,
            ratio_max,
            rounds,
            lost,
            lineside_server: _,
            sw_server,
        } = &self.round_trip;
        writeln!(
            out,
            "round trip, median of {questions}: {lineside_p50_us:.1} us ({})",
            self.datapath
        )?;
        writeln!(
            out,
            "  the paper's software (one thread, recvfrom, tree index, sendto): {sw_p50_us:.1} us, {ratio_min:.1} to \
             {ratio_max:.1} times that in {rounds} rounds"
        )?;
        match lost {
            0 => {}
            1 => writeln!(out, "  (1 packet was lost and sent again)")?,
            _ => writeln!(out, "  ({lost} packets were lost and sent again)")?,
        }
        match self.is_nic {
            false => write!(
                out,
                "  one question at a time over lo: a demonstration, not a measurement of a network card"
            )?,
            true => write!(
                out,
                "  one question at a time: to Lineside through the TAP device and the simulation of the NIC, which is \
                 much slower\n  than a NIC; to the software at {} over lo, without a NIC: a demonstration, not a \
                 measurement of a network card",
                sw_server.ip()
            )?,
        }
        let Some(Commands { get, verify }) = &self.commands else {
            return Ok(());
        };
        write!(out, "\nask about a transaction from another terminal:\n  {get}")?;
        write!(
            out,
            "\nand verify it as a light client, with block headers that the client checks itself:\n  {verify}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Answerer, Hits, NIC_ADDRESS, software_address};
    use lineside_service::DatapathConfig;
    use std::net::IpAddr;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Regression test: the software of the comparison was bound to the address of the simulated NIC, which this
    /// machine does not have.
    #[test]
    fn the_software_listens_at_an_address_of_this_machine() {
        for (listen, is_nic, expected) in [
            ("127.0.0.1", false, "127.0.0.1"),
            ("10.0.0.5", false, "10.0.0.5"),
            ("0.0.0.0", false, "127.0.0.1"),
            ("::", false, "::1"),
            ("10.77.0.2", true, "127.0.0.1"),
            ("fd77::2", true, "::1"),
        ] {
            assert_eq!(software_address(ip(listen), is_nic), ip(expected), "{listen}");
        }
    }

    #[test]
    fn the_default_address_of_the_nic_is_in_the_default_network_of_the_tap_device() {
        let networks = DatapathConfig::default().tap_networks();
        let own = IpAddr::from(NIC_ADDRESS);
        assert!(
            networks
                .iter()
                .any(|network| network.contains(own) && network.address != own),
            "{networks:?}"
        );
    }

    /// Regression test: answers of the simulated NIC were printed as answers of the host.
    #[test]
    fn each_datapath_that_answers_is_named() {
        let of = |xdp, nic, user| Hits { xdp, nic, user };
        let before = of(3, 4, 5);
        for (after, answerer) in [
            (of(4, 4, 5), Answerer::Xdp),
            (of(3, 5, 5), Answerer::Nic),
            (of(3, 4, 6), Answerer::UserSpace),
            (before, Answerer::Host),
        ] {
            assert!(after.answerer(before) == answerer, "{}", answerer.words());
            assert_eq!(after.since(before), u64::from(answerer != Answerer::Host));
        }
    }
}
