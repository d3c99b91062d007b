//! Test that a mini HBase starts, executes commands, and ends when it is dropped.

use lineside_hbase_mini::{Error, Jars, Options};
use std::net::TcpStream;

#[test]
fn a_mini_hbase_starts_runs_commands_and_stops() {
    let jars = match Jars::build() {
        Err(error @ Error::NotHere(_)) => {
            eprintln!("skipped: {error}");
            return;
        }
        jars => jars.unwrap(),
    };
    let mut hbase = jars.start(&Options::default()).unwrap();
    let ports = hbase.ports;
    for port in [ports.zookeeper, ports.master, ports.regionserver, ports.thrift] {
        assert!(TcpStream::connect(("127.0.0.1", port)).is_ok(), "{ports:?}");
    }
    assert_eq!(hbase.command("create table entry m").unwrap(), "");
    assert_eq!(hbase.command("regions table").unwrap(), "2");
    hbase.command("split table q").unwrap();
    assert_eq!(hbase.command("regions table").unwrap(), "3");
    let refused = hbase.command("drop nothing").unwrap_err().to_string();
    assert!(refused.contains("TableNotFoundException"), "{refused}");
    let folder = hbase.folder().to_owned();
    assert!(folder.join("hbase/data").is_dir());
    drop(hbase);
    assert!(!folder.exists());
    assert!(TcpStream::connect(("127.0.0.1", ports.thrift)).is_err());
}
