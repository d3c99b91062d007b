// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Native `proof` at the line: the C twin of `Session::proof` in crates/spv/src/reader.rs. The path is read out of the
 * block's tree into a draft, and copied into the packet when it is known to be whole (docs/decisions/proof-trees.md).
 */
#pragma once
#include "spv_native.h"

#define SPV_HASH_BYTES 32
#define SPV_PROOF_BYTES (sizeof(struct ls_native_header) + sizeof(struct ls_proof_reply))

/* A path being read, one to a CPU. */
struct spv_path {
	__u64 hash[LS_SPV_PROOF_DEPTH_MAX][4];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct spv_path);
} spv_paths SEC(".maps");

/* `count` ones, hidden from the compiler: the verifier then learns nothing from a test of one of them. */
static __always_inline __u32 spv_ones(__u32 count)
{
	__u32 ones = (1u << (count & 31)) - 1;

	asm volatile("" : "+r"(ones));
	return ones;
}

/*
 * Reads header and path of the transaction at `place` into *reply and *path. `room` has a one for each hash that the
 * packet has room for, and *levels gets one for each that there is. SPV_HIT: whole, if the epoch holds.
 */
static __always_inline enum spv_outcome spv_read_proof(const struct spv_place *place, __u32 room,
						       struct ls_proof_reply *reply, struct spv_path *path,
						       __u32 *levels)
{
	__u64 tree = LS_READ_ONCE(place->block->tree), at = place->index, width;
	__u32 cells = spv_geometry.tree_nodes / SPV_CELL_NODES, row = (__u32)tree, depth;
	struct spv_tree_cell *head;

	if (!tree)
		return SPV_MISS;
	ls_read_barrier();
	width = LS_READ_ONCE(place->block->transactions);
	depth = LS_READ_ONCE(place->block->depth) & 31;
	*levels = spv_ones(depth);
	if (*levels & ~room)
		return SPV_HOSTS;
	reply->height = bpf_htonl(LS_READ_ONCE(place->block->height));
	reply->transactions = bpf_htonl(width);
	reply->index = bpf_htonl(place->index);
	reply->depth = bpf_htonl(depth);
	head = spv_tree_cell_of(row, cells);
	if (!head)
		return SPV_MISS;
	for (int i = 0; i < LS_SPV_HEADER_BYTES / 8; i++)
		reply->header[i] = LS_READ_ONCE(head->node[i / 4].hash[i % 4]);
	row += LS_SPV_TREE_HEAD_NODES;
	/* The loads of a row need no other row's: all are on their way at once. */
#pragma clang loop unroll(full)
	for (__u32 level = 0; level < LS_SPV_PROOF_DEPTH_MAX; level++) {
		struct spv_tree_cell *cell;
		__u32 node;

		if (!(*levels >> level & 1))
			continue;
		node = row + spv_sibling(at, width);
		cell = spv_tree_cell_of(node, cells);
		if (!cell)
			return SPV_MISS;
		for (int i = 0; i < 4; i++)
			path->hash[level][i] = LS_READ_ONCE(cell->node[node % SPV_CELL_NODES].hash[i]);
		row += width;
		width = (width + 1) >> 1;
		at >>= 1;
	}
	ls_read_barrier();
	return LS_READ_ONCE(place->block->tree) == tree && spv_stands(place) ? SPV_HIT : SPV_MISS;
}

/* Copies a path into the packet and zeros into the rest of its room; the sum. */
static __always_inline __u64 spv_put_path(void *data, void *end, const struct ls_datagram *found,
					  const struct spv_path *path, __u32 levels, __u32 room)
{
	__u64 sum = 0;

#pragma clang loop unroll(full)
	for (__u32 level = 0; level < LS_SPV_PROOF_DEPTH_MAX; level++) {
		__u64 *to = data + (found->udp & 63) + sizeof(struct udphdr) + SPV_PROOF_BYTES + level * SPV_HASH_BYTES;
		__u64 mask = -(__u64)(levels >> level & 1);

		if (!(room >> level & 1))
			continue;
		/* The verifier must see the check on the very register that is used. */
		asm volatile("" : "+r"(to));
		if ((void *)(to + 4) > end)
			continue;
		for (int i = 0; i < 4; i++) {
			__u64 word = path->hash[level][i] & mask;

			to[i] = word;
			sum += (__u32)word;
			sum += word >> 32;
		}
	}
	return sum;
}

static __always_inline enum spv_outcome spv_native_proof(void *data, void *end, const struct ls_datagram *found,
							 const struct ls_spv_control *control, __u64 now_ns)
{
	struct ls_native_header *header = data + (found->udp & 63) + sizeof(struct udphdr);
	struct ls_proof_reply *body = (void *)(header + 1), reply;
	__u32 zero = 0, bytes = found->payload_bytes - SPV_PROOF_BYTES, room, levels;
	struct spv_path *path = bpf_map_lookup_elem(&spv_paths, &zero);
	enum spv_outcome outcome;
	struct spv_place place;
	__u64 txid[4], epoch, sum;

	/* A payload that is too short wraps to a number that is too large. */
	if (!spv_geometry.tree_nodes || !path || bytes > LS_SPV_PROOF_DEPTH_MAX * SPV_HASH_BYTES ||
	    bytes % SPV_HASH_BYTES || (void *)(body + 1) > end)
		return SPV_HOSTS;
	room = spv_ones(bytes / SPV_HASH_BYTES);
	if (!spv_begin(control, now_ns, &epoch))
		return SPV_NOT_LEASED;
	__builtin_memcpy(txid, body->header, sizeof(txid));
	if (!spv_find(control, txid, &place))
		return SPV_MISS;
	outcome = spv_read_proof(&place, room, &reply, path, &levels);
	if (outcome != SPV_HIT)
		return outcome;
	spv_tip(control, reply.tip_hash, &reply.tip_height);
	reply.reserved = 0;
	if (!spv_end(control, epoch))
		return SPV_NOT_LEASED;
	sum = spv_native_header(header) + spv_sum(&reply, sizeof(reply));
	__builtin_memcpy(body, &reply, sizeof(reply));
	sum += spv_put_path(data, end, found, path, levels, room);
	return ls_reply(data, end, found, sum) ? SPV_HOSTS : SPV_HIT;
}
