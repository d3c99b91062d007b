//! Read-write sets.

use crate::proto::{self, Arena, HashedRwSet, KvRwSet, Malformed, TxReadWriteSet, Version};
use crate::state::Height;

/// What a transaction read and writes of one chaincode.
#[derive(Debug)]
pub struct NsRwSet<'a> {
    /// The chaincode.
    pub namespace: &'a str,
    /// Its public keys.
    pub public: KvRwSet<'a>,
    /// Its collections.
    pub collections: Vec<Collection<'a>>,
}

/// What a transaction read and writes of one collection.
#[derive(Debug)]
pub struct Collection<'a> {
    /// The collection.
    pub name: &'a str,
    /// Its keys, hashed.
    pub hashed: HashedRwSet<'a>,
}

impl NsRwSet<'_> {
    /// Whether it writes anything, metadata included.
    pub fn writes(&self) -> bool {
        let hashed = |collection: &Collection<'_>| {
            !collection.hashed.writes.is_empty() || !collection.hashed.metadata_writes.is_empty()
        };
        let public = &self.public;
        !public.writes.is_empty() || !public.metadata_writes.is_empty() || self.collections.iter().any(hashed)
    }
}

/// Reads the results of a chaincode action.
pub fn read<'a>(results: &'a [u8], arena: &'a Arena) -> Result<Vec<NsRwSet<'a>>, Malformed> {
    let set: TxReadWriteSet<'a> = proto::decode(results, arena)?;
    let mut namespaces = Vec::with_capacity(set.ns_rwset.len());
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

/// The height that a read tells.
pub fn height(version: &Option<Version<'_>>) -> Option<Height> {
    version.as_ref().map(|version| Height {
        block: version.block_num,
        tx: version.tx_num,
    })
}
