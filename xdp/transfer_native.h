// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Native packets in XDP: `refer`, and in `express` mode an `execute` of a few plain operations. The C twin of
 * crates/transfer/src/native.rs and crates/transfer/src/fastpath.rs. The fast path forwards malformed packets to the
 * host, which answers them with an error status.
 */
#pragma once
#include "transfer_work.h"

#define TRANSFER_EXECUTE_BYTES (sizeof(struct ls_native_header) + sizeof(struct ls_execute_head))
#define TRANSFER_REFER_BYTES (sizeof(struct ls_native_header) + sizeof(struct ls_refer_head))
/* Step of the keys of the checksum by which the server compares the operations of two packets (`sum` in native.rs). */
#define TRANSFER_SUM_KEY_STEP 0x9e3779b97f4a7c15

/* The fixed part of an `execute` packet. Operations follow. */
struct transfer_execute {
	struct ls_native_header header;
	struct ls_execute_head head;
};

static __always_inline void *transfer_payload(void *data, const struct ls_datagram *found)
{
	return data + (found->udp & 63) + sizeof(struct udphdr);
}

/* Returns operation `index` of the packet, or NULL if it is not within the frame. */
static __always_inline struct ls_operation *transfer_operation_at(void *data, void *end,
								  const struct ls_datagram *found, __u32 index)
{
	struct ls_operation *operation = transfer_payload(data, found) + TRANSFER_EXECUTE_BYTES +
					 (index & (LS_TRANSFER_LINE_OPERATIONS_MAX - 1)) * sizeof(*operation);

	/* The barrier makes the compiler check and use one register, so that the verifier sees the bound. */
	asm volatile("" : "+r"(operation));
	return (void *)(operation + 1) > end ? NULL : operation;
}

/*
 * Returns the number of operations in an `execute` payload of this length if the fast path may execute so few;
 * otherwise 0.
 */
static __always_inline __u32 transfer_operations(__u32 payload_bytes)
{
	for (__u32 count = 1; count <= LS_TRANSFER_LINE_OPERATIONS_MAX; count++)
		if (payload_bytes == TRANSFER_EXECUTE_BYTES + count * sizeof(struct ls_operation))
			return count;
	return 0;
}

/*
 * Passes once over an `execute` packet: prefetches the cells that it needs, and sums the payload and the operations.
 * Sets work->count to 0 if an operation is of a kind that the fast path does not execute. Returns 0, or -1 if the
 * offsets in the parsed datagram do not fit the frame.
 */
__noinline int transfer_scan(struct xdp_md *ctx, __u32 count)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ls_transfer_control *control = transfer_controlled();
	struct transfer_work *work = transfer_working();
	struct ls_datagram *found = transfer_found();
	struct ls_transfer_session *session;
	struct transfer_execute *packet;
	__u64 sum = 0, operations_sum = 0, key = 0, *words;
	__u32 slot, special = 0, *head;

	if (!control || !work || !found)
		return -1;
	packet = transfer_payload(data, found);
	if ((void *)(packet + 1) > end)
		return -1;
	slot = bpf_ntohl(packet->head.slot);
	session = bpf_map_lookup_elem(&transfer_slots, &slot);
	if (session)
		(void)LS_READ_ONCE(session->token);
	head = (void *)packet;
	for (__u32 i = 0; i < TRANSFER_EXECUTE_BYTES / 4; i++)
		sum += head[i];
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LS_TRANSFER_LINE_OPERATIONS_MAX; i++) {
		struct ls_operation *operation;

		if (i >= count)
			break;
		operation = transfer_operation_at(data, end, found, i);
		if (!operation)
			return -1;
		words = (void *)operation;
		transfer_touch(control, &words[1]);
		if (operation->command == LS_TRANSFER_COMMAND_TRANSFER)
			transfer_touch(control, &words[3]);
		special |= operation->flags | operation->contract;
		for (__u32 j = 0; j < sizeof(*operation) / 8; j++) {
			__u64 word = words[j], halves;

			sum += (__u32)word;
			sum += word >> 32;
			key += TRANSFER_SUM_KEY_STEP;
			halves = word ^ key;
			operations_sum += (__u64)(__u32)halves * (halves >> 32);
		}
	}
	work->sum = sum;
	work->operations_sum = operations_sum;
	work->count = special ? 0 : count;
	return 0;
}

/*
 * Executes operation `index` of a session's packet and stores the outcome in the session's slot, which is locked.
 * Returns -1 if the first operation of the packet concerns an account that the host has claimed; the host then
 * answers the whole packet.
 */
__noinline int transfer_operate(struct xdp_md *ctx, __u32 index)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ls_transfer_control *control = transfer_controlled();
	struct transfer_work *work = transfer_working();
	struct ls_datagram *found = transfer_found();
	struct ls_transfer_session *session;
	struct ls_transfer_record *record;
	struct ls_operation *operation;
	struct transfer_execute *packet;
	__u32 slot, code = 0;
	enum transfer_ran ran;
	__u64 *words;

	if (!control || !work || !found)
		return -1;
	packet = transfer_payload(data, found);
	operation = transfer_operation_at(data, end, found, index);
	if (!operation || (void *)(packet + 1) > end)
		return -1;
	slot = bpf_ntohl(packet->head.slot);
	session = bpf_map_lookup_elem(&transfer_slots, &slot);
	if (!session)
		return -1;
	words = (void *)operation;
	record = &work->task.record;
	record->source[0] = words[1];
	record->source[1] = words[2];
	record->destination[0] = words[3];
	record->destination[1] = words[4];
	record->amount = bpf_be64_to_cpu(operation->amount);
	record->source_version = 0;
	record->destination_version = 0;
	record->slot = slot;
	record->command = operation->command;
	record->contract = 0;
	record->place = index | (__u32)bpf_ntohs(packet->head.count) << 16;
	record->sequence = bpf_be64_to_cpu(packet->head.sequence);
	record->sum = work->operations_sum;
	record->timestamp = bpf_be64_to_cpu(operation->timestamp);
	__builtin_memcpy(record->uuid, operation->uuid, sizeof(record->uuid));
	record->nonce = bpf_ntohl(operation->nonce);
	record->timeout_s = 0;
	record->time_ns = work->now_ns;
	work->task.limit = ~0ULL;
	work->task.last.last_id = 0;
	if (!transfer_is_operation(operation)) {
		code = LS_TRANSFER_CODE_BAD_COMMAND;
	} else if (operation->command != LS_TRANSFER_COMMAND_TRANSFER && !transfer_may_issue(ctx)) {
		code = LS_TRANSFER_CODE_UNAUTHORISED;
	} else {
		ran = transfer_run(control, &work->task);
		if (ran == TRANSFER_CLAIMED && !index)
			return -1;
		if (ran != TRANSFER_DONE)
			code = LS_TRANSFER_CODE_BUSY;
	}
	/*
	 * Every outcome is recorded in the ring, because the packet uses up its sequence number even if an operation is
	 * refused.
	 */
	if (code)
		transfer_nowhere(&work->task, code);
	index &= LS_TRANSFER_LINE_OPERATIONS_MAX - 1;
	session->codes = (index ? session->codes : 0) | (__u64)work->task.code << 16 * index;
	session->amounts[index] = work->task.amount;
	return 0;
}

/* Turns the packet into the reply that is stored in its session's slot. */
static __always_inline void transfer_put(void *data, void *end, const struct ls_datagram *found,
					 const struct ls_transfer_session *session, struct transfer_work *work)
{
	__u64 sum = work->sum, codes = session->codes;
	__u32 count = work->count;

#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < LS_TRANSFER_LINE_OPERATIONS_MAX; i++, codes >>= 16) {
		struct ls_operation *operation;
		__u32 *first, old, new;
		__be64 amount;

		if (i >= count)
			break;
		operation = transfer_operation_at(data, end, found, i);
		if (!operation)
			return;
		first = (void *)operation;
		amount = bpf_cpu_to_be64(session->amounts[i]);
		/* The first word of an operation holds command and flags, then the result code. */
		old = *first;
		new = (old & 0xffff) | (__u32)bpf_htons((__u16)codes) << 16;
		*first = new;
		sum = transfer_resum(sum, old, new);
		sum = transfer_resum_64(sum, operation->amount, amount);
		sum = transfer_resum_64(sum, operation->number, 0);
		operation->amount = amount;
		operation->number = 0;
	}
	work->sum = sum;
}

/*
 * Turns the header and the head of an `execute` packet into those of its reply. Returns the updated `sum`. Writes
 * whole words, because a load of a word that was just written in pieces waits until all pieces have left the store
 * buffer.
 */
static __always_inline __u64 transfer_head(struct transfer_execute *packet, __u64 sum, enum ls_status status,
					   __be64 sequence, __u16 durability)
{
	__u32 *header = (void *)&packet->header, *last = (void *)&packet->head.count;
	__u32 old[3] = { header[0], header[1], *last };
	__u32 new[3] = {
		old[0] | (__u32)LS_NATIVE_REPLY_BIT << 24,           /* magic, version, op */
		(old[1] & 0xffff0000) | bpf_htons(status),           /* status, length */
		(old[2] & 0xffff) | (__u32)bpf_htons(durability) << 16, /* count, durability */
	};

	sum = transfer_resum_64(sum, packet->head.sequence, sequence);
	packet->head.sequence = sequence;
	header[0] = new[0];
	header[1] = new[1];
	*last = new[2];
	for (int i = 0; i < 3; i++)
		sum = transfer_resum(sum, old[i], new[i]);
	return sum;
}

/* Refuses the whole packet: the reply has this status and the sequence number that the session expects next. */
static __always_inline int transfer_refuse(struct transfer_execute *packet, struct transfer_work *work,
					   enum ls_status status, __u64 expected, __u32 says)
{
	return transfer_say(work, says, transfer_head(packet, work->sum, status, bpf_cpu_to_be64(expected), 0));
}

/*
 * Executes the packet in its session, whose lock the caller holds, or finds that the packet was executed before.
 * Returns 0, or -1 if the host must answer.
 */
static __always_inline int transfer_in_session(struct xdp_md *ctx, void *data, void *end,
					       const struct ls_datagram *found, struct transfer_execute *packet,
					       struct ls_transfer_session *session, struct transfer_work *work)
{
	__u64 last = session->sequence, sequence = bpf_be64_to_cpu(packet->head.sequence);
	__u32 count = work->count, says = TRANSFER_SAYS_REPEATED;

	if (LS_READ_ONCE(session->token) != bpf_be64_to_cpu(packet->head.token))
		return transfer_refuse(packet, work, LS_STATUS_NO_SESSION, 0, LS_TRANSFER_CODE_UNAUTHORISED);
	if (last && sequence == last) {
		if (session->sum != work->operations_sum || session->count != count)
			return transfer_refuse(packet, work, LS_STATUS_REUSED, last + 1,
					       LS_TRANSFER_CODE_ID_REUSED);
	} else {
		if (sequence != last + 1)
			return transfer_refuse(packet, work, LS_STATUS_SEQUENCE, last + 1,
					       LS_TRANSFER_CODE_STALE_ID);
		if (!transfer_has_room(count))
			return transfer_refuse(packet, work, LS_STATUS_BUSY, last + 1, TRANSFER_SAYS_RING_FULL);
#pragma clang loop unroll(disable)
		for (__u32 i = 0; i < LS_TRANSFER_LINE_OPERATIONS_MAX; i++) {
			if (i >= count)
				break;
			if (transfer_operate(ctx, i) && !i)
				return -1;
		}
		session->count = count;
		session->sum = work->operations_sum;
		session->sequence = sequence;
		says = session->codes & 0xffff;
	}
	transfer_put(data, end, found, session, work);
	return transfer_say(work, says,
			    transfer_head(packet, work->sum, LS_STATUS_OK, packet->head.sequence,
					  LS_TRANSFER_EXPRESS));
}

/* Answers an `execute` packet. Returns 0 if the packet has become its reply, or -1 if the host must answer. */
__noinline int transfer_native_execute(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ls_transfer_control *control = transfer_controlled();
	struct transfer_work *work = transfer_working();
	struct ls_datagram *found = transfer_found();
	struct ls_transfer_session *session;
	struct transfer_execute *packet;
	int answered;
	__u32 slot;

	if (!control || !work || !found)
		return -1;
	packet = transfer_payload(data, found);
	if ((void *)(packet + 1) > end || !work->count || LS_READ_ONCE(control->require_signature) ||
	    bpf_ntohs(packet->head.count) != work->count || packet->head.durability)
		return -1;
	slot = bpf_ntohl(packet->head.slot);
	session = bpf_map_lookup_elem(&transfer_slots, &slot);
	if (!session || !packet->head.token || LS_READ_ONCE(session->token) != bpf_be64_to_cpu(packet->head.token))
		return transfer_refuse(packet, work, LS_STATUS_NO_SESSION, 0, LS_TRANSFER_CODE_UNAUTHORISED);
	if (!transfer_lock(&session->lock))
		return transfer_refuse(packet, work, LS_STATUS_BUSY, 0, TRANSFER_SAYS_BUSY);
	answered = LS_READ_ONCE(session->claimed) ?
			   -1 :
			   transfer_in_session(ctx, data, end, found, packet, session, work);
	transfer_unlock(&session->lock);
	return answered;
}

/* State of a `refer` request while its balances are looked up and then written into the packet. */
struct transfer_referral {
	struct xdp_md *ctx;
	__u64 sum;
	__u32 is_whole;
};

/* Returns item `index` of a `refer`, or NULL if it is not within the frame. */
static __always_inline struct ls_balance_item *transfer_item(void *data, void *end, const struct ls_datagram *found,
							     __u32 index)
{
	struct ls_balance_item *item = transfer_payload(data, found) + TRANSFER_REFER_BYTES + index * sizeof(*item);

	asm volatile("" : "+r"(item));
	return (void *)(item + 1) > end ? NULL : item;
}

/*
 * Reads the balance of an account. Returns 0, or -1 if the host must answer: the account was being changed during
 * all tries, or, in `durable` mode, the account is not in the table; the table may have had no room for it.
 */
static __always_inline int transfer_balance(const struct ls_transfer_control *control, const __u64 id[2],
					    struct transfer_holding *holding, __u32 *code)
{
	__u32 index = transfer_find(control, id);

	*code = LS_TRANSFER_CODE_DONE;
	if (index != TRANSFER_NOWHERE)
		return transfer_read(index, holding) ? 0 : -1;
	*code = LS_TRANSFER_CODE_UNKNOWN_ACCOUNT;
	return transfer_is_express() ? 0 : -1;
}

static __always_inline __u64 transfer_sum_words(const void *words, __u32 bytes)
{
	const __u32 *word = words;
	__u64 sum = 0;

	for (__u32 i = 0; i < bytes / 4; i++)
		sum += word[i];
	return sum;
}

static __always_inline __u64 transfer_sum_wide(__u64 word)
{
	return (word & 0xffffffff) + (word >> 32);
}

/*
 * Callback of bpf_loop: looks up one item and stores the result in the draft. The packet itself is changed only when
 * all items are known. Returns 1 to stop, because the host must answer the packet.
 */
static long transfer_look_up(__u32 index, void *context)
{
	struct transfer_referral *referral = context;
	void *data = (void *)(long)referral->ctx->data, *end = (void *)(long)referral->ctx->data_end;
	struct ls_transfer_control *control = transfer_controlled();
	struct transfer_work *work = transfer_working();
	struct ls_datagram *found = transfer_found();
	struct transfer_holding holding = {};
	struct transfer_balance *balance;
	struct ls_balance_item *item;
	__u64 *words;
	__u32 code;

	referral->is_whole = 0;
	if (!control || !work || !found || index >= LS_TRANSFER_REFER_MAX)
		return 1;
	item = transfer_item(data, end, found, index);
	if (!item)
		return 1;
	words = (void *)item;
	if (words[2] | words[3] | words[4] | words[5] || transfer_balance(control, words, &holding, &code))
		return 1;
	balance = &work->balance[index];
	balance->balance = bpf_cpu_to_be64(holding.balance);
	balance->held = bpf_cpu_to_be64(holding.held_out);
	balance->version = bpf_cpu_to_be64(holding.version);
	balance->code = bpf_htons((__u16)code);
	if (holding.flags & LS_TRANSFER_CELL_FROZEN)
		balance->code |= (__u64)bpf_htons(1) << 16;
	referral->sum += transfer_sum_words(item, sizeof(item->account));
	referral->sum += transfer_sum_wide(balance->balance) + transfer_sum_wide(balance->held) +
			 transfer_sum_wide(balance->version) + transfer_sum_wide(balance->code);
	referral->is_whole = 1;
	return 0;
}

static long transfer_write_item(__u32 index, void *context)
{
	struct transfer_referral *referral = context;
	void *data = (void *)(long)referral->ctx->data, *end = (void *)(long)referral->ctx->data_end;
	struct transfer_work *work = transfer_working();
	struct ls_datagram *found = transfer_found();
	struct ls_balance_item *item;

	if (!work || !found || index >= LS_TRANSFER_REFER_MAX)
		return 1;
	item = transfer_item(data, end, found, index);
	if (!item)
		return 1;
	__builtin_memcpy(&item->balance, &work->balance[index], sizeof(work->balance[index]));
	return 0;
}

/* Answers a `refer` packet. Returns 0 if the packet has become its reply, or -1 if the host must answer. */
__noinline int transfer_native_refer(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct transfer_referral referral = { .ctx = ctx };
	struct transfer_work *work = transfer_working();
	struct ls_datagram *found = transfer_found();
	struct ls_native_header *header;
	struct ls_refer_head *head;
	__u32 count;

	if (!work || !found)
		return -1;
	header = transfer_payload(data, found);
	head = (void *)(header + 1);
	if ((void *)(head + 1) > end)
		return -1;
	count = bpf_ntohl(head->count);
	if (!count || count > LS_TRANSFER_REFER_MAX || head->durability | head->reserved ||
	    found->payload_bytes != TRANSFER_REFER_BYTES + count * sizeof(struct ls_balance_item))
		return -1;
	bpf_loop(count, transfer_look_up, &referral, 0);
	if (!referral.is_whole)
		return -1;
	bpf_loop(count, transfer_write_item, &referral, 0);
	referral.sum += transfer_sum_words(header, TRANSFER_REFER_BYTES);
	/* Both fields were 0 in the request. Each is one half of a 32-bit word, so the sum grows by the new halves. */
	referral.sum += ((__u32)LS_NATIVE_REPLY_BIT << 24) + bpf_htons(transfer_geometry.mode);
	header->op |= LS_NATIVE_REPLY_BIT;
	head->durability = bpf_htons(transfer_geometry.mode);
	return transfer_say(work, LS_TRANSFER_CODE_DONE, referral.sum);
}

/* Answers a native packet. Returns 0 if the packet has become its reply, or -1 if the host must answer. */
static __always_inline int transfer_native(struct xdp_md *ctx, const struct ls_native_header *header,
					   __u32 payload_bytes)
{
	if (header->version != LS_NATIVE_VERSION || header->status ||
	    bpf_ntohs(header->length) != payload_bytes - sizeof(*header))
		return -1;
	if (header->op == LS_TRANSFER_OP_REFER)
		return transfer_native_refer(ctx);
	if (header->op == LS_TRANSFER_OP_EXECUTE && transfer_is_express())
		return transfer_native_execute(ctx);
	return -1;
}
