// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Fast-path table of `column`, and the scratch memory for one packet. The C twin of crates/column/src/store.rs. The
 * host writes the table (crates/column/src/writer.rs); spec/column.toml defines the layouts.
 */
#pragma once
#include "hash.h"
#include "maps.h"
#include "order.h"

/* The loader sets the number of entries before it loads the program. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ls_column_control);
} column_control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ls_column_servers);
} column_servers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 16);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ls_column_name);
} column_names SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ls_column_table);
} column_tables SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ls_column_tops);
} column_tops SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ls_column_page);
} column_pages SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct ls_column_block);
} column_blocks SEC(".maps");

/* Each value holds the records of one block. The loader sets the number of entries and the size of a value. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, 64);
} column_data SEC(".maps");

struct ls_column_counts {
	__u64 count[LS_COLUMN_COUNTERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ls_column_counts);
} column_counts SEC(".maps");

/*
 * Sizes of the table. The loader sets them before it loads the program, so that the verifier knows them as
 * constants.
 */
struct column_geometry {
	__u32 data_bytes; /* bytes of a block's records and of the free space after them */
	__u32 name_mask;
};

#ifndef LS_NATIVE
const
#endif
	volatile struct column_geometry column_geometry SEC(".rodata.column") = {
	.data_bytes = 64,
	.name_mask = 15,
};

#define COLUMN_WORDS (LS_COLUMN_KEY_BYTES_MAX / 8)
/* Payload of the largest reply (PAYLOAD_BYTES_MAX in crates/fastpath/src/contract.rs). */
#define COLUMN_PAYLOAD_MAX 1452
/* Number of words copied at once. A copy may run past its end by up to this number of words. */
#define COLUMN_STEP 8
#define COLUMN_DRAFT_WORDS ((COLUMN_PAYLOAD_MAX + 7) / 8 + 2 * COLUMN_STEP)

/* A key in the form that comparisons need: words with the most significant byte first, followed by a zero word. */
struct column_key {
	__u64 word[COLUMN_WORDS + 1];
	__u32 bytes;
	__u32 reserved;
};

/* State of one packet; each CPU has its own. */
struct column_work {
	struct column_key start;
	struct column_key stop;
	__u64 name[4];
	__u64 now_ns;
	__u64 sum;        /* sum of the reply's 32-bit words so far */
	__u64 version_ms; /* newest version so far, ms */
	__u32 column;
	__u32 page;  /* index of the page in the column's order */
	__u32 place; /* index of the block in its page */
	__u32 block; /* number of the block */
	__u32 flags; /* flags of a native request */
	__u32 limit; /* maximum number of rows */
	__u32 has_stop;
	__u32 is_paper;
	__u32 payload_bytes;
	__u32 used; /* bytes of the reply so far */
	__u32 rows; /* rows of the reply so far */
	__u32 more;
	__u64 draft[COLUMN_DRAFT_WORDS]; /* the reply */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct column_work);
} column_works SEC(".maps");

static __always_inline struct ls_column_control *column_controlled(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&column_control, &zero);
}

/* Returns the table of the column whose name is work->name, or NULL. */
static __always_inline struct ls_column_table *column_named(const struct ls_column_control *control,
							    struct column_work *work)
{
	/* Odd constants with well-spread bits; FOLD in crates/column/src/store.rs has the same values. */
	__u64 folded[2] = {
		work->name[0] ^ work->name[1] * 0x9e3779b97f4a7c15,
		work->name[2] ^ work->name[3] * 0xc2b2ae3d27d4eb4f,
	};
	__u32 at = (ls_hash(folded, control->key) >> 32) & column_geometry.name_mask;
	struct ls_column_name *name = bpf_map_lookup_elem(&column_names, &at);
	__u32 column;

	if (!name)
		return NULL;
	column = LS_READ_ONCE(name->column) - 1;
	if ((name->name[0] ^ work->name[0]) | (name->name[1] ^ work->name[1]) | (name->name[2] ^ work->name[2]) |
	    (name->name[3] ^ work->name[3]))
		return NULL;
	work->column = column;
	return bpf_map_lookup_elem(&column_tables, &column);
}
