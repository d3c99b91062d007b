//! A bit of the last acknowledged group of a journal is flipped. The next start names the damage and refuses to run,
//! and changes nothing until the operator has repaired the directory.

mod served;

use served::{ServiceFiles, lineside, text};
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the newest segment of the journal in `data`.
fn last_segment(data: &Path) -> PathBuf {
    let entries = fs::read_dir(data).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let segments = paths.filter(|path| path.extension().is_some_and(|end| end == "log"));
    segments.max().expect("a segment")
}

/// Returns the content of `segment` with one bit flipped in its last non-zero byte.
fn flipped(segment: &[u8]) -> Vec<u8> {
    let mut bytes = segment.to_vec();
    let last = bytes.iter().rposition(|byte| *byte != 0).expect("a record");
    bytes[last] ^= 1;
    bytes
}

#[test]
fn a_damaged_last_group_is_refused_until_it_is_repaired() {
    let place = ServiceFiles::new();
    for service in ["transfer", "hybrid"] {
        let data = place.path(&format!("{service}-damaged"));
        let mut server = place.serve(service, &data);
        for number in 1..4 {
            server.write(number).expect("a write");
        }
        server.daemon.child.kill().expect("killed");
        drop(server);
        let segment = last_segment(&data);
        let sound = fs::read(&segment).expect("a segment");
        let damaged = flipped(&sound);
        fs::write(&segment, &damaged).expect("written");

        for _ in 0..2 {
            let start = place
                .command(service, &data, "127.0.0.1:0")
                .output()
                .expect("run");
            let said = text(&start);
            assert_eq!(
                start.status.code(),
                Some(2),
                "systemd must not restart {service}: {said}"
            );
            assert!(
                said.contains("was acknowledged, but is not complete"),
                "{service}: {said}"
            );
            assert_eq!(
                fs::read(&segment).expect("a segment"),
                damaged,
                "{service}: the start cut"
            );
        }
        fs::write(&segment, &sound).expect("written");
        drop(place.serve(service, &data));

        let segment = last_segment(&data);
        let damaged = flipped(&fs::read(&segment).expect("a segment"));
        fs::write(&segment, damaged).expect("written");
        let repaired = lineside(&["journal", "repair", &data.display().to_string()]);
        let said = text(&repaired);
        assert!(repaired.status.success(), "{service}: {said}");
        assert!(
            said.contains("lost: the acknowledged record"),
            "{service}: {said}"
        );
        let server = place.serve(service, &data);
        server.write(9).expect("a write after the repair");
    }
}
