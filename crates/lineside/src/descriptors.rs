//! How many files and connections this process may have open.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Takes as many as the system allows: the usual default, 1,024, is fewer than the connections that are accepted, and a
/// ledger that cannot make its next file takes no writes.
pub fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tell!("lineside: the limit on open files stays as it is: {error}");
    }
}
