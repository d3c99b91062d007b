// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * Finds the UDP datagram in a frame: the C twin of crates/wire/src/frame.rs (parse). The parser understands IPv4
 * without options, IPv6 without extension headers, unfragmented packets, and at most one VLAN tag.
 */
#pragma once
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "generated.h"

/* An Ethernet header, aligned to 2 bytes so that the compiler may load halfwords. */
struct ls_eth {
	__u8 destination[6];
	__u8 source[6];
	__be16 type;
} __attribute__((packed, aligned(2)));

/* Position of the datagram that the root program found. Offsets are in bytes from the start of the frame. */
struct ls_datagram {
	__u32 ip;            /* 14, or 18 after a VLAN tag */
	__u32 udp;
	__u32 payload_bytes;
	__u32 is_v6;
};

#define LS_UDP_OFFSET_MAX (14 + 4 + 40)
#define LS_VLAN_BYTES 4
#define LS_FRAGMENT 0x3fff
#define LS_TTL 64

/*
 * Fills *found and returns 0, or returns -1 if the frame is not such a datagram and the host must get it. Checks
 * that the payload lies within the frame.
 */
static __always_inline int ls_parse(void *data, void *end, struct ls_datagram *found)
{
	struct ls_eth *eth = data;
	__be16 type;
	__u32 ip = sizeof(*eth), udp_bytes, ip_payload_bytes;
	struct udphdr *udp;

	if ((void *)(eth + 1) + LS_VLAN_BYTES > end)
		return -1;
	type = eth->type;
	if (type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD)) {
		type = *(__be16 *)((void *)(eth + 1) + 2);
		ip += LS_VLAN_BYTES;
	}
	if (type == bpf_htons(ETH_P_IP)) {
		struct iphdr *v4 = data + ip;

		if ((void *)(v4 + 1) + sizeof(*udp) > end)
			return -1;
		if (*(__u8 *)v4 != 0x45 || (v4->frag_off & bpf_htons(LS_FRAGMENT)) || v4->protocol != IPPROTO_UDP)
			return -1;
		ip_payload_bytes = bpf_ntohs(v4->tot_len) - sizeof(*v4);
		udp = (void *)(v4 + 1);
		found->is_v6 = 0;
		found->udp = ip + sizeof(*v4);
	} else if (type == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *v6 = data + ip;

		if ((void *)(v6 + 1) + sizeof(*udp) > end)
			return -1;
		if (*(__u8 *)v6 >> 4 != 6 || v6->nexthdr != IPPROTO_UDP)
			return -1;
		ip_payload_bytes = bpf_ntohs(v6->payload_len);
		udp = (void *)(v6 + 1);
		found->is_v6 = 1;
		found->udp = ip + sizeof(*v6);
	} else {
		return -1;
	}
	udp_bytes = bpf_ntohs(udp->len);
	/* An IPv4 total length below 20 wraps to a number that no UDP length equals. */
	if (udp_bytes != ip_payload_bytes || udp_bytes < sizeof(*udp))
		return -1;
	if (udp_bytes > (__u64)(end - (void *)udp))
		return -1;
	found->ip = ip;
	found->payload_bytes = udp_bytes - sizeof(*udp);
	return 0;
}

/*
 * Returns the time to live of the reply in `payload` to a request that arrived with `ttl`; 0 means that no reply may
 * be sent. A reply in a paper's format may look like a request, so it gets one hop less than its request. If an
 * attacker tricks two servers into answering each other, the exchange then ends. The C twin of reply_ttl in
 * crates/wire/src/frame.rs.
 */
static __always_inline __u32 ls_reply_ttl(const void *payload, const void *end, __u32 payload_bytes, __u32 ttl)
{
	if (payload_bytes >= sizeof(struct ls_native_header) && payload + 2 <= end &&
	    *(const __be16 *)payload == bpf_htons(LS_NATIVE_MAGIC))
		return LS_TTL;
	if (!ttl)
		return 0;
	return ttl > LS_TTL ? LS_TTL : ttl - 1;
}
