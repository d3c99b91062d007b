// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * The fast-path table of `spv`, read without locks: the C twin of crates/spv/src/store.rs and of `Reader` in
 * fastpath.rs. The host writes it (crates/spv/src/writer.rs). spec/spv.toml has the layouts.
 */
#pragma once
#include "hash.h"
#include "maps.h"
#include "order.h"

#define SPV_SET_LINES 4

/*
 * Map value of four lines (table entries), so that one lookup reaches a whole set: one set of 4 lines, two of 2, or
 * four of 1.
 */
struct spv_cell {
	struct ls_spv_line line[SPV_SET_LINES];
};

/* The loader sets the number of entries before it loads the program. The numbers here are those of the paper. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << 20);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct spv_cell);
} spv_lines SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << 18);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ls_spv_block);
} spv_blocks SEC(".maps");

/*
 * Each map value holds one node. With several nodes in a value, the verifier would follow each offset within a value
 * separately, and walk the code for each row of the tree again.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << 20);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ls_spv_node);
} spv_trees SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ls_spv_control);
} spv_control SEC(".maps");

struct ls_spv_counts {
	__u64 count[LS_SPV_COUNTERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ls_spv_counts);
} spv_counts SEC(".maps");

/*
 * Geometry of the table. The loader sets it before it loads the program, so that the verifier removes code that only
 * another geometry needs. The control word repeats it for the Rust model, and a server that takes over a pinned fast
 * path compares the two.
 */
struct spv_geometry {
	__u32 set_bits;
	__u32 ways;
	__u32 paper_index;
	__u32 block_mask;
	__u32 tree_nodes; /* 0: no trees */
};

#ifndef LS_NATIVE
const
#endif
	volatile struct spv_geometry spv_geometry SEC(".rodata.spv") = {
	.set_bits = 20,
	.ways = 4,
	.block_mask = (1 << 18) - 1,
	.tree_nodes = 1 << 20,
};

static __always_inline __u32 spv_first_line(const struct ls_spv_control *control, const __u64 txid[4])
{
	__u32 set_bits = spv_geometry.set_bits & 31;
	__u32 set;

	if (spv_geometry.paper_index)
		set = (__u32)txid[0] & ((1u << set_bits) - 1);
	else
		set = ls_hash(txid, control->key) >> ((64 - set_bits) & 63);
	return set * spv_geometry.ways;
}

/* Position of a transaction, read from its line. */
struct spv_place {
	struct ls_spv_block *block;
	__u32 generation;
	__u32 index; /* index of the transaction in the block */
};

/*
 * Finds the line (table entry) of `txid`. Returns 1 and fills *place if the line is complete and its block is valid.
 * The first line of the set with the TXID's first word decides, because the writer never stores two such lines in
 * one set. All lines of the set are loaded before one is chosen.
 */
static __always_inline int spv_find(const struct ls_spv_control *control, const __u64 txid[4], struct spv_place *place)
{
	__u32 first = spv_first_line(control, txid), cell_index = first / SPV_SET_LINES, at = first % SPV_SET_LINES, slot;
	struct spv_cell *cell = bpf_map_lookup_elem(&spv_lines, &cell_index);
	__u32 ways = spv_geometry.ways;
	struct ls_spv_line *line;
	__u64 seq;

	if (!cell)
		return 0;
	if (ways == 4) {
		__u64 first_0 = LS_READ_ONCE(cell->line[0].txid[0]), first_1 = LS_READ_ONCE(cell->line[1].txid[0]);
		__u64 first_2 = LS_READ_ONCE(cell->line[2].txid[0]), not_0, nor_1;

		/* This load of the last line only prefetches the line together with the others. */
		(void)LS_READ_ONCE(cell->line[3].seq);
		not_0 = ls_any(first_0 ^ txid[0]);
		nor_1 = not_0 & ls_any(first_1 ^ txid[0]);
		at = not_0 + nor_1 + (nor_1 & ls_any(first_2 ^ txid[0]));
	} else if (ways == 2) {
		__u64 first_0 = LS_READ_ONCE(cell->line[at & 2].txid[0]);

		at += ls_any(first_0 ^ txid[0]);
	}
	line = &cell->line[at & (SPV_SET_LINES - 1)];
	seq = LS_READ_ONCE(line->seq);
	ls_read_barrier();
	if ((line->txid[0] ^ txid[0]) | (line->txid[1] ^ txid[1]) | (line->txid[2] ^ txid[2]) |
	    (line->txid[3] ^ txid[3]))
		return 0;
	slot = LS_READ_ONCE(line->block) & spv_geometry.block_mask;
	place->generation = LS_READ_ONCE(line->generation);
	place->index = LS_READ_ONCE(line->index);
	ls_read_barrier();
	if ((seq & 1) || LS_READ_ONCE(line->seq) != seq || !place->generation)
		return 0;
	place->block = bpf_map_lookup_elem(&spv_blocks, &slot);
	if (!place->block || LS_READ_ONCE(place->block->generation) != place->generation)
		return 0;
	ls_read_barrier();
	return 1;
}

/*
 * Returns 1 if the block still has the generation that the line names. Then everything that was read from the block
 * since spv_find is valid.
 */
static __always_inline int spv_stands(const struct spv_place *place)
{
	ls_read_barrier();
	return LS_READ_ONCE(place->block->generation) == place->generation;
}

static __always_inline int spv_root_of(const struct spv_place *place, __u64 root[4])
{
	for (int i = 0; i < 4; i++)
		root[i] = LS_READ_ONCE(place->block->root[i]);
	return spv_stands(place);
}

/* Returns node `at`. The index is masked, so it always lies within the table. */
static __always_inline struct ls_spv_node *spv_node(__u32 at)
{
	__u32 node = at & (spv_geometry.tree_nodes - 1);

	return bpf_map_lookup_elem(&spv_trees, &node);
}

/*
 * Returns the index of the sibling of node `at` in a row of `width` nodes. A last node without a neighbour is its
 * own sibling. The code has no branch, because the verifier would follow both sides of a branch in each row.
 */
static __always_inline __u64 spv_sibling(__u64 at, __u64 width)
{
	__s64 sibling = at ^ 1, beyond = (__s64)(width - 1) - sibling;

	asm volatile("" : "+r"(beyond));
	return sibling + (beyond & beyond >> 63);
}

/*
 * Returns 1 if the fast path may answer at `now_ns`. Sets *epoch to the current epoch; the caller passes it to
 * spv_end, which checks that it is still current when the reply is complete.
 */
static __always_inline int spv_begin(const struct ls_spv_control *control, __u64 now_ns, __u64 *epoch)
{
	*epoch = LS_READ_ONCE(control->epoch);
	ls_read_barrier();
	return !(*epoch & 1) && now_ns < LS_READ_ONCE(control->lease_until_ns);
}

static __always_inline int spv_end(const struct ls_spv_control *control, __u64 epoch)
{
	ls_read_barrier();
	return LS_READ_ONCE(control->epoch) == epoch;
}
