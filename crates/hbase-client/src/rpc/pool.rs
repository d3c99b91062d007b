//! Pool of one connection to each region server. If a connection has died, the next call opens it again; after failed
//! attempts, the pauses between attempts grow.

use super::connection::{Connection, Failure};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Name of the region servers' RPC service.
const SERVICE: &str = "ClientService";
/// Pause after the first failed attempt to connect, and maximum pause.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct Server {
    connection: Option<Arc<Connection>>,
    /// Number of consecutive failed attempts to connect.
    failures: u32,
    /// Time before which no further attempt to connect is made.
    not_before: Option<Instant>,
}

#[derive(Debug, Default)]
pub(super) struct Pool {
    servers: Mutex<HashMap<String, Arc<Mutex<Server>>>>,
}

impl Pool {
    /// Returns the connection to `server` (`host:port`). If there is none, opens it, which takes at most `timeout`.
    pub(super) fn connection(&self, server: &str, timeout: Duration) -> Result<Arc<Connection>, Failure> {
        let entry = {
            let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(servers.entry(server.to_owned()).or_default())
        };
        // The lock is held while the thread connects, so that only one thread connects to a server.
        let mut entry = entry.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = entry.connection.as_ref().filter(|open| open.is_alive()) {
            return Ok(Arc::clone(connection));
        }
        entry.connection = None;
        if entry
            .not_before
            .is_some_and(|not_before| Instant::now() < not_before)
        {
            return Err(Failure::NotSent(format!(
                "cannot connect to {server}: the last attempt failed, and the next one is made after a pause"
            )));
        }
        match Connection::open(server, SERVICE, timeout) {
            Ok(connection) => {
                let connection = Arc::new(connection);
                *entry = Server {
                    connection: Some(Arc::clone(&connection)),
                    ..Server::default()
                };
                Ok(connection)
            }
            Err(failure) => {
                let pause = PAUSE * 2u32.saturating_pow(entry.failures.min(10));
                entry.failures += 1;
                entry.not_before = Some(Instant::now() + pause.min(PAUSE_MAX));
                Err(failure)
            }
        }
    }
}
