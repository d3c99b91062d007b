//! Runs the binary: import, lookup, a refused block, and a server over UDP.

use lineside_testkit::DemoChain;
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
fn imported_transactions_are_located_and_unknown_ones_are_not() {
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
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("3 blocks with 90 transactions imported"));

    let locate = ["--json", "spv", "locate", "--network", "regtest", "--data", data];
    let txid = display(&blocks[1].txids[8]);
    let output = lineside(&[&locate[..], &[&txid]].concat());
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["root"], display(&blocks[1].root));
    assert_eq!(answer["position"], 8);

    for (wrong, said) in [
        ("00".repeat(32), "no block in the chain"),
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

#[test]
fn serve_answers_over_udp() {
    use std::io::{BufRead, BufReader};
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let data = data.to_str().unwrap();
    let block = DemoChain::new(5, 30).next().unwrap();
    let file = folder.path().join("0.raw");
    std::fs::write(&file, &block.raw).unwrap();
    let imported = lineside(&[
        "spv",
        "import",
        "--network",
        "regtest",
        "--data",
        data,
        file.to_str().unwrap(),
    ]);
    assert!(imported.status.success());
    let mut server = Command::new(env!("CARGO_BIN_EXE_lineside"))
        .args([
            "spv",
            "serve",
            "--network",
            "regtest",
            "--data",
            data,
            "--listen",
            "127.0.0.1:0",
        ])
        .args([
            "--prefill",
            "tip:1",
            "--datapath",
            "socket",
            "--console",
            "127.0.0.1:0",
        ])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let address = line.split(' ').nth(2).expect("spv on ADDRESS").to_owned();
    let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    client
        .set_read_timeout(Some(std::time::Duration::from_secs(10)))
        .unwrap();
    client.send_to(&block.txids[3], address).unwrap();
    let mut reply = [0; 64];
    let answered = client.recv(&mut reply);
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(answered.unwrap(), 32);
    assert_eq!(&reply[..32], &block.root);
}
