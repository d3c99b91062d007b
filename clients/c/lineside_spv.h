/*
 * Verification of proofs from Lineside's service `spv`, for light clients on devices: one header file, which
 * allocates no memory, does no I/O, and uses only <string.h> of the C library. The caller receives a block header and
 * a proof from any server. The functions check that the transaction is in the block of this header, and that the
 * block header has the proof of work that it claims. They do not check that the block is in the chain with the most
 * work; the caller must check this with its own chain of headers.
 *
 *	struct lineside_spv_proof proof = { header, count, index, path, path_hashes };
 *	if (lineside_spv_verify(LINESIDE_SPV_MAINNET, &proof, txid) == LINESIDE_SPV_OK) ...
 *
 * Hashes are in wire order, the reverse of the order in which they are displayed. The checks, their order and the
 * numbers of the results are those of the Rust crate lineside-spv-proof. Both are tested with the vectors in
 * vectors/spv-proof.
 */
#ifndef LINESIDE_SPV_H
#define LINESIDE_SPV_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Version of this header, which is that of Lineside. Before 1.0, a change after which a program may no longer compile
 * or work raises MINOR. The number is for comparisons: #if LINESIDE_SPV_VERSION >= 1000, for 0.1.0 and later.
 */
#define LINESIDE_SPV_VERSION_MAJOR 0
#define LINESIDE_SPV_VERSION_MINOR 1
#define LINESIDE_SPV_VERSION_PATCH 0
#define LINESIDE_SPV_VERSION                                                                       \
	(LINESIDE_SPV_VERSION_MAJOR * 1000000 + LINESIDE_SPV_VERSION_MINOR * 1000 +         \
	 LINESIDE_SPV_VERSION_PATCH)

#define LINESIDE_SPV_HASH_BYTES 32
#define LINESIDE_SPV_HEADER_BYTES 80
#define LINESIDE_SPV_TRANSACTIONS_MAX 16666 /* 4,000,000 units of weight, at least 240 for a transaction */

/* Easiest target that a header of a network may have, in compact form: the argument `limit`. */
#define LINESIDE_SPV_MAINNET 0x1d00ffffu
#define LINESIDE_SPV_TESTNET3 0x1d00ffffu
#define LINESIDE_SPV_TESTNET4 0x1d00ffffu
#define LINESIDE_SPV_SIGNET 0x1e0377aeu
#define LINESIDE_SPV_REGTEST 0x207fffffu
#define LINESIDE_SPV_SIMNET 0x207fffffu

/* Results of the functions that check. The numbers are those of the Rust enum ProofError. */
#define LINESIDE_SPV_OK 0
#define LINESIDE_SPV_INDEX_OUT_OF_RANGE 1
#define LINESIDE_SPV_WRONG_DEPTH 2
#define LINESIDE_SPV_IMPOSSIBLE_TRANSACTION_COUNT 3
#define LINESIDE_SPV_EQUAL_SIBLINGS 4            /* duplicated transactions (CVE-2012-2459) */
#define LINESIDE_SPV_MISSING_DUPLICATE 5         /* the last node of an odd row is not paired with itself */
#define LINESIDE_SPV_INNER_NODE_IS_TRANSACTION 6 /* a forged leaf is possible (CVE-2017-12842) */
#define LINESIDE_SPV_TRANSACTION_OF_64_BYTES 7   /* it could pass as an inner node (CVE-2017-12842) */
#define LINESIDE_SPV_WRONG_ROOT 8                /* another block or transaction, or another byte order */
#define LINESIDE_SPV_INVALID_TARGET 9
#define LINESIDE_SPV_WRONG_PROOF_OF_WORK 10
#define LINESIDE_SPV_MALFORMED_TRANSACTION 11
#define LINESIDE_SPV_NOT_COINBASE 12
#define LINESIDE_SPV_NO_WITNESS_COMMITMENT 13
#define LINESIDE_SPV_WRONG_WITNESS_COMMITMENT 14
#define LINESIDE_SPV_WRONG_COINBASE_WTXID 15

/* Proof that a transaction is in a block. The pointers refer to memory of the caller. */
struct lineside_spv_proof {
	const uint8_t *header;      /* header of the block, 80 bytes */
	uint32_t transaction_count; /* number of transactions in the block */
	uint32_t index;             /* position of the transaction in the block, from 0 */
	const uint8_t *path;        /* path_hashes times 32 bytes: siblings from the transaction to the root */
	uint32_t path_hashes;
};

/* Proof that a transaction with its witness is in a block (BIP141). */
struct lineside_spv_witness_proof {
	struct lineside_spv_proof proof;  /* header and position; the path leads from the WTXID to the witness root */
	const uint8_t *coinbase;          /* the block's first transaction, without its witness */
	size_t coinbase_bytes;
	const uint8_t *coinbase_path;     /* coinbase_path_hashes times 32 bytes: siblings of the coinbase's TXID */
	uint32_t coinbase_path_hashes;
	const uint8_t *witness_reserved;  /* 32 bytes: the only item of the coinbase's witness */
};

/* ---- SHA-256 (FIPS 180-4) ---- */

struct lineside_spv_sha256 {
	uint32_t state[8];
	uint64_t bytes;
	uint8_t block[64];
};

static inline void lineside_spv_sha256_compress(uint32_t state[8], const uint8_t block[64])
{
	static const uint32_t k[64] = {
		0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
		0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
		0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
		0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
		0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
		0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
		0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
		0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
	};
	uint32_t w[16], s[8];
	int i;

#define LINESIDE_SPV_ROTATE(x, n) ((x) >> (n) | (x) << (32 - (n)))
	memcpy(s, state, sizeof(s));
	for (i = 0; i < 64; i++) {
		uint32_t *word = &w[i & 15], first, second;

		if (i < 16) {
			const uint8_t *at = block + 4 * i;

			*word = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
		} else {
			uint32_t early = w[(i + 1) & 15], late = w[(i + 14) & 15];

			*word += w[(i + 9) & 15];
			*word += LINESIDE_SPV_ROTATE(early, 7) ^ LINESIDE_SPV_ROTATE(early, 18) ^ early >> 3;
			*word += LINESIDE_SPV_ROTATE(late, 17) ^ LINESIDE_SPV_ROTATE(late, 19) ^ late >> 10;
		}
		first = LINESIDE_SPV_ROTATE(s[4], 6) ^ LINESIDE_SPV_ROTATE(s[4], 11) ^ LINESIDE_SPV_ROTATE(s[4], 25);
		first += s[7] + ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + *word;
		second = LINESIDE_SPV_ROTATE(s[0], 2) ^ LINESIDE_SPV_ROTATE(s[0], 13) ^ LINESIDE_SPV_ROTATE(s[0], 22);
		second += (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
		memmove(s + 1, s, 7 * sizeof(s[0]));
		s[4] += first;
		s[0] = first + second;
	}
	for (i = 0; i < 8; i++)
		state[i] += s[i];
#undef LINESIDE_SPV_ROTATE
}

static inline void lineside_spv_sha256_begin(struct lineside_spv_sha256 *hash)
{
	static const uint32_t initial[8] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
					     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19 };

	memcpy(hash->state, initial, sizeof(initial));
	hash->bytes = 0;
}

static inline void lineside_spv_sha256_add(struct lineside_spv_sha256 *hash, const uint8_t *data, size_t bytes)
{
	while (bytes > 0) {
		size_t used = (size_t)(hash->bytes & 63), part = 64 - used;

		if (part > bytes)
			part = bytes;
		memcpy(hash->block + used, data, part);
		hash->bytes += part;
		data += part;
		bytes -= part;
		if (used + part == 64)
			lineside_spv_sha256_compress(hash->state, hash->block);
	}
}

static inline void lineside_spv_sha256_end(struct lineside_spv_sha256 *hash, uint8_t out[32])
{
	static const uint8_t padding[64] = { 0x80 };
	uint64_t bits = hash->bytes << 3;
	uint8_t length[8];
	int i;

	for (i = 0; i < 8; i++)
		length[i] = (uint8_t)(bits >> (56 - 8 * i));
	lineside_spv_sha256_add(hash, padding, 1 + (size_t)((119 - (hash->bytes & 63)) & 63));
	lineside_spv_sha256_add(hash, length, 8);
	for (i = 0; i < 32; i++)
		out[i] = (uint8_t)(hash->state[i >> 2] >> (24 - 8 * (i & 3)));
}

/* Ends a double SHA-256 and writes the hash. */
static inline void lineside_spv_sha256d_end(struct lineside_spv_sha256 *hash, uint8_t out[32])
{
	uint8_t first[32];

	lineside_spv_sha256_end(hash, first);
	lineside_spv_sha256_begin(hash);
	lineside_spv_sha256_add(hash, first, sizeof(first));
	lineside_spv_sha256_end(hash, out);
}

/* Writes the double SHA-256 of `bytes` bytes: the hash of transactions, block headers and nodes of Merkle trees. */
static inline void lineside_spv_sha256d(const uint8_t *data, size_t bytes, uint8_t out[32])
{
	struct lineside_spv_sha256 hash;

	lineside_spv_sha256_begin(&hash);
	lineside_spv_sha256_add(&hash, data, bytes);
	lineside_spv_sha256d_end(&hash, out);
}

/* ---- headers ---- */

static inline uint32_t lineside_spv_get_le32(const uint8_t *at)
{
	return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

/* Expands `bits` to the target, least significant byte first. Returns 0 if the target is negative, 0, or too long. */
static inline int lineside_spv_target(uint32_t bits, uint8_t target[32])
{
	uint32_t size = bits >> 24, i;
	int is_positive = 0;

	memset(target, 0, 32);
	for (i = 0; i < 3; i++) {
		uint8_t byte = (uint8_t)(bits >> (8 * i) & (i == 2 ? 0x7f : 0xff));

		if (byte == 0 || i + size < 3)
			continue;
		if (i + size - 3 >= 32)
			return 0;
		target[i + size - 3] = byte;
		is_positive = 1;
	}
	return is_positive && !(bits & 0x00800000);
}

/* Returns 1 if a number is above another one; both have their least significant byte first. */
static inline int lineside_spv_is_above(const uint8_t number[32], const uint8_t other[32])
{
	int i = 31;

	while (i > 0 && number[i] == other[i])
		i--;
	return number[i] > other[i];
}

/* Writes the hash of a block header. */
static inline void lineside_spv_header_hash(const uint8_t header[80], uint8_t hash[32])
{
	lineside_spv_sha256d(header, LINESIDE_SPV_HEADER_BYTES, hash);
}

/*
 * Checks that a header's hash is at most the header's target, and that the target is at most `limit`, the easiest
 * target of the network. Returns LINESIDE_SPV_OK, LINESIDE_SPV_INVALID_TARGET or LINESIDE_SPV_WRONG_PROOF_OF_WORK.
 */
static inline int lineside_spv_check_proof_of_work(uint32_t limit, const uint8_t header[80])
{
	uint8_t target[32], easiest[32], hash[32];

	if (!lineside_spv_target(lineside_spv_get_le32(header + 72), target) ||
	    !lineside_spv_target(limit, easiest) || lineside_spv_is_above(target, easiest))
		return LINESIDE_SPV_INVALID_TARGET;
	lineside_spv_header_hash(header, hash);
	return lineside_spv_is_above(hash, target) ? LINESIDE_SPV_WRONG_PROOF_OF_WORK : LINESIDE_SPV_OK;
}

/* ---- transactions ---- */

struct lineside_spv_transaction {
	const uint8_t *raw; /* the first 4 bytes are the version, the last 4 the lock time */
	size_t raw_bytes;
	const uint8_t *body; /* beginning of inputs and outputs, with their counts */
	size_t body_bytes;
	const uint8_t *outputs; /* first output; their count precedes it */
	uint64_t output_count;
	int is_coinbase;
};

struct lineside_spv_reader {
	const uint8_t *at; /* next byte to read; null after an attempt to read beyond the end */
	size_t left;
};

static inline const uint8_t *lineside_spv_take(struct lineside_spv_reader *reader, uint64_t bytes)
{
	const uint8_t *taken = reader->at;

	if (taken == NULL || bytes > reader->left) {
		reader->at = NULL;
		reader->left = 0;
		return NULL;
	}
	reader->at += (size_t)bytes;
	reader->left -= (size_t)bytes;
	return taken;
}

/* Reads a count or length, which must be in its shortest form. After a failed read, returns 0. */
static inline uint64_t lineside_spv_take_count(struct lineside_spv_reader *reader)
{
	const uint8_t *at = lineside_spv_take(reader, 1);
	uint64_t value = 0, least;
	int bytes;

	if (at == NULL)
		return 0;
	if (*at < 0xfd)
		return *at;
	bytes = 1 << (*at - 0xfc);
	least = bytes == 2 ? 0xfd : (uint64_t)1 << (4 * bytes);
	at = lineside_spv_take(reader, (uint64_t)bytes);
	if (at == NULL)
		return 0;
	while (bytes-- > 0)
		value = value << 8 | at[bytes];
	if (value < least) {
		reader->at = NULL;
		reader->left = 0;
	}
	return reader->at == NULL ? 0 : value;
}

/* Reads an output. Returns its script, whose length in bytes is written to *script_bytes. */
static inline const uint8_t *lineside_spv_take_output(struct lineside_spv_reader *reader, uint64_t *script_bytes)
{
	lineside_spv_take(reader, 8);
	*script_bytes = lineside_spv_take_count(reader);
	return lineside_spv_take(reader, *script_bytes);
}

/* Reads the witnesses of all inputs. Returns 1 if one of them is not empty. */
static inline int lineside_spv_take_witness(struct lineside_spv_reader *reader, uint64_t inputs)
{
	int has_items = 0;

	while (inputs-- > 0 && reader->at != NULL) {
		uint64_t items = lineside_spv_take_count(reader);

		has_items |= items > 0;
		while (items-- > 0 && reader->at != NULL)
			lineside_spv_take(reader, lineside_spv_take_count(reader));
	}
	return has_items;
}

/* Returns 1 if an outpoint is the outpoint of a coinbase's input: hash 0, index 2^32 - 1. */
static inline int lineside_spv_is_null_outpoint(const uint8_t outpoint[36])
{
	int i;

	for (i = 0; i < 36; i++)
		if (outpoint[i] != (i < 32 ? 0 : 0xff))
			return 0;
	return 1;
}

/* Reads a transaction, with its witness or without. Returns 1 if the bytes are exactly one transaction. */
static inline int lineside_spv_parse(const uint8_t *raw, size_t raw_bytes, struct lineside_spv_transaction *transaction)
{
	struct lineside_spv_reader reader = { raw, raw_bytes };
	uint64_t inputs, i, script_bytes;
	int has_witness;

	lineside_spv_take(&reader, 4);
	has_witness = reader.left >= 2 && reader.at[0] == 0 && reader.at[1] == 1;
	if (has_witness)
		lineside_spv_take(&reader, 2);
	transaction->raw = raw;
	transaction->raw_bytes = raw_bytes;
	transaction->body = reader.at;
	inputs = lineside_spv_take_count(&reader);
	transaction->is_coinbase = inputs == 1 && reader.left >= 36 && lineside_spv_is_null_outpoint(reader.at);
	for (i = 0; i < inputs && reader.at != NULL; i++) {
		lineside_spv_take(&reader, 36);
		lineside_spv_take(&reader, lineside_spv_take_count(&reader));
		lineside_spv_take(&reader, 4);
	}
	transaction->output_count = lineside_spv_take_count(&reader);
	transaction->outputs = reader.at;
	for (i = 0; i < transaction->output_count && reader.at != NULL; i++)
		lineside_spv_take_output(&reader, &script_bytes);
	if (reader.at == NULL)
		return 0;
	transaction->body_bytes = (size_t)(reader.at - transaction->body);
	if (has_witness && !lineside_spv_take_witness(&reader, inputs))
		return 0;
	return lineside_spv_take(&reader, 4) != NULL && reader.left == 0 && inputs > 0 &&
	       transaction->output_count > 0;
}

/* Returns the length in bytes of a transaction without its witness: the part whose hash is the TXID. */
static inline size_t lineside_spv_base_bytes(const struct lineside_spv_transaction *transaction)
{
	return 4 + transaction->body_bytes + 4;
}

static inline void lineside_spv_txid(const struct lineside_spv_transaction *transaction, uint8_t txid[32])
{
	struct lineside_spv_sha256 hash;

	lineside_spv_sha256_begin(&hash);
	lineside_spv_sha256_add(&hash, transaction->raw, 4);
	lineside_spv_sha256_add(&hash, transaction->body, transaction->body_bytes);
	lineside_spv_sha256_add(&hash, transaction->raw + transaction->raw_bytes - 4, 4);
	lineside_spv_sha256d_end(&hash, txid);
}

/* Returns the witness commitment of a coinbase: 32 bytes in the last output that has one; null if none has one. */
static inline const uint8_t *lineside_spv_commitment(const struct lineside_spv_transaction *coinbase)
{
	static const uint8_t magic[6] = { 0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed };
	const uint8_t *end = coinbase->body + coinbase->body_bytes, *found = NULL;
	struct lineside_spv_reader reader = { coinbase->outputs, (size_t)(end - coinbase->outputs) };
	uint64_t i, script_bytes;

	for (i = 0; i < coinbase->output_count; i++) {
		const uint8_t *script = lineside_spv_take_output(&reader, &script_bytes);

		if (script != NULL && script_bytes >= 38 && !memcmp(script, magic, sizeof(magic)))
			found = script + sizeof(magic);
	}
	return found;
}

/*
 * Returns 1 if the 64 bytes from which an inner node is hashed are a valid transaction: one input, one output, two
 * scripts with 4 bytes together, and a value in range.
 */
static inline int lineside_spv_is_transaction(const uint8_t bytes[64])
{
	const uint8_t *after;
	uint64_t value = 0;
	int i;

	if (bytes[4] != 1 || bytes[41] > 4)
		return 0;
	after = bytes + 42 + bytes[41];
	for (i = 12; i >= 5; i--)
		value = value << 8 | after[i];
	return after[4] == 1 && value <= 2100000000000000u && after[13] == 4 - bytes[41];
}

/* ---- proofs ---- */

/* Checks the transaction count, the length of the path and the index, for which no hash is computed. */
static inline int lineside_spv_check_shape(uint32_t path_hashes, uint32_t index, uint32_t count)
{
	uint32_t depth = 0;

	if (count == 0 || count > LINESIDE_SPV_TRANSACTIONS_MAX)
		return LINESIDE_SPV_IMPOSSIBLE_TRANSACTION_COUNT;
	while ((uint32_t)1 << depth < count)
		depth++;
	if (path_hashes != depth)
		return LINESIDE_SPV_WRONG_DEPTH;
	return index >= count ? LINESIDE_SPV_INDEX_OUT_OF_RANGE : LINESIDE_SPV_OK;
}

/*
 * Computes the root by hashing from a leaf along a path. The caller has checked the shape of the path. `node`
 * contains the leaf before the call and the root after it.
 */
static inline int lineside_spv_climb(const uint8_t *path, uint32_t path_hashes, uint32_t index, uint32_t count,
				     uint8_t node[32])
{
	uint8_t bytes[64];

	for (; path_hashes > 0; path_hashes--, path += 32) {
		int is_right = index & 1, is_equal = !memcmp(path, node, 32);
		int is_last_of_odd = !is_right && index == count - 1;

		if (is_last_of_odd && !is_equal)
			return LINESIDE_SPV_MISSING_DUPLICATE;
		if (!is_last_of_odd && is_equal)
			return LINESIDE_SPV_EQUAL_SIBLINGS;
		memcpy(bytes, is_right ? path : node, 32);
		memcpy(bytes + 32, is_right ? node : path, 32);
		if (lineside_spv_is_transaction(bytes))
			return LINESIDE_SPV_INNER_NODE_IS_TRANSACTION;
		lineside_spv_sha256d(bytes, sizeof(bytes), node);
		index >>= 1;
		count = (count + 1) >> 1;
	}
	return LINESIDE_SPV_OK;
}

/* Checks that the path of a proof leads from `leaf` to the Merkle root in the proof's header. */
static inline int lineside_spv_check_root(const uint8_t *path, uint32_t path_hashes, uint32_t index, uint32_t count,
					  const uint8_t leaf[32], const uint8_t *header)
{
	uint8_t node[32];
	int result;

	memcpy(node, leaf, 32);
	result = lineside_spv_climb(path, path_hashes, index, count, node);
	if (result != LINESIDE_SPV_OK)
		return result;
	return memcmp(node, header + 36, 32) ? LINESIDE_SPV_WRONG_ROOT : LINESIDE_SPV_OK;
}

/* Checks that the transaction `txid` is in the header's block, and that the header has a valid proof of work. */
static inline int lineside_spv_verify(uint32_t limit, const struct lineside_spv_proof *proof, const uint8_t txid[32])
{
	uint32_t count = proof->transaction_count;
	int result = lineside_spv_check_shape(proof->path_hashes, proof->index, count);

	if (result == LINESIDE_SPV_OK)
		result = lineside_spv_check_proof_of_work(limit, proof->header);
	if (result == LINESIDE_SPV_OK)
		result = lineside_spv_check_root(proof->path, proof->path_hashes, proof->index, count, txid,
						 proof->header);
	return result;
}

/*
 * Checks a transaction like lineside_spv_verify, given its bytes, and writes its TXID. This also refuses a
 * transaction that could be an inner node of the tree.
 */
static inline int lineside_spv_verify_transaction(uint32_t limit, const struct lineside_spv_proof *proof,
						  const uint8_t *raw, size_t raw_bytes, uint8_t txid[32])
{
	struct lineside_spv_transaction transaction;

	if (!lineside_spv_parse(raw, raw_bytes, &transaction))
		return LINESIDE_SPV_MALFORMED_TRANSACTION;
	if (lineside_spv_base_bytes(&transaction) == 64)
		return LINESIDE_SPV_TRANSACTION_OF_64_BYTES;
	lineside_spv_txid(&transaction, txid);
	return lineside_spv_verify(limit, proof, txid);
}

/* Checks the coinbase of a witness proof, and sets *commitment to the witness commitment in its outputs. */
static inline int lineside_spv_check_coinbase(const struct lineside_spv_witness_proof *witness,
					      const uint8_t **commitment)
{
	struct lineside_spv_transaction coinbase;
	uint8_t txid[32];
	int result;

	if (!lineside_spv_parse(witness->coinbase, witness->coinbase_bytes, &coinbase) ||
	    lineside_spv_base_bytes(&coinbase) != witness->coinbase_bytes)
		return LINESIDE_SPV_MALFORMED_TRANSACTION;
	if (!coinbase.is_coinbase)
		return LINESIDE_SPV_NOT_COINBASE;
	if (witness->coinbase_bytes == 64)
		return LINESIDE_SPV_TRANSACTION_OF_64_BYTES;
	lineside_spv_txid(&coinbase, txid);
	result = lineside_spv_check_root(witness->coinbase_path, witness->coinbase_path_hashes, 0,
					 witness->proof.transaction_count, txid, witness->proof.header);
	if (result != LINESIDE_SPV_OK)
		return result;
	*commitment = lineside_spv_commitment(&coinbase);
	return *commitment == NULL ? LINESIDE_SPV_NO_WITNESS_COMMITMENT : LINESIDE_SPV_OK;
}

/* Checks that the transaction with the WTXID `wtxid` is in the header's block. The coinbase has the WTXID 0. */
static inline int lineside_spv_verify_witness(uint32_t limit, const struct lineside_spv_witness_proof *witness,
					      const uint8_t wtxid[32])
{
	static const uint8_t zero[32] = { 0 };
	const struct lineside_spv_proof *proof = &witness->proof;
	const uint8_t *commitment = NULL;
	uint32_t count = proof->transaction_count;
	uint8_t bytes[64], node[32];
	int result = lineside_spv_check_shape(witness->coinbase_path_hashes, 0, count);

	if (result == LINESIDE_SPV_OK)
		result = lineside_spv_check_shape(proof->path_hashes, proof->index, count);
	if (result == LINESIDE_SPV_OK)
		result = lineside_spv_check_proof_of_work(limit, proof->header);
	if (result == LINESIDE_SPV_OK && !memcmp(wtxid, zero, 32) != (proof->index == 0))
		result = LINESIDE_SPV_WRONG_COINBASE_WTXID;
	if (result == LINESIDE_SPV_OK)
		result = lineside_spv_check_coinbase(witness, &commitment);
	if (result != LINESIDE_SPV_OK)
		return result;
	memcpy(node, wtxid, 32);
	result = lineside_spv_climb(proof->path, proof->path_hashes, proof->index, count, node);
	if (result != LINESIDE_SPV_OK)
		return result;
	memcpy(bytes, node, 32);
	memcpy(bytes + 32, witness->witness_reserved, 32);
	lineside_spv_sha256d(bytes, sizeof(bytes), node);
	return memcmp(node, commitment, 32) ? LINESIDE_SPV_WRONG_WITNESS_COMMITMENT : LINESIDE_SPV_OK;
}

#ifdef __cplusplus
}
#endif

#endif
