//! `lineside fabric`: replay, the verbs on a ledger, and a replica that follows an orderer.

mod replica;

use lineside_fabric::TxCode;
use lineside_fabric_maker::{Blocks, Network, Options, Workload};
use replica::{Running, fabric, msp, objects, one, recorded};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn replay(directory: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
    command.args(["fabric", "replay"]).arg(directory).args(more);
    command.output().unwrap()
}

#[test]
fn a_replay_of_recorded_blocks_has_no_differences() {
    let output = replay(&recorded(), &["--json", "--threads", "2"]);
    assert!(output.status.success(), "{output:?}");
    let objects = objects(&output);
    assert_eq!(objects.len(), 15);
    assert_eq!(objects[0]["commit_hash"], Value::Null);
    assert_eq!(objects[13]["block"], 13);
    assert_eq!(objects[13]["counts"]["BAD_CREATOR_SIGNATURE"], 10);
    assert_eq!(objects[13]["codes"].as_array().unwrap().len(), 100);
    assert_eq!(objects[13]["commit_hash"].as_str().unwrap().len(), 64);
    assert_eq!(
        (&objects[14]["transactions"], &objects[14]["differences"]),
        (&764.into(), &0.into())
    );
}

#[test]
fn a_replay_with_a_difference_ends_with_exit_code_1() {
    let directory = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(recorded()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), directory.path().join(file.file_name())).unwrap();
    }
    let manifest = directory.path().join("manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    std::fs::write(
        &manifest,
        text.replacen("\"code_num\": 10", "\"code_num\": 11", 1),
    )
    .unwrap();
    let output = replay(directory.path(), &[]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        text.contains("validation gives ENDORSEMENT_POLICY_FAILURE, but the record has MVCC_READ_CONFLICT"),
        "{text}"
    );
    assert!(
        text.ends_with("14 blocks compared with the recorded results: 1 difference\n"),
        "{text}"
    );
}

#[test]
fn a_missing_block_counts_as_a_difference() {
    let directory = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(recorded()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), directory.path().join(file.file_name())).unwrap();
    }
    for file in std::fs::read_dir(directory.path()).unwrap() {
        let file = file.unwrap();
        if file.file_name().to_str().unwrap().starts_with("00005.") {
            std::fs::remove_file(file.path()).unwrap();
        }
    }
    let missing = |objects: &[Value]| objects.iter().filter(|block| block["missing"] == true).count();
    let output = replay(directory.path(), &["--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let objects_of = objects(&output);
    assert_eq!(missing(&objects_of), 9);
    let summary = objects_of.last().unwrap();
    assert_eq!(
        (&summary["blocks"], &summary["differences"]),
        (&5.into(), &9.into())
    );
    // Without a manifest, the gap in the file names shows that a block is missing.
    std::fs::remove_file(directory.path().join("manifest.json")).unwrap();
    let output = replay(directory.path(), &["--json"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert_eq!(missing(&objects(&output)), 8);
}

#[test]
fn a_folder_without_blocks_or_with_a_damaged_one_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let output = replay(directory.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("this folder has no 00000.orderer.pb.gz")
    );
    let from = |name: &str| recorded().join(name);
    std::fs::copy(
        from("00000.orderer.pb.gz"),
        directory.path().join("00000.orderer.pb.gz"),
    )
    .unwrap();
    std::fs::copy(
        from("00002.orderer.pb.gz"),
        directory.path().join("00001.orderer.pb.gz"),
    )
    .unwrap();
    let output = replay(directory.path(), &[]);
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(
        words.contains("block 1: block refused: the block has number 2, but the next block is 1"),
        "{words}"
    );
}

/// Returns the commit hash of the last block in the manifest.
fn last_commit_hash() -> String {
    let manifest = std::fs::read_to_string(recorded().join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&manifest).unwrap();
    let blocks = manifest["blocks"].as_array().unwrap();
    blocks.last().unwrap()["commit_hash"].as_str().unwrap().to_owned()
}

#[test]
fn import_status_and_block_agree_about_a_ledger() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("ledger");
    let data = data.to_str().unwrap();
    let folder = recorded();
    let folder = folder.to_str().unwrap();
    let imported = one(&["import", "--json", "--data", data, folder]);
    assert_eq!(
        (&imported["imported"], &imported["transactions"]),
        (&14.into(), &764.into())
    );
    let again = one(&["import", "--json", "--data", data, folder]);
    assert_eq!(again["imported"], 0, "it has them");
    let status = one(&["status", "--json", "--data", data]);
    assert_eq!(
        (&status["channel"], &status["blocks"]),
        (&"edge".into(), &14.into())
    );
    assert_eq!(status["commit_hash"], last_commit_hash());
    let block = one(&["block", "--json", "--data", data, "13"]);
    assert_eq!(block["counts"]["BAD_CREATOR_SIGNATURE"], 10);
    let hash = block["header_hash"].as_str().unwrap();
    assert_eq!(one(&["block", "--json", "--data", data, hash])["block"], 13);
    let sound = one(&["verify-ledger", "--json", "--data", data]);
    assert_eq!((&sound["sound"], &sound["blocks"]), (&true.into(), &14.into()));
    let unknown = fabric(&["tx", "--data", data, &"0".repeat(64)]);
    assert!(!unknown.status.success());
    // One flipped bit in the journal is detected.
    damage(data);
    assert!(!fabric(&["verify-ledger", "--data", data]).status.success());
}

/// Flips one bit in the middle of a ledger's records.
fn damage(data: &str) {
    let files = std::fs::read_dir(data).unwrap().map(|file| file.unwrap().path());
    let mut segments = files.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
    let segment = segments.next().unwrap();
    let mut bytes = std::fs::read(&segment).unwrap();
    // The segment holds zeros after its last record, so the middle of the records is half of the last non-zero
    // position.
    let middle = bytes.iter().rposition(|byte| *byte != 0).unwrap() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
}

#[test]
fn a_damaged_ledger_is_repaired_up_to_the_damage_and_then_extended() {
    let directory = tempfile::tempdir().unwrap();
    let (data, folder) = (directory.path().to_str().unwrap(), recorded());
    let folder = folder.to_str().unwrap();
    one(&["import", "--json", "--data", data, folder]);
    damage(data);
    let refused = fabric(&["status", "--data", data]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let mut repair = Command::new(env!("CARGO_BIN_EXE_lineside"));
    let repaired = repair.args(["journal", "repair", data]).output().unwrap();
    assert!(repaired.status.success(), "{repaired:?}");
    let left = one(&["status", "--json", "--data", data])["blocks"]
        .as_u64()
        .unwrap();
    assert!((1..14).contains(&left), "{left}");
    let imported = one(&["import", "--json", "--data", data, folder]);
    assert_eq!(
        (&imported["imported"], &imported["blocks"]),
        (&(14 - left).into(), &14.into())
    );
    let sound = one(&["verify-ledger", "--json", "--data", data]);
    assert_eq!((&sound["sound"], &sound["blocks"]), (&true.into(), &14.into()));
    assert_eq!(sound["commit_hash"], last_commit_hash());
}

/// Runs the verb that generates a channel, and returns its output.
fn make(folder: &Path, more: &[&str]) -> Value {
    let folder = folder.to_str().unwrap();
    one(&[&["make", "--json", folder], more].concat())
}

#[test]
fn a_generated_channel_is_replayed_and_served() {
    let directory = tempfile::tempdir().unwrap();
    let small = ["--blocks", "4", "--transactions", "40", "--keys", "200"];
    let drm = [&small[..], &["--chaincode", "drm", "--endorsements", "3"]].concat();
    let faulty = [&small[..], &["--faulty", "300", "--config-every", "2"]].concat();
    for (name, more) in [("small", &small[..]), ("drm", &drm), ("faulty", &faulty)] {
        let folder = directory.path().join(name);
        let made = make(&folder, more);
        assert!(made["transactions"].as_u64().unwrap() > 160, "{made}");
        let key = std::fs::metadata(folder.join("msp/keystore/one.pem")).unwrap();
        assert_eq!(
            key.permissions().mode() & 0o777,
            0o600,
            "only its owner may read it"
        );
        let output = replay(&folder, &["--json"]);
        assert!(output.status.success(), "{output:?}");
        let replayed = objects(&output);
        let sum = replayed.last().unwrap();
        assert_eq!(
            (&sum["blocks"], &sum["transactions"]),
            (&made["blocks"], &made["transactions"])
        );
        assert_eq!(
            (&sum["compared"], &sum["differences"]),
            (&made["blocks"], &0.into())
        );
        let codes = replayed.iter().filter_map(|block| block["counts"].as_object());
        let kinds: BTreeSet<_> = codes.flat_map(|counts| counts.keys()).collect();
        // Conflicts occur in every generated channel; other faults occur only in the faulty one.
        assert_eq!(kinds.len() > 5, name == "faulty", "{kinds:?}");

        // Generating the channel again produces the same bytes, and an existing directory is not overwritten.
        let again = directory.path().join("again");
        make(&again, more);
        for file in std::fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            let same = again.join(file.file_name().unwrap());
            assert!(file.is_dir() || std::fs::read(&file).unwrap() == std::fs::read(same).unwrap());
        }
        let output = fabric(&["make", again.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        std::fs::remove_dir_all(again).unwrap();
    }

    // A manifest with another value is a difference. If the manifest has no entry for a block, nothing is compared for
    // it.
    let folder = directory.path().join("small");
    let manifest = folder.join("manifest.json");
    let whole: Value = serde_json::from_slice(&std::fs::read(&manifest).unwrap()).unwrap();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut changed = whole.clone();
        change(&mut changed["blocks"]);
        std::fs::write(&manifest, changed.to_string()).unwrap();
        replay(&folder, &["--json"])
    };
    let wrong: [&dyn Fn(&mut Value); 6] = [
        &|blocks| blocks[3]["txs"][0]["code_num"] = 2.into(),
        &|blocks| blocks[3]["txs"][0]["code"] = "NONSENSE".into(),
        &|blocks| blocks[3]["tx_count"] = 9.into(),
        &|blocks| blocks[3]["codes"] = json!({"VALID": 7}),
        &|blocks| blocks[3]["commit_hash"] = "00".into(),
        &|blocks| {
            let again = blocks[3].clone();
            blocks.as_array_mut().unwrap().push(again);
        },
    ];
    for (number, change) in wrong.iter().enumerate() {
        assert_eq!(with(change).status.code(), Some(1), "change {number}");
    }
    let right = with(&|blocks| {
        let count = blocks[3]["txs"].as_array().unwrap().len();
        blocks[3]["tx_count"] = count.into();
        blocks[3]["codes"] = json!({ "VALID": count });
        blocks[3]["txs"][0]["code"] = "VALID".into();
        _ = blocks[4].as_object_mut().unwrap().remove("txs");
    });
    let sum = objects(&right).pop().unwrap();
    let blocks = whole["blocks"].as_array().unwrap().len();
    assert_eq!(
        (&sum["compared"], &sum["differences"]),
        (&(blocks - 1).into(), &0.into())
    );

    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let orderer = Running::start(&[
        "mock-orderer",
        "--listen",
        "127.0.0.1:0",
        folder.to_str().unwrap(),
    ]);
    let (genesis_of_ledger, msp, data) = (path("genesis.block"), path("msp"), path("ledger"));
    let mut words = vec![
        "serve",
        "--data",
        &data,
        "--genesis",
        &genesis_of_ledger,
        "--orderer",
        orderer.listen(),
    ];
    words.extend(["--msp-id", "Org1MSP", "--msp", &msp, "--listen", "127.0.0.1:0"]);
    let replica = Running::start(&words);
    let blocks = std::fs::read_dir(&folder).unwrap();
    let is_block = |name: String| name.ends_with(".orderer.pb.gz");
    let count = blocks
        .filter(|entry| is_block(entry.as_ref().unwrap().file_name().into_string().unwrap()))
        .count();
    let follow = [
        "follow",
        "lab",
        "--json",
        "--peer",
        replica.listen(),
        "--msp-id",
        "Org1MSP",
        "--msp",
        &msp,
    ];
    let output = fabric(&[&follow[..], &["--from", "0", "--count", &count.to_string()]].concat());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(objects(&output).len(), count);
    assert!(replica.end());
    assert_eq!(one(&["verify-ledger", "--json", "--data", &data])["sound"], true);

    // Blocks of another channel, and an empty directory, are refused.
    let other = directory.path().join("drm");
    for (folder, code) in [(&*other, 2), (directory.path(), 1)] {
        let output = fabric(&["import", "--data", &data, folder.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(code), "{output:?}");
    }
    let genesis = other.join("genesis.block");
    words[4] = genesis.to_str().unwrap();
    let output = fabric(&words);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // A key that cannot be used is a wrong argument, and the error names its file.
    let keystore = folder.join("msp/keystore/one.pem");
    std::fs::write(&keystore, "no key").unwrap();
    words[4] = &genesis_of_ledger;
    let output = fabric(&words);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains(&msp),
        "{output:?}"
    );
}

/// Generated channel: a directory of blocks, and an MSP that may read the channel.
struct GeneratedChannel {
    directory: tempfile::TempDir,
    network: Arc<Network>,
    /// Names of the validation codes, for each block.
    codes: Vec<Vec<&'static str>>,
}

impl GeneratedChannel {
    fn new() -> Self {
        let network = Arc::new(Network::new(5, Options::default()));
        let mut workload = Workload {
            keys: 60,
            block: 15,
            transactions: 60,
            faulty: 300,
            config_every: 2,
            ..Workload::default()
        };
        // Filtered blocks leave out transactions whose header cannot be decoded, so these faults are removed.
        workload.faults.retain(|fault| {
            !matches!(
                fault.code(),
                TxCode::BadPayload | TxCode::BadCommonHeader | TxCode::InvalidOtherReason
            )
        });
        let directory = tempfile::tempdir().unwrap();
        let mut codes = Vec::new();
        for block in Blocks::new(Arc::clone(&network), workload, 1) {
            let file = directory
                .path()
                .join(format!("{:05}.orderer.pb.gz", block.number));
            let file = std::fs::File::create(file).unwrap();
            let mut writer = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
            writer.write_all(&block.bytes).unwrap();
            writer.finish().unwrap();
            if block.number == 0 {
                std::fs::write(directory.path().join("genesis"), &block.bytes).unwrap();
            }
            codes.push(block.codes.iter().map(|code| code.name()).collect());
        }
        network.orgs[0].clients[0]
            .write_msp(&directory.path().join("msp"))
            .unwrap();
        Self {
            directory,
            network,
            codes,
        }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    /// Starts an orderer, and a replica that follows it.
    fn serve(&self) -> [Running; 2] {
        let orderer = Running::start(&["mock-orderer", "--listen", "127.0.0.1:0", &self.path("")]);
        let (listen, any) = (orderer.listen().to_owned(), "127.0.0.1:0");
        let (data, genesis, msp) = (self.path("ledger"), self.path("genesis"), self.path("msp"));
        let replica = Running::start(&[
            "serve",
            "--data",
            &data,
            "--genesis",
            &genesis,
            "--orderer",
            &listen,
            "--msp-id",
            "Org1MSP",
            "--msp",
            &msp,
            "--listen",
            any,
            "--console",
            any,
        ]);
        [orderer, replica]
    }

    /// Returns the command `follow` with the identity in the MSP folder `msp`.
    fn follow<'a>(&self, listen: &'a str, msp_id: &'a str, msp: &'a str, more: &[&'a str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
        let words = ["fabric", "follow", "lab", "--json", "--peer", listen];
        command.args(words).args(["--msp-id", msp_id, "--msp", msp]);
        command.args(more);
        command
    }
}

/// Returns status and body of a page of the console.
fn get(console: &str, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(console).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {console}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[test]
fn events_are_followed_from_a_checkpoint_on() {
    let made = GeneratedChannel::new();
    let [orderer, replica] = made.serve();
    let (listen, msp, checkpoint) = (replica.listen(), made.path("msp"), made.path("checkpoint"));
    let total = made.codes.len();
    let names = |block: &Value, field: &str| -> Vec<Value> {
        let transactions = block["transactions"].as_array().unwrap();
        transactions.iter().map(|tx| tx[field].clone()).collect()
    };
    let mut next = 0;
    // The first command prints two full blocks, and the second one the other blocks, filtered.
    for (count, more) in [(2, &[][..]), (total - 2, &["--filtered"][..])] {
        let count = count.to_string();
        let words = [&["--checkpoint", &checkpoint, "--count", &count], more].concat();
        let output = made.follow(listen, "Org1MSP", &msp, &words).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        for block in objects(&output) {
            assert_eq!(
                (&block["block"], &block["channel"]),
                (&next.into(), &"lab".into())
            );
            assert_eq!(names(&block, "code"), made.codes[next], "block {next}");
            next += 1;
        }
        assert_eq!(std::fs::read_to_string(&checkpoint).unwrap(), format!("{next}\n"));
    }
    assert_eq!(next, total);
    assert!(made.codes.iter().flatten().any(|code| *code != "VALID"));

    // Blocks printed to the null device do not advance the checkpoint.
    let words = ["--checkpoint", &checkpoint, "--count", "1"];
    let mut nowhere = made.follow(listen, "Org1MSP", &msp, &words);
    let status = nowhere.stdout(Stdio::null()).status().unwrap();
    assert_eq!(status.code(), Some(2));
    assert_eq!(std::fs::read_to_string(&checkpoint).unwrap(), format!("{next}\n"));

    // Blocks from an orderer have no validation codes.
    let words = ["--orderer", "--from", "1", "--count", "1"];
    let output = made
        .follow(orderer.listen(), "Org1MSP", &msp, &words)
        .output()
        .unwrap();
    let block = objects(&output).remove(0);
    assert_eq!(
        (&block["block"], &names(&block, "code")[0]),
        (&1.into(), &Value::Null)
    );

    // An identity that is not in the channel gets no blocks.
    let stranger = made.path("stranger");
    made.network
        .odd()
        .unknown_msp
        .write_msp(Path::new(&stranger))
        .unwrap();
    // The refusal ends the command, and the error says what it means. An unknown channel ends the command as well.
    let refused = made.follow(listen, "Org99MSP", &stranger, &[]).output().unwrap();
    ended(
        &refused,
        &format!("lineside: {listen}: the endpoint ended the stream with status 403: the channel's policy"),
    );
    let mut elsewhere = Command::new(env!("CARGO_BIN_EXE_lineside"));
    let words = [
        "fabric",
        "follow",
        "elsewhere",
        "--peer",
        listen,
        "--msp-id",
        "Org1MSP",
        "--msp",
        &msp,
    ];
    let absent = elsewhere.args(words).output().unwrap();
    ended(
        &absent,
        &format!(
            "lineside: {listen}: the endpoint ended the stream with status 404: it does not have the channel"
        ),
    );
}

/// Asserts that a command failed. Its error is one line that begins with `said`, or one JSON object with this message.
/// The line has no colours, because the output is not a terminal.
fn ended(output: &Output, said: &str) {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let mut text = String::from_utf8_lossy(&output.stderr).into_owned();
    if let Ok(object) = serde_json::from_str::<serde_json::Value>(&text) {
        text = format!(
            "lineside: {}",
            object["error"]["message"].as_str().expect("a message")
        );
    }
    assert!(
        text.starts_with(said) && !text.contains('\x1b') && text.lines().count() == 1,
        "{text:?}"
    );
}

/// Runs `lineside run --once` with two tables [[fabric]]. Each table has one of these genesis files and its own ledger.
fn run_two(made: &GeneratedChannel, genesis: [&str; 2]) -> Output {
    let mut text = "[console]\nlisten = \"127.0.0.1:0\"\n[datapath]\nkind = \"socket\"\n".to_owned();
    for (place, genesis) in genesis.iter().enumerate() {
        let (data, genesis, msp) = (
            made.path(&format!("{place}")),
            made.path(genesis),
            made.path("msp"),
        );
        text += &format!(
            "[[fabric]]\nenabled = true\nlisten = \"127.0.0.1:0\"\ndata = {data:?}\ngenesis = {genesis:?}\n\
             orderers = [\"127.0.0.1:1\"]\nmsp_id = \"Org1MSP\"\nmsp = {msp:?}\n"
        );
    }
    std::fs::write(made.path("two.toml"), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
    command.args(["run", "--json", "--once", "--config", &made.path("two.toml")]);
    command.output().unwrap()
}

#[test]
fn run_serves_two_channels_and_refuses_one_channel_twice() {
    let made = GeneratedChannel::new();
    let recorded = std::fs::File::open(recorded().join("00000.orderer.pb.gz")).unwrap();
    let mut other = Vec::new();
    flate2::read::GzDecoder::new(recorded)
        .read_to_end(&mut other)
        .unwrap();
    std::fs::write(made.path("other"), other).unwrap();

    let two = run_two(&made, ["genesis", "other"]);
    assert!(two.status.success(), "{two:?}");
    let started: Value = serde_json::from_slice(&two.stdout).unwrap();
    let names = started["services"].as_array().unwrap().iter();
    let names: Vec<_> = names.map(|service| service["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["fabric", "fabric"]);

    for place in ["0", "1"] {
        std::fs::remove_dir_all(made.path(place)).unwrap();
    }
    let same = run_two(&made, ["genesis", "genesis"]);
    let said = String::from_utf8_lossy(&same.stderr).into_owned();
    assert_eq!(same.status.code(), Some(2), "{said}");
    assert!(
        said.contains("two tables [[fabric]] serve the same instance"),
        "{said}"
    );
}

#[test]
fn the_console_of_a_replica_shows_height_and_metrics() {
    let made = GeneratedChannel::new();
    let [orderer, replica] = made.serve();
    let console = replica.said["console"].as_str().unwrap();
    let total = made.codes.len();
    let began = Instant::now();
    let status = loop {
        let status = one(&["status", "--json", "--console", console]);
        if status["services"][0]["host"]["height"] == total {
            break status;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{status}");
    };
    let service = &status["services"][0];
    let of_codes = |wanted: &str| {
        made.codes
            .iter()
            .skip(1)
            .flatten()
            .filter(|code| **code == wanted)
            .count()
    };
    let series = service["labelled"]["transactions"].as_object().unwrap();
    for (code, count) in series {
        // The genesis block counts as a block of the ledger.
        assert_eq!(*count, of_codes(code) + usize::from(code == "VALID"), "{code}");
    }
    assert!(series.len() > 2, "{series:?}");
    let blocks = service["fabric"]["blocks"].as_array().unwrap();
    assert_eq!((blocks.len(), &blocks[0]["number"]), (8, &(total - 1).into()));
    for block in blocks {
        let codes = &made.codes[block["number"].as_u64().unwrap() as usize];
        assert_eq!(block["transactions"], codes.len());
        assert_eq!(block["codes"].as_str().unwrap().len(), 2 * codes.len());
        for code in codes {
            let count = codes.iter().filter(|other| *other == code).count();
            assert_eq!(block["counts"][code], count);
        }
        assert_eq!(block["commit_hash"].as_str().unwrap().len(), 64);
        assert!(block["stages_ns"]["total"].as_u64() >= block["stages_ns"]["parse"].as_u64());
    }
    assert_eq!(service["tip"]["hash"], blocks[0]["header_hash"]);
    assert_eq!(
        (&service["fabric"]["following"], &service["fabric"]["stopped"]),
        (&true.into(), &Value::Null)
    );

    let (code, body) = get(console, "/healthz");
    assert_eq!(code, "HTTP/1.1 200 OK");
    let health: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(health["status"], "ok", "{body}");
    let replica_health = &health["services"][0];
    assert_eq!(
        (
            &replica_health["name"],
            &replica_health["instance"],
            &replica_health["status"]
        ),
        (&"fabric".into(), &service["fabric"]["channel"], &"ok".into())
    );
    let (_, metrics) = get(console, "/metrics");
    let valid = of_codes("VALID") + 1;
    let channel = format!("channel={}", service["fabric"]["channel"]);
    for line in [
        format!("lineside_fabric_transactions_total{{{channel},code=\"VALID\"}} {valid}"),
        format!("lineside_fabric_height{{{channel}}} {total}"),
        format!("lineside_fabric_following{{{channel}}} 1"),
        format!("lineside_fabric_stopped{{{channel}}} 0"),
    ] {
        assert!(
            metrics.lines().any(|other| other == line),
            "{line} is not in:\n{metrics}"
        );
    }
    assert!(metrics.contains(&format!(
        "lineside_fabric_stage_seconds_total{{{channel},stage=\"verify\"}}"
    )));
    // Every block is counted once in the histogram, and one or more calls made it durable.
    let number = |name: &str| -> u64 {
        let line = metrics.lines().find(|line| line.starts_with(name));
        let value = line
            .and_then(|line| line.rsplit_once(' '))
            .unwrap_or_else(|| panic!("{name}: {metrics}"));
        value.1.parse().unwrap()
    };
    let committed = number(&format!("lineside_fabric_blocks_total{{{channel}}}"));
    assert_eq!(
        number(&format!("lineside_fabric_commit_seconds_count{{{channel}}}")),
        committed
    );
    assert!(
        number(&format!(
            "lineside_fdatasync_seconds_count{{service=\"fabric\",{channel}}}"
        )) > 0
    );

    // After the orderer has stopped, the console reports it, and the replica keeps serving.
    assert!(orderer.end());
    let began = Instant::now();
    loop {
        let status = one(&["status", "--json", "--console", console]);
        if status["services"][0]["fabric"]["following"] == false {
            assert!(
                status["warnings"][0]
                    .as_str()
                    .unwrap()
                    .contains("no source of blocks for ")
            );
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "{status}");
    }
    assert_eq!(get(console, "/healthz").0, "HTTP/1.1 200 OK");
    assert!(replica.end());
    assert!(
        !fabric(&["status", "--data", &made.path("nowhere")])
            .status
            .success()
    );
}

#[test]
fn a_replica_follows_an_orderer_and_resumes_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let (data, genesis) = (directory.path().join("ledger"), directory.path().join("genesis"));
    let (data, genesis) = (data.to_str().unwrap(), genesis.to_str().unwrap());
    let msp = msp(directory.path());
    let folder = recorded();
    // The genesis block must come from a trusted source. In this test, it comes from another ledger of the same blocks.
    let other = directory.path().join("other");
    let other = other.to_str().unwrap();
    one(&["import", "--json", "--data", other, folder.to_str().unwrap()]);
    one(&[
        "block",
        "--json",
        "--data",
        other,
        "0",
        "--delivered",
        "--out",
        genesis,
    ]);
    let orderer = Running::start(&[
        "mock-orderer",
        "--listen",
        "127.0.0.1:0",
        folder.to_str().unwrap(),
    ]);
    let listen = orderer.listen().to_owned();
    let serve = [
        "serve",
        "--data",
        data,
        "--orderer",
        &listen,
        "--msp-id",
        "Org1MSP",
        "--msp",
        msp.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
    ];
    let without = fabric(&serve);
    assert!(
        String::from_utf8_lossy(&without.stderr).contains("--genesis"),
        "{without:?}"
    );
    let first = [&serve[..], &["--genesis", genesis]].concat();
    for words in [&first[..], &serve[..]] {
        let replica = Running::start(words);
        assert_eq!(replica.said["channel"], "edge");
        let began = Instant::now();
        loop {
            let status = one(&["status", "--json", "--data", data]);
            if status["blocks"] == 14 {
                assert_eq!(status["commit_hash"], last_commit_hash());
                break;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "{status}");
        }
        assert!(replica.end(), "SIGTERM ends it well");
    }
    let sound = one(&["verify-ledger", "--json", "--data", data]);
    assert_eq!((&sound["sound"], &sound["blocks"]), (&true.into(), &14.into()));
}
