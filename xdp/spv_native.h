// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Native `root` and `roots` requests in XDP. The fast path answers only a well-formed request whose TXIDs are all
 * cached. The host answers all other requests, and sends all replies with an error status. A reply is built in a
 * draft and copied into the packet when it is complete.
 */
#pragma once
#include "reply.h"
#include "spv_store.h"

enum spv_outcome {
	SPV_HIT,
	SPV_MISS,
	SPV_NOT_LEASED,
	SPV_HOSTS, /* only the host can answer or refuse the request */
};

#define SPV_ROOT_BYTES (sizeof(struct ls_native_header) + sizeof(struct ls_root_reply))
#define SPV_ROOTS_BYTES(COUNT) \
	(sizeof(struct ls_native_header) + sizeof(struct ls_roots_head) + (COUNT) * sizeof(struct ls_root_item))

static __always_inline __u64 spv_sum(const void *words, __u32 bytes)
{
	const __u32 *word = words;
	__u64 sum = 0;

	for (__u32 i = 0; i < bytes / 4; i++)
		sum += word[i];
	return sum;
}

/* Turns the header of a request into the header of its reply. Returns the sum of the new header's 32-bit words. */
static __always_inline __u64 spv_native_header(struct ls_native_header *header)
{
	header->op |= LS_NATIVE_REPLY_BIT;
	return spv_sum(header, sizeof(*header));
}

static __always_inline int spv_is_request(const struct ls_native_header *header, __u32 payload_bytes)
{
	return header->version == LS_NATIVE_VERSION && !header->status &&
	       bpf_ntohs(header->length) == payload_bytes - sizeof(*header);
}

static __always_inline void spv_tip(const struct ls_spv_control *control, __u64 hash[4], __be32 *height)
{
	for (int i = 0; i < 4; i++)
		hash[i] = LS_READ_ONCE(control->tip_hash[i]);
	*height = bpf_htonl(LS_READ_ONCE(control->tip_height));
}

static __always_inline enum spv_outcome spv_native_root(void *data, void *end, const struct ls_datagram *found,
							const struct ls_spv_control *control, __u64 now_ns)
{
	struct ls_native_header *header = data + (found->udp & 63) + sizeof(struct udphdr);
	struct ls_root_reply *body = (void *)(header + 1), reply;
	struct spv_place place;
	__u64 txid[4], epoch, sum, padding = 0;

	if ((void *)(body + 1) > end || body->height | body->tip_height)
		return SPV_HOSTS;
	for (int i = 0; i < 4; i++)
		padding |= body->block_hash[i] | body->tip_hash[i];
	if (padding)
		return SPV_HOSTS;
	if (!spv_begin(control, now_ns, &epoch))
		return SPV_NOT_LEASED;
	__builtin_memcpy(txid, body->root, sizeof(txid));
	if (!spv_find(control, txid, &place))
		return SPV_MISS;
	for (int i = 0; i < 4; i++)
		reply.block_hash[i] = LS_READ_ONCE(place.block->hash[i]);
	reply.height = bpf_htonl(LS_READ_ONCE(place.block->height));
	if (!spv_root_of(&place, reply.root))
		return SPV_MISS;
	spv_tip(control, reply.tip_hash, &reply.tip_height);
	if (!spv_end(control, epoch))
		return SPV_NOT_LEASED;
	sum = spv_native_header(header) + spv_sum(&reply, sizeof(reply));
	__builtin_memcpy(body, &reply, sizeof(reply));
	return ls_reply(data, end, found, sum) ? SPV_HOSTS : SPV_HIT;
}

/* Draft of a `roots` reply; each CPU has its own. */
struct spv_draft {
	struct ls_root_item item[LS_SPV_ROOTS_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct spv_draft);
} spv_drafts SEC(".maps");

/* Returns item `index` of the packet, or NULL if it is not within the frame. */
static __always_inline struct ls_root_item *spv_item(void *data, void *end, const struct ls_datagram *found,
						     __u32 index)
{
	struct ls_root_item *item = data + (found->udp & 63) + sizeof(struct udphdr) + SPV_ROOTS_BYTES(index);

	/* The barrier makes the compiler check and use one register, so that the verifier sees the bound. */
	asm volatile("" : "+r"(item));
	return (void *)(item + 1) > end ? NULL : item;
}

/*
 * Turns a copied item into its reply. Returns SPV_HIT, or the reason why the host must answer the whole packet. The
 * function is global, so that the verifier walks it once and not again for every item.
 */
__noinline int spv_draft_item(struct ls_root_item *item)
{
	__u32 zero = 0;
	struct ls_spv_control *control = bpf_map_lookup_elem(&spv_control, &zero);
	struct spv_place place;
	__u64 txid[4], padding;

	if (!control || !item)
		return SPV_HOSTS;
	padding = item->height | item->status;
	for (int i = 0; i < 4; i++)
		padding |= item->block_hash[i];
	if (padding)
		return SPV_HOSTS;
	__builtin_memcpy(txid, item->root, sizeof(txid));
	if (!spv_find(control, txid, &place))
		return SPV_MISS;
	for (int i = 0; i < 4; i++)
		item->block_hash[i] = LS_READ_ONCE(place.block->hash[i]);
	item->height = bpf_htonl(LS_READ_ONCE(place.block->height));
	return spv_root_of(&place, item->root) ? SPV_HIT : SPV_MISS;
}

static __always_inline enum spv_outcome spv_native_roots(void *data, void *end, const struct ls_datagram *found,
							 const struct ls_spv_control *control, __u64 now_ns)
{
	struct ls_native_header *header = data + (found->udp & 63) + sizeof(struct udphdr);
	struct ls_roots_head *head = (void *)(header + 1), reply;
	__u32 zero = 0, count, items;
	struct spv_draft *draft = bpf_map_lookup_elem(&spv_drafts, &zero);
	__u64 epoch, sum = 0, padding;

	if (!draft || (void *)(head + 1) > end)
		return SPV_HOSTS;
	count = bpf_ntohl(head->count);
	padding = head->tip_hash[0] | head->tip_hash[1] | head->tip_hash[2] | head->tip_hash[3] | head->tip_height;
	if (padding || !count || count > LS_SPV_ROOTS_MAX || found->payload_bytes != SPV_ROOTS_BYTES(count))
		return SPV_HOSTS;
	if (!spv_begin(control, now_ns, &epoch))
		return SPV_NOT_LEASED;
	/*
	 * A mask with one bit for each item, hidden from the compiler: the verifier then learns nothing from the tests of
	 * single bits, and walks the loop once.
	 */
	items = (1u << (count & 31)) - 1;
	asm volatile("" : "+r"(items));
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LS_SPV_ROOTS_MAX; i++) {
		int outcome = SPV_HOSTS;
		struct ls_root_item *item;

		if (!(items >> i & 1))
			continue;
		item = spv_item(data, end, found, i);
		if (item) {
			draft->item[i] = *item;
			outcome = spv_draft_item(&draft->item[i]);
		}
		if (outcome != SPV_HIT)
			return outcome;
	}
	spv_tip(control, reply.tip_hash, &reply.tip_height);
	reply.count = head->count;
	if (!spv_end(control, epoch))
		return SPV_NOT_LEASED;
	sum += spv_native_header(header) + spv_sum(&reply, sizeof(reply));
	__builtin_memcpy(head, &reply, sizeof(reply));
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LS_SPV_ROOTS_MAX; i++) {
		struct ls_root_item *item = items >> i & 1 ? spv_item(data, end, found, i) : NULL;

		if (item) {
			*item = draft->item[i];
			sum += spv_sum(item, sizeof(*item));
		}
	}
	return ls_reply(data, end, found, sum) ? SPV_HOSTS : SPV_HIT;
}
