/* Live-frames generator of `lineside-lab bench column`, and the program that checks its replies. Twin of
 * src/column/live.rs, which writes `cl_send` and reads both structs back, and of src/column/rows.rs, which defines
 * the content of row i. Requests are in the paper's format, which has no request number. The source port of a
 * request therefore encodes its row and its lane. A lane is a sending CPU with its state of requests and replies;
 * neighbouring CPUs have different lanes. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "wrong.h"

#define CL_ODD 0x9e3779b1u
#define HEAD_BYTES 42 /* Ethernet, IPv4, UDP */
#define WORDS_MAX 177
#define ROWS_MAX 64
#define ROW_BYTES 22
#define FIRST_PORT 0x8000
#define PORTS 0x8000
#define LANES 2
#define LANE_PORTS (PORTS / LANES)
#define BUCKETS 1024
#define SAMPLE 15 /* a request is timed if all of these bits of its row number are 0 */

/* Requests to send, and requests that were sent. Only the lane's CPU writes it. */
struct cl_send {
	__u64 head[6];    /* HEAD_BYTES of the template; the port is set for each request */
	__u64 payload[3]; /* op, key, name, stop row; the keys are 0 here */
	__u64 next;       /* number of the next request */
	__u64 first_ns;   /* time at which the first request left */
	__u32 words;      /* words of the payload; those from the fourth on are 0 */
	__u32 span;       /* number of rows with which a request may begin */
	__u32 first_key;  /* key of row 0; each row's key is 2 above the previous one */
	__u32 rows;       /* number of rows of a scan; 0: a get */
};

/* Replies that arrived. */
struct cl_seen {
	__u64 right, wrong, other;
	__u64 last_ns;          /* arrival of the last timed reply */
	__u64 value[2];         /* content of every row after its key: 14 bytes */
	__u64 buckets[BUCKETS]; /* latency in ns: 16 buckets for each power of two */
};

#define OF_LANES(name, type_)                         \
	struct {                                      \
		__uint(type, BPF_MAP_TYPE_ARRAY);     \
		__uint(max_entries, LANES);           \
		__type(key, __u32);                   \
		__type(value, type_);                 \
	} name SEC(".maps")

OF_LANES(cl_sends, struct cl_send);
OF_LANES(cl_seens, struct cl_seen);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PORTS);
	__type(key, __u32);
	__type(value, __u64);
} cl_stamps SEC(".maps");

char _license[] SEC("license") = "GPL";

#define DATA(ctx) ((void *)(long)(ctx)->data)
#define END(ctx) ((void *)(long)(ctx)->data_end)

static __always_inline __be32 key_of(const struct cl_send *send, __u32 row)
{
	return bpf_htonl(send->first_key + 2 * row);
}

/* Writes a request. Returns 0, or -1 when the frame is too short. Writes whole words, so that the next reader finds
 * each field in one store. */
static __always_inline int put(void *data, void *end, const struct cl_send *send, __u32 lane, __u32 row)
{
	const void *head = send->head;
	__u64 *payload = data + HEAD_BYTES;
	__u32 words = send->words;

	if ((void *)(payload + 3) > end)
		return -1;
	*(__u64 *)data = *(__u64 *)head;
	*(__u64 *)(data + 8) = *(__u64 *)(head + 8);
	*(__u64 *)(data + 16) = *(__u64 *)(head + 16);
	*(__u16 *)(data + 24) = *(__u16 *)(head + 24);
	*(__u32 *)(data + 26) = *(__u32 *)(head + 26);
	*(__u32 *)(data + 30) = *(__u32 *)(head + 30);
	*(__be16 *)(data + 34) = bpf_htons(FIRST_PORT + lane * LANE_PORTS + row);
	*(__u16 *)(data + 36) = *(__u16 *)(head + 36);
	*(__u32 *)(data + 38) = *(__u32 *)(head + 38);
	payload[0] = send->payload[0] | (__u64)key_of(send, row) << 24;
	payload[1] = send->payload[1];
	payload[2] = send->rows ? send->payload[2] | key_of(send, row + send->rows - 1) : 0;
	payload += 3;
	for (__u32 i = 3; i < WORDS_MAX; i++) {
		if (i >= words || (void *)(payload + 1) > end)
			break;
		*payload++ = 0;
	}
	return 0;
}

static __always_inline __u64 *stamp_of(__u32 lane, __u32 row)
{
	__u32 at = lane * LANE_PORTS + row;

	return bpf_map_lookup_elem(&cl_stamps, &at);
}

static __always_inline void stamp(struct cl_send *send, __u32 lane, __u32 row)
{
	__u64 *sent_ns, now_ns;

	if (row & SAMPLE)
		return;
	sent_ns = stamp_of(lane, row);
	if (!sent_ns)
		return;
	now_ns = bpf_ktime_get_ns();
	if (!send->first_ns)
		send->first_ns = now_ns;
	*sent_ns = now_ns;
}

SEC("xdp")
int cl_live(struct xdp_md *ctx)
{
	__u32 lane = bpf_get_smp_processor_id() % LANES, row;
	struct cl_send *send = bpf_map_lookup_elem(&cl_sends, &lane);

	if (!send)
		return XDP_DROP;
	/* Multiples of the golden ratio are far from one another: no row is queried again while its request is in flight. */
	row = (__u64)((__u32)send->next * CL_ODD) * send->span >> 32;
	if (put(DATA(ctx), END(ctx), send, lane, row))
		return XDP_DROP;
	stamp(send, lane, row);
	send->next++;
	return XDP_TX;
}

static __always_inline __u32 log2_of(__u64 value)
{
	__u32 log = 0;

	for (int shift = 32; shift; shift >>= 1)
		if (value >> shift) {
			log += shift;
			value >>= shift;
		}
	return log;
}

static __always_inline void time_reply(struct cl_seen *seen, __u32 lane, __u32 row)
{
	__u64 *sent_ns, now_ns, took_ns;
	__u32 log, bucket;

	if (row & SAMPLE)
		return;
	sent_ns = stamp_of(lane, row);
	if (!sent_ns || !*sent_ns)
		return;
	now_ns = bpf_ktime_get_ns();
	took_ns = now_ns - *sent_ns;
	*sent_ns = 0;
	seen->last_ns = now_ns;
	log = log2_of(took_ns | 16);
	bucket = (log - 3) * 16 + ((took_ns >> ((log - 4) & 63)) & 15);
	if (bucket < BUCKETS)
		seen->buckets[bucket]++;
}

/* Returns whether the 18 bytes at `value` are the content of the row with this key. */
static __always_inline int is_value(const struct cl_seen *seen, const void *value, __be32 key)
{
	return *(__u32 *)value == key && *(__u64 *)(value + 4) == seen->value[0] &&
	       *(__u32 *)(value + 12) == (__u32)seen->value[1] &&
	       *(__u16 *)(value + 16) == (__u16)(seen->value[1] >> 32);
}

static __always_inline int is_right(const struct cl_seen *seen, const struct cl_send *send, const void *reply,
				    void *end, __u32 row)
{
	const __u8 *bytes = reply;
	__u32 rows = send->rows;

	if (end - reply != 8 * send->words || bytes[0])
		return 0;
	if (!rows)
		return is_value(seen, reply + 1, key_of(send, row));
	if (bytes[1] != rows)
		return 0;
	reply += 2;
	for (__u32 i = 0; i < ROWS_MAX; i++) {
		if (i >= rows)
			break;
		if (reply + ROW_BYTES > end)
			return 0;
		if (*(__u32 *)reply != key_of(send, row + i) || !is_value(seen, reply + 4, key_of(send, row + i)))
			return 0;
		reply += ROW_BYTES;
	}
	return 1;
}

SEC("xdp")
int cl_check(struct xdp_md *ctx)
{
	void *data = DATA(ctx), *end = END(ctx);
	__u32 lane, row;
	struct cl_send *send;
	struct cl_seen *seen;

	if (data + HEAD_BYTES + 24 > end)
		return XDP_PASS;
	row = bpf_ntohs(*(__be16 *)(data + 36)) - FIRST_PORT;
	lane = row / LANE_PORTS % LANES;
	send = bpf_map_lookup_elem(&cl_sends, &lane);
	seen = bpf_map_lookup_elem(&cl_seens, &lane);
	if (!seen || !send)
		return XDP_PASS;
	if (*(__be16 *)(data + 12) != bpf_htons(ETH_P_IP) || *(__u8 *)(data + 23) != IPPROTO_UDP ||
	    *(__be16 *)(data + 34) != *(__be16 *)((void *)send->head + 36)) {
		seen->other++;
		return XDP_PASS;
	}
	row -= lane * LANE_PORTS;
	if (row < LANE_PORTS && is_right(seen, send, data + HEAD_BYTES, end, row)) {
		seen->right++;
		time_reply(seen, lane, row);
	} else {
		keep_wrong(ctx, send->next);
		seen->wrong++;
	}
	return XDP_DROP;
}

SEC("xdp")
int cl_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}
