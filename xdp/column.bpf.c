// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The fast path of `column`. root.bpf.c tail-calls it through its slot. */
#include "column_fastpath.h"

char _license[] SEC("license") = "GPL";

SEC("xdp")
int ls_column(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct ls_scratch *scratch = bpf_map_lookup_elem(&ls_scratches, &zero);

	return scratch ? column_answer(ctx, &scratch->found, ls_now_ns(scratch)) : XDP_PASS;
}

/*
 * Lists for native/native.c: the maps, and the constants with their sections. column_data is missing here because the
 * size of its values is set at run time; native.c adds it.
 */
#define LS_COLUMN_MAPS(X) \
	X(column_control) X(column_servers) X(column_names) X(column_tables) X(column_tops) X(column_pages) \
	X(column_blocks) X(column_counts) X(column_works)
#define LS_COLUMN_CONSTANTS(X) X(".rodata.column", column_geometry)
