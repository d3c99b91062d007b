// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Replaces libbpf's header when the programs are compiled natively (lab/conformance/src/native.rs): the same source,
 * with maps bound to ordinary memory, for machines without BPF. Only one thread may use it at a time.
 */
#pragma once
#include <linux/types.h>
#include <stddef.h>

#define SEC(NAME)
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __uint(NAME, VALUE) int (*NAME)[VALUE]
#define __type(NAME, VALUE) typeof(VALUE) *NAME

void *ls_native_lookup(const void *map, const void *key);
int ls_native_call(void *ctx, __u32 slot);
__u64 ls_native_now_ns(void);

/* Frames are processed one at a time, as if by one CPU. */
#define bpf_get_smp_processor_id() 0
#define bpf_map_lookup_elem(MAP, KEY) ls_native_lookup(MAP, KEY)
#define bpf_ktime_get_coarse_ns() ls_native_now_ns()
/* One tick of the coarse clock is 4 ms, as on a kernel with 250 Hz. */
#define bpf_jiffies64() (ls_native_now_ns() / 4000000)

static inline long bpf_loop(__u32 count, long (*callback)(__u32 index, void *context), void *context, __u64 flags)
{
	__u32 done = 0;

	(void)flags;
	while (done < count && !callback(done++, context))
		;
	return done;
}

/* These two work on frames in one piece whose addresses in struct xdp_md are below 4 GiB. */
#define bpf_xdp_load_bytes(CTX, OFFSET, TO, BYTES) ls_native_load((CTX)->data, (CTX)->data_end, OFFSET, TO, BYTES)
#define bpf_xdp_store_bytes(CTX, OFFSET, FROM, BYTES) ls_native_store((CTX)->data, (CTX)->data_end, OFFSET, FROM, BYTES)

static inline long ls_native_store(__u32 data, __u32 data_end, __u32 offset, const void *from, __u32 bytes)
{
	if (offset + bytes > data_end - data)
		return -1;
	__builtin_memcpy((void *)(long)data + offset, from, bytes);
	return 0;
}

static inline long ls_native_load(__u32 data, __u32 data_end, __u32 offset, void *to, __u32 bytes)
{
	if (offset + bytes > data_end - data)
		return -1;
	__builtin_memcpy(to, (void *)(long)data + offset, bytes);
	return 0;
}

/* A tail call does not return, unless the slot is empty. */
#define bpf_tail_call_static(CTX, MAP, SLOT) \
	do { \
		int verdict = ls_native_call(CTX, SLOT); \
		if (verdict >= 0) \
			return verdict; \
	} while (0)
