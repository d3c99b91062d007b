// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Native `proof` requests in XDP: the C twin of `Session::proof` in crates/spv/src/reader.rs. The path is read from
 * the tree of the block into a draft, and copied into the packet when it is complete
 * (docs/decisions/proof-trees.md).
 */
#pragma once
#include "spv_native.h"

#define SPV_HASH_BYTES 32
#define SPV_PROOF_BYTES (sizeof(struct ls_native_header) + sizeof(struct ls_proof_reply))

/* Draft of a proof; each CPU has its own. */
struct spv_proof {
	__u64 txid[4];
	__u32 room;   /* one bit for each hash that the packet has room for */
	__u32 levels; /* one bit for each hash of the path */
	struct ls_proof_reply reply;
	__u64 path[LS_SPV_PROOF_DEPTH_MAX][4];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct spv_proof);
} spv_proofs SEC(".maps");

/*
 * Returns `count` one bits, hidden from the compiler, so that the verifier learns nothing from a test of one of the
 * bits.
 */
static __always_inline __u32 spv_ones(__u32 count)
{
	__u32 ones = (1u << (count & 31)) - 1;

	asm volatile("" : "+r"(ones));
	return ones;
}

/*
 * Reads the proof of `proof->txid` into *proof. Returns SPV_HIT if the proof is complete. The proof is valid only if
 * the epoch has not changed since spv_begin. The function is global, so that the verifier walks it once and not for
 * every path that calls it.
 */
__noinline int spv_read_proof(struct spv_proof *proof)
{
	__u32 zero = 0, row, depth, levels;
	struct ls_spv_control *control = bpf_map_lookup_elem(&spv_control, &zero);
	__u64 txid[4], tree, at, width;
	struct spv_place place;

	if (!control || !proof)
		return SPV_HOSTS;
	__builtin_memcpy(txid, proof->txid, sizeof(txid));
	if (!spv_find(control, txid, &place))
		return SPV_MISS;
	tree = LS_READ_ONCE(place.block->tree);
	if (!tree)
		return SPV_MISS;
	ls_read_barrier();
	width = LS_READ_ONCE(place.block->transactions);
	depth = LS_READ_ONCE(place.block->depth) & 31;
	levels = spv_ones(depth);
	if (levels & ~proof->room)
		return SPV_HOSTS;
	proof->levels = levels;
	proof->reply.height = bpf_htonl(LS_READ_ONCE(place.block->height));
	proof->reply.transactions = bpf_htonl(width);
	proof->reply.index = bpf_htonl(place.index);
	proof->reply.depth = bpf_htonl(depth);
	row = (__u32)tree;
#pragma clang loop unroll(full)
	for (int i = 0; i < LS_SPV_TREE_HEAD_NODES; i++) {
		struct ls_spv_node *node = spv_node(row + i);

		if (!node)
			return SPV_MISS;
		for (int j = 0; j < 4 && 4 * i + j < LS_SPV_HEADER_BYTES / 8; j++)
			proof->reply.header[4 * i + j] = LS_READ_ONCE(node->hash[j]);
	}
	at = place.index;
	row += LS_SPV_TREE_HEAD_NODES;
	/* The loads of one row do not depend on other rows, so the CPU can run all of them at the same time. */
#pragma clang loop unroll(full)
	for (__u32 level = 0; level < LS_SPV_PROOF_DEPTH_MAX; level++) {
		struct ls_spv_node *node;

		if (!(levels >> level & 1))
			continue;
		node = spv_node(row + spv_sibling(at, width));
		if (!node)
			return SPV_MISS;
		for (int i = 0; i < 4; i++)
			proof->path[level][i] = LS_READ_ONCE(node->hash[i]);
		row += width;
		width = (width + 1) >> 1;
		at >>= 1;
	}
	ls_read_barrier();
	return LS_READ_ONCE(place.block->tree) == tree && spv_stands(&place) ? SPV_HIT : SPV_MISS;
}

/*
 * Copies a path into the packet and fills the rest of the space for hashes with zeros. Returns the sum of the 32-bit
 * words.
 */
static __always_inline __u64 spv_put_path(void *data, void *end, const struct ls_datagram *found,
					  const struct spv_proof *proof)
{
	__u32 levels = proof->levels, room = proof->room;
	__u64 sum = 0;

#pragma clang loop unroll(full)
	for (__u32 level = 0; level < LS_SPV_PROOF_DEPTH_MAX; level++) {
		__u64 mask = -(__u64)(levels >> level & 1), *to;
		__u32 udp = found->udp;

		if (!(room >> level & 1))
			continue;
		/*
		 * Uses a separate pointer for each hash: the verifier must not carry what it learns of one pointer
		 * over to the next, or it would walk the following code again for each of them.
		 */
		asm volatile("" : "+r"(udp));
		to = data + (udp & 63) + sizeof(struct udphdr) + SPV_PROOF_BYTES + level * SPV_HASH_BYTES;
		asm volatile("" : "+r"(to));
		if ((void *)(to + 4) > end)
			continue;
		for (int i = 0; i < 4; i++) {
			__u64 word = proof->path[level][i] & mask;

			to[i] = word;
			sum += (__u32)word;
			sum += word >> 32;
		}
	}
	return sum;
}

/* Copies whole 64-bit words. Returns the sum of their 32-bit halves. */
static __always_inline __u64 spv_copy(__u64 *to, const __u64 *from, __u32 bytes)
{
	__u64 sum = 0;

	for (__u32 i = 0; i < bytes / 8; i++) {
		__u64 word = from[i];

		to[i] = word;
		sum += (__u32)word;
		sum += word >> 32;
	}
	return sum;
}

static __always_inline enum spv_outcome spv_native_proof(void *data, void *end, const struct ls_datagram *found,
							 const struct ls_spv_control *control, __u64 now_ns)
{
	struct ls_native_header *header = data + (found->udp & 63) + sizeof(struct udphdr);
	struct ls_proof_reply *body = (void *)(header + 1);
	__u32 zero = 0, bytes = found->payload_bytes - SPV_PROOF_BYTES;
	struct spv_proof *proof = bpf_map_lookup_elem(&spv_proofs, &zero);
	__u64 epoch, sum;
	int outcome;

	/* If the payload is too short, the subtraction makes `bytes` wrap to a number that this check refuses as too large. */
	if (!spv_geometry.tree_nodes || !proof || bytes > LS_SPV_PROOF_DEPTH_MAX * SPV_HASH_BYTES ||
	    bytes % SPV_HASH_BYTES || (void *)(body + 1) > end)
		return SPV_HOSTS;
	proof->room = spv_ones(bytes / SPV_HASH_BYTES);
	if (!spv_begin(control, now_ns, &epoch))
		return SPV_NOT_LEASED;
	__builtin_memcpy(proof->txid, body->header, sizeof(proof->txid));
	outcome = spv_read_proof(proof);
	if (outcome != SPV_HIT)
		return outcome;
	spv_tip(control, proof->reply.tip_hash, &proof->reply.tip_height);
	if (!spv_end(control, epoch))
		return SPV_NOT_LEASED;
	sum = spv_native_header(header) + spv_copy((void *)body, (void *)&proof->reply, sizeof(proof->reply));
	sum += spv_put_path(data, end, found, proof);
	return ls_reply(data, end, found, sum) ? SPV_HOSTS : SPV_HIT;
}
