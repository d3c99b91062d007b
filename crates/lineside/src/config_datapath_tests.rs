//! Tests of what the section `[datapath]` and the services must agree on.

use super::tests::{SPV, check, comes_back, only_issue};
use super::*;

#[test]
fn one_interface_or_a_list_of_interfaces_is_accepted_but_not_both() {
    let of = |text: &str| match check(text) {
        Ok(config) => config.datapath.interfaces,
        Err(issues) => panic!("{text}: {issues:?}"),
    };
    assert_eq!(of(""), ["lo"]);
    assert_eq!(of("[datapath]\ninterface = \"eth0\"\n"), ["eth0"]);
    let two = "[datapath]\ninterfaces = [\"eth1\", \"eth0\"]\n";
    assert_eq!(of(two), ["eth1", "eth0"]);
    comes_back(two);
    comes_back("[datapath]\ninterface = \"eth0\"\n");
    let both = only_issue(&format!("{two}interface = \"eth0\"\n"));
    assert_eq!(both.line, Some(3));
    assert!(both.what.contains("remove one of the two"), "{both:?}");
    // Both keys together are also refused if one of them has its default value.
    let both = only_issue("[datapath]\ninterface = \"eth0\"\ninterfaces = [\"lo\"]\n");
    assert!(both.what.contains("remove one of the two"), "{both:?}");
    let nine = only_issue(
        "[datapath]\ninterfaces = [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\", \"i\"]\n",
    );
    assert!(nine.what.contains("9 names: must be 1 to 8 names"), "{nine:?}");
    let twice = only_issue("[datapath]\ninterfaces = [\"a\", \"b\", \"a\"]\n");
    assert!(twice.what.contains("\"a\" is listed twice"), "{twice:?}");
    // The option `--interface` replaces whichever of the two keys the file has.
    for file in [two, "[datapath]\ninterface = \"eth0\"\n"] {
        let mut config = Config::parse(file, SERVICES).unwrap();
        DatapathConfig::set_interfaces(&mut config.datapath, &[]);
        assert_eq!(config.check().ok().unwrap().datapath.interfaces, of(file));
        DatapathConfig::set_interfaces(&mut config.datapath, &["a".into(), "b".into()]);
        assert_eq!(config.check().ok().unwrap().datapath.interfaces, ["a", "b"]);
    }
}

/// Regression test: `check-config` accepted files that no server starts with.
#[test]
fn services_that_the_datapath_cannot_serve_are_refused_before_the_start() {
    let with = |datapath: &str, more: &str| {
        let issue = only_issue(&format!("{SPV}{more}[datapath]\n{datapath}\n"));
        assert!(issue.line.is_some(), "{issue:?}");
        issue.what
    };
    let transfer = "[transfer]\nenabled = true\ndata = \"d\"\nlisten = \"127.0.0.2:7702\"\n";
    let what = with("kind = \"xdp\"", transfer);
    let expected =
        "[datapath] kind = \"xdp\": 127.0.0.1:7701 and 127.0.0.2:7702 are at different addresses: ";
    assert!(what.starts_with(expected), "{what}");
    let what = with("kind = \"xdp\"", "listen = \"127.0.0.1:0\"\n");
    assert!(what.contains("needs a fixed port"), "{what}");
    let what = with("kind = \"rtl\"", "");
    let expected = "[datapath] kind = \"rtl\": 127.0.0.1:7701 is in no network of the TAP device";
    assert!(what.starts_with(expected), "{what}");
    let column = "[column]\nenabled = true\n[datapath]\n";
    let what = only_issue(&format!("{column}kind = \"rtl\"\n")).what;
    let expected = "[datapath] kind = \"rtl\": no enabled service has a fast path in the RTL; ";
    assert!(what.starts_with(expected), "{what}");
    let what = only_issue(&format!("{column}queue = 1048576\n")).what;
    assert!(
        what.starts_with("[datapath] queue = 1048576: the requests of [column] take"),
        "{what}"
    );
    for accepted in [
        "[datapath]\nkind = \"rtl\"\n".to_owned(),
        format!("{SPV}{transfer}[datapath]\nkind = \"auto\"\n"),
        format!("{SPV}{transfer}[datapath]\nkind = \"xdp\"\ninterfaces = [\"a\", \"b\"]\n"),
        format!("{SPV}listen = \"10.77.0.2:7701\"\n[datapath]\nkind = \"rtl\"\n"),
    ] {
        assert_eq!(check(&accepted).err(), None, "{accepted}");
    }
    let rtl = check(&format!(
        "{SPV}listen = \"10.77.0.2:7701\"\n[datapath]\nkind = \"rtl\"\n"
    ));
    let startable = rtl.ok().unwrap().require_startable();
    assert_eq!(startable.is_ok(), HAS_SIMULATED_NIC, "{startable:?}");
}

/// The network of the TAP device is 10.77.0.1/24 unless the section says otherwise, and the NIC of `spv` has 10.77.0.2.
#[test]
fn addresses_and_names_that_a_tap_device_cannot_have_are_refused() {
    for (datapath, more, expected) in [
        (
            "tap = \"lo\"",
            "",
            "[datapath] tap = \"lo\": the loopback interface has this name",
        ),
        (
            "tap = \"all\"",
            "",
            "[datapath] tap = \"all\": must be an interface's name",
        ),
        ("tap = \"default\"", "", "[datapath] tap = \"default\": must be"),
        (
            "tap = \"lineside%d\"",
            "",
            "[datapath] tap = \"lineside%d\": must be",
        ),
        ("tap = \"a\\u0000b\"", "", "[datapath] tap = \"a\\0b\": must be"),
        (
            "tap_addresses = [\"10.77.0.1/024\"]",
            "",
            "[datapath] tap_addresses = \"10.77.0.1/024\": must be an address with the length",
        ),
        (
            "tap_addresses = [\"10.77.0.1/24\", \"224.0.0.1/4\"]",
            "",
            "[datapath] tap_addresses = \"224.0.0.1/4\" is a multicast address; give an address of one machine",
        ),
        (
            "tap_addresses = [\"10.77.0.1/24\", \"10.77.0.1/16\"]",
            "",
            "[datapath] tap_addresses = \"10.77.0.1/16\" has the same address as \"10.77.0.1/24\"; remove",
        ),
        (
            "tap_addresses = [\"10.77.0.1/24\", \"10.77.0.2/24\"]",
            "",
            "[datapath] kind = \"rtl\": 10.77.0.2:7701: the address of the NIC must have a port other than 0",
        ),
        (
            "",
            "[console]\nlisten = \"10.77.0.1:7700\"\n",
            "[console] listen = \"10.77.0.1:7700\": the console cannot listen in the network of the TAP device",
        ),
        (
            "",
            "[console]\nlisten = \"10.77.0.3:7700\"\n",
            "[console] listen = \"10.77.0.3:7700\": the console cannot listen in the network of the TAP device",
        ),
    ] {
        let text =
            format!("{SPV}listen = \"10.77.0.2:7701\"\n{more}[datapath]\nkind = \"rtl\"\n{datapath}\n");
        let issue = only_issue(&text);
        assert!(issue.what.starts_with(expected), "{}", issue.what);
    }
    let electrum = |address: &str| {
        format!("{SPV}listen = \"10.77.0.2:7701\"\nelectrum = \"{address}\"\n[datapath]\nkind = \"rtl\"\n")
    };
    let what = only_issue(&electrum("10.77.0.2:50001")).what;
    let expected =
        "[spv] electrum = \"10.77.0.2:50001\": this machine does not have this address of the TAP device";
    assert!(what.starts_with(expected), "{what}");
    for accepted in ["10.77.0.1:50001", "127.0.0.1:50001", "0.0.0.0:50001"] {
        assert_eq!(check(&electrum(accepted)).err(), None, "{accepted}");
    }
    // On the other datapaths these addresses may belong to this machine.
    let other = electrum("10.77.0.2:50001").replace("\"rtl\"", "\"socket\"");
    assert_eq!(check(&other).err(), None, "{other}");
}

#[test]
fn a_fast_path_that_ends_with_its_server_cannot_be_kept() {
    let text = "[datapath]\nkeep_fast_path = true\n[column]\nenabled = true\n";
    let issue = only_issue(text);
    assert_eq!(issue.line, Some(2));
    assert!(
        issue
            .what
            .contains("the fast path of column always ends with its server"),
        "{issue:?}"
    );
    assert_eq!(
        check(&format!("[datapath]\nkeep_fast_path = true\n{SPV}")).err(),
        None
    );
}
