// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/* Replaces libbpf's header when the programs are compiled natively, on a little-endian machine. */
#pragma once
#define bpf_htons(X) __builtin_bswap16(X)
#define bpf_ntohs(X) __builtin_bswap16(X)
#define bpf_htonl(X) __builtin_bswap32(X)
#define bpf_ntohl(X) __builtin_bswap32(X)
#define bpf_cpu_to_be64(X) __builtin_bswap64(X)
#define bpf_be64_to_cpu(X) __builtin_bswap64(X)
