//! Limit on the open files and connections of this process.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit on open files as far as the system allows. The usual default of 1,024 is less than the maximum
/// number of connections, and a ledger that cannot create its next file stops accepting writes.
pub fn raise_open_files_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!(
            "the limit on open files could not be raised: {error}; connections may be refused, and a ledger that \
             cannot create a file accepts no writes: raise the limit (`ulimit -n`, or LimitNOFILE of systemd)"
        );
    }
}
