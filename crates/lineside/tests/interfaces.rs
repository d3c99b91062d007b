//! `lineside run` serves two interfaces in one process: veth pairs connect a namespace of clients with one of the
//! server.

mod daemons;

use daemons::{Bpf, Daemon, lineside};
use lineside_client::spv::Client;
use lineside_testkit::netns::Wire;
use lineside_testkit::{DemoBlock, DemoChain, skipped};
use lineside_transfer::paper::PaperRequest;
use lineside_wire::{
    TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_TRANSFER as TRANSFER, TransferCode as Code,
};
use lineside_xdp::{Interface, XdpDatapath, XdpMode, attached};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

/// Addresses of the server at its interfaces `x1` and `y1`.
const AT_X: &str = "10.0.0.2:7701";
const AT_Y: &str = "10.0.1.2:7701";
/// Time after which a client gives up a request that was not answered.
const SILENCE: Duration = Duration::from_millis(500);

/// The two namespaces, and a directory of pins that the server's processes see.
struct Net {
    wire: Wire,
    pins: String,
    block: DemoBlock,
    /// XDP programs at the clients' ends. A veth receives frames that XDP sends only if its own end has a program.
    _pass: Vec<XdpDatapath>,
    _bpf: Bpf,
}

impl Net {
    /// Returns `None` and prints a message if this machine does not permit BPF or network namespaces.
    fn new(name: &str) -> Option<Self> {
        // The threads of the two namespaces inherit the mounts of this thread, so the BPF file system is mounted first.
        let bpf = Bpf::new(name)?;
        let wire = Wire::new()?;
        wire.add_second();
        let pass = wire.client.run(|| {
            let attach = |name| {
                let mut pass = XdpDatapath::load(Vec::new(), None)?;
                pass.attach(&Interface::find(name)?, XdpMode::Native)?;
                Ok(pass)
            };
            ["x0", "y0"]
                .into_iter()
                .map(attach)
                .collect::<Result<Vec<_>, lineside_xdp::XdpError>>()
        });
        let pass = pass
            .map_err(|why| skipped(format_args!("BPF is not allowed here ({why})")))
            .ok()?;
        Some(Self {
            wire,
            pins: bpf.path().to_owned(),
            block: DemoChain::new(1, 2048).next().expect("endless"),
            _pass: pass,
            _bpf: bpf,
        })
    }

    /// Starts `lineside run` with `spv` in the server's namespace. The datapath is `xdp` unless the arguments name
    /// another one.
    fn start(&self, arguments: &[&str]) -> Result<Daemon, String> {
        let mut all = vec!["--pin-dir", &self.pins, "--set", "spv.listen=0.0.0.0:7701"];
        if !arguments.contains(&"--datapath") {
            all.extend(["--datapath", "xdp"]);
        }
        // The mode `auto` is generic here, because the other ends are in another namespace.
        if !arguments.contains(&"--xdp-mode") {
            all.extend(["--xdp-mode", "native"]);
        }
        all.extend(arguments);
        let all: Vec<String> = all.into_iter().map(str::to_owned).collect();
        self.wire.server.run(move || {
            let all: Vec<_> = all.iter().map(String::as_str).collect();
            daemons::start(&all, None)
        })
    }

    /// Runs `lineside` in the server's namespace, and returns success and all its output.
    fn lineside(&self, arguments: &[&str]) -> (bool, String) {
        let arguments: Vec<String> = arguments.iter().map(|one| (*one).to_owned()).collect();
        let output = self.wire.server.run(move || {
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            lineside(&arguments)
        });
        let all = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(all).expect("text"))
    }

    fn detach(&self, interface: &str) -> (bool, String) {
        self.lineside(&["xdp", "detach", interface, "--pin-dir", &self.pins])
    }

    /// Asks for some transactions at an address. Asserts that each reply is right, and returns the number of replies.
    fn ask(&self, server: &str, places: std::ops::Range<usize>) -> usize {
        let server: SocketAddr = server.parse().expect("address");
        let (root, txids) = (self.block.root, self.block.txids[places].to_vec());
        self.wire.client.run(move || {
            let mut client = Client::connect(server, SILENCE).expect("client");
            let answers = txids.iter().filter_map(|txid| client.paper_root(txid).ok());
            answers.inspect(|answer| assert_eq!(*answer, Some(root))).count()
        })
    }

    fn status(&self) -> serde_json::Value {
        let (_, status) = self.lineside(&["--json", "status"]);
        serde_json::from_str(&status).expect("JSON")
    }

    /// Returns the number of requests that XDP has answered.
    fn hits(&self) -> u64 {
        let hits = self.status()["services"][0]["counters"]["xdp"]["hits"].as_u64();
        hits.expect("a counter")
    }

    /// Returns the interfaces of the server that have an XDP program.
    fn attached(&self) -> Vec<&'static str> {
        self.wire.server.run(|| {
            let has_program = |name: &&str| {
                let interface = Interface::find(name).expect("it exists");
                attached(&interface).expect("query").is_some()
            };
            ["x1", "y1"].into_iter().filter(has_program).collect()
        })
    }

    /// Returns the interfaces that have a directory of pins.
    fn pinned(&self) -> Vec<&'static str> {
        let has_folder = |name: &&str| {
            self.wire.server.run({
                let folder = Path::new(&self.pins).join(name);
                move || folder.exists()
            })
        };
        ["x1", "y1"].into_iter().filter(has_folder).collect()
    }
}

#[test]
fn two_interfaces_answer_from_one_table_and_are_shown_and_detached() {
    let Some(net) = Net::new("two") else { return };
    let daemon = net.start(&["--interface", "x1,y1"]).expect("daemon");
    assert_eq!(
        daemon.said[0],
        "spv on 0.0.0.0:7701 (xdp datapath, native on x1, native on y1)"
    );
    // The host answers the first requests and fills the table.
    assert_eq!(net.ask(AT_X, 0..20), 20);
    assert_eq!(net.hits(), 0);
    assert_eq!(net.ask(AT_X, 0..20), 20);
    assert_eq!(net.hits(), 20, "XDP answers at the first interface");
    assert_eq!(net.ask(AT_Y, 0..20), 20);
    assert_eq!(
        net.hits(),
        40,
        "XDP answers at the second interface, from the same table"
    );
    assert_eq!(net.ask(AT_Y, 20..40), 20);
    assert_eq!(net.ask(AT_X, 20..40), 20);
    assert_eq!(net.hits(), 60, "and the first from what the second has filled");
    assert_eq!(net.attached(), ["x1", "y1"]);

    let service = &net.status()["services"][0];
    assert_eq!(service["interface"], "x1, y1");
    assert_eq!(service["mode"], "native");
    assert_eq!(service["interfaces"][1]["name"], "y1");
    assert_eq!(service["interfaces"][1]["mode"], "native");
    let (_, text) = net.lineside(&["status"]);
    assert!(text.contains("xdp datapath at x1, y1 (native)"), "{text}");
    let (_, listed) = net.lineside(&["xdp", "status", "--pin-dir", &net.pins]);
    let lines: Vec<_> = listed.lines().collect();
    assert!(lines.len() == 2 && lines[0].starts_with("x1: native") && lines[1].starts_with("y1: native"));
    assert!(
        lines.iter().all(|line| line.ends_with("a daemon serves it")),
        "{listed}"
    );
    for name in ["x1", "y1"] {
        let (is_done, why) = net.detach(name);
        assert!(
            !is_done && why.contains("another process of Lineside serves"),
            "{why}"
        );
    }
    let (_, doctor) = net.lineside(&[
        "doctor",
        "--datapath",
        "xdp",
        "--interface",
        "x1",
        "--interface",
        "y1",
        "--pin-dir",
        &net.pins,
    ]);
    for name in ["x1", "y1"] {
        assert!(
            doctor.contains(&format!("{name} has a fast path of Lineside (native")),
            "{doctor}"
        );
    }

    assert_eq!(
        daemon
            .signal(libc::SIGTERM)
            .lines()
            .filter(|line| line.contains("ERROR"))
            .count(),
        0
    );
    assert!(net.attached().is_empty(), "SIGTERM detaches both");
    assert!(net.pinned().is_empty());
}

/// Checks that a server has taken over the fast path of an earlier one.
fn takes_over(daemon: &Daemon) {
    let said = &daemon.said;
    assert!(
        said[0].contains("with the fast-path table of the previous process"),
        "{said:?}"
    );
}

#[test]
fn a_restart_after_a_kill_takes_over_the_fast_path_at_both_interfaces() {
    let Some(net) = Net::new("both") else { return };
    let both = ["--interface", "x1", "--interface", "y1"];
    let daemon = net.start(&both).expect("daemon");
    net.ask(AT_X, 0..20);
    daemon.signal(libc::SIGKILL);
    assert_eq!(net.ask(AT_X, 0..20), 20, "XDP answers without its server");
    assert_eq!(net.ask(AT_Y, 0..20), 20);
    let (_, listed) = net.lineside(&["xdp", "status", "--pin-dir", &net.pins]);
    assert_eq!(
        listed.lines().filter(|line| line.ends_with("no daemon")).count(),
        2,
        "{listed}"
    );
    let daemon = net.start(&both).expect("restart");
    takes_over(&daemon);
    let before = net.hits();
    assert!(before >= 40, "the counters were taken over as well: {before}");
    assert_eq!(net.ask(AT_X, 0..20) + net.ask(AT_Y, 0..20), 40);
    assert_eq!(net.hits(), before + 40);
    daemon.signal(libc::SIGTERM);
    assert!(net.attached().is_empty() && net.pinned().is_empty());
}

#[test]
fn detaching_one_interface_leaves_the_other_and_the_first_can_be_added_again() {
    let Some(net) = Net::new("one") else { return };
    let both = ["--interface", "x1,y1"];
    let keep = ["--interface", "x1,y1", "--keep-fast-path"];
    let daemon = net.start(&keep).expect("daemon");
    net.ask(AT_X, 0..20);
    daemon.signal(libc::SIGTERM);
    assert_eq!(net.attached(), ["x1", "y1"], "--keep-fast-path keeps both");
    // Detaching the first interface leaves the maps, because they are pinned at the second interface as well.
    assert_eq!(net.detach("x1"), (true, "x1: detached\n".into()));
    assert_eq!((net.attached(), net.pinned()), (vec!["y1"], vec!["y1"]));
    assert_eq!(net.ask(AT_X, 0..2), 0, "detached");
    assert_eq!(net.ask(AT_Y, 0..20), 20, "the other one answers");

    let daemon = net.start(&both).expect("restart");
    takes_over(&daemon);
    let before = net.hits();
    assert_eq!(net.ask(AT_X, 0..20), 20);
    assert_eq!(
        net.hits(),
        before + 20,
        "the added interface has the table that was kept"
    );
    daemon.signal(libc::SIGKILL);

    // An interface that is removed from the list is detached.
    let daemon = net.start(&["--interface", "y1"]).expect("one of the two");
    takes_over(&daemon);
    assert_eq!((net.attached(), net.pinned()), (vec!["y1"], vec!["y1"]));
    let before = net.hits();
    assert_eq!(net.ask(AT_Y, 0..20), 20);
    assert_eq!(net.hits(), before + 20);
    assert_eq!(net.ask(AT_X, 0..20), 20, "the socket datapath answers");
    assert_eq!(net.hits(), before + 20);
    daemon.signal(libc::SIGTERM);
    assert!(net.attached().is_empty() && net.pinned().is_empty());

    // Two servers, each with one interface and its own table, cannot be replaced by one server of both interfaces.
    let apart = |interface: &str, listen: &str, console: &str| {
        let listen = format!("spv.listen={listen}");
        net.start(&["--interface", interface, "--console", console, "--set", &listen])
    };
    let one = apart("x1", AT_X, "127.0.0.1:7711").expect("one");
    let other = apart("y1", AT_Y, "127.0.0.1:7712").expect("another");
    let why = net.start(&both).err().expect("both are owned");
    assert!(why.contains("another process of Lineside serves x1"), "{why}");
    one.signal(libc::SIGKILL);
    let why = net.start(&both).err().expect("one is owned");
    assert!(why.contains("another process of Lineside serves y1"), "{why}");
    other.signal(libc::SIGKILL);
    let why = net.start(&both).err().expect("two tables");
    assert!(
        why.contains("pinned at x1 and y1 are of different servers"),
        "{why}"
    );
    assert_eq!(net.attached(), ["x1", "y1"], "a refusal changes nothing");
    assert_eq!(net.detach("y1"), (true, "y1: detached\n".into()));
    let daemon = net.start(&both).expect("one table");
    assert_eq!(net.attached(), ["x1", "y1"]);
    daemon.signal(libc::SIGTERM);
}

#[test]
fn if_the_second_interface_cannot_be_attached_no_interface_stays_attached() {
    let Some(net) = Net::new("fails") else { return };
    let foreign = net.wire.server.run(|| {
        let mut foreign = XdpDatapath::load(Vec::new(), None).expect("load");
        foreign
            .attach(&Interface::find("y1").expect("y1"), XdpMode::Native)
            .expect("attach");
        foreign
    });
    let both = ["--interface", "x1,y1"];
    let why = net.start(&both).err().expect("y1 is taken");
    assert!(why.contains("y1 has an XDP program already, "), "{why}");
    assert_eq!(net.attached(), ["y1"], "only the other program");
    assert!(net.pinned().is_empty());

    let auto = ["--interface", "x1,y1", "--datapath", "auto"];
    let daemon = net.start(&auto).expect("it falls back");
    assert_eq!(daemon.said[0], "spv on 0.0.0.0:7701 (socket datapath)");
    assert_eq!(net.attached(), ["y1"]);
    assert!(net.pinned().is_empty());
    assert_eq!(net.ask(AT_X, 0..20), 20);
    let said = daemon.signal(libc::SIGTERM);
    assert!(
        said.contains("on the socket datapath: y1 has an XDP program"),
        "{said}"
    );

    let why = net
        .start(&["--interface", "x1,no-such-if0"])
        .err()
        .expect("missing");
    assert!(why.contains("there is no interface no-such-if0"), "{why}");
    assert!(net.pinned().is_empty());
    // The daemon is killed, and a foreign program is attached to y1 before the next start. This start fails, and it
    // also detaches the fast path that it would otherwise have taken over.
    drop(foreign);
    net.start(&both).expect("daemon").signal(libc::SIGKILL);
    assert!(net.detach("y1").0);
    let foreign = net.wire.server.run(|| {
        let mut foreign = XdpDatapath::load(Vec::new(), None).expect("load");
        foreign
            .attach(&Interface::find("y1").expect("y1"), XdpMode::Native)
            .expect("attach");
        foreign
    });
    assert!(net.start(&both).is_err());
    assert_eq!(net.attached(), ["y1"]);
    assert!(net.pinned().is_empty());
    drop(foreign);
}

/// Each service answers at the interface that has its listen address.
#[test]
fn a_service_answers_only_at_the_interface_that_has_its_address() {
    let Some(net) = Net::new("address") else { return };
    let data = tempfile::tempdir().expect("a directory");
    let ledger = format!("transfer.data={:?}", data.path().join("ledger"));
    let with = |spv: &str, transfer: &str| {
        let (spv, transfer) = (
            format!("spv.listen={spv}:7701"),
            format!("transfer.listen={transfer}:7702"),
        );
        net.start(&[
            "--interface",
            "x1,y1",
            "--set",
            &spv,
            "--set",
            &transfer,
            "--set",
            &ledger,
            "--set",
            "transfer.enabled=true",
            "--set",
            "transfer.account_bits=10",
        ])
    };
    let daemon = with("10.0.0.2", "10.0.1.2").expect("daemon");
    assert_eq!(
        daemon.said[0],
        "spv on 10.0.0.2:7701 (xdp datapath, native on x1)"
    );
    assert_eq!(
        daemon.said[1],
        "transfer on 10.0.1.2:7702 (xdp datapath, native on y1)"
    );
    assert_eq!(net.ask(AT_X, 0..20) + net.ask(AT_X, 0..20), 40);
    assert_eq!(net.hits(), 20);
    assert_eq!(net.ask(AT_Y, 0..2), 0, "spv is not at y1");
    let status = net.status();
    let interfaces: Vec<_> = (0..2)
        .map(|place| status["services"][place]["interface"].clone())
        .collect();
    assert_eq!(interfaces, ["x1", "y1"]);
    daemon.signal(libc::SIGTERM);
    for (spv, transfer, why) in [
        ("10.0.0.2", "10.0.9.9", "10.0.9.9 is not an address of x1 or y1"),
        ("10.0.0.2", "10.0.0.2", "no service listens at an address of y1"),
        (
            "10.0.0.2",
            "0.0.0.0",
            "give all services at one interface the same address",
        ),
    ] {
        let said = with(spv, transfer).err().expect(why);
        assert!(said.contains(why), "{said}");
        assert!(net.attached().is_empty() && net.pinned().is_empty(), "{why}");
    }
}

/// Sends requests in the paper's format to `transfer`, with ascending ids from `first` on, and asserts the balances.
fn move_ones(net: &Net, server: &'static str, first: u32, count: u32, left: u32) {
    net.wire.client.run(move || {
        let server = server.parse().expect("address");
        let mut client =
            lineside_client::transfer::Client::connect(server, Duration::from_secs(20)).expect("client");
        if first == 2 {
            for (account, amount) in [(1, 1000), (2, 0)] {
                let request = PaperRequest::new(CREATE, 1, account, 0, amount);
                assert_eq!(client.paper(&request).expect("an answer").code, Code::Done);
            }
        }
        for done in 0..count {
            let request = PaperRequest::new(TRANSFER, first + done, 1, 2, 1);
            let answer = client.paper(&request).expect("an answer");
            assert_eq!(answer.balance, Some((left - done - 1).into()));
        }
    });
}

/// In the mode `express`, XDP executes operations while no server runs. All of them are kept when the list of
/// interfaces changes.
#[test]
fn operations_of_express_are_kept_when_the_list_changes() {
    let Some(net) = Net::new("express") else { return };
    let data = tempfile::tempdir().expect("a directory");
    let ledger = data.path().join("ledger");
    let set = format!("transfer.data={ledger:?}");
    let start = |interfaces: &str| {
        let daemon = net.start(&[
            "--interface",
            interfaces,
            "--set",
            &set,
            "--set",
            "transfer.enabled=true",
            "--set",
            "transfer.mode=express",
            "--set",
            "transfer.account_bits=10",
            "--set",
            "transfer.listen=0.0.0.0:7702",
            "--set",
            "transfer.issuers=[\"10.0.0.0/16\"]",
        ])?;
        // The host grants the fast path its lease after its first poll.
        while net.status()["services"][1]["lease_left_ms"] == 0 {
            std::thread::yield_now();
        }
        Ok::<_, String>(daemon)
    };
    let (x, y) = ("10.0.0.2:7702", "10.0.1.2:7702");
    let daemon = start("x1,y1").expect("daemon");
    move_ones(&net, x, 2, 10, 1000);
    move_ones(&net, y, 20, 10, 990);
    assert_eq!(net.status()["services"][1]["counters"]["xdp"]["replies"], 22);
    daemon.signal(libc::SIGKILL);
    move_ones(&net, x, 40, 10, 980);
    move_ones(&net, y, 60, 10, 970);
    // Detaching the second interface too would discard the operations, so it is refused.
    assert_eq!(net.detach("y1"), (true, "y1: detached\n".into()));
    let (is_done, why) = net.detach("x1");
    assert!(!is_done && why.contains("not in the journal"), "{why}");
    // `x1` is detached, but its directory of pins holds the operations, so only a server at `x1` may start.
    let why = start("y1").err().expect("the operations are at x1");
    assert!(why.contains("still attached at x1"), "{why}");
    assert_eq!(net.pinned(), ["x1"], "a refusal changes nothing");
    let daemon = start("y1,x1").expect("both");
    move_ones(&net, y, 80, 10, 960);
    daemon.signal(libc::SIGKILL);
    move_ones(&net, x, 100, 10, 950);
    move_ones(&net, y, 120, 10, 940);
    // The server at `y1` takes over the table with the operations of `x1`, and `x1` is no longer served.
    let daemon = start("y1").expect("one of the two");
    assert_eq!(net.attached(), ["y1"]);
    move_ones(&net, y, 140, 10, 930);
    daemon.signal(libc::SIGTERM);
    assert!(net.attached().is_empty() && net.pinned().is_empty());
    let (_, audit) = net.lineside(&[
        "transfer",
        "audit",
        "--json",
        "--data",
        ledger.to_str().expect("text"),
    ]);
    assert!(audit.contains("\"operations\":82"), "{audit}");
}
