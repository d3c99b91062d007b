//! The command, run as a user runs it.

use lineside_spv::chain::DemoChain;
use std::process::{Command, Output};

fn lineside(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args(arguments)
        .output()
        .expect("run")
}

fn display(hash: &[u8; 32]) -> String {
    hash.iter().rev().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn import_then_locate() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let blocks: Vec<_> = DemoChain::new(5, 30).take(3).collect();
    let mut import = vec!["spv", "import", "--network", "regtest", "--data", data];
    let files: Vec<_> = (0..3)
        .map(|number| folder.path().join(format!("{number}.raw")))
        .collect();
    for (file, block) in files.iter().zip(&blocks) {
        std::fs::write(file, &block.raw).unwrap();
        import.push(file.to_str().unwrap());
    }
    let output = lineside(&import);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("3 blocks with 90 transactions taken"));

    let locate = ["--json", "spv", "locate", "--network", "regtest", "--data", data];
    let txid = display(&blocks[1].txids[8]);
    let output = lineside(&[&locate[..], &[&txid]].concat());
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["root"], display(&blocks[1].root));
    assert_eq!(answer["position"], 8);

    for (wrong, said) in [
        ("00".repeat(32), "no connected block"),
        ("xyz".into(), "64 hex digits"),
    ] {
        let output = lineside(&[&locate[..], &[&wrong]].concat());
        assert!(!output.status.success());
        assert!(
            String::from_utf8_lossy(&output.stderr).contains(said),
            "{output:?}"
        );
    }
}

#[test]
fn a_refused_block_is_named_and_fails_the_import() {
    let folder = tempfile::tempdir().unwrap();
    let mut block = DemoChain::new(5, 30).next().unwrap();
    let last = block.raw.len() - 5;
    block.raw[last] ^= 1;
    let file = folder.path().join("bad.raw");
    std::fs::write(&file, &block.raw).unwrap();
    let data = folder.path().join("data");
    let arguments = [
        "spv",
        "import",
        "--network",
        "regtest",
        "--data",
        data.to_str().unwrap(),
    ];
    let output = lineside(&[&arguments[..], &[file.to_str().unwrap()]].concat());
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains(&display(&block.hash)) && said.contains("bad.raw"),
        "{said}"
    );
}
