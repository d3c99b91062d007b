/* What root.bpf.c and the services share within one packet, and the counters of drops. */
#pragma once
#include "parse.h"

/* root -> service, within one packet on one CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ls_datagram);
} ls_scratch SEC(".maps");

/* Drops by reason (enum ls_drop). */
struct ls_drops {
	__u64 count[LS_DROPS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ls_drops);
} ls_drop_counts SEC(".maps");

static __always_inline int ls_drop(enum ls_drop reason)
{
	__u32 zero = 0;
	struct ls_drops *drops = bpf_map_lookup_elem(&ls_drop_counts, &zero);

	if (drops && reason < LS_DROPS)
		drops->count[reason]++;
	return XDP_DROP;
}
