//! C interface of `lineside-verify`, which `include/lineside_verify.h` declares and explains.
//!
//! Every function catches panics and returns [`LINESIDE_INTERNAL`] for one, so that no panic crosses the interface. The
//! functions read the caller's memory only through the pointers that they receive, and do not keep the pointers.
//!
//! The functions are called from C. Rust programs use the crate `lineside-verify`. For tests, they can be called from
//! Rust too:
//!
//! ```
//! use lineside_verify_c::{LINESIDE_OK, lineside_verifier_free, lineside_verifier_new};
//!
//! let mut verifier = std::ptr::null_mut();
//! // SAFETY: the output pointer is valid, and the verifier is freed once.
//! unsafe {
//!     assert_eq!(lineside_verifier_new(0, 0, &mut verifier), LINESIDE_OK);
//!     lineside_verifier_free(verifier);
//! }
//! ```

use lineside_verify::{Curve, Item, Options, PreparedKey, PublicKey, SignatureBytes, Verdict, Verifier};
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

/// Version of the interface.
pub const LINESIDE_VERIFY_ABI_VERSION: u32 = 1;

/// Status: success.
pub const LINESIDE_OK: i32 = 0;
/// Status: a required pointer is null.
pub const LINESIDE_NULL_POINTER: i32 = 1;
/// Status: a curve, an encoding or a flag has no meaning.
pub const LINESIDE_UNKNOWN_OPTION: i32 = 2;
/// Status: the bytes are not a public key.
pub const LINESIDE_BAD_KEY: i32 = 3;
/// Status: the table of a prepared key does not fit.
pub const LINESIDE_NO_ROOM: i32 = 4;
/// Status: the Rust code panicked.
pub const LINESIDE_INTERNAL: i32 = 5;

/// Curve P-256.
pub const LINESIDE_P256: u32 = 1;
/// Curve secp256k1.
pub const LINESIDE_SECP256K1: u32 = 2;

/// Encoding of signatures: `r || s`, 64 bytes.
pub const LINESIDE_COMPACT: u32 = 1;
/// Encoding of signatures: strict DER.
pub const LINESIDE_DER: u32 = 2;

/// Flag of a verifier: an s above n/2 is refused.
pub const LINESIDE_LOW_S: u32 = 1;

/// Reason: the signature is valid.
pub const LINESIDE_REASON_VALID: u8 = 0;
/// Reason: the signature is not valid.
pub const LINESIDE_REASON_INVALID: u8 = 1;
/// Reason: s is above n/2, and the verifier refuses that.
pub const LINESIDE_REASON_HIGH_S: u8 = 2;
/// Reason: the bytes are not a signature.
pub const LINESIDE_REASON_MALFORMED: u8 = 3;

/// Length of a digest in bytes.
pub const LINESIDE_DIGEST_BYTES: usize = 32;

/// Verifier, opaque to C.
#[allow(non_camel_case_types)]
pub struct lineside_verifier(Verifier);

/// Public key, opaque to C.
#[allow(non_camel_case_types)]
pub struct lineside_public_key(PublicKey);

/// Prepared key, opaque to C. Dropping it releases the key's table.
#[allow(non_camel_case_types)]
pub struct lineside_prepared_key(#[allow(dead_code)] PreparedKey);

/// One signature to verify, in the layout of the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct lineside_item {
    /// Key of the claimed signer.
    pub key: *const lineside_public_key,
    /// The signed digest, [`LINESIDE_DIGEST_BYTES`] bytes.
    pub digest: *const u8,
    /// The signature.
    pub signature: *const u8,
    /// Number of bytes of the signature.
    pub signature_bytes: usize,
    /// [`LINESIDE_COMPACT`] or [`LINESIDE_DER`].
    pub encoding: u32,
}

/// Runs a function of the interface and returns its status. A panic becomes [`LINESIDE_INTERNAL`].
///
/// `AssertUnwindSafe` is right here: outputs are written only after success, and the verifier's locks survive a panic
/// of a thread that holds them.
fn status_of(call: impl FnOnce() -> Result<(), i32>) -> i32 {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => LINESIDE_OK,
        Ok(Err(status)) => status,
        Err(_) => LINESIDE_INTERNAL,
    }
}

/// Frees an object that `Box::into_raw` made; does nothing for null.
///
/// # Safety
///
/// `object` is null, or comes from `Box::into_raw` and was not freed before.
unsafe fn free<T>(object: *mut T) {
    if object.is_null() {
        return;
    }
    // A panic of the object's `drop` must not cross the interface. There is no status to report it in.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller passes a pointer from `Box::into_raw` that was not freed before.
        drop(unsafe { Box::from_raw(object) });
    }));
}

/// Returns a reference to the object, or the status for null.
///
/// # Safety
///
/// `pointer` is null, or valid for reads during `'a`.
unsafe fn reference<'a, T>(pointer: *const T) -> Result<&'a T, i32> {
    // SAFETY: the caller guarantees that a pointer which is not null is valid.
    unsafe { pointer.as_ref() }.ok_or(LINESIDE_NULL_POINTER)
}

/// Returns a slice of the caller's memory, or the status for null. An empty slice may have a null pointer.
///
/// # Safety
///
/// `pointer` is valid for reads of `count` items during `'a`, or null.
unsafe fn items_at<'a, T>(pointer: *const T, count: usize) -> Result<&'a [T], i32> {
    if count == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(LINESIDE_NULL_POINTER);
    }
    // SAFETY: the pointer is not null, and the caller guarantees that it is valid for `count` items.
    Ok(unsafe { slice::from_raw_parts(pointer, count) })
}

/// Returns the version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn lineside_verify_abi_version() -> u32 {
    LINESIDE_VERIFY_ABI_VERSION
}

/// Returns a sentence that explains a status.
#[unsafe(no_mangle)]
pub extern "C" fn lineside_status_text(status: i32) -> *const c_char {
    let text: &CStr = match status {
        LINESIDE_OK => c"the call succeeded",
        LINESIDE_NULL_POINTER => c"a required pointer is NULL",
        LINESIDE_UNKNOWN_OPTION => {
            c"a curve, an encoding or a flag is unknown to this version of the library"
        }
        LINESIDE_BAD_KEY => c"the bytes are not a public key of the curve in SEC 1 encoding",
        LINESIDE_NO_ROOM => c"the table of the key does not fit into the table_bytes of the verifier",
        LINESIDE_INTERNAL => c"the library has a fault; report it",
        _ => c"the status is unknown to this version of the library",
    };
    text.as_ptr()
}

/// Creates a verifier.
///
/// # Safety
///
/// `verifier` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lineside_verifier_new(
    table_bytes: usize,
    flags: u32,
    verifier: *mut *mut lineside_verifier,
) -> i32 {
    status_of(|| {
        if verifier.is_null() {
            return Err(LINESIDE_NULL_POINTER);
        }
        if flags & !LINESIDE_LOW_S != 0 {
            return Err(LINESIDE_UNKNOWN_OPTION);
        }
        let mut options = Options {
            low_s: flags & LINESIDE_LOW_S != 0,
            ..Options::default()
        };
        if table_bytes > 0 {
            options.table_bytes = table_bytes;
        }
        let created = Verifier::new(options).map_err(|_| LINESIDE_INTERNAL)?;
        // SAFETY: the pointer is not null, and the caller guarantees that it is valid for a write.
        unsafe { verifier.write(Box::into_raw(Box::new(lineside_verifier(created)))) };
        Ok(())
    })
}

/// Frees a verifier.
///
/// # Safety
///
/// `verifier` is null, or comes from [`lineside_verifier_new`], and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lineside_verifier_free(verifier: *mut lineside_verifier) {
    // SAFETY: the caller guarantees that the pointer is null or an object that was not freed before.
    unsafe { free(verifier) }
}

/// Reads a public key.
///
/// # Safety
///
/// `bytes` is null or valid for reads of `count` bytes; `key` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lineside_public_key_new(
    curve: u32,
    bytes: *const u8,
    count: usize,
    key: *mut *mut lineside_public_key,
) -> i32 {
    status_of(|| {
        if key.is_null() || bytes.is_null() {
            return Err(LINESIDE_NULL_POINTER);
        }
        let curve = match curve {
            LINESIDE_P256 => Curve::P256,
            LINESIDE_SECP256K1 => Curve::Secp256k1,
            _ => return Err(LINESIDE_UNKNOWN_OPTION),
        };
        // SAFETY: the caller guarantees that `bytes` is valid for `count` bytes.
        let bytes = unsafe { items_at(bytes, count) }?;
        let parsed = PublicKey::from_sec1(curve, bytes).map_err(|_| LINESIDE_BAD_KEY)?;
        // SAFETY: the pointer is not null, and the caller guarantees that it is valid for a write.
        unsafe { key.write(Box::into_raw(Box::new(lineside_public_key(parsed)))) };
        Ok(())
    })
}

/// Frees a public key.
///
/// # Safety
///
/// `key` is null, or comes from [`lineside_public_key_new`], and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lineside_public_key_free(key: *mut lineside_public_key) {
    // SAFETY: the caller guarantees that the pointer is null or an object that was not freed before.
    unsafe { free(key) }
}

/// Builds the table of a key, which the verifier keeps until the handle is freed.
///
/// # Safety
///
/// `verifier` and `key` are null or objects of this library; `prepared` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lineside_prepared_key_new(
    verifier: *const lineside_verifier,
    key: *const lineside_public_key,
    expected_signatures: u64,
    prepared: *mut *mut lineside_prepared_key,
) -> i32 {
    status_of(|| {
        // SAFETY: the caller guarantees that both pointers are null or valid objects.
        let (verifier, key) = unsafe { (reference(verifier)?, reference(key)?) };
        if prepared.is_null() {
            return Err(LINESIDE_NULL_POINTER);
        }
        let keys = verifier.0.prepare(&[key.0], expected_signatures);
        let handle = keys
            .map_err(|_| LINESIDE_NO_ROOM)?
            .pop()
            .ok_or(LINESIDE_INTERNAL)?;
        // SAFETY: the pointer is not null, and the caller guarantees that it is valid for a write.
        unsafe { prepared.write(Box::into_raw(Box::new(lineside_prepared_key(handle)))) };
        Ok(())
    })
}

/// Frees a prepared key.
///
/// # Safety
///
/// `prepared` is null, or comes from [`lineside_prepared_key_new`], and no other thread uses it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lineside_prepared_key_free(prepared: *mut lineside_prepared_key) {
    // SAFETY: the caller guarantees that the pointer is null or an object that was not freed before.
    unsafe { free(prepared) }
}

/// Verifies a batch of signatures.
///
/// # Safety
///
/// `verifier` is null or an object of this library. `items` is valid for reads of `count` items, whose pointers are
/// null, or a key of this library, a digest of 32 bytes and a signature of `signature_bytes` bytes. `valid` and
/// `reasons` are null or valid for writes of `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lineside_verify_batch(
    verifier: *const lineside_verifier,
    items: *const lineside_item,
    count: usize,
    valid: *mut u8,
    reasons: *mut u8,
) -> i32 {
    if !valid.is_null() && count > 0 {
        // SAFETY: the pointer is not null, and the caller guarantees that it is valid for `count` bytes.
        unsafe { valid.write_bytes(0, count) };
    }
    status_of(|| {
        // SAFETY: the caller guarantees that `verifier` is null or a valid object, and that `items` is null or valid
        // for `count` items.
        let (verifier, items) = unsafe { (reference(verifier)?, items_at(items, count)?) };
        if count == 0 {
            return Ok(());
        }
        if valid.is_null() {
            return Err(LINESIDE_NULL_POINTER);
        }
        // SAFETY: the caller guarantees that the pointers of each item are null or valid.
        let batch: Result<Vec<Item<'_>>, i32> = items.iter().map(|item| unsafe { read(item) }).collect();
        let verdicts = verifier.0.verify_batch(&batch?);
        for (at, verdict) in verdicts.into_iter().enumerate() {
            // SAFETY: `at` is below `count`, and the caller guarantees that both pointers are valid for `count` bytes,
            // or that `reasons` is null.
            unsafe {
                valid.add(at).write(u8::from(verdict.is_valid()));
                if !reasons.is_null() {
                    reasons.add(at).write(reason(verdict));
                }
            }
        }
        Ok(())
    })
}

/// Returns an item of C in the form of Rust.
///
/// # Safety
///
/// The pointers of `item` are null or valid during `'a`.
unsafe fn read<'a>(item: &lineside_item) -> Result<Item<'a>, i32> {
    // SAFETY: the caller guarantees that the pointers are null or valid for these numbers of bytes.
    let (key, digest, signature) = unsafe {
        (
            reference(item.key)?,
            reference(item.digest.cast::<[u8; LINESIDE_DIGEST_BYTES]>())?,
            items_at(item.signature, item.signature_bytes)?,
        )
    };
    let signature = match item.encoding {
        LINESIDE_COMPACT => SignatureBytes::Compact(signature),
        LINESIDE_DER => SignatureBytes::Der(signature),
        _ => return Err(LINESIDE_UNKNOWN_OPTION),
    };
    Ok(Item {
        key: &key.0,
        digest: *digest,
        signature,
    })
}

fn reason(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Valid => LINESIDE_REASON_VALID,
        Verdict::HighS => LINESIDE_REASON_HIGH_S,
        Verdict::Malformed(_) => LINESIDE_REASON_MALFORMED,
        _ => LINESIDE_REASON_INVALID,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_status() {
        assert_eq!(status_of(|| panic!("a fault for the test")), LINESIDE_INTERNAL);
        assert_eq!(status_of(|| Err(LINESIDE_BAD_KEY)), LINESIDE_BAD_KEY);
        assert_eq!(status_of(|| Ok(())), LINESIDE_OK);
    }
}
