/*
 * lineside_verify.h: verification of ECDSA signatures in batches, over P-256 and secp256k1.
 *
 * For public data only: no function runs in constant time. Link with -llineside_verify_c; the static library also needs
 * -lpthread -ldl -lm. crates/verify-c/README.md has an example.
 *
 * - Errors. Functions that can fail return a status; LINESIDE_OK is 0. lineside_status_text explains a status. A
 *   function that fails leaves its output as it was, except where the function's comment says otherwise.
 * - Memory. The library allocates its objects; the caller frees each with its own function, which accepts NULL. The
 *   library keeps no pointer to memory of the caller after a function has returned.
 * - Threads. Several threads may use a verifier and its keys at the same time. An object may be freed only when no
 *   other thread uses it. A prepared key may be freed before or after its verifier.
 * - Panics of the Rust code end as LINESIDE_INTERNAL and never cross the interface. If memory is exhausted, the process
 *   is aborted.
 */
#ifndef LINESIDE_VERIFY_H
#define LINESIDE_VERIFY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. lineside_verify_abi_version returns the version of the loaded library. */
#define LINESIDE_VERIFY_ABI_VERSION 1

/* Status of a call. */
#define LINESIDE_OK 0
/* A required pointer is NULL. */
#define LINESIDE_NULL_POINTER 1
/* A curve, an encoding or a flag has no meaning in this version. */
#define LINESIDE_UNKNOWN_OPTION 2
/* The bytes are not a public key in SEC 1 encoding, or the point is not on the curve. */
#define LINESIDE_BAD_KEY 3
/* The table of a prepared key does not fit into the bytes of the verifier. */
#define LINESIDE_NO_ROOM 4
/* A fault of the library. Please report it. */
#define LINESIDE_INTERNAL 5

/* Curves. */
#define LINESIDE_P256 1
#define LINESIDE_SECP256K1 2

/* Encodings of signatures: r and s, 32 bytes each, big-endian; or DER as BIP 66 requires it. */
#define LINESIDE_COMPACT 1
#define LINESIDE_DER 2

/* Flag of lineside_verifier_new: signatures with an s above n/2 are refused. */
#define LINESIDE_LOW_S 1

/* Reasons of verdicts. */
#define LINESIDE_REASON_VALID 0
/* The signature belongs to another digest or key, or r or s is not in 1 ... n-1. */
#define LINESIDE_REASON_INVALID 1
/* s is above n/2, and the verifier has LINESIDE_LOW_S. */
#define LINESIDE_REASON_HIGH_S 2
/* The bytes are not a signature in the given encoding. */
#define LINESIDE_REASON_MALFORMED 3

/* Length of a digest in bytes. Of a longer digest, ECDSA uses the first 32 bytes; before a shorter one, put zeros. */
#define LINESIDE_DIGEST_BYTES 32

/* Verifier with its tables. One is enough for a process. */
typedef struct lineside_verifier lineside_verifier;

/* Public key: a curve, and a point that was checked to be on it. */
typedef struct lineside_public_key lineside_public_key;

/* Public key whose table a verifier has built, and keeps until the handle is freed. */
typedef struct lineside_prepared_key lineside_prepared_key;

/* One signature to verify. */
typedef struct lineside_item {
    /* Key of the claimed signer. */
    const lineside_public_key *key;
    /* The signed digest: LINESIDE_DIGEST_BYTES bytes. */
    const uint8_t *digest;
    /* The signature; NULL is accepted if `signature_bytes` is 0, and is malformed. */
    const uint8_t *signature;
    size_t signature_bytes;
    /* LINESIDE_COMPACT or LINESIDE_DER. */
    uint32_t encoding;
} lineside_item;

/* Returns the version of the library's interface, which must be LINESIDE_VERIFY_ABI_VERSION. */
uint32_t lineside_verify_abi_version(void);

/* Returns an English sentence for a status: a static string, also for an unknown status. */
const char *lineside_status_text(int32_t status);

/*
 * Creates a verifier. `table_bytes` is the maximum number of bytes of its tables; 0 means the default, 256 MiB. `flags`
 * is 0 or LINESIDE_LOW_S. Errors: NULL_POINTER, UNKNOWN_OPTION.
 */
int32_t lineside_verifier_new(size_t table_bytes, uint32_t flags, lineside_verifier **verifier);

void lineside_verifier_free(lineside_verifier *verifier);

/*
 * Reads a public key: 33 bytes that begin with 2 or 3, or 65 bytes that begin with 4 (SEC 1, section 2.3.4). Errors:
 * NULL_POINTER, UNKNOWN_OPTION for the curve, BAD_KEY.
 */
int32_t lineside_public_key_new(uint32_t curve, const uint8_t *bytes, size_t count, lineside_public_key **key);

void lineside_public_key_free(lineside_public_key *key);

/*
 * Builds the table of a key before its first signature; the verifier keeps it until the handle is freed. It serves all
 * items with an equal key. `expected_signatures` determines the size of the table: 53 kB below 256, 262 kB below 2,048,
 * 852 kB below 16,384, 5.2 MB above; a smaller one if that does not fit. Errors: NULL_POINTER, NO_ROOM.
 */
int32_t lineside_prepared_key_new(const lineside_verifier *verifier, const lineside_public_key *key,
                                  uint64_t expected_signatures, lineside_prepared_key **prepared);

void lineside_prepared_key_free(lineside_prepared_key *prepared);

/*
 * Verifies `count` signatures. `valid` has room for `count` bytes; each becomes 1 if the signature is valid, otherwise
 * 0. `reasons` is NULL, or has room for `count` bytes, each of which becomes a reason. Neither may overlap the inputs.
 * If `count` is 0, the pointers to items and results may be NULL. After an error, all bytes of `valid` are 0, if it is
 * not NULL. Errors: NULL_POINTER, also for a pointer of an item; UNKNOWN_OPTION for an encoding of an item.
 */
int32_t lineside_verify_batch(const lineside_verifier *verifier, const lineside_item *items, size_t count,
                              uint8_t *valid, uint8_t *reasons);

#ifdef __cplusplus
}
#endif

#endif
