// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Maps that root.bpf.c and the services share: the state of the current packet, and the counters of drops. */
#pragma once
#include "parse.h"

/*
 * State of one CPU: the position of the datagram, which the root program found, and the time last read from the
 * clock.
 */
struct ls_scratch {
	struct ls_datagram found;
	__u64 jiffies;
	__u64 now_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ls_scratch);
} ls_scratches SEC(".maps");

/*
 * Returns CLOCK_MONOTONIC in ns, normally at most two ticks (1 to 10 ms each) late. The coarse clock advances once
 * per tick, as jiffies do. Reading jiffies needs no call. Reading the clock needs one, and each return from a call
 * may cost a mispredicted jump where the kernel mitigates the CPU flaw SRSO; so the clock is read only when jiffies
 * have changed.
 */
static __always_inline __u64 ls_now_ns(struct ls_scratch *scratch)
{
	__u64 jiffies = bpf_jiffies64();

	if (scratch->jiffies != jiffies) {
		scratch->jiffies = jiffies;
		scratch->now_ns = bpf_ktime_get_coarse_ns();
	}
	return scratch->now_ns;
}

#define LS_SLOTS 8

/* Drops by service slot and reason (enum ls_drop). */
struct ls_drops {
	__u64 count[LS_SLOTS][LS_DROPS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ls_drops);
} ls_drop_counts SEC(".maps");

static __always_inline int ls_drop(__u32 slot, enum ls_drop reason)
{
	__u32 zero = 0;
	struct ls_drops *drops = bpf_map_lookup_elem(&ls_drop_counts, &zero);

	if (drops && slot < LS_SLOTS && reason < LS_DROPS)
		drops->count[slot][reason]++;
	return XDP_DROP;
}
