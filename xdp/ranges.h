// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Check of a packet's source against ranges of addresses: the C twin of crates/fastpath/src/range.rs. */
#pragma once
#include "order.h"
#include "parse.h"

/* Maximum number of ranges of a service. */
#define LS_RANGES_MAX 8

/*
 * Returns 1 if the source of the packet lies in one of `count` ranges. `ranges` and `masks` have two words for each
 * range: an IPv6 address, or an IPv4 address mapped into IPv6.
 */
static __always_inline int ls_is_in_ranges(struct xdp_md *ctx, const struct ls_datagram *found, __u64 *ranges,
					   __u64 *masks, __u32 count)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	__u64 own[2];

	if (found->is_v6) {
		struct ipv6hdr *v6 = data + (found->ip & 31);

		if ((void *)(v6 + 1) > end)
			return 0;
		__builtin_memcpy(own, &v6->saddr, sizeof(own));
	} else {
		struct iphdr *v4 = data + (found->ip & 31);

		if ((void *)(v4 + 1) > end)
			return 0;
		/* An IPv4 address a.b.c.d is compared as ::ffff:a.b.c.d (mapped into IPv6). */
		own[0] = 0;
		own[1] = (__u64)v4->saddr << 32 | 0xffff0000;
	}
	for (__u32 i = 0; i < LS_RANGES_MAX; i++) {
		__u64 *range = &ranges[2 * i], *mask = &masks[2 * i];

		if (i >= count)
			return 0;
		ls_read_barrier();
		if (!(((own[0] & LS_READ_ONCE(mask[0])) ^ LS_READ_ONCE(range[0])) |
		      ((own[1] & LS_READ_ONCE(mask[1])) ^ LS_READ_ONCE(range[1]))))
			return 1;
	}
	return 0;
}
