// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Root program of an interface. Linux attaches one XDP program to an interface, so this program parses each packet
 * once and tail-calls the service that listens on the packet's port.
 */
#include "root.h"

char _license[] SEC("license") = "GPL";

SEC("xdp")
int ls_root(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0;
	struct ls_endpoint *own = bpf_map_lookup_elem(&ls_endpoints, &zero);
	struct ls_scratch *scratch = bpf_map_lookup_elem(&ls_scratches, &zero);
	__be16 port = 0;
	int verdict;

	if (!own || !scratch)
		return XDP_PASS;
	verdict = ls_route(data, end, own, &scratch->found, &port);
	if (verdict)
		return verdict;
	/*
	 * A constant slot compiles to a direct jump. If the slot has no program, the tail call does nothing and the next
	 * line runs.
	 */
#define LS_CALL(SLOT) \
	if (port == own->port[SLOT]) \
		bpf_tail_call_static(ctx, &ls_services, SLOT);
	LS_FOR_EACH_SLOT(LS_CALL)
	return XDP_PASS;
}
