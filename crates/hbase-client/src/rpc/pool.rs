//! A connection to each region server, opened again when it has died, not more often than the server can bear.

use super::connection::{Connection, Failure};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The service of region servers.
const SERVICE: &str = "ClientService";
/// The pause after a first failed try to connect, and the longest.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct Server {
    connection: Option<Arc<Connection>>,
    /// Tries to connect that failed, one after the other.
    failures: u32,
    /// No try before.
    not_before: Option<Instant>,
}

#[derive(Debug, Default)]
pub(super) struct Pool {
    servers: Mutex<HashMap<String, Arc<Mutex<Server>>>>,
}

impl Pool {
    /// The connection to `server`, `host:port`. Nothing waits longer than `timeout` for a new one.
    pub(super) fn connection(&self, server: &str, timeout: Duration) -> Result<Arc<Connection>, Failure> {
        let entry = {
            let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(servers.entry(server.to_owned()).or_default())
        };
        // Held while it connects: one tries for all.
        let mut entry = entry.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = entry.connection.as_ref().filter(|open| open.is_alive()) {
            return Ok(Arc::clone(connection));
        }
        entry.connection = None;
        if entry
            .not_before
            .is_some_and(|not_before| Instant::now() < not_before)
        {
            return Err(Failure::NotSent(format!("{server} did not answer just now")));
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
