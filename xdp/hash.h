// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* The hash that chooses the slot of a key in a table: the C twin of crates/fastpath/src/hash.rs (index_hash). */
#pragma once
#include <linux/types.h>

/*
 * Returns a hash of `words`: NH over their four 32-bit halves, the upper half of the sum folded into the lower one,
 * and one multiplication by an odd number. The high bits choose the slot.
 */
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
 * Returns 1 if `bits` is not 0, else 0, without a branch. A branch on which entry of a set matches would often be
 * mispredicted. The asm statements hide the computation and the range of the result from the compiler, which would
 * otherwise create a branch here or in the code that uses the result.
 */
static __always_inline __u64 ls_any(__u64 bits)
{
	__u64 negative = -bits;

	asm volatile("" : "+r"(negative));
	bits = (bits | negative) >> 63;
	asm volatile("" : "+r"(bits));
	return bits;
}
