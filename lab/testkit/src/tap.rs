//! Checks whether a test can create a TAP device.

use crate::skipped;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;

/// Request of `ioctl` that makes a descriptor of /dev/net/tun a device (linux/if_tun.h).
const TUNSETIFF: u32 = 0x4004_54ca;
/// Name of the device that the trial creates.
const TRIAL_NAME: &str = "lstry0";

/// Returns true if this process can create a TAP device and a network namespace. Otherwise prints one line, which says
/// why the test is skipped.
///
/// # Panics
/// Panics if the system does not start a thread.
pub fn can_create_tap() -> bool {
    // The namespace of the trial ends with its thread, and the device ends with it.
    let tried = std::thread::spawn(create_one).join();
    match tried.expect("the trial does not panic") {
        Ok(()) => true,
        Err(why) => {
            skipped(why);
            false
        }
    }
}

/// Creates a TAP device in a new network namespace of the calling thread, and removes the device. A user with the id 0
/// may lack the capabilities for that, as in a container, so only a trial shows whether it is permitted.
///
/// # Errors
/// Reason why there is no device.
fn create_one() -> Result<(), String> {
    // SAFETY: unshare accesses no memory, and the new namespace affects only this thread.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        let error = io::Error::last_os_error();
        return Err(format!("creating network namespaces needs root rights ({error})"));
    }
    let opened = OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    let file = opened.map_err(|error| format!("/dev/net/tun cannot be opened here ({error})"))?;
    // SAFETY: the structure has only numbers, and 0 is valid for all of them.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The name is shorter than the field, so a zero follows it.
    for (place, byte) in request.ifr_name.iter_mut().zip(TRIAL_NAME.bytes()) {
        *place = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
    // SAFETY: TUNSETIFF takes this structure, which is valid for reading and writing.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, std::ptr::from_mut(&mut request)) };
    match result {
        0.. => Ok(()),
        _ => {
            let error = io::Error::last_os_error();
            Err(format!("creating a TAP device needs root rights ({error})"))
        }
    }
}
