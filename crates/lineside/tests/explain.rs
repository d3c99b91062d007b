//! Tests that run `lineside explain` as a user does.

mod capture;

use capture::{framed, pcap};
use lineside_testkit::{DemoChain, skipped};
use lineside_wire::frame::parse;
use lineside_wire::{NATIVE_REPLY_BIT, RootReply, SPV_OP_HEADERS, SPV_OP_ROOT, native};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};
use zerocopy::IntoBytes;

fn lineside(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args(arguments)
        .output()
        .expect("the program runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Frames of the capture by their numbers.
const PAPER_HIT: u64 = 1;
const ROOT_HIT_IPV6_VLAN: u64 = 2;
const UNKNOWN: u64 = 3;
const REPLY_BIT: u64 = 4;
const OTHER_PORT: u64 = 5;
const ARP: u64 = 6;
const HEADERS: u64 = 7;
const FRAMES: u64 = 7;

struct Scene {
    folder: tempfile::TempDir,
    root: [u8; 32],
    frames: Vec<Vec<u8>>,
}

impl Scene {
    /// Returns a chain store of one block, and a capture with the frames above.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let block = DemoChain::new(5, 30).next().unwrap();
        let mut arp = framed(&[0; 32], false, 7701);
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        let mut reply = native_request(SPV_OP_ROOT, &block.txids[0]);
        reply[3] |= NATIVE_REPLY_BIT;
        let frames = vec![
            framed(&block.txids[0], false, 7701),
            framed(&native_request(SPV_OP_ROOT, &block.txids[1]), true, 7701),
            framed(&[7; 32], false, 7701),
            framed(&reply, false, 7701),
            framed(&block.txids[0], false, 53),
            arp,
            framed(&native_request(SPV_OP_HEADERS, &[0; 32]), false, 7701),
        ];
        let scene = Self {
            folder,
            root: block.root,
            frames,
        };
        std::fs::write(scene.path("0.raw"), &block.raw).unwrap();
        let (data, raw) = (scene.text("data"), scene.text("0.raw"));
        let imported = lineside(&["spv", "import", "--network", "regtest", "--data", &data, &raw]);
        assert!(imported.status.success(), "{imported:?}");
        std::fs::write(scene.path("in.pcap"), pcap(&scene.frames)).unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn explain(&self, capture: &str, number: u64, more: &[&str]) -> Output {
        let (capture, data, number) = (self.text(capture), self.text("data"), number.to_string());
        let always = ["explain", &capture, "--frame", &number, "--data", &data];
        lineside(&[&always[..], more].concat())
    }

    fn object(&self, number: u64, more: &[&str]) -> Value {
        let output = self.explain(
            "in.pcap",
            number,
            &[&["--json", "--line-bits", "10"], more].concat(),
        );
        assert!(output.status.success(), "frame {number}: {}", said(&output));
        serde_json::from_slice(&output.stdout).expect("one JSON object")
    }
}

/// Returns a native request with the body of `root`.
fn native_request(operation: u8, txid: &[u8; 32]) -> Vec<u8> {
    let body = size_of::<RootReply>();
    let mut request = native::request_header(operation, 9, body as u16)
        .as_bytes()
        .to_vec();
    request.extend(txid);
    request.resize(request.len() + body - txid.len(), 0);
    request
}

/// Returns the frame with the changes that the report lists.
fn changed(request: &[u8], report: &Value) -> Vec<u8> {
    let mut reply = request.to_vec();
    for change in report["changes"].as_array().unwrap() {
        let at = change["offset"].as_u64().unwrap() as usize;
        let text = |key: &str| lineside_util::hex::from_hex(change[key].as_str().unwrap()).unwrap();
        let (before, after) = (text("request"), text("reply"));
        assert_eq!(&reply[at..at + before.len()], before);
        reply[at..at + after.len()].copy_from_slice(&after);
    }
    reply
}

fn last(report: &Value) -> &Value {
    report["steps"].as_array().unwrap().last().unwrap()
}

#[test]
fn an_answered_frame_is_explained_to_its_last_byte() {
    let scene = Scene::new();
    let report = scene.object(PAPER_HIT, &[]);
    assert_eq!(
        (&report["model"]["verdict"], &report["model"]["counters"]["hits"]),
        (&"answered".into(), &1.into())
    );
    assert_eq!(report["to"], "10.0.0.2:7701");
    let reply = changed(&scene.frames[0], &report);
    let found = parse(&reply).unwrap();
    assert_eq!(&reply[found.payload()], &scene.root);
    assert_eq!(
        (found.destination_port, found.source_port, &reply[..6]),
        (40_000, 7701, &scene.frames[0][6..12])
    );
    // Every required rule holds, and the look-up has the values of the table.
    let steps = report["steps"].as_array().unwrap();
    let is_failed = |step: &&Value| step["required"] == true && step["holds"] == false;
    assert_eq!(steps.iter().find(is_failed), None);
    let line = steps.iter().find(|step| step["rule"] == "key_word").unwrap();
    assert_eq!(
        (&line["begin"], &line["end"], &line["facts"]["lines_of_set"]),
        (&42.into(), &74.into(), &4.into())
    );
    let text = scene.explain("in.pcap", ROOT_HIT_IPV6_VLAN, &[]);
    let text = String::from_utf8(text.stdout).unwrap();
    for expected in [
        "fd00::2",
        "model: answered, counters: hits +1",
        "The EtherType is that of a VLAN tag",
    ] {
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn the_last_step_says_why_a_frame_was_not_answered() {
    let scene = Scene::new();
    for (number, verdict, reason, rule, counter) in [
        (UNKNOWN, "passed", None, "key_word", Some("misses")),
        (
            REPLY_BIT,
            "dropped",
            Some("reply_bit"),
            "no_reply_bit",
            Some("drops, reply_bit"),
        ),
        (OTHER_PORT, "passed", None, "service_port", None),
        (ARP, "passed", None, "ethertype_ipv6", None),
        (HEADERS, "passed", None, "body", Some("forwarded_native")),
    ] {
        let report = scene.object(number, &[]);
        let (model, last) = (&report["model"], last(&report));
        assert_eq!(model["verdict"], verdict, "{report}");
        assert_eq!(model["reason"].as_str(), reason);
        assert_eq!((&last["rule"], &last["holds"]), (&rule.into(), &false.into()));
        let counters = model["counters"].as_object().unwrap();
        assert_eq!(counters.keys().next().map(String::as_str), counter);
        assert_eq!(report["changes"], serde_json::json!([]));
    }
    // Without a chain store, the table is empty.
    let output = lineside(&["explain", &scene.text("in.pcap"), "--frame", "1", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(last(&report)["rule"], "key_word");
}

/// Regression test: a frame for another service was explained by the rules of `spv`.
#[test]
fn a_capture_of_another_service_is_refused() {
    let scene = Scene::new();
    let capture = pcap(&[framed(&[1; 18], false, 7702)]);
    std::fs::write(scene.path("transfer.pcap"), capture).unwrap();
    let refused = scene.explain("transfer.pcap", 1, &[]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(
        said(&refused).contains("port 7702, which is the port of another service"),
        "{}",
        said(&refused)
    );
    let forced = scene.explain("transfer.pcap", 1, &["--to", "10.0.0.2:7702"]);
    assert!(forced.status.success(), "{forced:?}");
}

#[test]
fn captures_and_numbers_that_do_not_exist_are_refused() {
    let scene = Scene::new();
    let whole = std::fs::read(scene.path("in.pcap")).unwrap();
    std::fs::write(scene.path("empty.pcap"), &whole[..24]).unwrap();
    std::fs::write(scene.path("cut.pcap"), &whole[..whole.len() - 1]).unwrap();
    for (capture, number, expected) in [
        (
            "in.pcap",
            FRAMES + 1,
            "there is no frame 8, because the capture has 7 frames",
        ),
        (
            "empty.pcap",
            1,
            "there is no frame 1, because the capture has 0 frames",
        ),
        ("0.raw", 1, "not a pcap file"),
        ("cut.pcap", FRAMES, "is cut off"),
        ("missing.pcap", 1, "No such file"),
    ] {
        let output = scene.explain(capture, number, &[]);
        assert_eq!(output.status.code(), Some(1), "{capture}");
        assert!(
            said(&output).contains(expected) && said(&output).contains(capture),
            "{}",
            said(&output)
        );
    }
    let waveform = scene.text("out.fst");
    for more in [
        &["--frame", "0"][..],
        &["--datapath", "model"],
        &["--waveform", &waveform],
        &["--datapath", "rtl", "--line-bits", "19"],
    ] {
        let capture = scene.text("in.pcap");
        let frame = ["--frame", "1"];
        let frame = if more[0] == "--frame" { &[][..] } else { &frame };
        let output = lineside(&[&["explain", &capture][..], frame, more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}: {}", said(&output));
    }
    assert!(!scene.path("out.fst").exists());
}

#[test]
fn the_kernel_program_agrees_with_the_steps() {
    let scene = Scene::new();
    for number in 1..=FRAMES {
        let output = scene.explain("in.pcap", number, &["--datapath", "xdp", "--json"]);
        if said(&output).contains("BPF is not allowed") {
            assert_eq!(output.status.code(), Some(1));
            skipped("BPF is not allowed here");
            return;
        }
        let report = scene.object(number, &["--datapath", "xdp"]);
        assert_eq!(report["differences"], serde_json::json!([]));
        assert_eq!(report["result"], report["model"], "{number}");
    }
}

#[cfg(not(feature = "rtl"))]
#[test]
fn a_program_without_the_nic_says_how_to_build_it() {
    let output = Scene::new().explain("in.pcap", 1, &["--datapath", "rtl"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("build with `--features rtl`"),
        "{}",
        said(&output)
    );
}

#[cfg(not(feature = "rtl-trace"))]
#[test]
fn a_program_without_waveforms_says_how_to_build_it() {
    let scene = Scene::new();
    let out = scene.text("out.fst");
    let output = scene.explain("in.pcap", 1, &["--datapath", "rtl", "--waveform", &out]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("build with `--features rtl-trace`"),
        "{}",
        said(&output)
    );
    assert!(!scene.path("out.fst").exists());
}

#[cfg(feature = "rtl")]
mod with_the_nic {
    use super::*;

    fn cycle(report: &Value, event: &str) -> Option<u64> {
        let events = report["cycles"]["events"].as_array().unwrap();
        let found = events.iter().find(|found| found["event"] == event)?;
        found["cycle"].as_u64()
    }

    #[test]
    fn the_cycles_of_a_frame_are_those_of_the_bench() {
        let scene = Scene::new();
        for number in 1..=FRAMES {
            let report = scene.object(number, &["--datapath", "rtl"]);
            assert_eq!(report["differences"], serde_json::json!([]), "{number}");
            let beats = scene.frames[number as usize - 1].len().div_ceil(64) as u64;
            assert_eq!(cycle(&report, "first_in"), Some(0));
            assert_eq!(cycle(&report, "last_in"), Some(beats - 1), "{number}");
            let is_counted = report["model"]["counters"] != serde_json::json!({});
            assert_eq!(cycle(&report, "decision").is_some(), is_counted, "{number}");
            if report["model"]["verdict"] == "dropped" {
                assert_eq!(cycle(&report, "first_out"), None);
                continue;
            }
            // docs/rtl.md: 39 cycles for hits, misses and other frames.
            assert_eq!(report["cycles"]["latency"], 39, "{number}");
            assert_eq!(cycle(&report, "first_out"), Some(beats - 1 + 39));
            let last_out = cycle(&report, "last_out").unwrap();
            assert_eq!(last_out, 2 * (beats - 1) + 39, "{number}");
        }
    }

    #[cfg(feature = "rtl-trace")]
    #[test]
    fn the_waveform_has_the_cycles_of_the_run() {
        let scene = Scene::new();
        let out = scene.text("out.fst");
        let report = scene.object(PAPER_HIT, &["--datapath", "rtl", "--waveform", &out]);
        let done = cycle(&report, "done").unwrap();
        let fst = std::fs::read(&out).unwrap();
        // Header block of FST: type 0, its length, first time, last time (64 bits each), …, number of variables, and
        // the time unit as a power of ten.
        let word = |at: usize| u64::from_be_bytes(fst[at..at + 8].try_into().unwrap());
        assert_eq!((fst[0], word(1)), (0, 329));
        assert_eq!(word(9), 0, "the first cycle is 0");
        // Four more cycles of 4 ns follow; the clock rises 2 ns after the begin of a cycle.
        assert_eq!(word(17), (done + 4) * 4 + 2);
        assert!(word(49) > 500, "{} variables", word(49));
        assert_eq!(fst[73] as i8, -9, "nanoseconds");
        // A file that cannot be created is named.
        let output = scene.explain(
            "in.pcap",
            1,
            &["--datapath", "rtl", "--waveform", "/nowhere/x.fst"],
        );
        assert_eq!(output.status.code(), Some(1));
        assert!(said(&output).contains("/nowhere/x.fst"), "{}", said(&output));
    }
}
