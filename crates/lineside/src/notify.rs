//! Notifications to systemd (`sd_notify`). Without systemd, when `NOTIFY_SOCKET` is not set, they do nothing.

use rustix::fs::fstat;
use sd_notify::{NotifyState, notify};
use std::os::fd::AsFd;
use std::time::Duration;

/// Reports that all services listen; `systemctl status` shows `status`.
pub fn ready(status: &str) {
    say(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Reports that the process has begun to stop.
pub fn stopping() {
    say(&[NotifyState::Stopping]);
}

/// Reports that the process is alive and can read its own status.
pub fn alive() {
    say(&[NotifyState::Watchdog]);
}

/// Returns the time between two calls of [`alive`]: half of the unit's `WatchdogSec`; `None` without a watchdog.
pub fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled()
        .map(|limit| limit / 2)
        .filter(|interval| !interval.is_zero())
}

/// Returns true if `stream` is connected to the journal of systemd: the variable `JOURNAL_STREAM` names the device and
/// the inode of that connection.
pub fn is_journal(stream: impl AsFd) -> bool {
    let named = std::env::var("JOURNAL_STREAM").ok();
    named.is_some_and(|named| is_named(&named, stream))
}

fn is_named(named: &str, stream: impl AsFd) -> bool {
    fstat(stream).is_ok_and(|found| named == format!("{}:{}", found.st_dev, found.st_ino))
}

fn say(state: &[NotifyState<'_>]) {
    // A failed notification is ignored: the server runs even if the service manager cannot be reached.
    let _ = notify(state);
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn a_stream_is_the_journal_if_device_and_inode_are_those_of_the_variable() {
        use std::os::unix::fs::MetadataExt;
        let file = tempfile::tempfile().unwrap();
        let found = file.metadata().unwrap();
        assert!(super::is_named(
            &format!("{}:{}", found.dev(), found.ino()),
            &file
        ));
        assert!(!super::is_named(
            &format!("{}:{}", found.dev(), found.ino() + 1),
            &file
        ));
        assert!(!super::is_named("", &file));
    }

    const CHILD: &str = "LINESIDE_NOTIFY_TEST_CHILD";

    #[test]
    fn systemd_is_notified_of_start_and_stop() {
        if std::env::var_os(CHILD).is_some() {
            super::ready("spv on 127.0.0.1:7701");
            return super::stopping();
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "notify::tests::systemd_is_notified_of_start_and_stop"])
            .envs([("NOTIFY_SOCKET", path.as_os_str()), (CHILD, "1".as_ref())])
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        for said in ["READY=1\nSTATUS=spv on 127.0.0.1:7701\n", "STOPPING=1\n"] {
            let mut message = [0; 256];
            let bytes = socket.recv(&mut message).unwrap();
            assert_eq!(String::from_utf8_lossy(&message[..bytes]), said);
        }
    }
}
