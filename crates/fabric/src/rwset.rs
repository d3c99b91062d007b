//! Read-write sets of transactions.

use crate::proto::{self, Arena, HashedRwSet, KvRwSet, Malformed, TxReadWriteSet, Version};
use crate::state::Height;
use smallvec::SmallVec;

/// Read-write sets of a transaction by namespace. Nearly all transactions have at most two read-write sets, for their
/// chaincode and for `_lifecycle`; these two are stored without an allocation, see [`proto::Few`].
pub type NsRwSets<'a> = SmallVec<[NsRwSet<'a>; 2]>;

/// Reads and writes of a transaction in one chaincode's namespace.
#[derive(Debug)]
pub struct NsRwSet<'a> {
    /// Name of the chaincode.
    pub namespace: &'a str,
    /// Reads and writes of keys of the public state.
    pub public: KvRwSet<'a>,
    /// Reads and writes of collections.
    pub collections: Vec<Collection<'a>>,
}

/// Reads and writes of a transaction in one collection.
#[derive(Debug)]
pub struct Collection<'a> {
    /// Name of the collection.
    pub name: &'a str,
    /// Reads and writes of hashed keys.
    pub hashed: HashedRwSet<'a>,
}

impl NsRwSet<'_> {
    /// Returns whether the set contains writes, including writes of metadata.
    pub fn writes(&self) -> bool {
        let hashed = |collection: &Collection<'_>| {
            !collection.hashed.writes.is_empty() || !collection.hashed.metadata_writes.is_empty()
        };
        let public = &self.public;
        !public.writes.is_empty() || !public.metadata_writes.is_empty() || self.collections.iter().any(hashed)
    }
}

/// Parses the results of a chaincode action.
pub fn read<'a>(results: &'a [u8], arena: &'a Arena) -> Result<NsRwSets<'a>, Malformed> {
    let set: TxReadWriteSet<'a> = proto::decode(results, arena)?;
    let mut namespaces = NsRwSets::with_capacity(set.ns_rwset.len());
    for of in set.ns_rwset {
        let public = proto::decode(of.rwset, arena)?;
        let mut collections = Vec::with_capacity(of.collections.len());
        for collection in of.collections {
            collections.push(Collection {
                name: collection.collection_name,
                hashed: proto::decode(collection.hashed_rwset, arena)?,
            });
        }
        namespaces.push(NsRwSet {
            namespace: of.namespace,
            public,
            collections,
        });
    }
    Ok(namespaces)
}

/// Returns the version of a read; `None` if the key did not exist.
pub fn height(version: &Option<Version<'_>>) -> Option<Height> {
    version.as_ref().map(|version| Height {
        block: version.block_num,
        tx: version.tx_num,
    })
}
