//! Tests with the official client, fabric-gateway for Go, over mutual TLS. The test builds the client if Go and the
//! client's modules are available, and is skipped otherwise.

mod common;

use common::{CHANNEL, CertAndKey, MSP, Network, blocks};
use lineside_fabric::block::Block;
use lineside_fabric::proto::Arena;
use lineside_fabric_grpc::CommittedSource;
use lineside_fabric_grpc::serve::{Limits, Role, start};
use lineside_fabric_grpc::source::{MemorySource, ReadAccess};
use lineside_grpc::Running;
use lineside_verify::Verifier;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::process::Command;

/// Time limit for building the client. It is longer than a download and a build on a busy machine take.
const BUILD_WAIT: Duration = Duration::from_secs(300);

/// Builds the client and returns its path. If that is not possible, prints the reason and returns `None`.
async fn build(into: &Path) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gateway");
    let mut found = None;
    for go in ["go", "/usr/local/go/bin/go"] {
        let version = Command::new(go).arg("version").output().await;
        if version.is_ok_and(|output| output.status.success()) {
            found = Some(go);
            break;
        }
    }
    let Some(go) = found else {
        eprintln!("skipped: there is no Go to build the fabric-gateway client with");
        return None;
    };
    let client = into.join("gateway");
    let mut build = Command::new(go);
    build.args(["build", "-mod=readonly", "-o"]).arg(&client).arg(".");
    let output = build.current_dir(folder).kill_on_drop(true).output();
    let Ok(output) = tokio::time::timeout(BUILD_WAIT, output).await else {
        eprintln!("skipped: the fabric-gateway client takes too long to build");
        return None;
    };
    let output = output.unwrap();
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        assert!(!why.contains("./main.go:"), "{why}");
        let why = why.lines().last().unwrap_or_default();
        eprintln!("skipped: the fabric-gateway client cannot be built: {why}");
        return None;
    }
    Some(client)
}

struct Application {
    client: PathBuf,
    folder: tempfile::TempDir,
    address: String,
}

impl Application {
    fn new(client: &Path, network: &Network, user: &CertAndKey, address: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let tls = network.tls_ca.pair("application", "client");
        for (name, content) in [
            ("tls-ca.pem", &network.tls_ca.certificate),
            ("tls.pem", &tls.certificate),
            ("tls.key", &tls.key),
            ("user.pem", &user.certificate),
            ("user.key", &user.key),
        ] {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        Self {
            client: client.to_owned(),
            folder,
            address: address.to_owned(),
        }
    }

    async fn listen(&self, what: &str, count: usize) -> Vec<String> {
        self.ask(&[what, &count.to_string()]).await
    }

    async fn ask(&self, arguments: &[&str]) -> Vec<String> {
        let mut command = Command::new(&self.client);
        command.arg(self.folder.path()).arg(&self.address);
        command.args([CHANNEL, MSP]).args(arguments).kill_on_drop(true);
        let output = command.output().await.unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(str::to_owned).collect()
    }
}

/// Starts a peer with six blocks, which asks its clients for certificates. Returns its blocks and the server.
async fn peer(network: &Network) -> (Arc<MemorySource>, Running) {
    let access = ReadAccess::Config(network.config(0, 0, &[]), Verifier::default());
    let memory = Arc::new(MemorySource::new(CHANNEL, blocks(6), access));
    let sources: Vec<Arc<dyn CommittedSource>> = vec![memory.clone()];
    let tls = Some(network.server_tls(true));
    let running = start("127.0.0.1:0", tls, Role::Peer, sources, Limits::default());
    (memory, running.await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_client_listens_resumes_and_is_refused() {
    let built = tempfile::tempdir().unwrap();
    let Some(client) = build(built.path()).await else {
        return;
    };
    let network = Network::new();
    let (memory, running) = peer(&network).await;
    let address = running.address.to_string();

    let application = Application::new(&client, &network, &network.ca.pair("user", "client"), &address);
    let told = |number: u64| {
        let (blocks, arena) = (blocks(number + 1), Arena::new());
        let block = Block::read(&blocks[number as usize], &arena).unwrap();
        let hash: String = block.data_hash.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{number} {hash} {}", block.transactions.len())
    };
    let filtered = |number: u64| {
        format!("{number} tx{number}a:VALID:cc:made:0 tx{number}b:ENDORSEMENT_POLICY_FAILURE:cc:made:0")
    };
    assert_eq!(
        application.listen("blocks", 4).await,
        (0..4).map(told).collect::<Vec<_>>()
    );
    assert_eq!(
        application.listen("filtered", 3).await,
        (0..3).map(filtered).collect::<Vec<_>>()
    );
    // The client resumes from its checkpoint, and gets the block that is committed while it listens.
    let resumed = application.listen("blocks", 3);
    let later = memory.clone();
    let commit = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        later.push(blocks(7)[6].clone());
    };
    let (resumed, ()) = tokio::join!(resumed, commit);
    assert_eq!(resumed, (4..7).map(told).collect::<Vec<_>>());
    assert_eq!(
        application.listen("filtered", 4).await,
        (3..7).map(filtered).collect::<Vec<_>>()
    );

    for user in [
        network.other_ca.pair("stranger", "client"),
        network.ca.pair("user", "no-role"),
    ] {
        let stranger = Application::new(&client, &network, &user, &address);
        assert_eq!(stranger.listen("blocks", 1).await, ["closed"]);
        assert_eq!(stranger.listen("filtered", 1).await, ["closed"]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_official_client_gets_commit_status_chaincode_events_and_queries() {
    let built = tempfile::tempdir().unwrap();
    let Some(client) = build(built.path()).await else {
        return;
    };
    let network = Network::new();
    let (memory, running) = peer(&network).await;
    let address = running.address.to_string();
    let application = Application::new(&client, &network, &network.ca.pair("user", "client"), &address);

    // Only the first transaction of each block is valid.
    let event = |number: u64| format!("{number} tx{number}a cc made secret");
    assert_eq!(
        application.listen("events", 4).await,
        (0..4).map(event).collect::<Vec<_>>()
    );
    // The client resumes from its checkpoint and gets the block that is committed while it listens. Another call waits
    // for the status of that block's transaction.
    let later = memory.clone();
    let commit = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        later.push(blocks(7)[6].clone());
    };
    let (events, status, ()) = tokio::join!(
        application.listen("events", 3),
        application.ask(&["commit", "tx6a"]),
        commit
    );
    assert_eq!(events, (4..7).map(event).collect::<Vec<_>>());
    assert_eq!(status, ["tx6a VALID 6 true"]);
    let failed = application.ask(&["commit", "tx2b"]).await;
    assert_eq!(failed, ["tx2b ENDORSEMENT_POLICY_FAILURE 2 false"]);

    let block = &blocks(6)[5];
    let digest = |bytes: &[u8]| {
        let digest = Sha256::digest(bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>();
        format!("{} {digest}", bytes.len())
    };
    for way in ["evaluate", "propose"] {
        let info = application.ask(&[way, "qscc", "GetChainInfo", CHANNEL]).await;
        assert!(
            info[0].starts_with("7 ") && info[0].ends_with(&format!(" {}", "06".repeat(32))),
            "{info:?}"
        );
        let got = application
            .ask(&[way, "qscc", "GetBlockByNumber", CHANNEL, "5"])
            .await;
        assert_eq!(got, [digest(block)]);
        let got = application
            .ask(&[way, "qscc", "GetBlockByTxID", CHANNEL, "tx5b"])
            .await;
        assert_eq!(got, [digest(block)]);
        let got = application
            .ask(&[way, "qscc", "GetTransactionByID", CHANNEL, "tx5b"])
            .await;
        assert!(got[0].starts_with("ENDORSEMENT_POLICY_FAILURE "), "{got:?}");
        assert_eq!(application.ask(&[way, "cscc", "GetChannels"]).await, [CHANNEL]);
        let refused = application.ask(&[way, "basic", "GetAllAssets"]).await;
        assert!(
            refused[0].contains("a replica executes no chaincode: send the proposal to a peer"),
            "{refused:?}"
        );
        let unknown = application
            .ask(&[way, "qscc", "GetBlockByNumber", CHANNEL, "7"])
            .await;
        assert!(unknown[0].contains("no such block number [7]"), "{unknown:?}");
    }
    let stranger = network.other_ca.pair("stranger", "client");
    let stranger = Application::new(&client, &network, &stranger, &address);
    for arguments in [
        &["commit", "tx2a"][..],
        &["evaluate", "qscc", "GetChainInfo", CHANNEL],
        &["propose", "qscc", "GetChainInfo", CHANNEL],
        &["propose", "cscc", "GetChannels"],
    ] {
        let refused = stranger.ask(arguments).await;
        assert!(refused[0].contains("access denied"), "{arguments:?}: {refused:?}");
    }
    assert_eq!(stranger.listen("events", 1).await, ["closed"]);
}
