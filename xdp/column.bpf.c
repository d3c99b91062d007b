/* The fast path of `column`, in its slot behind root.bpf.c. */
#include "column_fastpath.h"

char _license[] SEC("license") = "GPL";

SEC("xdp")
int ls_column(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct ls_scratch *scratch = bpf_map_lookup_elem(&ls_scratches, &zero);

	return scratch ? column_answer(ctx, &scratch->found, ls_now_ns(scratch)) : XDP_PASS;
}
