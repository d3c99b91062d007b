// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * The fast path of `transfer`: decides which requests it answers, answers those in the paper's format, and counts the
 * outcomes. The C twin of crates/transfer/src/fastpath.rs and paper.rs.
 */
#pragma once
#include "transfer_native.h"

struct transfer_counted {
	__u64 count[LS_TRANSFER_COUNTERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct transfer_counted);
} transfer_counts SEC(".maps");

static __always_inline int transfer_count(enum ls_transfer_counter counter, int verdict)
{
	__u32 zero = 0;
	struct transfer_counted *counts = bpf_map_lookup_elem(&transfer_counts, &zero);

	if (counts)
		counts->count[counter]++;
	return verdict;
}

/* Counts an answer by its outcome. */
static __always_inline int transfer_count_answer(__u32 says)
{
	if (says == TRANSFER_SAYS_REPEATED) {
		transfer_count(LS_TRANSFER_COUNTER_REPEATS, 0);
	} else if (says > TRANSFER_SAYS_REPEATED) {
		transfer_count(LS_TRANSFER_COUNTER_BUSY, 0);
		if (says == TRANSFER_SAYS_RING_FULL)
			transfer_count(LS_TRANSFER_COUNTER_RING_FULL, 0);
	} else if (says) {
		transfer_count(LS_TRANSFER_COUNTER_REFUSALS, 0);
	}
	return transfer_count(LS_TRANSFER_COUNTER_REPLIES, XDP_TX);
}

/*
 * Returns, as one word, the bytes that pad a packet in the paper's format to the minimal frame length; a valid
 * request has zeros there. With `clear`, sets these bytes to 0 for the reply. A separate pointer is used so that the
 * verifier does not attach these bounds to the packet pointer.
 */
static __always_inline __u32 transfer_filler(void *data, void *end, const struct ls_datagram *found, int clear)
{
	__u8 *filler = data + (LS_READ_ONCE(found->udp) & 63) + sizeof(struct udphdr) + LS_TRANSFER_PAPER_BYTES_MIN;
	__u32 bytes = found->payload_bytes - LS_TRANSFER_PAPER_BYTES_MIN, word = 0;

	if (!bytes || (void *)filler + 1 > end)
		return 0;
	word = filler[0];
	if (clear)
		filler[0] = 0;
	if (bytes < 2 || (void *)filler + 2 > end)
		return word;
	word |= (__u32)filler[1] << 8;
	if (clear)
		filler[1] = 0;
	return word;
}

/*
 * Prefetches the stored last request of an account in the paper's format from its most likely place, before the
 * account is looked up.
 */
static __always_inline void transfer_touch_last(const struct ls_transfer_control *control, const __u64 id[2])
{
	struct ls_transfer_paper *last;
	__u32 buckets[2], index;

	transfer_buckets(control, id, buckets);
	/* Two entries of a bucket share a cache line. */
	for (int i = 0; i < LS_TRANSFER_BUCKET_CELLS; i += 2) {
		index = buckets[0] * LS_TRANSFER_BUCKET_CELLS + i;
		last = bpf_map_lookup_elem(&transfer_papers, &index);
		if (last)
			(void)LS_READ_ONCE(last->last_id);
	}
}

/* Fills the task of a request in the paper's format, and executes it. */
static __always_inline enum transfer_ran transfer_run_paper(const struct ls_paper_transfer *packet,
							    const struct ls_transfer_control *control,
							    struct transfer_work *work)
{
	struct transfer_task *task = &work->task;
	struct ls_transfer_record *record = &task->record;
	__u32 command = bpf_ntohl(packet->command);

	record->source[0] = 0;
	record->source[1] = (__u64)packet->source << 32;
	/*
	 * The destination is copied unchanged into the reply. CREATE and ISSUE do not use it, so it may have any value
	 * there.
	 */
	record->destination[0] = 0;
	record->destination[1] = (__u64)packet->destination << 32;
	record->amount = bpf_ntohl(packet->amount);
	record->source_version = 0;
	record->destination_version = 0;
	record->slot = TRANSFER_NO_SESSION;
	record->command = command;
	record->contract = 0;
	record->place = 1 << 16;
	record->sequence = bpf_ntohl(packet->transaction_id);
	record->sum = 0;
	record->timestamp = 0;
	record->uuid[0] = 0;
	record->uuid[1] = 0;
	record->nonce = 0;
	record->timeout_s = 0;
	record->time_ns = work->now_ns;
	task->limit = 0xffffffff;
	task->last.last_id = record->sequence;
	task->last.destination = bpf_ntohl(packet->destination);
	task->last.amount = record->amount;
	task->last.command = command;
	if (task->last.last_id)
		transfer_touch_last(control, record->source);
	return transfer_run(control, task);
}

/*
 * Answers a request in the paper's format. Returns 0 if the packet has become its reply, or -1 if the host must
 * answer.
 */
__noinline int transfer_paper(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ls_transfer_control *control = transfer_controlled();
	struct transfer_work *work = transfer_working();
	struct ls_datagram *found = transfer_found();
	struct ls_paper_transfer *packet;
	__u32 command, code = LS_TRANSFER_CODE_DONE, says = LS_TRANSFER_CODE_DONE;
	__u64 amount = 0;

	if (!control || !work || !found)
		return -1;
	packet = transfer_payload(data, found);
	if ((void *)(packet + 1) > end)
		return -1;
	command = bpf_ntohl(packet->command);
	if (transfer_filler(data, end, found, 1) || command < LS_TRANSFER_COMMAND_CREATE ||
	    command > LS_TRANSFER_COMMAND_REFER || (command == LS_TRANSFER_COMMAND_TRANSFER && !packet->amount)) {
		code = LS_TRANSFER_CODE_BAD_COMMAND;
	} else if (command == LS_TRANSFER_COMMAND_REFER) {
		__u64 id[2] = { 0, (__u64)packet->source << 32 };
		struct transfer_holding holding = {};

		if (transfer_balance(control, id, &holding, &code))
			return -1;
		amount = holding.balance;
	} else if (!transfer_is_express()) {
		return -1;
	} else if (LS_READ_ONCE(control->require_signature) ||
		   (command != LS_TRANSFER_COMMAND_TRANSFER && !transfer_may_issue(ctx))) {
		code = LS_TRANSFER_CODE_UNAUTHORISED;
	} else if (!transfer_has_room(1)) {
		code = LS_TRANSFER_CODE_BUSY;
		says = TRANSFER_SAYS_RING_FULL;
	} else {
		enum transfer_ran ran = transfer_run_paper(packet, control, work);

		if (ran == TRANSFER_CLAIMED)
			return -1;
		code = ran == TRANSFER_BUSY ? LS_TRANSFER_CODE_BUSY : work->task.code;
		amount = work->task.amount;
		if (ran != TRANSFER_DONE)
			says = ran == TRANSFER_BUSY ? TRANSFER_SAYS_BUSY : TRANSFER_SAYS_REPEATED;
	}
	/* The paper's format cannot express an amount above 32 bits. */
	if (!code && amount >> 32)
		code = LS_TRANSFER_CODE_OVERFLOW;
	if (code)
		packet->command |= bpf_htonl(LS_TRANSFER_PAPER_REFUSED);
	packet->amount = bpf_htonl(code ? code : (__u32)amount);
	return transfer_say(work, says ? says : code, transfer_sum_words(packet, sizeof(*packet)));
}

/*
 * Returns 0 if a request that may change an account arrived intact according to its UDP checksum (see
 * FastPath::changes), otherwise -1. For an `execute` request, the same pass over the packet prepares the execution.
 */
static __always_inline int transfer_is_intact(struct xdp_md *ctx, void *data, void *end,
					      const struct ls_datagram *found, struct transfer_work *work, int is_paper)
{
	struct ls_native_header *header = transfer_payload(data, found);
	struct ls_paper_transfer *packet = (void *)header;
	__u32 count;
	__u64 sum;

	work->count = 0;
	if (is_paper) {
		if ((void *)(packet + 1) > end)
			return -1;
		if (packet->command == bpf_htonl(LS_TRANSFER_COMMAND_REFER))
			return 0;
		sum = transfer_sum_words(packet, sizeof(*packet));
		sum += transfer_filler(data, end, found, 0);
	} else {
		count = transfer_operations(found->payload_bytes);
		if (!count || (void *)(header + 1) > end || header->magic != bpf_htons(LS_NATIVE_MAGIC) ||
		    header->op != LS_TRANSFER_OP_EXECUTE)
			return 0;
		if (transfer_scan(ctx, count))
			return -1;
		sum = work->sum;
	}
	return ls_is_intact(data, end, found, sum) ? 0 : -1;
}

static __always_inline int transfer_answer(struct xdp_md *ctx, const struct ls_datagram *found, __u64 now_ns)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ls_native_header *header = transfer_payload(data, found);
	struct ls_paper_transfer *packet = (void *)header;
	struct ls_transfer_control *control = transfer_controlled();
	struct transfer_work *work = transfer_working();
	int is_paper = found->payload_bytes >= LS_TRANSFER_PAPER_BYTES_MIN &&
		       found->payload_bytes <= LS_TRANSFER_PAPER_BYTES_MAX;

	if (!control || !work)
		return XDP_PASS;
	work->now_ns = now_ns;
	if (transfer_is_express() && transfer_is_intact(ctx, data, end, found, work, is_paper))
		return XDP_PASS;
	if (is_paper) {
		if ((void *)(packet + 1) > end)
			return XDP_PASS;
		if (packet->command & bpf_htonl(LS_TRANSFER_PAPER_REFUSED))
			return ls_drop(LS_TRANSFER_SLOT, LS_DROP_REPLY_BIT);
		if (!LS_READ_ONCE(control->paper_format))
			return ls_drop(LS_TRANSFER_SLOT, LS_DROP_PAPER_REFUSED);
	} else {
		if (found->payload_bytes < sizeof(*header) || (void *)(header + 1) > end ||
		    header->magic != bpf_htons(LS_NATIVE_MAGIC))
			return ls_drop(LS_TRANSFER_SLOT, LS_DROP_NOT_A_REQUEST);
		if (header->op & LS_NATIVE_REPLY_BIT)
			return ls_drop(LS_TRANSFER_SLOT, LS_DROP_REPLY_BIT);
	}
	if (now_ns >= LS_READ_ONCE(control->lease_until_ns))
		return transfer_count(LS_TRANSFER_COUNTER_NOT_LEASED, XDP_PASS);
	if (is_paper ? transfer_paper(ctx) : transfer_native(ctx, header, found->payload_bytes))
		return transfer_count(LS_TRANSFER_COUNTER_FORWARDED, XDP_PASS);
	/* The frame was parsed and checked above, so this cannot fail. */
	ls_reply(data, end, found, work->sum);
	return transfer_count_answer(work->says);
}
