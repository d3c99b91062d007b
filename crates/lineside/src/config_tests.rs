use super::*;
use lineside_column::config::{ColumnConfig, TableName};
use lineside_hybrid_node::config::HybridConfig;
use lineside_service::DatapathKind;
use lineside_spv::config::{IndexName, Prefill, SpvConfig};
use lineside_spv::store::Geometry;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

const EXAMPLE_CONFIG: &str = include_str!("../../../lineside.toml");
/// Section that enables `spv` at its default port.
pub(super) const SPV: &str = "[spv]\nenabled = true\ndata = \"chain\"\n";

pub(super) fn check(text: &str) -> Result<CheckedConfig, Vec<ConfigIssue>> {
    let config = Config::parse(text, SERVICES).map_err(|issue| vec![issue])?;
    config.check().map_err(|error| error.issues)
}

/// Returns the section `name` of a configuration without mistakes.
fn read<T: serde::de::DeserializeOwned + Serialize + Default>(text: &str, name: &str) -> T {
    assert_eq!(check(text).err(), None, "{text}");
    Config::parse(text, SERVICES)
        .unwrap()
        .section(name)
        .read()
        .unwrap()
}

/// Asserts that the configuration in effect, written as text, is read back unchanged.
pub(super) fn comes_back(text: &str) {
    let sections = check(text).ok().unwrap().sections();
    let written = toml::to_string(&sections).unwrap();
    assert_eq!(check(&written).ok().unwrap().sections(), sections);
}

/// Returns all sections with their defaults.
fn defaults() -> toml::Table {
    let mut all = toml::Table::new();
    all.insert("console".into(), section(&ConsoleConfig::default()).into());
    all.insert("datapath".into(), section(&DatapathConfig::default()).into());
    all.insert("process".into(), section(&ProcessConfig::default()).into());
    let services = SERVICES.iter();
    all.extend(services.map(|service| (service.name.to_owned(), (service.default_section)().into())));
    all
}

/// Returns section and name of every key.
fn keys() -> Vec<(String, String)> {
    let defaults = defaults();
    let sections = defaults
        .iter()
        .map(|(section, keys)| (section, keys.as_table().unwrap()));
    sections
        .flat_map(|(section, keys)| keys.keys().map(move |key| (section.clone(), key.clone())))
        .collect()
}

pub(super) fn only_issue(text: &str) -> ConfigIssue {
    let mut issues = check(text).err().expect(text);
    assert_eq!(issues.len(), 1, "{issues:?}");
    issues.remove(0)
}

#[test]
fn the_example_file_has_every_key_with_its_default() {
    assert_eq!(check(EXAMPLE_CONFIG).ok().unwrap().sections(), defaults());
    let shown: toml::Table = EXAMPLE_CONFIG.parse().unwrap();
    let config = Config::parse(EXAMPLE_CONFIG, SERVICES).unwrap();
    for (name, key) in keys() {
        let is_shown = shown.get(&name).is_some_and(|keys| keys.get(&key).is_some());
        assert!(is_shown, "lineside.toml lacks [{name}] {key}");
        let mut sections = config.services.iter().map(|service| &service.section);
        let section = match name.as_str() {
            "console" => &config.console,
            "datapath" => &config.datapath,
            "process" => &config.process,
            name => sections.find(|section| section.name() == name).unwrap(),
        };
        let line = section.line_of(&key).unwrap();
        let before = EXAMPLE_CONFIG.lines().nth(line - 2).unwrap();
        assert!(before.starts_with("# "), "[{name}] {key} is not explained");
    }
    assert!(keys().len() >= 68);
    assert_eq!(check("").ok().unwrap().warnings(), [""; 0]);
}

#[test]
fn the_defaults_are_those_of_the_libraries() {
    let spv = SpvConfig::default();
    assert_eq!(spv.geometry(), Geometry::default());
    assert_eq!((spv.lease(), spv.data()), (Duration::from_secs(60), None));
    let columns = lineside_column::store::Geometry {
        columns: vec!["entry:foo".into()],
        ..lineside_column::store::Geometry::default()
    };
    let column = ColumnConfig::default();
    assert_eq!(column.geometry(), columns);
    assert_eq!(columns.fault(), None);
    assert_eq!(column.listen.port(), lineside_wire::COLUMN_PORT);
    assert_eq!(ConsoleConfig::default().listen.port(), CONSOLE_PORT);
    assert!(DatapathConfig::default().socket_threads() > 0);
}

#[test]
fn a_value_of_the_command_line_overrides_the_file() {
    let mut config = Config::parse("[spv]\nways = 2\nlease_s = 5\n", SERVICES).unwrap();
    for assignment in [
        "spv.ways=1",
        "spv.data = /var/lib/chain",
        "spv.prefill=\"tip:3\"",
        "datapath.kind=socket",
    ] {
        config.set(assignment).unwrap();
    }
    let spv: SpvConfig = config.section("spv").read().unwrap();
    assert_eq!((spv.ways, spv.lease_s, spv.prefill), (1, 5, Prefill::Tip(3)));
    assert_eq!(spv.data(), Some(Path::new("/var/lib/chain")));
    assert_eq!(config.check().ok().unwrap().datapath.kind, DatapathKind::Socket);
    config.set("spv.ways=3").unwrap();
    let error = config.check().err().unwrap();
    assert_eq!(
        error.to_string(),
        "the command line: [spv] ways = 3: must be 1, 2 or 4"
    );
    for wrong in ["spv", "spv.ways", "ways=3", "spc.ways=3", "=", "spv=1"] {
        assert!(config.set(wrong).is_err(), "{wrong}");
    }
    config.set("spv.way=3").unwrap();
    assert!(
        config
            .check()
            .err()
            .unwrap()
            .to_string()
            .contains("unknown field `way`")
    );
}

/// Regression test: the start failed because "another process" had locked the directory, which was the same process.
#[test]
fn data_directories_that_are_equal_or_inside_each_other_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let real = folder.path().join("real");
    std::fs::create_dir(&real).expect("made");
    std::os::unix::fs::symlink(&real, folder.path().join("link")).expect("linked");
    let issues = |transfer: &str, column: &str| {
        let at = |path: &str| folder.path().join(path);
        let text = format!(
            "[transfer]\nenabled = true\ndata = {:?}\n[column]\nenabled = true\nstore = \"embedded\"\ndata = {:?}\n",
            at(transfer),
            at(column)
        );
        let config = Config::parse(&text, SERVICES).expect("parsed");
        config.check().err().map_or(Vec::new(), |error| error.issues)
    };
    for (transfer, column, relation) in [
        ("a", "a", "is also the directory of"),
        ("a", "b/../a", "is also the directory of"),
        ("real", "link", "is also the directory of"),
        ("real", "link/table", "is inside the directory of"),
        ("a/b", "a", "contains the directory of"),
    ] {
        let found = issues(transfer, column);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].line, Some(7), "{found:?}");
        let what = &found[0].what;
        for said in ["[column] data = ", relation, "[transfer] data = "] {
            assert!(what.contains(said), "{what} does not say {said}");
        }
    }
    assert!(issues("a", "ab").is_empty());
    assert!(issues("a/x", "a/y").is_empty());
}

#[test]
fn two_enabled_services_on_one_port_are_refused() {
    let with = |more: &str| only_issue(&format!("{SPV}{more}")).what;
    assert!(with("listen = \"127.0.0.1:7700\"\n").contains("another port than the console"));
    for more in [
        "[column]\nenabled = true\nlisten = \"127.0.0.1:7701\"\n",
        "[transfer]\nenabled = true\ndata = \"d\"\nlisten = \"127.0.0.1:7701\"\n",
        "[hybrid]\nenabled = true\ndata = \"d\"\nudp = \"127.0.0.1:7701\"\n",
    ] {
        assert!(with(more).contains("another port than spv"), "{more}");
        let is_off = more.replace("enabled = true", "enabled = false");
        assert_eq!(check(&format!("{SPV}{is_off}")).err(), None, "{is_off}");
    }
    let table = |data: &str| {
        format!(
            "[[fabric]]\nenabled = true\ndata = \"{data}\"\norderers = [\"o:7050\"]\nmsp_id = \"Org1MSP\"\n\
             msp = \"m\"\n"
        )
    };
    let issue = only_issue(&format!("{}{}", table("a"), table("b")));
    assert!(issue.what.contains("another port than fabric"), "{issue:?}");
    let issue = only_issue("[hybrid]\nenabled = true\ndata = \"d\"\nlisten = \"127.0.0.1:7700\"\n");
    assert!(issue.what.contains("another port than the console"), "{issue:?}");
}

/// Regression test: only the start of the server found an address that two TCP sockets of a service share.
#[test]
fn tcp_addresses_that_overlap_are_refused_before_the_start() {
    let with = |more: &str| check(&format!("{SPV}{more}")).err().unwrap_or_default();
    let only = |more: &str| {
        let issues = with(more);
        assert_eq!(issues.len(), 1, "{more}: {issues:?}");
        assert_eq!(issues[0].line, Some(5), "{issues:?}");
        issues[0].what.clone()
    };
    let electrum = "electrum = \"127.0.0.1:50001\"\n";
    for http in ["127.0.0.1:50001", "0.0.0.0:50001", "[::]:50001"] {
        let what = only(&format!("{electrum}http = \"{http}\"\n"));
        let expected = format!("[spv] http = \"{http}\": must have another port than `electrum` of [spv]");
        assert_eq!(what, expected);
    }
    for free in [
        "127.0.0.1:50002",
        "127.0.0.2:50001",
        "[::1]:50001",
        "127.0.0.1:7701",
    ] {
        assert_eq!(with(&format!("{electrum}http = \"{free}\"\n")), [], "{free}");
    }
    let what = only("\nhttp = \"127.0.0.1:7700\"\n");
    assert!(what.ends_with("another port than the console"), "{what}");
    let column = "[column]\nenabled = true\nlisten = \"127.0.0.1:50001\"\n";
    let issues = with(&format!("{electrum}{column}"));
    assert!(
        issues[0].what.ends_with("another port than `electrum` of [spv]"),
        "{issues:?}"
    );
}

#[test]
fn unknown_keys_are_refused_in_every_section() {
    for section in [
        "console", "datapath", "process", "spv", "transfer", "column", "hybrid",
    ] {
        let issue = only_issue(&format!("\n[{section}]\nfrobnicate = 1\n"));
        assert_eq!(issue.line, Some(3));
        assert!(issue.what.contains("unknown field `frobnicate`"), "{issue:?}");
    }
    for text in ["[frobnicate]\n", "frobnicate = 1\n", "[spv.frobnicate]\nx = 1\n"] {
        let issue = only_issue(text);
        assert!(issue.what.contains("frobnicate"), "{issue:?}");
    }
    // Every key with one letter added.
    for (section, key) in keys() {
        let issue = only_issue(&format!("[{section}]\n{key}x = 1\n"));
        assert_eq!(issue.line, Some(2));
        assert!(
            issue.what.contains(&format!("unknown field `{key}x`")),
            "{issue:?}"
        );
    }
}

#[test]
fn wrong_types_are_refused_for_every_key() {
    let says_type = |what: &str| what.contains("expected") || what.contains("wanted");
    for (section, key) in keys() {
        for value in ["1.5", "{ a = 1 }", "[[]]"] {
            let issue = only_issue(&format!("[{section}]\n# a comment\n{key} = {value}\n"));
            assert_eq!(issue.line, Some(3), "{issue:?}");
            assert!(says_type(&issue.what) && issue.what.contains(&key), "{issue:?}");
        }
    }
    let issue = only_issue("[spv]\nlisten = \n");
    assert_eq!(issue.line, Some(2));
    let issue = only_issue("[spv]\nways = 2\nways = 4\n");
    assert!(issue.what.contains("duplicate key"), "{issue:?}");
}

#[test]
fn values_out_of_range_are_refused_with_the_allowed_range() {
    let cases = [
        ("console", "listen", "\"7700\"", "ADDR:PORT or NAME:PORT"),
        ("console", "listen", "\"localhost\"", "ADDR:PORT or NAME:PORT"),
        (
            "console",
            "listen",
            "\"127.0.0.1:70000\"",
            "ADDR:PORT or NAME:PORT",
        ),
        ("console", "allowed_hosts", "[\"\"]", "a host name without port"),
        (
            "console",
            "allowed_hosts",
            "[\"lineside-1:7700\"]",
            "a host name without port",
        ),
        ("console", "allowed_hosts", "[\"*\"]", "a host name without port"),
        (
            "console",
            "allowed_hosts",
            "[\"a..b\"]",
            "a host name without port",
        ),
        (
            "console",
            "allowed_hosts",
            "\"lineside-1\"",
            "expected a sequence",
        ),
        ("datapath", "kind", "\"nic\"", "`auto`, `socket`, `xdp`, `rtl`"),
        ("datapath", "tap", "\"a/b\"", "1 to 15 bytes"),
        ("datapath", "tap_addresses", "[]", "1 to 8 addresses"),
        (
            "datapath",
            "tap_addresses",
            "[\"10.77.0.1\"]",
            "length of its prefix",
        ),
        ("datapath", "interface", "\"a/b\"", "1 to 15 bytes"),
        ("datapath", "interface", "\"sixteen-letters-\"", "1 to 15 bytes"),
        ("datapath", "interfaces", "[]", "1 to 8 names"),
        ("datapath", "interfaces", "[\"a/b\"]", "1 to 15 bytes"),
        ("datapath", "interfaces", "\"eth0\"", "expected a sequence"),
        (
            "datapath",
            "xdp_mode",
            "\"offload\"",
            "`auto`, `native`, `generic`",
        ),
        ("datapath", "threads", "257", "0 to 256"),
        ("datapath", "threads", "-1", "expected usize"),
        ("datapath", "queue", "0", "1 to 1048576"),
        ("datapath", "queue", "1048577", "1 to 1048576"),
        ("datapath", "pin_dir", "\"bpf\"", "absolute path"),
        ("spv", "listen", "\"127.0.0.1\"", "address"),
        (
            "spv",
            "network",
            "\"bitcoin\"",
            "`testnet4`, `signet`, `regtest`, `simnet`",
        ),
        ("spv", "index", "\"ram\"", "`memory` or `disk`"),
        ("spv", "index", "\"disk\"", "needs `data`"),
        ("spv", "line_bits", "2", "3 to 28"),
        ("spv", "line_bits", "29", "3 to 28"),
        ("spv", "line_bits", "4294967296", "expected u32"),
        ("spv", "ways", "3", "1, 2 or 4"),
        ("spv", "ways", "0", "1, 2 or 4"),
        ("spv", "block_bits", "0", "1 to 24"),
        ("spv", "block_bits", "25", "1 to 24"),
        ("spv", "client_rate", "0", "1 to 1000000"),
        ("spv", "client_rate", "1000001", "1 to 1000000"),
        ("spv", "electrum_clients", "0", "1 to 1000000"),
        ("spv", "electrum_clients_per_network", "0", "1 to 1000000"),
        ("spv", "http_clients", "1000001", "1 to 1000000"),
        ("spv", "http_clients_per_network", "-1", "expected u32"),
        ("spv", "trusted_proxies", "[\"10.0.0.0/33\"]", "leading bits"),
        ("spv", "lease_s", "0", "1 to 3600"),
        ("spv", "lease_s", "3601", "1 to 3600"),
        ("spv", "prefill", "\"tip\"", "\"tip:N\""),
        ("spv", "prefill", "\"tip:0\"", "\"tip:N\""),
        ("spv", "prefill", "\"tip:-1\"", "\"tip:N\""),
        ("spv", "prefill", "\"tip:4294967296\"", "\"tip:N\""),
        ("column", "store", "\"hbase\"", "\"thrift2://host:port/table\""),
        ("column", "store", "\"hbase\"", "\"hbase://host:port/table\""),
        ("column", "store", "\"hbase://host:1,/t\"", "host:port"),
        ("column", "store", "\"hbase://host:1,host:65536/t\"", "host:port"),
        ("column", "store", "\"thrift2://host/table\"", "host:port"),
        ("column", "store", "\"thrift2://host:1,host:2/t\"", "host:port"),
        ("column", "store", "\"thrift2://host:9090/\"", "host:port/table"),
        ("column", "store", "\"embedded\"", "needs `data`"),
        (
            "column",
            "data",
            "\"table\"",
            "`store` is \"memory\"; set store = \"embedded\"",
        ),
        ("column", "coherence", "\"hope\"", "`none`, `ttl`, `coprocessor`"),
        ("column", "servers", "[\"rs1\"]", "ADDR:PORT or NAME:PORT"),
        ("column", "notify_listen", "7707", "address"),
        ("column", "lease_ms", "99", "100 to 60000"),
        ("column", "lease_ms", "60001", "100 to 60000"),
        ("column", "ttl_ms", "0", "100 to 3600000"),
        ("column", "trusted_sources", "[\"10.0.0.0/33\"]", "leading bits"),
        ("hybrid", "enabled", "true", "needs `data`"),
        ("hybrid", "udp", "\"on\"", "\"auto\", \"off\" or an address"),
        ("hybrid", "node", "-1", "expected u32"),
        ("hybrid", "log", "\"kafka\"", "kafka://host:port"),
        ("hybrid", "log", "\"kafka://host\"", "kafka://host:port"),
        ("hybrid", "certificate", "\"a.pem\"", "needs `key`"),
        ("hybrid", "key", "\"a.key\"", "needs `certificate`"),
        ("hybrid", "client_ca", "\"ca.pem\"", "needs `certificate`"),
        ("hybrid", "trusted_sources", "[\"10.0.0.0/33\"]", "leading bits"),
    ];
    for (section, key, value, allowed) in cases {
        let issue = only_issue(&format!("# one\n\n[{section}]\n{key} = {value}\n"));
        assert_eq!(issue.line, Some(4), "{issue:?}");
        assert!(issue.what.contains(key), "{issue:?} does not name {key}");
        assert!(issue.what.contains(allowed), "{issue:?} does not say {allowed}");
        let bare = value.trim_matches(['[', ']', '"']);
        assert!(issue.what.contains(bare), "{issue:?} does not say {value}");
    }
}

/// Keys with addresses that clients use, with the text of the address in the checked configuration.
#[test]
fn every_address_may_have_a_host_name() {
    let text = "[console]\nlisten = \"localhost:1\"\n[spv]\nlisten = \"localhost:2\"\nhttp = \"localhost:3\"\n\
                [transfer]\nlisten = \"localhost:4\"\n[column]\nlisten = \"localhost:5\"\n\
                notify_listen = \"localhost:6\"\nservers = [\"localhost:7\"]\n\
                [fabric]\nlisten = \"localhost:8\"\nudp_listen = \"localhost:9\"\nudp_paper = true\n\
                [hybrid]\nlisten = \"localhost:10\"\nudp = \"localhost:11\"\n";
    let all = toml::Value::from(check(text).expect("addresses").sections());
    for (section, key, value) in [
        ("console", "listen", "127.0.0.1:1"),
        ("spv", "listen", "127.0.0.1:2"),
        ("spv", "http", "127.0.0.1:3"),
        ("transfer", "listen", "127.0.0.1:4"),
        ("column", "listen", "127.0.0.1:5"),
        ("column", "notify_listen", "127.0.0.1:6"),
        ("fabric", "listen", "127.0.0.1:8"),
        ("fabric", "udp_listen", "127.0.0.1:9"),
        ("hybrid", "listen", "127.0.0.1:10"),
        ("hybrid", "udp", "127.0.0.1:11"),
    ] {
        assert_eq!(all[section][key].as_str(), Some(value), "[{section}] {key}");
    }
    assert_eq!(all["column"]["servers"][0].as_str(), Some("127.0.0.1:7"));
    let issue = only_issue("[transfer]\nlisten = \"no-such-host.invalid:7702\"\n");
    for said in ["listen = ", "no-such-host.invalid:7702", "has no address"] {
        assert!(issue.what.contains(said), "{issue:?}");
    }
}

#[test]
fn a_server_or_column_listed_twice_is_refused() {
    for (key, name) in [("servers", "[::1]:1"), ("columns", "entry:foo")] {
        let issue = only_issue(&format!("[column]\n{key} = [\"{name}\", \"{name}\"]\n"));
        assert_eq!(issue.line, Some(2), "{issue:?}");
        for said in [key, name, "is listed twice"] {
            assert!(issue.what.contains(said), "{issue:?} does not say {said}");
        }
    }
}

#[test]
fn a_wildcard_address_for_notifications_is_refused() {
    let told = |listen: &str| {
        format!(
            "[column]\nstore = \"hbase://host:1/t\"\ncoherence = \"coprocessor\"\nservers = [\"127.0.0.1:1\"]\n\
             notify_key_file = \"key\"\nnotify_listen = \"{listen}:7707\"\n"
        )
    };
    let issue = only_issue(&told("0.0.0.0"));
    assert_eq!(issue.line, Some(6), "{issue:?}");
    assert!(issue.what.contains("lineside.subscribers"), "{issue:?}");
    assert_eq!(check(&told("192.0.2.1")).err(), None);
}

#[test]
fn a_geometry_is_refused_exactly_where_the_store_refuses_it() {
    for line_bits in 0..40 {
        for (ways, block_bits) in [(1, 1), (2, 24), (3, 8), (4, 0), (4, 25), (8, 8)] {
            let text = format!("[spv]\nline_bits = {line_bits}\nways = {ways}\nblock_bits = {block_bits}\n");
            let geometry = Geometry {
                line_bits,
                ways,
                block_bits,
                ..Geometry::default()
            };
            assert_eq!(check(&text).is_err(), geometry.fault().is_some(), "{text}");
        }
    }
}

#[test]
fn all_issues_are_reported_in_the_order_of_their_lines() {
    let text = "[spv]\nways = 3\nlease_s = 0\n[datapath]\nqueue = 0\n";
    let error = ConfigError {
        file: "a.toml".into(),
        issues: check(text).err().unwrap(),
    };
    let said = "a.toml:2: [spv] ways = 3: must be 1, 2 or 4\n\
                a.toml:3: [spv] lease_s = 0: must be 1 to 3600\n\
                a.toml:5: [datapath] queue = 0: must be 1 to 1048576";
    assert_eq!(error.to_string(), said);
    let error = Config::read(Path::new("/nowhere/at/all.toml"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("/nowhere/at/all.toml: No such file"), "{error}");
}

#[test]
fn values_of_the_file_replace_the_defaults() {
    let text = "[console]\nlisten = \"[::1]:0\"\nallowed_hosts = [\"lineside-1\", \"a.b_c.example\"]\n\
                [datapath]\nkind = \"xdp\"\nthreads = 3\n\
                [spv]\ndata = \"/var/lib/lineside\"\nindex = \"disk\"\nnetwork = \"mainnet\"\nprefill = \"all\"\n";
    let checked = check(text).ok().unwrap();
    assert_eq!(checked.console.listen, "[::1]:0".parse().unwrap());
    assert_eq!(checked.console.allowed_hosts, ["lineside-1", "a.b_c.example"]);
    assert_eq!(
        (checked.datapath.kind, checked.datapath.socket_threads()),
        (DatapathKind::Xdp, 3)
    );
    let spv: SpvConfig = read(text, "spv");
    assert_eq!(spv.data(), Some(Path::new("/var/lib/lineside")));
    assert_eq!((spv.index, spv.prefill), (IndexName::Disk, Prefill::All));
    comes_back(text);
}

#[test]
fn risky_settings_are_warned_of() {
    let text = format!("[console]\nlisten = \"0.0.0.0:7700\"\n{SPV}paper_index = true\n");
    let warnings = check(&text).ok().unwrap().warnings();
    let keys = ["[console] listen", "[spv] paper_index"];
    assert_eq!(warnings.len(), keys.len());
    for (warning, key) in warnings.iter().zip(keys) {
        assert!(warning.starts_with(key), "{warning}");
    }
}

#[test]
fn a_node_without_credentials_is_refused_and_the_message_says_how_to_give_them() {
    let issue = only_issue("[spv]\nnode = \"bitcoind://localhost:8332\"\n");
    assert_eq!(issue.line, Some(2));
    for way in ["`node_cookie`", "`node_password`", "LINESIDE_NODE_PASSWORD"] {
        assert!(issue.what.contains(way), "{issue:?}");
    }
}

#[test]
fn a_password_in_a_file_that_others_may_read_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lineside.toml");
    let password = format!("{SPV}node = \"bitcoind://user:secret@localhost:8332\"\n");
    for (text, mode, is_exposed) in [
        (&*password, 0o600, false),
        (&*password, 0o640, true),
        (&*password, 0o604, true),
        (SPV, 0o644, false),
    ] {
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let warnings = Config::read(&path).unwrap().check().ok().unwrap().warnings();
        assert_eq!(warnings.len(), usize::from(is_exposed), "{mode:o}: {warnings:?}");
        for warning in warnings {
            let file = path.display().to_string();
            assert!(
                warning.contains(&file) && warning.contains("chmod 600"),
                "{warning}"
            );
            assert!(!warning.contains("secret"), "{warning}");
        }
    }
}

#[test]
fn column_names_and_the_papers_parameters_are_checked() {
    let cases = [
        ("columns = []", "[column] columns = there must be a column"),
        ("columns = [\"a:b\", \"a:b\"]", "\"a:b\" is listed twice"),
        ("columns = [\":b\"]", "\":b\": must be family:qualifier"),
        (
            "columns = [\"a:1\", \"b:1\", \"c:1\"]",
            "at most 2^l column families",
        ),
        ("column_bits = 4", "[column] column_bits = l + m must be 0 to 4"),
        ("row_bits = 2", "[column] row_bits = n must be b to 21"),
        ("value_bits = 6", "[column] value_bits = a must be 0 to 5"),
        ("block_bits = 4", "[column] block_bits = b must be 0 to 3"),
    ];
    for (line, said) in cases {
        let issue = only_issue(&format!("[column]\n{line}\n"));
        assert!(issue.what.contains(said), "{issue:?} does not say {said}");
        assert_eq!(issue.line, Some(2));
    }
}

#[test]
fn an_hbase_url_is_parsed_and_only_ttl_allows_stale_reads() {
    let text = "[column]\nenabled = true\nstore = \"thrift2://[::1]:9090/ns:t\"\n";
    let column: ColumnConfig = read(text, "column");
    let (gateway, table) = ("[::1]:9090".into(), "ns:t".into());
    assert_eq!(column.store, TableName::Thrift2 { gateway, table });
    assert!(!column.geometry().may_be_stale);
    assert!(check(text).ok().unwrap().warnings().is_empty());
    let by_ttl = format!("{text}coherence = \"ttl\"\n");
    assert!(read::<ColumnConfig>(&by_ttl, "column").geometry().may_be_stale);
    assert!(check(&by_ttl).ok().unwrap().warnings()[0].starts_with("[column] coherence"));
    comes_back(&by_ttl);
    let native = by_ttl.replace("thrift2://", "hbase://a:16000,");
    let column: ColumnConfig = read(&native, "column");
    let (servers, table) = (vec!["a:16000".into(), "[::1]:9090".into()], "ns:t".into());
    assert_eq!(column.store, TableName::HBase { servers, table });
    assert!(column.geometry().may_be_stale);
    comes_back(&native);
    let memory: ColumnConfig = read("[column]\ncoherence = \"ttl\"\n", "column");
    assert!(
        !memory.geometry().may_be_stale,
        "the table reports its own changes"
    );
}

#[test]
fn hybrid_serves_udp_by_default_only_with_grpc_without_tls() {
    let text = "[hybrid]\nenabled = true\ndata = \"d\"\n";
    let plain: HybridConfig = read(text, "hybrid");
    assert_eq!(plain.udp(), Some(plain.listen));
    let warnings = |text: &str| check(text).ok().unwrap().warnings();
    assert!(warnings(text).is_empty());
    let tls = format!("{text}certificate = \"c\"\nkey = \"k\"\nlog = \"kafka://[::1]:9092,b:1/t\"\n");
    assert_eq!(read::<HybridConfig>(&tls, "hybrid").udp(), None);
    comes_back(&tls);
    let both = format!("{tls}udp = \"192.0.2.1:1\"\n");
    let address = Some("192.0.2.1:1".parse().unwrap());
    assert_eq!(read::<HybridConfig>(&both, "hybrid").udp(), address);
    assert!(warnings(&both)[0].starts_with("[hybrid] requests by UDP"));
    let off = format!("{text}udp = \"off\"\nlisten = \"0.0.0.0:1\"\n");
    assert_eq!(read::<HybridConfig>(&off, "hybrid").udp(), None);
    assert!(warnings(&off)[0].starts_with("[hybrid] listen"));
}

#[test]
fn an_address_outside_the_loopback_is_warned_of() {
    let text = "[console]\nlisten = \"0.0.0.0:7700\"\n[fabric]\nenabled = true\ndata = \"d\"\norderers = [\"o:7050\"]\n\
                msp_id = \"Org1MSP\"\nmsp = \"m\"\n";
    let warnings = |text: &str| check(text).ok().unwrap().warnings();
    assert_eq!(warnings(text).len(), 1);
    assert!(warnings(text)[0].starts_with("[console] listen"));
    let open = format!("{text}listen = \"0.0.0.0:7051\"\n");
    assert!(warnings(&open)[1].starts_with("[fabric] listen = 0.0.0.0:7051: without `certificate`"));
    let tls = format!("{open}certificate = \"c\"\nkey = \"k\"\n");
    assert_eq!(warnings(&tls).len(), 1);
}

#[test]
fn only_a_service_without_a_fast_path_may_have_several_tables() {
    for name in [
        "spv", "transfer", "column", "hybrid", "console", "datapath", "process",
    ] {
        let issue = only_issue(&format!("# one\n[[{name}]]\n[[{name}]]\n"));
        assert_eq!(issue.line, Some(2), "{issue:?}");
        assert!(issue.what.contains("must be one table"), "{issue:?}");
    }
    let mut config =
        Config::parse("[[fabric]]\n[[fabric]]\nlisten = \"127.0.0.1:7052\"\n", SERVICES).unwrap();
    assert_eq!(config.check().ok().unwrap().services.len(), 2);
    assert!(
        config
            .set("fabric.enabled=true")
            .unwrap_err()
            .contains("several tables")
    );
}
