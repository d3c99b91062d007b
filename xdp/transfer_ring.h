// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Ring of operations that the fast path has executed, read by the host for the journal: the C twin of
 * crates/transfer/src/ring.rs. Each CPU has one ring and is its only writer: XDP programs and their test runs cannot
 * interrupt one another on a CPU.
 */
#pragma once
#include "transfer_store.h"

/* Session slot of a record in the paper's format. */
#define TRANSFER_NO_SESSION 0xffffffff

/* Returns this CPU's ring, or NULL if it has none. */
static __always_inline struct ls_transfer_ring *transfer_ring(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return bpf_map_lookup_elem(&transfer_rings, &cpu);
}

/* Returns 1 if `count` records have room in this CPU's ring. */
static __always_inline int transfer_has_room(__u32 count)
{
	struct ls_transfer_ring *ring = transfer_ring();
	__u64 records = 1u << (transfer_geometry.ring_bits & 31);

	if (transfer_geometry.ringless)
		return 1;
	return ring && LS_READ_ONCE(ring->head) - LS_READ_ONCE(ring->tail) + count <= records;
}

/*
 * Appends a record; the caller has checked that there is room. The seal is cleared before and set after the other
 * words, so a reader never takes new words for a sealed record. The record is complete before the locks of its
 * accounts are released.
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
	/* Copies half words one by one: a load of two that were just written waits for the store buffer. */
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
