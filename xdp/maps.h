/* What root.bpf.c and the services share. The host writes `ls_endpoint`; the rest is the programs' own. */
#pragma once
#include "parse.h"

#define LS_ADDRESSES_MAX 8
#define LS_SLOTS 8

/* The interface near stands at. Ports in network byte order. */
struct ls_endpoint {
	__u8 mac[6];
	__u8 loopback;      /* 1 on lo: own and loopback sources are allowed */
	__u8 reserved;
	__be16 port[LS_SLOTS]; /* by slot; 0: none */
	__u32 v4_count;
	__u32 v6_count;
	__be32 v4[LS_ADDRESSES_MAX];
	__u64 v6[LS_ADDRESSES_MAX][2];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ls_endpoint);
} ls_endpoints SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PROG_ARRAY);
	__uint(max_entries, LS_SLOTS);
	__type(key, __u32);
	__type(value, __u32);
} ls_services SEC(".maps");

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
