/* The XDP programs: `ls_root` owns the interface, each `ls_<service>` stands in one slot of the program array. */
#include "root.h"
#include "spv_near.h"

char _license[] SEC("license") = "GPL";

SEC("xdp")
int ls_root(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0;
	struct ls_endpoint *own = bpf_map_lookup_elem(&ls_endpoints, &zero);
	struct ls_datagram *found = bpf_map_lookup_elem(&ls_scratch, &zero);
	int slot;

	if (!own || !found)
		return XDP_PASS;
	slot = ls_route(data, end, own, found);
	if (slot <= 0)
		return -slot;
	/* A constant slot becomes a direct jump. */
	if (slot == LS_SPV_SLOT)
		bpf_tail_call_static(ctx, &ls_services, LS_SPV_SLOT);
	return XDP_PASS;
}

SEC("xdp")
int ls_spv(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct ls_datagram *found = bpf_map_lookup_elem(&ls_scratch, &zero);

	if (!found)
		return XDP_PASS;
	return spv_answer((void *)(long)ctx->data, (void *)(long)ctx->data_end, found, bpf_ktime_get_coarse_ns());
}
