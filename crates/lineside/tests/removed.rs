//! A data directory, or one of its files, is removed while a server uses it.

mod served;

use served::{Server, ServiceFiles};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Maximum time until a server must have noticed the loss. A server checks every second.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(60);

/// Writes until a write is refused; returns the error.
fn refused(server: &Server) -> String {
    let began = Instant::now();
    for number in 100.. {
        match server.write(number) {
            Ok(()) => assert!(
                began.elapsed() < NOTICE_TIMEOUT,
                "{} never noticed",
                server.service
            ),
            Err(why) => return why,
        }
    }
    unreachable!("numbers do not end");
}

#[test]
fn a_server_whose_directory_or_file_is_removed_takes_no_writes_and_says_so() {
    type Remove = fn(&Path) -> std::io::Result<()>;
    let removals: [(&str, Remove); 5] = [
        ("directory", |path| fs::remove_dir_all(path)),
        ("lock", |path| fs::remove_file(path.join("lock"))),
        ("acknowledged", |path| fs::remove_file(path.join("acknowledged"))),
        ("segment", |path| {
            fs::remove_file(path.join("00000000000000000001.log"))
        }),
        ("truncated segment", |path| {
            let segment = fs::OpenOptions::new()
                .write(true)
                .open(path.join("00000000000000000001.log"))?;
            segment.set_len(64)
        }),
    ];
    let place = ServiceFiles::new();
    for service in ["transfer", "column", "hybrid"] {
        for (what, remove) in removals {
            let data = place.path(&format!("{service}-{what}"));
            let server = place.serve(service, &data);
            server.write(1).expect("a write");
            assert!(server.page("/healthz").starts_with("HTTP/1.1 200"), "{service}");
            remove(&data).expect("removed");
            let why = refused(&server);
            assert!(!why.is_empty(), "{service}, {what}");
            assert!(
                server.write(99).is_err(),
                "{service}, {what}: writes remain refused"
            );
            let health = server.page("/healthz");
            assert!(health.starts_with("HTTP/1.1 503"), "{service}, {what}: {health}");
            let harm = match what {
                "truncated segment" => "was truncated while it was in use",
                _ => "was removed, moved or replaced while it was in use",
            };
            assert!(health.contains(harm), "{service}, {what}: {health}");
            if what == "lock" {
                let second = place
                    .command(service, &data, "127.0.0.1:0")
                    .output()
                    .expect("run");
                let said = served::text(&second);
                assert!(
                    !second.status.success() && said.contains("is in use"),
                    "{service}: {said}"
                );
                drop(server);
                let again = place.serve(service, &data);
                again.write(2).expect("a write after a restart");
            }
        }
    }
}

#[test]
fn a_fabric_replica_whose_segment_is_removed_says_so() {
    let place = ServiceFiles::new();
    let data = place.path("fabric-segment");
    let server = place.serve("fabric", &data);
    fs::remove_file(data.join("00000000000000000001.log")).expect("removed");
    let began = Instant::now();
    let health = loop {
        let health = server.page("/healthz");
        if health.contains("was removed, moved or replaced while it was in use") {
            break health;
        }
        assert!(began.elapsed() < NOTICE_TIMEOUT, "never noticed: {health}");
    };
    assert!(health.starts_with("HTTP/1.1 503"), "{health}");
    // The reason belongs to the service, even before it has refused a write.
    let (_, body) = health.split_once("\r\n\r\n").expect("HTTP");
    let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let service = &body["services"][0];
    assert_eq!(
        (&service["name"], &service["status"]),
        (&"fabric".into(), &"failed".into())
    );
    let why = service["reasons"][0].as_str().expect("a reason");
    assert!(why.contains("was removed, moved or replaced"), "{body}");
    assert_eq!(body["reasons"], serde_json::json!([]), "{body}");
}

/// Returns the names of the files and folders in `path`, sorted.
fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).expect("a directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string());
    let mut names: Vec<String> = names.map(|name| name.expect("UTF-8")).collect();
    names.sort();
    names
}

fn remove(path: &Path) {
    let removed = match path.is_dir() {
        true => fs::remove_dir_all(path),
        false => fs::remove_file(path),
    };
    removed.expect("removed");
}

/// Checks that a server refuses to start with `reason`, and changes no file.
fn refuses(place: &ServiceFiles, service: &'static str, data: &Path, reason: &str) {
    let left = names(data);
    let start = place.command(service, data, "127.0.0.1:0").output().expect("run");
    let said = served::text(&start);
    assert!(!start.status.success(), "{service}: {said}");
    assert!(said.contains(reason), "{service}: {said}");
    let mut made = names(data);
    made.retain(|name| name != "lock" && !left.contains(name));
    assert!(made.is_empty(), "{service}: the start created {made:?}");
}

/// A directory with remaining files does not count as new. A directory in which only the marker remains does not count
/// as new either.
#[test]
fn no_new_journal_is_begun_in_a_directory_whose_journal_was_removed() {
    let place = ServiceFiles::new();
    for service in served::SERVICES_WITH_DATA {
        let data = place.path(&format!("{service}-emptied"));
        let server = place.serve(service, &data);
        if service != "fabric" {
            server.write(1).expect("a write");
        }
        drop(server);
        let copy = place.path(&format!("{service}-copy"));
        let copied = Command::new("cp").arg("-a").arg(&data).arg(&copy).status();
        assert!(copied.expect("cp").success());
        for name in names(&data) {
            if name.ends_with(".log") || name == "acknowledged" {
                remove(&data.join(name));
            }
        }
        if service == "column" {
            refuses(
                &place,
                service,
                &data,
                "restore the journal from a copy, or run `lineside column repair`",
            );
            remove(&data.join("tables"));
        }
        refuses(&place, service, &data, "Restore the files");
        for name in names(&data) {
            if name != "lineside.dir" {
                remove(&data.join(name));
            }
        }
        refuses(&place, service, &data, "Restore the files");

        // With its files restored, the server has its data again.
        remove(&data);
        fs::rename(&copy, &data).expect("renamed");
        let server = place.serve(service, &data);
        if service == "column" {
            let row = served::lineside(&["column", "get", "--server", &server.address, "row"]);
            assert!(served::text(&row).contains('1'), "{row:?}");
        }
    }
}

/// A table of which only the file `acknowledged` is left starts empty after a repair, which named the loss.
#[test]
fn a_table_whose_journal_was_removed_starts_empty_after_a_repair() {
    let place = ServiceFiles::new();
    let data = place.path("column-repaired");
    let server = place.serve("column", &data);
    server.write(1).expect("a write");
    drop(server);
    remove(&data.join("00000000000000000001.log"));
    refuses(
        &place,
        "column",
        &data,
        "record 1 is missing: no segment contains it",
    );
    let repaired = served::lineside(&["column", "repair", &data.display().to_string()]);
    let said = served::text(&repaired);
    assert!(repaired.status.success(), "{said}");
    assert!(said.contains("lost: the acknowledged change 1\n"), "{said}");
    place.serve("column", &data).write(2).expect("a write");
}

/// A ledger without its segments is refused before a new key is created. A ledger without its marker is refused as
/// well.
#[test]
fn a_start_that_is_refused_makes_no_settlement_key() {
    let place = ServiceFiles::new();
    let data = place.path("transfer-keyless");
    let server = place.serve("transfer", &data);
    server.write(1).expect("a write");
    drop(server);
    for name in ["00000000000000000001.log", "settlement.key", "settlement.pub"] {
        remove(&data.join(name));
    }
    refuses(
        &place,
        "transfer",
        &data,
        "although the file `acknowledged` shows",
    );

    let data = place.path("transfer-unmarked");
    drop(place.serve("transfer", &data));
    for name in names(&data) {
        if name != "lock" && !name.starts_with("settlement.") {
            remove(&data.join(name));
        }
    }
    refuses(&place, "transfer", &data, "no marker `lineside.dir`");
}

/// After a repair that found no record, the start says that the ledger is empty.
#[test]
fn a_ledger_that_begins_again_after_a_repair_says_so() {
    let place = ServiceFiles::new();
    for left in [&["acknowledged", "lineside.dir"][..], &["lineside.dir"]] {
        let data = place.path(&format!("transfer-again-{}", left.len()));
        let server = place.serve("transfer", &data);
        server.write(1).expect("a write");
        drop(server);
        for name in names(&data) {
            if !left.contains(&name.as_str()) {
                remove(&data.join(name));
            }
        }
        let start = place
            .command("transfer", &data, "127.0.0.1:0")
            .output()
            .expect("run");
        assert!(!start.status.success());
        // An empty file `acknowledged` has the same effect as a missing one.
        if left.len() > 1 {
            fs::write(data.join("acknowledged"), "").expect("written");
        }
        let repaired = served::lineside(&["journal", "repair", &data.display().to_string()]);
        assert!(repaired.status.success(), "{}", served::text(&repaired));
        let server = place.serve("transfer", &data);
        assert!(
            server.page("/status").contains("has no record of a ledger"),
            "{}",
            server.page("/status")
        );
        server.write(2).expect("a write");
    }
}

#[test]
fn a_removed_settlement_key_is_not_replaced() {
    let place = ServiceFiles::new();
    let data = place.path("transfer-key");
    let server = place.serve("transfer", &data);
    server.write(1).expect("a write");
    drop(server);
    let key = fs::read(data.join("settlement.key")).expect("a key");
    fs::remove_file(data.join("settlement.key")).expect("removed");
    let start = place
        .command("transfer", &data, "127.0.0.1:0")
        .output()
        .expect("run");
    let said = served::text(&start);
    assert!(
        !start.status.success() && said.contains("settlement.key is missing"),
        "{said}"
    );
    assert!(!data.join("settlement.key").exists());
    served::write_private(&data.join("settlement.key"), &key);
    place.serve("transfer", &data).write(2).expect("a write");
}
