//! Errors, distinguished by the fate of the requested change.

/// Reason why a table did not answer, or did not execute a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// Nothing was done. The same call may succeed later.
    #[error("the table cannot be reached at the moment: {0}")]
    Unavailable(String),
    /// Nothing was done. The same call will fail again.
    #[error("the table refuses the request: {0}")]
    Refused(String),
    /// Nothing was done, because the table has no such column family.
    #[error("the table has no such column family: {0}")]
    UnknownFamily(String),
    /// Nothing was done, because the cell to increment does not hold 8 bytes.
    #[error("cannot increment: the cell value is not 8 bytes")]
    NotANumber,
    /// Nothing was done, because the cell would be longer than the table takes. Only a table embedded in Lineside
    /// returns this; the clients of this crate never do.
    #[error("the cell would be too long: {0}")]
    TooLong(String),
    /// Nothing was done, because there is no room for it; a change that needs less room may succeed. Only a table
    /// embedded in Lineside returns this; the clients of this crate never do.
    #[error("the table is full: {0}")]
    Full(String),
    /// Nothing was done, and no change will be made before a restart. Only a table embedded in Lineside returns this;
    /// the clients of this crate never do.
    #[error("the table takes no changes until the next start: {0}")]
    Ended(String),
    /// The change may have been made, or may still be made.
    #[error("it is unknown whether the change was made: {0}")]
    Unknown(String),
}

impl TableError {
    /// Returns the error for a call that HBase refused, chosen by the text of its exception.
    pub(crate) fn refused_by_hbase(why: String) -> Self {
        match () {
            () if why.contains("NoSuchColumnFamilyException") => Self::UnknownFamily(why),
            () if why.contains("Field is not a long") => Self::NotANumber,
            () => Self::Refused(why),
        }
    }
}
