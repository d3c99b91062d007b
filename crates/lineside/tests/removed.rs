//! Data directories that are removed, or whose lock is removed, while a server uses them.

mod served;

use served::{Place, Server};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest time until a server must have noticed; it looks each second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Writes until a write is refused.
fn refused(server: &Server) -> String {
    let began = Instant::now();
    for number in 100.. {
        match server.write(number) {
            Ok(()) => assert!(began.elapsed() < PATIENCE, "{} never noticed", server.service),
            Err(why) => return why,
        }
    }
    unreachable!("numbers do not end");
}

#[test]
fn a_server_whose_directory_or_lock_is_removed_takes_no_writes_and_says_so() {
    type Remove = fn(&Path) -> std::io::Result<()>;
    let removals: [(&str, Remove); 2] = [
        ("directory", |path| fs::remove_dir_all(path)),
        ("lock", |path| fs::remove_file(path.join("lock"))),
    ];
    let place = Place::new();
    for service in ["transfer", "column", "hybrid"] {
        for (what, remove) in removals {
            let data = place.path(&format!("{service}-{what}"));
            let server = place.serve(service, &data);
            server.write(1).expect("a write");
            assert!(server.page("/healthz").starts_with("HTTP/1.1 200"), "{service}");
            remove(&data).expect("removed");
            let why = refused(&server);
            assert!(!why.is_empty(), "{service}, {what}");
            assert!(server.write(99).is_err(), "{service}, {what}: it stays so");
            let health = server.page("/healthz");
            assert!(health.starts_with("HTTP/1.1 503"), "{service}, {what}: {health}");
            assert!(
                health.contains("was removed, moved or replaced while it was in use"),
                "{service}, {what}: {health}"
            );
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
