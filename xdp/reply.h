/*
 * Turns a request into its reply in place: the C twin of Datagram::make_reply in crates/wire/src/frame.rs. The payload
 * has been replaced already by one of the same length; `payload_sum` is its unfolded sum of 32-bit words.
 */
#pragma once
#include "parse.h"

#define LS_TTL 64

static __always_inline __u16 ls_fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static __always_inline void ls_swap_ports(struct udphdr *udp)
{
	__be16 port = udp->source;

	udp->source = udp->dest;
	udp->dest = port;
}

/* 0, or -1 when the frame is not what was parsed. */
static __always_inline int ls_reply(void *data, void *end, const struct ls_datagram *found, __u64 payload_sum)
{
	struct ls_eth *eth;
	struct udphdr *udp;
	__u64 sum = payload_sum;
	__u8 mac[6];
	__u16 check;

	/* The verifier must see this check on the very register that is used below it. */
	asm volatile("" : "+r"(data), "+r"(end));
	eth = data;
	if ((void *)(eth + 1) > end)
		return -1;
	__builtin_memcpy(mac, eth->destination, 6);
	__builtin_memcpy(eth->destination, eth->source, 6);
	__builtin_memcpy(eth->source, mac, 6);
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
		v6->hop_limit = LS_TTL;
	} else {
		struct iphdr *v4 = data + (found->ip & 31);
		__be32 address;
		__u16 *ttl_word;
		__u16 old, new;

		if ((void *)(v4 + 1) > end)
			return -1;
		address = v4->saddr;
		sum += v4->saddr;
		sum += v4->daddr;
		v4->saddr = v4->daddr;
		v4->daddr = address;
		ttl_word = (__u16 *)&v4->ttl;
		old = *ttl_word;
		v4->ttl = LS_TTL;
		new = bpf_htons(LS_TTL << 8 | IPPROTO_UDP);
		v4->check = ~ls_fold((__u64)(__u16)~v4->check + (__u16)~old + new);
	}
	ls_swap_ports(udp);
	sum += bpf_htons(IPPROTO_UDP);
	sum += udp->source;
	sum += udp->dest;
	sum += udp->len;
	sum += udp->len;
	check = ~ls_fold(sum);
	udp->check = check ? check : 0xffff;
	return 0;
}
