//! `lineside hybrid` end to end: a database is created, served, written, killed, proved and audited.

mod house;

use house::{HybridDatabase, Server, TWO_MEMBERS, page};
use serde_json::{Value, json};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

#[test]
fn a_database_is_created_written_read_and_audited() {
    let house = HybridDatabase::new(&[&TWO_MEMBERS[..], &["--rule", "bob/=bob:rw"]].concat());
    assert_eq!(
        fs::metadata(house.path("alice.key"))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    let server = house.serve(&[]);
    let set = |rest: &[&str]| server.done(&house, "set", "alice.key", rest).remove(0);
    let first = set(&["greeting", "hello"]);
    assert_eq!(
        (&first["code"], &first["version"]["block"]),
        (&"done".into(), &1.into())
    );
    // The output names a key that does not exist, and the exit code says that it was not found.
    let got = server.ask(&house, "get", "bob.key", &["greeting", "absent", "--json"]);
    assert_eq!(got.code, 1, "{}", got.error);
    assert!(got.error.contains("1 of 2 keys not found"), "{}", got.error);
    let never = server.ask(&house, "history", "bob.key", &["absent"]);
    assert_eq!(never.code, 1, "{}", never.error);
    assert!(
        never.error.contains("no transaction has written"),
        "{}",
        never.error
    );
    let got: Vec<Value> = got
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (&got[0]["key"], &got[0]["value"]),
        (&"absent".into(), &Value::Null)
    );
    assert_eq!(
        (&got[1]["key"], &got[1]["value"]),
        (&"greeting".into(), &"hello".into())
    );

    // The node refuses a write with an old version, a write without the right to write, and a key that belongs to no
    // member.
    let conflict = server.ask(
        &house,
        "set",
        "bob.key",
        &["greeting", "mine", "--if-version", "absent"],
    );
    assert_eq!(conflict.code, 1);
    assert!(conflict.error.contains("conflict"), "{}", conflict.error);
    let denied = server.ask(&house, "set", "alice.key", &["bob/x", "y"]);
    assert!(denied.error.contains("not_allowed"), "{}", denied.error);
    assert_eq!(house.hybrid(&["key", "new", "other.key"]).code, 0);
    let nobody = server.ask(&house, "get", "other.key", &["greeting"]);
    assert_eq!(nobody.code, 2, "{}", nobody.error);
    let forged = server.ask(&house, "get", "other.key", &["greeting", "--member", "1"]);
    assert!(forged.error.contains("bad_signature"), "{}", forged.error);

    let again = ["greeting", "hello again", "--if-version", "1.0"];
    let second = server.done(&house, "set", "bob.key", &again).remove(0);
    let id = second["id"].as_str().unwrap();
    let outcome = server.done(&house, "outcome", "alice.key", &[id]).remove(0);
    assert_eq!(outcome["version"], second["version"]);
    let unknown = server.ask(&house, "outcome", "alice.key", &[&"0".repeat(64)]);
    assert_eq!(unknown.code, 1);

    // After a kill, all acknowledged writes are present, and new blocks follow the last one.
    drop(server);
    let server = house.serve(&[]);
    let got = server.done(&house, "get", "alice.key", &["greeting", "--linearizable"]);
    assert_eq!(
        (&got[0]["value"], &got[0]["version"]),
        (&"hello again".into(), &second["version"])
    );
    server.done(&house, "set", "alice.key", &["other", "\\x00\\xff"]);
    server.done(&house, "delete", "alice.key", &["other"]);
    let history = server.done(&house, "history", "alice.key", &["other"]);
    let values: Vec<_> = history[..2].iter().map(|write| &write["value"]).collect();
    assert_eq!(values, [&Value::Null, &"\\x00\\xff".into()]);
    pages(&house, &server);
    proofs(&house, &server);
    let head = server.done(&house, "head", "alice.key", &[]).remove(0);
    let tip = format!("{}:{}", head["block"], head["hash"].as_str().unwrap());

    let locked = house.hybrid(&["audit", "--data", "ledger"]);
    assert_eq!(locked.code, 1, "a running node has the ledger open");
    server.terminate();
    let audit = [
        "audit",
        "--data",
        "ledger",
        "--genesis",
        "genesis.bin",
        "--json",
        "--tip",
        &tip,
    ];
    let clean = house.hybrid(&audit);
    assert_eq!(clean.code, 0, "{}", clean.error);
    let clean: Value = serde_json::from_str(&clean.out).unwrap();
    assert_eq!((&clean["clean"], &clean["hash"]), (&true.into(), &head["hash"]));
    tamper(&house.path("ledger"));
    let found = house.hybrid(&audit);
    assert_eq!(found.code, 1, "{}", found.out);
    assert!(found.error.contains(": byte "), "{}", found.error);
}

/// Reads page after page; the last line of each page says where to continue.
fn pages(house: &HybridDatabase, server: &Server) {
    let page = |rest: &[&str]| {
        server.done(
            house,
            "history",
            "alice.key",
            &[&["other", "--limit", "1"], rest].concat(),
        )
    };
    let newest = page(&[]);
    assert_eq!((newest.len(), &newest[0]["value"]), (2, &Value::Null));
    let (end, version) = (&newest[1], &newest[0]["version"]);
    let before = format!("{}.{}", version["block"], version["index"]);
    assert_eq!(end, &json!({"more": true, "before": before}));
    let oldest = page(&["--before", &before]);
    assert_eq!((oldest.len(), &oldest[0]["value"]), (2, &"\\x00\\xff".into()));
    assert_eq!(oldest[1], json!({"more": false, "before": null}));
    let text = server.ask(house, "history", "alice.key", &["other", "--limit", "1"]);
    assert_eq!((text.code, text.out.lines().count()), (0, 1));
    let hint = format!("--before {before} ");
    assert!(text.error.contains(&hint), "{}", text.error);

    let range = |rest: &[&str]| server.done(house, "range", "alice.key", rest);
    assert_eq!(
        range(&["a", "z"]).pop().unwrap(),
        json!({"more": false, "start": null})
    );
    server.done(house, "set", "alice.key", &["more", "x"]);
    let first = range(&["--limit", "1", "a", "z"]);
    assert_eq!((first.len(), &first[0]["key"]), (2, &"greeting".into()));
    assert_eq!(first[1], json!({"more": true, "start": "greeting\\x00"}));
    let rest = range(&[first[1]["start"].as_str().unwrap(), "z"]);
    assert_eq!((rest.len(), &rest[0]["key"]), (2, &"more".into()));
    server.done(house, "delete", "alice.key", &["more"]);
}

/// Checks proofs that a key is present or absent, without a node. The proofs must not be accepted for other values.
fn proofs(house: &HybridDatabase, server: &Server) {
    let proof = server.done(house, "prove", "bob.key", &["greeting"]).remove(0);
    let hash = proof["hash"].as_str().unwrap();
    let name = ["verify-proof", "--name", "greeting"];
    let verify = |rest: &[&str]| house.hybrid(&[&name, rest].concat());
    let value = ["--value", "hello again"];
    let by_hash = verify(&[&value[..], &["--block-hash", hash]].concat());
    assert_eq!(by_hash.code, 0, "{}", by_hash.error);
    let by_head = verify(&[&value[..], &["--head", "proof.bin.head"]].concat());
    assert_eq!(by_head.code, 0, "{}", by_head.error);
    for wrong in [&["--value", "hello"][..], &[]] {
        assert_eq!(verify(&[wrong, &["--block-hash", hash]].concat()).code, 1);
    }
    assert_eq!(
        verify(&[&value[..], &["--block-hash", &"0".repeat(64)]].concat()).code,
        1
    );
    let key = house.hybrid(&["key", "show", "alice.key"]).out;
    let other = [
        &value[..],
        &["--head", "proof.bin.head", "--node-key", key.trim()],
    ]
    .concat();
    assert_eq!(verify(&other).code, 1, "a statement signed with another key");

    let proof = server
        .done(house, "prove", "bob.key", &["nothing", "--out", "none.bin"])
        .remove(0);
    let hash = proof["hash"].as_str().unwrap();
    let absent = [
        "verify-proof",
        "none.bin",
        "--name",
        "nothing",
        "--block-hash",
        hash,
    ];
    assert_eq!(house.hybrid(&absent).code, 0);
}

/// Changes one byte of a request in the middle of the ledger.
fn tamper(ledger: &Path) {
    let files = fs::read_dir(ledger).unwrap().map(|entry| entry.unwrap().path());
    let file = files
        .filter(|path| path.extension().is_some_and(|end| end == "log"))
        .min()
        .unwrap();
    let mut bytes = fs::read(&file).unwrap();
    let place = bytes.windows(5).position(|bytes| bytes == b"hello").unwrap();
    bytes[place] ^= 1;
    fs::write(file, bytes).unwrap();
}

#[test]
fn members_change_by_votes_and_a_watcher_receives_writes() {
    let admins = [
        "--member",
        "ann=ann.key:admin",
        "--member",
        "ben=ben.key:admin",
        "--quorum",
        "2",
    ];
    let house = HybridDatabase::new(&admins);
    let server = house.serve(&[]);
    let key = house.hybrid(&["key", "new", "--curve", "p256", "cleo.key"]).out;
    let add = [
        "--until-ms",
        "4000000000000",
        "add-member",
        "3",
        "cleo",
        key.trim(),
    ];
    assert_eq!(
        server.done(&house, "change", "ann.key", &add)[0]["code"],
        "recorded"
    );
    let early = server.ask(&house, "get", "cleo.key", &["a", "--member", "3"]);
    assert!(early.error.contains("unknown_member"), "{}", early.error);
    assert_eq!(server.done(&house, "change", "ben.key", &add)[0]["code"], "done");

    let mut watch = house.command(&[
        "watch",
        "--json",
        "--server",
        server.address(),
        "--key",
        "ann.key",
        "a/",
    ]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut line = || serde_json::from_str::<Value>(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(line()["watching_from_block"], 3);
    server.done(&house, "set", "cleo.key", &["--member", "3", "a/1", "one"]);
    let event = line();
    assert_eq!((&event["key"], &event["value"]), (&"a/1".into(), &"one".into()));
    server.done(&house, "delete", "cleo.key", &["--member", "3", "a/1"]);
    assert_eq!(line()["value"], Value::Null);
    // When the node ends, the watcher ends with an error.
    server.terminate();
    assert_eq!(watch.wait().unwrap().code(), Some(1));
}

#[test]
fn a_genesis_is_read_from_a_file_and_wrong_ones_are_refused() {
    let house = HybridDatabase(tempfile::tempdir().unwrap());
    let text = "name = \"shop\"\nquorum = 1\n[[member]]\nname = \"ann\"\nkey = \"ann.key\"\nadmin = true\n\
                [[node]]\nkey = \"node.key\"\n[[rule]]\nprefix = \"\"\nmember = \"ann\"\nrights = \"rw\"\n";
    fs::write(house.path("shop.toml"), text).unwrap();
    let made = house.hybrid(&["init", "--from", "shop.toml", "--json"]);
    assert_eq!(made.code, 0, "{}", made.error);
    let made: Value = serde_json::from_str(&made.out).unwrap();
    assert_eq!(made["members"][0]["role"], "admin");
    assert_eq!(
        house.hybrid(&["init", "--from", "shop.toml"]).code,
        1,
        "there is one already"
    );
    fs::write(house.path("bad.toml"), text.replace("quorum", "quorom")).unwrap();
    for wrong in [
        &["init", "--genesis", "g", "--from", "bad.toml"][..],
        &["init", "--genesis", "g", "--member", "ann"],
        &["init", "--genesis", "g", "--member", "ann=ann.key"],
        &[
            "init",
            "--genesis",
            "g",
            "--member",
            "ann=ann.key:admin",
            "--quorum",
            "2",
        ],
        &[
            "init",
            "--genesis",
            "g",
            "--member",
            "ann=ann.key:admin",
            "--rule",
            "=bob:rw",
        ],
        &[
            "init",
            "--genesis",
            "g",
            "--member",
            "ann=ann.key:admin",
            "--rule",
            "=*:x",
        ],
        &["init", "--genesis", "g", "--member", "*=ann.key:admin"],
        &[
            "init",
            "--genesis",
            "g",
            "--member",
            "a=ann.key:admin",
            "--member",
            "b=ann.key",
        ],
        &[
            "init",
            "--genesis",
            "g",
            "--member",
            "a=ann.key:admin",
            "--member",
            "a=bob.key",
        ],
        &["set", "--key", "none.key", "a", "b"],
        &["serve", "--data", "d", "--node-key", "none.key"],
        &[
            "serve",
            "--data",
            "d",
            "--node-key",
            "node.key",
            "--log",
            "kafka:/here",
        ],
    ] {
        let said = house.hybrid(wrong);
        assert_eq!(said.code, 2, "{wrong:?}: {}", said.error);
    }
    assert!(!house.path("g").exists());
    fs::set_permissions(house.path("ann.key"), Permissions::from_mode(0o640)).unwrap();
    let open = house.hybrid(&["get", "--key", "ann.key", "a"]);
    assert_eq!(open.code, 2);
    assert!(open.error.contains("chmod 600"), "{}", open.error);
    let other = house.hybrid(&["serve", "--data", "d", "--node-key", "node.key", "--node", "7"]);
    assert_eq!(other.code, 2);
    assert!(other.error.contains("node 7"), "{}", other.error);
    if !cfg!(feature = "kafka") {
        let far = [
            "serve",
            "--data",
            "d",
            "--node-key",
            "node.key",
            "--log",
            "kafka://127.0.0.1:9",
        ];
        let without = house.hybrid(&far);
        assert_eq!(without.code, 1);
        assert!(
            without.error.contains("cargo feature `kafka`"),
            "{}",
            without.error
        );
    }
}

#[test]
fn the_console_of_a_database_has_metrics_and_status() {
    let house = HybridDatabase::new(&TWO_MEMBERS);
    let server = house.serve(&["--console", "127.0.0.1:0"]);
    server.done(&house, "set", "alice.key", &["a", "b"]);
    server.done(&house, "get", "alice.key", &["a"]);
    let console = server.started["console"].as_str().unwrap();
    let ask = |path: &str| page(console, path);
    let metrics = ask("/metrics");
    for line in [
        "lineside_hybrid_height 1",
        "lineside_hybrid_keys 1",
        "lineside_hybrid_read_only 0",
        "lineside_hybrid_requests_total{code=\"done\"} 2",
        // Both requests came by gRPC.
        "lineside_requests_total{service=\"hybrid\",datapath=\"socket\",outcome=\"host\"} 2",
        "lineside_host_replies_total{service=\"hybrid\"} 2",
        "lineside_host_latency_seconds_count{service=\"hybrid\"} 2",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert!(ask("/healthz").contains("{\"status\":\"ok\","));
    assert!(ask("/status").contains("\"name\":\"hybrid\""));
}

#[test]
fn a_proof_of_another_database_with_the_same_node_is_refused() {
    let house = HybridDatabase::new(&TWO_MEMBERS);
    let other = house.hybrid(&[&["init", "--genesis", "other.bin"], &TWO_MEMBERS[..]].concat());
    assert_eq!(other.code, 0, "{}", other.error);
    let server = house.serve(&["--genesis", "other.bin"]);
    let of_other = ["--genesis", "other.bin"];
    server.done(
        &house,
        "set",
        "bob.key",
        &[&of_other[..], &["balance", "10"]].concat(),
    );
    server.done(
        &house,
        "prove",
        "bob.key",
        &[&of_other[..], &["balance"]].concat(),
    );
    let verify = [
        "verify-proof",
        "--name",
        "balance",
        "--value",
        "10",
        "--head",
        "proof.bin.head",
    ];
    let refused = house.hybrid(&verify);
    assert_eq!(refused.code, 1);
    assert!(
        refused.error.contains("not of the database of genesis.bin"),
        "{}",
        refused.error
    );
    assert_eq!(house.hybrid(&[&verify[..], &of_other].concat()).code, 0);
}

#[test]
fn a_node_joins_from_a_snapshot_that_its_admins_attested() {
    let house = HybridDatabase::new(&TWO_MEMBERS);
    let server = house.serve(&[]);
    for number in 0..5 {
        server.done(&house, "set", "bob.key", &[&format!("key {number}"), "value"]);
    }
    let head = server.done(&house, "head", "alice.key", &[]).remove(0);
    let block = format!("{}:{}", head["block"], head["hash"].as_str().unwrap());
    server.terminate();
    let said = house.hybrid(&["snapshot", "--data", "ledger", "--json"]);
    assert_eq!(said.code, 0, "{}", said.error);
    let made: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&made["block"], &made["hash"]), (&head["block"], &head["hash"]));
    assert_eq!(made["keys"], 5);
    let vouch = |key, out| {
        house
            .hybrid(&["vouch", "--key", key, "--block", &block, "--out", out])
            .code
    };
    // Bob is not an admin.
    assert_eq!(
        (vouch("alice.key", "alice.word"), vouch("bob.key", "bob.word")),
        (0, 2)
    );
    // Existing files are neither overwritten nor removed.
    let before = ["alice.key", "snapshot.bin"].map(|file| fs::read(house.path(file)).unwrap());
    assert_eq!(vouch("alice.key", "alice.key"), 2);
    fs::create_dir(house.path("empty")).unwrap();
    // The first command fails because the file exists already, the second because the directory holds no ledger.
    for (data, code) in [("ledger", 2), ("empty", 1)] {
        assert_eq!(house.hybrid(&["snapshot", "--data", data]).code, code, "{data}");
    }
    let after = ["alice.key", "snapshot.bin"].map(|file| fs::read(house.path(file)).unwrap());
    assert!(before == after);
    assert_eq!(fs::read_dir(house.path("empty")).unwrap().count(), 0);
    let join = |data: &str, more: &[&str]| house.hybrid(&[&["join", "--data", data], more].concat());
    assert_eq!(join("other", &["--word", "/dev/zero"]).code, 2);
    assert_eq!(join("other", &[]).code, 2);
    assert_eq!(join("other", &["--word", "snapshot.bin"]).code, 2);
    let wrong = join("other", &["--block", &block.replacen('5', "4", 1)]);
    assert!(
        wrong.error.contains("not of the block that was given"),
        "{}",
        wrong.error
    );
    assert_eq!(join("joined", &["--word", "alice.word"]).code, 0);
    let again = join("joined", &["--word", "alice.word"]);
    assert!(
        again.error.contains("already contains a ledger"),
        "{}",
        again.error
    );
    // The joined ledger accepts new blocks.
    fs::rename(house.path("ledger"), house.path("old")).unwrap();
    fs::rename(house.path("joined"), house.path("ledger")).unwrap();
    let server = house.serve(&[]);
    assert_eq!(server.started["blocks"], 5);
    assert_eq!(
        server.done(&house, "get", "bob.key", &["key 3"])[0]["value"],
        "value"
    );
    server.done(&house, "set", "bob.key", &["key 3", "new"]);
    server.terminate();
    let audited = house.hybrid(&["audit", "--data", "ledger", "--json"]);
    assert_eq!(audited.code, 0, "{}", audited.error);
    let audited: Value = serde_json::from_str(&audited.out).unwrap();
    assert_eq!(
        (&audited["blocks"], &audited["base"]["by_words"]),
        (&1.into(), &true.into())
    );
}

#[test]
fn a_database_in_the_papers_mode_reports_it_and_accepts_only_the_papers_requests() {
    let house = HybridDatabase(tempfile::tempdir().unwrap());
    let made = house.hybrid(&["init", "--paper", "--member", "alice=alice.key:admin"]);
    assert!(made.out.contains("the mode is the paper's"), "{}", made.error);
    let server = house.serve(&["--console", "127.0.0.1:0"]);
    assert_eq!(server.started["paper"], true);
    let paper = |rest: &[&str]| {
        let fixed = ["--server", server.address(), "--key", "alice.key", "--json"];
        house.hybrid(&[&["paper"], &rest[..1], &fixed, &rest[1..]].concat())
    };
    let done = |rest: &[&str]| -> Value {
        let said = paper(rest);
        assert_eq!(said.code, 0, "{rest:?}: {}", said.error);
        serde_json::from_str(&said.out).unwrap()
    };
    let absent = paper(&["get", "greeting"]);
    assert_eq!(absent.code, 1, "{}", absent.error);
    assert!(absent.out.contains("\"value\":null"), "{}", absent.out);
    let udp = house.hybrid(&[
        "paper",
        "get",
        "--udp",
        server.address(),
        "--key",
        "alice.key",
        "greeting",
    ]);
    assert_eq!(udp.code, 2, "{}", udp.error);
    let set = done(&["set", "greeting", "hello"]);
    assert_eq!((&set["txid"], &set["version"]), (&"txid1tx0".into(), &1.into()));
    assert_eq!(done(&["set", "greeting", "again"])["version"], 2);
    let late = paper(&["set", "greeting", "late", "--version", "0"]);
    assert_eq!(late.code, 1);
    assert!(late.error.contains("old_version"), "{}", late.error);
    let got = done(&["get", "greeting"]);
    assert_eq!((&got["value"], &got["version"]), (&"again".into(), &2.into()));
    assert_eq!(done(&["verify", "greeting"])["block"], "2");

    let native = server.ask(&house, "get", "alice.key", &["greeting"]);
    assert_eq!(native.code, 1);
    assert!(native.error.contains("wrong_mode"), "{}", native.error);
    let proof = server.done(&house, "prove", "alice.key", &["greeting"]).remove(0);
    let cell = "\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02again";
    assert_eq!(proof["value"], cell);
    let shown = [
        "verify-proof",
        "--name",
        "greeting",
        "--head",
        "proof.bin.head",
        "--value",
        cell,
    ];
    let shown = house.hybrid(&shown);
    assert_eq!(shown.code, 0, "{}", shown.error);
    let console = server.started["console"].as_str().unwrap();
    let status = page(console, "/status");
    assert!(status.contains("the mode is the paper's"), "{status}");
    server.terminate();
    let audit = house.hybrid(&["audit", "--data", "ledger"]);
    assert_eq!(audit.code, 0, "{}", audit.error);

    // A database in the native mode refuses the paper's requests.
    let other = HybridDatabase::new(&["--member", "alice=alice.key:admin"]);
    let server = other.serve(&[]);
    assert_eq!(server.started["paper"], false);
    let refused = [
        "paper",
        "get",
        "--server",
        server.address(),
        "--key",
        "alice.key",
        "greeting",
    ];
    let refused = other.hybrid(&refused);
    assert_eq!(refused.code, 1);
    assert!(refused.error.contains("wrong_mode"), "{}", refused.error);
}
