/* Frames of `lineside-lab bench cost`: a generator of live frames, a program that measures another program, and the
 * program that passes every packet. Twin of src/cost/bpf.rs, which writes `cost_send` and reads it back.
 *
 * Packet i is the template; in one word of its payload, the bits of `mask` are replaced by bits that i determines. The
 * whole frame is written again for each packet, because the previous program may have changed it. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define HEAD_BYTES 42 /* Ethernet, IPv4, UDP */
#define WORDS 8

struct cost_send {
	__u64 head[6];        /* HEAD_BYTES of the template */
	__u64 payload[WORDS]; /* payload of the template */
	__u64 next;           /* number of the next packet */
	__u64 last;           /* number of the packet at which `last_ns` is taken */
	__u64 first_ns;       /* time at which packet 0 began */
	__u64 last_ns;        /* time at which packet `last` began */
	__u64 mask;           /* varied bits of the varied word */
	__u32 words;          /* number of words of the payload */
	__u32 varied;         /* index of the varied word */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cost_send);
} cost_sends SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} cost_next SEC(".maps");

char _license[] SEC("license") = "GPL";

/* Writes each field as one piece, so that the next reader finds it in one store. Returns 0, or -1 when the frame is
 * too short. */
static __always_inline int put(void *data, void *end, const struct cost_send *send, __u64 number)
{
	const void *head = send->head;
	__u64 *payload = data + HEAD_BYTES;
	/* An odd multiplier with well spread bits; the shift brings its high bits down. */
	__u64 bits = (number + 1) * 0x9e3779b97f4a7c15ull;

	bits ^= bits >> 32;
	if (data + HEAD_BYTES > end)
		return -1;
	*(__u64 *)data = *(__u64 *)head;
	*(__u64 *)(data + 8) = *(__u64 *)(head + 8);
	*(__u64 *)(data + 16) = *(__u64 *)(head + 16);
	*(__u16 *)(data + 24) = *(__u16 *)(head + 24);
	*(__u32 *)(data + 26) = *(__u32 *)(head + 26);
	*(__u32 *)(data + 30) = *(__u32 *)(head + 30);
	*(__u32 *)(data + 34) = *(__u32 *)(head + 34);
	*(__u16 *)(data + 38) = *(__u16 *)(head + 38);
	*(__u16 *)(data + 40) = *(__u16 *)(head + 40);
	for (__u32 i = 0; i < WORDS; i++) {
		__u64 word = send->payload[i];

		if (i >= send->words || (void *)(payload + 1) > end)
			break;
		*payload++ = i == send->varied ? (word & ~send->mask) | (bits & send->mask) : word;
	}
	return 0;
}

/* Writes the next packet. Returns 0, or -1 when the frame is too short. */
static __always_inline int put_next(struct xdp_md *ctx, struct cost_send *send)
{
	__u64 number = send->next;

	if (put((void *)(long)ctx->data, (void *)(long)ctx->data_end, send, number))
		return -1;
	send->next = number + 1;
	if (number == 0)
		send->first_ns = bpf_ktime_get_ns();
	if (number == send->last)
		send->last_ns = bpf_ktime_get_ns();
	return 0;
}

/* Sends the packets as live frames. */
SEC("xdp")
int cost_live(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct cost_send *send = bpf_map_lookup_elem(&cost_sends, &zero);

	if (!send || put_next(ctx, send))
		return XDP_DROP;
	return XDP_TX;
}

/* Writes a packet, then calls the program that is measured. */
SEC("xdp")
int cost_rewrite(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct cost_send *send = bpf_map_lookup_elem(&cost_sends, &zero);

	if (!send || put_next(ctx, send))
		return XDP_ABORTED;
	bpf_tail_call_static(ctx, &cost_next, 0);
	return XDP_ABORTED;
}

/* Passes every packet at once. */
SEC("xdp")
int cost_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}
