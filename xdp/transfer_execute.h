// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Execution in the fast path in `express` mode: executes one operation at a time, under the locks of its accounts,
 * and writes a record of it into the ring. The C twin of crates/transfer/src/fastpath/execute.rs. The caller has
 * checked that the ring has room for the record.
 */
#pragma once
#include "transfer_ring.h"
#include "transfer_rules.h"

/* One operation and its outcome. */
struct transfer_task {
	/* Record of the operation for the ring, complete except for code, versions and balance. */
	struct ls_transfer_record record;
	__u64 limit;                   /* largest balance that the request's format can express */
	struct ls_transfer_paper last; /* numbered request in the paper's format; else last_id is 0 */
	/*
	 * Indices of the cells, and the refusal if it is known before the cells are locked. These fields are in memory and
	 * not in registers, so that the verifier forgets on which of many paths they were computed, and walks the following
	 * code once.
	 */
	__u32 source;
	__u32 destination;
	__u32 refused;
	__u32 reserved;
	__u64 amount;                  /* result: balance of the source after the operation; 0 for a refusal */
	__u32 code;                    /* result: enum ls_transfer_code */
};

enum transfer_ran {
	TRANSFER_DONE,
	TRANSFER_REPEATED, /* answered before with the same answer; nothing was done */
	TRANSFER_BUSY,     /* a lock was held during all tries, or the credit for refusals is used up; nothing was done */
	TRANSFER_CLAIMED,  /* the host has claimed an account and must answer; nothing was done */
};

static __always_inline enum transfer_ran transfer_said(struct transfer_task *task, __u32 code, __u64 amount)
{
	task->code = code;
	task->amount = amount;
	return TRANSFER_DONE;
}

/* Writes the record of the operation into the ring. */
static __always_inline void transfer_record(struct transfer_task *task)
{
	task->record.source_balance = task->amount;
	task->record.command |= task->code << 16;
	transfer_push(&task->record);
}

/* Refuses an operation that names no existing account. Only a session stores such a refusal. */
static __always_inline enum transfer_ran transfer_nowhere(struct transfer_task *task, __u32 code)
{
	transfer_said(task, code, 0);
	if (task->record.slot != TRANSFER_NO_SESSION)
		transfer_record(task);
	return TRANSFER_DONE;
}

/* Returns 1 and sets the answer if the account's last transaction id already decides about this request. */
static __always_inline int transfer_is_answered(const struct ls_transfer_paper *last, struct transfer_task *task)
{
	const struct ls_transfer_paper *asked = &task->last;

	if (!last->last_id || asked->last_id > last->last_id)
		return 0;
	if (asked->last_id < last->last_id)
		transfer_said(task, LS_TRANSFER_CODE_STALE_ID, 0);
	else if ((asked->destination ^ last->destination) | (asked->amount ^ last->amount) |
		 ((asked->command ^ last->command) & 0xff))
		transfer_said(task, LS_TRANSFER_CODE_ID_REUSED, 0);
	else
		transfer_said(task, last->command >> 16, last->reply_amount);
	return 1;
}

/* Stores a numbered request and its answer as the last request of its account. */
static __always_inline void transfer_remember(struct ls_transfer_paper *last, const struct transfer_task *task)
{
	if (!last)
		return;
	last->destination = task->last.destination;
	last->amount = task->last.amount;
	last->command = task->last.command | task->code << 16;
	last->reply_amount = task->amount;
	last->last_id = task->last.last_id;
}

/*
 * Returns the last request of the account in cell `index` if this request is numbered and in the paper's format;
 * otherwise NULL.
 */
static __always_inline struct ls_transfer_paper *transfer_last(const struct transfer_task *task, __u32 index)
{
	return task->last.last_id ? bpf_map_lookup_elem(&transfer_papers, &index) : NULL;
}

/*
 * Uses up one unit of the credit for refusals of numbered requests in the paper's format; the host grants this
 * credit. Returns 0 if the credit is used up; the request then has no effect. CPUs that use the last unit at the
 * same time overdraw the credit by one each.
 */
static __always_inline int transfer_take_refusal(void)
{
	struct ls_transfer_control *control = transfer_controlled();

	if (!control || (__s64)LS_READ_ONCE(control->paper_refusals) <= 0)
		return 0;
	__sync_fetch_and_add(&control->paper_refusals, (__u64)-1);
	return 1;
}

/* Executes the operation on accounts whose cells are locked. */
static __always_inline enum transfer_ran transfer_change(struct transfer_task *task, struct ls_transfer_cell *source,
							 struct ls_transfer_cell *destination,
							 struct ls_transfer_paper *last, __u32 refused)
{
	struct ls_transfer_record *record = &task->record;
	struct transfer_holding from, to;
	__u32 code = refused;

	if ((LS_READ_ONCE(source->flags) | (destination ? LS_READ_ONCE(destination->flags) : 0)) &
	    LS_TRANSFER_CELL_CLAIMED)
		return TRANSFER_CLAIMED;
	if (last && transfer_is_answered(last, task))
		return TRANSFER_REPEATED;
	transfer_load(source, &from);
	if (!code && destination) {
		transfer_load(destination, &to);
		code = transfer_move(&from, &to, record->amount, task->limit);
		if (!code)
			record->destination_version = transfer_save(destination, &to);
	} else if (!code) {
		code = transfer_alone(record->command & 0xff, &from, record->amount, task->limit);
	}
	if (code && last && !transfer_take_refusal())
		return TRANSFER_BUSY;
	transfer_said(task, code, code ? 0 : from.balance);
	/*
	 * A refusal is recorded only if it uses up a transaction id or a sequence number, so that a retry gets the same
	 * answer.
	 */
	if (code && !last && record->slot == TRANSFER_NO_SESSION)
		return TRANSFER_DONE;
	if (!code || last)
		record->source_version = transfer_save(source, &from);
	transfer_remember(last, task);
	transfer_record(task);
	return TRANSFER_DONE;
}

/* Takes the locks of one or two cells, the lock of the lower index first, and executes the operation. */
static __always_inline enum transfer_ran transfer_settle(struct transfer_task *task)
{
	__u32 source = LS_READ_ONCE(task->source), destination = LS_READ_ONCE(task->destination);
	struct ls_transfer_cell *from = transfer_cell(source), *to = NULL, *first, *second;
	enum transfer_ran ran = TRANSFER_BUSY;

	if (!from)
		return TRANSFER_BUSY;
	if (destination != TRANSFER_NOWHERE) {
		to = transfer_cell(destination);
		if (!to)
			return TRANSFER_BUSY;
	}
	first = to && destination < source ? to : from;
	second = first == from ? to : from;
	if (!transfer_lock(&first->lock))
		return TRANSFER_BUSY;
	if (!second || transfer_lock(&second->lock)) {
		ran = transfer_change(task, from, to, transfer_last(task, source),
				      LS_READ_ONCE(task->refused));
		if (second)
			transfer_unlock(&second->lock);
	}
	transfer_unlock(&first->lock);
	return ran;
}

static __always_inline enum transfer_ran transfer_settle_at(struct transfer_task *task, __u32 source,
							    __u32 destination, __u32 refused)
{
	LS_WRITE_ONCE(task->source, source);
	LS_WRITE_ONCE(task->destination, destination);
	LS_WRITE_ONCE(task->refused, refused);
	return transfer_settle(task);
}

/* Returns the number of occupied cells of the bucket, and sets *vacant to the index of its first free cell. */
static __always_inline __u32 transfer_taken(struct transfer_bucket *bucket, __u32 *vacant)
{
	__u64 taken = 0, at = 0, all = 1;

	for (int i = 0; i < LS_TRANSFER_BUCKET_CELLS; i++) {
		__u64 one = ls_any(LS_READ_ONCE(bucket->cell[i].flags) & LS_TRANSFER_CELL_VALID);

		taken += one;
		all &= one;
		at += all;
	}
	*vacant = at;
	return taken;
}

/*
 * Minimum number of occupied cells in the first bucket at which an account may also be created in the second one
 * (store.rs).
 */
#define TRANSFER_CROWDED 2

/* Creates an account in one of its two possible buckets. The caller holds the locks of both. */
static __always_inline enum transfer_ran transfer_open(struct transfer_task *task, const __u32 buckets[2],
						       struct transfer_bucket *first, struct transfer_bucket *second)
{
	__u32 vacant[2], taken[2] = { transfer_taken(first, &vacant[0]), transfer_taken(second, &vacant[1]) };
	struct transfer_holding holding = { .flags = LS_TRANSFER_CELL_VALID };
	__u32 other, index;
	struct ls_transfer_cell *cell;

	if (transfer_add(&holding, task->record.amount, task->limit))
		return transfer_nowhere(task, LS_TRANSFER_CODE_OVERFLOW);
	other = taken[0] >= TRANSFER_CROWDED && taken[0] > taken[1];
	if ((other ? vacant[1] : vacant[0]) >= LS_TRANSFER_BUCKET_CELLS)
		return transfer_nowhere(task, LS_TRANSFER_CODE_STORE_FULL);
	index = (other ? buckets[1] : buckets[0]) * LS_TRANSFER_BUCKET_CELLS + (other ? vacant[1] : vacant[0]);
	cell = transfer_cell(index);
	if (!cell)
		return TRANSFER_BUSY;
	/* Readers skip a cell without the valid flag. transfer_save sets this flag after the id is written. */
	cell->id[0] = task->record.source[0];
	cell->id[1] = task->record.source[1];
	if (!transfer_lock(&cell->lock))
		return TRANSFER_BUSY;
	transfer_said(task, LS_TRANSFER_CODE_DONE, holding.balance);
	transfer_remember(transfer_last(task, index), task);
	LS_WRITE_ONCE(cell->held_out, 0);
	LS_WRITE_ONCE(cell->held_in, 0);
	task->record.source_version = transfer_save(cell, &holding);
	transfer_record(task);
	transfer_unlock(&cell->lock);
	return TRANSFER_DONE;
}

/* Executes CREATE under the locks of the two buckets in which the account may be stored. */
__noinline int transfer_create(struct transfer_task *task)
{
	struct ls_transfer_control *control = transfer_controlled();
	struct transfer_bucket *first, *second, *low, *high;
	enum transfer_ran ran = TRANSFER_BUSY;
	__u32 buckets[2], found;

	if (!task || !control)
		return TRANSFER_BUSY;
	transfer_buckets(control, task->record.source, buckets);
	first = transfer_bucket(buckets[0]);
	second = transfer_bucket(buckets[1]);
	if (!first || !second)
		return TRANSFER_BUSY;
	low = buckets[0] < buckets[1] ? first : second;
	high = buckets[0] < buckets[1] ? second : first;
	if (!transfer_lock(&low->cell[0].bucket_lock))
		return TRANSFER_BUSY;
	if (transfer_lock(&high->cell[0].bucket_lock)) {
		found = transfer_find(control, task->record.source);
		if (found == TRANSFER_NOWHERE)
			ran = transfer_open(task, buckets, first, second);
		else
			ran = transfer_settle_at(task, found, TRANSFER_NOWHERE, 0);
		transfer_unlock(&high->cell[0].bucket_lock);
	}
	transfer_unlock(&low->cell[0].bucket_lock);
	return ran;
}

/* Executes the operation in `task`. */
static __always_inline enum transfer_ran transfer_run(const struct ls_transfer_control *control,
						      struct transfer_task *task)
{
	__u32 command = task->record.command & 0xff, source, destination = TRANSFER_NOWHERE, refused = 0;
	const __u64 *from = task->record.source, *to = task->record.destination;

	if (command == LS_TRANSFER_COMMAND_CREATE)
		return transfer_create(task);
	source = transfer_find(control, from);
	if (source == TRANSFER_NOWHERE)
		return transfer_nowhere(task, LS_TRANSFER_CODE_UNKNOWN_ACCOUNT);
	if (command == LS_TRANSFER_COMMAND_TRANSFER) {
		if (!((from[0] ^ to[0]) | (from[1] ^ to[1]))) {
			refused = LS_TRANSFER_CODE_SAME_ACCOUNT;
		} else {
			destination = transfer_find(control, to);
			if (destination == TRANSFER_NOWHERE)
				refused = LS_TRANSFER_CODE_UNKNOWN_ACCOUNT;
		}
	}
	return transfer_settle_at(task, source, destination, refused);
}
