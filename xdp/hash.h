// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Where a key's place in a table is: the C twin of crates/fastpath/src/hash.rs (index_hash). */
#pragma once
#include <linux/types.h>

/* NH over the four 32-bit words of `words`, halves mixed, one odd multiplication: the high bits choose the place. */
static __always_inline __u64 ls_hash(const __u64 words[2], const __u64 key[3])
{
	__u64 sum = 0;

	for (int i = 0; i < 2; i++) {
		__u32 low = (__u32)words[i] + (__u32)key[i];
		__u32 high = (__u32)(words[i] >> 32) + (__u32)(key[i] >> 32);

		sum += (__u64)low * high;
	}
	return (sum ^ (sum >> 32)) * key[2];
}

/*
 * 1 when `bits` is not 0, else 0, without a branch: which way of a set matches is not to be predicted. The compiler
 * must know neither what is computed nor that the result is one of these, else it makes a branch of it or of what
 * follows.
 */
static __always_inline __u64 ls_any(__u64 bits)
{
	__u64 negative = -bits;

	asm volatile("" : "+r"(negative));
	bits = (bits | negative) >> 63;
	asm volatile("" : "+r"(bits));
	return bits;
}
