/* Live-frames generator, the program that checks its replies, and the programs that write the frames of a per-packet
 * figure. Twin of src/live.rs and src/per_packet.rs, which write `bench_send` and read both structs back.
 *
 * Request i asks for entry i of the stream and leaves UDP port 32768 + i mod 32768. Entry i belongs to block i mod
 * 512, so the port of a reply determines the expected root. Frames are recycled with the reply's bytes in them, so
 * every byte is written again for each request. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "wrong.h"

#define STREAM_ENTRIES (2 << 20) /* TXIDs, then memcached's keys */
#define BLOCKS 512
#define FIRST_PORT 0x8000
#define PORTS 0x8000
#define SAMPLE 16 /* one request in 16 is timed */
#define BUCKETS 1024
#define LOST_AFTER_NS 200000000
#define HEAD_BYTES 42 /* Ethernet, IPv4, UDP */
#define KEY_BYTES 32
#define PROOF_HEAD_BYTES 16 /* the native header */
#define PROOF_TAIL_BYTES 136 /* fields of the reply before its path */
#define PROOF_DEPTH 11
#define PROOF_PATH_AT (HEAD_BYTES + PROOF_HEAD_BYTES + PROOF_TAIL_BYTES)
#define PROOF_BYTES (PROOF_PATH_AT + PROOF_DEPTH * KEY_BYTES)
#define PROVEN (64 * 2048)
#define SPV_BYTES (HEAD_BYTES + KEY_BYTES)
/* memcached request: 8 bytes of UDP frame header, "get ", key, "\r\n" */
#define MC_HEAD_BYTES 12
#define MC_BYTES (HEAD_BYTES + MC_HEAD_BYTES + KEY_BYTES + 2)
/* memcached reply: frame header, "VALUE ", key, " 0 32\r\n", value, "\r\nEND\r\n" */
#define MC_VALUE_AT (HEAD_BYTES + 8 + 6 + KEY_BYTES + 7)
#define MC_REPLY_BYTES (MC_VALUE_AT + KEY_BYTES + 7)

/* Requests to send, and requests that were sent. Only one CPU writes it. */
struct bench_send {
	__u64 head[6];     /* HEAD_BYTES of the template; the source port is set for each request */
	__u64 mc_head[2];  /* MC_HEAD_BYTES; for proofs PROOF_HEAD_BYTES, with the entry as request id */
	__u64 next;        /* number of the next request */
	__u64 first_ns;    /* time at which the first request left */
	__u64 last_ns;     /* bench_rewrite: time at which call number `last` began */
	__u64 last;
	__u32 base, mask;  /* entry of the stream: base + (number & mask) */
	/* bench_live_1: time at which the request in flight left (0: none), replies seen by then, and requests given up. */
	__u64 sent_ns, answered, lost;
};

/* Replies that arrived. */
struct bench_seen {
	__u64 right, wrong, unknown, other;
	__u64 last_ns;       /* arrival of the last timed reply */
	__u32 server_port;   /* network byte order */
	__u32 is_echo;
	__u64 buckets[BUCKETS]; /* latency in ns: 16 buckets for each power of two */
};

struct bench_key {
	__u64 word[4];
};

/* Ends of the path that a reply must contain: the transaction's sibling, and the root's child. */
struct bench_path {
	struct bench_key first, last;
};

struct bench_roots {
	struct bench_key root[BLOCKS];
};

struct bench_stamps {
	__u64 sent_ns[PORTS / SAMPLE];
};

#define ONE(name, type_, kind)                    \
	struct {                                  \
		__uint(type, kind);               \
		__uint(max_entries, 1);           \
		__type(key, __u32);               \
		__type(value, type_);             \
	} name SEC(".maps")

ONE(bench_sends, struct bench_send, BPF_MAP_TYPE_ARRAY);
ONE(bench_seens, struct bench_seen, BPF_MAP_TYPE_ARRAY);
ONE(bench_root_map, struct bench_roots, BPF_MAP_TYPE_ARRAY);
ONE(bench_stamp_map, struct bench_stamps, BPF_MAP_TYPE_ARRAY);
ONE(bench_next, __u32, BPF_MAP_TYPE_PROG_ARRAY);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, STREAM_ENTRIES);
	__type(key, __u32);
	__type(value, struct bench_key);
} bench_stream SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PROVEN);
	__type(key, __u32);
	__type(value, struct bench_path);
} bench_paths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u32);
} bench_xsks SEC(".maps");

char _license[] SEC("license") = "GPL";

/* Writes each field as one piece, so that the next reader finds it in one store. A load that spans two stores waits
 * for both, which does not happen with a frame from a network card. */
static __always_inline void put_head(void *data, const struct bench_send *send, __u32 number)
{
	const void *head = send->head;

	*(__u64 *)data = *(__u64 *)head;
	*(__u64 *)(data + 8) = *(__u64 *)(head + 8);
	*(__u64 *)(data + 16) = *(__u64 *)(head + 16);
	*(__u16 *)(data + 24) = *(__u16 *)(head + 24);
	*(__u32 *)(data + 26) = *(__u32 *)(head + 26);
	*(__u32 *)(data + 30) = *(__u32 *)(head + 30);
	*(__be16 *)(data + 34) = bpf_htons(FIRST_PORT | (number & (PORTS - 1)));
	*(__u16 *)(data + 36) = *(__u16 *)(head + 36);
	*(__u32 *)(data + 38) = *(__u32 *)(head + 38);
}

static __always_inline void put_key(__u64 *to, const struct bench_key *key)
{
	for (int i = 0; i < 4; i++)
		to[i] = key->word[i];
}

/* Writes a request. Returns 0, or -1 when the frame is too short or the stream ends before `send->mask`. */
static __always_inline int put_request(void *data, void *end, struct bench_send *send, __u64 number)
{
	__u32 at = send->base + ((__u32)number & send->mask);
	struct bench_key *key = bpf_map_lookup_elem(&bench_stream, &at);

	if (!key || data + SPV_BYTES > end)
		return -1;
	put_head(data, send, number);
	put_key(data + HEAD_BYTES, key);
	return 0;
}

static __always_inline int put_mc_request(void *data, void *end, struct bench_send *send, __u64 number)
{
	__u32 at = send->base + ((__u32)number & send->mask);
	struct bench_key *key = bpf_map_lookup_elem(&bench_stream, &at);

	if (!key || data + MC_BYTES > end)
		return -1;
	put_head(data, send, number);
	*(__u64 *)(data + HEAD_BYTES) = send->mc_head[0];
	*(__u32 *)(data + HEAD_BYTES + 8) = (__u32)send->mc_head[1];
	put_key(data + HEAD_BYTES + MC_HEAD_BYTES, key);
	*(__u16 *)(data + HEAD_BYTES + MC_HEAD_BYTES + KEY_BYTES) = bpf_htons(0x0d0a);
	return 0;
}

/* Writes a native request for a proof: its header, with the entry as request id, and the TXID. The bytes after that
 * are those of the last reply; the server does not read them. */
static __always_inline int put_proof_request(void *data, void *end, struct bench_send *send, __u64 number)
{
	__u32 at = send->base + ((__u32)number & send->mask);
	struct bench_key *key = bpf_map_lookup_elem(&bench_stream, &at);

	if (!key || data + HEAD_BYTES + PROOF_HEAD_BYTES + KEY_BYTES > end)
		return -1;
	put_head(data, send, number);
	*(__u64 *)(data + HEAD_BYTES) = send->mc_head[0];
	*(__be64 *)(data + HEAD_BYTES + 8) = bpf_cpu_to_be64(at);
	put_key(data + HEAD_BYTES + PROOF_HEAD_BYTES, key);
	return 0;
}

static __always_inline void stamp(struct bench_send *send, __u64 number)
{
	struct bench_stamps *stamps;
	__u32 zero = 0;
	__u64 now_ns;

	if (number % SAMPLE)
		return;
	stamps = bpf_map_lookup_elem(&bench_stamp_map, &zero);
	if (!stamps)
		return;
	now_ns = bpf_ktime_get_ns();
	if (!send->first_ns)
		send->first_ns = now_ns;
	stamps->sent_ns[(number & (PORTS - 1)) / SAMPLE] = now_ns;
}

/* Records that request `number` was written. Returns the verdict that sends the frame. */
static __always_inline int sent(struct bench_send *send, __u64 number)
{
	stamp(send, number);
	send->next = number + 1;
	return XDP_TX;
}

#define DATA(ctx) ((void *)(long)(ctx)->data)
#define END(ctx) ((void *)(long)(ctx)->data_end)

SEC("xdp")
int bench_live(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct bench_send *send = bpf_map_lookup_elem(&bench_sends, &zero);
	__u64 number;

	if (!send)
		return XDP_DROP;
	number = send->next;
	if (put_request(DATA(ctx), END(ctx), send, number))
		return XDP_DROP;
	return sent(send, number);
}

SEC("xdp")
int bench_live_proof(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct bench_send *send = bpf_map_lookup_elem(&bench_sends, &zero);
	__u64 number;

	if (!send)
		return XDP_DROP;
	number = send->next;
	if (put_proof_request(DATA(ctx), END(ctx), send, number))
		return XDP_DROP;
	return sent(send, number);
}

/* Generator with one request in flight: returns XDP_DROP until the reply has arrived, then sends the next request.
 * Only requests whose latency is measured are sent. */
SEC("xdp")
int bench_live_1(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct bench_send *send = bpf_map_lookup_elem(&bench_sends, &zero);
	struct bench_seen *seen = bpf_map_lookup_elem(&bench_seens, &zero);
	__u64 number, answered;

	if (!send || !seen)
		return XDP_DROP;
	answered = *(volatile __u64 *)&seen->right + *(volatile __u64 *)&seen->wrong + *(volatile __u64 *)&seen->unknown;
	if (send->sent_ns && answered == send->answered) {
		if (bpf_ktime_get_ns() - send->sent_ns < LOST_AFTER_NS)
			return XDP_DROP;
		send->lost++;
	}
	number = send->next;
	if (put_request(DATA(ctx), END(ctx), send, number))
		return XDP_DROP;
	send->answered = answered;
	stamp(send, number);
	send->sent_ns = bpf_ktime_get_ns();
	send->next = number + SAMPLE;
	return XDP_TX;
}

SEC("xdp")
int bench_live_mc(struct xdp_md *ctx)
{
	__u32 zero = 0;
	int missing = MC_BYTES - (int)(ctx->data_end - ctx->data);
	struct bench_send *send = bpf_map_lookup_elem(&bench_sends, &zero);
	__u64 number;

	/* A recycled frame has the length of the reply. */
	if (!send || (missing && bpf_xdp_adjust_tail(ctx, missing)))
		return XDP_DROP;
	number = send->next;
	if (put_mc_request(DATA(ctx), END(ctx), send, number))
		return XDP_DROP;
	return sent(send, number);
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

static __always_inline void time_reply(struct bench_seen *seen, __u16 port)
{
	struct bench_stamps *stamps;
	__u64 *sent_ns, now_ns, took_ns;
	__u32 zero = 0, log, bucket;

	if (port % SAMPLE)
		return;
	stamps = bpf_map_lookup_elem(&bench_stamp_map, &zero);
	if (!stamps)
		return;
	sent_ns = &stamps->sent_ns[(port & (PORTS - 1)) / SAMPLE];
	if (!*sent_ns)
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

/* Returns the client's port of a datagram from the server, or 0. */
static __always_inline __u16 reply_port(void *data, const struct bench_seen *seen)
{
	if (*(__be16 *)(data + 12) != bpf_htons(ETH_P_IP) || *(__u8 *)(data + 23) != IPPROTO_UDP)
		return 0;
	if (*(__be16 *)(data + 34) != (__be16)seen->server_port)
		return 0;
	return bpf_ntohs(*(__be16 *)(data + 36));
}

/* Counts a reply. Returns 0, or -1 if the reply is not right. */
static __always_inline int check(struct bench_seen *seen, const __u64 *payload, __u16 port)
{
	__u64 any = payload[0] | payload[1] | payload[2] | payload[3];
	struct bench_roots *roots;
	__u32 zero = 0;
	int right;

	if (seen->is_echo) {
		/* The last two bytes of a TXID are the low 15 bits of its number. */
		right = payload[3] >> 48 == (port & (PORTS - 1));
	} else {
		struct bench_key *root;

		roots = bpf_map_lookup_elem(&bench_root_map, &zero);
		if (!roots)
			return 0;
		root = &roots->root[port & (BLOCKS - 1)];
		right = !((payload[0] ^ root->word[0]) | (payload[1] ^ root->word[1]) |
			  (payload[2] ^ root->word[2]) | (payload[3] ^ root->word[3]));
	}
	if (right) {
		seen->right++;
		time_reply(seen, port);
		return 0;
	}
	if (!any)
		seen->unknown++;
	else
		seen->wrong++;
	return -1;
}

static __always_inline __u64 requests_sent(void)
{
	__u32 zero = 0;
	struct bench_send *send = bpf_map_lookup_elem(&bench_sends, &zero);

	return send ? send->next : 0;
}

/* Checks a reply, which is `reply_bytes` long and has its 32 bytes at `value_at`. A shorter reply with the status
 * "unknown" is counted as unknown. */
static __always_inline int check_reply(struct xdp_md *ctx, __u32 value_at, __u32 reply_bytes)
{
	void *data = DATA(ctx), *end = END(ctx);
	__u32 zero = 0;
	struct bench_seen *seen = bpf_map_lookup_elem(&bench_seens, &zero);
	__u16 port;

	if (!seen)
		return XDP_PASS;
	port = data + HEAD_BYTES > end ? 0 : reply_port(data, seen);
	if (!port) {
		seen->other++;
		return XDP_PASS;
	}
	if (data + reply_bytes > end)
		seen->unknown++;
	else if (data + reply_bytes != end)
		seen->wrong++;
	else if (!check(seen, data + value_at, port))
		return XDP_DROP;
	keep_wrong(ctx, requests_sent());
	return XDP_DROP;
}

static __always_inline __u64 differ(const __u64 *hash, const struct bench_key *key)
{
	return (hash[0] ^ key->word[0]) | (hash[1] ^ key->word[1]) | (hash[2] ^ key->word[2]) | (hash[3] ^ key->word[3]);
}

/* Checks a reply to a request for a proof. A right reply has the status "ok", the depth, and both ends of the
 * entry's path. Returns 0, or -1 if the reply is not right. */
static __always_inline int check_proof(struct bench_seen *seen, void *data, __u16 port)
{
	__u32 at = (__u32)bpf_be64_to_cpu(*(__be64 *)(data + HEAD_BYTES + 8));
	struct bench_path *path = bpf_map_lookup_elem(&bench_paths, &at);
	__u32 depth = bpf_ntohl(*(__be32 *)(data + HEAD_BYTES + PROOF_HEAD_BYTES + 92));

	if (*(__u16 *)(data + HEAD_BYTES + 4)) {
		seen->unknown++;
	} else if (path && depth == PROOF_DEPTH && !differ(data + PROOF_PATH_AT, &path->first) &&
		   !differ(data + PROOF_BYTES - KEY_BYTES, &path->last)) {
		seen->right++;
		time_reply(seen, port);
		return 0;
	} else {
		seen->wrong++;
	}
	return -1;
}

SEC("xdp")
int bench_check_proof(struct xdp_md *ctx)
{
	void *data = DATA(ctx), *end = END(ctx);
	__u32 zero = 0;
	struct bench_seen *seen = bpf_map_lookup_elem(&bench_seens, &zero);
	__u16 port;

	if (!seen)
		return XDP_PASS;
	port = data + HEAD_BYTES > end ? 0 : reply_port(data, seen);
	if (!port) {
		seen->other++;
		return XDP_PASS;
	}
	if (data + PROOF_BYTES > end)
		seen->wrong++;
	else if (!check_proof(seen, data, port))
		return XDP_DROP;
	keep_wrong(ctx, requests_sent());
	return XDP_DROP;
}

SEC("xdp")
int bench_check(struct xdp_md *ctx)
{
	return check_reply(ctx, HEAD_BYTES, SPV_BYTES);
}

/* memcached replies only "END\r\n" when it does not have the key. */
SEC("xdp")
int bench_check_mc(struct xdp_md *ctx)
{
	return check_reply(ctx, MC_VALUE_AT, MC_REPLY_BYTES);
}

SEC("xdp")
int bench_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

/* Passes the server's datagrams to the AF_XDP client. */
SEC("xdp")
int bench_xsk(struct xdp_md *ctx)
{
	return bpf_redirect_map(&bench_xsks, ctx->rx_queue_index, XDP_PASS);
}

/* Writes the whole frame, then calls the program being measured. */
SEC("xdp")
int bench_rewrite(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct bench_send *send = bpf_map_lookup_elem(&bench_sends, &zero);
	__u64 number;

	if (!send)
		return XDP_ABORTED;
	number = send->next;
	if (put_request(DATA(ctx), END(ctx), send, number))
		return XDP_ABORTED;
	send->next = number + 1;
	if (number == 0)
		send->first_ns = bpf_ktime_get_ns();
	if (number == send->last)
		send->last_ns = bpf_ktime_get_ns();
	bpf_tail_call_static(ctx, &bench_next, 0);
	return XDP_ABORTED;
}

/* Like bench_rewrite, with a native request for a proof. */
SEC("xdp")
int bench_rewrite_proof(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct bench_send *send = bpf_map_lookup_elem(&bench_sends, &zero);
	__u64 number;

	if (!send)
		return XDP_ABORTED;
	number = send->next;
	if (put_proof_request(DATA(ctx), END(ctx), send, number))
		return XDP_ABORTED;
	send->next = number + 1;
	if (number == 0)
		send->first_ns = bpf_ktime_get_ns();
	if (number == send->last)
		send->last_ns = bpf_ktime_get_ns();
	bpf_tail_call_static(ctx, &bench_next, 0);
	return XDP_ABORTED;
}

/* Smallest program that bench_rewrite can call; its cost is subtracted. */
SEC("xdp")
int bench_tx(struct xdp_md *ctx)
{
	return XDP_TX;
}
