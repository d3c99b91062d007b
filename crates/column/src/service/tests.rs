//! Tests of the status that describes the coherence with the table's servers. The test itself plays the servers.

use super::*;
use crate::hbase::notice::Notice;
use lineside_wire::{COLUMN_NOTICE_ASK, COLUMN_NOTICE_BYTES_MAX, COLUMN_NOTICE_GRANT, COLUMN_NOTICE_POST};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

fn key() -> NoticeKey {
    NoticeKey::new(&[0x5a; 32]).unwrap()
}

fn server() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(WAIT_TIMEOUT)).unwrap();
    socket
}

/// Returns the configuration of a table in HBase with this name. The test never contacts HBase.
fn in_hbase(table: &str) -> TableName {
    TableName::HBase {
        servers: vec!["127.0.0.1:1".into()],
        table: table.into(),
    }
}

/// Returns the subscription of a table in HBase to notices of these servers.
fn told(store: TableName, servers: &[UdpSocket]) -> HBaseSubscription {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, "5a".repeat(32)).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let config = ColumnConfig {
        store,
        coherence: CoherenceName::Coprocessor,
        notify_listen: "127.0.0.1:0".parse().unwrap(),
        servers: servers.iter().map(|one| one.local_addr().unwrap()).collect(),
        notify_key_file: file,
        ..ColumnConfig::default()
    };
    let store = Arc::new(Store::anonymous(&config.geometry()).unwrap());
    let coherence = Arc::new(Coherence::new(Box::new(ColumnWriter::new(store))));
    let table: Arc<dyn Table> = Arc::new(Embedded::in_memory(system_clock()));
    let key = read_notify_key(&config.notify_key_file).unwrap();
    HBaseSubscription::new(&config, Some(key), &table, &coherence).unwrap()
}

/// Regression test: the message named neither the key of the configuration nor the length, and the exit code was that
/// of a failure, so systemd started the server again and again.
#[test]
fn a_short_key_is_a_wrong_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    for digits in ["5a".repeat(31), String::new()] {
        std::fs::write(&file, &digits).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        let error = read_notify_key(&file).expect_err("it is too short");
        assert!(error.is::<UsageError>(), "{error:?}");
        let bytes = counted(digits.len() / 2, "byte");
        for said in [
            "[column] notify_key_file = ",
            &file.display().to_string(),
            &bytes,
            "at least 32 bytes (64 hex digits)",
        ] {
            assert!(error.to_string().contains(said), "{error} lacks {said}");
        }
        let config = ColumnConfig {
            store: in_hbase("t"),
            coherence: CoherenceName::Coprocessor,
            notify_key_file: file.clone(),
            ..ColumnConfig::default()
        };
        let service = ColumnService {
            config,
            disk: None,
            new_directory: None,
            notify_key: None,
        };
        let warnings = service.file_warnings();
        assert!(warnings[0].contains("at least 32 bytes"), "{warnings:?}");
    }
}

/// Returns the next lease request that a server receives, and its sender.
fn asked(server: &UdpSocket) -> (Notice, SocketAddr) {
    let mut bytes = [0; COLUMN_NOTICE_BYTES_MAX];
    let (length, from) = server.recv_from(&mut bytes).expect("a question");
    let notice = Notice::parse(&bytes[..length], &key()).expect("signed with the file's key");
    assert_eq!(notice.head.kind, COLUMN_NOTICE_ASK);
    (notice, from)
}

fn says(server: &UdpSocket, to: SocketAddr, kind: u8, change: impl FnOnce(&mut Notice)) {
    let mut notice = Notice::new(kind, b"rows");
    notice.head.server.set(server.local_addr().unwrap().port().into());
    change(&mut notice);
    server.send_to(&notice.to_bytes(&key()).unwrap(), to).unwrap();
}

/// Waits until `is_it` returns true for the number of unknown servers, the number of leases, and the problems.
fn until(told: &HBaseSubscription, is_it: impl Fn(u64, u64, &[String]) -> bool) {
    let began = Instant::now();
    loop {
        let (mut status, mut problems) = (ServiceStatus::default(), Vec::new());
        told.status(&mut status, &mut problems);
        let of = |metric: lineside_wire::Metric| status.host[metric.key];
        let (strangers, leased) = (of(metric::COLUMN_STRANGERS), of(metric::COLUMN_LEASED_SERVERS));
        if is_it(strangers, leased, &problems) {
            return;
        }
        assert!(
            began.elapsed() < WAIT_TIMEOUT,
            "{strangers} strangers, {leased} leases, {problems:?}"
        );
        std::thread::yield_now();
    }
}

/// Returns true if the status has exactly one problem, and it contains `what`.
fn is_said(problems: &[String], what: &str) -> bool {
    problems.len() == 1 && problems[0].contains(what)
}

/// Lets both servers grant a lease, one after the other. Then an unknown server changes a row.
fn met_by_a_stranger(store: TableName, while_one_is_missing: &str) -> HBaseSubscription {
    let servers = [server(), server()];
    let told = told(store, &servers);
    until(&told, |_, leased, problems| {
        leased == 0
            && is_said(
                problems,
                &format!("0 of 2 `servers` grant a lease; {while_one_is_missing}"),
            )
    });
    for (number, one) in (1..).zip(&servers) {
        let (question, from) = asked(one);
        says(one, from, COLUMN_NOTICE_GRANT, |grant| {
            grant.head.token = question.head.token;
            grant.head.epoch.set(1);
            grant.head.number.set(1);
            grant.head.oldest_open.set(1);
            grant.head.lease_ms.set(60_000);
        });
        until(&told, |_, leased, problems| match number {
            1 => {
                leased == 1
                    && is_said(
                        problems,
                        &format!("1 of 2 `servers` grant a lease; {while_one_is_missing}"),
                    )
            }
            _ => leased == 2 && problems.is_empty(),
        });
    }
    let to = told.listener.local_addr();
    says(&server(), to, COLUMN_NOTICE_POST, |_| ());
    told
}

#[test]
fn an_unknown_writer_is_counted_and_leases_of_attributed_servers_stay() {
    let told = met_by_a_stranger(in_hbase("rows"), "rows of the other servers are not cached");
    until(&told, |strangers, leased, problems| {
        strangers == 1 && leased == 2 && problems.is_empty()
    });
}

#[test]
fn an_unknown_writer_with_a_gateway_is_reported_as_a_problem() {
    let behind = TableName::Thrift2 {
        gateway: "127.0.0.1:1".into(),
        table: "rows".into(),
    };
    let told = met_by_a_stranger(behind, "the fast path is empty until all of them grant one");
    until(&told, |strangers, leased, problems| {
        strangers == 1 && leased == 0 && is_said(problems, "not in `servers` changes the table")
    });
}

/// HBase's servers omit the default namespace, so the name in Lineside's lease requests must omit it, too.
#[test]
fn a_table_of_the_default_namespace_is_announced_by_its_short_name() {
    for (configured, asked_for) in [
        ("default:rows", "rows"),
        ("rows", "rows"),
        ("other:rows", "other:rows"),
    ] {
        let servers = [server()];
        let _told = told(in_hbase(configured), &servers);
        let (question, _) = asked(&servers[0]);
        assert_eq!(String::from_utf8_lossy(&question.table), asked_for);
    }
}

#[test]
fn status_warns_when_sessions_run_out_and_when_clients_are_refused() {
    let said = |share_percent, is_refusing| {
        let mut out = StatusBuilder::default();
        let sessions = SessionUse {
            open: 7,
            max: 10,
            share_percent,
            is_refusing,
        };
        session_status(&sessions, &mut out);
        (out.warnings.len(), out.problems.len())
    };
    assert_eq!(said(79, false), (0, 0));
    assert_eq!(said(80, false), (1, 0));
    assert_eq!(said(100, true), (0, 1));
}
