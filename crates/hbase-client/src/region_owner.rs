//! Region servers, as callers distinguish them.

/// Server that holds a range of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionOwner {
    /// Hash (64-bit FNV-1a) of the server's name as HBase writes it, `host,port,startcode`; 0 if servers are not
    /// distinguished.
    pub server: u64,
    /// First row after the range; `None` if the range goes to the end of the table.
    pub end: Option<Vec<u8>>,
}
