/* Writes the frames of a per-packet figure of `column`. Twin of src/column/per_packet.rs, which writes `cb_send` and
 * reads it back. Request i asks for row i * CB_ODD modulo the number of rows; the row's key ends with that number
 * times the step, as eight bytes. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>

#define CB_ODD 0x9e3779b1u
#define CB_HEAD_BYTES 42 /* Ethernet, IPv4, UDP */
#define CB_WORDS 176

struct cb_send {
	__u64 head[6];           /* CB_HEAD_BYTES of the template */
	__u64 payload[CB_WORDS]; /* request without the end of the key */
	__u64 next;              /* number of the next request */
	__u64 last;              /* number of calls minus 1 */
	__u64 first_ns;          /* time at which call 0 began */
	__u64 last_ns;           /* time at which call `last` began */
	__u64 step;              /* difference of the numbers in the keys of neighbouring rows */
	__u32 words;             /* number of words of the payload */
	__u32 key_word;          /* index of the payload word with the end of the key */
	__u32 mask;              /* number of rows - 1; 0: always the same row */
	__u32 reserved;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct cb_send);
} cb_sends SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} cb_next SEC(".maps");

char _license[] SEC("license") = "GPL";

/* Writes each field as one piece, so that the next reader finds it in one store. */
static __always_inline int cb_put(void *data, void *end, const struct cb_send *send, __u64 number)
{
	const void *head = send->head;
	__u64 *payload = data + CB_HEAD_BYTES;

	if (data + CB_HEAD_BYTES > end)
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
	for (__u32 i = 0; i < CB_WORDS; i++) {
		if (i >= send->words || (void *)(payload + 1) > end)
			break;
		*payload = i == send->key_word ? number : send->payload[i];
		payload++;
	}
	return 0;
}

/* Writes the whole frame, then calls the program being measured. */
SEC("xdp")
int cb_rewrite(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct cb_send *send = bpf_map_lookup_elem(&cb_sends, &zero);
	__u64 number;
	__u32 row;

	if (!send)
		return XDP_ABORTED;
	number = send->next;
	row = (__u32)number * CB_ODD & send->mask;
	if (cb_put((void *)(long)ctx->data, (void *)(long)ctx->data_end, send, bpf_cpu_to_be64(row * send->step)))
		return XDP_ABORTED;
	send->next = number + 1;
	if (number == 0)
		send->first_ns = bpf_ktime_get_ns();
	if (number == send->last)
		send->last_ns = bpf_ktime_get_ns();
	bpf_tail_call_static(ctx, &cb_next, 0);
	return XDP_ABORTED;
}

/* Smallest program that cb_rewrite can call; its cost is subtracted. */
SEC("xdp")
int cb_tx(struct xdp_md *ctx)
{
	return XDP_TX;
}
