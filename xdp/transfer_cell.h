// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Cells of accounts and their locks: the C twin of crates/transfer/src/cell.rs. A lock is a word that is taken by
 * compare-and-exchange and released by a store. A program that needs two locks takes that of the lower index first.
 * Waiting is bounded. docs/decisions/transfer-locks.md explains why the kernel's own locks are not used.
 */
#pragma once
#include "transfer_store.h"

/*
 * Number of tries before a lock counts as busy. All tries take some microseconds; a change holds a lock for about
 * 0.1 µs.
 */
#define TRANSFER_SPINS 1024

/* A lock that is waited for, and 1 in `is_taken` once it is taken. */
struct transfer_wait {
	__u32 *lock;
	__u32 is_taken;
};

static long transfer_try_lock(__u32 try __attribute__((unused)), void *context)
{
	struct transfer_wait *wait = context;

	/*
	 * Reads the lock before the exchange, because an exchange requests the cache line for writing, which would slow
	 * down the holder of the lock.
	 */
	if (LS_READ_ONCE(*wait->lock) || __sync_val_compare_and_swap(wait->lock, 0, 1))
		return 0;
	wait->is_taken = 1;
	return 1;
}

/* Waits for the lock. Returns 1 once it is taken. The function is global, so that the verifier walks it once. */
__noinline int transfer_wait_lock(__u32 *lock)
{
	struct transfer_wait wait = { .lock = lock };

	if (!lock)
		return 0;
	bpf_loop(TRANSFER_SPINS, transfer_try_lock, &wait, 0);
	return wait.is_taken;
}

/* Returns 1 if the lock is taken, 0 if another holder kept it during all tries. The exchange is a full barrier. */
static __always_inline int transfer_lock(__u32 *lock)
{
	return !__sync_val_compare_and_swap(lock, 0, 1) || transfer_wait_lock(lock);
}

static __always_inline void transfer_unlock(__u32 *lock)
{
	ls_write_barrier();
	LS_WRITE_ONCE(*lock, 0);
}

/* Contents of one account. */
struct transfer_holding {
	__u64 balance;
	__u64 held_out;
	__u64 held_in;
	__u64 version;
	__u32 flags;
};

static __always_inline void transfer_load(struct ls_transfer_cell *cell, struct transfer_holding *holding)
{
	holding->balance = LS_READ_ONCE(cell->balance);
	holding->held_out = LS_READ_ONCE(cell->held_out);
	holding->held_in = LS_READ_ONCE(cell->held_in);
	holding->version = LS_READ_ONCE(cell->version);
	holding->flags = LS_READ_ONCE(cell->flags);
}

/*
 * Writes a holding into its cell, whose lock the caller holds. Pending amounts never change here. Returns the new
 * version.
 */
static __always_inline __u64 transfer_save(struct ls_transfer_cell *cell, const struct transfer_holding *holding)
{
	LS_WRITE_ONCE(cell->balance, holding->balance);
	LS_WRITE_ONCE(cell->flags, holding->flags);
	LS_WRITE_ONCE(cell->version, holding->version + 1);
	return holding->version + 1;
}

/* Callback context of transfer_wait_read: a cell that is read without its lock, and the contents that were read. */
struct transfer_reading {
	struct ls_transfer_cell *cell;
	struct transfer_holding holding;
	__u32 is_whole;
};

/* Reads a cell. Returns 1 unless a change was in progress. */
static __always_inline int transfer_read_once(struct ls_transfer_cell *cell, struct transfer_holding *holding)
{
	__u64 version = LS_READ_ONCE(cell->version);

	ls_read_barrier();
	if (LS_READ_ONCE(cell->lock))
		return 0;
	transfer_load(cell, holding);
	ls_read_barrier();
	return !LS_READ_ONCE(cell->lock) && LS_READ_ONCE(cell->version) == version;
}

static long transfer_try_read(__u32 try __attribute__((unused)), void *context)
{
	struct transfer_reading *reading = context;

	reading->is_whole = transfer_read_once(reading->cell, &reading->holding);
	return reading->is_whole;
}

/* Reads cell `index` into *holding. Returns 1, or 0 if the cell was being changed during all tries. */
__noinline int transfer_wait_read(struct transfer_holding *holding, __u32 index)
{
	struct transfer_reading reading = { .cell = transfer_cell(index) };

	if (!holding || !reading.cell)
		return 0;
	bpf_loop(TRANSFER_SPINS, transfer_try_read, &reading, 0);
	*holding = reading.holding;
	return reading.is_whole;
}

/* Like transfer_wait_read, but inline if the first try succeeds. */
static __always_inline int transfer_read(__u32 index, struct transfer_holding *holding)
{
	struct ls_transfer_cell *cell = transfer_cell(index);

	return cell && (transfer_read_once(cell, holding) || transfer_wait_read(holding, index));
}
