// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The fast path of `transfer`. root.bpf.c tail-calls it through its slot. */
#include "transfer_claims.h"
#include "transfer_fastpath.h"

char _license[] SEC("license") = "GPL";

SEC("xdp")
int ls_transfer(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct ls_scratch *scratch = bpf_map_lookup_elem(&ls_scratches, &zero);

	return scratch ? transfer_answer(ctx, &scratch->found, ls_now_ns(scratch)) : XDP_PASS;
}

/* Entry point for the host's test runs (BPF_PROG_TEST_RUN). No frame from the network reaches it. */
SEC("xdp")
int ls_transfer_claims(struct xdp_md *ctx)
{
	return transfer_carry_out(ctx);
}

/* Lists for native/native.c: the maps, and the constants with their sections. */
#define LS_TRANSFER_MAPS(X) \
	X(transfer_cells) X(transfer_papers) X(transfer_slots) X(transfer_rings) X(transfer_records) \
	X(transfer_control) X(transfer_counts) X(transfer_works)
#define LS_TRANSFER_CONSTANTS(X) X(".rodata.transfer", transfer_geometry)
