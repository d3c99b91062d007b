use super::*;

const SHOWN: &str = include_str!("../../../lineside.toml");

/// Section and key of everything that can be set.
fn keys() -> Vec<(String, String)> {
    let defaults = toml::Table::try_from(Config::default()).unwrap();
    let sections = defaults
        .iter()
        .map(|(section, keys)| (section, keys.as_table().unwrap()));
    sections
        .flat_map(|(section, keys)| keys.keys().map(move |key| (section.clone(), key.clone())))
        .collect()
}

fn only_fault(text: &str) -> Fault {
    let mut faults = Config::parse(text).expect_err(text);
    assert_eq!(faults.len(), 1, "{faults:?}");
    faults.remove(0)
}

#[test]
fn the_shown_file_has_every_key_with_its_default() {
    assert_eq!(Config::parse(SHOWN), Ok(Config::default()));
    assert_eq!(Config::parse(""), Ok(Config::default()));
    let shown: toml::Table = SHOWN.parse().unwrap();
    for (section, key) in keys() {
        let is_shown = shown.get(&section).is_some_and(|keys| keys.get(&key).is_some());
        assert!(is_shown, "lineside.toml lacks [{section}] {key}");
        let line = line_of(SHOWN, &section, &key).unwrap();
        let before = SHOWN.lines().nth(line - 2).unwrap();
        assert!(before.starts_with("# "), "[{section}] {key} is not explained");
    }
    assert_eq!(keys().len(), 67);
    assert!(Config::default().warnings().is_empty());
}

#[test]
fn the_defaults_are_those_of_the_parts() {
    let config = Config::default();
    assert_eq!(config.spv.geometry(), Geometry::default());
    assert_eq!(config.spv.lease(), Duration::from_secs(60));
    assert_eq!(config.spv.data(), None);
    let column = lineside_column::store::Geometry {
        columns: vec!["entry:foo".into()],
        ..lineside_column::store::Geometry::default()
    };
    assert_eq!(config.column.geometry(), column);
    assert_eq!(column.fault(), None);
    assert_eq!(config.column.listen.port(), lineside_wire::COLUMN_PORT);
    assert_eq!(config.console.listen.port(), CONSOLE_PORT);
    assert!(config.datapath.threads() > 0);
}

#[test]
fn unknown_keys_are_refused_everywhere() {
    for section in ["console", "datapath", "spv", "transfer", "column", "hybrid"] {
        let fault = only_fault(&format!("\n[{section}]\nfrobnicate = 1\n"));
        assert_eq!(fault.line, Some(3));
        assert!(fault.what.contains("unknown field `frobnicate`"), "{fault:?}");
    }
    for text in ["[frobnicate]\n", "frobnicate = 1\n", "[spv.frobnicate]\nx = 1\n"] {
        let fault = only_fault(text);
        assert!(fault.what.contains("frobnicate"), "{fault:?}");
    }
    // Every key one letter too long.
    for (section, key) in keys() {
        let fault = only_fault(&format!("[{section}]\n{key}x = 1\n"));
        assert_eq!(fault.line, Some(2));
        assert!(
            fault.what.contains(&format!("unknown field `{key}x`")),
            "{fault:?}"
        );
    }
}

#[test]
fn wrong_types_are_refused_for_every_key() {
    let says_type = |what: &str| what.contains("expected") || what.contains("wanted");
    for (section, key) in keys() {
        for value in ["1.5", "{ a = 1 }", "[[]]"] {
            let fault = only_fault(&format!("[{section}]\n# a comment\n{key} = {value}\n"));
            assert_eq!(fault.line, Some(3), "{fault:?}");
            assert!(says_type(&fault.what) && fault.what.contains(&key), "{fault:?}");
        }
    }
    let fault = only_fault("[spv]\nlisten = \n");
    assert_eq!(fault.line, Some(2));
    let fault = only_fault("[spv]\nways = 2\nways = 4\n");
    assert!(fault.what.contains("duplicate key"), "{fault:?}");
}

#[test]
fn values_out_of_range_are_refused_with_what_is_allowed() {
    let cases = [
        ("console", "listen", "\"7700\"", "address"),
        ("console", "listen", "\"localhost:7700\"", "address"),
        ("console", "listen", "\"127.0.0.1:70000\"", "address"),
        ("datapath", "datapath", "\"rtl\"", "`auto`, `socket`, `xdp`"),
        ("datapath", "interface", "\"\"", "1 to 15 bytes"),
        ("datapath", "interface", "\"a/b\"", "1 to 15 bytes"),
        ("datapath", "interface", "\"sixteen-letters-\"", "1 to 15 bytes"),
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
            "listen",
            "\"127.0.0.1:7700\"",
            "another port than the console",
        ),
        (
            "spv",
            "network",
            "\"bitcoin\"",
            "`mainnet`, `testnet3`, `signet`, `regtest`",
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
        ("column", "coherence", "\"hope\"", "`none`, `ttl`, `coprocessor`"),
        ("column", "servers", "[\"rs1:7706\"]", "address"),
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
        let fault = only_fault(&format!("# one\n\n[{section}]\n{key} = {value}\n"));
        assert_eq!(fault.line, Some(4), "{fault:?}");
        assert!(fault.what.contains(key), "{fault:?} does not name {key}");
        assert!(fault.what.contains(allowed), "{fault:?} does not say {allowed}");
        let bare = value.trim_matches(['[', ']', '"']);
        assert!(fault.what.contains(bare), "{fault:?} does not say {value}");
    }
}

#[test]
fn what_is_named_twice_is_refused() {
    for (key, name) in [("servers", "[::1]:1"), ("columns", "entry:foo")] {
        let fault = only_fault(&format!("[column]\n{key} = [\"{name}\", \"{name}\"]\n"));
        assert_eq!(fault.line, Some(2), "{fault:?}");
        for said in [key, name, "is there twice"] {
            assert!(fault.what.contains(said), "{fault:?} does not say {said}");
        }
    }
}

#[test]
fn servers_must_be_able_to_name_where_notices_are_heard() {
    let told = |listen: &str| {
        format!(
            "[column]\nstore = \"hbase://host:1/t\"\ncoherence = \"coprocessor\"\nservers = [\"127.0.0.1:1\"]\n\
             notify_key_file = \"key\"\nnotify_listen = \"{listen}:7707\"\n"
        )
    };
    let fault = only_fault(&told("0.0.0.0"));
    assert_eq!(fault.line, Some(6), "{fault:?}");
    assert!(fault.what.contains("lineside.subscribers"), "{fault:?}");
    assert!(Config::parse(&told("192.0.2.1")).is_ok());
}

#[test]
fn the_limits_are_the_stores() {
    for line_bits in 0..40 {
        for (ways, block_bits) in [(1, 1), (2, 24), (3, 8), (4, 0), (4, 25), (8, 8)] {
            let text = format!("[spv]\nline_bits = {line_bits}\nways = {ways}\nblock_bits = {block_bits}\n");
            let geometry = Geometry {
                line_bits,
                ways,
                block_bits,
                ..Geometry::default()
            };
            assert_eq!(
                Config::parse(&text).is_err(),
                geometry.fault().is_some(),
                "{text}"
            );
        }
    }
}

#[test]
fn all_faults_are_said_in_the_order_of_their_lines() {
    let text = "[spv]\nways = 3\nlease_s = 0\n[datapath]\nqueue = 0\n";
    let faults = Config::parse(text).unwrap_err();
    let error = ConfigError {
        file: "a.toml".into(),
        faults,
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
fn what_is_set_is_taken() {
    let text = "[console]\nlisten = \"[::1]:0\"\n[datapath]\nplane = \"xdp\"\nthreads = 3\n\
                [spv]\ndata = \"/var/lib/lineside\"\nindex = \"disk\"\nnetwork = \"mainnet\"\nprefill = \"all\"\n";
    let config = Config::parse(text).unwrap();
    assert_eq!(config.console.listen, "[::1]:0".parse().unwrap());
    assert_eq!(
        (config.datapath.datapath, config.datapath.threads()),
        (DatapathName::Xdp, 3)
    );
    assert_eq!(config.spv.data(), Some(Path::new("/var/lib/lineside")));
    assert_eq!(
        (config.spv.index, config.spv.prefill),
        (IndexName::Disk, Prefill::All)
    );
    let written = toml::to_string(&config).unwrap();
    assert_eq!(Config::parse(&written), Ok(config));
}

#[test]
fn warnings_say_what_is_risky() {
    let text = "[console]\nlisten = \"0.0.0.0:7700\"\n\
                [spv]\npaper_index = true\n";
    let warnings = Config::parse(text).unwrap().warnings();
    let keys = ["[console] listen", "[spv] paper_index"];
    assert_eq!(warnings.len(), keys.len());
    for (warning, key) in warnings.iter().zip(keys) {
        assert!(warning.starts_with(key), "{warning}");
    }
}

#[test]
fn columns_and_the_papers_parameters_are_checked() {
    let cases = [
        ("columns = []", "[column] columns = there must be a column"),
        ("columns = [\"a:b\", \"a:b\"]", "\"a:b\" is there twice"),
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
        let fault = only_fault(&format!("[column]\n{line}\n"));
        assert!(fault.what.contains(said), "{fault:?} does not say {said}");
        assert_eq!(fault.line, Some(2));
    }
    let fault = only_fault("[column]\nenabled = true\nlisten = \"127.0.0.1:7701\"\n");
    assert!(fault.what.contains("another port than spv"), "{fault:?}");
}

#[test]
fn a_table_in_hbase_is_taken_apart_and_may_be_stale_only_by_ttl() {
    let text = "[column]\nenabled = true\nstore = \"thrift2://[::1]:9090/ns:t\"\n";
    let config = Config::parse(text).unwrap();
    let (gateway, table) = ("[::1]:9090".into(), "ns:t".into());
    assert_eq!(config.column.store, TableName::Thrift2 { gateway, table });
    assert!(!config.column.geometry().may_be_stale);
    assert!(config.warnings().is_empty());
    let config = Config::parse(&format!("{text}coherence = \"ttl\"\n")).unwrap();
    assert!(config.column.geometry().may_be_stale);
    assert!(config.warnings()[0].starts_with("[column] coherence"));
    assert_eq!(Config::parse(&toml::to_string(&config).unwrap()), Ok(config));
    let native = text.replace("thrift2://", "hbase://a:16000,");
    let config = Config::parse(&format!("{native}coherence = \"ttl\"\n")).unwrap();
    let (servers, table) = (vec!["a:16000".into(), "[::1]:9090".into()], "ns:t".into());
    assert_eq!(config.column.store, TableName::HBase { servers, table });
    assert!(config.column.geometry().may_be_stale);
    assert_eq!(Config::parse(&toml::to_string(&config).unwrap()), Ok(config));
    let memory = Config::parse("[column]\ncoherence = \"ttl\"\n").unwrap();
    assert!(!memory.column.geometry().may_be_stale, "it tells itself");
}

#[test]
fn udp_of_hybrid_goes_with_grpc_but_not_beside_tls() {
    let text = "[hybrid]\nenabled = true\ndata = \"d\"\n";
    let plain = Config::parse(text).unwrap();
    assert_eq!(plain.hybrid.udp(), Some(plain.hybrid.listen));
    assert!(plain.warnings().is_empty());
    let tls = format!("{text}certificate = \"c\"\nkey = \"k\"\nlog = \"kafka://[::1]:9092,b:1/t\"\n");
    let config = Config::parse(&tls).unwrap();
    assert_eq!(config.hybrid.udp(), None);
    assert_eq!(Config::parse(&toml::to_string(&config).unwrap()), Ok(config));
    let both = Config::parse(&format!("{tls}udp = \"192.0.2.1:1\"\n")).unwrap();
    assert_eq!(both.hybrid.udp(), Some("192.0.2.1:1".parse().unwrap()));
    assert!(both.warnings()[0].starts_with("[hybrid] requests by UDP"));
    let off = Config::parse(&format!("{text}udp = \"off\"\nlisten = \"0.0.0.0:1\"\n")).unwrap();
    assert_eq!(off.hybrid.udp(), None);
    assert!(off.warnings()[0].starts_with("[hybrid] listen"));
    let fault = only_fault(&format!("{text}udp = \"127.0.0.1:7701\"\n"));
    assert!(fault.what.contains("another port than spv"), "{fault:?}");
    let fault = only_fault(&format!("{text}listen = \"127.0.0.1:7700\"\n"));
    assert!(fault.what.contains("another port than the console"), "{fault:?}");
}
