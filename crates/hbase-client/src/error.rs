//! Errors of a table. Each says whether the requested change was made.

/// Reason why a table did not answer, or did not execute a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The call had no effect. The same call may succeed later.
    #[error("the table cannot be reached at the moment: {0}")]
    Unavailable(String),
    /// The call had no effect. The same call would fail again.
    #[error("the table refuses the request: {0}")]
    Refused(String),
    /// The call had no effect, because the table has no such column family.
    #[error("the table has no such column family: {0}")]
    UnknownFamily(String),
    /// The call had no effect, because the cell to increment does not have 8 bytes.
    #[error("cannot increment: the cell value is not 8 bytes")]
    NotANumber,
    /// The call had no effect, because the cell would be longer than the table allows. Only a table that is embedded in
    /// Lineside returns this error; the clients of this crate never do.
    #[error("the cell would be too long: {0}")]
    TooLong(String),
    /// The call had no effect, because there is no room for the change; a smaller change may succeed. Only a table that
    /// is embedded in Lineside returns this error; the clients of this crate never do.
    #[error("the table is full: {0}")]
    Full(String),
    /// The call had no effect, and the table takes no change before a restart. Only a table that is embedded in
    /// Lineside returns this error; the clients of this crate never do.
    #[error("the table takes no changes until the next start: {0}")]
    Ended(String),
    /// The change may have been made, or may still be made.
    #[error("it is unknown whether the change was made: {0}")]
    Unknown(String),
}

impl TableError {
    /// Returns the error for a call that HBase refused. The text of HBase's exception determines which error it is.
    pub(crate) fn refused_by_hbase(why: String) -> Self {
        match () {
            () if why.contains("NoSuchColumnFamilyException") => Self::UnknownFamily(why),
            () if why.contains("Field is not a long") => Self::NotANumber,
            () => Self::Refused(why),
        }
    }
}
