//! Limit on the open files and connections of this process.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit as far as the system allows: the usual default, 1,024, is fewer than the connections that are
/// accepted, and a ledger that cannot make its next file takes no writes.
pub fn raise_open_files_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!("the limit on open files stays as it is: {error}");
    }
}
