// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Copies rows into the reply. The reply is built in a draft and copied into the packet when it is complete. The C
 * twin of `Draft` in crates/column/src/fastpath.rs.
 */
#pragma once
#include "column_find.h"

/* Maximum number of blocks that one scan reads. */
#define COLUMN_SCAN_BLOCKS_MAX 16
/* Result of column_scan_block besides the counters: continue with the next block. */
#define COLUMN_NEXT 0x100
#define COLUMN_NATIVE_BYTES (sizeof(struct ls_native_header) + sizeof(struct ls_column_reply))

/* Writes zeros from work->used (rounded up to a word) to the end of the payload. */
__noinline int column_clear(struct column_work *work)
{
	__u32 at, end;

	if (!work)
		return 0;
	at = (work->used + 7) / 8;
	end = (work->payload_bytes + 7) / 8;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < COLUMN_DRAFT_WORDS / COLUMN_STEP; i++) {
		if (at >= end || at > COLUMN_DRAFT_WORDS - COLUMN_STEP)
			break;
		/* The barrier makes the compiler check and use one register, so that the verifier sees the bound. */
		asm volatile("" : "+r"(at));
		for (__u32 j = 0; j < COLUMN_STEP; j++)
			work->draft[at + j] = 0;
		at += COLUMN_STEP;
	}
	return 0;
}

/* Like column_clear, but inline if one step is enough. */
static __always_inline void column_clear_first(struct column_work *work)
{
	__u32 at = (work->used + 7) / 8, end = (work->payload_bytes + 7) / 8;

	if (at >= end)
		return;
	if (end - at > COLUMN_STEP) {
		column_clear(work);
		return;
	}
	/* The barrier makes the compiler check and use one register, so that the verifier sees the bound. */
	asm volatile("" : "+r"(at));
	if (at > COLUMN_DRAFT_WORDS - COLUMN_STEP)
		return;
	asm volatile("" : "+r"(at));
	for (__u32 j = 0; j < COLUMN_STEP; j++)
		work->draft[at + j] = 0;
}

/*
 * Appends `bytes` bytes of a block's records, from offset `begin` on, to the reply. The caller has checked that the
 * reply has room for them.
 */
__noinline int column_copy(struct column_work *work, __u32 index, __u32 begin, __u32 bytes)
{
	__u64 *data = bpf_map_lookup_elem(&column_data, &index);
	__u32 from = begin / 8, end = (begin + bytes) / 8, at;

	if (!work || !data)
		return 0;
	at = work->used / 8;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < COLUMN_DRAFT_WORDS / COLUMN_STEP; i++) {
		if (from >= end || from > column_geometry.data_bytes / 8 - COLUMN_STEP ||
		    at > COLUMN_DRAFT_WORDS - COLUMN_STEP)
			break;
		/* The barrier makes the compiler check and use the same registers, so that the verifier sees the bounds. */
		asm volatile("" : "+r"(at), "+r"(from));
		for (__u32 j = 0; j < COLUMN_STEP; j++)
			work->draft[at + j] = data[from + j];
		from += COLUMN_STEP;
		at += COLUMN_STEP;
	}
	work->used += bytes;
	return 0;
}

/* Like column_copy, but inline if one step is enough. */
static __always_inline void column_copy_first(struct column_work *work, __u32 index, __u32 begin, __u32 bytes)
{
	__u64 *data = bpf_map_lookup_elem(&column_data, &index);
	__u32 from = begin / 8, at = work->used / 8;

	if (bytes > 8 * COLUMN_STEP || !data) {
		column_copy(work, index, begin, bytes);
		return;
	}
	/* The barrier makes the compiler check and use the same registers, so that the verifier sees the bounds. */
	asm volatile("" : "+r"(at), "+r"(from));
	if (from > column_geometry.data_bytes / 8 - COLUMN_STEP || at > COLUMN_DRAFT_WORDS - COLUMN_STEP)
		return;
	asm volatile("" : "+r"(at), "+r"(from));
	for (__u32 j = 0; j < COLUMN_STEP; j++)
		work->draft[at + j] = data[from + j];
	work->used += bytes;
}

/* Returns the checksum of a block's records before `row`. */
static __always_inline __u64 column_sum_before(const struct ls_column_block *block, __u32 row)
{
	return row ? LS_READ_ONCE(block->sum[(row - 1) & (LS_COLUMN_BLOCK_ROWS_MAX - 1)]) : 0;
}

/*
 * Appends rows `from` to `to` of a block to a native reply while there is room. Returns the number of rows appended.
 */
__noinline int column_put_rows(struct column_work *work, __u32 index, __u32 from, __u32 to)
{
	struct ls_column_block *block = bpf_map_lookup_elem(&column_blocks, &index);
	__u32 begin, last = from, room;
	__u64 newest;

	if (!work || !block)
		return 0;
	begin = column_begin(block, from);
	room = work->payload_bytes - work->used;
	newest = work->version_ms;
	for (__u32 i = 0; i < LS_COLUMN_BLOCK_ROWS_MAX; i++) {
		__s64 above;

		if (last >= to || LS_READ_ONCE(block->end[last & (LS_COLUMN_BLOCK_ROWS_MAX - 1)]) - begin > room)
			break;
		/* Takes the larger of the two times without a branch; the highest bit of a time is never set. */
		above = LS_READ_ONCE(block->version_ms[last & (LS_COLUMN_BLOCK_ROWS_MAX - 1)]) - newest;
		newest += above & ~(above >> 63);
		last++;
	}
	work->version_ms = newest;
	work->sum += column_sum_before(block, last) - column_sum_before(block, from);
	column_copy(work, index, begin, column_begin(block, last) - begin);
	return last - from;
}

/* Appends one row to a native reply. Returns 1, or 0 if there is no room. */
static __always_inline int column_put_row(struct column_work *work, struct ls_column_block *block, __u32 index,
					  __u32 row)
{
	__u32 begin = column_begin(block, row), bytes = LS_READ_ONCE(block->end[row]) - begin;

	if (bytes > work->payload_bytes - work->used)
		return 0;
	work->version_ms = LS_READ_ONCE(block->version_ms[row]);
	work->sum = LS_READ_ONCE(block->sum[row]) - column_sum_before(block, row);
	column_copy_first(work, index, begin, bytes);
	return 1;
}

/*
 * Appends a row to a reply in the paper's format. The caller has checked that the reply has room for it. Returns 0,
 * or the counter of the reason to forward the request.
 */
__noinline int column_put_paper(struct column_work *work, __u32 index, __u32 row)
{
	struct ls_column_block *block = bpf_map_lookup_elem(&column_blocks, &index);
	__u8 *data = bpf_map_lookup_elem(&column_data, &index), *reply;
	__u32 at, key_bytes, value_bytes, key, used;
	__u64 value[2];
	__u16 last;

	if (!work || !block || !data)
		return LS_COLUMN_COUNTER_CHANGING;
	at = column_begin(block, row);
	if (at > column_geometry.data_bytes - 72)
		return LS_COLUMN_COUNTER_CHANGING;
	data += at;
	key_bytes = data[0];
	value_bytes = (__u32)data[2] << 8 | data[3];
	if (!key_bytes || key_bytes > LS_COLUMN_PAPER_KEY_BYTES || value_bytes > LS_COLUMN_PAPER_VALUE_BYTES)
		return LS_COLUMN_COUNTER_FORWARDED;
	key = *(__u32 *)(data + 4) & (0xffffffff >> (32 - 8 * key_bytes));
	if (!(key >> (8 * (key_bytes - 1))))
		return LS_COLUMN_COUNTER_FORWARDED;
	data += 4 + key_bytes;
	value[0] = *(__u64 *)data;
	value[1] = *(__u64 *)(data + 8);
	last = *(__u16 *)(data + 16);
	if (value_bytes < 8)
		value[0] &= (1ULL << (8 * value_bytes)) - 1;
	if (value_bytes <= 8)
		value[1] = 0;
	else if (value_bytes < 16)
		value[1] &= (1ULL << (8 * (value_bytes - 8))) - 1;
	if (value_bytes <= 16)
		last = 0;
	else if (value_bytes == 17)
		last &= 0xff;
	used = work->used;
	if (used > COLUMN_PAYLOAD_MAX)
		return LS_COLUMN_COUNTER_CHANGING;
	reply = (__u8 *)work->draft + used;
	if (work->is_paper > 1) {
		*(__u32 *)reply = key;
		reply += LS_COLUMN_PAPER_KEY_BYTES;
		used += LS_COLUMN_PAPER_KEY_BYTES;
	}
	*(__u64 *)reply = value[0];
	*(__u64 *)(reply + 8) = value[1];
	*(__u16 *)(reply + 16) = last;
	work->used = used + LS_COLUMN_PAPER_VALUE_BYTES;
	return 0;
}

/*
 * Appends rows `from` to `to` to a reply in the paper's format while the reply has room. Returns the number of
 * appended rows, or the negated counter of the reason to forward the request.
 */
__noinline int column_put_papers(struct column_work *work, __u32 index, __u32 from, __u32 to)
{
	__u32 row = from;

	if (!work)
		return 0;
	for (__u32 i = 0; i < LS_COLUMN_BLOCK_ROWS_MAX; i++) {
		int left;

		if (row >= to || work->used + LS_COLUMN_PAPER_ROW_BYTES > work->payload_bytes)
			break;
		left = column_put_paper(work, index, row);
		if (left)
			return -left;
		row++;
	}
	return row - from;
}

/*
 * Appends the rows of the range that are in the block at work->block. Returns 0 if the scan is complete, COLUMN_NEXT,
 * or the counter of the reason to forward.
 */
__noinline int column_scan_block(struct column_work *work, __u32 is_first)
{
	struct ls_column_block *block;
	__u32 index, from = 0, to, rows, ends = 0, cut = 0;
	int left;

	if (!work)
		return LS_COLUMN_COUNTER_CHANGING;
	index = work->block;
	block = bpf_map_lookup_elem(&column_blocks, &index);
	if (!block)
		return LS_COLUMN_COUNTER_CHANGING;
	left = column_check(block, work->now_ns);
	if (left)
		return left;
	if (is_first)
		from = (__u8)column_rows_first(&work->start, block, index,
						   work->flags & LS_COLUMN_FLAG_START_EXCLUSIVE);
	to = LS_READ_ONCE(block->rows);
	if (work->has_stop) {
		int order = column_order_high(&work->stop, block);
		__u32 inclusive = work->flags & LS_COLUMN_FLAG_STOP_INCLUSIVE;

		ends = order == COLUMN_LESS || (order == COLUMN_EQUAL && !inclusive);
		if (ends)
			to = (__u8)column_rows_before(&work->stop, index, inclusive);
	}
	rows = to > from ? to - from : 0;
	if (work->limit && work->rows + rows >= work->limit) {
		rows = work->limit - work->rows;
		cut = 1;
	}
	if (rows) {
		left = work->is_paper ? column_put_papers(work, index, from, from + rows) :
					column_put_rows(work, index, from, from + rows);
		if (left < 0)
			return -left;
		work->rows += left;
		cut |= (__u32)left < rows;
	}
	if (cut) {
		work->more = 1;
		return work->rows ? 0 : LS_COLUMN_COUNTER_FORWARDED;
	}
	if (ends || column_high_bytes(block->lengths) == LS_COLUMN_NO_END)
		return 0;
	if (!(LS_READ_ONCE(block->flags) & LS_COLUMN_BLOCK_CONTINUES))
		return LS_COLUMN_COUNTER_MISSES;
	left = column_on(work);
	return left ? left : COLUMN_NEXT;
}

/* Appends the rows of the range to the reply. Returns 0, or the counter of the reason to forward. */
static __always_inline int column_scan(struct column_work *work)
{
	int left = column_find(work);

	if (left)
		return left;
#pragma clang loop unroll(disable)
	for (__u32 i = 0; i < COLUMN_SCAN_BLOCKS_MAX; i++) {
		/* column_scan_block also moves to the next block. A scan that needs more blocks than the limit leaves this loop. */
		left = column_scan_block(work, !i);
		if (left != COLUMN_NEXT)
			return left;
	}
	return LS_COLUMN_COUNTER_MISSES;
}

/*
 * Appends the row at the start key to the reply; without one, the reply has no rows. Returns 0, or the counter of the
 * reason to forward.
 */
static __always_inline int column_get(struct column_work *work)
{
	struct ls_column_block *block;
	int left = column_find(work);
	__u32 index, row;

	if (left)
		return left;
	index = work->block;
	block = bpf_map_lookup_elem(&column_blocks, &index);
	if (!block)
		return LS_COLUMN_COUNTER_CHANGING;
	left = column_check(block, work->now_ns);
	if (left)
		return left;
	row = column_rows_first(&work->start, block, index, 0);
	if (!(row & COLUMN_THERE))
		return 0;
	row &= LS_COLUMN_BLOCK_ROWS_MAX - 1;
	if (work->is_paper) {
		work->rows = 1;
		return column_put_paper(work, index, row);
	}
	work->rows = column_put_row(work, block, index, row);
	return work->rows ? 0 : LS_COLUMN_COUNTER_FORWARDED;
}
