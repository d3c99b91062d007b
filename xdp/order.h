// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Access to memory that the host or other CPUs write at the same time: whole words, read and written in source
 * order.
 */
#pragma once

/*
 * x86 keeps loads in order, and stores too, so these barriers only have to stop the compiler from reordering. The
 * build refuses other architectures.
 */
#if !defined(__TARGET_ARCH_x86)
#error "the fast path supports x86 only: its sequence locks need memory barriers on other architectures"
#endif
#define ls_read_barrier() asm volatile("" ::: "memory")
#define ls_write_barrier() asm volatile("" ::: "memory")
#define LS_READ_ONCE(x) (*(volatile typeof(x) *)&(x))
#define LS_WRITE_ONCE(x, value) (*(volatile typeof(x) *)&(x) = (value))
