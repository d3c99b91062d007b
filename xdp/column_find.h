// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Keys compared, and blocks and rows found by them: the C twin of crates/column/src/head.rs and reader.rs. Functions
 * are global, so that the verifier walks each once; what they find is left in the work. A return may cost a jump that
 * is mispredicted (SRSO), so what most packets need is inline: what a key's first word decides, or the first head.
 */
#pragma once
#include "column_store.h"

/* Blocks tried where heads do not tell them apart. */
#define COLUMN_TRIES 8
/* What column_order and its like say. */
#define COLUMN_LESS 0
#define COLUMN_EQUAL 1
#define COLUMN_GREATER 2

/* The eight bytes of a key from `skip` on, halved. */
static __always_inline __u64 column_head(const struct column_key *key, __u32 skip)
{
	__u32 word = (skip >> 3) & (COLUMN_WORDS - 1), bits = (skip & 7) * 8;
	__u64 below = (key->word[word + 1] >> 1) >> (63 - bits);

	return ((key->word[word] << bits) | below) >> 1;
}

/*
 * How many of the seven heads at AT + STRIDE to AT + 7 * STRIDE are below BOUND. Without branches, so that no jump is
 * mispredicted and the verifier walks one path; all are on their way at once.
 */
#define COLUMN_BELOW(HEADS, AT, STRIDE, BOUND) \
	((((HEADS)[(AT) + 1 * (STRIDE)] - (BOUND)) >> 63) + (((HEADS)[(AT) + 2 * (STRIDE)] - (BOUND)) >> 63) + \
	 (((HEADS)[(AT) + 3 * (STRIDE)] - (BOUND)) >> 63) + (((HEADS)[(AT) + 4 * (STRIDE)] - (BOUND)) >> 63) + \
	 (((HEADS)[(AT) + 5 * (STRIDE)] - (BOUND)) >> 63) + (((HEADS)[(AT) + 6 * (STRIDE)] - (BOUND)) >> 63) + \
	 (((HEADS)[(AT) + 7 * (STRIDE)] - (BOUND)) >> 63))

/* The last of the pages whose head is not above `head`. */
static __always_inline __u32 column_search_tops(const struct ls_column_tops *tops, __u64 head, __u32 pages)
{
	const __u64 *heads = tops->head;
	__u64 at = 0;

	head++;
	if (pages > 64) {
		at = COLUMN_BELOW(heads, at, 512, head) * 512;
		at += COLUMN_BELOW(heads, at, 64, head) * 64;
	}
	at += COLUMN_BELOW(heads, at, 8, head) * 8;
	at += COLUMN_BELOW(heads, at, 1, head);
	return at;
}

static __always_inline __u32 column_search_page(const struct ls_column_page *page, __u64 head)
{
	const __u64 *heads = page->head;
	__u64 at;

	head++;
	at = COLUMN_BELOW(heads, 0, 8, head) * 8;
	at += COLUMN_BELOW(heads, at, 1, head);
	return at;
}

/* How a key compares with the low key of a block (high: 0) or its high key (1), which has one. */
static __always_inline int column_order(const struct column_key *key, const struct ls_column_block *block, __u32 high,
					__u32 bytes)
{
	__u32 most = key->bytes > bytes ? key->bytes : bytes;

	for (__u32 i = 0; i < COLUMN_WORDS; i++) {
		__u64 own = key->word[i], other = block->bound[2 * i + high];

		if (own != other)
			return own < other ? COLUMN_LESS : COLUMN_GREATER;
		if (8 * (i + 1) >= most)
			break;
	}
	return key->bytes == bytes ? COLUMN_EQUAL : key->bytes < bytes ? COLUMN_LESS : COLUMN_GREATER;
}

static __always_inline __u32 column_low_bytes(__u32 lengths)
{
	return lengths & 0xff;
}

static __always_inline __u32 column_high_bytes(__u32 lengths)
{
	return lengths >> 8 & 0xff;
}

static __always_inline __u32 column_skip(__u32 lengths)
{
	return lengths >> 16 & 0xff;
}

__noinline int column_order_low(struct column_key *key, struct ls_column_block *block)
{
	return key && block ? column_order(key, block, 0, column_low_bytes(block->lengths)) : COLUMN_LESS;
}

/* COLUMN_LESS where the block goes to the table's end. */
__noinline int column_order_high(struct column_key *key, struct ls_column_block *block)
{
	__u32 bytes;

	if (!key || !block)
		return COLUMN_GREATER;
	bytes = column_high_bytes(block->lengths);
	return bytes == LS_COLUMN_NO_END ? COLUMN_LESS : column_order(key, block, 1, bytes);
}

/* The same, inline where the first word decides. */
static __always_inline int column_order_first(struct column_key *key, struct ls_column_block *block, __u32 high)
{
	__u64 own = key->word[0], other = block->bound[high];

	if (own != other)
		return own < other ? COLUMN_LESS : COLUMN_GREATER;
	return high ? column_order_high(key, block) : column_order_low(key, block);
}

__noinline int column_order_keys(struct column_key *key, struct column_key *other)
{
	if (!key || !other)
		return COLUMN_LESS;
	for (__u32 i = 0; i < COLUMN_WORDS; i++)
		if (key->word[i] != other->word[i])
			return key->word[i] < other->word[i] ? COLUMN_LESS : COLUMN_GREATER;
	return key->bytes == other->bytes ? COLUMN_EQUAL : key->bytes < other->bytes ? COLUMN_LESS : COLUMN_GREATER;
}

/* The page at work->page, or NULL. */
static __always_inline struct ls_column_page *column_paged(const struct column_work *work)
{
	__u32 column = work->column, at = work->page, index;
	struct ls_column_tops *tops = bpf_map_lookup_elem(&column_tops, &column);

	if (!tops || at >= LS_COLUMN_PAGES_MAX)
		return NULL;
	index = LS_READ_ONCE(tops->page[at]);
	return bpf_map_lookup_elem(&column_pages, &index);
}

/* One block back in order. */
__noinline int column_back(struct column_work *work)
{
	struct ls_column_page *page;

	if (!work)
		return LS_COLUMN_COUNTER_CHANGING;
	if (work->place) {
		work->place--;
	} else {
		if (!work->page)
			return LS_COLUMN_COUNTER_MISSES;
		work->page--;
		page = column_paged(work);
		if (!page || !page->count)
			return LS_COLUMN_COUNTER_CHANGING;
		work->place = page->count - 1;
	}
	page = column_paged(work);
	if (!page)
		return LS_COLUMN_COUNTER_CHANGING;
	work->block = LS_READ_ONCE(page->block[work->place & (LS_COLUMN_PAGE_BLOCKS - 1)]);
	return 0;
}

/* One block on in order. */
__noinline int column_on(struct column_work *work)
{
	struct ls_column_table *table;
	struct ls_column_page *page;
	__u32 column;

	if (!work)
		return LS_COLUMN_COUNTER_CHANGING;
	column = work->column;
	table = bpf_map_lookup_elem(&column_tables, &column);
	page = column_paged(work);
	if (!table || !page)
		return LS_COLUMN_COUNTER_CHANGING;
	if (work->place + 1 < page->count) {
		work->place++;
	} else {
		if (work->page + 1 >= table->pages)
			return LS_COLUMN_COUNTER_MISSES;
		work->page++;
		work->place = 0;
		page = column_paged(work);
		if (!page)
			return LS_COLUMN_COUNTER_CHANGING;
	}
	work->block = LS_READ_ONCE(page->block[work->place & (LS_COLUMN_PAGE_BLOCKS - 1)]);
	return 0;
}

/* As column_find, from the block at work->block on backwards: heads did not tell it from those before. */
__noinline int column_find_back(struct column_work *work)
{
	if (!work)
		return LS_COLUMN_COUNTER_CHANGING;
	for (int i = 1; i < COLUMN_TRIES; i++) {
		struct ls_column_block *block;
		int left = column_back(work);
		__u32 index;

		if (left)
			return left;
		index = work->block;
		block = bpf_map_lookup_elem(&column_blocks, &index);
		if (!block)
			return LS_COLUMN_COUNTER_CHANGING;
		if (column_order_low(&work->start, block) != COLUMN_LESS)
			return column_order_high(&work->start, block) == COLUMN_LESS ? 0 : LS_COLUMN_COUNTER_MISSES;
	}
	return LS_COLUMN_COUNTER_MISSES;
}

/* The block whose interval has the start key: 0, or why there is none. */
static __always_inline int column_find(struct column_work *work)
{
	__u32 column = work->column, index;
	struct ls_column_table *table = bpf_map_lookup_elem(&column_tables, &column);
	struct ls_column_tops *tops = bpf_map_lookup_elem(&column_tops, &column);
	struct ls_column_page *page;
	struct ls_column_block *block;

	if (!table || !tops || !table->pages)
		return LS_COLUMN_COUNTER_MISSES;
	index = column_search_tops(tops, column_head(&work->start, table->skip), table->pages);
	work->page = index;
	index = LS_READ_ONCE(tops->page[index]);
	page = bpf_map_lookup_elem(&column_pages, &index);
	if (!page)
		return LS_COLUMN_COUNTER_CHANGING;
	index = column_search_page(page, column_head(&work->start, page->skip));
	work->place = index;
	index = LS_READ_ONCE(page->block[index]);
	work->block = index;
	block = bpf_map_lookup_elem(&column_blocks, &index);
	if (!block)
		return LS_COLUMN_COUNTER_CHANGING;
	if (column_order_first(&work->start, block, 0) == COLUMN_LESS)
		return column_find_back(work);
	if (column_high_bytes(block->lengths) == LS_COLUMN_NO_END ||
	    column_order_first(&work->start, block, 1) == COLUMN_LESS)
		return 0;
	return LS_COLUMN_COUNTER_MISSES;
}

/* Whether the block may be answered from now on: 0, or why not. */
static __always_inline int column_check(struct ls_column_block *block, __u64 now_ns)
{
	__u32 zero = 0;
	struct ls_column_servers *servers = bpf_map_lookup_elem(&column_servers, &zero);

	if (LS_READ_ONCE(block->flags) & LS_COLUMN_BLOCK_INVALID)
		return LS_COLUMN_COUNTER_INVALID;
	ls_read_barrier();
	if (!servers || now_ns >= LS_READ_ONCE(servers->until_ns[block->server & (LS_COLUMN_SERVERS_MAX - 1)]) ||
	    now_ns >= LS_READ_ONCE(block->until_ns))
		return LS_COLUMN_COUNTER_NOT_LEASED;
	if (!LS_READ_ONCE(block->used))
		LS_WRITE_ONCE(block->used, 1);
	return 0;
}

/* Where the record of a row begins, bytes. */
static __always_inline __u32 column_begin(const struct ls_column_block *block, __u32 row)
{
	return row ? LS_READ_ONCE(block->end[(row - 1) & (LS_COLUMN_BLOCK_ROWS_MAX - 1)]) : 0;
}

/* How a key compares with that of a row. */
__noinline int column_order_row(struct column_key *key, __u32 index, __u32 row)
{
	struct ls_column_block *block = bpf_map_lookup_elem(&column_blocks, &index);
	__u8 *data = bpf_map_lookup_elem(&column_data, &index);
	__u32 at, bytes, most;

	if (!key || !block || !data)
		return COLUMN_LESS;
	at = column_begin(block, row);
	if (at > column_geometry.data_bytes - 72)
		return COLUMN_LESS;
	data += at;
	bytes = data[0];
	most = key->bytes > bytes ? key->bytes : bytes;
	for (__u32 i = 0; i < COLUMN_WORDS; i++) {
		__u64 own = key->word[i], other = bpf_cpu_to_be64(*(__u64 *)(data + 4 + 8 * i));

		if (bytes < 8 * i)
			other = 0;
		else if (bytes < 8 * (i + 1))
			other = (other >> 1 >> (63 - (bytes - 8 * i) * 8)) << 1 << (63 - (bytes - 8 * i) * 8);
		if (own != other)
			return own < other ? COLUMN_LESS : COLUMN_GREATER;
		if (8 * (i + 1) >= most)
			break;
	}
	return key->bytes == bytes ? COLUMN_EQUAL : key->bytes < bytes ? COLUMN_LESS : COLUMN_GREATER;
}

/* Whether a key begins with the bytes that all rows of a block begin with, and its low key. */
static __always_inline int column_shares(const struct column_key *key, const struct ls_column_block *block, __u32 skip)
{
	for (__u32 i = 0; i < COLUMN_WORDS; i++) {
		__u64 differ;

		if (skip <= 8 * i)
			break;
		differ = key->word[i] ^ block->bound[2 * i];
		if (skip < 8 * (i + 1))
			differ >>= (8 - (skip & 7)) * 8;
		if (differ)
			return 0;
	}
	return 1;
}

#define COLUMN_THERE 0x100

/*
 * How many rows come before a key that is not below the block's low key; a row at it counts if `inclusive`. With
 * COLUMN_THERE where there is a row at the key.
 */
__noinline int column_rows_before(struct column_key *key, __u32 index, __u32 inclusive)
{
	struct ls_column_block *block = bpf_map_lookup_elem(&column_blocks, &index);
	__u32 skip, rows;
	__u64 head, row = 0;

	if (!key || !block)
		return 0;
	rows = LS_READ_ONCE(block->rows);
	skip = column_skip(block->lengths);
	/* It is then above all of them. */
	if (!column_shares(key, block, skip))
		return rows;
	head = column_head(key, skip);
	for (int i = 0; i < LS_COLUMN_BLOCK_ROWS_MAX; i++)
		row += (block->head[i] - head) >> 63;
	for (int i = 0; i < LS_COLUMN_BLOCK_ROWS_MAX; i++) {
		int order;

		if (row >= rows || block->head[row & (LS_COLUMN_BLOCK_ROWS_MAX - 1)] != head)
			return row;
		order = column_order_row(key, index, row);
		if (order == COLUMN_LESS)
			return row;
		if (order == COLUMN_EQUAL)
			return (row + !!inclusive) | COLUMN_THERE;
		row++;
	}
	return row;
}

/* The same, inline where the block begins with another word than the key has, or one row at most must be looked at. */
static __always_inline int column_rows_first(struct column_key *key, struct ls_column_block *block, __u32 index,
					     __u32 inclusive)
{
	__u32 skip = column_skip(block->lengths), rows = LS_READ_ONCE(block->rows), at;
	__u8 *data = bpf_map_lookup_elem(&column_data, &index);
	__u64 head, row = 0, other;

	if (!data)
		return 0;
	if (skip > 8 || key->bytes != 8 || (skip && (key->word[0] ^ block->bound[0]) >> ((8 - skip) & 7) * 8))
		return column_rows_before(key, index, inclusive);
	head = column_head(key, skip);
	for (int i = 0; i < LS_COLUMN_BLOCK_ROWS_MAX; i++)
		row += (block->head[i] - head) >> 63;
	if (row >= rows || block->head[row & (LS_COLUMN_BLOCK_ROWS_MAX - 1)] != head)
		return row;
	at = column_begin(block, row);
	if (at > column_geometry.data_bytes - 72)
		return row;
	other = bpf_cpu_to_be64(*(__u64 *)(data + at + 4));
	if (data[at] != 8 || other != key->word[0])
		return column_rows_before(key, index, inclusive);
	return (row + !!inclusive) | COLUMN_THERE;
}
