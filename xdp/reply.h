// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Turns a request into its reply in place: the C twin of Datagram::make_reply in crates/wire/src/frame.rs. The caller
 * has already replaced the payload by one of the same length; `payload_sum` is its unfolded sum of 32-bit words.
 */
#pragma once
#include "parse.h"

/*
 * Folds a sum of fewer than 2^15 words of 32 bits to 16 bits. With fewer than 2^15 words, three steps leave no
 * carry.
 */
static __always_inline __u16 ls_fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/*
 * Returns 1 if the UDP checksum is right, or is the pseudo-header sum that a local sender leaves for its network
 * interface to complete. A checksum of 0, which means "no checksum", is not accepted. `payload_sum` is the unfolded
 * sum of the payload's 32-bit words; an odd last byte counts as the low byte of a word. The C twin of
 * Datagram::is_intact.
 */
static __always_inline int ls_is_intact(void *data, void *end, const struct ls_datagram *found, __u64 payload_sum)
{
	struct udphdr *udp;
	__u32 *ports, *address;
	__u64 pseudo, whole;

	asm volatile("" : "+r"(data), "+r"(end));
	udp = data + (found->udp & 63);
	if ((void *)(udp + 1) > end)
		return 0;
	pseudo = bpf_htons(IPPROTO_UDP) + (__u32)udp->len;
	if (found->is_v6) {
		struct ipv6hdr *v6 = data + (found->ip & 31);

		if ((void *)(v6 + 1) > end)
			return 0;
		address = (void *)&v6->saddr;
		for (int i = 0; i < 8; i++)
			pseudo += address[i];
	} else {
		struct iphdr *v4 = data + (found->ip & 31);

		if ((void *)(v4 + 1) > end)
			return 0;
		pseudo += (__u64)v4->saddr + v4->daddr;
	}
	ports = (void *)udp;
	whole = pseudo + payload_sum + ports[0] + ports[1];
	return udp->check && (ls_fold(whole) == 0xffff || udp->check == ls_fold(pseudo));
}

/* Swaps the Ethernet addresses of the frame. */
static __always_inline void ls_swap_macs(void *eth)
{
	__u32 *high = eth, destination_high = high[0], source_high = *(__u32 *)(eth + 6);
	__u16 *low = eth + 4, destination_low = low[0], source_low = low[3];

	high[0] = source_high;
	low[0] = source_low;
	*(__u32 *)(eth + 6) = destination_high;
	low[3] = destination_low;
}

/* Swaps the two 32-bit halves of a word. */
static __always_inline __u64 ls_swap_halves(__u64 both)
{
	return both << 32 | both >> 32;
}

/* Sets the reply's time to live and updates the header checksum (RFC 1624). */
static __always_inline void ls_set_ttl(struct iphdr *v4, __u32 ttl)
{
	__u16 *ttl_word = (__u16 *)&v4->ttl, old = *ttl_word, new = bpf_htons(ttl << 8 | IPPROTO_UDP);

	if (old == new)
		return;
	*ttl_word = new;
	v4->check = ~ls_fold((__u64)(__u16)~v4->check + (__u16)~old + new);
}

/* Turns the frame into the reply. Returns 0, or -1 if the offsets in *found do not fit the frame. */
static __always_inline int ls_reply(void *data, void *end, const struct ls_datagram *found, __u64 payload_sum)
{
	struct ls_eth *eth;
	struct udphdr *udp;
	__u64 sum = payload_sum;
	struct iphdr *v4 = NULL;
	__u32 *ports;
	__u16 check;

	/* The barrier makes the compiler check and use one register, so that the verifier sees the bound. */
	asm volatile("" : "+r"(data), "+r"(end));
	eth = data;
	if ((void *)(eth + 1) > end)
		return -1;
	ls_swap_macs(eth);
	udp = data + (found->udp & 63);
	if ((void *)(udp + 1) > end)
		return -1;
	if (found->is_v6) {
		struct ipv6hdr *v6 = data + (found->ip & 31);
		__u32 *source = (void *)&v6->saddr, *destination = (void *)&v6->daddr;

		if ((void *)(v6 + 1) > end)
			return -1;
		for (int i = 0; i < 4; i++) {
			__u32 word = source[i];

			sum += word;
			sum += destination[i];
			source[i] = destination[i];
			destination[i] = word;
		}
		v6->hop_limit = ls_reply_ttl(udp + 1, end, found->payload_bytes, v6->hop_limit);
	} else {
		__u64 *addresses, both;

		v4 = data + (found->ip & 31);
		if ((void *)(v4 + 1) > end)
			return -1;
		addresses = (void *)&v4->saddr;
		both = *addresses;
		sum += (__u32)both;
		sum += both >> 32;
		*addresses = ls_swap_halves(both);
	}
	ports = (void *)&udp->source;
	sum += *ports;
	*ports = *ports << 16 | *ports >> 16;
	sum += bpf_htons(IPPROTO_UDP);
	sum += (__u32)udp->len << 1;
	check = ~ls_fold(sum);
	udp->check = check ? check : 0xffff;
	if (v4)
		ls_set_ttl(v4, ls_reply_ttl(udp + 1, end, found->payload_bytes, v4->ttl));
	return 0;
}
