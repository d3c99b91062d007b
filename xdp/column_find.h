// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Comparison of keys, and search for blocks and rows. The C twin of crates/column/src/head.rs and reader.rs. The
 * larger functions are global, so that the verifier walks each of them once; they leave their results in `work`. A
 * return may cost a mispredicted jump (mitigation of SRSO), so the common cases are inline: the first word of a key
 * decides, or the first head does.
 */
#pragma once
#include "column_store.h"

/* Maximum number of blocks that are compared with a key when the first words of their keys (heads) are equal. */
#define COLUMN_TRIES 8
/* Results of column_order and the other comparisons. */
#define COLUMN_LESS 0
#define COLUMN_EQUAL 1
#define COLUMN_GREATER 2

/* Returns the eight bytes of a key from byte `skip` on as a number, shifted right by one bit. */
static __always_inline __u64 column_head(const struct column_key *key, __u32 skip)
{
	__u32 word = (skip >> 3) & (COLUMN_WORDS - 1), bits = (skip & 7) * 8;
	__u64 below = (key->word[word + 1] >> 1) >> (63 - bits);

	return ((key->word[word] << bits) | below) >> 1;
}

/*
 * Counts how many of the seven heads at AT + STRIDE to AT + 7 * STRIDE are below BOUND. It has no branches, so no
 * jump is mispredicted, the verifier walks one path, and all loads are in flight at once.
 */
#define COLUMN_BELOW(HEADS, AT, STRIDE, BOUND) \
	((((HEADS)[(AT) + 1 * (STRIDE)] - (BOUND)) >> 63) + (((HEADS)[(AT) + 2 * (STRIDE)] - (BOUND)) >> 63) + \
	 (((HEADS)[(AT) + 3 * (STRIDE)] - (BOUND)) >> 63) + (((HEADS)[(AT) + 4 * (STRIDE)] - (BOUND)) >> 63) + \
	 (((HEADS)[(AT) + 5 * (STRIDE)] - (BOUND)) >> 63) + (((HEADS)[(AT) + 6 * (STRIDE)] - (BOUND)) >> 63) + \
	 (((HEADS)[(AT) + 7 * (STRIDE)] - (BOUND)) >> 63))

/* Returns the index of the last page whose head is not above `head`. */
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

/* Compares a key with the low key (high: 0) or the high key (high: 1) of a block, which must have a high key. */
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

/* Compares a key with the high key of a block. A block that extends to the end of the table is COLUMN_LESS. */
__noinline int column_order_high(struct column_key *key, struct ls_column_block *block)
{
	__u32 bytes;

	if (!key || !block)
		return COLUMN_GREATER;
	bytes = column_high_bytes(block->lengths);
	return bytes == LS_COLUMN_NO_END ? COLUMN_LESS : column_order(key, block, 1, bytes);
}

/* Compares a key with a bound of a block, inline if the first word decides. */
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

/* Returns the page at work->page, or NULL. */
static __always_inline struct ls_column_page *column_paged(const struct column_work *work)
{
	__u32 column = work->column, at = work->page, index;
	struct ls_column_tops *tops = bpf_map_lookup_elem(&column_tops, &column);

	if (!tops || at >= LS_COLUMN_PAGES_MAX)
		return NULL;
	index = LS_READ_ONCE(tops->page[at]);
	return bpf_map_lookup_elem(&column_pages, &index);
}

/* Moves `work` to the previous block in key order. Returns 0, or the counter of the reason to forward the request. */
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

/* Moves `work` to the next block in key order. Returns 0, or the counter of the reason to forward the request. */
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

/* Like column_find, but searches backwards from work->block when several blocks have the same head. */
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

/* Finds the block whose interval contains the start key. Returns 0, or the counter of the reason to forward. */
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

/* Checks that the block is valid and leased at `now_ns`. Returns 0, or the counter of the reason to forward. */
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

/* Returns the offset of a row's record in the block, in bytes. */
static __always_inline __u32 column_begin(const struct ls_column_block *block, __u32 row)
{
	return row ? LS_READ_ONCE(block->end[(row - 1) & (LS_COLUMN_BLOCK_ROWS_MAX - 1)]) : 0;
}

/* Compares a key with the key of a row. */
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

/* Returns 1 if a key begins with the `skip` bytes that all rows of a block, and its low key, begin with. */
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
 * Returns the number of rows before a key that is not below the block's low key. A row with this very key counts if
 * `inclusive`. The result has COLUMN_THERE set if a row has this key.
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
	/* The key does not share the rows' common prefix, and it is above the low key, so it is above all rows. */
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

/*
 * Like column_rows_before, but inline if the first word of the key differs from the block's, or if at most one row
 * must be compared.
 */
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
