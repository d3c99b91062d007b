//! Owner of a region: the server that holds a range of rows.

/// Server that holds a range of rows, and the end of that range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RegionOwner {
    /// Hash (64-bit FNV-1a) of the server's name in HBase's form, `host,port,startcode`; 0 if the table does not
    /// distinguish servers.
    pub server: u64,
    /// First row after the range; `None` if the range extends to the end of the table.
    pub end: Option<Vec<u8>>,
}
