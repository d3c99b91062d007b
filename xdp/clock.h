/* The time, at the cost of two loads. */
#pragma once
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* What this CPU knew of the time when it last asked. */
struct ls_clock {
	__u64 jiffies;
	__u64 now_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ls_clock);
} ls_clocks SEC(".maps");

/*
 * CLOCK_MONOTONIC, at most two ticks (1 to 10 ms each) behind. The kernel's coarse clock moves once a tick, as jiffies
 * do; jiffies are read inline, while asking the clock is a call into a kernel that may answer each of its returns with
 * a mispredicted jump (SRSO): 11 of a packet's 60 ns.
 */
static __always_inline __u64 ls_now_ns(void)
{
	__u32 zero = 0;
	struct ls_clock *clock = bpf_map_lookup_elem(&ls_clocks, &zero);
	__u64 jiffies = bpf_jiffies64();

	if (!clock)
		return bpf_ktime_get_coarse_ns();
	if (clock->jiffies != jiffies) {
		clock->jiffies = jiffies;
		clock->now_ns = bpf_ktime_get_coarse_ns();
	}
	return clock->now_ns;
}
