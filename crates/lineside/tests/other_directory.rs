//! Exit codes for a data directory that belongs to another service, network or database: the arguments or the
//! configuration are wrong, so the code is 2, and the unit of systemd does not restart the server.

mod house;
mod replica;

use house::{HybridDatabase, TWO_MEMBERS};
use replica::{msp, recorded};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Transaction id or hash of a block.
const ID: &str = "1111111111111111111111111111111111111111111111111111111111111111";
const BLOCK: &str = "1:1111111111111111111111111111111111111111111111111111111111111111";

fn lineside(folder: &Path, line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args(line.split(' '))
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("the program runs")
}

/// Returns the contents of the files in a directory.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let content = |entry: std::fs::DirEntry| {
        let bytes = std::fs::read(entry.path()).expect("a file");
        (entry.file_name().to_string_lossy().into_owned(), bytes)
    };
    entries.map(content).collect()
}

#[test]
fn a_directory_of_another_service_is_refused_with_code_2_by_every_verb() {
    let house = HybridDatabase::new(&TWO_MEMBERS);
    let folder = house.0.path();
    msp(folder);
    let data = folder.join("other");
    std::fs::create_dir(&data).expect("a folder");
    std::fs::write(data.join("lineside.dir"), "service other\nformat 1\n").expect("a marker");
    let before = contents(&data);
    let server = "--datapath socket --listen 127.0.0.1:0 --console 127.0.0.1:0 --data other";
    let fabric = "--orderer 127.0.0.1:9 --msp-id Org1MSP --msp msp --listen 127.0.0.1:0 --data other";
    for line in [
        "spv init --data other --network regtest",
        "spv import --data other --network regtest genesis.bin",
        "spv serve --data other --datapath socket",
        &format!("spv locate --data other {ID}"),
        &format!("transfer serve {server}"),
        "transfer sessions list --data other",
        "transfer sessions close --data other 1",
        "transfer accounts --data other",
        "transfer history --data other 1",
        "transfer prove --data other 1",
        "transfer audit --data other",
        &format!("column serve {server}"),
        "column repair other",
        &format!("fabric serve {fabric}"),
        &format!("fabric import --data other {}", recorded().display()),
        "fabric join --data other msp",
        "fabric snapshot --data other new",
        "fabric status --data other",
        "fabric block --data other 1",
        "fabric tx --data other a",
        "fabric state --data other ns",
        "fabric history --data other ns k",
        "fabric verify-ledger --data other",
        "hybrid serve --data other --listen 127.0.0.1:0",
        "hybrid audit --data other",
        "hybrid snapshot --data other",
        &format!("hybrid join --data other --block {BLOCK} --snapshot genesis.bin"),
    ] {
        let output = lineside(folder, line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(
            stderr.contains("other holds data of the service `other` in format 1, not data of the service `"),
            "{line}: {stderr}"
        );
        assert_eq!(stderr.matches("other holds").count(), 1, "{line}: {stderr}");
        assert_eq!(contents(&data), before, "{line}");
    }
    assert!(!folder.join("new").exists());
}

#[test]
fn a_directory_of_another_network_or_database_is_refused_with_code_2() {
    let house = HybridDatabase::new(&TWO_MEMBERS);
    let folder = house.0.path();
    house.serve(&[]).terminate();
    let made = lineside(
        folder,
        "hybrid init --genesis second.bin --name second --member alice=alice.key:admin",
    );
    assert!(made.status.success(), "{made:?}");
    assert!(
        lineside(folder, "spv init --data chain --network regtest")
            .status
            .success()
    );
    for (line, said) in [
        (
            "hybrid serve --data ledger --genesis second.bin --listen 127.0.0.1:0",
            "another genesis",
        ),
        (
            "hybrid snapshot --data ledger --genesis second.bin",
            "another genesis",
        ),
        (
            "spv serve --data chain --network testnet3 --datapath socket",
            "holds regtest",
        ),
        (
            "spv import --data chain --network testnet3 genesis.bin",
            "holds regtest",
        ),
    ] {
        let output = lineside(folder, line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains(said), "{line}: {stderr}");
    }
}
