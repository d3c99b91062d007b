//! `lineside fabric` gives the same results with the state on disk as with the state in memory, also after a kill.

mod replica;

use replica::{Running, fabric, msp, objects, one, recorded};
use serde_json::Value;
use std::path::Path;
use std::time::{Duration, Instant};

const BLOCKS: u64 = 14;

fn states(data: &str) -> Vec<Vec<Value>> {
    let all = |namespace| {
        let words = ["state", "--json", "--data", data, namespace, "--limit", "100000"];
        let output = fabric(&words);
        assert!(output.status.success(), "{output:?}");
        objects(&output)
    };
    let private = "_lifecycle$$_implicit_org_Org1MSP";
    ["smallbank", "_lifecycle", private, ""].map(all).into()
}

#[test]
fn hashed_keys_and_the_configuration_are_listed_and_unknown_names_are_errors() {
    let directory = tempfile::tempdir().unwrap();
    let (data, _) = in_memory(directory.path());
    let all = states(&data);
    assert!(all.iter().all(|keys| !keys.is_empty()), "{all:?}");
    let of = |words: &[&str]| fabric(&[&["state", "--json", "--data", &data], words].concat());
    let collection = ["_lifecycle", "--collection", "_implicit_org_Org1MSP"];
    assert_eq!(objects(&of(&collection)), all[2]);
    // A peer's snapshot writes the letter `h` before the name of the collection; the command accepts such names too.
    assert_eq!(objects(&of(&["_lifecycle$$h_implicit_org_Org1MSP"])), all[2]);
    for line in &all[2] {
        let (key, value) = (line["key"].as_str().unwrap(), line["value"].as_str().unwrap());
        assert_eq!(
            (key.len(), value.len(), &line["value_hex"]),
            (64, 64, &line["value"])
        );
        let found = objects(&of(&[&collection[..], &[key]].concat()));
        assert_eq!(found, std::slice::from_ref(line));
    }
    // The command accepts a key itself instead of its hash. This key was approved under sequence 1.
    let clear = "namespaces/fields/smallbank#1/EndorsementInfo";
    assert_eq!(objects(&of(&[&collection[..], &[clear]].concat())).len(), 1);

    // The version of the configuration names the block that contains it.
    let config = &all[3][0];
    assert_eq!(
        (all[3].len(), &config["key"]),
        (1, &"CHANNEL_CONFIG_ENV_BYTES".into())
    );
    let out = directory.path().join("config");
    let number = config["block"].to_string();
    one(&[
        "block",
        "--json",
        "--data",
        &data,
        &number,
        "--out",
        out.to_str().unwrap(),
    ]);
    let hex: String = std::fs::read(&out)
        .unwrap()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let value = config["value_hex"].as_str().unwrap();
    assert!(value.len() > 10_000 && hex.contains(value));

    for (words, said) in [
        (
            &["nosuch"][..],
            "the state has no namespace \"nosuch\"; it has _lifecycle, smallbank",
        ),
        (
            &["smallbank", "--collection", "x"],
            "the namespace smallbank has no collections with keys",
        ),
        (&["_lifecycle$$x"], "it has _implicit_org_Org1MSP"),
        (
            &["_lifecycle$$x", "--collection", "x"],
            "the collection is given twice",
        ),
        (&["smallbank", "nosuch"], "there is no such key"),
        (&["", "nosuch"], "there is no such key"),
    ] {
        let output = of(words);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {output:?}");
        let failure: serde_json::Value = serde_json::from_slice(&output.stderr).expect("an object");
        let text = failure["error"]["message"].as_str().expect("a message");
        assert!(text.contains(said), "{words:?}: {text}");
    }
}

/// Imports the recorded blocks into a ledger with its state in memory, and writes the genesis block to a file.
fn in_memory(directory: &Path) -> (String, String) {
    let [data, genesis] = ["memory", "genesis"].map(|name| directory.join(name).to_str().unwrap().to_owned());
    one(&["import", "--json", "--data", &data, recorded().to_str().unwrap()]);
    let words = [
        "block",
        "--json",
        "--data",
        &data,
        "0",
        "--delivered",
        "--out",
        &genesis,
    ];
    one(&words);
    (data, genesis)
}

#[test]
fn a_replica_killed_repeatedly_has_the_state_of_one_in_memory() {
    let directory = tempfile::tempdir().unwrap();
    let (memory, genesis) = in_memory(directory.path());
    let data = directory.path().join("ledger");
    let data = data.to_str().unwrap();
    let msp = msp(directory.path());
    let orderer = Running::start(&[
        "mock-orderer",
        "--listen",
        "127.0.0.1:0",
        recorded().to_str().unwrap(),
    ]);
    let serve = [
        "serve",
        "--data",
        data,
        "--orderer",
        orderer.listen(),
        "--msp-id",
        "Org1MSP",
        "--msp",
        msp.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
        "--genesis",
        &genesis,
    ];
    let status = || one(&["status", "--json", "--data", data]);
    let began = Instant::now();
    let mut restarts = 0;
    loop {
        // Only the first start needs the option `--state`; later starts find the state in the directory.
        let first: &[&str] = if restarts == 0 { &["--state", "fjall"] } else { &[] };
        let running = Running::start(&[&serve[..], first].concat());
        assert_eq!(running.said["channel"], "edge", "start {restarts}");
        restarts += 1;
        let seen = status();
        assert_eq!(seen["keys"], Value::Null, "its state is open elsewhere: {seen}");
        if seen["blocks"] == BLOCKS && restarts > 3 {
            // While the server has the state open, another process can read blocks and rebuild the state from them.
            assert_eq!(one(&["block", "--json", "--data", data, "13"])["block"], 13);
            assert_eq!(states(data), states(&memory));
            drop(running);
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(120), "{seen}");
        drop(running);
    }
    let expected = one(&["status", "--json", "--data", &memory]);
    let found = status();
    for what in ["blocks", "transactions", "keys", "last_hash", "commit_hash"] {
        assert_eq!(found[what], expected[what], "{what}");
    }
    assert_eq!(states(data), states(&memory));
    let sound = one(&["verify-ledger", "--json", "--data", data]);
    assert_eq!(
        (&sound["sound"], &sound["blocks"]),
        (&true.into(), &BLOCKS.into())
    );
    assert_eq!(
        (&sound["state_keys"], &sound["state_in_use"]),
        (&found["keys"], &false.into())
    );
}

#[test]
fn the_state_moves_to_the_disk_and_back() {
    let directory = tempfile::tempdir().unwrap();
    let (data, _) = in_memory(directory.path());
    let folder = directory.path().join("memory/state");
    let before = (
        states(&data),
        one(&["status", "--json", "--data", &data])["keys"].clone(),
    );
    let import = |state: &[&str]| {
        let recorded = recorded();
        let words = ["import", "--data", &data, recorded.to_str().unwrap()];
        let output = fabric(&[&words[..], state].concat());
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    for (state, on_disk, says) in [
        (&["--state", "fjall"][..], true, "older than the checkpoint"),
        (&[], true, ""),
        (&["--state", "memory"], false, "cannot be read into memory"),
        (&[], false, ""),
    ] {
        let said = import(state);
        assert!(
            said.contains(says) && said.is_empty() == says.is_empty(),
            "{said}"
        );
        assert_eq!(folder.is_dir(), on_disk, "{state:?}");
        let after = (
            states(&data),
            one(&["status", "--json", "--data", &data])["keys"].clone(),
        );
        assert_eq!(after, before, "{state:?}");
    }
}

#[test]
fn a_damaged_state_is_rebuilt_and_a_directory_of_other_files_is_not_touched() {
    let directory = tempfile::tempdir().unwrap();
    let (memory, _) = in_memory(directory.path());
    let import = |data: &Path, state: &[&str]| {
        let recorded = recorded();
        let words = [
            "import",
            "--data",
            data.to_str().unwrap(),
            recorded.to_str().unwrap(),
        ];
        let output = fabric(&[&words[..], state].concat());
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let data = directory.path().join("ours");
    assert!(import(&data, &["--state", "fjall"]).0);
    std::fs::write(data.join("state/keys/version"), "no database").unwrap();
    let (done, said) = import(&data, &[]);
    assert!(done && said.contains("rebuilt from the blocks"), "{said}");
    assert_eq!(states(data.to_str().unwrap()), states(&memory));

    let data = directory.path().join("others");
    assert!(import(&data, &[]).0);
    // The directory is a Fabric ledger, but its folder `state` holds files of another kind.
    let file = data.join("state/version");
    std::fs::create_dir(data.join("state")).unwrap();
    std::fs::write(&file, "somebody's").unwrap();
    let (done, said) = import(&data, &["--state", "fjall"]);
    assert!(
        !done && said.contains("not empty and not a state directory"),
        "{said}"
    );
    for state in [&[][..], &["--state", "memory"]] {
        let (done, said) = import(&data, state);
        assert!(done && said.is_empty(), "{said}");
        assert_eq!(std::fs::read(&file).unwrap(), b"somebody's");
    }
    assert_eq!(states(data.to_str().unwrap()), states(&memory));
}
