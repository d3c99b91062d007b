//! Client that uses HBase's own RPC. One connection to each region server carries many parallel calls.
//!
//! [`frame`], [`calls`] and [`located`] validate a server's answers against the requests, without I/O. `connection`
//! matches answers to calls, `pool` keeps one connection to each server, `catalog` finds regions through the registry
//! and `hbase:meta`, `regions` caches them, and `retry` classifies failures. If a region splits, merges or moves during
//! a call, the client finds it again within the call's time limit.
//!
//! A change whose answer is lost may have been made. HBase recognises repeated increments and appends by their nonce
//! while their region stays on its server, so the client repeats these there. For all other changes it reports that the
//! outcome is unknown. HBase does not return the lifetime of a single cell to readers. The client supports neither
//! Kerberos (SASL) nor TLS.

pub mod calls;
mod catalog;
mod connection;
#[cfg(test)]
mod fake;
pub mod frame;
mod messages;
mod pool;
mod regions;
mod retry;
mod scan;
#[cfg(test)]
mod tests;

pub use catalog::located;
pub use regions::{Region, RegionLookup};

use crate::families::{Families, Lives};
use crate::{Cell, Change, ChangeOutcome, ColumnName, FoundCell, Nonce, RegionOwner, ScanRange, TableError};
use catalog::{Catalog, wrong};
use connection::{Connection, Failure};
use pool::Pool;
use prost::Message;
use retry::{Outcome, outcome, pause};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Minimum interval between two look-ups of regions that are caused by an unknown server name.
const LOOKUP_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Maximum length in bytes of a row key in HBase.
const KEY_BYTES_MAX: usize = i16::MAX as usize;

/// Table of HBase, used through its region servers. Any number of threads may use it at the same time.
pub struct HBase {
    table: String,
    catalog: Catalog,
    pool: Pool,
    timeout: Duration,
    families: Families,
    /// Group of the nonces that the client chooses itself.
    nonce_group: u64,
    /// Time of the last look-up of regions that was caused by an unknown server name.
    looked: Mutex<Option<Instant>>,
}

impl fmt::Debug for HBase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HBase({})", self.table)
    }
}

/// Target of a call: a region, the connection to its server, and the call's deadline.
struct RegionCall<'a> {
    region: &'a Arc<Region>,
    connection: &'a Connection,
    deadline: Instant,
}

impl RegionCall<'_> {
    fn call(&self, method: &str, message: &impl Message) -> Result<bytes::Bytes, Failure> {
        self.connection.call(method, message, self.deadline)
    }
}

/// Requests the lifetimes of a table's column families. Returns only finite lifetimes.
fn lives_ms(catalog: &Catalog, table: &str, timeout: Duration) -> Result<Lives, TableError> {
    let lives_ms = catalog
        .lives(timeout)
        .map_err(|failure| match outcome(&failure) {
            Outcome::Refused => TableError::Refused(failure.to_string()),
            _ => TableError::Unavailable(failure.to_string()),
        })?;
    lives_ms.ok_or_else(|| TableError::Refused(format!("the table {table} does not exist")))
}

impl HBase {
    /// Opens the table `table` (`namespace:table`, or `table` in the default namespace). `servers` are masters or
    /// region servers of the cluster, each `host:port`; they are tried one after the other. No later call takes longer
    /// than `timeout`.
    ///
    /// # Errors
    /// [`TableError::Unavailable`] if no server answers, [`TableError::Refused`] if there is no such table.
    pub fn connect(servers: &[&str], table: &[u8], timeout: Duration) -> Result<Self, TableError> {
        let servers = servers.iter().map(|server| (*server).to_owned()).collect();
        let catalog = Catalog::new(servers, table);
        let table = table.escape_ascii().to_string();
        let lives_ms = lives_ms(&catalog, &table, timeout)?;
        let number = |error: getrandom::Error| TableError::Unavailable(error.to_string());
        Ok(Self {
            families: Families::new(lives_ms),
            table,
            catalog,
            pool: Pool::default(),
            timeout,
            nonce_group: getrandom::u64().map_err(number)?,
            looked: Mutex::default(),
        })
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// Makes one call to the server of a region. The call may take at most half of the action's time.
    fn once<T>(
        &self,
        region: &Arc<Region>,
        deadline: Instant,
        call: &mut dyn FnMut(&RegionCall<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let left = deadline
            .saturating_duration_since(Instant::now())
            .min(self.timeout / 2);
        let answer = self.pool.connection(&region.server, left).and_then(|connection| {
            call(&RegionCall {
                region,
                connection: &connection,
                deadline: Instant::now() + left,
            })
        });
        if let Err(failure) = &answer {
            self.learn(region, failure);
        }
        answer
    }

    /// Updates the cache of regions after a failed call.
    fn learn(&self, region: &Arc<Region>, failure: &Failure) {
        let regions = self.catalog.regions();
        match (outcome(failure), failure) {
            (_, Failure::Said(said)) if said.moved_to.is_some() => {
                regions.moved(region, said.moved_to.clone().unwrap_or_default());
            }
            (Outcome::Elsewhere, Failure::Said(_)) => regions.forget(region),
            (_, Failure::NotSent(_) | Failure::NoAnswer(_)) => regions.forget_server(&region.server),
            _ => {}
        }
    }

    /// Repeats a read until it succeeds or the deadline is reached.
    fn read<T>(
        &self,
        lookup: RegionLookup<'_>,
        deadline: Instant,
        call: &mut dyn FnMut(&RegionCall<'_>) -> Result<T, Failure>,
    ) -> Result<(T, Arc<Region>), TableError> {
        let mut tries = 0;
        let mut failed = Failure::NotSent("the time limit was reached before the first attempt".into());
        while pause(tries, deadline) {
            tries += 1;
            let answer = self
                .catalog
                .locate(&self.pool, lookup, deadline)
                .and_then(|region| {
                    let answer = self.once(&region, deadline, call)?;
                    Ok((answer, region))
                });
            match answer {
                Ok(answer) => return Ok(answer),
                Err(failure) => failed = failure,
            }
            match outcome(&failed) {
                Outcome::Refused => return Err(TableError::refused_by_hbase(failed.to_string())),
                Outcome::OpenForGood => break,
                Outcome::Elsewhere | Outcome::Busy | Outcome::Open => {}
            }
        }
        Err(TableError::Unavailable(failed.to_string()))
    }

    /// Repeats a change until its outcome is known or can no longer become known. With `is_known`, HBase recognises a
    /// repetition by its nonce, so the change is repeated on the same server even if it may have been made.
    fn write<T>(
        &self,
        key: &[u8],
        is_known: bool,
        call: &mut dyn FnMut(&RegionCall<'_>) -> Result<T, Failure>,
    ) -> Result<T, TableError> {
        let deadline = self.deadline();
        let (mut tries, mut open_at): (u32, Option<Arc<Region>>) = (0, None);
        let mut failed = Failure::NotSent("the time limit was reached before the first attempt".into());
        while pause(tries, deadline) {
            tries += 1;
            let region = match self.catalog.locate(&self.pool, RegionLookup::Of(key), deadline) {
                Ok(region) => region,
                Err(failure) => {
                    failed = failure;
                    match outcome(&failed) {
                        Outcome::Refused | Outcome::OpenForGood => break,
                        _ => continue,
                    }
                }
            };
            let is_same = |other: &Arc<Region>| {
                other.server == region.server
                    && other.start_code == region.start_code
                    && region.start_code != 0
            };
            if open_at.as_ref().is_some_and(|other| !is_same(other)) {
                // Only the server that received the change first knows its nonce, so the change is not repeated on
                // another server.
                break;
            }
            match self.once(&region, deadline, call) {
                Ok(done) => return Ok(done),
                Err(failure) => failed = failure,
            }
            match (outcome(&failed), is_known) {
                (Outcome::Elsewhere | Outcome::Busy, _) => {}
                (Outcome::Open, true) => open_at = Some(region),
                (Outcome::Open | Outcome::OpenForGood, _) => {
                    return Err(TableError::Unknown(failed.to_string()));
                }
                (Outcome::Refused, _) => break,
            }
        }
        let why = failed.to_string();
        Err(match outcome(&failed) {
            _ if open_at.is_some() => TableError::Unknown(why),
            Outcome::Refused => TableError::refused_by_hbase(why),
            _ => TableError::Unavailable(why),
        })
    }

    /// Returns the caller's nonce; a random nonce if the caller has chosen none.
    fn nonce(&self, nonce: Nonce) -> Result<Nonce, TableError> {
        if nonce != Nonce::default() {
            return Ok(nonce);
        }
        let number = getrandom::u64().map_err(|error| TableError::Unavailable(error.to_string()))?;
        Ok(Nonce {
            group: self.nonce_group,
            // Number 0 is reserved for "no nonce".
            number: number.max(1),
        })
    }
}

fn check(key: &[u8]) -> Result<(), TableError> {
    match key.len() {
        1..=KEY_BYTES_MAX => Ok(()),
        _ => Err(TableError::Refused("a row key must have 1 to 32767 bytes".into())),
    }
}

impl HBase {
    /// Reads one row in one consistent state. Returns a cell, or `None`, for each of `columns`, in their order.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn get(&self, key: &[u8], columns: &[ColumnName]) -> Result<Vec<Option<Cell>>, TableError> {
        check(key)?;
        let mut call = |asked: &RegionCall<'_>| {
            let answer = asked.call("Get", &calls::get(asked.region, key, columns))?;
            calls::got(answer, key, columns).map_err(wrong)
        };
        let (cells, _) = self.read(RegionLookup::Of(key), self.deadline(), &mut call)?;
        Ok(cells)
    }

    /// Reads the cells of the rows of `range`, ordered by row; the cells of a row are in the order of `columns`. Each
    /// row is read in one consistent state. A row that is added, removed or changed during the scan appears in one of
    /// its states.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn scan(&self, range: &ScanRange, columns: &[ColumnName]) -> Result<Vec<FoundCell>, TableError> {
        scan::all(self, range, columns, &mut |_| {})
    }

    /// Returns the region server that holds `key`, and the end of its region; `None` if the region cannot be found now.
    pub fn owner(&self, key: &[u8]) -> Option<RegionOwner> {
        let region = self
            .catalog
            .locate(&self.pool, RegionLookup::Of(key), self.deadline());
        let region = region.ok()?;
        Some(RegionOwner {
            server: region.server_name_hash(),
            end: Some(region.end.clone()).filter(|end| !end.is_empty()),
        })
    }

    /// Scans like [`Self::scan`]. Also returns true if `owner` has answered for all rows before the end of its region.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn scan_from_owner(
        &self,
        owner: &RegionOwner,
        range: &ScanRange,
        columns: &[ColumnName],
    ) -> Result<(Vec<FoundCell>, bool), TableError> {
        let mut is_from_owner = true;
        let cells = scan::all(self, range, columns, &mut |region| {
            let is_behind = owner.end.as_ref().is_some_and(|end| region.start >= *end);
            is_from_owner &= is_behind || region.server_name_hash() == owner.server;
        })?;
        Ok((cells, is_from_owner))
    }

    /// Clears the cache of regions, at most once a second. If a server was restarted at the same address, it answers
    /// for its regions under another name, and the client does not notice this by itself.
    pub fn forget_owner(&self) {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.is_none_or(|looked| looked.elapsed() >= LOOKUP_INTERVAL_MIN) {
            *looked = Some(Instant::now());
            self.catalog.regions().forget_all();
        }
    }

    /// Changes one cell. If the answer to an increment or append is lost, the client repeats it; HBase recognises the
    /// repetition by `nonce`, or by a random nonce if the caller has chosen none.
    ///
    /// # Errors
    /// See [`TableError`].
    pub fn change(
        &self,
        key: &[u8],
        column: &ColumnName,
        change: &Change,
        nonce: Nonce,
    ) -> Result<ChangeOutcome, TableError> {
        check(key)?;
        if let Change::CheckAndPut {
            expected: Some(expected),
            ..
        } = change
            && expected.is_empty()
        {
            // HBase treats an expected empty value in the same way as an expected missing cell.
            return Err(TableError::Refused(
                "HBase cannot distinguish an expected empty value from a missing cell".into(),
            ));
        }
        let is_known = matches!(change, Change::Increment(_) | Change::Append(_));
        let nonce = self.nonce(nonce)?;
        self.write(key, is_known, &mut |asked: &RegionCall<'_>| {
            let message = calls::change(asked.region, key, column, change, nonce);
            let answer = asked.call("Mutate", &message)?;
            calls::changed(answer, key, column, change).map_err(wrong)
        })
    }

    /// Returns the lifetime in milliseconds of cells in the family of `column`: `None` if they do not expire; 0 if the
    /// family was altered and HBase does not answer.
    pub fn family_ttl_ms(&self, column: &ColumnName) -> Option<u64> {
        let ask = || lives_ms(&self.catalog, &self.table, self.timeout);
        self.families.life_ms(column, ask)
    }

    /// Discards the cached lifetimes of column families, because the table was altered. The next use requests them
    /// again.
    pub fn forget_description(&self) {
        self.families.outdate();
    }

    /// Returns this machine's time in milliseconds since 1970, with which HBase's timestamps are compared.
    pub fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| since.as_millis() as u64)
    }
}
