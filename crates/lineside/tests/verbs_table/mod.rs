//! Table of subcommands for `verbs.rs`. Each row has a command line that fails for its own reason, such as a missing
//! directory; or one that succeeds if the command cannot fail in an empty directory.

/// Command line of a verb, and its exit code.
pub struct Row<'a> {
    /// Verb, such as `hybrid key new`.
    pub verb: &'a str,
    /// Options that several verbs share.
    pub options: &'a [&'a str],
    /// Other arguments. Clap accepts all of them. `file` is a file with one word; `missing` and `new` do not exist. No
    /// server listens on port 9.
    pub arguments: &'a [&'a str],
    /// Exit code.
    pub code: i32,
}

/// Transaction id or hash of a block.
const ID: &str = "1111111111111111111111111111111111111111111111111111111111111111";
/// Number and hash of a block.
const BLOCK: &str = "1:1111111111111111111111111111111111111111111111111111111111111111";
/// Public key of the curve secp256k1: its generator.
const PUBLIC: &str = "secp256k1:0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";

const fn row<'a>(verb: &'a str, arguments: &'a [&'a str], code: i32) -> Row<'a> {
    Row {
        verb,
        options: &[],
        arguments,
        code,
    }
}

/// Returns the row of a command that asks a server which does not answer.
const fn asks<'a>(verb: &'a str, arguments: &'a [&'a str]) -> Row<'a> {
    Row {
        options: &["--server", "127.0.0.1:9", "--timeout-ms", "100"],
        ..row(verb, arguments, 1)
    }
}

/// Returns the row of a server whose data directory is a file, so that it cannot start.
const fn serves(verb: &str) -> Row<'_> {
    let options = &[
        "--datapath",
        "socket",
        "--listen",
        "127.0.0.1:0",
        "--console",
        "127.0.0.1:0",
    ];
    Row {
        options,
        ..row(verb, &["--data", "file"], 1)
    }
}

/// One row for each verb.
pub const ROWS: &[Row<'static>] = &[
    row("run", &["--config", "missing.toml"], 2),
    row("check-config", &["missing.toml"], 2),
    row("doctor", &["--config", "missing.toml"], 2),
    row("explain", &["missing.pcap", "--frame", "1"], 1),
    row("status", &["--console", "127.0.0.1:9"], 1),
    row("top", &[], 1),
    row("xdp status", &["--pin-dir", "missing"], 0),
    row("xdp detach", &["lo", "--pin-dir", "missing"], 1),
    row("journal verify", &["missing"], 1),
    row("journal repair", &["missing"], 1),
    row("journal dump", &["missing"], 1),
    row("completions", &["bash"], 0),
    row("man", &["missing"], 1),
    row("spv init", &["--data", "file", "--network", "regtest"], 1),
    row(
        "spv import",
        &["--data", "new", "--network", "regtest", "missing.raw"],
        1,
    ),
    row("spv serve", &["--data", "missing", "--datapath", "socket"], 2),
    asks("spv get", &[ID]),
    row(
        "spv sync",
        &[
            "--headers",
            "new",
            "--network",
            "regtest",
            "--server",
            "127.0.0.1:9",
            "--timeout-ms",
            "100",
        ],
        1,
    ),
    row(
        "spv verify",
        &[
            "--headers",
            "missing",
            "--network",
            "regtest",
            "--server",
            "127.0.0.1:9",
            "--timeout-ms",
            "100",
            ID,
        ],
        1,
    ),
    row("spv locate", &["--data", "missing", ID], 1),
    serves("transfer serve"),
    asks("transfer create", &["1"]),
    asks("transfer issue", &["1", "1"]),
    row("transfer transfer", &["--sign", "missing", "1", "2", "1"], 2),
    asks("transfer freeze", &["1"]),
    asks("transfer unfreeze", &["1"]),
    asks("transfer refer", &["1"]),
    asks("transfer session open", &["new"]),
    row("transfer session show", &["missing"], 1),
    row("transfer session close", &["missing"], 1),
    row("transfer sessions list", &["--data", "missing"], 1),
    row("transfer sessions close", &["--data", "missing", "1"], 1),
    row("transfer key new", &["file"], 1),
    row("transfer key show", &["missing"], 2),
    row("transfer batch", &["missing"], 1),
    row("transfer accounts", &["--data", "missing"], 1),
    row("transfer history", &["--data", "missing", "1"], 1),
    row("transfer prove", &["--data", "missing", "1"], 1),
    row("transfer verify-proof", &["missing"], 1),
    row("transfer audit", &["--data", "missing"], 1),
    row("transfer top", &["--console", "127.0.0.1:9"], 1),
    serves("column serve"),
    asks("column get", &["k"]),
    asks("column put", &["k", "v"]),
    asks("column delete", &["k"]),
    asks("column scan", &[]),
    asks("column increment", &["k"]),
    asks("column append", &["k", "v"]),
    asks("column check-and-put", &["k", "v"]),
    asks("column switch", &["off"]),
    row("column repair", &["missing"], 1),
    row("fabric replay", &["missing"], 1),
    row("fabric import", &["--data", "new", "missing"], 1),
    row("fabric join", &["--data", "new", "missing"], 1),
    row("fabric snapshot", &["--data", "missing", "new"], 1),
    row("fabric status", &["--data", "missing"], 1),
    row("fabric block", &["--data", "missing", "1"], 1),
    row("fabric tx", &["--data", "missing", "a"], 1),
    row("fabric state", &["--data", "missing", "ns"], 1),
    row("fabric history", &["--data", "missing", "ns", "k"], 1),
    row("fabric verify-ledger", &["--data", "missing"], 1),
    row("fabric verify-peer", &["missing"], 1),
    row(
        "fabric serve",
        &[
            "--orderer",
            "127.0.0.1:9",
            "--msp-id",
            "Org1MSP",
            "--msp",
            "missing",
            "--data",
            "new",
        ],
        2,
    ),
    row(
        "fabric send",
        &[
            "--orderer",
            "127.0.0.1:9",
            "--msp-id",
            "Org1MSP",
            "--msp",
            "missing",
            "--channel",
            "lab",
            "--to",
            "127.0.0.1:9",
            "--udp-key",
            "missing",
        ],
        2,
    ),
    row("fabric send-paper", &["--to", "127.0.0.1:9", "missing"], 1),
    row(
        "fabric follow",
        &[
            "lab",
            "--peer",
            "127.0.0.1:9",
            "--msp-id",
            "Org1MSP",
            "--msp",
            "missing",
        ],
        2,
    ),
    row(
        "hybrid init",
        &["--genesis", "file", "--member", "a=file:admin"],
        1,
    ),
    row("hybrid key new", &["file"], 1),
    row("hybrid key show", &["missing"], 2),
    row("hybrid serve", &["--data", "new", "--genesis", "missing"], 2),
    row("hybrid get", &["--key", "missing", "k"], 2),
    row("hybrid set", &["--key", "missing", "k", "v"], 2),
    row("hybrid delete", &["--key", "missing", "k"], 2),
    row("hybrid range", &["--key", "missing"], 2),
    row("hybrid history", &["--key", "missing", "k"], 2),
    row("hybrid watch", &["--key", "missing"], 2),
    row("hybrid head", &["--key", "missing"], 2),
    row("hybrid outcome", &["--key", "missing", ID], 2),
    row("hybrid prove", &["--key", "missing", "k"], 2),
    row("hybrid paper get", &["--key", "missing", "k"], 2),
    row("hybrid paper set", &["--key", "missing", "k", "v"], 2),
    row("hybrid paper verify", &["--key", "missing", "k"], 2),
    row(
        "hybrid verify-proof",
        &["--name", "n", "--head", "missing", "missing"],
        1,
    ),
    row(
        "hybrid change add-member",
        &["--key", "missing", "2", "bob", PUBLIC],
        2,
    ),
    row("hybrid change revoke-member", &["--key", "missing", "2"], 2),
    row(
        "hybrid change add-key",
        &["--key", "missing", "1", "2", PUBLIC],
        2,
    ),
    row("hybrid change revoke-key", &["--key", "missing", "1", "2"], 2),
    row("hybrid change rule", &["--key", "missing", "a", "1", "rw"], 2),
    row("hybrid change add-node", &["--key", "missing", "2", PUBLIC], 2),
    row("hybrid change revoke-node", &["--key", "missing", "2"], 2),
    row("hybrid change quorum", &["--key", "missing", "1"], 2),
    row("hybrid audit", &["--data", "missing"], 1),
    row("hybrid snapshot", &["--data", "missing"], 1),
    row("hybrid vouch", &["--key", "missing", "--block", BLOCK], 2),
    row("hybrid join", &["--data", "new", "--block", BLOCK], 2),
];

/// Names of options without a default. Without them a function is off, a filter admits everything, or the value comes
/// from the configuration file.
pub const OPTIONAL: &[&str] = &[
    "address",
    "before",
    "block",
    "block_hash",
    "channel",
    "checkpoint",
    "collection",
    "commit_hash",
    "config",
    "console",
    "data",
    "electrum_certificate",
    "electrum_key",
    "electrum_upstream_ca",
    "expected",
    "from",
    "genesis",
    "head",
    "idempotency_key",
    "idle_days",
    "if_version",
    "interface",
    "key",
    "member",
    "members",
    "msp",
    "msp_id",
    "namespace",
    "network",
    "node",
    "node_ca",
    "node_cookie",
    "node_password",
    "orderer",
    "out",
    "owner",
    "paths",
    "rules",
    "session",
    "set",
    "settle_to",
    "sign",
    "slots",
    "snapshot",
    "snapshot_hash",
    "tip",
    "tls_certificate",
    "tls_key",
    "tx",
    "txid",
    "udp",
    "udp_key",
    "udp_paper_identities",
    "value",
    "waveform",
    "word",
    "wtxid",
];
