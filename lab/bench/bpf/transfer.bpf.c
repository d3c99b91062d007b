/* Generators of `lineside-lab bench transfer`, the program that checks their replies, and the programs that write
 * the frames of a per-packet figure. Twin of src/transfer/bpf.rs, which writes `tb_send` and reads both structs
 * back, and of src/transfer/plan.rs, which defines each request and its reply by the request's number.
 *
 * Request i is about account k = i mod 2^bits, whose id is (k + 1) * TB_ODD, and has the transaction id i / 2^bits + 1.
 * The two ids in a reply therefore determine the request, even if the reply comes late or twice. REFERs, and requests
 * of a run without transaction ids, are known only by their account. In each pass over the accounts, each account sends
 * 1 and receives 1, so that its balance is known without a model. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "wrong.h"

#define TB_ODD 0x9e3779b1u
#define TB_INVERSE 0x0e8b2f51u
#define FIRST_PORT 0x8000
#define PORTS 0x8000
#define ANSWERED_WORDS (1 << 16)
#define ANSWERED (ANSWERED_WORDS * 64) /* requests of which the check knows whether they were answered */
#define BUCKETS 1024
#define LOST_AFTER_NS 200000000
#define HEAD_BYTES 42 /* Ethernet, IPv4, UDP */
#define PAPER_BYTES 22
#define NATIVE_BYTES 128 /* header 16, execute_head 24, one operation 88 */
#define CHECK_AT 40

enum { CREATE = 1, ISSUE, TRANSFER, REFER, MIX };

#define REFUSED 0x80000000u
#define BUSY 8

/* Requests to send, and requests that were sent. Only one CPU writes it. */
struct tb_send {
	__u64 head[6];  /* HEAD_BYTES of the template; port and checksum are set for each request */
	__u64 body[16]; /* native: constant part of the payload */
	__u64 next;     /* number of the next request */
	__u64 limit;    /* requests with this number or a higher one are not sent */
	__u64 first_ns; /* time at which the first request left */
	__u64 last_ns;  /* tb_rewrite: time at which call number `last` began */
	__u64 last;
	__u64 begun;    /* value of `next` at the start of the run */
	__u64 sequence; /* native: sequence number of request 0 */
	/* tb_live_1: time at which the request in flight left (0: none), replies seen by then, and requests given up. */
	__u64 sent_ns, answered, lost;
	__u32 bits;     /* log2 of the number of accounts */
	__u32 command;
	__u32 numbered; /* requests have transaction ids */
	__u32 sum;      /* sum of pseudo-header, UDP header and constant part of the payload */
	__u32 sample_bits; /* a request is timed if the last bits of its number are 0, this many of them */
	__u32 balance;  /* initial balance of each account */
};

/* Replies that arrived. */
struct tb_seen {
	__u64 right, wrong, busy, refused, other;
	__u64 last_ns;       /* arrival of the last timed reply */
	__u32 server_port;   /* network byte order */
	__u32 loses;         /* requests may be lost, so that balances are known only within a pass */
	__u64 late;          /* right replies to requests of an earlier call of the generator, or to very old ones */
	__u64 repeated;      /* right replies to requests that were answered before */
	__u64 buckets[BUCKETS]; /* latency in ns: 16 buckets for each power of two */
};

struct tb_paper {
	__be32 command, transaction_id, source, destination, amount;
	__u16 filler;
};

/* One bit for each of the newest requests with transaction ids: it is set when the request was answered. */
struct tb_answered {
	__u64 word[ANSWERED_WORDS];
};

#define ONE(name, type_, kind)                    \
	struct {                                  \
		__uint(type, kind);               \
		__uint(max_entries, 1);           \
		__type(key, __u32);               \
		__type(value, type_);             \
	} name SEC(".maps")

ONE(tb_sends, struct tb_send, BPF_MAP_TYPE_ARRAY);
ONE(tb_seens, struct tb_seen, BPF_MAP_TYPE_ARRAY);
ONE(tb_answereds, struct tb_answered, BPF_MAP_TYPE_ARRAY);
ONE(tb_next, __u32, BPF_MAP_TYPE_PROG_ARRAY);

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PORTS);
	__type(key, __u32);
	__type(value, __u64);
} tb_stamps SEC(".maps");

char _license[] SEC("license") = "GPL";

_Static_assert(TB_ODD * TB_INVERSE == 1, "an id determines its account");
_Static_assert(sizeof(struct tb_send) == 48 + 128 + 80 + 24, "the layout is that of src/transfer/bpf.rs");

#define DATA(ctx) ((void *)(long)(ctx)->data)
#define END(ctx) ((void *)(long)(ctx)->data_end)

static __always_inline __u32 mask_of(const struct tb_send *send)
{
	return (1u << (send->bits & 31)) - 1;
}

static __always_inline __u32 id_of(__u32 account)
{
	return (account + 1) * TB_ODD;
}

/* Returns the account that receives from `account`. */
static __always_inline __u32 partner_of(const struct tb_send *send, __u32 account)
{
	__u32 mask = mask_of(send);

	return (account + mask / 2 + 1) & mask;
}

static __always_inline __u32 command_of(const struct tb_send *send, __u32 account)
{
	if (send->command != MIX)
		return send->command;
	return (account & 3) < 2 ? TRANSFER : (account & 3) == 2 ? REFER : ISSUE;
}

static __always_inline __u32 amount_of(const struct tb_send *send, __u32 command)
{
	return command == CREATE ? send->balance : command == REFER ? 0 : 1;
}

/* Returns the balance of the source after request `number`. */
static __always_inline __u32 balance_after(const struct tb_send *send, __u32 command, __u64 number)
{
	__u32 account = (__u32)number & mask_of(send);

	if (command == ISSUE)
		return send->balance + (__u32)(number >> (send->bits & 31)) + 1;
	/* Accounts of the lower half send before they receive. */
	if (command == TRANSFER)
		return send->balance - (account <= mask_of(send) / 2);
	return send->balance;
}

static __always_inline __u32 transaction_of(const struct tb_send *send, __u32 command, __u64 number)
{
	return send->numbered && command != REFER ? (__u32)(number >> (send->bits & 31)) + 1 : 0;
}

/* Folds a sum into a UDP checksum, which is never 0, since 0 would mean that there is no checksum. */
static __always_inline __u16 checksum(__u64 sum)
{
	__u16 check;

	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	check = ~sum;
	return check ? check : 0xffff;
}

/* Writes each field as one piece, so that the next reader finds it in one store. A load that spans two stores waits
 * for both, which does not happen with a frame from a network card. `sum` is the checksum of the bytes that differ
 * from the template. */
static __always_inline void put_head(void *data, const struct tb_send *send, __u32 number, __u64 sum)
{
	const void *head = send->head;
	__be16 port = bpf_htons(FIRST_PORT | (number & (PORTS - 1)));

	*(__u64 *)data = *(__u64 *)head;
	*(__u64 *)(data + 8) = *(__u64 *)(head + 8);
	*(__u64 *)(data + 16) = *(__u64 *)(head + 16);
	*(__u16 *)(data + 24) = *(__u16 *)(head + 24);
	*(__u32 *)(data + 26) = *(__u32 *)(head + 26);
	*(__u32 *)(data + 30) = *(__u32 *)(head + 30);
	*(__be16 *)(data + 34) = port;
	*(__u16 *)(data + 36) = *(__u16 *)(head + 36);
	*(__u16 *)(data + 38) = *(__u16 *)(head + 38);
	*(__u16 *)(data + CHECK_AT) = checksum(sum + send->sum + port);
}

/* Writes a request in the paper's format. Returns 0, or -1 when the frame is too short. */
static __always_inline int put_paper(void *data, void *end, const struct tb_send *send, __u64 number)
{
	__u32 account = (__u32)number & mask_of(send), command = command_of(send, account);
	struct tb_paper *paper = data + HEAD_BYTES;
	__be32 words[5] = {
		bpf_htonl(command),
		bpf_htonl(transaction_of(send, command, number)),
		bpf_htonl(id_of(account)),
		command == TRANSFER ? bpf_htonl(id_of(partner_of(send, account))) : 0,
		bpf_htonl(amount_of(send, command)),
	};
	__u64 sum = (__u64)words[0] + words[1] + words[2] + words[3] + words[4];

	if (data + HEAD_BYTES + PAPER_BYTES > end)
		return -1;
	put_head(data, send, number, sum);
	paper->command = words[0];
	paper->transaction_id = words[1];
	paper->source = words[2];
	paper->destination = words[3];
	paper->amount = words[4];
	paper->filler = 0;
	return 0;
}

/* Writes the next packet of a session: one TRANSFER. Request id, sequence and accounts differ from the template's. */
static __always_inline int put_native(void *data, void *end, const struct tb_send *send, __u64 number)
{
	__u32 account = (__u32)number & mask_of(send);
	__be32 source = bpf_htonl(id_of(account)), destination = bpf_htonl(id_of(partner_of(send, account)));
	__be64 sequence = bpf_cpu_to_be64(send->sequence + number);
	__u64 *body = data + HEAD_BYTES;
	__u64 sum = (__u64)source + destination + (__u32)sequence + (sequence >> 32);

	if (data + HEAD_BYTES + NATIVE_BYTES > end)
		return -1;
	put_head(data, send, number, sum);
	for (int i = 0; i < 16; i++)
		body[i] = send->body[i];
	body[3] = sequence;
	/* Last words of the ids: after the header (2), execute_head (3) and the first word of the operation. */
	body[7] = (__u64)source << 32;
	body[9] = (__u64)destination << 32;
	return 0;
}

/* Marks the 64 requests from `number` on as not answered. They take the bits of requests that are ANSWERED older. */
static __always_inline void forget(__u64 number)
{
	struct tb_answered *answered;
	__u32 zero = 0;

	if (number & 63)
		return;
	answered = bpf_map_lookup_elem(&tb_answereds, &zero);
	if (answered)
		answered->word[(number >> 6) & (ANSWERED_WORDS - 1)] = 0;
}

/* Returns the stamp of request `number`, or NULL if the request is not timed. */
static __always_inline __u64 *stamp_of(const struct tb_send *send, __u64 number)
{
	__u32 bits = send->sample_bits & 31, at = (__u32)(number >> bits) & (PORTS - 1);

	if (number & ((1u << bits) - 1))
		return NULL;
	return bpf_map_lookup_elem(&tb_stamps, &at);
}

static __always_inline void stamp(struct tb_send *send, __u64 number)
{
	__u64 *sent_ns, now_ns;

	forget(number);
	sent_ns = stamp_of(send, number);
	if (!sent_ns)
		return;
	now_ns = bpf_ktime_get_ns();
	if (!send->first_ns)
		send->first_ns = now_ns;
	*sent_ns = now_ns;
}

SEC("xdp")
int tb_live(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct tb_send *send = bpf_map_lookup_elem(&tb_sends, &zero);
	__u64 number;

	if (!send)
		return XDP_DROP;
	number = send->next;
	if (number >= send->limit || put_paper(DATA(ctx), END(ctx), send, number))
		return XDP_DROP;
	stamp(send, number);
	send->next = number + 1;
	return XDP_TX;
}

/* Generator with one request in flight: returns XDP_DROP until the reply has arrived, then sends the next request. */
SEC("xdp")
int tb_live_1(struct xdp_md *ctx)
{
	__u32 zero = 0;
	struct tb_send *send = bpf_map_lookup_elem(&tb_sends, &zero);
	struct tb_seen *seen = bpf_map_lookup_elem(&tb_seens, &zero);
	__u64 number, answered;

	if (!send || !seen)
		return XDP_DROP;
	answered = *(volatile __u64 *)&seen->right + *(volatile __u64 *)&seen->wrong +
		   *(volatile __u64 *)&seen->busy + *(volatile __u64 *)&seen->refused;
	if (send->sent_ns && answered == send->answered) {
		if (bpf_ktime_get_ns() - send->sent_ns < LOST_AFTER_NS)
			return XDP_DROP;
		send->lost++;
	}
	number = send->next;
	if (number >= send->limit || put_paper(DATA(ctx), END(ctx), send, number))
		return XDP_DROP;
	send->answered = answered;
	stamp(send, number);
	send->sent_ns = bpf_ktime_get_ns();
	send->next = number + 1;
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

static __always_inline void time_reply(struct tb_seen *seen, const struct tb_send *send, __u64 number)
{
	__u64 *sent_ns = stamp_of(send, number), now_ns, took_ns;
	__u32 log, bucket;

	/* The stamp of an old request was replaced by that of a newer one. */
	if (!sent_ns || !*sent_ns || (send->next - 1 - number) >> (send->sample_bits & 31) >= PORTS)
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

/* Marks request `number` as answered. Returns whether it was answered before. */
static __always_inline int was_answered(__u64 number)
{
	__u64 *word, bit = 1ull << (number & 63);
	struct tb_answered *answered;
	__u32 zero = 0;

	answered = bpf_map_lookup_elem(&tb_answereds, &zero);
	if (!answered)
		return 0;
	word = &answered->word[(number >> 6) & (ANSWERED_WORDS - 1)];
	if (*word & bit)
		return 1;
	*word |= bit;
	return 0;
}

/* Counts a reply. Returns 0, or -1 if the reply is wrong. */
static __always_inline int check(struct tb_seen *seen, const struct tb_send *send, const struct tb_paper *reply,
				 __u32 port)
{
	__u32 mask = mask_of(send), bits = send->bits & 31, account = bpf_ntohl(reply->source) * TB_INVERSE - 1;
	__u32 command, numbered, amount = bpf_ntohl(reply->amount), due, said = bpf_ntohl(reply->command);
	__u32 transaction = bpf_ntohl(reply->transaction_id), least, most, slack = 0;
	__u64 number;

	if (account > mask || ((account ^ port) & (PORTS - 1) & mask))
		return -1;
	command = command_of(send, account);
	numbered = send->numbered && command != REFER;
	/* Without a transaction id, the reply may belong to any request about this account; the newest one is taken. */
	if (numbered)
		number = ((__u64)(transaction - 1) << bits) | account;
	else
		number = ((send->next - 1 - account) & ~(__u64)mask) | account;
	due = command == TRANSFER ? id_of(partner_of(send, account)) : 0;
	/* A request that was not sent has no reply. */
	if (number >= send->next || (said & ~REFUSED) != command || bpf_ntohl(reply->destination) != due ||
	    reply->filler || transaction != transaction_of(send, command, number))
		return -1;
	if (said & REFUSED) {
		if (amount == BUSY)
			seen->busy++;
		else
			seen->refused++;
		return 0;
	}
	/* A request that was lost or answered with `busy` was not executed; then balances are known only within a pass. */
	if (seen->loses || seen->busy)
		slack = (__u32)(number >> bits) + 1;
	most = balance_after(send, command, number) + slack;
	least = balance_after(send, command, numbered ? number : account) - slack;
	if (amount - least > most - least)
		return -1;
	if (number < send->begun || send->next - number > ANSWERED - 64)
		seen->late++;
	else if (numbered && was_answered(number))
		seen->repeated++;
	else {
		seen->right++;
		time_reply(seen, send, number);
	}
	return 0;
}

SEC("xdp")
int tb_check(struct xdp_md *ctx)
{
	void *data = DATA(ctx), *end = END(ctx);
	__u32 zero = 0;
	struct tb_seen *seen = bpf_map_lookup_elem(&tb_seens, &zero);
	struct tb_send *send = bpf_map_lookup_elem(&tb_sends, &zero);

	if (!seen || !send || data + HEAD_BYTES > end)
		return XDP_PASS;
	if (*(__be16 *)(data + 12) != bpf_htons(ETH_P_IP) || *(__u8 *)(data + 23) != IPPROTO_UDP ||
	    *(__be16 *)(data + 34) != (__be16)seen->server_port) {
		seen->other++;
		return XDP_PASS;
	}
	if (data + HEAD_BYTES + PAPER_BYTES > end)
		goto wrong;
	/* Prevents that the compiler merges the two comparisons. The verifier needs the first one. */
	asm volatile("" ::: "memory");
	if (data + HEAD_BYTES + PAPER_BYTES == end &&
	    !check(seen, send, data + HEAD_BYTES, bpf_ntohs(*(__be16 *)(data + 36))))
		return XDP_DROP;
wrong:
	keep_wrong(ctx, send->next);
	seen->wrong++;
	return XDP_DROP;
}

SEC("xdp")
int tb_pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

/* Writes the whole frame, then calls the program being measured. */
static __always_inline int rewrite(struct xdp_md *ctx, int native)
{
	__u32 zero = 0;
	struct tb_send *send = bpf_map_lookup_elem(&tb_sends, &zero);
	__u64 number;
	int put;

	if (!send)
		return XDP_ABORTED;
	number = send->next;
	put = native ? put_native(DATA(ctx), END(ctx), send, number) : put_paper(DATA(ctx), END(ctx), send, number);
	if (put)
		return XDP_ABORTED;
	send->next = number + 1;
	if (number == send->begun)
		send->first_ns = bpf_ktime_get_ns();
	if (number == send->last)
		send->last_ns = bpf_ktime_get_ns();
	bpf_tail_call_static(ctx, &tb_next, 0);
	return XDP_ABORTED;
}

SEC("xdp")
int tb_rewrite(struct xdp_md *ctx)
{
	return rewrite(ctx, 0);
}

SEC("xdp")
int tb_rewrite_native(struct xdp_md *ctx)
{
	return rewrite(ctx, 1);
}

/* Smallest program that tb_rewrite can call; its cost is subtracted. */
SEC("xdp")
int tb_tx(struct xdp_md *ctx)
{
	return XDP_TX;
}
