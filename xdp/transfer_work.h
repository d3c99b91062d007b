// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Scratch memory for one packet (one per CPU), and the check which senders may issue units of the asset. */
#pragma once
#include "ranges.h"
#include "reply.h"
#include "transfer_execute.h"

/* Fields of a `balance_item` in a reply, without the account. */
struct transfer_balance {
	__be64 balance;
	__be64 held;
	__be64 version;
	__u64 code; /* code, frozen, reserved: one word */
};

/* Outcomes of a packet that the fast path answers, which select the counter: a result code, or one of these values. */
#define TRANSFER_SAYS_REPEATED 0x100
#define TRANSFER_SAYS_BUSY 0x101
#define TRANSFER_SAYS_RING_FULL 0x102

struct transfer_work {
	struct transfer_task task;
	__u64 now_ns;
	__u64 sum;            /* sum of the 32-bit words of the reply's payload */
	__u64 operations_sum; /* checksum of the packet's operations (native.rs, sum) */
	__u32 count;          /* number of operations that the fast path executes; 0: the host executes the packet */
	__u32 says;           /* outcome of the packet: a code, or one of TRANSFER_SAYS_* */
	struct transfer_balance balance[LS_TRANSFER_REFER_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct transfer_work);
} transfer_works SEC(".maps");

static __always_inline struct transfer_work *transfer_working(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&transfer_works, &zero);
}

/*
 * Records that the payload has become its reply, whose 32-bit words sum to `sum`. The values go through a map and
 * not through registers, so that the verifier forgets on which of many paths they were computed, and walks the
 * following code once.
 */
static __always_inline int transfer_say(struct transfer_work *work, __u32 says, __u64 sum)
{
	work->says = says;
	work->sum = sum;
	return 0;
}

/* Returns the position of the datagram in the frame, as root.bpf.c found it, or NULL. */
static __always_inline struct ls_datagram *transfer_found(void)
{
	__u32 zero = 0;
	struct ls_scratch *scratch = bpf_map_lookup_elem(&ls_scratches, &zero);

	return scratch ? &scratch->found : NULL;
}

/* Returns the sum after a 32-bit word of the payload changed from `old` to `new`. */
static __always_inline __u64 transfer_resum(__u64 sum, __u32 old, __u32 new)
{
	return sum + new + (__u32)~old;
}

static __always_inline __u64 transfer_resum_64(__u64 sum, __u64 old, __u64 new)
{
	return transfer_resum(transfer_resum(sum, old, new), old >> 32, new >> 32);
}

/* Returns 1 if the sender may CREATE, ISSUE, FREEZE and UNFREEZE. */
__noinline int transfer_may_issue(struct xdp_md *ctx)
{
	struct ls_transfer_control *control = transfer_controlled();
	struct ls_datagram *found = transfer_found();

	return control && found &&
	       ls_is_in_ranges(ctx, found, control->issuer, control->issuer_mask, LS_READ_ONCE(control->issuers));
}
