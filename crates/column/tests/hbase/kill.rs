//! Test that kills a region server: the fast path stops answering rows that it read from this server, and answers the
//! table's rows again after HBase has recovered.

use crate::rig::{self, Rig, free_address, until};
use lineside_hbase_mini::{Compilers, HBase, Jars, Options};
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Child;

const TABLE: &str = "killed";

/// A region server in a JVM of its own. Dropping this object kills it.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // `kill` returns an error if the server is already dead.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    fn start(jars: &Jars, hbase: &HBase, folder: &Path, listen: SocketAddr, subscribers: &str) -> Self {
        let class = "org.apache.hadoop.hbase.regionserver.HRegionServer";
        let mut java = jars.java(&["observer"], class, Compilers::First).unwrap();
        let data = hbase.folder().join("hbase/data");
        let observer = "lineside.observer.Observer";
        let mut settings = rig::settings(folder, listen);
        for (name, value) in [
            ("hbase.cluster.distributed", "true".into()),
            ("hbase.rootdir", format!("file://{}", data.display())),
            ("hbase.tmp.dir", folder.join("tmp").display().to_string()),
            ("hbase.zookeeper.quorum", "localhost".into()),
            (
                "hbase.zookeeper.property.clientPort",
                hbase.ports.zookeeper.to_string(),
            ),
            ("zookeeper.session.timeout", "4000".into()),
            ("hbase.unsafe.stream.capability.enforce", "false".into()),
            ("hbase.regionserver.hostname", "localhost".into()),
            ("hbase.regionserver.ipc.address", "127.0.0.1".into()),
            ("hbase.regionserver.port", "0".into()),
            ("hbase.regionserver.info.port", "-1".into()),
            ("hbase.regionserver.msginterval", "200".into()),
            ("hbase.coprocessor.user.region.classes", observer.into()),
            ("hbase.coprocessor.regionserver.classes", observer.into()),
            ("lineside.subscribers", subscribers.to_owned()),
        ] {
            settings.push((name.to_owned(), value));
        }
        for (name, value) in settings {
            java.arg("-D").arg(format!("{name}={value}"));
        }
        let log = File::create(folder.join(format!("log-{}", listen.port()))).unwrap();
        java.arg("start").stdout(log.try_clone().unwrap()).stderr(log);
        Self(java.spawn().unwrap())
    }
}

fn row(number: usize) -> String {
    format!("{number:02}")
}

#[test]
fn a_killed_region_server_leaves_nothing_stale() {
    let Some((jars, _alone)) = rig::jars() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let [first, second, lineside, other] = [0; 4].map(|_| free_address());
    let subscribers = format!("{lineside},{other}");
    let options = Options {
        region_servers: 0,
        ..Options::default()
    };
    let mut hbase = jars.start(&options).unwrap();
    let start = |hbase: &HBase, listen| Server::start(&jars, hbase, folder.path(), listen, &subscribers);
    let killed = start(&hbase, first);
    let _stays = start(&hbase, second);
    until("a table", || {
        hbase.command(&format!("create {TABLE} entry 25 50 75")).ok()
    });
    let rig = Rig::new(&hbase, TABLE, lineside, &[first, second]);
    let apart = Rig::told_apart(&hbase, TABLE, other, &[first, second]);
    let rows: String = (0..100).map(|number| format!(" {}", row(number))).collect();
    hbase.command(&format!("put {TABLE} before{rows}")).unwrap();
    // HBase has written the first values to the disk. The next values are in the fast path, but may be lost with the
    // server.
    hbase.command(&format!("flush {TABLE}")).unwrap();
    hbase.command(&format!("put {TABLE} after{rows}")).unwrap();
    for number in 0..100 {
        for rig in [&rig, &apart] {
            assert_eq!(rig.get_fastpath(&row(number)), Some(b"after".to_vec()));
        }
    }
    drop(killed);
    until("the fast path stops answering", || match rig.try_get(&row(0)) {
        Some((_, true)) => None,
        _ => Some(()),
    });
    // If rows are attributed to servers, the fast path still answers the rows of the live server, before HBase has
    // noticed the failure of the other one.
    let held = || -> Vec<_> { (0..100).filter_map(|number| apart.held(&row(number))).collect() };
    until("the fast path drops the killed server's rows", || {
        (held().len() < 100).then_some(())
    });
    let live = held();
    assert!((25..=75).contains(&live.len()), "{} rows", live.len());
    assert!(live.iter().all(|said| said.as_deref() == Some(b"after")));
    // After the recovery, the other server serves all regions. Without attribution, the fast path caches nothing while
    // the first server grants no lease.
    for number in 0..100 {
        let (said, by_fastpath) = rig.get(&row(number));
        assert!(!by_fastpath, "row {number}");
        assert_eq!(said, rig.truth(&row(number)));
    }
    for number in 0..100 {
        let said = apart.get_fastpath(&row(number));
        assert_eq!(said, rig.truth(&row(number)), "row {number}");
    }
    let _again = start(&hbase, first);
    let mut lost = 0;
    for number in 0..100 {
        let said = rig.get_fastpath(&row(number));
        assert_eq!(said, rig.truth(&row(number)), "row {number}");
        lost += u32::from(said.as_deref() != Some(b"after"));
    }
    println!("{lost} of 100 rows were lost with the server");
}
