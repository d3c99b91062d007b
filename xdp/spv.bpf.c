// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The fast path of `spv`. root.bpf.c tail-calls it through its slot. */
#include "spv_fastpath.h"

char _license[] SEC("license") = "GPL";

SEC("xdp")
int ls_spv(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct ls_scratch *scratch = bpf_map_lookup_elem(&ls_scratches, &zero);

	if (!scratch)
		return XDP_PASS;
	return spv_answer((void *)(long)ctx->data, (void *)(long)ctx->data_end, &scratch->found, ls_now_ns(scratch));
}

/* Lists for native/native.c: the maps, and the constants with their sections. */
#define LS_SPV_MAPS(X) \
	X(spv_lines) X(spv_blocks) X(spv_trees) X(spv_control) X(spv_counts) X(spv_drafts) X(spv_proofs)
#define LS_SPV_CONSTANTS(X) X(".rodata.spv", spv_geometry)
