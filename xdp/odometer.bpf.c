// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Fast path of `odometer`, the C twin of lab/example-service/src/fastpath.rs; root.bpf.c calls it through its slot. */
#include "maps.h"
#include "order.h"
#include "reply.h"
char _license[] SEC("license") = "GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE); /* the host maps it into its memory to write it */
	__type(key, __u32);
	__type(value, struct ls_odometer_control);
} odometer_control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64[LS_ODOMETER_COUNTERS]);
} odometer_counts SEC(".maps");

struct odometer_packet {
	struct ls_native_header header;
	struct ls_odometer_number body;
};

/* Returns XDP_TX with the reply in the frame, or XDP_PASS. Only a frame that this program answers is modified. */
static __always_inline int odometer_read(void *data, void *end, const struct ls_datagram *found, __u64 now_ns)
{
	struct odometer_packet *packet = data + (found->udp & 63) + sizeof(struct udphdr);
	__u32 zero = 0, *word = (void *)packet;
	struct ls_odometer_control *control = bpf_map_lookup_elem(&odometer_control, &zero);
	__u64 sum = 0;

	if (!control || found->payload_bytes != sizeof(*packet) || (void *)(packet + 1) > end)
		return XDP_PASS;
	if (packet->header.op != LS_ODOMETER_OP_READ || packet->header.version != LS_NATIVE_VERSION ||
	    packet->header.status || packet->header.length != bpf_htons(sizeof(packet->body)) || packet->body.number)
		return XDP_PASS;
	if (now_ns >= LS_READ_ONCE(control->lease_until_ns))
		return XDP_PASS;
	packet->header.op |= LS_NATIVE_REPLY_BIT;
	packet->body.number = bpf_cpu_to_be64(LS_READ_ONCE(control->number));
	for (__u32 i = 0; i < sizeof(*packet) / 4; i++)
		sum += word[i];
	return ls_reply(data, end, found, sum) ? XDP_PASS : XDP_TX;
}

SEC("xdp")
int ls_odometer(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0;
	struct ls_scratch *scratch = bpf_map_lookup_elem(&ls_scratches, &zero);
	__u64 *counts = bpf_map_lookup_elem(&odometer_counts, &zero);
	struct ls_native_header *header;
	int verdict;

	if (!scratch || !counts)
		return XDP_PASS;
	header = data + (scratch->found.udp & 63) + sizeof(struct udphdr);
	if (scratch->found.payload_bytes < sizeof(*header) || (void *)(header + 1) > end ||
	    header->magic != bpf_htons(LS_NATIVE_MAGIC))
		return ls_drop(LS_ODOMETER_SLOT, LS_DROP_NOT_A_REQUEST);
	if (header->op & LS_NATIVE_REPLY_BIT)
		return ls_drop(LS_ODOMETER_SLOT, LS_DROP_REPLY_BIT);
	verdict = odometer_read(data, end, &scratch->found, ls_now_ns(scratch));
	counts[verdict == XDP_TX ? LS_ODOMETER_COUNTER_READS : LS_ODOMETER_COUNTER_FORWARDED]++;
	return verdict;
}

/* Lists for native/native.c: the maps, and no constants. */
#define LS_ODOMETER_MAPS(X) X(odometer_control) X(odometer_counts)
#define LS_ODOMETER_CONSTANTS(X)
