//! Finds the regions of a table: the registry of any server names the server of `hbase:meta`, and `hbase:meta` lists
//! the regions.

use super::connection::{Connection, Failure};
use super::frame::Malformed;
use super::messages::{
    ActiveMaster, Column, MetaRegionLocations, Nothing, PREAD, REGION_NAME, RegionInfo, RegionSpecifier, Row,
    Scan, ScanRequest, ScanResponse, ServerName, TableDescriptors, TableDescriptorsRequest, TableName,
};
use super::pool::Pool;
use super::regions::{Region, RegionLookup, Regions};
use crate::families::Lives;
use bytes::Bytes;
use prost::Message;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const REGISTRY: &str = "ClientMetaService";
const MASTER: &str = "MasterService";
const META: &[u8] = b"hbase:meta,,1";
/// First bytes of a serialised message in a cell.
const MAGIC: &[u8] = b"PBUF";
/// Suffixes of region names that sort after, and before, the ids of all regions with the same first row.
const LAST_ID: &[u8] = b",99999999999999";
const FIRST_ID: &[u8] = b",00000000000000";
/// Number of rows of `hbase:meta` that are read to find a region. The parent of a split region may come before the
/// region.
const META_ROWS: u32 = 4;
/// Lifetime in seconds that means "forever" in HBase.
const FOREVER_S: u64 = i32::MAX as u64;

/// Look-up of the regions of one table.
#[derive(Debug)]
pub(super) struct Catalog {
    /// Addresses of masters or region servers, `host:port`.
    registries: Vec<String>,
    table: Vec<u8>,
    regions: Regions,
    /// Address of the server of `hbase:meta`. A thread holds this lock while it looks up a region.
    meta: Mutex<Option<String>>,
}

/// Splits a table's name into namespace and qualifier.
fn parts(table: &[u8]) -> TableName {
    let (namespace, qualifier) = match table.iter().position(|byte| *byte == b':') {
        Some(colon) => (&table[..colon], &table[colon + 1..]),
        None => (&b"default"[..], table),
    };
    TableName {
        namespace: namespace.to_vec(),
        qualifier: qualifier.to_vec(),
    }
}

fn address(name: &ServerName) -> Option<String> {
    let port = name.port.and_then(|port| u16::try_from(port).ok())?;
    (!name.host_name.is_empty() && port > 0).then(|| format!("{}:{port}", name.host_name))
}

/// Decodes the protobuf message of an answer.
pub(super) fn decode<T: Message + Default>(answer: Bytes) -> Result<T, Malformed> {
    T::decode(answer).map_err(|_| Malformed("a message cannot be decoded"))
}

pub(super) fn wrong(why: Malformed) -> Failure {
    Failure::Wrong(why.to_string())
}

impl Catalog {
    pub(super) fn new(registries: Vec<String>, table: &[u8]) -> Self {
        Self {
            registries,
            table: table.strip_prefix(b"default:").unwrap_or(table).to_vec(),
            regions: Regions::default(),
            meta: Mutex::default(),
        }
    }

    pub(super) const fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Returns the region for `lookup` from the cache or, if the cache does not have it, from `hbase:meta`.
    pub(super) fn locate(
        &self,
        pool: &Pool,
        lookup: RegionLookup<'_>,
        deadline: Instant,
    ) -> Result<Arc<Region>, Failure> {
        if let Some(region) = self.regions.find(lookup) {
            return Ok(region);
        }
        let mut meta = self.meta.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have looked up the same region in the meantime.
        if let Some(region) = self.regions.find(lookup) {
            return Ok(region);
        }
        if Instant::now() >= deadline {
            return Err(Failure::NotSent(
                "the time limit was reached while another thread looked up a region".into(),
            ));
        }
        let server = match meta.take() {
            Some(server) => server,
            None => self.meta_server(deadline)?,
        };
        let region = self.look_up(pool, &server, lookup, deadline)?;
        *meta = Some(server);
        let region = region.ok_or_else(|| {
            let table = self.table.escape_ascii();
            Failure::NotSent(format!(
                "no region of the table {table} contains the row at the moment"
            ))
        })?;
        if region.server.is_empty() {
            let name = region.name.escape_ascii();
            return Err(Failure::NotSent(format!(
                "the region {name} is not on any server at the moment"
            )));
        }
        let region = Arc::new(region);
        self.regions.learn(&region);
        Ok(region)
    }

    /// Asks the registries of the configured servers one after the other, until one answers.
    fn ask<T: Message + Default>(&self, method: &str, deadline: Instant) -> Result<T, Failure> {
        let mut failed = Failure::NotSent("no server address is configured".into());
        for (at, server) in self.registries.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            let share = left / (self.registries.len() - at) as u32;
            let answer = Connection::open(server, REGISTRY, share)
                .and_then(|connection| connection.call(method, &Nothing {}, Instant::now() + share))
                .and_then(|answer| decode(answer).map_err(wrong));
            match answer {
                Ok(answer) => return Ok(answer),
                Err(failure) => failed = failure,
            }
        }
        Err(failed)
    }

    fn meta_server(&self, deadline: Instant) -> Result<String, Failure> {
        let found: MetaRegionLocations = self.ask("GetMetaRegionLocations", deadline)?;
        let server = found
            .meta_locations
            .iter()
            .find_map(|found| found.server_name.as_ref());
        server
            .and_then(address)
            .ok_or_else(|| Failure::NotSent("hbase:meta is not on any server at the moment".into()))
    }

    fn look_up(
        &self,
        pool: &Pool,
        server: &str,
        lookup: RegionLookup<'_>,
        deadline: Instant,
    ) -> Result<Option<Region>, Failure> {
        let left = deadline.saturating_duration_since(Instant::now());
        let connection = pool.connection(server, left)?;
        let answer = connection.call("Scan", &self.meta_scan(lookup), deadline)?;
        located(answer, &self.table, lookup).map_err(wrong)
    }

    /// Returns the request that reads `hbase:meta` in descending order, from the last row that may be the region's.
    fn meta_scan(&self, lookup: RegionLookup<'_>) -> ScanRequest {
        let table = &self.table[..];
        let start = match lookup {
            RegionLookup::Of(key) => [table, b",", key, LAST_ID].concat(),
            RegionLookup::Below(Some(key)) => [table, b",", key, FIRST_ID].concat(),
            // This row lies after all regions of this table, and before the regions of any other table.
            RegionLookup::Below(None) => [table, b"\0"].concat(),
        };
        let scan = Scan {
            column: vec![Column {
                family: b"info".to_vec(),
                qualifier: Vec::new(),
            }],
            start_row: Some(start),
            stop_row: Some([table, b",,"].concat()),
            include_stop_row: Some(true),
            reversed: Some(true),
            caching: Some(META_ROWS),
            read_type: Some(PREAD),
            ..Scan::default()
        };
        ScanRequest {
            region: Some(RegionSpecifier {
                kind: REGION_NAME,
                value: Bytes::from_static(META),
            }),
            scan: Some(scan),
            number_of_rows: Some(META_ROWS),
            close_scanner: Some(true),
            ..ScanRequest::default()
        }
    }

    /// Returns the finite lifetimes of the table's column families in milliseconds; `None` if the table does not exist.
    pub(super) fn lives(&self, timeout: Duration) -> Result<Option<Lives>, Failure> {
        let deadline = Instant::now() + timeout;
        let active: ActiveMaster = self.ask("GetActiveMaster", deadline)?;
        let none = || Failure::NotSent("no master is active at the moment".into());
        let master = active.server_name.as_ref().and_then(address).ok_or_else(none)?;
        let connection = Connection::open(&master, MASTER, timeout)?;
        let request = TableDescriptorsRequest {
            table_names: vec![parts(&self.table)],
        };
        let answer = connection.call("GetTableDescriptors", &request, deadline)?;
        let tables: TableDescriptors = decode(answer).map_err(wrong)?;
        let mut schemas = tables.table_schema.into_iter();
        let schema = schemas.find(|schema| schema.table_name == Some(parts(&self.table)));
        Ok(schema.map(|schema| {
            let families = schema.column_families.iter();
            families
                .filter_map(|family| {
                    let life = family.attributes.iter().find(|pair| &pair.first[..] == b"TTL")?;
                    let life_s: u64 = std::str::from_utf8(&life.second).ok()?.parse().ok()?;
                    let ends = (1..FOREVER_S).contains(&life_s);
                    ends.then(|| (family.name.to_vec(), life_s * 1000))
                })
                .collect()
        }))
    }
}

/// Decodes the answer of `hbase:meta`, and returns the region of `table` at `place`. If no server holds the region, its
/// server address is empty.
///
/// # Errors
/// [`Malformed`] if the bytes are not a valid answer.
pub fn located(answer: Bytes, table: &[u8], place: RegionLookup<'_>) -> Result<Option<Region>, Malformed> {
    let found: ScanResponse = decode(answer)?;
    for row in &found.results {
        if let Some(region) = region_of(row, table)? {
            return Ok(Some(region).filter(|region| region.is_at(place)));
        }
    }
    Ok(None)
}

/// Decodes a row of `hbase:meta` into a region. If no server holds the region, its server address is empty. Returns
/// `None` for the parent of a split region.
fn region_of(row: &Row, table: &[u8]) -> Result<Option<Region>, Malformed> {
    let name = row.cell.first().and_then(|cell| cell.row.clone());
    let name = name.ok_or(Malformed("a row of hbase:meta has no name"))?;
    let cell = |qualifier: &[u8]| {
        let mut cells = row.cell.iter();
        let is_it = |cell: &&super::messages::Cell| cell.qualifier.as_deref() == Some(qualifier);
        cells.find(is_it).and_then(|cell| cell.value.clone())
    };
    let none = Malformed("a row of hbase:meta has no region");
    let mut info = cell(b"regioninfo").ok_or(none.clone())?;
    if !info.starts_with(MAGIC) {
        return Err(none);
    }
    let info: RegionInfo = decode(info.split_off(MAGIC.len()))?;
    if info.table_name != Some(parts(table)) {
        return Err(Malformed("the region belongs to another table"));
    }
    if info.split.unwrap_or(false) {
        return Ok(None);
    }
    let server = cell(b"server").filter(|server| !server.is_empty());
    let server = server.and_then(|server| String::from_utf8(server.to_vec()).ok());
    let start_code = cell(b"serverstartcode").and_then(|code| code[..].try_into().ok());
    Ok(Some(Region {
        name,
        start: info.start_key.unwrap_or_default().to_vec(),
        end: info.end_key.unwrap_or_default().to_vec(),
        server: server.unwrap_or_default(),
        start_code: start_code.map_or(0, u64::from_be_bytes),
    }))
}
