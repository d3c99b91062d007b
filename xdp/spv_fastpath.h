// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * The fast path of `spv`: decides which requests it answers, answers them, and counts the outcomes. The C twin of
 * crates/spv/src/fastpath.rs.
 */
#pragma once
#include "spv_proof.h"

static __always_inline int spv_count(enum ls_spv_counter counter, int verdict)
{
	__u32 zero = 0;
	struct ls_spv_counts *counts = bpf_map_lookup_elem(&spv_counts, &zero);

	if (counts)
		counts->count[counter]++;
	return verdict;
}

static __always_inline int spv_finish(enum spv_outcome outcome)
{
	switch (outcome) {
	case SPV_HIT:
		return spv_count(LS_SPV_COUNTER_HITS, XDP_TX);
	case SPV_MISS:
		return spv_count(LS_SPV_COUNTER_MISSES, XDP_PASS);
	case SPV_NOT_LEASED:
		return spv_count(LS_SPV_COUNTER_NOT_LEASED, XDP_PASS);
	default:
		return spv_count(LS_SPV_COUNTER_FORWARDED_NATIVE, XDP_PASS);
	}
}

static __always_inline enum spv_outcome spv_native(void *data, void *end, const struct ls_datagram *found,
						   const struct ls_spv_control *control, __u64 now_ns)
{
	struct ls_native_header *header = data + (found->udp & 63) + sizeof(struct udphdr);

	if ((void *)(header + 1) > end || !spv_is_request(header, found->payload_bytes))
		return SPV_HOSTS;
	if (header->op == LS_SPV_OP_ROOT && found->payload_bytes == SPV_ROOT_BYTES)
		return spv_native_root(data, end, found, control, now_ns);
	if (header->op == LS_SPV_OP_ROOTS)
		return spv_native_roots(data, end, found, control, now_ns);
	if (header->op == LS_SPV_OP_PROOF)
		return spv_native_proof(data, end, found, control, now_ns);
	return SPV_HOSTS;
}

/*
 * Answers a request in the paper's format. The caller has checked that `payload` holds a whole request, and has read
 * its TXID.
 */
static __always_inline enum spv_outcome spv_paper(void *data, void *end, const struct ls_datagram *found,
						  const struct ls_spv_control *control, __u64 *payload,
						  const __u64 txid[4], __u64 now_ns)
{
	__u64 root[4], epoch, sum;
	struct spv_place place;

	if (!spv_begin(control, now_ns, &epoch))
		return SPV_NOT_LEASED;
	if (!spv_find(control, txid, &place))
		return SPV_MISS;
	sum = LS_READ_ONCE(place.block->root_sum);
	if (!spv_root_of(&place, root))
		return SPV_MISS;
	if (!spv_end(control, epoch))
		return SPV_NOT_LEASED;
	for (int i = 0; i < 4; i++)
		payload[i] = root[i];
	return ls_reply(data, end, found, sum) ? SPV_HOSTS : SPV_HIT;
}

static __always_inline int spv_answer(void *data, void *end, const struct ls_datagram *found, __u64 now_ns)
{
	__u32 zero = 0;
	struct ls_spv_control *control = bpf_map_lookup_elem(&spv_control, &zero);
	struct ls_native_header *header = data + (found->udp & 63) + sizeof(struct udphdr);

	if (!control)
		return XDP_PASS;
	if (found->payload_bytes == LS_SPV_PAPER_REQUEST_BYTES) {
		__u64 *payload = (void *)header, txid[4];

		if ((void *)(payload + 4) > end)
			return XDP_PASS;
		for (int i = 0; i < 4; i++)
			txid[i] = payload[i];
		/*
		 * The paper's reply "unknown" has a TXID of zeros. Such a packet is dropped, so that two servers cannot answer
		 * each other (is_unknown_reply in crates/spv/src/request.rs).
		 */
		if (!(txid[0] | txid[1] | txid[2] | txid[3]))
			return ls_drop(LS_SPV_SLOT, LS_DROP_NOT_A_REQUEST);
		if (!control->paper_format)
			return ls_drop(LS_SPV_SLOT, LS_DROP_PAPER_REFUSED);
		return spv_finish(spv_paper(data, end, found, control, payload, txid, now_ns));
	}
	if (found->payload_bytes < sizeof(*header) || (void *)(header + 1) > end ||
	    header->magic != bpf_htons(LS_NATIVE_MAGIC))
		return ls_drop(LS_SPV_SLOT, LS_DROP_NOT_A_REQUEST);
	if (header->op & LS_NATIVE_REPLY_BIT)
		return ls_drop(LS_SPV_SLOT, LS_DROP_REPLY_BIT);
	return spv_finish(spv_native(data, end, found, control, now_ns));
}
