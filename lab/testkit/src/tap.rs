//! Checks whether a test can create a TAP device.

use crate::skipped;

/// Returns true if this process can create a TAP device and a network namespace. Otherwise prints one line, which says
/// why the test is skipped.
pub fn can_create_tap() -> bool {
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun");
    // SAFETY: the call only returns a number.
    let is_root = unsafe { libc::geteuid() } == 0;
    let why = match opened {
        Ok(_) if is_root => return true,
        Ok(_) => "creating a TAP device needs root rights".into(),
        Err(error) => format!("there is no /dev/net/tun here ({error})"),
    };
    skipped(why);
    false
}
