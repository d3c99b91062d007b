//! Tests of the fast path over a real HBase, whose coprocessor announces every change.

mod events;
mod kill;
mod relay;
mod rig;

use lineside_column::hbase::Listener;
use lineside_column::host::{CLOCK_SLACK_NS, CoherenceMode};
use lineside_column::servers::Servers;
use lineside_column::table::{Change, ColumnName, Nonce};
use lineside_conformance::history::{self, Over};
use lineside_hbase_mini::{HBase, Jars, Options};
use relay::Relay;
use rig::{COLUMN, Rig, free_address, until};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Default number of cells answered by the fast path that the test checks.
const READS: u64 = 10_000;
/// Number of notices and acknowledgements that the relay must have lost before the test ends.
const LOST: u64 = 5;
/// Maximum time until the relay has lost them and the region is split.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

fn load(hbase: &mut HBase, jars: &Jars, table: &str, subscribers: &str) {
    let jar = jars.module("observer").unwrap();
    // Each copy has a new name, so that HBase loads the classes again.
    let copy = hbase.folder().join(format!("{table}.jar"));
    std::fs::copy(jar, &copy).unwrap();
    let command = format!("load {table} {} {subscribers}", copy.display());
    hbase.command(&command).unwrap();
}

#[test]
fn the_fast_path_over_hbase_is_never_stale() {
    let Some((jars, _alone)) = rig::jars() else {
        return;
    };
    let size = std::fs::metadata(jars.module("observer").unwrap()).unwrap().len();
    assert!(size < 16_000, "the jar has {size} bytes");
    let folder = tempfile::tempdir().unwrap();
    let (server, lineside) = (free_address(), free_address());
    let options = Options {
        settings: rig::settings(folder.path(), server),
        ..Options::default()
    };
    let mut hbase = jars.start(&options).unwrap();
    hbase.command("create events entry k").unwrap();
    let mut rig = Rig::new(&hbase, "events", lineside, &[server]);
    no_row_is_cached_without_the_coprocessor(&rig, &mut hbase);
    load(&mut hbase, &jars, "events", &lineside.to_string());
    events::every_change_is_told(&rig, &mut hbase, "events");
    events::cells_end_by_themselves(&rig, &mut hbase, "events");
    events::every_range_is_told(&rig, &mut hbase, "events");
    a_dead_subscriber_delays_only_one_write(&mut rig, lineside, server);
    drop(rig);
    check_history(&mut hbase, &jars, server);
    stale_reads_after_unannounced_changes_are_found(&mut hbase);
    let log = hbase.log();
    assert!(!log.contains("Lineside is not notified"), "{log}");
    assert!(!log.contains("cannot be sent to Lineside"), "{log}");
}

fn no_row_is_cached_without_the_coprocessor(rig: &Rig, hbase: &mut HBase) {
    hbase.command("put events first m").unwrap();
    for _ in 0..50 {
        assert_eq!(rig.get("m"), (Some(b"first".to_vec()), false));
    }
}

/// Checks that writes do not wait while a subscriber responds. When it stops responding, one write waits until the
/// lease has ended, and later writes do not wait.
fn a_dead_subscriber_delays_only_one_write(rig: &mut Rig, listen: SocketAddr, server: SocketAddr) {
    let column = ColumnName::new(COLUMN.as_bytes()).unwrap();
    let put = |rig: &Rig| {
        let began = Instant::now();
        let change = Change::Put(b"x".to_vec(), None);
        rig.table
            .change(b"m", &column, &change, Nonce::default())
            .unwrap();
        began.elapsed()
    };
    put(rig);
    rig.get_fastpath("m");
    drop(rig.listener.take());
    let first = put(rig);
    // The put that waited became visible only when the fast path no longer answered the old value.
    assert_eq!(rig.get("m"), (Some(b"x".to_vec()), false));
    // If each put waited until a lease has ended, ten puts would take ten seconds.
    let others: Duration = (0..10).map(|_| put(rig)).sum();
    assert!(first < Duration::from_secs(20), "{first:?}");
    assert!(others < Duration::from_secs(8), "{others:?}");
    let options = rig::options("events", listen, &[server], 1);
    let again = Listener::start(options, Arc::clone(&rig.servers), Box::new(|| {})).unwrap();
    rig.listener = Some(again);
    assert_eq!(rig.get_fastpath("m"), Some(b"x".to_vec()));
    println!("subscriber dead: first put {first:?}, ten more {others:?}");
}

/// Checks that the test finds stale reads if changes are not announced.
fn stale_reads_after_unannounced_changes_are_found(hbase: &mut HBase) {
    hbase.command("create untold entry").unwrap();
    let (store, coherence) = history::fastpath().unwrap();
    let options = history::Options {
        reads: 1_000_000,
        seed: 12,
        stop_at_fault: true,
        sabotage: None,
    };
    let over = Over {
        store,
        coherence,
        table: rig::connect(hbase, "untold"),
        coherence_mode: CoherenceMode::ByTable,
    };
    let report = history::run_over(&options, over, &mut |_| false).unwrap();
    assert!(report.stale > 0, "{report:#?}");
}

/// Runs readers and writers, through Lineside and directly in HBase, while a region is split and notices are lost.
fn check_history(hbase: &mut HBase, jars: &Jars, server: SocketAddr) {
    let [subscriber, lineside, as_server] = [0; 3].map(|_| free_address());
    hbase.command("create history entry").unwrap();
    load(hbase, jars, "history", &subscriber.to_string());
    let relay = Relay::start(server, subscriber, lineside, as_server);
    let (store, coherence) = history::fastpath().unwrap();
    let servers = Arc::new(Servers::all_of(Arc::clone(&coherence), CLOCK_SLACK_NS, 1));
    let options = rig::options("history", lineside, &[as_server], 2);
    let listener = Listener::start(options, Arc::clone(&servers), Box::new(|| {})).unwrap();
    let reads = std::env::var("LINESIDE_HBASE_READS");
    let options = history::Options {
        reads: reads.map_or(READS, |reads| reads.parse().unwrap()),
        seed: 11,
        stop_at_fault: false,
        sabotage: None,
    };
    let over = Over {
        store,
        coherence,
        table: rig::connect_rpc(hbase, "history"),
        coherence_mode: CoherenceMode::ByServers(servers),
    };
    let (mut step, began) = (0, Instant::now());
    let report = history::run_over(&options, over, &mut |fastpath| {
        match step {
            // The first half of the reads uses a good network, the next reads use a bad one, and the last ones run
            // while a region is split.
            0 if fastpath > options.reads / 2 => {
                relay.lose(100);
                step = 1;
            }
            1 if fastpath > options.reads * 3 / 4 && relay.lost() >= LOST => {
                hbase.command("split history 0040").unwrap();
                step = 2;
            }
            _ => {}
        }
        // On a fast machine, all reads may end before enough notices are lost.
        step < 2 && began.elapsed() < WAIT_TIMEOUT
    })
    .unwrap();
    let counts = listener.counts();
    let lost = relay.end();
    println!("{report:#?}\nlost {lost}, {counts:?}");
    assert_eq!((report.stale, report.wrong), (0, 0), "{:#?}", report.told);
    assert!(
        report.fastpath >= options.reads && report.changes > 100,
        "{report:#?}"
    );
    assert!(lost >= LOST && counts.accepted > 100, "{lost} lost, {counts:?}");
    until("the region is split", || {
        (hbase.command("regions history").unwrap() == "2").then_some(())
    });
}
