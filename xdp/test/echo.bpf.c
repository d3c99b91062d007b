// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Test service that runs together with the real ones. Its reply is the request with every payload byte inverted. */
#include "../maps.h"
#include "../reply.h"

char _license[] SEC("license") = "GPL";

#define ECHO_BYTES 16

SEC("xdp")
int ls_echo(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u32 zero = 0;
	struct ls_scratch *scratch = bpf_map_lookup_elem(&ls_scratches, &zero);
	struct ls_datagram *found;
	__u32 *payload;
	__u64 sum = 0;

	if (!scratch)
		return XDP_PASS;
	found = &scratch->found;
	if (found->payload_bytes != ECHO_BYTES)
		return XDP_PASS;
	payload = data + (found->udp & 63) + sizeof(struct udphdr);
	if ((void *)payload + ECHO_BYTES > end)
		return XDP_PASS;
	for (int i = 0; i < ECHO_BYTES / 4; i++) {
		payload[i] = ~payload[i];
		sum += payload[i];
	}
	return ls_reply(data, end, found, sum) ? XDP_PASS : XDP_TX;
}
