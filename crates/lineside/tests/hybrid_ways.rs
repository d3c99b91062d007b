//! Several ways to serve and reach a node of `hybrid`: gRPC and UDP, TLS, a configuration file, and `lineside run`.

mod house;

use house::{CommandOutput, HybridDatabase, Server, TWO_MEMBERS, page};
use lineside_util::key_file::write_owner_only;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// Runs a client subcommand over UDP.
fn by_udp(house: &HybridDatabase, udp: &str, verb: &str, rest: &[&str]) -> CommandOutput {
    let fixed = [verb, "--udp", udp, "--key", "alice.key", "--json"];
    house.hybrid(&[&fixed, rest].concat())
}

/// Runs a client subcommand over UDP. The command must succeed; returns the printed objects.
fn done_by_udp(house: &HybridDatabase, udp: &str, verb: &str, rest: &[&str]) -> Vec<Value> {
    let said = by_udp(house, udp, verb, rest);
    assert_eq!(said.code, 0, "{verb} {rest:?}: {}", said.error);
    let line = |line| serde_json::from_str(line).unwrap();
    said.out.lines().map(line).collect()
}

/// A node that never answers: both of its ports are open.
#[test]
fn a_client_waits_as_long_as_its_option_says() {
    let house = HybridDatabase::new(&TWO_MEMBERS);
    let (tcp, udp) = (
        TcpListener::bind("127.0.0.1:0").unwrap(),
        UdpSocket::bind("127.0.0.1:0").unwrap(),
    );
    let (tcp, udp_address) = (
        tcp.local_addr().unwrap().to_string(),
        udp.local_addr().unwrap().to_string(),
    );
    let get = |way: &[&str]| house.hybrid(&[&["get", "--key", "alice.key", "a"], way].concat());
    let by_grpc = get(&["--server", &tcp, "--timeout-ms", "150"]);
    assert_eq!(by_grpc.code, 1, "{}", by_grpc.error);
    assert!(by_grpc.error.contains("within 150ms"), "{}", by_grpc.error);
    let by_udp = get(&["--udp", &udp_address, "--timeout-ms", "150"]);
    assert_eq!(by_udp.code, 1, "{}", by_udp.error);
    let too_long = get(&["--udp", &udp_address, "--timeout-ms", "30000"]);
    assert_eq!(too_long.code, 2, "{}", too_long.error);
    assert!(too_long.error.contains("at most 29999"), "{}", too_long.error);
}

#[test]
fn a_name_without_an_address_is_named() {
    let house = HybridDatabase::new(&TWO_MEMBERS);
    for option in ["--server", "--udp"] {
        let way = [option, "no-such-host.invalid:7705"];
        let said = house.hybrid(&[&["get", "--key", "alice.key", "a"][..], &way].concat());
        assert_eq!(said.code, 1, "{}", said.error);
        assert!(said.error.contains("this name has no address"), "{}", said.error);
    }
}

#[test]
fn every_verb_works_over_udp() {
    let house = HybridDatabase::new(&TWO_MEMBERS);
    let server = house.serve(&["--console", "127.0.0.1:0"]);
    let udp = server.started["udp"].as_str().unwrap();
    let done = |verb: &str, rest: &[&str]| done_by_udp(&house, udp, verb, rest);
    let set = done("set", &["greeting", "hello"]).remove(0);
    assert_eq!(
        (&set["code"], &set["version"]["block"]),
        (&"done".into(), &1.into())
    );
    let outcome = done("outcome", &[set["id"].as_str().unwrap()]).remove(0);
    assert_eq!(outcome["version"], set["version"]);
    for get in [
        done("get", &["greeting"]),
        server.done(&house, "get", "bob.key", &["greeting"]),
    ] {
        assert_eq!(get[0]["value"], "hello");
    }
    done("set", &["greeting", "hello again", "--if-version", "1.0"]);
    done("set", &["other", "x"]);
    done("delete", &["other"]);
    let range = done("range", &["a", "z"]);
    assert_eq!((range.len(), &range[1]["more"]), (2, &false.into()));
    assert_eq!(done("history", &["other"])[0]["value"], Value::Null);
    assert_eq!(done("head", &[])[0]["block"], 4);
    done("prove", &["greeting"]);
    let verify = ["verify-proof", "--name", "greeting", "--value", "hello again"];
    let verified = house.hybrid(&[&verify[..], &["--head", "proof.bin.head"]].concat());
    assert_eq!(verified.code, 0, "{}", verified.error);
    let change = ["--until-ms", "4000000000000", "revoke-member", "2"];
    assert_eq!(done("change", &change)[0]["code"], "done");

    let conflict = by_udp(&house, udp, "set", &["greeting", "x", "--if-version", "absent"]);
    assert_eq!(conflict.code, 1);
    assert!(conflict.error.contains("conflict"), "{}", conflict.error);
    let long = "v".repeat(1200);
    let long_set = by_udp(&house, udp, "set", &["long", &long]);
    assert_eq!(long_set.code, 1);
    assert!(long_set.error.contains("use gRPC"), "{}", long_set.error);
    server.done(&house, "set", "alice.key", &["long", &long]);
    let long_get = by_udp(&house, udp, "get", &["long"]);
    assert!(long_get.error.contains("too_large"), "{}", long_get.error);
    let watch = by_udp(&house, udp, "watch", &[]);
    assert_eq!(watch.code, 2);
    assert!(watch.error.contains("--server"), "{}", watch.error);
    assert_eq!(
        by_udp(&house, udp, "get", &["a", "--server", "127.0.0.1:1"]).code,
        2
    );
    assert_eq!(by_udp(&house, "nowhere", "get", &["a"]).code, 2);

    let console = server.started["console"].as_str().unwrap();
    let count = |metrics: &str, name: &str| {
        let line = metrics.lines().find(|line| line.starts_with(name));
        let number = line.and_then(|line| line.rsplit(' ').next());
        let number = number.unwrap_or_else(|| panic!("{name}: {metrics}"));
        number.parse::<u64>().unwrap()
    };
    // The node counts a reply after it has sent it, so the last reply may not be counted yet.
    let deadline = Instant::now() + Duration::from_secs(10);
    let metrics = loop {
        let metrics = page(console, "/metrics");
        let datagrams = count(&metrics, "lineside_hybrid_datagrams_total");
        let replies = count(&metrics, "lineside_host_replies_total{service=\"hybrid\"}");
        // One get and one set came over gRPC.
        let requests = datagrams + 2;
        assert!(datagrams >= 14 && replies <= requests, "{metrics}");
        if replies == requests {
            break metrics;
        }
        assert!(Instant::now() < deadline, "{metrics}");
    };
    assert!(
        metrics
            .contains("lineside_drops_total{service=\"hybrid\",datapath=\"socket\",reason=\"reply_bit\"} 0")
    );
    server.terminate();

    let without = house.serve(&["--udp", "off"]);
    assert_eq!(without.started["udp"], Value::Null);
}

/// Writes a configuration that enables only the service `hybrid`, on free ports.
fn config(house: &HybridDatabase, more: &str) {
    let text = format!(
        "[console]\nlisten = \"127.0.0.1:0\"\n[spv]\nenabled = false\n[hybrid]\nenabled = true\n\
         listen = \"127.0.0.1:0\"\ndata = \"ledger\"\n{more}"
    );
    fs::write(house.path("lineside.toml"), text).unwrap();
}

fn lineside(house: &HybridDatabase, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lineside"));
    command.args(arguments).current_dir(house.0.path());
    command
}

#[test]
fn run_serves_the_database_of_the_configuration() {
    let house = HybridDatabase::new(&TWO_MEMBERS);
    config(&house, "");
    let check = lineside(&house, &["check-config"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&check.stdout), "lineside.toml: ok\n");
    let run = ["run", "--config", "lineside.toml", "--json"];
    let server = Server::start(lineside(&house, &run));
    let service = &server.started["services"][0];
    assert_eq!(service["name"], "hybrid");
    let (grpc, ways) = (
        service["listen"].as_str().unwrap(),
        service["datapath"].as_str().unwrap(),
    );
    let udp = ways.strip_prefix("gRPC; UDP on ").unwrap();
    let set = ["set", "--server", grpc, "--key", "bob.key", "a", "by gRPC"];
    let set = house.hybrid(&set);
    assert_eq!(set.code, 0, "{}", set.error);
    assert_eq!(done_by_udp(&house, udp, "get", &["a"])[0]["value"], "by gRPC");

    let console = server.started["console"].as_str().unwrap();
    let console = console.strip_prefix("http://").unwrap();
    assert!(page(console, "/healthz").contains("{\"status\":\"ok\","));
    let status = page(console, "/status");
    let status: Value = serde_json::from_str(status.split_once("\r\n\r\n").unwrap().1).unwrap();
    let hybrid = &status["services"][0];
    assert_eq!(
        (&hybrid["name"], &hybrid["tip"]["height"]),
        (&"hybrid".into(), &1.into())
    );
    assert_eq!(hybrid["host"]["datagrams"], 1);
    let text = lineside(&house, &["status", "--console", console])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&text.stdout).contains("hybrid on 127.0.0.1:"));

    let second = lineside(&house, &run).output().unwrap();
    let why = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(1));
    assert!(why.contains("another process holds its lock"), "{why}");
    server.terminate();

    // `hybrid serve` accepts the same configuration file, and its options replace values of the file.
    let serve = ["serve", "--config", "lineside.toml", "--udp", "off", "--json"];
    let server = Server::start(house.command(&serve));
    assert_eq!(
        (&server.started["blocks"], &server.started["udp"]),
        (&1.into(), &Value::Null)
    );
    assert!(page(server.started["console"].as_str().unwrap(), "/healthz").contains("{\"status\":\"ok\","));
    assert_eq!(
        server.done(&house, "get", "alice.key", &["a"])[0]["value"],
        "by gRPC"
    );
}

/// Opens `count` HTTP/2 connections that make no call and stay open until they are dropped.
fn crowd(grpc: &str, count: usize) -> Vec<TcpStream> {
    let connect = |_| {
        let mut stream = TcpStream::connect(grpc).unwrap();
        // Each connection sends the HTTP/2 preface and an empty SETTINGS frame.
        stream
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
            .unwrap();
        stream
    };
    (0..count).map(connect).collect()
}

/// Waits until the page `/healthz` satisfies a condition.
fn health(console: &str, is_wanted: impl Fn(&str) -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let health = page(console, "/healthz");
        if is_wanted(&health) {
            return;
        }
        assert!(Instant::now() < deadline, "{health}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_server_near_its_limits_warns_in_its_health() {
    let house = HybridDatabase::new(&TWO_MEMBERS);
    config(&house, "");
    let run = ["run", "--config", "lineside.toml", "--json"];
    let server = Server::start(lineside(&house, &run));
    let grpc = server.started["services"][0]["listen"].as_str().unwrap();
    let console = server.started["console"].as_str().unwrap();
    let console = console.strip_prefix("http://").unwrap();
    // Loopback addresses are trusted, so one of them may use all 1,000 connections.
    let near = crowd(grpc, 800);
    let warning = "hybrid: gRPC: 800 of 1000 connections are in use";
    health(console, |health| {
        health.starts_with("HTTP/1.1 200 ") && health.contains(warning)
    });
    let full = crowd(grpc, 200);
    let problem = "hybrid: gRPC: new clients are refused: 1000 of 1000 connections are in use";
    health(console, |health| {
        health.starts_with("HTTP/1.1 503 ") && health.contains(problem)
    });
    drop((near, full));
    health(console, |health| health.ends_with("\"warnings\":[]}\n"));
    server.terminate();
}

#[test]
fn wrong_settings_are_named_by_check_config() {
    let house = HybridDatabase::new(&TWO_MEMBERS);
    let check = |more: &str| {
        config(&house, more);
        let output = lineside(&house, &["check-config", "--json"]).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    assert_eq!(check("")["warnings"], serde_json::json!([]));
    let lost = check("node_key = \"none.key\"\ngenesis = \"none.bin\"\n");
    assert_eq!(lost["ok"], true);
    for (place, key) in ["[hybrid] genesis cannot", "[hybrid] node_key cannot"]
        .iter()
        .enumerate()
    {
        let warning = lost["warnings"][place].as_str().unwrap();
        assert!(warning.starts_with(key), "{warning}");
    }
    let another = check("node_key = \"alice.key\"\n");
    assert_eq!(
        another["warnings"][0],
        "[hybrid] node_key cannot be used here: the genesis has another key for node 1; give the number (`node`, \
         --node) and the key file (`node_key`, --node-key) of the same node"
    );
    assert_eq!(
        check("node_key = \"alice.key\"\nnode = 2\n")["warnings"],
        serde_json::json!([])
    );
    let wrong = check("udp = \"7705\"\n");
    assert_eq!(
        (&wrong["ok"], &wrong["faults"][0]["line"]),
        (&false.into(), &9.into())
    );
    config(&house, "node_key = \"none.key\"\n");
    let run = lineside(&house, &["run", "--config", "lineside.toml"])
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(2));
    let twice = house.hybrid(&["serve", "--config", "none.toml"]);
    assert_eq!(twice.code, 2, "{}", twice.error);
}

#[test]
fn tls_accepts_only_clients_with_a_certificate() {
    let house = HybridDatabase::new(&TWO_MEMBERS);
    let ca_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key).unwrap().pem();
    let issuer = Issuer::new(params, ca_key);
    fs::write(house.path("ca.pem"), ca).unwrap();
    for name in ["localhost", "client"] {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap().pem();
        fs::write(house.path(&format!("{name}.pem")), certificate).unwrap();
        let (key, file) = (key.serialize_pem(), house.path(&format!("{name}.tls")));
        write_owner_only(&file, key.as_bytes()).unwrap();
    }
    fs::set_permissions(house.path("localhost.tls"), Permissions::from_mode(0o640)).unwrap();
    let files = ["--certificate", "localhost.pem", "--key", "localhost.tls"];
    let exposed = house.hybrid(&[&["serve", "--data", "d"], &files[..]].concat());
    assert_ne!(exposed.code, 0);
    assert!(
        exposed
            .error
            .contains("localhost.tls: others may use it (mode 640): chmod 600 it"),
        "{}",
        exposed.error
    );
    assert!(!house.path("d").exists());
    fs::set_permissions(house.path("localhost.tls"), Permissions::from_mode(0o600)).unwrap();
    let alone = house.hybrid(&["serve", "--data", "d", "--client-ca", "ca.pem"]);
    assert_eq!(alone.code, 2, "{}", alone.error);
    let server = house.serve(&[
        "--certificate",
        "localhost.pem",
        "--key",
        "localhost.tls",
        "--client-ca",
        "ca.pem",
    ]);
    assert_eq!(server.started["udp"], Value::Null, "datagrams are not encrypted");
    let set = |tls: &[&str]| server.ask(&house, "set", "bob.key", &[tls, &["a", "b"]].concat());
    let ca = ["--tls-ca", "ca.pem", "--tls-name", "localhost"];
    let own = ["--tls-certificate", "client.pem", "--tls-key", "client.tls"];
    let done = set(&[&ca[..], &own].concat());
    assert_eq!(done.code, 0, "{}", done.error);
    for (tls, what) in [(&[][..], "no TLS"), (&ca[..], "no certificate")] {
        let refused = set(tls);
        assert_eq!(refused.code, 1, "{what}: {}", refused.error);
    }
    let other = ["--tls-ca", "ca.pem", "--tls-name", "other"];
    assert_eq!(set(&[&other[..], &own].concat()).code, 1, "another server's name");
}
