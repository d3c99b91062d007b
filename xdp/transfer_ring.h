// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Ring of records of the operations that the fast path has executed. The host reads it and writes the records to the
 * journal. The C twin of crates/transfer/src/ring.rs. Each CPU has one ring and is its only writer: XDP programs and
 * their test runs cannot interrupt one another on a CPU.
 */
#pragma once
#include "transfer_store.h"

/* Value of a record's session slot if the request was in the paper's format, which has no sessions. */
#define TRANSFER_NO_SESSION 0xffffffff

/* Returns this CPU's ring, or NULL if it has none. */
static __always_inline struct ls_transfer_ring *transfer_ring(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&transfer_rings, &cpu);
}

/* Returns 1 if this CPU's ring has room for `count` more records. */
static __always_inline int transfer_has_room(__u32 count)
{
	struct ls_transfer_ring *ring = transfer_ring();
	__u64 records = 1u << (transfer_geometry.ring_bits & 31);

	if (transfer_geometry.ringless)
		return 1;
	return ring && LS_READ_ONCE(ring->head) - LS_READ_ONCE(ring->tail) + count <= records;
}

/*
 * Appends a record to the ring; the caller has checked that the ring has room. The function clears the seal of the
 * record before it writes the other words, and sets the seal after them, so a reader never mistakes a half-written
 * record for a complete one. The caller calls this before it releases the locks of the record's accounts.
 */
static __always_inline void transfer_push(const struct ls_transfer_record *record)
{
	__u32 bits = transfer_geometry.ring_bits & 31;
	struct ls_transfer_ring *ring = transfer_ring();
	struct ls_transfer_record *place;
	__u32 index;
	__u64 head;

	if (!ring || transfer_geometry.ringless)
		return;
	head = LS_READ_ONCE(ring->head);
	index = (__u32)bpf_get_smp_processor_id() << bits | ((__u32)head & ((1u << bits) - 1));
	place = bpf_map_lookup_elem(&transfer_records, &index);
	if (!place)
		return;
	LS_WRITE_ONCE(place->seal, 0);
	ls_write_barrier();
	/*
	 * Fields of half a word are copied one by one. A load of a whole word whose halves were just written separately
	 * would wait for the store buffer.
	 */
	__builtin_memcpy(place->source, record->source, 8 * sizeof(__u64));
	place->slot = record->slot;
	place->command = record->command;
	place->contract = record->contract;
	place->place = record->place;
	__builtin_memcpy(&place->sequence, &record->sequence, 5 * sizeof(__u64));
	place->nonce = record->nonce;
	place->timeout_s = record->timeout_s;
	place->time_ns = record->time_ns;
	ls_write_barrier();
	LS_WRITE_ONCE(place->seal, head + 1);
	LS_WRITE_ONCE(ring->head, head + 1);
}
