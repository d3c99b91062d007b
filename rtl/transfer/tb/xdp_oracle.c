// SPDX-License-Identifier: Apache-2.0
/*
 * The execution of the XDP program of `transfer` (xdp/transfer_execute.h), compiled natively: the second reference of
 * transfer_test.cpp. Its maps are ordinary arrays.
 */
#define LS_NATIVE
#include "transfer_execute.h"
#include <string.h>

#define RING_BITS 4

static struct ls_transfer_cell cells[LS_TRANSFER_BUCKET_CELLS << BUCKET_BITS];
static struct ls_transfer_paper papers[LS_TRANSFER_BUCKET_CELLS << BUCKET_BITS];
static struct ls_transfer_ring ring;
static struct ls_transfer_record records[1 << RING_BITS];
static struct ls_transfer_control control;

void *ls_native_lookup(const void *map, const void *key)
{
	__u32 index = *(const __u32 *)key;

	if (map == (const void *)&transfer_cells && index < 1 << BUCKET_BITS)
		return &cells[index * LS_TRANSFER_BUCKET_CELLS];
	if (map == (const void *)&transfer_papers && index < LS_TRANSFER_BUCKET_CELLS << BUCKET_BITS)
		return &papers[index];
	if (map == (const void *)&transfer_records && index < 1 << RING_BITS)
		return &records[index];
	if (map == (const void *)&transfer_rings)
		return &ring;
	return map == (const void *)&transfer_control ? &control : NULL;
}

int ls_native_call(void *ctx __attribute__((unused)), __u32 slot __attribute__((unused)))
{
	return -1;
}

__u64 ls_native_now_ns(void)
{
	return 0;
}

/* Empties the table and sets the key of the hash. */
void oracle_reset(const __u64 key[3])
{
	memset(cells, 0, sizeof(cells));
	memset(papers, 0, sizeof(papers));
	memset(&ring, 0, sizeof(ring));
	memset(&control, 0, sizeof(control));
	memcpy(control.key, key, sizeof(control.key));
	transfer_geometry.bucket_bits = BUCKET_BITS;
	transfer_geometry.ring_bits = RING_BITS;
	transfer_geometry.mode = LS_TRANSFER_EXPRESS;
}

struct ls_transfer_cell *oracle_cell(__u32 index)
{
	return &cells[index];
}

struct ls_transfer_paper *oracle_paper(__u32 index)
{
	return &papers[index];
}

__u64 *oracle_credit(void)
{
	return &control.paper_refusals;
}

/* Returns the last record in the ring, and the number of all records in *head. */
const struct ls_transfer_record *oracle_record(__u64 *head)
{
	*head = ring.head;
	return &records[(ring.head - 1) & ((1 << RING_BITS) - 1)];
}

/*
 * Executes an operation. Returns enum transfer_ran, and sets code and amount of the reply. `number`: transaction id of
 * the paper's format, or 0. `in_session`: refusals have records.
 */
int oracle_run(__u32 command, const __u64 source[2], const __u64 destination[2], __u64 amount, int is_paper,
	       __u32 number, int in_session, __u32 *code, __u64 *reply)
{
	struct transfer_task task;
	enum transfer_ran ran;

	memset(&task, 0, sizeof(task));
	memcpy(task.record.source, source, sizeof(task.record.source));
	memcpy(task.record.destination, destination, sizeof(task.record.destination));
	task.record.amount = amount;
	task.record.command = command;
	task.record.slot = in_session ? 0 : TRANSFER_NO_SESSION;
	task.record.sequence = number;
	task.limit = is_paper ? 0xffffffff : ~0ULL;
	task.last.last_id = number;
	task.last.destination = destination[1] >> 32;
	task.last.amount = amount;
	task.last.command = command;
	ran = transfer_run(&control, &task);
	*code = task.code;
	*reply = task.amount;
	return ran;
}

/* Reads an account. Returns 1 if it exists. */
int oracle_refer(const __u64 id[2], __u64 *balance, __u64 *held, __u64 *version, __u32 *is_frozen)
{
	struct transfer_holding holding = {};
	__u32 index = transfer_find(&control, id);

	if (index == TRANSFER_NOWHERE || !transfer_read(index, &holding))
		return 0;
	*balance = holding.balance;
	*held = holding.held_out;
	*version = holding.version;
	*is_frozen = !!(holding.flags & LS_TRANSFER_CELL_FROZEN);
	return 1;
}
