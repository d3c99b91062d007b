//! Cache of a table's regions: the range of rows of each region, and the server that holds it.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::{Arc, PoisonError, RwLock};

/// A region, as `hbase:meta` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Name of the region, which is also the key of its row in `hbase:meta`.
    pub name: Bytes,
    /// First row of the region.
    pub start: Vec<u8>,
    /// First row after the region; empty if the region extends to the end of the table.
    pub end: Vec<u8>,
    /// Address of the region's server, `host:port`.
    pub server: String,
    /// Start time of the region's server (start code). It distinguishes servers that were started at the same address;
    /// 0 if unknown.
    pub start_code: u64,
}

/// Criterion for finding a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionLookup<'a> {
    /// Searches for the region that contains this row key.
    Of(&'a [u8]),
    /// Searches for the region whose rows lie directly before this key; `None`: the last region of the table.
    Below(Option<&'a [u8]>),
}

impl Region {
    /// Returns the hash (FNV-1a) of the name of the region's server in HBase's form. The coprocessor uses the same
    /// hash.
    pub fn server_name_hash(&self) -> u64 {
        let (host, port) = self.server.rsplit_once(':').unwrap_or((&self.server, ""));
        let name = format!("{},{port},{}", host.to_ascii_lowercase(), self.start_code);
        name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }

    /// Returns true if the region fulfils the criterion `place`.
    pub fn is_at(&self, place: RegionLookup<'_>) -> bool {
        let ends_behind = |key: &[u8], or_at: bool| {
            self.end.is_empty() || key < &self.end[..] || (or_at && key == &self.end[..])
        };
        match place {
            RegionLookup::Of(key) => &self.start[..] <= key && ends_behind(key, false),
            RegionLookup::Below(Some(key)) => &self.start[..] < key && ends_behind(key, true),
            RegionLookup::Below(None) => self.end.is_empty(),
        }
    }
}

/// Cached regions by their first rows. Entries may be outdated.
#[derive(Debug, Default)]
pub(super) struct Regions(RwLock<BTreeMap<Vec<u8>, Arc<Region>>>);

impl Regions {
    pub(super) fn find(&self, place: RegionLookup<'_>) -> Option<Arc<Region>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let last = match place {
            RegionLookup::Of(key) => known.range::<[u8], _>((Unbounded, Included(key))).next_back(),
            RegionLookup::Below(Some(key)) => known.range::<[u8], _>((Unbounded, Excluded(key))).next_back(),
            RegionLookup::Below(None) => known.iter().next_back(),
        };
        last.map(|(_, region)| Arc::clone(region))
            .filter(|region| region.is_at(place))
    }

    /// Adds a region to the cache, and removes all regions that overlap it.
    pub(super) fn learn(&self, region: &Arc<Region>) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, other| {
            let is_below = !other.end.is_empty() && other.end <= region.start;
            let is_above = !region.end.is_empty() && region.end <= other.start;
            is_below || is_above
        });
        known.insert(region.start.clone(), Arc::clone(region));
    }

    /// Removes a region from the cache, unless its entry was replaced in the meantime.
    pub(super) fn forget(&self, region: &Region) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.get(&region.start).is_some_and(|other| **other == *region) {
            known.remove(&region.start);
        }
    }

    /// Records that a region has moved to the server `server`, unless its entry was replaced in the meantime.
    pub(super) fn moved(&self, region: &Region, server: String) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = known.get_mut(&region.start).filter(|other| ***other == *region) {
            *other = Arc::new(Region {
                server,
                start_code: 0,
                ..region.clone()
            });
        }
    }

    /// Removes all regions from the cache, so that they are looked up again.
    pub(super) fn forget_all(&self) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.clear();
    }

    /// Removes the regions of a server that does not respond from the cache, so that they are looked up again.
    pub(super) fn forget_server(&self, server: &str) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, region| region.server != server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: &str, end: &str, server: &str) -> Arc<Region> {
        Arc::new(Region {
            name: Bytes::from(format!("t,{start},{server}")),
            start: start.into(),
            end: end.into(),
            server: server.into(),
            start_code: 1,
        })
    }

    /// The expected hash was computed with Python for `node-7.example,16020,1700000000000`.
    #[test]
    fn the_server_name_hash_is_that_of_the_form_of_hbase() {
        let region = Region {
            start_code: 1_700_000_000_000,
            ..(*region("", "", "Node-7.example:16020")).clone()
        };
        assert_eq!(region.server_name_hash(), 0x36b23a970d93691e);
    }

    #[test]
    fn a_region_is_found_by_its_rows_and_by_the_key_after_it() {
        let regions = Regions::default();
        let (first, last) = (region("", "m", "a"), region("m", "", "b"));
        regions.learn(&first);
        assert_eq!(regions.find(RegionLookup::Of(b"m")), None);
        assert_eq!(regions.find(RegionLookup::Below(None)), None);
        regions.learn(&last);
        assert_eq!(regions.find(RegionLookup::Of(b"")).as_ref(), Some(&first));
        assert_eq!(regions.find(RegionLookup::Of(b"lzz")).as_ref(), Some(&first));
        assert_eq!(regions.find(RegionLookup::Of(b"m")).as_ref(), Some(&last));
        assert_eq!(
            regions.find(RegionLookup::Below(Some(b"m"))).as_ref(),
            Some(&first)
        );
        assert_eq!(
            regions.find(RegionLookup::Below(Some(b"m\0"))).as_ref(),
            Some(&last)
        );
        assert_eq!(regions.find(RegionLookup::Below(None)).as_ref(), Some(&last));
        assert_eq!(regions.find(RegionLookup::Below(Some(b""))), None);
    }

    #[test]
    fn a_new_region_replaces_the_regions_it_overlaps() {
        let regions = Regions::default();
        regions.learn(&region("", "", "a"));
        let daughter = region("m", "", "b");
        regions.learn(&daughter);
        assert_eq!(regions.find(RegionLookup::Of(b"a")), None);
        regions.learn(&region("", "m", "a"));
        assert_eq!(regions.find(RegionLookup::Of(b"z")).as_ref(), Some(&daughter));
        regions.moved(&daughter, "c".into());
        // An entry that was replaced in the meantime is neither changed nor removed.
        regions.moved(&daughter, "d".into());
        regions.forget(&daughter);
        assert_eq!(regions.find(RegionLookup::Of(b"z")).unwrap().server, "c");
        regions.forget_server("c");
        assert_eq!(regions.find(RegionLookup::Of(b"z")), None);
        assert!(regions.find(RegionLookup::Of(b"a")).is_some());
    }
}
