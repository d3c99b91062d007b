// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * The fast path of `column`: decides which requests it answers, answers them, and counts the outcomes. The C twin of
 * crates/column/src/fastpath.rs and request.rs.
 */
#pragma once
#include "column_rows.h"
#include "ranges.h"
#include "reply.h"

/* Results of parsing in addition to the counters: the kinds of well-formed requests. */
#define COLUMN_ASKS_GET 0x100
#define COLUMN_ASKS_SCAN 0x101
#define COLUMN_ASKS_CHANGE 0x102
/* A scan whose start key is above its stop key, so that its reply has no rows. */
#define COLUMN_ASKS_NOTHING 0x103

/* The fixed part of a native request. Its keys follow. */
struct column_request {
	struct ls_native_header header;
	struct ls_column_head head;
	__u64 name[4];
};

/* A request in the paper's format, without the value that ends a put. A get has no stop. */
struct column_paper {
	__u8 op[3];
	__u8 key[4];
	__u8 name[9];
	__u8 stop[4];
} __attribute__((packed));

static __always_inline int column_count(__u32 counter, int verdict)
{
	__u32 zero = 0;
	struct ls_column_counts *counts = bpf_map_lookup_elem(&column_counts, &zero);

	if (counts && counter < LS_COLUMN_COUNTERS)
		counts->count[counter]++;
	return verdict;
}

static __always_inline struct ls_datagram *column_found(void)
{
	__u32 zero = 0;
	struct ls_scratch *scratch = bpf_map_lookup_elem(&ls_scratches, &zero);

	return scratch ? &scratch->found : NULL;
}

static __always_inline void *column_payload(void *data, const struct ls_datagram *found)
{
	return data + (found->udp & 63) + sizeof(struct udphdr);
}

/*
 * Sums the 32-bit words of the reply's payload in work->draft and stores the result in work->sum. The function may
 * read up to COLUMN_STEP words past the payload; the caller has set them to zero.
 */
__noinline int column_sum(struct column_work *work)
{
	__u32 words, at = 0;
	__u64 sum = 0;

	if (!work)
		return 0;
	words = (work->payload_bytes + 7) / 8;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < COLUMN_DRAFT_WORDS / COLUMN_STEP; i++) {
		if (at >= words)
			break;
		for (__u32 j = 0; j < COLUMN_STEP; j++) {
			sum += (__u32)work->draft[at + j];
			sum += work->draft[at + j] >> 32;
		}
		at += COLUMN_STEP;
	}
	work->sum = sum;
	return 0;
}

/*
 * Returns 1 if the packet of a request that may change a row arrived intact, by its UDP checksum (FastPath::changes).
 * Uses work->draft as scratch memory.
 */
static __always_inline int column_is_intact(struct xdp_md *ctx, const struct ls_datagram *found,
					    struct column_work *work)
{
	__u32 bytes = found->payload_bytes;

	work->payload_bytes = bytes;
	work->used = 0;
	column_clear(work);
	if (!bytes || bytes > COLUMN_PAYLOAD_MAX ||
	    bpf_xdp_load_bytes(ctx, (found->udp & 63) + sizeof(struct udphdr), work->draft, bytes))
		return 0;
	column_sum(work);
	return ls_is_intact((void *)(long)ctx->data, (void *)(long)ctx->data_end, found, work->sum);
}

/*
 * Reads a key of a native request. The key begins `offset` bytes after the fixed part of the request. Returns 0, or
 * -1 if only the host can decide about this request.
 */
__noinline int column_read_key(struct xdp_md *ctx, struct column_key *key, __u32 offset, __u32 bytes)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ls_datagram *found = column_found();
	__u64 *at, padding = 0;

	if (!found || !key || offset > LS_COLUMN_KEY_BYTES_MAX || bytes > LS_COLUMN_KEY_BYTES_MAX)
		return -1;
	if (sizeof(struct column_request) + offset + ((bytes + 7) & ~7) > found->payload_bytes)
		return -1;
	at = column_payload(data, found) + sizeof(struct column_request) + offset;
	key->bytes = bytes;
	for (__u32 i = 0; i < COLUMN_WORDS; i++) {
		__u64 word = 0;

		if (8 * i < bytes) {
			if ((void *)(at + 1) > end)
				return -1;
			word = bpf_be64_to_cpu(*at);
			at++;
			if (bytes < 8 * (i + 1))
				padding = word << (8 * (bytes & 7));
		}
		key->word[i] = word;
	}
	return padding ? -1 : 0;
}

/* Reads the start key. Keys of 8 bytes are read inline, without a call. */
static __always_inline int column_read_start(struct xdp_md *ctx, const struct column_request *packet,
					     struct column_work *work, __u32 bytes)
{
	void *end = (void *)(long)ctx->data_end;
	const __u64 *word = (const void *)(packet + 1);

	if (bytes != 8 || work->payload_bytes < sizeof(*packet) + 8 || (void *)(word + 1) > end)
		return column_read_key(ctx, &work->start, 0, bytes);
	work->start.word[0] = bpf_be64_to_cpu(*word);
	for (int i = 1; i < COLUMN_WORDS; i++)
		work->start.word[i] = 0;
	work->start.bytes = 8;
	return 0;
}

/* Parses a native request and stores its keys in `work`. Returns the kind of request, COLUMN_ASKS_*, or a counter. */
static __always_inline int column_parse_native(struct xdp_md *ctx, const struct column_request *packet,
					       struct column_work *work)
{
	const struct ls_column_head *head = &packet->head;
	__u32 payload_bytes = work->payload_bytes, op = packet->header.op, start_bytes = head->start_bytes;
	__u32 flags = head->flags, whole, reads, order;

	if (packet->header.version != LS_NATIVE_VERSION || packet->header.status ||
	    bpf_ntohs(packet->header.length) != payload_bytes - sizeof(packet->header) || payload_bytes % 8)
		return LS_COLUMN_COUNTER_FORWARDED;
	if (head->columns != 1 || head->expected_bytes || head->reserved || head->nonce)
		return LS_COLUMN_COUNTER_FORWARDED;
	reads = !(head->value_bytes | head->slot | head->token);
	whole = !(flags | head->stop_bytes | head->limit);
	for (int i = 0; i < 4; i++)
		work->name[i] = packet->name[i];
	work->flags = flags;
	work->limit = bpf_ntohs(head->limit);
	work->has_stop = head->stop_bytes;
	if (op == LS_COLUMN_OP_SCAN) {
		if (!reads || flags & ~(LS_COLUMN_FLAG_STOP_INCLUSIVE | LS_COLUMN_FLAG_START_EXCLUSIVE))
			return LS_COLUMN_COUNTER_FORWARDED;
		if (column_read_start(ctx, packet, work, start_bytes))
			return LS_COLUMN_COUNTER_FORWARDED;
		if (!work->has_stop)
			return COLUMN_ASKS_SCAN;
		if (column_read_key(ctx, &work->stop, (start_bytes + 7) & ~7, work->has_stop))
			return LS_COLUMN_COUNTER_FORWARDED;
		order = column_order_keys(&work->start, &work->stop);
		if (order == COLUMN_LESS || (order == COLUMN_EQUAL && flags == LS_COLUMN_FLAG_STOP_INCLUSIVE))
			return COLUMN_ASKS_SCAN;
		return LS_COLUMN_COUNTER_FORWARDED;
	}
	if (!whole || !start_bytes || column_read_start(ctx, packet, work, start_bytes))
		return LS_COLUMN_COUNTER_FORWARDED;
	if (op == LS_COLUMN_OP_GET)
		return reads ? COLUMN_ASKS_GET : LS_COLUMN_COUNTER_FORWARDED;
	return op == LS_COLUMN_OP_PUT || op == LS_COLUMN_OP_DELETE ? COLUMN_ASKS_CHANGE : LS_COLUMN_COUNTER_FORWARDED;
}

/* Reads a key in the paper's format. Trailing zero bytes of the field are padding and not part of the key. */
static __always_inline void column_paper_key(struct column_key *key, const __u8 *bytes)
{
	__u32 number = bpf_ntohl(*(__u32 *)bytes);

	key->word[0] = (__u64)number << 32;
	for (int i = 1; i < COLUMN_WORDS; i++)
		key->word[i] = 0;
	key->bytes = number & 0xff ? 4 : number & 0xffff ? 3 : number & 0xffffff ? 2 : !!number;
}

/* Parses a packet in the paper's format, whose first letter is `op`. Returns as column_parse_native does. */
__noinline int column_parse_paper(struct xdp_md *ctx, struct column_work *work, __u32 op)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ls_datagram *found = column_found();
	struct column_paper *packet;

	if (!found || !work)
		return LS_COLUMN_COUNTER_FORWARDED;
	packet = column_payload(data, found);
	if (work->payload_bytes < LS_COLUMN_PAPER_GET_BYTES || (void *)packet->stop > end)
		return LS_COLUMN_COUNTER_FORWARDED;
	column_paper_key(&work->start, packet->key);
	work->name[0] = *(__u64 *)packet->name;
	work->name[1] = packet->name[8];
	work->name[2] = 0;
	work->name[3] = 0;
	work->flags = LS_COLUMN_FLAG_STOP_INCLUSIVE;
	work->limit = 0;
	work->has_stop = 1;
	if (op == 's') {
		/* The payload must have room for status, row count and one row. The host decides about shorter payloads. */
		if (work->payload_bytes < 2 + LS_COLUMN_PAPER_ROW_BYTES || (void *)(packet + 1) > end)
			return LS_COLUMN_COUNTER_FORWARDED;
		column_paper_key(&work->stop, packet->stop);
		return column_order_keys(&work->start, &work->stop) == COLUMN_GREATER ? COLUMN_ASKS_NOTHING :
											COLUMN_ASKS_SCAN;
	}
	if (!work->start.bytes)
		return LS_COLUMN_COUNTER_FORWARDED;
	if (op == 'p')
		return COLUMN_ASKS_CHANGE;
	return work->payload_bytes < LS_COLUMN_PAPER_GET_REPLY_BYTES ? LS_COLUMN_COUNTER_FORWARDED : COLUMN_ASKS_GET;
}

/*
 * Invalidates the block that a put or delete from a trusted source changes. Returns 1 if the block was valid. The
 * host then changes the table.
 */
__noinline int column_change(struct xdp_md *ctx, struct column_work *work)
{
	struct ls_column_control *control = column_controlled();
	struct ls_datagram *found = column_found();
	struct ls_column_table *table;
	struct ls_column_block *block;
	__u32 index;

	if (!control || !found || !work)
		return 0;
	if (!ls_is_in_ranges(ctx, found, control->range, control->range_mask, LS_READ_ONCE(control->ranges)))
		return 0;
	table = column_named(control, work);
	if (!table || LS_READ_ONCE(table->seq) & 1)
		return 0;
	ls_read_barrier();
	if (column_find(work))
		return 0;
	index = work->block;
	block = bpf_map_lookup_elem(&column_blocks, &index);
	if (!block || __sync_fetch_and_or(&block->flags, LS_COLUMN_BLOCK_INVALID) & LS_COLUMN_BLOCK_INVALID)
		return 0;
	__sync_fetch_and_add(&table->invalid_blocks, 1);
	return 1;
}

/*
 * Reads the rows of a request and builds the reply, without the native header. Returns 0, or the counter of the
 * reason to forward.
 */
__noinline int column_read(struct column_work *work, __u32 asks)
{
	struct ls_column_control *control = column_controlled();
	struct ls_column_table *table;
	__u64 seq;
	int left;

	if (!work || !control)
		return LS_COLUMN_COUNTER_CHANGING;
	if (work->now_ns >= LS_READ_ONCE(control->lease_until_ns))
		return LS_COLUMN_COUNTER_NOT_LEASED;
	table = column_named(control, work);
	if (!table)
		return LS_COLUMN_COUNTER_MISSES;
	seq = LS_READ_ONCE(table->seq);
	ls_read_barrier();
	if (seq & 1)
		return LS_COLUMN_COUNTER_CHANGING;
	if (LS_READ_ONCE(control->literal_flags) && LS_READ_ONCE(table->invalid_blocks))
		return LS_COLUMN_COUNTER_INVALID;
	left = asks == COLUMN_ASKS_GET ? column_get(work) : column_scan(work);
	ls_read_barrier();
	return LS_READ_ONCE(table->seq) == seq ? left : LS_COLUMN_COUNTER_CHANGING;
}

/* Writes status and row count of a reply in the paper's format, and sums the reply. */
static __always_inline void column_finish_paper(struct column_work *work, __u32 asks)
{
	__u8 *first = (__u8 *)work->draft;

	first[0] = !work->rows ? LS_COLUMN_PAPER_NO_ROW : work->more ? LS_COLUMN_PAPER_MORE : LS_COLUMN_PAPER_FOUND;
	if (asks != COLUMN_ASKS_GET)
		first[1] = work->rows;
	column_sum(work);
}

static __always_inline void column_finish_native(struct column_work *work, const __u64 *header, __u32 asks,
						 __u32 may_be_stale)
{
	__u32 flags = (may_be_stale ? LS_COLUMN_REPLY_MAY_BE_STALE : 0) | (work->more ? LS_COLUMN_REPLY_MORE : 0);
	__u32 status = asks == COLUMN_ASKS_GET && !work->rows ? LS_STATUS_UNKNOWN : LS_STATUS_OK;
	__u64 sum = work->sum;

	work->draft[0] = header[0] | (__u64)LS_NATIVE_REPLY_BIT << 24 | (__u64)bpf_htons(status) << 32;
	work->draft[1] = header[1];
	work->draft[2] = LS_COLUMN_SOURCE_FASTPATH | flags << 8 | (__u64)bpf_htons(work->rows) << 16;
	work->draft[3] = bpf_cpu_to_be64(work->version_ms);
	work->draft[4] = 0;
	for (int i = 0; i < 4; i++) {
		sum += (__u32)work->draft[i];
		sum += work->draft[i] >> 32;
	}
	work->sum = sum;
}

/*
 * Copies the words of a native reply into the packet, COLUMN_STEP at a time. The last words are copied first; the
 * last step of the loop may then overwrite part of them with the same values.
 */
static __always_inline void column_put_native(struct xdp_md *ctx, const struct ls_datagram *found,
					      struct column_work *work)
{
	void *end = (void *)(long)ctx->data_end;
	__u64 *payload = column_payload((void *)(long)ctx->data, found), *last;
	__u32 words = work->payload_bytes / 8, at = words - COLUMN_STEP;

	/*
	 * This check never fails, because a request is longer than these words. The barrier forces the compiler to check
	 * the same register that it uses below; otherwise the BPF verifier does not see the bound.
	 */
	asm volatile("" : "+r"(at));
	if (at > COLUMN_PAYLOAD_MAX / 8)
		return;
	asm volatile("" : "+r"(at));
	last = payload + at;
	if ((void *)(last + COLUMN_STEP) > end)
		return;
	for (__u32 j = 0; j < COLUMN_STEP; j++)
		last[j] = work->draft[at + j];
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < COLUMN_PAYLOAD_MAX / 8; i += COLUMN_STEP) {
		if (i >= at || (void *)(payload + COLUMN_STEP) > end)
			break;
		for (__u32 j = 0; j < COLUMN_STEP; j++)
			payload[j] = work->draft[i + j];
		payload += COLUMN_STEP;
	}
}

/* Copies the draft into the packet's payload and turns the packet into the reply. Returns 0 or -1. */
static __always_inline int column_send(struct xdp_md *ctx, const struct ls_datagram *found, struct column_work *work)
{
	__u32 bytes = work->payload_bytes;

	if (!work->is_paper) {
		column_put_native(ctx, found, work);
	} else if (!bytes || bytes > COLUMN_PAYLOAD_MAX ||
	    bpf_xdp_store_bytes(ctx, (found->udp & 63) + sizeof(struct udphdr), work->draft, bytes))
		return -1;
	return ls_reply((void *)(long)ctx->data, (void *)(long)ctx->data_end, found, work->sum);
}

/* Returns the first letter of the operation if the payload is in the paper's format, else 0. */
static __always_inline __u8 column_paper_op(const void *payload, void *end, __u32 payload_bytes)
{
	const __u8 *op = payload;
	__u32 word;

	if (payload_bytes < 3 || (void *)(op + 3) > end)
		return 0;
	word = op[0] | (__u32)op[1] << 8 | (__u32)op[2] << 16;
	return word == ('p' | 'u' << 8 | 't' << 16) || word == ('g' | 'e' << 8 | 't' << 16) ||
			       word == ('s' | 'c' << 8 | '1' << 16) ?
		       op[0] :
		       0;
}

static __always_inline int column_answer(struct xdp_md *ctx, const struct ls_datagram *found, __u64 now_ns)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ls_column_control *control = column_controlled();
	struct column_request *packet = column_payload(data, found);
	__u32 zero = 0, payload_bytes = found->payload_bytes;
	struct column_work *work = bpf_map_lookup_elem(&column_works, &zero);
	int is_native, asks, left;
	__u64 header[2];
	__u8 paper;

	if (!control || !work)
		return XDP_PASS;
	paper = column_paper_op(packet, end, payload_bytes);
	is_native = !paper && payload_bytes >= sizeof(packet->header) && (void *)(&packet->header + 1) <= end &&
		    packet->header.magic == bpf_htons(LS_NATIVE_MAGIC);
	if (payload_bytes <= COLUMN_PAYLOAD_MAX &&
	    (paper == 'p' || (is_native && (packet->header.op == LS_COLUMN_OP_PUT ||
					    packet->header.op == LS_COLUMN_OP_DELETE))) &&
	    !column_is_intact(ctx, found, work))
		return XDP_PASS;
	if (paper) {
		if (!LS_READ_ONCE(control->paper_format))
			return ls_drop(LS_COLUMN_SLOT, LS_DROP_PAPER_REFUSED);
	} else {
		if (!is_native)
			return ls_drop(LS_COLUMN_SLOT, LS_DROP_NOT_A_REQUEST);
		if (packet->header.op & LS_NATIVE_REPLY_BIT)
			return ls_drop(LS_COLUMN_SLOT, LS_DROP_REPLY_BIT);
	}
	if (payload_bytes > COLUMN_PAYLOAD_MAX)
		return column_count(LS_COLUMN_COUNTER_FORWARDED, XDP_PASS);
	work->payload_bytes = payload_bytes;
	work->now_ns = now_ns;
	work->is_paper = 0;
	work->sum = 0;
	work->version_ms = 0;
	work->rows = 0;
	work->more = 0;
	if (paper) {
		work->is_paper = paper == 's' ? 2 : 1;
		work->used = 0;
		asks = column_parse_paper(ctx, work, paper);
		column_clear(work);
		work->used = paper == 's' ? 2 : 1;
	} else {
		if ((void *)(packet + 1) > end || payload_bytes < sizeof(*packet))
			return column_count(LS_COLUMN_COUNTER_FORWARDED, XDP_PASS);
		__builtin_memcpy(header, packet, sizeof(header));
		work->used = COLUMN_NATIVE_BYTES;
		asks = column_parse_native(ctx, packet, work);
	}
	if (asks == COLUMN_ASKS_CHANGE) {
		if (column_change(ctx, work))
			column_count(LS_COLUMN_COUNTER_LINE_INVALIDATIONS, 0);
		return column_count(LS_COLUMN_COUNTER_FORWARDED, XDP_PASS);
	}
	if (asks < COLUMN_ASKS_GET)
		return column_count(asks, XDP_PASS);
	left = asks == COLUMN_ASKS_NOTHING ? 0 : column_read(work, asks);
	if (left)
		return column_count(left, XDP_PASS);
	if (paper) {
		column_finish_paper(work, asks);
	} else {
		column_clear_first(work);
		column_finish_native(work, header, asks, LS_READ_ONCE(control->may_be_stale));
	}
	/* The frame was parsed and checked above, so this cannot fail. */
	column_send(ctx, found, work);
	return column_count(LS_COLUMN_COUNTER_HITS, XDP_TX);
}
