// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * The fast-path table of `transfer` and the search for an account in it: the C twin of crates/transfer/src/store.rs.
 * spec/transfer.toml has the layouts. The id of a stored account never changes, so it is found without a lock.
 */
#pragma once
#include "hash.h"
#include "maps.h"
#include "order.h"

/* Map value: the cells of one bucket, so that one lookup reaches them all. */
struct transfer_bucket {
	struct ls_transfer_cell cell[LS_TRANSFER_BUCKET_CELLS];
};

/* The loader sets the number of entries before it loads the program. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << 20);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct transfer_bucket);
} transfer_cells SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << 22);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ls_transfer_paper);
} transfer_papers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ls_transfer_session);
} transfer_slots SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ls_transfer_ring);
} transfer_rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << 13);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ls_transfer_record);
} transfer_records SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ls_transfer_control);
} transfer_control SEC(".maps");

/*
 * Geometry and mode. The loader sets them before it loads the program, so that the verifier removes code that only
 * another mode needs. The control word repeats them for the Rust model, and a server that takes over a pinned fast
 * path compares the two.
 */
struct transfer_geometry {
	__u32 bucket_bits;
	__u32 ring_bits;
	__u32 mode;
	__u32 ringless; /* 1: no records are written; used only to measure the cost of the records */
};

#ifndef LS_NATIVE
const
#endif
	volatile struct transfer_geometry transfer_geometry SEC(".rodata.transfer") = {
	.bucket_bits = 20,
	.ring_bits = 13,
	.mode = LS_TRANSFER_DURABLE,
};

/* Value of an index that means "no cell". */
#define TRANSFER_NOWHERE 0xffffffff

static __always_inline struct ls_transfer_control *transfer_controlled(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&transfer_control, &zero);
}

static __always_inline int transfer_is_express(void)
{
	return transfer_geometry.mode == LS_TRANSFER_EXPRESS;
}

/* Computes the two buckets in which the account `id` may be stored. */
static __always_inline void transfer_buckets(const struct ls_transfer_control *control, const __u64 id[2],
					     __u32 buckets[2])
{
	__u32 bits = transfer_geometry.bucket_bits & 31;
	__u64 hash = ls_hash(id, control->key);

	buckets[0] = hash >> ((64 - bits) & 63);
	buckets[1] = (hash >> ((64 - 2 * bits) & 63)) & ((1u << bits) - 1);
	/* If both hashes choose the same bucket, the second bucket is the neighbour of the first one. */
	buckets[1] ^= !ls_any(buckets[0] ^ buckets[1]);
}

static __always_inline struct transfer_bucket *transfer_bucket(__u32 bucket)
{
	return bpf_map_lookup_elem(&transfer_cells, &bucket);
}

/* Returns cell `index`, or NULL. */
static __always_inline struct ls_transfer_cell *transfer_cell(__u32 index)
{
	struct transfer_bucket *bucket = transfer_bucket(index / LS_TRANSFER_BUCKET_CELLS);

	if (!bucket)
		return NULL;
	/* The verifier must see this check before a cell is chosen. */
	asm volatile("" : "+r"(bucket));
	return &bucket->cell[index % LS_TRANSFER_BUCKET_CELLS];
}

/* Returns 0 if the cell holds the account `id`, else 1. */
static __always_inline __u64 transfer_differs(struct ls_transfer_cell *cell, const __u64 id[2])
{
	__u64 differs = ~LS_READ_ONCE(cell->flags) & LS_TRANSFER_CELL_VALID;

	differs |= LS_READ_ONCE(cell->id[0]) ^ id[0];
	differs |= LS_READ_ONCE(cell->id[1]) ^ id[1];
	return ls_any(differs);
}

/*
 * Returns the index of the account's cell in the bucket, or 4 if the bucket does not hold the account. All cells are
 * loaded before one is chosen.
 */
static __always_inline __u32 transfer_at(struct transfer_bucket *bucket, const __u64 id[2])
{
	__u64 none = 1, at = 0;

	for (int i = 0; i < LS_TRANSFER_BUCKET_CELLS; i++) {
		none &= transfer_differs(&bucket->cell[i], id);
		at += none;
	}
	return at;
}

/* Returns the index of the account's cell, or TRANSFER_NOWHERE. */
static __always_inline __u32 transfer_find(const struct ls_transfer_control *control, const __u64 id[2])
{
	__u32 buckets[2], at;
	struct transfer_bucket *bucket;

	transfer_buckets(control, id, buckets);
	for (int i = 0; i < 2; i++) {
		bucket = transfer_bucket(buckets[i]);
		if (!bucket)
			return TRANSFER_NOWHERE;
		at = transfer_at(bucket, id);
		if (at < LS_TRANSFER_BUCKET_CELLS)
			return buckets[i] * LS_TRANSFER_BUCKET_CELLS + at;
	}
	return TRANSFER_NOWHERE;
}

/*
 * Prefetches the cells in which the account is most likely stored, so that these loads overlap with the following
 * ones.
 */
static __always_inline void transfer_touch(const struct ls_transfer_control *control, const __u64 id[2])
{
	__u32 buckets[2];
	struct transfer_bucket *bucket;

	transfer_buckets(control, id, buckets);
	bucket = transfer_bucket(buckets[0]);
	if (!bucket)
		return;
	for (int i = 0; i < LS_TRANSFER_BUCKET_CELLS; i++)
		(void)LS_READ_ONCE(bucket->cell[i].flags);
}
