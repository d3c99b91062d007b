// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Orders of the host to the fast path: claim, write and release accounts and sessions. The host runs this program
 * through BPF_PROG_TEST_RUN; it then takes the same locks as the fast path and cannot be preempted while it holds one.
 * The order is the "frame" of the test run, so it can come only from the host on this machine. The C twin of
 * crates/transfer/src/claims.rs; crates/transfer/src/datapath/claims.rs writes the words of an order.
 */
#pragma once
#include "transfer_cell.h"

enum transfer_order_kind {
	TRANSFER_CLAIM_CELLS,
	TRANSFER_CLAIM_SESSIONS,
	TRANSFER_PUT_CELLS, /* cells sorted by index, each once; all new contents become visible together */
	TRANSFER_PUT_SESSIONS,
	TRANSFER_GIVE_BACK_CELLS,
	TRANSFER_GIVE_BACK_SESSIONS,
};

#define TRANSFER_ORDER_ITEMS_MAX 32

struct transfer_order {
	__u64 kind;
	__u64 count;
};

/* New contents of a cell or session. An order to claim or release uses only the index. */
struct transfer_order_item {
	__u64 index;
	union {
		struct {
			__u64 flags;
			__u64 balance;
			__u64 held_out;
			__u64 held_in;
			__u64 version;
		} cell;
		struct {
			__u64 count;
			__u64 token;
			__u64 sequence;
			__u64 sum;
			__u64 codes;
			__u64 amounts[LS_TRANSFER_LINE_OPERATIONS_MAX];
		} session;
	};
};

/* State of an order that is being carried out. */
struct transfer_carrying {
	struct xdp_md *ctx;
	__u32 kind;
	__u32 done;
};

static __always_inline struct transfer_order_item *transfer_order_item(struct xdp_md *ctx, __u32 index)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct transfer_order_item *item = data + sizeof(struct transfer_order) +
					   (index & (TRANSFER_ORDER_ITEMS_MAX - 1)) * sizeof(*item);

	asm volatile("" : "+r"(item));
	return (void *)(item + 1) > end ? NULL : item;
}

/* Callback of bpf_loop. Returns 1 to stop: the item is invalid, or its lock was held during all tries. */
static long transfer_carry_out_cell(__u32 index, void *context)
{
	struct transfer_carrying *carrying = context;
	struct transfer_order_item *item = transfer_order_item(carrying->ctx, index);
	struct ls_transfer_cell *cell = item ? transfer_cell(item->index) : NULL;

	if (!cell || !transfer_lock(&cell->lock))
		return 1;
	carrying->done++;
	/* A cell that this order writes stays locked until the order has written all its cells. */
	if (carrying->kind == TRANSFER_PUT_CELLS)
		return 0;
	if (carrying->kind == TRANSFER_CLAIM_CELLS)
		LS_WRITE_ONCE(cell->flags, cell->flags | LS_TRANSFER_CELL_CLAIMED);
	else
		LS_WRITE_ONCE(cell->flags, cell->flags & ~LS_TRANSFER_CELL_CLAIMED);
	transfer_unlock(&cell->lock);
	return 0;
}

static long transfer_put_cell(__u32 index, void *context)
{
	struct transfer_carrying *carrying = context;
	struct transfer_order_item *item = transfer_order_item(carrying->ctx, index);
	struct ls_transfer_cell *cell = item ? transfer_cell(item->index) : NULL;

	if (!cell)
		return 1;
	LS_WRITE_ONCE(cell->balance, item->cell.balance);
	LS_WRITE_ONCE(cell->held_out, item->cell.held_out);
	LS_WRITE_ONCE(cell->held_in, item->cell.held_in);
	LS_WRITE_ONCE(cell->flags, item->cell.flags);
	LS_WRITE_ONCE(cell->version, item->cell.version);
	return 0;
}

static long transfer_unlock_cell(__u32 index, void *context)
{
	struct transfer_carrying *carrying = context;
	struct transfer_order_item *item = transfer_order_item(carrying->ctx, index);
	struct ls_transfer_cell *cell = item ? transfer_cell(item->index) : NULL;

	if (cell)
		transfer_unlock(&cell->lock);
	return 0;
}

static long transfer_carry_out_session(__u32 index, void *context)
{
	struct transfer_carrying *carrying = context;
	struct transfer_order_item *item = transfer_order_item(carrying->ctx, index);
	struct ls_transfer_session *session;
	__u32 slot;

	if (!item)
		return 1;
	slot = item->index;
	session = bpf_map_lookup_elem(&transfer_slots, &slot);
	if (!session || !transfer_lock(&session->lock))
		return 1;
	carrying->done++;
	if (carrying->kind == TRANSFER_PUT_SESSIONS) {
		session->count = item->session.count;
		session->sequence = item->session.sequence;
		session->sum = item->session.sum;
		session->codes = item->session.codes;
		for (__u32 i = 0; i < LS_TRANSFER_LINE_OPERATIONS_MAX; i++)
			session->amounts[i] = item->session.amounts[i];
		LS_WRITE_ONCE(session->token, item->session.token);
	} else {
		LS_WRITE_ONCE(session->claimed, carrying->kind == TRANSFER_CLAIM_SESSIONS);
	}
	transfer_unlock(&session->lock);
	return 0;
}

/*
 * Returns XDP_PASS if the whole order is carried out. Returns XDP_DROP if it is not carried out, or only in part; an
 * order to write then has written nothing.
 */
static __always_inline int transfer_carry_out(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct transfer_carrying carrying = { .ctx = ctx };
	struct transfer_order *order = data;
	__u32 count;

	if ((void *)(order + 1) > end || order->count > TRANSFER_ORDER_ITEMS_MAX)
		return XDP_DROP;
	count = order->count;
	carrying.kind = order->kind;
	switch (carrying.kind) {
	case TRANSFER_CLAIM_SESSIONS:
	case TRANSFER_PUT_SESSIONS:
	case TRANSFER_GIVE_BACK_SESSIONS:
		bpf_loop(count, transfer_carry_out_session, &carrying, 0);
		break;
	default:
		bpf_loop(count, transfer_carry_out_cell, &carrying, 0);
	}
	if (carrying.kind == TRANSFER_PUT_CELLS) {
		if (carrying.done == count)
			bpf_loop(count, transfer_put_cell, &carrying, 0);
		bpf_loop(carrying.done, transfer_unlock_cell, &carrying, 0);
	}
	return carrying.done == count ? XDP_PASS : XDP_DROP;
}
