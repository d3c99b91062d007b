//! Tests that run `lineside-lab replay` as a user does.

use lineside_capture::{Reader, Record, Writer};
use lineside_testkit::{DemoChain, binary, skipped};
use lineside_transfer::paper::PaperRequest;
use lineside_wire::frame::{Addressing, build, parse};
use lineside_wire::{
    TRANSFER_COMMAND_CREATE as CREATE, TRANSFER_COMMAND_REFER as REFER, TRANSFER_COMMAND_TRANSFER as TRANSFER,
};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn lineside(arguments: &[&str]) -> Output {
    Command::new(binary("lineside"))
        .args(arguments)
        .output()
        .expect("run")
}

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lineside-lab"))
        .args(arguments)
        .output()
        .expect("run")
}

struct Scene {
    folder: tempfile::TempDir,
    root: [u8; 32],
}

impl Scene {
    /// Returns a chain store of one block, and a capture with requests for three of the block's transactions and for an
    /// unknown one.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let block = DemoChain::new(5, 30).next().unwrap();
        let scene = Self {
            folder,
            root: block.root,
        };
        std::fs::write(scene.path("0.raw"), &block.raw).unwrap();
        let imported = lineside(&[
            "spv",
            "import",
            "--network",
            "regtest",
            "--data",
            &scene.text("data"),
            &scene.text("0.raw"),
        ]);
        assert!(imported.status.success());
        let mut writer = Writer::new(Vec::new()).unwrap();
        for (number, txid) in block.txids[..3].iter().chain([&[7; 32]]).enumerate() {
            let mut frame = [0; 74];
            let addressing = Addressing {
                source_mac: [2, 0, 0, 0, 0, 1],
                destination_mac: [2, 0, 0, 0, 0, 2],
                vlan: None,
                source: "10.0.0.1".parse().unwrap(),
                destination: "10.0.0.2".parse().unwrap(),
                source_port: 40_000,
                destination_port: 7701,
            };
            assert_eq!(build(&mut frame, &addressing, txid), Some(74));
            writer.write(1_000_000_000 + number as u64, &frame).unwrap();
        }
        std::fs::write(scene.path("in.pcap"), writer.finish().unwrap()).unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn replay(&self, capture: &str, more: &[&str]) -> Output {
        let (data, capture) = (self.text("data"), self.text(capture));
        let always = [
            "replay",
            &capture,
            "--network",
            "regtest",
            "--data",
            &data,
            "--line-bits",
            "10",
        ];
        lab(&[&always[..], more].concat())
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn check_replies(path: &Path, root: &[u8; 32]) {
    let file = std::fs::read(path).unwrap();
    let mut reader = Reader::new(&file[..]).unwrap();
    let mut record = Record::default();
    for number in 0..3 {
        assert!(reader.next(&mut record).unwrap());
        assert_eq!(record.time_ns, 1_000_000_000 + number);
        let found = parse(&record.frame).unwrap();
        assert_eq!(&record.frame[found.payload()], root);
    }
    assert!(!reader.next(&mut record).unwrap());
}

#[test]
fn a_capture_is_answered_on_every_datapath() {
    let scene = Scene::new();
    // `xdp` is the last one, because the test ends there if BPF is not allowed.
    let datapaths = match cfg!(feature = "rtl") {
        true => &["socket", "native", "rtl", "xdp"][..],
        false => &["socket", "native", "xdp"][..],
    };
    for datapath in datapaths.iter().copied() {
        let out = scene.text("out.pcap");
        let arguments = ["--datapath", datapath, "--write", &out, "--verbose", "--json"];
        let output = scene.replay("in.pcap", &arguments);
        if datapath == "xdp" && said(&output).contains("BPF is not allowed") {
            assert_eq!(output.status.code(), Some(1));
            skipped("BPF is not allowed here");
            return;
        }
        assert!(output.status.success(), "{datapath}: {}", said(&output));
        let lines: Vec<serde_json::Value> = String::from_utf8_lossy(&output.stdout)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let verdicts: Vec<_> = lines[..4]
            .iter()
            .map(|line| line["verdict"].as_str().unwrap())
            .collect();
        assert_eq!(verdicts, ["answered", "answered", "answered", "passed"]);
        assert_eq!(lines[0]["to"], "10.0.0.2:7701");
        let all = &lines[4];
        assert_eq!(
            (&all["answered"], &all["passed"], &all["dropped"]),
            (&3.into(), &1.into(), &0.into())
        );
        assert_eq!(
            (&all["datapath"], &all["mac"]),
            (&datapath.into(), &"02:00:00:00:00:02".into())
        );
        check_replies(&scene.path("out.pcap"), &scene.root);
    }
}

#[test]
fn captures_that_cannot_be_replayed_are_refused_with_the_reason() {
    let scene = Scene::new();
    let whole = std::fs::read(scene.path("in.pcap")).unwrap();
    std::fs::write(scene.path("cut.pcap"), &whole[..whole.len() - 1]).unwrap();
    std::fs::write(scene.path("no_frame.pcap"), &whole[..24 + 16 + 73]).unwrap();
    std::fs::write(scene.path("one_frame.pcap"), &whole[..24 + 16 + 75]).unwrap();
    std::fs::write(scene.path("new.pcapng"), [0x0a, 0x0d, 0x0d, 0x0a, 28, 0, 0, 0]).unwrap();
    std::fs::write(scene.path("empty.pcap"), &whole[..24]).unwrap();
    let socket = ["--datapath", "socket"];
    let cut = scene.replay("cut.pcap", &socket);
    assert_eq!(cut.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&cut.stdout).contains("3 frames: 3 answered"),
        "{cut:?}"
    );
    assert!(
        said(&cut).contains("warning") && said(&cut).contains("record 4 at byte 294 is cut off"),
        "{}",
        said(&cut)
    );
    let one = scene.replay("one_frame.pcap", &socket);
    assert_eq!(one.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&one.stdout).contains("1 frame: 1 answered"),
        "{one:?}"
    );
    assert!(
        said(&one).contains("only the first frame could be read"),
        "{}",
        said(&one)
    );
    for (file, words) in [
        ("new.pcapng", "editcap"),
        ("empty.pcap", "no UDP datagram"),
        ("no_frame.pcap", "record 1 at byte 24 is cut off"),
        ("no.pcap", "No such file"),
        ("0.raw", "not a pcap file"),
    ] {
        let output = scene.replay(file, &socket);
        assert_eq!(output.status.code(), Some(1), "{file}");
        assert!(
            said(&output).contains(words) && said(&output).contains(file),
            "{}",
            said(&output)
        );
    }
    // The command must not overwrite the capture. Regression test: it did if the name was a hard link.
    std::fs::hard_link(scene.path("in.pcap"), scene.path("hard.pcap")).unwrap();
    std::os::unix::fs::symlink("in.pcap", scene.path("soft.pcap")).unwrap();
    for name in ["in.pcap", "hard.pcap", "soft.pcap"] {
        let out = scene.text(name);
        let output = scene.replay("in.pcap", &["--datapath", "socket", "--write", &out]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(
            said(&output).contains("that is the capture itself"),
            "{}",
            said(&output)
        );
        assert_eq!(std::fs::read(scene.path("in.pcap")).unwrap(), whole, "{name}");
    }
    assert_eq!(
        scene.replay("in.pcap", &["--datapath", "model"]).status.code(),
        Some(2)
    );
    // Regression test: this mistake ended with code 1.
    let capture = scene.text("in.pcap");
    let output = lab(&["replay", &capture, "--datapath", "rtl", "--line-bits", "19"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("--line-bits 19"), "{}", said(&output));
}

/// Regression test: the command opens its capture several times, so it waited forever for the second writer of a FIFO.
#[test]
fn a_capture_that_is_not_a_regular_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["/dev/stdin", "/dev/null", folder.path().to_str().unwrap()] {
        // Standard input is a pipe, which this process closes at once.
        let output = Command::new(env!("CARGO_BIN_EXE_lineside-lab"))
            .args(["replay", "--datapath", "socket", file])
            .stdin(Stdio::piped())
            .output()
            .expect("run");
        assert_eq!(output.status.code(), Some(2), "{file}: {output:?}");
        assert!(
            said(&output).contains(&format!("{file}: is not a regular file")),
            "{}",
            said(&output)
        );
    }
}

/// Returns a capture with requests of `transfer` in the paper's format, and one frame for another program.
fn transfer_capture(requests: &[PaperRequest]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    let payloads = requests.iter().map(|request| request.to_bytes().to_vec());
    let ports = requests.iter().map(|_| 7702).chain([9]);
    for (payload, port) in payloads.chain([b"other".to_vec()]).zip(ports) {
        let addressing = Addressing {
            source_mac: [2, 0, 0, 0, 0, 1],
            destination_mac: [2, 0, 0, 0, 0, 2],
            vlan: None,
            source: "10.0.0.1".parse().unwrap(),
            destination: "10.0.0.2".parse().unwrap(),
            source_port: 40_000,
            destination_port: port,
        };
        let mut frame = [0; 128];
        let bytes = build(&mut frame, &addressing, &payload).unwrap();
        writer.write(1_000_000_000, &frame[..bytes]).unwrap();
    }
    writer.finish().unwrap()
}

#[test]
fn a_capture_of_transfer_is_executed_on_every_datapath() {
    let folder = tempfile::tempdir().unwrap();
    let text = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    // Each request with the number in its reply: a balance, or the code of a refusal with the highest bit of the reply.
    let asked = [
        (PaperRequest::new(CREATE, 1, 1, 0, 100), 100),
        (PaperRequest::new(CREATE, 1, 2, 0, 7), 7),
        (PaperRequest::new(TRANSFER, 2, 1, 2, 30), 70),
        // The id was used: the stored reply.
        (PaperRequest::new(TRANSFER, 2, 1, 2, 30), 70),
        (PaperRequest::new(TRANSFER, 0, 1, 2, 71), 3),
        (PaperRequest::new(REFER, 0, 2, 0, 0), 37),
    ];
    std::fs::write(
        text("in.pcap"),
        transfer_capture(&asked.map(|(request, _)| request)),
    )
    .unwrap();
    let datapaths = match cfg!(feature = "rtl") {
        true => &["socket", "native", "rtl", "xdp"][..],
        false => &["socket", "native", "xdp"][..],
    };
    for datapath in datapaths.iter().copied() {
        let (capture, out) = (text("in.pcap"), text("out.pcap"));
        let arguments = [
            "replay",
            &capture,
            "--service",
            "transfer",
            "--datapath",
            datapath,
        ];
        let output = lab(&[&arguments[..], &["--write", &out, "--json"]].concat());
        if datapath == "xdp" && said(&output).contains("BPF is not allowed") {
            skipped("BPF is not allowed here");
            return;
        }
        assert!(output.status.success(), "{datapath}: {}", said(&output));
        let all: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            (&all["answered"], &all["passed"], &all["dropped"]),
            (&asked.len().into(), &1.into(), &0.into()),
            "{datapath}"
        );
        let replies = std::fs::read(&out).unwrap();
        let mut reader = Reader::new(&replies[..]).unwrap();
        let mut record = Record::default();
        for (number, (_, expected)) in asked.iter().enumerate() {
            assert!(reader.next(&mut record).unwrap());
            let payload = &record.frame[parse(&record.frame).unwrap().payload()];
            let found = u32::from_be_bytes(payload[16..20].try_into().unwrap());
            assert_eq!(found, *expected, "{datapath}: request {number}");
            assert_eq!(
                payload[0] & 0x80 != 0,
                number == 4,
                "{datapath}: request {number}"
            );
        }
        assert!(!reader.next(&mut record).unwrap());
    }
    let capture = text("in.pcap");
    let arguments = [
        "replay",
        &capture,
        "--service",
        "transfer",
        "--datapath",
        "socket",
    ];
    let output = lab(&[&arguments[..], &["--prefill", "none"]].concat());
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said(&output).contains("--prefill is an option of --service spv"),
        "{output:?}"
    );
}
