//! Prepared keys: handles that keep the table of a key from the beginning, for as long as the caller wants it.

use crate::backend::lock;
use crate::batch::Inner;
use crate::key::PublicKey;
use std::sync::Arc;
use thiserror::Error;

/// Handle of a public key whose table was built before its first signature and is never evicted.
///
/// [`Verifier::prepare`](crate::Verifier::prepare) creates handles. Clones of a handle share one table. When the last
/// handle of a key is dropped, the verifier treats the key like every other key that recurs.
///
/// A handle dereferences to its [`PublicKey`], so an [`Item`](crate::Item) takes `key: &handle`. The verifier finds the
/// table by the key: signatures whose item has an equal `PublicKey` use it too, but only in the verifier that prepared
/// the key, and its clones. In every other verifier, the handle is merely a key.
#[derive(Clone)]
pub struct PreparedKey {
    handle: Arc<Handle>,
}

struct Handle {
    inner: Arc<Inner>,
    key: PublicKey,
    hash: u64,
}

impl Drop for Handle {
    fn drop(&mut self) {
        lock(&self.inner.cache).release_prepared(&self.key, self.hash);
    }
}

impl PreparedKey {
    /// Creates a handle. The cache must have counted this handle already; dropping the last clone removes it.
    pub(crate) fn new(inner: &Arc<Inner>, key: PublicKey, hash: u64) -> Self {
        let inner = Arc::clone(inner);
        Self {
            handle: Arc::new(Handle { inner, key, hash }),
        }
    }

    /// Returns the key.
    pub fn public_key(&self) -> &PublicKey {
        &self.handle.key
    }

    /// Returns the number of bytes of the key's table. They are part of
    /// [`Options::table_bytes`](crate::Options::table_bytes). The number is 0 on a backend without tables.
    pub fn table_bytes(&self) -> usize {
        let Handle { inner, key, hash } = &*self.handle;
        lock(&inner.cache).table_bytes(key, *hash)
    }
}

impl std::ops::Deref for PreparedKey {
    type Target = PublicKey;

    fn deref(&self) -> &PublicKey {
        self.public_key()
    }
}

impl std::fmt::Debug for PreparedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PreparedKey").field(self.public_key()).finish()
    }
}

/// Error for keys whose tables do not fit into the memory that a verifier has for prepared keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error(
    "the smallest tables of the {keys} keys to prepare take {needed_bytes} bytes, and prepared keys can still take \
     {free_bytes}; raise Options::table_bytes, or drop other prepared keys"
)]
#[non_exhaustive]
pub struct PrepareError {
    /// Number of keys of the call that were not prepared before.
    pub keys: usize,
    /// Number of bytes of the smallest tables of these keys.
    pub needed_bytes: usize,
    /// Number of bytes that tables of prepared keys can still take.
    pub free_bytes: usize,
}
